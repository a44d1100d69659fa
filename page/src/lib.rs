//! A page that shows what a kernel under a schedule does: one HTML file without references to others.
//!
//! ```text
//! program (proved) ─┐
//! report of a run  ─┼─► model::Page ─► JSON ─┐
//! PTX, trace       ─┘                        ├─► one HTML file
//!                          assets/*.css, *.js ┘
//! ```
//! [`page`] takes a schedule and the report of a run of it on a simulator that records ([`SimOptions::trace`]). [`refused`] takes a kernel
//! and a schedule that the engine refuses, and shows the nest up to the mistake. Each panel has a file here that collects its data
//! ([`mod@model`]), and one in `assets` that draws them. What neither the compiler nor the run says is left out.
//!
//! [`SimOptions::trace`]: tile_runtime::SimOptions::trace

#![forbid(unsafe_code)]

mod html;
pub mod model;
mod panels;
mod places;
mod refusal;

pub use refusal::{Extended, Outcome, extended, refused};

use model::Page;
use tile_dsl::{engine, lower, program::Program};
use tile_runtime::{AnySchedule, LaunchReport};

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The report is of another schedule.
    ///
    /// What to do: call `page` with the schedule that the report names.
    #[error("the report is of `{report}`, not of `{schedule}`")]
    Schedule {
        /// The schedule asked for.
        schedule: String,
        /// The one that ran.
        report: String,
    },
    /// The run recorded nothing.
    ///
    /// What to do: run it on a simulator that records (`SimOptions::trace`), at a size with something to compute.
    #[error(
        "the run of `{0}` recorded nothing to draw: run it, with something to compute, on a simulator with `SimOptions::trace`"
    )]
    Untraced(String),
    /// The schedule does not admit the element type.
    ///
    /// What to do: run it with a type that the schedule admits.
    #[error("`{0}` has no program for the element type of the run")]
    NotAdmitted(String),
    /// The embedded program cannot be read.
    ///
    /// What to do: rebuild the crate that defines the schedule.
    #[error("{0}")]
    Program(#[from] tile_dsl::program::DecodeError),
    /// The kernel is none that schedules can be proved for.
    ///
    /// What to do: mend the kernel as the message says.
    #[error("{}", .0.message)]
    Kernel(Box<tile_dsl::diagnostic::Diagnostic>),
    /// The text is no list of directives.
    ///
    /// What to do: write directives as in `schedule!`, each with a semicolon.
    #[error("{0}")]
    Text(#[from] tile_dsl::schedule::ParseError),
    /// The schedule is legal.
    ///
    /// What to do: run it, and draw the page of its report.
    #[error("the schedule is legal: run it to see its page")]
    Legal,
    /// The program cannot be lowered.
    ///
    /// What to do: report it: a schedule that was proved can be lowered.
    #[error("{0}")]
    Lower(#[from] lower::LowerError),
    /// The data cannot be serialised.
    ///
    /// What to do: report it: none of a page made here.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
}

/// The page of a schedule and a run of it, as HTML.
///
/// # Errors
/// [`PageError`]: the report is of another schedule, or the simulator did not record.
pub fn page(schedule: &dyn AnySchedule, report: &LaunchReport) -> Result<String, PageError> {
    html::html(&model(schedule, report)?)
}

/// The data of [`page`].
///
/// # Errors
/// As [`page`].
pub fn model(schedule: &dyn AnySchedule, report: &LaunchReport) -> Result<Page, PageError> {
    if schedule.name() != &*report.schedule {
        return Err(PageError::Schedule {
            schedule: schedule.name().into(),
            report: report.schedule.to_string(),
        });
    }
    let bytes = schedule.program(report.dtype);
    let program = Program::from_bytes(bytes.ok_or_else(|| PageError::NotAdmitted(schedule.name().into()))?)?;
    model_of(&program, schedule.doc(), report)
}

/// The data of a page of a program at hand, with the documentation of its schedule.
///
/// # Errors
/// As [`page`].
pub fn model_of(program: &Program, doc: &str, report: &LaunchReport) -> Result<Page, PageError> {
    let untraced = || PageError::Untraced(program.schedule.name.clone());
    let (counters, trace) = report.counters.as_ref().zip(report.trace.as_ref()).ok_or_else(untraced)?;
    let variant = report.variant.ok_or_else(untraced)?;
    let derivation = engine::derivation(program.nest.source(), &program.schedule);
    let derivation = derivation.map_err(|d| PageError::Kernel(Box::new(d)))?;
    let kernel = lower::lower(program, variant)?;
    let places = places::Places::of(&kernel, &report.ptx, trace);
    let memory = panels::memory::collect(&places, counters, trace, &report.ptx);
    let budgets = panels::budgets::collect(program, &kernel, report, counters);
    let plan = tile_dsl::passes::plan(program)?;
    Ok(Page {
        schema: model::SCHEMA,
        head: panels::text::head(program, doc, Some(report)),
        findings: panels::findings::collect(report, &memory, &budgets),
        text: panels::text::collect(program.nest.source(), &program.schedule, &derivation),
        steps: panels::derivation::collect(&derivation),
        refusal: None,
        values: panels::holds::values(&program.nest),
        copies: panels::holds::copies(&program.nest, &kernel),
        units: panels::holds::units(&program.nest),
        memory: Some(memory),
        events: Some(panels::events::collect(&kernel, &plan, trace, &places)),
        budgets: Some(budgets),
        names: panels::names::collect(&derivation),
    })
}

/// A page as HTML.
///
/// # Errors
/// The data cannot be serialised: none of a page made here.
pub fn html(page: &Page) -> Result<String, PageError> {
    html::html(page)
}

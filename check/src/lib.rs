//! Lints: what will slow a kernel under a schedule down, predicted without a GPU and without a run.
//!
//! ```text
//! program (proved), sizes ─► Subject: kernel IR, its requests of memory, the machine ─► RULES, a file each ─► Lint
//! ```
//! [`check`] takes a schedule and sizes. What a lint predicts of memory is [`traffic`]: requests, sectors and wavefronts as
//! the simulator counts them when it runs the same launch (`tests/every/lints.rs` compares them for every example and schedule). Where an edit of the
//! schedule may mend what a lint found, it is proved and predicted again; the help is the best of those that are legal.

#![forbid(unsafe_code)]

mod banks;
mod coalescing;
mod machine;
mod occupancy;
mod pipeline;
pub mod proof;
mod subject;
mod tails;
mod text;
pub mod traffic;
mod trial;
mod waves;

pub use machine::Machine;

use std::{collections::BTreeMap, fmt};
use subject::Subject;
use tile_dsl::{
    dtype::DType,
    engine::{Certificate, certificate},
    lower::LowerError,
    program::{DecodeError, Program, Variant},
};
use tile_runtime::AnySchedule;
use traffic::{Access, LeftOut, TrafficError};

/// A rule: what it looks for.
pub struct Rule {
    /// Its name: `bank-conflicts`.
    pub name: &'static str,
    /// What it predicts, and from what.
    pub about: &'static str,
    look: fn(&Subject<'_>) -> Vec<Lint>,
}

/// Every rule.
pub const RULES: [Rule; 6] =
    [coalescing::RULE, banks::RULE, tails::RULE, occupancy::RULE, pipeline::RULE, waves::RULE];

/// What a rule found.
#[derive(Clone, Debug, PartialEq)]
pub struct Lint {
    /// [`Rule::name`].
    pub rule: &'static str,
    /// What it is about: a tensor, a buffer, an axis or a loop; `the CTA` and `the grid` are the whole kernel.
    pub place: String,
    /// What is predicted, and what would do.
    pub figures: Figures,
    /// What is wrong, in words.
    pub message: String,
    /// What else there is to know: the statements, or how certain it is.
    pub notes: Vec<String>,
    /// The edit that mends it best of those that were tried.
    pub help: Option<Help>,
}

/// Numbers of a lint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// What is predicted.
    pub predicted: f64,
    /// What would do, or what there is room for.
    pub bound: f64,
    /// Of what.
    pub unit: &'static str,
}

/// An edit of the schedule that was proved legal and predicted.
#[derive(Clone, Debug, PartialEq)]
pub struct Help {
    /// The directives, as a schedule has them: `swizzle(a: 128)`.
    pub directives: String,
    /// What [`Figures::predicted`] is then.
    pub predicted: f64,
}

/// What is predicted of a launch.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Kernel.
    pub kernel: String,
    /// Schedule.
    pub schedule: String,
    /// Element type of the generic parameter.
    pub dtype: Option<DType>,
    /// The variant that a launch of these sizes runs.
    pub variant: Variant,
    /// Named dims.
    pub dims: BTreeMap<String, i64>,
    /// The machine that it is for.
    pub machine: Machine,
    /// CTAs of the launch.
    pub ctas: u64,
    /// CTAs whose requests were looked at: all of a small launch, else the first.
    pub looked_at: u64,
    /// What they ask of memory.
    pub accesses: Vec<Access>,
    /// What is not predicted, and why.
    pub left_out: Vec<LeftOut>,
    /// What the rules found.
    pub lints: Vec<Lint>,
}

/// Why nothing can be predicted.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The schedule does not admit the element type.
    ///
    /// What to do: pass a type that the schedule's header lists; `None` if it lists none.
    #[error("`{schedule}` has no program for {}", .dtype.map_or("a kernel without an element type", DType::name))]
    NotAdmitted {
        /// The schedule.
        schedule: String,
        /// The element type.
        dtype: Option<DType>,
    },
    /// A launch of these sizes breaks what the schedule asserts.
    ///
    /// What to do: check sizes that the directive admits, or another schedule.
    #[error("`{schedule}` asserts {directive}, which does not hold for these sizes")]
    Promise {
        /// The schedule.
        schedule: String,
        /// The directive.
        directive: String,
    },
    /// A dim has no size.
    ///
    /// What to do: pass a size for each dim of the kernel.
    #[error("the sizes lack one of {}", .0.join(", "))]
    Sizes(Vec<String>),
    /// No variant admits the sizes.
    ///
    /// What to do: check smaller sizes: indices have 32 bits.
    #[error("the sizes are too large for any variant")]
    Variant,
    /// The embedded program cannot be read.
    ///
    /// What to do: rebuild the crate that defines the schedule.
    #[error("{0}")]
    Program(#[from] DecodeError),
    /// The program's derivation cannot be made again.
    ///
    /// What to do: report it: a schedule that was proved can be derived.
    #[error("the schedule is not derived again: {0}")]
    Derivation(String),
    /// The program cannot be lowered.
    ///
    /// What to do: report it: a schedule that was proved can be lowered.
    #[error("{0}")]
    Lower(#[from] LowerError),
    /// The requests of memory cannot be told.
    ///
    /// What to do: the message is that of a `TrafficError`, which has a card of its own.
    #[error("{0}")]
    Traffic(#[from] TrafficError),
}

/// Checks a schedule for a launch of some sizes.
///
/// # Errors
/// [`CheckError`].
pub fn check(
    schedule: &dyn AnySchedule,
    dtype: Option<DType>,
    sizes: &[(&str, usize)],
) -> Result<Checked, CheckError> {
    let program = decode(schedule, dtype)?;
    let dims = sizes.iter().map(|(name, n)| (name.to_string(), *n as i64)).collect();
    check_program(&program, &dims, Machine::H200)
}

/// How a schedule was derived from its kernel, rewrite by rewrite. [`proof::replay`] checks it.
///
/// # Errors
/// [`CheckError::NotAdmitted`], [`CheckError::Program`], [`CheckError::Derivation`].
pub fn explain(schedule: &dyn AnySchedule, dtype: Option<DType>) -> Result<Certificate, CheckError> {
    certificate(&decode(schedule, dtype)?).map_err(|d| CheckError::Derivation(d.message))
}

fn decode(schedule: &dyn AnySchedule, dtype: Option<DType>) -> Result<Program, CheckError> {
    let bytes = schedule
        .program(dtype)
        .ok_or_else(|| CheckError::NotAdmitted { schedule: schedule.name().into(), dtype })?;
    Ok(Program::from_bytes(bytes)?)
}

/// [`check`] of a program at hand, for a machine.
///
/// # Errors
/// As [`check`].
pub fn check_program(
    program: &Program,
    dims: &BTreeMap<String, i64>,
    machine: Machine,
) -> Result<Checked, CheckError> {
    let subject = Subject::of(program, dims, machine)?;
    let lints = RULES.iter().flat_map(|rule| (rule.look)(&subject)).collect();
    let Subject { variant, ctas, traffic, .. } = subject;
    Ok(Checked {
        kernel: program.nest.kernel.name.clone(),
        schedule: program.schedule.name.clone(),
        dtype: program.dtype,
        variant,
        dims: dims.clone(),
        machine,
        ctas,
        looked_at: traffic.ctas,
        accesses: traffic.accesses,
        left_out: traffic.left_out,
        lints,
    })
}

impl fmt::Display for Lint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "warning: {} [{}]", self.message, self.rule)?;
        self.notes.iter().try_for_each(|note| write!(f, "\n  = note: {note}"))?;
        match &self.help {
            Some(help) => write!(
                f,
                "\n  = help: `{}`: {} instead of {} {}",
                help.directives,
                text::number(help.predicted),
                text::number(self.figures.predicted),
                self.figures.unit
            ),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.schedule)?;
        if let Some(dtype) = self.dtype {
            write!(f, " · {dtype}")?;
        }
        let dims: Vec<String> = self.dims.iter().map(|(dim, n)| format!("{dim} = {n}")).collect();
        write!(f, " · {} · {} variant · {} CTAs", dims.join(", "), self.variant, self.ctas)?;
        if self.looked_at < self.ctas {
            write!(f, ", requests of the first")?;
        }
        write!(f, " · for an {}", self.machine.name)?;
        if self.lints.is_empty() {
            write!(f, "\nno lint")?;
        }
        self.lints.iter().try_for_each(|lint| write!(f, "\n{lint}"))?;
        self.left_out.iter().try_for_each(|l| write!(f, "\nnot predicted: `{}`: {}", l.buffer, l.reason))
    }
}

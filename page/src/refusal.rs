//! Schedules made at run time: a schedule and more directives, as text. Where the engine refuses them, the page shows how far they came.

use crate::{
    PageError, html,
    model::{self, Mistake, Page, Refusal},
    panels,
};
use tile_dsl::{
    diagnostic::Diagnostic,
    dtype::DType,
    engine::{self, Derivation, MOST_TRIALS, Prover},
    program::Program,
    schedule::{Directive, Item, Schedule, extend_without_mistakes, parse},
    span::SpanId,
    tile,
};
use tile_runtime::AnySchedule;

/// Where the spans of directives that are read from text begin: those of the macros are far less.
const SPANS: u32 = 1 << 30;

/// A schedule with more directives, proved at run time.
#[derive(Debug)]
pub struct Extended {
    kernel: &'static str,
    name: &'static str,
    doc: &'static str,
    dtype: Option<DType>,
    dtypes: &'static [DType],
    program: &'static [u8],
}

impl AnySchedule for Extended {
    fn kernel(&self) -> &'static str {
        self.kernel
    }
    fn name(&self) -> &'static str {
        self.name
    }
    fn doc(&self) -> &'static str {
        self.doc
    }
    fn dtypes(&self) -> &'static [DType] {
        self.dtypes
    }
    fn program(&self, dtype: Option<DType>) -> Option<&'static [u8]> {
        (dtype == self.dtype).then_some(self.program)
    }
}

/// What became of a schedule with more directives.
#[derive(Debug)]
pub enum Outcome {
    /// It is legal.
    Legal(Extended),
    /// The engine refuses it.
    Refused {
        /// The first mistake, in words.
        message: String,
        /// The page, as HTML.
        page: String,
    },
}

/// Extends a schedule by directives in the text form of `schedule!`: `tile(k = 1024); drop(unroll(k))`. The text is kept for the life of
/// the process, as that of other schedules.
///
/// # Errors
/// The schedule does not admit the type; the text is no list of directives.
pub fn extended(parent: &dyn AnySchedule, dtype: Option<DType>, text: &str) -> Result<Outcome, PageError> {
    let bytes = parent.program(dtype).ok_or_else(|| PageError::NotAdmitted(parent.name().into()))?;
    let parent_program = Program::from_bytes(bytes)?;
    let inherited = parent_program.schedule.directives.iter().map(|d| Directive {
        inherited: d.inherited.clone().or_else(|| Some(parent.name().into())),
        ..d.clone()
    });
    let inherited: Vec<Directive> = inherited.collect();
    let own = parse(text)?.into_iter().map(apart).collect::<Vec<_>>();
    let (directives, mistakes) = extend_without_mistakes(&inherited, &own);
    let name = format!("{} + {}", parent.name(), text.trim().trim_end_matches(';'));
    let schedule = Schedule { name, dtypes: Vec::new(), directives, ..parent_program.schedule.clone() };
    let kernel = parent_program.nest.source();
    let proved = match mistakes.is_empty() {
        true => Prover::new(kernel.clone()).schedule(&schedule, MOST_TRIALS),
        false => Err(mistakes.into_iter().map(|d| (d, Vec::new())).collect()),
    };
    match proved {
        Ok(programs) => {
            let program = programs.into_iter().next().expect("a program for the type of the kernel");
            let program = Program { dtype, ..program };
            Ok(Outcome::Legal(Extended {
                kernel: parent.kernel(),
                name: kept(program.schedule.name.clone()),
                doc: kept(String::new()),
                dtype,
                dtypes: Vec::leak(dtype.into_iter().collect()),
                program: Vec::leak(program.to_bytes()),
            }))
        }
        Err(mistakes) => {
            let diagnostics: Vec<Diagnostic> = mistakes.into_iter().map(|(d, _)| d).collect();
            let message = diagnostics.first().map(|d| d.message.clone()).unwrap_or_default();
            let program = Program { schedule, dtype, nest: parent_program.nest.clone() };
            let page = html::html(&page(&program, diagnostics)?)?;
            Ok(Outcome::Refused { message, page })
        }
    }
}

fn kept(text: String) -> &'static str {
    String::leak(text)
}

/// An item of text, told apart from those of the parent.
fn apart(item: Item) -> Item {
    let moved = |span: SpanId| SpanId(SPANS + span.0);
    match item {
        Item::Directive(d) => Item::Directive(Directive { span: moved(d.span), ..d }),
        Item::Drop { key, span } => Item::Drop { key, span: moved(span) },
    }
}

/// The page of a schedule that the engine refuses, as HTML: the nest so far, the directive at fault, the error and the help.
///
/// # Errors
/// [`PageError::Legal`]; the kernel is none that schedules can be proved for.
pub fn refused(
    kernel: &tile::Kernel,
    schedule: &Schedule,
    dtype: Option<DType>,
) -> Result<String, PageError> {
    let kernel = kernel.instantiate(dtype);
    let schedule = Schedule { dtypes: Vec::new(), ..schedule.clone() };
    let proved = Prover::new(kernel.clone()).schedule(&schedule, MOST_TRIALS);
    let diagnostics = match proved {
        Ok(_) => return Err(PageError::Legal),
        Err(mistakes) => mistakes.into_iter().map(|(d, _)| d).collect(),
    };
    let nest = tile_dsl::nest::initial(&kernel).map_err(|d| PageError::Kernel(Box::new(d)))?;
    html::html(&page(&Program { schedule, dtype, nest }, diagnostics)?)
}

/// The page of a program whose schedule has mistakes.
fn page(program: &Program, mistakes: Vec<Diagnostic>) -> Result<Page, PageError> {
    let derivation = engine::derivation(program.nest.source(), &program.schedule);
    let derivation = derivation.map_err(|d| PageError::Kernel(Box::new(d)))?;
    let refusal = refusal(&program.schedule, &derivation, mistakes);
    let mut text = panels::text::collect(program.nest.source(), &program.schedule, &derivation);
    for (n, line) in text.directives.iter_mut().enumerate() {
        line.refused = refusal.at == Some(n);
    }
    let first = refusal.mistakes.first();
    let finding = model::Finding {
        level: model::Level::Wrong,
        text: first.map(|m| m.message.clone()).unwrap_or_default(),
        why: first.and_then(|m| m.help.clone()).map(|help| format!("Help: {help}")).unwrap_or_default(),
        lines: Vec::new(),
        source: None,
        panel: "derivation",
        access: None,
    };
    let last = derivation.steps.last().map(|derived| &derived.nest);
    Ok(Page {
        schema: model::SCHEMA,
        head: panels::text::head(program, "", None),
        findings: vec![finding],
        text,
        steps: panels::derivation::collect(&derivation),
        values: last.map(panels::holds::values).unwrap_or_default(),
        copies: Vec::new(),
        units: last.map(panels::holds::units).unwrap_or_default(),
        refusal: Some(refusal),
        memory: None,
        events: None,
        budgets: None,
        names: panels::names::collect(&derivation),
    })
}

fn refusal(schedule: &Schedule, derivation: &Derivation, mistakes: Vec<Diagnostic>) -> Refusal {
    let order = schedule.in_order();
    // The first mistake says where it is; a directive that does not apply is where the derivation ends.
    let spanned = mistakes.first().filter(|d| d.span != SpanId::NONE);
    let spanned = spanned.and_then(|d| order.iter().position(|directive| directive.span == d.span));
    let failed = derivation.failed.as_ref().map(|(at, _)| *at).filter(|at| *at < order.len());
    let at = failed.or(spanned);
    let directive = at.map(|at| order[at].to_string());
    let mentioned = mistakes.iter().flat_map(|d| {
        let quoted = d.message.split('`').skip(1).step_by(2);
        quoted.map(str::to_string).collect::<Vec<_>>()
    });
    let words = directive.iter().flat_map(|d| {
        let word = |c: char| !(c.is_alphanumeric() || c == '_' || c == '.');
        d.split(word).filter(|w| !w.is_empty()).map(str::to_string).collect::<Vec<_>>()
    });
    let names = mentioned.chain(words).collect();
    let mistake = |d: Diagnostic| Mistake {
        message: d.message,
        notes: d.notes.into_iter().map(|n| n.text).collect(),
        help: d.help,
    };
    Refusal {
        directive,
        at,
        complete: derivation.failed.is_none(),
        mistakes: mistakes.into_iter().map(mistake).collect(),
        names,
    }
}

//! Proves schedules of one kernel: nests that one schedule shares with the last are not derived again, and the
//! edits that failed directives propose are tried before one is offered.

use super::{
    Failure, FailureKind, Name, Proof, apply, checks, defaults, depends, families::recurrence, mend,
};
use crate::{
    diagnostic::Diagnostic,
    dtype::DType,
    nest::{self, Nest},
    program::Program,
    schedule::{Directive, Phase, Schedule, Target},
    tile,
};
use std::rc::Rc;

/// A mistake, with the element types that it is one for.
pub type Mistake = (Diagnostic, Vec<DType>);

/// A kernel, with what the last schedule of each element type went through.
pub struct Prover {
    kernel: tile::Kernel,
    traces: Vec<(Option<DType>, Trace)>,
    /// How often a schedule was proved to see whether an edit mends it.
    tried: u32,
}

/// The nests between the directives of a schedule.
struct Trace {
    target: Target,
    initial: Result<Rc<Nest>, Diagnostic>,
    steps: Vec<Step>,
}

/// A directive that applied, and the nest after it.
struct Step {
    directive: Directive,
    nest: Rc<Nest>,
    proof: Proof,
}

/// What became of a schedule for one element type.
pub(super) type Outcome = Result<(Nest, Vec<Proof>), Wrong>;

/// The mistakes of a schedule.
pub(super) struct Wrong {
    pub diagnostics: Vec<Diagnostic>,
    /// All directives applied: the mistakes are in what the complete schedule shows.
    pub applied: bool,
}

impl Wrong {
    fn early(diagnostics: Vec<Diagnostic>) -> Wrong {
        Wrong { diagnostics, applied: false }
    }
}

impl Prover {
    /// Nothing is proved yet.
    pub fn new(kernel: tile::Kernel) -> Self {
        Prover { kernel, traces: Vec::new(), tried: 0 }
    }

    /// The kernel.
    pub fn kernel(&self) -> &tile::Kernel {
        &self.kernel
    }

    /// Proves a schedule for every element type that it admits; if it fails, at most `trials` more proofs look for help.
    ///
    /// # Errors
    /// Every mistake that does not follow from an earlier one.
    pub fn schedule(&mut self, schedule: &Schedule, trials: u32) -> Result<Vec<Program>, Vec<Mistake>> {
        let dtypes: Vec<Option<DType>> = match schedule.dtypes.as_slice() {
            [] => vec![None],
            dtypes => dtypes.iter().copied().map(Some).collect(),
        };
        let proved = self.prove(schedule, &dtypes, trials)?;
        Ok(proved
            .into_iter()
            .zip(&dtypes)
            .map(|((nest, _), dtype)| Program { schedule: schedule.clone(), dtype: *dtype, nest })
            .collect())
    }

    /// As [`Prover::schedule`], for some element types, with the proofs.
    ///
    /// # Errors
    /// As [`Prover::schedule`].
    pub fn prove(
        &mut self,
        schedule: &Schedule,
        dtypes: &[Option<DType>],
        trials: u32,
    ) -> Result<Vec<(Nest, Vec<Proof>)>, Vec<Mistake>> {
        let outcomes: Vec<Outcome> = dtypes.iter().map(|dtype| self.run(schedule, *dtype, true)).collect();
        if outcomes.iter().all(Result::is_ok) {
            return Ok(outcomes.into_iter().flatten().collect());
        }
        Err(mend::mistakes(self, schedule, dtypes, outcomes, trials))
    }

    /// How often a schedule was proved only to see whether an edit mends it.
    pub fn tried(&self) -> u32 {
        self.tried
    }

    /// Proves an edited schedule for one element type.
    pub(super) fn attempt(&mut self, schedule: &Schedule, dtype: Option<DType>) -> Outcome {
        self.tried += 1;
        self.run(schedule, dtype, false)
    }

    /// All directives in order, then the defaults and the final checks. `keep` leaves the nests for the next schedule.
    fn run(&mut self, schedule: &Schedule, dtype: Option<DType>, keep: bool) -> Outcome {
        let trace = self.trace(dtype, schedule.target);
        let mut nest = trace.initial.clone().map_err(|d| Wrong::early(vec![d]))?;
        let order = schedule.in_order();
        let shared = trace.steps.iter().zip(&order).take_while(|(step, d)| same(&step.directive, d)).count();
        if keep {
            trace.steps.truncate(shared);
        }
        let mut proofs: Vec<Proof> = trace.steps[..shared].iter().map(|step| step.proof.clone()).collect();
        if let Some(step) = trace.steps[..shared].last() {
            nest = step.nest.clone();
        }
        let (mut wrong, mut missing) = (Vec::new(), Vec::<Name>::new());
        // The text that the names are of is another one.
        let mut other_text = false;
        for (axis, diagnostic) in recurrence::without_size(&nest, schedule) {
            wrong.push(diagnostic);
            missing.extend(Name::loops_of(&axis));
        }
        for directive in &order[shared..] {
            match apply(directive, &nest) {
                Ok((next, proof)) => {
                    if let Some(text) = nest::verify(&next).first() {
                        let failure = Failure::internal(format!("after `{directive}`, {text}"));
                        let diagnostic = Diagnostic { span: directive.span, ..*failure.diagnostic };
                        return Err(Wrong::early(vec![diagnostic]));
                    }
                    nest = Rc::new(next);
                    proofs.push(proof.clone());
                    if keep && wrong.is_empty() {
                        let directive = (*directive).clone();
                        trace.steps.push(Step { directive, nest: nest.clone(), proof });
                    }
                }
                Err(failure) => {
                    // A name that an earlier directive failed to introduce is no second mistake.
                    let mentioned = depends::mentions(&directive.kind);
                    let nowhere = other_text && failure.kind == FailureKind::NoMatch;
                    let follows = nowhere || mentioned.iter().any(|m| missing.contains(m));
                    other_text |= directive.kind.phase() == Phase::Text;
                    missing.extend(failure.introduces);
                    if !follows {
                        wrong.push(with_parent(*failure.diagnostic, directive));
                    }
                }
            }
        }
        if !wrong.is_empty() {
            return Err(Wrong::early(wrong));
        }
        let nest = defaults::apply(&nest).map_err(|f| Wrong::early(vec![*f.diagnostic]))?;
        let wrong = checks::check(&checks::Context::new(&nest, schedule));
        if wrong.is_empty() { Ok((nest, proofs)) } else { Err(Wrong { diagnostics: wrong, applied: true }) }
    }

    fn trace(&mut self, dtype: Option<DType>, target: Target) -> &mut Trace {
        let at = self.traces.iter().position(|(d, trace)| *d == dtype && trace.target == target);
        let at = at.unwrap_or_else(|| {
            let initial = nest::initial(&self.kernel.instantiate(dtype)).map(Rc::new);
            self.traces.push((dtype, Trace { target, initial, steps: Vec::new() }));
            self.traces.len() - 1
        });
        &mut self.traces[at].1
    }
}

/// Whether two directives do the same and stand at the same place: nests remember where a copy was asked for.
fn same(a: &Directive, b: &Directive) -> bool {
    a.kind == b.kind && a.span == b.span
}

/// Says where an inherited directive comes from.
pub(super) fn with_parent(diagnostic: Diagnostic, directive: &Directive) -> Diagnostic {
    match &directive.inherited {
        Some(parent) => {
            let note = format!("`{}` is inherited from `{parent}`", directive.kind);
            diagnostic.note(directive.span, note)
        }
        None => diagnostic,
    }
}

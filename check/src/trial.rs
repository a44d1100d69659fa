//! Edits of a schedule that are tried: proved by the engine, lowered, and predicted again.

use crate::{subject::Subject, traffic::Traffic};
use tile_dsl::{
    directive::DirectiveKind,
    engine::Prover,
    kernel::Kernel,
    lower::lower,
    program::Program,
    schedule::{Directive, Schedule},
    span::SpanId,
};

/// Tries edits of one schedule.
pub struct Trials<'a> {
    subject: &'a Subject<'a>,
    prover: Prover,
    /// Edits that were tried.
    pub tried: u32,
    /// Those that the engine took.
    pub legal: u32,
}

/// What an edit makes.
pub struct Trial {
    pub kernel: Kernel,
    pub traffic: Traffic,
}

impl<'a> Trials<'a> {
    pub fn of(subject: &'a Subject<'a>) -> Self {
        let prover = Prover::new(subject.program.nest.source().clone());
        Trials { subject, prover, tried: 0, legal: 0 }
    }

    /// The schedule with some directives in the place of those for which `replaced` holds; `None` if the engine refuses it.
    pub fn with(
        &mut self,
        put: &[DirectiveKind],
        replaced: impl Fn(&DirectiveKind) -> bool,
    ) -> Option<Trial> {
        self.tried += 1;
        let Program { schedule, dtype, .. } = self.subject.program;
        let mut directives: Vec<Directive> =
            schedule.directives.iter().filter(|d| !replaced(&d.kind)).cloned().collect();
        let added =
            |kind: &DirectiveKind| Directive { kind: kind.clone(), span: SpanId::NONE, inherited: None };
        directives.extend(put.iter().map(added));
        // The kernel has its element type.
        let edited = Schedule { directives, dtypes: Vec::new(), ..schedule.clone() };
        let proved = self.prover.schedule(&edited, 0).ok()?.into_iter().next()?;
        let program = Program { dtype: *dtype, ..proved };
        let kernel = lower(&program, self.subject.variant).ok()?;
        let traffic = self.subject.traffic_of(&kernel)?;
        self.legal += 1;
        Some(Trial { kernel, traffic })
    }

    /// What was tried without gain, in words.
    pub fn without_gain(&self, what: &str) -> String {
        match (self.tried, self.legal) {
            (0, _) => format!("there is no {what} to try"),
            (_, 0) => format!("the engine refuses each {what} that was tried ({})", self.tried),
            (tried, legal) => {
                format!("{tried} times {what} tried, {legal} of them legal: none is better")
            }
        }
    }
}

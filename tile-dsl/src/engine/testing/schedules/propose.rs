//! Proposing a directive: it is kept if it applies, now and then with an extreme number instead of its own.

use super::{EXTREMES, Extremes, Generator, promised};
use crate::{
    directive::{self, DirectiveKind},
    engine::{Failure, FailureKind, apply},
    nest::{self, Nest},
    schedule::Directive,
    span::SpanId,
};

impl Generator<'_> {
    /// Keeps a directive if it applies for every element type and its key is free.
    pub(crate) fn propose(&mut self, kind: impl Into<DirectiveKind>) -> bool {
        let kind = kind.into();
        match self.extreme(&kind) {
            Some((extreme, true)) => {
                let before = self.refused.take();
                if self.applied(extreme) {
                    return true;
                }
                // That it is refused says nothing of what is proposed.
                self.refused = before;
            }
            Some((kind, false)) => {
                let directive = Directive { kind, span: SpanId(0), inherited: None };
                // Refused or not, the engine does not break down over it.
                self.nests.iter().for_each(|n| drop(apply(&directive, n)));
            }
            None => {}
        }
        self.applied(kind)
    }

    /// A directive with an extreme number, now and then. Launches could hardly keep to an extreme multiple.
    /// Also says whether it is to be kept.
    pub(crate) fn extreme(&mut self, kind: &DirectiveKind) -> Option<(DirectiveKind, bool)> {
        let Extremes { random, percent, kept } =
            self.extremes.as_mut().filter(|_| !matches!(kind, DirectiveKind::Multiple(_)))?;
        let mut count = 0;
        let mut changed = kind.clone();
        changed.numbers(&mut |_| count += 1);
        if count == 0 || random.below(100) >= *percent {
            return None;
        }
        let (at, to) = (random.below(count), *random.pick(&EXTREMES));
        let mut n = 0;
        changed.numbers(&mut |number| {
            if n == at {
                *number = to;
            }
            n += 1;
        });
        Some((changed, *kept))
    }

    /// The nests of all directives and one more, in the engine's order.
    pub(crate) fn anew(&self, directive: &Directive) -> Result<Vec<Nest>, Failure> {
        let mut schedule = self.schedule.clone();
        schedule.directives.push(directive.clone());
        let nests = self.nests.iter().map(|nest| {
            let initial = nest::initial(nest.source()).expect("it was there before");
            let mut in_order = schedule.in_order().into_iter();
            in_order.try_fold(initial, |nest, d| apply(d, &nest).map(|(next, _)| next))
        });
        nests.collect()
    }

    /// Whether a directive applies; the schedule has it then.
    pub(crate) fn applied(&mut self, kind: DirectiveKind) -> bool {
        let span = SpanId(self.schedule.directives.len() as u32 + 1);
        let directive = Directive { kind, span, inherited: None };
        if self.schedule.directives.iter().any(|d| d.key() == directive.key()) {
            return false;
        }
        let next: Result<Vec<Nest>, _> = match directive.kind {
            // The engine applies it before all that stands here already: a loop of one step is no loop of its own then.
            DirectiveKind::Fits(_) if !self.schedule.directives.is_empty() => self.anew(&directive),
            _ => self.nests.iter().map(|n| apply(&directive, n).map(|(n, _)| n)).collect(),
        };
        match next {
            Ok(next) => {
                self.schedule.directives.push(directive);
                let made = self.schedule.directives.last().map(|d| &d.kind);
                if let Some(name) = made.and_then(|kind| promised::missing(&self.nests[0], &next[0], kind)) {
                    let text = format!("no loop can be called `{name}`, as the directive promises");
                    let mut schedule = self.schedule.clone();
                    let kind = DirectiveKind::Unroll(directive::Unroll { digit: name, within: None });
                    schedule.directives.push(Directive { kind, span: SpanId(span.0 + 1), inherited: None });
                    self.internal.push((schedule, text));
                }
                self.nests = next;
                true
            }
            Err(failure) => {
                if failure.kind == FailureKind::Internal {
                    let mut schedule = self.schedule.clone();
                    schedule.directives.push(directive);
                    self.internal.push((schedule, failure.diagnostic.message.clone()));
                }
                self.refused = Some(failure.diagnostic.message);
                false
            }
        }
    }
}

//! The way from a kernel to the nest of a schedule, directive by directive, for those who show it.

use super::{Failure, Proof, apply, defaults};
use crate::{
    diagnostic::Diagnostic,
    nest::{self, Nest},
    schedule::{Directive, Schedule},
    tile,
};

/// What a directive made.
#[derive(Clone, Debug)]
pub struct Derived {
    /// The directive; none for the kernel as it is, and for the defaults.
    pub directive: Option<Directive>,
    /// The nest after it.
    pub nest: Nest,
    /// Why it is legal.
    pub proof: Proof,
}

/// The nests between the directives of a schedule.
#[derive(Clone, Debug)]
pub struct Derivation {
    /// The kernel as loops, then each directive in the order in which they apply; the defaults last, where all of them do.
    pub steps: Vec<Derived>,
    /// The first directive that does not apply, by its place in that order, and why; behind the last one, the defaults.
    pub failed: Option<(usize, Failure)>,
}

/// The derivation of a schedule of a kernel with fixed element types, up to the first directive that does not apply.
///
/// # Errors
/// The kernel is none that schedules can be proved for.
pub fn derivation(kernel: &tile::Kernel, schedule: &Schedule) -> Result<Derivation, Diagnostic> {
    let first = nest::initial(kernel)?;
    let step = |directive, nest, proof| Derived { directive, nest, proof };
    let mut steps = vec![step(None, first, Proof::default())];
    let order = schedule.in_order();
    for (at, directive) in order.iter().enumerate() {
        match apply(directive, &steps[at].nest) {
            Ok((nest, proof)) => steps.push(step(Some((*directive).clone()), nest, proof)),
            Err(failure) => return Ok(Derivation { steps, failed: Some((at, failure)) }),
        }
    }
    match defaults::apply(&steps[order.len()].nest) {
        Ok(nest) => {
            steps.push(step(None, nest, Proof::default()));
            Ok(Derivation { steps, failed: None })
        }
        Err(failure) => Ok(Derivation { steps, failed: Some((order.len(), failure)) }),
    }
}

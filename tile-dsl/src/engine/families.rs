//! Families of rules that several directives share, one file each: before → after, side condition, source. The rules of one directive are in its
//! file ([`crate::directive`]).

pub(crate) mod assume;
pub(crate) mod bind;
pub(crate) mod expand;
pub(crate) mod fission;
pub(crate) mod gathered;
pub(crate) mod output;
pub(crate) mod place;
pub(crate) mod private;
pub(crate) mod reads;
pub(crate) mod recurrence;
pub(crate) mod reorder;
pub(crate) mod split;
pub(crate) mod stage;
pub(crate) mod tensor_map;

use super::phase::{self, IsRedex};
pub(crate) use super::{
    failure::{Failure, FailureKind, Proof},
    rule::Rule,
};
use crate::nest::{Nest, Stmt};

/// Runs the phase of one directive and sorts what came of it into the four outcomes.
///
/// `absent` is the message for a directive that found nothing to rewrite, `unmet` the one for a nest that
/// could not be derived although every condition held.
pub(crate) fn solve(
    nest: &Nest,
    rules: &[Rule<'_>],
    redex: IsRedex<'_>,
    absent: impl FnOnce() -> Failure,
    unmet: impl FnOnce() -> Failure,
) -> Result<(Stmt, Proof), Failure> {
    let outcome = phase::run(nest, rules, redex);
    if let Some(why) = outcome.internal {
        return Err(Failure::internal(why));
    }
    if outcome.before == 0 {
        return Err(outcome.refusals.into_iter().next().map_or_else(absent, Failure::refused));
    }
    if outcome.left > 0 {
        return Err(outcome.refusals.into_iter().next().map_or_else(unmet, Failure::refused));
    }
    Ok((outcome.body, Proof { rules: outcome.applied, ..Proof::default() }))
}

/// The nest with another term.
pub(crate) fn with_body(nest: &Nest, body: Stmt) -> Nest {
    // The term is the one field not shared with `nest`; the tables are small.
    Nest { body, ..nest.clone() }
}

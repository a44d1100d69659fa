//! The rewrite families, one file each: before → after, side condition, source.

pub(super) mod assume;
pub(super) mod bind;
pub(super) mod cache;
pub(super) mod cluster;
pub(super) mod exchange;
pub(super) mod expand;
pub(super) mod fission;
pub(super) mod fragment;
pub(super) mod interleave;
pub(super) mod output;
pub(super) mod pipeline;
pub(super) mod place;
pub(super) mod precision;
pub(super) mod reads;
pub(super) mod recurrence;
pub(super) mod reduce;
pub(super) mod reorder;
pub(super) mod roles;
pub(super) mod segment;
pub(super) mod split;
pub(super) mod split_k;
pub(super) mod stage;
pub(super) mod tensor_core;
pub(super) mod tensor_map;
pub(super) mod tile;

use super::{
    failure::{Failure, FailureKind, Proof},
    phase::{self, IsRedex},
    rule::Rule,
};
use crate::nest::{Nest, Stmt};

/// Runs the phase of one directive and sorts what came of it into the four outcomes.
///
/// `absent` is the message for a directive that found nothing to rewrite, `unmet` the one for a nest that
/// could not be derived although every condition held.
pub(super) fn solve(
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
pub(super) fn with_body(nest: &Nest, body: Stmt) -> Nest {
    // The term is the one field not shared with `nest`; the tables are small.
    Nest { body, ..nest.clone() }
}

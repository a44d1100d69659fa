//! `interleave`: over which part of a pipeline of registers memory accesses are spread. It rewrites no statement.
//!
//! ```text
//! interleave(k: loads(p))   the loads of a step to come stand in the first part p of a step's computation
//! interleave(k: copies(p))  copies for the slot ahead, around it, are issued in the first part p of its steps
//! interleave(k: stores(p))  those that pass through registers are stored from the part p of its steps on
//! ```
//! What is not said stays as it is without the directive ([`Interleave`]'s default). Side condition: parts are no more than the whole,
//! and nothing is stored before it is loaded. Whether there are such accesses, and whether the computation is a straight line for them to stand
//! in, the complete schedule shows (`engine::checks`). Source: Volkov and Demmel 2008, on prefetching into registers.

use super::{Failure, Proof};
use crate::{
    diagnostic::{Diagnostic, Edit},
    engine::names,
    nest::{Fraction, Interleave, Nest},
    schedule::DirectiveKind,
    span::SpanId,
};

/// `interleave(name: loads(..), copies(..), stores(..))`.
pub(in crate::engine) fn apply(
    nest: &Nest,
    name: &str,
    [loads, copies, stores]: [Option<Fraction>; 3],
) -> Result<(Nest, Proof), Failure> {
    let digit = names::existing(nest, name, names::Bare::InTile)?;
    let refuse = |text: String| Failure::refused(Diagnostic::new(SpanId::NONE, text));
    let with = |loads, copies, stores| {
        let digit = name.to_string();
        Edit::instead([DirectiveKind::Interleave { digit, loads, copies, stores }])
    };
    if let Some(part) = [loads, copies, stores].into_iter().flatten().find(|p| !p.is_part()) {
        let whole =
            |p: Option<Fraction>| p.map(|p| if p.is_part() { p } else { Fraction { parts: 1, of: 1 } });
        return Err(refuse(format!("{part} is no part of a whole: more than none of it, and at most all"))
            .edit(with(whole(loads), whole(copies), whole(stores)))
            .edit(Edit::instead([])));
    }
    let usual = Interleave::default();
    let of = Interleave {
        loads: loads.unwrap_or(usual.loads),
        copies: copies.unwrap_or(usual.copies),
        stores: stores.unwrap_or(usual.stores),
    };
    if of.stores.is_below(of.copies) {
        return Err(refuse(format!(
            "stores from {} of the steps on, and copies over {}: what is stored must have been loaded",
            of.stores, of.copies
        ))
        .edit(with(loads, copies, Some(of.copies)))
        .edit(Edit::instead([])));
    }
    let mut nest = nest.clone();
    nest.interleaved.insert(digit, of);
    Ok((nest, Proof::default()))
}

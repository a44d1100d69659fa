//! `produce`, `arrive`, `issue`, `registers`, `persistent`, `pingpong`, `alternate`: who executes what of a CTA. They rewrite no statement.
//!
//! ```text
//! produce(k: warp)        the copies of the pipelined loop over k are made by a warp of its own
//! arrive(k: thread)       each thread that has read a slot says so, not a lane a warp
//! issue(v: overwrite)     the first products into v overwrite it: nothing zeroes it before
//! issue(v: in_flight(n))  the products of a step are waited for n steps later, and its slot is free then
//! registers(p, c)         what a thread takes that copies, and one that computes
//! persistent(n)           n CTAs a multiprocessor take tile after tile
//! pingpong(n)             n groups of the threads that compute take them in turn
//! alternate(k)            for every second tile of a CTA the steps of k run backwards
//! ```
//! What copies, products and tiles must be for it, only the complete schedule shows (`engine::checks`).
//! Source: CUTLASS, efficient GEMM (warp specialisation, cooperative and ping-pong kernels).

use super::{Failure, Proof};
use crate::{
    diagnostic::{Diagnostic, Edit},
    engine::names,
    nest::{Issue, Nest},
    schedule::{DirectiveKind, Unit},
    span::SpanId,
};

fn refuse(message: String) -> Failure {
    Failure::refused(Diagnostic::new(SpanId::NONE, message))
}

/// `produce(digit: unit)`; whether its copies suit a producer, the complete schedule shows.
pub(in crate::engine) fn produce(nest: &Nest, name: &str, unit: Unit) -> Result<(Nest, Proof), Failure> {
    let digit = names::existing(nest, name, names::Bare::Tile)?;
    if nest.producer.is_some_and(|other| other != unit) {
        return Err(refuse(format!(
            "another loop's copies are made by a {}: one producer makes all",
            nest.producer.map_or(unit, |u| u)
        ))
        .edit(Edit::instead([])));
    }
    let mut nest = nest.clone();
    nest.produced.insert(digit);
    nest.producer = Some(unit);
    Ok((nest, Proof::default()))
}

/// `registers(producer, consumer)`.
pub(in crate::engine) fn registers(
    nest: &Nest,
    producer: u32,
    consumer: u32,
) -> Result<(Nest, Proof), Failure> {
    let fits = |n: u32| (24..=240).contains(&n) && n.is_multiple_of(8);
    if !fits(producer) || !fits(consumer) {
        let near = |n: u32| n.clamp(24, 240).next_multiple_of(8);
        let edit = DirectiveKind::Registers { producer: near(producer), consumer: near(consumer) };
        return Err(refuse(format!(
            "registers({producer}, {consumer}): a warpgroup takes 24 to 240 registers a thread, a multiple of 8"
        ))
        .edit(Edit::instead([edit]))
        .edit(Edit::instead([])));
    }
    Ok((Nest { registers: Some([producer, consumer]), ..nest.clone() }, Proof::default()))
}

/// `persistent(ctas)`.
pub(in crate::engine) fn persistent(nest: &Nest, ctas: u32) -> Result<(Nest, Proof), Failure> {
    if !(1..=32).contains(&ctas) {
        return Err(refuse(format!("persistent({ctas}): an SM holds 1 to 32 CTAs"))
            .edit(Edit::instead([DirectiveKind::Persistent { ctas: 1 }])));
    }
    Ok((Nest { persistent: Some(ctas), ..nest.clone() }, Proof::default()))
}

/// `arrive(digit: unit)`.
pub(in crate::engine) fn arrive(nest: &Nest, name: &str, unit: Unit) -> Result<(Nest, Proof), Failure> {
    let digit = names::existing(nest, name, names::Bare::Tile)?;
    if !nest.produced.contains(&digit) {
        let text = format!(
            "`{name}` has no producer that waits for slots: the threads that fill them have read them"
        );
        let produce = DirectiveKind::Produce { digit: name.to_string(), unit: Unit::Warp };
        return Err(refuse(text).edit(Edit::put([produce])).edit(Edit::instead([])));
    }
    let mut nest = nest.clone();
    nest.arrive.insert(digit, unit);
    Ok((nest, Proof::default()))
}

/// `alternate(digit)`. Its steps are those of reductions alone, which the complete schedule shows.
pub(in crate::engine) fn alternate(nest: &Nest, name: &str) -> Result<(Nest, Proof), Failure> {
    let digit = names::existing(nest, name, names::Bare::Tile)?;
    if !nest.produced.contains(&digit) {
        let text = format!("`{name}` has no producer: its copies are made in the order of its steps");
        let produce = DirectiveKind::Produce { digit: name.to_string(), unit: Unit::Warp };
        return Err(refuse(text).edit(Edit::put([produce])).edit(Edit::instead([])));
    }
    let mut nest = nest.clone();
    nest.alternate.insert(digit);
    Ok((nest, Proof::default()))
}

/// `issue(value: overwrite, in_flight(steps))`.
pub(in crate::engine) fn issue(
    nest: &Nest,
    name: &str,
    overwrite: bool,
    in_flight: u32,
) -> Result<(Nest, Proof), Failure> {
    let value = names::value(nest, name)?;
    if !overwrite && in_flight == 0 {
        let text = format!("issue({name}: ..) says neither `overwrite` nor how many steps are in flight");
        return Err(Failure::refused(Diagnostic::new(SpanId::NONE, text)));
    }
    let mut nest = nest.clone();
    nest.issue.insert(value, Issue { overwrite, in_flight });
    Ok((nest, Proof::default()))
}

/// `pingpong(groups)`.
pub(in crate::engine) fn pingpong(nest: &Nest, groups: u32) -> Result<(Nest, Proof), Failure> {
    if !(2..=4).contains(&groups) {
        let two = DirectiveKind::Pingpong { groups: 2 };
        return Err(refuse(format!("pingpong({groups}): 2 to 4 groups take turns"))
            .edit(Edit::instead([two]))
            .edit(Edit::instead([])));
    }
    Ok((Nest { pingpong: Some(groups), ..nest.clone() }, Proof::default()))
}

//! `arrive`: who says that a stage which a producer fills has been read: a lane a warp, or each thread.
//!
//! It rewrites no statement. Condition: the loop has a producer.
//! Cost: with `thread` each thread arrives at the barrier, with `warp` a lane of each warp after they have met.
//! Source: CUTLASS, efficient GEMM (warp specialisation, cooperative and ping-pong kernels).

use super::prelude::*;
use crate::{
    engine::{families::assume::refuse, names},
    machine::Unit,
};

directive! {
    /// `arrive(k: thread)`: of the threads that have read a stage which a producer fills, a lane a warp says so, or each.
    "arrive(k: warp)" in Launch, 1:
    Arrive { digit: DigitName, unit: Unit = Unit::Warp } => |s| {
        s.one(digit, "a pipelined loop").mark(":").one_of(unit, "arrival", &[Unit::Warp, Unit::Thread])
    }
}

impl Definition for Arrive {
    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        arrive(nest, &self.digit, self.unit)
    }
}

impl Drawn for Arrive {
    fn beside(_: Kind) -> &'static [&'static [Kind]] {
        &[PRODUCERS]
    }

    fn candidates(_: Kind, generator: &mut Generator<'_>, _: &Wish<'_>) -> Vec<DirectiveKind> {
        let unit = *generator.random.pick(&[Unit::Thread, Unit::Thread, Unit::Warp]);
        generator.produced().into_iter().map(|digit| Arrive { digit, unit }.into()).collect()
    }
}

/// `arrive(digit: unit)`.
fn arrive(nest: &Nest, name: &str, unit: Unit) -> Result<(Nest, Proof), Failure> {
    let digit = names::existing(nest, name, names::Bare::Tile)?;
    if !nest.produced.contains(&digit) {
        let text = format!(
            "`{name}` has no producer that waits for a free stage: the threads that fill a stage have read it themselves"
        );
        let produce = DirectiveKind::Produce(directive::Produce {
            digit: name.to_string(),
            unit: Unit::Warp,
            stages: None,
        });
        return Err(refuse(text).edit(Edit::put([produce])).edit(Edit::remove()));
    }
    let mut nest = nest.clone();
    nest.arrive.insert(digit, unit);
    Ok((nest, Proof::default()))
}

//! `occupancy`: CTAs that an SM must be able to hold: the PTX asks the assembler for registers few enough.
//!
//! Condition: 1 to 32. That the threads and the shared memory of so many fit, the complete schedule shows.
//! Cost: registers may be spilled.

use super::prelude::*;
use crate::engine::families::assume::refuse;

directive! {
    /// `occupancy(2)`: CTAs an SM must be able to hold.
    "occupancy(2)" in Launch, 0:
    Occupancy { ctas: u32 } => |s| s.number(ctas)
}

impl Definition for Occupancy {
    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        occupancy(nest, self.ctas)
    }
}

impl Drawn for Occupancy {
    fn candidates(_: Kind, generator: &mut Generator<'_>, _: &Wish<'_>) -> Vec<DirectiveKind> {
        vec![Occupancy { ctas: 1 + generator.random.below(2) as u32 }.into()]
    }
}

/// `occupancy(ctas)`.
fn occupancy(nest: &Nest, ctas: u32) -> Result<(Nest, Proof), Failure> {
    if !(1..=32).contains(&ctas) {
        return Err(refuse(format!("occupancy({ctas}): an SM holds 1 to 32 CTAs"))
            .edit(Edit::instead([directive::Occupancy { ctas: 32 }]))
            .edit(Edit::instead([directive::Occupancy { ctas: 2 }])));
    }
    Ok((Nest { occupancy: Some(ctas), ..nest.clone() }, Proof::default()))
}

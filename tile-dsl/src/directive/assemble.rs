//! `assemble`: the optimisation level of the PTX assembler.
//!
//! Condition: 0 to 4.
//! Cost: none; code may be slower.

use super::prelude::*;
use crate::engine::families::assume::refuse;

directive! {
    /// `assemble(1)`: optimisation level of the PTX assembler, 0 to 4.
    "assemble(1)" in Launch, 0:
    Assemble { level: u32 } => |s| s.level(level, "a level from 0 to 4")
}

impl Definition for Assemble {
    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        assemble(nest, self.level)
    }
}

impl Drawn for Assemble {
    fn candidates(_: Kind, generator: &mut Generator<'_>, _: &Wish<'_>) -> Vec<DirectiveKind> {
        vec![Assemble { level: generator.random.below(5) as u32 }.into()]
    }
}

/// `assemble(level)`.
fn assemble(nest: &Nest, level: u32) -> Result<(Nest, Proof), Failure> {
    if level > 4 {
        return Err(refuse(format!("assemble({level}): the assembler's levels are 0 to 4"))
            .edit(Edit::instead([directive::Assemble { level: 1 }]).remark("keeps the order of the PTX")));
    }
    Ok((Nest { assemble: Some(level), ..nest.clone() }, Proof::default()))
}

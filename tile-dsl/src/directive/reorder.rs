//! `reorder`: loops change places; those that are named stand in this order, outermost first.
//!
//! ```text
//! reorder(k, i)      (for i (for k X))  →  (for k (for i X))
//! ```
//! Conditions: no step of the one needs what a step of the other has written, sums aside: those reassociate as documented.
//! Cost: order decides which operands a step shares with the next, and how much is live.

use super::prelude::*;
use crate::engine::families::reorder;

directive! {
    /// `reorder(k, ir, jr)`, optionally `in acc`: these loops, in this order, outermost first.
    "reorder(k, i, j)" in Reorder, 0:
    Reorder { digits: Vec<DigitName>, within: Option<String> } => |s| {
        s.names(digits, "a loop").optional("in", within, "the name of a value")
    }
}

impl Definition for Reorder {
    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        reorder::apply(nest, &self.digits, self.within.as_deref())
    }

    fn needs(&self) -> Vec<Name> {
        self.digits.iter().cloned().map(Name::Loop).collect()
    }
}

impl Drawn for Reorder {
    fn candidates(_: Kind, generator: &mut Generator<'_>, _: &Wish<'_>) -> Vec<DirectiveKind> {
        let mut found = vec![];
        for statement in generator.statements() {
            let mut digits = generator.around(&statement);
            digits.retain(|d| !d.ends_with(".o"));
            if digits.len() > 1 {
                digits.drain(..digits.len() - 2);
                digits.reverse();
                found.push(Reorder { digits, within: Some(statement) }.into());
            }
        }
        found
    }
}

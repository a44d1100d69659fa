//! `serpentine`: a loop is unrolled, and its steps are taken backwards every second time that it is entered, so that neighbours share an operand.
//!
//! ```text
//! serpentine(i)      (for i X)  →  (for i #serpentine X)
//! ```
//! Conditions: a fixed number of steps; nothing depends on their order: whatever is written inside has the axis of `i`.
//! Cost: the code grows as with `unroll`, and the loop around is unrolled by two where it has to know the way.
//! Source: boustrophedon register tiling (Volkov and Demmel 2008).

use super::prelude::*;
use crate::engine::families::expand;

directive! {
    /// `serpentine(ir)`, optionally `in acc`: unrolled, and run backwards every second time.
    "serpentine(i, j)" in Expand, 0:
    Serpentine { digit: DigitName, within: Option<String> } => |s| {
        s.alike(digit, "a loop").optional("in", within, "the name of a value")
    }
}

impl Definition for Serpentine {
    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        expand::serpentine(nest, &self.digit, self.within.as_deref())
    }

    fn needs(&self) -> Vec<Name> {
        vec![Name::Loop(self.digit.clone())]
    }
}

impl Drawn for Serpentine {
    const ORDERS: bool = true;

    fn candidates(_: Kind, generator: &mut Generator<'_>, _: &Wish<'_>) -> Vec<DirectiveKind> {
        let mut found: Vec<DirectiveKind> =
            generator.short(16).into_iter().map(|digit| Serpentine { digit, within: None }.into()).collect();
        for statement in generator.statements() {
            let within = Some(statement);
            found.extend(
                generator
                    .short(16)
                    .into_iter()
                    .map(|digit| Serpentine { digit, within: within.clone() }.into()),
            );
        }
        found
    }
}

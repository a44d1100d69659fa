//! `unroll`: each step of a loop has a text of its own.
//!
//! ```text
//! unroll(i)      (for i X)  →  (for i #unroll X)
//! ```
//! Condition: the loop has a fixed number of steps.
//! Cost: the code grows by that number.

use super::prelude::*;
use crate::engine::families::expand;

directive! {
    /// `unroll(k)`, optionally `in acc`.
    "unroll(k)" in Expand, 0:
    Unroll { digit: DigitName, within: Option<String> } => |s| {
        s.alike(digit, "a loop").optional("in", within, "the name of a value")
    }
}

impl Definition for Unroll {
    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        expand::unroll(nest, &self.digit, self.within.as_deref())
    }

    fn needs(&self) -> Vec<Name> {
        vec![Name::Loop(self.digit.clone())]
    }
}

impl Drawn for Unroll {
    fn candidates(_: Kind, generator: &mut Generator<'_>, wish: &Wish<'_>) -> Vec<DirectiveKind> {
        let Wish { product, .. } = *wish;
        if let Some(product) = product {
            let digit = format!("{}.atom", product.axes[2]);
            if generator.propose(directive::Unroll { digit, within: None }) {
                return vec![];
            }
        }
        generator.short(16).into_iter().map(|digit| Unroll { digit, within: None }.into()).collect()
    }
}

//! `fuse`: a value is computed inside its reader's loops, so that less of it is held.
//!
//! ```text
//! fuse(v at n)      (let v (for n P) (for n Q))  →  (for n (let v P Q))
//! ```
//! Conditions: the axis of `n` indexes the value, and the steps communicate through nothing else; loops that are in the way can change places.
//! Cost: none. Where the reader stands in further loops that the value does not have, it is computed again in each of their steps.
//! A value with several readers takes `recompute` first.

use super::prelude::*;
use crate::engine::families::place;

directive! {
    /// `fuse(v at n)`: compute `v` inside its reader's loops over `n`.
    "fuse(v at n)" in Place, 0:
    Fuse { value: String, at: DigitName } => |s| s.alike(value, "a value").mark("at").name(at, "a loop")
}

impl Definition for Fuse {
    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        place::apply_fuse(nest, &self.value, &self.at)
    }

    fn needs(&self) -> Vec<Name> {
        vec![Name::Loop(self.at.clone()), Name::Recomputed(self.value.clone())]
    }
}

impl Drawn for Fuse {
    fn candidates(_: Kind, generator: &mut Generator<'_>, wish: &Wish<'_>) -> Vec<DirectiveKind> {
        let kernel = generator.kernel;
        let mut found = vec![];
        for value in generator.between(wish.product) {
            // Of several readers each has its own.
            generator.propose(directive::Recompute { value: value.clone() });
            let mut at = generator.around(&value);
            at.extend(kernel.axes.iter().map(|a| a.name.clone()));
            found.extend(at.into_iter().map(|at| Fuse { value: value.clone(), at }.into()));
        }
        found
    }
}

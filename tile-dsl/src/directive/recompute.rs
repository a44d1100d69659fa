//! `recompute`: each reader of a value gets its own computation of it.
//!
//! ```text
//! recompute(v)      (let v P (let w A B))  →  (let w (let v P A) (let v P B))
//! ```
//! Conditions:
//!
//! - `v` has two readers or more.
//! - Its statement writes nothing else.
//! - Nothing that it reads changes before the last reader.
//!
//! Cost: the value is computed once more for each further reader, and need not be held in between.

use super::prelude::*;
use crate::engine::families::place;

directive! {
    /// `recompute(v)`: a copy of the statement for each reader.
    "recompute(v)" in Place, 0:
    Recompute { value: String } => |s| s.each(value, "a value")
}

impl Definition for Recompute {
    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        place::apply_recompute(nest, &self.value)
    }

    fn gives(&self) -> Vec<Name> {
        vec![Name::Recomputed(self.value.clone())]
    }
}

impl Drawn for Recompute {
    const ORDERS: bool = true;

    fn candidates(_: Kind, generator: &mut Generator<'_>, wish: &Wish<'_>) -> Vec<DirectiveKind> {
        let Wish { product, .. } = *wish;
        generator.between(product).into_iter().map(|value| Recompute { value }.into()).collect()
    }
}

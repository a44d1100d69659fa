//! `layout`: which dimension of a tensor is contiguous, checked at launch.
//!
//! Condition: a tensor whose first dimension is to be contiguous has two or more.
//! Cost: none; a tensor in the other order is refused at launch.

use super::prelude::*;
use crate::engine::{families::assume::refuse, names};

directive! {
    /// `layout(b: col)`: the first dimension is contiguous.
    "layout(b: col)" in Assume, 0:
    Layout { tensor: String, column_major: bool } => |s| {
        let mut major = if *column_major { "col" } else { "row" };
        s.each(tensor, "a tensor").mark(":").one_of(&mut major, "layout", &["row", "col"]);
        *column_major = major == "col";
    }
}

impl Definition for Layout {
    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        layout(nest, &self.tensor, self.column_major)
    }
}

impl Drawn for Layout {
    fn candidates(_: Kind, generator: &mut Generator<'_>, _: &Wish<'_>) -> Vec<DirectiveKind> {
        let kernel = generator.kernel;
        let some = kernel.tensors.iter().filter(|t| t.dims.len() > 1);
        some.map(|t| Layout { tensor: t.name.clone(), column_major: true }.into()).collect()
    }
}

/// `layout(tensor: row | col)`.
fn layout(nest: &Nest, tensor: &str, column: bool) -> Result<(Nest, Proof), Failure> {
    let Some(id) = names::tensor(nest, tensor) else {
        let known = nest.kernel.tensors.iter().map(|t| t.name.clone()).collect();
        return Err(names::unknown("tensor", tensor, known));
    };
    let info = nest.tensor(id);
    if column && info.dims.len() < 2 {
        return Err(refuse(format!("`{tensor}` has {} dimension: there is no column", info.dims.len()))
            .note(info.span, "declared here")
            .edit(Edit::remove()));
    }
    let mut nest = nest.clone();
    if column {
        nest.column_major.insert(id);
    } else {
        nest.column_major.remove(&id);
    }
    let which = if column { "first" } else { "last" };
    let fact = format!("the {which} dimension of `{tensor}` is contiguous, checked at launch");
    Ok((nest, Proof { facts: vec![fact], ..Proof::default() }))
}

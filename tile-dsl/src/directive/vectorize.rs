//! `vectorize`: a loop is expanded, and memory accesses along it are merged to vectors.
//!
//! ```text
//! vectorize(j)      (for j X)  →  (for j #vec X)
//! ```
//! Conditions:
//!
//! - The loop has a fixed number of steps, and no loop inside it runs at run time.
//! - Every access inside has stride 0 or 1 along it, in the memory that it reads.
//! - An access of stride 1 moves 4, 8 or 16 bytes, and starts at a multiple of that.
//! - No value that says where an access goes, and no condition of a store, differs from step to step.
//!
//! Cost: variants for extents that are no multiples of the vector.
//! Source: superword parallelism (Larsen and Amarasinghe 2000); `ld` and `st` (PTX ISA 9.7.9.8).

use super::prelude::*;
use crate::{
    engine::families::expand,
    nest::{Digit, Frame, LoopKind, leaves},
};

directive! {
    /// `vectorize(jv)`, optionally `in acc`.
    "vectorize(j)" in Expand, 0:
    Vectorize { digit: DigitName, within: Option<String> } => |s| {
        s.alike(digit, "a loop").optional("in", within, "the name of a value")
    }
}

impl Definition for Vectorize {
    const CHECK: Option<Check> = Some((Shows::Vectors, check));

    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        expand::vectorize(nest, &self.digit, self.within.as_deref())
    }

    fn needs(&self) -> Vec<Name> {
        vec![Name::Loop(self.digit.clone())]
    }
}

impl Drawn for Vectorize {
    fn candidates(_: Kind, generator: &mut Generator<'_>, wish: &Wish<'_>) -> Vec<DirectiveKind> {
        let Wish { product, .. } = *wish;
        if product.is_some() && generator.pairs_of_stored(&generator.pairs()) {
            return vec![];
        }
        let mut found = vec![];
        for digit in generator.short(8) {
            found.push(Vectorize { digit: digit.clone(), within: None }.into());
            let within = |y| Vectorize { digit: digit.clone(), within: Some(y) }.into();
            found.extend(generator.statements().into_iter().map(within));
        }
        found
    }
}

/// Inside a vectorized loop nothing loops at run time: the vector is one memory instruction.
fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let mut found: Vec<(Digit, Digit)> = Vec::new();
    leaves(&nest.body, &mut |path, _| {
        let vec = path.iter().position(|f| matches!(f, Frame::For(_, LoopKind::Vec)));
        let Some(Frame::For(vec, _)) = vec.map(|n| &path[n]) else { return };
        let runtime = path.iter().skip_while(|f| !matches!(f, Frame::For(_, LoopKind::Vec)));
        for frame in runtime {
            if let Frame::For(inner, LoopKind::Seq | LoopKind::Pipe(_)) = frame
                && !found.contains(&(*vec, *inner))
            {
                found.push((*vec, *inner));
            }
        }
    });
    found
        .into_iter()
        .map(|(vec, inner)| {
            let (v, i) = (nest.digit_name(vec), nest.digit_name(inner));
            let text =
                format!("the loop over `{i}` runs inside the vectorized `{v}`: a vector is one instruction");
            let names = |name: &str| {
                [crate::nest::in_tile(name), name.to_string()].iter().any(|n| nest.names.get(n) == Some(&vec))
            };
            let by = context.last(
                |k| matches!(k, DirectiveKind::Vectorize(directive::Vectorize { digit, .. }) if names(digit)),
            );
            let diagnostic = context.at(by, SpanId::NONE, text);
            let reorder = DirectiveKind::Reorder(directive::Reorder { digits: vec![i, v], within: None });
            diagnostic.edits([Edit::put([reorder])])
        })
        .collect()
}

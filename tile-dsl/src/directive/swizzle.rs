//! `swizzle`: an XOR pattern over the rows of the staged copies of a tensor, so that columns lie in different banks.
//!
//! Conditions: a span of 32, 64 or 128 bytes that divides the rows; the copy is not padded.
//! Cost: none; the address is computed with an XOR.
//! Source: PTX ISA, tensor swizzling modes.

use super::prelude::*;
use crate::{
    engine::{
        families::stage::{copies_of, refuse},
        names,
    },
    nest::CopyId,
};

directive! {
    /// `swizzle(a: 128)`: XOR swizzle of the staged copy, span in bytes.
    "swizzle(a: 128)" in Stage, 1:
    Swizzle { buffer: String, span: u32 } => |s| {
        s.indexed().each(buffer, "a staged buffer").mark(":").number(span)
    }
}

impl Definition for Swizzle {
    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        swizzle(nest, &self.buffer, self.span)
    }

    fn needs(&self) -> Vec<Name> {
        vec![Name::Copy(self.buffer.clone())]
    }
}

impl Drawn for Swizzle {
    fn beside(_: Kind) -> &'static [&'static [Kind]] {
        &[COPIES]
    }

    fn candidates(_: Kind, generator: &mut Generator<'_>, _: &Wish<'_>) -> Vec<DirectiveKind> {
        let spans = [32, 64, 128];
        let swizzle = |buffer: String| spans.map(|span| Swizzle { buffer: buffer.clone(), span }.into());
        generator.staged().into_iter().flat_map(swizzle).collect()
    }
}

/// `swizzle(buffer: span)`: XOR swizzle of the copies of a tensor.
fn swizzle(nest: &Nest, buffer: &str, span: u32) -> Result<(Nest, Proof), Failure> {
    let output = names::tensor(nest, buffer).filter(|t| nest.outputs.contains_key(t));
    let copies = if output.is_some() { Vec::new() } else { copies_of(nest, "swizzle", buffer)? };
    if ![32, 64, 128].contains(&span) {
        let spans = [128, 64, 32]
            .map(|span| DirectiveKind::Swizzle(directive::Swizzle { buffer: buffer.to_string(), span }));
        return Err(refuse(format!("swizzle({buffer}: {span}): the span is 32, 64 or 128 bytes"))
            .edits(spans.map(|kind| Edit::instead([kind]))));
    }
    let mut nest = nest.clone();
    // What its rows are, the complete schedule shows.
    if let Some(output) = output.and_then(|t| nest.outputs.get_mut(&t)) {
        output.swizzle = span;
    }
    for n in copies {
        let (id, tensor) = (CopyId(n as u16), nest.copies[n].tensor);
        if nest.copies[n].pad > 0 {
            return Err(refuse(format!(
                "the copy of `{buffer}` is padded: padding would shift the pattern of the swizzle"
            ))
            .edit(Edit::remove()));
        }
        let size = u64::from(nest.elem(tensor).bytes());
        let fastest = *nest.copy_order(id).last().expect("a dimension");
        let boxes = nest.bodies(id).into_iter().map(|body| nest.footprint(id, body));
        let rows: Vec<u64> = boxes.map(|dims| dims[fastest].extent.unwrap_or(0) * size).collect();
        if let Some(row) = rows.iter().find(|row| !row.is_multiple_of(u64::from(span))) {
            let mut failure = refuse(format!(
                "a row of the copy of `{buffer}` is {row} bytes long, not a multiple of the swizzle's {span}"
            ));
            let fits = |span: &u64| rows.iter().all(|row| row.is_multiple_of(*span));
            let swizzle = |span: u64| {
                DirectiveKind::Swizzle(directive::Swizzle { buffer: buffer.to_string(), span: span as u32 })
            };
            failure = failure
                .edits([128u64, 64, 32].into_iter().filter(fits).map(|span| Edit::instead([swizzle(span)])))
                .edit(Edit::remove());
            return Err(failure);
        }
        nest.copies[n].swizzle = span;
    }
    Ok((
        nest,
        Proof {
            facts: vec![format!("rows of `{buffer}` are multiples of {span} bytes")],
            ..Proof::default()
        },
    ))
}

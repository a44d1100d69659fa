//! `pad`: bytes after each row of the staged copies of a tensor, so that rows begin in other banks.
//!
//! Conditions:
//!
//! - The pad is whole elements, or as many bytes as are moved at once, and at most 128.
//! - The copy is not swizzled, and no tensor map makes it.
//!
//! Cost: so many bytes of shared memory a row.

use super::prelude::*;
use crate::{
    engine::families::stage::{copies_of, refuse},
    machine::Via,
};

directive! {
    /// `pad(a: 16)`: bytes after each row of the staged copy.
    "pad(a: 16)" in Stage, 1:
    Pad { buffer: String, bytes: u32 } => |s| {
        s.indexed().each(buffer, "a staged buffer").mark(":").number(bytes)
    }
}

impl Definition for Pad {
    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        pad(nest, &self.buffer, self.bytes)
    }

    fn needs(&self) -> Vec<Name> {
        vec![Name::Copy(self.buffer.clone())]
    }
}

impl Drawn for Pad {
    fn beside(_: Kind) -> &'static [&'static [Kind]] {
        &[&[Kind::StagePlain, Kind::StageVector, Kind::StageAsync, Kind::StageAsyncVector]]
    }

    fn candidates(_: Kind, generator: &mut Generator<'_>, _: &Wish<'_>) -> Vec<DirectiveKind> {
        let bytes = *generator.random.pick(&[4, 8, 16, 16, 32]);
        generator.staged().into_iter().map(|buffer| Pad { buffer, bytes }.into()).collect()
    }
}

/// `pad(buffer: bytes)`: bytes after each row of the copies of a tensor.
fn pad(nest: &Nest, buffer: &str, bytes: u32) -> Result<(Nest, Proof), Failure> {
    let copies = copies_of(nest, "pad", buffer)?;
    let mut nest = nest.clone();
    for n in copies {
        let (size, copy) = (nest.elem(nest.copies[n].tensor).bytes(), nest.copies[n].clone());
        let moved = if copy.transposed == (nest.contiguous(copy.tensor) == 0) {
            copy.vector.unwrap_or(size)
        } else {
            size
        };
        if bytes == 0 || !bytes.is_multiple_of(moved) || bytes > 128 {
            return Err(refuse(format!(
                "pad({buffer}: {bytes}): rows of the copy are moved {moved} bytes at once, so padding is a multiple of {moved}, at most 128"
            ))
            .edit(Edit::instead([directive::Pad {
                buffer: buffer.to_string(),
                bytes: bytes.clamp(1, 128).next_multiple_of(moved),
            }])));
        }
        if copy.via == Via::Tma {
            return Err(refuse(format!("a tensor map leaves no gaps between the rows of `{buffer}`")).edits(
                [128, 64, 32]
                    .map(|span| Edit::instead([directive::Swizzle { buffer: buffer.to_string(), span }])),
            ));
        }
        if copy.swizzle > 0 {
            return Err(refuse(format!(
                "the copy of `{buffer}` is swizzled: padding would shift the pattern of the swizzle"
            ))
            .edit(Edit::remove()));
        }
        nest.copies[n].pad = bytes;
    }
    Ok((
        nest,
        Proof { facts: vec![format!("rows of `{buffer}` are {bytes} bytes longer")], ..Proof::default() },
    ))
}

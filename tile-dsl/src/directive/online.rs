//! `online`: reductions over an axis that depend on each other share one loop over its tiles.
//!
//! ```text
//! online(n = 64)    let m = max(g, n); let p = exp(g - m); let l = sum(p, n); let o = dot(p, v, zeros)
//!                   →  for n in tiles(N) { let m.max = max(g, n); .. let p = exp(g - m.frame); l = l * m.scale + sum(p, n);
//!                                          o = dot(p, v, o * m.scale); m = m.next }
//! ```
//! It rewrites the text of the kernel before all other directives apply. These see the loop, and its tiles as `n.o` and `n.t`.
//! A total keeps its name, such as `m` and `l`. That of one tile is `m.max` or `l.sum`.
//! What reads points of `n` behind the loop computes them again, along an axis `n2`.
//! Conditions:
//!
//! - `n` is no axis of programs, and neither a store nor a loop stands between the reductions.
//! - Each term of a sum or `dot` over `n` is a product of factors of three kinds:
//!   `exp(c * (g - m))` or `exp2`, where `m` is the greatest or least `g`, and `c` has the sign that keeps the power at most 1;
//!   what does not depend on the other reductions;
//!   what lacks `n`, such as `1 / l`, which leaves the sum.
//! - A cast to `f16` or `f8` rounds powers alone.
//! - A `dot` starts from zeros.
//! - Other reductions are those of `select(g == m, x, none)`, where `none` is the neutral element, and sums of `(g - u) * (g - u)`,
//!   where `u` lacks `n`.
//!
//! Cost: each step scales what the steps before have summed, a product for each element of `l` and `o`. Rounding depends on the size of
//! the tiles, so the size is part of what is computed.
//! Source: Milakov and Gimelshein 2018; Dao and others 2022.

use super::prelude::*;
use crate::{
    engine::{families::recurrence, names},
    index::AxisId,
    nest,
    tile::{self, online},
};

directive! {
    /// `online(n = 64)`: the reductions over `n` in one loop over tiles of 64 points.
    "online(n = 64)" in Text, 0:
    Online { axis: String, size: u32 } => |s| s.each(axis, "an axis").mark("=").number(size)
}

impl Definition for Online {
    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        apply(nest, &self.axis, self.size)
    }

    fn gives(&self) -> Vec<Name> {
        Name::loops_of(&self.axis)
    }
}

impl Drawn for Online {}

/// `online(axis = size)`.
fn apply(nest: &Nest, axis: &str, size: u32) -> Applied {
    let id = names::axis(nest, axis)?;
    super::tile::in_range(axis, size)?;
    let other = |other: &AxisId| *other != id && online::online(&nest.kernel, *other).is_ok();
    let others = || (0..nest.kernel.axes.len() as u16).map(AxisId).filter(other);
    let written = online::online(&nest.kernel, id).map_err(|why| {
        let instead = others().map(|other| {
            let axis = nest.axis(other).to_string();
            Edit::instead([Online { axis, size }])
        });
        let tile = directive::Tile { axis: axis.to_string(), size };
        let edits = instead.chain([Edit::instead([tile]), Edit::remove()]).collect::<Vec<_>>();
        Failure::refused(*why).edits(edits)
    })?;
    if let Some(wrong) = tile::verify(&written.kernel).first() {
        return Err(Failure::internal(format!("of `online({axis} = {size})`: {}", wrong.message)));
    }
    let mut next = nest::initial(&written.kernel).map_err(|wrong| Failure::internal(wrong.message))?;
    next.written = nest.written.clone().or_else(|| Some(Box::new(nest.kernel.clone())));
    for (name, size) in nest.tiles() {
        next = recurrence::size(&next, names::axis(&next, &name)?, size)?.0;
    }
    let id = names::axis(&next, axis)?;
    let (next, mut proof) = match next.recurrences.contains_key(&id) {
        true => recurrence::size(&next, id, size)?,
        // Nothing is scaled: these are plain reductions.
        false => super::tile::apply(&next, axis, size)?,
    };
    proof.facts.splice(0..0, written.facts);
    Ok((next, proof))
}

//! `bind`: the steps of a loop are taken by units of the grid or of the CTA.
//!
//! ```text
//! bind(i -> thread.x)         (for i X)  →  (for i #thread.x X)
//! bind(j -> lane.y ^ lane.x)  step j is taken by the lane whose y is j xor its x
//! ```
//! Conditions:
//!
//! - The loop has a fixed number of steps, unless it goes to CTAs.
//! - No step needs what another one has written.
//! - A reduction over the axis is combined by `reduce` first.
//! - No unit is taken twice along a path.
//!
//! Cost: none. Units that a statement does not name repeat its work.

use super::prelude::*;
use crate::{
    engine::families::bind,
    machine::{Unit, UnitDim},
};

const UNITS: &[Unit] = &[Unit::Block, Unit::Warpgroup, Unit::Warp, Unit::Lane, Unit::Thread];
const DIMENSIONS: &[UnitDim] = &[UnitDim::X, UnitDim::Y, UnitDim::Z];

directive! {
    /// `bind(j -> thread.x)`; `bind(j -> lane.y ^ lane.x)` with `xor`.
    "bind(i -> thread.x)" in Bind, 1:
    Bind { digit: DigitName, unit: Unit = Unit::Thread, dim: UnitDim = UnitDim::X, xor: Option<UnitDim> } => |s| {
        s.each(digit, "a loop").mark("->").one_of(unit, "unit", UNITS);
        if s.has(".", true) {
            s.one_of(dim, "dimension", DIMENSIONS);
            if s.has("^", xor.is_some()) {
                let (at, mut other, mut second) = (s.here(), *unit, xor.unwrap_or(UnitDim::X));
                s.one_of(&mut other, "unit", UNITS).check(at, other == *unit, || {
                    format!("`{unit}.{dim}` is combined with a coordinate of another unit, `{other}`")
                });
                s.mark(".").one_of(&mut second, "dimension", DIMENSIONS);
                *xor = Some(second);
            }
        }
    }
}

impl Definition for Bind {
    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        bind::apply(nest, &self.digit, self.unit, self.dim, self.xor)
    }

    fn needs(&self) -> Vec<Name> {
        vec![Name::Loop(self.digit.clone())]
    }
}

impl Drawn for Bind {
    fn kinds(&self, _: &Schedule) -> Vec<Kind> {
        let kind = match self.unit {
            Unit::Block => Kind::BindBlock,
            Unit::Warpgroup => Kind::BindWarpgroup,
            Unit::Warp => Kind::BindWarp,
            Unit::Lane => Kind::BindLane,
            Unit::Thread => Kind::BindThread,
        };
        if self.xor.is_some() { vec![kind, Kind::BindXor] } else { vec![kind] }
    }

    fn beside(kind: Kind) -> &'static [&'static [Kind]] {
        match kind {
            Kind::BindWarpgroup => &[&[Kind::Wgmma]],
            Kind::BindWarp => &[&[Kind::Mma, Kind::BindLane]],
            Kind::BindXor => &[&[Kind::BindThread, Kind::BindLane, Kind::BindWarp]],
            _ => &[],
        }
    }

    fn candidates(kind: Kind, generator: &mut Generator<'_>, wish: &Wish<'_>) -> Vec<DirectiveKind> {
        match kind {
            Kind::BindBlock => {
                let digits: Vec<String> = generator.digits(false).into_iter().map(|d| d.0).collect();
                let all = digits.into_iter().chain(generator.program_axes());
                all.map(|digit| Bind { digit, unit: Unit::Block, dim: UnitDim::X, xor: None }.into())
                    .collect()
            }
            Kind::BindWarpgroup => {
                let Wish { product, .. } = *wish;
                match product {
                    Some(product) => {
                        let digit = format!("{}.atom", product.axes[0]);
                        vec![Bind { digit, unit: Unit::Warpgroup, dim: UnitDim::X, xor: None }.into()]
                    }
                    None => generator.bound(Unit::Warpgroup, &[UnitDim::X]),
                }
            }
            Kind::BindWarp => {
                let Wish { product, .. } = *wish;
                match product {
                    Some(product) => {
                        let bind = |(n, dim): (usize, UnitDim)| Bind {
                            digit: format!("{}.atom", product.axes[n]),
                            unit: Unit::Warp,
                            dim,
                            xor: None,
                        };
                        // Rows by 16 are warps; columns beside them, if they are to change places.
                        let rows = bind((0, UnitDim::X));
                        match generator.asked(kind, rows) {
                            true => vec![],
                            false => generator.bound(Unit::Warp, &[UnitDim::X, UnitDim::Y]),
                        }
                    }
                    None => vec![],
                }
            }
            Kind::BindXor => {
                let Wish { set, .. } = *wish;
                let unit = if set.contains(&Kind::BindWarpgroup) { Unit::Warpgroup } else { Unit::Warp };
                let xor = |digit| Bind { digit, unit, dim: UnitDim::Y, xor: Some(UnitDim::X) }.into();
                generator.short(32).into_iter().map(xor).collect()
            }
            Kind::BindLane => generator.bound(Unit::Lane, &[UnitDim::X]),
            Kind::BindThread => generator.bound(Unit::Thread, &[UnitDim::X]),
            _ => vec![],
        }
    }
}

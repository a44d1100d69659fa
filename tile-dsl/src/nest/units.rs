//! Launch shape: which threads a CTA has.
//!
//! x is fastest within `thread`, `lane` and `warp`; a warp is 32 consecutive threads. Where `warp` is bound
//! and `lane` is not, the 32 lanes of a warp do the same. Four warps in a row are a warpgroup: where `warpgroup` is bound,
//! `warp` counts those of one.

use super::{Digit, LoopKind, Nest, Steps, loops, parts};
use crate::machine::{Unit, UnitDim};
use std::collections::BTreeMap;

/// One dimension of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UnitRange {
    /// Threads between neighbours.
    pub stride: u32,
    /// Coordinates.
    pub extent: u32,
}

/// The units of a CTA that a kernel uses.
#[derive(Clone, Debug)]
pub(crate) struct Units {
    /// Dimensions with more than one coordinate.
    pub dims: BTreeMap<(Unit, UnitDim), UnitRange>,
    /// Threads that compute a tile together.
    pub threads: u32,
    /// The first of them: groups that take tiles in turn stand one after the other.
    pub first: u32,
}

/// Why loops cannot be bound to the units of one CTA together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoUnits {
    /// A loop without a fixed number of steps is bound.
    Open(Digit),
    /// Loops of different numbers of steps are bound to one dimension.
    Uneven(Unit, UnitDim, [u32; 2]),
    /// Loops are bound to threads, and to warps or lanes.
    Mixed,
    /// A warpgroup would have so many warps.
    Warps(u64),
    /// A warp would have so many lanes.
    Lanes(u64),
    /// A CTA would have so many threads.
    Threads(u64),
}

impl NoUnits {
    /// In words.
    pub fn text(self, nest: &Nest) -> String {
        match self {
            NoUnits::Open(digit) => format!("all of `{}` is bound to a unit", nest.axis(digit.axis)),
            NoUnits::Uneven(unit, dim, [a, b]) => {
                format!("loops of {a} and of {b} steps are bound to {unit}.{dim}")
            }
            NoUnits::Mixed => "loops are bound to threads and to warps or lanes".into(),
            NoUnits::Warps(n) => format!("a warpgroup has 4 warps, not {n}"),
            NoUnits::Lanes(n) => format!("a warp has 32 lanes, not {n}"),
            NoUnits::Threads(n) => format!("a CTA of {n} threads"),
        }
    }
}

/// Most steps on each unit dimension of a CTA, with the digits bound to it.
pub(crate) type Dimensions = BTreeMap<(Unit, UnitDim), (u32, Vec<Digit>)>;

impl Units {
    /// Those that loops of a nest are bound to, along its [`dimensions`], in a CTA of at most so many threads.
    ///
    /// # Errors
    /// Why its loops cannot be bound to these together.
    pub fn of(nest: &Nest, bound: &Dimensions, most: u32) -> Result<Units, NoUnits> {
        fits(nest, bound)?;
        let extents: BTreeMap<_, _> = bound.iter().map(|(at, (steps, _))| (*at, *steps)).collect();
        let uses = |unit| extents.keys().any(|(u, _)| *u == unit);
        let (thread, lane) = (uses(Unit::Thread), uses(Unit::Lane));
        let warp = uses(Unit::Warp) || uses(Unit::Warpgroup);
        if thread && (warp || lane) {
            return Err(NoUnits::Mixed);
        }
        let mut dims = BTreeMap::new();
        // x is fastest; the units of a dimension stand `stride` threads apart.
        let mut place = |unit, mut stride: u64| {
            for dim in [UnitDim::X, UnitDim::Y, UnitDim::Z] {
                if let Some(extent) = extents.get(&(unit, dim)) {
                    if *extent > 1 {
                        dims.insert((unit, dim), UnitRange { stride: stride as u32, extent: *extent });
                    }
                    stride = stride.saturating_mul(u64::from(*extent)).min(u64::from(u32::MAX));
                }
            }
            stride
        };
        place(Unit::Thread, 1);
        let lanes = place(Unit::Lane, 1);
        let warps = place(Unit::Warp, 32) / 32;
        if uses(Unit::Warpgroup) && warps != 4 {
            return Err(NoUnits::Warps(warps));
        }
        if lane && lanes != 32 {
            return Err(NoUnits::Lanes(lanes));
        }
        place(Unit::Warpgroup, 128);
        if warp && !lane {
            dims.insert((Unit::Lane, UnitDim::X), UnitRange { stride: 1, extent: 32 });
        }
        let threads = count(bound);
        if threads > u64::from(most) {
            return Err(NoUnits::Threads(threads));
        }
        Ok(Units { dims, threads: threads as u32, first: 0 })
    }
}

impl Nest {
    /// The units of a CTA that loops are bound to: each dimension with the threads between neighbours along it and the number of
    /// its coordinates. Empty where the loops cannot be bound together.
    pub fn unit_dimensions(&self) -> Vec<(Unit, UnitDim, [u32; 2])> {
        let units = Units::of(self, &dimensions(self), u32::MAX);
        let dims = units.map(|units| units.dims).unwrap_or_default();
        dims.into_iter().map(|((unit, dim), range)| (unit, dim, [range.stride, range.extent])).collect()
    }
}

/// The unit dimensions that loops of a nest are bound to.
pub(crate) fn dimensions(nest: &Nest) -> Dimensions {
    let mut dims = Dimensions::new();
    for (digit, unit, dim) in bound(nest) {
        let Steps::Fixed(steps) = digit.steps else { continue };
        let (most, digits) = dims.entry((unit, dim)).or_insert((1, Vec::new()));
        *most = steps.max(*most);
        if !digits.contains(&digit) {
            digits.push(digit);
        }
    }
    dims
}

/// Digits bound to units within a CTA.
fn bound(nest: &Nest) -> impl Iterator<Item = (Digit, Unit, UnitDim)> {
    let each = loops(&nest.body).into_iter().flat_map(|(d, at)| parts(d, at));
    each.filter_map(|(digit, at)| match at {
        LoopKind::Unit(unit, dim) if unit != Unit::Block => Some((digit, unit, dim)),
        _ => None,
    })
}

/// Whether what is bound to one dimension has the same number of steps.
fn fits(nest: &Nest, dims: &Dimensions) -> Result<(), NoUnits> {
    for (digit, unit, dim) in bound(nest) {
        let Steps::Fixed(steps) = digit.steps else { return Err(NoUnits::Open(digit)) };
        match dims.get(&(unit, dim)) {
            Some((most, _)) if steps != *most => return Err(NoUnits::Uneven(unit, dim, [*most, steps])),
            _ => {}
        }
    }
    Ok(())
}

/// Threads that compute a tile together, be they too many for a CTA.
pub(crate) fn threads(nest: &Nest) -> u64 {
    count(&dimensions(nest))
}

/// Threads that compute a tile together along these dimensions.
pub(crate) fn count(dims: &Dimensions) -> u64 {
    let along = |unit: Unit| -> u64 {
        dims.iter()
            .filter(|((u, _), _)| *u == unit)
            .fold(1, |n, (_, (steps, _))| n.saturating_mul(u64::from(*steps)))
    };
    let uses = |unit: Unit| dims.keys().any(|(u, _)| *u == unit);
    if uses(Unit::Warpgroup) {
        along(Unit::Warpgroup).saturating_mul(128)
    } else if uses(Unit::Warp) || uses(Unit::Lane) {
        along(Unit::Warp).saturating_mul(32)
    } else {
        along(Unit::Thread)
    }
}

//! How the parts of a reduction that threads hold come together: by shuffles within a warp, through shared memory across warps.

use super::{Digit, LoopKind, Nest, Stmt, UnitRange, Units, ValueId, WARP, writers};
use crate::machine::{Unit, UnitDim};
use std::collections::BTreeMap;

/// Units that hold partial results of a reduction that `first` computes, with a reduced digit bound to each.
pub(crate) fn partial_units(
    nest: &Nest,
    units: &Units,
    value: ValueId,
    first: &Stmt,
) -> BTreeMap<(Unit, UnitDim), Digit> {
    let v = nest.value(value);
    let mut partial = BTreeMap::new();
    if v.reduction.is_none() {
        return partial;
    }
    for (digit, at) in writers(nest, first, value).into_iter().flatten() {
        if let LoopKind::Unit(unit, dim) = at
            && unit != Unit::Block
            && !v.axes.contains(&digit.axis)
            && units.dims.contains_key(&(unit, dim))
        {
            partial.insert((unit, dim), digit);
        }
    }
    partial
}

/// Places in shared memory that combining a reduction takes, for each element of it that a thread holds in registers,
/// or for each element of it if its parts accumulate in shared memory. 0 where shuffles do.
pub(crate) fn places(nest: &Nest, value: ValueId, first: &Stmt, in_place: bool) -> u64 {
    let Ok(units) = Units::of(nest) else { return 0 };
    let partial = partial_units(nest, &units, value, first);
    let product = |ranges: &[UnitRange]| ranges.iter().map(|r| u64::from(r.extent)).product::<u64>();
    if in_place {
        let threads = partial.keys().map(|unit| u64::from(units.dims[unit].extent));
        return if partial.is_empty() { 0 } else { threads.product() };
    }
    let plan = Combination::new(&units, partial.keys());
    if plan.across.is_empty() { 0 } else { product(&plan.kept) * product(&plan.across) }
}

/// How the thread index splits into what is combined and what is not.
#[derive(Clone, Debug)]
pub(crate) struct Combination {
    /// Combined by shuffles.
    pub lanes: Vec<UnitRange>,
    /// Combined through shared memory.
    pub across: Vec<UnitRange>,
    /// Not combined.
    pub kept: Vec<UnitRange>,
    /// Some combined part lies within a warp.
    pub within_warp: bool,
    /// Some combined part lies across warps.
    pub across_warps: bool,
    /// Every warp of the CTA is full.
    pub full_warps: bool,
}

impl Combination {
    /// Of parts that these units hold.
    pub fn new<'k>(units: &Units, partial: impl Iterator<Item = &'k (Unit, UnitDim)>) -> Combination {
        let partial: Vec<_> = partial.collect();
        let full_warps = units.threads.is_multiple_of(WARP);
        let mut plan = Combination {
            lanes: Vec::new(),
            across: Vec::new(),
            kept: Vec::new(),
            within_warp: false,
            across_warps: false,
            full_warps,
        };
        for (unit, range) in &units.dims {
            if !partial.contains(&unit) {
                plan.kept.push(*range);
                continue;
            }
            let UnitRange { stride, extent } = *range;
            plan.within_warp |= stride < WARP;
            plan.across_warps |= stride * extent > WARP;
            let lanes = (WARP / stride.min(WARP)).min(extent);
            let shuffles = full_warps
                && stride.is_power_of_two()
                && extent.is_multiple_of(lanes)
                && lanes.is_power_of_two();
            if shuffles && lanes > 1 {
                plan.lanes.push(UnitRange { stride, extent: lanes });
                if extent > lanes {
                    plan.across.push(UnitRange { stride: stride * lanes, extent: extent / lanes });
                }
            } else {
                plan.across.push(*range);
            }
        }
        plan
    }
}

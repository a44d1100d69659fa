//! How the parts of a reduction that threads hold come together: by shuffles within a warp, through shared memory across warps.

use super::{Digit, LoopKind, Nest, Stmt, UnitRange, Units, ValueId, WARP, writers};
use crate::machine::{Unit, UnitDim};
use std::collections::BTreeMap;

/// The loops over reduced or scanned axes that are bound to units, around the statements of `first` that compute a value: these units
/// hold parts of it.
pub(crate) fn partial_units(nest: &Nest, value: ValueId, first: &Stmt) -> BTreeMap<(Unit, UnitDim), Digit> {
    let v = nest.value(value);
    let mut partial = BTreeMap::new();
    if v.combined_by().is_none() {
        return partial;
    }
    for (digit, at) in writers(nest, first, value).into_iter().flatten() {
        if let LoopKind::Unit(unit, dim) = at
            && unit != Unit::Block
            && v.is_parted_by(digit.axis)
        {
            partial.insert((unit, dim), digit);
        }
    }
    partial
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
    /// Places in shared memory for each element of a reduction that a thread holds; 0 where shuffles do.
    pub fn places(&self) -> u64 {
        let product = |ranges: &[UnitRange]| ranges.iter().map(|r| u64::from(r.extent)).product::<u64>();
        if self.across.is_empty() { 0 } else { product(&self.kept) * product(&self.across) }
    }

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

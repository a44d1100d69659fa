//! Launch shape: which threads a CTA has.
//!
//! x is fastest within `thread`, `lane` and `warp`; a warp is 32 consecutive threads. Where `warp` is bound
//! and `lane` is not, the 32 lanes of a warp do the same. Four warps in a row are a warpgroup: where `warpgroup` is bound,
//! `warp` counts those of one.

use super::{LoopKind, Nest, Steps, Stmt, parts};
use crate::schedule::{Unit, UnitDim};
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

impl Units {
    /// Collects the bound loops of a nest.
    ///
    /// # Errors
    /// What its loops cannot be bound to together.
    pub fn of(nest: &Nest) -> Result<Units, String> {
        let mut extents = BTreeMap::new();
        collect(nest, &nest.body, &mut extents)?;
        let uses = |unit| extents.keys().any(|(u, _)| *u == unit);
        let (thread, lane) = (uses(Unit::Thread), uses(Unit::Lane));
        let (group, warp) = (uses(Unit::Warpgroup), uses(Unit::Warp) || uses(Unit::Warpgroup));
        if thread && (warp || lane) {
            return Err("loops are bound to threads and to warps or lanes".into());
        }
        let mut dims = BTreeMap::new();
        let mut threads = 1u64;
        let mut place = |unit, threads: &mut u64| {
            for dim in [UnitDim::X, UnitDim::Y, UnitDim::Z] {
                if let Some(extent) = extents.get(&(unit, dim)) {
                    if *extent > 1 {
                        dims.insert((unit, dim), UnitRange { stride: *threads as u32, extent: *extent });
                    }
                    *threads = threads.saturating_mul(u64::from(*extent)).min(u64::from(u32::MAX));
                }
            }
        };
        place(Unit::Thread, &mut threads);
        place(Unit::Lane, &mut threads);
        if lane && threads != 32 {
            return Err(format!("loops are bound to {threads} lanes of a warp"));
        }
        if warp {
            threads = 32;
            place(Unit::Warp, &mut threads);
            if group {
                threads = 128;
                place(Unit::Warpgroup, &mut threads);
            }
            if !lane {
                dims.insert((Unit::Lane, UnitDim::X), UnitRange { stride: 1, extent: 32 });
            }
        }
        if threads > 1024 {
            return Err(format!("{threads} threads in a CTA"));
        }
        Ok(Units { dims, threads: threads as u32, first: 0 })
    }
}

/// Threads that compute a tile together; 1 where the units are not known yet.
pub(crate) fn threads(nest: &Nest) -> u32 {
    Units::of(nest).map_or(1, |units| units.threads)
}

fn collect(nest: &Nest, stmt: &Stmt, extents: &mut BTreeMap<(Unit, UnitDim), u32>) -> Result<(), String> {
    match stmt {
        Stmt::For { digit, at, body } => {
            for (digit, at) in parts(*digit, *at) {
                let LoopKind::Unit(unit, dim) = at else { continue };
                if unit == Unit::Block {
                    continue;
                }
                let Steps::Fixed(steps) = digit.steps else {
                    let axis = nest.axis(digit.axis);
                    return Err(format!("all of `{axis}` is bound to a unit"));
                };
                let known = *extents.entry((unit, dim)).or_insert(steps);
                if known != steps {
                    let unit = name(unit, dim);
                    return Err(format!("{known} and {steps} steps on {unit}"));
                }
            }
            collect(nest, body, extents)
        }
        Stmt::Let { first, rest, .. } => {
            collect(nest, first, extents)?;
            collect(nest, rest, extents)
        }
        Stmt::Stage { body, .. } => collect(nest, body, extents),
        Stmt::Def { .. } | Stmt::Red { .. } | Stmt::Set { .. } | Stmt::Put { .. } => Ok(()),
    }
}

/// `thread.x`.
fn name(unit: Unit, dim: UnitDim) -> String {
    format!("{unit:?}.{dim:?}").to_lowercase()
}

//! How the elements of a scan that threads hold come together.
//!
//! A scan along an axis goes through the axis' digits from the smallest stride up. Behind each of them, the elements that its steps and
//! those of smaller strides count are scanned, and the last of them is their total: the next digit scans these totals, and what is
//! before a step joins all that the step has.
//!
//! | steps of a digit are | scanned |
//! |---|---|
//! | registers of a thread | one after the other |
//! | lanes of a warp | by `shfl.sync.up`, in as many steps as the number of lanes has bits |
//! | warps, or lanes that are not a power of two in full warps | through places in shared memory, one after the other |
//!
//! Source: Blelloch, *Prefix Sums and Their Applications* (1990); scans by warp, then by block: Sengupta, Harris, Zhang and Owens,
//! *Scan Primitives for GPU Computing* (2007).

use crate::{
    index::AxisId,
    nest::{Combination, Layout, Steps, UnitRange, Units, Where},
};
use std::{collections::BTreeMap, fmt};

/// One level of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScanLevel {
    /// Registers of a thread, so many in a row.
    Slots(u32),
    /// Lanes of a warp.
    Lanes(UnitRange),
    /// Threads that exchange totals through shared memory.
    Across(UnitRange),
}

impl ScanLevel {
    /// The part of the thread index that its steps are, if they are threads.
    pub fn range(self) -> Option<UnitRange> {
        match self {
            ScanLevel::Slots(_) => None,
            ScanLevel::Lanes(range) | ScanLevel::Across(range) => Some(range),
        }
    }
}

/// A scan of what threads hold in registers.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    /// The axis.
    pub axis: AxisId,
    /// From the smallest stride up.
    pub levels: Vec<ScanLevel>,
    /// Parts of the thread index along which threads hold other elements, or replicas.
    pub kept: Vec<UnitRange>,
}

impl Scan {
    /// That of a value with this layout along one of its axes.
    pub fn of(layout: &Layout, axis: AxisId, units: &Units) -> Scan {
        let mut digits: Vec<_> = layout.digits().iter().filter(|(digit, _)| digit.axis == axis).collect();
        digits.sort();
        digits.dedup();
        let (mut levels, mut used) = (Vec::new(), Vec::new());
        for (digit, at) in digits {
            match *at {
                Where::Slot => {
                    let Steps::Fixed(steps) = digit.steps else { continue };
                    match levels.last_mut() {
                        Some(ScanLevel::Slots(below)) => *below *= steps,
                        _ => levels.push(ScanLevel::Slots(steps)),
                    }
                }
                Where::Unit(unit, dim) => {
                    if !units.dims.contains_key(&(unit, dim)) {
                        continue;
                    }
                    used.push((unit, dim));
                    let parts = Combination::new(units, [(unit, dim)].iter());
                    levels.extend(parts.lanes.into_iter().map(ScanLevel::Lanes));
                    levels.extend(parts.across.into_iter().map(ScanLevel::Across));
                }
            }
        }
        let kept = units.dims.iter().filter(|(at, _)| !used.contains(at)).map(|(_, range)| *range).collect();
        Scan { axis, levels, kept }
    }

    /// The registers of a thread that are scanned one after the other before any of another thread joins.
    pub fn block(&self) -> usize {
        match self.levels.first() {
            Some(ScanLevel::Slots(steps)) => *steps as usize,
            _ => 1,
        }
    }

    /// The levels above those registers.
    pub fn above(&self) -> &[ScanLevel] {
        match self.levels.split_first() {
            Some((ScanLevel::Slots(_), rest)) => rest,
            _ => &self.levels,
        }
    }

    /// The parts of the thread index that tell totals apart at one of the levels above, itself aside: those of the scan's own levels
    /// below it hold the same ones.
    pub fn apart(&self, level: usize) -> impl Iterator<Item = UnitRange> {
        let higher = self.above()[level + 1..].iter().filter_map(|level| level.range());
        self.kept.iter().copied().chain(higher)
    }

    /// Places in shared memory for each total that a thread holds; 0 where shuffles do.
    pub fn places(&self) -> u64 {
        let at = |(n, level): (usize, &ScanLevel)| match level {
            ScanLevel::Across(range) => {
                let apart = self.apart(n).map(|range| u64::from(range.extent)).product::<u64>();
                apart * u64::from(range.extent)
            }
            _ => 0,
        };
        self.above().iter().enumerate().map(at).max().unwrap_or(0)
    }

    /// The registers of a thread among some that lie along the axis, in its order, for each line of it.
    pub fn lines(&self, layout: &Layout, slots: &[u32]) -> Vec<Vec<u32>> {
        let mut lines: BTreeMap<u64, Vec<(u64, u32)>> = BTreeMap::new();
        for slot in slots {
            let (mut rest, mut weight, mut point, mut other) = (u64::from(*slot), 1, 0, 0);
            for (digit, _) in layout.digits().iter().rev().filter(|(_, at)| *at == Where::Slot) {
                let steps = if let Steps::Fixed(n) = digit.steps { u64::from(n) } else { 1 };
                let step = rest % steps;
                rest /= steps;
                match digit.axis == self.axis {
                    true => point += step * u64::from(digit.stride),
                    false => other += step * weight,
                }
                weight *= steps;
            }
            lines.entry(other).or_default().push((point, *slot));
        }
        let ordered = lines.into_values().map(|mut line| {
            line.sort_unstable();
            line.into_iter().map(|(_, slot)| slot).collect()
        });
        ordered.collect()
    }
}

impl fmt::Display for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.levels.is_empty() {
            return f.write_str(" of one element");
        }
        for (n, level) in self.levels.iter().enumerate() {
            let then = if n == 0 { "" } else { ", then" };
            match level {
                ScanLevel::Slots(n) => write!(f, "{then} of {n} registers")?,
                ScanLevel::Lanes(range) => write!(f, "{then} of {} lanes by shuffles", range.extent)?,
                ScanLevel::Across(range) => write!(f, "{then} of {} through shared memory", range.extent)?,
            }
        }
        Ok(())
    }
}

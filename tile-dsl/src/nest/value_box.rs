//! Values in shared memory: whether they are computed there, and how their elements lie.

use super::{LoopKind, Nest, Placement, Step, Steps, ValueId};
use crate::index::AxisId;
use std::collections::BTreeMap;

/// How the elements of a value lie in shared memory: row-major over its points inside its `let`.
#[derive(Clone, Debug)]
pub(crate) struct ValueBox {
    /// Weight of a point of each axis, in elements.
    pub pitches: BTreeMap<AxisId, i64>,
    /// Points, by axis.
    pub points: Vec<u64>,
    /// Elements in all.
    pub elems: u64,
}

/// Lays out a value that `loops` compute; `None` where one of them has no bound.
pub(crate) fn value_box(nest: &Nest, value: ValueId, loops: &[Step]) -> Option<ValueBox> {
    let (mut pitches, mut all, mut elems) = (BTreeMap::new(), Vec::new(), 1u64);
    for axis in nest.value(value).axes.iter().rev() {
        let mut points = 1u64;
        for (digit, _) in loops.iter().filter(|(d, _)| d.axis == *axis) {
            let Steps::Fixed(steps) = digit.steps else { return None };
            points += u64::from(digit.stride) * (u64::from(steps) - 1);
        }
        pitches.insert(*axis, elems as i64);
        all.push(points);
        elems = elems.saturating_mul(points).min(u32::MAX.into());
    }
    all.reverse();
    Some(ValueBox { pitches, points: all, elems })
}

/// Whether a value in shared memory is computed there by these loops. A reduction accumulates in registers wherever its result goes,
/// unless a loop at run time indexes it, and a scan has its elements there in any case.
pub(crate) fn in_place(nest: &Nest, value: ValueId, loops: &[Step]) -> bool {
    let v = nest.value(value);
    let fixed = |(digit, at): &Step| {
        matches!(at, LoopKind::Unit(..)) || at.is_expanded() || digit.steps == Steps::Fixed(1)
    };
    v.placement == Placement::Shared
        && v.scan.is_none()
        && (v.reduction.is_none() || !loops.iter().all(fixed))
}

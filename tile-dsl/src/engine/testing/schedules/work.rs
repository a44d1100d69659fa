//! How long a simulator takes for a schedule.

use super::Extents;
use crate::{
    index::AxisId,
    nest::{Frame, LoopKind, Nest, Steps, leaves, loops},
    schedule::Unit,
};
use std::collections::BTreeMap;

/// Steps of a warp, roughly: tiles run whole even where little of them exists, copies inside of loops are repeated and
/// shared out among the threads, and threads that a statement does not use repeat its work. An axis has as many points as `dims` say, otherwise `typical`.
pub(super) fn work(nest: &Nest, dims: &Extents, typical: u64) -> u64 {
    let points = |axis: AxisId| {
        let extent = nest.kernel.axes[usize::from(axis.0)].extent.eval(dims);
        extent.map_or(typical, |n| n.max(1) as u64)
    };
    let mut extents = BTreeMap::new();
    for (digit, at) in loops(&nest.body) {
        if let (LoopKind::Unit(unit, dim), Steps::Fixed(n)) = (at, digit.steps) {
            let extent = extents.entry((unit, dim)).or_insert(1);
            *extent = u64::from(n).max(*extent);
        }
    }
    let along =
        |wanted| extents.iter().filter(|((unit, _), _)| *unit == wanted).map(|(_, n)| n).product::<u64>();
    let warps = along(Unit::Warp) * along(Unit::Thread).div_ceil(32);
    let lanes = crate::nest::threads(nest).clamp(1, 32);
    let (mut most, mut copied) = (0u64, 0u64);
    leaves(&nest.body, &mut |path, _| {
        let mut steps = 1u64;
        for frame in path {
            match frame {
                Frame::For(
                    _,
                    LoopKind::Unit(Unit::Thread | Unit::Lane | Unit::Warp, _) | LoopKind::Atom(..),
                ) => {}
                Frame::For(digit, at) => {
                    let n = match nest.at_run_time((*digit, *at)).steps {
                        Steps::Fixed(n) => n.into(),
                        Steps::Rest => points(digit.axis).div_ceil(digit.stride.into()),
                    };
                    steps = steps.saturating_mul(n);
                }
                Frame::Stage(copy) => {
                    let elems = nest.copy_elems(*copy).unwrap_or(0);
                    copied = copied.max(steps.saturating_mul(elems.div_ceil(lanes)));
                }
                Frame::First(_) | Frame::Rest(_) => {}
            }
        }
        most = most.max(steps);
    });
    most.saturating_mul(warps).max(copied)
}

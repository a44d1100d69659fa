//! The kernels of a mixture of experts, which `tilewright-kernels` has.

use tilewright::prelude::*;
#[allow(unused_imports, reason = "tests need the schedules alone")]
pub use tilewright_kernels::kernels::experts::{
    expert_rows, expert_sums, mma, mma_64, sums, tiled, two_warpgroups, wgmma,
};

/// All schedules.
#[allow(dead_code, reason = "of tests")]
pub const EVERY: &[&dyn AnySchedule] = tilewright_kernels::kernels::experts::SCHEDULES;
/// Those of the rows.
#[allow(dead_code, reason = "the example's")]
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![tiled, mma, mma_64, wgmma, two_warpgroups];

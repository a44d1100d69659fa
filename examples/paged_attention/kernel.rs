//! The kernels of attention to pages, which `tilewright-kernels` has.

use tilewright::prelude::*;
#[allow(unused_imports, reason = "tests need the schedules alone")]
pub use tilewright_kernels::kernels::paged::{JOINS, PARTS as SCHEDULES, combine, parts};

/// All schedules.
#[allow(dead_code, reason = "of tests")]
pub const EVERY: &[&dyn AnySchedule] = tilewright_kernels::kernels::paged::SCHEDULES;

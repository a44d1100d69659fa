//! The kernel of a histogram, which `tilewright-kernels` has.

#[allow(unused_imports, reason = "tests need the schedules alone")]
pub use tilewright_kernels::kernels::histogram::{SCHEDULES, histogram};

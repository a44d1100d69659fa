//! The arithmetic peak of a GPU.

use tile_dsl::{dtype::DType, nest::Atom};
use tile_runtime::GpuInfo;

/// Fused multiply-adds a cycle of one multiprocessor, dense: f32 on CUDA cores (CUDA C++ Programming Guide, table of
/// arithmetic throughput), f16, bf16 and f8 on tensor cores with an f32 accumulator (architecture white papers of the A100
/// and the H100). `None` where these are not published in one number.
pub fn fma_per_cycle(sm: u32, dtype: DType) -> Option<u32> {
    match (sm, dtype) {
        (80, DType::F32) => Some(64),
        (86 | 87 | 89 | 90, DType::F32) => Some(128),
        _ => fastest(sm, dtype, false),
    }
}

/// The rate of the fastest instruction of tensor cores that multiplies a type, after rounding it to tf32 or as it is.
fn fastest(sm: u32, dtype: DType, rounded: bool) -> Option<u32> {
    let rows = Atom::all().map(Atom::row).filter(|row| row.rounded == rounded && row.multiplies(dtype));
    rows.filter_map(|row| row.rate(sm)).max()
}

/// The same of f32 rounded to tf32, on tensor cores.
pub fn tf32_per_cycle(sm: u32) -> Option<u32> {
    fastest(sm, DType::F32, true)
}

/// FLOP/s at the highest clock, of so many multiply-adds a cycle of one multiprocessor.
pub fn peak_flops(gpu: &GpuInfo, fma: Option<u32>) -> Option<f64> {
    Some(2.0 * f64::from(fma?) * f64::from(gpu.multiprocessors) * gpu.max_clock_mhz * 1e6)
}

//! The arithmetic peak of a GPU.

use tile_dsl::dtype::DType;
use tile_runtime::GpuInfo;

/// Fused multiply-adds a cycle of one multiprocessor, dense: f32 on CUDA cores (CUDA C++ Programming Guide, table of
/// arithmetic throughput), f16, bf16 and f8 on tensor cores with an f32 accumulator (architecture white papers of the A100
/// and the H100). `None` where these are not published in one number.
pub fn fma_per_cycle(sm: u32, dtype: DType) -> Option<u32> {
    match (sm, dtype) {
        (80, DType::F32) => Some(64),
        (86 | 87 | 89 | 90, DType::F32) => Some(128),
        (80, DType::F16 | DType::BF16) => Some(1024),
        (90, DType::F16 | DType::BF16) => Some(2048),
        (90, DType::F8) => Some(4096),
        _ => None,
    }
}

/// The same of f32 rounded to tf32, on tensor cores.
pub fn tf32_per_cycle(sm: u32) -> Option<u32> {
    match sm {
        80 => Some(512),
        90 => Some(1024),
        _ => None,
    }
}

/// FLOP/s at the highest clock, of so many multiply-adds a cycle of one multiprocessor.
pub fn peak_flops(gpu: &GpuInfo, fma: Option<u32>) -> Option<f64> {
    Some(2.0 * f64::from(fma?) * f64::from(gpu.multiprocessors) * gpu.max_clock_mhz * 1e6)
}

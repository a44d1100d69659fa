//! Devices, buffers, typed launches and the PTX cache.
//!
//! One interface over two kinds of device: GPUs through the CUDA driver, and the simulator, which executes
//! the same PTX on the CPU.

pub mod aot;
mod buffer;
mod cache;
mod compile;
#[cfg(feature = "cublas")]
pub mod cublas;
mod device;
mod dims;
mod element;
mod emit;
mod error;
mod execute;
mod gpu;
mod launch;
mod report;
mod schedule;
pub mod verify;

pub use backend_ptx::Ptx;
pub use buffer::{AnyBuffer, Buffer, Layout};
pub use cache::PtxCache;
pub use device::Device;
pub use element::{Element, Float, ScalarValue};
pub use emit::{Stage, emit, emit_program, ptx};
pub use error::Error;
pub use gpu::{GpuInfo, Resources};
pub use launch::{Launch, LaunchArgs, Scheduled, TensorArg};
pub use report::{LaunchReport, PtxSource};
pub use schedule::{AnySchedule, Kernel, Schedule};

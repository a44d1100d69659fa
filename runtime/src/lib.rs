//! Devices, buffers, typed launches and the PTX cache.
//!
//! One interface over two kinds of device: GPUs through the CUDA driver, and the simulator, which executes
//! the same PTX on the CPU.

pub mod aot;
mod arguments;
mod buffer;
mod cache;
mod collective;
mod compile;
mod copy;
#[cfg(feature = "cublas")]
pub mod cublas;
mod device;
mod dims;
pub mod dlpack;
pub mod doctor;
mod element;
mod emit;
mod error;
mod execute;
mod few;
mod geometry;
mod gpu;
mod graph;
pub mod interop;
mod kernels;
mod launch;
mod machine;
mod memory;
mod parameters;
mod pinned;
mod plan;
mod precompiled;
mod prepare;
mod queue;
mod report;
pub mod roofline;
mod row_copy;
mod schedule;
mod snapshot;
mod solve;
mod space;
pub mod stats;
mod stream;
pub mod table;
mod tensor_map;
mod timing;
mod toolkit;
mod tune;
mod usage;
pub mod verify;
mod view;

pub use arguments::{LaunchArgs, TensorArg};
pub use backend_ptx::Ptx;
pub use buffer::{AnyBuffer, Buffer};
pub use cache::PtxCache;
pub use collective::Communicator;
pub use device::Device;
pub use element::{Element, Float, ScalarValue};
pub use emit::{Stage, emit, emit_program, ptx};
pub use error::Error;
pub use execute::Simulated;
pub use geometry::Layout;
pub use gpu::{GpuInfo, Resources};
pub use graph::{Graph, Recorder, Replayed};
pub use launch::{Launch, Launched, Scheduled};
pub use pinned::{Copying, Pinned};
pub use prepare::{Prepare, Prepared};
pub use report::{LaunchReport, PtxSource};
pub use schedule::{AnySchedule, Kernel, Schedule};
pub use space::{Configuration, Dropped, Space};
pub use stream::{Event, Stream, Timestamp};
pub use tune::{Choice, L2, Origin, Progress, Ranked, Tuner};
pub use usage::MemoryUse;
pub use view::{View, ViewMut};

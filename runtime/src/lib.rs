//! Devices, buffers, typed launches and the PTX cache.
//!
//! One interface over two kinds of device: GPUs through the CUDA driver, and the simulator, which executes
//! the same PTX on the CPU.

mod buffer;
mod device;
mod element;
mod error;
mod launch;
mod schedule;

pub use buffer::{AnyBuffer, Buffer, Layout};
pub use device::Device;
pub use element::{Element, Float, ScalarValue};
pub use error::Error;
pub use launch::{Launch, LaunchArgs, Scheduled, TensorArg};
pub use schedule::{AnySchedule, Kernel, Schedule};

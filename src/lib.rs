//! A Rust-embedded tile DSL that compiles to PTX.

pub mod dsl;

pub use tile_dsl::dtype::DType;
pub use tile_macros::tile_kernel;
pub use tile_runtime::{
    AnyBuffer, AnySchedule, Buffer, Device, Element, Error, Float, Kernel, Launch, Layout, ScalarValue,
    Schedule, Scheduled,
};

/// What a program that defines and launches kernels needs.
pub mod prelude {
    pub use crate::dsl::Tensor;
    pub use crate::{AnySchedule, Buffer, Device, Element, Float, Launch, Layout, Schedule, tile_kernel};
    pub use half::{bf16, f16};
}

/// Used by the code that the macros generate; no part of the interface.
#[doc(hidden)]
pub mod __private {
    pub use crate::dsl;
    pub use half::{bf16, f16};
    pub use tile_dsl::{dtype::DType, program::Program};
    pub use tile_runtime::{
        AnyBuffer, Buffer, Element, Float, Kernel, Launch, LaunchArgs, ScalarValue, Schedule, Scheduled,
    };
}

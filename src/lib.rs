//! A Rust-embedded tile DSL that compiles to PTX.

pub mod dsl;

pub use tile_dsl::dtype::DType;
pub use tile_macros::tile_kernel;
pub use tile_runtime::{
    AnyBuffer, AnySchedule, Buffer, Device, Element, Error, Float, Kernel, Launch, Layout, ScalarValue,
    Schedule, Scheduled,
};

/// Schedules for a kernel: `docs/schedule.md` has the grammar. Each is proved legal while `rustc` runs.
///
/// ```text
/// schedule! {
///     /// One thread per element.
///     pub naive for vector_add { tile(i = 256); bind(i -> thread.x); }
///     /// Four elements a thread.
///     pub wide = naive { tile(i = 1024); split(i -> it, iv: 4); bind(it -> thread.x); vectorize(iv); }
/// }
/// ```
#[macro_export]
macro_rules! schedule {
    ($($tokens:tt)*) => { $crate::__private::__schedule! { [$crate] [] [$($tokens)*] } };
}

/// What a program that defines and launches kernels needs.
pub mod prelude {
    pub use crate::dsl::Tensor;
    pub use crate::{
        AnySchedule, Buffer, Device, Element, Float, Launch, Layout, Schedule, schedule, tile_kernel,
    };
    pub use half::{bf16, f16};
}

/// Used by the code that the macros generate; no part of the interface.
#[doc(hidden)]
pub mod __private {
    pub use crate::dsl;
    pub use half::{bf16, f16};
    pub use tile_dsl::{dtype::DType, program::Program};
    pub use tile_macros::__schedule;
    pub use tile_runtime::{
        AnyBuffer, Buffer, Element, Float, Kernel, Launch, LaunchArgs, ScalarValue, Schedule, Scheduled,
    };
}

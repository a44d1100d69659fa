//! A Rust-embedded tile DSL that compiles to PTX.
//!
//! A kernel says once **what** a tile program computes; schedules say **how** it runs and extend one another.
//! Every directive of a schedule is a rewrite that is proved legal while `rustc` runs. The same binary runs on an
//! NVIDIA GPU or, without one, on a simulator that executes the same PTX and reports why it is fast or slow.
//!
//! ```
//! use tilewright::prelude::*;
//!
//! /// y = alpha·x + y.
//! #[tile_kernel]
//! fn saxpy(alpha: f32, x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
//!     let i = program_tile(N);
//!     store(y, [i], alpha * load(x, [i]) + load(y, [i]));
//! }
//!
//! schedule! {
//!     /// One element a thread; neighbouring lanes take neighbouring elements.
//!     simple for saxpy { tile(i = 128); bind(i -> thread.x); }
//!     /// Four elements a thread, moved as 16 bytes.
//!     wide = simple { tile(i = 512); split(i -> it, iv: 4); bind(it -> thread.x); vectorize(iv); drop(bind(i)); }
//! }
//!
//! # fn main() -> Result<(), tilewright::Error> {
//! let device = Device::sim(); // or Device::auto()?: a GPU if there is one
//! let x = Buffer::from_slice(&device, &[1.0; 1000], &[1000])?;
//! let mut y = Buffer::from_slice(&device, &[2.0; 1000], &[1000])?;
//!
//! let report = saxpy(3.0, &x, &mut y).schedule(wide).run()?;
//!
//! assert_eq!(y.to_vec()?, [5.0; 1000]);
//! let counters = report.counters.expect("the simulator counts");
//! assert_eq!(counters.buffer("x", tilewright::sim::Access::Load).sectors_per_request(), 15.625);
//! assert!(report.findings.is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! Arguments are checked before anything runs, and Rust itself sees to it that what a kernel writes is not also
//! read through another argument:
//!
//! ```compile_fail,E0502
//! # use tilewright::prelude::*;
//! # #[tile_kernel]
//! # fn copy(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
//! #     let i = program_tile(N);
//! #     store(y, [i], load(x, [i]));
//! # }
//! # fn launch(mut x: Buffer<f32>) {
//! copy(&x, &mut x); // error[E0502]: cannot borrow `x` as mutable
//! # }
//! ```
//!
//! # Features
//! - `jit` (default): compiles kernels at their first launch with LLVM 22's shared library.
//! - `static-llvm`: the same with LLVM linked in; use it with `default-features = false`.
//! - `page` (default): [`page()`] shows what a kernel under a schedule does, as one HTML file.
//! - `nccl`: collectives between GPUs ([`Communicator`]); between simulators they need no feature.
//! - Neither `jit` nor `static-llvm`: no LLVM is needed to build, and launches take their PTX from the cache ([`PtxCache`]) or from
//!   what was compiled ahead of time ([`aot`]).

pub mod dsl;

/// Counters and findings of the simulator.
pub use ptx_sim as sim;
/// What will slow a kernel under a schedule down, predicted without a run.
pub use tile_check::{self as lints, Checked, Lint, check, explain};
pub use tile_dsl::{dtype::DType, program::Variant, tile::Outside};
pub use tile_macros::tile_kernel;
/// Pages that show what a kernel under a schedule does.
#[cfg(feature = "page")]
pub use tile_page::{self as pages, PageError, page};
pub use tile_runtime::{
    AnyBuffer, AnySchedule, Buffer, By, Choice, Chosen, Communicator, Compared, Configuration, Copying,
    Counts, Device, Dropped, Element, Error, Event, Float, GpuInfo, Graph, Group, Id, Kernel, L2, Launch,
    LaunchArgs, LaunchReport, Launched, Layout, MemoryUse, Origin, Picked, Pinned, Prepare, Prepared,
    Progress, Ptx, PtxCache, PtxSource, Rank, Ranked, Recorder, Reducible, Reduction, Replayed, Resources,
    ScalarValue, Schedule, Scheduled, SimOptions, Simulated, Space, Stage, Stream, Timestamp, Tuner, View,
    ViewMut, World, aot, dlpack, doctor, emit, emit_program, grouped, interop, ptx, ptx_grouped, verify,
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

/// A list of schedules, known by name only: `&[&dyn AnySchedule]`.
#[macro_export]
macro_rules! schedules {
    ($($schedule:path),* $(,)?) => { &[$(&$schedule as &dyn $crate::AnySchedule),*] };
}

/// Schedules for a build script to compile ahead of time, by the paths under which the application knows them:
/// [`aot::Bundle`].
///
/// ```text
/// bundle![my_kernels::tiled, my_kernels::rows].dtypes(&[DType::F32]).write(&out_dir)?;
/// ```
#[macro_export]
macro_rules! bundle {
    ($first:path $(, $schedule:path)* $(,)?) => {
        $crate::aot::Bundle::of(stringify!($first), &$first)
            $(.and($crate::aot::Bundle::of(stringify!($schedule), &$schedule)))*
    };
}

/// What a program that defines and launches kernels needs.
pub mod prelude {
    pub use crate::dsl::Tensor;
    pub use crate::{
        AnySchedule, Buffer, Device, Element, Float, Launch, Layout, Prepare, Schedule, Space, Stream,
        grouped, schedule, schedules, tile_kernel,
    };
    pub use half::{bf16, f16};
    pub use tile_dsl::f8::f8;
}

/// Used by the code that the macros generate; no part of the interface.
#[doc(hidden)]
pub mod __private {
    pub use crate::dsl;
    pub use half::{bf16, f16};
    pub use tile_dsl::{dtype::DType, f8::f8, program::Program};
    pub use tile_macros::__schedule;
    pub use tile_runtime::{
        AnyBuffer, Buffer, Configuration, Dropped, Element, Float, Kernel, Launch, LaunchArgs, ScalarValue,
        Schedule, Scheduled, Space,
    };
}

//! Kernels of inference engines as plain functions: buffers in, buffers out.
//!
//! ```
//! use tilewright::{Buffer, Device, Stream};
//!
//! # fn main() -> Result<(), tilewright::Error> {
//! let device = Device::sim(); // or Device::auto()?: a GPU if there is one
//! let stream = Stream::default_of(&device);
//! let x = Buffer::from_slice(&device, &[3.0f32, 4.0], &[1, 2])?;
//! let weight = Buffer::from_slice(&device, &[1.0f32, 2.0], &[2])?;
//! let mut y = Buffer::<f32>::zeros(&device, &[1, 2])?;
//!
//! tilewright_kernels::rms_norm(&stream, &x, &weight, 0.0, &mut y)?;
//!
//! let found = y.to_vec()?; // waits for the kernel
//! assert!((found[0] - 0.8485).abs() < 1e-4 && (found[1] - 2.2627).abs() < 1e-4);
//! # Ok(())
//! # }
//! ```
//!
//! | For | Functions |
//! |---|---|
//! | tokens and caches | [`embedding`], [`scatter_rows`], [`kv_append`], [`rope`], [`rope_interleaved`], [`rope_append`] |
//! | layers | [`linear`], [`attention`], [`paged_attention`], [`rms_norm`], [`layer_norm`], [`softmax`], [`merge_heads`] |
//! | layers of narrow types | [`linear_i8`], [`linear_i4`], [`linear_f8`] |
//! | layers, fused | [`norm_linear`], [`norm_swiglu`], [`linear_add`] |
//! | a mixture of experts | [`route`], [`expert_blocks`], [`experts`] |
//! | matrices by columns | [`transpose`], [`column_sum`] |
//! | elements | [`swiglu`], [`silu`], [`gelu`], [`gelu_tanh`], [`add`] |
//! | the ends of a model | [`argmax`], [`top_k`], [`cross_entropy`], [`embedding_gradient`], [`adamw`], [`dropout`] |
//! | sums so far | [`cumsum`], [`compact`] |
//! | integers | [`histogram`] |
//!
//! # What all functions have in common
//!
//! | | |
//! |---|---|
//! | elements | `T` is `f32`, `f16` or `bf16`, which `tilewright::prelude` has; all arithmetic is in `f32`, and is rounded once to `T` |
//! | sizes | any, also zero, odd, and no multiple of a tile |
//! | ids | `i32`. One outside of its table is no error, on the simulator neither; each function says what it gives |
//! | tensors | row-major; the last dimension is contiguous. A view has a `let` of its own, `let part = x.slice(&[0..8, 0..4])?;`, and is passed as `&part`. A view with gaps passes where its rank is that of the text, or its rows are equally far apart |
//! | order | a call queues its launches on a stream and returns, or adds them to a graph: [`Queue`]. Reading a buffer waits for what writes it |
//! | scratch | is allocated by the call, and freed behind its launches |
//! | schedules | [`choose`] has one by type, target and size |
//! | results | the same bits in every run on one device, but for [`embedding_gradient`] |
//!
//! # Errors
//!
//! Each function returns [`Error`], before anything is queued:
//!
//! | Error | When |
//! |---|---|
//! | [`Error::Shape`], [`Error::Rank`] | shapes do not fit together; the message names the tensors |
//! | [`Error::Gaps`] | a view has gaps, another rank than the text says, and rows that are not equally far apart |
//! | [`Error::LayoutMismatch`], [`Error::Shape`] | a tensor is column-major |
//! | [`Error::DTypeNotAdmitted`] | the elements are `f8` where a function takes `T` |
//! | [`Error::DeviceMismatch`], [`Error::StreamMismatch`] | buffers and stream are of several devices |
//! | [`Error::OutOfMemory`] | there is no room for the scratch buffers that the function documents |
//! | [`Error::TooLarge`] | an extent needs more than 32 bits |
//! | [`Error::NotCompiled`] | the build has no compiler, and the kernel was not compiled ahead of time |
//!
//! On the simulator a launch has ended when the function returns.
//! What the simulator finds, such as two rows with one slot, is an [`Error::Arguments`] then.
//!
//! # Features
//!
//! - `jit` (default): kernels are compiled at their first launch, by LLVM 22's shared library.
//! - `static-llvm`: the same with LLVM linked in; use it with `default-features = false`.
//! - Neither: kernels come from the cache, or were compiled [ahead of time](kernels#ahead-of-time).

mod attention;
pub mod choose;
mod columns;
mod counts;
mod elements;
mod experts;
mod forms;
mod fused;
mod heads;
pub mod kernels;
mod linear;
mod paged;
mod quantized;
mod queue;
mod rows;
mod scans;
mod tokens;
mod train;

pub use attention::attention;
pub use columns::{column_sum, transpose};
pub use counts::{embedding_gradient, histogram};
pub use elements::{add, gelu, gelu_tanh, silu, swiglu};
pub use experts::{Blocks, expert_blocks, experts, route};
pub use fused::{linear_add, norm_linear, norm_swiglu};
pub use heads::{merge_heads, rope_append};
pub use linear::linear;
pub use paged::paged_attention;
pub use quantized::{GROUP, linear_f8, linear_i4, linear_i8, pack_i4};
pub use queue::Queue;
pub use rows::{argmax, layer_norm, rms_norm, softmax, top_k};
pub use scans::{compact, cumsum};
pub use tokens::{embedding, kv_append, rope, rope_interleaved, scatter_rows};
pub use train::{AdamW, adamw, cross_entropy, dropout};

use tilewright::{AnySchedule, Error, Kernel, Launch};

/// Queues a launch. What the simulator finds is an error.
fn enqueue<K: Kernel>(
    launch: Launch<'_, K>,
    schedule: &dyn AnySchedule,
    on: &impl Queue,
) -> Result<(), Error> {
    let launched = on.put(launch.schedule_dyn(schedule))?;
    match launched.simulated.iter().flat_map(|ran| &ran.findings).next() {
        None => Ok(()),
        Some(finding) => Err(Error::Arguments { kernel: K::NAME.into(), what: finding.to_string() }),
    }
}

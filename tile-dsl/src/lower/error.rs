//! Why a nest has no kernel, and which directive to add.

use crate::{kernel::verify::VerifyError, schedule::Unit};

/// The nest lacks something, or asks for what the target cannot do.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LowerError {
    /// A loop over an unbounded axis indexes registers or shared memory.
    #[error(
        "`{what}` would hold all of axis `{axis}`, whose length is not bounded: add `recompute` and `fuse`, tile the axis, or bound it with `fits`"
    )]
    Unbounded {
        /// Value or staged tensor.
        what: String,
        /// Axis.
        axis: String,
    },
    /// A loop at run time indexes a value held in registers.
    #[error(
        "`{value}` is held in registers but indexed by a loop over `{axis}` that runs at run time: add `unroll` of that loop, or `stage({value}: shared)`"
    )]
    RegisterIndex {
        /// Value.
        value: String,
        /// Axis.
        axis: String,
    },
    /// A reader's loops map a value to other units than its writer's.
    #[error(
        "`{value}` is held by other threads than those that read it along `{axis}`: add `stage({value}: shared)` ({bytes} bytes, 2 barriers), or bind the reader's loops like the writer's"
    )]
    Distribution {
        /// Value.
        value: String,
        /// Axis along which they differ.
        axis: String,
        /// Bytes the value takes in shared memory.
        bytes: u64,
    },
    /// A reader's loops reach elements that its writer's do not define.
    #[error(
        "the loops over `{axis}` that read `{value}` do not step like those that write it: split both alike"
    )]
    Steps {
        /// Value.
        value: String,
        /// Axis.
        axis: String,
    },
    /// A reduced axis is bound to units without a way to combine their partial results.
    #[error(
        "axis `{axis}` of reduction `{value}` is bound to {unit:?}: add `reduce({value}: lane | warp | cta)`"
    )]
    Combine {
        /// Reduction.
        value: String,
        /// Reduced axis.
        axis: String,
        /// Unit it is bound to.
        unit: Unit,
    },
    /// The level of a `reduce` does not reach all units that hold partial results.
    #[error(
        "`reduce({value}: {level})` cannot combine partial results held across {held}: write `reduce({value}: cta)`"
    )]
    CombineLevel {
        /// Reduction.
        value: String,
        /// Level written.
        level: &'static str,
        /// Where the partial results are.
        held: &'static str,
    },
    /// Loops bound to one unit dimension have different numbers of steps.
    #[error("loops of {a} and {b} steps are bound to {unit}: use `split` so that they agree")]
    UnitExtent {
        /// Unit and dimension, `thread.x`.
        unit: String,
        /// Steps of one.
        a: u32,
        /// Steps of the other.
        b: u32,
    },
    /// `thread` and `warp` or `lane` in one kernel.
    #[error("a kernel binds either `thread`, or `warp` and `lane`, not both")]
    MixedUnits,
    /// The lanes bound do not fill a warp.
    #[error(
        "{lanes} lanes are bound, a warp has 32: use `split` so that the lane loops have 32 steps in all"
    )]
    Lanes {
        /// Product of the lane loops.
        lanes: u32,
    },
    /// Too many threads.
    #[error(
        "{threads} threads a CTA, the limit is 1024: use smaller tiles or give each thread more elements"
    )]
    Threads {
        /// Threads.
        threads: u64,
    },
    /// A stage inside a loop bound to threads.
    #[error(
        "`stage({tensor})` stands inside a loop over `{axis}` that is bound to {unit:?}: each would copy it; use `reorder` to move the loop inside"
    )]
    StageInUnit {
        /// Tensor.
        tensor: String,
        /// Axis of the loop.
        axis: String,
        /// Unit it is bound to.
        unit: Unit,
    },
    /// Accesses of a staged tensor move differently.
    #[error(
        "the accesses of `{tensor}` under its stage move differently in dimension {dim}: stage it for each statement"
    )]
    StageAccesses {
        /// Tensor.
        tensor: String,
        /// Dimension, from 0.
        dim: usize,
    },
    /// A stage whose body does not read the tensor.
    #[error("`stage({tensor})`: nothing under it reads `{tensor}`")]
    StageUnused {
        /// Tensor.
        tensor: String,
    },
    /// A vector that may start at an unaligned address.
    #[error("a vector of {bytes} bytes of `{buffer}` may start at an unaligned element: {why}")]
    Alignment {
        /// Tensor or copy.
        buffer: String,
        /// Width.
        bytes: u32,
        /// Reason and remedy.
        why: String,
    },
    /// A vectorized loop that does not walk consecutive elements.
    #[error(
        "`vectorize` of the loop over `{axis}`: consecutive steps are not consecutive elements of `{buffer}`; vectorize another loop, or transpose the copy"
    )]
    VectorStride {
        /// Axis.
        axis: String,
        /// Tensor or copy.
        buffer: String,
    },
    /// A vector width that no instruction has.
    #[error(
        "a vector of {elems} elements of `{buffer}` is {bytes} bytes: use a factor that makes it 4, 8 or 16 bytes"
    )]
    VectorWidth {
        /// Tensor or copy.
        buffer: String,
        /// Elements.
        elems: u32,
        /// Bytes.
        bytes: u32,
    },
    /// `cp.async` cannot move this.
    #[error("`cp_async` of `{tensor}`: {why}")]
    CpAsync {
        /// Tensor.
        tensor: String,
        /// Reason and remedy.
        why: String,
    },
    /// A pipelined loop without a stage directly in it.
    #[error(
        "`pipeline` of the loop over `{axis}`: no stage stands directly in it; add `stage(.. at {axis}: shared)`"
    )]
    PipelineWithoutStage {
        /// Axis.
        axis: String,
    },
    /// Too much shared memory.
    #[error(
        "{total} bytes of shared memory ({sum}), the target has {limit}: use smaller tiles or fewer stages"
    )]
    SharedMemory {
        /// Sum.
        total: u64,
        /// Limit of the target.
        limit: u64,
        /// The sum spelled out by buffer.
        sum: String,
    },
    /// An expanded loop of unknown length.
    #[error(
        "the loop over `{axis}` is expanded but its length is not a number: tile the axis or bound it with `fits`"
    )]
    Expand {
        /// Axis.
        axis: String,
    },
    /// Expansion got out of hand.
    #[error(
        "expanding the unrolled loops gives more than {limit} statements: unroll fewer loops or use smaller tiles"
    )]
    TooLarge {
        /// Limit.
        limit: usize,
    },
    /// The engine produced a term it should not have.
    #[error("internal error: malformed nest: {0}")]
    Malformed(String),
    /// The lowering produced a kernel it should not have.
    #[error("internal error: {0}")]
    Invalid(#[from] VerifyError),
}

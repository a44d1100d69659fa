//! What a channel is while it is emitted: its copies, its mbarriers, and the loop whose steps are its items.

use super::{
    control::Span,
    env::{Bound, Staged},
    guard::Sides,
    layout::Layout,
    linear::Linear,
};
use crate::{
    dtype::DType,
    machine::Unit,
    nest::{Digit, LoopKind, TileSize},
    plan::{Channel, CopyBox},
    tile::TensorId,
};

/// A channel in shared memory, its buffers and its mbarriers.
pub(super) struct Flow<'p> {
    pub plan: &'p Channel,
    pub copies: Vec<CopyPlan<'p>>,
    pub mbarriers: Option<Mbarriers>,
}

/// A channel whose items are the steps of a loop.
pub(super) struct Ring<'p> {
    pub flow: Flow<'p>,
    pub digit: Digit,
    /// The points of its steps.
    pub span: Span,
    /// The register that counts its stages, where registers inside are prefetched across iterations.
    pub counter: Option<u32>,
}

impl Ring<'_> {
    /// Its first step.
    pub fn start(&self) -> Bound {
        Bound::new(self.digit, self.at(), self.span.point(&Linear::default()))
    }

    pub fn at(&self) -> LoopKind {
        LoopKind::Pipe(self.flow.plan.stages)
    }

    pub fn stride(&self) -> i64 {
        self.digit.stride.into()
    }
}

/// Those of a channel.
#[derive(Clone, Copy)]
pub(super) struct Mbarriers {
    pub depth: u32,
    /// Buffer of the mbarriers that say when a stage is full.
    pub full: u32,
    /// That of those that say when it may be filled, where others than its readers fill it.
    pub empty: Option<u32>,
    /// Who says so: a warp, or each thread.
    pub arrive: Unit,
    /// Registers: stage and parity of the step that is read next.
    pub cursor: u32,
    /// Bytes of a step.
    pub bytes: u32,
}

/// A copy of a box of a tensor into shared memory.
pub(super) struct CopyPlan<'p> {
    /// What it holds.
    pub of: &'p CopyBox,
    /// Of the tile at hand.
    pub size: TileSize,
    pub tensor: TensorId,
    pub dtype: DType,
    pub buffer: u32,
    /// Digits bound outside of the stage.
    pub height: usize,
    pub layout: Layout,
    /// Extent of the box that the tile at hand takes, by dimension.
    pub extent: Vec<i64>,
    /// Where the box may leave the tensor, by dimension.
    pub sides: Vec<Sides>,
    /// Elements moved at once.
    pub vector: u32,
    pub asynchronous: bool,
    /// The tensor map through which it comes in one piece: a parameter of the kernel.
    pub map: Option<u32>,
}

impl<'p> CopyPlan<'p> {
    /// The stage that reads this copy.
    pub fn active(&self, stage: Linear) -> Staged<'p> {
        Staged {
            of: self.of,
            tensor: self.tensor,
            buffer: self.buffer,
            height: self.height,
            layout: self.layout.clone(),
            stage,
        }
    }
}

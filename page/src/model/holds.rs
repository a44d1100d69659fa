//! Who holds what.

use serde::Serialize;

/// A value, and where its elements lie.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ValueView {
    /// Name.
    pub name: String,
    /// Element type.
    pub dtype: String,
    /// Its axes, in the kernel's order.
    pub axes: Vec<String>,
    /// It lies in shared memory.
    pub shared: bool,
    /// Elements of a thread in registers.
    pub registers: u64,
    /// The digits of its axes within a tile, outermost loop first.
    pub digits: Vec<DigitView>,
}

/// A digit of an axis: it adds its step times its stride to the axis' value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DigitView {
    /// Name of its loop.
    pub name: String,
    /// Axis.
    pub axis: String,
    /// Points of a step.
    pub stride: u32,
    /// Steps; absent where they follow from the extent.
    pub steps: Option<u32>,
    /// The unit whose coordinate is the step, `lane.x`; absent where a thread holds all steps.
    pub unit: Option<String>,
    /// The dimension of the unit that the coordinate is combined with, by exclusive or.
    pub xor: Option<String>,
}

/// A dimension of a unit of the CTA.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnitView {
    /// `lane.x`.
    pub name: String,
    /// Threads from one coordinate to the next.
    pub stride: u32,
    /// Coordinates.
    pub extent: u32,
}

/// How a copy lies in shared memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CopyView {
    /// Name of its buffer.
    pub name: String,
    /// The tensor, as it is read: `a[i, k]`.
    pub reads: String,
    /// Element type.
    pub dtype: String,
    /// Bytes of an element.
    pub bytes: u32,
    /// The index of each dimension of the box, as text.
    pub index: Vec<String>,
    /// Elements of the box by dimension.
    pub extents: Vec<u64>,
    /// Elements between neighbours of each dimension.
    pub strides: Vec<u64>,
    /// Elements of a row, padding included.
    pub row: u64,
    /// Elements of a row in a panel, where a row is longer than the span of its swizzle.
    pub panel: Option<u64>,
    /// Elements of a stage.
    pub elements: u64,
    /// Bytes of the swizzle's span, 0 for none.
    pub swizzle: u32,
    /// Stages.
    pub stages: u32,
    /// Byte of shared memory at which the buffer starts.
    pub start: u64,
    /// What moves it: `loads and stores`, `cp.async`, `tensor map`.
    pub moved_by: &'static str,
}

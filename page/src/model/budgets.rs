//! What a kernel takes of a multiprocessor.

use serde::Serialize;
use std::collections::BTreeMap;

/// What a kernel takes, and what there is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Budgets {
    /// Threads of a CTA.
    pub threads: u32,
    /// Bytes of shared memory of a CTA.
    pub shared_bytes: u32,
    /// The buffers in shared memory.
    pub shared: Vec<SharedBuffer>,
    /// Values that a thread holds, as the kernel IR has them.
    pub fragments: Vec<Fragment>,
    /// Registers of a thread, where the driver or the schedule says so, and which of them; the average where roles differ.
    pub registers: Option<(u32, String)>,
    /// Registers that the largest of these values alone fills.
    pub registers_of_values: u32,
    /// CTAs of a multiprocessor that the schedule asks for.
    pub wanted: Option<u32>,
    /// CTAs for which there is enough of each resource on the target; of registers, where their number is not known, those of the
    /// largest value alone.
    pub limits: Vec<Limit>,
    /// Registers of a thread up to which the other limits decide.
    pub registers_allowed: Option<u32>,
    /// The grid: a factor for each loop over CTAs.
    pub grid: Vec<GridFactor>,
    /// CTAs for each multiprocessor that take tile after tile.
    pub persistent: Option<u32>,
    /// CTAs of a cluster.
    pub cluster: Option<u32>,
    /// Cycles of one multiprocessor that a CTA takes of each resource, from the counts of the run.
    pub times: Vec<ResourceTime>,
    /// The place under the roofline.
    pub roofline: Option<Roofline>,
    /// The GPU that `times`, waves and roofline are of.
    pub gpu: Rates,
}

/// A buffer in shared memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SharedBuffer {
    /// Name.
    pub name: String,
    /// Element type.
    pub dtype: String,
    /// Elements, stages and padding included.
    pub elements: u32,
    /// First byte.
    pub start: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Values of a thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fragment {
    /// Name.
    pub name: String,
    /// Element type.
    pub dtype: String,
    /// Elements.
    pub elements: u32,
}

/// What a resource allows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limit {
    /// The resource.
    pub resource: String,
    /// CTAs of a multiprocessor.
    pub ctas: u32,
}

/// A factor of the grid.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GridFactor {
    /// The extent, as text.
    pub extent: String,
    /// Its dims with their coefficients.
    pub dims: BTreeMap<String, i64>,
    /// Its constant part.
    pub constant: i64,
    /// Points of a tile.
    pub tile: u32,
    /// Points after which tiles start over.
    pub period: u32,
}

/// Time of a resource.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResourceTime {
    /// The resource.
    pub resource: String,
    /// Cycles.
    pub cycles: f64,
}

/// The place under the roofline, from the counts of the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Roofline {
    /// Floating-point operations of the run.
    pub flops: u64,
    /// Bytes of the sectors that requests touched.
    pub bytes_moved: u64,
    /// Bytes of the tensors, once.
    pub bytes_least: u64,
    /// Operations a second that the units in use can do, and which these are.
    pub peak: f64,
    /// The units.
    pub peak_of: String,
    /// Bytes a second of memory.
    pub bandwidth: f64,
}

/// A GPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rates {
    /// Name.
    pub name: &'static str,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Clock in Hz.
    pub clock_hz: f64,
}

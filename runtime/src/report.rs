//! What a launch did.

use crate::{auto::Picked, device::Device, gpu::Resources, plan::Plan};
use ptx_sim::{Counters, Finding, Trace};
use std::{collections::BTreeMap, sync::Arc};
use tile_dsl::{dtype::DType, program::Variant, tile::Outside};

/// Report of one launch.
#[derive(Clone, Debug)]
pub struct LaunchReport {
    /// Kernel.
    pub kernel: Arc<str>,
    /// Schedule.
    pub schedule: Arc<str>,
    /// The schedule with all that it inherits, as `schedule!` takes it; empty where no program is known.
    pub directives: Arc<str>,
    /// How the schedule was chosen, of a launch without one.
    pub choice: Option<Arc<Picked>>,
    /// Element type of the generic parameter.
    pub dtype: Option<DType>,
    /// Name of the device; empty for a group of no launches that was given none.
    pub device: Arc<str>,
    /// Variant that ran; `None` when there was nothing to compute and nothing ran.
    pub variant: Option<Variant>,
    /// Assumptions under which it was compiled, all of which hold: `N % 4 == 0`.
    pub assumptions: Arc<[String]>,
    /// Problems that it computed: 1, or those of a group ([`grouped`](crate::grouped)) that were not empty.
    pub problems: usize,
    /// Values of the named dims; empty for a group, whose problems have their own.
    pub dims: BTreeMap<String, i64>,
    /// CTAs; 0 when nothing ran.
    pub ctas: u32,
    /// Threads in a CTA.
    pub threads: u32,
    /// Shared memory of a CTA in bytes.
    pub shared_bytes: u32,
    /// Global memory that the kernel used beside its tensors, in bytes.
    pub scratch_bytes: u64,
    /// Milliseconds on the GPU, between events around the launch, where [`Scheduled::timed`](crate::Scheduled::timed)
    /// asked for them; `None` on the simulator, which claims no time.
    pub time_ms: Option<f64>,
    /// What the driver's compiler made of the kernel; `None` on the simulator, which runs PTX as it is.
    pub resources: Option<Resources>,
    /// Counters of the simulator; `None` on a GPU.
    pub counters: Option<Counters>,
    /// What the simulator found wrong; empty on a GPU, which cannot tell.
    pub findings: Vec<Finding>,
    /// Values in indices that lead beyond the end of their tensor, where the simulator ran: a load there is zero, and a store
    /// nothing. Of those that follow from row-major arguments of integers and bools, axes, dims and scalars alone, and that are
    /// the whole entry of an index but for a constant. A load is reported also where a `select` leaves it out. Empty on a GPU,
    /// and where an `i64` of an argument is beyond ±2⁵³.
    pub outside: Vec<Outside>,
    /// What the first CTA did on a simulator that records it ([`SimOptions::trace`](crate::SimOptions::trace)).
    pub trace: Option<Trace>,
    /// The PTX that ran; empty when nothing did.
    pub ptx: Arc<str>,
    /// Where the PTX came from.
    pub source: Option<PtxSource>,
    /// What went wrong without stopping the launch, such as a cache that cannot be written.
    pub warnings: Vec<String>,
}

impl LaunchReport {
    /// The schedule with all that it inherits, as `schedule!` takes it: pasted there, it gives the same PTX.
    pub fn schedule_text(&self) -> &str {
        &self.directives
    }

    /// The report of a launch that has not run yet.
    pub(crate) fn new(plan: &Plan, device: &Device) -> Self {
        let device = device.inner.name.clone();
        let report = Self::of(plan.kernel.clone(), plan.schedule.clone(), plan.dtype(), device);
        LaunchReport { directives: plan.text(), ..report }
    }

    /// The report of a launch of which no more than this is known.
    pub(crate) fn of(kernel: Arc<str>, schedule: Arc<str>, dtype: Option<DType>, device: Arc<str>) -> Self {
        LaunchReport {
            kernel,
            schedule,
            directives: "".into(),
            choice: None,
            dtype,
            device,
            variant: None,
            assumptions: Arc::default(),
            dims: BTreeMap::new(),
            problems: 0,
            ctas: 0,
            threads: 0,
            shared_bytes: 0,
            scratch_bytes: 0,
            time_ms: None,
            resources: None,
            counters: None,
            findings: Vec::new(),
            outside: Vec::new(),
            trace: None,
            ptx: "".into(),
            source: None,
            warnings: Vec::new(),
        }
    }
}

/// Where the PTX of a launch came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PtxSource {
    /// Compiled for this launch.
    Compiled,
    /// Compiled earlier by this process.
    Memory,
    /// The cache on disk.
    Disk,
    /// Compiled ahead of time and registered with [`aot::provide`](crate::aot::provide).
    AheadOfTime,
}

//! What a run counts. Everything is exact and additive, so the order of CTAs does not matter.

use crate::op::InstClass;
use serde::Serialize;
use std::collections::BTreeMap;

/// Raw counts of one instruction.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PcCount {
    pub warps: u64,
    pub threads: u64,
}

/// Raw counts of one memory instruction.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemCount {
    pub shared_requests: u64,
    pub wavefronts: u64,
    pub ideal_wavefronts: u64,
    pub shared_bytes: u64,
    /// By allocation: (index, requests, sectors, bytes).
    pub buffers: Vec<(u32, u64, u64, u64)>,
}

impl MemCount {
    #[inline]
    pub fn global(&mut self, alloc: u32, sectors: u64, bytes: u64) {
        match self.buffers.iter_mut().find(|b| b.0 == alloc) {
            Some(b) => {
                b.1 += 1;
                b.2 += sectors;
                b.3 += bytes;
            }
            None => self.buffers.push((alloc, 1, sectors, bytes)),
        }
    }
}

/// Raw counters of a worker.
#[derive(Debug, Default)]
pub(crate) struct Raw {
    pub pc: Vec<PcCount>,
    pub mem: Vec<MemCount>,
    pub barriers: u64,
    pub warps: u64,
    /// What the first CTA did, where that is asked for.
    pub trace: crate::trace::Trace,
}

impl Raw {
    pub fn new(n: usize) -> Self {
        Raw {
            pc: vec![PcCount::default(); n],
            mem: vec![MemCount::default(); n],
            barriers: 0,
            warps: 0,
            trace: Default::default(),
        }
    }

    pub fn merge(&mut self, o: Raw) {
        for (a, b) in self.pc.iter_mut().zip(o.pc) {
            a.warps += b.warps;
            a.threads += b.threads;
        }
        for (a, b) in self.mem.iter_mut().zip(o.mem) {
            a.shared_requests += b.shared_requests;
            a.wavefronts += b.wavefronts;
            a.ideal_wavefronts += b.ideal_wavefronts;
            a.shared_bytes += b.shared_bytes;
            for (al, r, s, by) in b.buffers {
                match a.buffers.iter_mut().find(|x| x.0 == al) {
                    Some(x) => {
                        x.1 += r;
                        x.2 += s;
                        x.3 += by;
                    }
                    None => a.buffers.push((al, r, s, by)),
                }
            }
        }
        self.barriers += o.barriers;
        self.warps += o.warps;
        self.trace.merge(o.trace);
    }
}

/// Warp- and thread-level executions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct InstCount {
    /// Instructions issued, per warp.
    pub warp: u64,
    /// Instructions executed, per thread whose guard holds.
    pub thread: u64,
}

/// Traffic to global memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct GlobalCount {
    /// Instructions issued with at least one active lane, per warp.
    pub requests: u64,
    /// Distinct 32-byte sectors, summed over requests.
    pub sectors: u64,
    /// Active lanes × width.
    pub bytes: u64,
}

impl GlobalCount {
    /// Sectors per request; 0 if there was none.
    pub fn sectors_per_request(&self) -> f64 {
        ratio(self.sectors, self.requests)
    }
}

/// Traffic to shared memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct SharedCount {
    /// Instructions issued with at least one active lane, per warp.
    pub requests: u64,
    /// Passes through the 32 banks.
    pub wavefronts: u64,
    /// Wavefronts beyond those that the width alone needs.
    pub bank_conflicts: u64,
    /// Active lanes × width.
    pub bytes: u64,
}

impl SharedCount {
    /// Wavefronts per request; 0 if there was none.
    pub fn wavefronts_per_request(&self) -> f64 {
        ratio(self.wavefronts, self.requests)
    }
}

fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}

/// Direction of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Loads, the reading side of asynchronous copies included.
    Load,
    /// Stores, the writing side of bulk copies included.
    Store,
    /// `atom` and `red`.
    Atomic,
}

/// Traffic of one buffer in one direction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BufferCount {
    /// Name given to [`crate::Memory::alloc`].
    pub buffer: String,
    /// Direction.
    pub access: Access,
    /// The counts.
    #[serde(flatten)]
    pub count: GlobalCount,
}

/// One memory instruction of the PTX text.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SiteCount {
    /// Line in the PTX text.
    pub line: u32,
    /// Opcode and modifiers.
    pub instruction: String,
    /// Direction.
    pub access: Access,
    /// How often it ran.
    pub executed: InstCount,
    /// Global traffic by buffer.
    pub global: Vec<BufferCount>,
    /// Shared traffic, if any.
    pub shared: Option<SharedCount>,
}

/// Counters of a launch.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Counters {
    /// CTAs executed.
    pub ctas: u64,
    /// Warps executed.
    pub warps: u64,
    /// All instructions.
    pub instructions: InstCount,
    /// Instructions by class.
    pub mix: BTreeMap<InstClass, InstCount>,
    /// Floating-point operations (an fma counts 2 per lane).
    pub flops: u64,
    /// FLOPs per requested global byte; `None` without global traffic.
    pub arithmetic_intensity: Option<f64>,
    /// Loads from global memory.
    pub global_load: GlobalCount,
    /// Stores to global memory.
    pub global_store: GlobalCount,
    /// Atomics on global memory.
    pub global_atomic: GlobalCount,
    /// Loads from shared memory.
    pub shared_load: SharedCount,
    /// Stores to shared memory.
    pub shared_store: SharedCount,
    /// Atomics on shared memory.
    pub shared_atomic: SharedCount,
    /// CTA barriers completed, over all CTAs.
    pub barriers: u64,
    /// CTA barriers per CTA.
    pub barriers_per_cta: f64,
    /// Global traffic by buffer and direction.
    pub buffers: Vec<BufferCount>,
    /// Every memory instruction that ran.
    pub sites: Vec<SiteCount>,
}

impl Counters {
    /// Traffic of one buffer in one direction; zeros if there was none.
    pub fn buffer(&self, name: &str, access: Access) -> GlobalCount {
        let mut sum = GlobalCount::default();
        for b in self.buffers.iter().filter(|b| b.buffer == name && b.access == access) {
            sum.requests += b.count.requests;
            sum.sectors += b.count.sectors;
            sum.bytes += b.count.bytes;
        }
        sum
    }

    /// Executions of one class; zeros if there was none.
    pub fn class(&self, class: InstClass) -> InstCount {
        self.mix.get(&class).copied().unwrap_or_default()
    }
}

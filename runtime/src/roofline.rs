//! What a schedule should reach, from the simulator's counts and the published rates of a multiprocessor.
//!
//! A launch takes at least as long as its busiest resource. With W the whole launch's count of something, S
//! multiprocessors, f the clock, and a rate a cycle and multiprocessor:
//!
//! ```text
//! time ≥ W / (S · rate · f) · (⌈CTAs / S⌉ · S / CTAs)
//! ```
//!
//! The second factor is the last, partly filled round of CTAs.
//!
//! | resource | W | rate a cycle |
//! |---|---|---|
//! | FMA pipe | fused multiply-adds, a warp each | 4 (128 lanes; 2 on sm_80) |
//! | issue | instructions | 4 (one a scheduler) |
//! | shared memory | wavefronts of loads and stores | 1 (128 bytes) |
//! | L1 | 128-byte lines of loads and stores | 1 (a tag lookup) |
//! | L2 | bytes that CTAs load, each tile once, and store | 64 |
//! | DRAM | the tensors once | what the device's memory moves in all |
//!
//! Where a request's sectors hold fewer requested bytes than a sector has, each sector is taken to lie in a line of its
//! own; the sectors of other requests are taken to fill lines.
//!
//! Left out: latency that too few warps hide, instructions that wait for one another, bank conflicts of registers, power.

use ptx_sim::{BufferCount, Counters, InstClass};

/// A GPU's rates, of one multiprocessor and cycle where not said otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Gpu {
    /// Multiprocessors.
    pub multiprocessors: f64,
    /// Their clock.
    pub clock_hz: f64,
    /// Lanes of f32 multiply-adds.
    pub fma_lanes: f64,
    /// Bytes a second of all of the device's memory; 0 if unknown.
    pub dram: f64,
}

impl Gpu {
    /// An H200 at its highest clock: NVIDIA's data sheet.
    pub const H200: Gpu = Gpu { multiprocessors: 132.0, clock_hz: 1.98e9, fma_lanes: 128.0, dram: 4.8e12 };
}

/// What a launch does, in all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// CTAs.
    pub ctas: f64,
    /// Warps' fused multiply-adds.
    pub fma: f64,
    /// Wavefronts of loads from and stores to shared memory.
    pub shared_wavefronts: f64,
    /// Lines looked up in L1.
    pub lines: f64,
    /// Bytes loaded and stored.
    pub bytes: f64,
}

impl Work {
    /// What the simulator counted. Bytes are those of all sectors, what is loaded again included.
    pub fn counted(counters: &Counters) -> Work {
        let sectors = counters.global_load.sectors + counters.global_store.sectors;
        let of = |b: &BufferCount| lines(b.count.requests, b.count.sectors, b.count.bytes);
        Work {
            ctas: counters.ctas as f64,
            fma: counters.class(InstClass::Fma).warp as f64,
            shared_wavefronts: (counters.shared_load.wavefronts + counters.shared_store.wavefronts) as f64,
            lines: counters.buffers.iter().map(of).sum(),
            bytes: 32.0 * sectors as f64,
        }
    }

    /// The work at depth `k`, from that at two depths: each CTA does something once, and something a step of K.
    pub fn at_depth(first: (usize, Work), second: (usize, Work), k: usize) -> Work {
        let along = (k as f64 - first.0 as f64) / (second.0 as f64 - first.0 as f64);
        let (a, b) = (first.1, second.1);
        let line = |a: f64, b: f64| a + (b - a) * along;
        Work {
            ctas: line(a.ctas, b.ctas),
            fma: line(a.fma, b.fma),
            shared_wavefronts: line(a.shared_wavefronts, b.shared_wavefronts),
            lines: line(a.lines, b.lines),
            bytes: line(a.bytes, b.bytes),
        }
    }

    /// The work of `factor` as many CTAs.
    pub fn times(self, factor: f64) -> Work {
        Work {
            ctas: self.ctas * factor,
            fma: self.fma * factor,
            shared_wavefronts: self.shared_wavefronts * factor,
            lines: self.lines * factor,
            bytes: self.bytes * factor,
        }
    }
}

/// Lines of requests that touch `sectors` sectors for `bytes` requested bytes: at most a line a sector.
pub fn lines(requests: u64, sectors: u64, bytes: u64) -> f64 {
    let sparse = bytes < 32 * sectors && sectors > 4 * requests;
    if sparse { sectors as f64 } else { (sectors as f64 / 4.0).max(requests as f64) }
}

/// The resource that takes longest, and how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// The resource.
    pub bound: &'static str,
    /// The least that the launch takes.
    pub seconds: f64,
}

/// Seconds that each resource takes, were it the only one. `issued` and `compulsory` as for [`predict`].
pub fn times(gpu: &Gpu, work: &Work, issued: f64, compulsory: f64) -> [(&'static str, f64); 6] {
    let cycles = |count: f64, rate: f64| count / (gpu.multiprocessors * rate * gpu.clock_hz);
    let last_round = (work.ctas / gpu.multiprocessors).ceil() * gpu.multiprocessors / work.ctas;
    let dram = if gpu.dram > 0.0 { compulsory / gpu.dram } else { 0.0 };
    [
        ("FMA pipe", cycles(work.fma, gpu.fma_lanes / 32.0) * last_round),
        ("issue", cycles(issued, 4.0) * last_round),
        ("shared memory", cycles(work.shared_wavefronts, 1.0) * last_round),
        ("L1", cycles(work.lines, 1.0) * last_round),
        ("L2", cycles(work.bytes, 64.0) * last_round),
        ("DRAM", dram),
    ]
}

/// Predicts a launch. `issued`: warps' instructions, such as [`Work::fma`] divided by the share that multiply-adds have of
/// the hot loop's machine instructions. `compulsory`: bytes of the tensors.
pub fn predict(gpu: &Gpu, work: &Work, issued: f64, compulsory: f64) -> Prediction {
    let times = times(gpu, work, issued, compulsory);
    let (bound, seconds) = times.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("six resources");
    Prediction { bound, seconds }
}

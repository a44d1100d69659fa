//! `--schedule auto-size`: which schedule for which size.
//!
//! The rule: of the candidates below, the one that is done first by this estimate. A CTA computes a whole tile, its ragged
//! edge too, over its share of K. The busiest multiprocessor has n = ⌈CTAs / multiprocessors⌉ to do, up to `resident` at
//! once. With `resident` of them it reaches its `share` of the FMA peak; one `alone` hides less latency and reaches less,
//! and what lies between is taken to lie on a line:
//!
//! ```text
//! time = rows·columns·⌈K / parts⌉ / peak · ( resident·⌊n / resident⌋ / share  +  r / rate(r) )  +  meeting
//! rate(r) = alone + (share − alone)·(r − 1) / (resident − 1)                         r = n mod resident
//! meeting = 0.6 µs · MB of parts  +  16 ns · sums a thread · log₂ parts     (0.35 µs · MB where they are added to C)
//! ```
//!
//! - *Large*: the quotient of tiles hardly rounds, so the highest share wins.
//! - *Small*: large tiles are fewer than multiprocessors, and smaller ones put more of these to work; so do parts of K.
//! - *Skinny* (M or N below a tile's side): most of a large tile is edge, and a narrow one wastes less.
//! - *K-heavy*: few tiles and a long K leave multiprocessors idle, until several CTAs share a tile's K.
//! - *Ragged* (N or K no multiple of four): rows are not 16-byte aligned, so there are neither vectors nor 16-byte copies,
//!   and schedules that live from these lose more: shares are scaled to what they reach then.
//!
//! The constants of `meeting` are fitted to 64×4096×4096, 128×8192×8192, 1024×1024×1024 and 512×512×512 on an H200.
//! Schedules that add parts to C are considered only by `auto-size-atomic`: their rounding changes from run to run.

use crate::{common::peak::fma_per_cycle, kernel};
use tile_dsl::program::Program;
use tilewright::{AnySchedule, DType, GpuInfo};

/// What `--schedule` calls the rule.
pub const NAME: &str = "auto-size";
/// The rule with schedules that add up in any order.
pub const ATOMIC: &str = "auto-size-atomic";

/// A schedule to choose from. Shares are of the f32 FMA peak of the multiprocessors that have a tile, measured on an H200.
pub struct Candidate {
    pub schedule: &'static dyn AnySchedule,
    /// Tile of C that a CTA computes, and the tile of K that it steps by.
    pub tile: [usize; 3],
    /// Sums that a thread holds.
    pub sums: usize,
    /// CTAs that a multiprocessor holds at once.
    pub resident: usize,
    /// CTAs that share a tile's K.
    pub parts: usize,
    /// Their parts are added to C.
    pub atomic: bool,
    /// Share with `resident` CTAs on each multiprocessor: 4096×4096×4096, 8192×8192×8192 for `ragged`.
    pub share: f64,
    /// Share with one: 1024×1024×1024, and 512×512×512 for tiles of 64.
    pub alone: f64,
    /// Share where vectors are impossible: 4095×4097×4093, or 8191×8191×8191 where that leaves a round of tiles unfilled.
    pub ragged: f64,
}

const BEST: Candidate = Candidate {
    schedule: &kernel::best,
    tile: [128, 256, 16],
    sums: 128,
    resident: 1,
    parts: 1,
    atomic: false,
    share: 0.818,
    alone: 0.818,
    ragged: 0.655,
};
const NARROW: Candidate = Candidate {
    schedule: &kernel::narrow,
    tile: [64, 256, 16],
    resident: 2,
    share: 0.790,
    alone: 0.474,
    ragged: 0.624,
    ..BEST
};
const PREFETCHED: Candidate = Candidate {
    schedule: &kernel::prefetched,
    tile: [128, 128, 16],
    sums: 64,
    resident: 2,
    share: 0.769,
    alone: 0.669,
    ragged: 0.662,
    ..BEST
};
const SMALL: Candidate = Candidate {
    schedule: &kernel::small,
    tile: [64, 128, 16],
    resident: 4,
    share: 0.768,
    alone: 0.418,
    ragged: 0.655,
    ..PREFETCHED
};

/// The candidates; of equals, the first is chosen.
#[rustfmt::skip]
pub const CANDIDATES: &[Candidate] = &[
    BEST,
    PREFETCHED,
    SMALL,
    Candidate { schedule: &kernel::small_split4, parts: 4, ..SMALL },
    Candidate { schedule: &kernel::small_split16, parts: 16, ..SMALL },
    Candidate { schedule: &kernel::small_split64, parts: 64, ..SMALL },
    Candidate { schedule: &kernel::ragged, share: 0.714, alone: 0.676, ragged: 0.728, ..PREFETCHED },
    Candidate { schedule: &kernel::ragged_split4, parts: 4, share: 0.752, ragged: 0.711, ..SMALL },
    NARROW,
    Candidate { schedule: &kernel::narrow_split4, parts: 4, ..NARROW },
    Candidate { schedule: &kernel::narrow_added4, parts: 4, atomic: true, ..NARROW },
    Candidate { schedule: &kernel::narrow_added16, parts: 16, atomic: true, ..NARROW },
    Candidate { schedule: &kernel::double_buffered, share: 0.731, alone: 0.642, ragged: 0.687, ..PREFETCHED },
    Candidate { schedule: &kernel::warptile, tile: [128, 128, 32], share: 0.694, alone: 0.576, ragged: 0.671, ..PREFETCHED },
    Candidate { schedule: &kernel::vectorized, tile: [128, 128, 8], share: 0.602, alone: 0.368, ragged: 0.541, ..PREFETCHED },
    Candidate { schedule: &kernel::blocktile_1d, tile: [64, 64, 8], sums: 8, resident: 3, share: 0.301, alone: 0.142, ragged: 0.253, ..PREFETCHED },
    Candidate { schedule: &kernel::shared, tile: [32, 32, 64], sums: 1, share: 0.133, alone: 0.067, ragged: 0.127, ..PREFETCHED },
];

/// Multiprocessors, their lanes and their clock assumed where there is no GPU to ask: an H200's.
const MULTIPROCESSORS: usize = 132;
const LANES: u32 = 128;
const CLOCK_MHZ: f64 = 1980.0;

/// The schedule for C[M,N] = A[M,K]·B[K,N] on a GPU (`None`: on the simulator).
///
/// Only schedules that admit the element type and that the GPU runs are considered; those that add up in any order only
/// with `atomic`.
pub fn by_size(
    size: [usize; 3],
    dtype: DType,
    gpu: Option<&GpuInfo>,
    atomic: bool,
) -> &'static dyn AnySchedule {
    let multiprocessors = gpu.map_or(MULTIPROCESSORS, |gpu| gpu.multiprocessors.max(1) as usize);
    let lanes = gpu.and_then(|gpu| fma_per_cycle(gpu.sm, DType::F32)).unwrap_or(LANES);
    let clock = gpu.map(|gpu| gpu.max_clock_mhz).filter(|mhz| *mhz > 0.0).unwrap_or(CLOCK_MHZ);
    let time = |c: &&Candidate| c.microseconds(size, multiprocessors, f64::from(lanes) * clock);
    CANDIDATES
        .iter()
        .filter(|c| (atomic || !c.atomic) && runs(c.schedule, dtype, gpu))
        .min_by(|a, b| time(a).total_cmp(&time(b)))
        .map_or(&kernel::naive, |c| c.schedule)
}

impl Candidate {
    /// The estimate of the module's documentation. `peak`: multiply-adds a microsecond of one multiprocessor.
    pub fn microseconds(&self, [m, n, k]: [usize; 3], multiprocessors: usize, peak: f64) -> f64 {
        let [rows, columns, depth] = self.tile;
        let ctas = m.div_ceil(rows).saturating_mul(n.div_ceil(columns)).saturating_mul(self.parts);
        let busiest = ctas.div_ceil(multiprocessors);
        let rest = busiest % self.resident;
        let rate = match self.resident {
            1 => self.share,
            _ => self.alone + (self.share - self.alone) * (rest as f64 - 1.0) / (self.resident as f64 - 1.0),
        };
        let last = if rest == 0 { 0.0 } else { rest as f64 / rate };
        let aligned = n.is_multiple_of(4) && k.is_multiple_of(4);
        let scale = if aligned { 1.0 } else { self.ragged / self.share };
        let steps = k.div_ceil(depth).div_ceil(self.parts).saturating_mul(depth);
        let fma = (rows * columns) as f64 * steps as f64;
        let computing = fma / peak * ((busiest - rest) as f64 / self.share + last) / scale;
        computing + self.meeting(ctas)
    }

    /// Microseconds until the parts of all tiles are one.
    fn meeting(&self, ctas: usize) -> f64 {
        let megabytes = ctas as f64 * (self.tile[0] * self.tile[1] * 4) as f64 / 1e6;
        match (self.parts, self.atomic) {
            (1, _) => 0.0,
            (_, true) => 0.35 * megabytes,
            (parts, false) => 0.6 * megabytes + 0.016 * self.sums as f64 * (parts as f64).log2(),
        }
    }
}

/// Whether a schedule admits the type and its target is one that the GPU runs.
fn runs(schedule: &dyn AnySchedule, dtype: DType, gpu: Option<&GpuInfo>) -> bool {
    let Some(Ok(program)) = schedule.program(Some(dtype)).map(Program::from_bytes) else { return false };
    let target = program.schedule.target;
    gpu.is_none_or(|gpu| if target.specific { gpu.sm == target.sm } else { gpu.sm >= target.sm })
}

//! `--schedule auto-size`: which schedule for which size.
//!
//! The rule: of the candidates below, the one whose slowest multiprocessor is done first. A CTA computes a whole tile, its
//! ragged edge too, so the busiest multiprocessor has n = ⌈CTAs / multiprocessors⌉ tiles to do, up to `resident` at once.
//! With `resident` of them it reaches its `share` of the FMA peak; one `alone` hides less latency and reaches less, and what
//! lies between is taken to lie on a line:
//!
//! ```text
//! time ∝ rows·columns·( resident·⌊n / resident⌋ / share  +  r / rate(r) )     r = n mod resident
//! rate(r) = alone + (share − alone)·(r − 1) / (resident − 1)
//! ```
//!
//! - *Large*: the quotient of tiles hardly rounds, so the highest share wins.
//! - *Small*: large tiles are fewer than multiprocessors, and smaller ones put more of these to work.
//! - *Skinny* (M or N below a tile's side): most of a large tile is edge, and a narrow one wastes less.
//! - *K-heavy*: K is the same factor for all candidates, so it decides nothing as long as no candidate splits K.
//! - *Ragged* (N or K no multiple of four): rows are not 16-byte aligned, so there are neither vectors nor 16-byte copies,
//!   and schedules that live from these lose more: shares are scaled to what they reach then.

use crate::kernel;
use tile_dsl::program::Program;
use tilewright::{AnySchedule, DType, GpuInfo};

/// What `--schedule` calls the rule.
pub const NAME: &str = "auto-size";

/// A schedule to choose from. Shares are of the f32 FMA peak of the multiprocessors that have a tile, measured on an H200.
pub struct Candidate {
    pub schedule: &'static dyn AnySchedule,
    /// Tile of C that a CTA computes.
    pub rows: usize,
    pub columns: usize,
    /// CTAs that a multiprocessor holds at once.
    pub resident: usize,
    /// Share with that many: 8192×8192×8192.
    pub share: f64,
    /// Share with one: 1024×1024×1024, and 64×4096×4096 for tiles of 64.
    pub alone: f64,
    /// Share where vectors are impossible: 4095×4097×4093.
    pub ragged: f64,
}

/// The candidates; of equals, the first is chosen.
#[rustfmt::skip]
pub const CANDIDATES: &[Candidate] = &[
    Candidate { schedule: &kernel::best,            rows: 128, columns: 256, resident: 1, share: 0.829, alone: 0.829, ragged: 0.262 },
    Candidate { schedule: &kernel::prefetched,      rows: 128, columns: 128, resident: 2, share: 0.769, alone: 0.660, ragged: 0.685 },
    Candidate { schedule: &kernel::double_buffered, rows: 128, columns: 128, resident: 2, share: 0.731, alone: 0.633, ragged: 0.673 },
    Candidate { schedule: &kernel::warptile,        rows: 128, columns: 128, resident: 2, share: 0.694, alone: 0.572, ragged: 0.664 },
    Candidate { schedule: &kernel::vectorized,      rows: 128, columns: 128, resident: 2, share: 0.602, alone: 0.368, ragged: 0.541 },
    Candidate { schedule: &kernel::blocktile_1d,    rows: 64,  columns: 64,  resident: 3, share: 0.301, alone: 0.142, ragged: 0.253 },
    Candidate { schedule: &kernel::shared,          rows: 32,  columns: 32,  resident: 2, share: 0.133, alone: 0.067, ragged: 0.127 },
];

/// Multiprocessors assumed where there is no GPU to ask: an H200's.
const MULTIPROCESSORS: usize = 132;

/// The schedule for C[M,N] = A[M,K]·B[K,N] on a GPU (`None`: on the simulator).
///
/// Only schedules that admit the element type and that the GPU runs are considered.
pub fn by_size([m, n, k]: [usize; 3], dtype: DType, gpu: Option<&GpuInfo>) -> &'static dyn AnySchedule {
    let multiprocessors = gpu.map_or(MULTIPROCESSORS, |gpu| gpu.multiprocessors.max(1) as usize);
    let cost = |c: &&Candidate| c.cost([m, n, k], multiprocessors);
    CANDIDATES
        .iter()
        .filter(|c| runs(c.schedule, dtype, gpu))
        .min_by(|a, b| cost(a).total_cmp(&cost(b)))
        .map_or(&kernel::naive, |c| c.schedule)
}

impl Candidate {
    /// What the time is proportional to.
    fn cost(&self, [m, n, k]: [usize; 3], multiprocessors: usize) -> f64 {
        let ctas = m.div_ceil(self.rows).saturating_mul(n.div_ceil(self.columns));
        let tiles = ctas.div_ceil(multiprocessors);
        let rest = tiles % self.resident;
        let rate = match self.resident {
            1 => self.share,
            _ => self.alone + (self.share - self.alone) * (rest as f64 - 1.0) / (self.resident as f64 - 1.0),
        };
        let last = if rest == 0 { 0.0 } else { rest as f64 / rate };
        let aligned = n.is_multiple_of(4) && k.is_multiple_of(4);
        let scale = if aligned { 1.0 } else { self.ragged / self.share };
        (self.rows * self.columns) as f64 * ((tiles - rest) as f64 / self.share + last) / scale
    }
}

/// Whether a schedule admits the type and its target is one that the GPU runs.
fn runs(schedule: &dyn AnySchedule, dtype: DType, gpu: Option<&GpuInfo>) -> bool {
    let Some(Ok(program)) = schedule.program(Some(dtype)).map(Program::from_bytes) else { return false };
    let target = program.schedule.target;
    gpu.is_none_or(|gpu| if target.specific { gpu.sm == target.sm } else { gpu.sm >= target.sm })
}

//! `--schedule auto-size`: which schedule for which size.
//!
//! The rule: of the candidates below, the one whose slowest multiprocessor is done first. A CTA computes a whole tile, its
//! ragged edge too, so a multiprocessor has ⌈CTAs / multiprocessors⌉ tiles to do, each `rows`·`columns`·K products at the
//! share of the peak that the schedule reaches on large sizes:
//!
//! ```text
//! time ∝ ⌈⌈M/rows⌉·⌈N/columns⌉ / multiprocessors⌉ · rows·columns / share
//! ```
//!
//! - *Large*: the quotient of tiles hardly rounds, so the highest share wins.
//! - *Small*: large tiles are fewer than multiprocessors, and smaller ones put more of these to work.
//! - *Skinny* (M or N below a tile's side): most of a large tile is edge, and a narrow one wastes less.
//! - *K-heavy*: K is the same factor for all candidates, so it decides nothing as long as no candidate splits K.
//!
//! What it leaves out: that a multiprocessor with one CTA hides less latency than one with two, and memory traffic.

use crate::kernel;
use tile_dsl::program::Program;
use tilewright::{AnySchedule, DType, GpuInfo};

/// What `--schedule` calls the rule.
pub const NAME: &str = "auto-size";

/// A schedule to choose from.
pub struct Candidate {
    pub schedule: &'static dyn AnySchedule,
    /// Tile of C that a CTA computes.
    pub rows: usize,
    pub columns: usize,
    /// Share of the FMA peak on large sizes, measured: `docs/performance.md`.
    pub share: f64,
}

/// The candidates; of equals, the first is chosen.
pub const CANDIDATES: &[Candidate] = &[
    Candidate { schedule: &kernel::double_buffered, rows: 128, columns: 256, share: 0.69 },
    Candidate { schedule: &kernel::warptile, rows: 128, columns: 128, share: 0.56 },
    Candidate { schedule: &kernel::vectorized, rows: 128, columns: 128, share: 0.58 },
    Candidate { schedule: &kernel::blocktile_1d, rows: 64, columns: 64, share: 0.26 },
    Candidate { schedule: &kernel::shared, rows: 32, columns: 32, share: 0.13 },
];

/// Multiprocessors assumed where there is no GPU to ask: an H200's.
pub const MULTIPROCESSORS: usize = 132;

/// The schedule for an M×N result on a GPU (`None`: on the simulator); K decides nothing yet.
///
/// Only schedules that admit the element type and that the GPU runs are considered.
pub fn by_size(m: usize, n: usize, dtype: DType, gpu: Option<&GpuInfo>) -> &'static dyn AnySchedule {
    let multiprocessors = gpu.map_or(MULTIPROCESSORS, |gpu| gpu.multiprocessors.max(1) as usize);
    let cost = |c: &Candidate| {
        let ctas = m.div_ceil(c.rows).saturating_mul(n.div_ceil(c.columns));
        ctas.div_ceil(multiprocessors) as f64 * (c.rows * c.columns) as f64 / c.share
    };
    CANDIDATES
        .iter()
        .filter(|c| runs(c.schedule, dtype, gpu))
        .min_by(|a, b| cost(a).total_cmp(&cost(b)))
        .map_or(&kernel::naive, |c| c.schedule)
}

/// Whether a schedule admits the type and its target is one that the GPU runs.
fn runs(schedule: &dyn AnySchedule, dtype: DType, gpu: Option<&GpuInfo>) -> bool {
    let Some(Ok(program)) = schedule.program(Some(dtype)).map(Program::from_bytes) else { return false };
    let target = program.schedule.target;
    gpu.is_none_or(|gpu| if target.specific { gpu.sm == target.sm } else { gpu.sm >= target.sm })
}

//! `--schedule auto-size`: which schedule for which size, by the estimates of [`tile_bench::choose`] and, where warpgroups multiply,
//! of [`tile_bench::products`].
//!
//! Schedules that add parts to C are considered only by `auto-size-atomic`: their rounding changes from run to run.
//! `auto-timed` launches those that the estimate gives nearly the least time, and takes the fastest.

use crate::kernel;
use tile_bench::{
    choose::{self, Candidate, dims, shortlist},
    products,
};
use tilewright::{AnySchedule, DType, GpuInfo};

/// What `--schedule` calls the rule.
pub const NAME: &str = "auto-size";
/// The rule with schedules that add up in any order.
pub const ATOMIC: &str = "auto-size-atomic";
/// The rule that times what the estimate cannot tell apart.
pub const TIMED: &str = "auto-timed";

/// What is timed: schedules with estimates of up to so many times the least one, so many at most. At 675 sizes on an H100 they
/// were 5.6 in the mean, the fastest of 28 among them or one that takes at most 4.3 % longer (docs/notebook/2026-11-27-size-rule.md).
const NEAR: (f64, usize) = (1.4, 8);

/// Measured on an H200. `share`: 4096×4096×4096; `alone`: 1024×1024×1024, and 512×512×512 for tiles of 64; `ragged`:
/// 4095×4097×4093, or 8191×8191×8191 where that leaves a round of tiles unfilled.
const BEST: Candidate =
    Candidate { schedule: &kernel::best, registers: 226, share: 0.818, alone: 0.818, ragged: 0.655 };
const NARROW: Candidate =
    Candidate { schedule: &kernel::narrow, registers: 229, share: 0.790, alone: 0.474, ragged: 0.624 };
const PREFETCHED: Candidate =
    Candidate { schedule: &kernel::prefetched, registers: 124, share: 0.769, alone: 0.669, ragged: 0.662 };
const SMALL: Candidate =
    Candidate { schedule: &kernel::small, share: 0.768, alone: 0.418, ragged: 0.655, ..PREFETCHED };

/// The candidates; of equals, the first is chosen.
#[rustfmt::skip]
pub const CANDIDATES: &[Candidate] = &[
    BEST,
    PREFETCHED,
    SMALL,
    Candidate { schedule: &kernel::small_split4, ..SMALL },
    // Not timed without vectors: never chosen there.
    Candidate { schedule: &kernel::small_clustered4, share: 0.700, alone: 0.350, ragged: 0.1, ..SMALL },
    Candidate { schedule: &kernel::tiny, registers: 94, share: 0.384, alone: 0.305, ragged: 0.1 },
    Candidate { schedule: &kernel::flat_split16, registers: 128, share: 0.740, alone: 0.483, ragged: 0.1 },
    Candidate { schedule: &kernel::small_split16, ..SMALL },
    Candidate { schedule: &kernel::small_split64, ..SMALL },
    Candidate { schedule: &kernel::ragged, share: 0.714, alone: 0.676, ragged: 0.728, ..PREFETCHED },
    Candidate { schedule: &kernel::ragged_split4, share: 0.752, ragged: 0.711, ..SMALL },
    NARROW,
    Candidate { schedule: &kernel::narrow_split4, ..NARROW },
    Candidate { schedule: &kernel::narrow_added4, ..NARROW },
    Candidate { schedule: &kernel::narrow_added16, ..NARROW },
    Candidate { schedule: &kernel::double_buffered, share: 0.731, alone: 0.642, ragged: 0.687, ..PREFETCHED },
    Candidate { schedule: &kernel::warptile, share: 0.694, alone: 0.576, ragged: 0.671, ..PREFETCHED },
    Candidate { schedule: &kernel::vectorized, registers: 109, share: 0.602, alone: 0.368, ragged: 0.541 },
    Candidate { schedule: &kernel::blocktile_1d, registers: 40, share: 0.301, alone: 0.142, ragged: 0.253 },
    Candidate { schedule: &kernel::shared, registers: 32, share: 0.133, alone: 0.067, ragged: 0.127 },
];

/// Schedules of warpgroups' products, which have tiles of all shapes; of equals, the first is chosen.
pub const PRODUCTS: &[&dyn AnySchedule] = &[
    &kernel::wgmma_best,
    &kernel::light_barriers,
    &kernel::pingpong192,
    &kernel::pingpong128,
    &kernel::tile192,
    &kernel::tile128x192,
    &kernel::tile192x96,
    &kernel::tile128,
    &kernel::shared_by4,
    &kernel::swapped160,
    &kernel::swapped152,
    &kernel::tile64x128,
    &kernel::tile64,
    &kernel::tile64_clustered2,
    &kernel::tile64x128_clustered2,
    &kernel::tile64x128_split4,
    &kernel::cluster,
    // What the estimate cannot tell from one above: `auto-timed` can.
    &kernel::hilbert,
    &kernel::tile128x256,
    &kernel::tma_wgmma,
];

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
    ranked(size, dtype, gpu, atomic).first().map_or(&kernel::naive, |(schedule, _)| *schedule)
}

/// Those that [`TIMED`] times, the one of [`by_size`] first. Their results have the same bits in every run.
pub fn near(size: [usize; 3], dtype: DType, gpu: Option<&GpuInfo>) -> Vec<&'static dyn AnySchedule> {
    let (factor, most) = NEAR;
    shortlist(&ranked(size, dtype, gpu, false), factor, most)
}

fn ranked(
    [m, n, k]: [usize; 3],
    dtype: DType,
    gpu: Option<&GpuInfo>,
    atomic: bool,
) -> Vec<(&'static dyn AnySchedule, f64)> {
    let dims = dims(&[("M", m), ("N", n), ("K", k)]);
    let products = products::ranked(PRODUCTS, &dims, dtype, gpu);
    if !products.is_empty() {
        return products;
    }
    let candidates = choose::ranked(CANDIDATES, &dims, Some(dtype), gpu, atomic);
    candidates.into_iter().map(|(candidate, time)| (candidate.schedule, time)).collect()
}

//! Which of several schedules whose products warpgroups compute (`wgmma`), for a size: the one that is done first by an
//! estimate of what the tensor cores and the copies of a multiprocessor take.
//!
//! ```text
//! cycles = rounds · (main + edge) · energy + 0.06·m·n,   rounds = ⌈tiles · parts / multiprocessors⌉
//!          (of tiles of two sizes the rounds of either, whole ones first)
//! main   = ⌈K / parts⌉ · max(m·n / rate, bytes·(m + n) / ingest)                    m × n: the tile of a CTA
//! edge   = 0.06·m·n, of a tile that its threads compute together;
//!          max(100, 0.11·m·n − main), where groups of them take turns, of which one stores while another multiplies
//! energy = 1 + 0.05·(85.3·(m + n) / (m·n) − 1): a GPU at its power limit lowers its clock, and each byte from L2 costs
//! ```
//! `rate` is the multiply-adds a cycle of a multiprocessor, `bytes` the size of an element, and 80 bytes a cycle are what one
//! takes in; 40 where rows are no multiples of 32 bytes apart, so that each row of a box crosses sectors: so that tiles by clusters,
//! which are the fast ones there, come in the order measured at 5000³; those without take in 28 to 32 (2026-11-25). Of what a cluster
//! shares each CTA reads its part, but its CTAs wait for one another (1.5 %), and clusters of four or more leave some
//! multiprocessors of a GPC over (120 of 132 are used). Two groups that share a tile wait for one another, too (1 %), three
//! longer (5 %). Boxes of less than 128 bytes a row take longer (15 %), and so do sizes that are no multiples of the tile,
//! whose stores ask where the end is (0.5 %). CTAs that take tile after tile begin 0.3 µs later. Where CTAs share a tile's K, their
//! meeting is added ([`super::choose`]), and 1 µs if it is in global memory (512×512 by 4096 to 32768, 2026-11-24).
//!
//! The constants are fitted to 52 bf16 products on an H200 (driver 580, random normal data), from 512 to 16384 cubed and
//! flat, narrow and deep ones, by kernels written by hand with such tiles and roles; those of energy, of rows within sectors,
//! of groups, of ends, of persistent CTAs and of clusters to what schedules make of such products (2026-11-23): for each of
//! 16 sizes the choice is within 1 % of the fastest of those that it chooses among and that were timed there.

use crate::{
    choose::{Dims, Shape, fixed, meeting, runs},
    peak::fma_per_cycle,
};
use tile_dsl::dtype::DType;
use tile_runtime::{AnySchedule, GpuInfo};

/// Bytes that a multiprocessor takes in from L2 in a cycle.
const INGEST: f64 = 80.0;
/// The same where rows of tensors begin within sectors.
const INGEST_ACROSS: f64 = 40.0;
/// Bytes of a sector.
const SECTOR: usize = 32;
/// What tensor maps address; other rows are copied to padded ones first.
const ADDRESSED: usize = 16;
/// How much longer CTAs take that wait for one another.
const WAITING: f64 = 1.015;
/// How much longer two groups take that compute a tile together.
const TOGETHER: f64 = 1.01;
/// How much longer stores take that ask for the end.
const GUARDED: f64 = 1.005;
/// How much longer three groups or more take that compute a tile together.
const THREE_GROUPS: f64 = 1.05;
/// Threads beside a warpgroup that copies, of two groups.
const TWO_GROUPS: u32 = 384;
/// How much longer copies take of whose rows a box has less than 128 bytes.
const NARROW_BOXES: f64 = 1.15;
/// Bytes of a row of a box that is swizzled over all banks.
const WHOLE: usize = 128;
/// Microseconds until persistent CTAs know their tiles.
const PERSISTING: f64 = 0.3;
/// Microseconds that a meeting in global memory takes beside what it does on CUDA cores: a copying warp and a CTA alone on its
/// multiprocessor leave nothing to hide it behind.
const IN_MEMORY: f64 = 1.0;
/// What a byte from L2 costs, beside a multiply-add.
const ENERGY: f64 = 0.05;
/// Part of the multiprocessors that clusters of four or more reach.
const REACHED: f64 = 120.0 / 132.0;

/// What of an estimate belongs to the GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tensor {
    /// Multiprocessors.
    pub multiprocessors: usize,
    /// Multiply-adds a cycle of one of them.
    pub rate: f64,
    /// Cycles a microsecond.
    pub mhz: f64,
}

impl Tensor {
    /// Of a GPU for an element type; what is not known of it, or where there is none, is an H200's.
    pub fn of(gpu: Option<&GpuInfo>, dtype: DType) -> Self {
        let rate = gpu.and_then(|gpu| fma_per_cycle(gpu.sm, dtype)).unwrap_or(2048);
        let mhz = gpu.map(|gpu| gpu.max_clock_mhz).filter(|mhz| *mhz > 0.0).unwrap_or(1980.0);
        let multiprocessors = gpu.map_or(132, |gpu| gpu.multiprocessors.max(1) as usize);
        Tensor { multiprocessors, rate: rate.into(), mhz }
    }
}

/// The schedule that is done first, of those that admit the element type, that the GPU runs (`None`: the simulator, which
/// runs all) and that are of products of warpgroups. Of equals, the first; `None` when none is left.
pub fn choose<'a>(
    schedules: &[&'a dyn AnySchedule],
    dims: &Dims,
    dtype: DType,
    gpu: Option<&GpuInfo>,
) -> Option<&'a dyn AnySchedule> {
    let tensor = Tensor::of(gpu, dtype);
    let estimated = schedules.iter().filter_map(|schedule| {
        let fixed = fixed(schedule.program(Some(dtype))?)?;
        let (target, shape) = &*fixed;
        let considered = shape.products && gpu.is_none_or(|gpu| runs(gpu, *target));
        considered.then(|| (*schedule, microseconds(shape, dims, dtype, tensor)))
    });
    estimated.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(schedule, _)| schedule)
}

/// The estimate of the module's documentation; infinite where a dim has no value.
pub fn microseconds(shape: &Shape, dims: &Dims, dtype: DType, tensor: Tensor) -> f64 {
    let tiles = shape.sizes(dims).zip(shape.steps(dims));
    let Some(([whole, narrow], steps)) = tiles else { return f64::INFINITY };
    let (parts, last) = (shape.parts as usize, shape.last());
    let ctas = whole.saturating_add(narrow).saturating_mul(parts);
    let reached = match shape.cluster {
        None | Some((2..4, _)) => 1.0,
        Some(_) => REACHED,
    };
    let multiprocessors = (tensor.multiprocessors as f64 * reached) as usize;
    let rounds = ctas.div_ceil(multiprocessors.max(1));
    // Whole tiles come first.
    let of_whole = whole.saturating_mul(parts).div_ceil(ctas.div_ceil(rounds.max(1)).max(1)).min(rounds);
    let depth: usize = shape.summed.iter().map(|t| t.tile as usize).product();
    let depth = steps.div_ceil(parts).saturating_mul(depth) as f64;
    let cycles = of_whole as f64 * tile_cycles(shape, depth, dims, dtype, tensor)
        + (rounds - of_whole) as f64 * tile_cycles(&last, depth, dims, dtype, tensor);
    // Nothing hides the store of the last tile.
    let cycles = cycles + 0.06 * last.area();
    let persisting = if shape.persistent { PERSISTING } else { 0.0 };
    let in_memory = if parts > 1 && !shape.meets { IN_MEMORY } else { 0.0 };
    cycles / tensor.mhz + persisting + meeting(shape, ctas) + in_memory
}

/// Cycles of a tile of so many points of K.
fn tile_cycles(shape: &Shape, depth: f64, dims: &Dims, dtype: DType, tensor: Tensor) -> f64 {
    let (area, sides) = (shape.area(), shape.sides());
    let size = dtype.bytes() as usize;
    let across = shape.rows.iter().filter_map(|row| row.eval(dims)).any(|row| {
        let bytes = row.max(0) as usize * size;
        bytes.is_multiple_of(ADDRESSED) && !bytes.is_multiple_of(SECTOR)
    });
    let ingest = if across { INGEST_ACROSS } else { INGEST };
    let bytes = size as f64 * shape.sides_read() / ingest;
    let main = depth * (area / tensor.rate).max(bytes);
    let edge = if shape.turns > 1 { (0.11 * area - main).max(100.0) } else { 0.06 * area };
    let energy = 1.0 + ENERGY * (85.3 * sides / area - 1.0);
    let waiting = if shape.cluster.is_some() { WAITING } else { 1.0 };
    let narrow = shape.owned.last().is_some_and(|axis| !(axis.tile as usize * size).is_multiple_of(WHOLE));
    let boxes = if narrow { NARROW_BOXES } else { 1.0 };
    let groups = match shape.threads {
        TWO_GROUPS if shape.turns == 1 => TOGETHER,
        TWO_GROUPS.. if shape.turns == 1 => THREE_GROUPS,
        _ => 1.0,
    };
    let guarded = if shape.divides(dims) { 1.0 } else { GUARDED };
    (main + edge) * energy * waiting * boxes * groups * guarded
}

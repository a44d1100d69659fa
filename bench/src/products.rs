//! Which of several schedules whose products warpgroups compute (`wgmma`), for a size: the one that is done first by an
//! estimate of what the tensor cores, the copies of a multiprocessor and device memory take.
//!
//! ```text
//! time   = (computing^2.2 + memory^2.2)^(1/2.2)          microseconds
//! memory = bytes of A, B and C / rate of device memory
//! computing = rounds · (main + edge + fill) + 0.06·m·n,   rounds = ⌈tiles · parts / multiprocessors⌉
//!          (of tiles of two sizes the rounds of either, whole ones first)
//! main   = ⌈K / parts⌉ · max(m·n / rate · energy, bytes·(m + n) / ingest)                    m × n: the tile of a CTA
//! edge   = 0.075·m·n, of a tile that its threads compute together;
//!          max(100, 0.074·m·n − main), where groups of them take turns, of which one stores while another multiplies
//! fill   = 6800 cycles until the first products of a CTA; none of a CTA that takes tile after tile
//! energy = 1 + 0.365·busy·(85.3·(m + n) / (m·n) − 1): a GPU at its power limit lowers its clock, and each byte from L2 costs;
//!          busy is the part of the multiprocessors that have a tile
//! ```
//! `rate` is the multiply-adds a cycle of a multiprocessor, `bytes` the size of an element. A multiprocessor takes in 56 bytes a
//! cycle. It takes in fewer of an operand whose rows begin 32 or 16 bytes beside a multiple of 64: each row of a box crosses lines of L2.
//! Of what a cluster shares each CTA reads its part, but its CTAs wait for one another. Tiles are counted in whole clusters, and clusters
//! of four or more leave some multiprocessors of a GPC over (120 of 132 are used). Two groups that share a tile wait for one another, too,
//! three longer. Stores at the end of sizes that are no multiples of the tile ask where the end is. CTAs that take tile after tile begin
//! later. CTAs that share a tile's K meet in a cluster or in global memory.
//!
//! The constants are fitted to 105 bf16 products on an H100 (driver 580, random normal data, 2026-11-26) and to 17 on an H200
//! (2026-11-25), each by all schedules of the example `matmul` for warpgroups: from 384 to 16384 cubed, flat, narrow, deep and shallow
//! ones, with rows that begin at all multiples of 16 bytes. docs/performance.md has sizes that they were not fitted to.

use crate::{
    choose::{Dims, Shape, by_time, fixed, runs},
    peak::fma_per_cycle,
};
use tile_dsl::dtype::DType;
use tile_runtime::{AnySchedule, GpuInfo};

/// Bytes that a multiprocessor takes in from L2 in a cycle.
const INGEST: f64 = 56.0;
/// How much longer that takes where rows begin so many bytes beside a multiple of 64.
const BESIDE: [(usize, f64); 2] = [(16, 1.76), (32, 1.15)];
/// What tensor maps address; other rows are copied to padded ones first.
const ADDRESSED: usize = 16;
/// How much longer CTAs take that wait for one another.
const WAITING: f64 = 1.053;
/// How much longer two groups take that compute a tile together.
const TOGETHER: f64 = 1.045;
/// How much longer stores take that ask for the end.
const GUARDED: f64 = 1.015;
/// How much longer three groups or more take that compute a tile together.
const THREE_GROUPS: f64 = 1.075;
/// How much longer tiles of two sizes take, whose order leaves some CTAs with more of the larger ones.
const UNEVEN: f64 = 1.005;
/// Threads beside a warpgroup that copies, of two groups.
const TWO_GROUPS: u32 = 384;
/// Cycles until the first products of a CTA, with those that a launch takes.
const FILLING: f64 = 6800.0;
/// Cycles a point of a tile that is stored.
const STORED: f64 = 0.075;
/// The same where one group stores while another multiplies; and cycles between two turns, at least.
const STORED_IN_TURNS: (f64, f64) = (0.074, 100.0);
/// Microseconds until persistent CTAs know their tiles, with those that a launch takes.
const PERSISTING: f64 = 4.8;
/// Microseconds that CTAs of a cluster need to meet, and nanoseconds for each point of their tile.
const MEETING: (f64, f64) = (1.7, 0.073);
/// Microseconds that a meeting in global memory takes, those for each megabyte of parts, and those for each sum of a thread
/// and doubling of the parts.
const IN_MEMORY: (f64, f64, f64) = (3.5, 0.34, 0.014);
/// What a byte from L2 costs, beside a multiply-add.
const ENERGY: f64 = 0.365;
/// Part of the highest clock that a multiprocessor has at such work.
const CLOCK: f64 = 0.9;
/// The rate of device memory as far as it delays products, of the nominal one: fitted, so it may exceed it.
const MEMORY: f64 = 1.1;
/// How far copies hide behind products: 1 not at all, infinite wholly.
const HIDING: f64 = 2.2;
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
    /// Bytes a microsecond of device memory.
    pub memory: f64,
}

impl Tensor {
    /// Of a GPU for an element type; what is not known of it, or where there is none, is an H200's.
    pub fn of(gpu: Option<&GpuInfo>, dtype: DType) -> Self {
        let rate = gpu.and_then(|gpu| fma_per_cycle(gpu.sm, dtype)).unwrap_or(2048);
        let known = |of: fn(&GpuInfo) -> f64| gpu.map(of).filter(|value| *value > 0.0);
        let mhz = known(|gpu| gpu.max_clock_mhz).unwrap_or(1980.0);
        let memory = 1e3 * known(|gpu| gpu.memory_gbps).unwrap_or(4800.0);
        let multiprocessors = gpu.map_or(132, |gpu| gpu.multiprocessors.max(1) as usize);
        Tensor { multiprocessors, rate: rate.into(), mhz, memory }
    }
}

/// Schedules with the estimated time of each in microseconds, least first, of equals in their order: those that admit the element
/// type, that the GPU runs (`None`: the simulator, which runs all) and that are of products of warpgroups.
pub fn ranked<'a>(
    schedules: &[&'a dyn AnySchedule],
    dims: &Dims,
    dtype: DType,
    gpu: Option<&GpuInfo>,
) -> Vec<(&'a dyn AnySchedule, f64)> {
    let tensor = Tensor::of(gpu, dtype);
    let estimated = schedules.iter().filter_map(|schedule| {
        let fixed = fixed(schedule.program(Some(dtype))?)?;
        let (target, shape) = &*fixed;
        let considered = shape.products && gpu.is_none_or(|gpu| runs(gpu, *target));
        considered.then(|| (*schedule, microseconds(shape, dims, dtype, tensor)))
    });
    by_time(estimated)
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
    let busy = ctas as f64 / rounds.saturating_mul(multiprocessors).max(1) as f64;
    // Whole tiles come first.
    let of_whole = whole.saturating_mul(parts).div_ceil(ctas.div_ceil(rounds.max(1)).max(1)).min(rounds);
    let depth: usize = shape.summed.iter().map(|t| t.tile as usize).product();
    let depth = steps.div_ceil(parts).saturating_mul(depth) as f64;
    let cycles = of_whole as f64 * tile_cycles(shape, (depth, busy), dims, dtype, tensor)
        + (rounds - of_whole) as f64 * tile_cycles(&last, (depth, busy), dims, dtype, tensor);
    // Nothing hides the store of the last tile.
    let cycles = cycles + 0.06 * last.area();
    let persisting = if shape.persistent { PERSISTING } else { 0.0 };
    let computing = cycles / (tensor.mhz * CLOCK) + persisting + meeting(shape, ctas);
    let memory = shape.bytes(dims, dtype).unwrap_or(f64::INFINITY) / (tensor.memory * MEMORY);
    let uneven = if last == *shape { 1.0 } else { UNEVEN };
    uneven * (computing.powf(HIDING) + memory.powf(HIDING)).powf(HIDING.recip())
}

/// Microseconds until the parts of all tiles are one.
fn meeting(shape: &Shape, ctas: usize) -> f64 {
    if shape.parts == 1 {
        return 0.0;
    }
    if shape.meets {
        return MEETING.0 + MEETING.1 * 1e-3 * shape.area();
    }
    let (least, megabyte, sum) = IN_MEMORY;
    let sums = shape.area() / f64::from(shape.threads);
    least + megabyte * ctas as f64 * shape.area() * 4.0 / 1e6 + sum * sums * f64::from(shape.parts).log2()
}

/// Cycles of a tile of so many points of K, where such a part of the multiprocessors have one.
fn tile_cycles(shape: &Shape, (depth, busy): (f64, f64), dims: &Dims, dtype: DType, tensor: Tensor) -> f64 {
    let (area, sides) = (shape.area(), shape.sides());
    let size = dtype.bytes() as usize;
    let row = |bytes: usize| {
        let beside = bytes.is_multiple_of(ADDRESSED).then(|| bytes & bytes.wrapping_neg());
        BESIDE.iter().find(|(at, _)| Some(*at) == beside).map_or(1.0, |(_, factor)| *factor)
    };
    let bytes = shape.reads().map(|read| {
        let rows = read.rows.iter().filter_map(|extent| extent.eval(dims));
        read.points * size as f64 * rows.map(|n| row(n.max(0) as usize * size)).fold(1.0, f64::max)
    });
    let energy = 1.0 + ENERGY * busy * (85.3 * sides / area - 1.0);
    let main = depth * (area / tensor.rate * energy).max(bytes.sum::<f64>() / INGEST);
    let edge = match shape.turns {
        2.. => (STORED_IN_TURNS.0 * area - main).max(STORED_IN_TURNS.1),
        _ => STORED * area,
    };
    let fill = if shape.persistent { 0.0 } else { FILLING };
    let waiting = if shape.cluster.is_some() { WAITING } else { 1.0 };
    let groups = match shape.threads {
        TWO_GROUPS if shape.turns == 1 => TOGETHER,
        TWO_GROUPS.. if shape.turns == 1 => THREE_GROUPS,
        _ => 1.0,
    };
    let guarded = if shape.divides(dims) { 1.0 } else { GUARDED };
    (main + edge + fill) * waiting * groups * guarded
}

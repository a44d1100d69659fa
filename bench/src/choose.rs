//! Which of several schedules of a kernel for a size: the one that is done first by an estimate.
//!
//! What a schedule fixes is read from the loops and facts of its program ([`Shape`]); a [`Candidate`] adds what was measured of it. A CTA computes
//! a whole tile, its ragged edge too, over its share of what is summed (K: the product of all axes in tiles). The busiest
//! multiprocessor has n = ⌈CTAs / multiprocessors⌉ to do, up to `resident` at once. With `resident` of them it reaches its
//! `share` of the FMA peak; one `alone` hides less latency and reaches less, and what lies between is taken to lie on a
//! line:
//!
//! ```text
//! time = tile·⌈K / parts⌉ / peak · ( resident·⌊n / resident⌋ / share  +  r / rate(r) )  +  meeting
//! rate(r) = alone + (share − alone)·(r − 1) / (resident − 1)                         r = n mod resident
//! meeting = 0.6 µs · MB of parts  +  16 ns · sums a thread · log₂ parts     (0.35 µs · MB where they are added to the result;
//!                                                                            3 µs + 75 ps · elements in a cluster)
//! ```
//! Where a cluster's CTAs share the K of tiles that lie in one row, all of them compute 1.4 times as long.
//!
//! - *Large*: the quotient of tiles hardly rounds, so the highest share wins.
//! - *Small*: large tiles are fewer than multiprocessors, and smaller ones put more of these to work; so do parts of K.
//! - *Skinny* (an extent below a tile's side): most of a large tile is edge, and a narrow one wastes less.
//! - *K-heavy*: few tiles and a long K leave multiprocessors idle, until several CTAs share a tile's K.
//! - *Ragged* (rows no multiple of four elements): rows are not 16-byte aligned, so there are neither vectors nor 16-byte
//!   copies, and schedules that live from these lose more: shares are scaled to what they reach then.
//!
//! The constants of `meeting` are fitted to f32 products of 64×4096×4096, 128×8192×8192, 1024×1024×1024 and 512×512×512 on
//! an H200; those of clusters to 512×512×512, 768×768×768, 32×8192×8192 and 16×4096×16384.

use crate::peak::fma_per_cycle;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};
use tile_dsl::{
    dtype::DType,
    index::{AxisId, Extent},
    kernel::{self, Async, Stmt},
    lower::{LowerError, lower},
    machine::Unit,
    nest::{self, Across, Digit, LoopKind, Nest, Steps, loops},
    program::{Program, Variant},
    schedule::Target,
    tile::{Axis, AxisKind, ElemType},
};
use tile_runtime::{AnySchedule, GpuInfo};
use tile_sass::Limits;

/// A schedule to choose from, with what was measured of it. Shares are of the f32 FMA peak of the multiprocessors that have
/// a tile.
#[derive(Clone, Copy)]
pub struct Candidate {
    /// The schedule.
    pub schedule: &'static dyn AnySchedule,
    /// Registers a thread, which bound the CTAs on a multiprocessor where the schedule does not say `occupancy`.
    pub registers: u32,
    /// Share with as many CTAs as fit on each multiprocessor.
    pub share: f64,
    /// Share with one.
    pub alone: f64,
    /// Share where vectors are impossible.
    pub ragged: f64,
}

/// Architecture whose multiprocessors the shares are measured on.
const MEASURED: &str = "sm_90";

/// How much longer CTAs of a cluster take with parts of a tile where all tiles are in one row.
const ONE_ROW: f64 = 1.4;

/// Tile of an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiled {
    /// Extent of the axis.
    pub extent: Extent,
    /// Points of a tile; 1 where the schedule does not tile it.
    pub tile: u32,
    /// Points after which tiles start over, the last one before with what is left; those of a tile where they are of one size.
    pub period: u32,
}

impl Tiled {
    /// Tiles along the axis: whole ones, and those with what is left of a period; `None` where a dim has no value.
    fn sizes(&self, dims: &Dims) -> Option<[usize; 2]> {
        let extent = self.extent.eval(dims)?.max(0) as u64;
        Some(kernel::tiles(extent, self.tile, self.period).map(|n| n as usize))
    }

    fn tiles(&self, dims: &Dims) -> Option<usize> {
        Some(self.sizes(dims)?.into_iter().sum())
    }
}

/// What a schedule fixes of a launch, as its program has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Program axes: a CTA owns a tile of each.
    pub owned: Vec<Tiled>,
    /// Axes that each CTA goes along in tiles.
    pub summed: Vec<Tiled>,
    /// CTAs that share a tile's sums (`split_k`).
    pub parts: u32,
    /// Their parts are added to the result in any order.
    pub atomic: bool,
    /// They are a cluster, whose CTAs read one another's parts.
    pub meets: bool,
    /// CTAs take tile after tile.
    pub persistent: bool,
    /// Threads in a CTA.
    pub threads: u32,
    /// Bytes of shared memory of a CTA.
    pub shared_bytes: u32,
    /// CTAs that a multiprocessor holds at once by `occupancy`.
    pub occupancy: Option<u32>,
    /// Extents of the tensors' dimensions, and the element type where the kernel fixes it.
    pub tensors: Vec<(Vec<Extent>, Option<DType>)>,
    /// Warpgroups multiply, by asynchronous MMAs.
    pub products: bool,
    /// CTAs of a cluster, which copy once what tiles that are neighbours along a program axis have in common; and which of
    /// `owned` that axis is.
    pub cluster: Option<(u32, usize)>,
    /// Groups of a CTA's threads that take tiles in turn; 1 where all compute a tile together.
    pub turns: u32,
}

/// What a CTA reads for one side of its tile, in each step along what is summed.
#[derive(Clone, Debug, PartialEq)]
pub struct Read<'s> {
    /// Points of the side; of what a cluster shares, this CTA's part of them.
    pub points: f64,
    /// Extents of the rows of memory that hold them: those of the operands along this side alone.
    pub rows: Vec<&'s Extent>,
}

impl Shape {
    /// Reads a program.
    ///
    /// # Errors
    /// When it cannot be lowered.
    pub fn of(program: &Program) -> Result<Self, LowerError> {
        let nest = &program.nest;
        let kernel = lower(program, Variant::Exact)?;
        let of_kind = |kind: AxisKind| {
            let axes = nest.kernel.axes.iter().zip(0..).filter(|(a, _)| a.kind == kind);
            let tiled = |(a, n): (&Axis, u16)| {
                let axis = AxisId(n);
                let tile = tile(nest, axis);
                let period = nest.segment.filter(|s| s.digit.axis == axis).map_or(tile, |s| s.points);
                Tiled { extent: a.extent.clone(), tile, period }
            };
            axes.map(tiled).collect()
        };
        Ok(Shape {
            owned: of_kind(AxisKind::Program),
            summed: of_kind(AxisKind::Tiles),
            parts: parts(nest),
            atomic: nest.across.values().any(|across| *across == Across::Atomic),
            meets: nest.cluster_reduces(),
            persistent: nest.persistent.is_some(),
            threads: kernel.threads,
            shared_bytes: kernel.shared_bytes() as u32,
            occupancy: nest.occupancy,
            tensors: nest.kernel.tensors.iter().map(|t| (t.dims.clone(), fixed_type(t.elem))).collect(),
            products: multiplies(&kernel.body),
            turns: nest.groups(),
            cluster: nest.cluster.filter(|_| !nest.cluster_reduces()).map(|rank| {
                let program =
                    nest.kernel.axes.iter().enumerate().filter(|(_, a)| a.kind == AxisKind::Program);
                let at = program.map(|(n, _)| n).position(|n| n == usize::from(rank.axis.0));
                (nest.cluster_ctas(), at.unwrap_or(0))
            }),
        })
    }

    /// Extents of the tensors along their rows.
    pub fn rows(&self) -> impl Iterator<Item = &Extent> {
        self.tensors.iter().filter_map(|(dims, _)| dims.last())
    }

    /// Bytes of all tensors, of elements of this type where the kernel fixes none; `None` where a dim has no value.
    pub fn bytes(&self, dims: &Dims, dtype: DType) -> Option<f64> {
        let of = |(extents, fixed): &(Vec<Extent>, Option<DType>)| {
            let extents = extents.iter().map(|extent| Some(extent.eval(dims)?.max(0) as f64));
            let elements = extents.product::<Option<f64>>()?;
            Some(elements * f64::from(fixed.unwrap_or(dtype).bytes()))
        };
        self.tensors.iter().map(of).sum()
    }

    /// Elements of the result that a CTA computes.
    pub fn area(&self) -> f64 {
        self.owned.iter().map(|t| f64::from(t.tile)).product()
    }

    /// Rows and columns of the tile, together: the sides along the last two program axes.
    pub fn sides(&self) -> f64 {
        self.owned.iter().rev().take(2).map(|t| f64::from(t.tile)).sum()
    }

    /// What a CTA reads for each of the two sides.
    pub fn reads(&self) -> impl Iterator<Item = Read<'_>> {
        let first = self.owned.len().saturating_sub(2);
        self.owned.iter().enumerate().skip(first).map(move |(n, side)| {
            let points = match self.cluster {
                // Neighbours along one axis have in common what the other one's side reads.
                Some((ctas, axis)) if axis != n => f64::from(side.tile) / f64::from(ctas),
                _ => f64::from(side.tile),
            };
            let others = self.owned[first..].iter().enumerate().filter(|(m, _)| first + m != n);
            let others: Vec<&Extent> = others.map(|(_, other)| &other.extent).collect();
            // An operand has this side and what is summed; the result has both sides.
            let is_operand = |dims: &[Extent]| {
                dims.contains(&side.extent)
                    && self.summed.iter().any(|axis| dims.contains(&axis.extent))
                    && !others.iter().any(|other| dims.contains(other))
            };
            let operands = self.tensors.iter().filter(|(dims, _)| is_operand(dims));
            let rows: Vec<&Extent> = operands.filter_map(|(dims, _)| dims.last()).collect();
            let rows = if rows.is_empty() { self.rows().collect() } else { rows };
            Read { points, rows }
        })
    }

    /// Tiles of the result, those beside it that complete a cluster among them; `None` where a dim has no value.
    pub fn tiles(&self, dims: &Dims) -> Option<usize> {
        let along = |(n, axis): (usize, &Tiled)| {
            let tiles = axis.tiles(dims)?;
            Some(match self.cluster {
                Some((ctas, at)) if at == n => tiles.next_multiple_of(ctas.max(1) as usize),
                _ => tiles,
            })
        };
        self.owned.iter().enumerate().try_fold(1usize, |all, axis| Some(all.saturating_mul(along(axis)?)))
    }

    /// Whole tiles of the result, and those with what is left of a period along an axis, as [`Shape::last`] has them; `None`
    /// where a dim has no value.
    pub fn sizes(&self, dims: &Dims) -> Option<[usize; 2]> {
        let whole = |n: usize, axis: &Tiled| Some(n.saturating_mul(axis.sizes(dims)?[0]));
        let narrow = count(&self.owned, dims)? - self.owned.iter().try_fold(1usize, whole)?;
        Some([self.tiles(dims)? - narrow, narrow])
    }

    /// Tiles with what is left of a period.
    pub fn last(&self) -> Shape {
        let last = |axis: &Tiled| match axis.period % axis.tile {
            0 => axis.clone(),
            rest => Tiled { tile: rest, period: rest, ..axis.clone() },
        };
        Shape { owned: self.owned.iter().map(last).collect(), ..self.clone() }
    }

    /// Whether all tiles of the result are whole.
    pub fn divides(&self, dims: &Dims) -> bool {
        let whole = |t: &Tiled| t.extent.eval(dims).is_some_and(|n| n % i64::from(t.period) == 0);
        self.owned.iter().all(whole)
    }

    /// Steps along what is summed; `None` where a dim has no value.
    pub fn steps(&self, dims: &Dims) -> Option<usize> {
        count(&self.summed, dims)
    }

    /// CTAs that a multiprocessor holds at once, with so many registers a thread.
    pub fn resident(&self, registers: u32) -> usize {
        let limits = Limits::of(MEASURED).expect("an architecture of the table");
        let fitting = || limits.occupancy(self.threads, registers, self.shared_bytes).ctas;
        self.occupancy.unwrap_or_else(fitting).max(1) as usize
    }
}

/// Whether a loop goes from tile to tile: CTAs take its steps, or it goes through all that there is of its axis.
fn goes_over_tiles((digit, at): &(Digit, LoopKind)) -> bool {
    digit.steps == Steps::Rest || matches!(at, LoopKind::Unit(Unit::Block, _))
}

/// Points of a tile of an axis: those of a step of the innermost loop that goes from tile to tile; of an axis of fixed extent that no
/// CTAs share, of the outermost loop.
fn tile(nest: &Nest, axis: AxisId) -> u32 {
    let of_axis = || loops(&nest.body).into_iter().filter(|(digit, _)| digit.axis == axis);
    let innermost = of_axis().filter(goes_over_tiles).map(|(digit, _)| digit.stride).min();
    // A loop of one step over tiles is dropped; its name stays.
    let named = || nest.names.get(&nest::over_tiles(nest.axis(axis))).map(|digit| digit.stride);
    innermost.or_else(named).or_else(|| of_axis().map(|(digit, _)| digit.stride).max()).unwrap_or(1)
}

/// CTAs that share a reduction: the steps of loops bound to CTAs over axes that are no program axes.
fn parts(nest: &Nest) -> u32 {
    let program = |digit: &Digit| nest.kernel.axes[usize::from(digit.axis.0)].kind == AxisKind::Program;
    let shared = loops(&nest.body).into_iter().filter(|(digit, _)| !program(digit)).find_map(|of| match of {
        (Digit { steps: Steps::Fixed(parts), .. }, LoopKind::Unit(Unit::Block, _)) => Some(parts),
        _ => None,
    });
    shared.unwrap_or(1)
}

fn fixed_type(elem: ElemType) -> Option<DType> {
    match elem {
        ElemType::Fixed(dtype) => Some(dtype),
        ElemType::Generic => None,
    }
}

/// Tiles of some axes.
fn count(axes: &[Tiled], dims: &Dims) -> Option<usize> {
    axes.iter().try_fold(1usize, |n, t| Some(n.saturating_mul(t.tiles(dims)?)))
}

/// Whether statements have products of warpgroups.
fn multiplies(stmts: &[Stmt]) -> bool {
    stmts.iter().any(|stmt| stmt.any(&|s| matches!(s, Stmt::Async(Async::Multiply { .. }))))
}

/// Whether a GPU runs what is made for a target.
pub(crate) fn runs(gpu: &GpuInfo, target: Target) -> bool {
    if target.specific { gpu.sm == target.sm } else { gpu.sm >= target.sm }
}

/// Values of a kernel's dims, by name.
pub type Dims = BTreeMap<String, i64>;

/// Dims from names and sizes; sizes beyond what an extent holds are as large as one can be.
pub fn dims(sizes: &[(&str, usize)]) -> Dims {
    sizes.iter().map(|(name, n)| (name.to_string(), i64::try_from(*n).unwrap_or(i64::MAX))).collect()
}

/// How much a GPU computes at once, and how fast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Multiprocessors.
    pub multiprocessors: usize,
    /// f32 multiply-adds a microsecond of one of them.
    pub fma_per_us: f64,
}

impl Speed {
    /// Of a GPU; what is not known of it, or where there is none, is an H200's.
    pub fn of(gpu: Option<&GpuInfo>) -> Self {
        let lanes = gpu.and_then(|gpu| fma_per_cycle(gpu.sm, DType::F32)).unwrap_or(128);
        let clock = gpu.map(|gpu| gpu.max_clock_mhz).filter(|mhz| *mhz > 0.0).unwrap_or(1980.0);
        let multiprocessors = gpu.map_or(132, |gpu| gpu.multiprocessors.max(1) as usize);
        Speed { multiprocessors, fma_per_us: f64::from(lanes) * clock }
    }
}

/// Candidates with the estimated time of each in microseconds, least first, of equals in their order: those that admit the element
/// type and that the GPU runs (`None`: the simulator, which runs all). Those that add up in any order are among them only with
/// `atomic`: their rounding changes from run to run.
pub fn ranked<'a>(
    candidates: &'a [Candidate],
    dims: &Dims,
    dtype: Option<DType>,
    gpu: Option<&GpuInfo>,
    atomic: bool,
) -> Vec<(&'a Candidate, f64)> {
    let speed = Speed::of(gpu);
    let estimated = candidates.iter().filter_map(|candidate| {
        let fixed = fixed(candidate.schedule.program(dtype)?)?;
        let (target, shape) = &*fixed;
        let considered = gpu.is_none_or(|gpu| runs(gpu, *target)) && (atomic || !shape.atomic);
        considered.then(|| (candidate, candidate.microseconds(shape, dims, speed)))
    });
    by_time(estimated)
}

/// The least time first, of equals in their order.
pub(crate) fn by_time<S>(estimated: impl Iterator<Item = (S, f64)>) -> Vec<(S, f64)> {
    let mut ranked: Vec<(S, f64)> = estimated.collect();
    ranked.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    ranked
}

/// What to time where an estimate is not exact enough: of what is ranked, least time first, that of at most `factor` times the
/// least, `most` of them at most.
pub fn shortlist<S: Copy>(ranked: &[(S, f64)], factor: f64, most: usize) -> Vec<S> {
    let least = ranked.first().map_or(0.0, |(_, time)| *time);
    ranked.iter().take(most).take_while(|(_, time)| *time <= factor * least).map(|(s, _)| *s).collect()
}

/// What an embedded program fixes; `None` if it is none that can be lowered.
pub(crate) type Fixed = Option<Arc<(Target, Shape)>>;

/// [`Shape::of`] an embedded program and its target, worked out once: lowering takes milliseconds.
pub(crate) fn fixed(program: &'static [u8]) -> Fixed {
    static KNOWN: Mutex<BTreeMap<usize, Fixed>> = Mutex::new(BTreeMap::new());
    let read = || {
        let program = Program::from_bytes(program).ok()?;
        Some(Arc::new((program.schedule.target, Shape::of(&program).ok()?)))
    };
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.entry(program.as_ptr().addr()).or_insert_with(read).clone()
}

impl Candidate {
    /// The estimate of the module's documentation; infinite where a dim has no value.
    pub fn microseconds(&self, shape: &Shape, dims: &Dims, speed: Speed) -> f64 {
        let points = |extent: &Extent| Some(extent.eval(dims)?.max(0) as usize);
        let (owned, steps) = (shape.tiles(dims), shape.steps(dims));
        let aligned = shape.rows().all(|row| points(row).is_some_and(|n| n.is_multiple_of(4)));
        let (Some(owned), Some(steps)) = (owned, steps) else { return f64::INFINITY };
        let parts = shape.parts as usize;
        let ctas = owned.saturating_mul(parts);
        let depth = shape.summed.iter().map(|t| t.tile as usize).product();
        let depth = steps.div_ceil(parts).saturating_mul(depth);
        let resident = shape.resident(self.registers);
        let busiest = ctas.div_ceil(speed.multiprocessors);
        let rest = busiest % resident;
        let rate = match resident {
            1 => self.share,
            _ => self.alone + (self.share - self.alone) * (rest as f64 - 1.0) / (resident as f64 - 1.0),
        };
        let last = if rest == 0 { 0.0 } else { rest as f64 / rate };
        let scale = if aligned { 1.0 } else { self.ragged / self.share };
        let fma = shape.area() * depth as f64;
        let computing = fma / speed.fma_per_us * ((busiest - rest) as f64 / self.share + last) / scale;
        let row = shape.meets && shape.owned.iter().any(|axis| axis.tiles(dims) == Some(1));
        (if row { ONE_ROW } else { 1.0 }) * computing + meeting(shape, ctas)
    }
}

/// Microseconds until the parts of all tiles are one.
fn meeting(shape: &Shape, ctas: usize) -> f64 {
    let megabytes = ctas as f64 * shape.area() * 4.0 / 1e6;
    let sums = shape.area() / f64::from(shape.threads);
    match (shape.parts, shape.atomic) {
        (1, _) => 0.0,
        _ if shape.meets => 3.0 + 0.075e-3 * shape.area(),
        (_, true) => 0.35 * megabytes,
        (parts, false) => 0.6 * megabytes + 0.016 * sums * f64::from(parts).log2(),
    }
}

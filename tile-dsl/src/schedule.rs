//! Schedules: keyed lists of directives.
//!
//! Directives apply in the order of their [`Phase`], and inside one phase in the order written, so a
//! child's directive that replaces its parent's needs no position. See `docs/schedule.md` for the grammar.

mod extend;
mod key;
mod parse;
mod show;
mod target;

pub use extend::{Item, extend, extend_without_mistakes};
pub use key::Key;
pub use parse::{ParseError, parse};
pub use show::{NAMES, WHOLE_KERNEL};

use crate::{
    dtype::DType,
    nest::{Across, Atom, Fraction, Level, Order},
    span::SpanId,
};
use serde::{Deserialize, Serialize};

/// A schedule with everything it inherits, flattened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// Name.
    pub name: String,
    /// Kernel it applies to.
    pub kernel: String,
    /// Element types admitted for the kernel's generic parameter; empty for a kernel without one.
    pub dtypes: Vec<DType>,
    /// Target, for example 80 for `sm_80`.
    pub target: Target,
    /// Directives in the order inherited and written; [`Schedule::in_order`] sorts them by phase.
    pub directives: Vec<Directive>,
}

/// A GPU target; budgets follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Target {
    /// Compute capability times ten: 80, 86, 89, 90.
    pub sm: u32,
    /// Architecture-specific features (`sm_90a`).
    pub specific: bool,
}

/// One directive, after `bind(i -> .., j -> ..)` and the like were taken apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Directive {
    /// What it does.
    pub kind: DirectiveKind,
    /// The directive as written.
    pub span: SpanId,
    /// Path of the parent schedule it is inherited from, `None` when written in this one.
    pub inherited: Option<String>,
}

/// A digit as addressed in a schedule: `i`, `i.o`, `i.t`, or a name given by `split`.
///
/// A bare axis name means its tile loop (`i.o`) in `at` and `pipeline`, its in-tile digit (`i.t`) elsewhere,
/// and the whole axis where it is not tiled.
pub type DigitName = String;

/// The directives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)] // each variant's fields are named as in its example
pub enum DirectiveKind {
    /// `fits(N <= 1024)`: an upper bound, checked at launch.
    Fits { dim: String, max: u32 },
    /// `layout(b: col)`: the first dimension is contiguous.
    Layout { tensor: String, column_major: bool },
    /// `tile(i = 128)`: split into `i.o` and `i.t`, `i.o` outward; a program axis' `i.o` is bound to CTAs.
    Tile { axis: String, size: u32 },
    /// `split(n -> no, nl, nv: 32, 4)`: outermost first; a factor for each name but the first.
    Split { digit: DigitName, names: Vec<String>, factors: Vec<u32> },
    /// `recompute(v)`: a copy of the statement for each reader.
    Recompute { value: String },
    /// `fuse(v at n)`: compute `v` inside its reader's loops over `n`.
    Fuse { value: String, at: DigitName },
    /// `reorder(k, ir, jr)`, optionally `in acc`: these loops, in this order, outermost first.
    Reorder { digits: Vec<DigitName>, within: Option<String> },
    /// `tensor_core(acc: mma)`: the sum of products is computed by an instruction of the tensor cores. `; swapped`: its rows
    /// are the later axis of the value.
    TensorCore { value: String, atom: Atom, swapped: bool },
    /// `stage(a at k: shared, ..)` for a tensor; `stage(p: shared)` for a value.
    Stage {
        buffer: String,
        at: Option<DigitName>,
        space: Space,
        transposed: bool,
        via: Via,
        vector: Option<u32>,
    },
    /// `fragment(a at k.t)`: what the loops inside read of a tensor is loaded to registers first.
    Fragment { buffer: String, at: DigitName },
    /// `pad(a: 16)`: bytes after each row of the staged copy.
    Pad { buffer: String, bytes: u32 },
    /// `swizzle(a: 128)`: XOR swizzle of the staged copy, span in bytes.
    Swizzle { buffer: String, span: u32 },
    /// `pipeline(k, 2)`: the stages at this loop are `stages` deep.
    Pipeline { digit: DigitName, stages: u32 },
    /// `interleave(k.t: loads(3/8), copies(1/4), stores(1/2))`: over which part of a pipeline of registers memory accesses are
    /// spread.
    Interleave {
        digit: DigitName,
        loads: Option<Fraction>,
        copies: Option<Fraction>,
        stores: Option<Fraction>,
    },
    /// `split_k(k, 4)`, `split_k(k, 4; atomic)`, `split_k(k, 4; cluster)`: the steps of a reduction are shared out among CTAs of the grid.
    SplitK { digit: DigitName, parts: u32, across: Across },
    /// `bind(j -> thread.x)`; `bind(j -> lane.y ^ lane.x)` with `xor`.
    Bind { digit: DigitName, unit: Unit, dim: UnitDim, xor: Option<UnitDim> },
    /// `reduce(s: lane)`: how partial results of a bound reduction combine.
    Reduce { value: String, level: Level },
    /// `unroll(k)`, optionally `in acc`.
    Unroll { digit: DigitName, within: Option<String> },
    /// `serpentine(ir)`, optionally `in acc`: unrolled, and run backwards every second time.
    Serpentine { digit: DigitName, within: Option<String> },
    /// `vectorize(jv)`, optionally `in acc`.
    Vectorize { digit: DigitName, within: Option<String> },
    /// `exchange(c)`: lanes that hold pairs of a stored row exchange them, and each stores eight elements.
    Exchange { tensor: String },
    /// `cache(c: evict_first)`: how soon L2 gives up what the kernel has accessed of a tensor.
    Cache { tensor: String, evict: Evict },
    /// `produce(k: warp)`: the copies of a pipelined loop are made by a warp or a warpgroup of its own.
    Produce { digit: DigitName, unit: Unit },
    /// `arrive(k: thread)`: of the threads that have read a slot which a producer fills, a lane a warp says so, or each.
    Arrive { digit: DigitName, unit: Unit },
    /// `issue(acc: overwrite, in_flight(1))`: the first products overwrite the sums; so many steps' products may be on
    /// their way when the next ones are issued.
    Issue { value: String, overwrite: bool, in_flight: u32 },
    /// `registers(40, 232)`: of a thread that copies, and of one that computes.
    Registers { producer: u32, consumer: u32 },
    /// `persistent(1)`: so many CTAs an SM take tile after tile.
    Persistent { ctas: u32 },
    /// `pingpong(2)`: so many groups of the threads that compute, each with a tile of its own, take turns.
    Pingpong { groups: u32 },
    /// `alternate(k)`: the steps of a produced loop run backwards for every second tile of a CTA.
    Alternate { digit: DigitName },
    /// `cluster(i: 2)`: the CTAs of so many neighbouring tiles of an axis share what they copy alike.
    Cluster { axis: String, ctas: u32 },
    /// `occupancy(2)`: CTAs an SM must be able to hold.
    Occupancy { ctas: u32 },
    /// `order(grouped(8))`.
    Order(Order),
    /// `assemble(1)`: optimisation level of the PTX assembler, 0 to 4.
    Assemble { level: u32 },
    /// `launch(dependent)`: how the kernel begins when another one runs before it.
    Launch(Start),
}

/// When a kernel begins that another one runs before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Start {
    /// `dependent`: programmatic dependent launch. Its CTAs may begin before the kernel before it has ended, wait for that before
    /// they access global memory, and then let the next one do the same.
    Dependent,
}

/// Eviction priority in L2 of what is accessed (PTX ISA, "Cache Eviction Priority Hints").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Evict {
    /// Before other lines: what nobody accesses again soon.
    First,
    /// After other lines: what is accessed again.
    Last,
}

impl Evict {
    /// All, by the names that directives, kernels and PTX have for them.
    pub const NAMED: [(&str, Evict); 2] = [("evict_first", Evict::First), ("evict_last", Evict::Last)];

    /// The one of a name.
    pub fn named(name: &str) -> Option<Evict> {
        Evict::NAMED.iter().find(|(known, _)| *known == name).map(|(_, evict)| *evict)
    }
}

/// Phases, in the order in which directives apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// `fits`, `layout`.
    Assume,
    /// `tile`.
    Tile,
    /// `split`.
    Split,
    /// `recompute`, `fuse`.
    Place,
    /// `tensor_core`.
    TensorCore,
    /// `reorder`.
    Reorder,
    /// `stage`, `fragment`, `pad`, `swizzle`.
    Stage,
    /// `pipeline`, `interleave`.
    Pipeline,
    /// `split_k`.
    SplitK,
    /// `reduce`, then `bind`.
    Bind,
    /// `vectorize`, `unroll`, `serpentine`, `exchange`, `cache`.
    Expand,
    /// `produce`, `arrive`, `issue`, `registers`, `persistent`, `pingpong`, `alternate`, `cluster`, `occupancy`, `order`, `assemble`, `launch`.
    Launch,
}

/// Memory a copy lives in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Space {
    /// Shared memory of the CTA.
    Shared,
    /// Registers: each thread holds what its own steps read.
    Register,
}

/// Instruction that moves a staged copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Via {
    /// Load to registers, store to shared memory.
    Plain,
    /// `cp.async` (PTX ISA 9.7.9.25.3), 4, 8 or 16 bytes.
    CpAsync,
    /// `cp.async.bulk.tensor` (PTX ISA 9.7.9.27), the whole box by one thread.
    Tma,
    /// The same for a tile that is stored to, whose elements `stmatrix` (PTX ISA 9.7.15.5.16) has collected.
    Stmatrix,
}

/// Hardware units that loops are bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Unit {
    /// CTAs of the grid.
    Block,
    /// Warpgroups of a CTA: four warps each.
    Warpgroup,
    /// Warps of a CTA; where its warpgroups are bound, of a warpgroup.
    Warp,
    /// Lanes of a warp.
    Lane,
    /// Threads of a CTA, across warps.
    Thread,
}

/// Dimension of a unit; x is fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum UnitDim {
    /// Fastest.
    X,
    /// Second.
    Y,
    /// Slowest.
    Z,
}

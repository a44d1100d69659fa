//! The table of directives: what each looks like, when it applies, what it acts on. Its text, its keys and both readers follow.
//!
//! A row has an example, the phase and the place in it, the fields with what they are where nothing is said, and the grammar
//! of what stands in the parentheses, in the words of [`Syntax`].

use super::{
    Phase,
    grammar::{Extra, Row, Syntax, blank, directives},
    words::{Evict, Space, Start, Unit, UnitDim, Via},
};
use crate::nest::{Across, Atom, Fraction, Level, Order};
use serde::{Deserialize, Serialize};

/// A digit as addressed in a schedule: `i`, `i.o`, `i.t`, or a name given by `split`.
///
/// A bare axis name means its tile loop (`i.o`) in `at` and `pipeline`, its in-tile digit (`i.t`) elsewhere,
/// and the whole axis where it is not tiled.
pub type DigitName = String;

const UNITS: &[Unit] = &[Unit::Block, Unit::Warpgroup, Unit::Warp, Unit::Lane, Unit::Thread];
const DIMENSIONS: &[UnitDim] = &[UnitDim::X, UnitDim::Y, UnitDim::Z];

directives! {
    /// `fits(N <= 1024)`: an upper bound, checked at launch.
    "fits(N <= 1024)" in Assume, 0:
    Fits { dim: String, max: u32 } => |s| s.each(dim, "a dim").mark("<=").number(max);

    /// `multiple(N: 128)`: an extent is a multiple of a number, checked at launch.
    "multiple(N: 128)" in Assume, 0:
    Multiple { dim: String, of: u32 } => |s| s.each(dim, "a dim").mark(":").number(of);

    /// `layout(b: col)`: the first dimension is contiguous.
    "layout(b: col)" in Assume, 0:
    Layout { tensor: String, column_major: bool } => |s| {
        let mut major = if *column_major { "col" } else { "row" };
        s.each(tensor, "a tensor").mark(":").one_of(&mut major, "layout", &["row", "col"]);
        *column_major = major == "col";
    };

    /// `tile(i = 128)`: split into `i.o` and `i.t`, `i.o` outward; a program axis' `i.o` is bound to CTAs.
    "tile(i = 32, j = 32)" in Tile, 0:
    Tile { axis: String, size: u32 } => |s| s.each(axis, "an axis").mark("=").number(size);

    /// `split(n -> no, nl, nv: 32, 4)`: outermost first; a factor for each name but the first.
    "split(i -> it, ir: 8)" in Split, 0:
    Split { digit: DigitName, names: Vec<String>, factors: Vec<u32> } => |s| {
        let at = s.one(digit, "a loop").mark("->").here();
        s.new_names(names).mark(":").numbers(factors);
        s.check(at, names.len() == factors.len() + 1, || {
            let counted = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
            let (names, factors) = (counted(names.len(), "name"), counted(factors.len(), "factor"));
            format!("{names} and {factors}: each name but the first has a factor")
        });
    };

    /// `recompute(v)`: a copy of the statement for each reader.
    "recompute(v)" in Place, 0:
    Recompute { value: String } => |s| s.each(value, "a value");

    /// `fuse(v at n)`: compute `v` inside its reader's loops over `n`.
    "fuse(v at n)" in Place, 0:
    Fuse { value: String, at: DigitName } => |s| s.alike(value, "a value").mark("at").name(at, "a loop");

    /// `tensor_core(acc: mma)`: the sum of products is computed by an instruction of the tensor cores. `; swapped`: its rows
    /// are the later axis of the value.
    "tensor_core(acc: mma)" in TensorCore, 0:
    TensorCore { value: String, atom: Atom = Atom::MMA, swapped: bool } => |s| {
        s.one(value, "an accumulator").mark(":").atom(atom);
        *swapped = s.has(";", *swapped);
        if *swapped {
            s.one_of(&mut "swapped", "order", &["swapped"]);
        }
    };

    /// `reorder(k, ir, jr)`, optionally `in acc`: these loops, in this order, outermost first.
    "reorder(k, i, j)" in Reorder, 0:
    Reorder { digits: Vec<DigitName>, within: Option<String> } => |s| {
        s.names(digits, "a loop").optional("in", within, "the name of a value")
    };

    /// `stage(a at k: shared, ..)` for a tensor, `stage(a[i, k] at k: shared, ..)` for those reads of it that follow an index;
    /// `stage(p: shared)` for a value.
    "stage(a, b at k: shared)" in Stage, 0:
    Stage {
        buffer: String,
        at: Option<DigitName>,
        space: Space = Space::Shared,
        transposed: bool,
        via: Via = Via::Plain,
        vector: Option<u32>
    } => |s| {
        s.indexed().alike(buffer, "a tensor or a value").optional("at", at, "a loop").mark(":");
        s.one_of(space, "memory space", &[Space::Shared]);
        // The first option, after its comma.
        let first = s.here() + 1;
        let (mut cp_async, mut stmatrix) = (*via == Via::CpAsync, *via == Via::Stmatrix);
        let mut tma = stmatrix || *via == Via::Tma;
        s.options(&mut [
            Extra::flag("transposed", transposed),
            Extra::flag("cp_async", &mut cp_async),
            Extra::flag("tma", &mut tma),
            Extra::flag("stmatrix", &mut stmatrix).after("tma", "collects what a tensor map stores"),
            Extra::number("vector(16)", vector),
        ]);
        s.check(first, !(cp_async && tma), || "`cp_async` and `tma` are two ways to make a copy".to_string());
        *via = match (cp_async, tma, stmatrix) {
            (_, true, true) => Via::Stmatrix,
            (_, true, false) => Via::Tma,
            (true, ..) => Via::CpAsync,
            _ => Via::Plain,
        };
    };

    /// `fragment(a at k.t)`: what the loops inside read of a tensor is loaded to registers first.
    "fragment(a, b at k.t)" in Stage, 0:
    Fragment { buffer: String, at: DigitName } => |s| {
        s.indexed().alike(buffer, "a tensor").mark("at").name(at, "a loop")
    };

    /// `pad(a: 16)`: bytes after each row of the staged copy.
    "pad(a: 16)" in Stage, 1:
    Pad { buffer: String, bytes: u32 } => |s| {
        s.indexed().each(buffer, "a staged buffer").mark(":").number(bytes)
    };

    /// `swizzle(a: 128)`: XOR swizzle of the staged copy, span in bytes.
    "swizzle(a: 128)" in Stage, 1:
    Swizzle { buffer: String, span: u32 } => |s| {
        s.indexed().each(buffer, "a staged buffer").mark(":").number(span)
    };

    /// `pipeline(k, 2)`: the stages at this loop are `stages` deep.
    "pipeline(k, 2)" in Pipeline, 0:
    Pipeline { digit: DigitName, stages: u32 } => |s| s.tiles(digit).mark(",").number(stages);

    /// `interleave(k.t: loads(3/8), copies(1/4), stores(1/2))`: over which part of a pipeline of registers memory accesses are
    /// spread.
    "interleave(k.t: loads(3/8))" in Pipeline, 1:
    Interleave {
        digit: DigitName,
        loads: Option<Fraction>,
        copies: Option<Fraction>,
        stores: Option<Fraction>
    } => |s| {
        s.one(digit, "a loop").mark(":").some_of(&mut [
            Extra::part("loads(3/8)", loads),
            Extra::part("copies(1/4)", copies),
            Extra::part("stores(1/2)", stores),
        ])
    };

    /// `split_k(k, 4)`, `split_k(k, 4; atomic)`, `split_k(k, 4; cluster)`: the steps of a reduction are shared out among CTAs of the grid.
    "split_k(k, 4)" in SplitK, 0:
    SplitK { digit: DigitName, parts: u32, across: Across = Across::Workspace } => |s| {
        s.tiles(digit).mark(",").number(parts);
        if s.has(";", *across != Across::Workspace) {
            s.one_of(across, "combination", &[Across::Atomic, Across::Cluster]);
        }
    };

    /// `reduce(s: lane)`: how partial results of a bound reduction combine.
    "reduce(s: lane)" in Bind, 0:
    Reduce { value: String, level: Level = Level::Lane } => |s| {
        s.alike(value, "a value").mark(":").one_of(level, "level", &[Level::Lane, Level::Warp, Level::Cta])
    };

    /// `bind(j -> thread.x)`; `bind(j -> lane.y ^ lane.x)` with `xor`.
    "bind(i -> thread.x)" in Bind, 1:
    Bind { digit: DigitName, unit: Unit = Unit::Thread, dim: UnitDim = UnitDim::X, xor: Option<UnitDim> } => |s| {
        s.each(digit, "a loop").mark("->").one_of(unit, "unit", UNITS);
        if s.has(".", true) {
            s.one_of(dim, "dimension", DIMENSIONS);
            if s.has("^", xor.is_some()) {
                let (at, mut other, mut second) = (s.here(), *unit, xor.unwrap_or(UnitDim::X));
                s.one_of(&mut other, "unit", UNITS).check(at, other == *unit, || {
                    format!("`{unit}.{dim}` is combined with a coordinate of another unit, `{other}`")
                });
                s.mark(".").one_of(&mut second, "dimension", DIMENSIONS);
                *xor = Some(second);
            }
        }
    };

    /// `unroll(k)`, optionally `in acc`.
    "unroll(k)" in Expand, 0:
    Unroll { digit: DigitName, within: Option<String> } => |s| {
        s.alike(digit, "a loop").optional("in", within, "the name of a value")
    };

    /// `serpentine(ir)`, optionally `in acc`: unrolled, and run backwards every second time.
    "serpentine(i, j)" in Expand, 0:
    Serpentine { digit: DigitName, within: Option<String> } => |s| {
        s.alike(digit, "a loop").optional("in", within, "the name of a value")
    };

    /// `vectorize(jv)`, optionally `in acc`.
    "vectorize(j)" in Expand, 0:
    Vectorize { digit: DigitName, within: Option<String> } => |s| {
        s.alike(digit, "a loop").optional("in", within, "the name of a value")
    };

    /// `exchange(c)`: lanes that hold pairs of a stored row exchange them, and each stores eight elements.
    "exchange(c)" in Expand, 0:
    Exchange { tensor: String } => |s| s.each(tensor, "a tensor");

    /// `cache(c: evict_first)`: how soon L2 gives up what the kernel has accessed of a tensor.
    "cache(c: evict_first)" in Expand, 0:
    Cache { tensor: String, evict: Evict = Evict::First } => |s| {
        s.each(tensor, "a tensor").mark(":").one_of(evict, "cache hint", &Evict::NAMED.map(|(_, evict)| evict))
    };

    /// `produce(k: warp)`: the copies of a pipelined loop are made by a warp or a warpgroup of its own.
    "produce(k: warpgroup)" in Launch, 0:
    Produce { digit: DigitName, unit: Unit = Unit::Warp } => |s| {
        s.tiles(digit).mark(":").one_of(unit, "producer", &[Unit::Warp, Unit::Warpgroup])
    };

    /// `arrive(k: thread)`: of the threads that have read a slot which a producer fills, a lane a warp says so, or each.
    "arrive(k: warp)" in Launch, 1:
    Arrive { digit: DigitName, unit: Unit = Unit::Warp } => |s| {
        s.one(digit, "a pipelined loop").mark(":").one_of(unit, "arrival", &[Unit::Warp, Unit::Thread])
    };

    /// `issue(acc: overwrite, in_flight(1))`: the first products overwrite the sums; so many steps' products may be on
    /// their way when the next ones are issued.
    "issue(acc: overwrite, in_flight(1))" in Launch, 0:
    Issue { value: String, overwrite: bool, in_flight: u32 } => |s| {
        let mut steps = (*in_flight > 0).then_some(*in_flight);
        let mut how = [Extra::flag("overwrite", overwrite), Extra::number("in_flight(1)", &mut steps)];
        s.one(value, "a value").mark(":").some_of(&mut how);
        *in_flight = steps.unwrap_or(0);
    };

    /// `registers(40, 232)`: of a thread that copies, and of one that computes.
    "registers(40, 232)" in Launch, 0:
    Registers { producer: u32, consumer: u32 } => |s| s.number(producer).mark(",").number(consumer);

    /// `persistent(1)`: so many CTAs an SM take tile after tile.
    "persistent(1)" in Launch, 0:
    Persistent { ctas: u32 } => |s| s.number(ctas);

    /// `pingpong(2)`: so many groups of the threads that compute, each with a tile of its own, take turns.
    "pingpong(2)" in Launch, 0:
    Pingpong { groups: u32 } => |s| s.number(groups);

    /// `alternate(k)`: the steps of a produced loop run backwards for every second tile of a CTA.
    "alternate(k)" in Launch, 1:
    Alternate { digit: DigitName } => |s| s.each(digit, "a pipelined loop");

    /// `cluster(i: 2)`: the CTAs of so many neighbouring tiles of an axis share what they copy alike.
    "cluster(i: 2)" in Launch, 0:
    Cluster { axis: String, ctas: u32 } => |s| s.one(axis, "an axis").mark(":").number(ctas);

    /// `segment(j: 512)`: tiles of an axis begin anew after so many points; the last of each segment has what is left.
    "segment(j: 512)" in Launch, 0:
    Segment { axis: String, points: u32 } => |s| s.one(axis, "an axis").mark(":").number(points);

    /// `occupancy(2)`: CTAs an SM must be able to hold.
    "occupancy(2)" in Launch, 0:
    Occupancy { ctas: u32 } => |s| s.number(ctas);

    /// `order(grouped(8))`: in which order CTAs take the tiles.
    "order(grouped(8))" in Launch, 0:
    Order { order: Order = Order::Row } => |s| {
        let known = [Order::Row, Order::Column, Order::Grouped(8), Order::Serpentine(8), Order::Hilbert];
        s.one_of(order, "order", &known)
    };

    /// `assemble(1)`: optimisation level of the PTX assembler, 0 to 4.
    "assemble(1)" in Launch, 0:
    Assemble { level: u32 } => |s| s.level(level, "a level from 0 to 4");

    /// `launch(dependent)`: how the kernel begins when another one runs before it.
    "launch(dependent)" in Launch, 0:
    Launch { start: Start = Start::Dependent } => |s| {
        s.one_of(start, "start of a kernel", &[Start::Dependent])
    };
}

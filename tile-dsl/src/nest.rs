//! Nest IR: loops over axis digits around an untouched body. A schedule is a path through it.
//!
//! ```text
//! Stmt ::= (for Digit At Stmt)        ; Digit = axis.stride.extent
//!        | (let [Value*] Stmt Stmt)   ; the first computes the values, the second reads them; [] sequences
//!        | (stage Copy Stmt)          ; copy what the body reads of a tensor on chip, the body reads the copy
//!        | (def Value E)              ; one element of an elementwise value
//!        | (red Value Op E)           ; value = value op E; starts from the neutral element at the let
//!        | (set Value E)              ; state that the loops inside its let carry: value = E, in program order
//!        | (put Access E)             ; store one element
//!        | (skip)                     ; nothing: what follows a loop whose values only the loop itself reads
//! E    ::= (ld Access) | (get Value) | const | (scalar S) | (iota axis) | (dim D)
//!        | (un E) | (bin E E) | (cmp E E) | (select E E E) | (cast type E)
//! At   ::= #seq | #unroll | #serpentine | #vec | #pipeN | #unit.dim      ; unit: block warpgroup warp lane thread; dim: x y z
//!        | #atom.role                                                 ; atom: mma mma_tf32 wgmma64x128 ..; role: m n k
//! ```
//! The value of axis `a` is `Σ digit · stride` over the digits of `a` bound by the enclosing loops.
//! Accesses are affine over *axes*, so split, reorder, bind and stage substitute nothing.
//! Points at or beyond an axis' extent are guarded where they matter: each `red` skips them (uses its
//! neutral element), each `put` skips them, each `ld` outside its tensor yields zero. A `set` skips steps without points:
//! a tile of nothing changes no state.

use crate::{
    dtype::DType,
    index::{Affine, AxisId, Extent},
    op::{BinOp, CmpOp, RedOp, UnOp},
    schedule::{Evict, Space, Unit, UnitDim, Via},
    span::SpanId,
    tile,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

mod assemble;
mod atom;
mod carry;
mod combine;
mod copied;
mod cover;
mod descriptor;
mod footprint;
mod fragment;
mod initial;
mod interpret;
mod layout;
mod parse;
mod print;
mod roles;
mod rows;
mod segment;
mod share;
mod stored;
mod units;
mod vector;
mod verify;
mod walk;

pub use atom::{
    Atom, Factor, MATRIX_ROW_BYTES, MATRIX_ROWS, Matrices, NoMatrices, NoProduct, Operand, Product, Role,
    Scope, copy_on, parts,
};
pub(crate) use carry::{Carry, Prefetch, RegisterPipeline};
pub use carry::{Fraction, Interleave};
pub(crate) use combine::{Combination, partial_units, places};
pub(crate) use copied::{index_name, moves_alike};
pub(crate) use cover::{Cover, Ends, cover, difference, ends, non_negative, oversteps, range};
pub(crate) use descriptor::PERIOD;
pub use descriptor::{Descriptor, NoDescriptor, Placed};
pub(crate) use footprint::{BOX_BYTES, BOX_POINTS, MAP_DIMENSIONS, SWIZZLE_LINE, WIDEST, of_a_tile};
pub use footprint::{BoxDim, CopyLayout, Part as CopyPart};
pub(crate) use fragment::{ElementIndex, Fragment, HeldElement, LoopAt, MOST_HELD};
pub use initial::initial;
pub use interpret::{Arithmetic, InterpretError, interpret};
pub use layout::{Layout, Where};
pub(crate) use layout::{Spread, own_loops, own_loops_of_all};
pub use parse::{ParseError, parse};
pub use roles::registers_at_launch;
pub(crate) use roles::{WARP, WARPGROUP, registers_of_product, two_ctas_fit};
pub use rows::{Part, Place, Row};
pub use segment::{Segment, TileSize};
pub(crate) use stored::LANES_OF_ROW;
pub use stored::{ExchangedMatrices, NoExchange, NoStoredMatrices, StoredMatrices};
pub(crate) use units::{UnitRange, Units, dimensions, threads};
pub(crate) use vector::{Vector, vector};
pub use verify::verify;
pub use walk::{Frame, Target, leaves, loops, with_paths};
pub(crate) use walk::{Step, chain, steps, writers};

/// Index into [`Nest::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ValueId(pub u16);
/// Index into [`Nest::accesses`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AccessId(pub u16);
/// Index into [`Nest::copies`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CopyId(pub u16);

/// A scheduled (or not yet scheduled) program for fixed element types: the term and its side tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Nest {
    /// The instantiated kernel this came from: parameters, axes, source.
    pub kernel: tile::Kernel,
    /// Named intermediates, accumulators included.
    pub values: Vec<Value>,
    /// Tensor accesses.
    pub accesses: Vec<Access>,
    /// Staged copies that the term mentions.
    pub copies: Vec<Copy>,
    /// The term.
    pub body: Stmt,
    /// Upper bounds of axes asserted by `fits`, checked at launch; by axis, in elements.
    pub bounds: BTreeMap<AxisId, u32>,
    /// Numbers that dims are multiples of, asserted by `multiple`, checked at launch; by dim.
    pub multiples: BTreeMap<String, u32>,
    /// Loops of the kernel whose steps see a tile as a whole, by axis.
    pub recurrences: BTreeMap<AxisId, Recurrence>,
    /// User names of digits (`i.o`, `i.t`, `ir`), display and addressing only.
    pub names: BTreeMap<String, Digit>,
    /// How each unit-bound reduction combines its partials, by value.
    pub combine: BTreeMap<ValueId, Level>,
    /// Reductions that several CTAs hold parts of (`split_k`), and how those come together.
    pub across: BTreeMap<ValueId, Across>,
    /// Tensors whose contiguous dimension is the first (`layout(b: col)`), by parameter.
    pub column_major: BTreeSet<tile::TensorId>,
    /// Minimum resident CTAs an SM (`occupancy`), as `.minnctapersm`.
    pub occupancy: Option<u32>,
    /// Tensors that the kernel stores to, whose elements a CTA collects in shared memory first.
    pub outputs: BTreeMap<tile::TensorId, Output>,
    /// Tensors whose stored rows lanes exchange, so that each stores eight elements (`exchange`), and where that is said.
    pub exchanged: BTreeMap<tile::TensorId, SpanId>,
    /// Eviction priorities in L2 of what is accessed of tensors, where one is said (`cache`).
    pub cache: BTreeMap<tile::TensorId, Evict>,
    /// How accesses stand among the computation on registers, of pipelined loops that say so (`interleave`).
    pub interleaved: BTreeMap<Digit, Interleave>,
    /// Loops whose copies a warp or a warpgroup of its own makes (`produce`).
    pub produced: BTreeSet<Digit>,
    /// Which of the two.
    pub producer: Option<Unit>,
    /// Of produced loops, who says that a slot has been read where it is not a lane a warp (`arrive`).
    pub arrive: BTreeMap<Digit, Unit>,
    /// Produced loops that run backwards for every second tile of a CTA (`alternate`).
    pub alternate: BTreeSet<Digit>,
    /// How products that complete on their own are issued, by value (`issue`).
    pub issue: BTreeMap<ValueId, Issue>,
    /// Registers of a thread that copies and of one that computes (`registers`).
    pub registers: Option<[u32; 2]>,
    /// An axis whose tiles begin anew after so many points (`segment`).
    pub segment: Option<Segment>,
    /// CTAs for each multiprocessor that take tile after tile (`persistent`).
    pub persistent: Option<u32>,
    /// Groups of the threads that compute, each with a tile of its own, that take turns (`pingpong`).
    pub pingpong: Option<u32>,
    /// The digit that tells the CTAs of a cluster apart, bound to CTAs (`cluster`, or `split_k` among them).
    pub cluster: Option<Digit>,
    /// Order of CTAs over output tiles.
    pub order: Order,
    /// Bound digits whose step is the coordinate of their unit xor this other coordinate of it.
    pub skew: BTreeMap<Digit, UnitDim>,
    /// Optimisation level of the PTX assembler (`assemble`); its own default when absent.
    pub assemble: Option<u32>,
    /// Whether it is launched before the kernel before it has ended, and waits for that itself (`launch(dependent)`).
    pub dependent: bool,
}

/// A loop over tiles whose steps see a tile as a whole: what the kernel computes depends on the size of its tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recurrence {
    /// The size that `tile` gives it, in points of the axis.
    pub tile: Option<u32>,
    /// Source of a statement that depends on it.
    pub span: SpanId,
}

impl Recurrence {
    /// Size of the tiles as long as nothing says it; more than 1, so that its two digits differ.
    pub(crate) const UNTILED: u32 = 2;
}

/// A named intermediate, indexed by its own axes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Value {
    /// `acc`, `e`, `e.max`.
    pub name: String,
    /// Axes, in kernel order.
    pub axes: BTreeSet<AxisId>,
    /// Element type.
    pub dtype: DType,
    /// Reduction that defines it, if it is one.
    pub reduction: Option<RedOp>,
    /// Initial element of a reduction or of carried state, when it is not the neutral element.
    pub init: Option<f64>,
    /// Whether it is state: the steps of a loop inside its `let` read what the steps before have left in it.
    pub carried: bool,
    /// Where it is held.
    pub placement: Placement,
    /// Source of the statement.
    pub span: SpanId,
}

/// Where a value is held between its definition and its uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Placement {
    /// Registers of the threads that compute it.
    Register,
    /// Shared memory, row-major over its in-tile digits.
    Shared,
}

/// A tensor access: one affine form a dimension.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Access {
    /// Tensor accessed.
    pub tensor: tile::TensorId,
    /// Index per dimension.
    pub index: Vec<Affine>,
    /// Source of the load or store.
    pub span: SpanId,
}

/// A copy of the part of a tensor that the body of a `stage` reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Copy {
    /// Tensor copied.
    pub tensor: tile::TensorId,
    /// The index that the reads follow that it is for, constants aside; absent for a copy for all reads inside.
    pub follows: Option<Vec<Affine>>,
    /// Destination.
    pub space: Space,
    /// Dimensions in reverse order in the copy (the first dimension contiguous).
    pub transposed: bool,
    /// Instruction that moves it.
    pub via: Via,
    /// Bytes a thread moves at once from global memory; one element when absent.
    pub vector: Option<u32>,
    /// Bytes of padding after each contiguous row of the copy.
    pub pad: u32,
    /// XOR swizzle span in bytes (32, 64, 128), 0 for none: byte address bits 4.. ^= bits 7.. (PTX ISA, tensor swizzling modes).
    pub swizzle: u32,
    /// Source of the directive.
    pub span: SpanId,
}

/// How a CTA collects what it stores of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// XOR swizzle span in bytes, 0 for none.
    pub swizzle: u32,
    /// `stmatrix` stores the elements that lanes hold.
    pub matrices: bool,
    /// Source of the directive.
    pub span: SpanId,
}

/// How products that complete on their own are issued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issue {
    /// The first of them overwrite the sums, which nothing zeroes before.
    pub overwrite: bool,
    /// So many steps' products may be on their way when those of the next step are issued.
    pub in_flight: u32,
}

/// Which units of a CTA hold partial results of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Level {
    /// Lanes of one warp: butterfly shuffles.
    Lane,
    /// Warps of a CTA: through shared memory, one barrier.
    Warp,
    /// Both.
    Cta,
}

/// How the parts of a reduction that CTAs of the grid hold come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Across {
    /// Through global memory, two and two up a fixed tree; the CTA that ends up with all of them goes on alone. The same
    /// bits in every run.
    Workspace,
    /// Each CTA adds its part to the stored tensor, which starts at zero. The order, and so the rounding, changes from
    /// run to run.
    Atomic,
    /// The CTAs are a cluster: each is sent the others' parts to its shared memory, and adds them in the order of their numbers.
    /// The same bits in every run.
    Cluster,
}

/// Order in which CTAs walk over the output tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Last program axis fastest.
    Row,
    /// First program axis fastest.
    Column,
    /// Bands of `n` tiles of the last program axis but one, walked along the last; others are slower.
    Grouped(u32),
    /// The same bands, every second of them walked back.
    Serpentine(u32),
    /// Bands of sixteen tiles; in them squares along Hilbert's curve, and what is left over as
    /// in [`Order::Grouped`].
    Hilbert,
}

/// Number of steps of a digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Steps {
    /// A fixed number.
    Fixed(u32),
    /// ⌈extent of the axis / stride⌉: the outermost digit of an axis of symbolic extent.
    Rest,
}

/// A digit of an axis: it contributes `digit · stride` to the axis' value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Digit {
    /// Axis.
    pub axis: AxisId,
    /// Weight of one step, in points of the axis.
    pub stride: u32,
    /// Number of steps.
    pub steps: Steps,
}

impl Digit {
    /// The two digits of this one cut at `factor`: the steps over groups of so many, and those inside one.
    pub fn cut(self, factor: u32) -> (Digit, Digit) {
        let steps = match self.steps {
            Steps::Fixed(n) => Steps::Fixed(n.div_ceil(factor)),
            Steps::Rest => Steps::Rest,
        };
        let outer = Digit { stride: self.stride.saturating_mul(factor), steps, ..self };
        (outer, Digit { steps: Steps::Fixed(factor), ..self })
    }
}

impl Nest {
    /// A term with empty tables: what holds where no directive says anything.
    pub fn bare(kernel: tile::Kernel, body: Stmt) -> Self {
        Nest {
            kernel,
            values: Vec::new(),
            accesses: Vec::new(),
            copies: Vec::new(),
            body,
            bounds: BTreeMap::new(),
            multiples: BTreeMap::new(),
            recurrences: BTreeMap::new(),
            names: BTreeMap::new(),
            combine: BTreeMap::new(),
            across: BTreeMap::new(),
            column_major: BTreeSet::new(),
            occupancy: None,
            outputs: BTreeMap::new(),
            exchanged: BTreeMap::new(),
            cache: BTreeMap::new(),
            interleaved: BTreeMap::new(),
            produced: BTreeSet::new(),
            producer: None,
            arrive: BTreeMap::new(),
            alternate: BTreeSet::new(),
            issue: BTreeMap::new(),
            registers: None,
            segment: None,
            persistent: None,
            pingpong: None,
            cluster: None,
            order: Order::Row,
            skew: BTreeMap::new(),
            assemble: None,
            dependent: false,
        }
    }

    /// Sizes of the tiles that the kernel sees, by axis name: what the evaluator has to know.
    pub fn tiles(&self) -> BTreeMap<String, u32> {
        let sized = self.recurrences.iter().filter_map(|(axis, r)| Some((*axis, r.tile?)));
        sized.map(|(axis, tile)| (self.axis(axis).to_string(), tile)).collect()
    }

    /// Whether a value is carried from step to step of a loop, not only computed or reduced: it may be read where it is
    /// written, and then steps keep their order, whether they `set` it or add to it.
    pub fn is_carried(&self, value: ValueId) -> bool {
        self.value(value).carried
    }

    /// Finds the values that the term carries: those that are set, and those that are read where they are still added to.
    pub(crate) fn find_carried(&mut self) {
        let mut found = BTreeSet::new();
        leaves(&self.body, &mut |path, leaf| {
            let (_, expr) = leaf.leaf().expect("a leaf");
            let open = |v: &ValueId| path.iter().any(|f| matches!(f, Frame::First(vs) if vs.contains(v)));
            found.extend(expr.values().into_iter().filter(open));
            if let Stmt::Set { value, .. } = leaf {
                found.insert(*value);
            }
        });
        for (n, value) in self.values.iter_mut().enumerate() {
            value.carried = found.contains(&ValueId(n as u16));
        }
    }

    /// A value that goes from each step of a loop to the next: one that starts outside, and that a step sets, or reads
    /// and adds to.
    pub fn carried_by(&self, digit: Digit) -> Option<ValueId> {
        let (mut set, mut added, mut read) = (Vec::new(), Vec::new(), BTreeSet::new());
        leaves(&self.body, &mut |path, leaf| {
            let Some(at) = path.iter().position(|f| matches!(f, Frame::For(d, _) if *d == digit)) else {
                return;
            };
            let (target, expr) = leaf.leaf().expect("a leaf");
            read.extend(expr.values());
            match (leaf, target) {
                (Stmt::Set { .. } | Stmt::Red { .. }, Target::Value(v))
                    if path[..at].iter().any(|f| matches!(f, Frame::First(vs) if vs.contains(&v))) =>
                {
                    let writes = if matches!(leaf, Stmt::Set { .. }) { &mut set } else { &mut added };
                    writes.push(v);
                }
                _ => {}
            }
        });
        set.into_iter().chain(added.into_iter().filter(|v| read.contains(v))).next()
    }
}

impl Nest {
    /// How a loop runs, given the copy directly inside: one that is pipelined over copies in registers is expanded, as
    /// registers are addressed while compiling.
    pub fn runs(&self, at: LoopKind, inside: Option<CopyId>) -> LoopKind {
        match (at, inside) {
            (LoopKind::Pipe(_), Some(c)) if self.copy(c).space == Space::Register => LoopKind::Unroll,
            _ => at,
        }
    }
}

impl LoopKind {
    /// Whether each step has a text of its own.
    pub const fn is_expanded(self) -> bool {
        matches!(self, LoopKind::Unroll | LoopKind::Serpentine | LoopKind::Vec)
    }
}

/// How a loop runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LoopKind {
    /// A loop at run time.
    Seq,
    /// Expanded while compiling; fixed digits only.
    Unroll,
    /// Expanded, the steps taken backwards every second time that the loop is entered.
    Serpentine,
    /// Expanded, with memory accesses of unit stride merged into vectors.
    Vec,
    /// A loop whose stages are `n` deep.
    Pipe(u32),
    /// Steps taken by distinct units of the grid or CTA.
    Unit(Unit, UnitDim),
    /// A dimension of an instruction that takes all steps at once.
    Atom(Atom, Role),
}

/// Statements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Stmt {
    /// One digit loop.
    For {
        /// Digit bound.
        digit: Digit,
        /// How it runs.
        at: LoopKind,
        /// One step.
        body: Box<Stmt>,
    },
    /// `first` computes `values`, `rest` reads them. An empty list is a plain sequence.
    Let {
        /// Values whose life is this statement.
        values: Vec<ValueId>,
        /// Computes them.
        first: Box<Stmt>,
        /// Reads them.
        rest: Box<Stmt>,
    },
    /// Copies what the body reads of a tensor on chip.
    Stage {
        /// The copy.
        copy: CopyId,
        /// Reads the copy in place of the tensor.
        body: Box<Stmt>,
    },
    /// Defines one element.
    Def {
        /// Value defined.
        value: ValueId,
        /// Element.
        expr: Expr,
    },
    /// Accumulates one contribution.
    Red {
        /// Value accumulated into.
        value: ValueId,
        /// Operator.
        op: RedOp,
        /// Contribution.
        expr: Expr,
    },
    /// Updates carried state.
    Set {
        /// Value updated.
        value: ValueId,
        /// New element.
        expr: Expr,
    },
    /// Stores one element.
    Put {
        /// Destination.
        access: AccessId,
        /// Element.
        expr: Expr,
    },
    /// Nothing: the second part of a `let` whose values only the loop in its first part reads.
    Skip,
}

/// Expressions: one element, at the point given by the enclosing loops.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Expr {
    /// Element of a tensor.
    Load(AccessId),
    /// Element of a value at this point.
    Get(ValueId),
    /// Literal of a type.
    Const(f64, DType),
    /// Scalar parameter.
    Scalar(tile::ScalarId),
    /// Value of an axis at this point, `i32`.
    Iota(AxisId),
    /// Extent of a named dim, `i32`.
    Dim(Extent),
    /// One operand.
    Un(UnOp, Box<Expr>),
    /// Two operands.
    Bin(BinOp, Box<Expr>, Box<Expr>),
    /// Comparison.
    Cmp(CmpOp, Box<Expr>, Box<Expr>),
    /// Choice.
    Select(Box<Expr>, Box<Expr>, Box<Expr>),
    /// Conversion.
    Cast(DType, Box<Expr>),
}

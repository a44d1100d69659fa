//! Nest IR: loops over axis digits around an untouched body. A schedule is a path through it.
//!
//! ```text
//! Stmt ::= (for Digit At Stmt)        ; Digit = axis.stride.extent
//!        | (let [Value*] Stmt Stmt)   ; the first computes the values, the second reads them; [] sequences
//!        | (stage Copy Stmt)          ; copy what the body reads of a tensor on chip, the body reads the copy
//!        | (def Value E)              ; one element of an elementwise value
//!        | (red Value Op E)           ; value = value op E; starts from the neutral element at the let
//!        | (scan Value Op a E)      ; the element of E; behind the first part of the let a value has the reduction of all up to each
//!        | (set Value E)              ; state that the loops inside its let carry: value = E, in program order
//!        | (put Access E)             ; store one element
//!        | (put Access (scatter I E)) ; .. where values say, or under a condition
//!        | (skip)                     ; nothing: what follows a loop whose values only the loop itself reads
//! I    ::= E* [if E]
//! E    ::= (ld Access) | (gather Access E*) | (get Value) | const | (scalar S) | (iota axis) | (dim D)
//!        | (tile_first axis) | (tile_end axis)        ; of the tile that a recurrence has at hand
//!        | (un E) | (bin E E) | (cmp E E) | (select E E E) | (cast type E)
//! At   ::= #seq | #unroll | #serpentine | #vec | #pipeN | #unit.dim      ; unit: block warpgroup warp lane thread; dim: x y z
//!        | #atom.role                                                 ; atom: mma mma_tf32 wgmma64x128 ..; role: m n k
//! ```
//! The value of axis `a` is `Σ digit · stride` over the digits of `a` bound by the enclosing loops.
//! Accesses are affine over *axes*, so split, reorder, bind and stage substitute nothing. A gather or scatter adds a value to
//! some dimensions of its access, `table[*s, d]`; the values, in the order of the dimensions, are part of the expression. Read from
//! a copy it is a `ld` of `table[row s of *s, d]`: see [`Gathered`].
//! Points at or beyond an axis' extent are guarded where they matter: each `red` skips them (uses its
//! neutral element), each `put` skips them, each `ld` outside its tensor yields zero. A `set` skips steps without points:
//! a tile of nothing changes no state.

use crate::{
    dtype::DType,
    index::{Affine, AxisId, Extent},
    machine::{Space, Unit, UnitDim, Via},
    op::{BinOp, CmpOp, RedOp, UnOp},
    span::SpanId,
    tile,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
};

mod assemble;
mod atom;
mod carry;
mod combine;
mod computed;
mod copied;
mod cover;
mod descriptor;
mod facts;
mod footprint;
mod fragment;
mod freeze;
mod gathered;
mod initial;
mod interpret;
mod layout;
mod lookback;
mod matrices;
mod parse;
mod print;
mod private;
mod roles;
mod rows;
mod segment;
mod share;
mod skew;
mod stored;
mod units;
mod value_box;
mod vector;
mod verify;
mod walk;

pub use crate::machine::{Across, Level, Order};
pub use atom::{Atom, Factor, NoProduct, Operand, Product, Role, Scope, copy_on, parts};
pub(crate) use carry::{CARRIED_SETS, Carry, Prefetch, RegisterPipeline};
pub use carry::{Fraction, Interleave};
pub(crate) use combine::{Combination, partial_units};
pub(crate) use computed::{Computed, EXCHANGED, joined_place};
pub(crate) use copied::{index_name, moves_alike};
pub(crate) use cover::{Cover, Ends, cover, difference, ends, non_negative, oversteps, range};
pub(crate) use descriptor::PERIOD;
pub use descriptor::{Descriptor, NoDescriptor, Placed};
pub use facts::Nest;
pub(crate) use footprint::{BOX_BYTES, BOX_POINTS, MAP_DIMENSIONS, SWIZZLE_LINE, WIDEST, of_a_tile};
pub use footprint::{BoxDim, CopyLayout, Part as CopyPart};
pub(crate) use fragment::{ElementIndex, Fragment, HeldElement, LoopAt, MOST_HELD};
pub(crate) use freeze::{Frozen, Unfrozen};
pub use gathered::Gathered;
pub use initial::initial;
pub(crate) use interpret::interpret_in;
pub use interpret::{Arithmetic, InterpretError, interpret};
pub use layout::{Layout, Where};
pub(crate) use layout::{Spread, own_loops, own_loops_of_all};
pub(crate) use lookback::{Lookback, NoLookback, State, parts_first};
pub use matrices::{MATRIX_ROW_BYTES, MATRIX_ROWS, Matrices, NoMatrices};
pub use parse::{ParseError, parse, parse_nest};
pub use private::{PrivateDim, PrivateTile};
pub use roles::registers_at_launch;
pub(crate) use roles::{WARP, WARPGROUP, registers_of_product, registers_of_thread, two_ctas_fit};
pub use rows::{Part, Place, Row};
pub use segment::{Segment, TileSize};
pub(crate) use skew::{Skew, Unskewed};
pub(crate) use stored::LANES_OF_ROW;
pub use stored::{ExchangedMatrices, NoExchange, NoStoredMatrices, StoredMatrices};
pub(crate) use units::{Dimensions, NoUnits, UnitRange, Units, count, dimensions, threads};
pub(crate) use value_box::{ValueBox, in_place, value_box};
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

/// The points of an axis that do something, of those below its extent: `from ≤ point < to`. What is computed at others is masked where
/// it is used, and a tile without points for any of the rows at hand changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// The first point; 0 if absent. Made of what nothing in the kernel changes, as the end is.
    pub from: Option<Expr>,
    /// The end; the extent if absent.
    pub to: Option<Expr>,
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
    /// The operator and the axis of the scan that it is, if it is one.
    pub scan: Option<(RedOp, AxisId)>,
    /// Whether it is state: the steps of a loop inside its `let` read what the steps before have left in it.
    pub carried: bool,
    /// Where it is held.
    pub placement: Placement,
    /// Source of the statement.
    pub span: SpanId,
}

impl Value {
    /// Whether the steps of a loop over an axis, around the statements that compute it, have parts of it that must come together: of a
    /// reduction, and of a scan along the axis.
    pub fn is_parted_by(&self, axis: AxisId) -> bool {
        !self.axes.contains(&axis) || self.scan.is_some_and(|(_, along)| along == axis)
    }

    /// The axes along which steps have elements of their own.
    pub(crate) fn own_axes(&self) -> BTreeSet<AxisId> {
        self.axes.iter().copied().filter(|axis| !self.is_parted_by(*axis)).collect()
    }

    /// How its parts combine, if it has parts.
    pub fn combined_by(&self) -> Option<RedOp> {
        self.reduction.or(self.scan.map(|(op, _)| op))
    }
}

/// Where a value is held between its definition and its uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Placement {
    /// Registers of the threads that compute it.
    Register,
    /// Shared memory, row-major over its in-tile digits.
    Shared,
}

/// A tensor access: one affine form a dimension, and what is beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Access {
    /// Tensor accessed.
    pub tensor: tile::TensorId,
    /// Index per dimension, without the values that are added to it.
    pub index: Vec<Affine>,
    /// Dimensions to which a value is added, each with the axes of the value.
    pub by: BTreeMap<usize, BTreeSet<AxisId>>,
    /// Dimensions in which values say where the copy that it is read from takes its elements. There the index is the place in the copy.
    pub gathered: BTreeMap<usize, Gathered>,
    /// It stores under a condition: the axes of the condition.
    pub guarded: Option<BTreeSet<AxisId>>,
    /// It combines what it stores with what is there: how, and the axes of what it stores. Each of their points counts once.
    pub combines: Option<(RedOp, BTreeSet<AxisId>)>,
    /// Source of the load or store.
    pub span: SpanId,
}

impl Access {
    /// Whether its forms alone say where it goes, at every point.
    pub fn is_plain(&self) -> bool {
        self.by.is_empty() && self.guarded.is_none() && self.combines.is_none()
    }

    /// What decides beside its forms where it goes, in words; `None` of one that is plain.
    pub(crate) fn decided_by(&self) -> Option<&'static str> {
        match self.combines {
            Some(_) => Some("by atomic operations"),
            None if !self.by.is_empty() => Some("where values say"),
            None => self.guarded.as_ref().map(|_| "under a condition"),
        }
    }

    /// All axes that say where it goes, and of a combining store those of what it stores.
    pub fn axes(&self) -> BTreeSet<AxisId> {
        let forms = self.index.iter().flat_map(|index| index.terms.keys());
        let combined = self.combines.iter().flat_map(|(_, axes)| axes);
        let gathered = self.gathered.values().flat_map(|g| g.axes.iter().chain(g.form.terms.keys()));
        forms.chain(self.by.values().flatten()).chain(combined).chain(gathered).copied().collect()
    }
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

/// How asynchronous MMAs are issued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issue {
    /// The first of them overwrite the sums, which nothing zeroes before.
    pub overwrite: bool,
    /// So many steps' products may be on their way when those of the next step are issued.
    pub in_flight: u32,
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
    /// The kernel as written: what the schedule is a schedule of.
    pub fn source(&self) -> &tile::Kernel {
        self.written.as_deref().unwrap_or(&self.kernel)
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
}

impl Nest {
    /// Whether a digit counts the tiles of a recurrence.
    pub(crate) fn counts_tiles(&self, digit: Digit) -> bool {
        let of = self.recurrences.get(&digit.axis);
        of.is_some_and(|r| digit.stride >= r.tile.unwrap_or(Recurrence::UNTILED))
    }

    /// Whether values say where a tensor is read or stored. Its offsets have 64 bits in every variant: a table or a cache is large
    /// where what is read of it is not.
    pub(crate) fn is_indexed_by_values(&self, tensor: tile::TensorId) -> bool {
        let by_values = |access: &Access| !access.by.is_empty() || !access.gathered.is_empty();
        self.accesses.iter().any(|access| access.tensor == tensor && by_values(access))
    }

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

/// The name of the loop over the tiles of an axis.
pub fn over_tiles(axis: impl Display) -> String {
    format!("{axis}.o")
}

/// The name of the loop inside a tile of an axis.
pub(crate) fn in_tile(axis: impl Display) -> String {
    format!("{axis}.t")
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
    /// One element of what is scanned: where the `let` of the value ends its first part, the value has at each point the
    /// reduction of the elements up to it ([`Value::scan`]).
    Scan {
        /// Value scanned.
        value: ValueId,
        /// Element.
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
    /// Element of a tensor where values say: one for each dimension of [`Access::by`], each an `i32` that wraps around when it
    /// is added.
    Gather(AccessId, Vec<Expr>),
    /// What a `put` stores, at the root of its expression: as [`Expr::Gather`], and where a condition holds.
    Scatter {
        /// Added to the dimensions of [`Access::by`].
        by: Vec<Expr>,
        /// Where it does not hold, nothing is stored.
        when: Option<Box<Expr>>,
        /// What is stored.
        value: Box<Expr>,
    },
    /// Element of a value at this point.
    Get(ValueId),
    /// Literal of a type.
    Const(f64, DType),
    /// Scalar parameter.
    Scalar(tile::ScalarId),
    /// Value of an axis at this point, `i32`.
    Iota(AxisId),
    /// An end of the tile of an axis that a recurrence has at hand, `i32`.
    Edge(AxisId, tile::Edge),
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

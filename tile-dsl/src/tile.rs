//! Tile IR: what the user wrote. Typed tile operations over *named axes*; tile sizes are not in it.
//!
//! ```text
//! Kernel ::= kernel name<T> { tensor* scalar* Axis* Stmt* }
//! Axis   ::= axis a in binder(extent) [.below(E) | .between(E, E)]   ; binder: program_tile tiles whole
//! Stmt   ::= let [mut] x = E | x = E | for a in tiles { Stmt* } | store(T, [Ix*], E) | if E { store(T, [Ix*], E) }
//! E      ::= load(T, [Ix*]) | full(c, [a*]) | iota(a) | tile_first(a) | tile_end(a) | dim(D) | const | scalar | x
//!          | un(E) | bin(E, E) | cmp(E, E) | select(E, E, E) | cast(E) | reduce(op, E, a)
//!          | scan(op, E, a) | dot(E, E, E)
//! Ix     ::= affine form over axes [+ E] [+ unique(E)]          ; an integer value
//! ```
//! A load outside of its tensor is zero and a store outside is none, whether a form or a value leads there.
//! An axis is a binder (`program_tile`, `tiles`, `whole`), not a dimension. A value has an axis *set*
//! and an element type. Elementwise operators take the union of the axes of their operands;
//! `reduce(op, x, a)` removes `a`, `scan(op, x, a)` keeps it; `dot(A, B, C)` contracts the axes of A∪B that C lacks.
//! Outside the extents of its axes a value is unspecified and the *consumer* guards: a reduction
//! uses its neutral element, a dot zeroes both operands, a store skips.
//! A loop over tiles takes one tile a step; a reduction over its axis inside of it covers that tile, so only what is
//! accumulated alone (`x = x + f`, `dot(.., x)`) does not depend on the size of the tiles, which the schedule then says.
//! An axis with limits has only the points between them, for each point of the axes of the limits: see [`limits`].
//! A variable is a value: it stays what it was when it was bound, also after a store to a tensor that it was loaded from.

pub mod evaluate;
mod form;
pub mod index;
mod instantiate;
pub mod limits;
mod make;
mod names;
pub(crate) mod online;
mod operation;
mod parse;
mod print;
mod sums;
mod types;
mod verify;
mod walk;

pub use evaluate::{Outside, evaluate, outside, reference};
pub use form::Form;
pub use index::Index;
pub use limits::{Edge, Limits};
pub use online::in_one_loop;
pub use operation::Operation;
pub use parse::{ParseError, parse};
pub(crate) use sums::{added, sums};
pub use types::ValueType;
pub use verify::verify;
pub use walk::{expressions, expressions_mut, statements};

use crate::{
    dtype::DType,
    index::{AxisId, Extent},
    op::{BinOp, CmpOp, RedOp, UnOp},
    span::SpanId,
};
use serde::{Deserialize, Serialize};

/// A kernel as written. Generic element types stay symbolic until [`Kernel::instantiate`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// Function name.
    pub name: String,
    /// Name of the generic element type parameter, if there is one.
    pub generic: Option<String>,
    /// Tensor parameters in the order written.
    pub tensors: Vec<Tensor>,
    /// Scalar parameters in the order written.
    pub scalars: Vec<Scalar>,
    /// Axes; [`AxisId`] indexes this table.
    pub axes: Vec<Axis>,
    /// Variables; [`VarId`] indexes this table.
    pub vars: Vec<Var>,
    /// Statements in order.
    pub body: Vec<Stmt>,
}

/// Index into [`Kernel::tensors`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TensorId(pub u16);
/// Index into [`Kernel::scalars`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ScalarId(pub u16);
/// Index into [`Kernel::vars`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct VarId(pub u16);

/// Element type of a parameter or of a cast: fixed, or the kernel's generic parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ElemType {
    /// A fixed type.
    Fixed(DType),
    /// The generic parameter; gone after [`Kernel::instantiate`].
    Generic,
}

/// A tensor parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tensor {
    /// Parameter name.
    pub name: String,
    /// Element type.
    pub elem: ElemType,
    /// Extents, outermost first as written. Row-major unless the schedule says otherwise.
    pub dims: Vec<Extent>,
    /// `&mut`: the kernel stores to it.
    pub mutable: bool,
    /// Source of the parameter.
    pub span: SpanId,
}

/// A scalar parameter, passed by value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scalar {
    /// Parameter name.
    pub name: String,
    /// Element type.
    pub elem: ElemType,
    /// Source of the parameter.
    pub span: SpanId,
}

/// How an axis was bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AxisKind {
    /// `program_tile(..)`: each program owns one tile of it.
    Program,
    /// `for a in tiles(..)`: a loop over tiles.
    Tiles,
    /// `whole(..)`: all of it, in every program.
    Whole,
}

/// An axis: a name that ranges over `0..extent`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// Name as written at its binder.
    pub name: String,
    /// Number of points.
    pub extent: Extent,
    /// Binder.
    pub kind: AxisKind,
    /// Which of its points count.
    pub limits: Limits,
    /// Source of the binder.
    pub span: SpanId,
}

/// A variable bound by `let`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Var {
    /// Name as written; one that is bound again has a number behind it, `v.2`: see [`Kernel::named_apart`].
    pub name: String,
    /// `let mut`.
    pub mutable: bool,
    /// Source of the binding.
    pub span: SpanId,
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Stmt {
    /// `let [mut] x = value`.
    Let {
        /// Variable bound.
        var: VarId,
        /// Its value.
        value: Expr,
    },
    /// `x = value`, to a `let mut` variable; keeps axes and type.
    Assign {
        /// Variable assigned.
        var: VarId,
        /// Its new value.
        value: Expr,
        /// Source.
        span: SpanId,
    },
    /// `for axis in tiles(..) { body }`.
    For {
        /// Axis bound by the loop.
        axis: AxisId,
        /// Statements of one step.
        body: Vec<Stmt>,
        /// Source.
        span: SpanId,
    },
    /// `store(tensor, [index], value)`, or `if when { store(tensor, [index], value) }`.
    Store {
        /// Tensor written.
        tensor: TensorId,
        /// One entry a dimension.
        index: Vec<Index>,
        /// Points at which this does not hold store nothing.
        when: Option<Expr>,
        /// `atomic_add(tensor, [index], value)` and the like: what is there is combined with each point's value, in any order.
        combine: Option<RedOp>,
        /// Value. Of a store its axes are those of the index.
        value: Expr,
        /// Source.
        span: SpanId,
    },
}

/// An expression with its source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expr {
    /// Operation.
    pub kind: ExprKind,
    /// Source.
    pub span: SpanId,
}

/// Operations of the tile IR.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ExprKind {
    /// `load(tensor, [index])`.
    Load {
        /// Tensor read.
        tensor: TensorId,
        /// One entry a dimension.
        index: Vec<Index>,
    },
    /// `full(c, [axes])` and `zeros([axes])`.
    Full {
        /// Value of each element.
        value: f64,
        /// Element type.
        elem: ElemType,
        /// Axes of the result.
        axes: Vec<AxisId>,
    },
    /// Index value of an axis, `i32`.
    Iota(AxisId),
    /// An end of the tile of an axis that the loop over it has at hand, `i32`: behind the last tile's is the extent.
    Edge(AxisId, Edge),
    /// Extent of a named dim, `i32`.
    Dim(String),
    /// A literal; takes the type of the other operand where `elem` is `None`.
    Const {
        /// Value.
        value: f64,
        /// Type, if a suffix or a cast fixed it.
        elem: Option<ElemType>,
    },
    /// A scalar parameter.
    Scalar(ScalarId),
    /// A variable.
    Var(VarId),
    /// One operand.
    Un(UnOp, Box<Expr>),
    /// Two operands of equal type.
    Bin(BinOp, Box<Expr>, Box<Expr>),
    /// Comparison, a `bool`.
    Cmp(CmpOp, Box<Expr>, Box<Expr>),
    /// `select(condition, then, otherwise)`.
    Select(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `x.cast::<T>()`.
    Cast(ElemType, Box<Expr>),
    /// `sum(x, axis)`, `max(x, axis)`, `min(x, axis)`, of the type of `x`; a sum of 16-bit floats accumulates in f32 and is
    /// rounded once. Where a loop over tiles adds such sums to a variable, that is one sum.
    Reduce(RedOp, Box<Expr>, AxisId),
    /// `cumsum(x, axis)`, `cummax(x, axis)`, `cummin(x, axis)`: at each point the reduction of the points up to it, of the type of `x`;
    /// accumulated as a reduction is, and each element is rounded once.
    Scan(RedOp, Box<Expr>, AxisId),
    /// `dot(a, b, acc)`; accumulates in the type of `acc`. `dot(a, b, acc, tf32)` is that of both factors rounded to tf32.
    Dot(Box<Expr>, Box<Expr>, Box<Expr>),
}

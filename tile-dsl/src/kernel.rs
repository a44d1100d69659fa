//! Kernel IR: explicit threads, shared buffers, barriers and registers; code generation is a plain walk over it.
//!
//! ```text
//! Kernel ::= params shared* frags* launch Block
//! Stmt   ::= let v = E | load v* = Mem[E] (if E) | store Mem[E] = E* (if E)
//!          | set frag[slot] = E | for v in E..E step E { } | if E { } else { }
//!          | copy Shared[E] <- Global[E] × n (if E) | commit | wait n | barrier
//!          | shuffle v = bfly(E, mask)
//! E      ::= const | v | frag[slot] | tid | cta | dim D | scalar S | un | bin | cmp | select | cast
//! ```
//! Offsets are in elements. A load whose guard is false yields zeros; a store whose guard is false does nothing;
//! an asynchronous copy whose guard is false fills its destination with zeros.
//! Integer arithmetic is `I32`, or `I64` where an offset may pass 2³¹; all threads reach every barrier.

use crate::{
    dtype::DType,
    index::Extent,
    op::{BinOp, CmpOp, UnOp},
    schedule::Target,
};
use serde::{Deserialize, Serialize};

/// Type of a scalar in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Ty {
    /// An element. Arithmetic on F16 and BF16 widens to F32, computes, and rounds.
    Elem(DType),
    /// 64-bit integer, for offsets.
    I64,
}

/// A kernel, ready for code generation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// Entry name, a valid PTX identifier.
    pub name: String,
    /// Target.
    pub target: Target,
    /// Parameters in ABI order: a pointer for each tensor, an `i32` for each named dim, then the scalars.
    pub params: Vec<Param>,
    /// Shared buffers. Above 48 KB in total they are one dynamic allocation.
    pub shared: Vec<Shared>,
    /// Register fragments: arrays indexed by constants only.
    pub frags: Vec<Frag>,
    /// Type of each variable; [`Var`] indexes this table. A variable is assigned exactly once a visit.
    pub vars: Vec<Ty>,
    /// Threads in a CTA.
    pub threads: u32,
    /// CTAs: the product of ⌈extent / tile⌉; the grid is one-dimensional.
    pub grid: Vec<GridAxis>,
    /// `.minnctapersm`.
    pub min_ctas: Option<u32>,
    /// Statements.
    pub body: Vec<Stmt>,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Param {
    /// Pointer to the first element of a tensor in global memory.
    Tensor {
        /// Name.
        name: String,
        /// Element type.
        dtype: DType,
        /// Stored to; otherwise read-only and not aliased.
        mutable: bool,
        /// Alignment in bytes that the launch guarantees.
        align: u32,
    },
    /// A named dim.
    Dim(String),
    /// A scalar.
    Scalar {
        /// Name.
        name: String,
        /// Type.
        dtype: DType,
    },
}

/// A shared buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shared {
    /// Name, for reports.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Elements in all, ring slots and padding included.
    pub elems: u32,
    /// Alignment in bytes.
    pub align: u32,
}

/// A register fragment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frag {
    /// Name, for reports.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Slots a thread holds.
    pub slots: u32,
}

/// One factor of the grid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GridAxis {
    /// Extent of the axis.
    pub extent: Extent,
    /// Points a CTA owns.
    pub tile: u32,
}

/// A variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Var(pub u32);

/// A place in memory: a buffer. The offset stands beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mem {
    /// Tensor parameter, by its position in [`Kernel::params`].
    Global(u32),
    /// Shared buffer, by its position in [`Kernel::shared`].
    Shared(u32),
}

/// Statements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Stmt {
    /// Defines a scalar.
    Let(Var, Expr),
    /// Loads `dst.len()` consecutive elements (1, 2, 4 or 8; at most 16 bytes, aligned to their size).
    Load { dst: Vec<Var>, mem: Mem, offset: Expr, guard: Option<Expr> },
    /// Stores consecutive elements, as [`Stmt::Load`].
    Store { mem: Mem, offset: Expr, values: Vec<Expr>, guard: Option<Expr> },
    /// Writes a register slot.
    Set { frag: u32, slot: u32, value: Expr },
    /// A loop at run time. `var` has the type of the bounds.
    For { var: Var, start: Expr, end: Expr, step: Expr, body: Vec<Stmt> },
    /// A branch.
    If { cond: Expr, then: Vec<Stmt>, otherwise: Vec<Stmt> },
    /// `cp.async` of `elems` consecutive elements (4, 8 or 16 bytes), zero-filled where the guard is false.
    CopyAsync {
        shared: u32,
        shared_offset: Expr,
        global: u32,
        global_offset: Expr,
        elems: u32,
        guard: Option<Expr>,
    },
    /// `cp.async.commit_group`.
    CommitGroup,
    /// `cp.async.wait_group n`: at most `n` youngest groups of this thread remain in flight.
    WaitGroup(u32),
    /// `bar.sync 0`: all threads of the CTA.
    Barrier,
    /// `shfl.sync.bfly` by `mask` over the full warp; 32-bit types, narrower ones are widened around it.
    Shuffle { dst: Var, value: Expr, mask: u32 },
}

/// Scalar expressions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Expr {
    /// Floating-point literal.
    Float(f64, DType),
    /// Integer literal.
    Int(i64, Ty),
    /// Boolean literal.
    Bool(bool),
    /// A variable.
    Var(Var),
    /// A register slot.
    Slot { frag: u32, slot: u32 },
    /// `%tid.x`, `i32` in `0..threads`.
    Tid,
    /// `%ctaid.x`, `i32`.
    Cta,
    /// Extent made of named dims, `i32`.
    Dim(Extent),
    /// Scalar parameter, by position in [`Kernel::params`].
    Scalar(u32),
    /// One operand.
    Un(UnOp, Box<Expr>),
    /// Two operands of equal type. Float `a * b + c` is fused only by [`Expr::Fma`].
    Bin(BinOp, Box<Expr>, Box<Expr>),
    /// `a * b + c`, rounded once.
    Fma(Box<Expr>, Box<Expr>, Box<Expr>),
    /// Integer bit operation: `a xor b`, for swizzles.
    Xor(Box<Expr>, Box<Expr>),
    /// Comparison.
    Cmp(CmpOp, Box<Expr>, Box<Expr>),
    /// Choice; both sides are evaluated.
    Select(Box<Expr>, Box<Expr>, Box<Expr>),
    /// Conversion: float ↔ float rounds to nearest even, float → int truncates, int → int extends or wraps.
    Cast(Ty, Box<Expr>),
}

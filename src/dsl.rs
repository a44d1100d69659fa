//! The tile language: what may stand in the body of a `#[tile_kernel]`.
//!
//! The functions here are stand-ins that give names, signatures and documentation to editors; a kernel's body is
//! never run as Rust but read by the macro. No import is needed inside a kernel. `docs/operations.md` has a card for each operation.
//!
//! | form | meaning |
//! |---|---|
//! | `let (i, j) = program_tile(M, N);` | each program owns one tile of these axes |
//! | `let n = whole(N);` | an axis that every program has all of |
//! | `for k in tiles(K) { .. }` | a loop over the tiles of an axis; values are carried in `let mut` |
//! | `whole(N).below(hi)`, `tiles(N).between(lo, hi)` | an axis of which some points count |
//! | `load(x, [i, 2*k + 1])`, `store(y, [i], v)` | one index a dimension: axes with factors, and integer values |
//! | `load(x, [load(at, [i])])`, `store(y, [unique(v)], x)` | a gather, and a scatter whose points do not meet |
//! | `if c { store(y, [i], v); }` | stores where a condition holds |
//! | `atomic_add(y, [i], v)`, `atomic_max`, `atomic_min` | elements combined with what is there |
//! | `zeros::<f32>([i, j])`, `full::<f32>(1.0, [i])` | a tile of one value |
//! | `dot(a, b, acc)` | `acc` plus the sum over the axes that `acc` lacks |
//! | `dot(a, b, acc, tf32)` | the same of factors rounded to tf32, as `tf32(x)` does |
//! | `sum(x, n)`, `max(x, n)`, `min(x, n)`, `argmax(x, n)`, `argmin(x, n)` | reductions name their axis |
//! | `cumsum(x, n)`, `cummax(x, n)`, `cummin(x, n)` | scans: at each point the reduction of all up to it |
//! | `+ - * / %`, `exp exp2 log sqrt rsqrt tanh abs round order tf32`, `max(a, b)`, `min(a, b)` | elementwise; axes are matched by name |
//! | `== != < <= > >=`, `& \| ^ !`, `select(c, a, b)` | conditions |
//! | `& \| ^ !`, `<<`, `>>` | bits of integers |
//! | `random(seed, i, w)`, `uniform(u)` | 32 random bits, and a number in [0, 1) of them |
//! | `x.cast::<T>()` | conversion, rounding to nearest |
//! | an axis as a value | its index, `i32` |

use std::marker::PhantomData;
use std::ops::{
    Add, AddAssign, BitAnd, BitOr, BitXor, Div, DivAssign, Mul, MulAssign, Neg, Not, Rem, Shl, Shr, Sub,
    SubAssign,
};

/// A tensor parameter: element type, then its dimensions, outermost first: names (`M`), numbers (`3`) or
/// affine forms (`{N + 2}`). Two tensors that share a name must agree, which a launch checks.
pub struct Tensor<T, A = (), B = (), C = (), D = (), E = (), F = ()>(PhantomData<(T, A, B, C, D, E, F)>);

/// A tile value, an axis, or a dim: a set of axes and an element type that the macro infers.
#[derive(Clone, Copy)]
pub struct Tile;

impl Tile {
    /// Converts the elements: floats round to nearest even, float to integer truncates.
    pub fn cast<T>(self) -> Tile {
        self
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident),*) => {$(
        impl $trait for Tile {
            type Output = Tile;
            fn $method(self, _: Tile) -> Tile {
                self
            }
        }
    )*};
}
operators!(Add add, Sub sub, Mul mul, Div div, Rem rem, BitAnd bitand, BitOr bitor, BitXor bitxor, Shl shl, Shr shr);

macro_rules! assignments {
    ($($trait:ident $method:ident),*) => {$(
        impl $trait for Tile {
            fn $method(&mut self, _: Tile) {}
        }
    )*};
}
assignments!(AddAssign add_assign, SubAssign sub_assign, MulAssign mul_assign, DivAssign div_assign);

impl Neg for Tile {
    type Output = Tile;
    fn neg(self) -> Tile {
        self
    }
}

impl Not for Tile {
    type Output = Tile;
    fn not(self) -> Tile {
        self
    }
}

/// Binds an axis of which each program owns one tile; several at once: `let (i, j) = program_tile(M, N);`.
pub fn program_tile(_dim: Tile) -> Tile {
    Tile
}

/// Binds an axis that every program has all of.
pub fn whole(_dim: Tile) -> Tile {
    Tile
}

/// The tiles of an axis, to loop over: `for k in tiles(K)`. The tile size is the schedule's.
pub fn tiles(_dim: Tile) -> Tile {
    Tile
}

impl Tile {
    /// Behind `whole(N)` or `tiles(N)`: the axis has the points below a limit.
    pub fn below(self, _to: Tile) -> Tile {
        self
    }

    /// Behind `whole(N)` or `tiles(N)`: the axis has the points from one limit to another.
    pub fn between(self, _from: Tile, _to: Tile) -> Tile {
        self
    }
}

/// Reads a tensor: one index a dimension. What lies outside the tensor reads as zero.
pub fn load<X, const N: usize>(_tensor: &X, _index: [Tile; N]) -> Tile {
    Tile
}

/// Writes a tensor; each element is written by one program.
pub fn store<X, const N: usize>(_tensor: &X, _index: [Tile; N], _value: Tile) -> Tile {
    Tile
}

/// Adds to what a tensor has: all points that lead to an element, in any order.
pub fn atomic_add<X, const N: usize>(_tensor: &X, _index: [Tile; N], _value: Tile) -> Tile {
    Tile
}

/// Replaces what a tensor has by the greatest of it and of all points that lead there.
pub fn atomic_max<X, const N: usize>(_tensor: &X, _index: [Tile; N], _value: Tile) -> Tile {
    Tile
}

/// Replaces what a tensor has by the least of it and of all points that lead there.
pub fn atomic_min<X, const N: usize>(_tensor: &X, _index: [Tile; N], _value: Tile) -> Tile {
    Tile
}

/// In the index of a store: points with different values go to different elements, or to none.
pub fn unique(_value: Tile) -> Tile {
    Tile
}

/// A tile of zeros.
pub fn zeros<T>(_axes: impl IntoIterator<Item = Tile>) -> Tile {
    Tile
}

/// A tile of one number.
pub fn full<T>(_value: Tile, _axes: impl IntoIterator<Item = Tile>) -> Tile {
    Tile
}

/// `acc` plus the products of `a` and `b`, summed over the axes that `acc` does not have.
///
/// `dot(a, b, acc, tf32)` is `dot(tf32(a), tf32(b), acc)`.
pub fn dot(_a: Tile, _b: Tile, _acc: Tile) -> Tile {
    Tile
}

/// Sum over an axis; the sum over no elements is 0.
pub fn sum(_x: Tile, _axis: Tile) -> Tile {
    Tile
}

/// Maximum over an axis (of no elements: −∞), or the larger of two values.
pub fn max(_x: Tile, _axis: Tile) -> Tile {
    Tile
}

/// Minimum over an axis (of no elements: +∞), or the smaller of two values.
pub fn min(_x: Tile, _axis: Tile) -> Tile {
    Tile
}

/// Where the greatest element along an axis is: the first of equal ones, or of NaN.
pub fn argmax(_x: Tile, _axis: Tile) -> Tile {
    Tile
}

/// Where the smallest element along an axis is: the first of equal ones, or of NaN.
pub fn argmin(_x: Tile, _axis: Tile) -> Tile {
    Tile
}

/// 32 random bits, `u32`: word `w` of the four that Philox4x32-10 makes of the key (`seed`, 0) and the counter (`i`, 0, 0, 0).
pub fn random(_seed: Tile, _i: Tile, _w: Tile) -> Tile {
    Tile
}

/// A number from 0 to below 1 by the first 24 bits of a word.
pub fn uniform(_u: Tile) -> Tile {
    Tile
}

/// At each point of an axis, the sum of the elements up to it.
pub fn cumsum(_x: Tile, _axis: Tile) -> Tile {
    Tile
}

/// At each point of an axis, the greatest of the elements up to it.
pub fn cummax(_x: Tile, _axis: Tile) -> Tile {
    Tile
}

/// At each point of an axis, the smallest of the elements up to it.
pub fn cummin(_x: Tile, _axis: Tile) -> Tile {
    Tile
}

/// `a` where the condition holds, `b` elsewhere.
pub fn select(_condition: Tile, _a: Tile, _b: Tile) -> Tile {
    Tile
}

/// e^x.
pub fn exp(_x: Tile) -> Tile {
    Tile
}

/// 2^x: one instruction where [`exp`] takes about ten.
pub fn exp2(_x: Tile) -> Tile {
    Tile
}

/// Natural logarithm.
pub fn log(_x: Tile) -> Tile {
    Tile
}

/// Square root, correctly rounded.
pub fn sqrt(_x: Tile) -> Tile {
    Tile
}

/// 1/√x.
pub fn rsqrt(_x: Tile) -> Tile {
    Tile
}

/// Hyperbolic tangent.
pub fn tanh(_x: Tile) -> Tile {
    Tile
}

/// The nearest number of tf32, of two the one away from zero: 11 significant bits, the exponents of `f32`.
pub fn tf32(_x: Tile) -> Tile {
    Tile
}

/// Integers in the order of the elements: −0 before +0, and any NaN last.
pub fn order(_x: Tile) -> Tile {
    Tile
}

/// The nearest whole number, of two the even one.
pub fn round(_x: Tile) -> Tile {
    Tile
}

/// Absolute value.
pub fn abs(_x: Tile) -> Tile {
    Tile
}

/// A scalar argument as a value.
#[doc(hidden)]
pub fn scalar<T>(_x: T) -> Tile {
    Tile
}

/// A comparison.
#[doc(hidden)]
pub fn both(_a: Tile, _b: Tile) -> Tile {
    Tile
}

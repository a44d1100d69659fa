//! Kernel IR: explicit threads, shared buffers, barriers and registers; code generation is a plain walk over it.
//!
//! ```text
//! Kernel ::= params shared* frags* launch Block
//! Stmt   ::= a row of [`statements`] | Async        ; a row of [`asynchronous`]
//! E      ::= const | v | frag[slot] | tid | cta | ctas | tiles | dim D | scalar S | un | bin | wrapping bin | cmp | select | cast
//! ```
//! [`mod@print`] writes that grammar in full, [`mod@parse`] reads it back, [`mod@verify`] checks a kernel between
//! passes and [`interpret`] runs one without LLVM and without a GPU.
//!
//! Offsets are in elements. A load whose guard is false yields zeros; a store whose guard is false does nothing;
//! an asynchronous copy whose guard is false fills its destination with zeros.
//! A *grouped* kernel computes several problems in one launch; its parameters are those of a problem, and have values
//! behind a [`Stmt::Problem`] alone.
//! Integer arithmetic is `I32`, or `I64` where an offset may pass 2³¹; all threads reach every barrier.

pub mod asynchronous;
mod expr;
mod interface;
pub mod interpret;
pub(crate) mod lives;
pub mod parse;
mod peers;
pub mod place;
pub mod print;
pub mod statements;
mod table;
pub mod verify;
mod visit;
mod walk;

use crate::{
    dtype::DType,
    index::Extent,
    machine::{Evict, Target},
};
pub use asynchronous::{Async, Role, Rows, Tile};
pub use expr::Expr;
pub use interface::Interface;
use serde::{Deserialize, Serialize};
pub use statements::Stmt;
pub use table::Table;

/// A kernel, ready for code generation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// Entry name, a valid PTX identifier.
    pub name: String,
    /// Target.
    pub target: Target,
    /// Parameters in ABI order: a pointer for each tensor, an `i32` for each named dim, the scalars, then a pointer for
    /// each scratch buffer, then the tensor maps.
    pub params: Vec<Param>,
    /// Tensor parameters that the launch fills with zeros first, by position.
    pub cleared: Vec<u32>,
    /// Shared buffers. Above 48 KB in total they are one dynamic allocation.
    pub shared: Vec<Shared>,
    /// Register fragments: arrays indexed by constants only.
    pub frags: Vec<Frag>,
    /// Type of each variable; [`Var`] indexes this table. A variable is assigned exactly once a visit.
    pub vars: Vec<DType>,
    /// Threads in a CTA.
    pub threads: u32,
    /// CTAs: the product of ⌈extent / tile⌉; the grid is one-dimensional.
    pub grid: Vec<GridAxis>,
    /// `.minnctapersm`.
    pub min_ctas: Option<u32>,
    /// The launch has at most so many CTAs for each multiprocessor, whatever the grid: they take the rest, too.
    pub persistent: Option<u32>,
    /// So many CTAs in a row are a cluster: `.reqnctapercluster`.
    pub cluster: Option<u32>,
    /// Optimisation level of the PTX assembler, 0 to 4; its own default when absent.
    pub assemble: Option<u32>,
    /// The launch may begin before earlier ones in its stream have ended; the body has one [`Stmt::GridDependency`] then.
    pub dependent: bool,
    /// The launch computes several problems: `params` and `grid` are those of one, the CTAs are those of all together.
    pub grouped: bool,
    /// Statements.
    pub body: Vec<Stmt>,
}

/// Bytes of a tensor map (CUDA driver API, `CUtensorMap`).
pub const TENSOR_MAP_BYTES: u32 = 128;

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
        /// Eviction priority in L2 of what is accessed of it, by tensor maps too.
        cache: Option<Evict>,
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
    /// Pointer to global memory that the launch provides, 16-byte aligned and no one else's while the kernel runs.
    Scratch {
        /// Name, for reports.
        name: String,
        /// Element type.
        dtype: DType,
        /// Elements for each CTA of the grid.
        elems: u32,
        /// Zero before the kernel, which leaves it zero; otherwise without a value before and after.
        zeroed: bool,
    },
    /// Map of a tensor (PTX ISA 5.5.8): 128 bytes that the launch makes of the tensor's address, extents and strides.
    TensorMap {
        /// Name, for reports.
        name: String,
        /// The tensor, position in [`Kernel::params`].
        tensor: u32,
        /// Which dimension of it each dimension of the map is, fastest first.
        dims: Vec<u32>,
        /// Elements of the box that a copy moves, likewise.
        tile: Vec<u32>,
        /// Bytes of the swizzle's span, 0 for none.
        swizzle: u32,
        /// Boxes are stored by it, [`Async::Store`], not copied from the tensor. Together they cover the tensor, which the
        /// kernel accesses in no other way; so what the tensor held before the launch is of no consequence.
        stored: bool,
    },
}

/// A shared buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shared {
    /// Name, for reports.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Elements in all, ring stages and padding included.
    pub elems: u32,
    /// Alignment in bytes.
    pub align: u32,
    /// Byte at which it starts. Buffers may lie in the same bytes, one after the other: [`Stmt::Live`].
    pub start: u64,
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
    /// Points after which tiles start over; the last one before has fewer points. Those of an axis whose tiles are all of one size.
    pub period: u32,
    /// Tiles that there are at least, even without a point.
    pub least: u32,
}

impl GridAxis {
    /// An axis whose tiles are all of one size.
    pub const fn of(extent: Extent, tile: u32) -> Self {
        GridAxis { extent, tile, period: tile, least: 0 }
    }

    /// Tiles of so many points.
    pub fn tiles(&self, extent: u64) -> u64 {
        tiles(extent, self.tile, self.period).into_iter().sum::<u64>().max(self.least.into())
    }
}

/// Tiles of an axis of so many points that start over after each `period`: those with `tile` points, and those with what is left of a
/// period; the last one of all may have fewer.
pub fn tiles(extent: u64, tile: u32, period: u32) -> [u64; 2] {
    let (whole, rest) = (period / tile, period % tile);
    let [tile, period, each] = [tile, period, whole].map(u64::from);
    let (periods, left) = (extent / period, extent % period);
    let last = if rest > 0 { periods + u64::from(left > each * tile) } else { 0 };
    [periods * each + left.div_ceil(tile).min(each), last]
}

/// A variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Var(pub u32);

/// A place in memory: a buffer. The offset stands beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Mem {
    /// Tensor or scratch parameter, by its position in [`Kernel::params`].
    Global(u32),
    /// Shared buffer, by its position in [`Kernel::shared`].
    Shared(u32),
}

/// Threads of a CTA that meet at a named barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The barrier, from 1 to 15.
    pub id: u32,
    /// Threads that meet there, a multiple of 32.
    pub threads: u32,
}

impl Param {
    /// Bytes of its value.
    pub fn bytes(&self) -> u32 {
        match self {
            Param::Tensor { .. } | Param::Scratch { .. } => 8,
            Param::Dim(_) => 4,
            Param::Scalar { dtype, .. } => dtype.bytes(),
            Param::TensorMap { .. } => TENSOR_MAP_BYTES,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Param::Tensor { name, .. }
            | Param::Dim(name)
            | Param::Scalar { name, .. }
            | Param::Scratch { name, .. }
            | Param::TensorMap { name, .. } => name,
        }
    }
}

impl Shared {
    /// Bytes it takes: whole accesses of up to 16 bytes, as far as it is aligned.
    pub fn bytes(&self) -> u64 {
        place::whole(u64::from(self.elems) * u64::from(self.dtype.bytes()), self.align)
    }

    /// Whether some bytes are those of another buffer, too.
    pub fn overlaps(&self, other: &Shared) -> bool {
        self.start < other.start + other.bytes() && other.start < self.start + self.bytes()
    }
}

impl Kernel {
    /// Element type of a buffer; `None` if there is no such buffer.
    pub fn dtype_of(&self, mem: Mem) -> Option<DType> {
        match mem {
            Mem::Global(i) => match self.params.get(i as usize)? {
                Param::Tensor { dtype, .. } | Param::Scratch { dtype, .. } => Some(*dtype),
                Param::Dim(_) | Param::Scalar { .. } | Param::TensorMap { .. } => None,
            },
            Mem::Shared(i) => self.shared.get(i as usize).map(|s| s.dtype),
        }
    }

    /// Eviction priority of what is accessed of a parameter: a tensor's, for a map that of its tensor.
    pub fn evict(&self, param: u32) -> Option<Evict> {
        match self.params.get(param as usize)? {
            Param::Tensor { cache, .. } => *cache,
            Param::TensorMap { tensor, .. } if *tensor != param => self.evict(*tensor),
            _ => None,
        }
    }

    /// Bytes of shared memory in all.
    pub fn shared_bytes(&self) -> u64 {
        self.shared.iter().map(|s| s.start + s.bytes()).max().unwrap_or(0)
    }

    /// Gives each shared buffer bytes of its own.
    pub fn place_apart(&mut self) {
        let sizes: Vec<(u64, u32)> = self.shared.iter().map(|s| (s.bytes(), s.align)).collect();
        let (starts, _) = place::apart(&sizes);
        self.shared.iter_mut().zip(starts).for_each(|(buffer, start)| buffer.start = start);
    }

    /// Of each shared buffer those that lie in bytes of it.
    pub fn rivals(&self) -> Vec<Vec<u32>> {
        let shared = || (0..).zip(&self.shared);
        let of = |(n, buffer): (u32, &Shared)| {
            shared().filter(|(m, other)| *m != n && buffer.overlaps(other)).map(|(m, _)| m).collect()
        };
        shared().map(of).collect()
    }

    /// CTAs for these dims: the product of ⌈extent / tile⌉, 0 if any extent is not positive.
    /// `None` if a dim is missing or the product overflows.
    pub fn ctas(&self, dims: &std::collections::BTreeMap<String, i64>) -> Option<u64> {
        self.grid.iter().try_fold(1u64, |n, axis| {
            let extent = u64::try_from(axis.extent.eval(dims)?.max(0)).ok()?;
            n.checked_mul(axis.tiles(extent))
        })
    }
}

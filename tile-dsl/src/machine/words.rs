//! What schedules, nests and kernels call the machine's parts and the ways to use them.

use serde::{Deserialize, Serialize};
use std::fmt;

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
    /// Bands of `n` tiles of one program axis, walked along another one; others are slower. Where a schedule names none, they are
    /// the last two.
    Grouped(u32),
    /// The same bands, every second of them walked back.
    Serpentine(u32),
    /// The same bands, each walked from the end.
    Backwards(u32),
    /// Bands of sixteen tiles; in them squares along Hilbert's curve, and what is left over as
    /// in [`Order::Grouped`].
    Hilbert,
    /// As [`Order::Row`], from the last tile to the first.
    Reversed,
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Space::Shared => f.write_str("shared"),
            Space::Register => f.write_str("register"),
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::Block => "block",
            Unit::Warpgroup => "warpgroup",
            Unit::Warp => "warp",
            Unit::Lane => "lane",
            Unit::Thread => "thread",
        })
    }
}

impl fmt::Display for UnitDim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UnitDim::X => "x",
            UnitDim::Y => "y",
            UnitDim::Z => "z",
        })
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Lane => "lane",
            Level::Warp => "warp",
            Level::Cta => "cta",
        })
    }
}

impl fmt::Display for Across {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Across::Workspace => "workspace",
            Across::Atomic => "atomic",
            Across::Cluster => "cluster",
        })
    }
}

impl fmt::Display for Evict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Evict::NAMED.iter().find(|(_, evict)| evict == self);
        f.write_str(named.map_or("", |(name, _)| name))
    }
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Start::Dependent => "dependent",
        })
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Order::Row => f.write_str("row"),
            Order::Column => f.write_str("col"),
            Order::Grouped(n) => write!(f, "grouped({n})"),
            Order::Serpentine(n) => write!(f, "serpentine({n})"),
            Order::Backwards(n) => write!(f, "backwards({n})"),
            Order::Hilbert => f.write_str("hilbert"),
            Order::Reversed => f.write_str("reversed"),
        }
    }
}

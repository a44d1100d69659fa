//! Happens-before race detection over shared and global memory, after FastTrack (Flanagan & Freund, PLDI 2009).
//!
//! Agents are warps (and asynchronous units); lanes of one warp are told apart by the lane that is stored with an
//! access, because between two warp-wide synchronisations they are unordered too (PTX ISA §8), and so that one lane
//! releases what itself did and not what the others did. Each agent has a clock that advances when it releases; `vc[a][b]` is how far `a` has seen `b`. A full CTA barrier sets all
//! clocks equal, so that one comparison with `floor[a]` (what `a` has seen of everybody) clears most accesses.

mod budget;
mod clocks;
mod crossings;
mod global;
mod groups;
mod lanes;
mod past;
mod shadow;
mod sync;

use crate::findings::RaceKind;
pub(crate) use budget::Budget;
pub(crate) use clocks::{Clocks, Proxied, Token};
pub(crate) use crossings::Crossings;
pub(crate) use global::{Access, GlobalConflict, GlobalShadow, Me};
pub(crate) use lanes::{Ahead, Own, Side};
pub(crate) use shadow::{Act, Run, Shadow};
pub(crate) use sync::{Place, Scope, SyncWord};

/// What an accessor has seen of other agents' writes and reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub writes: &'a [u32],
    pub reads: &'a [u32],
    /// Which clocks of single lanes `writes` goes with.
    pub side: Side,
    /// What is known of lanes beyond that.
    pub ahead: &'a Ahead,
    /// The lanes of the accessor's own warp; none for asynchronous units.
    pub own: Option<&'a Own>,
}

impl Seen<'_> {
    /// Whether what a lane of `agent` did at `clock` comes before what `who` does now.
    #[inline(always)]
    fn after(
        &self,
        (who, now, lane): (u32, u32, u32),
        (agent, clock, other): (u32, u32, u32),
        read: bool,
    ) -> bool {
        let (row, side) = if read { (self.reads, Side::Reads) } else { (self.writes, self.side) };
        let known = if agent != who {
            clock <= row.get(agent as usize).copied().unwrap_or(0)
        } else if let Some(own) = self.own {
            own.before(other, clock, lane)
        } else {
            clock < now || (lane == other && lane != ANY_LANE)
        };
        known || clock == 0 || self.ahead.covers(agent, other, clock, side)
    }

    pub fn after_read(&self, who: (u32, u32, u32), other: (u32, u32, u32)) -> bool {
        self.after(who, other, true)
    }

    pub fn after_write(&self, who: (u32, u32, u32), other: (u32, u32, u32)) -> bool {
        self.after(who, other, false)
    }
}

/// Marks the clock of an access that `floor` says nothing about: from another CTA, or asynchronous.
pub(crate) const FOREIGN: u32 = 1 << 31;
/// Lane number of an access by the warp as a whole.
pub(crate) const ANY_LANE: u32 = 63;
/// Lane number of an access by lanes of which nobody knows which: of several readers one lane is remembered.
pub(crate) const MIXED: u32 = 61;

/// How an access takes part in the memory model (PTX ISA §8.4, §8.5, §8.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Strength(u8);

/// Marks of a strong access whose scope is the CTA, or the cluster.
const OF_CTA: u8 = 8;
const OF_CLUSTER: u8 = 16;

impl Strength {
    pub const WEAK: Strength = Strength(0);
    /// An atomic, volatile, relaxed, acquire or release access: no race with another one.
    pub const STRONG: Strength = Strength(1);
    pub const VOLATILE: Strength = Strength(3);

    /// A write after a fence: it may be what others synchronise with.
    pub fn fenced(self, fenced: bool) -> Strength {
        Strength(self.0 | (fenced as u8) << 2)
    }

    /// A strong access at a scope.
    pub fn at(self, scope: Scope) -> Strength {
        let narrow = match scope {
            _ if !self.is_strong() => 0,
            Scope::Cta => OF_CTA,
            Scope::Cluster => OF_CLUSTER,
            Scope::Gpu => 0,
        };
        Strength(self.0 | narrow)
    }

    /// Whether the scope leaves other clusters out.
    pub fn is_narrow(self) -> bool {
        self.0 & (OF_CTA | OF_CLUSTER) != 0
    }

    /// Whether the scope contains a thread of another CTA, which may be of the same `cluster`.
    pub fn reaches(self, cluster: bool) -> bool {
        self.0 & OF_CTA == 0 && (cluster || self.0 & OF_CLUSTER == 0)
    }

    #[inline(always)]
    pub fn is_strong(self) -> bool {
        self.0 & 1 != 0
    }
    pub fn is_volatile(self) -> bool {
        self.0 & 2 != 0
    }
    pub fn is_fenced(self) -> bool {
        self.0 & 4 != 0
    }
}

/// What a conflict was with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub kind: RaceKind,
    pub agent: u32,
    pub lane: u32,
    pub clock: u32,
    pub pc: u32,
    /// Of the earlier access.
    pub strong: bool,
}

/// Result of checking one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Issue {
    Race(Conflict),
    /// Two unordered `volatile` accesses: no race, but their order is left open.
    Volatile(Conflict),
    Uninitialized,
}

/// Who accesses, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Who {
    pub agent: u32,
    pub lane: u32,
    pub clock: u32,
    pub floor: u32,
    /// Clock up to which everybody who can reach this memory has seen the warps of its CTA.
    pub settled: u32,
    /// Bit of the agent in reader masks; 0 for agents outside the CTA's warps.
    pub bit: u32,
    pub pc: u32,
    pub strength: Strength,
    /// Not all lanes of the warp take part.
    pub partial: bool,
}

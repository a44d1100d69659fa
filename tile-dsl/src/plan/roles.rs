//! The roles of a CTA: which of its threads compute, for which of its tiles, and which copy.

use crate::nest::Nest;
use std::{fmt, ops::Range};

/// The named barrier of the threads that compute; of groups that take turns, that of the first. All threads have number 0.
const COMPUTE_BARRIER: u32 = 1;

/// Threads that do the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Role {
    /// Their numbers in the CTA.
    pub threads: Range<u32>,
    /// Registers of each, where roles share them out.
    pub registers: Option<u32>,
    /// What they do.
    pub does: Does,
}

/// What the threads of a role do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    /// The program, copies of produced loops left out.
    Compute {
        /// Which of the groups that take tiles in turn.
        group: u32,
        /// How many there are: each takes every `of`-th tile of its CTA.
        of: u32,
        /// The named barrier by which they meet; `None` where they are all threads of the CTA.
        barrier: Option<u32>,
    },
    /// The loops around copies, by one of the threads.
    Produce {
        /// That one.
        thread: u32,
    },
}

/// The roles of a nest, so many threads of which compute a tile.
pub(super) fn of(nest: &Nest, computing: u32) -> Vec<Role> {
    let (producing, groups) = (nest.producing(), nest.groups());
    let apart = producing > 0;
    let registers = |role: usize| nest.registers.map(|r| r[role]).filter(|_| apart);
    let mut roles: Vec<Role> = (0..if apart { groups } else { 1 })
        .map(|group| Role {
            threads: group * computing..(group + 1) * computing,
            registers: registers(1),
            does: Does::Compute {
                group,
                of: if apart { groups } else { 1 },
                barrier: apart.then_some(COMPUTE_BARRIER + group),
            },
        })
        .collect();
    if apart {
        let first = computing * groups;
        let does = Does::Produce { thread: first };
        roles.push(Role { threads: first..first + producing, registers: registers(0), does });
    }
    roles
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "role {}..{}", self.threads.start, self.threads.end)?;
        if let Some(registers) = self.registers {
            write!(f, " registers {registers}")?;
        }
        match self.does {
            Does::Compute { group, of, barrier } => {
                write!(f, " computes {group}/{of}")?;
                barrier.map_or(Ok(()), |id| write!(f, " barrier {id}"))
            }
            Does::Produce { thread } => write!(f, " copies by {thread}"),
        }
    }
}

//! The roles of a CTA: which of its threads compute, for which of its tiles, and which copy.

use crate::{
    machine::Unit,
    nest::{CopyId, Digit, LoopKind, Nest, Stmt, chain},
};
use std::{fmt, ops::Range};

/// The named barrier of the threads that compute; of groups that take turns, that of the first. All threads have number 0.
const COMPUTE_BARRIER: u32 = 1;

/// Threads that do the same.
#[derive(Clone, Debug)]
pub(crate) struct Role {
    /// Their numbers in the CTA.
    pub threads: Range<u32>,
    /// Registers of each, where roles share them out.
    pub registers: Option<u32>,
    /// What they do.
    pub does: Does,
}

/// What the threads of a role do.
#[derive(Clone, Debug)]
pub(crate) enum Does {
    /// The program, copies of produced loops left out.
    Compute {
        /// Which of the groups that take tiles in turn.
        group: u32,
        /// How many there are: each takes every `of`-th tile of its CTA.
        of: u32,
        /// Their named barrier; `None` where they are all threads of the CTA.
        barrier: Option<u32>,
    },
    /// The loops around copies, by one of the threads.
    Produce {
        /// That one.
        thread: u32,
        /// The program of the others, without all but these loops.
        loops: Vec<Producing>,
    },
}

/// A loop that a producer goes through.
#[derive(Clone, Debug)]
pub(crate) enum Producing {
    /// Loops that it copies in stand inside.
    Around { digit: Digit, at: LoopKind, inside: Vec<Producing> },
    /// It copies in each step.
    Ring {
        digit: Digit,
        stages: u32,
        copies: Vec<CopyId>,
        /// What reads the copies.
        body: Stmt,
        inside: Vec<Producing>,
    },
}

/// Why the copies of a loop have no producer: threads that compute share the loop around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unproduced(Digit);

impl Unproduced {
    /// In words. Schedules of which it holds are refused before, with what mends them.
    pub fn text(self, nest: &Nest) -> String {
        format!("a producer copies inside `{}`, which threads share", nest.axis(self.0.axis))
    }
}

impl Producing {
    /// The loops of a statement that copies which a producer makes are in.
    fn of(nest: &Nest, stmt: &Stmt) -> Result<Vec<Producing>, Unproduced> {
        Ok(match stmt {
            Stmt::For { digit, at: LoopKind::Pipe(stages), body } if nest.produced.contains(digit) => {
                let (copies, body) = chain(body);
                let inside = Producing::of(nest, body)?;
                vec![Producing::Ring { digit: *digit, stages: *stages, copies, body: body.clone(), inside }]
            }
            Stmt::For { digit, at, body } => {
                let inside = Producing::of(nest, body)?;
                match at {
                    _ if inside.is_empty() => Vec::new(),
                    LoopKind::Unit(unit, _) if *unit != Unit::Block => return Err(Unproduced(*digit)),
                    _ => vec![Producing::Around { digit: *digit, at: *at, inside }],
                }
            }
            Stmt::Let { first, rest, .. } => {
                let mut loops = Producing::of(nest, first)?;
                loops.extend(Producing::of(nest, rest)?);
                loops
            }
            Stmt::Stage { body, .. } => Producing::of(nest, body)?,
            Stmt::Def { .. } | Stmt::Red { .. } | Stmt::Set { .. } | Stmt::Put { .. } | Stmt::Skip => {
                Vec::new()
            }
        })
    }

    fn write(loops: &[Producing], nest: &Nest, out: &mut dyn fmt::Write) -> fmt::Result {
        for (n, step) in loops.iter().enumerate() {
            write!(out, "{}", if n == 0 { " in " } else { ", " })?;
            match step {
                Producing::Around { digit, inside, .. } => {
                    write!(out, "{}", nest.digit_name(*digit))?;
                    Producing::write(inside, nest, out)?;
                }
                Producing::Ring { digit, copies, inside, .. } => {
                    let words: Vec<String> = copies.iter().map(|c| nest.copy_word(*c)).collect();
                    write!(out, "{} ({})", nest.digit_name(*digit), words.join(", "))?;
                    Producing::write(inside, nest, out)?;
                }
            }
        }
        Ok(())
    }
}

/// The roles of a nest, so many threads of which compute a tile.
///
/// # Errors
/// Why a producer cannot copy what it is to.
pub(super) fn of(nest: &Nest, computing: u32) -> Result<Vec<Role>, Unproduced> {
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
        let does = Does::Produce { thread: first, loops: Producing::of(nest, &nest.body)? };
        roles.push(Role { threads: first..first + producing, registers: registers(0), does });
    }
    Ok(roles)
}

impl Role {
    pub(super) fn write(&self, nest: &Nest, f: &mut dyn fmt::Write) -> fmt::Result {
        write!(f, "role {}..{}", self.threads.start, self.threads.end)?;
        if let Some(registers) = self.registers {
            write!(f, " registers {registers}")?;
        }
        match &self.does {
            Does::Compute { group, of, barrier } => {
                write!(f, " computes {group}/{of}")?;
                barrier.map_or(Ok(()), |id| write!(f, " barrier {id}"))?;
            }
            Does::Produce { thread, loops } => {
                write!(f, " copies by {thread}")?;
                Producing::write(loops, nest, f)?;
            }
        }
        writeln!(f)
    }
}

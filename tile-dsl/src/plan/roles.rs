//! The roles of a CTA: which of its threads compute, for which of its tiles, and which copy.

use super::maxima::Maxima;
use crate::{
    machine::{Space, Unit, Via},
    nest::{CopyId, Digit, Frame, LoopKind, Nest, Stmt, ValueId, WARP, WARPGROUP, chain, leaves, loops},
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
    /// Loops whose running maximum stays.
    Frozen { value: ValueId, inside: Vec<Producing> },
    /// It copies in each step.
    Ring {
        digit: Digit,
        stages: u32,
        copies: Vec<CopyId>,
        /// What reads the copies.
        body: Stmt,
        inside: Vec<Producing>,
    },
    /// It copies once, for the tile at hand.
    Tile {
        copies: Vec<CopyId>,
        /// What reads the copies.
        body: Stmt,
        inside: Vec<Producing>,
    },
}

/// Why copies have no producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unproduced {
    /// The loop has no pipeline, or none that has copies.
    NoPipeline {
        /// The loop.
        digit: Digit,
        /// Copies stand in it.
        copies: bool,
    },
    /// A copy in the loop does not come by a tensor map.
    NoMap(Digit, CopyId),
    /// CTAs share the parts of a value before the loop, and not all of them go on, or not with all of it.
    Behind(Digit, ValueId),
    /// So many threads compute, which are no whole warps.
    NoWarps(u64),
    /// So many threads compute, which are no whole warpgroups, and a warpgroup copies.
    NoWarpgroups(u64),
    /// So many threads compute and so many copy, more than a CTA has.
    Crowded {
        /// Those that compute.
        computing: u64,
        /// Those that copy.
        producing: u32,
        /// Threads of a CTA.
        most: u32,
    },
    /// Threads share the loop around it.
    Spread(Digit),
}

impl Unproduced {
    /// In words.
    pub fn text(self, nest: &Nest) -> String {
        match self {
            Unproduced::NoPipeline { digit, .. }
                if loops(&nest.body)
                    .into_iter()
                    .any(|(d, at)| d == digit && nest.is_produced_tile(d, at)) =>
            {
                let name = nest.digit_name(digit);
                format!("nothing is staged once a tile of `{name}` that a producer could copy")
            }
            Unproduced::NoPipeline { digit, .. } => {
                format!("`{}` has no pipeline whose copies a producer could make", nest.digit_name(digit))
            }
            Unproduced::NoMap(_, copy) => format!(
                "a producer copies by tensor maps, and `{}` is copied by {}",
                nest.copy_name(copy),
                match nest.copy(copy).space {
                    Space::Register => "each thread into its registers",
                    _ => "the threads that compute",
                }
            ),
            Unproduced::Behind(digit, value) => {
                let who = match nest.cluster_reduces() {
                    true => "each CTA of the cluster continues with its share alone",
                    false => "only one of them continues",
                };
                format!(
                    "the loop over `{}` comes after `{}`, which CTAs reduce together, and {who}: the producers of all of them would copy",
                    nest.digit_name(digit),
                    nest.value(value).name
                )
            }
            Unproduced::NoWarps(each) => {
                format!("{each} threads compute: with a producer they have to be whole warps")
            }
            Unproduced::NoWarpgroups(each) => {
                format!(
                    "{each} threads compute: with a warpgroup that copies they have to be whole warpgroups"
                )
            }
            Unproduced::Crowded { computing, producing, most } => {
                format!("{computing} threads compute and {producing} copy, but a CTA has at most {most}")
            }
            Unproduced::Spread(digit) => {
                format!("a producer copies inside `{}`, which threads share", nest.axis(digit.axis))
            }
        }
    }

    /// Why a producer cannot make the copies of a nest, so many threads of which compute a tile; all reasons.
    fn all(nest: &Nest, each: u64, most: u32) -> Vec<Unproduced> {
        let mut wrong = Vec::new();
        for digit in &nest.produced {
            let copies = nest.copies_in(*digit);
            let own = loops(&nest.body).into_iter().filter(|(d, _)| d == digit);
            let pipelined = own
                .map(|(_, kind)| kind)
                .all(|kind| matches!(kind, LoopKind::Pipe(_)) || nest.is_produced_tile(*digit, kind));
            let by_threads = copies.iter().find(|c| nest.copy(**c).via != Via::Tma);
            if copies.is_empty() || !pipelined {
                wrong.push(Unproduced::NoPipeline { digit: *digit, copies: !copies.is_empty() });
            } else if let Some(copy) = by_threads {
                wrong.push(Unproduced::NoMap(*digit, *copy));
            }
        }
        if nest.producer.is_none() {
            return wrong;
        }
        wrong.extend(behind_a_split(nest));
        if !each.is_multiple_of(WARP.into()) {
            wrong.push(Unproduced::NoWarps(each));
        }
        if nest.producer == Some(Unit::Warpgroup) && !each.is_multiple_of(WARPGROUP.into()) {
            wrong.push(Unproduced::NoWarpgroups(each));
        }
        let (computing, producing) = (each * u64::from(nest.groups()), nest.producing());
        if computing + u64::from(producing) > u64::from(most) {
            wrong.push(Unproduced::Crowded { computing, producing, most });
        }
        wrong
    }
}

/// What follows a reduction that CTAs share is run by some of them, or for a share of it. A producer does not learn of that: it
/// would fill stages that nobody empties, or others than are read.
fn behind_a_split(nest: &Nest) -> Option<Unproduced> {
    let mut found = None;
    leaves(&nest.body, &mut |path, _| {
        let shared = path.iter().enumerate().find_map(|(n, frame)| match frame {
            Frame::Rest(values) => values.iter().find(|v| nest.across.contains_key(v)).map(|v| (n, *v)),
            _ => None,
        });
        let Some((n, value)) = shared else { return };
        let produced = path[n..].iter().find_map(|frame| match frame {
            Frame::For(digit, _) if nest.produced.contains(digit) => Some(*digit),
            _ => None,
        });
        if let Some(digit) = produced {
            found.get_or_insert(Unproduced::Behind(digit, value));
        }
    });
    found
}

impl Producing {
    /// The loops of a statement that copies which a producer makes are in.
    fn of(nest: &Nest, maxima: &Maxima, stmt: &Stmt) -> Result<Vec<Producing>, Unproduced> {
        Ok(match stmt {
            Stmt::For { digit, at: LoopKind::Pipe(stages), body } if nest.produced.contains(digit) => {
                let (copies, body) = chain(body);
                let inside = Producing::of(nest, maxima, body)?;
                vec![Producing::Ring { digit: *digit, stages: *stages, copies, body: body.clone(), inside }]
            }
            Stmt::For { digit, at, body } => {
                let inside = match chain(body) {
                    (copies, body) if nest.is_produced_tile(*digit, *at) && !copies.is_empty() => {
                        let inside = Producing::of(nest, maxima, body)?;
                        vec![Producing::Tile { copies, body: body.clone(), inside }]
                    }
                    _ => Producing::of(nest, maxima, body)?,
                };
                match at {
                    _ if inside.is_empty() => Vec::new(),
                    LoopKind::Unit(unit, _) if *unit != Unit::Block => {
                        return Err(Unproduced::Spread(*digit));
                    }
                    _ => vec![Producing::Around { digit: *digit, at: *at, inside }],
                }
            }
            Stmt::Let { values, first, rest } => {
                let mut loops = Producing::of(nest, maxima, first)?;
                if let Some(frozen) = maxima.of_let(values)
                    && !loops.is_empty()
                {
                    loops = vec![Producing::Frozen { value: frozen.value, inside: loops }];
                }
                loops.extend(Producing::of(nest, maxima, rest)?);
                loops
            }
            Stmt::Stage { body, .. } => Producing::of(nest, maxima, body)?,
            Stmt::Def { .. }
            | Stmt::Red { .. }
            | Stmt::Scan { .. }
            | Stmt::Set { .. }
            | Stmt::Put { .. }
            | Stmt::Skip => Vec::new(),
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
                Producing::Frozen { inside, .. } => {
                    write!(out, "twice if need be")?;
                    Producing::write(inside, nest, out)?;
                }
                Producing::Ring { digit, copies, inside, .. } => {
                    let words: Vec<String> = copies.iter().map(|c| nest.copy_word(*c)).collect();
                    write!(out, "{} ({})", nest.digit_name(*digit), words.join(", "))?;
                    Producing::write(inside, nest, out)?;
                }
                Producing::Tile { copies, inside, .. } => {
                    let words: Vec<String> = copies.iter().map(|c| nest.copy_word(*c)).collect();
                    write!(out, "the tile ({})", words.join(", "))?;
                    Producing::write(inside, nest, out)?;
                }
            }
        }
        Ok(())
    }
}

/// The roles of a nest.
#[derive(Clone, Debug)]
pub(crate) struct Roles {
    /// The threads of a CTA by what they do, in their order; one role where all do the same.
    pub all: Vec<Role>,
    /// Why a producer cannot copy what it is to.
    pub unproduced: Vec<Unproduced>,
}

impl Roles {
    /// Those of a nest, so many threads of which compute a tile, in CTAs of at most `most` threads.
    pub fn of(nest: &Nest, maxima: &Maxima, each: u64, most: u32) -> Roles {
        let mut unproduced = Unproduced::all(nest, each, most);
        let computing = u32::try_from(each).unwrap_or(u32::MAX);
        let (producing, groups) = (nest.producing(), nest.groups());
        let apart = producing > 0;
        let groups = if apart { groups } else { 1 };
        let registers = |role: usize| nest.registers.map(|r| r[role]).filter(|_| apart);
        let first = |group: u32| computing.saturating_mul(group);
        let mut all: Vec<Role> = (0..groups)
            .map(|group| Role {
                threads: first(group)..first(group + 1),
                registers: registers(1),
                does: Does::Compute { group, of: groups, barrier: apart.then_some(COMPUTE_BARRIER + group) },
            })
            .collect();
        if apart {
            let loops = Producing::of(nest, maxima, &nest.body);
            unproduced.extend(loops.as_ref().err());
            let (first, loops) = (first(groups), loops.unwrap_or_default());
            let threads = first..first.saturating_add(producing);
            all.push(Role { threads, registers: registers(0), does: Does::Produce { thread: first, loops } });
        }
        Roles { all, unproduced }
    }
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

//! The channels: which copies come together, into how many stages, who fills these and what says that one is full or free.
//!
//! Copies that stand together and complete together are a channel: stages that are filled and read in turn, an item a step of
//! the loop around them, or one item where no pipeline is. All that the walk does for it follows from who fills a stage, what says
//! that one is full, and what says that it may be filled again:
//!
//! | copies | filled by | full | free | steps ahead, of n stages |
//! |---|---|---|---|---|
//! | registers | each thread | program order | program order | n - 1, the loop expanded |
//! | plain | all threads | barrier | that barrier | n - 1 |
//! | `cp_async` | all threads | its group, barrier | that barrier | n - 1 |
//! | `tma` | one thread | mbarrier | barrier behind it | n - 1 |
//! | `tma`, `produce` | threads of their own | mbarrier | mbarrier, an arrival a warp or a thread | as the stages allow |
//!
//! Where a loop computes a value a step ahead (`skew`), the copies that it reads are a channel of their own, before the others.
//!
//! Registers that are filled in each step of a channel around them can be prefetched across its iterations; where they
//! do not, [`Carry`] says why.

use crate::{
    machine::{Space, Unit, Via},
    nest::{
        Carry, CopyId, Digit, Expr, Factor, Frame, Interleave, LoopKind, Nest, Skew, Stmt, ValueId, chain,
        leaves,
    },
    program::Variant,
};
use std::fmt;

/// Who fills the stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Producer {
    /// Each thread its own registers.
    Each,
    /// The threads that read them, together.
    All,
    /// One of the threads that read them.
    One,
    /// Threads that do nothing else.
    Role(Unit),
}

/// What says that a stage is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// The order of the program.
    Program,
    /// A barrier of the threads that fill it.
    Barrier,
    /// Groups of `cp.async`, then a barrier; plain copies beside them have landed before it.
    Group,
    /// An mbarrier, by the bytes that have come.
    Mbarrier,
}

/// Copies that share stages.
#[derive(Clone, Debug)]
pub(crate) struct Channel {
    /// Which of the nest's it is, in program order.
    pub number: usize,
    /// The copies, outermost first.
    pub copies: Vec<CopyId>,
    /// The copy after which its mbarriers are called: those of all channels of a producer that have copies in common.
    pub ring: CopyId,
    /// The loop whose steps are its items, if it is pipelined.
    pub digit: Option<Digit>,
    /// Items that it holds at a time.
    pub stages: u32,
    /// Who fills them.
    pub producer: Producer,
    /// What says that one is full, where vectors are aligned, and where they are not: `cp.async` copies no single halves.
    full: [Full; 2],
    /// Who says that a stage is free, where others fill it than read it.
    pub arrive: Unit,
    /// Threads read a stage by ordinary loads: they are fenced from the copy that fills it next.
    pub fences_reads: bool,
    /// Threads fill it by ordinary stores, and asynchronous MMA reads it: the stores are fenced from that.
    pub fences_stores: bool,
    /// Asynchronous MMA that is on its way while the next steps are read.
    pub in_flight: Option<InFlight>,
    /// Its items are read a step ahead, for a value that is computed so.
    pub skewed: Option<Skew>,
    /// Whether registers that it fills are prefetched across its iterations, in words.
    carry: Option<String>,
}

/// Products that are waited for some steps later; their stages are free then.
#[derive(Clone, Debug)]
pub(crate) struct InFlight {
    /// The values that they add to.
    pub values: Vec<ValueId>,
    /// Steps after which they are waited for.
    pub steps: u32,
}

impl Channel {
    /// What says that a stage is full, in a variant.
    pub fn full(&self, variant: Variant) -> Full {
        self.full[usize::from(variant == Variant::General)]
    }

    /// What says that a stage is full, where vectors are aligned, and where they are not.
    pub fn signals(&self) -> &[Full; 2] {
        &self.full
    }

    /// Whether all threads that read a stage have a barrier once it is full: what others read of the stage before is read then, too.
    pub fn has_barrier(&self) -> bool {
        match self.producer {
            Producer::All => true,
            Producer::One => self.stages > 1,
            Producer::Each | Producer::Role(_) => false,
        }
    }

    /// Steps that the threads which read it fill it ahead.
    pub fn ahead(&self) -> u32 {
        self.stages - 1
    }

    /// Groups of `cp.async` that may be on their way while a stage is read.
    pub fn groups_ahead(&self) -> u32 {
        self.ahead().saturating_sub(1)
    }

    fn write(&self, nest: &Nest, out: &mut dyn fmt::Write) -> fmt::Result {
        let (stages, s) = (self.stages, if self.stages == 1 { "" } else { "s" });
        let what = if self.producer == Producer::Each { "set" } else { "stage" };
        write!(out, "channel {}", nest.copied(&self.copies))?;
        if let Some(digit) = self.digit {
            write!(out, " at `{}`", nest.digit_name(digit))?;
        }
        write!(out, ": {stages} {what}{s}, filled by {}", self.producer)?;
        match (self.digit, self.producer) {
            (_, Producer::Role(_)) => write!(out, " as stages become free")?,
            (None, _) => {}
            (_, _) => write!(out, " {} ahead", self.ahead())?,
        }
        let [aligned, general] = self.full.map(|full| self.signal(full));
        write!(out, "; {aligned}")?;
        if general != aligned {
            write!(out, ", without vectors {general}")?;
        }
        if let (Some(digit), Producer::Each) = (self.digit, self.producer) {
            write!(out, ", loads spread over the first {} of a step", nest.interleave(digit).loads)?;
        }
        if let Some(skew) = &self.skewed {
            write!(out, "; {}", skew.text(nest))?;
        }
        if let Some(InFlight { steps, .. }) = &self.in_flight {
            write!(out, "; products of {steps} step{} in flight", if *steps == 1 { "" } else { "s" })?;
        }
        for (fenced, what) in [(self.fences_reads, "reads"), (self.fences_stores, "stores")] {
            write!(out, "{}", if fenced { format!("; {what} fenced") } else { String::new() })?;
        }
        self.carry.iter().try_for_each(|carry| write!(out, "; {carry}"))?;
        writeln!(out)
    }

    /// What says that a stage is full, and that it is free.
    fn signal(&self, full: Full) -> &'static str {
        match (full, self.producer) {
            (Full::Program, _) => "full and free in the order of the program",
            (Full::Barrier, _) => "full and free at a barrier",
            (Full::Group, _) => "full at a group of cp.async and a barrier, free at that barrier",
            (Full::Mbarrier, Producer::Role(_)) if self.arrive == Unit::Thread => {
                "full at an mbarrier, free at an mbarrier where each thread arrives"
            }
            (Full::Mbarrier, Producer::Role(_)) => "full at an mbarrier, free at an mbarrier",
            (Full::Mbarrier, _) => "full at an mbarrier, free at a barrier",
        }
    }
}

impl fmt::Display for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Producer::Each => "each thread",
            Producer::All => "all threads",
            Producer::One => "one thread",
            Producer::Role(Unit::Warpgroup) => "a warpgroup",
            Producer::Role(_) => "a warp",
        })
    }
}

/// Whether threads read a copy by ordinary loads inside, and whether asynchronous MMA reads it.
fn readers(nest: &Nest, body: &Stmt, copy: CopyId) -> (bool, bool) {
    let (mut threads, mut products) = (false, false);
    leaves(body, &mut |path: &[Frame], leaf| {
        let (_, expr) = leaf.leaf().expect("a leaf");
        let own = |expr: &Expr| expr.accesses().iter().any(|a| nest.serves(copy, *a));
        let Some(product) = nest.product(path, leaf).filter(|p| p.atom.row().descriptors) else {
            threads |= own(expr);
            return;
        };
        for factor in product.factors {
            match factor {
                Factor::Load(access) => products |= nest.serves(copy, access),
                Factor::Computed(expr) => threads |= own(expr),
            }
        }
    });
    (threads, products)
}

/// Copies that stand together: in the steps of a pipelined loop, or in no pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Together {
    /// The loop, and how many of its steps are held at a time.
    pipeline: Option<(Digit, u32)>,
    /// The loop over tiles that CTAs have, where a producer copies for it.
    tile: Option<Digit>,
    copies: Vec<CopyId>,
}

/// The channels of a nest.
#[derive(Clone, Debug)]
pub(crate) struct Channels {
    /// In program order, with what reads them.
    all: Vec<(Together, Stmt, Vec<Channel>)>,
}

impl Channels {
    /// Those of a nest.
    pub fn of(nest: &Nest) -> Channels {
        let mut channels = Channels { all: Vec::new() };
        channels.find(nest, &nest.body);
        channels
    }

    /// The channels of copies that stand together, in the steps of a pipelined loop of so many stages or in no pipeline: those of tensor
    /// maps first, then what threads copy, then registers. `body` reads them.
    pub fn get(&self, pipeline: Option<(Digit, u32)>, copies: &[CopyId], body: &Stmt) -> &[Channel] {
        let alike = || self.all.iter().filter(|(at, ..)| at.pipeline == pipeline && at.copies == copies);
        let found = match alike().count() {
            1 => alike().next(),
            _ => alike().find(|(_, of, _)| of == body),
        };
        found.map_or(&[], |(.., channels)| channels)
    }

    fn find(&mut self, nest: &Nest, stmt: &Stmt) {
        match stmt {
            Stmt::For { digit, at: LoopKind::Pipe(stages @ 2..), body } => {
                self.add(nest, (Some((*digit, *stages)), None), body);
                self.find(nest, chain(body).1);
            }
            Stmt::For { digit, at, body } if nest.is_produced_tile(*digit, *at) => {
                if !chain(body).0.is_empty() {
                    self.add(nest, (None, Some(*digit)), body);
                }
                self.find(nest, chain(body).1);
            }
            Stmt::Stage { .. } => {
                self.add(nest, (None, None), stmt);
                self.find(nest, chain(stmt).1);
            }
            other => other.parts().for_each(|part| self.find(nest, part)),
        }
    }

    fn add(&mut self, nest: &Nest, (pipeline, tile): (Option<(Digit, u32)>, Option<Digit>), stmt: &Stmt) {
        let (copies, body) = chain(stmt);
        let together = Together { pipeline, tile, copies };
        if self.all.iter().all(|(at, of, _)| *at != together || of != body) {
            let before = self.all.iter().map(|(.., channels)| channels.len()).sum();
            let channels = together.channels(nest, body, before);
            self.all.push((together, body.clone(), channels));
        }
    }

    pub(super) fn write(&self, nest: &Nest, out: &mut dyn fmt::Write) -> fmt::Result {
        // Those of several places are written once where they are alike.
        let mut written: Vec<String> = Vec::new();
        for channel in self.all.iter().flat_map(|(.., channels)| channels) {
            let mut line = String::new();
            channel.write(nest, &mut line)?;
            if !written.contains(&line) {
                out.write_str(&line)?;
                written.push(line);
            }
        }
        Ok(())
    }
}

impl Together {
    /// Its channels; there are so many in the nest before.
    fn channels(&self, nest: &Nest, body: &Stmt, before: usize) -> Vec<Channel> {
        let digit = self.pipeline.map(|(digit, _)| digit);
        let ahead = self.tile.and_then(|tile| nest.tile_stages.get(&tile).copied());
        let stages = self.pipeline.map_or(ahead.unwrap_or(1), |(_, stages)| stages);
        let arrive = digit.or(self.tile).map_or(Unit::Warp, |d| nest.arriving(d));
        let of = |producer: Producer, full: [Full; 2], is_one: &dyn Fn(CopyId) -> bool| {
            let copies: Vec<CopyId> = self.copies.iter().copied().filter(|c| is_one(*c)).collect();
            let carry = match digit {
                Some(_) if producer != Producer::Each => Carry::of(nest, &copies, body).text(nest),
                _ => None,
            };
            let read: Vec<(bool, bool)> = copies.iter().map(|c| readers(nest, body, *c)).collect();
            let plain = |(copy, (_, products)): (&CopyId, &(bool, bool))| {
                *products && nest.copy(*copy).via != Via::Tma
            };
            let in_flight = nest.in_flight(body).filter(|_| digit.is_some());
            let ring = nest.ring(&copies)?;
            Some(Channel {
                number: before,
                ring,
                fences_reads: full.contains(&Full::Mbarrier) && read.iter().any(|(threads, _)| *threads),
                fences_stores: copies.iter().zip(&read).any(plain),
                in_flight: in_flight.map(|(values, steps)| InFlight { values, steps }),
                copies,
                digit,
                stages,
                producer,
                full,
                arrive,
                skewed: None,
                carry,
            })
        };
        let held = |c: CopyId| nest.copy(c).space == Space::Register;
        let boxed = |c: CopyId| !held(c) && nest.copy(c).via == Via::Tma;
        let skew = digit.and_then(|digit| nest.skew_of(digit, &self.copies, body));
        let is_ahead = |c: CopyId| skew.as_ref().is_some_and(|skew| skew.ahead.contains(&c));
        let shared = |c: CopyId| !held(c) && !boxed(c);
        let loop_of = digit.or(self.tile);
        let produced = nest.producer.filter(|_| loop_of.is_some_and(|d| nest.produced.contains(&d)));
        let landed = [true, false].map(|vectors| {
            let groups = self.copies.iter().any(|c| shared(*c) && nest.is_asynchronous(*c, vectors));
            if groups { Full::Group } else { Full::Barrier }
        });
        let by_maps = produced.map_or(Producer::One, Producer::Role);
        [
            of(by_maps, [Full::Mbarrier; 2], &|c| boxed(c) && is_ahead(c)),
            of(by_maps, [Full::Mbarrier; 2], &|c| boxed(c) && !is_ahead(c)),
            of(Producer::All, landed, &shared),
            of(Producer::Each, [Full::Program; 2], &held),
        ]
        .into_iter()
        .flatten()
        .zip(before..)
        .map(|(channel, number)| {
            let skewed = skew.clone().filter(|skew| skew.ahead == channel.copies);
            Channel { number, skewed, ..channel }
        })
        .collect()
    }
}

impl Carry<'_> {
    fn text(&self, nest: &Nest) -> Option<String> {
        match self {
            Carry::None => None,
            Carry::Apart(why) => {
                Some(format!("registers inside are not prefetched across iterations: {why}"))
            }
            Carry::Over(carried) => {
                let digit = nest.digit_name(carried.digit);
                let Interleave { copies, stores, .. } = nest.interleave(carried.digit);
                Some(format!(
                    "the registers of `{digit}` are prefetched across iterations, copies issued over {copies} of its steps, plain ones stored from {stores} on"
                ))
            }
        }
    }
}

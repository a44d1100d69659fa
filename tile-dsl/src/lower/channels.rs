//! Channels: what the staged copies of a nest are, before the walk makes them.
//!
//! Copies that stand together and complete together are a channel: slots that are filled and read in turn, an item a step of
//! the loop around them, or one item where no pipeline is. All that the walk does for it ([`super::pipeline`]) follows
//! from who fills a slot, what says that one is full, and what says that it may be filled again:
//!
//! | copies | filled by | full | free | steps ahead, of n slots |
//! |---|---|---|---|---|
//! | registers | each thread | program order | program order | n - 1, the loop expanded |
//! | plain | all threads | barrier | that barrier | n - 1 |
//! | `cp_async` | all threads | its group, barrier | that barrier | n - 1 |
//! | `tma` | one thread | mbarrier | barrier behind it | n - 1 |
//! | `tma`, `produce` | threads of their own | mbarrier | mbarrier, an arrival a warp or a thread | as the slots allow |
//!
//! Registers that are filled in each step of a channel around them can run on from one of its steps to the next; where they
//! do not, [`Carry`] says why.

use crate::{
    nest::{Carry, CopyId, Digit, Interleave, LoopKind, Nest, Stmt, chain},
    program::Variant,
    schedule::{Space, Unit, Via},
};
use std::fmt;

/// Who fills the slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Producer {
    /// Each thread its own registers.
    Each,
    /// The threads that read them, together.
    All,
    /// One of the threads that read them.
    One,
    /// Threads that do nothing else.
    Role(Unit),
}

/// What says that a slot is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// The order of the program.
    Program,
    /// A barrier of the threads that fill it.
    Barrier,
    /// Groups of `cp.async`, then a barrier; plain copies beside them have landed before it.
    Group,
    /// An mbarrier, by the bytes that have come.
    Mbarrier,
}

/// Copies that share slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChannelPlan {
    /// The copies, outermost first.
    pub copies: Vec<CopyId>,
    /// The loop whose steps are its items, if it is pipelined.
    pub digit: Option<Digit>,
    pub slots: u32,
    pub producer: Producer,
    pub full: Full,
    /// Who says that a slot is free, where others fill it than read it.
    pub arrive: Unit,
}

impl ChannelPlan {
    /// The channels of copies that stand together, those of tensor maps first, then what threads copy, then registers.
    /// Of a pipelined loop there is one: the engine has seen to that.
    pub fn of(nest: &Nest, variant: Variant, pipeline: Option<(Digit, u32)>, copies: &[CopyId]) -> Vec<Self> {
        let of = |producer: Producer, full: Full, is_one: &dyn Fn(CopyId) -> bool| {
            let copies: Vec<CopyId> = copies.iter().copied().filter(|c| is_one(*c)).collect();
            let digit = pipeline.map(|(digit, _)| digit);
            let slots = pipeline.map_or(1, |(_, slots)| slots);
            let arrive = digit.map_or(Unit::Warp, |d| nest.arriving(d));
            (!copies.is_empty()).then_some(ChannelPlan { copies, digit, slots, producer, full, arrive })
        };
        let held = |c: CopyId| nest.copy(c).space == Space::Register;
        let boxed = |c: CopyId| !held(c) && nest.copy(c).via == Via::Tma;
        let shared = |c: CopyId| !held(c) && !boxed(c);
        let produced = nest.producer.filter(|_| pipeline.is_some_and(|(d, _)| nest.produced.contains(&d)));
        let groups = copies.iter().any(|c| shared(*c) && is_asynchronous(nest, variant, *c));
        [
            of(produced.map_or(Producer::One, Producer::Role), Full::Mbarrier, &boxed),
            of(Producer::All, if groups { Full::Group } else { Full::Barrier }, &shared),
            of(Producer::Each, Full::Program, &held),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Whether all threads that read a slot meet once it is full: what others read of the slot before is read then, too.
    pub fn has_barrier(&self) -> bool {
        match self.producer {
            Producer::All => true,
            Producer::One => self.slots > 1,
            Producer::Each | Producer::Role(_) => false,
        }
    }

    /// Steps that the threads which read it fill it ahead.
    pub fn ahead(&self) -> u32 {
        self.slots - 1
    }

    /// Groups of `cp.async` that may be on their way while a slot is read.
    pub fn groups_ahead(&self) -> u32 {
        self.ahead().saturating_sub(1)
    }

    fn text(&self, nest: &Nest) -> String {
        let at = self.digit.map_or(String::new(), |d| format!(" at `{}`", nest.digit_name(d)));
        let (slots, s) = (self.slots, if self.slots == 1 { "" } else { "s" });
        let what = if self.producer == Producer::Each { "set" } else { "slot" };
        let ahead = match (self.digit, self.producer) {
            (None, _) => String::new(),
            (_, Producer::Role(_)) => " as slots become free".into(),
            (_, _) => format!(" {} ahead", self.ahead()),
        };
        let spread = match (self.digit, self.producer) {
            (Some(digit), Producer::Each) => {
                format!(", loads spread over the first {} of a step", nest.interleave(digit).loads)
            }
            _ => String::new(),
        };
        format!(
            "{}{at}: {slots} {what}{s}, filled by {}{ahead}; {}{spread}",
            nest.copied(&self.copies),
            self.producer,
            match (self.full, self.producer) {
                (Full::Program, _) => "full and free in the order of the program",
                (Full::Barrier, _) => "full and free at a barrier",
                (Full::Group, _) => "full at a group of cp.async and a barrier, free at that barrier",
                (Full::Mbarrier, Producer::Role(_)) if self.arrive == Unit::Thread => {
                    "full at an mbarrier, free at an mbarrier where each thread arrives"
                }
                (Full::Mbarrier, Producer::Role(_)) => "full at an mbarrier, free at an mbarrier",
                (Full::Mbarrier, _) => "full at an mbarrier, free at a barrier",
            }
        )
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

/// Whether a copy is made by `cp.async` in a variant.
pub(super) fn is_asynchronous(nest: &Nest, variant: Variant, copy: CopyId) -> bool {
    nest.is_asynchronous(copy, variant != Variant::General)
}

impl Carry<'_> {
    fn text(&self, nest: &Nest) -> Option<String> {
        match self {
            Carry::None => None,
            Carry::Apart(why) => Some(format!("registers inside start anew in each step: {why}")),
            Carry::Over(carried) => {
                let digit = nest.digit_name(carried.digit);
                let Interleave { copies, stores, .. } = nest.interleave(carried.digit);
                Some(format!(
                    "the registers of `{digit}` run on into the next step, copies issued over {copies} of its steps, plain ones stored from {stores} on"
                ))
            }
        }
    }
}

/// The channels of a nest, a line each.
pub(super) fn list(nest: &Nest, variant: Variant) -> String {
    let mut out = String::new();
    lines(nest, variant, &nest.body, &mut out);
    out
}

fn lines(nest: &Nest, variant: Variant, stmt: &Stmt, out: &mut String) {
    let mut add = |pipeline, stmt| {
        let (copies, body) = chain(stmt);
        for channel in ChannelPlan::of(nest, variant, pipeline, &copies) {
            let carry = match pipeline {
                Some(_) if channel.producer != Producer::Each => {
                    Carry::of(nest, &channel.copies, body).text(nest)
                }
                _ => None,
            };
            out.push_str(&channel.text(nest));
            carry.into_iter().for_each(|carry| *out += &format!("; {carry}"));
            out.push('\n');
        }
    };
    match stmt {
        Stmt::For { digit, at: LoopKind::Pipe(slots @ 2..), body } => {
            add(Some((*digit, *slots)), body);
            lines(nest, variant, chain(body).1, out);
        }
        Stmt::Stage { .. } => {
            add(None, stmt);
            lines(nest, variant, chain(stmt).1, out);
        }
        Stmt::For { body, .. } => lines(nest, variant, body, out),
        Stmt::Let { first, rest, .. } => {
            lines(nest, variant, first, out);
            lines(nest, variant, rest, out);
        }
        Stmt::Def { .. } | Stmt::Red { .. } | Stmt::Set { .. } | Stmt::Put { .. } | Stmt::Skip => {}
    }
}

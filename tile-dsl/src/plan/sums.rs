//! The sums: how the parts of a reduction come together that several threads of a CTA hold, and that several CTAs hold.
//!
//! | parts are held by | they come together |
//! |---|---|
//! | lanes of a warp | by shuffles |
//! | threads of several warps | through places in shared memory, in ascending order |
//! | threads, in shared memory | there, in ascending order |
//! | CTAs in any order | as each stores its own: stores add |
//! | CTAs, none of which waits | through a workspace in global memory, in pairs; four at once where registers are free for them |
//! | CTAs of a cluster | through the shared memory of the CTA that adds them up |

use super::{
    places::{Place, Places},
    scan::Scan,
    tiles::Tiles,
};
use crate::{
    dtype::DType,
    machine::{self, Unit, UnitDim},
    nest::{
        Across, Combination, Digit, Frame, Layout, Level, LoopKind, Nest, Step, Steps, Stmt, Target,
        UnitRange, Units, ValueId, WIDEST, leaves, partial_units, registers_of_thread, with_paths,
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// Parts that may be added at once. Of more, several CTAs read at a time.
pub(crate) const QUAD: u32 = 4;

/// Registers of a thread that are for neither sums nor what is added to them: addresses, and what lives on.
const BESIDE: u32 = 32;

/// How the parts of a value come together.
#[derive(Clone, Debug)]
pub(crate) struct Sum {
    /// The value.
    pub value: ValueId,
    /// Which of its `let`s, in program order.
    nth: usize,
    /// Of threads of a CTA.
    pub threads: Option<Threads>,
    /// Of CTAs.
    pub ctas: Option<Ctas>,
}

/// How the parts that threads hold come together.
#[derive(Clone, Debug)]
pub(crate) enum Threads {
    /// From registers.
    Registers(Combination),
    /// From registers, of a scan, that of one thread's elements among them.
    Scanned(Scan),
    /// From a place in shared memory beside those of the others, of the threads along these dimensions.
    Shared(Vec<(Unit, UnitDim)>),
}

/// How the parts that CTAs hold come together.
#[derive(Clone, Debug)]
pub(crate) enum Ctas {
    /// What each stores is added.
    Atomic,
    /// Through global memory.
    Workspace(Workspace),
    /// Through shared memory of a cluster.
    Cluster(Cut),
}

/// Parts in global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Workspace {
    /// Elements of an access.
    pub width: u32,
    /// A thread has registers for half of what three other CTAs leave: [`QUAD`] parts may be added at once.
    pub at_once: bool,
    /// Loads of a thread that are on their way together.
    pub in_flight: u32,
}

/// What each CTA of a cluster adds up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Slots of the first CTA's share.
    pub own: Vec<u32>,
    /// By how much those of the next CTA are greater: not at all where each CTA that goes on has all of them.
    pub next: u32,
    /// Elements of an access.
    pub width: u32,
}

/// Why there is no way for parts to come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsummed {
    /// Threads along a loop hold parts, and nothing combines them.
    Apart(ValueId, Digit, Unit),
    /// Threads along a loop take the steps of a scan in another order than that of the axis.
    Skewed(ValueId, Digit),
    /// Others hold parts than those that combine them.
    Other(ValueId, Level, Holders),
    /// CTAs have parts, and they are not in registers.
    Shared(ValueId),
    /// Its slots have no share that the CTAs take.
    Whole(ValueId),
    /// No loop is shared out among CTAs.
    Nowhere,
    /// CTAs would meet in each step of a loop around.
    Repeated(ValueId, Step),
    /// A value is computed where the parts of another have met, and needed by CTAs that do not get there.
    Behind {
        /// It.
        value: ValueId,
        /// The other, or the same at an earlier place.
        met: ValueId,
    },
}

/// Threads that hold parts which a level does not combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holders {
    /// Several warps.
    Warps,
    /// Lanes of a warp that has fewer than 32.
    NotFull,
    /// A number of lanes that is no power of two.
    Odd,
    /// Lanes of one warp.
    Lanes,
}

impl fmt::Display for Holders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Holders::Warps => "several warps",
            Holders::NotFull => "a warp that is not full",
            Holders::Odd => "a number of lanes that is no power of two",
            Holders::Lanes => "lanes of one warp",
        })
    }
}

impl Unsummed {
    /// In words.
    pub fn text(self, nest: &Nest) -> String {
        let name = |value: ValueId| nest.value(value).name.clone();
        match self {
            Unsummed::Apart(value, digit, unit) => format!(
                "nothing combines the parts of `{}` that each {unit} holds along `{}`",
                name(value),
                nest.digit_name(digit)
            ),
            Unsummed::Skewed(value, digit) => format!(
                "`{}` is scanned along `{}`, whose steps units take in an order of their own",
                name(value),
                nest.digit_name(digit)
            ),
            Unsummed::Other(value, level, held) => {
                format!("{held} hold parts of `{}`, and `reduce` combines those of a {level}", name(value))
            }
            Unsummed::Shared(value) => {
                format!("CTAs share the parts of `{}`, which are not in registers", name(value))
            }
            Unsummed::Whole(value) => {
                format!("registers of `{}` do not come apart into a share for each CTA", name(value))
            }
            Unsummed::Nowhere => "no loop is shared out among CTAs".into(),
            Unsummed::Repeated(value, (digit, at)) => {
                let (name, over) = (name(value), nest.digit_name(digit));
                let meet = "the CTAs that hold parts of it would have to synchronise in each step, and they do so once a launch";
                match (at, digit.steps) {
                    (LoopKind::Pipe(_), Steps::Fixed(1)) => format!(
                        "`{name}` is computed inside the loop over `{over}`, which `pipeline` makes a loop at run time though it has one step: {meet}"
                    ),
                    _ => format!("`{name}` is computed inside the loop over `{over}`: {meet}"),
                }
            }
            Unsummed::Behind { value, met } => {
                let (own, before) = (name(value), name(met));
                let what = match nest.across.contains_key(&value) {
                    true if value == met => format!("`{own}` is computed again"),
                    true => format!("`{own}` is computed"),
                    false => format!("`{own}`, which others read, is computed"),
                };
                format!(
                    "{what} after the parts of `{before}` are combined: not all CTAs that need it run that code"
                )
            }
        }
    }
}

/// Why parts that CTAs hold do not meet once a launch, or not in all CTAs that need them.
fn met_once(nest: &Nest) -> Option<Unsummed> {
    if nest.across.is_empty() {
        return None;
    }
    let mut repeated = None;
    with_paths(&nest.body, &mut |path, stmt| {
        let Stmt::Let { values, .. } = stmt else { return };
        // The steps of a pipelined loop are guarded, even a single one.
        let runs = |(digit, at): &Step| match at {
            LoopKind::Unit(..) => false,
            LoopKind::Pipe(_) => true,
            _ => digit.steps != Steps::Fixed(1),
        };
        for value in values.iter().filter(|v| nest.across.contains_key(v)) {
            let around = path.iter().filter_map(Frame::step).find(runs);
            repeated = repeated.or(around.map(|step| Unsummed::Repeated(*value, step)));
        }
    });
    repeated.or_else(|| behind_another(nest))
}

/// What is computed where the parts of a reduction have met, and needed by CTAs that do not get there: a part of another reduction,
/// or of another copy of this one, and a value that lives on behind that place.
fn behind_another(nest: &Nest) -> Option<Unsummed> {
    let mut found = None;
    leaves(&nest.body, &mut |path, leaf| {
        let met = path.iter().enumerate().find_map(|(n, frame)| match frame {
            Frame::Rest(values) => values.iter().find(|v| nest.across.contains_key(v)).map(|v| (n, *v)),
            _ => None,
        });
        if let (Some((n, met)), Some((Target::Value(value), _))) = (met, leaf.leaf()) {
            let lives_on = path[..n].iter().any(|f| matches!(f, Frame::First(vs) if vs.contains(&value)));
            if lives_on || nest.across.contains_key(&value) {
                found.get_or_insert(Unsummed::Behind { value, met });
            }
        }
    });
    found
}

impl Workspace {
    /// Parts of so many sums a thread, where other CTAs leave so many registers.
    pub fn of(width: u32, at_once: bool, slots: u32, free: u32) -> Self {
        Workspace { width, at_once, in_flight: free.max(fewest_in_flight(slots)) }
    }

    /// Slots of a thread that are loaded before any is added, of so many other CTAs at once: in batches of one size.
    pub fn batch(self, slots: u32, others: u32) -> u32 {
        let most = self.in_flight.div_ceil(others);
        slots.div_ceil(slots.div_ceil(most)).next_multiple_of(self.width)
    }
}

/// Slots of a thread that one access of a part takes.
pub(crate) fn side_by_side(slots: u32, dtype: DType) -> u32 {
    let most = (WIDEST as u32 / dtype.bytes()).max(1);
    1 << slots.trailing_zeros().min(most.ilog2())
}

/// Loads of a thread that are on their way together for want of registers: half as many as it has sums.
const fn fewest_in_flight(slots: u32) -> u32 {
    if slots > 2 { slots.div_ceil(2) } else { slots }
}

/// What the sums of a nest follow from.
struct Planner<'n> {
    nest: &'n Nest,
    units: &'n Units,
    tiles: &'n Tiles,
    target: machine::Target,
}

impl Planner<'_> {
    fn sum(
        &self,
        place: &Place,
        partial: &BTreeMap<(Unit, UnitDim), Digit>,
    ) -> Result<Option<Sum>, Unsummed> {
        let value = place.value;
        let threads = self.threads(place, partial)?;
        // What no thread has registers for is refused for that, however its parts would come together.
        let held = place.registers.as_ref().map_or(0, Layout::slots);
        let across = self.nest.across.get(&value).filter(|_| held <= u64::from(self.target.registers()));
        let ctas = across.map(|across| self.ctas(place, *across)).transpose()?;
        Ok((threads.is_some() || ctas.is_some()).then_some(Sum { value, nth: place.nth, threads, ctas }))
    }

    fn threads(
        &self,
        place: &Place,
        partial: &BTreeMap<(Unit, UnitDim), Digit>,
    ) -> Result<Option<Threads>, Unsummed> {
        let value = place.value;
        // A unit of one has all parts.
        let several = |unit: &&(Unit, UnitDim)| self.units.dims.contains_key(unit);
        let scan = match (self.nest.value(value).scan, &place.registers) {
            (Some((_, axis)), Some(layout)) => Some(Threads::Scanned(Scan::of(layout, axis, self.units))),
            _ => None,
        };
        let Some((unit, digit)) = partial.iter().find(|(unit, _)| several(unit)) else { return Ok(scan) };
        if let Some(skewed) =
            partial.values().find(|digit| scan.is_some() && self.nest.skew.contains_key(digit))
        {
            return Err(Unsummed::Skewed(value, *skewed));
        }
        let Some(level) = self.nest.combine.get(&value).copied() else {
            return Err(Unsummed::Apart(value, *digit, unit.0));
        };
        if place.registers.is_none() {
            return Ok(Some(Threads::Shared(partial.keys().filter(several).copied().collect())));
        }
        let combination = Combination::new(self.units, partial.keys().filter(several));
        let held = match level {
            Level::Lane if combination.across_warps => Some(Holders::Warps),
            Level::Lane if !combination.full_warps => Some(Holders::NotFull),
            Level::Lane if !combination.across.is_empty() => Some(Holders::Odd),
            Level::Warp if combination.within_warp => Some(Holders::Lanes),
            _ => None,
        };
        match held {
            Some(held) => Err(Unsummed::Other(value, level, held)),
            None => Ok(Some(scan.unwrap_or(Threads::Registers(combination)))),
        }
    }

    fn ctas(&self, place: &Place, across: Across) -> Result<Ctas, Unsummed> {
        if across == Across::Atomic {
            return Ok(Ctas::Atomic);
        }
        let Some(layout) = &place.registers else { return Err(Unsummed::Shared(place.value)) };
        let Some(parts) = self.tiles.parts() else { return Err(Unsummed::Nowhere) };
        let slots = u32::try_from(layout.slots()).unwrap_or(u32::MAX);
        let dtype = self.nest.value(place.value).dtype;
        if across == Across::Workspace {
            let free = self.free_registers(slots);
            let width = if self.is_product(place.value) { side_by_side(slots, dtype) } else { 1 };
            let at_once = parts == QUAD && free >= (QUAD - 1) * slots / 2;
            return Ok(Ctas::Workspace(Workspace::of(width, at_once, slots, free)));
        }
        let axes = &self.nest.value(place.value).axes;
        let cut = self.nest.share().filter(|digit| axes.contains(&digit.axis));
        let (own, next): (Vec<u32>, u32) = match cut {
            None => ((0..slots).collect(), 0),
            Some(digit) => {
                let weight = layout.slot(digit.axis, digit.stride.into());
                let (Some(weight), Steps::Fixed(steps)) = (weight, digit.steps) else {
                    return Err(Unsummed::Whole(place.value));
                };
                let kept = |slot: &u32| slot / weight % steps < steps / parts;
                ((0..slots).filter(kept).collect(), weight * (steps / parts))
            }
        };
        let width = side_by_side(own.len() as u32, dtype);
        Ok(Ctas::Cluster(Cut { own, next, width }))
    }

    /// Whether tensor cores add up a value: its sums lie side by side in registers as it is. Others need not, and the assembler
    /// would pay for it in the loop that computes them.
    fn is_product(&self, value: ValueId) -> bool {
        let mut found = false;
        leaves(&self.nest.body, &mut |path, leaf| {
            let adds = matches!(leaf.leaf(), Some((Target::Value(v), _)) if v == value);
            found |= adds && self.nest.product(path, leaf).is_some();
        });
        found
    }

    /// Registers that a thread of this CTA has beside so many sums, with as many CTAs on an SM as are asked for.
    fn free_registers(&self, slots: u32) -> u32 {
        let threads = self.units.threads + self.nest.producing();
        let each = registers_of_thread(self.target, threads, self.nest.occupancy.unwrap_or(1));
        each.saturating_sub(slots + BESIDE)
    }
}

impl Sum {
    fn write(&self, nest: &Nest, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "sum {}:", nest.value(self.value).name)?;
        match &self.threads {
            None => {}
            Some(Threads::Shared(_)) => write!(out, " of threads in shared memory")?,
            Some(Threads::Scanned(scan)) => write!(out, " scanned{scan}")?,
            Some(Threads::Registers(combination)) => {
                let of = |ranges: &[UnitRange]| ranges.iter().map(|r| r.extent).product::<u32>();
                if !combination.lanes.is_empty() {
                    write!(out, " of {} lanes by shuffles", of(&combination.lanes))?;
                }
                if !combination.across.is_empty() {
                    let then = if combination.lanes.is_empty() { "" } else { ", then" };
                    write!(out, "{then} of {} through shared memory", of(&combination.across))?;
                }
            }
        }
        let then = if self.threads.is_some() { ", then" } else { "" };
        let elements = |n: u32| if n == 1 { "1 element".to_string() } else { format!("{n} elements") };
        match &self.ctas {
            None => {}
            Some(Ctas::Atomic) => write!(out, "{then} of CTAs as they store")?,
            Some(Ctas::Workspace(Workspace { width, at_once, .. })) => {
                let together = if *at_once { QUAD } else { 2 };
                write!(
                    out,
                    "{then} of CTAs through a workspace, {together} at once, {} an access",
                    elements(*width)
                )?;
            }
            Some(Ctas::Cluster(Cut { own, width, .. })) => {
                let slots = own.len();
                write!(
                    out,
                    "{then} of CTAs of a cluster, {slots} registers each, {} an access",
                    elements(*width)
                )?;
            }
        }
        writeln!(out)
    }
}

/// The sums of a nest that have parts, in program order; each with the reason where there is none.
#[derive(Clone, Debug)]
pub(crate) struct Sums {
    all: Vec<Result<Sum, Unsummed>>,
    /// Reductions over loops that are bound to units.
    in_parts: BTreeSet<ValueId>,
    /// Why parts that CTAs hold do not meet once a launch.
    unmet: Option<Unsummed>,
}

impl Sums {
    /// Those of a nest for a target, whose tiles and places are planned. Without units nobody knows how parts come together.
    pub fn of(
        nest: &Nest,
        target: machine::Target,
        units: Option<&Units>,
        tiles: &Tiles,
        places: &Places,
    ) -> Sums {
        let (mut all, mut in_parts) = (Vec::new(), BTreeSet::new());
        for (value, first) in nest.lets() {
            if !partial_units(nest, value, first).is_empty() {
                in_parts.insert(value);
            }
        }
        if let Some(units) = units {
            let planner = Planner { nest, units, tiles, target };
            for (place, first) in places.with_firsts(nest) {
                all.extend(planner.sum(place, &partial_units(nest, place.value, first)).transpose());
            }
        }
        Sums { all, in_parts, unmet: met_once(nest) }
    }

    /// That of a value in a place; `None` where one thread has each element whole.
    pub fn get(&self, place: &Place) -> Option<&Sum> {
        self.all.iter().flatten().find(|sum| sum.value == place.value && sum.nth == place.nth)
    }

    /// Whether units hold parts of a reduction.
    pub fn has_parts(&self, value: ValueId) -> bool {
        self.in_parts.contains(&value)
    }

    /// Why parts that CTAs hold do not meet once a launch, or not in all CTAs that need them.
    pub fn unmet(&self) -> Option<Unsummed> {
        self.unmet
    }

    /// The first reason for which parts do not come together.
    pub fn unsummed(&self) -> Option<Unsummed> {
        self.unmet.or_else(|| self.all.iter().find_map(|sum| sum.as_ref().err().copied()))
    }

    pub(super) fn write(&self, nest: &Nest, out: &mut dyn fmt::Write) -> fmt::Result {
        self.all.iter().flatten().try_for_each(|sum| sum.write(nest, out))
    }
}

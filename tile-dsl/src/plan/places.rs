//! The places: where each value of a `let` lives, in registers of the threads that compute it, in shared memory, or in both.

use crate::{
    machine::Unit,
    nest::{
        Frame, Layout, LoopKind, Nest, Placement, Step, Steps, Stmt, ValueBox, ValueId, in_place, own_loops,
        own_loops_of_all, value_box, with_paths,
    },
};
use std::fmt;

/// Where a value lives from one of its `let`s on.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The value.
    pub value: ValueId,
    /// Which of its `let`s, in program order.
    pub nth: usize,
    /// The loops over its axes, to the first statement that computes it.
    pub loops: Vec<Step>,
    /// Its elements in registers. `None` where it is computed in shared memory.
    pub registers: Option<Layout>,
    /// Which of its `let`s has the registers: the first of those in which a thread holds as many of its elements.
    pub set: usize,
    /// Its elements in shared memory.
    pub shared: Option<ValueBox>,
}

/// Why a value has no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unplaced {
    /// All of an axis without a bound would be held: along this loop.
    Unbounded(ValueId, Step),
    /// A buffer of the CTA would be computed in a loop of whose steps each unit has its own.
    Within(ValueId, Step, Unit),
    /// This loop would index its registers at run time.
    RunTime(ValueId, Step),
}

impl Unplaced {
    /// The value.
    pub fn value(self) -> ValueId {
        match self {
            Unplaced::Unbounded(value, _) | Unplaced::Within(value, ..) | Unplaced::RunTime(value, _) => {
                value
            }
        }
    }

    /// In words.
    pub fn text(self, nest: &Nest) -> String {
        let name = &nest.value(self.value()).name;
        match self {
            Unplaced::Unbounded(_, (digit, _)) => format!(
                "`{name}` is held for all of `{}`, which has no bound: neither registers nor shared memory can hold it",
                nest.axis(digit.axis)
            ),
            Unplaced::Within(_, (digit, _), unit) => format!(
                "`{name}` is computed inside the loop over `{}`, bound to {unit}: each {unit} has its own, so it cannot be one buffer of the CTA",
                nest.digit_name(digit)
            ),
            Unplaced::RunTime(_, (digit, at)) => {
                let which = if matches!(at, LoopKind::Pipe(_)) { "a pipelined" } else { "this" };
                format!(
                    "`{name}` is held in registers, one for each step of `{}`, but {which} loop runs at run time and cannot index registers",
                    nest.digit_name(digit)
                )
            }
        }
    }
}

impl Place {
    /// That of a value which `first` computes, inside of the loops `outside`.
    fn of(
        nest: &Nest,
        (value, nth): (ValueId, usize),
        outside: &[Frame],
        first: &Stmt,
    ) -> Result<Place, Unplaced> {
        let mut inside = own_loops_of_all(nest, value, first).concat();
        inside.sort();
        if let Some(open) = inside.iter().find(|(digit, _)| digit.steps == Steps::Rest) {
            return Err(Unplaced::Unbounded(value, *open));
        }
        let loops = own_loops(nest, value, first);
        let mut shared = None;
        if nest.value(value).placement == Placement::Shared {
            for (digit, at) in outside.iter().filter_map(Frame::step) {
                if let LoopKind::Unit(unit, _) = at
                    && unit != Unit::Block
                {
                    return Err(Unplaced::Within(value, (digit, at), unit));
                }
            }
            shared = value_box(nest, value, &loops);
            if nest.value(value).combined_by().is_none() {
                return Ok(Place { value, nth, loops, registers: None, set: nth, shared });
            }
        }
        // A reduction accumulates in registers, wherever its result goes, and a scan has all elements there.
        let piped = |(d, at): &&Step| matches!(at, LoopKind::Pipe(_)) && d.steps != Steps::Fixed(1);
        if let Some(step) = inside.iter().find(piped) {
            return Err(Unplaced::RunTime(value, *step));
        }
        let registers = match in_place(nest, value, &loops) {
            true => None,
            false => Some(registers(nest, value, &loops)?),
        };
        Ok(Place { value, nth, loops, registers, set: nth, shared })
    }

    fn write(&self, nest: &Nest, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "place {}:", nest.value(self.value).name)?;
        if let Some(layout) = &self.registers {
            let slots = layout.slots();
            write!(out, " {slots} register{}", if slots == 1 { "" } else { "s" })?;
        }
        if let Some(shared) = &self.shared {
            let points: Vec<String> = shared.points.iter().map(u64::to_string).collect();
            let points = if points.is_empty() { "1".into() } else { points.join("×") };
            write!(
                out,
                "{} {points} in shared memory",
                if self.registers.is_some() { ", then" } else { "" }
            )?;
        }
        writeln!(out)
    }
}

fn registers(nest: &Nest, value: ValueId, loops: &[Step]) -> Result<Layout, Unplaced> {
    let indexes = |(digit, at): &&Step| {
        digit.steps != Steps::Fixed(1) && !matches!(at, LoopKind::Unit(..)) && !at.is_expanded()
    };
    match loops.iter().find(indexes) {
        Some(step) => Err(Unplaced::RunTime(value, *step)),
        None => Ok(Layout::new(nest, value, loops.iter().copied())),
    }
}

/// The places of a nest's values, one for each value of a `let`, in program order; each with the reason where it has none.
#[derive(Clone, Debug)]
pub(crate) struct Places(Vec<Result<Place, Unplaced>>);

impl Places {
    /// Those of a nest.
    pub fn of(nest: &Nest) -> Places {
        let mut places: Vec<Result<Place, Unplaced>> = Vec::new();
        with_paths(&nest.body, &mut |path, stmt| {
            let Stmt::Let { values, first, .. } = stmt else { return };
            for value in values {
                let nth = places.iter().filter(|place| of_value(place) == *value).count();
                let mut place = Place::of(nest, (*value, nth), path, first);
                if let Ok(place) = &mut place {
                    let slots = |place: &Place| place.registers.as_ref().map(Layout::slots);
                    let mut before = places.iter().flatten().filter(|other| other.value == *value);
                    place.set =
                        before.find(|other| slots(other) == slots(place)).map_or(nth, |other| other.nth);
                }
                places.push(place);
            }
        });
        Places(places)
    }

    /// The first reason for which a value has none.
    pub fn unplaced(&self) -> Option<Unplaced> {
        self.0.iter().find_map(|place| place.as_ref().err().copied())
    }

    /// All of them, in program order.
    pub fn all(&self) -> impl Iterator<Item = Result<&Place, Unplaced>> {
        self.0.iter().map(|place| place.as_ref().map_err(|why| *why))
    }

    /// That of a value from the `let` on of which this is the first part.
    pub fn get(&self, nest: &Nest, value: ValueId, first: &Stmt) -> Option<&Place> {
        let nth = match self.0.iter().filter(|place| of_value(place) == value).count() {
            1 => 0,
            _ => {
                nest.lets().into_iter().filter(|(v, _)| *v == value).position(|(_, other)| other == first)?
            }
        };
        self.nth(value, nth)
    }

    /// That of a value from one of its `let`s on.
    pub fn nth(&self, value: ValueId, nth: usize) -> Option<&Place> {
        self.of_value(value).find(|place| place.nth == nth)
    }

    /// Whether a value is computed in shared memory, from any of its `let`s on.
    pub fn is_in_place(&self, value: ValueId) -> bool {
        self.of_value(value).any(|place| place.registers.is_none())
    }

    /// Those of a value.
    pub fn of_value(&self, value: ValueId) -> impl Iterator<Item = &Place> {
        self.0.iter().flatten().filter(move |place| place.value == value)
    }

    /// All that there are, each with the first part of its `let`.
    pub(super) fn with_firsts<'a>(&'a self, nest: &'a Nest) -> impl Iterator<Item = (&'a Place, &'a Stmt)> {
        self.0.iter().zip(nest.lets()).filter_map(|(place, (_, first))| Some((place.as_ref().ok()?, first)))
    }

    pub(super) fn write(&self, nest: &Nest, out: &mut dyn fmt::Write) -> fmt::Result {
        self.0.iter().flatten().try_for_each(|place| place.write(nest, out))
    }
}

/// The value that a place, or the reason why there is none, is of.
fn of_value(place: &Result<Place, Unplaced>) -> ValueId {
    place.as_ref().map_or_else(|why| why.value(), |place| place.value)
}

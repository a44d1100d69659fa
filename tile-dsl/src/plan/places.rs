//! The places: where each value of a `let` lives, in registers of the threads that compute it, in shared memory, or in both.

use crate::{
    index::AxisId,
    nest::{Layout, LoopKind, Nest, Placement, Step, Steps, Stmt, ValueId, own_loops},
    shared::{ValueBox, in_place, value_box},
};
use std::fmt;

/// Where a value lives from one of its `let`s on.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The value.
    pub value: ValueId,
    /// Which of its `let`s, in program order.
    pub(super) nth: usize,
    /// The loops over its axes, to the first statement that computes it.
    pub loops: Vec<Step>,
    /// Its elements in registers. `None` where it is computed in shared memory.
    pub registers: Option<Layout>,
    /// Its elements in shared memory.
    pub shared: Option<ValueBox>,
}

/// Why a value has no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unplaced {
    /// A loop at run time would index its registers.
    RunTime(ValueId, AxisId),
    /// All of an axis without a bound would be held.
    Unbounded(ValueId, AxisId),
}

impl Unplaced {
    /// In words. Schedules of which it holds are refused before, with what mends them.
    pub fn text(self, nest: &Nest) -> String {
        match self {
            Unplaced::RunTime(value, axis) => format!(
                "registers of `{}` are indexed by a loop over `{}` at run time",
                nest.value(value).name,
                nest.axis(axis)
            ),
            Unplaced::Unbounded(value, axis) => format!(
                "`{}` is held along all of `{}`, which has no bound",
                nest.value(value).name,
                nest.axis(axis)
            ),
        }
    }
}

impl Place {
    fn of(nest: &Nest, value: ValueId, nth: usize, first: &Stmt) -> Result<Place, Unplaced> {
        let loops = own_loops(nest, value, first);
        let shared = match nest.value(value).placement {
            Placement::Register => None,
            Placement::Shared => {
                Some(value_box(nest, value, &loops).map_err(|axis| Unplaced::Unbounded(value, axis))?)
            }
        };
        let registers = match in_place(nest, value, &loops) {
            true => None,
            false => Some(registers(nest, value, &loops)?),
        };
        Ok(Place { value, nth, loops, registers, shared })
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
    for (digit, at) in loops {
        match digit.steps {
            Steps::Fixed(1) => {}
            _ if matches!(at, LoopKind::Unit(..)) => {}
            Steps::Fixed(_) if at.is_expanded() => {}
            Steps::Fixed(_) => return Err(Unplaced::RunTime(value, digit.axis)),
            Steps::Rest => return Err(Unplaced::Unbounded(value, digit.axis)),
        }
    }
    Ok(Layout::new(nest, value, loops.iter().copied()))
}

/// The places of a nest's values, in program order.
#[derive(Clone, Debug)]
pub(crate) struct Places(Vec<Place>);

impl Places {
    /// Those of a nest.
    pub fn of(nest: &Nest) -> Result<Places, Unplaced> {
        let mut places: Vec<Place> = Vec::new();
        for (value, first) in nest.lets() {
            let nth = places.iter().filter(|place| place.value == value).count();
            places.push(Place::of(nest, value, nth, first)?);
        }
        Ok(Places(places))
    }

    /// That of a value from the `let` on of which this is the first part.
    pub fn get(&self, nest: &Nest, value: ValueId, first: &Stmt) -> Option<&Place> {
        let nth = match self.of_value(value).count() {
            1 => 0,
            _ => {
                nest.lets().into_iter().filter(|(v, _)| *v == value).position(|(_, other)| other == first)?
            }
        };
        self.of_value(value).find(|place| place.nth == nth)
    }

    fn of_value(&self, value: ValueId) -> impl Iterator<Item = &Place> {
        self.0.iter().filter(move |place| place.value == value)
    }

    /// All of them, each with the first part of its `let`.
    pub(super) fn with_firsts<'a>(&'a self, nest: &'a Nest) -> impl Iterator<Item = (&'a Place, &'a Stmt)> {
        self.0.iter().zip(nest.lets()).map(|(place, (_, first))| (place, first))
    }

    pub(super) fn write(&self, nest: &Nest, out: &mut dyn fmt::Write) -> fmt::Result {
        self.0.iter().try_for_each(|place| place.write(nest, out))
    }
}

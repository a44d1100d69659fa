//! Where a value lives: in registers by its [`Layout`], in shared memory as a row-major box over its in-tile points.

use super::{Holds, Lowerer, digits::Bound, error::LowerError, linear::Linear};
use crate::{
    index::AxisId,
    nest::{Layout, LoopKind, Steps, Stmt, ValueId},
    plan::{Place, Sum, Unplaced},
    schedule::{Unit, UnitDim},
    shared::{Content, ValueBox},
};
use std::collections::{BTreeMap, BTreeSet};

/// A value in scope.
#[derive(Clone, Debug)]
pub(super) struct Held<'a> {
    /// Digits bound outside its `let`.
    pub height: usize,
    /// Loops at run time outside its `let`.
    pub loops: usize,
    /// Where it lives.
    pub place: &'a Place,
    /// How its parts come together, if it has any.
    pub sum: Option<&'a Sum>,
    pub registers: Option<Registers<'a>>,
    pub shared: Option<SharedBox>,
}

/// A value in registers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registers<'a> {
    pub frag: u32,
    pub slots: u32,
    layout: &'a Layout,
}

impl Lowerer<'_> {
    /// The slots of a value that the tile at hand has.
    pub fn slots_in_tile(&self, registers: &Registers<'_>) -> Vec<u32> {
        match self.last {
            Some(segment) => registers.layout.slots_below(segment.digit.axis, segment.rest()),
            None => (0..registers.slots).collect(),
        }
    }
}

/// A value in shared memory.
#[derive(Clone, Debug)]
pub(super) struct SharedBox {
    pub buffer: u32,
    /// Weight of a point of each axis, in elements.
    pub pitches: BTreeMap<AxisId, i64>,
    /// Elements in all.
    pub elems: i64,
    /// While partial results accumulate here: the units that hold them, and this thread's place among them.
    pub partial: Vec<(Unit, UnitDim)>,
    pub place: Linear,
}

impl<'a> Lowerer<'a> {
    /// Gives a value that `first` computes its place.
    pub fn hold(&mut self, value: ValueId, first: &Stmt) -> Result<(), LowerError> {
        let plan = self.plan;
        let Some(place) = plan.places.get(self.nest, value, first) else {
            let name = &self.nest.value(value).name;
            return Err(LowerError::Malformed(format!("no place of `{name}` is planned here")));
        };
        let shared = place.shared.as_ref().map(|points| self.shared_box(value, points)).transpose()?;
        let registers = place.registers.as_ref().map(|layout| self.registers(value, layout));
        let (height, loops) = (self.stack.len(), self.sync.depth());
        let sum = plan.sums.get(place);
        self.held.insert(value, Held { height, loops, place, sum, registers, shared });
        Ok(())
    }

    fn registers(&mut self, value: ValueId, layout: &'a Layout) -> Registers<'a> {
        let slots = u32::try_from(layout.slots()).unwrap_or(u32::MAX);
        let frag = self.fragment(Holds::Value(value), self.nest.value(value).dtype, slots);
        Registers { frag, slots, layout }
    }

    pub fn shared_box(&self, value: ValueId, of: &ValueBox) -> Result<SharedBox, LowerError> {
        let ValueBox { pitches, elems, .. } = of.clone();
        let buffer = self.shared_buffer(Content::Value(value), elems)?;
        Ok(SharedBox { buffer, pitches, elems: elems as i64, partial: Vec::new(), place: Linear::default() })
    }

    /// Fragment and slot of a value at the current point.
    pub fn slot(&self, value: ValueId) -> Result<(u32, u32), LowerError> {
        let v = &self.nest.values[value.0 as usize];
        let held = self.held(value)?;
        let Some(registers) = &held.registers else {
            return Err(LowerError::Malformed(format!("`{}` is not in registers", v.name)));
        };
        let mut slot = 0;
        for axis in &v.axes {
            let mut offset = 0;
            let mut spread = BTreeSet::new();
            let own = |b: &&Bound| b.digit.axis == *axis && b.digit.steps != Steps::Fixed(1);
            for bound in self.stack[held.height..].iter().filter(own) {
                if let LoopKind::Unit(unit, dim) = bound.at {
                    spread.insert((unit, dim, bound.digit.stride, bound.digit.steps));
                    continue;
                }
                // Slots count the share of this CTA.
                let own = self.share.is_some_and(|s| s.digit == bound.digit).then_some(bound.value.constant);
                let Some(point) = own.or_else(|| bound.fixed()) else {
                    let why = Unplaced::RunTime(value, *axis);
                    return Err(LowerError::Malformed(why.text(self.nest)));
                };
                offset += point;
            }
            if spread != registers.layout.spread(*axis) {
                return Err(LowerError::Malformed(format!(
                    "`{}` is held by other threads than those that read it along `{}`",
                    v.name,
                    self.axis_name(*axis)
                )));
            }
            let Some(part) = registers.layout.slot(*axis, offset) else {
                return Err(LowerError::Malformed(format!(
                    "the loops over `{}` that read `{}` reach points that its writer's do not",
                    self.axis_name(*axis),
                    v.name
                )));
            };
            slot += part;
        }
        Ok((registers.frag, slot))
    }

    /// Buffer and offset of a value in shared memory at the current point.
    pub fn shared_place(&self, value: ValueId) -> Result<Option<(u32, Linear)>, LowerError> {
        let held = self.held(value)?;
        let Some(place) = &held.shared else { return Ok(None) };
        let mut offset = place.place.clone();
        for (axis, pitch) in &place.pitches {
            offset.add_scaled(&self.axis_from(*axis, held.height), *pitch);
        }
        Ok(Some((place.buffer, offset)))
    }

    pub fn held(&self, value: ValueId) -> Result<&Held<'a>, LowerError> {
        self.held.get(&value).ok_or_else(|| {
            let name = &self.nest.values[value.0 as usize].name;
            LowerError::Malformed(format!("`{name}` is used outside its let"))
        })
    }
}

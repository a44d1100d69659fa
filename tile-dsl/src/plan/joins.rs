//! The joins: values that lanes have by twos and products take by fours ([`Computed::ByTwos`]). Lanes exchange them where they are
//! computed, once for all products, so that what is carried to these are whole words.

use super::places::Places;
use crate::{
    index::AxisId,
    nest::{
        Computed, Digit, EXCHANGED, Expr, Factor, Layout, Nest, Operand, Steps, Stmt, Target, ValueId, Where,
        joined_place, leaves,
    },
};
use std::fmt;

/// A value of which lanes exchange what they have.
#[derive(Clone, Debug)]
pub(crate) struct Join {
    /// The value.
    value: ValueId,
    /// Which of its `let`s, in program order.
    nth: usize,
    /// What products sum over: beyond its end, elements are zero.
    pub axis: AxisId,
    /// Its slots in the order in which lanes exchange them.
    pub slots: Vec<u32>,
    /// Whether products of the step before are in flight where lanes exchange them, and read the registers of those before.
    pub early: bool,
}

impl Join {
    /// Where the element is behind the exchange that a lane had in a slot before it: not the same, but in its place.
    pub fn place(&self, slot: u32) -> Option<u32> {
        let at = self.slots.iter().position(|own| *own == slot)?;
        Some((at / EXCHANGED * EXCHANGED + joined_place(at % EXCHANGED)) as u32)
    }

    /// The places of all elements that lanes exchange where a tile has these slots.
    pub fn places(&self, slots: &[u32]) -> Vec<u32> {
        let chunks = (0..).step_by(EXCHANGED).zip(self.slots.chunks(EXCHANGED));
        let whole = chunks.filter(|(_, own)| own.iter().all(|slot| slots.contains(slot)));
        whole.flat_map(|(first, own)| first..first + own.len() as u32).collect()
    }
}

/// The joins of a nest, in program order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Joins(Vec<Join>);

impl Joins {
    /// Those of a nest whose places are planned.
    pub fn of(nest: &Nest, places: &Places) -> Joins {
        let mut joins = Joins::default();
        let skews = nest.skews();
        leaves(&nest.body, &mut |path, leaf| {
            let Some(product) = nest.product(path, leaf) else { return };
            let Factor::Computed(Expr::Get(value)) = product.factor(Operand::A) else { return };
            let by_twos = nest.computed(&product, Operand::A) == Computed::ByTwos;
            if !by_twos || !is_defined(nest, *value) || joins.0.iter().any(|join| join.value == *value) {
                return;
            }
            let [m, _, k] = product.digits;
            let early = skews.iter().flatten().any(|skew| skew.computed.contains(value));
            for place in places.of_value(*value) {
                let slots = place.registers.as_ref().and_then(|layout| order(nest, *value, layout, [m, k]));
                joins.0.extend(slots.map(|slots| Join {
                    value: *value,
                    nth: place.nth,
                    axis: k.axis,
                    slots,
                    early,
                }));
            }
        });
        joins
    }

    /// That of a value from one of its `let`s on.
    pub fn get(&self, value: ValueId, nth: usize) -> Option<&Join> {
        self.0.iter().find(|join| join.value == value && join.nth == nth)
    }

    pub(super) fn write(&self, nest: &Nest, out: &mut dyn fmt::Write) -> fmt::Result {
        self.0.iter().try_for_each(|join| {
            let (name, axis) = (&nest.value(join.value).name, nest.axis(join.axis));
            let early = if join.early { ", while products read those before" } else { "" };
            writeln!(out, "join {name}: along {axis}, {} registers{early}", join.slots.len() / 4)
        })
    }
}

/// Whether statements define elements of a value, and do nothing else to it.
fn is_defined(nest: &Nest, value: ValueId) -> bool {
    let mut defined = true;
    leaves(&nest.body, &mut |_, leaf| {
        let writes = leaf.leaf().is_some_and(|(target, _)| target == Target::Value(value));
        defined &= !writes || matches!(leaf, Stmt::Def { .. });
    });
    defined
}

/// The slots of a value by eights, each of two rows that are eight apart and of 16 points along k.
fn order(nest: &Nest, value: ValueId, layout: &Layout, [m, k]: [Digit; 2]) -> Option<Vec<u32>> {
    let mut others = vec![0];
    for axis in nest.value(value).axes.iter().filter(|axis| **axis != m.axis && **axis != k.axis) {
        let own = points(layout, *axis).into_iter().map(|point| layout.slot(*axis, point));
        let own = own.collect::<Option<Vec<u32>>>()?;
        others = others.iter().flat_map(|slot| own.iter().map(move |more| slot + more)).collect();
    }
    let first = |points: &mut Vec<i64>, period: i64, steps: &[i64]| {
        let all = points.len();
        points.retain(|point| point % period == 0);
        points.len() * steps.len() == all
    };
    let (mut rows, mut columns) = (points(layout, m.axis), points(layout, k.axis));
    let whole = [first(&mut rows, 16, &[0, 8]), first(&mut columns, 16, &[0, 1, 8, 9])];
    let mut slots = Vec::new();
    for (other, row, column) in others.iter().flat_map(|other| {
        let columns = &columns;
        rows.iter().flat_map(move |row| columns.iter().map(move |column| (*other, *row, *column)))
    }) {
        for n in 0..EXCHANGED as i64 {
            let row = layout.slot(m.axis, row + n / 2 % 2 * 8)?;
            let column = layout.slot(k.axis, column + n / 4 * 8 + n % 2)?;
            slots.push(other + row + column);
        }
    }
    (whole == [true; 2]).then_some(slots)
}

/// The points of an axis that a thread holds in slots, from the first of them on.
fn points(layout: &Layout, axis: AxisId) -> Vec<i64> {
    let mut all = vec![0];
    for (digit, at) in layout.digits() {
        let (Where::Slot, Steps::Fixed(steps)) = (at, digit.steps) else { continue };
        if digit.axis == axis {
            let step = |n| i64::from(n) * i64::from(digit.stride);
            all = all.iter().flat_map(|point| (0..steps).map(move |n| point + step(n))).collect();
        }
    }
    all.sort_unstable();
    all
}

//! What the tests in `tests/compiler/units` see of the inside.

pub use crate::lower::testing::{decoded, taken};

use crate::{
    diagnostic::Diagnostic,
    dtype::DType,
    engine::checks,
    index::{AxisId, Extent},
    kernel::{Async, Stmt},
    nest::{
        self, Arithmetic, Atom, Computed, CopyId, Digit, Fragment, InterpretError, Layout, Nest, Operand,
        Part, Role, Steps, Where, interpret_in,
    },
    plan::{Workspace, side_by_side},
    schedule::{Schedule, Unit, UnitDim},
    shared::Allocation,
    tile::evaluate::Inputs,
};
use std::collections::{BTreeMap, BTreeSet};

/// Switches a conjunct of rewrites' conditions off in this thread, or none where the name is empty.
#[cfg(debug_assertions)]
pub fn switch_off(conjunct: &'static str) {
    crate::engine::rule::OFF.set(conjunct);
}

/// What only the complete schedule shows.
pub fn check(nest: &Nest, schedule: &Schedule) -> Vec<Diagnostic> {
    checks::check(&checks::Context::new(nest, schedule))
}

/// Each statement of the kernel IR: an example, and one without its operands.
pub fn statements() -> Vec<(&'static str, Stmt)> {
    Stmt::ROWS.iter().map(|row| (row.example, (row.blank)())).collect()
}

/// Each asynchronous operation of the kernel IR, likewise.
pub fn operations() -> Vec<(&'static str, Async)> {
    Async::ROWS.iter().map(|row| (row.example, (row.blank)())).collect()
}

/// Slots of a thread that one access of a part of a sum takes.
pub fn access_width(slots: u32, dtype: DType) -> u32 {
    side_by_side(slots, dtype)
}

/// Slots that are loaded before any is added, and loads that are meant to be on their way: of accesses of a width, where other
/// CTAs leave so many registers.
pub fn batch(width: u32, free: u32, slots: u32, others: u32) -> (u32, u32) {
    let workspace = Workspace::of(width, false, slots, free);
    (workspace.batch(slots, others), workspace.in_flight)
}

/// The digits of the first operand of an instruction along one of its dimensions, where lanes compute it: each with how far a step in
/// registers moves on among the elements of a lane. `by_twos`: as lanes have sums.
pub fn computed(atom: Atom, role: Role, by_twos: bool) -> Option<Vec<(Part, u32)>> {
    let how = if by_twos { Computed::ByTwos } else { Computed::InPlace };
    atom.computed(Operand::A, role, how)
}

/// The place that an element which a lane gives has among those that it gets.
pub fn joined_place(given: usize) -> usize {
    nest::joined_place(given)
}

/// Finds the values that the term of a nest carries.
pub fn find_carried(nest: &mut Nest) {
    nest.find_carried();
}

/// Registers that a copy takes, or the loop that would index them.
///
/// # Errors
/// The digit of that loop.
pub fn held(nest: &Nest, copy: CopyId, body: &nest::Stmt) -> Result<u32, Digit> {
    Fragment::of(nest, copy, body).map(|fragment| fragment.slots)
}

/// Whether an extent is a multiple of a number, where the nest says.
pub fn is_multiple(nest: &Nest, extent: &Extent, of: i64) -> Option<bool> {
    nest.is_multiple(extent, of)
}

/// A layout of digits, outermost first.
pub fn layout(digits: &[(Digit, Where)]) -> Layout {
    Layout { digits: digits.to_vec() }
}

/// The units that hold steps of an axis: stride and steps.
pub fn spread(layout: &Layout, axis: AxisId) -> BTreeSet<(Unit, UnitDim, u32, Steps)> {
    layout.spread(axis)
}

/// The facts of a nest, a line each.
pub fn facts(nest: &Nest) -> String {
    nest.print_facts()
}

/// A nest without facts.
pub fn without_facts(nest: &Nest) -> Nest {
    nest.without_facts()
}

/// Names of the buffers in shared memory, and whether some share bytes.
pub fn buffers(nest: &Nest) -> (Vec<String>, bool) {
    let shared = Allocation::of_nest(nest);
    let names = shared.buffers.iter().map(|buffer| buffer.name.clone());
    (names.collect(), shared.overlaid())
}

/// Interprets a nest whose buffers begin at given bytes of shared memory.
///
/// # Errors
/// As [`nest::interpret`].
pub fn interpret_at(
    starts: &[u64],
    nest: &Nest,
    inputs: &Inputs,
) -> Result<BTreeMap<String, Vec<f64>>, InterpretError> {
    let mut shared = Allocation::of_nest(nest);
    shared.buffers.iter_mut().zip(starts).for_each(|(buffer, start)| buffer.start = *start);
    interpret_in(&shared, nest, inputs, Arithmetic::Exact, 1)
}

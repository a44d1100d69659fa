//! Statements of a kernel in a row, and the loops and `let`s put around them.

use super::{Digit, LoopKind, Recurrence, Steps, Stmt, ValueId, walk::Target};
use crate::{index::AxisId, tile::Kernel};
use std::collections::BTreeSet;

pub(super) type Axes = BTreeSet<AxisId>;

/// A statement of the nest, before loops and `let`s are put around it.
pub(super) enum Item {
    /// Computes a value. `over`: axes it loops over besides the value's, innermost.
    Compute { value: ValueId, axes: Axes, over: Axes, leaf: Stmt },
    /// Stores, or accumulates into a value bound by an enclosing loop.
    Effect { axes: Axes, over: Axes, leaf: Stmt },
    /// A loop written in the kernel that computes `values` together, from what `start` gives them.
    Loop { axis: AxisId, values: Vec<ValueId>, start: Vec<Item>, body: Vec<Item> },
}

/// The digits of axes: one for all of an axis, or two for one whose tiles the kernel sees.
pub(super) struct Digits<'a> {
    pub kernel: &'a Kernel,
    pub by_tile: BTreeSet<AxisId>,
}

impl Digits<'_> {
    /// The digit of a whole axis.
    pub fn whole(&self, axis: AxisId) -> Digit {
        let steps = match self.kernel.axes[usize::from(axis.0)].extent.as_constant().map(u32::try_from) {
            Some(Ok(n)) => Steps::Fixed(n),
            _ => Steps::Rest,
        };
        Digit { axis, stride: 1, steps }
    }

    /// The digit that counts tiles.
    pub fn tile_loop(&self, axis: AxisId) -> Digit {
        self.whole(axis).cut(Recurrence::UNTILED).0
    }

    /// The digit of the loops over an axis inside of one written in the kernel.
    pub fn inside(&self, axis: AxisId) -> Digit {
        let whole = self.whole(axis);
        if self.by_tile.contains(&axis) { whole.cut(Recurrence::UNTILED).1 } else { whole }
    }
}

/// Loops over axes, or over tiles of those whose tiles the kernel sees; the first outermost.
pub(super) fn loops(digits: &Digits<'_>, axes: &[AxisId], body: Stmt) -> Stmt {
    axes.iter().rev().fold(body, |body, axis| around(digits.inside(*axis), body))
}

fn around(digit: Digit, body: Stmt) -> Stmt {
    Stmt::For { digit, at: LoopKind::Seq, body: Box::new(body) }
}

/// Removes computations that nothing reads.
pub(super) fn drop_unread(items: &mut Vec<Item>) {
    loop {
        let mut read = BTreeSet::new();
        fn reads(items: &[Item], read: &mut BTreeSet<ValueId>) {
            for item in items {
                match item {
                    Item::Compute { leaf, .. } | Item::Effect { leaf, .. } => {
                        let (target, expr) = leaf.leaf().expect("a leaf");
                        // State that only its own updates read is not read.
                        let own = |v: &ValueId| target == Target::Value(*v);
                        read.extend(expr.values().into_iter().filter(|v| !own(v)));
                    }
                    Item::Loop { start, body, .. } => {
                        reads(start, read);
                        reads(body, read);
                    }
                }
            }
        }
        fn prune(items: &mut Vec<Item>, read: &BTreeSet<ValueId>) -> bool {
            let before = items.len();
            let mut changed = false;
            items.retain_mut(|item| match item {
                Item::Compute { value, .. } => read.contains(value),
                Item::Effect { leaf, .. } => match leaf.leaf().expect("a leaf").0 {
                    Target::Value(v) => read.contains(&v),
                    Target::Access(_) => true,
                },
                Item::Loop { values, start, body, .. } => {
                    values.retain(|v| read.contains(v));
                    changed |= prune(start, read);
                    changed |= prune(body, read);
                    !body.is_empty()
                }
            });
            changed || items.len() != before
        }
        reads(items, &mut read);
        if !prune(items, &read) {
            return;
        }
    }
}

/// Puts loops and `let`s around a sequence of statements. `None` for the empty sequence.
pub(super) fn assemble(digits: &Digits<'_>, items: Vec<Item>, bound: &Axes) -> Option<Stmt> {
    let mut rest: Option<Stmt> = None;
    for item in items.into_iter().rev() {
        let (values, first) = match item {
            Item::Compute { value, axes, over, leaf } => {
                (vec![value], statement(digits, &axes, &over, bound, leaf))
            }
            Item::Effect { axes, over, leaf } => (vec![], statement(digits, &axes, &over, bound, leaf)),
            Item::Loop { axis, values, start, body } => {
                let by_tile = digits.by_tile.contains(&axis);
                let inner = if by_tile { bound.clone() } else { bound | &[axis].into() };
                let body = assemble(digits, body, &inner)?;
                let steps = around(if by_tile { digits.tile_loop(axis) } else { digits.inside(axis) }, body);
                let sequence = |rest, item| match item {
                    Item::Effect { axes, over, leaf } => {
                        let first = Box::new(statement(digits, &axes, &over, bound, leaf));
                        Stmt::Let { values: vec![], first, rest: Box::new(rest) }
                    }
                    Item::Compute { .. } | Item::Loop { .. } => unreachable!("state starts by being set"),
                };
                (values, start.into_iter().rev().fold(steps, sequence))
            }
        };
        rest = Some(match rest {
            None if values.is_empty() => first,
            // A loop at the end may carry values that only its own steps read: they live as long as the loop does.
            rest => {
                let rest = Box::new(rest.unwrap_or(Stmt::Skip));
                Stmt::Let { values, first: Box::new(first), rest }
            }
        });
    }
    rest
}

fn statement(digits: &Digits<'_>, axes: &Axes, over: &Axes, bound: &Axes, leaf: Stmt) -> Stmt {
    let mut order: Vec<AxisId> = axes.difference(bound).copied().collect();
    order.extend(over.difference(bound));
    loops(digits, &order, leaf)
}

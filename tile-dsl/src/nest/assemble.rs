//! Statements of a kernel in a row, and the loops and `let`s put around them.

use super::{At, Digit, Steps, Stmt, ValueId, walk::Target};
use crate::{index::AxisId, tile::Kernel};
use std::collections::BTreeSet;

pub(super) type Axes = BTreeSet<AxisId>;

/// A statement of the nest, before loops and `let`s are put around it.
pub(super) enum Item {
    /// Computes a value. `over`: axes it loops over besides the value's, innermost.
    Compute { value: ValueId, axes: Axes, over: Axes, leaf: Stmt },
    /// Stores, or accumulates into a value bound by an enclosing loop.
    Effect { axes: Axes, over: Axes, leaf: Stmt },
    /// A loop written in the kernel that computes `values` together.
    Loop { axis: AxisId, values: Vec<ValueId>, body: Vec<Item> },
}

/// The digit of a whole axis.
pub(super) fn digit(kernel: &Kernel, axis: AxisId) -> Digit {
    let steps = match kernel.axes[usize::from(axis.0)].extent.as_constant().map(u32::try_from) {
        Some(Ok(n)) => Steps::Fixed(n),
        _ => Steps::Rest,
    };
    Digit { axis, stride: 1, steps }
}

/// Loops over whole axes, the first outermost.
pub(super) fn loops(kernel: &Kernel, axes: &[AxisId], body: Stmt) -> Stmt {
    axes.iter().rev().fold(body, |body, axis| Stmt::For {
        digit: digit(kernel, *axis),
        at: At::Seq,
        body: Box::new(body),
    })
}

/// Removes computations that nothing reads.
pub(super) fn drop_unread(items: &mut Vec<Item>) {
    loop {
        let mut read = BTreeSet::new();
        fn reads(items: &[Item], read: &mut BTreeSet<ValueId>) {
            for item in items {
                match item {
                    Item::Compute { leaf, .. } | Item::Effect { leaf, .. } => {
                        read.extend(leaf.leaf().expect("a leaf").1.values());
                    }
                    Item::Loop { body, .. } => reads(body, read),
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
                Item::Loop { values, body, .. } => {
                    values.retain(|v| read.contains(v));
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
pub(super) fn assemble(kernel: &Kernel, items: Vec<Item>, bound: &Axes) -> Option<Stmt> {
    let mut rest: Option<Stmt> = None;
    for item in items.into_iter().rev() {
        let (values, first) = match item {
            Item::Compute { value, axes, over, leaf } => {
                (vec![value], statement(kernel, &axes, &over, bound, leaf))
            }
            Item::Effect { axes, over, leaf } => (vec![], statement(kernel, &axes, &over, bound, leaf)),
            Item::Loop { axis, values, body } => {
                let inner = bound | &[axis].into();
                (values, loops(kernel, &[axis], assemble(kernel, body, &inner)?))
            }
        };
        rest = Some(match rest {
            Some(rest) => Stmt::Let { values, first: Box::new(first), rest: Box::new(rest) },
            None => first,
        });
    }
    rest
}

fn statement(kernel: &Kernel, axes: &Axes, over: &Axes, bound: &Axes, leaf: Stmt) -> Stmt {
    let mut order: Vec<AxisId> = axes.difference(bound).copied().collect();
    order.extend(over.difference(bound));
    loops(kernel, &order, leaf)
}

//! `order`: the order in which CTAs take the tiles.
//!
//! Conditions: a band has at least one tile; bands go along the last two of two or more program axes.
//! Cost: none; index arithmetic once a tile.

use super::prelude::*;
use crate::{engine::families::assume::refuse, machine, tile::AxisKind};

directive! {
    /// `order(grouped(8))`: in which order CTAs take the tiles.
    "order(grouped(8))" in Launch, 0:
    Order { order: machine::Order = machine::Order::Row } => |s| {
        let known = [
            machine::Order::Row,
            machine::Order::Column,
            machine::Order::Grouped(8),
            machine::Order::Serpentine(8),
            machine::Order::Hilbert,
        ];
        s.one_of(order, "order", &known)
    }
}

impl Definition for Order {
    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        order(nest, self.order)
    }
}

impl Drawn for Order {
    fn candidates(_: Kind, generator: &mut Generator<'_>, _: &Wish<'_>) -> Vec<DirectiveKind> {
        let orders = [
            machine::Order::Row,
            machine::Order::Column,
            machine::Order::Hilbert,
            machine::Order::Grouped(2),
            machine::Order::Serpentine(2),
        ];
        vec![Order { order: *generator.random.pick(&orders) }.into()]
    }
}

/// `order(..)`.
fn order(nest: &Nest, order: machine::Order) -> Result<(Nest, Proof), Failure> {
    let axes = nest.kernel.axes.iter().filter(|a| a.kind == AxisKind::Program).count();
    match order {
        machine::Order::Grouped(0) | machine::Order::Serpentine(0) => {
            return Err(refuse(format!("order({order}): a band has at least one tile")));
        }
        machine::Order::Grouped(_) | machine::Order::Serpentine(_) | machine::Order::Hilbert if axes < 2 => {
            return Err(refuse(format!(
                "order({order}) walks bands along the last two program axes, and the kernel has {axes}"
            ))
            .edit(Edit::remove()));
        }
        _ => {}
    }
    Ok((Nest { order, ..nest.clone() }, Proof::default()))
}

//! `order`: the order in which CTAs take the tiles.
//!
//! ```text
//! order(grouped(8))             bands of eight tiles of the last program axis but one, walked along the last
//! order(grouped(8) over b, j)   bands of eight tiles of `b`, walked along `j`
//! order(backwards(8) over b, i) the same bands, each walked from the end of `i`
//! order(reversed)               the last tile first, the last axis fastest
//! ```
//! Tiles of a band read the same along one of the two axes. Which two axes share what is read is a matter of the kernel: a batched
//! product whose second factor all batches have takes bands of batches. Other axes are slower.
//! Where later tiles take longer, as the rows of a triangle do, `reversed` leaves short ones for the end: no multiprocessor waits for a
//! long one then. `backwards` takes the longest tiles of a whole band before shorter ones, so that what is left in the end is shorter still.
//! Conditions: a band has at least one tile; bands go along two program axes.
//! Cost: none; index arithmetic once a tile.

use super::prelude::*;
use crate::{
    diagnostic::list,
    engine::{families::assume::refuse, names},
    index::AxisId,
    machine,
    tile::AxisKind,
};

directive! {
    /// `order(grouped(8))`, `order(grouped(8) over i, j)`: in which order CTAs take the tiles.
    "order(grouped(8))" in Launch, 0:
    Order { order: machine::Order = machine::Order::Row, axes: Vec<String> } => |s| {
        let known = [
            machine::Order::Row,
            machine::Order::Column,
            machine::Order::Grouped(8),
            machine::Order::Serpentine(8),
            machine::Order::Backwards(8),
            machine::Order::Hilbert,
            machine::Order::Reversed,
        ];
        s.one_of(order, "order", &known);
        if s.has("over", !axes.is_empty()) {
            s.names(axes, "an axis");
        }
    }
}

impl Definition for Order {
    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        apply(nest, self.order, &self.axes)
    }
}

impl Drawn for Order {
    fn candidates(_: Kind, generator: &mut Generator<'_>, _: &Wish<'_>) -> Vec<DirectiveKind> {
        let of = |order, axes: &[&String]| Order { order, axes: axes.iter().copied().cloned().collect() };
        let hilbert = machine::Order::Hilbert;
        let plain = [machine::Order::Row, machine::Order::Column, machine::Order::Reversed, hilbert];
        let bands = [machine::Order::Grouped(2), machine::Order::Serpentine(2), machine::Order::Backwards(2)];
        let mut orders: Vec<Order> = plain.into_iter().chain(bands).map(|o| of(o, &[])).collect();
        let axes = generator.program_axes();
        for (along, band) in axes.iter().flat_map(|along| axes.iter().map(move |band| (along, band))) {
            if along != band {
                orders.extend(bands.into_iter().chain([hilbert]).map(|order| of(order, &[band, along])));
            }
        }
        vec![generator.random.pick(&orders).clone().into()]
    }
}

/// `order(..)`.
fn apply(nest: &Nest, order: machine::Order, axes: &[String]) -> Result<(Nest, Proof), Failure> {
    let program = |axis: &AxisId| nest.kernel.axes[usize::from(axis.0)].kind == AxisKind::Program;
    let all: Vec<AxisId> = (0..nest.kernel.axes.len() as u16).map(AxisId).filter(program).collect();
    let text = directive::Order { order, axes: axes.to_vec() };
    if matches!(
        order,
        machine::Order::Grouped(0) | machine::Order::Serpentine(0) | machine::Order::Backwards(0)
    ) {
        return Err(refuse(format!("{text}: a band has at least one tile")));
    }
    let plain = || Edit::instead([directive::Order { order, axes: Vec::new() }]);
    let banded = !matches!(order, machine::Order::Row | machine::Order::Column | machine::Order::Reversed);
    if !banded && !axes.is_empty() {
        let text = format!("{text}: `{order}` goes through all program axes, and has no bands");
        let bands = directive::Order { order: machine::Order::Grouped(8), axes: axes.to_vec() };
        return Err(refuse(text).edit(plain()).edit(Edit::instead([bands])));
    }
    if banded && all.len() < 2 {
        return Err(refuse(format!(
            "{text} walks bands along two program axes, and the kernel has {}",
            all.len()
        ))
        .edit(Edit::remove()));
    }
    let mut bands = Vec::new();
    for name in axes {
        let axis = names::axis(nest, name)?;
        if !program(&axis) {
            let known: Vec<&str> = all.iter().map(|axis| nest.axis(*axis)).collect();
            let text = format!(
                "{text}: tiles of `{name}` are not shared out among CTAs, as those of {} are",
                list(&known)
            );
            return Err(refuse(text).edit(plain()));
        }
        bands.push(axis);
    }
    let bands = match bands[..] {
        [] => None,
        [band, along] if band != along => Some([band, along]),
        _ => {
            let text = format!("{text}: bands are of tiles of one axis, and walked along another one");
            return Err(refuse(text).edit(plain()));
        }
    };
    Ok((Nest { order, bands, ..nest.clone() }, Proof::default()))
}

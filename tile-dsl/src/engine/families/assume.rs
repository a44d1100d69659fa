//! `fits`, `multiple`, `layout`, `occupancy`, `order`, `assemble`, `launch`: facts that the launch checks or obeys. They rewrite no statement.
//!
//! ```text
//! fits(N <= n)     a.1.rest  →  a.1.n      for loops over an axis of extent N: at most n steps, guarded
//! multiple(N: n)   N is 0, n, 2·n ..: guards and conditions of variants that follow from it go
//! layout(b: col)   the first dimension of b is contiguous
//! ```
//! Side conditions: the dim is the extent of an axis, of a multiple any dim; the least multiple is within the bound; the tensor has two dimensions or more.

use super::{Failure, Proof};
use crate::{
    assume,
    diagnostic::{Diagnostic, Edit},
    engine::names,
    index::AxisId,
    nest::{Nest, Order, Steps, Stmt},
    schedule::{DirectiveKind, Start},
    span::SpanId,
    tile::{Axis, AxisKind},
};

fn refuse(message: String) -> Failure {
    Failure::refused(Diagnostic::new(SpanId::NONE, message))
}

/// Points of the longest axis that a launch may have (`docs/semantics.md`, "Sizes").
const MOST_POINTS: i64 = assume::MOST_POINTS;

/// A bound that bounds nothing: no launch has so many points.
fn beyond_all(axis: &Axis, dim: &str, max: u32, (points, of_dim): (i64, i64)) -> Failure {
    let text = format!(
        "fits({dim} <= {max}) bounds `{}` by {points} points: launches have at most {MOST_POINTS}, as indices have 32 bits",
        axis.name
    );
    let most = (MOST_POINTS - axis.extent.constant) / of_dim;
    let most = u32::try_from(most).ok().filter(|most| *most > 0);
    let most = most.map(|max| Edit::instead([DirectiveKind::Fits { dim: dim.to_string(), max }]));
    refuse(text).edit(Edit::instead([]).remark("every launch keeps to that")).edits(most)
}

/// `fits(dim <= max)`.
pub(in crate::engine) fn fits(nest: &Nest, dim: &str, max: u32) -> Result<(Nest, Proof), Failure> {
    if max == 0 {
        return Err(refuse(format!("fits({dim} <= 0) admits no launch")));
    }
    let mut nest = nest.clone();
    let mut facts = Vec::new();
    let mut empty = None;
    for n in 0..nest.kernel.axes.len() {
        let axis = &nest.kernel.axes[n];
        let mut terms = axis.extent.dims.iter();
        // `c·N + k` with one dim is bounded by its bound.
        let of_dim = match (terms.next(), terms.next()) {
            (Some((name, c)), None) if name == dim && *c > 0 => *c,
            _ => continue,
        };
        let bound = of_dim.saturating_mul(max.into()).saturating_add(axis.extent.constant);
        if bound > MOST_POINTS {
            return Err(beyond_all(axis, dim, max, (bound, of_dim)));
        }
        let Some(bound) = u32::try_from(bound).ok().filter(|bound| *bound > 0) else {
            empty.get_or_insert(n);
            continue;
        };
        let id = AxisId(n as u16);
        facts.push(format!("`{}` has at most {bound} points", axis.name));
        nest.bounds.insert(id, bound);
        // The grid is as large as the launch needs: program axes keep their open end.
        if axis.kind != AxisKind::Program {
            nest.body = bounded(&nest.body, id, bound);
            for digit in nest.names.values_mut().filter(|d| d.axis == id && d.steps == Steps::Rest) {
                digit.steps = Steps::Fixed(bound.div_ceil(digit.stride));
            }
        }
    }
    if let (Some(n), true) = (empty, facts.is_empty()) {
        let Axis { name, extent, span, .. } = &nest.kernel.axes[n];
        let text = format!("fits({dim} <= {max}) leaves `{name}`, which has {extent} points, none");
        return Err(refuse(text).note(*span, format!("`{name}` is bound here")).edit(Edit::instead([])));
    }
    if facts.is_empty() {
        let dims: Vec<String> = nest.kernel.axes.iter().flat_map(|a| a.extent.dims.keys().cloned()).collect();
        return Err(names::unknown("dim", dim, dims));
    }
    compatible(nest, facts)
}

/// `multiple(dim: of)`.
pub(in crate::engine) fn multiple(nest: &Nest, dim: &str, of: u32) -> Result<(Nest, Proof), Failure> {
    let kernel = &nest.kernel;
    let extents = kernel.axes.iter().map(|a| &a.extent).chain(kernel.tensors.iter().flat_map(|t| &t.dims));
    let mut dims: Vec<String> = Vec::new();
    for name in extents.flat_map(|extent| extent.dims.keys()) {
        if !dims.contains(name) {
            dims.push(name.clone());
        }
    }
    if !dims.iter().any(|known| known == dim) {
        return Err(match kernel.axes.iter().find(|axis| axis.name == dim) {
            Some(axis) => multiple_of_axis(axis, of),
            None => names::unknown("dim", dim, dims),
        });
    }
    if of == 1 {
        return Err(refuse(format!("multiple({dim}: 1) says nothing: every extent is a multiple of 1"))
            .edit(Edit::instead([])));
    }
    if i64::from(of) > MOST_POINTS {
        let text = format!(
            "multiple({dim}: {of}): launches have at most {MOST_POINTS} points along an axis, as indices have 32 bits: only an empty one would do"
        );
        return Err(refuse(text).edit(Edit::instead([])));
    }
    let mut nest = nest.clone();
    nest.multiples.insert(dim.to_string(), of);
    compatible(nest, vec![format!("`{dim}` is a multiple of {of}, checked at launch")])
}

/// An axis is no dim: it has the extent of one, or a constant one.
fn multiple_of_axis(axis: &Axis, of: u32) -> Failure {
    let name = &axis.name;
    if let Some(points) = axis.extent.as_constant() {
        let whether = if points % i64::from(of) == 0 { "a" } else { "no" };
        return refuse(format!("`{name}` has {points} points in every launch, {whether} multiple of {of}"))
            .note(axis.span, "its extent is a constant")
            .edit(Edit::instead([]));
    }
    let dims = axis.extent.dims.keys().map(|dim| DirectiveKind::Multiple { dim: dim.clone(), of });
    refuse(format!("`{name}` is an axis, and its extent {}: name a dim", axis.extent))
        .edit(Edit::instead(dims.collect::<Vec<_>>()))
}

/// Some launch that is not empty keeps both the bound of a dim and what it is a multiple of.
fn compatible(nest: Nest, facts: Vec<String>) -> Result<(Nest, Proof), Failure> {
    for (axis, max) in &nest.bounds {
        let extent = &nest.kernel.axes[usize::from(axis.0)].extent;
        for (dim, of) in &nest.multiples {
            let Some(c) = extent.dims.get(dim) else { continue };
            let most = (i64::from(*max) - extent.constant) / c;
            if most < i64::from(*of) {
                return Err(refuse(format!(
                    "`{dim}` is at most {most} and a multiple of {of}: only an empty launch has both"
                ))
                .edit(Edit::put([DirectiveKind::Fits { dim: dim.clone(), max: *of }]))
                .edit(Edit::instead([])));
            }
        }
    }
    Ok((nest, Proof { facts, ..Proof::default() }))
}

fn bounded(stmt: &Stmt, axis: AxisId, bound: u32) -> Stmt {
    let mut stmt = stmt.map(&mut |part| bounded(part, axis, bound));
    if let Stmt::For { digit, .. } = &mut stmt
        && digit.axis == axis
        && digit.steps == Steps::Rest
    {
        digit.steps = Steps::Fixed(bound.div_ceil(digit.stride));
    }
    stmt
}

/// `layout(tensor: row | col)`.
pub(in crate::engine) fn layout(nest: &Nest, tensor: &str, column: bool) -> Result<(Nest, Proof), Failure> {
    let Some(id) = names::tensor(nest, tensor) else {
        let known = nest.kernel.tensors.iter().map(|t| t.name.clone()).collect();
        return Err(names::unknown("tensor", tensor, known));
    };
    let info = nest.tensor(id);
    if column && info.dims.len() < 2 {
        return Err(refuse(format!("`{tensor}` has {} dimension: there is no column", info.dims.len()))
            .note(info.span, "declared here")
            .edit(Edit::instead([])));
    }
    let mut nest = nest.clone();
    if column {
        nest.column_major.insert(id);
    } else {
        nest.column_major.remove(&id);
    }
    let which = if column { "first" } else { "last" };
    let fact = format!("the {which} dimension of `{tensor}` is contiguous, checked at launch");
    Ok((nest, Proof { facts: vec![fact], ..Proof::default() }))
}

/// `occupancy(ctas)`.
pub(in crate::engine) fn occupancy(nest: &Nest, ctas: u32) -> Result<(Nest, Proof), Failure> {
    if !(1..=32).contains(&ctas) {
        return Err(refuse(format!("occupancy({ctas}): an SM holds 1 to 32 CTAs"))
            .edit(Edit::instead([DirectiveKind::Occupancy { ctas: 32 }]))
            .edit(Edit::instead([DirectiveKind::Occupancy { ctas: 2 }])));
    }
    Ok((Nest { occupancy: Some(ctas), ..nest.clone() }, Proof::default()))
}

/// `assemble(level)`.
pub(in crate::engine) fn assemble(nest: &Nest, level: u32) -> Result<(Nest, Proof), Failure> {
    if level > 4 {
        return Err(refuse(format!("assemble({level}): the assembler's levels are 0 to 4")).edit(
            Edit::instead([DirectiveKind::Assemble { level: 1 }]).remark("keeps the order of the PTX"),
        ));
    }
    Ok((Nest { assemble: Some(level), ..nest.clone() }, Proof::default()))
}

/// `launch(start)`; whether the target has it, the complete schedule shows.
pub(in crate::engine) fn launch(nest: &Nest, start: Start) -> Result<(Nest, Proof), Failure> {
    Ok((Nest { dependent: start == Start::Dependent, ..nest.clone() }, Proof::default()))
}

/// `order(..)`.
pub(in crate::engine) fn order(nest: &Nest, order: Order) -> Result<(Nest, Proof), Failure> {
    let axes = nest.kernel.axes.iter().filter(|a| a.kind == AxisKind::Program).count();
    match order {
        Order::Grouped(0) | Order::Serpentine(0) => {
            return Err(refuse(format!("order({order}): a band has at least one tile")));
        }
        Order::Grouped(_) | Order::Serpentine(_) | Order::Hilbert if axes < 2 => {
            return Err(refuse(format!(
                "order({order}) walks bands along the last two program axes, and the kernel has {axes}"
            ))
            .edit(Edit::instead([])));
        }
        _ => {}
    }
    Ok((Nest { order, ..nest.clone() }, Proof::default()))
}

//! `fits`: an upper bound of an extent, checked at launch.
//!
//! ```text
//! fits(N <= n)     a.1.rest  →  a.1.n      for loops over an axis of extent N: at most n steps, guarded
//! fits(B <= n)     h: Tensor<i32, B>, h[*b]     what is indexed by values has a size, and fits shared memory
//! ```
//! Conditions:
//!
//! - The dim is the extent of an axis, or of a tensor.
//! - The bound leaves each axis points, and holds what the dim is a multiple of.
//! - It says more than what every launch keeps to.
//!
//! Cost: launches with a greater extent are refused.

use super::prelude::*;
use crate::{
    engine::{
        families::assume::{MOST_POINTS, compatible, refuse},
        names,
    },
    index::AxisId,
    nest::{Steps, Stmt},
    tile::{Axis, AxisKind},
};
use std::collections::BTreeSet;

directive! {
    /// `fits(N <= 1024)`: an upper bound, checked at launch.
    "fits(N <= 1024)" in Assume, 0:
    Fits { dim: String, max: u32 } => |s| s.each(dim, "a dim").mark("<=").number(max)
}

impl Definition for Fits {
    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        fits(nest, &self.dim, self.max)
    }
}

impl Drawn for Fits {
    fn candidates(_: Kind, generator: &mut Generator<'_>, _: &Wish<'_>) -> Vec<DirectiveKind> {
        let max = *generator.random.pick(&[24, 32, 64, 100]);
        generator.dims().into_iter().map(|dim| Fits { dim, max }.into()).collect()
    }
}

/// A bound that bounds nothing: no launch has so many points.
fn beyond_all(axis: &Axis, dim: &str, max: u32, (points, of_dim): (i64, i64)) -> Failure {
    let text = format!(
        "fits({dim} <= {max}) bounds `{}` by {points} points: launches have at most {MOST_POINTS}, as indices have 32 bits",
        axis.name
    );
    let most = (MOST_POINTS - axis.extent.constant) / of_dim;
    let most = u32::try_from(most).ok().filter(|most| *most > 0);
    let most = most.map(|max| Edit::instead([directive::Fits { dim: dim.to_string(), max }]));
    refuse(text).edit(Edit::remove().remark("every launch keeps to that")).edits(most)
}

/// `fits(dim <= max)`.
fn fits(nest: &Nest, dim: &str, max: u32) -> Result<(Nest, Proof), Failure> {
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
        let text = format!("fits({dim} <= {max}) leaves no points of `{name}`, which has {extent}");
        return Err(refuse(text).note(*span, format!("`{name}` is bound here")).edit(Edit::remove()));
    }
    if facts.is_empty() {
        let kernel = &nest.kernel;
        let axes = kernel.axes.iter().map(|a| &a.extent);
        let extents = axes.chain(kernel.tensors.iter().flat_map(|t| &t.dims));
        let mut known = BTreeSet::new();
        let named = extents.flat_map(|e| e.dims.keys());
        let dims: Vec<String> = named.filter(|dim| known.insert(*dim)).cloned().collect();
        if dims.iter().all(|known| known != dim) {
            return Err(names::unknown("dim", dim, dims));
        }
        facts.push(format!("`{dim}` is at most {max}"));
        nest.lengths.insert(dim.to_string(), max);
    }
    compatible(nest, facts)
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

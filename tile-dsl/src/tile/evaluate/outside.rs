//! Values in indices that lead beyond the end of their tensor: a load there is zero and a store nothing, which is seldom meant.
//! A negative index means "none" and is not reported.

use super::{Array, Exact, Inputs, Machine, Semantics, index};
use crate::{
    index::AxisId,
    tile::{Expr, ExprKind, Index, Kernel, Stmt, TensorId, VarId, statements},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// Points of an index that are looked at.
const MOST_POINTS: i64 = 1 << 22;

/// An index that leads beyond the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outside {
    /// The tensor.
    pub tensor: String,
    /// The dimension.
    pub dim: usize,
    /// Points of it.
    pub extent: i64,
    /// The entry of the index, as it is printed.
    pub entry: String,
    /// What it is.
    pub index: i64,
    /// The first point at which it leads there: axes with their values.
    pub at: Vec<(String, i64)>,
    /// At how many points it does.
    pub count: u64,
}

impl fmt::Display for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outside { tensor, dim, extent, entry, index, at, count } = self;
        write!(f, "dimension {dim} of `{tensor}` has {extent} points, and `{entry}` is {index}")?;
        let at: Vec<String> = at.iter().map(|(axis, point)| format!("{axis} = {point}")).collect();
        if !at.is_empty() {
            write!(f, " at {}", at.join(", "))?;
        }
        if *count > 1 {
            let (more, s) = (count - 1, if *count == 2 { "" } else { "s" });
            write!(f, ", and beyond the end at {more} other point{s}")?;
        }
        Ok(())
    }
}

/// The values in indices of a kernel that lead beyond the end for these arguments, one for each access: of those that follow from
/// the tensors that are given, which hold integers, from axes, dims and scalars alone, and are the whole entry but for a constant.
pub fn outside(kernel: &Kernel, inputs: &Inputs) -> Vec<Outside> {
    let Ok(machine) = Machine::new(kernel, inputs, true) else { return Vec::new() };
    let mut lets = BTreeMap::new();
    statements(&kernel.body, &mut |stmt| {
        if let Stmt::Let { var, value } = stmt
            && !kernel.vars[usize::from(var.0)].mutable
        {
            lets.insert(*var, value);
        }
    });
    let mut search = Search { machine, lets, found: Vec::new() };
    statements(&kernel.body, &mut |stmt| {
        // What stands under a condition is loaded to be stored there.
        let when = if let Stmt::Store { when, .. } = stmt { when.as_ref() } else { None };
        if let Stmt::Store { tensor, index, .. } = stmt {
            search.access(*tensor, index, when);
        }
        for operand in stmt.operands() {
            let when = when.filter(|when| !std::ptr::eq(*when, operand));
            operand.each(&mut |expr| {
                if let ExprKind::Load { tensor, index } = &expr.kind {
                    search.access(*tensor, index, when);
                }
            });
        }
    });
    search.found
}

struct Search<'k> {
    machine: Machine<'k, Exact>,
    /// Values of variables that stay what they are.
    lets: BTreeMap<VarId, &'k Expr>,
    found: Vec<Outside>,
}

impl Search<'_> {
    fn access(&mut self, tensor: TensorId, index: &[Index], when: Option<&Expr>) {
        let kernel = self.machine.kernel;
        let info = &kernel.tensors[usize::from(tensor.0)];
        for (dim, (entry, extent)) in index.iter().zip(&info.dims).enumerate() {
            let (Some(value), true) = (&entry.value, entry.affine.terms.is_empty()) else { continue };
            let mut text = kernel.show(value).to_string();
            let added = entry.affine.constant;
            if added != 0 {
                text += &format!(" {} {}", if added < 0 { '-' } else { '+' }, added.unsigned_abs());
            }
            if self.found.iter().any(|o| (&o.tensor, o.dim, &o.entry) == (&info.name, dim, &text)) {
                continue;
            }
            let Some(places) = self.known(value) else { continue };
            let Some(stored) = when.map_or(Some(Array::scalar(1.0)), |when| self.known(when)) else {
                continue;
            };
            let Some(extent) = extent.eval(&self.machine.inputs.dims) else { continue };
            // Where nothing is stored, the index leads nowhere.
            let constant = added as i32;
            let places = places.zip(&stored, 0, |at, stored| match Exact::holds(stored) {
                true if f64::from(at as i32) == at => i64::from((at as i32).wrapping_add(constant)),
                true => at as i64,
                false => -1,
            });
            let beyond = |at: &&(usize, i64)| at.1 >= extent;
            let all: Vec<(usize, i64)> = places.data.iter().copied().enumerate().collect();
            if let Some((n, first)) = all.iter().find(beyond) {
                self.found.push(Outside {
                    tensor: info.name.clone(),
                    dim,
                    extent,
                    entry: text,
                    index: *first,
                    at: self.point(&places, *n),
                    count: all.iter().filter(beyond).count() as u64,
                });
            }
        }
    }

    /// The axes and their values at the n-th element of an array.
    fn point<E>(&self, array: &Array<E>, n: usize) -> Vec<(String, i64)> {
        let mut rest = n;
        let mut point: Vec<(String, i64)> = (array.axes.iter().zip(&array.shape).rev())
            .map(|(axis, extent)| {
                let at = rest % extent;
                rest /= extent;
                (self.machine.kernel.axes[usize::from(axis.0)].name.clone(), at as i64)
            })
            .collect();
        point.reverse();
        point
    }

    /// A value at all its points, if it follows from what is given and has no more points than are looked at.
    fn known(&mut self, value: &Expr) -> Option<Array<f64>> {
        let mut axes = BTreeSet::new();
        self.find(value, &mut axes)?;
        let extents = axes.iter().map(|axis: &AxisId| self.machine.extents[usize::from(axis.0)]);
        let points = extents.fold(1i64, i64::saturating_mul);
        (points <= MOST_POINTS).then(|| self.machine.expr(value, false))
    }

    /// Adds the axes of a value, and evaluates the variables in it; `None` where it does not follow from what is given.
    fn find(&mut self, expr: &Expr, axes: &mut BTreeSet<AxisId>) -> Option<()> {
        match &expr.kind {
            ExprKind::Load { tensor, index } => {
                let name = &self.machine.kernel.tensors[usize::from(tensor.0)].name;
                self.machine.inputs.tensors.contains_key(name).then_some(())?;
                axes.extend(index::affine_axes(index));
            }
            ExprKind::Iota(axis) => drop(axes.insert(*axis)),
            ExprKind::Var(var) => {
                if !self.machine.vars.contains_key(var) {
                    let value = *self.lets.get(var)?;
                    let value = self.known(value)?;
                    self.machine.vars.insert(*var, value);
                }
                axes.extend(&self.machine.vars[var].axes);
            }
            ExprKind::Full { .. } | ExprKind::Reduce(..) | ExprKind::Scan(..) | ExprKind::Dot(..) => {
                return None;
            }
            _ => {}
        }
        expr.children().into_iter().try_for_each(|child| self.find(child, axes))
    }
}

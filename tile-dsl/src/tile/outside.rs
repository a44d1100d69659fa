//! Values in indices that lead beyond the end of their tensor: a load there is zero and a store nothing, which is seldom meant.
//! A negative index means "none" and is not reported.

use super::{
    AxisKind, ElemType, Expr, ExprKind, Index, Kernel, Stmt, TensorId, VarId,
    evaluate::{
        Elements, Inputs,
        semantics::{Exact, Semantics},
    },
    index, statements,
};
use crate::{dtype::DType, index::AxisId};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// Points of an index that are looked at.
const MOST_POINTS: usize = 1 << 22;

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
            write!(f, ", and beyond the end at {} points more", count - 1)?;
        }
        Ok(())
    }
}

/// The values in indices of a kernel that lead beyond the end for these arguments, one for each access: of those that follow from
/// integer tensors, axes, dims and scalars alone, and are the whole entry but for a constant. Other tensors need not be given.
pub fn outside(kernel: &Kernel, inputs: &Inputs) -> Vec<Outside> {
    let mut lets = BTreeMap::new();
    statements(&kernel.body, &mut |stmt| {
        if let Stmt::Let { var, value } = stmt
            && !kernel.vars[usize::from(var.0)].mutable
        {
            lets.insert(*var, value);
        }
    });
    let scope = Scope { kernel, inputs, lets, known: RefCell::default() };
    let mut found = Vec::new();
    statements(&kernel.body, &mut |stmt| {
        let mut add = |more: Vec<Outside>| {
            for outside in more {
                let same = |o: &Outside| {
                    (&o.tensor, o.dim, &o.entry) == (&outside.tensor, outside.dim, &outside.entry)
                };
                if !found.iter().any(same) {
                    found.push(outside);
                }
            }
        };
        // What stands under a condition is loaded to be stored there.
        let when = if let Stmt::Store { when, .. } = stmt { when.as_ref() } else { None };
        if let Stmt::Store { tensor, index, .. } = stmt {
            add(scope.beyond(*tensor, index, when));
        }
        for operand in stmt.operands() {
            let when = when.filter(|when| !std::ptr::eq(*when, operand));
            operand.each(&mut |expr| {
                if let ExprKind::Load { tensor, index } = &expr.kind {
                    add(scope.beyond(*tensor, index, when));
                }
            });
        }
    });
    found
}

/// The points of the axes at hand.
type Point = BTreeMap<AxisId, i64>;

struct Scope<'k> {
    kernel: &'k Kernel,
    inputs: &'k Inputs,
    lets: BTreeMap<VarId, &'k Expr>,
    /// Values of variables at the point at hand.
    known: RefCell<BTreeMap<VarId, f64>>,
}

impl Scope<'_> {
    fn beyond(&self, tensor: TensorId, index: &[Index], when: Option<&Expr>) -> Vec<Outside> {
        let dims = &self.kernel.tensors[usize::from(tensor.0)].dims;
        let entries = index.iter().zip(dims).enumerate().filter(|(_, (e, _))| e.affine.terms.is_empty());
        let found = entries.filter_map(|(dim, (entry, extent))| {
            let extent = extent.eval(&self.inputs.dims)?;
            let (mut axes, mut seen) = (BTreeSet::new(), BTreeSet::new());
            let value = entry.value.as_deref()?;
            self.axes(value, &mut axes, &mut seen)?;
            if let Some(when) = when {
                self.axes(when, &mut axes, &mut seen)?;
            }
            let mut found: Option<Outside> = None;
            self.each_point(&axes, &mut |point| {
                self.known.borrow_mut().clear();
                if when.is_some_and(|when| self.value(when, point) == 0.0) {
                    return;
                }
                let index = (self.value(value, point) as i32).wrapping_add(entry.affine.constant as i32);
                if i64::from(index) < extent {
                    return;
                }
                let first = found.get_or_insert_with(|| Outside {
                    tensor: self.kernel.tensors[usize::from(tensor.0)].name.clone(),
                    dim,
                    extent,
                    entry: self.kernel.show(value).to_string(),
                    index: index.into(),
                    at: point.iter().map(|(axis, at)| (self.axis(*axis).name.clone(), *at)).collect(),
                    count: 0,
                });
                first.count += 1;
            });
            found
        });
        found.collect()
    }

    fn axis(&self, axis: AxisId) -> &super::Axis {
        &self.kernel.axes[usize::from(axis.0)]
    }

    fn each_point(&self, axes: &BTreeSet<AxisId>, visit: &mut dyn FnMut(&Point)) {
        let extent = |axis: &AxisId| self.axis(*axis).extent.eval(&self.inputs.dims).unwrap_or(0).max(0);
        let extents: Vec<(AxisId, i64)> = axes.iter().map(|axis| (*axis, extent(axis))).collect();
        let total = extents.iter().try_fold(1usize, |n, (_, e)| n.checked_mul(*e as usize));
        for n in 0..total.filter(|n| *n <= MOST_POINTS).unwrap_or(0) {
            let mut rest = n as i64;
            let point = extents.iter().rev().map(|(axis, extent)| {
                let at = rest % extent;
                rest /= extent;
                (*axis, at)
            });
            visit(&point.collect());
        }
    }

    /// Adds the axes of a value; `None` where it does not follow from what is known without running the kernel.
    fn axes(&self, expr: &Expr, found: &mut BTreeSet<AxisId>, seen: &mut BTreeSet<VarId>) -> Option<()> {
        match &expr.kind {
            ExprKind::Load { tensor, index } => {
                let info = &self.kernel.tensors[usize::from(tensor.0)];
                (!info.mutable && self.inputs.tensors.contains_key(&info.name)).then_some(())?;
                found.extend(index::affine_axes(index));
            }
            ExprKind::Iota(axis) => {
                // The tile of a loop is not known.
                (self.axis(*axis).kind != AxisKind::Tiles).then_some(())?;
                found.insert(*axis);
            }
            ExprKind::Var(var) if seen.insert(*var) => return self.axes(self.lets.get(var)?, found, seen),
            ExprKind::Full { .. } | ExprKind::Reduce(..) | ExprKind::Dot(..) => return None,
            _ => {}
        }
        expr.children().into_iter().try_for_each(|child| self.axes(child, found, seen))
    }

    fn dtype(&self, expr: &Expr) -> DType {
        let fixed = |elem: &ElemType| match elem {
            ElemType::Fixed(dtype) => *dtype,
            ElemType::Generic => DType::F32,
        };
        match &expr.kind {
            ExprKind::Load { tensor, .. } => fixed(&self.kernel.tensors[usize::from(tensor.0)].elem),
            ExprKind::Full { elem, .. } | ExprKind::Cast(elem, _) => fixed(elem),
            ExprKind::Const { elem, .. } => elem.as_ref().map_or(DType::I32, fixed),
            ExprKind::Iota(_) | ExprKind::Dim(_) => DType::I32,
            ExprKind::Scalar(id) => fixed(&self.kernel.scalars[usize::from(id.0)].elem),
            ExprKind::Cmp(..) => DType::Bool,
            ExprKind::Var(var) => self.lets.get(var).map_or(DType::I32, |value| self.dtype(value)),
            ExprKind::Un(_, x)
            | ExprKind::Bin(_, x, _)
            | ExprKind::Select(_, x, _)
            | ExprKind::Reduce(_, x, _)
            | ExprKind::Dot(_, _, x) => self.dtype(x),
        }
    }

    /// A value at a point that has all its axes; what [`Scope::axes`] accepts.
    fn value(&self, expr: &Expr, point: &Point) -> f64 {
        match &expr.kind {
            ExprKind::Load { tensor, index } => self.element(*tensor, index, point),
            ExprKind::Iota(axis) => point[axis] as f64,
            ExprKind::Dim(name) => self.inputs.dims.get(name).copied().unwrap_or(0) as f64,
            ExprKind::Const { value, .. } => Exact::literal(*value, self.dtype(expr)),
            ExprKind::Scalar(id) => {
                let scalar = &self.kernel.scalars[usize::from(id.0)];
                Exact::literal(
                    self.inputs.scalars.get(&scalar.name).copied().unwrap_or(0.0),
                    self.dtype(expr),
                )
            }
            ExprKind::Var(var) => {
                if let Some(known) = self.known.borrow().get(var) {
                    return *known;
                }
                let value = self.lets.get(var).map_or(0.0, |value| self.value(value, point));
                self.known.borrow_mut().insert(*var, value);
                value
            }
            ExprKind::Un(op, x) => Exact::un(*op, self.dtype(x), self.value(x, point), false),
            ExprKind::Bin(op, a, b) => {
                Exact::bin(*op, self.dtype(a), self.value(a, point), self.value(b, point), false)
            }
            ExprKind::Cmp(op, a, b) => Exact::cmp(*op, self.value(a, point), self.value(b, point)),
            ExprKind::Select(c, a, b) => self.value(if self.value(c, point) != 0.0 { a } else { b }, point),
            ExprKind::Cast(_, x) => Exact::cast(self.dtype(x), self.dtype(expr), self.value(x, point), false),
            ExprKind::Full { value, .. } => *value,
            // Not accepted.
            ExprKind::Reduce(..) | ExprKind::Dot(..) => f64::NAN,
        }
    }

    fn element(&self, tensor: TensorId, index: &[Index], point: &Point) -> f64 {
        let info = &self.kernel.tensors[usize::from(tensor.0)];
        let Some(Elements::I32(elements)) = self.inputs.tensors.get(&info.name) else { return 0.0 };
        let offset = index.iter().zip(&info.dims).try_fold(0i64, |offset, (entry, extent)| {
            let extent = extent.eval(&self.inputs.dims)?;
            let terms = entry.affine.terms.iter().map(|(axis, c)| c * point.get(axis).copied().unwrap_or(0));
            let mut at = entry.affine.constant + terms.sum::<i64>();
            if let Some(value) = &entry.value {
                at = i64::from((at as i32).wrapping_add(self.value(value, point) as i32));
            }
            (0..extent).contains(&at).then_some(offset * extent + at)
        });
        offset.and_then(|at| elements.get(at as usize)).map_or(0.0, |x| f64::from(*x))
    }
}

//! Types of tile values: a set of axes and an element type.

use super::{ElemType, Expr, ExprKind, Index, Kernel, Stmt, index, statements};
use crate::{dtype::DType, index::AxisId};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Type of a tile value. A value without axes is one element, the same in the whole program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueType {
    /// Axes it ranges over.
    pub axes: BTreeSet<AxisId>,
    /// Element type.
    pub elem: ElemType,
}

impl ValueType {
    /// One element of a type.
    pub fn scalar(elem: ElemType) -> Self {
        ValueType { axes: BTreeSet::new(), elem }
    }

    /// The element type of an instantiated kernel's value.
    ///
    /// # Panics
    /// If the kernel is still generic.
    pub fn dtype(&self) -> DType {
        match self.elem {
            ElemType::Fixed(dtype) => dtype,
            ElemType::Generic => panic!("the kernel is generic: instantiate it first"),
        }
    }
}

impl Kernel {
    /// Type of each variable, indexed by [`super::VarId`], of a kernel that [`super::verify`] accepts
    /// and that went through [`Kernel::instantiate`].
    ///
    /// # Panics
    /// If the kernel was not verified.
    pub fn value_types(&self) -> Vec<ValueType> {
        let mut types = vec![None; self.vars.len()];
        statements(&self.body, &mut |stmt| {
            if let Stmt::Let { var, value } = stmt {
                types[usize::from(var.0)] = Some(self.typed(value, &|v| types[v].clone()));
            }
        });
        types.into_iter().map(|t| t.expect("every variable of a verified kernel is bound by a let")).collect()
    }

    /// Type of an expression of a verified and instantiated kernel; `vars` as from [`Kernel::value_types`].
    ///
    /// # Panics
    /// If the kernel was not verified.
    pub fn type_of(&self, expr: &Expr, vars: &[ValueType]) -> ValueType {
        self.typed(expr, &|v| Some(vars[v].clone()))
    }

    /// Type of an expression, by those of the variables in it.
    pub(super) fn typed(&self, expr: &Expr, var: &dyn Fn(usize) -> Option<ValueType>) -> ValueType {
        let index_axes = |index: &[Index]| {
            let values = index::values(index).map(|value| self.typed(value, var).axes);
            values.fold(index::affine_axes(index), |all, axes| &all | &axes)
        };
        let union = |a: &Expr, b: &Expr| {
            let (a, b) = (self.typed(a, var), self.typed(b, var));
            ValueType { axes: &a.axes | &b.axes, elem: a.elem }
        };
        let i32_type = ElemType::Fixed(DType::I32);
        match &expr.kind {
            ExprKind::Load { tensor, index } => {
                ValueType { axes: index_axes(index), elem: self.tensors[usize::from(tensor.0)].elem }
            }
            ExprKind::Full { elem, axes, .. } => {
                ValueType { axes: axes.iter().copied().collect(), elem: *elem }
            }
            ExprKind::Iota(axis) => ValueType { axes: [*axis].into(), elem: i32_type },
            ExprKind::Dim(_) | ExprKind::Edge(..) => ValueType::scalar(i32_type),
            ExprKind::Const { elem, .. } => {
                ValueType::scalar(elem.expect("literals of an instantiated kernel have a type"))
            }
            ExprKind::Scalar(id) => ValueType::scalar(self.scalars[usize::from(id.0)].elem),
            ExprKind::Var(id) => {
                var(usize::from(id.0)).expect("variables of a verified kernel are bound before use")
            }
            ExprKind::Un(op, x) => match op.row().makes {
                Some(_) => ValueType { elem: ElemType::Fixed(op.result(DType::F32)), ..self.typed(x, var) },
                None => self.typed(x, var),
            },
            ExprKind::Bin(op, a, b) => {
                let value = union(a, b);
                let elem = match value.elem {
                    ElemType::Fixed(dtype) => ElemType::Fixed(op.result(dtype)),
                    ElemType::Generic => ElemType::Generic,
                };
                ValueType { elem, ..value }
            }
            ExprKind::Cmp(_, a, b) => ValueType { elem: ElemType::Fixed(DType::Bool), ..union(a, b) },
            ExprKind::Select(c, a, b) => {
                let value = union(a, b);
                ValueType { axes: &value.axes | &self.typed(c, var).axes, elem: value.elem }
            }
            ExprKind::Cast(elem, x) => ValueType { elem: *elem, ..self.typed(x, var) },
            ExprKind::Reduce(_, x, axis) => {
                let mut value = self.typed(x, var);
                value.axes.remove(axis);
                value.axes.extend(self.limiting_axes(*axis));
                value
            }
            ExprKind::Scan(_, x, axis) => {
                let mut value = self.typed(x, var);
                value.axes.extend(self.limiting_axes(*axis));
                value
            }
            ExprKind::Dot(_, _, acc) => self.typed(acc, var),
        }
    }

    /// Name of an element type as the kernel's author writes it.
    pub fn elem_name(&self, elem: ElemType) -> &str {
        match elem {
            ElemType::Fixed(dtype) => dtype.name(),
            ElemType::Generic => self.generic.as_deref().unwrap_or("T"),
        }
    }

    /// The same with its article: `an f32`.
    pub(crate) fn article(&self, elem: ElemType) -> String {
        let name = self.elem_name(elem);
        match elem {
            ElemType::Fixed(dtype) => format!("{} {name}", dtype.article()),
            ElemType::Generic => format!("a {name}"),
        }
    }

    /// `[i, j]`: a set of axes by name.
    pub(crate) fn axes_text(&self, axes: &BTreeSet<AxisId>) -> String {
        let mut text = String::from("[");
        for (n, axis) in axes.iter().enumerate() {
            let name = self.axes.get(usize::from(axis.0)).map_or("?", |a| a.name.as_str());
            write!(text, "{}{name}", if n > 0 { ", " } else { "" }).expect("writing to a string succeeds");
        }
        text.push(']');
        text
    }
}

//! Tile IR as text, close to the source; [`super::parse`] reads it back, as names are told apart first ([`Kernel::named_apart`]).

use super::{AxisKind, ElemType, Expr, ExprKind, Index, Kernel, Stmt};
use crate::{
    dtype::DType,
    index::{Affine, write_affine},
    op::RedOp,
    op::{UnOp, binary::Form},
};
use std::fmt::{self, Display, Formatter};

impl Display for Kernel {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.named_apart().write_kernel(f)
    }
}

fn sep(first: &mut bool) -> &'static str {
    if std::mem::take(first) { "" } else { ", " }
}

fn comma_separated<T: Display>(f: &mut Formatter<'_>, items: impl Iterator<Item = T>) -> fmt::Result {
    let mut first = true;
    for item in items {
        write!(f, "{}{item}", sep(&mut first))?;
    }
    Ok(())
}

impl Kernel {
    fn write_kernel(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "kernel {}", self.name)?;
        if let Some(generic) = &self.generic {
            write!(f, "<{generic}>")?;
        }
        f.write_str("(")?;
        let mut first = true;
        for t in &self.tensors {
            let mutable = if t.mutable { "mut " } else { "" };
            write!(f, "{}{}: &{mutable}[{}; ", sep(&mut first), t.name, self.elem_name(t.elem))?;
            comma_separated(f, t.dims.iter())?;
            f.write_str("]")?;
        }
        for s in &self.scalars {
            write!(f, "{}{}: {}", sep(&mut first), s.name, self.elem_name(s.elem))?;
        }
        f.write_str(") {\n")?;
        for axis in &self.axes {
            let kind = match axis.kind {
                AxisKind::Program => "program_tile",
                AxisKind::Tiles => "tiles",
                AxisKind::Whole => "whole",
            };
            write!(f, "    axis {} in {kind}({})", axis.name, axis.extent)?;
            match (&axis.limits.from, &axis.limits.to) {
                (None, None) => {}
                (None, Some(to)) => write!(f, ".below({})", self.named(to))?,
                (Some(from), None) => write!(f, ".from({})", self.named(from))?,
                (Some(from), Some(to)) => write!(f, ".between({}, {})", self.named(from), self.named(to))?,
            }
            f.write_str(";\n")?;
        }
        for stmt in &self.body {
            self.write_stmt(f, stmt, 1)?;
        }
        f.write_str("}\n")
    }

    fn write_stmt(&self, f: &mut Formatter<'_>, stmt: &Stmt, depth: usize) -> fmt::Result {
        write!(f, "{:1$}", "", 4 * depth)?;
        match stmt {
            Stmt::Let { var, value } => {
                let var = &self.vars[usize::from(var.0)];
                let mutable = if var.mutable { "mut " } else { "" };
                writeln!(f, "let {mutable}{} = {};", var.name, self.named(value))
            }
            Stmt::Assign { var, value, .. } => {
                writeln!(f, "{} = {};", self.vars[usize::from(var.0)].name, self.named(value))
            }
            Stmt::For { axis, body, .. } => {
                writeln!(f, "for {} {{", self.axes[usize::from(axis.0)].name)?;
                for stmt in body {
                    self.write_stmt(f, stmt, depth + 1)?;
                }
                writeln!(f, "{:1$}}}", "", 4 * depth)
            }
            Stmt::Store { tensor, index, when, combine, value, .. } => {
                let tensor = &self.tensors[usize::from(tensor.0)].name;
                let store = format!(
                    "{}({tensor}, {}, {});",
                    combine.map_or("store", RedOp::atomic),
                    self.named_index(index),
                    self.named(value)
                );
                match when {
                    None => writeln!(f, "{store}"),
                    Some(when) => writeln!(f, "if {} {{ {store} }}", self.named(when)),
                }
            }
        }
    }

    /// The expression as text.
    pub fn show<'a>(&'a self, expr: &'a Expr) -> impl Display + 'a {
        Show(move |f: &mut Formatter<'_>| self.named_apart().write_expr(f, expr, 0))
    }

    /// An index list as text: `[i + r, 0]`, `[(load(ids, [s])) + 1, d]`.
    pub fn show_index<'a>(&'a self, index: &'a [Index]) -> impl Display + 'a {
        Show(move |f: &mut Formatter<'_>| self.named_apart().named_index(index).fmt(f))
    }

    /// An expression of a kernel with names told apart.
    fn named<'a>(&'a self, expr: &'a Expr) -> impl Display + 'a {
        Show(move |f: &mut Formatter<'_>| self.write_expr(f, expr, 0))
    }

    fn named_index<'a>(&'a self, index: &'a [Index]) -> impl Display + 'a {
        Show(move |f: &mut Formatter<'_>| {
            f.write_str("[")?;
            let entry = |i: &'a Index| Show(move |f: &mut Formatter<'_>| self.write_entry(f, i));
            comma_separated(f, index.iter().map(entry))?;
            f.write_str("]")
        })
    }

    fn write_entry(&self, f: &mut Formatter<'_>, index: &Index) -> fmt::Result {
        let Some(value) = &index.value else { return self.write_form(f, &index.affine) };
        write!(f, "{}({})", if index.unique { "unique" } else { "" }, self.named(value))?;
        if index.affine != Affine::default() {
            f.write_str(" + ")?;
            self.write_form(f, &index.affine)?;
        }
        Ok(())
    }

    fn write_form(&self, f: &mut Formatter<'_>, form: &Affine) -> fmt::Result {
        write_affine(
            f,
            form.terms.iter().map(|(a, c)| (self.axes[usize::from(a.0)].name.as_str(), *c)),
            form.constant,
        )
    }

    /// `level` is the binding strength of the context: 0 none, 1 comparison, 2 sum, 3 product, 4 operand, 5 receiver.
    fn write_expr(&self, f: &mut Formatter<'_>, expr: &Expr, level: u8) -> fmt::Result {
        let call = |f: &mut Formatter<'_>, name: &str, args: &[&Expr]| {
            write!(f, "{name}(")?;
            comma_separated(f, args.iter().map(|a| self.named(a)))?;
            f.write_str(")")
        };
        match &expr.kind {
            ExprKind::Load { tensor, index } => {
                write!(f, "load({}, {})", self.tensors[usize::from(tensor.0)].name, self.named_index(index))
            }
            ExprKind::Full { value, elem, axes } => {
                let axes = axes.iter().map(|a| self.axes[usize::from(a.0)].name.as_str());
                write!(f, "full::<{}>({}, [", self.elem_name(*elem), literal(*value, Some(*elem)))?;
                comma_separated(f, axes)?;
                f.write_str("])")
            }
            ExprKind::Iota(axis) => write!(f, "iota({})", self.axes[usize::from(axis.0)].name),
            ExprKind::Edge(axis, edge) => {
                write!(f, "{}({})", edge.name(), self.axes[usize::from(axis.0)].name)
            }
            ExprKind::Dim(name) => write!(f, "dim({name})"),
            ExprKind::Const { value, .. } if value.is_sign_negative() && level > 4 => {
                write!(f, "({})", self.named(expr))
            }
            ExprKind::Const { value, elem: None } => write!(f, "{value:?}"),
            ExprKind::Const { value, elem: elem @ Some(TRUTH) } => f.write_str(&literal(*value, *elem)),
            // Literals carry their type as a suffix: `1.0_f32`, `1.0_T`.
            ExprKind::Const { value, elem: Some(elem) } => write!(f, "{value:?}_{}", self.elem_name(*elem)),
            ExprKind::Scalar(id) => f.write_str(&self.scalars[usize::from(id.0)].name),
            ExprKind::Var(id) => f.write_str(&self.vars[usize::from(id.0)].name),
            ExprKind::Un(UnOp::Neg, _) if level > 4 => write!(f, "({})", self.named(expr)),
            // `-1.0` is a literal, `-(1.0)` a negation.
            ExprKind::Un(UnOp::Neg, x) if starts_with_literal(x) => {
                write!(f, "-({})", self.named(x))
            }
            ExprKind::Un(UnOp::Neg, x) => {
                f.write_str("-")?;
                self.write_expr(f, x, 4)
            }
            ExprKind::Un(op, x) => call(f, op.name(), &[x]),
            ExprKind::Bin(op, a, b) => match op.row().form {
                Form::Infix(own) => self.write_infix(f, (op.name(), own), a, b, level),
                // `max(x, n)` is over the axis `n`, and `max(x, (n))` of a value called so.
                Form::Word | Form::Function | Form::Part(_) if self.is_called_as_an_axis(b) => {
                    write!(f, "{}({}, ({}))", op.name(), self.named(a), self.named(b))
                }
                Form::Word | Form::Function | Form::Part(_) => call(f, op.name(), &[a, b]),
            },
            ExprKind::Cmp(op, a, b) => self.write_infix(f, (op.name(), 1), a, b, level),
            ExprKind::Select(c, a, b) => call(f, "select", &[c, a, b]),
            ExprKind::Cast(elem, x) => {
                self.write_expr(f, x, 5)?;
                write!(f, ".cast::<{}>()", self.elem_name(*elem))
            }
            ExprKind::Reduce(op, x, axis) => {
                write!(f, "{}({}, {})", op.name(), self.named(x), self.axes[usize::from(axis.0)].name)
            }
            ExprKind::Scan(op, x, axis) => {
                write!(f, "{}({}, {})", op.scan(), self.named(x), self.axes[usize::from(axis.0)].name)
            }
            ExprKind::Dot(a, b, c) => match (&a.kind, &b.kind) {
                (ExprKind::Un(UnOp::Tf32, a), ExprKind::Un(UnOp::Tf32, b)) => {
                    write!(f, "dot({}, {}, {}, tf32)", self.named(a), self.named(b), self.named(c))
                }
                _ => call(f, "dot", &[a, b, c]),
            },
        }
    }

    /// Whether it is a variable or a parameter with the name of an axis.
    fn is_called_as_an_axis(&self, expr: &Expr) -> bool {
        let name = match &expr.kind {
            ExprKind::Var(var) => &self.vars[usize::from(var.0)].name,
            ExprKind::Scalar(scalar) => &self.scalars[usize::from(scalar.0)].name,
            _ => return false,
        };
        self.axes.iter().any(|axis| axis.name == *name)
    }

    fn write_infix(
        &self,
        f: &mut Formatter<'_>,
        (op, own): (&str, u8),
        a: &Expr,
        b: &Expr,
        level: u8,
    ) -> fmt::Result {
        let (open, close) = if own < level || (own == 1 && level == 1) { ("(", ")") } else { ("", "") };
        f.write_str(open)?;
        self.write_expr(f, a, if own == 1 { 2 } else { own })?;
        write!(f, " {op} ")?;
        self.write_expr(f, b, own + 1)?;
        f.write_str(close)
    }
}

const TRUTH: ElemType = ElemType::Fixed(DType::Bool);

/// A number, `true` or `false`.
fn literal(value: f64, elem: Option<ElemType>) -> String {
    match elem {
        Some(TRUTH) if value == 0.0 || value == 1.0 => (value == 1.0).to_string(),
        _ => format!("{value:?}"),
    }
}

/// `1.0`, `1.0.cast::<f16>()`.
fn starts_with_literal(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Const { .. } => true,
        ExprKind::Cast(_, x) => starts_with_literal(x),
        _ => false,
    }
}

/// A closure as `Display`.
struct Show<F>(F);

impl<F: Fn(&mut Formatter<'_>) -> fmt::Result> Display for Show<F> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        (self.0)(f)
    }
}

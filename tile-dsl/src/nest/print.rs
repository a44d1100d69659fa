//! Prints nests as indented S-expressions, digits by their user names; then where values and copies lie, the tiles of segments, and
//! the [facts](super::facts).

use super::{Access, Copy, Digit, Expr, LoopKind, Nest, Placement, Steps, Stmt, Value};
use crate::{
    machine::{Unit, Via},
    tile,
};
use std::fmt::{self, Write};

impl fmt::Display for Nest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.print(&self.body))?;
        f.write_str(&self.print_layouts())?;
        if let Some(segment) = &self.segment {
            let (axis, tile) = (self.axis(segment.digit.axis), segment.digit.stride);
            let (whole, rest, points) = (segment.whole(), segment.rest(), segment.points);
            writeln!(f, "; {axis}: tiles of {tile} x {whole}, {rest} in each {points}")?;
        }
        f.write_str(&self.print_facts())
    }
}

impl Nest {
    /// A part of the term as text, with a final newline.
    pub fn print(&self, stmt: &Stmt) -> String {
        let mut out = String::new();
        self.stmt(&mut out, stmt, 0);
        out.push('\n');
        out
    }

    /// Name of a digit: the one that `split` or `tile` gave it, else the axis', else `axis.stride.steps`.
    pub fn digit_name(&self, digit: Digit) -> String {
        let axis = self.axis(digit.axis);
        // A split name says more than `i.t`, which says more than the bare axis.
        let rank = |name: &str| if name == axis { 2 } else { usize::from(name.contains('.')) };
        match self.names.iter().filter(|(_, d)| **d == digit).min_by_key(|(n, _)| rank(n)) {
            Some((name, _)) => name.clone(),
            None => self.plain_digit(digit),
        }
    }

    /// `axis.stride.steps`.
    pub(super) fn plain_digit(&self, digit: Digit) -> String {
        format!("{}.{}.{}", self.axis(digit.axis), digit.stride, digit.steps)
    }

    /// What the coordinate of a bound digit is xored with, as `^x`; empty where it is the coordinate itself.
    pub(super) fn print_skew(&self, digit: Digit) -> String {
        self.skew.get(&digit).map_or_else(String::new, |other| format!("^{other}"))
    }

    /// Name of an axis.
    pub fn axis(&self, axis: crate::index::AxisId) -> &str {
        &self.kernel.axes[usize::from(axis.0)].name
    }

    /// Name of a tensor.
    pub fn tensor(&self, tensor: tile::TensorId) -> &tile::Tensor {
        &self.kernel.tensors[usize::from(tensor.0)]
    }

    /// A value by its number.
    pub fn value(&self, value: super::ValueId) -> &Value {
        &self.values[usize::from(value.0)]
    }

    /// An access by its number.
    pub fn access(&self, access: super::AccessId) -> &Access {
        &self.accesses[usize::from(access.0)]
    }

    /// A copy by its number.
    pub fn copy(&self, copy: super::CopyId) -> &Copy {
        &self.copies[usize::from(copy.0)]
    }

    /// An access as text: `a[i, k]`; `a[*s + 1, d]` where a value with the axis `s` is added, `a[i if i]` under a condition with the axis
    /// `i`; `a[row s of *s + 1, d]` and `a[at *s + 1, d]` where it is read from a copy that values place.
    pub fn print_access(&self, access: &Access) -> String {
        let mut out = format!("{}[", self.tensor(access.tensor).name);
        for (n, index) in access.index.iter().enumerate() {
            out.push_str(if n == 0 { "" } else { ", " });
            let (axes, form) = match (access.by.get(&n), access.gathered.get(&n)) {
                (Some(axes), _) => (axes, index),
                (None, Some(gathered)) => {
                    match gathered.row {
                        Some(row) => drop(write!(out, "row {} of ", self.axis(row))),
                        None => out.push_str("at "),
                    }
                    (&gathered.axes, &gathered.form)
                }
                (None, None) => {
                    out.push_str(&self.print_affine(index));
                    continue;
                }
            };
            let axes: Vec<&str> = axes.iter().map(|a| self.axis(*a)).collect();
            let _ = write!(out, "*{}", axes.join("."));
            if *form != crate::index::Affine::default() {
                let _ = write!(out, " + {}", self.print_affine(form));
            }
        }
        if let Some(axes) = &access.guarded {
            let axes: Vec<&str> = axes.iter().map(|a| self.axis(*a)).collect();
            let _ = write!(out, " if {}", axes.join("."));
        }
        if let Some((op, axes)) = &access.combines {
            let axes: Vec<&str> = axes.iter().map(|a| self.axis(*a)).collect();
            let _ = write!(out, " {}", op.atomic());
            if !axes.is_empty() {
                let _ = write!(out, " {}", axes.join("."));
            }
        }
        out.push(']');
        out
    }

    /// An affine index as text: `2*i + r - 1`.
    pub fn print_affine(&self, index: &crate::index::Affine) -> String {
        struct Show<'a>(&'a Nest, &'a crate::index::Affine);
        impl fmt::Display for Show<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let terms = self.1.terms.iter().map(|(a, c)| (self.0.axis(*a), *c));
                crate::index::write_affine(f, terms, self.1.constant)
            }
        }
        Show(self, index).to_string()
    }

    fn stmt(&self, out: &mut String, stmt: &Stmt, depth: usize) {
        match stmt {
            Stmt::For { digit, at, body } => {
                let _ = write!(out, "(for {}", self.digit_name(*digit));
                if *at != LoopKind::Seq {
                    let _ = write!(out, " {at}");
                    if let LoopKind::Unit(..) = at {
                        out.push_str(&self.print_skew(*digit));
                    }
                }
                self.body(out, body, depth);
            }
            Stmt::Stage { copy, body } => {
                let _ = write!(out, "(stage {}:{}", self.copy_name(*copy), print_copy(self.copy(*copy)));
                self.body(out, body, depth);
            }
            Stmt::Let { values, first, rest } => {
                out.push_str("(let [");
                for (n, v) in values.iter().enumerate() {
                    out.push_str(if n == 0 { "" } else { " " });
                    let value = self.value(*v);
                    out.push_str(&value.name);
                    if value.placement == Placement::Shared {
                        out.push_str("@shared");
                    }
                    if let Some(level) = self.combine.get(v) {
                        let _ = write!(out, "@{level}");
                    }
                    if let Some(across) = self.across.get(v) {
                        let _ = write!(out, "@{across}");
                    }
                }
                out.push(']');
                newline(out, depth + 1);
                self.stmt(out, first, depth + 1);
                newline(out, depth + 1);
                self.stmt(out, rest, depth + 1);
                out.push(')');
            }
            Stmt::Def { value, expr } => {
                let _ = write!(out, "(def {} {})", self.value(*value).name, self.expr(expr));
            }
            Stmt::Red { value, op, expr } => {
                let _ = write!(out, "(red {} {} {})", self.value(*value).name, op.name(), self.expr(expr));
            }
            Stmt::Scan { value, expr } => {
                let value = self.value(*value);
                let _ = write!(out, "(scan {}", value.name);
                if let Some((op, axis)) = value.scan {
                    let _ = write!(out, " {} {}", op.name(), self.axis(axis));
                }
                let _ = write!(out, " {})", self.expr(expr));
            }
            Stmt::Set { value, expr } => {
                let _ = write!(out, "(set {} {})", self.value(*value).name, self.expr(expr));
            }
            Stmt::Put { access, expr } => {
                let _ = write!(out, "(put {} {})", self.print_access(self.access(*access)), self.expr(expr));
            }
            Stmt::Skip => out.push_str("(skip)"),
        }
    }

    /// The body of a loop or stage: chains stay on one line, a `let` starts a new one.
    fn body(&self, out: &mut String, body: &Stmt, depth: usize) {
        if matches!(body, Stmt::Let { .. }) {
            newline(out, depth + 1);
            self.stmt(out, body, depth + 1);
        } else {
            out.push(' ');
            self.stmt(out, body, depth);
        }
        out.push(')');
    }

    /// An expression as text.
    pub fn expr(&self, expr: &Expr) -> String {
        match expr {
            Expr::Load(a) => format!("(ld {})", self.print_access(self.access(*a))),
            Expr::Gather(a, by) => {
                let by: String = by.iter().map(|value| format!(" {}", self.expr(value))).collect();
                format!("(gather {}{by})", self.print_access(self.access(*a)))
            }
            Expr::Scatter { by, when, value } => {
                let by: String = by.iter().map(|value| format!("{} ", self.expr(value))).collect();
                let when = when.as_ref().map_or(String::new(), |when| format!("if {} ", self.expr(when)));
                format!("(scatter {by}{when}{})", self.expr(value))
            }
            Expr::Get(v) => format!("(get {})", self.value(*v).name),
            Expr::Const(c, t) => format!("{c:?}:{t}"),
            Expr::Scalar(s) => format!("(scalar {})", self.kernel.scalars[usize::from(s.0)].name),
            Expr::Iota(a) => format!("(iota {})", self.axis(*a)),
            Expr::Edge(a, edge) => format!("({} {})", edge.name(), self.axis(*a)),
            Expr::Dim(d) => format!("(dim {d})"),
            Expr::Un(op, a) => format!("({} {})", op.name(), self.expr(a)),
            Expr::Bin(op, a, b) => format!("({} {} {})", op.name(), self.expr(a), self.expr(b)),
            Expr::Cmp(op, a, b) => format!("({} {} {})", op.name(), self.expr(a), self.expr(b)),
            Expr::Select(c, a, b) => format!("(select {} {} {})", self.expr(c), self.expr(a), self.expr(b)),
            Expr::Cast(t, a) => format!("(cast {t} {})", self.expr(a)),
        }
    }
}

fn newline(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

/// `shared`, `shared.transposed.cp_async.vector(16).pad(16).swizzle(128)`.
pub(super) fn print_copy(copy: &Copy) -> String {
    let mut out = copy.space.to_string();
    if copy.transposed {
        out.push_str(".transposed");
    }
    match copy.via {
        Via::Plain => {}
        Via::CpAsync => out.push_str(".cp_async"),
        Via::Tma | Via::Stmatrix => out.push_str(".tma"),
    }
    if let Some(v) = copy.vector {
        let _ = write!(out, ".vector({v})");
    }
    if copy.pad > 0 {
        let _ = write!(out, ".pad({})", copy.pad);
    }
    if copy.swizzle > 0 {
        let _ = write!(out, ".swizzle({})", copy.swizzle);
    }
    out
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Steps::Fixed(n) => write!(f, "{n}"),
            Steps::Rest => f.write_str("rest"),
        }
    }
}

impl fmt::Display for LoopKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoopKind::Seq => f.write_str("#seq"),
            LoopKind::Unroll => f.write_str("#unroll"),
            LoopKind::Serpentine => f.write_str("#serpentine"),
            LoopKind::Vec => f.write_str("#vec"),
            LoopKind::Pipe(n) => write!(f, "#pipe{n}"),
            // The grid is one-dimensional; see `Order`.
            LoopKind::Unit(Unit::Block, _) => f.write_str("#block"),
            LoopKind::Unit(unit, dim) => write!(f, "#{unit}.{dim}"),
            LoopKind::Atom(atom, role) => write!(f, "#{}.{role}", atom.label()),
        }
    }
}

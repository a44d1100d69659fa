//! A structure as text: the grammar is in the module above.

use super::{Access, AxisAt, Dim, Factor, How, Role, Structure};
use std::fmt::{self, Display};

impl Structure {
    fn list<'a>(&self, axes: impl IntoIterator<Item = &'a AxisAt>) -> String {
        axes.into_iter().map(|a| self.name(*a)).collect::<Vec<_>>().join(", ")
    }

    /// A dimension of an access: `2*i + r - 1`, `by s`, `t + by b`.
    fn dim(&self, dim: &Dim) -> String {
        let mut form = String::new();
        let terms = dim.terms.iter().map(|(a, c)| (Some(self.name(*a)), *c));
        let constant = (dim.constant != 0 || dim.terms.is_empty()).then_some((None, dim.constant));
        for (name, factor) in terms.chain(constant) {
            let sign = match (form.is_empty(), factor < 0) {
                (true, true) => "-",
                (true, false) => "",
                (false, true) => " - ",
                (false, false) => " + ",
            };
            form += sign;
            form += &match (name, factor.abs()) {
                (Some(name), 1) => name.to_string(),
                (Some(name), n) => format!("{n}*{name}"),
                (None, n) => n.to_string(),
            };
        }
        match &dim.by {
            None => form,
            Some(axes) if dim.terms.is_empty() && dim.constant == 0 => format!("by {}", self.by(axes)),
            Some(axes) => format!("{form} + by {}", self.by(axes)),
        }
    }

    fn by(&self, axes: &[AxisAt]) -> String {
        if axes.is_empty() { "all alike".into() } else { self.list(axes) }
    }

    fn access(&self, access: &Access) -> String {
        let how = match access.how {
            How::Read => "read",
            How::Write => "write",
            How::Combine => "combine",
        };
        let dims: Vec<String> = access.dims.iter().map(|d| self.dim(d)).collect();
        let mut text = format!("{how} {}[{}]: {}", access.tensor, dims.join(", "), access.dtype);
        if let Some(axis) = access.along() {
            text += &format!(" along {}", self.name(axis));
        }
        let again = access.again_over();
        if !again.is_empty() {
            text += &format!(" again over {}", self.list(&again));
        }
        if access.guarded {
            text += " guarded";
        }
        text
    }

    fn factor(&self, factor: &Factor) -> String {
        let what = factor.access.map_or("computed", |a| &self.accesses[a].tensor);
        let masked = if factor.masked { "masked " } else { "" };
        format!("{masked}{what} {}[{}]", factor.dtype, self.list(&factor.axes))
    }
}

impl Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dtype {
            Some(dtype) => writeln!(f, "kernel of {dtype}")?,
            None => writeln!(f, "kernel")?,
        }
        for axis in &self.axes {
            let role = match axis.role {
                Role::Program => "program",
                Role::Whole => "whole",
                Role::Tiles => "tiles",
            };
            write!(f, "axis {}: {role} {}", axis.name, axis.extent)?;
            let marks = [
                (axis.reduced, "reduced"),
                (axis.stored, "stored"),
                (axis.carried, "carried"),
                (axis.limited, "limited"),
                (axis.late, "late"),
            ];
            for (_, mark) in marks.iter().filter(|(holds, _)| *holds) {
                write!(f, " {mark}")?;
            }
            writeln!(f)?;
        }
        for access in &self.accesses {
            writeln!(f, "{}", self.access(access))?;
        }
        for value in &self.values {
            let carried = match (value.carried, value.maximum) {
                (true, true) => " carried maximum",
                (true, false) => " carried",
                (false, _) => "",
            };
            let axes = self.list(&value.axes);
            writeln!(f, "value {}[{axes}]: {}{carried} {} readers", value.name, value.dtype, value.readers)?;
        }
        for r in &self.reductions {
            let (axes, over) = (self.list(&r.axes), self.list(&r.over));
            write!(f, "{} {}[{axes}]: {} over {over}", r.op.row().name, r.name, r.dtype)?;
            if r.carried {
                write!(f, " carried")?;
            }
            if let Some(product) = &r.product {
                let [a, b] = &product.factors;
                write!(f, " = {} · {}", self.factor(a), self.factor(b))?;
                if product.tf32 {
                    write!(f, " in tf32")?;
                }
            }
            writeln!(f)?;
        }
        for work in &self.work {
            writeln!(f, "work [{}]: {} operations", self.list(&work.axes), work.operations)?;
        }
        Ok(())
    }
}

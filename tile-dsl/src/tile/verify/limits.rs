//! Limits of axes: what they are made of, and what has to have their axes.

use super::{BTreeSet, Checker, Diagnostic, Expr, ExprKind, I32, SpanId, ValueType, VarId};
use crate::{
    index::AxisId,
    tile::{AxisKind, Form, Operation, limits::Unknown},
};

impl Checker<'_> {
    /// Checks the limits of axes bound by `whole` where all variables in them are bound.
    pub(super) fn limits_of_whole(&mut self) {
        for (n, axis) in self.kernel.axes.iter().enumerate() {
            let known = |e: &Expr| !matches!(e.kind, ExprKind::Var(var) if !self.vars.contains_key(&var));
            let ready = |end: &Expr| !end.any(&|e| !known(e));
            if axis.kind != AxisKind::Tiles && !axis.limits.is_none() && axis.limits.ends().all(ready) {
                self.limits(AxisId(n as u16));
            }
        }
    }

    /// Checks the limits of an axis, once.
    pub(super) fn limits(&mut self, axis: AxisId) {
        let entry = &self.kernel.axes[usize::from(axis.0)];
        if entry.limits.is_none() || self.typed_limits.contains_key(&axis) {
            return;
        }
        let mut limits = entry.limits.clone();
        for end in limits.ends_mut() {
            self.limit(axis, end);
        }
        self.typed_limits.insert(axis, limits);
    }

    fn limit(&mut self, axis: AxisId, end: &mut Expr) {
        let kernel = self.kernel;
        let entry = &kernel.axes[usize::from(axis.0)];
        let (name, span) = (&entry.name, end.span);
        let about = Operation::Form(Form::Between).place();
        if entry.kind == AxisKind::Program {
            self.error(
                Diagnostic::new(span, format!("`{name}` is shared out among programs, and has limits"))
                    .card(about)
                    .remark(format!("bind `{name}` with `whole(..)` or loop over it with `tiles(..)`")),
            );
            return;
        }
        let Some(found) = self.infer(end, Some(I32)) else { return };
        if found.elem != I32 {
            let elem = kernel.elem_name(found.elem);
            let error = Diagnostic::new(span, format!("a limit of `{name}` is {elem}, not i32")).card(about);
            self.error(error.rewrite(span, "", ".cast::<i32>()"));
            return;
        }
        let why = match kernel.known_before(end) {
            Err(Unknown::Variable) => "a variable in it is `mut`".to_string(),
            Err(Unknown::Stored(tensor)) => {
                format!("it is loaded from `{tensor}`, which the kernel stores to")
            }
            Err(Unknown::Computed(op)) => format!("`{op}` computes it"),
            Ok(_) if found.axes.contains(&axis) => {
                self.error(
                    Diagnostic::new(span, format!("a limit of `{name}` depends on `{name}`"))
                        .card(about)
                        .remark("a limit says for each point of other axes which points of this one count"),
                );
                return;
            }
            Ok(_) => return,
        };
        self.error(
            Diagnostic::new(span, format!("a limit of `{name}` is not known before its loop: {why}"))
                .card(about)
                .remark("a limit is made of axes, dims, scalars, operators, and loads from tensors without `&mut`; a condition that is computed goes into `select`"),
        );
    }

    /// Whether loops carry a variable that lacks axes on which their points depend: its rows would end at different tiles.
    pub(super) fn lacks_limiting_axes(&mut self, var: VarId, own: &ValueType, span: SpanId) -> bool {
        let kernel = self.kernel;
        let from = self.depth[&var].min(self.open.len());
        let lacking = self.open[from..].iter().find_map(|axis| {
            let missing: BTreeSet<AxisId> = &kernel.limiting_axes(*axis) - &own.axes;
            missing.first().map(|limiting| (*axis, *limiting))
        });
        let Some((axis, limiting)) = lacking else { return false };
        let named = |axis: AxisId| &kernel.axes[usize::from(axis.0)];
        let (axis, limiting) = (named(axis), &named(limiting).name);
        let entry = &kernel.vars[usize::from(var.0)];
        let (variable, name) = (&entry.name, &axis.name);
        self.error(
            Diagnostic::new(
                span,
                format!("`{variable}` is carried through the loop over `{name}`, whose points depend on `{limiting}`, which `{variable}` lacks"),
            )
            .card(Operation::Form(Form::Between).place())
            .note(entry.span, format!("`{variable}` is bound here"))
            .note(axis.span, format!("the limits of `{name}` are here"))
            .remark(format!("bind `{variable}` with the axis `{limiting}`")),
        );
        true
    }

    /// The axes of what says where a store goes, and those that limit them: the store needs them all.
    pub(super) fn stored_within_limits(&mut self, tensor: &str, axes: &BTreeSet<AxisId>, span: SpanId) {
        let kernel = self.kernel;
        for axis in axes {
            let missing = &kernel.limiting_axes(*axis) - axes;
            let Some(limiting) = missing.first() else { continue };
            let entry = &kernel.axes[usize::from(axis.0)];
            let (name, limiting) = (&entry.name, &kernel.axes[usize::from(limiting.0)].name);
            self.error(
                Diagnostic::new(
                    span,
                    format!("`{tensor}` is stored along `{name}`, whose points depend on `{limiting}`, which the store lacks"),
                )
                .card(Operation::Form(Form::Between).place())
                .note(entry.span, format!("the limits of `{name}` are here"))
                .remark(format!("index `{tensor}` by `{limiting}`")),
            );
        }
    }
}

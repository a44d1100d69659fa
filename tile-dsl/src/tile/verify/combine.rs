//! `atomic_add` and the like: stores that combine what points bring with what is there.

use super::{AxisId, AxisKind, BTreeSet, Checker, Diagnostic, ElemType, Expr, SpanId, TensorId};
use crate::{
    diagnostic::replace,
    op::RedOp,
    tile::{Form, Index, Operation},
};

/// A statement that combines.
pub(super) struct Combined<'s> {
    pub op: RedOp,
    pub tensor: TensorId,
    pub index: &'s mut [Index],
    pub value: &'s mut Expr,
    pub span: SpanId,
}

impl Checker<'_> {
    /// The axes of the index and of the value; `None` if either has mistakes.
    pub(super) fn combine(&mut self, stmt: Combined<'_>) -> Option<BTreeSet<AxisId>> {
        let Combined { op, tensor, index, value, span } = stmt;
        self.check_overwritten(value);
        let kernel = self.kernel;
        let t = &kernel.tensors[usize::from(tensor.0)];
        let (name, atomic) = (&t.name, op.atomic());
        let found = self.infer(value, Some(t.elem));
        let axes = self.index_axes(tensor, index, span);
        self.stored_is_mutable(tensor, span);
        self.combines_alone(op, tensor, span);
        self.stores.entry(tensor).or_default().push((index.to_vec(), span));
        if let Some(entry) = index.iter().find(|entry| entry.unique) {
            let span = entry.value.as_ref().map_or(span, |value| value.span);
            self.error(
                Diagnostic::new(
                    span,
                    format!("`unique` is a promise about a store, and `{atomic}` needs none"),
                )
                .card(Operation::Form(Form::Unique).place())
                .remark("leave `unique` out: points may meet"),
            );
        }
        let takes = |op: RedOp| matches!(t.elem, ElemType::Fixed(dtype) if op.is_atomic(dtype));
        if !takes(op) {
            let elem = kernel.elem_name(t.elem);
            let error = Diagnostic::new(span, format!("`{atomic}` to {elem} elements"))
                .note(t.span, format!("`{name}` is declared here"));
            self.error(match takes(RedOp::Add) {
                true => error.remark(
                    "a GPU has it for i32 and u32: `order(x)` makes an i32 of a float that compares alike",
                ),
                false => error.remark(
                    "a GPU has it for i32 and u32, and `atomic_add` for f32, too: combine into such a tensor",
                ),
            });
        }
        let (found, axes) = (found?, axes?);
        self.inside(tensor, index, span);
        let all = &axes | &found.axes;
        self.counts_once(op, &all, name, span);
        self.stored_within_limits(name, &all, span);
        let own = found.axes.clone();
        self.stored(tensor, value, &found, &own);
        Some(all)
    }

    /// Nothing else stores to the tensor, or reads it.
    fn combines_alone(&mut self, op: RedOp, tensor: TensorId, span: SpanId) {
        let name = &self.kernel.tensors[usize::from(tensor.0)].name;
        let others = self.combined.get(&tensor).copied();
        let stored = self.stores.get(&tensor).and_then(|stores| stores.first()).map(|(_, at)| *at);
        let read = self.loads.iter().find(|(read, ..)| *read == tensor).map(|(.., at)| *at);
        let atomic = op.atomic();
        let alone = "nothing tells in which order they come: use a tensor of its own for each";
        let mistake = match (others, stored, read) {
            (Some((other, at)), ..) if other != op => Some((
                format!("`{name}` takes `{}` and `{atomic}`", other.atomic()),
                at,
                "the other one is here",
            )),
            (None, Some(at), _) => {
                Some((format!("`{name}` is stored, and takes `{atomic}`"), at, "it is stored here"))
            }
            (_, _, Some(at)) => {
                Some((format!("`{name}` is read, and takes `{atomic}`"), at, "it is read here"))
            }
            _ => None,
        };
        if let Some((message, at, note)) = mistake {
            self.error(Diagnostic::new(span, message).note(at, note).remark(alone));
        }
        self.combined.entry(tensor).or_insert((op, span));
    }

    /// A load from a tensor that is combined, or a store to it.
    pub(super) fn touches_combined(&mut self, tensor: TensorId, what: &str, span: SpanId) {
        let Some((op, at)) = self.combined.get(&tensor).copied() else { return };
        let name = &self.kernel.tensors[usize::from(tensor.0)].name;
        self.error(
            Diagnostic::new(span, format!("`{name}` is {what}, and takes `{}`", op.atomic()))
                .note(at, "it is combined here")
                .remark("nothing tells in which order they come: use a tensor of its own for each"),
        );
    }

    /// How often a point counts must not depend on the number of programs, or on the size of a tile.
    fn counts_once(&mut self, op: RedOp, axes: &BTreeSet<AxisId>, tensor: &str, span: SpanId) {
        let atomic = op.atomic();
        for (n, axis) in self.kernel.axes.iter().enumerate() {
            let id = AxisId(n as u16);
            let name = &axis.name;
            let which = match axis.kind {
                _ if axes.contains(&id) => continue,
                AxisKind::Program => format!("every program along `{name}`"),
                _ if self.open.contains(&id) => format!("every tile of the loop over `{name}`"),
                _ => continue,
            };
            self.error(
                Diagnostic::new(span, format!("{which} would count in `{tensor}`, however many there are"))
                    .card(Operation::Form(Form::of_atomic(op)).place())
                    .note(axis.span, format!("`{name}` is bound here"))
                    .remark(match axis.kind {
                        AxisKind::Program => {
                            format!("give the value the axis `{name}`, or index `{tensor}` by it")
                        }
                        _ => format!("give the value the axis `{name}`, or use `{atomic}` after the loop"),
                    }),
            );
        }
    }

    /// What is stored to is `&mut`.
    pub(super) fn stored_is_mutable(&mut self, tensor: TensorId, span: SpanId) {
        let kernel = self.kernel;
        let t = &kernel.tensors[usize::from(tensor.0)];
        if !t.mutable {
            let name = &t.name;
            self.error(
                Diagnostic::new(span, format!("`{name}` is stored to but not `&mut`"))
                    .note(t.span, format!("`{name}` is declared here"))
                    .help(replace(
                        super::index::declared(kernel, t, false),
                        super::index::declared(kernel, t, true),
                    )),
            );
        }
    }
}

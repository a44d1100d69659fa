//! Rules of loads and stores: ranks, ranges, injectivity, and the read/write discipline of tensors.

use super::{
    Affine, AxisId, AxisKind, BOOL, BTreeSet, Checker, Diagnostic, Expr, ExprKind, Extent, I32, SpanId,
    TensorId, ValueType, disjoint,
};
use crate::tile::{Form, Index, Kernel, Operation, Tensor, index};

/// `a - b`.
pub(super) fn minus(a: &Extent, b: &Extent) -> Extent {
    let mut difference = a.clone();
    difference.constant -= b.constant;
    for (dim, c) in &b.dims {
        *difference.dims.entry(dim.clone()).or_default() -= c;
    }
    difference.dims.retain(|_, c| *c != 0);
    difference
}

/// Whether the extent is ≥ 0 for all dims ≥ 0, as far as signs tell.
pub(super) fn never_negative(e: &Extent) -> bool {
    e.constant >= 0 && e.dims.values().all(|c| *c >= 0)
}

/// Largest value of an affine form, for non-empty axes.
pub(super) fn largest(kernel: &Kernel, form: &Affine) -> Extent {
    extreme(kernel, form, 1)
}

/// Smallest value of an affine form, for non-empty axes.
pub(super) fn least(kernel: &Kernel, form: &Affine) -> Extent {
    extreme(kernel, form, -1)
}

/// The constant, and the last points of the axes with coefficients of one sign.
fn extreme(kernel: &Kernel, form: &Affine, sign: i64) -> Extent {
    let mut sum = Extent::constant(form.constant);
    for (axis, c) in form.terms.iter().filter(|(_, c)| c.signum() == sign) {
        let e = &kernel.axes[usize::from(axis.0)].extent;
        sum.constant = sum.constant.saturating_add(c.saturating_mul(e.constant.saturating_sub(1)));
        for (dim, d) in &e.dims {
            let old = sum.dims.entry(dim.clone()).or_default();
            *old = old.saturating_add(c.saturating_mul(*d));
        }
    }
    sum.dims.retain(|_, c| *c != 0);
    sum
}

impl Checker<'_> {
    fn extent(&self, axis: AxisId) -> &Extent {
        &self.kernel.axes[usize::from(axis.0)].extent
    }

    fn name(&self, axis: AxisId) -> &str {
        &self.kernel.axes[usize::from(axis.0)].name
    }

    /// Rank and scope of an index, types of its values; all its axes.
    pub(super) fn index_axes(
        &mut self,
        tensor: TensorId,
        index: &mut [Index],
        span: SpanId,
    ) -> Option<BTreeSet<AxisId>> {
        let t = &self.kernel.tensors[usize::from(tensor.0)];
        if index.len() != t.dims.len() {
            let (name, rank, n) = (&t.name, t.dims.len(), index.len());
            let dims: Vec<_> = t.dims.iter().map(ToString::to_string).collect();
            let plural = |n: usize| if n == 1 { "" } else { "s" };
            self.error(
                Diagnostic::new(
                    span,
                    format!(
                        "`{name}` has {rank} dimension{} but the index has {n} entr{}",
                        plural(rank),
                        if n == 1 { "y" } else { "ies" }
                    ),
                )
                .note(t.span, format!("`{name}` is [{}]", dims.join(", ")))
                .remark(format!("give {rank} index expression{}", plural(rank))),
            );
            return None;
        }
        let mut axes = index::affine_axes(index);
        self.in_scope(&axes, span)?;
        for (position, entry) in index.iter_mut().enumerate() {
            self.representable(tensor, position, &entry.affine, span)?;
            if let Some(value) = &mut entry.value {
                axes.extend(self.index_value(value)?);
            }
        }
        Some(axes)
    }

    /// Type of a value in an index; its axes.
    fn index_value(&mut self, value: &mut Expr) -> Option<BTreeSet<AxisId>> {
        let found = self.infer(value, Some(I32))?;
        if super::is_integer(found.elem) {
            return Some(found.axes);
        }
        let elem = self.kernel.elem_name(found.elem);
        let error = Diagnostic::new(value.span, format!("an index is an integer, and this is {elem}"))
            .card(Operation::Form(Form::Index).place());
        self.error(error.rewrite(value.span, "", ".cast::<i32>()"));
        None
    }

    /// Whether the numbers of an index leave it inside 32 bits for at least the smallest extents.
    fn representable(
        &mut self,
        tensor: TensorId,
        position: usize,
        form: &Affine,
        span: SpanId,
    ) -> Option<()> {
        let mut reach = i128::from(form.constant).abs();
        for (axis, c) in &form.terms {
            // A symbolic extent may be 1, and then its axis is 0; but the factor is computed with.
            let last = self.extent(*axis).as_constant().map_or(1, |n| i128::from(n - 1).max(1));
            reach += i128::from(*c).abs() * last;
        }
        if reach < 1 << 31 {
            return Some(());
        }
        let name = &self.kernel.tensors[usize::from(tensor.0)].name;
        self.error(
            Diagnostic::new(span, format!("the index of dimension {position} of `{name}` reaches {reach}"))
                .remark("indices are 32-bit: numbers in them, and their sums, lie below 2^31"),
        );
        None
    }

    /// Checks a load whose index is well-formed.
    pub(super) fn load(&mut self, tensor: TensorId, index: &[Index], span: SpanId) -> Option<()> {
        let t = &self.kernel.tensors[usize::from(tensor.0)];
        // A plain axis must stay inside; an affine form may leave the tensor on purpose (padding reads zero).
        for (position, entry) in index.iter().enumerate() {
            if entry.unique {
                let span = entry.value.as_ref().map_or(span, |value| value.span);
                self.error(
                    Diagnostic::new(span, "`unique` is a promise about a store, and this is a load")
                        .card(Operation::Form(Form::Unique).place())
                        .remark("leave `unique` out: any points may load the same element"),
                );
                return None;
            }
            let Some(axis) = entry.as_affine().and_then(Affine::as_axis) else { continue };
            let (extent, dim) = (self.extent(axis).clone(), &t.dims[position]);
            if !never_negative(&minus(dim, &extent)) {
                let (name, axis_name) = (&t.name, self.name(axis).to_string());
                let bound = self.kernel.axes[usize::from(axis.0)].span;
                self.error(
                    Diagnostic::new(
                        span,
                        format!("axis `{axis_name}` ranges over {extent}, but dimension {position} of `{name}` is {dim}"),
                    )
                    .note(bound, format!("`{axis_name}` is bound here"))
                    .note(t.span, format!("`{name}` is declared here"))
                    .remark(format!("bind the axis over {dim}, or declare that dimension of `{name}` as {extent}")),
                );
                return None;
            }
        }
        self.touches_combined(tensor, "read", span);
        let kernel = self.kernel;
        let overlaps = |(stored, _): &&(Vec<Index>, SpanId)| reads_elsewhere(kernel, stored, index);
        if let Some((stored, at)) =
            self.stores.get(&tensor).and_then(|stores| stores.iter().find(overlaps)).cloned()
        {
            self.different_index(tensor, (span, index), (at, &stored));
        }
        self.loads.push((tensor, index.to_vec(), span));
        Some(())
    }

    fn different_index(
        &mut self,
        tensor: TensorId,
        (load, read): (SpanId, &[Index]),
        (store, stored): (SpanId, &[Index]),
    ) {
        let name = &self.kernel.tensors[usize::from(tensor.0)].name;
        let by_value = index::values(read).chain(index::values(stored)).next().is_some();
        let message = match by_value {
            true => format!("`{name}` is read and written, and a value says where"),
            false => format!("`{name}` is read and written at different indices"),
        };
        self.error(Diagnostic::new(load, message).note(store, "it is written here").remark(format!(
            "a program may not read what another writes: pass the input as a tensor other than `{name}`"
        )));
    }

    /// The axes of the store's index; `None` if that has mistakes.
    pub(super) fn store(
        &mut self,
        tensor: TensorId,
        index: &mut [Index],
        value: &mut Expr,
        span: SpanId,
    ) -> Option<BTreeSet<AxisId>> {
        index::values(index).for_each(|value| self.check_overwritten(value));
        self.check_overwritten(value);
        let kernel = self.kernel;
        let t = &kernel.tensors[usize::from(tensor.0)];
        let name = &t.name;
        let found = self.infer(value, Some(t.elem));
        let axes = self.index_axes(tensor, index, span);
        self.stored_is_mutable(tensor, span);
        self.touches_combined(tensor, "stored", span);
        let earlier = self.stores.get(&tensor).cloned().unwrap_or_default();
        let is_combined = self.combined.contains_key(&tensor);
        let meets = earlier.iter().find(|(stored, _)| !is_combined && stored_twice(kernel, stored, index));
        if let Some((stored, first)) = meets {
            self.stored_twice(name, (stored, *first), (index, span));
        }
        let loads = std::mem::take(&mut self.loads);
        for (read, at, load_span) in &loads {
            if *read == tensor && reads_elsewhere(kernel, index, at) {
                self.different_index(tensor, (*load_span, at), (span, index));
            }
        }
        self.loads = loads;
        self.stores.entry(tensor).or_default().push((index.to_vec(), span));
        let axes = axes?;
        self.covers_program(&axes, name, span);
        self.stored_within_limits(name, &axes, span);
        self.inside(tensor, index, span);
        if !self.injective(index, &axes) {
            self.collides(name, index, &axes, span);
        }
        if let Some(found) = found {
            // Where values say, the axes are theirs, and the value may lack some.
            let spread = index::values(index).next().is_some() && found.axes.is_subset(&axes);
            let axes = if spread { &found.axes } else { &axes };
            self.stored(tensor, value, &found, axes);
        }
        Some(axes)
    }

    /// A value of this type is stored to a tensor at an index with these axes.
    pub(super) fn stored(
        &mut self,
        tensor: TensorId,
        value: &Expr,
        found: &ValueType,
        axes: &BTreeSet<AxisId>,
    ) {
        let kernel = self.kernel;
        let t = &kernel.tensors[usize::from(tensor.0)];
        let name = &t.name;
        if found.elem != t.elem {
            let (is, want) = (kernel.article(found.elem), kernel.elem_name(t.elem));
            let error =
                Diagnostic::new(value.span, format!("`{name}` holds {want} but {is} value is stored"))
                    .card(Operation::Form(Form::Store).place())
                    .note(t.span, format!("`{name}` is declared here"));
            self.error(error.rewrite(value.span, "", super::conversion(kernel, found.elem, t.elem)));
        }
        if found.axes != *axes {
            let (is, want) = (kernel.axes_text(&found.axes), kernel.axes_text(axes));
            let extra: Vec<_> = (&found.axes - axes).into_iter().collect();
            let error = Diagnostic::new(
                value.span,
                format!("the value stored to `{name}` has axes {is}, its index has axes {want}"),
            )
            .card(Operation::Form(Form::Store).place());
            let elem = kernel.elem_name(t.elem);
            self.error(match extra.first() {
                Some(axis) => {
                    let axis = self.name(*axis);
                    error.remark(format!("reduce `{axis}` (`sum(.., {axis})`), or index `{name}` by it"))
                }
                None if t.elem == BOOL => error
                    .remark("a value is broadcast to a tile on purpose only")
                    .rewrite(value.span, "", format!(" | zeros::<{elem}>({want})")),
                None => error.remark("a value is broadcast to a tile on purpose only").rewrite(
                    value.span,
                    "",
                    format!(" + zeros::<{elem}>({want})"),
                ),
            });
        }
    }

    fn stored_twice(
        &mut self,
        name: &str,
        (stored, first): (&[Index], SpanId),
        (index, span): (&[Index], SpanId),
    ) {
        let by_value = index::values(stored).chain(index::values(index)).next().is_some();
        let example = match (index::affine(stored), index::affine(index)) {
            (Some(stored), Some(index)) => disjoint::example(self.kernel, &stored, &index),
            _ => None,
        };
        let message = match example {
            Some((p, q, element)) => {
                let element: Vec<String> = element.iter().map(ToString::to_string).collect();
                format!(
                    "`{name}` is stored twice: {q} here and {p} in the first store are both element [{}]",
                    element.join(", ")
                )
            }
            None if by_value => format!("`{name}` is stored twice, and a value says where"),
            None => format!("`{name}` is stored twice, and the two stores may write the same element"),
        };
        let help = match by_value {
            true => "store once, or to tensors of their own: nothing shows that the two stores keep apart",
            false => {
                "combine the values with `select` and store once, or store where indices differ for all points, such as `2*i` and `2*i + 1`"
            }
        };
        self.error(Diagnostic::new(span, message).note(first, "the first store is here").remark(help));
    }

    fn collides(&mut self, name: &str, index: &[Index], axes: &BTreeSet<AxisId>, span: SpanId) {
        let axes = self.kernel.axes_text(axes);
        let error = Diagnostic::new(
            span,
            format!("several points of {axes} may be stored to the same element of `{name}`"),
        )
        .card(Operation::Form(Form::Store).place());
        let promised = index.iter().any(|i| i.unique);
        // A promise is about a whole entry.
        let whole = index.iter().filter(|i| i.affine.terms.is_empty()).find_map(|i| i.value.as_deref());
        self.error(match whole {
            Some(value) if !promised => error
                .note(value.span, "two points may have the same value here")
                .rewrite(value.span, "unique(", ")"),
            _ => error.remark(
                "give each axis a dimension of its own, or strides that cannot collide, such as `2*i + r` with `r` of extent 2",
            ),
        });
    }

    /// The condition of a store, whose index has these axes.
    pub(super) fn condition(&mut self, tensor: TensorId, when: &mut Expr, axes: Option<&BTreeSet<AxisId>>) {
        let Some(found) = self.infer(when, None) else { return };
        let (kernel, name) = (self.kernel, &self.kernel.tensors[usize::from(tensor.0)].name);
        if found.elem != BOOL {
            let elem = kernel.elem_name(found.elem);
            self.error(
                Diagnostic::new(when.span, format!("the condition of `if` is {elem}, not bool"))
                    .card(Operation::Form(Form::If).place())
                    .remark("compare it: `if x > 0.0 { store(..); }`"),
            );
            return;
        }
        let extra: Vec<_> = axes.into_iter().flat_map(|axes| &found.axes - axes).collect();
        if let Some(axis) = extra.first() {
            let axis = self.name(*axis).to_string();
            self.error(
                Diagnostic::new(
                    when.span,
                    format!("the condition has axis `{axis}`, which the store to `{name}` lacks"),
                )
                .card(Operation::Form(Form::If).place())
                .remark(format!("reduce `{axis}`, or index `{name}` by it")),
            );
        }
    }

    /// Every program and every step of an open loop must write elements of its own.
    fn covers_program(&mut self, axes: &BTreeSet<AxisId>, tensor: &str, span: SpanId) {
        for (n, axis) in self.kernel.axes.iter().enumerate() {
            let id = AxisId(u16::try_from(n).expect("a kernel has fewer than 65536 axes"));
            let name = &axis.name;
            let message = if axes.contains(&id) {
                continue;
            } else if axis.kind == AxisKind::Program {
                format!("every program along `{name}` would store the same elements of `{tensor}`")
            } else if self.open.contains(&id) {
                format!(
                    "every step of the loop over `{name}` would overwrite the same elements of `{tensor}`"
                )
            } else {
                continue;
            };
            let help = match axis.kind {
                AxisKind::Program => {
                    format!("index `{tensor}` by `{name}`, or bind `{name}` with `whole(..)`")
                }
                _ => format!("index `{tensor}` by `{name}`, or store after the loop"),
            };
            self.error(
                Diagnostic::new(span, message)
                    .note(axis.span, format!("`{name}` is bound here"))
                    .remark(help),
            );
        }
    }

    /// Stores at forms must stay inside the tensor for all sizes.
    pub(super) fn inside(&mut self, tensor: TensorId, index: &[Index], span: SpanId) {
        let t = &self.kernel.tensors[usize::from(tensor.0)];
        for (position, (entry, dim)) in index.iter().zip(&t.dims).enumerate() {
            // Where a value leads outside, nothing is stored.
            let Some(form) = entry.as_affine() else { continue };
            let largest = largest(self.kernel, form);
            let mut room = minus(dim, &largest);
            room.constant -= 1;
            // A point exists only where the extents of its axes are at least 1.
            for axis in form.terms.keys() {
                if let Some(dim) = self.extent(*axis).as_dim()
                    && let Some(c @ 1..) = room.dims.get(dim).copied()
                {
                    room.dims.remove(dim);
                    room.constant += c;
                }
            }
            let least_is_negative = form.constant < 0 || form.terms.values().any(|c| *c < 0);
            if never_negative(&room) && !least_is_negative {
                continue;
            }
            let name = &t.name;
            let message = if least_is_negative {
                format!("the index of dimension {position} of `{name}` can be negative")
            } else {
                format!(
                    "the index of dimension {position} of `{name}` reaches {largest}, but its extent is {dim}"
                )
            };
            let extent = match form.terms.is_empty() && !least_is_negative {
                true => format!("as a number, {} or more", form.constant + 1),
                false => "accordingly, such as `{N + 2}`".into(),
            };
            self.error(
                Diagnostic::new(span, message).note(t.span, format!("`{name}` is declared here")).remark(
                    format!("a store stays inside its tensor for all sizes: declare the extent {extent}"),
                ),
            );
        }
    }

    /// Whether distinct points go to distinct elements: axes are determined one dimension after another. A value is known
    /// once its axes are; of one that is `unique`, the axes are known once all others of the index are.
    fn injective(&self, index: &[Index], axes: &BTreeSet<AxisId>) -> bool {
        let vars = |v: usize| self.vars.get(&super::VarId(v as u16)).cloned().flatten();
        let of_value = |entry: &Index| {
            let value = entry.value.as_deref();
            value.map_or_else(BTreeSet::new, |value| self.kernel.typed(value, &vars).axes)
        };
        let mut unknown = axes.clone();
        loop {
            let before = unknown.len();
            for entry in index {
                let value = of_value(entry);
                let form = &entry.affine;
                if !value.is_disjoint(&unknown) {
                    if entry.unique && form.terms.is_empty() {
                        unknown.retain(|axis| !value.contains(axis));
                    }
                    continue;
                }
                let mut open: Vec<(i64, AxisId)> = form
                    .terms
                    .iter()
                    .filter(|(a, _)| unknown.contains(a))
                    .map(|(a, c)| (c.abs(), *a))
                    .collect();
                open.sort_unstable();
                // Mixed radix: each coefficient exceeds what all smaller ones can add up to.
                let mut reach = Some(0i64);
                let separated = open.iter().all(|(c, axis)| {
                    let free = reach.is_some_and(|r| *c > r);
                    reach = match (reach, self.extent(*axis).as_constant()) {
                        (Some(r), Some(n)) => c.checked_mul((n - 1).max(0)).and_then(|x| r.checked_add(x)),
                        _ => None,
                    };
                    free
                });
                if separated {
                    for (_, axis) in open {
                        unknown.remove(&axis);
                    }
                }
            }
            if unknown.is_empty() || unknown.len() == before {
                return unknown.is_empty();
            }
        }
    }

    /// An element may not be loaded after it was stored; a value that was loaded before stays what it was.
    pub(super) fn check_overwritten(&mut self, value: &Expr) {
        if let ExprKind::Load { tensor, index } = &value.kind
            && let Some(affine) = index::affine(index)
            && let Some((_, at)) = self.stores.get(tensor).and_then(|stores| {
                stores.iter().find(|(stored, _)| index::affine(stored).as_ref() == Some(&affine))
            })
        {
            let name = &self.kernel.tensors[usize::from(tensor.0)].name;
            let diagnostic = Diagnostic::new(
                value.span,
                format!("this loads from `{name}`, which was already overwritten here"),
            )
            .note(*at, format!("`{name}` is stored here"))
            .remark(format!("bind what it held before: `let old = load({name}, ..)` above the store"));
            self.error(diagnostic);
        }
        for child in value.children() {
            self.check_overwritten(child);
        }
    }

    /// `&mut` tensors that nothing stores to.
    pub(super) fn unused_stores(&mut self) {
        for (n, t) in self.kernel.tensors.iter().enumerate() {
            let id = TensorId(u16::try_from(n).expect("a kernel has fewer than 65536 tensors"));
            if t.mutable && !self.stores.contains_key(&id) {
                let name = &t.name;
                self.errors.push(
                    Diagnostic::new(t.span, format!("`{name}` is `&mut` but never stored to")).remark(
                        format!("declare it `{name}: &Tensor<..>`, or add `store({name}, [..], ..)`"),
                    ),
                );
            }
        }
    }
}

/// Whether a load reads what a store to the same tensor writes, at another point than the one that stores it. Where a value
/// says where either goes, nothing tells.
fn reads_elsewhere(kernel: &Kernel, stored: &[Index], read: &[Index]) -> bool {
    match (index::affine(stored), index::affine(read)) {
        (Some(stored), Some(read)) => stored != read && !disjoint::apart(kernel, &stored, &read),
        _ => true,
    }
}

/// Whether two stores to the same tensor may meet.
fn stored_twice(kernel: &Kernel, stored: &[Index], index: &[Index]) -> bool {
    match (index::affine(stored), index::affine(index)) {
        (Some(stored), Some(index)) => !disjoint::apart(kernel, &stored, &index),
        _ => true,
    }
}

/// A tensor as the signature declares it.
pub(super) fn declared(kernel: &Kernel, tensor: &Tensor, mutable: bool) -> String {
    let dims = tensor.dims.iter().map(|dim| match dim.as_dim().is_some() || dim.as_constant().is_some() {
        true => dim.to_string(),
        false => format!("{{{dim}}}"),
    });
    let args: Vec<String> = std::iter::once(kernel.elem_name(tensor.elem).to_string()).chain(dims).collect();
    format!("{}: &{}Tensor<{}>", tensor.name, if mutable { "mut " } else { "" }, args.join(", "))
}

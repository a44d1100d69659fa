//! Rules of parameters and axes, before the body is looked at.

use super::{BTreeMap, BTreeSet, Diagnostic, Extent, Kernel, LIMIT, SpanId};

pub(super) fn check(kernel: &Kernel) -> Vec<Diagnostic> {
    let mut errors = Vec::new();
    let mut names: BTreeMap<&str, SpanId> = BTreeMap::new();
    let params = kernel.tensors.iter().map(|t| (t.name.as_str(), t.span));
    for (name, span) in params.chain(kernel.scalars.iter().map(|s| (s.name.as_str(), s.span))) {
        if let Some(first) = names.insert(name, span) {
            errors.push(
                Diagnostic::new(span, format!("two parameters are named `{name}`"))
                    .note(first, "the first is here"),
            );
        }
    }
    if !kernel.tensors.iter().any(|t| t.mutable) {
        errors.push(
            Diagnostic::new(SpanId::NONE, format!("`{}` stores nothing", kernel.name))
                .remark("take a tensor to store to: `y: &mut Tensor<f32, N>`"),
        );
    }
    for t in &kernel.tensors {
        if t.dims.is_empty() {
            let (name, elem) = (&t.name, t.elem);
            let diagnostic = Diagnostic::new(t.span, format!("`{name}` has no dimensions"));
            errors.push(match (t.mutable, elem) {
                (false, _) => diagnostic.remark("pass single values as scalar arguments: `alpha: f32`"),
                (true, elem) => {
                    let elem = kernel.elem_name(elem);
                    diagnostic.remark(format!(
                        "a single result is a tensor of one element: `{name}: &mut Tensor<{elem}, 1>` and `store({name}, [0], ..)`"
                    ))
                }
            });
        }
        if let Some(dim) = t.dims.iter().find(|d| d.as_constant().is_some_and(|n| n < 1)) {
            errors.push(Diagnostic::new(t.span, format!("a dimension of `{}` is {dim}", t.name)));
        }
    }
    let large = |e: &&Extent| e.dims.values().chain([&e.constant]).any(|n| n.unsigned_abs() >= LIMIT as u64);
    let dims = kernel.tensors.iter().flat_map(|t| t.dims.iter().map(move |d| (d, t.span)));
    for (extent, span) in dims.chain(kernel.axes.iter().map(|a| (&a.extent, a.span))) {
        if large(&extent) {
            errors.push(
                Diagnostic::new(span, format!("the extent {extent} is not below 2^31 - 2^16"))
                    .remark("indices are 32-bit: split the dimension in two"),
            );
        }
    }
    let known = determined(kernel);
    let mut reported = BTreeSet::new();
    let extents = kernel
        .tensors
        .iter()
        .flat_map(|t| t.dims.iter().map(move |d| (d, t.span)))
        .chain(kernel.axes.iter().map(|a| (&a.extent, a.span)));
    for (extent, span) in extents {
        for dim in extent.dims.keys().filter(|dim| !known.contains(*dim)) {
            if reported.insert(dim) {
                let in_tensor =
                    kernel.tensors.iter().any(|t| t.dims.iter().any(|d| d.dims.contains_key(dim)));
                let message = if in_tensor {
                    format!("the shapes of the tensors do not determine `{dim}`")
                } else {
                    format!("`{dim}` is not a dimension of any tensor")
                };
                errors.push(
                    Diagnostic::new(span, message)
                        .remark(format!("the launch reads `{dim}` off a tensor that has it as a dimension")),
                );
            }
        }
    }
    let mut axes: BTreeMap<&str, SpanId> = BTreeMap::new();
    for axis in &kernel.axes {
        let name = axis.name.as_str();
        if let Some(first) = axes.insert(name, axis.span) {
            errors.push(
                Diagnostic::new(axis.span, format!("two axes are named `{name}`"))
                    .note(first, "the first is bound here")
                    .remark("schedules address axes by name: pick another"),
            );
        }
    }
    errors
}

/// Named dims that the shapes of the tensors determine, solving one unknown at a time.
fn determined(kernel: &Kernel) -> BTreeSet<&String> {
    let extents: Vec<&Extent> = kernel.tensors.iter().flat_map(|t| &t.dims).collect();
    let mut known = BTreeSet::new();
    loop {
        let before = known.len();
        for extent in &extents {
            let mut open = extent.dims.keys().filter(|d| !known.contains(*d));
            if let (Some(dim), None) = (open.next(), open.next()) {
                known.insert(dim);
            }
        }
        if known.len() == before {
            return known;
        }
    }
}

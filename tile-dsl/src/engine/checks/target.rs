//! What the target has of what directives and element types take.

use super::Context;
use crate::{
    diagnostic::Diagnostic,
    dtype::DType,
    machine::Target as Machine,
    nest::{Expr, Nest, Target, leaves},
    schedule::Directive,
    span::SpanId,
    tile::ElemType,
};

/// What the instruction needs of the target.
pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let target = context.schedule.target;
    let mut wrong = Vec::new();
    let mut lacks = |directive: &Directive, what: String, needed: Machine| {
        let enough = target.sm >= needed.sm && (!needed.specific || target == needed);
        if !enough {
            let text = format!("{what} needs {needed}, and the schedule is for {target}");
            let remark = format!("name the target of the schedule: `on {needed}`");
            wrong.push(context.at(Some(directive), directive.span, text).remark(remark));
        }
    };
    for directive in &context.schedule.directives {
        if let Some((what, needed)) = directive.kind.target() {
            lacks(directive, what, needed);
        }
    }
    if let Some((name, dtype, span)) = newer(context.nest, target.sm) {
        let needed = Machine { sm: dtype.format().sm, specific: false };
        let text = format!("`{name}` is {dtype}, which needs {needed}, and the schedule is for {target}");
        let remark = format!("name the target of the schedule: `on {needed}`");
        wrong.push(context.at(None, span, text).remark(remark));
    }
    wrong
}

/// The first of what has a type in a kernel that GPUs of this compute capability lack: its name, its type.
fn newer(nest: &Nest, sm: u32) -> Option<(&str, DType, SpanId)> {
    let lacking = |dtype: DType| (dtype.format().sm > sm).then_some(dtype);
    let fixed = |elem: ElemType| if let ElemType::Fixed(dtype) = elem { lacking(dtype) } else { None };
    let tensor = nest.kernel.tensors.iter().find_map(|t| Some((t.name.as_str(), fixed(t.elem)?, t.span)));
    let scalar = || nest.kernel.scalars.iter().find_map(|s| Some((s.name.as_str(), fixed(s.elem)?, s.span)));
    let value = || {
        let mut found = None;
        leaves(&nest.body, &mut |_, leaf| {
            let Some((target, expr)) = leaf.leaf() else { return };
            let mut cast = None;
            expr.visit(&mut |e| {
                if let Expr::Cast(dtype, _) = e {
                    cast = cast.or(lacking(*dtype));
                }
            });
            if let (None, Some(dtype)) = (found, cast) {
                found = match target {
                    Target::Value(value) => {
                        Some((nest.value(value).name.as_str(), dtype, nest.value(value).span))
                    }
                    Target::Access(access) => {
                        let of = nest.access(access);
                        Some((nest.tensor(of.tensor).name.as_str(), dtype, of.span))
                    }
                };
            }
        });
        found
    };
    tensor.or_else(scalar).or_else(value)
}

//! Distributions: a reader of a value in registers must see the layout that the statement computing it gives it, and so
//! must every other statement that computes it. An operand of an atom is read as the instruction has it.

use super::{Context, registers::stage_value};
use crate::{
    diagnostic::{Diagnostic, Edit},
    engine::families::reorder::value_span,
    plan::Misread,
};

pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    context.plan.readers().apart.iter().map(|why| misread(context, why)).collect()
}

fn misread(context: &Context<'_>, why: &Misread) -> Diagnostic {
    let nest = context.nest;
    let Misread { value, reader, held, needed } = why;
    let value = nest.value(*value);
    let user = crate::engine::facts::target_name(nest, *reader);
    let by = needed
        .difference(held)
        .and_then(|d| context.bind_of(d).or_else(|| context.cuts(d.axis)))
        .or_else(|| context.schedule.directives.last());
    let diagnostic = context
        .at(by, value.span, why.text(nest))
        .note(value.span, format!("`{}` is computed here", value.name))
        .note(value_span(nest, *reader), format!("`{user}` is computed here"));
    let bytes = held.elements() * u64::from(value.dtype.bytes());
    diagnostic.edits([Edit::put([stage_value(&value.name)]).remark(format!("{bytes} bytes, 2 barriers"))])
}

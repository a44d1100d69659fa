//! `interleave`: there are accesses to spread, and a computation in which they can stand.

use super::Context;
use crate::{
    diagnostic::{Diagnostic, Edit},
    nest::{Carry, Digit, LoopKind, Nest, Placement, Prefetch, Steps, Stmt, Target, ValueId},
    schedule::{Directive, DirectiveKind, Space},
    shared,
    span::SpanId,
};

pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    context.schedule.directives.iter().filter_map(|d| of(context, d)).collect()
}

fn of(context: &Context<'_>, by: &Directive) -> Option<Diagnostic> {
    let DirectiveKind::Interleave { digit: name, loads, copies, stores } = &by.kind else { return None };
    let nest = context.nest;
    let digit = *nest.names.get(&format!("{name}.t")).or_else(|| nest.names.get(name))?;
    let wrong = |text: String| context.at(Some(by), SpanId::NONE, text);
    let pipelines = nest.register_pipelines(digit);
    if pipelines.is_empty() {
        let text =
            format!("no registers are loaded ahead in `{name}`: there are no loads to spread over its steps");
        let two = DirectiveKind::Pipeline { digit: nest.digit_name(digit), stages: 2 };
        return Some(wrong(text).edits([Edit::put([two]), Edit::instead([])]));
    }
    if let Some(why) = pipelines.iter().find_map(|p| obstacle(nest, p.inner)) {
        let text = format!("accesses are spread over a straight line, and {why} in each step of `{name}`");
        return Some(wrong(text).edits([Edit::instead([])]));
    }
    let without = |stores_only: bool| {
        let copies = copies.filter(|_| stores_only);
        let kind = DirectiveKind::Interleave { digit: name.clone(), loads: *loads, copies, stores: None };
        [(loads.is_some() || copies.is_some()).then(|| Edit::instead([kind])), Some(Edit::instead([]))]
    };
    if copies.is_some() || stores.is_some() {
        let apart = pipelines.iter().find_map(|p| apart(nest, p));
        if let Some(why) = apart {
            let text = format!("no copies are issued among the steps of `{name}`: {why}");
            return Some(wrong(text).edits(without(false).into_iter().flatten()));
        }
    }
    let plain = |p: &Prefetch<'_>| {
        // Vectors are for some sizes only.
        p.around.as_ref().is_some_and(|(filled, _)| filled.iter().any(|c| !nest.is_asynchronous(*c, false)))
    };
    if stores.is_some() && !pipelines.iter().any(plain) {
        let filled = pipelines.iter().find_map(|p| p.around.as_ref()).map(|(c, _)| nest.copied(c));
        let text = format!(
            "{} are copied by `cp.async`: nothing passes through registers to be stored among the steps of `{name}`",
            filled.unwrap_or_default()
        );
        return Some(wrong(text).edits(without(true).into_iter().flatten()));
    }
    None
}

/// Why registers do not run on from one step of a pipelined loop around them to the next.
fn apart(nest: &Nest, pipeline: &Prefetch<'_>) -> Option<String> {
    let Some((filled, body)) = &pipeline.around else {
        return Some("no pipelined loop whose copies are in shared memory stands around it".into());
    };
    match Carry::of(nest, filled, body) {
        Carry::Over(_) => None,
        Carry::Apart(why) => Some(format!("registers start anew in each step around it, as {why}")),
        Carry::None => Some("registers start anew in each step around it".into()),
    }
}

/// What keeps a computation from being a straight line of arithmetic and loads, where no guards are.
fn obstacle(nest: &Nest, stmt: &Stmt) -> Option<String> {
    let in_shared = |v: ValueId| format!("`{}` is stored to shared memory", nest.value(v).name);
    match stmt {
        Stmt::For { digit, at, body } => {
            let inside = if let Stmt::Stage { copy, .. } = &**body { Some(*copy) } else { None };
            let repeats = |d: &Digit| d.steps != Steps::Fixed(1);
            match nest.runs(*at, inside) {
                LoopKind::Seq | LoopKind::Pipe(_) if repeats(digit) => {
                    Some(format!("a loop over `{}` runs", nest.digit_name(*digit)))
                }
                LoopKind::Atom(atom, _) if atom.row().descriptors => {
                    Some(format!("products of `{atom}`, which complete on their own, are issued"))
                }
                _ => obstacle(nest, body),
            }
        }
        Stmt::Stage { copy, .. } if nest.copy(*copy).space == Space::Shared => {
            Some(format!("{} is copied to shared memory", nest.copied(&[*copy])))
        }
        Stmt::Stage { body, .. } => obstacle(nest, body),
        Stmt::Let { values, first, rest } => {
            let combined =
                values.iter().find(|v| nest.combine.contains_key(v) || nest.across.contains_key(v));
            let held = values.iter().find(|v| nest.value(**v).placement == Placement::Shared);
            match (combined, held) {
                (Some(v), _) => Some(format!("parts of `{}` are combined", nest.value(*v).name)),
                (None, Some(v)) => Some(in_shared(*v)),
                (None, None) => obstacle(nest, first).or_else(|| obstacle(nest, rest)),
            }
        }
        Stmt::Skip => None,
        Stmt::Def { .. } | Stmt::Red { .. } | Stmt::Set { .. } | Stmt::Put { .. } => match stmt.leaf()?.0 {
            Target::Access(a) => Some(format!("`{}` is stored", nest.tensor(nest.access(a).tensor).name)),
            Target::Value(v) => shared::computed_in_place(nest, v).then(|| in_shared(v)),
        },
    }
}

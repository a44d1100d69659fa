//! Values in registers: a fixed number of slots a thread, within its registers.

use super::Context;
use crate::{
    diagnostic::Diagnostic,
    engine::{failure::suggest, families::fragment},
    nest::{At, CopyId, Digit, Nest, Placement, Steps, Stmt, ValueId},
    schedule::{DirectiveKind, Space, Unit, Via},
};

/// A value, the loops around its `let`, and the loops over its axes that compute it.
type Visit<'a> = dyn FnMut(ValueId, &[(Digit, At)], &[(Digit, At)]) + 'a;

/// Calls `visit` with every `let` of a value.
pub(super) fn lets(nest: &Nest, visit: &mut Visit<'_>) {
    fn go(nest: &Nest, stmt: &Stmt, outside: &mut Vec<(Digit, At)>, visit: &mut Visit<'_>) {
        match stmt {
            Stmt::For { digit, at, body } => {
                outside.push((*digit, *at));
                go(nest, body, outside, visit);
                outside.pop();
            }
            Stmt::Let { values, first, rest } => {
                for v in values {
                    let mut inside: Vec<(Digit, At)> = crate::nest::loops(first)
                        .into_iter()
                        .filter(|(d, _)| nest.value(*v).axes.contains(&d.axis))
                        .collect();
                    inside.sort_by_key(|(d, _)| *d);
                    inside.dedup_by_key(|(d, _)| *d);
                    visit(*v, outside, &inside);
                }
                go(nest, first, outside, visit);
                go(nest, rest, outside, visit);
            }
            Stmt::Stage { body, .. } => go(nest, body, outside, visit),
            _ => {}
        }
    }
    go(nest, &nest.body, &mut Vec::new(), visit);
}

pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let mut wrong = Vec::new();
    let mut seen = Vec::new();
    lets(nest, &mut |v, outside, inside| {
        if seen.contains(&v) {
            return;
        }
        let value = nest.value(v);
        let shared = value.placement == Placement::Shared;
        if let Some((digit, _)) = inside.iter().find(|(d, _)| d.steps == Steps::Rest) {
            seen.push(v);
            wrong.push(unbounded(context, v, *digit));
            return;
        }
        if shared {
            if let Some((digit, At::Unit(unit, _))) =
                outside.iter().find(|(_, at)| matches!(at, At::Unit(u, _) if *u != Unit::Block))
            {
                seen.push(v);
                let text = format!(
                    "`{}` is computed inside the loop over `{}`, bound to {unit}: each {unit} has its own, so it cannot be one buffer of the CTA",
                    value.name,
                    nest.digit_name(*digit)
                );
                let stage = context.last(
                    |k| matches!(k, DirectiveKind::Stage { buffer, at: None, .. } if *buffer == value.name),
                );
                wrong.push(
                    context
                        .at(stage, value.span, text)
                        .note(value.span, format!("`{}` is computed here", value.name)),
                );
                return;
            }
            // A reduction accumulates in registers before its result goes to shared memory.
            if value.reduction.is_none() {
                return;
            }
        }
        if let Some((digit, _)) = inside.iter().find(|(_, at)| matches!(at, At::Pipe(_))) {
            seen.push(v);
            wrong.push(piped(context, v, *digit));
            return;
        }
        let pipelined = |(d, at): &&(Digit, At)| matches!(at, At::Pipe(_)) && d.steps != Steps::Fixed(1);
        if let Some((digit, _)) = inside.iter().find(pipelined) {
            seen.push(v);
            let name = &value.name;
            let text = format!(
                "`{name}` is held in registers over `{}`, which a pipelined loop steps through at run time: registers cannot be indexed at run time",
                nest.digit_name(*digit)
            );
            let by = context.last(|k| matches!(k, DirectiveKind::Pipeline { .. }));
            wrong.push(
                context.at(by, value.span, text).note(value.span, format!("`{name}` is computed here")).help(
                    format!(
                        "write `stage({name}: shared)`, or `recompute({name})` and `fuse` it into its reader"
                    ),
                ),
            );
            return;
        }
        let slots: Vec<(Digit, u64)> = inside
            .iter()
            .filter(|(_, at)| !matches!(at, At::Unit(..)))
            .filter_map(|(d, _)| if let Steps::Fixed(n) = d.steps { Some((*d, u64::from(n))) } else { None })
            .collect();
        let total: u64 = slots.iter().map(|(_, n)| n).product();
        let most = u64::from(context.schedule.target.registers());
        if total > most {
            seen.push(v);
            let parts: Vec<String> =
                slots.iter().map(|(d, n)| format!("{n} (`{}`)", nest.digit_name(*d))).collect();
            let text = format!(
                "each thread holds {} = {total} elements of `{}`, but it has at most {most} registers",
                parts.join(" · "),
                value.name
            );
            let largest = slots.iter().max_by_key(|(_, n)| *n).expect("more than one element");
            let mut diagnostic = context
                .at(context.cuts(largest.0.axis), value.span, text)
                .note(value.span, format!("`{}` is computed here", value.name));
            let axes: Vec<&str> = slots.iter().map(|(d, _)| nest.axis(d.axis)).collect();
            let smaller = context.smaller_tile(|a| axes.contains(&a)).or_else(|| context.smaller_bound());
            if let Some(other) = smaller {
                diagnostic = diagnostic.help(format!("`{other}` fits"));
            }
            wrong.push(diagnostic);
        }
    });
    wrong.extend(fragments(context));
    wrong
}

/// Copies in registers fit.
fn fragments(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let most = u64::from(context.schedule.target.registers());
    let copies = nest.copies.iter().enumerate().filter(|(_, c)| c.space == Space::Register);
    copies
        .filter_map(|(n, copy)| {
            let id = CopyId(n as u16);
            let name = &nest.tensor(copy.tensor).name;
            let by = context.last(|k| matches!(k, DirectiveKind::Fragment { buffer, .. } if buffer == name));
            if let Some(digit) = fragment::piped(nest, id) {
                let text = format!(
                    "`{name}` is held in registers over `{}`, which a pipelined loop steps through: registers are addressed while compiling",
                    nest.digit_name(digit)
                );
                let inside = "load it in a loop inside of the pipelined one";
                return Some(context.at(by, nest.tensor(copy.tensor).span, text).help(inside));
            }
            let slots = fragment::slots(nest, id);
            (slots > most).then(|| {
                let text = format!(
                    "each thread would hold {slots} elements of `{name}` in registers, but it has at most {most}"
                );
                context
                    .at(by, nest.tensor(copy.tensor).span, text)
                    .help("load it in a loop further inside, or bind more of the loops inside to threads")
            })
        })
        .collect()
}

/// A pipelined loop runs at run time, so it cannot index registers.
fn piped(context: &Context<'_>, v: ValueId, digit: Digit) -> Diagnostic {
    let nest = context.nest;
    let (name, over) = (&nest.value(v).name, nest.digit_name(digit));
    let text = format!(
        "`{name}` is held in registers, one for each step of `{over}`, but a pipelined loop runs at run time and cannot index registers"
    );
    let names = |name: &str| {
        [format!("{name}.o"), name.to_string()].iter().any(|n| nest.names.get(n) == Some(&digit))
    };
    let by = context.last(|k| matches!(k, DirectiveKind::Pipeline { digit, .. } if names(digit)));
    let diagnostic = context
        .at(by, nest.value(v).span, text)
        .note(nest.value(v).span, format!("`{name}` is computed here"));
    let stage = stage_value(name);
    match context.legal_with(stage.clone()) {
        true => diagnostic.help(format!("add `{stage}`")),
        false => diagnostic,
    }
}

/// A value over an axis of any length has no place on chip.
fn unbounded(context: &Context<'_>, v: ValueId, digit: Digit) -> Diagnostic {
    let nest = context.nest;
    let value = nest.value(v);
    let (axis, name) = (nest.axis(digit.axis), &value.name);
    let text = format!(
        "`{name}` is held for all of `{axis}`, which has no bound: neither registers nor shared memory can hold it"
    );
    let by = context.cuts(digit.axis).or_else(|| context.schedule.directives.first());
    let diagnostic = context.at(by, value.span, text).note(value.span, format!("`{name}` is computed here"));
    // Each remedy is tried before it is offered; other values may still be unbounded, so only progress counts.
    let mut remedies = Vec::new();
    let recompute = DirectiveKind::Recompute { value: name.clone() };
    let fuse = DirectiveKind::Fuse { value: name.clone(), at: axis.to_string() };
    let applies = |kinds: &[&DirectiveKind]| {
        let kernel = &nest.kernel;
        let start = crate::nest::initial(kernel).ok();
        start.is_some_and(|mut n| {
            kinds.iter().all(|kind| {
                let directive =
                    crate::schedule::Directive { kind: (*kind).clone(), span: value.span, inherited: None };
                match crate::engine::apply(&directive, &n, context.schedule.target) {
                    Ok((next, _)) => {
                        n = next;
                        true
                    }
                    Err(_) => false,
                }
            })
        })
    };
    if suggest(|| applies(&[&fuse]).then_some(())).is_some() {
        remedies.push(format!("compute it where it is read: `{fuse}`"));
    } else if suggest(|| applies(&[&recompute, &fuse]).then_some(())).is_some() {
        remedies.push(format!("compute it again where it is read: `{recompute}` and `{fuse}`"));
    }
    if let Some(dim) = nest.kernel.axes[usize::from(digit.axis.0)].extent.dims.keys().next() {
        let fits = |max| DirectiveKind::Fits { dim: dim.clone(), max };
        if let Some(fits) =
            [4096, 1024, 256, 64].map(fits).into_iter().find(|f| context.legal_with(f.clone()))
        {
            remedies.push(format!("bound the axis: `{fits}`"));
        }
    }
    match remedies.is_empty() {
        true => diagnostic,
        false => diagnostic.help(remedies.join(", or ")),
    }
}

/// `stage(value: shared)`.
pub(in crate::engine) fn stage_value(name: &str) -> DirectiveKind {
    DirectiveKind::Stage {
        buffer: name.to_string(),
        at: None,
        space: Space::Shared,
        transposed: false,
        via: Via::Plain,
        vector: None,
    }
}

//! Values in registers: a fixed number of slots a thread, within its registers.

use super::Context;
use crate::{
    diagnostic::{Diagnostic, Edit, list},
    directive::{self, DirectiveKind, fragment},
    engine::families::place,
    nest::{
        CopyId, Digit, Fragment, Frame, Layout, LoopKind, MOST_HELD, Nest, Placement, Step, Steps, Stmt,
        ValueId, Where, leaves, own_loops_of_all, with_paths,
    },
    schedule::{Directive, Space, Unit, Via},
};

/// A value, the loops around its `let`, and the first part of that.
pub(crate) type Visit<'a> = dyn FnMut(ValueId, &[Step], &Stmt) + 'a;

/// How the loop at a place on a path runs.
fn runs(nest: &Nest, path: &[Frame], place: usize, at: LoopKind) -> LoopKind {
    nest.runs(at, if let Some(Frame::Stage(c)) = path.get(place + 1) { Some(*c) } else { None })
}

/// Calls `visit` with every `let` of a value.
pub(crate) fn lets(nest: &Nest, visit: &mut Visit<'_>) {
    with_paths(&nest.body, &mut |path, stmt| {
        let Stmt::Let { values, first, .. } = stmt else { return };
        let outside: Vec<Step> = path.iter().filter_map(Frame::step).collect();
        values.iter().for_each(|v| visit(*v, &outside, first));
    });
}

pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let mut wrong = Vec::new();
    let mut seen = Vec::new();
    let (mut large, mut open) = (Vec::new(), Vec::new());
    lets(nest, &mut |v, outside, first| {
        if seen.contains(&v) {
            return;
        }
        let value = nest.value(v);
        let shared = value.placement == Placement::Shared;
        let mut inside = own_loops_of_all(nest, v, first).concat();
        inside.sort();
        if let Some((digit, _)) = inside.iter().find(|(d, _)| d.steps == Steps::Rest) {
            seen.push(v);
            open.push((v, *digit));
            return;
        }
        if shared {
            if let Some((digit, LoopKind::Unit(unit, _))) =
                outside.iter().find(|(_, at)| matches!(at, LoopKind::Unit(u, _) if *u != Unit::Block))
            {
                seen.push(v);
                let text = format!(
                    "`{}` is computed inside the loop over `{}`, bound to {unit}: each {unit} has its own, so it cannot be one buffer of the CTA",
                    value.name,
                    nest.digit_name(*digit)
                );
                let stage = context.last(
                    |k| matches!(k, DirectiveKind::Stage(directive::Stage { buffer, at: None, .. }) if *buffer == value.name),
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
        let pipelined = |(d, at): &&Step| matches!(at, LoopKind::Pipe(_)) && d.steps != Steps::Fixed(1);
        if let Some((digit, _)) = inside.iter().find(pipelined) {
            seen.push(v);
            wrong.push(piped(context, v, *digit));
            return;
        }
        let layout = Layout::of(nest, v, first);
        if layout.slots() > u64::from(context.schedule.target.registers()) {
            seen.push(v);
            large.push(Held { value: v, layout });
        }
    });
    wrong.extend(too_many(context, &large));
    wrong.extend(unbounded(context, &open));
    wrong.extend(read_in_pipelines(context, &mut seen));
    wrong.extend(fragments(context));
    wrong
}

/// No pipelined loop steps through a value in registers that a statement inside reads.
fn read_in_pipelines(context: &Context<'_>, seen: &mut Vec<ValueId>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let mut wrong = Vec::new();
    leaves(&nest.body, &mut |path, leaf| {
        for v in leaf.leaf().expect("a leaf").1.values() {
            let value = nest.value(v);
            if value.placement == Placement::Shared || seen.contains(&v) {
                continue;
            }
            let binds = |f: &Frame| matches!(f, Frame::First(vs) | Frame::Rest(vs) if vs.contains(&v));
            let Some(from) = path.iter().rposition(binds) else { continue };
            let piped_loop = (from..path.len()).find_map(|n| match &path[n] {
                Frame::For(d, at)
                    if value.axes.contains(&d.axis)
                        && d.steps != Steps::Fixed(1)
                        && matches!(runs(nest, path, n, *at), LoopKind::Pipe(_)) =>
                {
                    Some(*d)
                }
                _ => None,
            });
            if let Some(digit) = piped_loop {
                seen.push(v);
                wrong.push(piped(context, v, digit));
            }
        }
    });
    wrong
}

/// Copies in registers fit.
fn fragments(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let most = context.schedule.target.registers();
    let held = nest.held_copies();
    let copies = (0..nest.copies.len() as u16).map(CopyId);
    let copies = copies.filter(|copy| nest.copy(*copy).space == Space::Register);
    let found = copies.filter_map(|copy| {
        let info = nest.tensor(nest.copy(copy).tensor);
        let name = nest.copy_name(copy);
        let (text, remark) = if let Some(digit) = fragment::piped(nest, copy) {
            let text = format!(
                "`{name}` is held in registers over `{}`, which a pipelined loop steps through: registers are addressed while compiling",
                nest.digit_name(digit)
            );
            (text, "load it in a loop inside of the pipelined one")
        } else {
            // Where it stands in several statements, each has its own.
            let own = held.iter().filter(|(other, ..)| *other == copy);
            let counts = own.map(|(_, sets, body)| {
                let slots = Fragment::of(nest, copy, body).map_or(0, |fragment| fragment.slots);
                (slots.saturating_mul(*sets), slots > MOST_HELD)
            });
            let (all, more) = counts.max().unwrap_or_default();
            if all <= most {
                return None;
            }
            let over = if more { "more than " } else { "" };
            let text = format!(
                "each thread would hold {over}{all} elements of `{name}` in registers, but it has at most {most}"
            );
            (text, "load it in a loop further inside, or bind more of the loops inside to threads")
        };
        let by = context.last(|k| matches!(k, DirectiveKind::Fragment(directive::Fragment { buffer, .. }) if *buffer == name));
        Some(context.at(by, info.span, text).remark(remark))
    });
    found.collect()
}

/// A pipelined loop runs at run time, so it cannot index registers.
fn piped(context: &Context<'_>, v: ValueId, digit: Digit) -> Diagnostic {
    let nest = context.nest;
    let (name, over) = (&nest.value(v).name, nest.digit_name(digit));
    let text = format!(
        "`{name}` is held in registers, one for each step of `{over}`, but a pipelined loop runs at run time and cannot index registers"
    );
    let names = |name: &str| {
        [crate::nest::over_tiles(name), name.to_string()].iter().any(|n| nest.names.get(n) == Some(&digit))
    };
    let by = context
        .last(|k| matches!(k, DirectiveKind::Pipeline(directive::Pipeline { digit, .. }) if names(digit)));
    let diagnostic = context
        .at(by, nest.value(v).span, text)
        .note(nest.value(v).span, format!("`{name}` is computed here"));
    let stage = stage_value(name);
    diagnostic.edits([Edit::put([stage])])
}

/// A value of which a thread holds too many elements.
struct Held {
    value: ValueId,
    layout: Layout,
}

impl Held {
    /// The digits that slots hold.
    fn slots(&self) -> Vec<Digit> {
        let held = self.layout.digits().iter().filter(|(_, at)| *at == Where::Slot);
        let mut digits: Vec<Digit> = held.map(|(digit, _)| *digit).collect();
        digits.sort();
        digits
    }
}

/// Values that no thread has registers for: one mistake for each directive at fault, told by the largest of them.
fn too_many(context: &Context<'_>, held: &[Held]) -> Vec<Diagnostic> {
    let nest = context.nest;
    let most = u64::from(context.schedule.target.registers());
    let mut groups: Vec<(Option<&Directive>, Vec<&Held>)> = Vec::new();
    for one in held {
        let digit = one.slots().into_iter().max_by_key(|d| d.steps).expect("more than one element");
        let by = context.cuts(digit.axis);
        match groups.iter_mut().find(|(other, _)| *other == by) {
            Some((_, group)) => group.push(one),
            None => groups.push((by, vec![one])),
        }
    }
    let told = groups.into_iter().map(|(by, group)| {
        // Of equals the first: the others are computed from it.
        let largest = group.iter().rev().max_by_key(|one| one.layout.slots()).expect("a group has one");
        let (value, total) = (nest.value(largest.value), largest.layout.slots());
        let slots = largest.slots();
        let parts: Vec<String> =
            slots.iter().map(|d| format!("{} (`{}`)", d.steps, nest.digit_name(*d))).collect();
        let text = format!(
            "each thread holds {} = {total} elements of `{}`, but it has at most {most} registers",
            parts.join(" · "),
            value.name
        );
        let axes: Vec<&str> = slots.iter().map(|d| nest.axis(d.axis)).collect();
        let shrink = total.div_ceil(most);
        let smaller = context.smaller_tiles(shrink, |a| axes.contains(&a));
        let diagnostic = context
            .at(by, value.span, text)
            .note(value.span, format!("`{}` is computed here", value.name))
            .edits(smaller.into_iter().chain(context.smaller_bounds(shrink)));
        others(diagnostic, nest, group.iter().map(|one| one.value).filter(|v| *v != largest.value))
    });
    told.collect()
}

/// "so are `b`, `c` and 7 more".
fn others(diagnostic: Diagnostic, nest: &Nest, values: impl Iterator<Item = ValueId>) -> Diagnostic {
    const NAMED: usize = 3;
    let names: Vec<&str> = values.map(|v| nest.value(v).name.as_str()).collect();
    match names.len() {
        0 => diagnostic,
        n if n <= NAMED => diagnostic.remark(format!("the same holds for {}", list(&names))),
        n => {
            let named: Vec<String> = names[..NAMED].iter().map(|name| format!("`{name}`")).collect();
            diagnostic.remark(format!("the same holds for {} and {} more", named.join(", "), n - NAMED))
        }
    }
}

/// Values over an axis of any length have no place on chip: one mistake for each such loop.
fn unbounded(context: &Context<'_>, open: &[(ValueId, Digit)]) -> Vec<Diagnostic> {
    let nest = context.nest;
    let mut digits: Vec<Digit> = open.iter().map(|(_, digit)| *digit).collect();
    digits.sort();
    digits.dedup();
    let told = digits.into_iter().map(|digit| {
        let values: Vec<ValueId> = open.iter().filter(|(_, d)| *d == digit).map(|(v, _)| *v).collect();
        let (axis, value) = (nest.axis(digit.axis), nest.value(values[0]));
        let text = format!(
            "`{}` is held for all of `{axis}`, which has no bound: neither registers nor shared memory can hold it",
            value.name
        );
        let by = context.cuts(digit.axis).or_else(|| context.schedule.directives.first());
        let diagnostic = context
            .at(by, value.span, text)
            .note(value.span, format!("`{}` is computed here", value.name));
        let dim = nest.kernel.axes[usize::from(digit.axis.0)].extent.dims.keys().next();
        let fits = dim.into_iter().flat_map(|dim| {
            [1024, 64].map(|max| Edit::put([directive::Fits { dim: dim.clone(), max }]))
        });
        let diagnostic = diagnostic.edits(std::iter::once(where_read(nest, &values, axis)).chain(fits));
        others(diagnostic, nest, values.into_iter().skip(1))
    });
    told.collect()
}

/// Each value computed where it is read, again for each reader if there are several.
fn where_read(nest: &Nest, values: &[ValueId], axis: &str) -> Edit {
    let mut kinds = Vec::new();
    for v in values {
        let value = &nest.value(*v).name;
        if place::readers(nest, *v).len() > 1 {
            kinds.push(DirectiveKind::Recompute(directive::Recompute { value: value.clone() }));
        }
        kinds.push(DirectiveKind::Fuse(directive::Fuse { value: value.clone(), at: axis.to_string() }));
    }
    Edit::put(kinds)
}

/// `stage(value: shared)`.
pub(crate) fn stage_value(name: &str) -> DirectiveKind {
    DirectiveKind::Stage(directive::Stage {
        buffer: name.to_string(),
        at: None,
        space: Space::Shared,
        transposed: false,
        via: Via::Plain,
        vector: None,
    })
}

//! Values in registers: a fixed number of slots a thread, within its registers.

use super::Context;
use crate::{
    diagnostic::{Diagnostic, Edit, list},
    directive::{self, DirectiveKind},
    engine::families::place,
    nest::{CopyId, Digit, Layout, LoopKind, MOST_HELD, Nest, ValueId, Where},
    plan::{Place, Unheld, Unplaced},
    schedule::{Directive, Space, Via},
};

pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let places = context.plan.places();
    let mut wrong = Vec::new();
    // Each value once, by its first `let` that something is wrong with.
    let mut seen = Vec::new();
    let (mut large, mut open) = (Vec::new(), Vec::new());
    for place in places.all() {
        let value = place.map_or_else(|why| why.value(), |place| place.value);
        if seen.contains(&value) {
            continue;
        }
        match place {
            Err(Unplaced::Unbounded(_, (digit, _))) => open.push((value, digit)),
            Err(why @ Unplaced::Within(..)) => wrong.push(within(context, why)),
            Err(why @ Unplaced::RunTime(_, (digit, _))) => wrong.push(indexed(context, why, digit)),
            Ok(Place { registers: Some(layout), .. })
                if layout.slots() > u64::from(context.schedule.target.registers()) =>
            {
                large.push(Held { value, layout });
            }
            Ok(_) => continue,
        }
        seen.push(value);
    }
    wrong.extend(too_many(context, &large));
    wrong.extend(unbounded(context, &open));
    for why in context.plan.readers().indexed.iter().filter(|why| !seen.contains(&why.value())) {
        if let Unplaced::RunTime(_, (digit, _)) = why {
            wrong.push(indexed(context, *why, *digit));
        }
    }
    wrong.extend(fragments(context));
    wrong
}

/// A buffer of the CTA that each unit computes.
fn within(context: &Context<'_>, why: Unplaced) -> Diagnostic {
    let value = context.nest.value(why.value());
    let stage = context.last(
        |k| matches!(k, DirectiveKind::Stage(directive::Stage { buffer, at: None, .. }) if *buffer == value.name),
    );
    context
        .at(stage, value.span, why.text(context.nest))
        .note(value.span, format!("`{}` is computed here", value.name))
}

/// Copies in registers fit.
fn fragments(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let most = context.schedule.target.registers();
    let copies = (0..nest.copies.len() as u16).map(CopyId);
    let copies = copies.filter(|copy| nest.copy(*copy).space == Space::Register);
    let found = copies.filter_map(|copy| {
        let name = nest.copy_name(copy);
        let held = || context.plan.fragments().of_copy(copy);
        let run_time = held().find_map(|of| of.err().filter(|why| matches!(why, Unheld::RunTime(..))));
        let (text, remark) = match run_time {
            Some(why) => (why.text(nest), "load it in a loop inside of the pipelined one"),
            None => {
                // Where it stands in several statements, each has its own.
                let counts = held().flatten().map(|of| (of.slots(), of.layout.slots > MOST_HELD));
                let (all, more) = counts.max().unwrap_or_default();
                if all <= most {
                    return None;
                }
                let over = if more { "more than " } else { "" };
                let text = format!(
                    "each thread would hold {over}{all} elements of `{name}` in registers, but it has at most {most}"
                );
                (text, "load it in a loop further inside, or bind more of the loops inside to threads")
            }
        };
        let by = context.last(|k| matches!(k, DirectiveKind::Fragment(directive::Fragment { buffer, .. }) if *buffer == name));
        Some(context.at(by, nest.tensor(nest.copy(copy).tensor).span, text).remark(remark))
    });
    found.collect()
}

/// A pipelined loop runs at run time, so it cannot index registers.
fn indexed(context: &Context<'_>, why: Unplaced, digit: Digit) -> Diagnostic {
    let nest = context.nest;
    let value = nest.value(why.value());
    let names = |name: &str| {
        [crate::nest::over_tiles(name), name.to_string()].iter().any(|n| nest.names.get(n) == Some(&digit))
    };
    let by = context
        .last(|k| matches!(k, DirectiveKind::Pipeline(directive::Pipeline { digit, .. }) if names(digit)));
    let diagnostic = context
        .at(by, value.span, why.text(nest))
        .note(value.span, format!("`{}` is computed here", value.name));
    diagnostic.edits([Edit::put([stage_value(&value.name)])])
}

/// A value of which a thread holds too many elements.
struct Held<'p> {
    value: ValueId,
    layout: &'p Layout,
}

impl Held<'_> {
    /// The digits that slots hold.
    fn slots(&self) -> Vec<Digit> {
        let held = self.layout.digits().iter().filter(|(_, at)| *at == Where::Slot);
        let mut digits: Vec<Digit> = held.map(|(digit, _)| *digit).collect();
        digits.sort();
        digits
    }
}

/// Values that no thread has registers for: one mistake for each directive at fault, told by the largest of them.
fn too_many(context: &Context<'_>, held: &[Held<'_>]) -> Vec<Diagnostic> {
    let nest = context.nest;
    let most = u64::from(context.schedule.target.registers());
    let mut groups: Vec<(Option<&Directive>, Vec<&Held<'_>>)> = Vec::new();
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
        let text = Unplaced::Unbounded(values[0], (digit, LoopKind::Seq)).text(nest);
        let by = context.cuts(digit.axis).or_else(|| context.schedule.directives.first());
        let diagnostic =
            context.at(by, value.span, text).note(value.span, format!("`{}` is computed here", value.name));
        let dim = nest.kernel.axes[usize::from(digit.axis.0)].extent.dims.keys().next();
        let fits = dim
            .into_iter()
            .flat_map(|dim| [1024, 64].map(|max| Edit::put([directive::Fits { dim: dim.clone(), max }])));
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

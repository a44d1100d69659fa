//! Threads of a CTA: at most what the target has, and whole warps.

use super::Context;
use crate::{
    diagnostic::{Diagnostic, Edit},
    directive::{self, DirectiveKind},
    engine::names,
    nest::{Digit, Frame, LoopKind, Nest, Steps, Stmt, ValueId, dimensions, leaves, loops},
    schedule::{Directive, Unit, UnitDim},
    span::SpanId,
    tile::AxisKind,
};
use std::collections::BTreeMap;

pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let dims = dimensions(nest);
    let count = |unit: Unit| -> u64 {
        let steps = dims.iter().filter(|((u, _), _)| *u == unit).map(|(_, (n, _))| u64::from(*n));
        steps.fold(1, u64::saturating_mul)
    };
    let uses = |unit: Unit| dims.keys().any(|(u, _)| *u == unit);
    let spelled = |units: &[Unit]| {
        let parts: Vec<String> = dims
            .iter()
            .filter(|((u, _), _)| units.contains(u))
            .map(|((u, d), (n, digits))| {
                let digits: Vec<String> = digits.iter().map(|d| nest.digit_name(*d)).collect();
                format!("{u}.{d} = {n} ({})", names::list(&digits))
            })
            .collect();
        parts.join(", ")
    };
    let mut wrong = skews(context, &dims);
    let binds = |units: &'static [Unit]| {
        context.last(
            move |k| matches!(k, DirectiveKind::Bind(directive::Bind { unit, .. }) if units.contains(unit)),
        )
    };
    if uses(Unit::Warpgroup) && count(Unit::Warp) != 4 {
        let text = match uses(Unit::Warp) {
            false => "a warpgroup has 4 warps, and no loop is bound to `warp`".to_string(),
            true => format!("a warpgroup has 4 warps, not {}: {}", count(Unit::Warp), spelled(&[Unit::Warp])),
        };
        wrong.push(context.at(binds(&[Unit::Warpgroup]), SpanId::NONE, text));
        return wrong;
    }
    if uses(Unit::Warp) || uses(Unit::Lane) {
        let lanes = count(Unit::Lane);
        if lanes != 32 {
            let text = match lanes {
                1 if !uses(Unit::Lane) => "a warp has 32 lanes, and no loop is bound to `lane`".to_string(),
                _ => format!("a warp has 32 lanes, not {lanes}: {}", spelled(&[Unit::Lane])),
            };
            let diagnostic = context.at(binds(&[Unit::Warp, Unit::Lane]), SpanId::NONE, text);
            let lane = dims.iter().filter(|((u, _), _)| *u == Unit::Lane).flat_map(|(_, (_, digits))| digits);
            let resized = lane.filter_map(|digit| whole_warp(context, *digit));
            let threads = binds(&[Unit::Warp]).filter(|_| !uses(Unit::Lane)).and_then(as_threads);
            wrong.push(diagnostic.edits(resized.chain(threads)));
            return wrong;
        }
    }
    let threads = crate::nest::threads(nest);
    let most = context.schedule.target.threads();
    if threads > u64::from(most) {
        let units: &'static [Unit] = match uses(Unit::Thread) {
            true => &[Unit::Thread],
            false => &[Unit::Warpgroup, Unit::Warp],
        };
        let text = format!("{threads} threads, but a CTA has at most {most}: {}", spelled(units));
        let diagnostic = context.at(binds(units), SpanId::NONE, text);
        let axes: Vec<String> = dims
            .iter()
            .filter(|((u, _), _)| units.contains(u))
            .flat_map(|(_, (_, digits))| digits.iter().map(|d| nest.axis(d.axis).to_string()))
            .collect();
        let smaller =
            context.smaller_tiles(threads.div_ceil(u64::from(most)), |a| axes.iter().any(|x| x == a));
        wrong.push(diagnostic.edits(smaller));
    } else {
        wrong.extend(resident(context, threads));
    }
    wrong
}

/// What CTAs share out of a program axis, they share out of every store: one outside would be done by each of them.
pub(super) fn grid(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let program = |d: &Digit| nest.kernel.axes[usize::from(d.axis.0)].kind == AxisKind::Program;
    let mut shared: Vec<Digit> = loops(&nest.body)
        .into_iter()
        .filter(|(d, at)| matches!(at, LoopKind::Unit(Unit::Block, _)) && program(d))
        .map(|(d, _)| d)
        .collect();
    shared.sort();
    shared.dedup();
    let mut wrong = Vec::new();
    leaves(&nest.body, &mut |path, leaf| {
        let Stmt::Put { access, .. } = leaf else { return };
        let info = nest.access(*access);
        let around = |d: &Digit| {
            path.iter().any(|f| matches!(f, Frame::For(x, LoopKind::Unit(Unit::Block, _)) if x == d))
        };
        if let Some(digit) = shared.iter().find(|d| !around(d)) {
            let (name, digit_name) = (&nest.tensor(info.tensor).name, nest.digit_name(*digit));
            let text = format!(
                "`{name}` is stored in a loop over `{digit_name}` that is not bound to CTAs, and others are: every CTA would store all of it"
            );
            let diagnostic = context.at(context.bind_of(*digit), info.span, text);
            wrong.push(diagnostic.note(info.span, format!("`{name}` is stored here")));
        }
    });
    wrong
}

/// `occupancy(n)`: an SM holds as many CTAs of so many threads.
fn resident(context: &Context<'_>, threads: u64) -> Option<Diagnostic> {
    let target = context.schedule.target;
    let asked = u64::from(context.nest.occupancy?);
    let by_threads = u64::from(target.resident_threads()) / threads.max(1).next_multiple_of(32);
    let most = by_threads.min(target.resident_ctas().into());
    if asked <= most {
        return None;
    }
    let text = match by_threads == most {
        true => format!(
            "occupancy({asked}): {asked} CTAs of {threads} threads are {} threads, and an SM of {target} holds {} at once",
            asked * threads.next_multiple_of(32),
            target.resident_threads()
        ),
        false => format!("occupancy({asked}): an SM of {target} holds {most} CTAs at once"),
    };
    let by = context.last(|k| matches!(k, DirectiveKind::Occupancy(_)));
    let fits = DirectiveKind::Occupancy(directive::Occupancy { ctas: most as u32 });
    Some(context.at(by, SpanId::NONE, text).edits([Edit::put([fits])]))
}

/// The tile or split that makes a loop bound to lanes, with 32 steps for it.
fn whole_warp(context: &Context<'_>, digit: Digit) -> Option<Edit> {
    let name = context.nest.digit_name(digit);
    let kinds = context.schedule.directives.iter().map(|d| &d.kind);
    let mut resized = kinds.filter_map(|kind| match kind {
        DirectiveKind::Split(directive::Split { digit, names, factors }) => {
            let at = names.iter().position(|n| *n == name)?.checked_sub(1)?;
            let mut factors = factors.clone();
            factors[at] = 32;
            Some(DirectiveKind::Split(directive::Split {
                digit: digit.clone(),
                names: names.clone(),
                factors,
            }))
        }
        DirectiveKind::Tile(directive::Tile { axis, .. }) if name == crate::nest::in_tile(axis) => {
            Some(DirectiveKind::Tile(directive::Tile { axis: axis.clone(), size: 32 }))
        }
        _ => None,
    });
    resized.next().map(|kind| Edit::put([kind]))
}

/// A loop bound to warps bound to threads.
fn as_threads(directive: &Directive) -> Option<Edit> {
    match &directive.kind {
        DirectiveKind::Bind(directive::Bind { digit, dim, .. }) => Some(Edit::instead([directive::Bind {
            digit: digit.clone(),
            unit: Unit::Thread,
            dim: *dim,
            xor: None,
        }])),
        _ => None,
    }
}

/// A reduction inside a loop over `digit` whose parts the units of one dimension hold.
fn combined_across(nest: &Nest, digit: Digit, unit: Unit, dim: UnitDim) -> Option<ValueId> {
    let mut found = None;
    leaves(&nest.body, &mut |path, leaf| {
        let Stmt::Red { value, .. } = leaf else { return };
        let inside = path.iter().any(|f| matches!(f, Frame::For(d, _) if *d == digit));
        let across = path.iter().any(|f| {
            matches!(f, Frame::For(d, LoopKind::Unit(u, x)) if (*u, *x) == (unit, dim) && !nest.value(*value).axes.contains(&d.axis))
        });
        if inside && across {
            found = Some(*value);
        }
    });
    found
}

/// A coordinate that another is xored with has as many values at most, a power of two, and no reduction combines its
/// units: parts of one element must lie along it.
fn skews(context: &Context<'_>, dims: &BTreeMap<(Unit, UnitDim), (u32, Vec<Digit>)>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let mut wrong = Vec::new();
    for (digit, at) in loops(&nest.body) {
        let (LoopKind::Unit(unit, dim), Some(other), Steps::Fixed(steps)) =
            (at, nest.skew.get(&digit), digit.steps)
        else {
            continue;
        };
        let extent = dims.get(&(unit, *other)).map_or(1, |(n, _)| *n);
        let name = nest.digit_name(digit);
        let parts = combined_across(nest, digit, unit, *other);
        let back = around(nest, digit, unit, *other);
        if back.is_none() && parts.is_none() && (2..=steps).contains(&extent) && extent.is_power_of_two() {
            continue;
        }
        let text = match extent {
            _ if back.is_some() => format!(
                "`{name}` is bound to {unit}.{dim} ^ {unit}.{other}, and `{}` to {unit}.{other} ^ {unit}.{dim}: two threads would take the same steps of both",
                back.map_or(String::new(), |d| nest.digit_name(d))
            ),
            _ if parts.is_some() => format!(
                "`{name}` is bound to {unit}.{dim} ^ {unit}.{other}, but parts of `{}` are combined across {unit}.{other}: they would be parts of different elements",
                parts.map_or("", |v| &nest.value(v).name)
            ),
            1 => format!(
                "`{name}` is bound to {unit}.{dim} ^ {unit}.{other}, but no loop is bound to {unit}.{other}"
            ),
            n => format!(
                "`{name}` has {steps} steps, and {unit}.{other} has {n} coordinates: for the xor to stay below {steps}, they are a power of two, at most {steps}"
            ),
        };
        let mut diagnostic = context.at(context.bind_of(digit), SpanId::NONE, text);
        if back.is_some() {
            let straight =
                DirectiveKind::Bind(directive::Bind { digit: nest.digit_name(digit), unit, dim, xor: None });
            diagnostic = diagnostic.edits([Edit::instead([straight])]);
        }
        if !wrong.contains(&diagnostic) {
            wrong.push(diagnostic);
        }
    }
    wrong
}

/// A loop of the same statement, bound to the coordinate that a digit's own is xored with, whose own is xored in turn:
/// the two together are no permutation of the threads then.
fn around(nest: &Nest, digit: Digit, unit: Unit, other: UnitDim) -> Option<Digit> {
    let mut found = None;
    leaves(&nest.body, &mut |path, _| {
        if !path.iter().any(|f| matches!(f, Frame::For(d, LoopKind::Unit(..)) if *d == digit)) {
            return;
        }
        found = found.or(path.iter().find_map(|f| match f {
            Frame::For(d, LoopKind::Unit(u, x)) if (*u, *x) == (unit, other) && nest.skew.contains_key(d) => {
                Some(*d)
            }
            _ => None,
        }));
    });
    found
}

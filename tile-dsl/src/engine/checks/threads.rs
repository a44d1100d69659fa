//! Threads of a CTA: at most what the target has, and whole warps.

use super::Context;
use crate::{
    diagnostic::Diagnostic,
    engine::names,
    nest::{At, Digit, Frame, Nest, Steps, Stmt, ValueId, leaves, loops},
    schedule::{DirectiveKind, Unit, UnitDim},
    span::SpanId,
};
use std::collections::BTreeMap;

/// Steps of each unit dimension of a CTA, with the digits bound to it.
pub(super) fn dimensions(nest: &Nest) -> BTreeMap<(Unit, UnitDim), (u32, Vec<Digit>)> {
    let mut dims: BTreeMap<(Unit, UnitDim), (u32, Vec<Digit>)> = BTreeMap::new();
    for (digit, at) in loops(&nest.body) {
        if let (At::Unit(unit, dim), Steps::Fixed(steps)) = (at, digit.steps)
            && unit != Unit::Block
        {
            let (most, digits) = dims.entry((unit, dim)).or_insert((1, Vec::new()));
            *most = steps.max(*most);
            if !digits.contains(&digit) {
                digits.push(digit);
            }
        }
    }
    dims
}

pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let dims = dimensions(nest);
    let count = |unit: Unit| -> u64 {
        dims.iter().filter(|((u, _), _)| *u == unit).map(|(_, (n, _))| u64::from(*n)).product()
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
        context.last(move |k| matches!(k, DirectiveKind::Bind { unit, .. } if units.contains(unit)))
    };
    if uses(Unit::Warp) || uses(Unit::Lane) {
        let lanes = count(Unit::Lane);
        if lanes != 32 {
            let text = match lanes {
                1 if !uses(Unit::Lane) => "a warp has 32 lanes, and no loop is bound to `lane`".to_string(),
                _ => format!("a warp has 32 lanes, not {lanes}: {}", spelled(&[Unit::Lane])),
            };
            wrong.push(context.at(binds(&[Unit::Warp, Unit::Lane]), SpanId::NONE, text));
            return wrong;
        }
    }
    let threads = if uses(Unit::Thread) { count(Unit::Thread) } else { 32 * count(Unit::Warp) };
    let most = context.schedule.target.threads();
    if threads > u64::from(most) {
        let units: &'static [Unit] = if uses(Unit::Thread) { &[Unit::Thread] } else { &[Unit::Warp] };
        let text = format!("{threads} threads, but a CTA has at most {most}: {}", spelled(units));
        let mut diagnostic = context.at(binds(units), SpanId::NONE, text);
        let axes: Vec<String> = dims
            .iter()
            .filter(|((u, _), _)| units.contains(u))
            .flat_map(|(_, (_, digits))| digits.iter().map(|d| nest.axis(d.axis).to_string()))
            .collect();
        if let Some(other) = context.smaller_tile(|a| axes.iter().any(|x| x == a)) {
            diagnostic = diagnostic.help(format!("`{other}` fits"));
        }
        wrong.push(diagnostic);
    }
    wrong
}

/// A reduction inside a loop over `digit` whose parts the units of one dimension hold.
fn combined_across(nest: &Nest, digit: Digit, unit: Unit, dim: UnitDim) -> Option<ValueId> {
    let mut found = None;
    leaves(&nest.body, &mut |path, leaf| {
        let Stmt::Red { value, .. } = leaf else { return };
        let inside = path.iter().any(|f| matches!(f, Frame::For(d, _) if *d == digit));
        let across = path.iter().any(|f| {
            matches!(f, Frame::For(d, At::Unit(u, x)) if (*u, *x) == (unit, dim) && !nest.value(*value).axes.contains(&d.axis))
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
        let (At::Unit(unit, dim), Some(other), Steps::Fixed(steps)) =
            (at, nest.skew.get(&digit), digit.steps)
        else {
            continue;
        };
        let extent = dims.get(&(unit, *other)).map_or(1, |(n, _)| *n);
        let name = nest.digit_name(digit);
        let parts = combined_across(nest, digit, unit, *other);
        if parts.is_none() && (2..=steps).contains(&extent) && extent.is_power_of_two() {
            continue;
        }
        let text = match extent {
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
        let diagnostic = context.at(context.bind_of(digit), SpanId::NONE, text);
        if !wrong.contains(&diagnostic) {
            wrong.push(diagnostic);
        }
    }
    wrong
}

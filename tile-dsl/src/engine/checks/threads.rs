//! Threads of a CTA: at most what the target has, and whole warps.

use super::Context;
use crate::{
    diagnostic::Diagnostic,
    engine::names,
    nest::{At, Digit, Nest, Steps, loops},
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
    let mut wrong = Vec::new();
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

//! Threads of a CTA: at most what the target has, and whole warps.

use super::Context;
use crate::{
    diagnostic::{Diagnostic, Edit},
    directive::{self, DirectiveKind},
    engine::names,
    nest::{Digit, Dimensions, Frame, LoopKind, Nest, NoUnits, Steps, Stmt, ValueId, leaves, loops},
    schedule::{Directive, Unit, UnitDim},
    span::SpanId,
};

pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let dims = context.plan.dimensions();
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
    let mut wrong = skews(context, dims);
    let binds = |units: &'static [Unit]| {
        context.last(
            move |k| matches!(k, DirectiveKind::Bind(directive::Bind { unit, .. }) if units.contains(unit)),
        )
    };
    let lanes = |wrong: &mut Vec<Diagnostic>, text: String| {
        let diagnostic = context.at(binds(&[Unit::Warp, Unit::Lane]), SpanId::NONE, text);
        let lane = dims.iter().filter(|((u, _), _)| *u == Unit::Lane).flat_map(|(_, (_, digits))| digits);
        let resized = lane.filter_map(|digit| whole_warp(context, *digit));
        let threads = binds(&[Unit::Warp]).filter(|_| !uses(Unit::Lane)).and_then(as_threads);
        wrong.push(diagnostic.edits(resized.chain(threads)));
    };
    match context.plan.units() {
        Err(NoUnits::Warps(warps)) => {
            let text = match uses(Unit::Warp) {
                false => "a warpgroup has 4 warps, and no loop is bound to `warp`".to_string(),
                true => format!("a warpgroup has 4 warps, not {warps}: {}", spelled(&[Unit::Warp])),
            };
            wrong.push(context.at(binds(&[Unit::Warpgroup]), SpanId::NONE, text));
        }
        Err(NoUnits::Lanes(n)) => {
            lanes(&mut wrong, format!("a warp has 32 lanes, not {n}: {}", spelled(&[Unit::Lane])));
        }
        // The plan would have all lanes of a warp do the same.
        _ if uses(Unit::Warp) && !uses(Unit::Lane) => {
            lanes(&mut wrong, "a warp has 32 lanes, and no loop is bound to `lane`".to_string());
        }
        Err(NoUnits::Threads(threads)) => wrong.push(too_many(context, *threads, &spelled)),
        Ok(units) => wrong.extend(resident(context, units.threads.into())),
        // `bind` refuses these.
        Err(NoUnits::Open(_) | NoUnits::Uneven(..) | NoUnits::Mixed) => {}
    }
    wrong
}

/// More threads than a CTA has.
fn too_many(context: &Context<'_>, threads: u64, spelled: &dyn Fn(&[Unit]) -> String) -> Diagnostic {
    let (nest, dims) = (context.nest, context.plan.dimensions());
    let most = context.schedule.target.threads();
    let units: &'static [Unit] = match dims.keys().any(|(u, _)| *u == Unit::Thread) {
        true => &[Unit::Thread],
        false => &[Unit::Warpgroup, Unit::Warp],
    };
    let text = format!("{threads} threads, but a CTA has at most {most}: {}", spelled(units));
    let by = context.last(
        move |k| matches!(k, DirectiveKind::Bind(directive::Bind { unit, .. }) if units.contains(unit)),
    );
    let axes: Vec<String> = dims
        .iter()
        .filter(|((u, _), _)| units.contains(u))
        .flat_map(|(_, (_, digits))| digits.iter().map(|d| nest.axis(d.axis).to_string()))
        .collect();
    let smaller = context.smaller_tiles(threads.div_ceil(u64::from(most)), |a| axes.iter().any(|x| x == a));
    context.at(by, SpanId::NONE, text).edits(smaller)
}

/// What CTAs share out of a program axis, they share out of every store: one outside would be done by each of them.
pub(super) fn grid(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let wrong = context.plan.tiles().whole.iter().map(|(access, digit)| {
        let info = nest.access(*access);
        let (name, digit_name) = (&nest.tensor(info.tensor).name, nest.digit_name(*digit));
        let text = format!(
            "`{name}` is stored in a loop over `{digit_name}` that is not bound to CTAs, and others are: every CTA would store all of it"
        );
        let diagnostic = context.at(context.bind_of(*digit), info.span, text);
        diagnostic.note(info.span, format!("`{name}` is stored here"))
    });
    wrong.collect()
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

/// A reduction or a scan inside a loop over `digit` whose parts the units of one dimension hold.
fn combined_across(nest: &Nest, digit: Digit, unit: Unit, dim: UnitDim) -> Option<ValueId> {
    let mut found = None;
    leaves(&nest.body, &mut |path, leaf| {
        let (Stmt::Red { value, .. } | Stmt::Scan { value, .. }) = leaf else { return };
        let inside = path.iter().any(|f| matches!(f, Frame::For(d, _) if *d == digit));
        let across = path.iter().any(|f| {
            matches!(f, Frame::For(d, LoopKind::Unit(u, x)) if (*u, *x) == (unit, dim) && nest.value(*value).is_parted_by(d.axis))
        });
        if inside && across {
            found = Some(*value);
        }
    });
    found
}

/// A scan along the axis of a digit, of whose loop units take the steps.
fn scanned(nest: &Nest, digit: Digit) -> Option<ValueId> {
    let mut found = None;
    leaves(&nest.body, &mut |path, leaf| {
        let Stmt::Scan { value, .. } = leaf else { return };
        let inside = path.iter().any(|f| matches!(f, Frame::For(d, _) if *d == digit));
        if inside && nest.value(*value).is_parted_by(digit.axis) {
            found = Some(*value);
        }
    });
    found
}

/// A coordinate that another is xored with has as many values at most, a power of two, and no reduction combines its
/// units: parts of one element must lie along it.
fn skews(context: &Context<'_>, dims: &Dimensions) -> Vec<Diagnostic> {
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
        let scanned = scanned(nest, digit);
        if back.is_none()
            && parts.is_none()
            && scanned.is_none()
            && (2..=steps).contains(&extent)
            && extent.is_power_of_two()
        {
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
            _ if scanned.is_some() => format!(
                "`{name}` is bound to {unit}.{dim} ^ {unit}.{other}, but `{}` is scanned along `{}`: units would take the steps in an order of their own",
                scanned.map_or("", |v| &nest.value(v).name),
                nest.axis(digit.axis)
            ),
            1 => format!(
                "`{name}` is bound to {unit}.{dim} ^ {unit}.{other}, but no loop is bound to {unit}.{other}"
            ),
            n => format!(
                "`{name}` has {steps} steps, and {unit}.{other} has {n} coordinates: for the xor to stay below {steps}, they are a power of two, at most {steps}"
            ),
        };
        let mut diagnostic = context.at(context.bind_of(digit), SpanId::NONE, text);
        if back.is_some() || parts.is_none() && scanned.is_some() {
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

//! Distributions: which unit, or which slot of a thread, holds each element of a value in registers.
//!
//! The loops of the statement that computes a value map each digit of its axes to a unit or to a slot. A
//! reader's loops must map it the same way, and so must those of every other statement that computes it. Units that
//! neither mentions, and those of a combined reduction, hold replicas. An operand of an atom is read as the instruction has it.

use super::{Context, registers::stage_value};
use crate::{
    diagnostic::{Diagnostic, Edit},
    nest::{At, Digit, Frame, Nest, Placement, Steps, Stmt, Target, ValueId, leaves},
    schedule::{Unit, UnitDim},
};
use std::collections::BTreeMap;

/// Place of a digit: a unit of the CTA, or a slot.
type Place = Option<(Unit, UnitDim)>;
type Map = BTreeMap<Digit, Place>;

pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let mut wrong = Vec::new();
    // Each `let` of a value, by its path.
    let mut writers: Vec<(Vec<Frame>, ValueId, Map)> = Vec::new();
    leaves(&nest.body, &mut |path, leaf| {
        let (target, _) = leaf.leaf().expect("a leaf");
        if let Target::Value(v) = target
            && nest.value(v).placement == Placement::Register
            && let Some(at) = binder(path, v)
        {
            // The first view is the writer's.
            writers.extend(
                views(nest, &path[at..], leaf, v)
                    .into_iter()
                    .take(1)
                    .map(|map| (path[..at].to_vec(), v, map)),
            );
        }
    });
    let mut reported: Vec<(ValueId, Target)> = Vec::new();
    leaves(&nest.body, &mut |path, leaf| {
        let (target, expr) = leaf.leaf().expect("a leaf");
        let mut read = expr.values();
        read.extend(if let Target::Value(v) = target { Some(v) } else { None });
        read.retain(|v| nest.value(*v).placement == Placement::Register);
        read.dedup();
        for v in read {
            let Some(at) = binder(path, v) else { continue };
            for reader in views(nest, &path[at..], leaf, v) {
                let differs = |m: &Map| merged(m) != merged(&reader);
                let writer = writers.iter().find(|(p, w, m)| *w == v && p[..] == path[..at] && differs(m));
                if let Some((_, _, writer)) = writer
                    && !reported.contains(&(v, target))
                {
                    reported.push((v, target));
                    wrong.push(mismatch(context, v, leaf, writer, &reader));
                }
            }
        }
    });
    wrong
}

/// Position of the frame of the innermost `let` that binds a value.
fn binder(path: &[Frame], v: ValueId) -> Option<usize> {
    path.iter().rposition(|f| matches!(f, Frame::First(vs) | Frame::Rest(vs) if vs.contains(&v)))
}

/// Places of the digits of a value's axes, by the loops on a path, for each way in which the leaf sees them. Digits of one
/// step add nothing.
fn views(nest: &Nest, path: &[Frame], leaf: &Stmt, v: ValueId) -> Vec<Map> {
    let own = |(d, _): &(Digit, At)| nest.value(v).axes.contains(&d.axis) && d.steps != Steps::Fixed(1);
    let place = |(d, at)| (d, if let At::Unit(unit, dim) = at { Some((unit, dim)) } else { None });
    let views = nest.views(path, leaf, v).into_iter();
    views.map(|loops| loops.into_iter().filter(own).map(place).collect()).collect()
}

/// Neighbouring digits in slots as one: slots are told apart by the points that they hold.
fn merged(map: &Map) -> Map {
    let mut out = Map::new();
    let mut last: Option<Digit> = None;
    // By axis, and by ascending stride within it.
    for (digit, place) in map {
        let (Steps::Fixed(steps), None) = (digit.steps, place) else {
            out.insert(*digit, *place);
            continue;
        };
        match last.filter(|l| l.axis == digit.axis) {
            Some(Digit { stride, steps: Steps::Fixed(below), axis })
                if u64::from(stride) * u64::from(below) == u64::from(digit.stride) =>
            {
                let grown = Digit { axis, stride, steps: Steps::Fixed(below.saturating_mul(steps)) };
                out.remove(&Digit { axis, stride, steps: Steps::Fixed(below) });
                out.insert(grown, None);
                last = Some(grown);
            }
            _ => {
                out.insert(*digit, None);
                last = Some(*digit);
            }
        }
    }
    out
}

fn mismatch(context: &Context<'_>, v: ValueId, reader: &Stmt, held: &Map, needed: &Map) -> Diagnostic {
    let nest = context.nest;
    let name = &nest.value(v).name;
    let (target, _) = reader.leaf().expect("a leaf");
    let user = crate::engine::facts::target_name(nest, target);
    let show = |map: &Map| {
        let parts: Vec<String> = map
            .iter()
            .map(|(d, place)| match place {
                Some((unit, dim)) => format!("`{}` on {unit}.{dim}", nest.digit_name(*d)),
                None => format!("`{}` in slots", nest.digit_name(*d)),
            })
            .collect();
        if parts.is_empty() { "every thread".into() } else { parts.join(", ") }
    };
    let differs = needed
        .iter()
        .find(|(d, p)| held.get(d) != Some(p))
        .or_else(|| held.iter().find(|(d, p)| needed.get(d) != Some(p)))
        .map(|(d, _)| *d);
    let text = format!(
        "`{name}` is held with {}, but `{user}` needs it with {}: registers of one thread cannot be read by another",
        show(held),
        show(needed)
    );
    let by = differs
        .and_then(|d| context.bind_of(d).or_else(|| context.cuts(d.axis)))
        .or_else(|| context.schedule.directives.last());
    let span = super::super::families::reorder::value_span(nest, target);
    let diagnostic = context
        .at(by, nest.value(v).span, text)
        .note(nest.value(v).span, format!("`{name}` is computed here"))
        .note(span, format!("`{user}` is computed here"));
    let stage = stage_value(name);
    let elems: u64 =
        held.keys().map(|d| if let Steps::Fixed(n) = d.steps { u64::from(n) } else { 1 }).product();
    let bytes = elems * u64::from(nest.value(v).dtype.bytes());
    diagnostic.edits([Edit::put([stage]).remark(format!("{bytes} bytes, 2 barriers"))])
}

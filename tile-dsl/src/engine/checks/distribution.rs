//! Distributions: which unit, or which slot of a thread, holds each element of a value in registers.
//!
//! The loops of the statement that computes a value map each digit of its axes to a unit or to a slot. A
//! reader's loops must map it the same way, and so must those of every other statement that computes it. Units that
//! neither mentions, and those of a combined reduction, hold replicas.

use super::{Context, registers::stage_value};
use crate::{
    diagnostic::{Diagnostic, Edit},
    nest::{At, Digit, Frame, Nest, Placement, Steps, Stmt, Target, ValueId, leaves, parts},
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
            writers.push((path[..at].to_vec(), v, map(nest, &path[at..], v)));
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
            let reader = map(nest, &path[at..], v);
            let writer = writers.iter().find(|(p, w, m)| *w == v && p[..] == path[..at] && *m != reader);
            if let Some((_, _, writer)) = writer
                && !reported.contains(&(v, target))
            {
                reported.push((v, target));
                wrong.push(mismatch(context, v, leaf, writer, &reader));
            }
        }
    });
    wrong
}

/// Position of the frame of the innermost `let` that binds a value.
fn binder(path: &[Frame], v: ValueId) -> Option<usize> {
    path.iter().rposition(|f| matches!(f, Frame::First(vs) | Frame::Rest(vs) if vs.contains(&v)))
}

/// Places of the digits of a value's axes, by the loops on a path. Digits of one step add nothing.
fn map(nest: &Nest, path: &[Frame], v: ValueId) -> Map {
    let loops =
        path.iter().filter_map(|f| if let Frame::For(d, at) = f { Some(parts(*d, *at)) } else { None });
    let own =
        loops.flatten().filter(|(d, _)| nest.value(v).axes.contains(&d.axis) && d.steps != Steps::Fixed(1));
    own.map(|(d, at)| (d, if let At::Unit(unit, dim) = at { Some((unit, dim)) } else { None })).collect()
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

//! Distributions: a reader of a value in registers must see the layout that the statement computing it gives it, and so
//! must every other statement that computes it. An operand of an atom is read as the instruction has it.

use super::{Context, registers::stage_value};
use crate::{
    diagnostic::{Diagnostic, Edit},
    nest::{Frame, Layout, Nest, Placement, Stmt, Target, ValueId, leaves},
};

pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let mut wrong = Vec::new();
    // Each `let` of a value, by its path.
    let mut writers: Vec<(Vec<Frame>, ValueId, Layout)> = Vec::new();
    leaves(&nest.body, &mut |path, leaf| {
        let (target, _) = leaf.leaf().expect("a leaf");
        if let Target::Value(v) = target
            && nest.value(v).placement == Placement::Register
            && let Some(at) = Nest::binder(path, v)
        {
            let own = nest.layouts(&path[at..], leaf, v).into_iter().next();
            writers.extend(own.map(|layout| (path[..at].to_vec(), v, layout)));
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
            let Some(at) = Nest::binder(path, v) else { continue };
            for reader in nest.layouts(&path[at..], leaf, v) {
                let writer = writers
                    .iter()
                    .find(|(p, w, layout)| *w == v && p[..] == path[..at] && !layout.agrees(&reader));
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

fn mismatch(context: &Context<'_>, v: ValueId, reader: &Stmt, held: &Layout, needed: &Layout) -> Diagnostic {
    let nest = context.nest;
    let name = &nest.value(v).name;
    let (target, _) = reader.leaf().expect("a leaf");
    let user = crate::engine::facts::target_name(nest, target);
    let text = format!(
        "`{name}` is held with {}, but `{user}` needs it with {}: registers of one thread cannot be read by another",
        held.show(nest),
        needed.show(nest)
    );
    let by = needed
        .difference(held)
        .and_then(|d| context.bind_of(d).or_else(|| context.cuts(d.axis)))
        .or_else(|| context.schedule.directives.last());
    let span = super::super::families::reorder::value_span(nest, target);
    let diagnostic = context
        .at(by, nest.value(v).span, text)
        .note(nest.value(v).span, format!("`{name}` is computed here"))
        .note(span, format!("`{user}` is computed here"));
    let stage = stage_value(name);
    let bytes = held.elements() * u64::from(nest.value(v).dtype.bytes());
    diagnostic.edits([Edit::put([stage]).remark(format!("{bytes} bytes, 2 barriers"))])
}

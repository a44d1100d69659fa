//! Parts of a reduction held by several CTAs meet once a launch: no loop at run time stands around its `let`. Behind it one CTA
//! is left, or each has a share of the elements: nothing is computed there that is needed elsewhere.

use super::{Context, registers::lets};
use crate::{
    diagnostic::{Diagnostic, Edit},
    nest::{Frame, LoopKind, Steps, Target, leaves},
    schedule::DirectiveKind,
};

pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let mut wrong: Vec<Diagnostic> = Vec::new();
    lets(nest, &mut |v, outside, _| {
        if !nest.across.contains_key(&v) || !wrong.is_empty() {
            return;
        }
        // The steps of a pipelined loop are guarded, even a single one.
        let around = outside.iter().find(|(d, at)| match at {
            LoopKind::Unit(..) => false,
            LoopKind::Pipe(_) => true,
            _ => d.steps != Steps::Fixed(1),
        });
        if let Some((digit, kind)) = around {
            let (name, loop_name) = (&nest.value(v).name, nest.digit_name(*digit));
            let split = context.last(|k| matches!(k, DirectiveKind::SplitK { .. }));
            // Without its pipeline, a loop of one step is none.
            let pipeline = context
                .last(|k| matches!(k, DirectiveKind::Pipeline { digit: d, .. } if context.is(d, *digit)))
                .filter(|_| matches!(kind, LoopKind::Pipe(_)) && digit.steps == Steps::Fixed(1));
            let meet =
                "the CTAs that hold parts of it would have to meet once a step, and they meet once a launch";
            let text = match pipeline {
                Some(_) => format!(
                    "`{name}` is computed inside the loop over `{loop_name}`, which `pipeline` makes a loop at run time though it has one step: {meet}"
                ),
                None => format!("`{name}` is computed inside the loop over `{loop_name}`: {meet}"),
            };
            wrong.push(
                context
                    .at(pipeline.or(split), nest.value(v).span, text)
                    .note(nest.value(v).span, format!("`{name}` is computed here"))
                    .edits(pipeline.map(|_| Edit::instead([]))),
            );
        }
    });
    if wrong.is_empty() {
        wrong.extend(behind_another(context));
    }
    wrong
}

/// What is computed where the parts of a reduction have met, and needed by CTAs that do not get there: a part of another reduction,
/// or of another copy of this one, and a value that lives on behind that place.
fn behind_another(context: &Context<'_>) -> Option<Diagnostic> {
    let nest = context.nest;
    let mut found = None;
    leaves(&nest.body, &mut |path, leaf| {
        let met = path.iter().enumerate().find_map(|(n, frame)| match frame {
            Frame::Rest(values) => values.iter().find(|v| nest.across.contains_key(v)).map(|v| (n, *v)),
            _ => None,
        });
        if let (Some((n, met)), Some((Target::Value(value), _))) = (met, leaf.leaf()) {
            let lives_on = path[..n].iter().any(|f| matches!(f, Frame::First(vs) if vs.contains(&value)));
            let part = nest.across.contains_key(&value);
            if part || lives_on {
                found.get_or_insert((value, met, part));
            }
        }
    });
    let (value, met, part) = found?;
    let (name, before) = (&nest.value(value).name, &nest.value(met).name);
    let what = match part {
        true if value == met => format!("`{name}` is computed again"),
        true => format!("`{name}` is computed"),
        false => format!("`{name}`, which others read, is computed"),
    };
    let text = format!("{what} where the parts of `{before}` have met: not all CTAs that need it get there");
    let again = context.last(|k| matches!(k, DirectiveKind::Recompute { value } if value == before));
    let split = context.last(|k| matches!(k, DirectiveKind::SplitK { .. }));
    let diagnostic = context.at(again.or(split), nest.value(value).span, text);
    Some(
        diagnostic
            .note(nest.value(value).span, format!("`{name}` is computed here"))
            .edits(again.map(|_| Edit::instead([]))),
    )
}

//! Boxes of copies, once the schedule is complete. Their rows suit the instruction that copies them: a directive after `stage` may
//! have made them longer, as `split_k` does where CTAs share out steps that do not come out even. Of tensor maps no side is longer than
//! the hardware takes, once it is known which rows a swizzle cuts into panels, and which part of a copy each CTA of a cluster makes.

use super::Context;
use crate::{
    diagnostic::{Diagnostic, Edit},
    directive::{self, DirectiveKind},
    engine::{
        families::stage::{Request, check_rows},
        prover::with_parent,
    },
    nest::{BOX_POINTS, CopyId, TileSize},
    plan::{Boxes, Unboxed},
    schedule::{Directive, Space, Via},
};

pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let boxes = context.plan.boxes();
    if let Some(why) = boxes.unboxed() {
        return vec![unboxed(context, why)];
    }
    let copies = (0..).map(CopyId).zip(&context.nest.copies);
    let staged = copies.filter(|(_, c)| c.space == Space::Shared);
    staged
        .filter_map(|(copy, info)| {
            let long = || if info.via == Via::Tma { sides(context, boxes, copy) } else { None };
            rows(context, copy).or_else(long)
        })
        .collect()
}

/// Why a copy has no box.
fn unboxed(context: &Context<'_>, why: Unboxed) -> Diagnostic {
    let (nest, copy) = (context.nest, why.copy());
    context.at(staged_by(context, copy), nest.copy(copy).span, why.text(nest)).edits([Edit::remove()])
}

/// The directive that stages a copy.
fn staged_by<'c>(context: &'c Context<'_>, copy: CopyId) -> Option<&'c Directive> {
    let name = context.nest.copy_name(copy);
    context.last(|k| matches!(k, DirectiveKind::Stage(directive::Stage { buffer, at: Some(_), .. }) if *buffer == name))
}

/// What the rows of a copy have against the instruction that copies them.
fn rows(context: &Context<'_>, copy: CopyId) -> Option<Diagnostic> {
    let nest = context.nest;
    let name = nest.copy_name(copy);
    let by = context.last(
        |k| matches!(k, DirectiveKind::Stage(directive::Stage { buffer, at: Some(_), space: Space::Shared, .. }) if *buffer == name),
    )?;
    let DirectiveKind::Stage(stage) = &by.kind else { return None };
    let request = Request::of(stage, by.span);
    let failed = |body| check_rows(nest, &request, (copy, body)).err();
    let failure = nest.bodies(copy).into_iter().find_map(failed)?;
    let diagnostic = with_parent(Diagnostic { span: by.span, ..*failure.diagnostic }, by);
    Some(match context.last(|k| matches!(k, DirectiveKind::SplitK(_))) {
        Some(split) => diagnostic.note(split.span, "CTAs share out its steps here, each as many"),
        None => diagnostic,
    })
}

fn sides(context: &Context<'_>, boxes: &Boxes, copy: CopyId) -> Option<Diagnostic> {
    let nest = context.nest;
    let info = nest.copy(copy);
    let contiguous = nest.contiguous(info.tensor);
    let (long, points) = boxes.of_copy(copy).find_map(|of| {
        of.sides(TileSize::Whole).into_iter().enumerate().find(|(_, points)| *points > BOX_POINTS)
    })?;
    let (name, by) = (nest.copy_name(copy), staged_by(context, copy));
    if long != contiguous {
        let text = format!(
            "dimension {long} of the copy of `{name}` has {points} points: a box of a tensor map has at most {BOX_POINTS}"
        );
        let plain = by.and_then(|d| match d.kind.clone() {
            DirectiveKind::Stage(directive::Stage { buffer, at, space, transposed, vector, .. }) => {
                let via = Via::Plain;
                Some(Edit::instead([directive::Stage { buffer, at, space, transposed, via, vector }]))
            }
            _ => None,
        });
        return Some(context.at(by, info.span, text).edits(plain).edits([Edit::remove()]));
    }
    let text = format!(
        "a row of the copy of `{name}` has {points} points: a box of a tensor map has at most {BOX_POINTS}, and a swizzle would cut it into panels"
    );
    let swizzles = [128, 64, 32].map(|span| Edit::put([directive::Swizzle { buffer: name.clone(), span }]));
    Some(context.at(by, info.span, text).edits(swizzles).edits([Edit::remove()]))
}

//! Boxes of tensor maps: no side is longer than the hardware takes, once it is known which rows a swizzle cuts into panels.

use super::Context;
use crate::{
    diagnostic::{Diagnostic, Edit},
    nest::{BOX_POINTS, CopyId},
    schedule::{DirectiveKind, Space, Via},
};

pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let copies = (0..).map(CopyId).zip(&context.nest.copies);
    let boxed = copies.filter(|(_, c)| c.space == Space::Shared && c.via == Via::Tma);
    boxed.filter_map(|(copy, _)| of(context, copy)).collect()
}

fn of(context: &Context<'_>, copy: CopyId) -> Option<Diagnostic> {
    let nest = context.nest;
    let info = nest.copy(copy);
    let contiguous = nest.contiguous(info.tensor);
    let row = nest.bodies(copy).into_iter().find_map(|body| {
        let layout = nest.copy_layout(copy, body)?;
        let points = layout.panel.or(layout.extents.get(contiguous).copied())?;
        (points > BOX_POINTS).then_some(points)
    })?;
    let name = &nest.tensor(info.tensor).name;
    let by =
        context.last(|k| matches!(k, DirectiveKind::Stage { buffer, at: Some(_), .. } if buffer == name));
    let text = format!(
        "a row of the copy of `{name}` has {row} points: a box of a tensor map has at most {BOX_POINTS}, and a swizzle would cut it into panels"
    );
    let swizzles =
        [128, 64, 32].map(|span| Edit::put([DirectiveKind::Swizzle { buffer: name.clone(), span }]));
    Some(context.at(by, info.span, text).edits(swizzles).edits([Edit::instead([])]))
}

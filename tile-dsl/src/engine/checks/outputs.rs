//! Tiles that are collected before they are stored: they have a size, and are complete when the CTA is done with them.

use super::Context;
use crate::{
    diagnostic::{Diagnostic, Edit},
    nest::{Frame, LoopKind, Steps, Target, leaves, loops},
    schedule::{DirectiveKind, Unit},
};

/// Points of a dimension of a box of a tensor map (`cuTensorMapEncodeTiled`).
const BOX_POINTS: u64 = 256;

pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    context.nest.outputs.keys().filter_map(|tensor| of(context, *tensor)).collect()
}

fn of(context: &Context<'_>, tensor: crate::tile::TensorId) -> Option<Diagnostic> {
    let nest = context.nest;
    let name = &nest.tensor(tensor).name;
    let span = nest.outputs[&tensor].span;
    let by = context.last(|k| matches!(k, DirectiveKind::Stage { buffer, .. } if buffer == name));
    let wrong = |text: String| Some(context.at(by, span, text).edits([Edit::instead([])]));
    let mut runs = None;
    leaves(&nest.body, &mut |path: &[Frame], leaf| {
        if matches!(leaf.leaf(), Some((Target::Access(a), _)) if nest.access(a).tensor == tensor) {
            runs = runs.or_else(|| {
                path.iter().find_map(|f| match f {
                    Frame::For(d, LoopKind::Seq | LoopKind::Pipe(_)) if d.steps != Steps::Fixed(1) => {
                        Some(*d)
                    }
                    _ => None,
                })
            });
        }
    });
    if let Some(digit) = runs {
        let loop_ = nest.digit_name(digit);
        let text = format!(
            "`{name}` is stored in the loop over `{loop_}`, step by step: a tile that is collected first has no loop at run time around it"
        );
        let unroll = (digit.steps != Steps::Rest)
            .then(|| Edit::put([DirectiveKind::Unroll { digit: loop_, within: Some(name.clone()) }]));
        return Some(context.at(by, span, text).edits(unroll).edits([Edit::instead([])]));
    }
    let Some(layout) = nest.output_layout(tensor) else {
        return wrong(format!("a tile of `{name}` has no size"));
    };
    let size = u64::from(nest.elem(tensor).bytes());
    let row = layout.extents.get(nest.contiguous(tensor)).copied().unwrap_or(1);
    if row * size % 16 != 0 {
        return wrong(format!(
            "a row of the tile of `{name}` has {row} elements of {size} bytes = {} bytes: a tensor map moves multiples of 16",
            row * size
        ));
    }
    let first = |f: &crate::nest::Digit| {
        let access = nest.stored_access(tensor).map(|a| nest.access(a));
        let along = access.and_then(|a| a.index.get(nest.contiguous(tensor)).cloned());
        along.is_some_and(|i| (i.coefficient(f.axis) * i64::from(f.stride) * size as i64) % 16 != 0)
    };
    let grid = loops(&nest.body).into_iter().filter(|(_, at)| matches!(at, LoopKind::Unit(Unit::Block, _)));
    if let Some((digit, _)) = grid.into_iter().find(|(d, _)| first(d)) {
        return wrong(format!(
            "a step of `{}` moves the tile of `{name}` by {} bytes: a tensor map moves multiples of 16",
            nest.digit_name(digit),
            u64::from(digit.stride) * size
        ));
    }
    let swizzle = u64::from(nest.outputs[&tensor].swizzle);
    if swizzle > 0 && row * size % swizzle != 0 {
        let by = context.last(|k| matches!(k, DirectiveKind::Swizzle { buffer, .. } if buffer == name));
        let text = format!(
            "a row of the tile of `{name}` is {} bytes long, not a multiple of the swizzle's {swizzle}",
            row * size
        );
        let spans = [64, 32].into_iter().filter(|s| row * size % u64::from(*s) == 0);
        let edits = spans.map(|span| Edit::instead([DirectiveKind::Swizzle { buffer: name.clone(), span }]));
        return Some(context.at(by, span, text).edits(edits).edits([Edit::instead([])]));
    }
    let width = |d: usize, n: u64| if d == layout.contiguous { layout.panel.unwrap_or(n) } else { n };
    let long = layout.extents.iter().enumerate().find(|(d, n)| width(*d, **n) > BOX_POINTS);
    if let Some((d, n)) = long {
        return wrong(format!(
            "dimension {d} of the tile of `{name}` has {n} points: a box of a tensor map has at most {BOX_POINTS}"
        ));
    }
    if !nest.across.is_empty() {
        return wrong(format!(
            "CTAs share the sums that `{name}` holds: the last one stores, and no tile is collected"
        ));
    }
    None
}

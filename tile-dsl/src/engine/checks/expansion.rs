//! Length of the code: loops expanded while compiling, and the rounds of copies, are written out once for each step.

use super::Context;
use crate::{
    diagnostic::{Diagnostic, Edit},
    directive::{self, DirectiveKind},
    machine::Via,
    nest::{CopyId, Digit, Expr, Frame, Nest, Steps, Stmt, TileSize, leaves},
    span::SpanId,
};

/// The most operations of straight-line code: LLVM and ptxas take seconds for so many. A large register tile has a few
/// thousand.
const MOST: u64 = 32_768;

/// Operations of one element of a copy: its address, load and store.
const COPY: u64 = 2;

/// Operations of one step of a statement.
fn operations(leaf: &Stmt) -> u64 {
    let mut count = 1;
    leaf.leaf().expect("a leaf").1.visit(&mut |e| {
        count += u64::from(!matches!(
            e,
            Expr::Const(..) | Expr::Get(_) | Expr::Scalar(_) | Expr::Edge(..) | Expr::Dim(_)
        ));
    });
    count
}

/// Steps of a loop that is written out, the `n`-th frame of a path, if it is: a pipeline of registers is one, too.
fn written_out(nest: &Nest, path: &[Frame], n: usize) -> Option<(Digit, u32)> {
    let Frame::For(digit, at) = path[n] else { return None };
    let copy = if let Some(Frame::Stage(c)) = path.get(n + 1) { Some(*c) } else { None };
    let runs = nest.runs(at, copy);
    match digit.steps {
        Steps::Fixed(steps) if runs.is_expanded() => Some((digit, steps)),
        _ => None,
    }
}

/// Steps of the loops among the first `end` frames of a path that are written out.
fn expanded(nest: &Nest, path: &[Frame], end: usize) -> u64 {
    let steps = (0..end).filter_map(|n| written_out(nest, path, n)).map(|(_, steps)| u64::from(steps));
    steps.fold(1, u64::saturating_mul)
}

pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let threads = context.plan.threads();
    let (mut total, mut largest) = (0u64, (0u64, String::new(), None));
    let mut copies: Vec<CopyId> = Vec::new();
    leaves(&nest.body, &mut |path, leaf| {
        let (steps, each) = (expanded(nest, path, path.len()), operations(leaf));
        let all = steps.saturating_mul(each);
        total = total.saturating_add(all);
        if all > largest.0 {
            let spelled = |(digit, steps)| format!("{}: {steps}", nest.digit_name(digit));
            let loops = (0..path.len()).filter_map(|n| written_out(nest, path, n)).map(spelled);
            let loops = loops.collect::<Vec<String>>().join(" · ");
            largest =
                (all, format!("{steps} steps of unrolled loops ({loops}) of {each} operations each"), None);
        }
        for (n, frame) in path.iter().enumerate() {
            let Frame::Stage(copy) = frame else { continue };
            if copies.contains(copy) {
                continue;
            }
            copies.push(*copy);
            if nest.copy(*copy).via == Via::Tma {
                // One thread issues its boxes.
                let pieces = context.plan.boxes().of_copy(*copy).map(|of| of.pieces(TileSize::Whole)).max();
                let all = pieces.unwrap_or(0).saturating_mul(expanded(nest, path, n));
                total = total.saturating_add(all);
                continue;
            }
            let Some(elems) = nest.copy_elems(*copy) else { continue };
            // Each by itself: so a variant without vectors copies.
            let each = elems.div_ceil(threads);
            let all = each.saturating_mul(expanded(nest, path, n)).saturating_mul(COPY);
            total = total.saturating_add(all);
            if all > largest.0 {
                let name = nest.copy_name(*copy);
                let text =
                    format!("a thread copies {each} elements of `{name}` ({elems} by {threads} threads)");
                largest = (all, text, Some(*copy));
            }
        }
    });
    if total <= MOST {
        return Vec::new();
    }
    let (_, what, copy) = largest;
    let by = match copy {
        Some(copy) => {
            let name = nest.copy_name(copy);
            context.last(
                |k| matches!(k, DirectiveKind::Stage(directive::Stage { buffer, .. }) if *buffer == name),
            )
        }
        None => context
            .last(|k| matches!(k, DirectiveKind::Unroll(_)))
            .or_else(|| context.last(|k| matches!(k, DirectiveKind::Tile(_) | DirectiveKind::Split(_)))),
    };
    let text = format!("a thread's unrolled code would have {total} operations, more than {MOST}: {what}");
    let diagnostic = context.at(by, SpanId::NONE, text);
    let shrink = total.div_ceil(MOST);
    let unrolled = by.filter(|d| matches!(d.kind, DirectiveKind::Unroll(_))).map(|_| Edit::remove());
    let smaller = context.smaller_tiles(shrink, |_| true).into_iter().chain(context.smaller_bounds(shrink));
    vec![diagnostic.remark("more threads shorten it, too").edits(unrolled.into_iter().chain(smaller))]
}

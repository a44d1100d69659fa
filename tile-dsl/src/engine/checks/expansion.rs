//! Length of the code: loops expanded while compiling, and the rounds of copies, are written out once for each step.

use super::{Context, threads::dimensions};
use crate::{
    diagnostic::Diagnostic,
    nest::{At, CopyId, Frame, Nest, Steps, leaves},
    schedule::DirectiveKind,
    span::SpanId,
};

/// The most elements that straight-line code may treat; a large register tile has a few thousand.
const MOST: u64 = 16_384;

/// Steps of the expanded loops among some frames.
fn expanded(path: &[Frame]) -> u64 {
    let steps = path.iter().map(|frame| match frame {
        Frame::For(digit, At::Unroll | At::Serpentine | At::Vec) => match digit.steps {
            Steps::Fixed(n) => u64::from(n),
            Steps::Rest => 1,
        },
        _ => 1,
    });
    steps.fold(1, u64::saturating_mul)
}

pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let threads = dimensions(nest).values().map(|(n, _)| u64::from(*n)).product::<u64>();
    let (mut total, mut largest) = (0u64, (0u64, String::new(), None));
    let mut copies: Vec<CopyId> = Vec::new();
    leaves(&nest.body, &mut |path, _| {
        let elements = expanded(path);
        total = total.saturating_add(elements);
        if elements > largest.0 {
            let loops: Vec<String> = path.iter().filter_map(|frame| spelled(nest, frame)).collect();
            largest =
                (elements, format!("{} steps of expanded loops ({})", elements, loops.join(" · ")), None);
        }
        for (n, frame) in path.iter().enumerate() {
            let Frame::Stage(copy) = frame else { continue };
            if copies.contains(copy) {
                continue;
            }
            copies.push(*copy);
            let Some(elems) = nest.copy_elems(*copy) else { continue };
            let each = elems.div_ceil(threads);
            let elements = each.saturating_mul(expanded(&path[..n]));
            total = total.saturating_add(elements);
            if elements > largest.0 {
                let name = &nest.tensor(nest.copy(*copy).tensor).name;
                let text =
                    format!("a thread copies {elements} elements of `{name}` ({elems} by {threads} threads)");
                largest = (elements, text, Some(*copy));
            }
        }
    });
    if total <= MOST {
        return Vec::new();
    }
    let (_, what, copy) = largest;
    let by = match copy {
        Some(copy) => {
            let name = &nest.tensor(nest.copy(copy).tensor).name;
            context.last(|k| matches!(k, DirectiveKind::Stage { buffer, .. } if buffer == name))
        }
        None => context.last(|k| matches!(k, DirectiveKind::Unroll { .. })).or_else(|| {
            context.last(|k| matches!(k, DirectiveKind::Tile { .. } | DirectiveKind::Split { .. }))
        }),
    };
    let text =
        format!("a thread's code would treat {total} elements one after the other, more than {MOST}: {what}");
    let diagnostic = context.at(by, SpanId::NONE, text);
    match context.smaller_tile(|_| true).or_else(|| context.smaller_bound()) {
        Some(fix) => {
            vec![diagnostic.help(format!("`{fix}` is short enough, and more threads shorten it too"))]
        }
        None => vec![diagnostic.help("bind a loop to more threads, or unroll fewer")],
    }
}

/// `d5: 2`.
fn spelled(nest: &Nest, frame: &Frame) -> Option<String> {
    match frame {
        Frame::For(digit, At::Unroll | At::Serpentine | At::Vec) => match digit.steps {
            Steps::Fixed(n) => Some(format!("{}: {n}", nest.digit_name(*digit))),
            Steps::Rest => None,
        },
        _ => None,
    }
}

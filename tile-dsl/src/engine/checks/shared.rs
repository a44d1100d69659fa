//! Shared memory of a CTA: copies with their padding and depth, values held there, and room to combine.

use super::Context;
use crate::{
    diagnostic::{Diagnostic, Edit, list},
    directive::{self, DirectiveKind},
    nest::{Across, Nest, WIDEST},
    shared::{Allocation, Buffer, Content, Size},
};

/// Shared memory of a nest in bytes.
pub(crate) fn bytes(nest: &Nest) -> u64 {
    Allocation::of_nest(nest).bytes
}

/// The tensor or value that a buffer is for.
fn name(nest: &Nest, buffer: &Buffer) -> String {
    match buffer.content {
        Content::Copy(copy) | Content::Full(copy) | Content::Empty(copy) => nest.copy_name(copy),
        Content::Output(tensor, _) => nest.tensor(tensor).name.clone(),
        Content::Turn => "turn".into(),
        Content::Numbers | Content::NumberFull | Content::NumberEmpty => "number".into(),
        Content::Verdict => "verdict".into(),
        Content::Again => "again".into(),
        Content::Ticket => "ticket".into(),
        Content::Value(value) | Content::Partial(value) | Content::Parts(value) | Content::Before(value) => {
            nest.value(value).name.clone()
        }
    }
}

/// How the bytes of a buffer come about.
fn spelled(nest: &Nest, buffer: &Buffer) -> String {
    let size = u64::from(buffer.dtype.bytes());
    let product = |parts: &[String]| format!("{} · {size} B", parts.join(" · "));
    match (&buffer.size, buffer.content) {
        (Size::Copy { dims, layout, depth }, Content::Copy(copy)) => {
            let pad = u64::from(nest.copy(copy).pad) / size;
            let padded = |d: &usize| match pad {
                pad if pad > 0 && *d == layout.contiguous => format!("({} + {pad})", dims[*d]),
                _ => dims[*d].to_string(),
            };
            let mut text = product(&layout.order.iter().map(padded).collect::<Vec<_>>());
            if *depth > 1 {
                text.push_str(&format!(" · {depth} stages"));
            }
            let slower = layout.order.iter().take_while(|d| **d != layout.contiguous);
            let rows = slower.map(|d| dims[*d]).fold(pad, u64::saturating_mul);
            let held = dims.iter().copied().fold(1, u64::saturating_mul).saturating_add(rows);
            if layout.stage(*depth, size) > held {
                let unit = u64::from(layout.align).max(WIDEST);
                let each = if *depth > 1 { ", each" } else { "," };
                text.push_str(&format!("{each} rounded up to {unit} B"));
            }
            text
        }
        (Size::Barriers(count), _) => format!("{count} mbarriers · 8 B"),
        (Size::Partial { places, elems }, _) => format!("{places} · {elems} · {size} B to combine"),
        (Size::Parts { others, threads, elems }, _) => {
            format!("{threads} · {elems} · {size} B from each of {others} CTAs")
        }
        (Size::Value(parts) | Size::Copy { dims: parts, .. }, _) => {
            product(&parts.iter().map(u64::to_string).collect::<Vec<_>>())
        }
    }
}

pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let allocation = context.shared();
    let total = allocation.bytes;
    let target = context.schedule.target;
    let most = u64::from(target.shared_bytes());
    if total <= most {
        return Vec::new();
    }
    let pile = allocation.pile();
    let parts: Vec<String> =
        pile.iter().map(|u| format!("`{}`: {} = {} B", name(nest, u), spelled(nest, u), u.bytes())).collect();
    let largest = pile.iter().max_by_key(|u| u.bytes()).expect("more than nothing");
    let largest_name = name(nest, largest);
    let by = context
        .last(|k| matches!(k, DirectiveKind::Stage(directive::Stage { buffer, .. }) if *buffer == largest_name))
        .or_else(|| match largest.content {
            Content::Parts(_) => context.last(|k| matches!(k, DirectiveKind::SplitK(_))),
            _ => context.last(|k| matches!(k, DirectiveKind::Reduce(directive::Reduce { value, .. }) if *value == largest_name)),
        });
    let text = format!(
        "{total} bytes of shared memory, but a CTA on {target} has {most} ({} KB): {}",
        most / 1024,
        parts.join(", ")
    );
    let mut diagnostic = context.at(by, largest.span, text);
    for (n, other) in pile.iter().enumerate().filter(|(_, u)| name(nest, u) != largest_name) {
        let alike = |u: &&&Buffer| name(nest, u) == name(nest, other);
        if !pile[..n].iter().any(|u| alike(&u)) {
            let bytes: u64 = pile.iter().filter(alike).map(|u| u.bytes()).sum();
            let text = format!("`{}` takes {bytes} bytes", name(nest, other));
            diagnostic = diagnostic.note(other.span, text);
        }
    }
    for other in allocation.buffers.iter().filter(|b| !pile.iter().any(|p| std::ptr::eq(*p, *b))) {
        let hosts: Vec<String> = pile.iter().filter(|p| p.overlaps(other)).map(|p| name(nest, p)).collect();
        let text = format!(
            "`{}` takes {} bytes among those of {}, at another time",
            name(nest, other),
            other.bytes(),
            list(&hosts)
        );
        diagnostic = diagnostic.note(other.span, text);
    }
    // What CTAs of a cluster store for one another, through global memory.
    let through = context.schedule.directives.iter().filter_map(|d| match (&d.kind, largest.content) {
        (DirectiveKind::SplitK(directive::SplitK { digit, parts, .. }), Content::Parts(_)) => {
            let (digit, parts, across) = (digit.clone(), *parts, Across::Workspace);
            Some(Edit::put([directive::SplitK { digit, parts, across }]))
        }
        _ => None,
    });
    // As many stages of a pipeline as fit, if two do.
    let shrink = total.div_ceil(most);
    let fewer = context.schedule.directives.iter().filter_map(|d| match &d.kind {
        DirectiveKind::Pipeline(directive::Pipeline { digit, stages }) => {
            let stages = u32::try_from(u64::from(*stages) * most / total).unwrap_or(0);
            (stages >= 2).then(|| Edit::put([directive::Pipeline { digit: digit.clone(), stages }]))
        }
        _ => None,
    });
    // What is combined goes to global memory then.
    let own = |tensor| nest.private.contains_key(&tensor).then(Edit::remove);
    let without = match largest.content {
        Content::Output(tensor, _) => own(tensor),
        _ => None,
    };
    let axes: Vec<&str> = nest.kernel.axes.iter().map(|a| a.name.as_str()).collect();
    let program =
        |a: &str| nest.kernel.axes.iter().any(|x| x.name == a && x.kind == crate::tile::AxisKind::Program);
    // A smaller tile of a loop keeps what a CTA computes; only then a smaller tile of the output.
    let inner = context.smaller_tiles(shrink, |a| axes.contains(&a) && !program(a));
    vec![diagnostic.edits(
        through.chain(fewer).chain(inner).chain(context.smaller_tiles(shrink, program)).chain(without),
    )]
}

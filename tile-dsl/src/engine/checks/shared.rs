//! Shared memory of a CTA: copies with their padding and depth, values held there, and room to combine.

use super::{Context, registers::lets};
use crate::{
    diagnostic::{Diagnostic, Edit},
    lower::places,
    nest::{At, Copy, CopyId, CopyLayout, Nest, Placement, SWIZZLE_LINE, Steps, Stmt, WIDEST},
    schedule::{DirectiveKind, Space},
    span::SpanId,
};
use std::collections::BTreeSet;

/// One user of shared memory.
pub(super) struct Use {
    /// Name of the tensor or value.
    name: String,
    /// How its bytes come about.
    spelled: String,
    bytes: u64,
    /// Source of the directive or statement.
    span: SpanId,
}

/// Shared memory of a nest in bytes, an upper bound: buffers are not overlaid.
pub(in crate::engine) fn bytes(nest: &Nest) -> u64 {
    uses(nest).iter().map(|u| u.bytes).sum()
}

pub(super) fn uses(nest: &Nest) -> Vec<Use> {
    let mut all = Vec::new();
    let mut sizes = BTreeSet::new();
    for (copy, depth, body) in staged(nest) {
        let info = nest.copy(copy);
        if info.space != Space::Shared {
            continue;
        }
        let Some(layout) = nest.copy_layout(copy, body) else { continue };
        // Places of a copy share a buffer if they need as much of it.
        if !sizes.insert((copy, depth, layout.elems)) {
            continue;
        }
        let dims: Vec<u64> = nest.footprint(info.tensor, body).iter().filter_map(|d| d.extent).collect();
        let size = u64::from(nest.elem(info.tensor).bytes());
        let padded = |d: usize| match info.pad {
            pad if pad > 0 && d == layout.contiguous => format!("({} + {})", dims[d], u64::from(pad) / size),
            _ => dims[d].to_string(),
        };
        let parts: Vec<String> = layout.order.iter().map(|d| padded(*d)).collect();
        let mut spelled = format!("{} · {size} B", parts.join(" · "));
        if depth > 1 {
            spelled.push_str(&format!(" · {depth} stages"));
        }
        let held = dims.iter().product::<u64>() + layout_padding(nest, info, &dims, &layout);
        let slot = layout.slot(depth, size);
        if slot > held {
            let unit = if info.swizzle > 0 { SWIZZLE_LINE } else { WIDEST };
            let each = if depth > 1 { ", each" } else { "," };
            spelled.push_str(&format!("{each} rounded up to {unit} B"));
        }
        let bytes = (slot * size * u64::from(depth)).next_multiple_of(layout.align.into());
        all.push(Use { name: nest.tensor(info.tensor).name.clone(), spelled, bytes, span: info.span });
    }
    lets(nest, &mut |v, _, inside| {
        let value = nest.value(v);
        let steps: Option<Vec<u64>> = inside
            .iter()
            .map(|(d, _)| if let Steps::Fixed(n) = d.steps { Some(u64::from(n)) } else { None })
            .collect();
        if let (Placement::Shared, Some(steps)) = (value.placement, steps) {
            let size = u64::from(value.dtype.bytes());
            let parts: Vec<String> = steps.iter().map(u64::to_string).collect();
            let spelled = format!("{} · {size} B", parts.join(" · "));
            let bytes = (steps.iter().product::<u64>() * size).next_multiple_of(WIDEST);
            all.push(Use { name: value.name.clone(), spelled, bytes, span: value.span });
        }
    });
    for v in nest.combine.keys() {
        let value = nest.value(*v);
        let (places, elems) = (places(nest, *v), elems(nest, *v));
        if places > 0 {
            let size = u64::from(value.dtype.bytes());
            let spelled = format!("{places} · {elems} · {size} B to combine");
            all.push(Use {
                name: value.name.clone(),
                spelled,
                bytes: (places * elems * size).next_multiple_of(WIDEST),
                span: value.span,
            });
        }
    }
    all
}

/// Elements of padding in a copy.
fn layout_padding(nest: &Nest, copy: &Copy, dims: &[u64], layout: &CopyLayout) -> u64 {
    let pad = u64::from(copy.pad) / u64::from(nest.elem(copy.tensor).bytes());
    let slower = layout.order.iter().take_while(|d| **d != layout.contiguous);
    pad * slower.map(|d| dims[*d]).product::<u64>()
}

/// Elements of a value that a thread holds in registers, or that a CTA holds in shared memory.
fn elems(nest: &Nest, v: crate::nest::ValueId) -> u64 {
    let shared = nest.value(v).placement == Placement::Shared;
    let mut elems = 1;
    lets(nest, &mut |w, _, inside| {
        if w == v {
            elems = inside
                .iter()
                .filter(|(_, at)| shared || !matches!(at, At::Unit(..)))
                .map(|(d, _)| if let Steps::Fixed(n) = d.steps { u64::from(n) } else { 1 })
                .product();
        }
    });
    elems
}

/// Copies at all their places: with the depth of the loop that they stand in, and their bodies.
fn staged(nest: &Nest) -> Vec<(CopyId, u32, &Stmt)> {
    fn go<'a>(stmt: &'a Stmt, depth: u32, out: &mut Vec<(CopyId, u32, &'a Stmt)>) {
        match stmt {
            Stmt::For { at, body, .. } => go(body, if let At::Pipe(n) = at { *n } else { 1 }, out),
            Stmt::Stage { copy, body } => {
                out.push((*copy, depth, body));
                go(body, depth, out);
            }
            Stmt::Let { first, rest, .. } => {
                go(first, 1, out);
                go(rest, 1, out);
            }
            _ => {}
        }
    }
    let mut out = Vec::new();
    go(&nest.body, 1, &mut out);
    out
}

pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let uses = uses(nest);
    let total: u64 = uses.iter().map(|u| u.bytes).sum();
    let target = context.schedule.target;
    let most = u64::from(target.shared_bytes());
    if total <= most {
        return Vec::new();
    }
    let parts: Vec<String> =
        uses.iter().map(|u| format!("`{}`: {} = {} B", u.name, u.spelled, u.bytes)).collect();
    let largest = uses.iter().max_by_key(|u| u.bytes).expect("more than nothing");
    let by = context
        .last(|k| matches!(k, DirectiveKind::Stage { buffer, .. } if *buffer == largest.name))
        .or_else(|| {
            context.last(|k| matches!(k, DirectiveKind::Reduce { value, .. } if *value == largest.name))
        });
    let text = format!(
        "{total} bytes of shared memory, but a CTA on {target} has {most} ({} KB): {}",
        most / 1024,
        parts.join(", ")
    );
    let mut diagnostic = context.at(by, largest.span, text);
    for other in uses.iter().filter(|u| u.name != largest.name) {
        diagnostic = diagnostic.note(other.span, format!("`{}` takes {} bytes", other.name, other.bytes));
    }
    // As many stages of a pipeline as fit, if two do.
    let shrink = total.div_ceil(most);
    let fewer = context.schedule.directives.iter().filter_map(|d| match &d.kind {
        DirectiveKind::Pipeline { digit, stages } => {
            let stages = u32::try_from(u64::from(*stages) * most / total).unwrap_or(0);
            (stages >= 2).then(|| Edit::put([DirectiveKind::Pipeline { digit: digit.clone(), stages }]))
        }
        _ => None,
    });
    let axes: Vec<&str> = nest.kernel.axes.iter().map(|a| a.name.as_str()).collect();
    let program =
        |a: &str| nest.kernel.axes.iter().any(|x| x.name == a && x.kind == crate::tile::AxisKind::Program);
    // A smaller tile of a loop keeps what a CTA computes; only then a smaller tile of the output.
    let inner = context.smaller_tiles(shrink, |a| axes.contains(&a) && !program(a));
    vec![diagnostic.edits(fewer.chain(inner).chain(context.smaller_tiles(shrink, program)))]
}

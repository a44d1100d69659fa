//! Clusters: the CTAs of one have something to share, and whole parts of it each.

use super::Context;
use crate::{
    diagnostic::{Diagnostic, Edit, list},
    nest::{CopyId, LoopKind, loops},
    schedule::DirectiveKind,
    span::SpanId,
    tile::AxisKind,
};

pub(super) fn check(context: &Context<'_>) -> Option<Diagnostic> {
    let nest = context.nest;
    let rank = nest.cluster.filter(|_| !nest.cluster_reduces())?;
    let (axis, ctas) = (nest.axis(rank.axis), nest.cluster_ctas());
    let by = context.last(|k| matches!(k, DirectiveKind::Cluster { .. }));
    let at = |text: String| context.at(by, SpanId::NONE, text);
    if nest.producer.is_none() {
        let pipes = loops(&nest.body).into_iter().filter(|(_, kind)| matches!(kind, LoopKind::Pipe(_)));
        let produce = pipes.map(|(d, _)| {
            let (digit, unit) = (nest.digit_name(d), crate::schedule::Unit::Warp);
            Edit::put([DirectiveKind::Produce { digit, unit }])
        });
        let text = "the CTAs of a cluster share what their producers copy: there is no producer";
        return Some(at(text.into()).edits(produce).edits([Edit::instead([])]));
    }
    let copies: Vec<CopyId> = nest.produced.iter().flat_map(|d| nest.copies_in(*d)).collect();
    let shared: Vec<CopyId> = copies.iter().copied().filter(|c| nest.is_shared(*c)).collect();
    if shared.is_empty() {
        let names: Vec<String> = copies.iter().map(|c| nest.copy_name(*c)).collect();
        let text = format!(
            "tiles of {} move with `{axis}`: CTAs that are neighbours along it have no copy in common",
            list(&names)
        );
        let others = nest.kernel.axes.iter().filter(|a| a.kind == AxisKind::Program && a.name != axis);
        let along = others.map(|a| {
            let axis = a.name.clone();
            Edit::instead([DirectiveKind::Cluster { axis, ctas }])
        });
        return Some(at(text).edits(along).edits([Edit::instead([])]));
    }
    let boxes = context.boxes.as_ref().ok()?;
    shared.into_iter().find_map(|copy| {
        let extents = &boxes.of_copy(copy).find(|of| of.part.is_none())?.layout.extents;
        let spelled: Vec<String> = extents.iter().map(u64::to_string).collect();
        let name = nest.copy_name(copy);
        let text = format!(
            "a tile of `{name}`, {}, does not come apart into {ctas} boxes that begin at multiples of 128 bytes: no CTA of a cluster could copy its part",
            spelled.join(" × ")
        );
        let span = nest.copy(copy).span;
        let diagnostic = at(text).note(span, format!("`{name}` is staged here"));
        Some(diagnostic.edits([Edit::instead([])]))
    })
}

//! `cluster`: CTAs of neighbouring tiles run side by side and share what they copy alike.
//!
//! ```text
//! (for i.o X)  →  (for i.cluster (for i.cta#block X))
//! ```
//! The steps of `i.cta` are the CTAs of a cluster.
//! Conditions: 2 to 8 CTAs, along one program axis; no reduction has a cluster of its own. That there is something to share, the complete
//! schedule shows.
//! Cost: CTAs of a cluster start together and wait for one another.
//! Source: PTX ISA 3.2.2 (cluster of cooperative thread arrays), CUDA C++ Programming Guide (thread block clusters).

use super::prelude::*;
use crate::{
    diagnostic::list,
    engine::{
        families::{bind, split},
        names,
    },
    machine::{Target, Unit, UnitDim},
    nest::{CopyId, LoopKind, loops},
    tile::AxisKind,
};

directive! {
    /// `cluster(i: 2)`: the CTAs of so many neighbouring tiles of an axis share what they copy alike.
    "cluster(i: 2)" in Launch, 0:
    Cluster { axis: String, ctas: u32 } => |s| s.one(axis, "an axis").mark(":").number(ctas)
}

impl Definition for Cluster {
    const CHECK: Option<Check> = Some((Shows::Clusters, check));

    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        apply(nest, &self.axis, self.ctas)
    }

    fn target(&self) -> Option<(String, Target)> {
        Some(("a cluster".into(), Target::CLUSTERS))
    }
}

impl Drawn for Cluster {
    fn beside(_: Kind) -> &'static [&'static [Kind]] {
        &[&[Kind::Mma, Kind::Wgmma, Kind::BindThread, Kind::BindLane], PRODUCERS]
    }

    fn candidates(_: Kind, generator: &mut Generator<'_>, _: &Wish<'_>) -> Vec<DirectiveKind> {
        let ctas = *generator.random.pick(&[2, 2, 2, 4]);
        generator.program_axes().into_iter().map(|axis| Cluster { axis, ctas }.into()).collect()
    }
}

/// CTAs of a cluster that every GPU has room for.
pub(crate) const MOST: u32 = 8;

/// `cluster(axis: ctas)`.
fn apply(nest: &Nest, axis: &str, ctas: u32) -> Result<(Nest, Proof), Failure> {
    let refuse = |text: String| Failure::refused(Diagnostic::new(SpanId::NONE, text));
    let id = names::axis(nest, axis)?;
    if !(2..=MOST).contains(&ctas) {
        let near =
            DirectiveKind::Cluster(directive::Cluster { axis: axis.to_string(), ctas: ctas.clamp(2, MOST) });
        return Err(refuse(format!("cluster({axis}: {ctas}): a cluster has 2 to {MOST} CTAs"))
            .edit(Edit::instead([near]))
            .edit(Edit::remove()));
    }
    if nest.cluster_reduces() {
        let names: Vec<&str> = nest.across.keys().map(|v| nest.value(*v).name.as_str()).collect();
        let text = format!(
            "the CTAs that share {} are a cluster: a kernel is launched with clusters of one shape, and theirs is along the sum",
            names::list(&names)
        );
        return Err(refuse(text).edit(Edit::remove()));
    }
    if let Some(other) = nest.cluster {
        let first = nest.axis(other.axis).to_string();
        let text = format!(
            "CTAs along `{first}` are a cluster already: a kernel is launched with clusters of one shape, and all CTAs of one share a copy"
        );
        let ctas = nest.cluster_ctas().saturating_mul(ctas);
        let larger = (ctas <= MOST).then(|| Edit::instead([directive::Cluster { axis: first, ctas }]));
        return Err(refuse(text).edits(larger).edit(Edit::remove()));
    }
    if nest.kernel.axes[usize::from(id.0)].kind != AxisKind::Program {
        return Err(refuse(format!("tiles of `{axis}` are not shared out among CTAs")).edit(Edit::remove()));
    }
    let (tiles, clusters, rank) =
        (crate::nest::over_tiles(axis), format!("{axis}.cluster"), format!("{axis}.cta"));
    let whole = if nest.names.contains_key(&tiles) { tiles } else { axis.to_string() };
    let (split, mut proof) = split::apply(nest, &whole, &[clusters, rank.clone()], &[ctas])?;
    let digit = split.names[&rank];
    let (mut bound, more) = bind::bind_digit(&split, &rank, digit, Unit::Block, UnitDim::X)?;
    bound.cluster = Some(digit);
    // What was said of a CTA's tile holds of the same tile.
    let tile = nest.names.get(&whole).copied();
    if tile.is_some_and(|tile| bound.produced.remove(&tile)) {
        bound.produced.insert(digit);
    }
    if let Some(stages) = tile.and_then(|tile| bound.tile_stages.remove(&tile)) {
        bound.tile_stages.insert(digit, stages);
    }
    proof.facts.extend(more.facts);
    Ok((bound, proof))
}

/// The CTAs of a cluster have something to share, and whole parts of it each.
fn shared(context: &Context<'_>) -> Option<Diagnostic> {
    let nest = context.nest;
    let rank = nest.cluster.filter(|_| !nest.cluster_reduces())?;
    let (axis, ctas) = (nest.axis(rank.axis), nest.cluster_ctas());
    let by = context.last(|k| matches!(k, DirectiveKind::Cluster(_)));
    let at = |text: String| context.at(by, SpanId::NONE, text);
    if nest.producer.is_none() {
        let pipes = loops(&nest.body).into_iter().filter(|(_, kind)| matches!(kind, LoopKind::Pipe(_)));
        let produce = pipes.map(|(d, _)| {
            let (digit, unit) = (nest.digit_name(d), crate::machine::Unit::Warp);
            Edit::put([directive::Produce { digit, unit, stages: None }])
        });
        let text = "the CTAs of a cluster share what their producers copy: there is no producer";
        return Some(at(text.into()).edits(produce).edits([Edit::remove()]));
    }
    let copies: Vec<CopyId> = nest.produced.iter().flat_map(|d| nest.copies_in(*d)).collect();
    let shared: Vec<CopyId> = copies.iter().copied().filter(|c| nest.is_shared(*c)).collect();
    if shared.is_empty() {
        let names: Vec<String> = copies.iter().map(|c| nest.copy_name(*c)).collect();
        let text = format!(
            "tiles of {} depend on `{axis}`: neighbouring CTAs along it have no copy to share",
            list(&names)
        );
        let others = nest.kernel.axes.iter().filter(|a| a.kind == AxisKind::Program && a.name != axis);
        let along = others.map(|a| {
            let axis = a.name.clone();
            Edit::instead([directive::Cluster { axis, ctas }])
        });
        return Some(at(text).edits(along).edits([Edit::remove()]));
    }
    let boxes = context.plan.boxes();
    shared.into_iter().find_map(|copy| {
        let extents = &boxes.of_copy(copy).find(|of| of.part.is_none())?.layout.extents;
        let spelled: Vec<String> = extents.iter().map(u64::to_string).collect();
        let name = nest.copy_name(copy);
        let text = format!(
            "a tile of `{name}`, {}, cannot be divided into {ctas} boxes that start at multiples of 128 bytes: each CTA of the cluster copies one",
            spelled.join(" × ")
        );
        let span = nest.copy(copy).span;
        let diagnostic = at(text).note(span, format!("`{name}` is staged here"));
        Some(diagnostic.edits([Edit::remove()]))
    })
}

fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    shared(context).into_iter().collect()
}

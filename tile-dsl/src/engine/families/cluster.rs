//! `cluster`: CTAs of neighbouring tiles run side by side and share what they copy alike.
//!
//! ```text
//! (for i.o X)  →  (for i.cluster (for i.cta#block X))
//! ```
//! The steps of `i.cta` are the CTAs of a cluster. That there is something to share, the complete schedule shows.
//! Source: PTX ISA 3.2.2 (cluster of cooperative thread arrays), CUDA C++ Programming Guide (thread block clusters).

use super::{Failure, Proof, bind, split};
use crate::{
    diagnostic::{Diagnostic, Edit},
    engine::names,
    nest::Nest,
    schedule::{DirectiveKind, Unit, UnitDim},
    span::SpanId,
    tile::AxisKind,
};

/// CTAs of a cluster that every GPU has room for.
pub(super) const MOST: u32 = 8;

/// `cluster(axis: ctas)`.
pub(in crate::engine) fn apply(nest: &Nest, axis: &str, ctas: u32) -> Result<(Nest, Proof), Failure> {
    let refuse = |text: String| Failure::refused(Diagnostic::new(SpanId::NONE, text));
    let id = names::axis(nest, axis)?;
    if !(2..=MOST).contains(&ctas) {
        let near = DirectiveKind::Cluster { axis: axis.to_string(), ctas: ctas.clamp(2, MOST) };
        return Err(refuse(format!("cluster({axis}: {ctas}): a cluster has 2 to {MOST} CTAs"))
            .edit(Edit::instead([near]))
            .edit(Edit::instead([])));
    }
    if nest.cluster_reduces() {
        let names: Vec<&str> = nest.across.keys().map(|v| nest.value(*v).name.as_str()).collect();
        let text = format!(
            "the CTAs that share {} are a cluster: those of neighbouring tiles cannot be another",
            names::list(&names)
        );
        return Err(refuse(text).edit(Edit::instead([])));
    }
    if nest.cluster.is_some() {
        return Err(refuse("a kernel has one cluster, along one axis".into()).edit(Edit::instead([])));
    }
    if nest.kernel.axes[usize::from(id.0)].kind != AxisKind::Program {
        return Err(
            refuse(format!("tiles of `{axis}` are not shared out among CTAs")).edit(Edit::instead([]))
        );
    }
    let (tiles, clusters, rank) = (format!("{axis}.o"), format!("{axis}.cluster"), format!("{axis}.cta"));
    let whole = if nest.names.contains_key(&tiles) { tiles } else { axis.to_string() };
    let (split, mut proof) = split::apply(nest, &whole, &[clusters, rank.clone()], &[ctas])?;
    let digit = split.names[&rank];
    let (mut bound, more) = bind::bind_digit(&split, &rank, digit, Unit::Block, UnitDim::X)?;
    bound.cluster = Some(digit);
    proof.facts.extend(more.facts);
    Ok((bound, proof))
}

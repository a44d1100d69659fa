//! `persistent`: so many CTAs an SM take tile after tile.
//!
//! ```text
//! persistent(1)                tile t, t + n, t + 2n, ..             of n CTAs the one of number t
//! persistent(1, serpentine)    tile t, 2n - 1 - t, t + 2n, ..        every second round is taken backwards
//! ```
//! Where later tiles take longer, as the rows of a triangle do, a CTA that has a long tile in one round has a short one in the next.
//!
//! It rewrites no statement. Condition: 1 to 32. That no CTAs share a reduction, and that groups that take tiles in turn (`pingpong`) have no rounds backwards, the complete
//! schedule shows.
//! Cost: a loop over tiles; the last round may be shorter.
//! Source: CUTLASS, efficient GEMM (warp specialisation, cooperative and ping-pong kernels).

use super::prelude::*;
use crate::{engine::families::assume::refuse, nest::Across};

directive! {
    /// `persistent(1)`: so many CTAs an SM take tile after tile.
    "persistent(1)" in Launch, 0:
    Persistent { ctas: u32, serpentine: bool } => |s| {
        s.number(ctas).options(&mut [Extra::flag("serpentine", serpentine)])
    }
}

impl Definition for Persistent {
    const CHECK: Option<Check> = Some((Shows::Persistent, check));

    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        persistent(nest, self)
    }
}

impl Drawn for Persistent {
    const ORDERS: bool = true;

    fn candidates(_: Kind, _: &mut Generator<'_>, _: &Wish<'_>) -> Vec<DirectiveKind> {
        [false, true].map(|serpentine| Persistent { ctas: 1, serpentine }.into()).to_vec()
    }
}

/// `persistent(ctas)`.
fn persistent(nest: &Nest, how: &directive::Persistent) -> Result<(Nest, Proof), Failure> {
    let ctas = how.ctas;
    if !(1..=32).contains(&ctas) {
        return Err(refuse(format!("persistent({ctas}): an SM holds 1 to 32 CTAs"))
            .edit(Edit::instead([directive::Persistent { ctas: 1, ..how.clone() }])));
    }
    Ok((Nest { persistent: Some(ctas), serpentine_rounds: how.serpentine, ..nest.clone() }, Proof::default()))
}

/// Tiles that follow one another are whole.
fn whole(context: &Context<'_>) -> Option<Diagnostic> {
    context.nest.persistent?;
    let by = context.last(|k| matches!(k, DirectiveKind::Persistent(_)));
    let text = match context.nest.across.values().next()? {
        Across::Cluster => {
            "CTAs of a cluster that share a reduction synchronise once, and exit together: none can take another tile"
        }
        Across::Workspace | Across::Atomic => {
            "of CTAs that share a reduction only the last to finish continues: none can take another tile"
        }
    };
    Some(context.at(by, SpanId::NONE, text.into()).edits([Edit::remove()]))
}

fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    whole(context).into_iter().collect()
}

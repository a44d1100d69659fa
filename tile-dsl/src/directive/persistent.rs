//! `persistent`: so many CTAs an SM take tile after tile.
//!
//! ```text
//! persistent(1)                tile t, t + n, t + 2n, ..             of n CTAs the one of number t
//! persistent(1, serpentine)    tile t, 2n - 1 - t, t + 2n, ..        every second round is taken backwards
//! persistent(1, counter)       tile t, then whichever is next        a counter in global memory has its number
//! ```
//! Where later tiles take longer, as the rows of a triangle do, a CTA that has a long tile in one round has a short one in the next of
//! `serpentine`. With `counter` the one that is done first takes the next tile, however long each takes.
//!
//! It rewrites no statement. Condition: 1 to 32. What the complete schedule shows: no CTAs share a reduction; groups that take tiles in turn
//! (`pingpong`) have no rounds backwards; a producer takes the numbers of a counter, and tells the threads that compute.
//! A launch of several problems takes their tiles in rounds, whatever is said here of a counter.
//! Cost: a loop over tiles; the last round may be shorter. A counter: four bytes of scratch, and an atomic a tile, for which nobody waits.
//! Source: CUTLASS, efficient GEMM (warp specialisation, cooperative and ping-pong kernels).

use super::prelude::*;
use crate::{
    engine::families::assume::refuse,
    machine::Unit,
    nest::{Across, LoopKind, loops},
};

directive! {
    /// `persistent(1)`: so many CTAs an SM take tile after tile.
    "persistent(1)" in Launch, 0:
    Persistent { ctas: u32, serpentine: bool, counter: bool } => |s| {
        s.number(ctas).options(&mut [Extra::flag("serpentine", serpentine), Extra::flag("counter", counter)])
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
        let of = |(serpentine, counter)| Persistent { ctas: 1, serpentine, counter }.into();
        [(false, false), (true, false), (false, true)].map(of).to_vec()
    }
}

/// `persistent(ctas)`.
fn persistent(nest: &Nest, how: &directive::Persistent) -> Result<(Nest, Proof), Failure> {
    let ctas = how.ctas;
    if !(1..=32).contains(&ctas) {
        return Err(refuse(format!("persistent({ctas}): an SM holds 1 to 32 CTAs"))
            .edit(Edit::instead([directive::Persistent { ctas: 1, ..how.clone() }])));
    }
    if how.serpentine && how.counter {
        let one = |serpentine| directive::Persistent { serpentine, counter: !serpentine, ..how.clone() };
        return Err(refuse("tiles of a counter have no rounds that could be taken backwards".into())
            .edit(Edit::instead([one(false)]))
            .edit(Edit::instead([one(true)])));
    }
    let (serpentine_rounds, counted) = (how.serpentine, how.counter);
    Ok((Nest { persistent: Some(ctas), serpentine_rounds, counted, ..nest.clone() }, Proof::default()))
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

/// The numbers of a counter.
fn counted(context: &Context<'_>) -> Option<Diagnostic> {
    let nest = context.nest;
    if !nest.counted {
        return None;
    }
    let by = context.last(|k| matches!(k, DirectiveKind::Persistent(_)));
    let in_rounds =
        directive::Persistent { ctas: nest.persistent.unwrap_or(1), serpentine: false, counter: false };
    let (text, edits): (&str, Vec<Edit>) = if nest.cluster.is_some() {
        ("CTAs of a cluster take neighbouring tiles, and a counter gives each any", vec![])
    } else if nest.pingpong.is_some() {
        (
            "groups take every second tile of their CTA, and skip the steps of the others: of a counter they do not know these",
            vec![],
        )
    } else if !nest.alternate.is_empty() {
        ("every second tile of a CTA is taken another way, and a counter gives it any", vec![])
    } else if nest.producer.is_none() {
        let pipes = loops(&nest.body).into_iter().filter(|(_, kind)| matches!(kind, LoopKind::Pipe(_)));
        let produce =
            |digit| directive::Produce { digit: nest.digit_name(digit), unit: Unit::Warp, stages: None };
        (
            "a producer takes numbers of the counter ahead, and there is none",
            pipes.map(|(d, _)| Edit::put([produce(d)])).collect(),
        )
    } else {
        return None;
    };
    let text = format!("tiles cannot be taken by a counter: {text}");
    Some(context.at(by, SpanId::NONE, text).edits(edits).edits([Edit::instead([in_rounds])]))
}

fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    whole(context).into_iter().chain(counted(context)).collect()
}

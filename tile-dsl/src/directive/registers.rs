//! `registers`: what a thread takes that copies, and one that computes (`setmaxnreg`, PTX ISA 9.7.19.5).
//!
//! It rewrites no statement. Condition: 24 to 240 each, multiples of 8. That a warpgroup copies, and that a CTA has as many, the complete
//! schedule shows.
//! Cost: none; the sum is fixed at launch.

use super::prelude::*;
use crate::{
    engine::families::assume::refuse,
    machine::{Target, Unit},
    nest::registers_at_launch,
};

directive! {
    /// `registers(40, 232)`: of a thread that copies, and of one that computes.
    "registers(40, 232)" in Launch, 0:
    Registers { producer: u32, consumer: u32 } => |s| s.number(producer).mark(",").number(consumer)
}

impl Definition for Registers {
    const CHECK: Option<Check> = Some((Shows::Registers, check));

    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        registers(nest, self.producer, self.consumer)
    }

    fn target(&self) -> Option<(String, Target)> {
        Some(("moving registers between warpgroups (`setmaxnreg`)".into(), Target::WARPGROUPS))
    }
}

impl Drawn for Registers {
    fn beside(_: Kind) -> &'static [&'static [Kind]] {
        &[&[Kind::ProduceWarpgroup], &[Kind::BindWarpgroup, Kind::BindThread, Kind::BindWarp]]
    }

    fn candidates(_: Kind, _: &mut Generator<'_>, _: &Wish<'_>) -> Vec<DirectiveKind> {
        [40, 104, 152, 160, 168].map(|consumer| Registers { producer: 24, consumer }.into()).to_vec()
    }
}

/// `registers(producer, consumer)`.
fn registers(nest: &Nest, producer: u32, consumer: u32) -> Result<(Nest, Proof), Failure> {
    let fits = |n: u32| (24..=240).contains(&n) && n.is_multiple_of(8);
    if !fits(producer) || !fits(consumer) {
        let near = |n: u32| n.clamp(24, 240).next_multiple_of(8);
        let edit = DirectiveKind::Registers(directive::Registers {
            producer: near(producer),
            consumer: near(consumer),
        });
        return Err(refuse(format!(
            "registers({producer}, {consumer}): a warpgroup takes 24 to 240 registers a thread, a multiple of 8"
        ))
        .edit(Edit::instead([edit]))
        .edit(Edit::remove()));
    }
    Ok((Nest { registers: Some([producer, consumer]), ..nest.clone() }, Proof::default()))
}

/// What the roles take is there, and what they are given can be given.
fn given(context: &Context<'_>) -> Option<Diagnostic> {
    let [producer, consumer] = context.nest.registers?;
    let by = context.last(|k| matches!(k, DirectiveKind::Registers(_)));
    let at = |text: String| context.at(by, SpanId::NONE, text);
    if context.nest.producer != Some(Unit::Warpgroup) {
        let text = "registers are divided between a warpgroup that copies and those that compute: no warpgroup copies";
        return Some(at(text.into()).edits([Edit::remove()]));
    }
    let (computing, producing) = (context.computing(), u64::from(context.nest.producing()));
    let (target, threads) = (context.schedule.target, computing + producing);
    let resident = context.nest.occupancy.unwrap_or(1);
    let launched = u32::try_from(threads).unwrap_or(u32::MAX);
    let Some(each) = registers_at_launch(target, launched, resident).map(u64::from) else {
        let text = format!(
            "a CTA of {threads} threads has registers for all: each takes what it needs, up to {}",
            target.registers()
        );
        return Some(at(text).edits([Edit::remove()]));
    };
    let (taken, all) = (u64::from(producer) * producing + u64::from(consumer) * computing, each * threads);
    if taken > all {
        let text = format!(
            "{producing} threads with {producer} registers and {computing} with {consumer} take {taken} registers: {} of {threads} threads has {each} each, {all} in all",
            if resident > 1 { format!("with {resident} CTAs on an SM, one") } else { "a CTA".into() }
        );
        let most = (all.saturating_sub(u64::from(producer) * producing)) / computing / 8 * 8;
        let fits =
            DirectiveKind::Registers(directive::Registers { producer, consumer: most.clamp(24, 240) as u32 });
        let fewer =
            DirectiveKind::Registers(directive::Registers { producer: 24, consumer: each.min(240) as u32 });
        let alone = (resident > 1).then(|| Edit::put([directive::Occupancy { ctas: 1 }]));
        return Some(
            at(text).edits([Edit::put([fits])]).edits(alone).edits([Edit::put([fewer]), Edit::remove()]),
        );
    }
    None
}

fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    given(context).into_iter().collect()
}

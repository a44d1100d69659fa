//! `interleave`: over which part of a pipeline of registers memory accesses are spread. It rewrites no statement.
//!
//! ```text
//! interleave(k: loads(p))   the loads of a step to come stand in the first part p of a step's computation
//! interleave(k: copies(p))  copies for the stage ahead, around it, are issued in the first part p of its steps
//! interleave(k: stores(p))  those that pass through registers are stored from the part p of its steps on
//! ```
//!
//! | Not said | Stays, as without the directive |
//! |---|---|
//! | `loads` | `loads(3/8)` |
//! | `copies` | `copies(1/4)` |
//! | `stores` | `stores(1/2)` |
//!
//! Condition: parts are no more than the whole, and nothing is stored before it is loaded. Whether there are such accesses, and whether the computation is a straight line for them to stand
//! in, the complete schedule shows (`engine::checks`). Source: Volkov and Demmel 2008, on prefetching into registers.
//! Cost: none; what is loaded early is held longer.

use super::prelude::*;
use crate::{
    engine::names,
    machine::Space,
    nest::{
        self, CARRIED_SETS, Carry, Digit, Fraction, LoopKind, Placement, Prefetch, Steps, Stmt, Target,
        ValueId,
    },
    schedule::Directive,
};
use std::collections::BTreeSet;

directive! {
    /// `interleave(k.t: loads(3/8), copies(1/4), stores(1/2))`: over which part of a pipeline of registers memory accesses are
    /// spread.
    "interleave(k.t: loads(3/8))" in Pipeline, 1:
    Interleave {
        digit: DigitName,
        loads: Option<Fraction>,
        copies: Option<Fraction>,
        stores: Option<Fraction>
    } => |s| {
        s.one(digit, "a loop").mark(":").some_of(&mut [
            Extra::part("loads(3/8)", loads),
            Extra::part("copies(1/4)", copies),
            Extra::part("stores(1/2)", stores),
        ])
    }
}

impl Definition for Interleave {
    const CHECK: Option<Check> = Some((Shows::Interleaving, check));

    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        apply(nest, &self.digit, [self.loads, self.copies, self.stores])
    }

    fn needs(&self) -> Vec<Name> {
        vec![Name::Loop(self.digit.clone()), Name::Pipeline(self.digit.clone())]
    }
}

impl Drawn for Interleave {
    fn beside(_: Kind) -> &'static [&'static [Kind]] {
        &[&[Kind::PipelineRegisters]]
    }

    fn candidates(_: Kind, generator: &mut Generator<'_>, _: &Wish<'_>) -> Vec<DirectiveKind> {
        let digits: BTreeSet<String> = generator.copies(true).into_iter().map(|(_, at)| at).collect();
        for digit in digits {
            if generator.interleave(digit) {
                break;
            }
        }
        vec![]
    }
}

/// `interleave(name: loads(..), copies(..), stores(..))`.
fn apply(
    nest: &Nest,
    name: &str,
    [loads, copies, stores]: [Option<Fraction>; 3],
) -> Result<(Nest, Proof), Failure> {
    let digit = names::existing(nest, name, names::Bare::InTile)?;
    let refuse = |text: String| Failure::refused(Diagnostic::new(SpanId::NONE, text));
    let with = |loads, copies, stores| {
        let digit = name.to_string();
        Edit::instead([directive::Interleave { digit, loads, copies, stores }])
    };
    if let Some(part) = [loads, copies, stores].into_iter().flatten().find(|p| !p.is_part()) {
        let whole =
            |p: Option<Fraction>| p.map(|p| if p.is_part() { p } else { Fraction { parts: 1, of: 1 } });
        return Err(refuse(format!("{part} is not a fraction of the steps: it is above 0 and at most 1"))
            .edit(with(whole(loads), whole(copies), whole(stores)))
            .edit(Edit::remove()));
    }
    let usual = nest::Interleave::default();
    let of = nest::Interleave {
        loads: loads.unwrap_or(usual.loads),
        copies: copies.unwrap_or(usual.copies),
        stores: stores.unwrap_or(usual.stores),
    };
    if of.stores.is_below(of.copies) {
        return Err(refuse(format!(
            "stores start after {} of the steps, and copies are loaded until {} of them: a copy is loaded before it is stored",
            of.stores, of.copies
        ))
        .edit(with(loads, copies, Some(of.copies)))
        .edit(Edit::remove()));
    }
    let mut nest = nest.clone();
    nest.interleaved.insert(digit, of);
    Ok((nest, Proof::default()))
}

/// There are accesses to spread, and a computation in which they can stand.
fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    context.schedule.directives.iter().filter_map(|d| of(context, d)).collect()
}

fn of(context: &Context<'_>, by: &Directive) -> Option<Diagnostic> {
    let DirectiveKind::Interleave(directive::Interleave { digit: name, loads, copies, stores }) = &by.kind
    else {
        return None;
    };
    let nest = context.nest;
    let digit = *nest.names.get(&crate::nest::in_tile(name)).or_else(|| nest.names.get(name))?;
    let wrong = |text: String| context.at(Some(by), SpanId::NONE, text);
    let pipelines = nest.register_pipelines(digit);
    if pipelines.is_empty() {
        let text =
            format!("`{name}` does not prefetch into registers: there are no loads to spread over its steps");
        let two = DirectiveKind::Pipeline(directive::Pipeline { digit: nest.digit_name(digit), stages: 2 });
        return Some(wrong(text).edits([Edit::put([two]), Edit::remove()]));
    }
    if let Some(why) = pipelines.iter().find_map(|p| obstacle(context, p.inner)) {
        let text = format!("accesses are spread over straight-line code, and {why} in each step of `{name}`");
        return Some(wrong(text).edits([Edit::remove()]));
    }
    let without = |stores_only: bool| {
        let copies = copies.filter(|_| stores_only);
        let kind = DirectiveKind::Interleave(directive::Interleave {
            digit: name.clone(),
            loads: *loads,
            copies,
            stores: None,
        });
        [(loads.is_some() || copies.is_some()).then(|| Edit::instead([kind])), Some(Edit::remove())]
    };
    if copies.is_some() || stores.is_some() {
        let apart = pipelines.iter().find_map(|p| apart(nest, p));
        if let Some(why) = apart {
            let text = format!("no copies are issued among the steps of `{name}`: {why}");
            let deeper = |k: &DirectiveKind| matches!(k, DirectiveKind::Pipeline(directive::Pipeline { digit: d, stages }) if d == name && *stages != CARRIED_SETS);
            let sets = directive::Pipeline { digit: name.clone(), stages: CARRIED_SETS };
            let sets = context.last(deeper).map(|_| Edit::put([sets]));
            return Some(wrong(text).edits(sets).edits(without(false).into_iter().flatten()));
        }
    }
    let plain = |p: &Prefetch<'_>| {
        // Vectors are for some sizes only.
        p.around.as_ref().is_some_and(|(filled, _)| filled.iter().any(|c| !nest.is_asynchronous(*c, false)))
    };
    if stores.is_some() && !pipelines.iter().any(plain) {
        let filled = pipelines.iter().find_map(|p| p.around.as_ref()).map(|(c, _)| nest.copied(c));
        let text = format!(
            "{} are copied by `cp.async`: there are no stores from registers to spread over the steps of `{name}`",
            filled.unwrap_or_default()
        );
        return Some(wrong(text).edits(without(true).into_iter().flatten()));
    }
    None
}

/// Why registers do not run on from one step of a pipelined loop around them to the next.
fn apart(nest: &Nest, pipeline: &Prefetch<'_>) -> Option<String> {
    let Some((filled, body)) = &pipeline.around else {
        return Some("no pipelined loop around it has copies in shared memory".into());
    };
    match Carry::of(nest, filled, body) {
        Carry::Over(_) => None,
        Carry::Apart(why) => {
            Some(format!("the loop around it does not prefetch registers across its steps, as {why}"))
        }
        Carry::None => Some("the loop around it does not prefetch registers across its steps".into()),
    }
}

/// What keeps a computation from being a straight line of arithmetic and loads, where no guards are.
fn obstacle(context: &Context<'_>, stmt: &Stmt) -> Option<String> {
    let nest = context.nest;
    let in_shared = |v: ValueId| format!("`{}` is stored to shared memory", nest.value(v).name);
    match stmt {
        Stmt::For { digit, at, body } => {
            let inside = if let Stmt::Stage { copy, .. } = &**body { Some(*copy) } else { None };
            let repeats = |d: &Digit| d.steps != Steps::Fixed(1);
            match nest.runs(*at, inside) {
                LoopKind::Seq | LoopKind::Pipe(_) if repeats(digit) => {
                    Some(format!("a loop over `{}` runs", nest.digit_name(*digit)))
                }
                LoopKind::Atom(atom, _) if atom.row().descriptors => {
                    Some(format!("asynchronous MMAs `{atom}` are issued"))
                }
                _ => obstacle(context, body),
            }
        }
        Stmt::Stage { copy, .. } if nest.copy(*copy).space == Space::Shared => {
            Some(format!("{} is copied to shared memory", nest.copied(&[*copy])))
        }
        Stmt::Stage { body, .. } => obstacle(context, body),
        Stmt::Let { values, first, rest } => {
            let combined = values.iter().find(|v| {
                nest.combine.contains_key(v) || nest.across.contains_key(v) || nest.value(**v).scan.is_some()
            });
            let held = values.iter().find(|v| nest.value(**v).placement == Placement::Shared);
            match (combined, held) {
                (Some(v), _) => Some(format!("parts of `{}` are combined", nest.value(*v).name)),
                (None, Some(v)) => Some(in_shared(*v)),
                (None, None) => obstacle(context, first).or_else(|| obstacle(context, rest)),
            }
        }
        Stmt::Skip => None,
        Stmt::Def { .. } | Stmt::Red { .. } | Stmt::Scan { .. } | Stmt::Set { .. } | Stmt::Put { .. } => {
            match stmt.leaf()?.0 {
                Target::Access(a) => Some(format!("`{}` is stored", nest.tensor(nest.access(a).tensor).name)),
                Target::Value(v) => context.plan.places().is_in_place(v).then(|| in_shared(v)),
            }
        }
    }
}

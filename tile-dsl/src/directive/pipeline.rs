//! `pipeline`: the copies made in each step of a loop run ahead of the steps that read them.
//!
//! ```text
//! (for a #seq (stage c X))  →  (for a #pipeN (stage c X))
//! ```
//! Conditions:
//!
//! - Every loop over `a` has a copy directly inside.
//! - All copies there are in shared memory, or all in registers. In registers the loop has fixed steps, because it is expanded.
//!
//! What is copied is a parameter that the kernel does not write, which `stage` checks. So copying it earlier reads the same.
//! N stages hold N steps.
//! Cost: the bytes, or registers, of so many copies.
//! Source: software pipelining (Lam 1988); multi-stage `cp.async` rings (CUTLASS).

use super::prelude::*;
use crate::{
    engine::{
        facts::{Graph, at, digit},
        families::{Rule, solve, with_body},
        language::Node,
        names::{self, Bare},
        phase::Redex,
        rule::{Verdict, get, patterns, set},
    },
    machine::{Space, Via},
    nest::{CopyId, Digit, Frame, LoopKind, Steps, leaves},
};
use std::collections::BTreeSet;

directive! {
    /// `pipeline(k, 2)`: the stages at this loop are `stages` deep.
    "pipeline(k, 2)" in Pipeline, 0:
    Pipeline { digit: DigitName, stages: u32 } => |s| s.tiles(digit).mark(",").number(stages)
}

impl Definition for Pipeline {
    const CHECK: Option<Check> = Some((Shows::Pipelines, alike));

    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        apply(nest, &self.digit, self.stages)
    }

    fn gives(&self) -> Vec<Name> {
        vec![Name::Pipeline(self.digit.clone())]
    }

    fn needs(&self) -> Vec<Name> {
        vec![Name::Loop(self.digit.clone()), Name::CopyAt(self.digit.clone())]
    }
}

impl Drawn for Pipeline {
    fn kinds(&self, schedule: &Schedule) -> Vec<Kind> {
        let held = |d: &crate::schedule::Directive| matches!(&d.kind, DirectiveKind::Fragment(f) if f.at == self.digit);
        vec![if schedule.directives.iter().any(held) { Kind::PipelineRegisters } else { Kind::Pipeline }]
    }

    fn beside(kind: Kind) -> &'static [&'static [Kind]] {
        match kind {
            Kind::PipelineRegisters => &[&[Kind::Fragment]],
            _ => &[COPIES],
        }
    }

    fn candidates(kind: Kind, generator: &mut Generator<'_>, _: &Wish<'_>) -> Vec<DirectiveKind> {
        let stages = 2 + generator.random.below(3) as u32;
        let at = generator.copies(kind == Kind::PipelineRegisters).into_iter();
        let at: BTreeSet<String> = at.map(|(_, at)| at).collect();
        at.into_iter().map(|digit| Pipeline { digit, stages }.into()).collect()
    }
}

patterns! {
    STAGED = "(for ?#0 ?#1 (stage ?#2 ?#3))";
    PIPED = "(for ?#0 ?#4 (stage ?#2 ?#3))";
}

fn rule(a: Digit, stages: u32) -> Rule<'static> {
    Rule::new("pipeline", &STAGED, &PIPED, move |graph, subst| {
        if digit(graph, get(subst, 0)) != a || at(graph, get(subst, 1)) != LoopKind::Seq {
            return Verdict::Skip;
        }
        let pipe = graph.add(Node::LoopKind(LoopKind::Pipe(stages)));
        set(subst, 4, pipe);
        Verdict::Apply
    })
}

/// Stages of a ring. More never helped: what is on its way is far more than a step needs.
pub(crate) const MOST_STAGES: u32 = 16;

/// `pipeline(name, stages)`.
fn apply(nest: &Nest, name: &str, stages: u32) -> Result<(Nest, Proof), Failure> {
    let refuse = |text: String| Failure::refused(Diagnostic::new(SpanId::NONE, text));
    if !(2..=MOST_STAGES).contains(&stages) {
        let legal = DirectiveKind::Pipeline(directive::Pipeline {
            digit: name.to_string(),
            stages: stages.clamp(2, MOST_STAGES),
        });
        return Err(refuse(format!("pipeline({name}, {stages}): a pipeline has 2 to {MOST_STAGES} stages"))
            .edit(Edit::instead([legal]))
            .edit(Edit::remove()));
    }
    let a = names::existing(nest, name, Bare::Tile)?;
    one_space(nest, name, a)?;
    let redex = |_: &Graph, node: &Node, below: &[&Node]| match (node, below) {
        (Node::For(_), [Node::Digit(d), Node::LoopKind(LoopKind::Seq), Node::Stage(_)]) if *d == a => {
            Redex::Hard
        }
        _ => Redex::No,
    };
    let absent = || {
        let text =
            format!("nothing is copied at `{name}` by `stage` or `fragment`: there is no copy to prefetch");
        let failure = refuse(text);
        match nest.copies.as_slice() {
            [] => {
                let read = nest.kernel.tensors.iter().filter(|t| !t.mutable);
                let stages = read.flat_map(|t| {
                    [Via::CpAsync, Via::Plain].map(|via| {
                        Edit::put([directive::Stage {
                            buffer: t.name.clone(),
                            at: Some(name.to_string()),
                            space: Space::Shared,
                            transposed: false,
                            via,
                            vector: None,
                        }])
                    })
                });
                failure.edits(stages).edit(Edit::remove())
            }
            copies => (0..copies.len() as u16).map(CopyId).fold(failure, |failure, c| {
                failure.note(nest.copy(c).span, format!("`{}` is staged here", nest.copy_name(c)))
            }),
        }
    };
    let (body, mut proof) = solve(nest, &[rule(a, stages)], &redex, absent, || {
        Failure::unmet(format!("the copies at `{name}` could not be pipelined"))
    })?;
    proof.facts.push(format!("the tensors copied in `{name}` are not written by the kernel"));
    Ok((with_body(nest, body), proof))
}

/// The copies directly inside loops over `a` are all in shared memory, or all in registers.
fn one_space(nest: &Nest, name: &str, a: Digit) -> Result<(), Failure> {
    let mut found: Vec<CopyId> = Vec::new();
    leaves(&nest.body, &mut |path, _| {
        let at = path.iter().position(|f| matches!(f, Frame::For(d, _) if *d == a));
        let inside = path[at.map_or(path.len(), |n| n + 1)..].iter();
        found.extend(inside.map_while(|f| if let Frame::Stage(c) = f { Some(*c) } else { None }));
    });
    let of = |space| found.iter().find(|c| nest.copy(**c).space == space);
    let (shared, held) = (of(Space::Shared), of(Space::Register));
    if let (Some(shared), Some(held)) = (shared, held) {
        let refusal = Failure::refused(Diagnostic::new(
            SpanId::NONE,
            format!("copies in shared memory and in registers at `{name}` cannot share one pipeline"),
        ));
        let copied = |c: &CopyId| nest.copy_name(*c);
        return Err(refusal
            .note(nest.copy(*shared).span, format!("`{}` goes to shared memory", copied(shared)))
            .note(nest.copy(*held).span, format!("`{}` goes to registers", copied(held)))
            .remark("load the fragments in a loop further inside"));
    }
    if let (Some(_), Steps::Rest) = (held, a.steps) {
        return Err(Failure::refused(Diagnostic::new(
            SpanId::NONE,
            format!(
                "`{name}` has as many steps as `{}` has points: a pipeline of registers is expanded while compiling",
                nest.axis(a.axis)
            ),
        ))
        .remark(format!("tile `{}` and load the fragments at a loop inside its tile", nest.axis(a.axis))));
    }
    Ok(())
}

/// The copies of a pipelined loop all come by tensor maps, or none does: they complete together.
fn alike(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let mut found: Vec<(crate::nest::Digit, CopyId, CopyId)> = Vec::new();
    leaves(&nest.body, &mut |path, _| {
        for (n, frame) in path.iter().enumerate() {
            let Frame::For(digit, LoopKind::Pipe(_)) = frame else { continue };
            let inside = path[n + 1..].iter();
            let copies: Vec<CopyId> =
                inside.map_while(|f| if let Frame::Stage(c) = f { Some(*c) } else { None }).collect();
            let of = |tensor: bool| copies.iter().find(|c| (nest.copy(**c).via == Via::Tma) == tensor);
            if let (Some(by_map), Some(other)) = (of(true), of(false))
                && found.iter().all(|(d, ..)| d != digit)
            {
                found.push((*digit, *by_map, *other));
            }
        }
    });
    let wrong = |(digit, by_map, other): (crate::nest::Digit, CopyId, CopyId)| {
        let loop_ = nest.digit_name(digit);
        let name = |c: CopyId| nest.copy_name(c);
        let text = format!(
            "`{}` is copied by a tensor map and `{}` is not: copies of one pipeline complete in the same way",
            name(by_map),
            name(other)
        );
        let by =
            context.last(|k| matches!(k, DirectiveKind::Pipeline(directive::Pipeline { digit: d, .. }) if context.is(d, digit)));
        let stage = |copy: CopyId, via| {
            let buffer = name(copy);
            let given =
                context.schedule.directives.iter().rev().find_map(|d| match &d.kind {
                    DirectiveKind::Stage(directive::Stage {
                        buffer: b, at: Some(at), transposed, ..
                    }) if *b == buffer => Some((at.clone(), *transposed)),
                    _ => None,
                });
            let (at, transposed) = given.unwrap_or((loop_.clone(), false));
            Edit::put([directive::Stage {
                buffer,
                at: Some(at),
                space: Space::Shared,
                transposed: transposed && via != Via::Tma,
                via,
                vector: None,
            }])
        };
        context
            .at(by, SpanId::NONE, text)
            .note(nest.copy(by_map).span, format!("`{}` is staged here", name(by_map)))
            .note(nest.copy(other).span, format!("`{}` is staged here", name(other)))
            .edits([stage(other, Via::Tma), stage(by_map, Via::Plain), Edit::remove()])
    };
    found.into_iter().map(wrong).collect()
}

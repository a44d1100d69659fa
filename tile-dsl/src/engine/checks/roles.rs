//! Pipelines of tensor maps, `produce`, `registers` and `persistent`: what the copies, the threads and the loops of the complete
//! schedule must be.

use super::Context;
use crate::{
    diagnostic::{Diagnostic, Edit},
    nest::{
        Across, CopyId, Digit, Frame, LoopKind, Role, Scope, ValueId, WARP, WARPGROUP, leaves, loops,
        registers_at_launch, registers_of_product, threads,
    },
    schedule::{DirectiveKind, Space, Unit, Via},
    span::SpanId,
};

pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let mut wrong: Vec<Diagnostic> = Vec::new();
    wrong.extend(alike(context));
    wrong.extend(produced(context));
    wrong.extend(registers(context));
    wrong.extend(instructions(context));
    wrong.extend(persistent(context));
    wrong
}

/// Threads of the CTA that compute, all groups of them.
fn computing(context: &Context<'_>) -> u64 {
    threads(context.nest) * u64::from(context.nest.groups())
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
            "`{}` comes by a tensor map and `{}` does not: the copies of one pipeline complete together",
            name(by_map),
            name(other)
        );
        let by =
            context.last(|k| matches!(k, DirectiveKind::Pipeline { digit: d, .. } if context.is(d, digit)));
        let stage = |copy: CopyId, via| {
            let buffer = name(copy);
            let given = context.schedule.directives.iter().rev().find_map(|d| match &d.kind {
                DirectiveKind::Stage { buffer: b, at: Some(at), transposed, .. } if *b == buffer => {
                    Some((at.clone(), *transposed))
                }
                _ => None,
            });
            let (at, transposed) = given.unwrap_or((loop_.clone(), false));
            Edit::put([DirectiveKind::Stage {
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
            .edits([stage(other, Via::Tma), stage(by_map, Via::Plain), Edit::instead([])])
    };
    found.into_iter().map(wrong).collect()
}

/// What a producer copies comes by tensor maps, in a pipelined loop, and goes to whole warps.
fn produced(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let mut wrong = Vec::new();
    for digit in &nest.produced {
        let name = nest.digit_name(*digit);
        let by =
            context.last(|k| matches!(k, DirectiveKind::Produce { digit: d, .. } if context.is(d, *digit)));
        let copies = nest.copies_in(*digit);
        let own = loops(&nest.body).into_iter().filter(|(d, _)| d == digit);
        let pipelined = own.map(|(_, kind)| kind).all(|kind| matches!(kind, LoopKind::Pipe(_)));
        if copies.is_empty() || !pipelined {
            let text = format!("`{name}` has no pipeline whose copies a producer could make");
            let pipeline = DirectiveKind::Pipeline { digit: name.clone(), stages: 2 };
            let edit = (!copies.is_empty()).then(|| Edit::put([pipeline]));
            wrong.push(context.at(by, SpanId::NONE, text).edits(edit));
            continue;
        }
        if let Some(id) = copies.into_iter().find(|c| nest.copy(*c).via != Via::Tma) {
            let (copy, buffer) = (nest.copy(id), nest.copy_name(id));
            let text = format!(
                "a producer copies by tensor maps, and `{buffer}` is copied by {}",
                if copy.space == Space::Register {
                    "each thread into its registers"
                } else {
                    "the threads that compute"
                }
            );
            wrong.push(
                context
                    .at(by, SpanId::NONE, text)
                    .note(copy.span, format!("`{buffer}` is staged here"))
                    .remark(format!("`stage({buffer} at {name}: shared, tma)`")),
            );
        }
    }
    if nest.producer.is_none() {
        return wrong;
    }
    wrong.extend(behind_a_split(context));
    let by = context.last(|k| matches!(k, DirectiveKind::Produce { .. }));
    let each = threads(nest);
    let threads = computing(context);
    if !each.is_multiple_of(WARP.into()) {
        let text = format!("{each} threads compute: beside a producer they are whole warps");
        wrong.push(context.at(by, SpanId::NONE, text).edits([Edit::instead([])]));
    }
    if nest.producer == Some(Unit::Warpgroup) && !each.is_multiple_of(WARPGROUP.into()) {
        let text =
            format!("{each} threads compute: beside a warpgroup that copies they are whole warpgroups");
        wrong.push(context.at(by, SpanId::NONE, text).edits([Edit::instead([])]));
    }
    let (producing, most) = (nest.producing(), u64::from(context.schedule.target.threads()));
    if threads + u64::from(producing) > most {
        let text = format!("{threads} threads compute and {producing} copy, but a CTA has at most {most}");
        wrong.push(context.at(by, SpanId::NONE, text).edits([Edit::instead([])]));
    }
    wrong
}

/// What follows a reduction that CTAs share is run by some of them, or for a share of it. A producer does not learn of that: it
/// would fill slots that nobody empties, or others than are read.
fn behind_a_split(context: &Context<'_>) -> Option<Diagnostic> {
    let nest = context.nest;
    let mut found: Option<(Digit, ValueId)> = None;
    leaves(&nest.body, &mut |path, _| {
        let shared = path.iter().enumerate().find_map(|(n, frame)| match frame {
            Frame::Rest(values) => values.iter().find(|v| nest.across.contains_key(v)).map(|v| (n, *v)),
            _ => None,
        });
        let Some((n, value)) = shared else { return };
        let produced = path[n..].iter().find_map(|frame| match frame {
            Frame::For(digit, _) if nest.produced.contains(digit) => Some(*digit),
            _ => None,
        });
        if let Some(digit) = produced {
            found.get_or_insert((digit, value));
        }
    });
    let (digit, value) = found?;
    let (name, value) = (nest.digit_name(digit), nest.value(value));
    let by = context.last(|k| matches!(k, DirectiveKind::Produce { digit: d, .. } if context.is(d, digit)));
    let who = match nest.cluster_reduces() {
        true => "each CTA of the cluster goes on with its share alone",
        false => "one of them goes on alone",
    };
    let text = format!(
        "the loop over `{name}` stands behind `{}`, whose parts CTAs share, and {who}: the producer would copy for all of them",
        value.name
    );
    Some(
        context
            .at(by, SpanId::NONE, text)
            .note(value.span, format!("`{}` is computed here", value.name))
            .edits([Edit::instead([]).remark("the threads that go on copy themselves")]),
    )
}

/// What the roles take is there, and what they are given can be given.
fn registers(context: &Context<'_>) -> Option<Diagnostic> {
    let [producer, consumer] = context.nest.registers?;
    let by = context.last(|k| matches!(k, DirectiveKind::Registers { .. }));
    let at = |text: String| context.at(by, SpanId::NONE, text);
    if context.nest.producer != Some(Unit::Warpgroup) {
        let text = "registers are shared out between a warpgroup that copies and those that compute: there is none that copies";
        return Some(at(text.into()).edits([Edit::instead([])]));
    }
    let (computing, producing) = (computing(context), u64::from(context.nest.producing()));
    let (target, threads) = (context.schedule.target, computing + producing);
    let resident = context.nest.occupancy.unwrap_or(1);
    let launched = u32::try_from(threads).unwrap_or(u32::MAX);
    let Some(each) = registers_at_launch(target, launched, resident).map(u64::from) else {
        let text = format!(
            "a CTA of {threads} threads has registers for all: each takes what it needs, up to {}",
            target.registers()
        );
        return Some(at(text).edits([Edit::instead([])]));
    };
    let (taken, all) = (u64::from(producer) * producing + u64::from(consumer) * computing, each * threads);
    if taken > all {
        let text = format!(
            "{producing} threads with {producer} registers and {computing} with {consumer} take {taken}: {} of {threads} threads starts with {each} each, {all} in all",
            if resident > 1 { format!("of {resident} CTAs an SM, one") } else { "a CTA".into() }
        );
        let most = (all.saturating_sub(u64::from(producer) * producing)) / computing / 8 * 8;
        let fits = DirectiveKind::Registers { producer, consumer: most.clamp(24, 240) as u32 };
        let fewer = DirectiveKind::Registers { producer: 24, consumer: each.min(240) as u32 };
        let alone = (resident > 1).then(|| Edit::put([DirectiveKind::Occupancy { ctas: 1 }]));
        return Some(
            at(text).edits([Edit::put([fits])]).edits(alone).edits([Edit::put([fewer]), Edit::instead([])]),
        );
    }
    None
}

/// Each thread has the registers that one product of its warpgroup takes: those are never spilled.
fn instructions(context: &Context<'_>) -> Option<Diagnostic> {
    let nest = context.nest;
    let threads = computing(context) + u64::from(nest.producing());
    let resident = u64::from(nest.occupancy.unwrap_or(1)) * threads.max(1);
    let target = context.schedule.target;
    let each = (u64::from(target.resident_registers()) / resident).min(target.registers().into()) / 8 * 8;
    context.schedule.directives.iter().find_map(|d| {
        let DirectiveKind::TensorCore { value, atom, swapped } = &d.kind else { return None };
        if atom.row().scope != Scope::Warpgroup {
            return None;
        }
        let columns = atom.size(Role::N);
        let (sums, n) = (u64::from(columns / 2), u64::from(columns));
        let taken = u64::from(registers_of_product(*atom));
        (taken > each).then(|| {
            let text = format!(
                "`{atom}` takes {taken} registers of a thread, {sums} for the sums of {n} columns and {} beside them: a CTA of {threads} threads has {each} for each",
                taken - sums
            );
            let fewer = (1..columns).rev().filter(|n| columns.is_multiple_of(*n));
            let fewer = fewer.filter_map(|n| atom.of_columns(n)).map(|atom| {
                Edit::instead([DirectiveKind::TensorCore { value: value.clone(), atom, swapped: *swapped }])
            });
            context.at(Some(d), SpanId::NONE, text).edits(fewer).edits([Edit::instead([])])
        })
    })
}

/// Tiles that follow one another are whole.
fn persistent(context: &Context<'_>) -> Option<Diagnostic> {
    context.nest.persistent?;
    let by = context.last(|k| matches!(k, DirectiveKind::Persistent { .. }));
    let text = match context.nest.across.values().next()? {
        Across::Cluster => {
            "CTAs of a cluster that share a reduction meet once, and end together: none can take the next tile"
        }
        Across::Workspace | Across::Atomic => {
            "CTAs that share a reduction go on with the last that comes: none can take the next tile"
        }
    };
    Some(context.at(by, SpanId::NONE, text.into()).edits([Edit::instead([])]))
}

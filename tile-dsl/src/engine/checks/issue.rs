//! `issue`: the products are such that complete on their own, and nothing else needs the sums between them.

use super::Context;
use crate::{
    diagnostic::{Diagnostic, Edit},
    engine::facts::target_name,
    index::AxisId,
    nest::{Digit, Frame, Issue, LoopKind, Stmt, Target, ValueId, leaves},
    schedule::DirectiveKind,
};
use std::collections::BTreeSet;

pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    context.nest.issue.iter().filter_map(|(value, issue)| of(context, *value, *issue)).collect()
}

/// The paths to the statements that add to a value.
fn paths(context: &Context<'_>, value: ValueId) -> Vec<(Vec<Frame>, bool)> {
    let nest = context.nest;
    let mut found = Vec::new();
    leaves(&nest.body, &mut |path, leaf| {
        if matches!(leaf, Stmt::Red { value: v, .. } if *v == value) {
            let by_itself = nest.product(path, leaf).is_some_and(|p| p.atom.row().descriptors);
            found.push((path.to_vec(), by_itself));
        }
    });
    found
}

fn of(context: &Context<'_>, value: ValueId, issue: Issue) -> Option<Diagnostic> {
    let nest = context.nest;
    let name = &nest.value(value).name;
    let by = context.last(|k| matches!(k, DirectiveKind::Issue { value, .. } if value == name));
    let wrong = |text: String, edit: Edit| {
        Some(context.at(by, nest.value(value).span, text).edits([edit, Edit::instead([])]))
    };
    let kind =
        |overwrite: bool, in_flight: u32| DirectiveKind::Issue { value: name.clone(), overwrite, in_flight };
    let without = |flag: bool| match (flag, issue) {
        (true, Issue { in_flight: n @ 1.., .. }) => Edit::instead([kind(false, n)]),
        (false, Issue { overwrite: true, .. }) => Edit::instead([kind(true, 0)]),
        _ => Edit::instead([]),
    };
    let paths = paths(context, value);
    if paths.is_empty() || !paths.iter().all(|(_, by_itself)| *by_itself) {
        let text = format!("`{name}` is no sum of products that complete on their own");
        let diagnostic = context.at(by, nest.value(value).span, text);
        return Some(
            diagnostic
                .remark(format!("`tensor_core({name}: wgmma(64, 64))` makes such products"))
                .edits([Edit::instead([])]),
        );
    }
    let own = &nest.value(value).axes;
    let over: BTreeSet<AxisId> = paths
        .iter()
        .flat_map(|(path, _)| path)
        .filter_map(|f| if let Frame::For(d, _) = f { Some(d.axis) } else { None })
        .filter(|axis| {
            !own.contains(axis)
                && nest.kernel.axes[usize::from(axis.0)].kind != crate::tile::AxisKind::Program
        })
        .collect();
    if issue.overwrite {
        let held = if nest.across.contains_key(&value) {
            Some("CTAs share it, and one may have no part".to_string())
        } else if nest.value(value).init.is_some_and(|init| init != 0.0) {
            Some("it starts at another value than zero".to_string())
        } else if over.len() != 1 || paths.len() != 1 {
            Some("it is summed over several axes, and the first product of one of them adds".to_string())
        } else {
            let reader = read_before(context, value);
            reader.map(|target| format!("`{}` reads it before", target_name(nest, target)))
        };
        if let Some(why) = held {
            return wrong(format!("the first product cannot overwrite `{name}`: {why}"), without(true));
        }
    }
    if issue.in_flight == 0 {
        return None;
    }
    let ring = paths.iter().find_map(|(path, _)| {
        path.iter().find_map(|f| match f {
            Frame::For(d, LoopKind::Pipe(stages)) if nest.produced.contains(d) => Some((*d, *stages)),
            _ => None,
        })
    });
    let Some((digit, stages)) = ring else {
        let text = format!(
            "products into `{name}` may stay in flight where a producer waits for their slots, and none of their loops has one"
        );
        return wrong(text, without(false));
    };
    if stages <= issue.in_flight {
        let text = format!(
            "{} steps' products in flight hold all {stages} stages of `{}`: no slot is left to fill",
            issue.in_flight,
            nest.digit_name(digit)
        );
        let fewer = stages.saturating_sub(1);
        let edit = if fewer > 0 { Edit::instead([kind(issue.overwrite, fewer)]) } else { without(false) };
        return wrong(text, edit);
    }
    if let Some((other, runs)) = beside(context, value, digit) {
        let text = format!(
            "products into `{name}` may not stay in flight: in a step of `{}` {other}",
            nest.digit_name(digit)
        );
        let unroll = runs
            .map(|digit| Edit::put([DirectiveKind::Unroll { digit: nest.digit_name(digit), within: None }]));
        let diagnostic = context.at(by, nest.value(value).span, text);
        return Some(diagnostic.edits(unroll).edits([without(false), Edit::instead([])]));
    }
    None
}

/// What reads a value before the first product is added to it; not what sets it, as that is overwritten.
fn read_before(context: &Context<'_>, value: ValueId) -> Option<Target> {
    let (mut product, mut reader) = (false, None);
    leaves(&context.nest.body, &mut |path, leaf| {
        let inside = path.iter().any(|f| matches!(f, Frame::First(vs) if vs.contains(&value)));
        let (target, expr) = leaf.leaf().expect("a leaf");
        product |= matches!(leaf, Stmt::Red { value: v, .. } if *v == value);
        if inside && !product && target != Target::Value(value) && expr.values().contains(&value) {
            reader = reader.or(Some(target));
        }
    });
    reader
}

/// What a step of a pipeline does beside issuing products into a value, in words; the loop at run time, if it is one.
fn beside(context: &Context<'_>, value: ValueId, ring: Digit) -> Option<(String, Option<Digit>)> {
    let nest = context.nest;
    let mut found = None;
    leaves(&nest.body, &mut |path, leaf| {
        let Some(at) = path.iter().position(|f| matches!(f, Frame::For(d, LoopKind::Pipe(_)) if *d == ring))
        else {
            return;
        };
        let is_product = matches!(leaf, Stmt::Red { value: v, .. } if *v == value);
        let runs = path[at + 1..].iter().find_map(|f| match f {
            Frame::For(d, LoopKind::Seq | LoopKind::Pipe(_)) if d.steps != crate::nest::Steps::Fixed(1) => {
                Some(*d)
            }
            _ => None,
        });
        let why = match (is_product, runs) {
            (false, _) => Some(("other statements are computed".to_string(), None)),
            (true, Some(digit)) => {
                Some((format!("the loop over `{}` runs at run time", nest.digit_name(digit)), Some(digit)))
            }
            (true, None) => None,
        };
        found = found.take().or(why);
    });
    found
}

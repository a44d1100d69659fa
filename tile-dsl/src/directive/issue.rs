//! `issue`: how asynchronous MMAs (`wgmma`) are issued.
//!
//! ```text
//! issue(v: overwrite)     the first MMAs into v overwrite it: nothing zeroes it before
//! issue(v: in_flight(n))  the MMAs of a step are waited for n steps later, and its stage is free then
//! ```
//! It rewrites no statement. That nothing else needs the sums between MMAs, the complete schedule shows.
//! Cost: with `in_flight` stages are freed so many steps later.

use super::prelude::*;
use crate::{
    engine::{facts::target_name, names},
    index::AxisId,
    nest::{self, Digit, Frame, LoopKind, Stmt, Target, ValueId, leaves},
};
use std::collections::BTreeSet;

directive! {
    /// `issue(acc: overwrite, in_flight(1))`: the first MMAs overwrite the sums; MMAs of so many steps may be in flight
    /// when the next ones are issued.
    "issue(acc: overwrite, in_flight(1))" in Launch, 0:
    Issue { value: String, overwrite: bool, in_flight: u32 } => |s| {
        let mut steps = (*in_flight > 0).then_some(*in_flight);
        let mut how = [Extra::flag("overwrite", overwrite), Extra::number("in_flight(1)", &mut steps)];
        s.one(value, "a value").mark(":").some_of(&mut how);
        *in_flight = steps.unwrap_or(0);
    }
}

impl Definition for Issue {
    const CHECK: Option<Check> = Some((Shows::Issue, check));

    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        issue(nest, &self.value, self.overwrite, self.in_flight)
    }
}

impl Drawn for Issue {
    fn kinds(&self, _: &Schedule) -> Vec<Kind> {
        let both = [(self.overwrite, Kind::Overwrite), (self.in_flight > 0, Kind::InFlight)];
        both.into_iter().filter(|(has, _)| *has).map(|(_, kind)| kind).collect()
    }

    fn beside(kind: Kind) -> &'static [&'static [Kind]] {
        match kind {
            Kind::InFlight => &[&[Kind::Wgmma], PRODUCERS, &[Kind::Unroll]],
            _ => &[&[Kind::Wgmma]],
        }
    }

    fn candidates(_: Kind, _: &mut Generator<'_>, wish: &Wish<'_>) -> Vec<DirectiveKind> {
        let Wish { set, product, .. } = *wish;
        let Some(product) = product else { return vec![] };
        let overwrite = set.contains(&Kind::Overwrite);
        let in_flight = u32::from(set.contains(&Kind::InFlight));
        vec![Issue { value: product.value.clone(), overwrite, in_flight }.into()]
    }
}

/// `issue(value: overwrite, in_flight(steps))`.
fn issue(nest: &Nest, name: &str, overwrite: bool, in_flight: u32) -> Result<(Nest, Proof), Failure> {
    let value = names::value(nest, name)?;
    if !overwrite && in_flight == 0 {
        let text = format!("issue({name}: ..) says neither `overwrite` nor how many steps are in flight");
        return Err(Failure::refused(Diagnostic::new(SpanId::NONE, text)));
    }
    let mut issued = nest.clone();
    issued.issue.insert(value, nest::Issue { overwrite, in_flight });
    Ok((issued, Proof::default()))
}

/// The products are asynchronous MMAs, and nothing else needs the sums between them.
fn check(context: &Context<'_>) -> Vec<Diagnostic> {
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

fn of(context: &Context<'_>, value: ValueId, issue: nest::Issue) -> Option<Diagnostic> {
    let nest = context.nest;
    let name = &nest.value(value).name;
    let by =
        context.last(|k| matches!(k, DirectiveKind::Issue(directive::Issue { value, .. }) if value == name));
    let wrong = |text: String, edit: Edit| {
        Some(context.at(by, nest.value(value).span, text).edits([edit, Edit::remove()]))
    };
    let kind = |overwrite: bool, in_flight: u32| {
        DirectiveKind::Issue(directive::Issue { value: name.clone(), overwrite, in_flight })
    };
    let without = |flag: bool| match (flag, issue) {
        (true, nest::Issue { in_flight: n @ 1.., .. }) => Edit::instead([kind(false, n)]),
        (false, nest::Issue { overwrite: true, .. }) => Edit::instead([kind(true, 0)]),
        _ => Edit::remove(),
    };
    let paths = paths(context, value);
    if paths.is_empty() || !paths.iter().all(|(_, by_itself)| *by_itself) {
        let text = format!("`{name}` is not computed by asynchronous MMAs alone");
        let diagnostic = context.at(by, nest.value(value).span, text);
        return Some(
            diagnostic
                .remark(format!("`tensor_core({name}: wgmma(64, 64))` computes it by asynchronous MMAs"))
                .edits([Edit::remove()]),
        );
    }
    let own = &nest.value(value).axes;
    // Loops around the `let` start the sums anew.
    let summed = |path: &[Frame]| {
        path.iter().position(|f| matches!(f, Frame::First(vs) if vs.contains(&value))).unwrap_or(0)
    };
    let over: BTreeSet<AxisId> = paths
        .iter()
        .flat_map(|(path, _)| &path[summed(path)..])
        .filter_map(|f| if let Frame::For(d, _) = f { Some(d.axis) } else { None })
        .filter(|axis| {
            !own.contains(axis)
                && nest.kernel.axes[usize::from(axis.0)].kind != crate::tile::AxisKind::Program
        })
        .collect();
    if issue.overwrite {
        let held = if nest.across.contains_key(&value) {
            Some("CTAs share the reduction, and a CTA may have no steps of it".to_string())
        } else if nest.value(value).init.is_some_and(|init| init != 0.0) {
            Some("it starts at another value than zero".to_string())
        } else if over.len() != 1 || paths.len() != 1 {
            Some(
                "it is summed over several axes, and the first MMA along the inner ones has to add"
                    .to_string(),
            )
        } else {
            let reader = read_before(context, value);
            reader.map(|target| format!("`{}` reads it before", target_name(nest, target)))
        };
        if let Some(why) = held {
            return wrong(format!("the first MMA cannot overwrite `{name}`: {why}"), without(true));
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
            "asynchronous MMAs into `{name}` can stay in flight across steps only if a producer fills the stages that they read: none of their loops has a producer"
        );
        return wrong(text, without(false));
    };
    if stages <= issue.in_flight {
        let text = format!(
            "asynchronous MMAs of {} steps in flight read all {stages} stages of `{}`: no stage is free for the producer to fill",
            issue.in_flight,
            nest.digit_name(digit)
        );
        let fewer = stages.saturating_sub(1);
        let edit = if fewer > 0 { Edit::instead([kind(issue.overwrite, fewer)]) } else { without(false) };
        return wrong(text, edit);
    }
    if let Some(what) = computed(context, value) {
        let text = format!(
            "asynchronous MMAs into `{name}` cannot stay in flight across steps: each step computes `{what}` into the registers that they read"
        );
        return wrong(text, without(false));
    }
    if let Some((other, runs)) = beside(context, value, digit) {
        let text = format!(
            "asynchronous MMAs into `{name}` cannot stay in flight across steps: in a step of `{}` {other}",
            nest.digit_name(digit)
        );
        let unroll =
            runs.map(|digit| Edit::put([directive::Unroll { digit: nest.digit_name(digit), within: None }]));
        let diagnostic = context.at(by, nest.value(value).span, text);
        return Some(diagnostic.edits(unroll).edits([without(false), Edit::remove()]));
    }
    None
}

/// What the first factor of a value's products is computed from, if it is.
fn computed(context: &Context<'_>, value: ValueId) -> Option<String> {
    let nest = context.nest;
    let mut found = None;
    leaves(&nest.body, &mut |path, leaf| {
        if matches!(leaf, Stmt::Red { value: v, .. } if *v == value)
            && let Some(product) = nest.product(path, leaf)
        {
            let factor = product.factors.into_iter().find(|f| f.element().is_none());
            found = found.take().or(factor.map(|f| nest.factor_name(f)));
        }
    });
    found
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
        // Products into other values that stay in flight for as long are waited for with these.
        let steps = |v: &ValueId| nest.issue.get(v).map_or(0, |issue| issue.in_flight);
        let is_product = matches!(leaf, Stmt::Red { value: v, .. } if *v == value || steps(v) == steps(&value))
            && nest.product(path, leaf).is_some_and(|p| p.atom.row().descriptors);
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

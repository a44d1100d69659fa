//! Loops over tiles that only accumulate are reductions over the whole axis.
//!
//! ```text
//! let mut l = zeros([r]); for n in tiles(N) { l = l + sum(f, n); }   →   let l = sum(f, n);
//! ```
//! So are other loops over an axis of the same points, whose axis becomes this one.

use super::{axes, is_var, refused};
use crate::{
    diagnostic::Diagnostic,
    index::AxisId,
    op::{BinOp, RedOp},
    span::SpanId,
    tile::{AxisKind, Expr, ExprKind, Kernel, Limits, Stmt, VarId, make, statements},
};

/// Makes reductions of the loops over an axis, and of those over others of the same points. Returns the axis, whose place may be
/// another one then.
pub(super) fn accumulations(kernel: &mut Kernel, axis: AxisId) -> Result<AxisId, Diagnostic> {
    if kernel.axes[usize::from(axis.0)].kind != AxisKind::Tiles {
        return Ok(axis);
    }
    let mut gone = Vec::new();
    for at in (0..kernel.body.len()).rev() {
        let Stmt::For { axis: over, body, .. } = &kernel.body[at] else { continue };
        let (own, over) = (*over == axis, *over);
        if !own && !alike(kernel, axis, over) {
            continue;
        }
        let body = body.clone();
        match accumulated(kernel, at, &body, over) {
            Ok((starts, mut reductions)) => {
                axes::renamed(&mut reductions, &|a| if a == over { axis } else { a });
                for stmt in &reductions {
                    if let Stmt::Let { var, .. } = stmt {
                        kernel.vars[usize::from(var.0)].mutable = false;
                    }
                }
                kernel.body.splice(at..=at, reductions);
                starts.into_iter().rev().for_each(|start| {
                    kernel.body.remove(start);
                });
                if !own {
                    gone.push(over);
                }
            }
            Err(why) if own => return Err(why),
            Err(_) => {}
        }
    }
    let mut nested = false;
    statements(&kernel.body, &mut |stmt| nested |= matches!(stmt, Stmt::For { axis: a, .. } if *a == axis));
    if nested {
        let name = &kernel.axes[usize::from(axis.0)].name;
        return Err(refused(format!("the loop over `{name}` stands inside of another one")));
    }
    kernel.axes[usize::from(axis.0)].kind = AxisKind::Whole;
    Ok(dropped(kernel, gone, axis))
}

/// Whether two axes have the same points.
fn alike(kernel: &Kernel, a: AxisId, b: AxisId) -> bool {
    let [a, b] = [a, b].map(|axis| &kernel.axes[usize::from(axis.0)]);
    let spanless = |limits: &Limits| {
        let mut limits = limits.clone();
        limits.ends_mut().for_each(|end| {
            end.each_mut(&mut |e| {
                e.span = SpanId::NONE;
                true
            });
        });
        limits
    };
    a.kind == b.kind && a.extent == b.extent && spanless(&a.limits) == spanless(&b.limits)
}

/// The places of the starts of what a loop accumulates, ascending, and its statements as reductions.
fn accumulated(
    kernel: &Kernel,
    at: usize,
    body: &[Stmt],
    over: AxisId,
) -> Result<(Vec<usize>, Vec<Stmt>), Diagnostic> {
    let axis = &kernel.axes[usize::from(over.0)].name;
    let (mut starts, mut reductions) = (Vec::new(), Vec::new());
    for stmt in body {
        let (var, value, span) = match stmt {
            Stmt::Let { .. } => {
                reductions.push(stmt.clone());
                continue;
            }
            Stmt::Assign { var, value, span } => (*var, value, *span),
            Stmt::For { span, .. } => {
                return Err(refused(format!("a loop stands inside of the loop over `{axis}`"))
                    .note(*span, "it stands here"));
            }
            Stmt::Store { span, .. } => {
                return Err(refused(format!("a store stands inside of the loop over `{axis}`"))
                    .note(*span, "it stands here"));
            }
        };
        let name = &kernel.vars[usize::from(var.0)].name;
        let alone = reads(body, var) == 1
            && reads(&kernel.body[..at], var) == 0
            && assignments(&kernel.body, var) == 1;
        let Some((op, reduction)) = part(var, value, over).filter(|_| alone) else {
            let text = format!(
                "the loop over `{axis}` does more to `{name}` than to add up: it is one pass already"
            );
            return Err(refused(text).note(span, "this is no reduction over all of it"));
        };
        let start = kernel.body[..at].iter().enumerate().find_map(|(n, stmt)| match stmt {
            Stmt::Let { var: v, value } if *v == var => Some((n, value)),
            _ => None,
        });
        let Some((place, start)) = start else {
            let text = format!("`{name}` starts anew in each step of the loop over `{axis}`");
            return Err(refused(text).note(span, "it is assigned here"));
        };
        let neutral = match &start.kind {
            ExprKind::Full { value, elem, .. } | ExprKind::Const { value, elem: Some(elem) } => {
                let none = make::neutral(op, *elem, span);
                matches!(none.kind, ExprKind::Const { value: none, .. } if none == *value)
            }
            _ => false,
        };
        if !neutral {
            let text = format!(
                "`{name}` starts from `{}`, and not from the {} of nothing",
                kernel.show(start),
                op.name()
            );
            return Err(refused(text).note(start.span, format!("`{name}` starts here")));
        }
        starts.push(place);
        reductions.push(Stmt::Let { var, value: with_start(reduction, start) });
    }
    starts.sort_unstable();
    Ok((starts, reductions))
}

/// What a step combines with a variable: a reduction over the axis, or a product.
fn part(var: VarId, value: &Expr, over: AxisId) -> Option<(RedOp, Expr)> {
    match &value.kind {
        ExprKind::Bin(op, a, b) => {
            let part = match (is_var(a, var), is_var(b, var)) {
                (true, false) => b,
                (false, true) => a,
                _ => return None,
            };
            match &part.kind {
                ExprKind::Reduce(red, _, axis) if *axis == over && red.combine() == *op => {
                    Some((*red, (**part).clone()))
                }
                _ => None,
            }
        }
        ExprKind::Dot(_, _, acc) if is_var(acc, var) => {
            Some((RedOp::combined_by(BinOp::Add)?, value.clone()))
        }
        _ => None,
    }
}

/// A product that starts where the loop does.
fn with_start(mut reduction: Expr, start: &Expr) -> Expr {
    if let ExprKind::Dot(_, _, acc) = &mut reduction.kind {
        **acc = start.clone();
    }
    reduction
}

fn reads(body: &[Stmt], var: VarId) -> usize {
    let mut count = 0;
    crate::tile::expressions(body, &mut |e| count += usize::from(is_var(e, var)));
    count
}

fn assignments(body: &[Stmt], var: VarId) -> usize {
    let mut count = 0;
    statements(body, &mut |stmt| {
        count += usize::from(matches!(stmt, Stmt::Assign { var: v, .. } if *v == var))
    });
    count
}

/// Leaves out axes that nothing mentions any more; the axis that is asked for, in its place.
fn dropped(kernel: &mut Kernel, gone: Vec<AxisId>, axis: AxisId) -> AxisId {
    let gone: Vec<AxisId> =
        gone.into_iter().filter(|a| !kernel.body.iter().any(|stmt| axes::mentions(*a, stmt))).collect();
    let place = |a: AxisId| AxisId(a.0 - gone.iter().filter(|g| g.0 < a.0).count() as u16);
    axes::renamed(&mut kernel.body, &place);
    let mut at = 0;
    kernel.axes.retain(|_| {
        at += 1;
        !gone.contains(&AxisId(at - 1))
    });
    for bound in &mut kernel.axes {
        bound.limits.ends_mut().for_each(|end| axes::renamed_in(end, &place));
    }
    place(axis)
}

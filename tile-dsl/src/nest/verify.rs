//! Verifier of nests, run between passes: every rewrite keeps these properties.

use super::{Digit, Frame, LoopKind, Nest, Role, Steps, Stmt, Target, leaves};
use crate::{index::AxisId, machine::Unit};
use std::collections::BTreeSet;

/// Checks a nest; an empty list means it is well-formed.
///
/// - every value read or written is bound by a `let` around it, written only in the first part,
///   read only in the second unless it is carried; what is `set` is carried;
/// - at each leaf, the digits of every axis that it depends on or reduces over cover the axis once: strides chain from
///   1 to the extent;
/// - a reduction has one operator, that of its table entry, and is combined if units hold parts of it; so is a scan, of which no loop
///   but one over tiles of a recurrence has a part inside;
/// - along a path, no digit is bound twice and no unit dimension is used twice; units have fixed steps, except
///   CTAs; the loops of an atom are the innermost, around a sum of products; a copy stands directly inside a loop or another copy, and is read;
/// - a tensor with a cache policy is accessed.
pub fn verify(nest: &Nest) -> Vec<String> {
    let mut wrong = Vec::new();
    leaves(&nest.body, &mut |path, leaf| {
        let (target, expr) = leaf.leaf().expect("a leaf");
        let shown = nest.print(leaf).trim_end().to_string();
        let mut say = |what: String| wrong.push(format!("{what}: {shown}"));
        if let Target::Value(v) = target {
            let bound = path.iter().any(|f| matches!(f, Frame::First(vs) if vs.contains(&v)));
            if !bound {
                say(format!("`{}` is written outside the first part of its let", nest.value(v).name));
            }
            if let Stmt::Red { op, .. } = leaf
                && nest.value(v).reduction != Some(*op)
            {
                say(format!("`{}` is no {} reduction", nest.value(v).name, op.name()));
            }
            let scanned = nest.value(v).scan;
            if matches!(leaf, Stmt::Scan { .. }) != scanned.is_some() {
                say(format!("`{}` is scanned, and something else writes it", nest.value(v).name));
            }
            // All of what is scanned is computed before any of it is read: the tiles of a recurrence aside.
            let outside = path.iter().take_while(|f| !matches!(f, Frame::First(vs) if vs.contains(&v)));
            if let Some((_, axis)) = scanned
                && let Some((digit, _)) =
                    outside.filter_map(Frame::step).find(|(d, _)| d.axis == axis && !nest.counts_tiles(*d))
            {
                say(format!(
                    "`{}` is scanned in each step of `{}`",
                    nest.value(v).name,
                    nest.digit_name(digit)
                ));
            }
            if matches!(leaf, Stmt::Set { .. }) && !nest.is_carried(v) {
                say(format!("`{}` is set, and nothing carries it", nest.value(v).name));
            }
        }
        for v in expr.values() {
            let carried = nest.is_carried(v);
            let bound = path.iter().any(|f| match f {
                Frame::Rest(vs) => vs.contains(&v),
                Frame::First(vs) => carried && vs.contains(&v),
                _ => false,
            });
            if !bound {
                say(format!("`{}` is read where it is not computed yet", nest.value(v).name));
            }
        }
        let atoms: Vec<Role> = path
            .iter()
            .filter_map(|f| if let Frame::For(_, LoopKind::Atom(_, role)) = f { Some(*role) } else { None })
            .collect();
        let last = path.iter().rev().take_while(|f| matches!(f, Frame::For(_, LoopKind::Atom(..)))).count();
        let multiplies = matches!(leaf, Stmt::Red { expr, .. } if nest.factors(expr).is_ok());
        if !atoms.is_empty() && (atoms != [Role::M, Role::N, Role::K] || last != atoms.len() || !multiplies) {
            say("the loops of an atom do not stand together around a product".into());
        }
        let digits: Vec<Digit> = path.iter().filter_map(|f| f.step().map(|(d, _)| d)).collect();
        // A loop over an axis that nothing here depends on repeats the statement, but a reduction counts each step.
        let mut axes: BTreeSet<AxisId> = expr.iotas().into_iter().collect();
        if let Stmt::Red { value, .. } = leaf {
            let inside = path.iter().rposition(|f| matches!(f, Frame::First(vs) if vs.contains(value)));
            axes.extend(path[inside.unwrap_or(0)..].iter().filter_map(|f| match f {
                Frame::For(d, _) => Some(d.axis),
                _ => None,
            }));
        }
        let accesses = expr.accesses().into_iter().chain(match target {
            Target::Access(a) => Some(a),
            Target::Value(_) => None,
        });
        axes.extend(accesses.flat_map(|a| nest.access(a).axes()));
        // What is combined counts once for each point.
        if let Target::Access(access) = target
            && nest.access(access).combines.is_some()
            && let Some(other) = digits.iter().find(|d| !nest.access(access).axes().contains(&d.axis))
        {
            let (shown, other) = (nest.print_access(nest.access(access)), nest.digit_name(*other));
            say(format!("`{shown}` is combined in each step of `{other}`"));
        }
        let scatters = matches!(expr, super::Expr::Scatter { .. });
        let plain = match target {
            Target::Access(access) => nest.access(access).is_plain(),
            Target::Value(_) => true,
        };
        if plain == scatters {
            say("an access and what is stored there differ in whether values say where".into());
        }
        let values = expr.values().into_iter().chain(match target {
            Target::Value(v) => Some(v),
            Target::Access(_) => None,
        });
        axes.extend(values.flat_map(|v| nest.value(v).axes.iter().copied()));
        for axis in axes {
            if let Err(why) = chain(nest, axis, &digits) {
                say(format!("axis `{}` {why}", nest.axis(axis)));
            }
        }
        if let Stmt::Red { value, .. } | Stmt::Scan { value, .. } = leaf {
            let inside = path.iter().rposition(|f| matches!(f, Frame::First(vs) if vs.contains(value)));
            for frame in &path[inside.unwrap_or(0)..] {
                if let Frame::For(d, LoopKind::Unit(unit, _)) = frame
                    && nest.value(*value).is_parted_by(d.axis)
                    && !match unit {
                        Unit::Block => nest.across.contains_key(value),
                        _ => nest.combine.contains_key(value),
                    }
                {
                    say(format!("{unit}s hold parts of `{}` that nothing combines", nest.value(*value).name));
                }
            }
        }
        let mut digits = BTreeSet::new();
        for frame in path {
            if let Frame::For(d, _) = frame
                && !digits.insert(*d)
            {
                say(format!("`{}` is bound twice", nest.digit_name(*d)));
            }
        }
        let mut units = BTreeSet::new();
        for frame in path {
            let Frame::For(d, LoopKind::Unit(unit, dim)) = frame else { continue };
            // The grid is one-dimensional: its dimensions are labels.
            if *unit != Unit::Block && !units.insert((*unit, *dim)) {
                say(format!("{unit}.{dim} is used twice"));
            }
            if *unit != Unit::Block && d.steps == Steps::Rest {
                say(format!("{unit}.{dim} has no fixed number of steps"));
            }
        }
        for pair in path.windows(2) {
            if let [Frame::First(_) | Frame::Rest(_), Frame::Stage(_)] = pair {
                say("a copy stands outside a loop".into());
            }
        }
    });
    copies_read(nest, &nest.body, &mut wrong);
    for tensor in nest.cache.keys() {
        if !nest.accesses.iter().any(|a| a.tensor == *tensor) {
            wrong.push(format!("a cache policy of tensor {}, which is not accessed", tensor.0));
        }
    }
    wrong
}

/// Mixed radix: strides chain from 1, each by the steps below it, and reach the extent.
fn chain(nest: &Nest, axis: AxisId, digits: &[Digit]) -> Result<(), String> {
    let mut own: Vec<Digit> =
        digits.iter().copied().filter(|d| d.axis == axis && d.steps != Steps::Fixed(1)).collect();
    own.sort_by_key(|d| d.stride);
    let mut next = 1u64;
    for (n, digit) in own.iter().enumerate() {
        if u64::from(digit.stride) != next {
            return Err(format!("has a digit of stride {} where {next} follows", digit.stride));
        }
        match digit.steps {
            Steps::Fixed(steps) => next = next.saturating_mul(steps.into()),
            Steps::Rest if n + 1 == own.len() => return Ok(()),
            Steps::Rest => return Err("has a digit beyond its outermost".into()),
        }
    }
    let extent = &nest.kernel.axes[usize::from(axis.0)].extent;
    let bound = extent.as_constant().or_else(|| nest.bounds.get(&axis).map(|b| i64::from(*b)));
    match bound {
        Some(bound) if i128::from(next) >= i128::from(bound) => Ok(()),
        Some(bound) => Err(format!("is covered up to {next} of {bound}")),
        None => Err(format!("is covered up to {next} of {extent}")),
    }
}

fn copies_read(nest: &Nest, stmt: &Stmt, wrong: &mut Vec<String>) {
    stmt.each(&mut |stmt| {
        let Stmt::Stage { copy, body } = stmt else { return };
        let mut read = false;
        leaves(body, &mut |_, leaf| {
            let accesses = leaf.leaf().expect("a leaf").1.accesses();
            read |= accesses.iter().any(|a| nest.serves(*copy, *a));
        });
        if !read {
            wrong.push(format!("the copy of `{}` is not read", nest.copy_name(*copy)));
        }
    });
}

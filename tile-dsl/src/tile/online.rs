//! One pass over an axis for reductions that depend on each other.
//!
//! ```text
//! let m = max(g, n); let p = exp(g - m); let l = sum(p, n); let o = dot(p / l, v, zeros);
//! →  let mut m = -inf; let mut l = 0; let mut o = 0;
//!    for n in tiles(N) {
//!        let m.max = max(g, n); let m.next = max(m, m.max); let m.frame = select(m.next == -inf, 0, m.next);
//!        let p = exp(g - m.frame); let m.scale = exp(m - m.frame);
//!        l = l * m.scale + sum(p, n); o = dot(p, v, o * m.scale); m = m.next;
//!    }
//!    let l.2 = select(m == -inf & 0 < N, m - m, l); let o.2 = ..; let o.3 = o.2 / l.2;
//! ```
//! The sums at a maximum so far are scaled to the next one (Milakov and Gimelshein 2018). Which sums follow that way, `weight` says.
//!
//! - `m.frame` is what the maximum of part of a row is taken to be: of a row of −∞ alone, 0, as −∞ − −∞ is no number. The maximum
//!   before is as it is: a sum of nothing is scaled by `exp(-inf)`, which is 0.
//! - A row that is −∞ from end to end is no number in the text, and so it is here: `m - m`.
//! - What reads points of `n` besides computes them again, over an axis of its own: `n2`.
//!
//! The passes: `whole` (loops that only accumulate are reductions), `named` (each reduction has a variable), `known` (what depends on
//! which), `weight` and `linear` (which sums follow by a scale), `choice` (what stands where the maximum is), `deviation` (squares from
//! a mean), `place` (what stands before, in and behind the loop), `text` (the kernel with the loop).

mod axes;
mod choice;
mod deviation;
mod known;
mod linear;
mod named;
mod place;
mod text;
mod weight;
mod whole;

use super::{AxisKind, ExprKind, Kernel, Stmt, expressions};
use crate::{
    diagnostic::Diagnostic,
    dtype::Float,
    index::AxisId,
    op::{BinOp, RedOp},
    span::SpanId,
    tile::Expr,
};
use choice::Choice;
use known::{Known, Totals};
use std::collections::BTreeMap;
use weight::{Outside, Power, Weigher, Why};

/// The kernel that `online` makes of another one: the reductions over an axis in one loop over its tiles, whose size the directive says.
///
/// # Errors
/// The reduction that does not follow, and the factor of it.
pub fn in_one_loop(kernel: &Kernel, axis: AxisId) -> Result<Kernel, Box<Diagnostic>> {
    online(kernel, axis).map(|written| written.kernel)
}

/// A kernel with its loop.
pub(crate) struct Online {
    /// The kernel.
    pub kernel: Kernel,
    /// Why it computes the same, a sentence each.
    pub facts: Vec<String>,
}

/// The reductions that share a loop.
struct Fold {
    /// All of them, in the order written.
    members: Vec<Member>,
    /// Variables whose value is another one in the loop.
    inside: BTreeMap<super::VarId, Expr>,
    /// The maxima and minima that powers are taken from.
    frames: Totals,
    /// Those, and the others that members follow.
    followed: Totals,
}

/// A reduction that the loop keeps up to date.
struct Member {
    /// Its place among the totals.
    total: usize,
    /// What it reduces, without what leaves it.
    value: Expr,
    powers: Vec<Power>,
    outside: Vec<Outside>,
    /// The maximum where it chooses what it reduces.
    chosen: Option<Choice>,
    /// From what it sums squared deviations, if it does; its value is the sum of what deviates then.
    deviates: Option<Expr>,
}

fn refused(text: impl Into<String>) -> Diagnostic {
    Diagnostic::new(SpanId::NONE, text)
}

/// A kernel with the reductions over an axis in one loop over tiles.
///
/// # Errors
/// The reduction that does not follow, and the factor of it.
pub(crate) fn online(kernel: &Kernel, axis: AxisId) -> Result<Online, Box<Diagnostic>> {
    let bound = &kernel.axes[usize::from(axis.0)];
    if bound.kind == AxisKind::Program {
        let text = format!("`{}` is an axis of programs: no program reduces over it", bound.name);
        return Err(Box::new(refused(text).note(bound.span, format!("`{}` is bound here", bound.name))));
    }
    let mut scanned = None;
    expressions(&kernel.body, &mut |e| {
        if let ExprKind::Scan(op, _, along) = &e.kind
            && *along == axis
        {
            scanned.get_or_insert((*op, e.span));
        }
    });
    // A tile knows nothing of those before it.
    if let Some((op, span)) = scanned {
        let text = format!(
            "`{}` is along `{}`: in a loop over tiles it would start anew with each",
            op.scan(),
            bound.name
        );
        return Err(Box::new(refused(text).note(span, "it is scanned here")));
    }
    let mut named = kernel.clone();
    let axis = whole::accumulations(&mut named, axis)?;
    named::name_reductions(&mut named, axis)?;
    let known = Known::new(&named, axis);
    let fold = fold(&known)?;
    let facts = facts(&known, &fold);
    let place = place::place(&known, &fold)?;
    let kernel = text::write(&known, &fold, &place);
    Ok(Online { kernel, facts })
}

/// Which reductions share the loop: from the first maximum that others depend on, or else the first total, to the last that depends
/// on it.
fn fold(known: &Known<'_>) -> Result<Fold, Box<Diagnostic>> {
    let name = &known.kernel.axes[usize::from(known.axis.0)].name;
    let terms = |total: usize| {
        let Stmt::Let { value, .. } = &known.kernel.body[known.totals[total].at] else {
            unreachable!("totals are bound by `let`")
        };
        value
    };
    let dependents =
        |of: usize| (of + 1..known.totals.len()).filter(move |n| known.depends_on(terms(*n)).contains(&of));
    let all = 0..known.totals.len();
    let leads = |n: &usize| dependents(*n).next().is_some();
    let is_maximum = |n: &usize| matches!(known.totals[*n].op, RedOp::Max | RedOp::Min);
    let first = all.clone().find(|n| is_maximum(n) && leads(n)).or_else(|| all.clone().find(leads));
    let Some(first) = first else {
        let text = match known.totals.len() {
            0 => format!("nothing is reduced over `{name}` as a whole"),
            1 => format!("one reduction is over `{name}`: no other depends on it"),
            n => format!("{n} reductions are over `{name}`, and none depends on another"),
        };
        let each = known.totals.iter().map(|total| (total.span, known.name(total.var)));
        let told =
            each.fold(refused(text), |d, (span, name)| d.note(span, format!("`{name}` is computed here")));
        return Err(Box::new(told));
    };
    let before: Totals = (0..first).collect();
    let last = all.filter(|n| !(&known.depends_on(terms(*n)) - &before).is_empty()).max().unwrap_or(first);
    let maxima = (first..=last).filter(|n| is_maximum(n) && known.depends_on(terms(*n)).is_subset(&before));
    let (maxima, inside) = (maxima.collect(), BTreeMap::new());
    let mut weigher = Weigher { known, before, maxima, inside };
    let mut members = Vec::new();
    for total in first..=last {
        let value = terms(total);
        let plain = Member {
            total,
            value: value.clone(),
            powers: Vec::new(),
            outside: Vec::new(),
            chosen: weigher.chooses(value),
            deviates: None,
        };
        if let Some(deviation) = weigher.deviates(value).filter(|_| !weigher.folded(value).is_empty()) {
            members.push(Member { value: deviation.sum, deviates: Some(deviation.from), ..plain });
            continue;
        }
        if weigher.maxima.contains(&total) || plain.chosen.is_some() {
            members.push(plain);
            continue;
        }
        let follows = match (is_maximum(&total), weigher.folded(value).first()) {
            (true, Some(of)) => {
                let [name, of] = [total, *of].map(|n| known.name_of(n));
                let op = known.totals[total].op.name();
                let text = format!("`{name}` is no sum: it is the {op} of what depends on `{of}`");
                Err(Why::new(text, value))
            }
            _ => weigher.total(value),
        };
        let term = follows.map_err(|why| not_kept(known, total, first, why))?;
        members.push(Member { value: term.value, powers: term.powers, outside: term.outside, ..plain });
    }
    let frames: Totals =
        members.iter().flat_map(|member| member.powers.iter().map(|power| power.of)).collect();
    for of in &frames {
        let (total, dtype) = (&known.totals[*of], known.type_of_total(*of).dtype());
        if !dtype.float().is_some_and(Float::has_infinities) {
            let text = format!(
                "`{}` is {} {dtype}, which has no infinities: the {} of nothing is none that powers can be taken from",
                known.name(total.var),
                dtype.article(),
                total.op.name()
            );
            return Err(Box::new(refused(text).note(total.span, "it is computed here")));
        }
    }
    let followed =
        frames.iter().copied().chain(members.iter().filter_map(|member| Some(member.chosen?.of))).collect();
    Ok(Fold { members, inside: weigher.inside, frames, followed })
}

/// A reduction that does not follow.
fn not_kept(known: &Known<'_>, total: usize, first: usize, why: Why) -> Box<Diagnostic> {
    let [name, of] = [total, first].map(|n| known.name_of(n));
    let text = format!("`{name}` cannot be kept up to date while `{of}` changes: {}", why.text);
    let told = refused(text)
        .note(why.span, "this is the part that does not follow")
        .note(known.totals[first].span, format!("`{of}` is computed here"));
    Box::new(match why.instead {
        Some(instead) => told.remark(instead),
        None => told,
    })
}

/// What was found of each reduction.
fn facts(known: &Known<'_>, fold: &Fold) -> Vec<String> {
    let fact = |member: &Member| {
        let name = known.name_of(member.total);
        let leaves = member.outside.iter().map(|out| {
            let way = if out.op == BinOp::Mul { "multiplied" } else { "divided" };
            format!(", and is {way} by `{}` after the loop", known.kernel.show(&out.value))
        });
        let mut scales: Vec<String> = Vec::new();
        for power in &member.powers {
            let of = known.name_of(power.of);
            let scale = format!("{}({} * ({of} - {of}'))", power.op.name(), power.by);
            scales.push(scale);
        }
        let how = match scales.is_empty() {
            _ if member.deviates.is_some() => {
                format!("`{name}` follows with the number and the mean of the points")
            }
            _ if let Some(Choice { of, .. }) = member.chosen => {
                format!("`{name}` is that of the last tiles with the same `{}`", known.name_of(of))
            }
            true => format!(
                "`{name}` of two parts is theirs, combined by `{}`",
                known.totals[member.total].op.name()
            ),
            false => format!("`{name}` follows by {}, at most 1", scales.join(" * ")),
        };
        leaves.fold(how, |text, leaves| text + &leaves)
    };
    fold.members.iter().map(fact).collect()
}

/// Whether an expression is a variable.
fn is_var(value: &Expr, var: super::VarId) -> bool {
    value.kind == ExprKind::Var(var)
}

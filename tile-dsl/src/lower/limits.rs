//! From where to where a loop over an axis with limits runs: from the first tile that has points for any row at hand to the last.
//!
//! ```text
//! first = min(max(least from - most before, 0), steps · tile) / tile · tile      ; least and most over the rows at hand
//! end   = min(greatest to - least before, steps · tile)
//! for p in 0 .. end - first: the tile at first + p             ; stages are counted by p
//! of these, without masks: ⌈(greatest from - least before - first) / tile⌉ · tile .. ⌊(least to - most before - first) / tile⌋ · tile
//! ```
//! All threads of a CTA, those that copy among them, find the same: what differs between threads is not looked at, only how far it
//! reaches. Affine limits are taken at the ends of what the axes at hand can be, in 64 bits; others, what is loaded among them, at
//! each point of the tile at hand. A limit that is one number cuts no tile of one point: all steps of such a loop are without masks.

use super::{
    build::Holds,
    context::Cx,
    control::{self, Span, Whole},
    emit::{Atom, Op},
    env::Bound,
    error::LowerError,
    expr, guard,
    linear::Linear,
};
use crate::{
    dtype::DType,
    index::AxisId,
    kernel::{self, Expr as KExpr},
    machine::Unit,
    nest::{Digit, Expr, Limits, LoopKind, Steps, TileSize},
    op::{BinOp, CmpOp, UnOp},
};
use std::collections::BTreeSet;

/// Points that are evaluated one after the other where a limit is no affine form.
const MOST_POINTS: i64 = 1 << 12;
/// Of these, those in straight-line code.
const EXPANDED: i64 = 8;
/// Half of what extents leave in 32 bits.
const ROOM: i64 = 1 << 15;
/// A factor that keeps products of 32-bit numbers in 64 bits, however they are added.
const SMALL: f64 = 65536.0;

/// That of a loop over a digit.
pub(super) fn span(cx: &mut Cx<'_>, digit: Digit) -> Result<Span, LowerError> {
    let end = control::end(cx, digit);
    let all = Span::all(end);
    if !cx.view.plan.limits.skips(digit) {
        return Ok(all);
    }
    let Some(Limits { from, to }) = cx.view.nest.limits.get(&digit.axis) else { return Ok(all) };
    let Some(before) = before(cx, digit.axis) else { return Ok(all) };
    let limited = (from.is_some(), to.is_some());
    let (from, to) = (bounds(cx, from.as_ref())?, bounds(cx, to.as_ref())?);
    let stride = i64::from(digit.stride);
    // Of a limit that has no bounds here, nobody knows where it cuts.
    let known = limited == (from.is_some(), to.is_some());
    let parts = known && cx.view.plan.limits.parts(digit) && cx.env.within.is_empty();
    let first = from.as_ref().and_then(|from| {
        let low = i32_or(cx, from, from.low, Atom::i32(0));
        let low = cx.build.emit.bin(BinOp::Max, low, Atom::i32(0));
        let low = cx.build.emit.bin(BinOp::Sub, low, before.high);
        let low = cx.build.emit.bin(BinOp::Max, low, Atom::i32(0));
        // Not so far that points behind it pass the range of an index.
        let low = cx.build.emit.bin(BinOp::Min, low, end);
        let tile = cx.build.emit.bin(BinOp::Div, low, Atom::i32(stride));
        let first = cx.build.emit.bin(BinOp::Mul, tile, Atom::i32(stride));
        (first != Atom::i32(0)).then(|| cx.build.emit.multiple(first, stride))
    });
    let all = end;
    let end = match &to {
        None => end,
        Some(to) => {
            let extent = cx.build.emit.dim(&cx.view.nest.kernel.axes[usize::from(digit.axis.0)].extent);
            let high = i32_or(cx, to, to.high, extent);
            let high = cx.build.emit.bin(BinOp::Min, high, extent);
            let high = cx.build.emit.bin(BinOp::Max, high, Atom::i32(0));
            let high = cx.build.emit.bin(BinOp::Sub, high, before.low);
            cx.build.emit.bin(BinOp::Min, high, end)
        }
    };
    let length = first.map_or(end, |first| cx.build.emit.bin(BinOp::Sub, end, first));
    // No limit cuts a tile of one point, if it is the same for all rows at hand.
    let one = stride == 1 && before.low == before.high;
    let cuts = |bounds: &&Bounds| !(one && bounds.is_one());
    let whole = parts.then(|| {
        let ends = Ends { from: from.as_ref().filter(cuts), to: to.as_ref().filter(cuts), first, all };
        whole(cx, digit, &before, &ends)
    });
    Ok(Span { first, end, length, whole })
}

/// What limits say of a loop.
struct Ends<'b> {
    from: Option<&'b Bounds>,
    to: Option<&'b Bounds>,
    /// The point of its first step; absent where it is 0.
    first: Option<Atom>,
    /// Behind its last step without limits.
    all: Atom,
}

/// The steps of a loop of whose tiles all points count, for all rows at hand.
fn whole(cx: &mut Cx<'_>, digit: Digit, before: &Before, ends: &Ends<'_>) -> Whole {
    let (stride, none) = (i64::from(digit.stride), Atom::i32(0));
    let first = ends.first.unwrap_or(none);
    let steps = |cx: &mut Cx<'_>, points: Atom| {
        let points = cx.build.emit.bin(BinOp::Max, points, none);
        let steps = cx.build.emit.bin(BinOp::Div, points, Atom::i32(stride));
        let passed = cx.build.emit.bin(BinOp::Mul, steps, Atom::i32(stride));
        cx.build.emit.multiple(passed, stride)
    };
    let from = ends.from.map(|from| {
        let high = i32_or(cx, from, from.high, Atom::i32(i32::MAX.into()));
        let high = cx.build.emit.bin(BinOp::Max, high, none);
        let least = cx.build.emit.bin(BinOp::Sub, high, before.low);
        let least = cx.build.emit.bin(BinOp::Min, least, ends.all);
        let passed = cx.build.emit.bin(BinOp::Sub, least, first);
        let up = cx.build.emit.add(passed, Atom::i32(stride - 1));
        steps(cx, up)
    });
    let to = ends.to.map(|to| {
        let low = i32_or(cx, to, to.low, none);
        let low = cx.build.emit.bin(BinOp::Max, low, none);
        let end = cx.build.emit.bin(BinOp::Sub, low, before.high);
        let passed = cx.build.emit.bin(BinOp::Sub, end, first);
        steps(cx, passed)
    });
    Whole { axis: digit.axis, from, to }
}

/// What an expression can be: all that it is for the rows at hand lies between, if it fits 32 bits.
struct Bounds {
    /// In 64 bits.
    low: Atom,
    high: Atom,
    /// The same as far as numbers tell.
    least: i128,
    most: i128,
    /// Whether what it is made of fits 32 bits; `None`: it always does.
    fits: Option<Atom>,
}

impl Bounds {
    /// Whether it is one number, and fits 32 bits.
    fn is_one(&self) -> bool {
        self.low == self.high && self.fits.is_none() && self.least >= I32[0] && self.most <= I32[1]
    }
}

const I32: [i128; 2] = [i32::MIN as i128, i32::MAX as i128];

/// A bound where it is one, and otherwise what bounds nothing.
fn i32_or(cx: &mut Cx<'_>, bounds: &Bounds, bound: Atom, otherwise: Atom) -> Atom {
    let fits = fitting(cx, bounds);
    let narrow = cx.build.emit.op(Op::Cast(DType::I32), &[bound]);
    match fits {
        None => narrow,
        Some(fits) => cx.build.emit.op(Op::Select, &[fits, narrow, otherwise]),
    }
}

/// Whether an expression and what it is made of fit 32 bits: then nothing has wrapped around.
fn fitting(cx: &mut Cx<'_>, bounds: &Bounds) -> Option<Atom> {
    let mut fits = bounds.fits;
    let number = |n: i128| Atom::Int(n as i64, DType::I64);
    if bounds.least < I32[0] {
        let above = cx.build.emit.cmp(CmpOp::Ge, bounds.low, number(I32[0]));
        fits = cx.build.emit.and(fits, Some(above));
    }
    if bounds.most > I32[1] {
        let below = cx.build.emit.cmp(CmpOp::Le, bounds.high, number(I32[1]));
        fits = cx.build.emit.and(fits, Some(below));
    }
    fits
}

fn wide(cx: &mut Cx<'_>, atom: Atom) -> Atom {
    cx.build.emit.op(Op::Cast(DType::I64), &[atom])
}

/// The bounds of a limit; `None` where nothing is known of it.
fn bounds(cx: &mut Cx<'_>, limit: Option<&Expr>) -> Result<Option<Bounds>, LowerError> {
    match limit {
        None => Ok(None),
        Some(limit) => bounds_of(cx, limit),
    }
}

fn bounds_of(cx: &mut Cx<'_>, e: &Expr) -> Result<Option<Bounds>, LowerError> {
    let (low, high, least, most, fits);
    match e {
        Expr::Const(c, DType::I32) => {
            let number = Atom::Int(*c as i64, DType::I64);
            return Ok(Some(Bounds {
                low: number,
                high: number,
                least: *c as i128,
                most: *c as i128,
                fits: None,
            }));
        }
        Expr::Iota(axis) => {
            let around = around(cx, *axis);
            let start = cx.build.emit.index(&around.low);
            let start = wide(cx, start);
            let last = match around.span {
                Some(span) => {
                    let span = Atom::Int(span, DType::I64);
                    cx.build.emit.bin(BinOp::Add, start, span)
                }
                None => {
                    let extent = cx.build.emit.dim(&cx.view.nest.kernel.axes[usize::from(axis.0)].extent);
                    let extent = wide(cx, extent);
                    cx.build.emit.bin(BinOp::Add, extent, Atom::Int(-1, DType::I64))
                }
            };
            // Extents leave room in 32 bits for tiles that reach beyond them, and for small numbers beside those that are not large.
            let large = around.span.is_some_and(|span| span >= ROOM);
            let most = I32[1] - if large { 0 } else { i128::from(ROOM) };
            return Ok(Some(Bounds { low: start, high: last, least: -1, most, fits: None }));
        }
        Expr::Dim(_) | Expr::Scalar(_) => {
            let value = expr::named(cx, e)?;
            let value = wide(cx, value);
            let least = if matches!(e, Expr::Dim(_)) { 0 } else { I32[0] };
            return Ok(Some(Bounds { low: value, high: value, least, most: I32[1], fits: None }));
        }
        Expr::Un(UnOp::Neg, x) => {
            let Some(x) = bounds_of(cx, x)? else { return Ok(None) };
            let none = Atom::Int(0, DType::I64);
            low = cx.build.emit.bin(BinOp::Sub, none, x.high);
            high = cx.build.emit.bin(BinOp::Sub, none, x.low);
            (least, most, fits) = (-x.most, -x.least, x.fits);
        }
        Expr::Bin(op @ (BinOp::Add | BinOp::Sub), a, b) => {
            let (Some(a), Some(b)) = (bounds_of(cx, a)?, bounds_of(cx, b)?) else { return Ok(None) };
            let (to_low, to_high) = if *op == BinOp::Add { (b.low, b.high) } else { (b.high, b.low) };
            low = cx.build.emit.bin(*op, a.low, to_low);
            high = cx.build.emit.bin(*op, a.high, to_high);
            (least, most) = match op {
                BinOp::Add => (a.least + b.least, a.most + b.most),
                _ => (a.least - b.most, a.most - b.least),
            };
            fits = cx.build.emit.and(a.fits, b.fits);
        }
        Expr::Bin(BinOp::Mul, x, c) | Expr::Bin(BinOp::Mul, c, x) if matches!(&**c, Expr::Const(c, _) if c.abs() < SMALL) =>
        {
            let Expr::Const(c, _) = &**c else { return Ok(None) };
            let Some(x) = bounds_of(cx, x)? else { return Ok(None) };
            // Sums of products have room, products of products have not.
            if x.least < 2 * I32[0] || x.most > 2 * I32[1] {
                return Ok(None);
            }
            let factor = Atom::Int(*c as i64, DType::I64);
            let ends = [x.low, x.high].map(|end| cx.build.emit.bin(BinOp::Mul, end, factor));
            let numbers = [x.least, x.most].map(|n| n * *c as i128);
            let turned = usize::from(*c < 0.0);
            low = ends[turned];
            high = ends[1 - turned];
            (least, most, fits) = (numbers[turned], numbers[1 - turned], x.fits);
        }
        Expr::Bin(op @ (BinOp::Min | BinOp::Max), a, b) => {
            let (Some(a), Some(b)) = (bounds_of(cx, a)?, bounds_of(cx, b)?) else { return Ok(None) };
            low = cx.build.emit.bin(*op, a.low, b.low);
            high = cx.build.emit.bin(*op, a.high, b.high);
            let one = |x: i128, y: i128| if *op == BinOp::Min { x.min(y) } else { x.max(y) };
            (least, most) = (one(a.least, b.least), one(a.most, b.most));
            let (a, b) = (fitting(cx, &a), fitting(cx, &b));
            fits = cx.build.emit.and(a, b);
        }
        Expr::Bin(BinOp::Div, x, c) if matches!(&**c, Expr::Const(c, _) if *c >= 1.0) => {
            let Expr::Const(c, _) = &**c else { return Ok(None) };
            let Some(x) = bounds_of(cx, x)? else { return Ok(None) };
            let divisor = Atom::Int(*c as i64, DType::I64);
            low = cx.build.emit.bin(BinOp::Div, x.low, divisor);
            high = cx.build.emit.bin(BinOp::Div, x.high, divisor);
            (least, most) = (x.least / *c as i128, x.most / *c as i128);
            fits = fitting(cx, &x);
        }
        _ => {
            return Ok(by_points(cx, e)?.map(|[least, greatest]| {
                let (low, high) = (wide(cx, least), wide(cx, greatest));
                Bounds { low, high, least: I32[0], most: I32[1], fits: None }
            }));
        }
    }
    Ok(Some(Bounds { low, high, least, most, fits }))
}

/// What is known of an axis: its loops around that all threads are in alike.
struct Around {
    bound: Vec<Bound>,
    /// What they contribute.
    low: Linear,
    /// How much more the axis can be; absent where it can be anything below the extent.
    span: Option<i64>,
}

/// Whether all threads of a CTA, and of those that share its copies, are at the same step of a loop.
fn is_uniform(cx: &Cx<'_>, bound: &Bound) -> bool {
    match bound.at {
        LoopKind::Unit(Unit::Block, _) => cx.view.nest.cluster != Some(bound.digit),
        // The steps of a vector are one access.
        LoopKind::Unit(..) | LoopKind::Atom(..) | LoopKind::Vec => false,
        LoopKind::Seq | LoopKind::Unroll | LoopKind::Serpentine | LoopKind::Pipe(_) => true,
    }
}

fn around(cx: &Cx<'_>, axis: AxisId) -> Around {
    let own = cx.env.stack.iter().filter(|b| b.digit.axis == axis && is_uniform(cx, b));
    let mut own: Vec<Bound> = own.cloned().collect();
    own.sort_by_key(|b| std::cmp::Reverse(b.digit.stride));
    let extent = cx.view.nest.kernel.axes[usize::from(axis.0)].extent.as_constant();
    let bound = extent.or_else(|| cx.view.nest.bounds.get(&axis).map(|n| i64::from(*n)));
    let reach = |b: &Bound| match super::digits::in_tile(cx, b.digit).steps {
        Steps::Fixed(n) => Some(i64::from(n) * i64::from(b.digit.stride)),
        Steps::Rest => None,
    };
    // The last tile of a segment has fewer points.
    let last = cx.view.nest.segment.filter(|_| cx.env.tile.size == TileSize::Last);
    let inside = |b: &Bound| match last {
        Some(segment) if segment.digit == b.digit => segment.rest(),
        _ => b.digit.stride,
    };
    // From the outermost digit inwards, as long as none is missing.
    let mut within: Option<i64> = None;
    let mut count = 0;
    for b in &own {
        let follows = match (within, reach(b)) {
            (None, None) => true,
            (None, Some(reach)) => bound.is_some_and(|bound| reach >= bound),
            (Some(within), reach) => reach == Some(within),
        };
        if !follows {
            break;
        }
        within = Some(i64::from(inside(b)));
        count += 1;
    }
    own.truncate(count);
    let mut low = Linear::default();
    own.iter().for_each(|b| low.add_scaled(&b.value, 1));
    Around { bound: own, low, span: within.map(|n| n - 1) }
}

/// What the loops around contribute to an axis.
struct Before {
    low: Atom,
    high: Atom,
}

fn before(cx: &mut Cx<'_>, axis: AxisId) -> Option<Before> {
    let (mut low, mut spread) = (Linear::default(), 0);
    for b in cx.env.stack.iter().filter(|b| b.digit.axis == axis) {
        match (is_uniform(cx, b), b.digit.steps) {
            (true, _) => low.add_scaled(&b.value, 1),
            (false, Steps::Fixed(n)) => spread += i64::from(n - 1) * i64::from(b.digit.stride),
            (false, Steps::Rest) => return None,
        }
    }
    let low = cx.build.emit.index(&low);
    let high = cx.build.emit.add(low, Atom::i32(spread));
    Some(Before { low, high })
}

/// The least and the greatest that an expression is at the points of the tile at hand; `None` where there are too many.
fn by_points(cx: &mut Cx<'_>, e: &Expr) -> Result<Option<[Atom; 2]>, LowerError> {
    let mut axes: BTreeSet<AxisId> = e.iotas().into_iter().collect();
    axes.extend(e.accesses().into_iter().flat_map(|a| cx.view.nest.access(a).axes()));
    let (mut stack, mut open, mut points) = (Vec::new(), Vec::new(), 1i64);
    for axis in axes {
        let Around { bound, span, .. } = around(cx, axis);
        let Some(span) = span else { return Ok(None) };
        stack.extend(bound);
        if span > 0 {
            points = points.saturating_mul(span + 1);
            open.push(Digit { axis, stride: 1, steps: Steps::Fixed(span as u32 + 1) });
        }
    }
    if points > MOST_POINTS {
        return Ok(None);
    }
    // Nothing around but these loops: no copy, no register.
    let stack = std::mem::replace(&mut cx.env.stack, stack);
    let (stages, fragments) = (std::mem::take(&mut cx.env.stages), std::mem::take(&mut cx.env.fragments));
    // What has been loaded from a copy may differ between threads, as far as the text tells.
    cx.build.emit.forget_loads(|_| true);
    let found = at_points(cx, e, &open);
    cx.env.stack = stack;
    cx.env.stages = stages;
    cx.env.fragments = fragments;
    found.map(Some)
}

/// The element of `i32` that `min` or `max` ignores.
const NEUTRAL: [(BinOp, i64); 2] = [(BinOp::Min, i32::MAX as i64), (BinOp::Max, i32::MIN as i64)];

fn at_points(cx: &mut Cx<'_>, e: &Expr, open: &[Digit]) -> Result<[Atom; 2], LowerError> {
    let Some((digit, inner)) = open.split_first() else {
        let value = expr::named(cx, e)?;
        let axes: BTreeSet<AxisId> = cx.env.stack.iter().map(|b| b.digit.axis).collect();
        let digits = super::digits::digits(cx);
        let ragged = axes.into_iter().filter(|a| super::digits::ragged(cx, *a, &digits));
        let within: Vec<_> = ragged.map(|a| guard::end_of(cx, a)).collect();
        let exists = guard::inside(cx, &within);
        return Ok(NEUTRAL.map(|(_, none)| match exists {
            None => value,
            Some(exists) => cx.build.emit.op(Op::Select, &[exists, value, Atom::i32(none)]),
        }));
    };
    let Steps::Fixed(steps) = digit.steps else {
        return Err(LowerError::Malformed("a limit at points without end".into()));
    };
    let steps = i64::from(steps);
    if steps <= EXPANDED {
        return expanded(cx, e, (*digit, inner), (Linear::default(), steps));
    }
    // Registers of its own: threads of another role may set theirs alone.
    let holds = Holds::Limit(digit.axis, cx.build.frags.len() as u32);
    let frag = cx.build.fragment(cx.view.nest, holds, DType::I32, 2);
    for (slot, (_, none)) in (0..).zip(NEUTRAL) {
        cx.build.emit.stmt(kernel::Stmt::Set { frag, slot, value: Atom::i32(none).expr() });
    }
    let together = (1..=EXPANDED).rev().find(|n| steps % n == 0).unwrap_or(1);
    cx.build.emit.push();
    let var = cx.build.emit.var(DType::I32);
    let found = expanded(cx, e, (*digit, inner), (Linear::var(var), together));
    if let Ok(found) = &found {
        for (slot, ((op, _), value)) in (0..).zip(NEUTRAL.into_iter().zip(found)) {
            let kept = KExpr::Slot { frag, slot };
            let value = KExpr::combined(op, DType::I32, kept, value.expr());
            cx.build.emit.stmt(kernel::Stmt::Set { frag, slot, value });
        }
    }
    let body = cx.build.emit.pop();
    found?;
    let [start, step] = [0, together].map(|n| KExpr::Int(n, DType::I32));
    let end = KExpr::Int(steps, DType::I32);
    cx.build.emit.stmt(kernel::Stmt::For { var, start, end, step, body });
    Ok([0, 1].map(|slot| Atom::Var(cx.build.emit.name(KExpr::Slot { frag, slot }, DType::I32))))
}

/// Some steps from a point on, one after the other in straight-line code.
fn expanded(
    cx: &mut Cx<'_>,
    e: &Expr,
    (digit, inner): (Digit, &[Digit]),
    (from, steps): (Linear, i64),
) -> Result<[Atom; 2], LowerError> {
    let mut all: Option<[Atom; 2]> = None;
    for step in 0..steps {
        let value = from.clone().plus(&Linear::constant(step));
        cx.env.stack.push(Bound::new(digit, LoopKind::Seq, value));
        let found = at_points(cx, e, inner);
        cx.env.stack.pop();
        let found = found?;
        all = Some(match all {
            None => found,
            Some(all) => [0, 1].map(|n| cx.build.emit.bin(NEUTRAL[n].0, all[n], found[n])),
        });
    }
    all.ok_or_else(|| LowerError::Malformed("a limit at no point".into()))
}

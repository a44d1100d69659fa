//! Loops and conditions around what is emitted.

use super::{
    context::Cx,
    digits::{self, StepOrder, Taken},
    emit::{Atom, Op, linear},
    env::{Bound, Passing},
    error::LowerError,
    linear::Linear,
};
use crate::{
    dtype::DType,
    index::AxisId,
    kernel::{self, Expr as KExpr},
    nest::{Digit, LoopKind, Step, Steps, Stmt},
    op::BinOp,
};

/// What walks over a statement. It is handed to what stands around statements.
pub(super) type Walk = fn(&mut Cx<'_>, &Stmt) -> Result<(), LowerError>;

/// The points of its axis that a loop at run time goes through, as its digit counts them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// The first, a multiple of the loop's stride; absent where it is 0.
    pub first: Option<Atom>,
    /// Behind the last; not above the first where there is no step.
    pub end: Atom,
    /// From the first to the end.
    pub length: Atom,
    /// Of a loop over an axis with limits: from where to where all points of each tile count, counted from the first point in whole steps.
    pub whole: Option<Whole>,
}

/// The steps of a loop that no limit cuts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole {
    /// The axis.
    pub axis: AxisId,
    /// Where they begin; absent: at the first step.
    pub from: Option<Atom>,
    /// Where they end; absent: with the loop.
    pub to: Option<Atom>,
}

/// What finds the span of a loop.
pub(super) type SpanOf = fn(&mut Cx<'_>, Digit) -> Result<Span, LowerError>;

impl Span {
    /// From 0 to an end.
    pub fn all(end: Atom) -> Span {
        Span { first: None, end, length: end, whole: None }
    }

    /// Where a step is that so many points are before.
    pub fn point(&self, passed: &Linear) -> Linear {
        let mut point = passed.clone();
        if let Some(first) = self.first {
            point.add_scaled(&linear(first, 0), 1);
        }
        point
    }
}

/// Runs `body` at each step of a loop that the threads at hand take.
pub(super) fn each_step<'a>(
    cx: &mut Cx<'a>,
    (digit, at): Step,
    order: StepOrder,
    span: SpanOf,
    body: &mut dyn FnMut(&mut Cx<'a>) -> Result<(), LowerError>,
) -> Result<(), LowerError> {
    let scheduled = order == StepOrder::Scheduled;
    let (mut values, expanded) = match digits::taken(cx, digit, at) {
        Taken::Loop => {
            let at = if scheduled { at } else { LoopKind::Seq };
            let span = span(cx, digit)?;
            return run_loop(cx, (digit, at), span, false, body);
        }
        Taken::One(value) => (vec![value], false),
        Taken::Each(values) => (values, true),
    };
    if scheduled && at == LoopKind::Serpentine && cx.env.enters_backwards() {
        values.reverse();
    }
    let steps = values.len() as u32;
    for (step, value) in (0..).zip(values) {
        let pass = (scheduled && expanded).then_some((step, steps));
        cx.env.stack.push(Bound { pass, ..Bound::new(digit, at, value) });
        let result = body(cx);
        cx.env.stack.pop();
        result?;
    }
    Ok(())
}

/// Runs `leaf` at each point of some loops.
pub(super) fn each_element<'a>(
    cx: &mut Cx<'a>,
    loops: &[Step],
    leaf: &mut dyn FnMut(&mut Cx<'a>) -> Result<(), LowerError>,
) -> Result<(), LowerError> {
    let Some((step, inner)) = loops.split_first() else { return leaf(cx) };
    let all = |cx: &mut Cx<'_>, digit: Digit| Ok(Span::all(end(cx, digit)));
    each_step(cx, *step, StepOrder::Points, all, &mut |cx| each_element(cx, inner, leaf))
}

pub(super) fn innermost_vec<'c>(cx: &'c Cx<'_>) -> Option<&'c Bound> {
    cx.env.stack.iter().rev().find(|b| b.at == LoopKind::Vec)
}

/// The end of a loop at run time over a digit, in points of its axis. It is the same for all threads.
pub(super) fn end(cx: &mut Cx<'_>, digit: Digit) -> Atom {
    let run = digits::run_time(cx, (digit, LoopKind::Seq));
    match digits::in_tile(cx, run).steps {
        Steps::Fixed(n) => Atom::i32(i64::from(n) * i64::from(digit.stride)),
        Steps::Rest => cx.build.emit.dim(&cx.view.nest.kernel.axes[digit.axis.0 as usize].extent),
    }
}

/// A loop at run time; its variable counts the points of the axis that it has passed.
/// `synchronised`: each step starts with a barrier of its own.
///
/// A loop over an axis with limits has a text of its own for the steps that no limit cuts: it is up to three loops, one behind the other,
/// that count on. What those at the edges need to mask does not live through the one between.
pub(super) fn run_loop<'a>(
    cx: &mut Cx<'a>,
    step: Step,
    span: Span,
    synchronised: bool,
    mut body: impl FnMut(&mut Cx<'a>) -> Result<(), LowerError>,
) -> Result<(), LowerError> {
    let all = (Atom::i32(0), span.length);
    let Some(frozen) = cx.env.frozen.filter(|frozen| frozen.digit == step.0) else {
        return run_range(cx, step, span, all, synchronised, &mut body);
    };
    // The first step has texts of its own.
    let first = cx.build.emit.bin(BinOp::Min, Atom::i32(step.0.stride.into()), span.length);
    run_range(cx, step, span, (all.0, first), synchronised, &mut body)?;
    cx.env.stays = Some(frozen);
    let rest = run_range(cx, step, span, (first, all.1), synchronised, &mut body);
    cx.env.stays = None;
    rest
}

/// The steps of a loop at run time from so many points passed to so many: parts that limits cut, and one that they do not.
fn run_range<'a>(
    cx: &mut Cx<'a>,
    step: Step,
    span: Span,
    (begin, end): (Atom, Atom),
    synchronised: bool,
    body: &mut dyn FnMut(&mut Cx<'a>) -> Result<(), LowerError>,
) -> Result<(), LowerError> {
    let Some(Whole { axis, from, to }) = span.whole else {
        return run_part(cx, step, span, (begin, end), synchronised, body);
    };
    let least = |cx: &mut Cx<'a>, a: Atom, b: Atom| cx.build.emit.bin(BinOp::Min, a, b);
    let behind = |cx: &mut Cx<'a>, at: Atom| match begin {
        Atom::Int(0, _) => at,
        begin => cx.build.emit.bin(BinOp::Max, begin, at),
    };
    if let Some(from) = from {
        let before = least(cx, from, end);
        run_part(cx, step, span, (begin, before), synchronised, body)?;
    }
    let start = from.map_or(begin, |from| behind(cx, from));
    let stop = match to {
        Some(to) => least(cx, to, end),
        None => end,
    };
    cx.env.within.push(axis);
    let within = run_part(cx, step, span, (start, stop), synchronised, body);
    cx.env.within.pop();
    within?;
    if let Some(to) = to {
        let rest = cx.build.emit.bin(BinOp::Max, start, to);
        run_part(cx, step, span, (rest, end), synchronised, body)?;
    }
    Ok(())
}

/// A part of a loop at run time: from so many points passed to so many.
fn run_part<'a>(
    cx: &mut Cx<'a>,
    (digit, at): Step,
    span: Span,
    (start, end): (Atom, Atom),
    synchronised: bool,
    body: &mut dyn FnMut(&mut Cx<'a>) -> Result<(), LowerError>,
) -> Result<(), LowerError> {
    cx.build.emit.push();
    let var = cx.build.emit.var(DType::I32);
    cx.build.emit.set_multiple(var, digit.stride.into());
    cx.build.sync.enter();
    let alternates = cx.env.tile.odd.filter(|_| cx.view.nest.alternate.contains(&digit));
    if alternates.is_some() || span.first.is_some() {
        cx.env.passing.push(Passing { digit, passed: var });
    }
    let passed = match alternates {
        None => Linear::var(var),
        Some(odd) => backwards_if(cx, odd, digit, var, span.length),
    };
    let value = span.point(&passed);
    cx.env.stack.push(Bound::new(digit, at, value));
    body(cx)?;
    cx.env.stack.pop();
    cx.env.passing.retain(|p| p.digit != digit);
    if cx.build.sync.leave(synchronised) {
        cx.build.emit_barrier();
    }
    let body = cx.build.emit.pop();
    let step = KExpr::Int(digit.stride.into(), DType::I32);
    cx.build.emit.stmt(kernel::Stmt::For { var, start: start.expr(), end: end.expr(), step, body });
    // The loop may have written what was loaded before it.
    cx.build.emit.forget_loads(|_| true);
    Ok(())
}

/// The points of a step that is the n-th from the end, where `odd`, and from the start otherwise.
pub(super) fn backwards_if(cx: &mut Cx<'_>, odd: Atom, digit: Digit, var: kernel::Var, end: Atom) -> Linear {
    let stride = i64::from(digit.stride);
    let last = cx.build.emit.add(end, Atom::i32(-1));
    let last = cx.build.emit.bin(BinOp::Div, last, Atom::i32(stride));
    let last = cx.build.emit.bin(BinOp::Mul, last, Atom::i32(stride));
    let back = cx.build.emit.bin(BinOp::Sub, last, Atom::Var(var));
    let point = cx.build.emit.op(Op::Select, &[odd, back, Atom::Var(var)]);
    linear(cx.build.emit.multiple(point, stride), 0)
}

pub(super) fn only_if<'a, R: Done>(
    cx: &mut Cx<'a>,
    condition: Option<Atom>,
    body: impl FnOnce(&mut Cx<'a>) -> R,
) -> R {
    let condition = match condition {
        None | Some(Atom::Bool(true)) => return body(cx),
        Some(Atom::Bool(false)) => return R::DONE,
        Some(condition) => condition,
    };
    cx.build.emit.push();
    let result = body(cx);
    let then = cx.build.emit.pop();
    cx.build.emit.stmt(kernel::Stmt::If { cond: condition.expr(), then, otherwise: Vec::new() });
    result
}

/// What all threads of some CTAs do, and none of others: barriers inside may not have been.
pub(super) fn in_some_ctas<'a>(
    cx: &mut Cx<'a>,
    condition: Atom,
    body: impl FnOnce(&mut Cx<'a>) -> Result<(), LowerError>,
) -> Result<(), LowerError> {
    let before = cx.build.sync.clone();
    only_if(cx, Some(condition), body)?;
    cx.build.sync.or(before);
    cx.build.emit.forget_loads(|_| true);
    Ok(())
}

/// What emitting nothing results in.
pub(super) trait Done {
    const DONE: Self;
}

impl Done for () {
    const DONE: Self = ();
}

impl Done for Result<(), LowerError> {
    const DONE: Self = Ok(());
}

/// What `f` emits in the innermost scope, to be emitted later in the same scope.
pub(super) fn captured<'a>(
    cx: &mut Cx<'a>,
    f: impl FnOnce(&mut Cx<'a>) -> Result<(), LowerError>,
) -> Result<Vec<kernel::Stmt>, LowerError> {
    let mark = cx.build.emit.mark();
    f(cx)?;
    Ok(cx.build.emit.take(mark))
}

pub(super) fn emit_all(cx: &mut Cx<'_>, stmts: impl IntoIterator<Item = kernel::Stmt>) {
    stmts.into_iter().for_each(|s| cx.build.emit.stmt(s));
}

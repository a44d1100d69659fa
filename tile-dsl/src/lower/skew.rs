//! Loops that compute a value a step ahead (`skew`).
//!
//! ```text
//! if there is a step {
//!   await K[0]; s = ..; wait; release K[0]
//!   for j but the last {
//!     look at K[j + 1], V[j]
//!     ..                                     // what reads s
//!     await those that had not come          // a branch: neither compiler moves what is before it behind the wait
//!     wait for o += .. of the step before; release V[j - 1]
//!     ..
//!     s = .. of j + 1; commit; o += .. V[j]; commit
//!     wait for s; release K[j + 1]
//!   }
//!   the last step, without an s
//!   wait for o; release V[last]
//! }
//! producer: K[0]; for j { K[j + 1] if there is one; V[j] }
//! ```
//! Where each wait stands, [`Skew`] says.

use super::{
    context::Cx,
    control::{self, Span, Walk},
    digits,
    emit::{Atom, Op},
    env::{Bound, Passing},
    error::LowerError,
    flow::{Mbarriers, Ring},
    joined, lets, limits,
    linear::Linear,
    mbarriers, ring, ring_stages, storage,
};
use crate::{
    dtype::DType,
    kernel::{self, Async},
    nest::{Digit, Skew, Steps, Stmt, ValueId},
    op::{BinOp, CmpOp},
    plan::Channel,
};

/// The loop: its channels and its statements.
struct Skewed<'l, 'a> {
    skew: &'a Skew,
    /// The channel that is read a step ahead, and the other one.
    rings: [Ring<'a>; 2],
    mbarriers: [Mbarriers; 2],
    /// What computes the value, and what the steps do behind it.
    first: &'l Stmt,
    rest: &'l Stmt,
    walk: Walk,
}

/// Lowers the loop; `body` stands in its copies.
pub(super) fn skewed<'a>(
    cx: &mut Cx<'a>,
    digit: Digit,
    channels: [&'a Channel; 2],
    body: &Stmt,
    walk: Walk,
) -> Result<(), LowerError> {
    let malformed = || LowerError::Malformed("a loop whose steps begin with no value".into());
    let (Some(skew), Stmt::Let { first, rest, .. }) = (&channels[0].skewed, body) else {
        return Err(malformed());
    };
    let rings = [ring::ring(cx, digit, channels[0], body)?, ring::ring(cx, digit, channels[1], body)?];
    let [Some(ahead), Some(behind)] = [rings[0].flow.mbarriers, rings[1].flow.mbarriers] else {
        return Err(malformed());
    };
    let span = rings[0].span;
    let it = Skewed { skew, rings, mbarriers: [ahead, behind], first, rest, walk };
    let some = some_steps(cx, digit, span);
    control::only_if(cx, Some(some), |cx| {
        it.begin(cx)?;
        let last = last_step(cx, digit, span);
        let before = Span { length: last, ..span };
        // Points of no other loop are added to those of the steps, which end with the extent.
        let alone = cx.env.stack.iter().all(|b| b.digit.axis != digit.axis);
        let to_end = digits::run_time(cx, (digit, it.rings[0].at())).steps == Steps::Rest;
        let full = (alone && to_end).then_some(digit.axis);
        cx.env.full.extend(full);
        control::run_loop(cx, (digit, it.rings[0].at()), before, false, |cx| it.step(cx, false))?;
        cx.env.full.truncate(cx.env.full.len() - full.iter().len());
        cx.env.stays = cx.env.frozen.filter(|frozen| frozen.digit == digit);
        let done = it.last(cx, digit, (span, last));
        cx.env.stays = None;
        done?;
        it.wait(cx, 0, &it.skew.sums)?;
        let next = ring_stages::position(cx, &behind)[0];
        let stage = ring_stages::stage_after(cx, &behind, next, -1);
        it.release(cx, 1, stage);
        Ok(())
    })
}

/// Whether the loop has a step; where all but the first leave a maximum as it is, whether it has another one.
fn some_steps(cx: &mut Cx<'_>, digit: Digit, span: Span) -> Atom {
    if cx.env.frozen.is_none_or(|frozen| frozen.digit != digit) {
        return cx.build.emit.cmp(CmpOp::Lt, Atom::i32(0), span.length);
    }
    let some = cx.build.emit.cmp(CmpOp::Lt, Atom::i32(digit.stride.into()), span.length);
    cx.env.quick = Some(some);
    some
}

/// The points before the last step, of a loop that has one.
fn last_step(cx: &mut Cx<'_>, digit: Digit, span: Span) -> Atom {
    let stride = i64::from(digit.stride);
    let last = cx.build.emit.add(span.length, Atom::i32(-1));
    let last = cx.build.emit.bin(BinOp::Div, last, Atom::i32(stride));
    let last = cx.build.emit.bin(BinOp::Mul, last, Atom::i32(stride));
    cx.build.emit.multiple(last, stride)
}

impl<'a> Skewed<'_, 'a> {
    /// Before the loop: the value of the first step.
    fn begin(&self, cx: &mut Cx<'a>) -> Result<(), LowerError> {
        let channel = &self.mbarriers[0];
        let at = ring_stages::position(cx, channel);
        self.full(cx, 0, at);
        cx.env.stack.push(self.rings[0].start());
        storage::hold(cx, self.skew.value, self.first)?;
        self.compute(cx, at[0])?;
        self.wait(cx, 0, &[self.skew.value])?;
        cx.env.held.remove(&self.skew.value);
        cx.env.stack.pop();
        self.release(cx, 0, at[0]);
        ring_stages::advance(cx, channel, at);
        Ok(())
    }

    /// The last step. What limits leave of its tile is masked.
    fn last(&self, cx: &mut Cx<'a>, digit: Digit, (span, last): (Span, Atom)) -> Result<(), LowerError> {
        let passed = cx.build.emit.var(DType::I32);
        cx.build.emit.stmt(kernel::Stmt::Let(passed, last.expr()));
        cx.build.emit.set_multiple(passed, digit.stride.into());
        if span.first.is_some() {
            cx.env.passing.push(Passing { digit, passed });
        }
        let point = span.point(&Linear::var(passed));
        cx.env.stack.push(Bound::new(digit, self.rings[0].at(), point));
        self.step(cx, true)?;
        cx.env.stack.pop();
        cx.env.passing.retain(|p| p.digit != digit);
        Ok(())
    }

    /// A step at the current point; the last one computes nothing ahead.
    fn step(&self, cx: &mut Cx<'a>, last: bool) -> Result<(), LowerError> {
        let (skew, [ahead, behind]) = (self.skew, &self.mbarriers);
        storage::hold(cx, skew.value, self.first)?;
        let at = ring_stages::position(cx, behind);
        let next = (!last).then(|| ring_stages::position(cx, ahead));
        // Where the copies have come by now, nobody waits for them.
        let come = [next.map(|next| self.look(cx, 0, next)), Some(self.look(cx, 1, at))];
        let statement = |cx: &mut Cx<'a>, n: usize, stmt: &Stmt| {
            if n == skew.waits {
                for (of, at) in [next, Some(at)].into_iter().enumerate() {
                    if let (Some(at), Some(come)) = (at, come[of]) {
                        let absent = [come, Atom::Bool(false), Atom::Bool(true)];
                        let absent = cx.build.emit.op(Op::Select, &absent);
                        control::only_if(cx, Some(absent), |cx| self.full(cx, of, at));
                    }
                }
                let pinned = skew.sums.iter().chain(&skew.computed).copied();
                let pinned: Vec<_> = pinned.filter(|v| !cx.env.is_left_out(*v)).collect();
                self.wait(cx, 0, &pinned)?;
                for value in pinned {
                    joined::take(cx, value)?;
                }
                self.release_before(cx, at[0]);
            }
            let next = next.filter(|_| n == skew.issues);
            if let Some([stage, _]) = next {
                self.compute_next(cx, stage)?;
            }
            (self.walk)(cx, stmt)?;
            if n == skew.issues {
                cx.build.emit.stmt(kernel::Stmt::Async(Async::Commit));
            }
            if let Some(at) = next {
                self.wait(cx, 1, &[skew.value])?;
                self.release(cx, 0, at[0]);
                ring_stages::advance(cx, ahead, at);
            }
            Ok(())
        };
        ring::reading(cx, &self.rings[1], at[0], |cx| sequence(cx, self.rest, 0, &statement))?;
        ring_stages::advance(cx, behind, at);
        cx.env.held.remove(&skew.value);
        Ok(())
    }

    /// The value of the next step, from a stage.
    fn compute_next(&self, cx: &mut Cx<'a>, stage: Atom) -> Result<(), LowerError> {
        let ring = &self.rings[0];
        let now = cx.env.stack.iter().rev().find(|b| b.digit == ring.digit).map(|b| b.value.clone());
        let next = now.unwrap_or_default().plus(&Linear::constant(ring.stride()));
        // Limits or the extent may cut the next tile.
        let (within, full) = (std::mem::take(&mut cx.env.within), std::mem::take(&mut cx.env.full));
        let result = ring_stages::at_point(cx, ring, next, |cx| self.compute(cx, stage));
        (cx.env.within, cx.env.full) = (within, full);
        result
    }

    /// The value of the current point, from a stage.
    fn compute(&self, cx: &mut Cx<'a>, stage: Atom) -> Result<(), LowerError> {
        lets::initialise(cx, self.skew.value)?;
        ring::reading(cx, &self.rings[0], stage, |cx| (self.walk)(cx, self.first))?;
        cx.build.emit.stmt(kernel::Stmt::Async(Async::Commit));
        Ok(())
    }

    /// Whether a stage of one of the channels is full by now.
    fn look(&self, cx: &mut Cx<'a>, of: usize, [stage, parity]: [Atom; 2]) -> Atom {
        let dst = cx.build.emit.var(DType::Bool);
        let (stage, parity) = (stage.expr(), parity.expr());
        let look = Async::Look { dst, barrier: self.mbarriers[of].full, stage, parity };
        cx.build.emit.stmt(kernel::Stmt::Async(look));
        Atom::Var(dst)
    }

    /// Waits until a stage of one of the channels is full.
    fn full(&self, cx: &mut Cx<'a>, of: usize, at: [Atom; 2]) {
        mbarriers::await_full(cx, &self.mbarriers[of], &self.rings[of].flow.copies, at);
    }

    /// Waits for all products but those of the youngest groups; these values are computed before it, or in it.
    fn wait(&self, cx: &mut Cx<'a>, pending: u32, values: &[ValueId]) -> Result<(), LowerError> {
        storage::await_products(cx, values, pending)
    }

    /// Gives a stage of one of the channels back.
    fn release(&self, cx: &mut Cx<'a>, of: usize, stage: Atom) {
        mbarriers::fence_reads(cx, &self.rings[of].flow);
        mbarriers::release(cx, &self.mbarriers[of], stage);
    }

    /// Gives the stage back that the step before has read, if there was one.
    fn release_before(&self, cx: &mut Cx<'a>, stage: Atom) {
        let digit = self.rings[1].digit;
        let now = cx.env.stack.iter().rev().find(|b| b.digit == digit);
        let passed = now.map(|bound| cx.env.passed(bound)).unwrap_or_default();
        let passed = cx.build.emit.index(&passed);
        let exists = cx.build.emit.cmp(CmpOp::Lt, Atom::i32(0), passed);
        control::only_if(cx, Some(exists), |cx| {
            let before = ring_stages::stage_after(cx, &self.mbarriers[1], stage, -1);
            self.release(cx, 1, before);
        });
    }
}

/// The statements of a sequence of `let`s, each with its number.
fn sequence<'a>(
    cx: &mut Cx<'a>,
    stmt: &Stmt,
    n: usize,
    statement: &dyn Fn(&mut Cx<'a>, usize, &Stmt) -> Result<(), LowerError>,
) -> Result<(), LowerError> {
    let Stmt::Let { values, first, rest } = stmt else { return statement(cx, n, stmt) };
    lets::bound(cx, values, first, &|cx| statement(cx, n, first), &|cx| sequence(cx, rest, n + 1, statement))
}

/// What a producer does for the loop; `inside` copies for loops inside.
pub(super) fn produce<'a>(
    cx: &mut Cx<'a>,
    digit: Digit,
    channels: [&'a Channel; 2],
    body: &Stmt,
    inside: &dyn Fn(&mut Cx<'a>) -> Result<(), LowerError>,
) -> Result<(), LowerError> {
    let rings = [ring::ring(cx, digit, channels[0], body)?, ring::ring(cx, digit, channels[1], body)?];
    let [ahead, behind] = &rings;
    let span = limits::span(cx, digit)?;
    let some = some_steps(cx, digit, span);
    cx.env.quick = None;
    control::only_if(cx, Some(some), |cx| {
        cx.env.stack.push(ahead.start());
        let filled = mbarriers::fill_next(cx, &ahead.flow);
        cx.env.stack.pop();
        filled?;
        // Those that copy mask nothing, and all steps are alike.
        let span = Span { whole: None, ..span };
        let frozen = cx.env.frozen.take();
        let copied = control::run_loop(cx, (digit, ahead.at()), span, true, |cx| {
            let now = cx.env.stack.last().expect("the loop");
            let (point, passed) = (now.value.clone(), cx.env.passed(now));
            let passed = cx.build.emit.index(&passed);
            let next = cx.build.emit.add(passed, Atom::i32(ahead.stride()));
            let exists = cx.build.emit.cmp(CmpOp::Lt, next, span.length);
            let point = point.plus(&Linear::constant(ahead.stride()));
            control::only_if(cx, Some(exists), |cx| {
                ring_stages::at_point(cx, ahead, point, |cx| mbarriers::fill_next(cx, &ahead.flow))
            })?;
            mbarriers::fill_next(cx, &behind.flow)?;
            inside(cx)
        });
        cx.env.frozen = frozen;
        copied
    })
}

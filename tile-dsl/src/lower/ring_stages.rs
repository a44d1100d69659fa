//! Stages of a ring, counted: where a step stands, and how its count moves on.
//!
//! | ring | its stages are counted |
//! |---|---|
//! | of mbarriers | in registers, with a parity, from the start of the kernel on and never set back |
//! | inside of which registers are prefetched across iterations | in a register: in straight-line code, remainders by the depth would cost more |
//! | any other | by the number of the step: nothing lives from one step to the next |
//!
//! The stage that a step fills ahead is the one that the step before has read. Beyond the end nothing is filled; where registers
//! are prefetched across iterations, no branch divides the straight line, and the step at hand is filled in again, which nobody reads.

use super::{
    context::Cx,
    emit::{Atom, Op},
    flow::{Mbarriers, Ring},
    linear::Linear,
};
use crate::{
    dtype::DType,
    kernel::{self, Expr as KExpr},
    op::{BinOp, CmpOp},
    plan::Producer,
};

/// Where a step of a ring stands.
pub(super) struct At {
    /// The stage that it reads.
    pub stage: Atom,
    /// What it fills, if those that read do.
    pub ahead: Option<Ahead>,
}

/// The step that is filled ahead.
#[derive(Clone, Copy)]
pub(super) struct Ahead {
    /// Its point.
    pub point: Atom,
    /// Whether there is such a step; `None`: the point is that of one.
    pub exists: Option<Atom>,
    /// The stage it goes to.
    pub stage: Atom,
}

/// Where a step of the ring around stands; of mbarriers, at this stage and parity.
pub(super) fn stand(cx: &mut Cx<'_>, ring: &Ring<'_>, position: Option<[Atom; 2]>) -> At {
    let plan = &ring.flow.plan;
    if let (Producer::Role(_), Some([stage, _])) = (plan.producer, position) {
        return At { stage, ahead: None };
    }
    let ahead = i64::from(plan.ahead());
    let point = point(cx);
    let (mut next, more) = steps_on(cx, ring, point, ahead);
    if ring.counter.is_some() {
        next = within_end(cx, ring, (next, more), point);
    }
    let [stage, free] = match (position, &ring.flow.mbarriers, ring.counter) {
        (Some([stage, _]), Some(channel), _) => [stage, stage_after(cx, channel, stage, ahead)],
        (_, _, Some(counter)) => count_on(cx, ring, counter),
        (_, _, None) => {
            let depth = Atom::i32(plan.stages.into());
            let passed = match ring.span.first {
                None => point,
                Some(first) => cx.build.emit.bin(BinOp::Sub, point, first),
            };
            let step = cx.build.emit.bin(BinOp::Div, passed, Atom::i32(ring.stride()));
            let stage = cx.build.emit.bin(BinOp::Rem, step, depth);
            let free = cx.build.emit.add(step, Atom::i32(ahead));
            [stage, cx.build.emit.bin(BinOp::Rem, free, depth)]
        }
    };
    let exists = ring.counter.is_none().then_some(more);
    At { stage, ahead: Some(Ahead { point: next, exists, stage: free }) }
}

/// Point and stage of the step behind one that reads `stage`, behind the last those of the last.
pub(super) fn following(cx: &mut Cx<'_>, ring: &Ring<'_>, stage: Atom) -> [Atom; 2] {
    let point = point(cx);
    let (next, exists) = steps_on(cx, ring, point, 1);
    let after = counted(cx, ring, stage, 1);
    let stage = cx.build.emit.op(Op::Select, &[exists, after, stage]);
    [within_end(cx, ring, (next, exists), point), stage]
}

/// The point of the innermost loop.
fn point(cx: &mut Cx<'_>) -> Atom {
    let now = cx.env.stack.last().expect("a loop").value.clone();
    cx.build.emit.index(&now)
}

/// The point so many steps behind another, and whether the ring has it.
fn steps_on(cx: &mut Cx<'_>, ring: &Ring<'_>, point: Atom, steps: i64) -> (Atom, Atom) {
    let next = cx.build.emit.add(point, Atom::i32(steps * ring.stride()));
    let next = cx.build.emit.multiple(next, ring.stride());
    (next, cx.build.emit.cmp(CmpOp::Lt, next, ring.span.end))
}

/// A point if the ring has it, else another.
fn within_end(cx: &mut Cx<'_>, ring: &Ring<'_>, (next, exists): (Atom, Atom), otherwise: Atom) -> Atom {
    let chosen = cx.build.emit.op(Op::Select, &[exists, next, otherwise]);
    cx.build.emit.multiple(chosen, ring.stride())
}

/// The stage that a step reads and the one that it fills, by a register that counts; it is moved on.
fn count_on(cx: &mut Cx<'_>, ring: &Ring<'_>, counter: u32) -> [Atom; 2] {
    let stage = cx.build.emit.var(DType::I32);
    cx.build.emit.stmt(kernel::Stmt::Let(stage, KExpr::Slot { frag: counter, slot: 0 }));
    let stage = Atom::Var(stage);
    let [next, before] = [1, -1].map(|step| counted(cx, ring, stage, step));
    cx.build.emit.stmt(kernel::Stmt::Set { frag: counter, slot: 0, value: next.expr() });
    [stage, before]
}

/// The stage behind another or before it.
fn counted(cx: &mut Cx<'_>, ring: &Ring<'_>, stage: Atom, step: i64) -> Atom {
    let last = i64::from(ring.flow.plan.stages) - 1;
    let (edge, to) = if step > 0 { (last, 0) } else { (0, last) };
    let at_edge = cx.build.emit.cmp(CmpOp::Eq, stage, Atom::i32(edge));
    let moved = cx.build.emit.add(stage, Atom::i32(step));
    cx.build.emit.op(Op::Select, &[at_edge, Atom::i32(to), moved])
}

/// Of mbarriers, the stage and the parity of the step that is read next.
pub(super) fn position(cx: &mut Cx<'_>, channel: &Mbarriers) -> [Atom; 2] {
    [0, 1].map(|slot| {
        let var = cx.build.emit.var(DType::I32);
        let value = KExpr::Slot { frag: channel.cursor, slot };
        cx.build.emit.stmt(kernel::Stmt::Let(var, value));
        Atom::Var(var)
    })
}

/// `stage + step`, below the depth again.
pub(super) fn stage_after(cx: &mut Cx<'_>, channel: &Mbarriers, stage: Atom, step: i64) -> Atom {
    let depth = i64::from(channel.depth);
    match step.rem_euclid(depth) {
        0 => stage,
        step => {
            let moved = cx.build.emit.add(stage, Atom::i32(step));
            let beyond = cx.build.emit.cmp(CmpOp::Ge, stage, Atom::i32(depth - step));
            let wrapped = cx.build.emit.add(stage, Atom::i32(step - depth));
            cx.build.emit.op(Op::Select, &[beyond, wrapped, moved])
        }
    }
}

/// One step on.
pub(super) fn advance(cx: &mut Cx<'_>, channel: &Mbarriers, [stage, parity]: [Atom; 2]) {
    let next = stage_after(cx, channel, stage, 1);
    let last = cx.build.emit.cmp(CmpOp::Eq, stage, Atom::i32(i64::from(channel.depth) - 1));
    let turned = cx.build.emit.bin(BinOp::Sub, Atom::i32(1), parity);
    let parity = cx.build.emit.op(Op::Select, &[last, turned, parity]);
    set_position(cx, channel, [next, parity]);
}

/// So many steps on, so many times; stage and parity count up to twice the depth together.
pub(super) fn advance_by(
    cx: &mut Cx<'_>,
    channel: &Mbarriers,
    [stage, parity]: [Atom; 2],
    (steps, times): (Atom, i64),
) {
    let depth = i64::from(channel.depth);
    let round = Atom::i32(2 * depth);
    // Not so many that the product passes the range of an index.
    let steps = cx.build.emit.bin(BinOp::Rem, steps, round);
    let moved = cx.build.emit.bin(BinOp::Mul, steps, Atom::i32(times));
    let turned = cx.build.emit.bin(BinOp::Mul, parity, Atom::i32(depth));
    let at = cx.build.emit.add(stage, turned);
    let at = cx.build.emit.add(at, moved);
    let at = cx.build.emit.bin(BinOp::Rem, at, round);
    let odd = cx.build.emit.cmp(CmpOp::Ge, at, Atom::i32(depth));
    let parity = cx.build.emit.op(Op::Select, &[odd, Atom::i32(1), Atom::i32(0)]);
    let stage = cx.build.emit.bin(BinOp::Rem, at, Atom::i32(depth));
    set_position(cx, channel, [stage, parity]);
}

fn set_position(cx: &mut Cx<'_>, channel: &Mbarriers, position: [Atom; 2]) {
    for (slot, value) in (0..).zip(position) {
        cx.build.emit.stmt(kernel::Stmt::Set { frag: channel.cursor, slot, value: value.expr() });
    }
}

/// What `f` does, at another point of a ring's loop.
pub(super) fn at_point<'a, R>(
    cx: &mut Cx<'a>,
    ring: &Ring<'_>,
    point: Linear,
    f: impl FnOnce(&mut Cx<'a>) -> R,
) -> R {
    let around = cx.env.stack.iter().rposition(|b| b.digit == ring.digit).expect("the ring's loop");
    let now = std::mem::replace(&mut cx.env.stack[around].value, point);
    let result = f(cx);
    cx.env.stack[around].value = now;
    result
}

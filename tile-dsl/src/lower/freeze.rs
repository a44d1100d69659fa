//! Loops all of whose steps but the first leave a running maximum as it is (`freeze`).
//!
//! ```text
//! the loop: its first step, then the others with the maximum as it is
//! vote good = all threads: |sum| < 2^100, |maximum| < ∞          // a NaN is not
//! one thread: await heard; again = not good; arrive said     // where a producer copies
//!                                                            // which: await said; arrive heard; if again: the loop once more
//! if not good { the values as they start; the loop, with all that its steps do }
//! ```
//! What the steps leave out [`Frozen`] says.

use super::{
    build::Holds,
    context::Cx,
    control,
    emit::{Atom, Op},
    error::LowerError,
    mbarriers, storage,
};
use crate::{
    dtype::DType,
    kernel::{self, Async, Expr as KExpr, Mem},
    nest::Frozen,
    op::{BinOp, CmpOp, UnOp},
    shared::Content,
};

/// A bound of the sums of a frame that is good enough: the inverse of one is a normal number.
const GOOD: f64 = (1u128 << 100) as f64;

/// What computes the values of a `let` that has such a maximum: `compute` does, after `start`.
pub(super) fn computed<'a>(
    cx: &mut Cx<'a>,
    frozen: &'a Frozen,
    start: &dyn Fn(&mut Cx<'a>) -> Result<(), LowerError>,
    compute: &dyn Fn(&mut Cx<'a>) -> Result<(), LowerError>,
) -> Result<(), LowerError> {
    let runs = quickly(cx, frozen, compute)?;
    let value = good(cx, frozen, runs)?;
    let dst = cx.build.emit.var(DType::Bool);
    cx.build.emit.stmt(kernel::Stmt::Vote { dst, value, group: None });
    cx.build.sync.barrier();
    cx.build.emit.forget_loads(|_| true);
    if frozen.produced {
        tell(cx, dst)?;
    }
    let bad = cx.build.emit.op(Op::Select, &[Atom::Var(dst), Atom::Bool(false), Atom::Bool(true)]);
    let before = cx.build.sync.clone();
    control::only_if(cx, Some(bad), |cx| {
        start(cx)?;
        compute(cx)
    })?;
    cx.build.sync.or(before);
    cx.build.emit.forget_loads(|_| true);
    Ok(())
}

/// What `f` does in the pass that leaves the maximum as it is; under which condition it does, if there is one.
pub(super) fn quickly<'a>(
    cx: &mut Cx<'a>,
    frozen: &'a Frozen,
    f: &dyn Fn(&mut Cx<'a>) -> Result<(), LowerError>,
) -> Result<Option<Atom>, LowerError> {
    cx.env.frozen = Some(frozen);
    let result = f(cx);
    cx.env.frozen = None;
    result.map(|()| cx.env.quick.take())
}

/// Whether the sums of this thread are as they should be.
fn good(cx: &mut Cx<'_>, frozen: &Frozen, runs: Option<Atom>) -> Result<KExpr, LowerError> {
    let mut most = KExpr::Float(0.0, DType::F32);
    for sum in &frozen.sums {
        let Some(registers) = &storage::held(cx, *sum)?.registers else { continue };
        let (frag, slots) = (registers.frag, storage::slots_in_tile(cx, registers));
        for slot in slots {
            let size = KExpr::Un(UnOp::Abs, Box::new(KExpr::Slot { frag, slot }));
            let var = cx.build.emit.var(DType::F32);
            let value = KExpr::Bin(BinOp::Max, Box::new(most), Box::new(size));
            cx.build.emit.stmt(kernel::Stmt::Let(var, value));
            most = KExpr::Var(var);
        }
    }
    let below =
        |x: KExpr, bound: f64| KExpr::Cmp(CmpOp::Lt, Box::new(x), Box::new(KExpr::Float(bound, DType::F32)));
    let mut good = below(most, GOOD);
    if let Some(registers) = &storage::held(cx, frozen.value)?.registers {
        for slot in storage::slots_in_tile(cx, registers) {
            let size = KExpr::Un(UnOp::Abs, Box::new(KExpr::Slot { frag: registers.frag, slot }));
            good = KExpr::Bin(BinOp::And, Box::new(good), Box::new(below(size, f64::INFINITY)));
        }
    }
    Ok(match runs {
        None => good,
        Some(runs) => KExpr::Bin(BinOp::And, Box::new(runs.expr()), Box::new(good)),
    })
}

/// Of the two mbarriers: the verdict stands in the word, and the producer has read it.
const SAID: i64 = 0;
const HEARD: i64 = 1;

/// How a producer learns whether it copies again.
struct Verdict {
    mbarriers: u32,
    /// The word that says so.
    again: u32,
    /// Register: the parity of the next one.
    parity: u32,
}

impl Verdict {
    fn of(cx: &mut Cx<'_>) -> Result<Verdict, LowerError> {
        let mbarriers = mbarriers::mbarrier_ring(cx, (Content::Verdict, 0), 2, 1)?;
        let again = cx.view.shared_buffer(Content::Again, 0)?;
        let parity = cx.build.fragment(cx.view.nest, Holds::Verdict, DType::I32, 2);
        if !cx.build.cursors.contains(&parity) {
            cx.build.cursors.push(parity);
        }
        Ok(Verdict { mbarriers, again, parity })
    }

    fn arrive(&self, at: i64) -> kernel::Stmt {
        let stage = KExpr::Int(at, DType::I32);
        kernel::Stmt::Async(Async::Arrive { barrier: self.mbarriers, stage, bytes: None, cta: None })
    }

    fn wait(&self, at: i64, parity: Atom) -> kernel::Stmt {
        let stage = KExpr::Int(at, DType::I32);
        kernel::Stmt::Async(Async::Wait { barrier: self.mbarriers, stage, parity: parity.expr() })
    }

    /// The parity of this verdict, and the other one, which is that of the next.
    fn turn(&self, cx: &mut Cx<'_>) -> [Atom; 2] {
        let parity = cx.build.emit.var(DType::I32);
        cx.build.emit.stmt(kernel::Stmt::Let(parity, KExpr::Slot { frag: self.parity, slot: 0 }));
        let parity = Atom::Var(parity);
        let other = cx.build.emit.bin(BinOp::Sub, Atom::i32(1), parity);
        let value = other.expr();
        cx.build.emit.stmt(kernel::Stmt::Set { frag: self.parity, slot: 0, value });
        [parity, other]
    }
}

/// One of the threads that compute tells the producer, once that has heard of the tile before.
fn tell(cx: &mut Cx<'_>, good: kernel::Var) -> Result<(), LowerError> {
    let verdict = Verdict::of(cx)?;
    // The first time there is none before.
    let [_, before] = verdict.turn(cx);
    let [zero, one] = [0, 1].map(|n| Box::new(KExpr::Int(n, DType::I32)));
    let store = kernel::Stmt::Store {
        mem: Mem::Shared(verdict.again),
        offset: KExpr::Int(0, DType::I32),
        values: vec![KExpr::Select(Box::new(KExpr::Var(good)), zero, one)],
        guard: None,
    };
    let thread = cx.env.tile.units.first;
    let body = vec![verdict.wait(HEARD, before), store, verdict.arrive(SAID)];
    cx.build.emit.stmt(kernel::Stmt::One { thread, body });
    Ok(())
}

/// What a producer does behind the quick pass: it learns whether to copy again, and does.
pub(super) fn again<'a>(
    cx: &mut Cx<'a>,
    copy: &dyn Fn(&mut Cx<'a>) -> Result<(), LowerError>,
) -> Result<(), LowerError> {
    let verdict = Verdict::of(cx)?;
    let [parity, _] = verdict.turn(cx);
    cx.build.emit.stmt(verdict.wait(SAID, parity));
    cx.build.emit.forget_loads(|mem| mem == Mem::Shared(verdict.again));
    let told = cx.build.emit.var(DType::I32);
    let (mem, offset) = (Mem::Shared(verdict.again), KExpr::Int(0, DType::I32));
    cx.build.emit.stmt(kernel::Stmt::Load { dst: vec![told], mem, offset, guard: None });
    cx.build.emit.stmt(verdict.arrive(HEARD));
    let again = cx.build.emit.cmp(CmpOp::Ne, Atom::Var(told), Atom::i32(0));
    control::only_if(cx, Some(again), copy)
}

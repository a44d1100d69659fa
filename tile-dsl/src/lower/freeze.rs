//! Loops all of whose steps but the first leave a running maximum as it is (`freeze`).
//!
//! ```text
//! again[..] = 0; barrier
//! for each tile {                                                // the quick pass
//!   the loop: its first step, then the others with the maximum as it is
//!   unless |sum| < 2^100 and |maximum| < ∞: again[..] += 1       // a NaN is not
//!   or where powers become numbers of 8 bits, unless the greatest of their sums in a step is such a number
//!   what comes behind the loop: it stores
//! }
//! barrier; one thread: arrive said                               // where a producer copies, which waits for it
//! if again[0] != 0: for each tile, if its again[..] != 0: the whole tile, with all that its steps do
//! ```
//! Nobody waits between tiles: warps look at their own sums, and a producer copies what the next tile reads meanwhile.
//! Where a CTA has more tiles than there are words, several have one, and are computed again together.
//! What the steps leave out [`Frozen`] says. Both passes store: [`crate::nest::Frozen`] is of tiles that may.

use super::{
    build::Holds,
    context::Cx,
    control,
    emit::{Atom, Op},
    env::Pass,
    error::LowerError,
    mbarriers, output, storage,
};
use crate::{
    dtype::{DType, Float},
    kernel::{self, Async, Expr as KExpr, Mem},
    nest::{Frozen, ValueId},
    op::{BinOp, CmpOp, RedOp, UnOp},
    shared::{AGAIN_WORDS, Content},
};

/// A bound of the sums of a frame that is good enough: the inverse of one is a normal number.
const GOOD: f64 = (1u128 << 100) as f64;

/// What computes the values of a `let` that has such a maximum, in the pass at hand: `compute` does.
pub(super) fn computed<'a>(
    cx: &mut Cx<'a>,
    frozen: &'a Frozen,
    compute: &dyn Fn(&mut Cx<'a>) -> Result<(), LowerError>,
) -> Result<(), LowerError> {
    if cx.env.tile.pass == Pass::Exact {
        return compute(cx);
    }
    for (sum, _) in &frozen.narrow {
        let (frag, value) = (greatest(cx, *sum), KExpr::Float(0.0, DType::F32));
        cx.build.emit.stmt(kernel::Stmt::Set { frag, slot: 0, value });
    }
    let runs = quickly(cx, frozen, compute)?;
    let good = good(cx, frozen, runs)?;
    let var = cx.build.emit.var(DType::Bool);
    cx.build.emit.stmt(kernel::Stmt::Let(var, good));
    let bad = cx.build.emit.op(Op::Select, &[Atom::Var(var), Atom::Bool(false), Atom::Bool(true)]);
    control::only_if(cx, Some(bad), mark)
}

/// The register that has the greatest of a sum of the steps so far.
fn greatest(cx: &mut Cx<'_>, sum: ValueId) -> u32 {
    cx.build.fragment(cx.view.nest, Holds::Most(sum), DType::F32, 1)
}

/// Compares a sum of a step with those before, where it says whether the frame is good enough. It is this thread's part of it.
pub(super) fn compare(cx: &mut Cx<'_>, value: ValueId) -> Result<(), LowerError> {
    if !cx.env.frozen.is_some_and(|frozen| frozen.narrow.iter().any(|(sum, _)| *sum == value)) {
        return Ok(());
    }
    let Some(registers) = &storage::held(cx, value)?.registers else {
        return Err(LowerError::Malformed("a sum of powers that is not in registers".into()));
    };
    let (of, slots) = (registers.frag, storage::slots_in_tile(cx, registers));
    let frag = greatest(cx, value);
    for slot in slots {
        let both = [KExpr::Slot { frag, slot: 0 }, KExpr::Slot { frag: of, slot }].map(Box::new);
        let [before, now] = both;
        let value = KExpr::Bin(BinOp::Max, before, now);
        cx.build.emit.stmt(kernel::Stmt::Set { frag, slot: 0, value });
    }
    Ok(())
}

/// What copies for the loop of such a maximum: `copy` does.
pub(super) fn copied<'a>(
    cx: &mut Cx<'a>,
    frozen: &'a Frozen,
    copy: &dyn Fn(&mut Cx<'a>) -> Result<(), LowerError>,
) -> Result<(), LowerError> {
    match cx.env.tile.pass {
        Pass::Exact => copy(cx),
        Pass::Quick => quickly(cx, frozen, copy).map(|_| ()),
    }
}

/// What `f` does in the pass that leaves the maximum as it is; under which condition it does, if there is one.
fn quickly<'a>(
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
    for (sum, dtype) in &frozen.narrow {
        let most = KExpr::Slot { frag: greatest(cx, *sum), slot: 0 };
        let largest = dtype.float().map_or(0.0, Float::max);
        good = KExpr::Bin(BinOp::And, Box::new(good), Box::new(below(most, largest)));
    }
    Ok(match runs {
        None => good,
        Some(runs) => KExpr::Bin(BinOp::And, Box::new(runs.expr()), Box::new(good)),
    })
}

/// The word that says whether there is any tile to compute again.
const ANY: i64 = 0;

/// The word of the tile at hand. Tiles of a CTA are as far apart as there are CTAs: their number of words is a prime.
fn word(cx: &mut Cx<'_>) -> Atom {
    let counter = cx.env.tile.counter.unwrap_or(Atom::i32(0));
    let of = cx.build.emit.bin(BinOp::Rem, counter, Atom::i32((AGAIN_WORDS - 1).into()));
    cx.build.emit.add(of, Atom::i32(ANY + 1))
}

/// The tile at hand is computed again.
fn mark(cx: &mut Cx<'_>) -> Result<(), LowerError> {
    let mem = Mem::Shared(cx.view.shared_buffer(Content::Again, 0)?);
    let word = word(cx);
    for offset in [Atom::i32(ANY), word] {
        cx.build.emit.stmt(kernel::Stmt::Combine {
            op: RedOp::Add,
            mem,
            offset: offset.expr(),
            values: vec![KExpr::Int(1, DType::I32)],
            guard: None,
        });
    }
    cx.build.emit.forget_loads(|of| of == mem);
    Ok(())
}

/// Whether a word says that something is computed again. All those that compute find it alike: what is behind it may have barriers.
fn says(cx: &mut Cx<'_>, word: Atom) -> Result<Atom, LowerError> {
    let shared = cx.view.shared_buffer(Content::Again, 0)?;
    let (said, offset) = (cx.build.emit.var(DType::I32), word.expr());
    cx.build.emit.stmt(match cx.env.tile.computes {
        true => kernel::Stmt::Alike { dst: said, shared, offset },
        false => kernel::Stmt::Load { dst: vec![said], mem: Mem::Shared(shared), offset, guard: None },
    });
    Ok(cx.build.emit.cmp(CmpOp::Ne, Atom::Var(said), Atom::i32(0)))
}

/// Whether the tile at hand is computed in this pass; absent: it is.
pub(super) fn has_to(cx: &mut Cx<'_>) -> Result<Option<Atom>, LowerError> {
    if cx.view.plan.maxima.all.is_empty() || cx.env.tile.pass == Pass::Quick {
        return Ok(None);
    }
    is_marked(cx).map(Some)
}

/// Whether the tile at hand is computed again.
pub(super) fn is_marked(cx: &mut Cx<'_>) -> Result<Atom, LowerError> {
    let word = word(cx);
    says(cx, word)
}

/// The word of the tile at hand is another one's from here on.
pub(super) fn clear(cx: &mut Cx<'_>) -> Result<(), LowerError> {
    let mem = Mem::Shared(cx.view.shared_buffer(Content::Again, 0)?);
    let (offset, zero) = (word(cx).expr(), KExpr::Int(0, DType::I32));
    cx.build.emit.stmt(kernel::Stmt::Store { mem, offset, values: vec![zero], guard: None });
    cx.build.emit.forget_loads(|of| of == mem);
    Ok(())
}

/// All passes over the tiles of a CTA, each of which `tiles` goes through.
pub(super) fn passes<'a>(
    cx: &mut Cx<'a>,
    tiles: &dyn Fn(&mut Cx<'a>) -> Result<(), LowerError>,
) -> Result<(), LowerError> {
    if cx.view.plan.maxima.all.is_empty() {
        return tiles(cx);
    }
    cx.env.tile.pass = Pass::Quick;
    tiles(cx)?;
    cx.env.tile.pass = Pass::Exact;
    let computes = cx.env.tile.computes;
    if computes {
        output::await_written(cx);
        cx.build.barrier();
    }
    if cx.view.plan.maxima.are_told() {
        let barrier = mbarriers::mbarrier_ring(cx, (Content::Verdict, 0), 1, 1)?;
        let stage = KExpr::Int(0, DType::I32);
        if computes {
            let said = kernel::Stmt::Async(Async::Arrive { barrier, stage, bytes: None, cta: None });
            cx.build.emit.stmt(kernel::Stmt::One { thread: cx.env.tile.units.first, body: vec![said] });
        } else {
            let parity = KExpr::Int(0, DType::I32);
            cx.build.emit.stmt(kernel::Stmt::Async(Async::Wait { barrier, stage, parity }));
        }
    }
    cx.build.emit.forget_loads(|_| true);
    let any = says(cx, Atom::i32(ANY))?;
    let before = cx.build.sync.clone();
    control::only_if(cx, Some(any), tiles)?;
    cx.build.sync.or(before);
    cx.build.emit.forget_loads(|_| true);
    Ok(())
}

//! Tiles by a counter (`persistent(1, counter)`): the CTA that is done first takes the next one.
//!
//! ```text
//! producer:  next = cta
//!            while next < tiles {
//!              await empty[place]; number[place] = next; arrive full[place]      // two places, in turn
//!              copies for the tile
//!              next = ctas + take counter of tiles
//!            }
//!            the same once more: a number that is no tile's
//! others:    await full[place]; next = number[place]
//!            while next < tiles {
//!              the tile
//!              arrive empty[place]; await full[the next place]; next = number[it]
//!            }
//! ```
//! Each CTA takes numbers until one is no tile's, so all CTAs together take as many as there are tiles, and the last leaves the counter at zero.
//!
//! Where a running maximum stays (`freeze`), a tile may be computed again. The threads that compute mark it in the word of its place, before
//! they give the place back, and the producer sends its number once more, negative: `-1 - number` is a tile with all that its steps do.
//!
//! ```text
//! producer, for the next number:  await empty[the next place]                        // the tile before the last is done
//!                                 if it is marked: next = -1 - its number
//!                                 else: next = ctas + take .., unless there was none left
//!                                       if none is left: await empty[the last place]; if that is marked: next = -1 - its number
//! ```
//! Source: Dao and others, FlashAttention-3 (2024) and CUTLASS (`PersistentTileScheduler`) for the counter; PTX ISA 9.7.13.8 (`atom.inc`).

use super::{
    across,
    build::Holds,
    context::Cx,
    control,
    emit::{Atom, Op},
    env::Pass,
    error::LowerError,
    flow::Mbarriers,
    freeze, mbarriers, output, ring_stages,
};
use crate::{
    dtype::DType,
    kernel::{self, Async, Expr as KExpr, Mem},
    machine::Unit,
    nest::WARP,
    op::{BinOp, CmpOp},
    shared::{Content, NUMBERS},
};

/// Lowers the tile of a number.
type Tile<'f, 'a> = &'f dyn Fn(&mut Cx<'a>, Atom) -> Result<(), LowerError>;

/// How numbers come from the producer to the threads that compute.
struct Numbers {
    channel: Mbarriers,
    /// The places of numbers.
    places: u32,
    /// Register: the number at hand.
    next: u32,
    /// Tiles may be computed again.
    again: bool,
}

impl Numbers {
    fn of(cx: &mut Cx<'_>) -> Result<Numbers, LowerError> {
        let warps = cx.view.plan.units.threads / WARP;
        let full = mbarriers::mbarrier_ring(cx, (Content::NumberFull, 0), NUMBERS, 1)?;
        let empty = mbarriers::mbarrier_ring(cx, (Content::NumberEmpty, 0), NUMBERS, warps)?;
        let taken = !cx.env.tile.computes;
        let cursor = cx.build.fragment(cx.view.nest, Holds::Place { taken }, DType::I32, 2);
        if !cx.build.cursors.contains(&cursor) {
            cx.build.cursors.push(cursor);
        }
        let channel =
            Mbarriers { depth: NUMBERS, full, empty: Some(empty), arrive: Unit::Warp, cursor, bytes: 0 };
        Ok(Numbers {
            channel,
            places: cx.view.shared_buffer(Content::Numbers, 0)?,
            next: cx.build.fragment(cx.view.nest, Holds::Number { taken }, DType::I32, 1),
            again: !cx.view.plan.maxima.all.is_empty(),
        })
    }

    /// Sets the number at hand.
    fn set(&self, cx: &mut Cx<'_>, number: Atom) {
        let value = number.expr();
        cx.build.emit.stmt(kernel::Stmt::Set { frag: self.next, slot: 0, value });
    }

    /// The number at hand.
    fn get(&self, cx: &mut Cx<'_>) -> Atom {
        let var = cx.build.emit.var(DType::I32);
        cx.build.emit.stmt(kernel::Stmt::Let(var, KExpr::Slot { frag: self.next, slot: 0 }));
        Atom::Var(var)
    }

    fn wait(&self, cx: &mut Cx<'_>, barrier: u32, [stage, parity]: [Atom; 2]) {
        let wait = Async::Wait { barrier, stage: stage.expr(), parity: parity.expr() };
        cx.build.emit.stmt(kernel::Stmt::Async(wait));
        cx.build.emit.forget_loads(|mem| matches!(mem, Mem::Shared(_)));
    }

    /// Those that compute learn the number at this position.
    fn hear(&self, cx: &mut Cx<'_>) {
        let at = ring_stages::position(cx, &self.channel);
        self.wait(cx, self.channel.full, at);
        let dst = cx.build.emit.var(DType::I32);
        let (shared, offset) = (self.places, at[0].expr());
        cx.build.emit.stmt(kernel::Stmt::Alike { dst, shared, offset });
        self.set(cx, Atom::Var(dst));
    }

    /// The producer waits for the place at a position.
    fn free(&self, cx: &mut Cx<'_>, [stage, parity]: [Atom; 2]) {
        let before = cx.build.emit.bin(BinOp::Sub, Atom::i32(1), parity);
        self.wait(cx, self.channel.empty.unwrap_or_default(), [stage, before]);
    }

    /// The producer says a number.
    fn say(&self, cx: &mut Cx<'_>, at: [Atom; 2], number: Atom) {
        self.free(cx, at);
        let stage = at[0].expr();
        cx.build.emit.stmt(kernel::Stmt::Store {
            mem: Mem::Shared(self.places),
            offset: stage.clone(),
            values: vec![number.expr()],
            guard: None,
        });
        let arrive = Async::Arrive { barrier: self.channel.full, stage, bytes: None, cta: None };
        cx.build.emit.stmt(kernel::Stmt::Async(arrive));
    }

    /// While the number at hand is a tile's.
    fn while_tiles<'a>(
        &self,
        cx: &mut Cx<'a>,
        total: Atom,
        step: impl FnOnce(&mut Cx<'a>) -> Result<(), LowerError>,
    ) -> Result<(), LowerError> {
        cx.build.emit.push();
        let result = step(cx);
        let body = cx.build.emit.pop();
        let next = KExpr::Slot { frag: self.next, slot: 0 };
        let cond = KExpr::Cmp(CmpOp::Lt, Box::new(next), Box::new(total.expr()));
        cx.build.emit.stmt(kernel::Stmt::While { cond, body });
        cx.build.emit.forget_loads(|_| true);
        result
    }

    /// The tile that a number says, and how.
    fn tile<'a>(
        &self,
        cx: &mut Cx<'a>,
        (said, place): (Atom, Atom),
        tile: Tile<'_, 'a>,
    ) -> Result<(), LowerError> {
        if !self.again {
            return tile(cx, said);
        }
        cx.env.tile.counter = Some(place);
        let again = cx.build.emit.cmp(CmpOp::Lt, said, Atom::i32(0));
        let before = cx.build.sync.clone();
        // A variable of each branch: what follows from it would be computed before both otherwise, and live through one of them.
        let pass = |cx: &mut Cx<'a>, pass: Pass, number: KExpr| {
            let own = cx.build.emit.var(DType::I32);
            cx.build.emit.stmt(kernel::Stmt::Let(own, number));
            cx.env.tile.pass = pass;
            let result = tile(cx, Atom::Var(own));
            cx.env.tile.pass = Pass::Exact;
            result
        };
        cx.build.emit.push();
        let quick = pass(cx, Pass::Quick, said.expr());
        let otherwise = cx.build.emit.pop();
        let after = std::mem::replace(&mut cx.build.sync, before);
        cx.build.emit.push();
        if cx.env.tile.computes {
            output::await_written(cx);
        }
        let number = KExpr::Bin(BinOp::Sub, Box::new(Atom::i32(-1).expr()), Box::new(said.expr()));
        let exact = pass(cx, Pass::Exact, number);
        let then = cx.build.emit.pop();
        cx.build.sync.or(after);
        cx.build.emit.stmt(kernel::Stmt::If { cond: again.expr(), then, otherwise });
        cx.build.emit.forget_loads(|_| true);
        cx.env.tile.counter = None;
        exact.and(quick)
    }
}

/// The tiles of a CTA, as many as `total` are there for all.
pub(super) fn tiles<'a>(cx: &mut Cx<'a>, total: Atom, tile: Tile<'_, 'a>) -> Result<(), LowerError> {
    let numbers = Numbers::of(cx)?;
    match cx.env.tile.computes {
        true => heard(cx, &numbers, total, tile),
        false => taken(cx, &numbers, total, tile),
    }
}

/// Those of the threads that compute.
fn heard<'a>(cx: &mut Cx<'a>, numbers: &Numbers, total: Atom, tile: Tile<'_, 'a>) -> Result<(), LowerError> {
    numbers.hear(cx);
    numbers.while_tiles(cx, total, |cx| {
        let said = numbers.get(cx);
        let at = ring_stages::position(cx, &numbers.channel);
        cx.build.sync.enter();
        let done = numbers.tile(cx, (said, at[0]), tile);
        if cx.build.sync.leave(false) {
            cx.build.emit_barrier();
        }
        mbarriers::release(cx, &numbers.channel, at[0]);
        ring_stages::advance(cx, &numbers.channel, at);
        numbers.hear(cx);
        done
    })
}

/// Those of a producer.
fn taken<'a>(cx: &mut Cx<'a>, numbers: &Numbers, total: Atom, tile: Tile<'_, 'a>) -> Result<(), LowerError> {
    let counters = across::scratch(cx, "tiles".into(), DType::I32, 1, true);
    let [cta, ctas] = [Op::Cta, Op::Ctas].map(|op| cx.build.emit.op(op, &[]));
    numbers.set(cx, cta);
    let left = cx.build.fragment(cx.view.nest, Holds::Left, DType::I32, 1);
    cx.build.emit.stmt(kernel::Stmt::Set { frag: left, slot: 0, value: KExpr::Int(1, DType::I32) });
    let take = |cx: &mut Cx<'a>| {
        let dst = cx.build.emit.var(DType::I32);
        let offset = KExpr::Int(0, DType::I32);
        cx.build.emit.stmt(kernel::Stmt::Take { dst, counters, offset, most: total.expr() });
        let next = cx.build.emit.add(Atom::Var(dst), ctas);
        numbers.set(cx, next);
        next
    };
    numbers.while_tiles(cx, total, |cx| {
        let said = numbers.get(cx);
        let at = ring_stages::position(cx, &numbers.channel);
        numbers.say(cx, at, said);
        numbers.tile(cx, (said, at[0]), tile)?;
        ring_stages::advance(cx, &numbers.channel, at);
        if !numbers.again {
            take(cx);
            return Ok(());
        }
        let before = ring_stages::position(cx, &numbers.channel);
        numbers.free(cx, before);
        let marked = is_marked(cx, before[0])?;
        cx.build.emit.push();
        again(cx, numbers, before[0])?;
        let then = cx.build.emit.pop();
        cx.build.emit.push();
        let some = cx.build.emit.var(DType::I32);
        cx.build.emit.stmt(kernel::Stmt::Let(some, KExpr::Slot { frag: left, slot: 0 }));
        let some = cx.build.emit.cmp(CmpOp::Ne, Atom::Var(some), Atom::i32(0));
        numbers.set(cx, total);
        control::only_if(cx, Some(some), |cx| {
            let next = take(cx);
            let some = cx.build.emit.cmp(CmpOp::Lt, next, total);
            let value = cx.build.emit.op(Op::Select, &[some, Atom::i32(1), Atom::i32(0)]).expr();
            cx.build.emit.stmt(kernel::Stmt::Set { frag: left, slot: 0, value });
        });
        let next = numbers.get(cx);
        let none = cx.build.emit.cmp(CmpOp::Ge, next, total);
        control::only_if(cx, Some(none), |cx| {
            numbers.wait(cx, numbers.channel.empty.unwrap_or_default(), at);
            let marked = is_marked(cx, at[0])?;
            control::only_if(cx, Some(marked), |cx| again(cx, numbers, at[0]))
        })?;
        let otherwise = cx.build.emit.pop();
        cx.build.emit.stmt(kernel::Stmt::If { cond: marked.expr(), then, otherwise });
        Ok(())
    })?;
    let at = ring_stages::position(cx, &numbers.channel);
    numbers.say(cx, at, total);
    Ok(())
}

/// Whether the tile whose number was at a place is computed again.
fn is_marked(cx: &mut Cx<'_>, place: Atom) -> Result<Atom, LowerError> {
    cx.env.tile.counter = Some(place);
    let marked = freeze::is_marked(cx);
    cx.env.tile.counter = None;
    marked
}

/// It is the next one.
fn again(cx: &mut Cx<'_>, numbers: &Numbers, place: Atom) -> Result<(), LowerError> {
    cx.env.tile.counter = Some(place);
    let cleared = freeze::clear(cx);
    cx.env.tile.counter = None;
    cleared?;
    let said = cx.build.emit.var(DType::I32);
    let (mem, offset) = (Mem::Shared(numbers.places), place.expr());
    cx.build.emit.stmt(kernel::Stmt::Load { dst: vec![said], mem, offset, guard: None });
    let number = cx.build.emit.bin(BinOp::Sub, Atom::i32(-1), Atom::Var(said));
    numbers.set(cx, number);
    Ok(())
}

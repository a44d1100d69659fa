//! CTAs that share out the steps of a loop, and look back at those before (`lookback`).
//!
//! ```text
//! ticket = take tickets                      // by one thread, for all: whoever has a smaller one has started before
//! if there is the step {
//!   part = ..
//!   before = look back: publish part, learn what is before, publish both   // by a warp, for all
//!   what reads `before`
//! }
//! if it is the last step { what reads `before` behind the loop }
//! if it is the last CTA to arrive { words = 0 }                        // for the next launch
//! ```
//! Nobody waits for a CTA that has not started, so CTAs need not fit on the GPU at the same time.
//! Source: Merrill and Garland, Single-pass parallel prefix scan with decoupled look-back (NVIDIA, 2016).

use super::{
    across,
    context::Cx,
    control,
    emit::{Atom, Emit, Op, literal},
    env::Bound,
    error::LowerError,
    grid::Grid,
    storage,
};
use crate::{
    dtype::DType,
    kernel::{self, Expr as KExpr, Mem},
    nest::{State, Step, ValueId},
    op::{BinOp, CmpOp},
    shared::Content,
};

/// Elements of scratch that a step has for each state: a word of 64 bits.
const WORD: i64 = 2;

/// The tile and the step of this CTA, of which the words of steps are zero again behind the last.
pub(super) fn tile<'a>(
    cx: &mut Cx<'a>,
    body: impl FnOnce(&mut Cx<'a>) -> Result<(), LowerError>,
) -> Result<(), LowerError> {
    let Some(lookback) = &cx.view.plan.lookback else { return body(cx) };
    let tiles = &cx.view.plan.tiles;
    let all = Grid::tiles(tiles, &mut cx.build.emit);
    let tickets = across::scratch(cx, "tickets".into(), DType::I32, 1, true);
    let arrivals = across::scratch(cx, "arrivals".into(), DType::I32, 1, true);
    let states = lookback.states.len() as u32;
    let words = across::scratch(cx, "steps".into(), DType::I32, WORD as u32 * states, true);
    let ticket = cx.view.shared_buffer(Content::Ticket, 0)?;
    cx.env.tile.words = Some(words);
    cx.build.write_shared(ticket);
    let own = cx.build.emit.var(DType::I32);
    let zero = || KExpr::Int(0, DType::I32);
    let take = kernel::Stmt::Take { dst: own, counters: tickets, offset: zero(), most: all.expr() };
    let values = vec![KExpr::Var(own)];
    let say = kernel::Stmt::Store { mem: Mem::Shared(ticket), offset: zero(), values, guard: None };
    let tid = cx.env.tile.units.tid(&mut cx.build.emit);
    let first = cx.build.emit.cmp(CmpOp::Eq, tid, Atom::i32(0));
    control::only_if(cx, Some(first), |cx| control::emit_all(cx, [take, say]));
    cx.build.read_shared(ticket);
    let number = cx.build.emit.var(DType::I32);
    cx.build.emit.stmt(kernel::Stmt::Alike { dst: number, shared: ticket, offset: zero() });
    cx.env.tile.grid = Grid::of(tiles, &mut cx.build.emit, Some(Atom::Var(number)));
    body(cx)?;
    let last = cx.build.emit.var(DType::Bool);
    cx.build.sync.barrier();
    let arrive = kernel::Stmt::Arrive {
        dst: last,
        counters: arrivals,
        offset: zero(),
        parts: all.expr(),
        guard: None,
        group: None,
    };
    cx.build.emit.stmt(arrive);
    cx.build.emit.forget_loads(|_| true);
    control::only_if(cx, Some(Atom::Var(last)), |cx| clear(cx, words, all, states));
    Ok(())
}

/// The words of all steps are zero again.
fn clear(cx: &mut Cx<'_>, words: u32, all: Atom, states: u32) {
    let end = cx.build.emit.bin(BinOp::Mul, all, Atom::i32(states.into()));
    cx.build.emit.push();
    let var = cx.build.emit.var(DType::I32);
    let at = cx.build.emit.op(Op::Cast(DType::I64), &[Atom::Var(var)]);
    let at = cx.build.emit.bin(BinOp::Mul, at, Atom::Int(WORD, DType::I64));
    let zero = || KExpr::Int(0, DType::I32);
    let (mem, values) = (Mem::Global(words), vec![zero(), zero()]);
    cx.build.emit.stmt(kernel::Stmt::Store { mem, offset: at.expr(), values, guard: None });
    let body = cx.build.emit.pop();
    let tid = cx.env.tile.units.tid(&mut cx.build.emit);
    let step = KExpr::Int(cx.env.tile.units.threads.into(), DType::I32);
    cx.build.emit.stmt(kernel::Stmt::For { var, start: tid.expr(), end: end.expr(), step, body });
}

/// The step of this CTA, of a loop that CTAs share out.
pub(super) fn step<'a>(
    cx: &mut Cx<'a>,
    (digit, at): Step,
    body: impl FnOnce(&mut Cx<'a>) -> Result<(), LowerError>,
) -> Result<(), LowerError> {
    let Some(point) = cx.env.tile.grid.values.get(&digit).cloned() else {
        return Err(LowerError::Malformed("a step of no CTA".into()));
    };
    let end = control::end(cx, digit);
    let first = cx.build.emit.index(&point);
    let exists = cx.build.emit.cmp(CmpOp::Lt, first, end);
    control::in_some_ctas(cx, exists, |cx| {
        cx.env.stack.push(Bound::new(digit, at, point));
        let result = body(cx);
        cx.env.stack.pop();
        result
    })
}

/// What these values add to states is published, and the states become what is known before this step.
pub(super) fn states(cx: &mut Cx<'_>, values: &[ValueId]) -> Result<(), LowerError> {
    let Some(lookback) = &cx.view.plan.lookback else { return Ok(()) };
    for (nth, state) in lookback.states.iter().enumerate() {
        if values.contains(&state.part) {
            learn(cx, nth as i64, lookback.states.len() as i64, *state)?;
        }
    }
    Ok(())
}

fn learn(cx: &mut Cx<'_>, nth: i64, states: i64, state: State) -> Result<(), LowerError> {
    let (Some((step, steps)), Some(words)) = (cx.env.tile.grid.step, cx.env.tile.words) else {
        return Err(LowerError::Malformed("CTAs that look back without a step".into()));
    };
    let dtype = cx.view.nest.value(state.value).dtype;
    let told = cx.view.shared_buffer(Content::Before(state.value), 0)?;
    let wide = |cx: &mut Cx<'_>, n: Atom| cx.build.emit.op(Op::Cast(DType::I64), &[n]);
    // The steps of a tile in a row, those of one state behind those of another.
    let (tile, count) = (wide(cx, cx.env.tile.grid.tile), wide(cx, steps));
    let row = cx.build.emit.bin(BinOp::Mul, tile, Atom::Int(states, DType::I64));
    let row = cx.build.emit.add(row, Atom::Int(nth, DType::I64));
    let row = cx.build.emit.bin(BinOp::Mul, row, count);
    let row = cx.build.emit.bin(BinOp::Mul, row, Atom::Int(WORD, DType::I64));
    let (frag, slot) = storage::slot(cx, state.part)?;
    let part = KExpr::Slot { frag, slot };
    let tid = cx.env.tile.units.tid(&mut cx.build.emit);
    let says = cx.build.emit.cmp(CmpOp::Eq, tid, Atom::i32(0));
    cx.build.write_shared(told);
    let dst = cx.build.emit.var(dtype);
    cx.build.emit.stmt(kernel::Stmt::LookBack {
        dst,
        words,
        offset: row.expr(),
        step: step.expr(),
        op: state.op,
        value: part,
        start: literal(f64::from(state.op.neutral()), dtype).expr(),
    });
    cx.build.emit.stmt(kernel::Stmt::Store {
        mem: Mem::Shared(told),
        offset: KExpr::Int(0, DType::I32),
        values: vec![KExpr::Var(dst)],
        guard: Some(says.expr()),
    });
    cx.build.read_shared(told);
    let before = cx.build.emit.var(dtype);
    let (mem, offset) = (Mem::Shared(told), Emit::sum_expr(None, 0, DType::I32));
    cx.build.emit.stmt(kernel::Stmt::Load { dst: vec![before], mem, offset, guard: None });
    let (frag, slot) = storage::slot(cx, state.value)?;
    // It has been what the loop starts with so far.
    let value = KExpr::combined(state.op.combine(), dtype, KExpr::Slot { frag, slot }, KExpr::Var(before));
    cx.build.emit.stmt(kernel::Stmt::Set { frag, slot, value });
    Ok(())
}

/// Whether this CTA has the last step of its tile, where what follows reads a state behind the loop.
pub(super) fn is_last(cx: &mut Cx<'_>, values: &[ValueId]) -> Option<Atom> {
    let lookback = cx.view.plan.lookback.as_ref()?;
    let (step, steps) = cx.env.tile.grid.step.filter(|_| lookback.ends_with(values))?;
    let last = cx.build.emit.bin(BinOp::Sub, steps, Atom::i32(1));
    Some(cx.build.emit.cmp(CmpOp::Eq, step, last))
}

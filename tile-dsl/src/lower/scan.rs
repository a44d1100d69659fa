//! Scans: what each thread has computed of a value becomes the reduction of all up to each element.
//!
//! The registers of a thread that follow one another are scanned in place. From there on each such block has its total, and what is
//! before it: the levels of the [`Scan`] above work on the totals, and the registers change once more, at the end.

use super::{
    context::Cx,
    emit::{Atom, Emit, Op, literal},
    env::{Held, Registers},
    error::LowerError,
    linear::Linear,
    storage,
};
use crate::{
    dtype::DType,
    kernel::{self, Expr as KExpr, Mem},
    nest::{UnitRange, ValueId},
    op::{BinOp, CmpOp},
    plan::{Scan, ScanLevel, Threads},
    shared::Content,
};

/// The blocks of one line of the axis that a thread holds.
struct Line {
    /// Registers of each block, ascending.
    blocks: Vec<Vec<u32>>,
    /// What is before each block, as far as the levels so far know.
    before: Vec<Option<Atom>>,
    /// Totals of groups of as many blocks as the levels so far have joined.
    totals: Vec<Atom>,
}

/// How a level works.
#[derive(Clone, Copy)]
struct By {
    op: BinOp,
    dtype: DType,
    neutral: Atom,
}

/// Scans what each thread has computed of a value, if it is a scan.
pub(super) fn finish(cx: &mut Cx<'_>, value: ValueId) -> Result<(), LowerError> {
    let v = &cx.view.nest.values[value.0 as usize];
    let Some((op, _)) = v.scan else { return Ok(()) };
    let Held { sum: Some(sum), registers: Some(registers), .. } = storage::held(cx, value)? else {
        return Err(LowerError::Malformed(format!("the scan of `{}` is not planned in registers", v.name)));
    };
    let (sum, registers) = (*sum, *registers);
    let Some(Threads::Scanned(scan)) = &sum.threads else {
        return Err(LowerError::Malformed(format!("no scan of `{}` is planned", v.name)));
    };
    let by = By { op: op.combine(), dtype: v.dtype, neutral: literal(f64::from(op.neutral()), v.dtype) };
    let slots = storage::slots_in_tile(cx, &registers);
    let mut lines: Vec<Line> = Vec::new();
    for line in scan.lines(registers.layout, &slots) {
        let blocks: Vec<Vec<u32>> = line.chunks(scan.block()).map(<[u32]>::to_vec).collect();
        blocks.iter().for_each(|block| in_registers(cx, registers, block, by));
        lines.push(Line { before: vec![None; blocks.len()], blocks, totals: Vec::new() });
    }
    if scan.above().is_empty() {
        return Ok(());
    }
    for line in &mut lines {
        for block in &line.blocks {
            let Some(last) = block.last() else { continue };
            let total = cx.build.emit.name(KExpr::Slot { frag: registers.frag, slot: *last }, by.dtype);
            line.totals.push(Atom::Var(total));
        }
    }
    for (n, level) in scan.above().iter().enumerate() {
        let more = n + 1 < scan.above().len();
        match *level {
            ScanLevel::Slots(steps) => lines.iter_mut().for_each(|line| of_blocks(cx, line, steps, by)),
            ScanLevel::Lanes(range) => {
                lines.iter_mut().for_each(|line| across_lanes(cx, line, range, by, more));
            }
            ScanLevel::Across(range) => through_shared(cx, value, &mut lines, (scan, n, range), by, more)?,
        }
    }
    for line in &lines {
        for (block, before) in line.blocks.iter().zip(&line.before) {
            let Some(before) = before else { continue };
            for slot in block.iter().copied() {
                let own = KExpr::Slot { frag: registers.frag, slot };
                let value = KExpr::combined(by.op, by.dtype, before.expr(), own);
                cx.build.emit.stmt(kernel::Stmt::Set { frag: registers.frag, slot, value });
            }
        }
    }
    Ok(())
}

fn in_registers(cx: &mut Cx<'_>, registers: Registers<'_>, block: &[u32], by: By) {
    for pair in block.windows(2) {
        let [before, own] = [pair[0], pair[1]].map(|slot| KExpr::Slot { frag: registers.frag, slot });
        let value = KExpr::combined(by.op, by.dtype, before, own);
        cx.build.emit.stmt(kernel::Stmt::Set { frag: registers.frag, slot: pair[1], value });
    }
}

impl Line {
    /// What stands before the blocks of a total joins what is known of them.
    fn joins(&mut self, cx: &mut Cx<'_>, total: usize, before: Atom, by: By) {
        let of_each = self.blocks.len() / self.totals.len();
        for known in &mut self.before[total * of_each..(total + 1) * of_each] {
            *known = Some(match *known {
                None => before,
                Some(known) => cx.build.emit.combined(by.op, by.dtype, before, known),
            });
        }
    }
}

/// Totals that a thread holds, so many in a row.
fn of_blocks(cx: &mut Cx<'_>, line: &mut Line, steps: u32, by: By) {
    let mut joined = Vec::new();
    for first in (0..line.totals.len()).step_by(steps as usize) {
        let mut sum = line.totals[first];
        for n in first + 1..first + steps as usize {
            line.joins(cx, n, sum, by);
            sum = cx.build.emit.combined(by.op, by.dtype, sum, line.totals[n]);
        }
        joined.push(sum);
    }
    line.totals = joined;
}

/// Totals of lanes: Kogge and Stone's scan, then each lane takes that of the lane before.
fn across_lanes(cx: &mut Cx<'_>, line: &mut Line, range: UnitRange, by: By, more: bool) {
    let lane = cx.env.tile.units.part(&mut cx.build.emit, range);
    let width = range.stride * range.extent;
    let up = |cx: &mut Cx<'_>, value: Atom, lanes: u32| {
        let dst = cx.build.emit.var(by.dtype);
        let by = lanes * range.stride;
        cx.build.emit.stmt(kernel::Stmt::ShuffleUp { dst, value: value.expr(), by, width });
        let reaches = cx.build.emit.cmp(CmpOp::Ge, lane, Atom::i32(lanes.into()));
        (Atom::Var(dst), reaches)
    };
    for total in 0..line.totals.len() {
        let mut sum = line.totals[total];
        let mut lanes = 1;
        while lanes < range.extent {
            let (other, reaches) = up(cx, sum, lanes);
            let both = cx.build.emit.combined(by.op, by.dtype, other, sum);
            sum = cx.build.emit.op(Op::Select, &[reaches, both, sum]);
            lanes *= 2;
        }
        let (before, reaches) = up(cx, sum, 1);
        let before = cx.build.emit.op(Op::Select, &[reaches, before, by.neutral]);
        line.joins(cx, total, before, by);
        if more {
            let dst = cx.build.emit.var(by.dtype);
            let mask = (range.extent - 1) * range.stride;
            cx.build.emit.stmt(kernel::Stmt::ShuffleLast { dst, value: sum.expr(), mask });
            line.totals[total] = Atom::Var(dst);
        }
    }
}

/// Totals of threads of several warps, in ascending order.
fn through_shared(
    cx: &mut Cx<'_>,
    value: ValueId,
    lines: &mut [Line],
    (scan, level, range): (&Scan, usize, UnitRange),
    by: By,
    more: bool,
) -> Result<(), LowerError> {
    let each: usize = lines.iter().map(|line| line.totals.len()).sum();
    let mut pitch = each as i64;
    let mut at = Linear::default();
    for apart in scan.apart(level) {
        if let Atom::Var(var) = cx.env.tile.units.part(&mut cx.build.emit, apart) {
            at.add_scaled(&Linear::var(var), pitch);
        }
        pitch *= i64::from(apart.extent);
    }
    let mut own = at.clone();
    let step = cx.env.tile.units.part(&mut cx.build.emit, range);
    if let Atom::Var(var) = step {
        own.add_scaled(&Linear::var(var), pitch);
    }
    let place = storage::held(cx, value)?.place;
    let buffer = cx.view.shared_buffer(Content::Partial(value), place.nth)?;
    cx.build.write_shared(buffer);
    // Threads along the levels below hold the same totals.
    let mut guard = None;
    for below in scan.above()[..level].iter().filter_map(|level| level.range()) {
        let coordinate = cx.env.tile.units.part(&mut cx.build.emit, below);
        let first = cx.build.emit.cmp(CmpOp::Eq, coordinate, Atom::i32(0));
        guard = cx.build.emit.and(guard, Some(first));
    }
    let (base, _) = cx.build.emit.index_base(&own);
    for (n, total) in lines.iter().flat_map(|line| &line.totals).enumerate() {
        cx.build.emit.stmt(kernel::Stmt::Store {
            mem: Mem::Shared(buffer),
            offset: Emit::sum_expr(base, n as i64, DType::I32),
            values: vec![total.expr()],
            guard: guard.map(Atom::expr),
        });
    }
    cx.build.read_shared(buffer);
    let (base, _) = cx.build.emit.index_base(&at);
    let mut place = 0;
    for line in lines {
        for total in 0..line.totals.len() {
            let (mut before, mut sum) = (by.neutral, None);
            for other in 0..range.extent - u32::from(!more) {
                let var = cx.build.emit.var(by.dtype);
                let offset = Emit::sum_expr(base, place + i64::from(other) * pitch, DType::I32);
                let mem = Mem::Shared(buffer);
                cx.build.emit.stmt(kernel::Stmt::Load { dst: vec![var], mem, offset, guard: None });
                let next = match sum {
                    None => Atom::Var(var),
                    Some(sum) => cx.build.emit.combined(by.op, by.dtype, sum, Atom::Var(var)),
                };
                if other + 1 < range.extent {
                    let passed = cx.build.emit.cmp(CmpOp::Gt, step, Atom::i32(other.into()));
                    before = cx.build.emit.op(Op::Select, &[passed, next, before]);
                }
                sum = Some(next);
            }
            line.joins(cx, total, before, by);
            if let (true, Some(sum)) = (more, sum) {
                line.totals[total] = sum;
            }
            place += 1;
        }
    }
    Ok(())
}

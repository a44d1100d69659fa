//! Fragments: what the expanded loops inside a copy in registers read of a tensor.
//!
//! Each thread loads the elements that its own steps read, each once, into the slot that
//! [`Fragment`](crate::nest::Fragment) says, from the copy in shared memory around the
//! fragment if there is one, else from global memory. From shared memory it loads as many consecutive elements at
//! once as their alignment allows, up to 16 bytes.
//!
//! A pipelined fragment has a set of registers for each stage of the pipeline. Its loop is expanded; while step `t`
//! computes on one set, the loads of step `t + n - 1` fill another, spread over the first part of the computation
//! ([`super::pipeline`], [`super::interleave`]).

use super::{
    build::Holds,
    context::Cx,
    control::{self, Walk},
    digits,
    emit::{Atom, Emit},
    env::Staged,
    env::{Bound, HeldFragment},
    error::LowerError,
    guard::{self, Within},
    held,
    interleave::Units,
    linear::{Linear, Offset},
    loads, memory,
    operand::{self, MatrixLoad, Reads},
    words,
};
use crate::{
    dtype::DType,
    kernel::{self, Expr as KExpr, Mem},
    machine::Unit,
    nest::{AccessId, CopyId, Fragment, HeldElement, LoopAt, LoopKind, Stmt},
    tile::TensorId,
};
use std::{collections::BTreeSet, rc::Rc};

/// A copy in registers.
pub(super) struct FragmentPlan {
    copy: CopyId,
    tensor: TensorId,
    dtype: DType,
    frag: u32,
    layout: Rc<Fragment>,
    /// Digits bound outside.
    height: usize,
}

/// What to load: its slots, and where it is.
enum Source {
    Matrices { load: MatrixLoad, slots: Vec<u32> },
    Shared { offset: Linear, slot: u32 },
    Global { coords: Vec<Linear>, within: Vec<Within>, slot: u32 },
}

/// The registers of the copies around `body`, at the current point.
pub(super) fn fragment_plans(
    cx: &mut Cx<'_>,
    copies: &[CopyId],
    body: &Stmt,
) -> Result<Vec<FragmentPlan>, LowerError> {
    let height = cx.env.stack.len();
    let mut plans = Vec::new();
    let plan = cx.view.plan;
    for copy in copies {
        let Some(held) = plan.fragments.get(cx.view.nest, *copy, body) else {
            let name = cx.view.nest.copy_name(*copy);
            return Err(LowerError::Malformed(format!("no fragment of `{name}` is planned here")));
        };
        let tensor = cx.view.nest.copies[usize::from(copy.0)].tensor;
        let dtype = cx.view.nest.elem(tensor);
        let frag = cx.build.fragment(cx.view.nest, Holds::Copy(*copy, held.set), dtype, held.slots());
        plans.push(FragmentPlan { copy: *copy, tensor, dtype, frag, layout: held.layout.clone(), height });
    }
    Ok(plans)
}

/// Stands in the loops inside of a fragment.
fn push_loops(cx: &mut Cx<'_>, loops: &[LoopAt]) {
    for (digit, at, point) in loops {
        let value = match *at {
            LoopKind::Unit(Unit::Block, _) => cx.env.tile.grid.values.get(digit).cloned().unwrap_or_default(),
            LoopKind::Unit(unit, dim) => digits::unit_value(cx, unit, dim, *digit),
            _ => Linear::constant(point.unwrap_or(0)),
        };
        cx.env.stack.push(Bound::new(*digit, *at, value));
    }
}

/// The loads of a fragment at the current point into one of its sets, each with the assignments of its slots.
/// Addresses are emitted; the loads are left to the caller.
pub(super) fn fragment_loads(cx: &mut Cx<'_>, plan: &FragmentPlan, set: u32) -> Result<Units, LowerError> {
    let staged = plan.layout.held.first().and_then(|held| loads::staged(cx, held.access));
    let mut known = BTreeSet::new();
    let mut out = Vec::new();
    for held in &plan.layout.held {
        if known.insert(held.slot) {
            push_loops(cx, &held.loops);
            let sources = sources(cx, plan, staged.as_ref(), (held, set * plan.layout.slots), &mut known);
            cx.env.stack.truncate(plan.height);
            out.extend(sources?);
        }
    }
    match staged {
        Some(staged) => Ok(shared_loads(cx, plan, &staged, out)),
        None => Ok(global_loads(cx, plan, out)),
    }
}

/// Where the elements at the current point come from: one, or those of an operand, with that beside it where one
/// instruction loads both.
fn sources(
    cx: &mut Cx<'_>,
    plan: &FragmentPlan,
    staged: Option<&Staged>,
    (held, first): (&HeldElement, u32),
    known: &mut BTreeSet<u32>,
) -> Result<Vec<Source>, LowerError> {
    let (access, slot) = (held.access, first + held.slot);
    if let Some(reads) = operand::atom_reads(cx, access) {
        let Some(staged) = staged else {
            return Err(LowerError::Malformed("an atom of what is not staged".into()));
        };
        if let Some(words) = words::words(cx, access, &reads, staged)? {
            let own = |(offset, n)| Source::Shared { offset, slot: slot + n };
            return Ok(words.into_iter().zip(0..).map(own).collect());
        }
        let beside = beside(cx, plan, access, &reads);
        known.extend(beside);
        let (_, load) = operand::matrix_load(cx, access, &reads, staged, beside.is_some())?;
        let starts = [Some(slot), beside.map(|next| first + next)].into_iter().flatten();
        let slots = starts.flat_map(|s| s..s + reads.elements as u32).collect();
        return Ok(vec![Source::Matrices { load, slots }]);
    }
    Ok(vec![match staged {
        Some(staged) => Source::Shared { offset: loads::staged_offset(cx, access, staged), slot },
        None => {
            let index = &cx.view.nest.accesses[usize::from(access.0)].index;
            let coords: Vec<Linear> = index.iter().map(|i| cx.env.index(i)).collect();
            // Here, where all digits that move the access are bound.
            let within = guard::access_within(cx, access, &coords);
            Source::Global { coords, within, slot }
        }
    }])
}

fn shared_loads(cx: &mut Cx<'_>, plan: &FragmentPlan, staged: &Staged, sources: Vec<Source>) -> Units {
    cx.build.read_shared(staged.buffer);
    let (mut elements, mut out) = (Vec::new(), Vec::new());
    for source in sources {
        match source {
            Source::Shared { offset, slot } => elements.push((offset, slot)),
            Source::Matrices { load, slots } => {
                let dst: Vec<_> = slots.iter().map(|_| cx.build.emit.var(load.ty)).collect();
                let sets = slots_from(plan, &slots, &dst);
                out.push(std::iter::once(load.into_stmt(dst)).chain(sets).collect());
            }
            Source::Global { .. } => {}
        }
    }
    elements.sort();
    let most = (16 / plan.dtype.bytes()).min(8) as usize;
    let mut rest = elements.as_slice();
    while let Some((offset, _)) = rest.first() {
        let consecutive = |n: usize| {
            rest.len() >= n
                && rest[..n]
                    .iter()
                    .zip(0i64..)
                    .all(|((o, _), at)| o.terms == offset.terms && o.constant == offset.constant + at)
        };
        let at = offset.clone().plus(&staged.stage);
        let width = [8, 4, 2, 1]
            .into_iter()
            .find(|n| *n <= most && consecutive(*n) && cx.build.emit.is_multiple(&at, *n as i64))
            .expect("one element is aligned");
        let (run, later) = rest.split_at(width);
        let slots: Vec<u32> = run.iter().map(|(_, slot)| *slot).collect();
        let (base, constant) = staged.place(&mut cx.build.emit, offset);
        let offset = Emit::sum_expr(base, constant, DType::I32);
        out.push(load_slots(cx, plan, Mem::Shared(staged.buffer), offset, None, &slots));
        rest = later;
    }
    out
}

fn global_loads(cx: &mut Cx<'_>, plan: &FragmentPlan, sources: Vec<Source>) -> Units {
    let mut out = Vec::new();
    for source in sources {
        let Source::Global { coords, within, slot } = source else { continue };
        let pitches = memory::pitches(cx, plan.tensor);
        let mut offset = Offset::default();
        for (coord, pitch) in coords.iter().zip(pitches) {
            offset.add(pitch, coord);
        }
        let guard = guard::inside(cx, &within);
        let ty = cx.view.offset_ty(plan.tensor);
        let (base, constant) = cx.build.emit.offset(&offset, ty);
        let mem = cx.view.global(plan.tensor);
        let guard = guard.map(Atom::expr);
        out.push(load_slots(cx, plan, mem, Emit::sum_expr(base, constant, ty), guard, &[slot]));
    }
    out
}

fn load_slots(
    cx: &mut Cx<'_>,
    plan: &FragmentPlan,
    mem: Mem,
    offset: KExpr,
    guard: Option<KExpr>,
    slots: &[u32],
) -> Vec<kernel::Stmt> {
    let dst: Vec<_> = slots.iter().map(|_| cx.build.emit.var(plan.dtype)).collect();
    let sets = slots_from(plan, slots, &dst);
    let mut unit = vec![kernel::Stmt::Load { dst, mem, offset, guard }];
    unit.extend(sets);
    unit
}

/// The slot of the operand that the next atom along n reads, if this is the first of two.
fn beside(cx: &Cx<'_>, plan: &FragmentPlan, access: AccessId, reads: &Reads) -> Option<u32> {
    let (points, _) = reads.next.filter(|(_, second)| !second)?;
    let index = &cx.view.nest.access(access).index;
    let by = |dim: usize| index[dim].coefficient(reads.free.axis) * i64::from(points);
    plan.layout.slot(&held::element_index(cx, access, plan.height)?.moved(by))
}

/// The statements of `stmt`, reading one set of some fragments; they are not emitted yet.
pub(super) fn compute_on(
    cx: &mut Cx<'_>,
    plans: &[FragmentPlan],
    set: u32,
    stmt: &Stmt,
    walk: Walk,
) -> Result<Vec<kernel::Stmt>, LowerError> {
    let outside = cx.env.fragments.len();
    cx.env.fragments.extend(plans.iter().map(|plan| HeldFragment {
        copy: plan.copy,
        frag: plan.frag,
        layout: plan.layout.clone(),
        first: set * plan.layout.slots,
        height: plan.height,
    }));
    let mark = cx.build.emit.mark();
    let result = walk(cx, stmt);
    cx.env.fragments.truncate(outside);
    result?;
    Ok(cx.build.emit.take(mark))
}

/// The loads of several fragments.
pub(super) fn load_fragments(cx: &mut Cx<'_>, plans: &[FragmentPlan], set: u32) -> Result<Units, LowerError> {
    let mut units = Vec::new();
    for plan in plans {
        units.extend(fragment_loads(cx, plan, set)?);
    }
    Ok(units)
}

/// Fragments outside of a pipeline: load, then read.
pub(super) fn hold_fragments(
    cx: &mut Cx<'_>,
    copies: &[CopyId],
    body: &Stmt,
    walk: Walk,
) -> Result<(), LowerError> {
    let plans = fragment_plans(cx, copies, body)?;
    let units = load_fragments(cx, &plans, 0)?;
    control::emit_all(cx, units.into_iter().flatten());
    let main = compute_on(cx, &plans, 0, body, walk)?;
    control::emit_all(cx, main);
    Ok(())
}

/// Assignments of loaded elements to slots.
fn slots_from(plan: &FragmentPlan, slots: &[u32], dst: &[kernel::Var]) -> Vec<kernel::Stmt> {
    let set = |(slot, var): (&u32, &kernel::Var)| kernel::Stmt::Set {
        frag: plan.frag,
        slot: *slot,
        value: KExpr::Var(*var),
    };
    slots.iter().zip(dst).map(set).collect()
}

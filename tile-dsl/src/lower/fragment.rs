//! Fragments: what the expanded loops inside a copy in registers read of a tensor.
//!
//! Each thread loads the elements that its own steps read, each once, from the copy in shared memory around the
//! fragment if there is one, else from global memory. From shared memory it loads as many consecutive elements at
//! once as their alignment allows, up to 16 bytes.
//!
//! A pipelined fragment has a set of registers for each stage of the pipeline. Its loop is expanded; while step `t`
//! computes on one set, the loads of step `t + n - 1` fill another, spread over the first part of the computation
//! ([`super::pipeline`], [`super::interleave`]).

use super::{
    Holds, Lowerer,
    digits::Bound,
    emit::Emit,
    error::LowerError,
    expr::Operand,
    guard::Within,
    interleave::Units,
    linear::{Linear, Offset},
    matrix::{MatrixLoad, Reads},
    stage::Active as Staged,
};
use crate::{
    dtype::DType,
    kernel::{self, Expr as KExpr, Mem, Ty},
    nest::{AccessId, CopyId, LoopKind, Steps, Stmt},
    schedule::Unit,
    tile::TensorId,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

/// Index of an element, one a dimension, from the digits bound inside the fragment.
type Place = Vec<Linear>;

/// A copy in registers.
pub(super) struct FragmentPlan<'s> {
    tensor: TensorId,
    dtype: DType,
    frag: u32,
    /// Slot of each element in a set; of operands of atoms, that of the first of the elements that a lane holds.
    slots: Rc<BTreeMap<Place, u32>>,
    /// Slots of a set.
    count: u32,
    /// Digits bound outside.
    height: usize,
    /// What reads it.
    body: &'s Stmt,
}

/// A fragment around the current point.
#[derive(Clone)]
pub(super) struct Active {
    tensor: TensorId,
    frag: u32,
    slots: Rc<BTreeMap<Place, u32>>,
    /// First slot of the set that is read.
    first: u32,
    height: usize,
}

/// What to load: its slots, and where it is.
enum Source {
    Matrices { load: MatrixLoad, slots: Vec<u32> },
    Shared { offset: Linear, slot: u32 },
    Global { coords: Vec<Linear>, within: Vec<Within>, slot: u32 },
}

impl<'a> Lowerer<'a> {
    /// The registers of the copies around `body`, with `sets` sets each, at the current point.
    pub fn fragment_plans<'s>(
        &mut self,
        copies: &[CopyId],
        body: &'s Stmt,
        sets: u32,
    ) -> Result<Vec<FragmentPlan<'s>>, LowerError> {
        let height = self.stack.len();
        let mut plans = Vec::new();
        for copy in copies {
            let tensor = self.nest.copies[usize::from(copy.0)].tensor;
            let name = self.tensor(tensor).name.clone();
            let (mut slots, mut count) = (BTreeMap::new(), 0);
            self.each_read(body, tensor, &mut |this, access| {
                let held = this.atom_reads(access).map_or(1, |reads| reads.elements() as u32);
                slots.entry(this.place(access, height)).or_insert_with(|| {
                    count += held;
                    count - held
                });
                Ok(())
            })?;
            if slots.is_empty() {
                return Err(LowerError::Malformed(format!("nothing reads the fragment of `{name}`")));
            }
            let dtype = super::fixed(self.tensor(tensor).elem);
            let frag = self.fragment(Holds::Copy(*copy), dtype, count * sets);
            plans.push(FragmentPlan { tensor, dtype, frag, slots: Rc::new(slots), count, height, body });
        }
        Ok(plans)
    }

    fn place(&self, access: AccessId, height: usize) -> Place {
        let index = &self.nest.accesses[usize::from(access.0)].index;
        let local = index.iter().map(|i| {
            let mut at = self.index_from(i, height);
            at.constant += i.constant;
            at
        });
        local.collect()
    }

    /// Visits each read of a tensor at each step of the expanded loops that move it.
    fn each_read(
        &mut self,
        stmt: &Stmt,
        tensor: TensorId,
        visit: &mut dyn FnMut(&mut Self, AccessId) -> Result<(), LowerError>,
    ) -> Result<(), LowerError> {
        match stmt {
            Stmt::For { digit, at, body } => {
                let mut moved = Vec::new();
                self.reads(body, tensor, &mut Vec::new(), &mut moved);
                if moved.is_empty() {
                    return Ok(());
                }
                let moves =
                    moved.iter().any(|(index, _)| index.iter().any(|i| i.coefficient(digit.axis) != 0));
                let fixed = |n: u32| (0..n).map(|s| Linear::constant(i64::from(s) * i64::from(digit.stride)));
                let values: Vec<Linear> = match (*at, digit.steps) {
                    (LoopKind::Unit(Unit::Block, _), _) => {
                        vec![self.grid.values.get(digit).cloned().unwrap_or_default()]
                    }
                    (LoopKind::Unit(unit, dim), _) => vec![self.unit_value(unit, dim, *digit)],
                    // An operand of an atom is read as a whole.
                    (LoopKind::Atom(..), _) => fixed(1).collect(),
                    (_, Steps::Fixed(n)) if moves && (at.is_expanded() || n == 1) => fixed(n).collect(),
                    _ if moves => {
                        let name = &self.tensor(tensor).name;
                        return Err(self.indexed_at_run_time(name, digit.axis));
                    }
                    _ => fixed(1).collect(),
                };
                for value in values {
                    self.stack.push(Bound { digit: *digit, at: *at, value });
                    let result = self.each_read(body, tensor, visit);
                    self.stack.pop();
                    result?;
                }
                Ok(())
            }
            Stmt::Let { first, rest, .. } => {
                self.each_read(first, tensor, visit)?;
                self.each_read(rest, tensor, visit)
            }
            Stmt::Stage { body, .. } => self.each_read(body, tensor, visit),
            Stmt::Def { expr, .. }
            | Stmt::Red { expr, .. }
            | Stmt::Set { expr, .. }
            | Stmt::Put { expr, .. } => {
                let mut found = expr.accesses();
                found.retain(|id| self.nest.accesses[usize::from(id.0)].tensor == tensor);
                found.into_iter().try_for_each(|id| visit(self, id))
            }
        }
    }

    /// The loads of a fragment at the current point into one of its sets, each with the assignments of its slots.
    /// Addresses are emitted; the loads are left to the caller.
    pub fn fragment_loads(&mut self, plan: &FragmentPlan<'_>, set: u32) -> Result<Units, LowerError> {
        let staged = self.stages.iter().rev().find(|s| s.tensor == plan.tensor).cloned();
        let first = set * plan.count;
        let mut known = BTreeSet::new();
        let mut out = Vec::new();
        self.each_read(plan.body, plan.tensor, &mut |this, access| {
            let place = this.place(access, plan.height);
            let slot = first + plan.slots[&place];
            if !known.insert(slot) {
                return Ok(());
            }
            if let Some(reads) = this.atom_reads(access) {
                let Some(staged) = &staged else {
                    return Err(LowerError::Malformed("an atom of what is not staged".into()));
                };
                if let Some(words) = this.words(access, &reads, staged)? {
                    let own = |(offset, n)| Source::Shared { offset, slot: slot + n };
                    out.extend(words.into_iter().zip(0..).map(own));
                    return Ok(());
                }
                let beside =
                    this.beside(access, place, &reads).and_then(|next| plan.slots.get(&next).copied());
                let starts = [Some(slot), beside.map(|next| first + next)];
                known.extend(starts[1]);
                let (_, load) = this.matrix_load(access, &reads, staged, beside.is_some())?;
                let slots =
                    starts.into_iter().flatten().flat_map(|s| s..s + reads.elements() as u32).collect();
                out.push(Source::Matrices { load, slots });
                return Ok(());
            }
            let source = match &staged {
                Some(staged) => Source::Shared { offset: this.staged_offset(access, staged), slot },
                None => {
                    let index = &this.nest.accesses[usize::from(access.0)].index;
                    let coords: Vec<Linear> = index.iter().map(|i| this.index(i)).collect();
                    // Here, where all digits that move the access are bound.
                    let within = this.access_within(access, &coords);
                    Source::Global { coords, within, slot }
                }
            };
            out.push(source);
            Ok(())
        })?;
        match staged {
            Some(staged) => Ok(self.shared_loads(plan, &staged, out)),
            None => Ok(self.global_loads(plan, out)),
        }
    }

    fn shared_loads(&mut self, plan: &FragmentPlan<'_>, staged: &Staged, sources: Vec<Source>) -> Units {
        self.read_shared(staged.buffer);
        let (mut elements, mut out) = (Vec::new(), Vec::new());
        for source in sources {
            match source {
                Source::Shared { offset, slot } => elements.push((offset, slot)),
                Source::Matrices { load, slots } => {
                    let dst: Vec<_> = slots.iter().map(|_| self.emit.var(load.ty)).collect();
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
            let at = offset.clone().plus(&staged.slot);
            let width = [8, 4, 2, 1]
                .into_iter()
                .find(|n| *n <= most && consecutive(*n) && self.emit.is_multiple(&at, *n as i64))
                .expect("one element is aligned");
            let (run, later) = rest.split_at(width);
            let slots: Vec<u32> = run.iter().map(|(_, slot)| *slot).collect();
            let (base, constant) = staged.place(&mut self.emit, offset);
            let offset = Emit::sum_expr(base, constant, Ty::I32);
            out.push(self.load_slots(plan, Mem::Shared(staged.buffer), offset, None, &slots));
            rest = later;
        }
        out
    }

    fn global_loads(&mut self, plan: &FragmentPlan<'_>, sources: Vec<Source>) -> Units {
        let mut out = Vec::new();
        for source in sources {
            let Source::Global { coords, within, slot } = source else { continue };
            let pitches = self.pitches(plan.tensor);
            let mut offset = Offset::default();
            for (coord, pitch) in coords.iter().zip(pitches) {
                offset.add(pitch, coord);
            }
            let guard = self.inside(&within);
            let ty = self.offset_ty();
            let (base, constant) = self.emit.offset(&offset, ty);
            let mem = self.global(plan.tensor);
            let guard = guard.map(super::emit::Atom::expr);
            out.push(self.load_slots(plan, mem, Emit::sum_expr(base, constant, ty), guard, &[slot]));
        }
        out
    }

    fn load_slots(
        &mut self,
        plan: &FragmentPlan<'_>,
        mem: Mem,
        offset: KExpr,
        guard: Option<KExpr>,
        slots: &[u32],
    ) -> Vec<kernel::Stmt> {
        let dst: Vec<_> = slots.iter().map(|_| self.emit.var(Ty::Elem(plan.dtype))).collect();
        let sets = slots_from(plan, slots, &dst);
        let mut unit = vec![kernel::Stmt::Load { dst, mem, offset, guard }];
        unit.extend(sets);
        unit
    }

    /// The place of the operand that the next atom along n reads, if this is the first of two.
    fn beside(&self, access: AccessId, mut place: Place, reads: &Reads) -> Option<Place> {
        let (points, second) = reads.next?;
        for (at, index) in place.iter_mut().zip(&self.nest.accesses[usize::from(access.0)].index) {
            at.constant += index.coefficient(reads.free.axis) * i64::from(points);
        }
        (!second).then_some(place)
    }

    /// An element of the innermost fragment of its tensor, if there is one.
    pub fn fragment_slot(&mut self, access: AccessId) -> Result<Option<Operand>, LowerError> {
        let dtype = super::fixed(self.tensor(self.nest.access(access).tensor).elem);
        let slots = self.fragment_slots(access, 1)?;
        Ok(slots.and_then(|all| all.into_iter().next()).map(|slot| Operand::Tree(slot, Ty::Elem(dtype))))
    }

    /// The slots of what is read at the current point, from the innermost fragment of its tensor, if there is one.
    pub fn fragment_slots(
        &mut self,
        access: AccessId,
        count: usize,
    ) -> Result<Option<Vec<KExpr>>, LowerError> {
        let tensor = self.nest.accesses[usize::from(access.0)].tensor;
        let Some(active) = self.fragments.iter().rev().find(|f| f.tensor == tensor).cloned() else {
            return Ok(None);
        };
        let place = self.place(access, active.height);
        let Some(slot) = active.slots.get(&place) else {
            return Err(LowerError::Malformed(format!(
                "`{}` is read beside its fragment",
                self.tensor(tensor).name
            )));
        };
        let slots =
            (0..count as u32).map(|n| KExpr::Slot { frag: active.frag, slot: active.first + slot + n });
        Ok(Some(slots.collect()))
    }

    /// The statements of `stmt`, reading one set of some fragments; they are not emitted yet.
    pub fn compute_on(
        &mut self,
        plans: &[FragmentPlan<'_>],
        set: u32,
        stmt: &Stmt,
    ) -> Result<Vec<kernel::Stmt>, LowerError> {
        let outside = self.fragments.len();
        self.fragments.extend(plans.iter().map(|plan| Active {
            tensor: plan.tensor,
            frag: plan.frag,
            slots: plan.slots.clone(),
            first: set * plan.count,
            height: plan.height,
        }));
        let mark = self.emit.mark();
        let result = self.stmt(stmt);
        self.fragments.truncate(outside);
        result?;
        Ok(self.emit.take(mark))
    }

    /// The loads of several fragments.
    pub fn load_fragments(&mut self, plans: &[FragmentPlan<'_>], set: u32) -> Result<Units, LowerError> {
        let mut units = Vec::new();
        for plan in plans {
            units.extend(self.fragment_loads(plan, set)?);
        }
        Ok(units)
    }

    /// What `f` emits in the innermost scope, to be emitted later in the same scope.
    pub fn captured(&mut self, f: impl FnOnce(&mut Self)) -> Vec<kernel::Stmt> {
        let mark = self.emit.mark();
        f(self);
        self.emit.take(mark)
    }

    pub fn emit_all(&mut self, stmts: impl IntoIterator<Item = kernel::Stmt>) {
        stmts.into_iter().for_each(|s| self.emit.stmt(s));
    }

    /// Fragments outside of a pipeline: load, then read.
    pub fn hold_fragments(&mut self, copies: &[CopyId], body: &Stmt) -> Result<(), LowerError> {
        let plans = self.fragment_plans(copies, body, 1)?;
        let units = self.load_fragments(&plans, 0)?;
        self.emit_all(units.into_iter().flatten());
        let main = self.compute_on(&plans, 0, body)?;
        self.emit_all(main);
        Ok(())
    }
}

/// Assignments of loaded elements to slots.
fn slots_from(plan: &FragmentPlan<'_>, slots: &[u32], dst: &[kernel::Var]) -> Vec<kernel::Stmt> {
    let set = |(slot, var): (&u32, &kernel::Var)| kernel::Stmt::Set {
        frag: plan.frag,
        slot: *slot,
        value: KExpr::Var(*var),
    };
    slots.iter().zip(dst).map(set).collect()
}

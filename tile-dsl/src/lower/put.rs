//! Stores: guarded by the extents, done by one replica, and merged into vectors under `#vec`.

use super::{
    Lowerer,
    emit::{Atom, Emit},
    error::LowerError,
    expr::Lanes,
    guard::Within,
    linear::{Linear, Offset},
};
use crate::{
    index::AxisId,
    kernel::{self, Expr as KExpr, Mem, Ty},
    nest::{AccessId, Expr, LoopKind},
    op::CmpOp,
    plan::Leaves,
    program::Variant,
    schedule::{Unit, UnitDim},
};

/// A vector store that waits for the other steps of its `#vec` loop.
pub(super) struct Pending {
    mem: Mem,
    base: Option<Atom>,
    constant: i64,
    guard: Option<Atom>,
    values: Vec<Option<KExpr>>,
}

/// Where an element or a vector is stored.
pub(super) struct StoredPlace {
    pub mem: Mem,
    pub base: Option<Atom>,
    pub constant: i64,
    pub ty: Ty,
    pub guard: Option<Atom>,
}

impl Lowerer<'_> {
    pub fn put(&mut self, id: AccessId, expr: &Expr) -> Result<(), LowerError> {
        let plan = self.plan;
        match plan.stores.get(id) {
            Some(Ok(Leaves::Collected(how))) => return self.collect(id, how, expr),
            // Without vectors, lanes store what they hold.
            Some(Ok(Leaves::Exchanged(how))) if self.variant != Variant::General => {
                return self.exchange(id, how, expr);
            }
            Some(Ok(_)) => {}
            _ => return Err(LowerError::Malformed("no store is planned here".into())),
        }
        let replica = self.replica_guard(&[]);
        self.owner = replica;
        let value = self.value(expr);
        self.owner = None;
        let value = value?.expr();
        let lanes = self.global_lanes(id)?;
        let StoredPlace { mem, base, constant, ty, guard } = self.stored_place(id, lanes, replica)?;
        let dtype = self.nest.elem(self.nest.access(id).tensor);
        self.store_lanes(mem, (base, constant, ty), value, dtype, guard, lanes);
        Ok(())
    }

    /// Where the current element of a tensor is stored, by which replica, and whether it exists.
    pub fn stored_place(
        &mut self,
        id: AccessId,
        lanes: Option<Lanes>,
        replica: Option<Atom>,
    ) -> Result<StoredPlace, LowerError> {
        let access = &self.nest.accesses[id.0 as usize];
        let tensor = access.tensor;
        let coords: Vec<Linear> = access.index.iter().map(|i| self.index(i)).collect();
        let coords = self.without_lane(id, coords, lanes);
        let mut within = self.axes_within(id, lanes);
        within.extend(self.access_within(id, &coords));
        let mut guard = self.inside(&within);
        guard = self.emit.and(guard, replica);

        let pitches = self.pitches(tensor);
        let mut offset = Offset::default();
        for (coord, pitch) in coords.iter().zip(pitches) {
            offset.add(pitch, coord);
        }
        self.write_global(id);
        let ty = self.offset_ty();
        let mem = self.global(tensor);
        let (base, constant) = self.emit.offset(&offset, ty);
        let t = self.tensor(tensor);
        let dtype = super::fixed(t.elem);
        if let Some(lanes) = lanes {
            self.check_aligned(&offset.unit, lanes.steps, dtype, &t.name)?;
        }
        Ok(StoredPlace { mem, base, constant, ty, guard })
    }

    /// Stores an element, or holds it back until its vector is complete.
    pub fn store_lanes(
        &mut self,
        mem: Mem,
        (base, constant, ty): (Option<Atom>, i64, Ty),
        value: KExpr,
        dtype: crate::dtype::DType,
        guard: Option<Atom>,
        lanes: Option<Lanes>,
    ) {
        let Some(lanes) = lanes else {
            self.emit_store(mem, base, constant, ty, vec![value], guard);
            return;
        };
        // The value may be read from a slot that changes before the store is complete.
        let value = self.name(value, Ty::Elem(dtype));
        let same = |p: &Pending| (p.mem, p.base, p.constant, p.guard) == (mem, base, constant, guard);
        let at = self.pending.iter().position(same).unwrap_or_else(|| {
            let values = vec![None; lanes.steps as usize];
            self.pending.push(Pending { mem, base, constant, guard, values });
            self.pending.len() - 1
        });
        self.pending[at].values[lanes.lane as usize] = Some(value);
        if self.pending[at].values.iter().all(Option::is_some) {
            let done = self.pending.swap_remove(at);
            let values = done.values.into_iter().flatten().collect();
            self.emit_store(mem, base, constant, ty, values, guard);
        }
    }

    pub fn name(&mut self, value: KExpr, ty: Ty) -> KExpr {
        if matches!(value, KExpr::Var(_) | KExpr::Float(..) | KExpr::Int(..)) {
            return value;
        }
        let var = self.emit.var(ty);
        self.emit.stmt(kernel::Stmt::Let(var, value));
        KExpr::Var(var)
    }

    pub fn emit_store(
        &mut self,
        mem: Mem,
        base: Option<Atom>,
        constant: i64,
        ty: Ty,
        values: Vec<KExpr>,
        guard: Option<Atom>,
    ) {
        let offset = Emit::sum_expr(base, constant, ty);
        let guard = guard.map(Atom::expr);
        self.emit.stmt(match mem {
            Mem::Global(global) if self.adding => {
                self.cleared.insert(global);
                kernel::Stmt::Add { global, offset, values, guard }
            }
            mem => kernel::Stmt::Store { mem, offset, values, guard },
        });
        self.emit.forget_loads(|m| m == mem);
    }

    /// Where the point may leave the extents of the axes of a stored element; a vector is inside or outside as a
    /// whole, as its first element is.
    fn axes_within(&self, id: AccessId, lanes: Option<Lanes>) -> Vec<Within> {
        let access = &self.nest.accesses[id.0 as usize];
        let digits = self.digits();
        let mut axes: Vec<AxisId> = access.index.iter().flat_map(|i| i.terms.keys().copied()).collect();
        axes.sort();
        axes.dedup();
        axes.retain(|a| self.ragged(*a, &digits));
        let mut within = Vec::new();
        for axis in axes {
            let mut end = self.end_of(axis);
            // Where the index of a dimension is the axis itself, the tensor's own extent is the same check.
            let dims = access.index.iter().zip(&self.tensor(access.tensor).dims);
            if dims.into_iter().any(|(i, d)| i.as_axis() == Some(axis) && *d == end.extent) {
                continue;
            }
            if let Some(l) = lanes.filter(|l| l.axis == axis) {
                end.at.constant -= i64::from(l.lane);
            }
            within.push(end);
        }
        within
    }

    /// Where the enclosing loops leave a unit unbound, its coordinates do the same work: the first one stores.
    /// Those of `distinct` do not.
    pub fn replica_guard(&mut self, distinct: &[(Unit, UnitDim)]) -> Option<Atom> {
        let bound: Vec<LoopKind> = self.stack.iter().map(|b| b.at).collect();
        let dims: Vec<_> = self.units.dims.keys().copied().collect();
        let mut guard = None;
        for (unit, dim) in dims {
            debug_assert_ne!(unit, Unit::Block);
            if bound.contains(&LoopKind::Unit(unit, dim)) || distinct.contains(&(unit, dim)) {
                continue;
            }
            let coordinate = self.units.coordinate(&mut self.emit, unit, dim);
            let first = self.emit.cmp(CmpOp::Eq, coordinate, Atom::i32(0));
            guard = self.emit.and(guard, Some(first));
        }
        guard
    }
}

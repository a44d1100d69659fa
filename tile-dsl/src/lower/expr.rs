//! Expressions: loads are issued once per element and band, vectors where a `#vec` loop asks for them,
//! and every operation on loaded elements is done once however often it is used.

use super::{
    Lowerer,
    digits::Bound,
    emit::{Atom, Emit, Op},
    error::LowerError,
    linear::{Linear, Offset},
    walk::literal,
};
use crate::{
    dtype::DType,
    index::AxisId,
    kernel::{self, Expr as KExpr, Mem, Ty},
    nest::{AccessId, Digit, Expr, LoopKind, ValueId, Vector, vector},
    program::Variant,
};

/// A lowered expression: one that can be named, or a tree over register slots, which may change.
#[derive(Clone, Debug)]
pub(super) enum Operand {
    Atom(Atom),
    Tree(KExpr, Ty),
}

impl Operand {
    pub fn expr(self) -> KExpr {
        match self {
            Operand::Atom(atom) => atom.expr(),
            Operand::Tree(expr, _) => expr,
        }
    }
}

/// A `#vec` loop over consecutive elements: its steps, and this step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lanes {
    pub axis: AxisId,
    pub steps: u32,
    pub lane: u32,
}

impl<'a> Lowerer<'a> {
    pub fn value(&mut self, expr: &Expr) -> Result<Operand, LowerError> {
        match expr {
            Expr::Load(access) => match self.fragment_slot(*access)? {
                Some(slot) => Ok(slot),
                None => Ok(Operand::Atom(self.load(*access)?)),
            },
            Expr::Get(value) => self.get(*value),
            Expr::Const(x, dtype) => Ok(Operand::Atom(literal(*x, *dtype))),
            Expr::Scalar(id) => {
                let scalar = &self.kernel.scalars[id.0 as usize];
                let param = self.first_scalar + u32::from(id.0);
                Ok(Operand::Atom(self.emit.scalar(param, super::fixed(scalar.elem))))
            }
            Expr::Iota(axis) => {
                let index = self.axis_from(*axis, 0);
                Ok(Operand::Atom(self.emit.index(&index)))
            }
            Expr::Dim(extent) => Ok(Operand::Atom(self.emit.dim(extent))),
            Expr::Un(op, a) => {
                let a = self.value(a)?;
                Ok(self.apply(Op::Un(*op), vec![a]))
            }
            Expr::Bin(op, a, b) => {
                let args = vec![self.value(a)?, self.value(b)?];
                let wraps = op.is_arithmetic() && self.operand_ty(&args[0]) == Ty::I32;
                Ok(self.apply(if wraps { Op::Wrapping(*op) } else { Op::Bin(*op) }, args))
            }
            Expr::Cmp(op, a, b) => {
                let args = vec![self.value(a)?, self.value(b)?];
                Ok(self.apply(Op::Cmp(*op), args))
            }
            Expr::Select(c, a, b) => {
                let args = vec![self.value(c)?, self.value(a)?, self.value(b)?];
                Ok(self.apply(Op::Select, args))
            }
            Expr::Cast(dtype, a) => {
                let a = self.value(a)?;
                Ok(self.apply(Op::Cast(Ty::Elem(*dtype)), vec![a]))
            }
        }
    }

    fn operand_ty(&self, operand: &Operand) -> Ty {
        match operand {
            Operand::Atom(atom) => self.emit.ty(*atom),
            Operand::Tree(_, ty) => *ty,
        }
    }

    fn apply(&mut self, op: Op, args: Vec<Operand>) -> Operand {
        let atoms: Option<Vec<Atom>> = args
            .iter()
            .map(|a| match a {
                Operand::Atom(atom) => Some(*atom),
                Operand::Tree(..) => None,
            })
            .collect();
        if let Some(atoms) = atoms {
            return Operand::Atom(self.emit.op(op, &atoms));
        }
        let ty = match &op {
            Op::Cast(ty) => *ty,
            Op::Cmp(_) => Ty::BOOL,
            Op::Select => self.operand_ty(&args[1]),
            _ => self.operand_ty(&args[0]),
        };
        if matches!(op, Op::Cast(_)) && self.operand_ty(&args[0]) == ty {
            return args.into_iter().next().expect("one operand");
        }
        Operand::Tree(op.expr(args.into_iter().map(Operand::expr).collect()), ty)
    }

    fn get(&mut self, value: ValueId) -> Result<Operand, LowerError> {
        let dtype = self.nest.values[value.0 as usize].dtype;
        let Some((buffer, offset)) = self.shared_place(value)? else {
            let (frag, slot) = self.slot(value)?;
            return Ok(Operand::Tree(KExpr::Slot { frag, slot }, Ty::Elem(dtype)));
        };
        let name = self.nest.values[value.0 as usize].name.clone();
        let held = self.held(value)?;
        let pitches = held.shared.as_ref().map(|s| s.pitches.clone()).unwrap_or_default();
        let step = |axis| pitches.get(&axis).copied().unwrap_or(0);
        let lanes = self.lanes(held.height, |d| step(d.axis) * i64::from(d.stride), &name)?;
        let mut base = offset;
        if let Some(l) = lanes {
            base.constant -= i64::from(l.lane);
            self.check_aligned(&base, l.steps, dtype, &name)?;
        }
        let (atom, constant) = self.emit.index_base(&base);
        Ok(Operand::Atom(self.load_shared(buffer, dtype, atom, constant, lanes)))
    }

    /// Element of a tensor, from the innermost stage of it or from global memory.
    fn load(&mut self, id: AccessId) -> Result<Atom, LowerError> {
        let access = &self.nest.accesses[id.0 as usize];
        let point = (access.tensor, access.index.iter().map(|i| self.index(i)).collect());
        if let Some(known) = self.emit.find_point(&point) {
            return Ok(known);
        }
        let (mem, atom) = self.load_element(id)?;
        // What one thread loads for its store is not there for the others.
        if self.owner.is_none() || !self.in_place.contains(&point.0) {
            self.emit.remember_point(point, mem, atom);
        }
        Ok(atom)
    }

    fn load_element(&mut self, id: AccessId) -> Result<(Mem, Atom), LowerError> {
        let access = &self.nest.accesses[id.0 as usize];
        let tensor = access.tensor;
        let dtype = super::fixed(self.tensor(tensor).elem);
        if let Some(stage) = self.staged(id) {
            let atom = self.load_staged(id, &stage, dtype)?;
            return Ok((Mem::Shared(stage.buffer), atom));
        }
        let coords: Vec<Linear> = access.index.iter().map(|i| self.index(i)).collect();
        let lanes = self.global_lanes(id)?;
        let coords = self.without_lane(id, coords, lanes);
        let pitches = self.pitches(tensor);
        let mut offset = Offset::default();
        for (coord, pitch) in coords.iter().zip(pitches) {
            offset.add(pitch, coord);
        }
        if let Some(l) = lanes {
            self.check_aligned(&offset.unit, l.steps, dtype, &self.tensor(tensor).name.clone())?;
        }
        self.read_global(id);
        let mut guard = self.access_guard(id, &coords);
        if self.in_place.contains(&tensor) {
            guard = self.emit.and(guard, self.owner);
        }
        let ty = self.offset_ty();
        let (base, constant) = self.emit.offset(&offset, ty);
        let mem = self.global(tensor);
        Ok((mem, self.load_from(mem, dtype, base, constant, ty, guard, lanes)))
    }

    /// The innermost stage that an access is read from, if there is one.
    pub fn staged(&self, id: AccessId) -> Option<super::stage::Active<'a>> {
        self.stages.iter().rev().find(|s| self.nest.serves(s.of.copy, id)).cloned()
    }

    /// Offset of an element in the copy that a stage holds.
    pub fn staged_offset(&self, id: AccessId, stage: &super::stage::Active<'_>) -> Linear {
        let mut offset = Linear::default();
        for (d, index) in self.nest.accesses[id.0 as usize].index.iter().enumerate() {
            let mut local = self.index_from(index, stage.height);
            local.constant += index.constant - stage.of.low[d];
            offset.add_scaled(&local, stage.layout.pitch[d]);
        }
        offset
    }

    fn load_staged(
        &mut self,
        id: AccessId,
        stage: &super::stage::Active<'_>,
        dtype: DType,
    ) -> Result<Atom, LowerError> {
        let access = &self.nest.accesses[id.0 as usize];
        let mut offset = self.staged_offset(id, stage);
        let name = self.tensor(stage.tensor).name.clone();
        let index = access.index.clone();
        // A loop outside the stage moves the copy, not the place in it.
        let lanes = self.lanes(
            stage.height,
            |digit| {
                let step = index.iter().zip(&stage.layout.pitch);
                step.map(|(i, p)| i.coefficient(digit.axis) * i64::from(digit.stride) * p).sum()
            },
            &name,
        )?;
        if let Some(l) = lanes {
            offset.constant -= i64::from(l.lane);
            self.check_aligned(&offset, l.steps, dtype, &name)?;
        }
        let (base, constant) = stage.place(&mut self.emit, &offset);
        Ok(self.load_shared(stage.buffer, dtype, base, constant, lanes))
    }

    pub fn load_shared(
        &mut self,
        buffer: u32,
        dtype: DType,
        base: Option<Atom>,
        constant: i64,
        lanes: Option<Lanes>,
    ) -> Atom {
        self.read_shared(buffer);
        self.load_from(Mem::Shared(buffer), dtype, base, constant, Ty::I32, None, lanes)
    }

    #[allow(clippy::too_many_arguments)]
    fn load_from(
        &mut self,
        mem: Mem,
        dtype: DType,
        base: Option<Atom>,
        constant: i64,
        ty: Ty,
        guard: Option<Atom>,
        lanes: Option<Lanes>,
    ) -> Atom {
        let (lane, width) = lanes.map_or((0, 1), |l| (l.lane, l.steps));
        let key = |lane: u32| (mem, base, constant + i64::from(lane), guard);
        if let Some(known) = self.emit.find_load(&key(lane)) {
            return Atom::Var(known);
        }
        let dst: Vec<_> = (0..width).map(|_| self.emit.var(Ty::Elem(dtype))).collect();
        for (lane, var) in (0..).zip(&dst) {
            self.emit.remember_load(key(lane), *var);
        }
        let result = Atom::Var(dst[lane as usize]);
        let offset = Emit::sum_expr(base, constant, ty);
        self.emit.stmt(kernel::Stmt::Load { dst, mem, offset, guard: guard.map(Atom::expr) });
        result
    }

    /// The vector at the current point of what loops bound at `from` and inside move, and which element of it this is; `moved`
    /// says by how many elements a step of a loop moves it.
    pub fn lanes(
        &self,
        from: usize,
        moved: impl Fn(Digit) -> i64,
        buffer: &str,
    ) -> Result<Option<Lanes>, LowerError> {
        let loops = self.stack[from..].iter().map(|b| (b.digit, b.at));
        self.lanes_of(vector(loops, moved), buffer)
    }

    /// As [`Lowerer::lanes`], for an access of global memory; `None` where the variant has no vectors.
    pub fn global_lanes(&self, id: AccessId) -> Result<Option<Lanes>, LowerError> {
        if self.variant == Variant::General {
            return Ok(None);
        }
        let access = self.nest.access(id);
        let loops = self.stack.iter().map(|b| (b.digit, b.at));
        self.lanes_of(self.nest.vector(access, loops), &self.tensor(access.tensor).name)
    }

    fn lanes_of(
        &self,
        vector: Result<Option<Vector>, Digit>,
        buffer: &str,
    ) -> Result<Option<Lanes>, LowerError> {
        let apart = |digit: Digit| {
            let axis = self.axis_name(digit.axis);
            LowerError::Malformed(format!(
                "steps of the vectorized loop over `{axis}` are not consecutive elements of `{buffer}`"
            ))
        };
        let Some(Vector { digit, steps }) = vector.map_err(apart)?.filter(|v| v.steps > 1) else {
            return Ok(None);
        };
        let bound = self.stack.iter().rev().find(|b| b.digit == digit && b.at == LoopKind::Vec);
        let point = bound.and_then(Bound::fixed).unwrap_or(0);
        Ok(Some(Lanes { axis: digit.axis, steps, lane: (point / i64::from(digit.stride)) as u32 }))
    }

    /// The coordinates of the first element of the vector.
    pub fn without_lane(&self, id: AccessId, mut coords: Vec<Linear>, lanes: Option<Lanes>) -> Vec<Linear> {
        if let Some(l) = lanes {
            coords[self.contiguous(self.nest.accesses[id.0 as usize].tensor)].constant -= i64::from(l.lane);
        }
        coords
    }

    /// Checks that a vector of `n` elements starting at `offset` is aligned and exists.
    pub fn check_aligned(
        &self,
        offset: &Linear,
        n: u32,
        dtype: DType,
        buffer: &str,
    ) -> Result<(), LowerError> {
        let bytes = n * dtype.bytes();
        if !n.is_power_of_two() || !(4..=16).contains(&bytes) {
            return Err(LowerError::Malformed(format!("a vector of {bytes} bytes of `{buffer}`")));
        }
        if !self.emit.is_multiple(offset, n.into()) {
            return Err(LowerError::Malformed(format!(
                "a vector of {n} elements of `{buffer}` does not always start at a multiple of {n}"
            )));
        }
        Ok(())
    }
}

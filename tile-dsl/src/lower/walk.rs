//! The walk over the term.

use super::{
    Lowerer, MAX_STATEMENTS,
    copy::linear,
    digits::{Bound, Passing, StepOrder, Taken},
    emit::{Atom, Emit, Op},
    error::LowerError,
    expr::Operand,
    linear::Linear,
    storage::Held,
    sync::Touch,
};
use crate::{
    dtype::DType,
    kernel::{self, Expr as KExpr, Mem, Ty},
    nest::{Across, Digit, Expr, LoopKind, Step, Steps, Stmt, ValueId, writers},
    op::{BinOp, CmpOp, RedOp},
    schedule::{Unit, UnitDim},
};

impl Lowerer<'_> {
    pub fn stmt(&mut self, stmt: &Stmt) -> Result<(), LowerError> {
        if self.emit.count > MAX_STATEMENTS {
            return Err(LowerError::Malformed(format!(
                "expanded loops give more than {MAX_STATEMENTS} statements"
            )));
        }
        match stmt {
            Stmt::For { digit, at, body } => self.loop_(*digit, *at, body),
            Stmt::Let { values, first, rest } => self.let_(values, first, rest),
            Stmt::Stage { .. } => self.stage(stmt),
            Stmt::Def { value, expr } => self.define(*value, expr),
            Stmt::Set { value, expr } => self.set(*value, expr),
            Stmt::Red { value, op, expr } => self.reduce(*value, *op, expr),
            Stmt::Put { access, expr } => self.put(*access, expr),
            Stmt::Skip => Ok(()),
        }
    }

    fn loop_(&mut self, digit: Digit, at: LoopKind, body: &Stmt) -> Result<(), LowerError> {
        match (at, digit.steps) {
            (LoopKind::Atom(atom, _), _) => self.atom(atom, digit, body),
            (LoopKind::Pipe(slots @ 2..), _) => self.pipeline(digit, slots, body),
            (at, Steps::Rest) if at.is_expanded() => {
                let axis = self.axis_name(digit.axis);
                Err(LowerError::Malformed(format!("all of `{axis}` is expanded")))
            }
            _ => {
                let pending = self.pending.len();
                self.each_step(digit, at, StepOrder::Scheduled, &mut |this| this.stmt(body))?;
                if at == LoopKind::Vec && self.innermost_vec().is_none() && self.pending.len() != pending {
                    return Err(LowerError::Malformed("a vectorized store lacks elements".into()));
                }
                Ok(())
            }
        }
    }

    /// Runs `body` at each step of a loop that the threads at hand take.
    pub fn each_step(
        &mut self,
        digit: Digit,
        at: LoopKind,
        order: StepOrder,
        body: &mut dyn FnMut(&mut Self) -> Result<(), LowerError>,
    ) -> Result<(), LowerError> {
        let scheduled = order == StepOrder::Scheduled;
        let (mut values, expanded) = match self.taken(digit, at) {
            Taken::Loop => {
                let at = if scheduled { at } else { LoopKind::Seq };
                return self.run_loop(digit, at, false, body);
            }
            Taken::One(value) => (vec![value], false),
            Taken::Each(values) => (values, true),
        };
        if scheduled && at == LoopKind::Serpentine && self.enters_backwards() {
            values.reverse();
        }
        let steps = values.len() as u32;
        for (step, value) in (0..).zip(values) {
            let pass = (scheduled && expanded).then_some((step, steps));
            self.stack.push(Bound { pass, ..Bound::new(digit, at, value) });
            let result = body(self);
            self.stack.pop();
            result?;
        }
        Ok(())
    }

    /// What a digit bound to a unit contributes in this thread.
    pub fn unit_value(&mut self, unit: Unit, dim: UnitDim, digit: Digit) -> Linear {
        let mut coordinate = self.units.coordinate(&mut self.emit, unit, dim);
        if let Some(other) = self.nest.skew.get(&digit) {
            let other = self.units.coordinate(&mut self.emit, unit, *other);
            coordinate = self.emit.op(Op::Xor, &[coordinate, other]);
        }
        match coordinate {
            Atom::Var(var) => Linear::var(var).scaled(digit.stride.into()),
            _ => Linear::default(),
        }
    }

    /// A loop as the tile at hand has it.
    pub fn in_tile(&self, digit: Digit) -> Digit {
        self.last.map_or(digit, |segment| segment.in_last(digit))
    }

    fn innermost_vec(&self) -> Option<&Bound> {
        self.stack.iter().rev().find(|b| b.at == LoopKind::Vec)
    }

    /// The end of a loop at run time over a digit, in points of its axis. It is the same for all threads.
    pub fn end(&mut self, digit: Digit) -> Atom {
        let run = self.run_time((digit, LoopKind::Seq));
        match self.in_tile(run).steps {
            Steps::Fixed(n) => Atom::i32(i64::from(n) * i64::from(digit.stride)),
            Steps::Rest => self.emit.dim(&self.kernel.axes[digit.axis.0 as usize].extent),
        }
    }

    /// A loop at run time; its variable counts points of the axis.
    /// `synchronised`: each step starts with a barrier of its own.
    pub fn run_loop(
        &mut self,
        digit: Digit,
        at: LoopKind,
        synchronised: bool,
        body: impl FnOnce(&mut Self) -> Result<(), LowerError>,
    ) -> Result<(), LowerError> {
        let end = self.end(digit);
        self.emit.push();
        let var = self.emit.var(Ty::I32);
        self.emit.set_multiple(var, digit.stride.into());
        self.sync.enter();
        let value = match self.odd.filter(|_| self.nest.alternate.contains(&digit)) {
            None => Linear::var(var),
            Some(odd) => self.backwards_if(odd, digit, var, end),
        };
        self.stack.push(Bound::new(digit, at, value));
        body(self)?;
        self.stack.pop();
        self.passing.retain(|p| p.digit != digit);
        if self.sync.leave(synchronised) {
            self.emit_barrier();
        }
        let body = self.emit.pop();
        let step = KExpr::Int(digit.stride.into(), Ty::I32);
        let start = KExpr::Int(0, Ty::I32);
        self.emit.stmt(kernel::Stmt::For { var, start, end: end.expr(), step, body });
        // The loop may have written what was loaded before it.
        self.emit.forget_loads(|_| true);
        Ok(())
    }

    /// The points of a step that is the n-th from the end, where `odd`, and from the start otherwise.
    fn backwards_if(&mut self, odd: Atom, digit: Digit, var: kernel::Var, end: Atom) -> Linear {
        self.passing.push(Passing { digit, passed: var });
        let stride = i64::from(digit.stride);
        let last = self.emit.add(end, Atom::i32(-1));
        let last = self.emit.bin(BinOp::Div, last, Atom::i32(stride));
        let last = self.emit.bin(BinOp::Mul, last, Atom::i32(stride));
        let back = self.emit.bin(BinOp::Sub, last, Atom::Var(var));
        let point = self.emit.op(Op::Select, &[odd, back, Atom::Var(var)]);
        linear(self.emit.multiple(point, stride), 0)
    }

    fn let_(&mut self, values: &[ValueId], first: &Stmt, rest: &Stmt) -> Result<(), LowerError> {
        let outer: Vec<_> = values.iter().map(|v| (*v, self.held.get(v).cloned())).collect();
        for value in values {
            self.hold(*value, first)?;
            self.spread_partials(*value)?;
            self.initialise(*value)?;
        }
        self.stmt(first)?;
        for value in values {
            self.zero_sums_of_nothing(*value, first)?;
            self.combine(*value)?;
        }
        match self.across(values) {
            None => self.rest(values, rest)?,
            Some(Across::Workspace) => {
                self.through_workspace(values, |this| this.rest(values, rest))?;
            }
            Some(Across::Cluster) => {
                self.through_cluster(values, |this| this.rest(values, rest))?;
            }
            Some(Across::Atomic) => self.add_atomically(values, |this| this.rest(values, rest))?,
        }
        for (value, old) in outer {
            match old {
                Some(old) => self.held.insert(value, old),
                None => self.held.remove(&value),
            };
        }
        Ok(())
    }

    /// What reads the values, once all threads that read those in shared memory can.
    fn rest(&mut self, values: &[ValueId], rest: &Stmt) -> Result<(), LowerError> {
        for value in values {
            self.publish(*value)?;
        }
        let published = values.iter().any(|v| self.held.get(v).is_some_and(|h| h.shared.is_some()));
        if published {
            self.barrier();
        }
        self.stmt(rest)
    }

    /// Reductions and carried state start at the `let`.
    fn initialise(&mut self, value: ValueId) -> Result<(), LowerError> {
        let v = &self.nest.values[value.0 as usize];
        let Held { place, sum, registers, .. } = self.held(value)?;
        let (place, combined, registers) = (*place, sum.is_some(), *registers);
        if self.nest.overwrites(value) {
            return Ok(());
        }
        let start = match (v.reduction, v.init) {
            // Partial results start neutral; the initial element joins once, after they combine.
            (Some(op), init) if combined || init.is_none() => f64::from(op.neutral()),
            (_, Some(init)) => init,
            (None, None) => return Ok(()),
            (Some(_), None) => unreachable!("handled above"),
        };
        if let Some(registers) = registers {
            for slot in 0..registers.slots {
                let value = literal(start, v.dtype).expr();
                self.emit.stmt(kernel::Stmt::Set { frag: registers.frag, slot, value });
            }
            return Ok(());
        }
        // In shared memory: each thread starts the elements that it accumulates.
        self.each_element(&place.loops, &mut |this| this.store_shared(value, literal(start, v.dtype).expr()))
    }

    /// Sums that the first product overwrites are zero where there is none.
    fn zero_sums_of_nothing(&mut self, value: ValueId, first: &Stmt) -> Result<(), LowerError> {
        if !self.nest.overwrites(value) {
            return Ok(());
        }
        let own = &self.nest.value(value).axes;
        let loops: Vec<Step> = writers(self.nest, first, value).into_iter().flatten().collect();
        let open = |step: &&Step| self.run_time(**step).steps == Steps::Rest && !own.contains(&step.0.axis);
        let Some(digit) = loops.iter().find(open).map(|(d, _)| *d) else { return Ok(()) };
        let end = self.end(digit);
        let none = self.emit.cmp(CmpOp::Le, end, Atom::i32(0));
        let Some(registers) = self.held(value)?.registers else { return Ok(()) };
        let dtype = self.nest.value(value).dtype;
        self.only_if(Some(none), |this| {
            for slot in 0..registers.slots {
                let value = literal(0.0, dtype).expr();
                this.emit.stmt(kernel::Stmt::Set { frag: registers.frag, slot, value });
            }
        });
        Ok(())
    }

    /// Runs `leaf` at each point of some loops.
    pub fn each_element(
        &mut self,
        loops: &[Step],
        leaf: &mut dyn FnMut(&mut Self) -> Result<(), LowerError>,
    ) -> Result<(), LowerError> {
        let Some(((digit, at), inner)) = loops.split_first() else { return leaf(self) };
        self.each_step(*digit, *at, StepOrder::Points, &mut |this| this.each_element(inner, leaf))
    }

    /// Writes a combined reduction to its shared buffer.
    fn publish(&mut self, value: ValueId) -> Result<(), LowerError> {
        let held = self.held(value)?;
        if held.registers.is_none() || held.shared.is_none() {
            return Ok(());
        }
        let place = held.place;
        self.each_element(&place.loops, &mut |this| {
            let (frag, slot) = this.slot(value)?;
            this.store_shared(value, KExpr::Slot { frag, slot })
        })
    }

    /// Stores the current element of a value that lives in shared memory; one of its replicas does.
    pub fn store_shared(&mut self, value: ValueId, element: KExpr) -> Result<(), LowerError> {
        let Some((buffer, offset)) = self.shared_place(value)? else { return Ok(()) };
        // Distinct threads write distinct elements: one barrier, before the first.
        let loops = self.held(value)?.loops;
        if !self.sync.is_written(Mem::Shared(buffer)) && self.sync.write(Touch::shared(buffer), loops) {
            self.emit_barrier();
        }
        self.emit.forget_loads(|mem| mem == Mem::Shared(buffer));
        let guard = self.owner_guard(value)?;
        let offset = self.shared_offset(&offset);
        self.emit.stmt(kernel::Stmt::Store {
            mem: Mem::Shared(buffer),
            offset,
            values: vec![element],
            guard: guard.map(Atom::expr),
        });
        Ok(())
    }

    fn define(&mut self, value: ValueId, expr: &Expr) -> Result<(), LowerError> {
        let operand = self.value(expr)?;
        if self.held(value)?.shared.is_some() {
            return self.store_shared(value, operand.expr());
        }
        let (frag, slot) = self.slot(value)?;
        self.emit.stmt(kernel::Stmt::Set { frag, slot, value: operand.expr() });
        Ok(())
    }

    /// `value = expr`, unless the step of the loop that carries it has no points.
    fn set(&mut self, value: ValueId, expr: &Expr) -> Result<(), LowerError> {
        let height = self.held(value)?.height;
        let guard = self.step_guard(value, height);
        let (frag, slot) = self.slot(value)?;
        let new = self.value(expr)?.expr();
        let value = match guard {
            None => new,
            Some(guard) => {
                let old = KExpr::Slot { frag, slot };
                KExpr::Select(Box::new(guard.expr()), Box::new(new), Box::new(old))
            }
        };
        self.emit.stmt(kernel::Stmt::Set { frag, slot, value });
        Ok(())
    }

    fn shared_offset(&mut self, offset: &Linear) -> KExpr {
        let (base, constant) = self.emit.index_base(offset);
        Emit::sum_expr(base, constant, Ty::I32)
    }

    /// The current element of a reduction that accumulates in shared memory; this thread wrote it.
    fn load_own(&mut self, value: ValueId, buffer: u32, offset: &Linear) -> Result<KExpr, LowerError> {
        let dtype = self.nest.values[value.0 as usize].dtype;
        let guard = self.owner_guard(value)?.map(Atom::expr);
        let offset = self.shared_offset(offset);
        let var = self.emit.var(Ty::Elem(dtype));
        self.emit.stmt(kernel::Stmt::Load { dst: vec![var], mem: Mem::Shared(buffer), offset, guard });
        Ok(KExpr::Var(var))
    }

    /// Of the threads that do the same work, the one that writes a value to shared memory. Threads that hold
    /// partial results do not do the same work.
    fn owner_guard(&mut self, value: ValueId) -> Result<Option<Atom>, LowerError> {
        let partial = self.held(value)?.shared.as_ref().map(|s| s.partial.clone()).unwrap_or_default();
        Ok(self.replica_guard(&partial))
    }

    fn reduce(&mut self, value: ValueId, op: RedOp, expr: &Expr) -> Result<(), LowerError> {
        let held = self.held(value)?;
        let (height, in_place) = (held.height, held.registers.is_none());
        let guard = self.red_guard(value, height, op, expr);
        let dtype = self.nest.values[value.0 as usize].dtype;
        let kept = match self.shared_place(value)? {
            Some((buffer, offset)) if in_place => self.load_own(value, buffer, &offset)?,
            _ => {
                let (frag, slot) = self.slot(value)?;
                KExpr::Slot { frag, slot }
            }
        };
        let sum = Box::new(kept.clone());
        let updated = match (op, expr) {
            (RedOp::Add, Expr::Bin(BinOp::Mul, a, b)) if dtype == DType::F32 => {
                let (a, b) = (self.value(a)?, self.value(b)?);
                KExpr::Fma(Box::new(a.expr()), Box::new(b.expr()), sum)
            }
            _ => {
                let x: Operand = self.value(expr)?;
                KExpr::Bin(op.combine(), sum, Box::new(x.expr()))
            }
        };
        let updated = match guard {
            None => updated,
            Some(guard) => KExpr::Select(Box::new(guard.expr()), Box::new(updated), Box::new(kept.clone())),
        };
        match kept {
            KExpr::Slot { frag, slot } => self.emit.stmt(kernel::Stmt::Set { frag, slot, value: updated }),
            _ => self.store_shared(value, updated)?,
        }
        Ok(())
    }
}

/// A literal of an element type.
pub(super) fn literal(x: f64, dtype: DType) -> Atom {
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 | DType::F8 => Atom::float(x, dtype),
        DType::I32 => Atom::i32(x as i64),
        DType::Bool => Atom::Bool(x != 0.0),
    }
}

//! Checks statements: by the roles of their operands, and by rules that one statement alone has.

use super::{Check, Verifier, ensure};
use crate::{
    dtype::DType,
    kernel::{
        Expr, Group, Mem, Param, Role, Stmt, Var,
        visit::{Access, Meets, Visitor},
    },
};

impl Verifier<'_> {
    /// `diverged`: some threads of the CTA may be elsewhere.
    pub(super) fn stmt(&mut self, stmt: &Stmt, diverged: bool) -> Check {
        let mut threads = Threads { verifier: self, diverged, elems: 0 };
        stmt.visit(&mut threads)?;
        let elems = threads.elems;
        let mut uses = Uses { verifier: self, elems, ty: None };
        stmt.visit(&mut uses)?;
        let ty = uses.ty;
        self.particular(stmt)?;
        if let Stmt::Set { frag, value, .. } = stmt
            && (diverged || self.differs(value))
        {
            self.apart.insert(*frag);
        }
        let height = self.scope.len();
        let mut inside = Inside { verifier: self, stmt, diverged, ty, blocks: false };
        stmt.visit(&mut inside)?;
        if inside.blocks {
            self.leave(height);
        }
        Ok(())
    }

    /// What the roles of operands do not say: counts, targets, what the kernel has.
    fn particular(&mut self, stmt: &Stmt) -> Check {
        match stmt {
            Stmt::For { start, step, .. } => {
                let ty = self.expr(start)?;
                ensure(ty.is_integer(), || format!("loop over {ty}"))?;
                ensure(!matches!(step, Expr::Int(..=0, _)), || "a loop steps by zero or less".into())
            }
            Stmt::CopyAsync { shared, global, elems, .. } => {
                let bytes = self.kernel.dtype_of(Mem::Shared(*shared)).map_or(0, DType::bytes) * elems;
                ensure([4, 8, 16].contains(&bytes), || format!("asynchronous copy of {bytes} bytes"))?;
                // `ptxas` 13.0 makes illegal instructions of some, see the engine's check of cache policies.
                let plain = self.kernel.evict(*global).is_none();
                ensure(plain, || format!("asynchronous copy of parameter {global} by a cache policy"))
            }
            Stmt::StorePeer { .. } => {
                ensure(self.kernel.cluster.is_some(), || "a store to another CTA".into())
            }
            Stmt::ClusterBarrier | Stmt::ClusterArrive | Stmt::ClusterWait => {
                ensure(self.kernel.cluster.is_some(), || "a barrier of no cluster".into())
            }
            Stmt::GridDependency => {
                ensure(self.kernel.dependent, || "a dependency that the launch does not have".into())
            }
            Stmt::Problem { tile, .. } => {
                ensure(self.kernel.grouped, || "a problem of several, of which there is one".into())?;
                ensure(!self.differs(tile), || "threads at the tiles of different problems".into())?;
                self.chosen = true;
                Ok(())
            }
            Stmt::One { thread, .. } => {
                let within = thread.is_multiple_of(32) && *thread < self.kernel.threads;
                ensure(within, || format!("no warp begins at thread {thread}"))
            }
            Stmt::Async(operation) => self.asynchronous(operation),
            Stmt::Shuffle { value, mask, .. } => {
                ensure((1..32).contains(mask), || format!("shuffle by {mask}, expected 1..32"))?;
                let ty = self.expr(value)?;
                ensure(ty != DType::I64 && ty != DType::Bool, || format!("shuffle of {ty}"))
            }
            Stmt::ShuffleUp { value, by, width, .. } => {
                let groups = width.is_power_of_two() && *width <= 32 && (1..*width).contains(by);
                ensure(groups, || format!("a shuffle by {by} lanes of {width}"))?;
                let ty = self.expr(value)?;
                ensure(ty != DType::I64 && ty != DType::Bool, || format!("shuffle of {ty}"))
            }
            Stmt::ShuffleLast { value, mask, .. } => {
                ensure((1..32).contains(mask), || format!("shuffle by {mask}, expected 1..32"))?;
                let ty = self.expr(value)?;
                ensure(ty != DType::I64 && ty != DType::Bool, || format!("shuffle of {ty}"))
            }
            Stmt::LoadMatrices { dst, shared, transposed, .. } => {
                let dtype = self.buffer(*shared)?;
                let counted = match dtype.bytes() {
                    1 => [4, 8, 16].contains(&dst.len()) && !transposed,
                    2 => [2, 4, 8].contains(&dst.len()),
                    4 => [1, 2, 4].contains(&dst.len()) && !transposed,
                    _ => false,
                };
                ensure(counted, || format!("{} elements of {dtype} of matrices", dst.len()))
            }
            Stmt::StoreMatrices { shared, values, .. } => {
                let dtype = self.buffer(*shared)?;
                ensure(dtype.bytes() == 2 && [2, 4, 8].contains(&values.len()), || {
                    format!("{} elements of {dtype} of matrices", values.len())
                })?;
                ensure(self.kernel.target.sm >= 90, || format!("`stmatrix` on {}", self.kernel.target))
            }
            Stmt::ExchangeMatrices { dst, values } => self.exchanged([8, 2], dst, values),
            Stmt::JoinTwos { dst, values } => self.exchanged([8, 1], dst, values),
            Stmt::TransposeMatrix { dst, values } => self.exchanged([2, 2], dst, values),
            Stmt::Mma { atom, frag, slots, a, b } => {
                let [m, n, k] = atom.row().shape;
                let counts = [(slots.len(), m * n), (a.len(), m * k), (b.len(), n * k)];
                ensure(counts.iter().all(|(have, all)| *have as u32 * 32 == *all), || {
                    format!("{atom} of {} accumulators, {} and {} elements", slots.len(), a.len(), b.len())
                })?;
                for slot in slots {
                    let dtype = self.slot(*frag, *slot)?;
                    ensure(dtype == atom.row().accumulator, || format!("{atom} adds to {dtype}"))?;
                }
                let (x, y) = (self.expr(&a[0])?, self.expr(&b[0])?);
                let known = atom.row().multiplies(x) && atom.row().multiplies(y);
                ensure(known && (x == y || atom.row().mixed), || format!("{atom} of other types"))
            }
            Stmt::Combine { op, mem, .. } => {
                if let Some(dtype) = self.kernel.dtype_of(*mem) {
                    ensure(op.is_atomic(dtype), || format!("atomic {} of {dtype}", op.name()))?;
                }
                let Mem::Global(global) = *mem else { return Ok(()) };
                let plain = self.kernel.evict(global).is_none();
                ensure(plain, || format!("atomic {} to parameter {global} by a cache policy", op.name()))
            }
            Stmt::Take { counters, .. } => {
                let param = self.kernel.params.get(*counters as usize);
                let counts = matches!(param, Some(Param::Scratch { dtype: DType::I32, zeroed: true, .. }));
                ensure(counts, || format!("parameter {counters} holds no counters"))
            }
            Stmt::LookBack { words, value, .. } => {
                let param = self.kernel.params.get(*words as usize);
                let counts = matches!(param, Some(Param::Scratch { dtype: DType::I32, zeroed: true, .. }));
                ensure(counts, || format!("parameter {words} holds no words of steps"))?;
                let ty = self.expr(value)?;
                ensure(matches!(ty, DType::F32 | DType::I32 | DType::U32), || format!("a look-back of {ty}"))
            }
            Stmt::Alike { offset, .. } => {
                ensure(!self.differs(offset), || "the place of a number differs between threads".into())
            }
            Stmt::Arrive { counters, offset, parts, guard, group, .. } => {
                ensure(group.map(|g| [0, g.threads]) == self.role, || {
                    "an arrival of others than the CTA's threads, or its first role's".into()
                })?;
                ensure(!matches!(parts, Expr::Int(..=0, _)), || "an arrival of no CTAs".into())?;
                ensure(!self.differs(parts), || "the number of CTAs differs between threads".into())?;
                let param = self.kernel.params.get(*counters as usize);
                let counts = matches!(param, Some(Param::Scratch { dtype: DType::I32, zeroed: true, .. }));
                ensure(counts, || format!("parameter {counters} holds no counters"))?;
                ensure(!self.differs(offset), || "the counter differs between threads".into())?;
                let apart = guard.as_ref().is_some_and(|guard| self.differs(guard));
                ensure(!apart, || "an arrival that some threads leave out".into())
            }
            _ => Ok(()),
        }
    }

    /// Matrices of which each lane gives and gets as many elements, of so many bytes.
    fn exchanged(&self, [count, bytes]: [usize; 2], dst: &[Var], values: &[Expr]) -> Check {
        let counts = || format!("an exchange of {} for {} elements", values.len(), dst.len());
        ensure([dst.len(), values.len()] == [count; 2], counts)?;
        let ty = self.expr(&values[0])?;
        ensure(ty.bytes() as usize == bytes, || format!("matrices of {ty}"))
    }

    fn buffer(&self, shared: u32) -> Check<DType> {
        self.kernel.dtype_of(Mem::Shared(shared)).ok_or_else(|| format!("no shared buffer {shared}"))
    }

    fn writable(&self, mem: Mem) -> Check {
        let Mem::Global(i) = mem else { return Ok(()) };
        let param = self.kernel.params.get(i as usize);
        let mutable = matches!(param, Some(Param::Tensor { mutable: true, .. } | Param::Scratch { .. }));
        ensure(mutable, || format!("store to read-only parameter {i}"))
    }

    /// Whether no thread writes to a buffer.
    fn is_constant(&self, mem: Mem) -> bool {
        let Mem::Global(i) = mem else { return false };
        matches!(self.kernel.params.get(i as usize), Some(Param::Tensor { mutable: false, .. }))
    }

    /// A stage, an offset or a coordinate.
    fn index(&self, e: &Expr) -> Check {
        self.expect(e, DType::I32, "stage, parity or coordinate")
    }

    /// A buffer of mbarriers.
    fn mbarriers(&self, mem: Mem) -> Check {
        let Mem::Shared(buffer) = mem else { return Err(format!("mbarriers in {mem:?}")) };
        let of = self.kernel.shared.get(buffer as usize);
        ensure(of.is_some_and(|s| s.dtype == DType::I32 && s.align.is_multiple_of(8)), || {
            format!("shared buffer {buffer} holds no mbarriers")
        })
    }

    /// Whether the value of an operand may differ between threads.
    fn operands_differ(&self, stmt: &Stmt) -> bool {
        let mut differs = false;
        stmt.operands(&mut |e| differs = differs || self.differs(e));
        differs
    }

    /// A vector of so many elements at a place, all in a buffer.
    fn vector(&self, mem: Mem, offset: &Expr, n: usize) -> Check {
        let dtype = self.kernel.dtype_of(mem).ok_or_else(|| format!("no buffer {mem:?}"))?;
        if matches!(mem, Mem::Global(_)) {
            self.of_problem()?;
        }
        let boxes = |p: &&Param| matches!(p, Param::TensorMap { tensor, stored: true, .. } if mem == Mem::Global(*tensor));
        if let Some(map) = self.kernel.params.iter().find(boxes) {
            return Err(format!("an access beside the boxes of `{}`, which cover the tensor", map.name()));
        }
        let bytes = n as u64 * u64::from(dtype.bytes());
        ensure(n.is_power_of_two() && bytes <= 16, || format!("vector of {n} {dtype}, {bytes} bytes"))?;
        if let (Mem::Shared(i), Expr::Int(at, _)) = (mem, offset) {
            let elems = i64::from(self.kernel.shared[i as usize].elems);
            ensure(*at >= 0 && at + n as i64 <= elems, || format!("offset {at} of {elems} shared elements"))?;
        }
        Ok(())
    }
}

/// Who comes to the statement, and how many elements it is about.
struct Threads<'v, 'k> {
    verifier: &'v Verifier<'k>,
    diverged: bool,
    /// Elements of the statement's type that are defined or used, or moved.
    elems: usize,
}

impl<'a> Visitor<'a> for Threads<'_, '_> {
    type Error = String;

    fn meets(&mut self, who: Meets, what: &'static str) -> Check {
        let threads = self.verifier.kernel.threads;
        match who {
            Meets::Cta => ensure(!self.diverged && self.verifier.role.is_none(), || what.into()),
            Meets::Program => ensure(!self.diverged, || what.into()),
            Meets::Warp => {
                ensure(!self.diverged, || format!("{what} that some lanes may not reach"))?;
                ensure(threads.is_multiple_of(32), || {
                    format!("{what} with {threads} threads: the last warp is not full")
                })
            }
        }
    }
    fn elems(&mut self, n: &'a u32) -> Check {
        self.elems = *n as usize;
        Ok(())
    }
    fn defs(&mut self, vars: &'a Vec<Var>) -> Check {
        self.elems = vars.len();
        Ok(())
    }
    fn values(&mut self, es: &'a Vec<Expr>, _: &'static str) -> Check {
        self.elems = es.len();
        Ok(())
    }
    fn common(&mut self, _: &'a Var, _: DType) -> Check {
        self.elems = 1;
        Ok(())
    }
}

/// Types of what is used, and that it is there.
struct Uses<'v, 'k> {
    verifier: &'v Verifier<'k>,
    elems: usize,
    /// The type of the statement's elements, once it is known.
    ty: Option<DType>,
}

impl Uses<'_, '_> {
    fn at(&mut self, mem: Mem, offset: &Expr, access: Access) -> Check {
        let v = self.verifier;
        match access {
            Access::Box | Access::Product => return v.index(offset),
            Access::Mbarrier => return v.mbarriers(mem).and_then(|()| v.index(offset)),
            Access::Read | Access::Combine | Access::Peer => v.vector(mem, offset, self.elems)?,
            Access::Write => {
                v.vector(mem, offset, self.elems)?;
                v.writable(mem)?;
            }
            Access::Words => {
                let ty = v.expr(offset)?;
                return ensure(ty.is_integer(), || format!("offset of type {ty}"));
            }
            Access::Matrices | Access::Counter => {}
        }
        let ty = v.expr(offset)?;
        ensure(ty.is_integer(), || format!("offset of type {ty}"))?;
        let dtype = v.kernel.dtype_of(mem).ok_or_else(|| format!("no buffer {mem:?}"))?;
        let to = *self.ty.get_or_insert(dtype);
        ensure(to == dtype, || format!("copy of {dtype} into {to}"))
    }
}

impl<'a> Visitor<'a> for Uses<'_, '_> {
    type Error = String;

    fn value(&mut self, e: &'a Expr, what: &'static str) -> Check {
        match self.ty {
            Some(ty) => self.verifier.expect(e, ty, what),
            None => self.verifier.expr(e).map(|ty| self.ty = Some(ty)),
        }
    }
    fn operands(&mut self, es: &'a Vec<Expr>) -> Check {
        let [first, rest @ ..] = es.as_slice() else { return Ok(()) };
        let ty = self.verifier.expr(first)?;
        rest.iter().try_for_each(|e| self.verifier.expect(e, ty, "operand"))
    }
    fn index(&mut self, e: &'a Expr, what: &'static str) -> Check {
        self.verifier.expect(e, DType::I32, what)
    }
    fn truth(&mut self, e: &'a Expr, what: &'static str) -> Check {
        self.verifier.expect(e, DType::Bool, what)
    }
    fn group(&mut self, Group { id, threads }: &'a Group) -> Check {
        ensure((1..16).contains(id), || format!("barrier {id}, expected 1..16"))?;
        let whole = threads.is_multiple_of(32) && *threads > 0;
        ensure(whole, || format!("a barrier of {threads} threads"))
    }

    fn place(&mut self, mem: &'a Mem, offset: &'a Expr, access: Access) -> Check {
        self.at(*mem, offset, access)
    }
    fn shared(&mut self, buffer: &'a u32, offset: &'a Expr, access: Access) -> Check {
        self.at(Mem::Shared(*buffer), offset, access)
    }
    fn global(&mut self, param: &'a u32, offset: &'a Expr, access: Access) -> Check {
        self.at(Mem::Global(*param), offset, access)
    }
    fn boxed(&mut self, _: &'a u32, coordinates: &'a Vec<Expr>) -> Check {
        self.verifier.of_problem()?;
        coordinates.iter().try_for_each(|e| self.verifier.index(e))
    }
    fn ring(&mut self, buffer: &'a u32) -> Check {
        self.verifier.mbarriers(Mem::Shared(*buffer))
    }
    fn lives(&mut self, buffers: &'a Vec<u32>) -> Check {
        let known = |b: &u32| (*b as usize) < self.verifier.kernel.shared.len();
        ensure(buffers.iter().all(known), || format!("no shared buffers {buffers:?}"))
    }

    fn slot(&mut self, frag: &'a u32, slot: &'a u32) -> Check {
        self.verifier.slot(*frag, *slot).map(|dtype| self.ty = Some(dtype))
    }
    fn slots(&mut self, frag: &'a u32, slots: &'a Vec<u32>) -> Check {
        slots.iter().try_for_each(|slot| self.verifier.slot(*frag, *slot).map(drop))
    }
    fn results(&mut self, results: &'a Vec<(u32, Vec<u32>)>) -> Check {
        results.iter().try_for_each(|(frag, slots)| self.slots(frag, slots))
    }
}

/// What is defined, and the blocks inside.
struct Inside<'v, 'k, 's> {
    verifier: &'v mut Verifier<'k>,
    stmt: &'s Stmt,
    diverged: bool,
    /// The type of the statement's elements.
    ty: Option<DType>,
    /// Whether there are blocks: what the statement defines is in scope in them alone.
    blocks: bool,
}

impl Inside<'_, '_, '_> {
    fn of_elements(&mut self, var: Var, differs: bool) -> Check {
        let ty = self.ty.ok_or_else(|| format!("%{} is of no type", var.0))?;
        self.verifier.define(var, ty, differs)
    }
}

impl<'a> Visitor<'a> for Inside<'_, '_, '_> {
    type Error = String;

    fn def(&mut self, var: &'a Var) -> Check {
        self.of_elements(*var, self.verifier.operands_differ(self.stmt))
    }
    fn lane(&mut self, var: &'a Var) -> Check {
        self.of_elements(*var, true)
    }
    fn defs(&mut self, vars: &'a Vec<Var>) -> Check {
        // What nobody writes is the same for all who read one place.
        let differs = match self.stmt {
            Stmt::Load { mem, .. } if self.verifier.is_constant(*mem) => {
                self.verifier.operands_differ(self.stmt)
            }
            _ => true,
        };
        vars.iter().try_for_each(|var| self.of_elements(*var, differs))
    }
    fn common(&mut self, var: &'a Var, ty: DType) -> Check {
        self.verifier.define(*var, ty, false)
    }
    fn own(&mut self, var: &'a Var, ty: DType) -> Check {
        self.verifier.define(*var, ty, true)
    }
    fn block(&mut self, block: &'a Vec<Stmt>) -> Check {
        self.blocks = true;
        let diverged = self.diverged || self.verifier.operands_differ(self.stmt);
        self.verifier.block(block, diverged)
    }
    fn alone(&mut self, block: &'a Vec<Stmt>) -> Check {
        self.blocks = true;
        self.verifier.block(block, true)
    }
    fn roles(&mut self, roles: &'a Vec<Role>) -> Check {
        self.verifier.roles(roles)
    }
}

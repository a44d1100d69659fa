//! Checks a kernel between passes: what code generation takes for granted.
//!
//! Types agree; each variable is defined once, before its uses and in their scope; guards and conditions
//! are `bool`; every barrier, arrival and shuffle is reached by all threads; vectors are 1, 2, 4 or 8 elements of at
//! most 16 bytes; slots, buffers and parameters exist; shared memory and threads fit the target; buffers that lie in the
//! same bytes follow one another, with a barrier between, and no copy to one on its way; what a CTA stores into another's
//! shared memory finds it there and free, and is read behind it (`peers`); the parameters of a grouped kernel are those of a problem.

mod asynchronous;

use super::{Expr, Group, Kernel, Mem, Param, Stmt, Ty, Var};
use crate::{
    dtype::DType,
    op::{BinOp, UnOp},
    schedule::Target,
};
use std::collections::BTreeSet;

/// What is wrong with a kernel.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("invalid kernel `{kernel}`: {what}")]
pub struct VerifyError {
    /// Name of the kernel.
    pub kernel: String,
    /// The rule broken, with the offending statement.
    pub what: String,
}

/// Bytes of shared memory one CTA may use: compute capability table of the CUDA C++ Programming Guide.
pub const fn shared_limit(target: Target) -> u64 {
    match target.sm {
        80 | 87 => 163 * 1024,
        90.. => 227 * 1024,
        _ => 99 * 1024,
    }
}

/// Checks a kernel.
///
/// # Errors
/// The first rule broken, in program order.
pub fn verify(kernel: &Kernel) -> Result<(), VerifyError> {
    let mut v = Verifier {
        kernel,
        scope: Vec::new(),
        visible: vec![false; kernel.vars.len()],
        defined: vec![false; kernel.vars.len()],
        divergent: BTreeSet::new(),
        chosen: !kernel.grouped,
        role: None,
        product: 0,
    };
    v.kernel().map_err(|what| VerifyError { kernel: kernel.name.clone(), what })
}

struct Verifier<'a> {
    kernel: &'a Kernel,
    /// Variables in scope, innermost last.
    scope: Vec<Var>,
    /// Whether each variable is in scope.
    visible: Vec<bool>,
    /// Whether each variable was defined so far, in scope or not.
    defined: Vec<bool>,
    /// Variables whose value may differ between threads of a CTA.
    divergent: BTreeSet<Var>,
    /// Whether it is known which problem's parameters are meant.
    chosen: bool,
    /// First thread of the role at hand, and how many it has.
    role: Option<[u32; 2]>,
    /// Registers that a product of a warpgroup takes, the most so far.
    product: u32,
}

type Check<T = ()> = Result<T, String>;

fn ensure(ok: bool, what: impl FnOnce() -> String) -> Check {
    if ok { Ok(()) } else { Err(what()) }
}

/// A named barrier of whole warps.
fn barrier(Group { id, threads }: &Group) -> Check {
    ensure((1..16).contains(id), || format!("barrier {id}, expected 1..16"))?;
    ensure(threads.is_multiple_of(32) && *threads > 0, || format!("a barrier of {threads} threads"))
}

impl Verifier<'_> {
    fn kernel(&mut self) -> Check {
        let k = self.kernel;
        ensure((1..=1024).contains(&k.threads), || {
            format!("{} threads a CTA, expected 1..=1024", k.threads)
        })?;
        ensure(k.grid.iter().all(|g| g.tile > 0), || "a grid axis has tile 0".into())?;
        ensure(k.grid.iter().all(|g| g.period >= g.tile), || "tiles begin anew within a tile".into())?;
        let limit = shared_limit(k.target);
        ensure(k.shared_bytes() <= limit, || {
            format!("{} bytes of shared memory, the target has {limit}", k.shared_bytes())
        })?;
        for s in &k.shared {
            let aligned = s.align.is_power_of_two() && s.start.is_multiple_of(s.align.into());
            ensure(aligned && s.dtype != DType::Bool, || format!("shared buffer `{}`", s.name))?;
        }
        let mut names = BTreeSet::new();
        let all = k.params.iter().map(|p| ("parameter", p.name()));
        let all = all.chain(k.shared.iter().map(|s| ("shared", s.name.as_str())));
        for name in all.chain(k.frags.iter().map(|f| ("fragment", f.name.as_str()))) {
            ensure(names.insert(name), || format!("two {}s named `{}`", name.0, name.1))?;
        }
        for i in &k.cleared {
            let mutable = matches!(k.params.get(*i as usize), Some(Param::Tensor { mutable: true, .. }));
            ensure(mutable, || format!("parameter {i} is cleared and no tensor that is stored to"))?;
        }
        for param in &k.params {
            let Param::TensorMap { name, tensor, stored, .. } = param else { continue };
            let of = k.params.get(*tensor as usize);
            let right = matches!(of, Some(Param::Tensor { mutable, .. }) if mutable == stored);
            ensure(right, || {
                format!(
                    "`{name}` is no map of a tensor that is {}",
                    if *stored { "stored to" } else { "read" }
                )
            })?;
        }
        if k.dependent {
            ensure(k.target.sm >= 90, || format!("a dependent launch for sm_{}", k.target.sm))?;
            let before = k.body.iter().take_while(|s| **s != Stmt::GridDependency).collect::<Vec<_>>();
            ensure(before.len() < k.body.len(), || "a dependent launch that does not wait".into())?;
            let early = before.into_iter().find(|s| s.touches_global());
            ensure(early.is_none(), || "global memory is accessed before earlier grids have ended".into())?;
        }
        self.block(&k.body, false)?;
        super::lives::check(k)?;
        super::peers::check(k)
    }

    /// `diverged`: some threads of the CTA may be elsewhere.
    fn block(&mut self, stmts: &[Stmt], diverged: bool) -> Check {
        let (height, chosen) = (self.scope.len(), self.chosen);
        for stmt in stmts {
            self.stmt(stmt, diverged)?;
        }
        self.chosen = chosen;
        self.leave(height);
        Ok(())
    }

    fn leave(&mut self, height: usize) {
        for var in self.scope.drain(height..) {
            self.visible[var.0 as usize] = false;
        }
    }

    fn define(&mut self, var: Var, ty: Ty, divergent: bool) -> Check {
        let declared = self.kernel.vars.get(var.0 as usize);
        ensure(declared == Some(&ty), || format!("%{} is declared {declared:?} and defined as {ty}", var.0))?;
        ensure(!self.defined[var.0 as usize], || format!("%{} is defined twice", var.0))?;
        self.defined[var.0 as usize] = true;
        self.visible[var.0 as usize] = true;
        if divergent {
            self.divergent.insert(var);
        }
        self.scope.push(var);
        Ok(())
    }

    fn stmt(&mut self, stmt: &Stmt, diverged: bool) -> Check {
        match stmt {
            Stmt::Let(var, value) => {
                let ty = self.expr(value)?;
                self.define(*var, ty, self.differs(value))
            }
            Stmt::Load { dst, mem, offset, guard } => {
                let dtype = self.access(*mem, offset, guard, dst.len())?;
                dst.iter().try_for_each(|v| self.define(*v, Ty::Elem(dtype), true))
            }
            Stmt::Store { mem, offset, values, guard } => {
                let dtype = self.access(*mem, offset, guard, values.len())?;
                if let Mem::Global(i) = mem {
                    let param = &self.kernel.params[*i as usize];
                    let mutable =
                        matches!(param, Param::Tensor { mutable: true, .. } | Param::Scratch { .. });
                    ensure(mutable, || format!("store to read-only parameter {i}"))?;
                }
                values.iter().try_for_each(|v| self.expect(v, Ty::Elem(dtype), "stored value"))
            }
            Stmt::Set { frag, slot, value } => {
                let dtype = self.slot(*frag, *slot)?;
                self.expect(value, Ty::Elem(dtype), "slot")
            }
            Stmt::For { var, start, end, step, body } => {
                let ty = self.expr(start)?;
                ensure(ty.is_int(), || format!("loop over {ty}"))?;
                self.expect(end, ty, "loop end")?;
                self.expect(step, ty, "loop step")?;
                ensure(!matches!(step, Expr::Int(..=0, _)), || "a loop steps by zero or less".into())?;
                let differs = self.differs(start) || self.differs(end) || self.differs(step);
                let height = self.scope.len();
                self.define(*var, ty, differs)?;
                self.block(body, diverged || differs)?;
                self.leave(height);
                Ok(())
            }
            Stmt::If { cond, then, otherwise } => {
                self.expect(cond, Ty::BOOL, "condition")?;
                let diverged = diverged || self.differs(cond);
                self.block(then, diverged)?;
                self.block(otherwise, diverged)
            }
            Stmt::CopyAsync { shared, shared_offset, global, global_offset, elems, guard } => {
                let to = self.access(Mem::Shared(*shared), shared_offset, guard, *elems as usize)?;
                let from = self.access(Mem::Global(*global), global_offset, guard, *elems as usize)?;
                ensure(to == from, || format!("copy of {from} into {to}"))?;
                let bytes = to.bytes() * elems;
                ensure([4, 8, 16].contains(&bytes), || format!("asynchronous copy of {bytes} bytes"))?;
                // `ptxas` 13.0 makes illegal instructions of some, see the engine's check of cache policies.
                let plain = self.kernel.evict(*global).is_none();
                ensure(plain, || format!("asynchronous copy of parameter {global} by a cache policy"))
            }
            Stmt::CommitGroup | Stmt::WaitGroup(_) => Ok(()),
            Stmt::StorePeer { shared, offset, cta, values } => {
                ensure(self.kernel.cluster.is_some(), || "a store to another CTA".into())?;
                self.expect(cta, Ty::I32, "CTA of the cluster")?;
                let dtype = self.access(Mem::Shared(*shared), offset, &None, values.len())?;
                values.iter().try_for_each(|v| self.expect(v, Ty::Elem(dtype), "stored value"))
            }
            Stmt::ClusterBarrier | Stmt::ClusterArrive | Stmt::ClusterWait => {
                ensure(!diverged, || "a barrier of the cluster that some threads may not reach".into())?;
                ensure(self.kernel.cluster.is_some(), || "a barrier of no cluster".into())
            }
            Stmt::GroupBarrier(group) => {
                barrier(group)?;
                ensure(!diverged, || "a barrier that some threads may not reach".into())
            }
            Stmt::WarpBarrier => self.warps(diverged, "a barrier of a warp"),
            Stmt::GridDependency => ensure(self.kernel.dependent && !diverged, || {
                "a dependency that the launch does not have".into()
            }),
            Stmt::Problem { dst, tile } => {
                ensure(self.kernel.grouped, || "a problem of several, of which there is one".into())?;
                self.expect(tile, Ty::I32, "number of a tile")?;
                ensure(!self.differs(tile), || "threads at the tiles of different problems".into())?;
                self.chosen = true;
                self.define(*dst, Ty::I32, false)
            }
            Stmt::One { thread, body } => {
                ensure(!diverged, || "a thread is chosen where some may not be".into())?;
                let within = thread.is_multiple_of(32) && *thread < self.kernel.threads;
                ensure(within, || format!("no warp begins at thread {thread}"))?;
                self.block(body, true)
            }
            Stmt::Roles(roles) => self.roles(roles, diverged),
            Stmt::Async(operation) => self.asynchronous(operation, diverged),
            Stmt::Live(buffers) => {
                let known = |b: &u32| (*b as usize) < self.kernel.shared.len();
                ensure(buffers.iter().all(known), || format!("no shared buffers {buffers:?}"))?;
                ensure(!diverged, || "a life that begins for some threads alone".into())
            }
            Stmt::Barrier => ensure(!diverged && self.role.is_none(), || {
                "a barrier that some threads may not reach".into()
            }),
            Stmt::Shuffle { dst, value, mask } => {
                self.warps(diverged, "a shuffle")?;
                ensure((1..32).contains(mask), || format!("shuffle by {mask}, expected 1..32"))?;
                let ty = self.expr(value)?;
                ensure(ty != Ty::I64 && ty != Ty::BOOL, || format!("shuffle of {ty}"))?;
                self.define(*dst, ty, true)
            }
            Stmt::LoadMatrices { dst, shared, offset, transposed } => {
                self.warps(diverged, "a load of matrices")?;
                let dtype = self.kernel.dtype_of(Mem::Shared(*shared));
                let dtype = dtype.ok_or_else(|| format!("no shared buffer {shared}"))?;
                let counted = match dtype.bytes() {
                    2 => [2, 4, 8].contains(&dst.len()),
                    4 => [1, 2, 4].contains(&dst.len()) && !transposed,
                    _ => false,
                };
                ensure(counted, || format!("{} elements of {dtype} of matrices", dst.len()))?;
                let ty = self.expr(offset)?;
                ensure(ty.is_int(), || format!("offset of type {ty}"))?;
                dst.iter().try_for_each(|v| self.define(*v, Ty::Elem(dtype), true))
            }
            Stmt::StoreMatrices { shared, offset, values, .. } => {
                self.warps(diverged, "a store of matrices")?;
                let dtype = self.kernel.dtype_of(Mem::Shared(*shared));
                let dtype = dtype.ok_or_else(|| format!("no shared buffer {shared}"))?;
                ensure(dtype.bytes() == 2 && [2, 4, 8].contains(&values.len()), || {
                    format!("{} elements of {dtype} of matrices", values.len())
                })?;
                ensure(self.kernel.target.sm >= 90, || format!("`stmatrix` on {}", self.kernel.target))?;
                let ty = self.expr(offset)?;
                ensure(ty.is_int(), || format!("offset of type {ty}"))?;
                values.iter().try_for_each(|v| self.expect(v, Ty::Elem(dtype), "element of a matrix"))
            }
            Stmt::ExchangeMatrices { dst, values } | Stmt::TransposeMatrix { dst, values } => {
                let whole = matches!(stmt, Stmt::ExchangeMatrices { .. });
                self.warps(diverged, if whole { "an exchange of matrices" } else { "a transposition" })?;
                let count = if whole { 8 } else { 2 };
                let counts = || format!("an exchange of {} for {} elements", values.len(), dst.len());
                ensure([dst.len(), values.len()] == [count; 2], counts)?;
                let ty = self.expr(&values[0])?;
                ensure(ty.bytes() == 2, || format!("matrices of {ty}"))?;
                values.iter().try_for_each(|v| self.expect(v, ty, "element of a matrix"))?;
                dst.iter().try_for_each(|v| self.define(*v, ty, true))
            }
            Stmt::Mma { atom, frag, slots, a, b } => {
                self.warps(diverged, "an instruction of a warp")?;
                let [m, n, k] = atom.row().shape;
                let counts = [(slots.len(), m * n), (a.len(), m * k), (b.len(), n * k)];
                ensure(counts.iter().all(|(have, all)| *have as u32 * 32 == *all), || {
                    format!("{atom} of {} accumulators, {} and {} elements", slots.len(), a.len(), b.len())
                })?;
                for slot in slots {
                    let dtype = self.slot(*frag, *slot)?;
                    ensure(dtype == atom.row().accumulator, || format!("{atom} adds to {dtype}"))?;
                }
                let types = a.iter().chain(b).map(|e| self.expr(e)).collect::<Check<Vec<_>>>()?;
                let known = |ty: &Ty| matches!(ty, Ty::Elem(d) if atom.row().operands.contains(d));
                ensure(types.iter().all(|ty| known(ty) && *ty == types[0]), || {
                    format!("{atom} of other types")
                })
            }
            Stmt::Add { global, offset, values, guard } => {
                let dtype = self.access(Mem::Global(*global), offset, guard, values.len())?;
                ensure(dtype == DType::F32, || format!("atomic addition of {dtype}"))?;
                let plain = self.kernel.evict(*global).is_none();
                ensure(plain, || format!("atomic addition to parameter {global} by a cache policy"))?;
                ensure(self.kernel.cleared.contains(global), || {
                    format!("atomic addition to parameter {global}, which is not cleared")
                })?;
                values.iter().try_for_each(|v| self.expect(v, Ty::Elem(dtype), "addend"))
            }
            Stmt::Arrive { dst, counters, offset, parts, guard, group } => {
                ensure(!diverged, || "an arrival that some threads may not reach".into())?;
                group.as_ref().map_or(Ok(()), barrier)?;
                ensure(group.map(|g| [0, g.threads]) == self.role, || {
                    "an arrival of others than the CTA's threads, or its first role's".into()
                })?;
                ensure(*parts > 0, || "an arrival of no CTAs".into())?;
                let param = self.kernel.params.get(*counters as usize);
                let counts = matches!(param, Some(Param::Scratch { dtype: DType::I32, zeroed: true, .. }));
                ensure(counts, || format!("parameter {counters} holds no counters"))?;
                let ty = self.expr(offset)?;
                ensure(ty.is_int() && !self.differs(offset), || {
                    "the counter differs between threads".into()
                })?;
                if let Some(guard) = guard {
                    self.expect(guard, Ty::BOOL, "guard")?;
                    ensure(!self.differs(guard), || "an arrival that some threads leave out".into())?;
                }
                self.define(*dst, Ty::BOOL, false)
            }
        }
    }

    /// Parameters have values: it is known which problem's they are.
    fn of_problem(&self) -> Check {
        ensure(self.chosen, || "parameters of no problem".into())
    }

    /// All lanes of all warps are here.
    fn warps(&self, diverged: bool, what: &str) -> Check {
        ensure(!diverged, || format!("{what} that some lanes may not reach"))?;
        ensure(self.kernel.threads.is_multiple_of(32), || {
            format!("{what} with {} threads: the last warp is not full", self.kernel.threads)
        })
    }

    fn access(&self, mem: Mem, offset: &Expr, guard: &Option<Expr>, n: usize) -> Check<DType> {
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
        let ty = self.expr(offset)?;
        ensure(ty.is_int(), || format!("offset of type {ty}"))?;
        if let (Mem::Shared(i), Expr::Int(at, _)) = (mem, offset) {
            let elems = i64::from(self.kernel.shared[i as usize].elems);
            ensure(*at >= 0 && at + n as i64 <= elems, || format!("offset {at} of {elems} shared elements"))?;
        }
        guard.as_ref().map_or(Ok(()), |g| self.expect(g, Ty::BOOL, "guard"))?;
        Ok(dtype)
    }

    fn slot(&self, frag: u32, slot: u32) -> Check<DType> {
        let f = self.kernel.frags.get(frag as usize).ok_or_else(|| format!("no fragment {frag}"))?;
        ensure(slot < f.slots, || format!("slot {slot} of fragment `{}` with {} slots", f.name, f.slots))?;
        Ok(f.dtype)
    }

    fn expect(&self, e: &Expr, ty: Ty, what: &str) -> Check {
        let found = self.expr(e)?;
        ensure(found == ty, || {
            format!("{what} is {found}, expected {ty}: {}", super::print::expr(self.kernel, e))
        })
    }

    /// Whether the value may differ between threads. Slots are taken to differ.
    fn differs(&self, e: &Expr) -> bool {
        match e {
            Expr::Float(..)
            | Expr::Int(..)
            | Expr::Bool(_)
            | Expr::Cta
            | Expr::Ctas
            | Expr::Tiles
            | Expr::Dim(_)
            | Expr::Scalar(_) => false,
            Expr::Tid | Expr::Slot { .. } => true,
            Expr::Var(v) => self.divergent.contains(v),
            Expr::Un(_, a) | Expr::Cast(_, a) => self.differs(a),
            Expr::Bin(_, a, b) | Expr::Wrapping(_, a, b) | Expr::Xor(a, b) | Expr::Cmp(_, a, b) => {
                self.differs(a) || self.differs(b)
            }
            Expr::Fma(a, b, c) | Expr::Select(a, b, c) => {
                self.differs(a) || self.differs(b) || self.differs(c)
            }
        }
    }

    fn expr(&self, e: &Expr) -> Check<Ty> {
        let float = |ty: Ty| matches!(ty, Ty::Elem(d) if d.is_float());
        let same = |a: &Expr, b: &Expr| -> Check<Ty> {
            let (x, y) = (self.expr(a)?, self.expr(b)?);
            ensure(x == y, || format!("operands of {x} and {y}: {}", super::print::expr(self.kernel, e)))?;
            Ok(x)
        };
        let ok = |ok: bool, ty: Ty| {
            ensure(ok, || format!("{ty} operand of {}", super::print::expr(self.kernel, e)))?;
            Ok(ty)
        };
        match e {
            Expr::Float(_, dtype) => ok(dtype.is_float(), Ty::Elem(*dtype)),
            Expr::Int(n, ty) => ok(ty.is_int() && (*ty == Ty::I64 || i32::try_from(*n).is_ok()), *ty),
            Expr::Bool(_) => Ok(Ty::BOOL),
            Expr::Var(v) => {
                ensure(self.visible.get(v.0 as usize) == Some(&true), || {
                    format!("%{} is used outside its scope", v.0)
                })?;
                Ok(self.kernel.vars[v.0 as usize])
            }
            Expr::Slot { frag, slot } => Ok(Ty::Elem(self.slot(*frag, *slot)?)),
            Expr::Tid | Expr::Cta | Expr::Ctas => Ok(Ty::I32),
            Expr::Tiles => {
                ensure(self.kernel.grouped, || "tiles of several problems, of which there is one".into())?;
                Ok(Ty::I32)
            }
            Expr::Dim(extent) => {
                self.of_problem()?;
                for name in extent.dims.keys() {
                    let known = self.kernel.params.iter().any(|p| matches!(p, Param::Dim(n) if n == name));
                    ensure(known, || format!("no dim `{name}` among the parameters"))?;
                }
                Ok(Ty::I32)
            }
            Expr::Scalar(_) if !self.chosen => Err("a scalar of no problem".into()),
            Expr::Scalar(i) => match self.kernel.params.get(*i as usize) {
                Some(Param::Scalar { dtype, .. }) => Ok(Ty::Elem(*dtype)),
                _ => Err(format!("parameter {i} is no scalar")),
            },
            Expr::Un(UnOp::Not, a) => self.expr(a).and_then(|t| ok(t == Ty::BOOL, t)),
            Expr::Un(UnOp::Neg | UnOp::Abs, a) => self.expr(a).and_then(|t| ok(t != Ty::BOOL, t)),
            Expr::Un(_, a) => self.expr(a).and_then(|t| ok(float(t), t)),
            Expr::Bin(BinOp::And | BinOp::Or, a, b) => same(a, b).and_then(|t| ok(t == Ty::BOOL, t)),
            Expr::Bin(BinOp::Rem, a, b) | Expr::Xor(a, b) => same(a, b).and_then(|t| ok(t.is_int(), t)),
            Expr::Bin(_, a, b) => same(a, b).and_then(|t| ok(t != Ty::BOOL, t)),
            Expr::Wrapping(op, a, b) => same(a, b).and_then(|t| ok(op.is_arithmetic() && t == Ty::I32, t)),
            Expr::Fma(a, b, c) => {
                same(a, b)?;
                same(b, c).and_then(|t| ok(float(t), t))
            }
            Expr::Cmp(_, a, b) => same(a, b).map(|_| Ty::BOOL),
            Expr::Select(c, a, b) => {
                self.expect(c, Ty::BOOL, "condition")?;
                same(a, b)
            }
            Expr::Cast(ty, a) => self.expr(a).map(|_| *ty),
        }
    }
}

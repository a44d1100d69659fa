//! Runs a kernel on the CPU, for tests: no LLVM, no GPU.
//!
//! The threads of a CTA advance together, statement by statement, under a mask. That order would hide missing
//! barriers, so every access of shared memory is checked against those of other threads since the last
//! barrier. Also errors: reading what was never written (registers and shared memory), anything outside a
//! buffer, misaligned vectors, barriers and shuffles that some threads do not reach, and reading the
//! destination of an asynchronous copy before its group was waited for.

mod memory;
mod scalar;

pub use scalar::Scalar;

use super::{Expr, Kernel, Mem, Param, Stmt, Ty, Var};
use crate::dtype::DType;
use memory::SharedMemory;
use std::collections::BTreeMap;

/// What a kernel runs on. Elements are given widened to `f32`; 16-bit types hold rounded values.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// Named dims.
    pub dims: BTreeMap<String, i64>,
    /// Scalar parameters by name.
    pub scalars: BTreeMap<String, f32>,
    /// Tensors by name, in memory order. Stored to in place.
    pub tensors: BTreeMap<String, Vec<f32>>,
}

/// What a launch did, over all CTAs and threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Barriers, once a CTA.
    pub barriers: u64,
    /// Load instructions of global memory, a thread each; guarded off ones are not counted.
    pub global_loads: u64,
    /// Store instructions to global memory, likewise.
    pub global_stores: u64,
    /// Load instructions of shared memory, likewise.
    pub shared_loads: u64,
    /// Store instructions to shared memory, likewise.
    pub shared_stores: u64,
    /// Asynchronous copies, likewise.
    pub async_copies: u64,
    /// Fused multiply-adds into registers, guarded or not.
    pub fma: u64,
}

/// Why a kernel cannot run to its end.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("CTA {cta}, thread {thread}: {what}, at `{stmt}`")]
pub struct InterpretError {
    /// CTA.
    pub cta: u64,
    /// First thread concerned.
    pub thread: u32,
    /// What happened.
    pub what: String,
    /// The statement, abridged.
    pub stmt: String,
}

/// Runs a kernel; stores go to `launch.tensors`.
///
/// # Errors
/// The first fault, see the module documentation; also a missing dim, scalar or tensor.
pub fn interpret(kernel: &Kernel, launch: &mut Launch) -> Result<Counts, InterpretError> {
    let fault = |what: String| InterpretError { cta: 0, thread: 0, what, stmt: kernel.name.clone() };
    let ctas = kernel.ctas(&launch.dims).ok_or_else(|| fault("the grid cannot be computed".into()))?;
    let mut global = Vec::new();
    for param in &kernel.params {
        let missing = |name: &String| fault(format!("no value for parameter `{name}`"));
        global.push(match param {
            Param::Tensor { name, .. } => {
                Parameter::Tensor(launch.tensors.get(name).cloned().ok_or_else(|| missing(name))?)
            }
            Param::Dim(name) => {
                Parameter::Scalar(Scalar::Int(*launch.dims.get(name).ok_or_else(|| missing(name))?))
            }
            Param::Scalar { name, dtype } => {
                let x = *launch.scalars.get(name).ok_or_else(|| missing(name))?;
                Parameter::Scalar(Scalar::from_f32(x, *dtype))
            }
        });
    }
    let mut counts = Counts::default();
    for cta in 0..ctas {
        let threads = kernel.threads as usize;
        let mut run = Run {
            kernel,
            dims: &launch.dims,
            cta,
            params: &mut global,
            shared: kernel.shared.iter().map(|s| SharedMemory::new(s.elems as usize)).collect(),
            threads: vec![Thread::new(kernel); threads],
            counts: &mut counts,
            epoch: 0,
        };
        let everyone = vec![true; threads];
        run.block(&kernel.body, &everyone)?;
    }
    for (param, value) in kernel.params.iter().zip(global) {
        if let (Param::Tensor { name, .. }, Parameter::Tensor(data)) = (param, value) {
            launch.tensors.insert(name.clone(), data);
        }
    }
    Ok(counts)
}

enum Parameter {
    Tensor(Vec<f32>),
    Scalar(Scalar),
}

/// An asynchronous copy on its way: buffer, offset, elements.
type Flight = (u32, usize, Vec<f32>);

#[derive(Clone)]
struct Thread {
    vars: Vec<Option<Scalar>>,
    frags: Vec<Vec<Option<Scalar>>>,
    /// Copies since the last commit.
    open: Vec<Flight>,
    /// Committed groups, oldest first.
    groups: Vec<Vec<Flight>>,
}

impl Thread {
    fn new(kernel: &Kernel) -> Self {
        Thread {
            vars: vec![None; kernel.vars.len()],
            frags: kernel.frags.iter().map(|f| vec![None; f.slots as usize]).collect(),
            open: Vec::new(),
            groups: Vec::new(),
        }
    }
}

struct Run<'a> {
    kernel: &'a Kernel,
    dims: &'a BTreeMap<String, i64>,
    cta: u64,
    params: &'a mut Vec<Parameter>,
    shared: Vec<SharedMemory>,
    threads: Vec<Thread>,
    counts: &'a mut Counts,
    /// Barriers passed.
    epoch: u64,
}

type Step<T = ()> = Result<T, String>;

impl Run<'_> {
    fn block(&mut self, stmts: &[Stmt], mask: &[bool]) -> Result<(), InterpretError> {
        stmts.iter().try_for_each(|stmt| self.stmt(stmt, mask))
    }

    fn error(&self, thread: usize, stmt: &Stmt, what: String) -> InterpretError {
        let mut stmt = super::print::stmt(self.kernel, stmt);
        if let Some(end) = stmt.find('\n') {
            stmt.truncate(end);
        }
        InterpretError { cta: self.cta, thread: thread as u32, what, stmt }
    }

    /// Runs `f` for each active thread.
    fn each(
        &mut self,
        stmt: &Stmt,
        mask: &[bool],
        mut f: impl FnMut(&mut Self, usize) -> Step,
    ) -> Result<(), InterpretError> {
        for thread in (0..mask.len()).filter(|t| mask[*t]) {
            f(self, thread).map_err(|what| self.error(thread, stmt, what))?;
        }
        Ok(())
    }

    fn stmt(&mut self, stmt: &Stmt, mask: &[bool]) -> Result<(), InterpretError> {
        match stmt {
            Stmt::Let(var, value) => self.each(stmt, mask, |run, t| {
                let x = run.eval(t, value)?;
                run.set(t, *var, x);
                Ok(())
            }),
            Stmt::Load { dst, mem, offset, guard } => {
                self.each(stmt, mask, |run, t| run.load(t, dst, *mem, offset, guard))
            }
            Stmt::Store { mem, offset, values, guard } => {
                self.each(stmt, mask, |run, t| run.store(t, *mem, offset, values, guard))
            }
            Stmt::Set { frag, slot, value } => self.each(stmt, mask, |run, t| {
                let x = run.eval(t, value)?;
                run.counts.fma += u64::from(is_fma(value));
                run.threads[t].frags[*frag as usize][*slot as usize] = Some(x);
                Ok(())
            }),
            Stmt::For { var, start, end, step, body } => {
                self.each(stmt, mask, |run, t| {
                    let x = run.eval(t, start)?;
                    run.set(t, *var, x);
                    Ok(())
                })?;
                loop {
                    let mut active = mask.to_vec();
                    self.each(stmt, mask, |run, t| {
                        let (at, end) = (run.eval(t, &Expr::Var(*var))?.int()?, run.eval(t, end)?.int()?);
                        active[t] = at < end;
                        Ok(())
                    })?;
                    if !active.contains(&true) {
                        return Ok(());
                    }
                    self.block(body, &active)?;
                    self.each(stmt, &active, |run, t| {
                        let next = run.eval(t, &Expr::Var(*var))?.int()? + run.eval(t, step)?.int()?;
                        run.set(t, *var, Scalar::Int(next));
                        Ok(())
                    })?;
                }
            }
            Stmt::If { cond, then, otherwise } => {
                let mut yes = mask.to_vec();
                self.each(stmt, mask, |run, t| {
                    yes[t] = run.eval(t, cond)?.bool()?;
                    Ok(())
                })?;
                let no: Vec<bool> = mask.iter().zip(&yes).map(|(m, y)| *m && !y).collect();
                if yes.contains(&true) {
                    self.block(then, &yes)?;
                }
                if no.contains(&true) {
                    self.block(otherwise, &no)?;
                }
                Ok(())
            }
            Stmt::CopyAsync { shared, shared_offset, global, global_offset, elems, guard } => {
                self.each(stmt, mask, |run, t| {
                    let n = *elems as usize;
                    let to = run.eval(t, shared_offset)?.int()?;
                    let mut data = vec![0.0; n];
                    if run.guard(t, guard)? {
                        let from = run.eval(t, global_offset)?.int()?;
                        data = run.global(*global, from, n)?.to_vec();
                    }
                    let epoch = run.epoch;
                    let at = run.shared[*shared as usize].issue(to, n, t as u32, epoch)?;
                    run.threads[t].open.push((*shared, at, data));
                    run.counts.async_copies += 1;
                    Ok(())
                })
            }
            Stmt::CommitGroup => self.each(stmt, mask, |run, t| {
                let group = std::mem::take(&mut run.threads[t].open);
                run.threads[t].groups.push(group);
                Ok(())
            }),
            Stmt::WaitGroup(n) => self.each(stmt, mask, |run, t| {
                while run.threads[t].groups.len() > *n as usize {
                    for (buffer, at, data) in run.threads[t].groups.remove(0) {
                        run.shared[buffer as usize].land(at, &data, t as u32, run.epoch);
                    }
                }
                Ok(())
            }),
            Stmt::Barrier => {
                if let Some(thread) = mask.iter().position(|m| !m) {
                    return Err(self.error(
                        thread,
                        stmt,
                        "does not reach a barrier that others wait at".into(),
                    ));
                }
                self.epoch += 1;
                self.counts.barriers += 1;
                Ok(())
            }
            Stmt::Shuffle { dst, value, mask: lanes } => {
                if let Some(thread) = mask.iter().position(|m| !m) {
                    return Err(self.error(thread, stmt, "does not reach a shuffle of its warp".into()));
                }
                let mut values = Vec::new();
                self.each(stmt, mask, |run, t| {
                    values.push(run.eval(t, value)?);
                    Ok(())
                })?;
                self.each(stmt, mask, |run, t| {
                    let x =
                        *values.get(t ^ *lanes as usize).ok_or("shuffles with a lane that does not exist")?;
                    run.set(t, *dst, x);
                    Ok(())
                })
            }
        }
    }

    fn set(&mut self, thread: usize, var: Var, x: Scalar) {
        self.threads[thread].vars[var.0 as usize] = Some(x);
    }

    fn guard(&self, thread: usize, guard: &Option<Expr>) -> Step<bool> {
        guard.as_ref().map_or(Ok(true), |g| self.eval(thread, g)?.bool())
    }

    fn global(&mut self, param: u32, offset: i64, n: usize) -> Step<&mut [f32]> {
        let name = match &self.kernel.params[param as usize] {
            Param::Tensor { name, .. } => name,
            Param::Dim(name) | Param::Scalar { name, .. } => return Err(format!("`{name}` is no tensor")),
        };
        let Parameter::Tensor(data) = &mut self.params[param as usize] else {
            return Err(format!("`{name}` is no tensor"));
        };
        let len = data.len();
        if offset < 0 || offset as usize + n > len {
            return Err(format!("offset {offset} + {n} is outside `{name}` with {len} elements"));
        }
        if !(offset as usize).is_multiple_of(n) {
            return Err(format!("a vector of {n} elements of `{name}` at {offset} is not aligned"));
        }
        Ok(&mut data[offset as usize..offset as usize + n])
    }

    fn load(&mut self, t: usize, dst: &[Var], mem: Mem, offset: &Expr, guard: &Option<Expr>) -> Step {
        let dtype = self.kernel.dtype_of(mem).ok_or("no such buffer")?;
        let mut data = vec![0.0; dst.len()];
        if self.guard(t, guard)? {
            let at = self.eval(t, offset)?.int()?;
            data = match mem {
                Mem::Global(param) => {
                    self.counts.global_loads += 1;
                    self.global(param, at, dst.len())?.to_vec()
                }
                Mem::Shared(i) => {
                    self.counts.shared_loads += 1;
                    let epoch = self.epoch;
                    self.shared[i as usize].load(at, dst.len(), t as u32, epoch)?
                }
            };
        }
        for (var, x) in dst.iter().zip(data) {
            self.set(t, *var, Scalar::from_f32(x, dtype));
        }
        Ok(())
    }

    fn store(&mut self, t: usize, mem: Mem, offset: &Expr, values: &[Expr], guard: &Option<Expr>) -> Step {
        if !self.guard(t, guard)? {
            return Ok(());
        }
        let at = self.eval(t, offset)?.int()?;
        let data: Vec<f32> = values.iter().map(|v| self.eval(t, v)?.to_f32()).collect::<Step<_>>()?;
        match mem {
            Mem::Global(param) => {
                self.counts.global_stores += 1;
                self.global(param, at, data.len())?.copy_from_slice(&data);
                Ok(())
            }
            Mem::Shared(i) => {
                self.counts.shared_stores += 1;
                let epoch = self.epoch;
                self.shared[i as usize].store(at, &data, t as u32, epoch)
            }
        }
    }

    fn eval(&self, t: usize, e: &Expr) -> Step<Scalar> {
        let eval = |e: &Expr| self.eval(t, e);
        match e {
            Expr::Float(x, dtype) => Ok(Scalar::from_f32(*x as f32, *dtype)),
            Expr::Int(n, _) => Ok(Scalar::Int(*n)),
            Expr::Bool(b) => Ok(Scalar::Bool(*b)),
            Expr::Var(v) => self.threads[t].vars[v.0 as usize]
                .ok_or_else(|| format!("reads %{} before it is defined", v.0)),
            Expr::Slot { frag, slot } => {
                self.threads[t].frags[*frag as usize][*slot as usize].ok_or_else(|| {
                    format!(
                        "reads slot {slot} of `{}` before it is written",
                        self.kernel.frags[*frag as usize].name
                    )
                })
            }
            Expr::Tid => Ok(Scalar::Int(t as i64)),
            Expr::Cta => Ok(Scalar::Int(self.cta as i64)),
            Expr::Dim(extent) => match extent.eval(self.dims) {
                Some(n) if i32::try_from(n).is_ok() => Ok(Scalar::Int(n)),
                _ => Err(format!("extent {extent} is no i32")),
            },
            Expr::Scalar(i) => match &self.params[*i as usize] {
                Parameter::Scalar(x) => Ok(*x),
                Parameter::Tensor(_) => Err("a tensor where a scalar is expected".into()),
            },
            Expr::Un(op, a) => scalar::un(*op, eval(a)?),
            Expr::Bin(op, a, b) => scalar::bin(*op, eval(a)?, eval(b)?, self.wide(a)),
            Expr::Fma(a, b, c) => scalar::fma(eval(a)?, eval(b)?, eval(c)?),
            Expr::Xor(a, b) => Ok(Scalar::Int(eval(a)?.int()? ^ eval(b)?.int()?)),
            Expr::Cmp(op, a, b) => scalar::cmp(*op, eval(a)?, eval(b)?),
            Expr::Select(c, a, b) => {
                let (a, b) = (eval(a)?, eval(b)?);
                Ok(if eval(c)?.bool()? { a } else { b })
            }
            Expr::Cast(ty, a) => scalar::cast(*ty, eval(a)?),
        }
    }

    /// Whether an integer expression is `i64`.
    fn wide(&self, e: &Expr) -> bool {
        match e {
            Expr::Int(_, ty) | Expr::Cast(ty, _) => *ty == Ty::I64,
            Expr::Var(v) => self.kernel.vars[v.0 as usize] == Ty::I64,
            Expr::Un(_, a) | Expr::Bin(_, a, _) | Expr::Xor(a, _) | Expr::Select(_, a, _) => self.wide(a),
            _ => false,
        }
    }
}

/// Whether a slot accumulates by a fused multiply-add.
fn is_fma(value: &Expr) -> bool {
    match value {
        Expr::Fma(..) => true,
        Expr::Select(_, updated, _) => is_fma(updated),
        _ => false,
    }
}

/// Element type of a scalar type; `i64` has none.
fn elem(ty: Ty) -> Option<DType> {
    match ty {
        Ty::Elem(dtype) => Some(dtype),
        Ty::I64 => None,
    }
}

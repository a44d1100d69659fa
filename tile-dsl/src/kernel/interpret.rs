//! Runs a kernel on the CPU, for tests: no LLVM, no GPU.
//!
//! The threads of a CTA advance together, statement by statement, under a mask. That order would hide missing
//! barriers, so every access of shared memory is checked against those of other threads since the last
//! barrier. Also errors: reading what was never written (registers and shared memory), anything outside a
//! buffer, misaligned vectors, barriers and shuffles that some threads do not reach, and reading the
//! destination of an asynchronous copy before its group was waited for. Where buffers share bytes, what one writes is
//! lost to the others, and the start of a life leaves the bytes without a value.

mod column;
mod matrix;
mod memory;

use super::{DType, Expr, Kernel, Mem, Param, Stmt, Var};
use column::{Column, Fault};
use memory::SharedMemory;
use std::{collections::BTreeMap, rc::Rc};

/// Threads that advance together cannot wait for one another.
const ASYNCHRONOUS: &str = "asynchronous copies and MMAs run on the simulator alone";

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
    let mut params = Vec::new();
    for param in &kernel.params {
        let missing = |name: &String| fault(format!("no value for parameter `{name}`"));
        params.push(match param {
            Param::Tensor { name, .. } => launch.tensors.get(name).cloned().ok_or_else(|| missing(name))?,
            Param::Dim(name) => launch.dims.get(name).map(|_| Vec::new()).ok_or_else(|| missing(name))?,
            Param::Scalar { name, .. } => vec![*launch.scalars.get(name).ok_or_else(|| missing(name))?],
            Param::TensorMap { name, .. } => return Err(fault(format!("`{name}`: {ASYNCHRONOUS}"))),
            Param::Scratch { elems, zeroed, .. } => {
                vec![if *zeroed { 0.0 } else { f32::NAN }; ctas as usize * *elems as usize]
            }
        });
    }
    for i in &kernel.cleared {
        params[*i as usize].fill(0.0);
    }
    let mut counts = Counts::default();
    for cta in 0..ctas {
        let threads = kernel.threads as usize;
        let mut run = Run {
            kernel,
            dims: &launch.dims,
            cta,
            ctas,
            params: &mut params,
            shared: SharedMemory::new(&kernel.shared),
            vars: vec![None; kernel.vars.len()],
            frags: kernel.frags.iter().map(|f| vec![None; f.slots as usize]).collect(),
            flights: vec![Flights::default(); threads],
            counts: &mut counts,
            epoch: 0,
        };
        run.block(&kernel.body, &vec![true; threads])?;
    }
    for (param, data) in kernel.params.iter().zip(params) {
        match param {
            Param::Tensor { name, mutable: true, .. } => drop(launch.tensors.insert(name.clone(), data)),
            Param::Scratch { name, zeroed: true, .. } if data.iter().any(|x| *x != 0.0) => {
                return Err(fault(format!("`{name}` is not left at zero")));
            }
            _ => {}
        }
    }
    Ok(counts)
}

/// An asynchronous copy on its way: buffer, offset, elements.
type Flight = (u32, usize, Vec<f32>);

/// The asynchronous copies of a thread.
#[derive(Clone, Default)]
struct Flights {
    /// Since the last commit.
    open: Vec<Flight>,
    /// Committed groups, oldest first.
    groups: Vec<Vec<Flight>>,
}

/// A register slot: its values, and which threads have written it.
type Slot = Option<(Rc<Column>, Vec<bool>)>;

struct Run<'a> {
    kernel: &'a Kernel,
    dims: &'a BTreeMap<String, i64>,
    cta: u64,
    ctas: u64,
    /// Tensors and scalars by position; dims are looked up by name.
    params: &'a mut Vec<Vec<f32>>,
    shared: SharedMemory,
    vars: Vec<Option<Rc<Column>>>,
    frags: Vec<Vec<Slot>>,
    flights: Vec<Flights>,
    counts: &'a mut Counts,
    /// Barriers passed.
    epoch: u64,
}

impl Run<'_> {
    fn block(&mut self, stmts: &[Stmt], mask: &[bool]) -> Result<(), InterpretError> {
        for stmt in stmts {
            self.stmt(stmt, mask)?;
        }
        Ok(())
    }

    fn stmt(&mut self, stmt: &Stmt, mask: &[bool]) -> Result<(), InterpretError> {
        match stmt {
            Stmt::For { var, start, end, step, body } => {
                let start = self.eval(start, mask).map_err(|f| self.error(stmt, mask, f))?;
                self.define(*var, start, mask);
                loop {
                    let active = self.continues(*var, end, mask).map_err(|f| self.error(stmt, mask, f))?;
                    if !active.contains(&true) {
                        return Ok(());
                    }
                    self.block(body, &active)?;
                    let next =
                        Expr::Bin(crate::op::BinOp::Add, Box::new(Expr::Var(*var)), Box::new(step.clone()));
                    let next = self.eval(&next, &active).map_err(|f| self.error(stmt, mask, f))?;
                    self.define(*var, next, &active);
                }
            }
            Stmt::While { cond, body } => loop {
                let on = self.eval(cond, mask).and_then(|c| Ok(c.bools()?.to_vec()));
                let on = on.map_err(|f| self.error(stmt, mask, f))?;
                let active: Vec<bool> = mask.iter().zip(&on).map(|(m, on)| *m && *on).collect();
                if !active.contains(&true) {
                    return Ok(());
                }
                self.block(body, &active)?;
            },
            Stmt::If { cond, then, otherwise } => {
                let cond = self.eval(cond, mask).and_then(|c| Ok(c.bools()?.to_vec()));
                let cond = cond.map_err(|f| self.error(stmt, mask, f))?;
                for (branch, taken) in [(then, true), (otherwise, false)] {
                    let active: Vec<bool> = mask.iter().zip(&cond).map(|(m, c)| *m && *c == taken).collect();
                    if active.contains(&true) {
                        self.block(branch, &active)?;
                    }
                }
                Ok(())
            }
            simple => self.simple(simple, mask).map_err(|f| self.error(stmt, mask, f)),
        }
    }

    /// A fault of no thread in particular is that of the first active one.
    fn error(&self, stmt: &Stmt, mask: &[bool], (thread, what): Fault) -> InterpretError {
        let mut text = super::print::stmt(self.kernel, stmt);
        if let Some(end) = text.find('\n') {
            text.truncate(end);
        }
        let first = mask.iter().position(|m| *m).unwrap_or(0);
        InterpretError { cta: self.cta, thread: thread.max(first) as u32, what, stmt: text }
    }

    fn continues(&self, var: Var, end: &Expr, mask: &[bool]) -> Result<Vec<bool>, Fault> {
        let (at, end) = (self.eval(&Expr::Var(var), mask)?, self.eval(end, mask)?);
        let steps = at.ints()?.iter().zip(end.ints()?).zip(mask);
        Ok(steps.map(|((at, end), m)| *m && at < end).collect())
    }

    fn simple(&mut self, stmt: &Stmt, mask: &[bool]) -> Result<(), Fault> {
        match stmt {
            Stmt::Let(var, value) => {
                let value = self.eval(value, mask)?;
                self.define(*var, value, mask);
            }
            Stmt::Load { dst, mem, offset, guard } => self.load(dst, *mem, offset, guard, mask)?,
            Stmt::Alike { dst, shared, offset } => {
                self.load(&[*dst], Mem::Shared(*shared), offset, &None, mask)?;
            }
            Stmt::Store { mem, offset, values, guard } => self.store(*mem, offset, values, guard, mask)?,
            Stmt::Set { frag, slot, value } => {
                let new = self.eval(value, mask)?;
                if is_fma(value) {
                    self.counts.fma += mask.iter().filter(|m| **m).count() as u64;
                }
                self.set(*frag, *slot, new, mask);
            }
            Stmt::StoreMatrices { shared, offset, values, transposed } => {
                self.store_matrices((*shared, offset), values, *transposed, mask)?;
            }
            Stmt::LoadMatrices { dst, shared, offset, transposed } => {
                self.load_matrices(dst, *shared, offset, *transposed, mask)?;
            }
            Stmt::ExchangeMatrices { dst, values } => self.exchange_matrices(dst, values, mask)?,
            Stmt::JoinTwos { dst, values } => self.join_twos(dst, values, mask)?,
            Stmt::TransposeMatrix { dst, values } => self.transpose_matrix(dst, values, mask)?,
            Stmt::Mma { atom, frag, slots, a, b } => self.mma(*atom, (*frag, slots), a, b, mask)?,
            Stmt::CopyAsync { shared, shared_offset, global, global_offset, elems, guard } => {
                let (to, from) = (self.eval(shared_offset, mask)?, self.eval(global_offset, mask)?);
                let copies = self.guarded(guard, mask)?;
                let n = *elems as usize;
                for t in (0..mask.len()).filter(|t| mask[*t]) {
                    let mut data = vec![0.0; n];
                    if copies[t] {
                        data = self.global(t, *global, from.ints()?[t], n)?.to_vec();
                    }
                    let place = (*shared, to.ints()?[t]);
                    let at = self.shared.issue(place, n, t as u32, self.epoch).map_err(|what| (t, what))?;
                    self.flights[t].open.push((*shared, at, data));
                    self.counts.async_copies += 1;
                }
            }
            Stmt::CommitGroup => {
                for t in (0..mask.len()).filter(|t| mask[*t]) {
                    let group = std::mem::take(&mut self.flights[t].open);
                    self.flights[t].groups.push(group);
                }
            }
            Stmt::WaitGroup(n) => {
                for t in (0..mask.len()).filter(|t| mask[*t]) {
                    while self.flights[t].groups.len() > *n as usize {
                        for (buffer, at, data) in self.flights[t].groups.remove(0) {
                            self.shared.land((buffer, at), &data, t as u32, self.epoch);
                        }
                    }
                }
            }
            Stmt::Barrier => {
                if let Some(thread) = mask.iter().position(|m| !m) {
                    return Err((thread, "does not reach a barrier that others wait at".into()));
                }
                self.epoch += 1;
                self.counts.barriers += 1;
            }
            Stmt::Live(buffers) => {
                for buffer in buffers {
                    self.shared.begin(*buffer).map_err(|what| (0, what))?;
                }
            }
            Stmt::Shuffle { dst, value, mask: lanes } => {
                self.shuffle(*dst, value, mask, |t| t ^ *lanes as usize)?;
            }
            Stmt::ShuffleUp { dst, value, by, width } => {
                let (by, width) = (*by as usize, *width as usize);
                self.shuffle(*dst, value, mask, |t| if t % width < by { t } else { t - by })?;
            }
            Stmt::ShuffleLast { dst, value, mask: lanes } => {
                self.shuffle(*dst, value, mask, |t| t | *lanes as usize)?;
            }
            Stmt::Combine { op, mem, offset, values, guard } => {
                let adds = self.guarded(guard, mask)?;
                let dtype = self.kernel.dtype_of(*mem).unwrap_or(DType::F32);
                let offset = self.eval(offset, &adds)?;
                let columns: Vec<Vec<f32>> =
                    values.iter().map(|v| self.eval(v, &adds)?.to_f32()).collect::<Result<_, _>>()?;
                for t in (0..mask.len()).filter(|t| adds[*t]) {
                    let at = offset.ints()?[t];
                    let combine = |n: usize, x: f32| column::combined(*op, dtype, x, columns[n][t]);
                    match *mem {
                        Mem::Global(global) => {
                            self.counts.global_stores += 1;
                            let data = self.global(t, global, at, columns.len())?;
                            data.iter_mut().enumerate().for_each(|(n, x)| *x = combine(n, *x));
                        }
                        Mem::Shared(buffer) => {
                            self.counts.shared_stores += 1;
                            let combined = self.shared.combine(
                                (buffer, at),
                                columns.len(),
                                (t as u32, self.epoch),
                                combine,
                            );
                            combined.map_err(|what| (t, what))?;
                        }
                    }
                }
            }
            Stmt::Arrive { group: Some(_), .. } => {
                return Err((0, ASYNCHRONOUS.into()));
            }
            Stmt::Arrive { dst, counters, offset, parts, guard, group: None } => {
                if let Some(thread) = mask.iter().position(|m| !m) {
                    return Err((thread, "does not arrive with its CTA".into()));
                }
                self.epoch += 1;
                self.counts.barriers += 1;
                // CTAs run one after the other here, so each sees what those before it stored.
                let mut last = true;
                if self.guarded(guard, mask)?[0] {
                    let [at, parts] = [offset, parts].map(|e| Ok(self.eval(e, mask)?.ints()?[0]));
                    let (at, parts) = (at?, parts?);
                    let counter = &mut self.global(0, *counters, at, 1)?[0];
                    last = *counter as i64 + 1 == parts;
                    *counter = if last { 0.0 } else { *counter + 1.0 };
                }
                self.define(*dst, Rc::new(Column::Bool(vec![last; mask.len()])), mask);
            }
            // A launch is alone.
            Stmt::GridDependency => {}
            // And of one problem.
            Stmt::Problem { dst, tile } => {
                let tile = self.eval(tile, mask)?;
                self.define(*dst, tile, mask);
            }
            Stmt::For { .. } | Stmt::While { .. } | Stmt::If { .. } => unreachable!("`stmt` runs them"),
            other if other.is_apart() => return Err((0, ASYNCHRONOUS.into())),
            _ => return Err((0, "a statement without a meaning".into())),
        }
        Ok(())
    }

    /// Each thread gets the value of another one of its warp.
    fn shuffle(
        &mut self,
        dst: Var,
        value: &Expr,
        mask: &[bool],
        from: impl Fn(usize) -> usize,
    ) -> Result<(), Fault> {
        if let Some(thread) = mask.iter().position(|m| !m) {
            return Err((thread, "does not reach a shuffle of its warp".into()));
        }
        let last = mask.len() - 1;
        if !mask.len().is_multiple_of(32) {
            return Err((last, "shuffles in a warp that is not full".into()));
        }
        let value = self.eval(value, mask)?;
        let moved = value.permuted(from);
        self.define(dst, Rc::new(moved), mask);
        Ok(())
    }

    fn define(&mut self, var: Var, value: Rc<Column>, mask: &[bool]) {
        let slot = &mut self.vars[var.0 as usize];
        *slot = Some(match slot.take() {
            Some(old) if mask.contains(&false) => Rc::new(old.merged(&value, mask)),
            _ => value,
        });
    }

    fn set(&mut self, frag: u32, slot: u32, new: Rc<Column>, mask: &[bool]) {
        let slot = &mut self.frags[frag as usize][slot as usize];
        *slot = Some(match slot.take() {
            Some((old, mut written)) => {
                written.iter_mut().zip(mask).for_each(|(w, m)| *w |= m);
                (Rc::new(old.merged(&new, mask)), written)
            }
            None => (new, mask.to_vec()),
        });
    }

    /// Active threads whose guard is true.
    fn guarded(&self, guard: &Option<Expr>, mask: &[bool]) -> Result<Vec<bool>, Fault> {
        let Some(guard) = guard else { return Ok(mask.to_vec()) };
        let guard = self.eval(guard, mask)?;
        Ok(guard.bools()?.iter().zip(mask).map(|(g, m)| *g && *m).collect())
    }

    fn global(&mut self, thread: usize, param: u32, offset: i64, n: usize) -> Result<&mut [f32], Fault> {
        let name = self.kernel.params[param as usize].name();
        let data = &mut self.params[param as usize];
        let len = data.len();
        if offset < 0 || offset as usize + n > len {
            return Err((thread, format!("offset {offset} + {n} is outside `{name}` with {len} elements")));
        }
        if !(offset as usize).is_multiple_of(n) {
            return Err((thread, format!("a vector of {n} elements of `{name}` at {offset} is not aligned")));
        }
        Ok(&mut data[offset as usize..offset as usize + n])
    }

    fn load(
        &mut self,
        dst: &[Var],
        mem: Mem,
        offset: &Expr,
        guard: &Option<Expr>,
        mask: &[bool],
    ) -> Result<(), Fault> {
        let dtype = self.kernel.dtype_of(mem).ok_or((0, "no such buffer".to_string()))?;
        let offset = self.eval(offset, mask)?;
        let reads = self.guarded(guard, mask)?;
        let mut columns = vec![vec![0.0; mask.len()]; dst.len()];
        for t in (0..mask.len()).filter(|t| reads[*t]) {
            let at = offset.ints()?[t];
            match mem {
                Mem::Global(param) => {
                    self.counts.global_loads += 1;
                    let data = self.global(t, param, at, dst.len())?;
                    columns.iter_mut().zip(data).for_each(|(c, x)| c[t] = *x);
                }
                Mem::Shared(i) => {
                    self.counts.shared_loads += 1;
                    let found = |lane: usize, x| columns[lane][t] = x;
                    let loaded = self.shared.load((i, at), dst.len(), t as u32, self.epoch, found);
                    loaded.map_err(|what| (t, what))?;
                }
            }
        }
        for (var, column) in dst.iter().zip(columns) {
            self.define(*var, Rc::new(Column::elements(column, dtype)), mask);
        }
        Ok(())
    }

    fn store(
        &mut self,
        mem: Mem,
        offset: &Expr,
        values: &[Expr],
        guard: &Option<Expr>,
        mask: &[bool],
    ) -> Result<(), Fault> {
        let writes = self.guarded(guard, mask)?;
        let offset = self.eval(offset, &writes)?;
        let columns: Vec<Vec<f32>> =
            values.iter().map(|v| self.eval(v, &writes)?.to_f32()).collect::<Result<_, _>>()?;
        for t in (0..mask.len()).filter(|t| writes[*t]) {
            let at = offset.ints()?[t];
            let data: Vec<f32> = columns.iter().map(|c| c[t]).collect();
            match mem {
                Mem::Global(param) => {
                    self.counts.global_stores += 1;
                    self.global(t, param, at, data.len())?.copy_from_slice(&data);
                }
                Mem::Shared(i) => {
                    self.counts.shared_stores += 1;
                    let epoch = self.epoch;
                    self.shared.store((i, at), &data, t as u32, epoch).map_err(|what| (t, what))?;
                }
            }
        }
        Ok(())
    }

    fn eval(&self, e: &Expr, mask: &[bool]) -> Result<Rc<Column>, Fault> {
        let n = mask.len();
        let eval = |e: &Expr| self.eval(e, mask);
        let column = match e {
            Expr::Float(x, dtype) => Column::elements(vec![*x as f32; n], *dtype),
            Expr::Int(x, dtype) => Column::Int(vec![*x; n], *dtype),
            Expr::Bool(b) => Column::Bool(vec![*b; n]),
            Expr::Var(v) => {
                let known = self.vars[v.0 as usize].clone();
                return known.ok_or_else(|| (0, format!("reads %{} before it is defined", v.0)));
            }
            Expr::Slot { frag, slot } => {
                let name = &self.kernel.frags[*frag as usize].name;
                let unset = |t| (t, format!("reads slot {slot} of `{name}` before it is written"));
                let (values, written) =
                    self.frags[*frag as usize][*slot as usize].as_ref().ok_or_else(|| unset(0))?;
                if let Some(t) = (0..n).find(|t| mask[*t] && !written[*t]) {
                    return Err(unset(t));
                }
                return Ok(values.clone());
            }
            Expr::Tid => Column::Int((0..n as i64).collect(), DType::I32),
            Expr::Cta => Column::Int(vec![self.cta as i64; n], DType::I32),
            Expr::Ctas | Expr::Tiles => Column::Int(vec![self.ctas as i64; n], DType::I32),
            Expr::Dim(extent) => match extent.eval(self.dims) {
                Some(x) if i32::try_from(x).is_ok() => Column::Int(vec![x; n], DType::I32),
                _ => return Err((0, format!("extent {extent} is no i32"))),
            },
            Expr::Scalar(i) => {
                let dtype = match self.kernel.params[*i as usize] {
                    Param::Scalar { dtype, .. } => dtype,
                    _ => return Err((0, format!("parameter {i} is no scalar"))),
                };
                Column::elements(vec![self.params[*i as usize][0]; n], dtype)
            }
            Expr::Un(op, a) => column::un(*op, &*eval(a)?)?,
            Expr::Bin(op, a, b) => column::bin(*op, &*eval(a)?, &*eval(b)?, mask)?,
            Expr::Fma(a, b, c) => column::fma(&*eval(a)?, &*eval(b)?, &*eval(c)?)?,
            Expr::Wrapping(op, a, b) => column::wrapping(*op, &*eval(a)?, &*eval(b)?)?,
            Expr::Cmp(op, a, b) => column::cmp(*op, &*eval(a)?, &*eval(b)?)?,
            Expr::Select(c, a, b) => {
                let (c, a, b) = (eval(c)?, eval(a)?, eval(b)?);
                b.merged(&a, c.bools()?)
            }
            Expr::Cast(dtype, a) => column::cast(*dtype, &*eval(a)?)?,
        };
        Ok(Rc::new(column))
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

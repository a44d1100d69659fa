//! What a kernel asks of memory, without running it: requests of warps, sectors and wavefronts.
//!
//! Addresses follow from threads, loops and extents alone: no kernel gathers. So a walk over the statements with the indices
//! of 32 lanes at a time meets every request that a launch makes, and nothing that tensors hold is needed for it. What an
//! element is, is left out; what waits, does not: no request depends on the order of warps.
//!
//! The same count by the same rules as the simulator's of the PTX (`tests/every/lints.rs` compares them), but for what LLVM changes on the way:
//! it may drop a load whose value it has, or join neighbours to a vector.
//!
//! Boxes of tensor maps and operands of asynchronous MMA are no requests of lanes: [`LeftOut`] has them, with the reason.

mod again;
mod cost;
mod joined;
mod statements;
mod value;

use again::Again;
use cost::{Request, WARP};
use joined::{Together, computes};
use statements::{first_line, is_index, is_request};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};
use tile_dsl::{
    dtype::DType,
    kernel::{Async, Expr, Kernel, Mem, Param, Rows, Stmt, Var, print},
    op::{BinOp, CmpOp},
};
use value::{Lanes, Value};

/// The launch whose requests are counted.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// Named dims.
    pub dims: &'a BTreeMap<String, i64>,
    /// CTAs of the grid: of persistent ones fewer than tiles.
    pub ctas: u64,
    /// Those that are looked at. Where they are not all, each takes itself for the last of those that share a sum.
    pub looked_at: Range<u64>,
}

/// What a kernel asks of memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Accesses, in the order of the kernel's statements.
    pub accesses: Vec<Access>,
    /// Accesses that are no requests of lanes.
    pub left_out: Vec<LeftOut>,
    /// CTAs that were looked at.
    pub ctas: u64,
}

/// Who moves what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// Loads of lanes.
    Load,
    /// Stores of lanes, to another CTA of the cluster too.
    Store,
    /// Atomics.
    Atomic,
    /// One side of `cp.async`: a load from global memory, or the store to shared memory.
    Copy,
    /// `ldmatrix`.
    LoadMatrices,
    /// `stmatrix`.
    StoreMatrices,
}

/// A statement that accesses a buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// Name of the tensor, or of the shared buffer.
    pub buffer: String,
    /// Whether it lies in shared memory.
    pub shared: bool,
    /// Who moves what.
    pub form: Form,
    /// Bytes of a lane.
    pub bytes: u32,
    /// The statement, as `--emit kernel` prints it.
    pub text: String,
    /// Its requests.
    pub count: Count,
}

/// Requests of an access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Warps that ask, once each time that a lane of theirs does.
    pub requests: u64,
    /// Sectors of global memory, or wavefronts of shared memory.
    pub units: u64,
    /// Those that as many distinct bytes, or as many phases, need at least.
    pub least: u64,
    /// Bytes of all lanes that ask.
    pub bytes: u64,
}

impl Count {
    /// Adds another count.
    pub fn add(&mut self, other: Count) {
        self.requests += other.requests;
        self.units += other.units;
        self.least += other.least;
        self.bytes += other.bytes;
    }
}

/// An access that is not counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeftOut {
    /// Tensor, or shared buffers.
    pub buffer: String,
    /// Why.
    pub reason: &'static str,
}

/// Boxes of tensor maps.
const BOXES: &str = "a tensor map moves whole boxes: no lanes ask for addresses of their own";
/// Words of steps that CTAs look back at.
const LOOKS: &str = "how far a CTA looks back, and how often, depends on which steps are known";
/// Operands of asynchronous MMA.
const OPERANDS: &str =
    "asynchronous MMA reads its operands by descriptors: no wavefronts of lanes are counted";

/// Why requests cannot be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrafficError {
    /// A named dim is missing, or an extent overflows.
    ///
    /// What to do: pass a size for each dim, within 32 bits.
    #[error("the extent {0} has no value")]
    Extent(String),
    /// An address, a guard or a bound follows from what tensors hold.
    ///
    /// What to do: report it: no kernel's text leads to that.
    #[error("`{0}` depends on the elements of tensors")]
    Elements(String),
    /// The parameters of a grouped kernel are those of its problems.
    ///
    /// What to do: check the launch of one of the problems.
    #[error("a launch of several problems has the extents of each")]
    Grouped,
}

/// Counts the requests of a launch.
///
/// # Errors
/// [`TrafficError`].
pub fn traffic(kernel: &Kernel, launch: &Launch<'_>) -> Result<Traffic, TrafficError> {
    if kernel.grouped {
        return Err(TrafficError::Grouped);
    }
    let missing = || TrafficError::Extent(kernel.name.clone());
    let tiles = kernel.ctas(launch.dims).ok_or_else(missing)?;
    let whole = launch.looked_at == (0..launch.ctas);
    let mut found = Found::default();
    let mut counters = BTreeMap::new();
    for cta in launch.looked_at.clone() {
        let mut arrivals = Vec::new();
        let mut again = Again::of(kernel);
        for warp in 0..kernel.threads.div_ceil(WARP as u32) {
            let left = kernel.threads - warp * WARP as u32;
            let live = if left >= WARP as u32 { u32::MAX } else { (1 << left) - 1 };
            let mut walk = Walk {
                kernel,
                launch,
                tiles,
                whole,
                cta,
                first: warp * WARP as u32,
                vars: vec![Value::Unknown; kernel.vars.len()],
                frags: vec![BTreeMap::new(); kernel.frags.len()],
                found: &mut found,
                counters: &mut counters,
                arrivals: &mut arrivals,
                arrived: 0,
                again: &mut again,
                taken: 0,
                together: Vec::new(),
            };
            walk.block(&kernel.body, live)?;
        }
    }
    let mut accesses: Vec<(usize, Access)> = found.accesses.into_values().collect();
    accesses.sort_by_key(|(order, _)| *order);
    Ok(Traffic {
        accesses: accesses.into_iter().map(|(_, access)| access).collect(),
        left_out: found.left_out.into_iter().collect(),
        ctas: launch.looked_at.end - launch.looked_at.start,
    })
}

/// Accesses by the statement (its place in memory stands for it while the kernel is borrowed) and the side of a copy.
#[derive(Default)]
struct Found {
    accesses: BTreeMap<(*const Stmt, bool), (usize, Access)>,
    left_out: BTreeSet<LeftOut>,
}

/// One warp of one CTA on its way through the kernel.
struct Walk<'a, 'f> {
    kernel: &'a Kernel,
    launch: &'a Launch<'a>,
    tiles: u64,
    whole: bool,
    cta: u64,
    /// First thread.
    first: u32,
    vars: Vec<Value>,
    frags: Vec<BTreeMap<u32, Value>>,
    found: &'f mut Found,
    /// How many CTAs have arrived at a counter: parameter and place.
    counters: &'f mut BTreeMap<(u32, i64), u32>,
    /// What the warps of this CTA before this one saw each time that they arrived.
    arrivals: &'f mut Vec<bool>,
    /// How often this warp has arrived.
    arrived: usize,
    /// Which tiles this CTA computes again.
    again: &'f mut Again,
    /// Tiles that this warp has taken, or heard of.
    taken: i64,
    /// Loads of shared memory since the last statement that is no plain computation.
    together: Vec<Together<'a>>,
}

type Told<T> = Result<T, TrafficError>;

impl<'a> Walk<'a, '_> {
    fn block(&mut self, stmts: &'a [Stmt], lanes: u32) -> Told<()> {
        for stmt in stmts {
            if !computes(stmt) {
                self.join();
            }
            self.stmt(stmt, lanes)?;
        }
        self.join();
        Ok(())
    }

    fn stmt(&mut self, stmt: &'a Stmt, lanes: u32) -> Told<()> {
        match stmt {
            Stmt::Let(var, value) => {
                if is_index(self.kernel.vars[var.0 as usize]) {
                    let value = self.eval(value)?;
                    self.define(*var, value);
                }
            }
            Stmt::Set { frag, slot, value } => {
                if is_index(self.kernel.frags[*frag as usize].dtype) {
                    let new = self.eval(value)?;
                    let old = self.frags[*frag as usize].get(slot).cloned().unwrap_or(Value::Unknown);
                    self.frags[*frag as usize].insert(*slot, old.merged(new, lanes));
                }
            }
            Stmt::For { var, start, end, step, body } => {
                let (mut at, step) = (self.eval(start)?, self.eval(step)?);
                let mut lanes = lanes;
                loop {
                    self.define(*var, at.clone());
                    let going = value::cmp(CmpOp::Lt, &at, &self.eval(end)?);
                    lanes &= self.truth(going, stmt)?;
                    if lanes == 0 {
                        return Ok(());
                    }
                    self.block(body, lanes)?;
                    at = value::bin(BinOp::Add, &at, &step);
                }
            }
            Stmt::While { cond, body } => {
                let mut lanes = lanes;
                loop {
                    lanes &= self.truth(self.eval(cond)?, stmt)?;
                    if lanes == 0 {
                        return Ok(());
                    }
                    self.block(body, lanes)?;
                }
            }
            Stmt::If { cond, then, otherwise } => {
                let touches = || {
                    then.iter().chain(otherwise).any(|s| s.any(&|s| is_request(s) && !self.again.is_mark(s)))
                };
                let cond = match self.eval(cond)? {
                    // Elements decide what is computed in there, and no more; sums are taken to be as they should.
                    Value::Unknown if !touches() => return Ok(()),
                    cond => self.truth(cond, stmt)?,
                };
                for (branch, taken) in [(then, lanes & cond), (otherwise, lanes & !cond)] {
                    if taken != 0 {
                        self.block(branch, taken)?;
                    }
                }
            }
            Stmt::One { thread, body } => {
                if *thread == self.first && lanes != 0 {
                    self.block(body, 1 << lanes.trailing_zeros())?;
                }
            }
            Stmt::Roles(roles) => {
                let own = roles.iter().find(|r| (r.first..r.first + r.threads).contains(&self.first));
                if let Some(role) = own {
                    self.block(&role.body, lanes)?;
                }
            }
            Stmt::Problem { dst, tile } => {
                let tile = self.eval(tile)?;
                self.define(*dst, tile);
            }
            Stmt::Load { dst, mem, offset, guard } => {
                if let (Mem::Shared(buffer), [told]) = (mem, &dst[..])
                    && self.again.has(*buffer)
                {
                    let marks = self.again.marks(*buffer, &self.eval(offset)?);
                    self.define(*told, marks);
                }
                self.access(stmt, (*mem, Form::Load), offset, dst.len(), guard.as_ref(), lanes)?;
            }
            Stmt::Store { mem, offset, values, guard } => {
                self.access(stmt, (*mem, Form::Store), offset, values.len(), guard.as_ref(), lanes)?;
            }
            Stmt::Alike { dst, shared, offset } => {
                let value = match self.again.has(*shared) {
                    true => self.again.marks(*shared, &self.eval(offset)?),
                    false => self.next_tile(),
                };
                self.define(*dst, value);
                self.access(stmt, (Mem::Shared(*shared), Form::Load), offset, 1, None, lanes)?;
            }
            Stmt::Take { dst, .. } => {
                let tile = self.next_tile();
                self.define(*dst, tile);
            }
            Stmt::Combine { mem, offset, values, guard, .. } => {
                if let Mem::Shared(buffer) = mem {
                    self.again.mark(*buffer, &self.eval(offset)?);
                }
                self.access(stmt, (*mem, Form::Atomic), offset, values.len(), guard.as_ref(), lanes)?;
            }
            Stmt::StorePeer { shared, offset, values, .. } => {
                self.access(stmt, (Mem::Shared(*shared), Form::Store), offset, values.len(), None, lanes)?;
            }
            Stmt::CopyAsync { shared, shared_offset, global, global_offset, elems, guard } => {
                let elems = *elems as usize;
                let from = (Mem::Global(*global), Form::Copy);
                self.access(stmt, from, global_offset, elems, guard.as_ref(), lanes)?;
                // Zeros are written where nothing is read.
                self.access(stmt, (Mem::Shared(*shared), Form::Copy), shared_offset, elems, None, lanes)?;
            }
            Stmt::LoadMatrices { dst, shared, offset, .. } => {
                let each = 4 / self.bytes_of(Mem::Shared(*shared)).max(1);
                self.matrices(stmt, (*shared, Form::LoadMatrices), offset, dst.len() as u32 / each, lanes)?;
            }
            Stmt::StoreMatrices { shared, offset, values, .. } => {
                let matrices = values.len() as u32 / 2;
                self.matrices(stmt, (*shared, Form::StoreMatrices), offset, matrices, lanes)?;
            }
            Stmt::LookBack { dst, words, .. } => {
                self.leave_out(self.kernel.params[*words as usize].name(), LOOKS);
                self.define(*dst, Value::Unknown);
            }
            Stmt::Arrive { dst, counters, offset, parts, guard, .. } => {
                self.arrive(stmt, *dst, (*counters, offset, parts), guard.as_ref(), lanes)?;
            }
            Stmt::Async(Async::Copy { map, .. } | Async::Store { map, .. }) => {
                let tensor = match &self.kernel.params[*map as usize] {
                    Param::TensorMap { tensor, .. } => self.kernel.params[*tensor as usize].name(),
                    other => other.name(),
                };
                self.leave_out(tensor, BOXES);
            }
            Stmt::Async(Async::Multiply { a, b, .. }) => {
                let first = if let Rows::Shared(tile) = a { Some(tile) } else { None };
                for tile in first.into_iter().chain([b]) {
                    let name = &self.kernel.shared[tile.shared as usize].name;
                    self.leave_out(name, OPERANDS);
                }
            }
            // They move values between registers, order others, or touch mbarriers alone.
            Stmt::CommitGroup
            | Stmt::WaitGroup(_)
            | Stmt::Barrier
            | Stmt::GroupBarrier(_)
            | Stmt::ClusterBarrier
            | Stmt::ClusterArrive
            | Stmt::ClusterWait
            | Stmt::WarpBarrier
            | Stmt::GridDependency
            | Stmt::Live(_)
            | Stmt::Shuffle { .. }
            | Stmt::ShuffleUp { .. }
            | Stmt::ShuffleLast { .. }
            | Stmt::ExchangeMatrices { .. }
            | Stmt::JoinTwos { .. }
            | Stmt::TransposeMatrix { .. }
            | Stmt::Mma { .. }
            | Stmt::Async(_) => {}
        }
        Ok(())
    }

    fn define(&mut self, var: Var, value: Value) {
        self.vars[var.0 as usize] = value;
    }

    /// The next tile of a counter, as if all took the same time.
    fn next_tile(&mut self) -> Value {
        let tile = self.cta as i64 + self.taken * self.launch.ctas as i64;
        self.taken += 1;
        Value::same(tile)
    }

    fn leave_out(&mut self, buffer: &str, reason: &'static str) {
        if !self.found.left_out.iter().any(|l| l.buffer == buffer && l.reason == reason) {
            self.found.left_out.insert(LeftOut { buffer: buffer.into(), reason });
        }
    }

    fn bytes_of(&self, mem: Mem) -> u32 {
        self.kernel.dtype_of(mem).map_or(1, DType::bytes)
    }

    /// Lanes for which a condition holds.
    fn truth(&self, value: Value, stmt: &Stmt) -> Told<u32> {
        match value {
            Value::Bool(lanes) => Ok(lanes),
            _ => Err(TrafficError::Elements(first_line(&print::stmt(self.kernel, stmt)))),
        }
    }

    fn access(
        &mut self,
        stmt: &'a Stmt,
        (mem, form): (Mem, Form),
        offset: &Expr,
        elems: usize,
        guard: Option<&Expr>,
        lanes: u32,
    ) -> Told<()> {
        let lanes = match guard {
            Some(guard) => lanes & self.eval(guard).and_then(|guard| self.truth(guard, stmt))?,
            None => lanes,
        };
        if lanes == 0 {
            return Ok(());
        }
        let at = self.place(stmt, mem, offset)?;
        let bytes = elems as u32 * self.bytes_of(mem);
        if form == Form::Load && matches!(mem, Mem::Shared(_)) && guard.is_none() {
            self.together.push(Together { stmt, mem, at, lanes, bytes });
            return Ok(());
        }
        let request = Request { at: &at, lanes, bytes };
        let (units, least) = match mem {
            Mem::Global(_) => request.sectors(),
            Mem::Shared(_) => request.wavefronts(form == Form::Load),
        };
        self.count(stmt, (mem, form), bytes, Count { requests: 1, units, least, bytes: request.asked() });
        Ok(())
    }

    fn matrices(
        &mut self,
        stmt: &Stmt,
        (shared, form): (u32, Form),
        offset: &Expr,
        matrices: u32,
        lanes: u32,
    ) -> Told<()> {
        let rows = matrices * cost::MATRIX.0;
        let lanes = if rows < WARP as u32 { lanes & ((1 << rows) - 1) } else { lanes };
        let at = self.place(stmt, Mem::Shared(shared), offset)?;
        let request = Request { at: &at, lanes, bytes: cost::MATRIX.1 };
        let (units, least) = request.matrices();
        let count = Count { requests: 1, units, least, bytes: request.asked() };
        self.count(stmt, (Mem::Shared(shared), form), cost::MATRIX.1, count);
        Ok(())
    }

    /// The byte that each lane begins at.
    fn place(&self, stmt: &Stmt, mem: Mem, offset: &Expr) -> Told<Lanes> {
        let (size, start) = (i64::from(self.bytes_of(mem)), self.start(mem));
        match self.eval(offset)? {
            Value::Int(at) => Ok(at.map(|n| start + n * size)),
            _ => Err(TrafficError::Elements(first_line(&print::stmt(self.kernel, stmt)))),
        }
    }

    fn start(&self, mem: Mem) -> i64 {
        match mem {
            Mem::Shared(n) => self.kernel.shared[n as usize].start as i64,
            Mem::Global(_) => 0,
        }
    }

    fn count(&mut self, stmt: &Stmt, (mem, form): (Mem, Form), bytes: u32, count: Count) {
        let shared = matches!(mem, Mem::Shared(_));
        let order = self.found.accesses.len();
        let (_, access) =
            self.found.accesses.entry((std::ptr::from_ref(stmt), shared)).or_insert_with(|| {
                let buffer = match mem {
                    Mem::Global(n) => self.kernel.params[n as usize].name(),
                    Mem::Shared(n) => &self.kernel.shared[n as usize].name,
                };
                let text = first_line(&print::stmt(self.kernel, stmt));
                (order, Access { buffer: buffer.into(), shared, form, bytes, text, count: Count::default() })
            });
        access.count.add(count);
    }

    /// The CTA arrives at a counter: by its first thread, and all its warps learn whether it is the last.
    fn arrive(
        &mut self,
        stmt: &Stmt,
        dst: Var,
        (counters, offset, parts): (u32, &Expr, &Expr),
        guard: Option<&Expr>,
        lanes: u32,
    ) -> Told<()> {
        let counted = match guard {
            Some(guard) => lanes & self.eval(guard).and_then(|guard| self.truth(guard, stmt))?,
            None => lanes,
        };
        if counted != 0 && self.first == 0 {
            let at = self.place(stmt, Mem::Global(counters), offset)?;
            let request =
                Request { at: &at, lanes: counted & 1, bytes: self.bytes_of(Mem::Global(counters)) };
            let ((units, least), bytes) = (request.sectors(), request.asked());
            let count = Count { requests: 1, units, least, bytes };
            self.count(stmt, (Mem::Global(counters), Form::Atomic), request.bytes, count);
        }
        if self.arrived == self.arrivals.len() {
            let mut last = true;
            if counted != 0 && self.whole {
                let at = self.place(stmt, Mem::Global(counters), offset)?.get(0);
                let Value::Int(parts) = self.eval(parts)? else {
                    return Err(TrafficError::Elements(first_line(&print::stmt(self.kernel, stmt))));
                };
                let before = self.counters.entry((counters, at)).or_insert(0);
                *before += 1;
                last = i64::from(*before) == parts.get(0);
                if last {
                    *before = 0;
                }
            }
            self.arrivals.push(last);
        }
        let last = self.arrivals[self.arrived];
        self.arrived += 1;
        self.define(dst, Value::Bool(if last { u32::MAX } else { 0 }));
        Ok(())
    }

    fn eval(&self, e: &Expr) -> Told<Value> {
        Ok(match e {
            Expr::Int(n, _) => Value::same(*n),
            Expr::Bool(b) => Value::Bool(if *b { u32::MAX } else { 0 }),
            Expr::Var(var) => self.vars[var.0 as usize].clone(),
            Expr::Slot { frag, slot } => {
                self.frags[*frag as usize].get(slot).cloned().unwrap_or(Value::Unknown)
            }
            Expr::Tid => Value::Int(Lanes::each(|i| i64::from(self.first) + i as i64)),
            Expr::Cta => Value::same(self.cta as i64),
            Expr::Ctas => Value::same(self.launch.ctas as i64),
            Expr::Tiles => Value::same(self.tiles as i64),
            Expr::Dim(extent) => {
                let n = extent.eval(self.launch.dims);
                Value::same(n.ok_or_else(|| TrafficError::Extent(extent.to_string()))?)
            }
            Expr::Float(..) | Expr::Scalar(_) | Expr::Fma(..) => Value::Unknown,
            Expr::Un(op, a) => value::un(*op, &self.eval(a)?),
            Expr::Bin(BinOp::And, a, b) => match (self.eval(a)?, self.eval(b)?) {
                (Value::Bool(0), _) | (_, Value::Bool(0)) => Value::Bool(0),
                (a, b) => value::bin(BinOp::And, &a, &b),
            },
            Expr::Bin(op, a, b) => value::bin(*op, &self.eval(a)?, &self.eval(b)?),
            Expr::Wrapping(op, a, b) => value::wrapping(*op, &self.eval(a)?, &self.eval(b)?),
            Expr::Cmp(op, a, b) => value::cmp(*op, &self.eval(a)?, &self.eval(b)?),
            Expr::Select(c, a, b) => value::select(&self.eval(c)?, self.eval(a)?, self.eval(b)?),
            Expr::Cast(ty, a) if is_index(*ty) => value::cast(*ty, self.eval(a)?),
            Expr::Cast(..) => Value::Unknown,
        })
    }
}

//! Lowering: nest IR → kernel IR. Deterministic; it re-decides nothing that a directive decided.
//!
//! `PASSES` has the order. The largest of them is one walk over the term: units (launch shape) and grid (coordinates of
//! the CTA) first, then the statements, in an environment of bound digits. The walk gives each value its place (registers or shared memory), expands
//! `#unroll` and `#vec`, copies stages, inserts barriers, combines reductions across threads, and guards
//! what may lie outside the extents. What a nest could lack for it the engine's checks have refused: a [`LowerError`] is a mistake
//! of the compiler.
//!
//! Three [`Variant`]s of one program differ in guards, vectors and offset width; [`assumptions`] lists what a
//! launch must satisfy for each.

mod across;
mod cluster;
mod combine;
mod copy;
mod digits;
mod emit;
mod error;
mod exchange;
mod expr;
mod fill;
mod fragment;
mod grid;
mod guard;
mod interleave;
mod linear;
mod maps;
mod matrix;
mod mbarriers;
mod output;
mod passes;
mod pipeline;
mod products;
mod put;
mod registers;
mod roles;
mod slots;
mod stage;
mod storage;
mod sync;
mod tensor_map;
mod turns;
mod units;
mod walk;
mod words;

pub use crate::assume::{
    Assumption, Condition, Form, Promise, Strided, admit, assumptions, assumptions_strided, chosen, promises,
    stride,
};
pub use error::LowerError;

use crate::{
    dtype::DType,
    index::Extent,
    kernel::{self, Frag, Kernel, Mem, Param, Ty},
    nest::{AccessId, CopyId, Digit, LoopKind, Nest, Segment, Steps, Target, Units, ValueId, leaves},
    plan::Plan,
    program::{Program, Variant},
    schedule::Unit,
    shared::{Allocation, Content},
    tile::{self, ElemType, TensorId},
};
use digits::Bound;
use emit::{Atom, Emit};
use grid::Grid;
use linear::Pitch;
use passes::{Lowering, Pass};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use storage::Held;
use sync::{Owners, Sync, Touch};

/// Statements beyond which expansion is a mistake: the engine admits 2¹⁵ operations of straight-line code, and the guards and
/// the address of none take 64 statements.
const MAX_STATEMENTS: usize = 1 << 21;

/// What of a launch a kernel is made for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// Tensors that have strides of their own, in some problem at least.
    pub strided: Strided,
    /// Several problems in one launch: the parameters of each are a row of a table in global memory ([`kernel::Table`]).
    pub grouped: bool,
}

/// Lowers one variant of a program.
///
/// # Errors
/// Mistakes of the compiler, see [`LowerError`].
pub fn lower(program: &Program, variant: Variant) -> Result<Kernel, LowerError> {
    lower_given(program, variant, &Given::default())
}

/// [`lower`] for launches of another kind.
///
/// # Errors
/// As [`lower`].
pub fn lower_given(program: &Program, variant: Variant, given: &Given) -> Result<Kernel, LowerError> {
    lower_observed(program, variant, given, &mut |_, _| {})
}

/// The passes, in the order in which they run.
const PASSES: [Pass; 10] = [
    Pass {
        name: "plan",
        what: "what follows from the nest before any statement: tiles, roles, boxes, channels, places, sums, stores",
        run: passes::plan,
        text: passes::planned,
    },
    Pass {
        name: "allocate",
        what: "buffers in shared memory, when each lives, where it lies",
        run: passes::allocate,
        text: passes::allocated,
    },
    Pass {
        name: "walk",
        what: "threads, registers, copies, barriers, guards",
        run: passes::walk,
        text: passes::made,
    },
    Pass {
        name: "products",
        what: "fences and waits around products that complete on their own",
        run: products::group,
        text: passes::made,
    },
    Pass { name: "mbarriers", what: "their initial state", run: mbarriers::initialise, text: passes::made },
    Pass {
        name: "reuse",
        what: "a barrier where one buffer takes the bytes of another",
        run: passes::separate_reuse,
        text: passes::made,
    },
    Pass {
        name: "halves",
        what: "zeros where a part of a word may never be written",
        run: passes::clear_halves,
        text: passes::made,
    },
    Pass {
        name: "depend",
        what: "where a dependent launch waits for the grids before it",
        run: passes::depend,
        text: passes::made,
    },
    Pass {
        name: "maps",
        what: "before tensor maps are used: fences where they are in global memory, else a prefetch",
        run: maps::announce,
        text: passes::made,
    },
    Pass {
        name: "verify",
        what: "what code generation takes for granted",
        run: passes::check,
        text: passes::made,
    },
];

/// [`lower_given`], `observe` sees what each pass leaves.
///
/// # Errors
/// As [`lower`].
pub(crate) fn lower_observed(
    program: &Program,
    variant: Variant,
    given: &Given,
    observe: &mut dyn FnMut(&Pass, &Lowering<'_>),
) -> Result<Kernel, LowerError> {
    let mut lowering = Lowering::new(program, variant, given);
    for pass in &PASSES {
        (pass.run)(&mut lowering)?;
        observe(pass, &lowering);
    }
    Ok(lowering.kernel)
}

/// What a register fragment holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Holds {
    /// The elements of a value.
    Value(ValueId),
    /// What a stage copied.
    Copy(CopyId),
    /// What a plain copy of a ring has loaded, not stored yet.
    Next(CopyId),
    /// The slot of a ring that the loop over a digit reads.
    Slot(Digit),
    /// Slot and parity of the channel whose first copy it is.
    Cursor(CopyId),
    /// Parity of the next turn.
    Turn,
}

impl Holds {
    /// What it is called in the kernel IR.
    fn name(self, nest: &Nest) -> String {
        let copied = |copy: CopyId| nest.copy_word(copy);
        match self {
            Holds::Value(v) => nest.value(v).name.clone(),
            Holds::Copy(c) => format!("{}.frag", copied(c)),
            Holds::Next(c) => format!("{}.next", copied(c)),
            Holds::Cursor(c) => format!("{}.cursor", copied(c)),
            Holds::Turn => "turn.parity".into(),
            Holds::Slot(d) => format!("{}.slot", nest.axis(d.axis)),
        }
    }
}

/// State of the walk.
struct Lowerer<'a> {
    nest: &'a Nest,
    plan: &'a Plan,
    kernel: &'a tile::Kernel,
    variant: Variant,
    strided: &'a Strided,
    /// Of several problems in one launch.
    grouped: bool,
    emit: Emit,
    units: Units,
    /// Enclosing loops that run backwards for some tiles.
    passing: Vec<digits::Passing>,
    /// Of a persistent CTA, whether the current tile is every second one.
    odd: Option<Atom>,
    /// Of a persistent CTA of several problems, the number of the current tile among those of all.
    number: Option<Atom>,
    /// Of a CTA with one tile of several problems, its number among those of its problem.
    in_problem: Option<Atom>,
    /// The segment whose last tile is the one at hand.
    last: Option<Segment>,
    /// Which of the groups that take tiles in turn.
    group: u32,
    grid: Grid,
    params: Vec<Param>,
    /// Position of the first scalar among the parameters.
    first_scalar: u32,
    shared: &'a Allocation,
    frags: Vec<Frag>,
    /// Digits bound by the enclosing loops, outermost first.
    stack: Vec<Bound>,
    /// Enclosing stages, outermost first.
    stages: Vec<stage::Active<'a>>,
    /// Enclosing copies in registers, outermost first.
    fragments: Vec<fragment::Active>,
    /// Values in scope.
    held: BTreeMap<ValueId, Held<'a>>,
    /// Registers by what they hold: expanded copies of a statement share them.
    frag_ids: HashMap<(Holds, DType, u32), u32>,
    sync: Sync,
    /// Tensors that are read and stored.
    in_place: BTreeSet<TensorId>,
    /// While the operands of a store are loaded: the condition that this thread is the one that stores.
    owner: Option<Atom>,
    /// Each CTA holds a part of what is stored: stores add.
    adding: bool,
    /// What this CTA of a cluster has of a reduction that it shares.
    share: Option<cluster::Share>,
    /// It has said that it runs, and not waited for the others yet.
    announced: bool,
    /// The cluster's barriers so far, for threads of other roles.
    meetings: Vec<kernel::Stmt>,
    /// Tensors that are added to.
    cleared: BTreeSet<u32>,
    /// Tensors whose tile is being collected, by which store, and whether any is sent off.
    collected: BTreeMap<TensorId, AccessId>,
    /// What lanes exchange of others, until it is complete.
    fours: BTreeMap<TensorId, Vec<exchange::Four>>,
    /// What lanes hold of them, until it is stored by matrices.
    matrices_held: BTreeMap<TensorId, Vec<output::HeldMatrix>>,
    sends: bool,
    /// Rings of mbarriers, and the registers that count their slots.
    barriers: Vec<mbarriers::Barriers>,
    cursors: Vec<u32>,
    /// Stores of an enclosing `#vec` loop, not complete yet.
    pending: Vec<put::Pending>,
    /// Weight of each dimension, by tensor; filled on first use.
    pitches: BTreeMap<TensorId, Vec<Pitch>>,
}

impl<'a> Lowerer<'a> {
    fn new(
        program: &'a Program,
        variant: Variant,
        Given { strided, grouped }: &'a Given,
        plan: &'a Plan,
        shared: &'a Allocation,
    ) -> Self {
        let (nest, grouped) = (&program.nest, *grouped);
        let mut emit = Emit::new();
        let mut in_problem = None;
        let grid = match plan.tiles.persistent {
            Some(_) => Grid::none(),
            None => {
                if grouped {
                    let cta = emit.op(emit::Op::Cta, &[]);
                    in_problem = Some(emit.problem(cta));
                }
                match plan.tiles.segment {
                    Some(_) => Grid::none(),
                    None => Grid::of(&plan.tiles, &mut emit, in_problem),
                }
            }
        };
        let params = params(nest, variant, strided);
        Lowerer {
            nest,
            plan,
            kernel: &nest.kernel,
            variant,
            strided,
            grouped,
            emit,
            units: plan.units.clone(),
            passing: Vec::new(),
            odd: None,
            number: None,
            in_problem,
            last: None,
            group: 0,
            grid,
            first_scalar: (params.len() - nest.kernel.scalars.len()) as u32,
            params,
            shared,
            frags: Vec::new(),
            stack: Vec::new(),
            stages: Vec::new(),
            fragments: Vec::new(),
            held: BTreeMap::new(),
            frag_ids: HashMap::new(),
            sync: Sync::default(),
            in_place: in_place(nest),
            owner: None,
            adding: false,
            share: None,
            announced: false,
            meetings: Vec::new(),
            cleared: BTreeSet::new(),
            collected: BTreeMap::new(),
            fours: BTreeMap::new(),
            matrices_held: BTreeMap::new(),
            sends: false,
            barriers: Vec::new(),
            cursors: Vec::new(),
            pending: Vec::new(),
            pitches: BTreeMap::new(),
        }
    }

    /// Type of global offsets.
    fn offset_ty(&self) -> Ty {
        match self.variant {
            Variant::Exact | Variant::Aligned => Ty::I32,
            Variant::General => Ty::I64,
        }
    }

    fn tensor(&self, id: TensorId) -> &'a tile::Tensor {
        &self.kernel.tensors[id.0 as usize]
    }

    fn axis_name(&self, axis: crate::index::AxisId) -> String {
        self.kernel.axes[axis.0 as usize].name.clone()
    }

    /// Tensors are the first parameters.
    fn global(&self, id: TensorId) -> Mem {
        Mem::Global(id.0.into())
    }

    /// Weight of each dimension of a tensor.
    fn pitches(&mut self, id: TensorId) -> Vec<Pitch> {
        if let Some(known) = self.pitches.get(&id) {
            return known.clone();
        }
        let tensor = self.tensor(id);
        let ty = self.offset_ty();
        let wide = ty == Ty::I64 && !is_small(tensor);
        let fastest_first = self.nest.fastest_first(id);
        let mut pitches = vec![Pitch::Fixed(1); tensor.dims.len()];
        let mut pitch = Atom::Int(1, ty);
        for (n, d) in fastest_first.iter().copied().enumerate() {
            pitches[d] = match pitch {
                Atom::Var(var) => Pitch::Var(var),
                Atom::Int(n, _) if wide && n != 1 => Pitch::Wide(n),
                Atom::Int(n, _) => Pitch::Fixed(n),
                Atom::Float(..) | Atom::Bool(_) => unreachable!("a pitch is an integer"),
            };
            if n + 1 == fastest_first.len() {
                break;
            }
            if self.strided.contains(&id) {
                let next = Extent::dim(&stride(tensor, fastest_first[n + 1]));
                let next = self.emit.dim(&next);
                pitch = self.emit.op(emit::Op::Cast(ty), &[next]);
                continue;
            }
            let extent = self.emit.dim(&tensor.dims[d]);
            let extent = self.emit.op(emit::Op::Cast(ty), &[extent]);
            pitch = self.emit.bin(crate::op::BinOp::Mul, pitch, extent);
        }
        self.pitches.insert(id, pitches.clone());
        pitches
    }

    /// The contiguous dimension of a tensor in global memory.
    fn contiguous(&self, id: TensorId) -> usize {
        self.nest.contiguous(id)
    }

    /// The shared buffer that holds `elems` elements of something.
    fn shared_buffer(&self, content: Content, elems: u64) -> Result<u32, LowerError> {
        let missing =
            || LowerError::Malformed(format!("no shared buffer for {content:?} of {elems} elements"));
        self.shared.find(content, elems).ok_or_else(missing)
    }

    /// The register fragment that holds something.
    fn fragment(&mut self, holds: Holds, dtype: DType, slots: u32) -> u32 {
        let name = holds.name(self.nest);
        let frags = &mut self.frags;
        *self.frag_ids.entry((holds, dtype, slots)).or_insert_with(|| {
            let name = crate::shared::unique(&name, |n| frags.iter().any(|f| f.name == n));
            frags.push(Frag { name, dtype, slots });
            frags.len() as u32 - 1
        })
    }

    /// Emits a barrier and forgets what may have changed in shared memory.
    fn emit_barrier(&mut self) {
        self.emit.stmt(kernel::Stmt::Barrier);
        self.emit.forget_loads(|mem| matches!(mem, Mem::Shared(_)));
    }

    /// About to write a shared buffer.
    fn write_shared(&mut self, buffer: u32) {
        if self.sync.write(Touch::shared(buffer), self.sync.depth()) {
            self.emit_barrier();
        }
        self.emit.forget_loads(|mem| mem == Mem::Shared(buffer));
    }

    /// About to read a shared buffer.
    fn read_shared(&mut self, buffer: u32) {
        if self.sync.read(Touch::shared(buffer)) {
            self.emit_barrier();
        }
    }

    /// About to load an element of a tensor from global memory. Elements that the kernel stores, too, must be read before
    /// another thread stores them.
    fn read_global(&mut self, access: AccessId) {
        let index = &self.nest.accesses[usize::from(access.0)];
        if !self.in_place.contains(&index.tensor) {
            return;
        }
        let touch =
            Touch { mem: self.global(index.tensor), owners: self.owners(access, self.owner.is_some()) };
        if self.sync.read(touch) {
            self.emit_barrier();
        }
    }

    /// About to store an element of a tensor to global memory: one of those that do the same work does.
    fn write_global(&mut self, access: AccessId) {
        let index = &self.nest.accesses[usize::from(access.0)];
        if !self.in_place.contains(&index.tensor) {
            return;
        }
        let touch = Touch { mem: self.global(index.tensor), owners: self.owners(access, true) };
        // All loops around it move it: each step stores elements of its own.
        if self.sync.write(touch, 0) {
            self.emit_barrier();
        }
    }

    /// The thread that makes an access at the current point; `first`: where several do the same, the first of them
    /// alone. `None` where several make it.
    fn owners(&self, access: AccessId, first: bool) -> Option<Owners> {
        let index = &self.nest.accesses[usize::from(access.0)].index;
        let mut owners = Owners { spread: BTreeMap::new(), first: BTreeSet::new() };
        let mut free: BTreeSet<_> = self.units.dims.keys().copied().collect();
        for bound in &self.stack {
            let LoopKind::Unit(unit, dim) = bound.at else { continue };
            free.remove(&(unit, dim));
            if bound.digit.steps == Steps::Fixed(1) || unit == Unit::Block {
                continue;
            }
            let axis = bound.digit.axis;
            if index.iter().all(|i| i.coefficient(axis) == 0) {
                return None;
            }
            let digit = (unit, dim, bound.digit.stride, bound.digit.steps);
            owners.spread.entry(axis).or_default().insert(digit);
        }
        if !free.is_empty() && !first {
            return None;
        }
        owners.first = free;
        Some(owners)
    }

    /// A barrier of all threads, whatever was accessed.
    fn barrier(&mut self) {
        self.sync.barrier();
        self.emit_barrier();
    }
}

/// Tensors that some statements read and some store.
fn in_place(nest: &Nest) -> BTreeSet<TensorId> {
    let (mut read, mut stored) = (BTreeSet::new(), BTreeSet::new());
    leaves(&nest.body, &mut |_, leaf| {
        let (target, expr) = leaf.leaf().expect("a leaf");
        read.extend(expr.accesses().into_iter().map(|a| nest.access(a).tensor));
        if let Target::Access(a) = target {
            stored.insert(nest.access(a).tensor);
        }
    });
    &read & &stored
}

/// Whether offsets into a tensor fit 32 bits whatever the launch.
fn is_small(tensor: &tile::Tensor) -> bool {
    let elems = tensor.dims.iter().try_fold(1i64, |n, d| n.checked_mul(d.as_constant()?));
    elems.is_some_and(|n| n < 1 << 30)
}

/// Element type of an instantiated parameter.
fn fixed(elem: ElemType) -> DType {
    match elem {
        ElemType::Fixed(dtype) => dtype,
        ElemType::Generic => unreachable!("a nest holds an instantiated kernel"),
    }
}

/// Parameters: tensors, dims in order of first use by tensors and then by axes, strides, scalars.
fn params(nest: &Nest, variant: Variant, strided: &Strided) -> Vec<Param> {
    let kernel = &nest.kernel;
    let vectors = crate::assume::vector_bytes(nest, variant);
    let mut params: Vec<Param> = kernel
        .tensors
        .iter()
        .enumerate()
        .map(|(i, t)| {
            let dtype = fixed(t.elem);
            let align = vectors.get(&TensorId(i as u16)).copied().unwrap_or(0).max(dtype.bytes());
            let cache = nest.cache.get(&TensorId(i as u16)).copied();
            Param::Tensor { name: t.name.clone(), dtype, mutable: t.mutable, align, cache }
        })
        .collect();
    let extents = kernel.tensors.iter().flat_map(|t| &t.dims).chain(kernel.axes.iter().map(|a| &a.extent));
    let mut dims: Vec<&str> = Vec::new();
    for name in extents.flat_map(|e: &Extent| e.dims.keys()) {
        if !dims.contains(&name.as_str()) {
            dims.push(name);
        }
    }
    params.extend(dims.into_iter().map(|d| Param::Dim(d.to_string())));
    for id in strided {
        let tensor = &kernel.tensors[id.0 as usize];
        let contiguous = nest.contiguous(*id);
        let strides = (0..tensor.dims.len()).filter(|d| *d != contiguous).map(|d| stride(tensor, d));
        params.extend(strides.map(Param::Dim));
    }
    let scalars = kernel.scalars.iter();
    params.extend(scalars.map(|s| Param::Scalar { name: s.name.clone(), dtype: fixed(s.elem) }));
    params
}

//! Lowering: nest IR → kernel IR. Deterministic; it re-decides nothing that a directive decided.
//!
//! In order: units (launch shape), grid (coordinates of the CTA), then one walk over the term that keeps an
//! environment of bound digits. The walk gives each value its place (registers or shared memory), expands
//! `#unroll` and `#vec`, copies stages, inserts barriers, combines reductions across threads, and guards
//! what may lie outside the extents. What the nest lacks is a [`LowerError`] that names the directive to add.
//!
//! Three [`Variant`]s of one program differ in guards, vectors and offset width; [`assumptions`] lists what a
//! launch must satisfy for each.

mod across;
mod assume;
mod carried;
mod combine;
mod copy;
mod digits;
mod emit;
mod error;
mod expr;
mod fragment;
mod grid;
mod guard;
mod linear;
mod put;
mod ring;
mod stage;
mod storage;
mod sync;
mod units;
mod walk;
mod weave;

pub use assume::{Assumption, assumptions};
pub use error::LowerError;

use crate::{
    dtype::DType,
    index::Extent,
    kernel::{self, Frag, Kernel, Mem, Param, Shared, Ty, verify},
    nest::{Digit, Nest, ValueId},
    program::{Program, Variant},
    tile::{self, ElemType, TensorId},
};
pub(crate) use combine::places;
use digits::Bound;
use emit::{Atom, Emit};
use grid::Grid;
use linear::Pitch;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use storage::Held;
use sync::Sync;
use units::Units;

/// Statements beyond which expansion is taken to be a mistake.
const MAX_STATEMENTS: usize = 200_000;

/// Lowers one variant of a program.
///
/// # Errors
/// What the nest lacks, see [`LowerError`].
pub fn lower(program: &Program, variant: Variant) -> Result<Kernel, LowerError> {
    let nest = &program.nest;
    let mut lowerer = Lowerer::new(nest, variant)?;
    lowerer.stmt(&nest.body)?;
    let cleared = lowerer.cleared.iter().copied().collect();
    let Lowerer { emit, units, grid, params, shared, frags, .. } = lowerer;
    let (body, vars) = emit.finish();
    let kernel = Kernel {
        name: entry_name(program, variant),
        target: program.schedule.target,
        params,
        cleared,
        shared,
        frags,
        vars,
        threads: units.threads,
        grid: grid.axes,
        min_ctas: nest.occupancy,
        assemble: nest.assemble,
        body,
    };
    check_shared(&kernel)?;
    verify::verify(&kernel)?;
    Ok(kernel)
}

/// `matmul_warptile_f32_exact`.
fn entry_name(program: &Program, variant: Variant) -> String {
    let mut name = format!("{}_{}", program.nest.kernel.name, program.schedule.name);
    if let Some(dtype) = program.dtype {
        name += &format!("_{dtype}");
    }
    name += &format!("_{variant}");
    name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', "_")
}

fn check_shared(kernel: &Kernel) -> Result<(), LowerError> {
    let (total, limit) = (kernel.shared_bytes(), verify::shared_limit(kernel.target));
    if total <= limit {
        return Ok(());
    }
    let bytes = |s: &Shared| format!("{}: {}", s.name, u64::from(s.elems) * u64::from(s.dtype.bytes()));
    let sum = kernel.shared.iter().map(bytes).collect::<Vec<_>>().join(" + ");
    Err(LowerError::SharedMemory { total, limit, sum })
}

/// State of the walk.
struct Lowerer<'a> {
    nest: &'a Nest,
    kernel: &'a tile::Kernel,
    variant: Variant,
    emit: Emit,
    units: Units,
    grid: Grid,
    params: Vec<Param>,
    shared: Vec<Shared>,
    frags: Vec<Frag>,
    /// Digits bound by the enclosing loops, outermost first.
    stack: Vec<Bound>,
    /// Enclosing stages, outermost first.
    stages: Vec<stage::Active>,
    /// Enclosing copies in registers, outermost first.
    fragments: Vec<fragment::Active>,
    /// Which serpentine loops ran forwards the last time.
    turns: BTreeMap<Digit, bool>,
    /// Values in scope.
    held: BTreeMap<ValueId, Held>,
    /// Registers and buffers, by what they hold: expanded copies of a statement share them.
    frag_ids: HashMap<String, u32>,
    shared_ids: HashMap<String, u32>,
    sync: Sync,
    /// Each CTA holds a part of what is stored: stores add.
    adding: bool,
    /// Tensors that are added to.
    cleared: BTreeSet<u32>,
    /// Stores of an enclosing `#vec` loop, not complete yet.
    pending: Vec<put::Pending>,
    /// Weight of each dimension, by tensor; filled on first use.
    pitches: BTreeMap<TensorId, Vec<Pitch>>,
}

impl<'a> Lowerer<'a> {
    fn new(nest: &'a Nest, variant: Variant) -> Result<Self, LowerError> {
        let units = Units::of(nest)?;
        let mut emit = Emit::new();
        let grid = Grid::of(nest, &mut emit);
        Ok(Lowerer {
            nest,
            kernel: &nest.kernel,
            variant,
            emit,
            units,
            grid,
            params: params(nest, variant),
            shared: Vec::new(),
            frags: Vec::new(),
            stack: Vec::new(),
            stages: Vec::new(),
            fragments: Vec::new(),
            turns: BTreeMap::new(),
            held: BTreeMap::new(),
            frag_ids: HashMap::new(),
            shared_ids: HashMap::new(),
            sync: Sync::default(),
            adding: false,
            cleared: BTreeSet::new(),
            pending: Vec::new(),
            pitches: BTreeMap::new(),
        })
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
        let mut fastest_first: Vec<usize> = (0..tensor.dims.len()).rev().collect();
        if self.nest.column_major.contains(&id) {
            fastest_first.reverse();
        }
        let mut pitches = vec![Pitch::Fixed(1); tensor.dims.len()];
        let mut pitch = Atom::Int(1, ty);
        for (n, d) in fastest_first.iter().copied().enumerate() {
            pitches[d] = match pitch {
                Atom::Var(var) => Pitch::Var(var),
                Atom::Int(n, _) => Pitch::Fixed(n),
                Atom::Float(..) | Atom::Bool(_) => unreachable!("a pitch is an integer"),
            };
            if n + 1 == fastest_first.len() {
                break;
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
        if self.nest.column_major.contains(&id) { 0 } else { self.tensor(id).dims.len().saturating_sub(1) }
    }

    /// A shared buffer of its own for `name`.
    fn shared_buffer(&mut self, name: &str, dtype: DType, elems: i64, align: u32) -> u32 {
        let ids = &mut self.shared_ids;
        let shared = &mut self.shared;
        *ids.entry(format!("{name} {dtype} {elems}")).or_insert_with(|| {
            let name = unique(name, |n| shared.iter().any(|s| s.name == n));
            shared.push(Shared { name, dtype, elems: elems as u32, align });
            shared.len() as u32 - 1
        })
    }

    /// A register fragment for `name`.
    fn fragment(&mut self, name: &str, dtype: DType, slots: u32) -> u32 {
        let ids = &mut self.frag_ids;
        let frags = &mut self.frags;
        *ids.entry(format!("{name} {dtype} {slots}")).or_insert_with(|| {
            let name = unique(name, |n| frags.iter().any(|f| f.name == n));
            frags.push(Frag { name, dtype, slots });
            frags.len() as u32 - 1
        })
    }

    /// Emits a barrier and forgets what may have changed in shared memory.
    fn barrier(&mut self) {
        self.emit.stmt(kernel::Stmt::Barrier);
        self.emit.forget_loads(|mem| matches!(mem, Mem::Shared(_)));
    }

    /// About to write a shared buffer.
    fn write_shared(&mut self, buffer: u32) {
        if self.sync.write(buffer, self.sync.depth()) {
            self.barrier();
        }
        self.emit.forget_loads(|mem| mem == Mem::Shared(buffer));
    }

    /// About to read a shared buffer.
    fn read_shared(&mut self, buffer: u32) {
        if self.sync.read(buffer) {
            self.barrier();
        }
    }

    /// All threads meet, whatever was accessed.
    fn meet(&mut self) {
        self.sync.barrier();
        self.barrier();
    }
}

/// Element type of an instantiated parameter.
fn fixed(elem: ElemType) -> DType {
    match elem {
        ElemType::Fixed(dtype) => dtype,
        ElemType::Generic => unreachable!("a nest holds an instantiated kernel"),
    }
}

fn unique(name: &str, taken: impl Fn(&str) -> bool) -> String {
    let candidates = std::iter::once(name.to_string()).chain((2..).map(|n| format!("{name}_{n}")));
    candidates.into_iter().find(|n| !taken(n)).expect("endless candidates")
}

/// Parameters: tensors, dims in order of first use by tensors and then by axes, scalars.
fn params(nest: &Nest, variant: Variant) -> Vec<Param> {
    let kernel = &nest.kernel;
    let vectors = assume::vector_bytes(nest, variant);
    let mut params: Vec<Param> = kernel
        .tensors
        .iter()
        .enumerate()
        .map(|(i, t)| {
            let dtype = fixed(t.elem);
            let align = vectors.get(&TensorId(i as u16)).copied().unwrap_or(0).max(dtype.bytes());
            Param::Tensor { name: t.name.clone(), dtype, mutable: t.mutable, align }
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
    let scalars = kernel.scalars.iter();
    params.extend(scalars.map(|s| Param::Scalar { name: s.name.clone(), dtype: fixed(s.elem) }));
    params
}

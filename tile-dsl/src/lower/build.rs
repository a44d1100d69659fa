//! What is built: statements, parameters, registers, and what is not complete yet.

use super::{
    emit::{Atom, Emit},
    linear::{Linear, Pitch},
    sync::{Sync, Touch},
};
use crate::{
    dtype::DType,
    index::AxisId,
    kernel::{self, Expr as KExpr, Frag, Mem, Param},
    nest::{AccessId, CopyId, Digit, MATRIX_ROWS, Nest, ValueId},
    tile::TensorId,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What is built of a kernel.
pub(super) struct Builder {
    pub emit: Emit,
    pub sync: Sync,
    pub params: Vec<Param>,
    pub frags: Vec<Frag>,
    /// Registers by what they hold: expanded copies of a statement share them.
    pub frag_ids: HashMap<Holds, u32>,
    /// Weight of each dimension, by tensor; filled on first use.
    pub pitches: BTreeMap<TensorId, Vec<Pitch>>,
    /// Tensors that are added to.
    pub cleared: BTreeSet<u32>,
    /// Rings of mbarriers, and the registers that count their stages.
    pub barriers: Vec<Barriers>,
    pub cursors: Vec<u32>,
    /// The cluster's barriers so far, for threads of other roles.
    pub cluster_barriers: Vec<kernel::Stmt>,
    /// This CTA has said that it runs, and not waited for the others yet.
    pub announced: bool,
    pub unfinished: Unfinished,
}

/// Stores that wait for elements.
#[derive(Default)]
pub(super) struct Unfinished {
    /// Of an enclosing `#vec` loop.
    pub vectors: Vec<Pending>,
    /// What lanes exchange for a store, until four matrices are complete.
    pub fours: BTreeMap<AccessId, Vec<Four>>,
    /// What lanes hold of a tensor, until it is put into its tile by matrices.
    pub matrices: BTreeMap<TensorId, Vec<HeldMatrix>>,
    /// Tensors whose tile is being collected, by which store, and whether any is sent off.
    pub collected: BTreeMap<TensorId, AccessId>,
    pub sends: bool,
}

/// A vector store that waits for the other steps of its `#vec` loop.
pub(super) struct Pending {
    pub mem: Mem,
    pub base: Option<Atom>,
    pub constant: i64,
    pub guard: Option<Atom>,
    pub values: Vec<Option<KExpr>>,
}

/// Matrices that wait for one another.
pub(super) struct Four {
    /// The first element of this lane's row in the first of them, one coordinate a dimension.
    pub at: Vec<Linear>,
    /// Two elements of each matrix.
    pub values: [Option<KExpr>; MATRIX_ROWS as usize],
}

/// A matrix that waits to be stored.
pub(super) struct HeldMatrix {
    /// Of this lane's row, as if it were the first of four, before the swizzle.
    pub offset: Linear,
    /// The two elements that this lane holds.
    pub values: [Option<KExpr>; 2],
    /// They are of a column.
    pub transposed: bool,
}

impl HeldMatrix {
    pub fn is_complete(&self) -> bool {
        self.values.iter().all(Option::is_some)
    }
}

/// An mbarrier ring of the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Barriers {
    pub buffer: u32,
    pub stages: u32,
    pub arrivals: u32,
}

/// What a register fragment holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Holds {
    /// The elements of a value, from one of its `let`s on.
    Value(ValueId, usize),
    /// What a stage copied, at one of its places.
    Copy(CopyId, usize),
    /// So many elements that a plain copy of a ring has loaded, not stored yet.
    Next(CopyId, u32),
    /// The stage of a ring that the loop over a digit reads.
    RingStage(Digit),
    /// Stage and parity of the channel whose first copy it is.
    Cursor(CopyId),
    /// Parity of the next turn.
    Turn,
    /// Place and parity of the next number of a tile that is taken, or heard of.
    Place { taken: bool },
    /// The number of a tile: one that was taken of a counter, or heard of.
    Number { taken: bool },
    /// Whether the counter has any left.
    Left,
    /// The least and the greatest of a limit at the points of an axis; the number tells them apart.
    Limit(AxisId, u32),
    /// Elements of the first operand of a product that adds to a value; the number tells them apart.
    Operand(ValueId, u32),
    /// What lanes exchanged of a value, from one of its `let`s on.
    Joined(ValueId, usize),
    /// Of that, what products in flight read.
    Taken(ValueId, usize),
    /// The greatest of the sums of steps, where a maximum stays.
    Most(ValueId),
}

impl Holds {
    /// What it is called in the kernel IR.
    fn name(self, nest: &Nest) -> String {
        let copied = |copy: CopyId| nest.copy_word(copy);
        match self {
            Holds::Value(v, _) => nest.value(v).name.clone(),
            Holds::Copy(c, _) => format!("{}.frag", copied(c)),
            Holds::Next(c, _) => format!("{}.next", copied(c)),
            Holds::Cursor(c) => format!("{}.cursor", copied(c)),
            Holds::Turn => "turn.parity".into(),
            Holds::Place { taken: true } => "taken.cursor".into(),
            Holds::Place { taken: false } => "heard.cursor".into(),
            Holds::Number { taken: true } => "number.taken".into(),
            Holds::Number { taken: false } => "number.heard".into(),
            Holds::Left => "number.left".into(),
            Holds::Limit(axis, _) => format!("{}.limit", nest.axis(axis)),
            Holds::Operand(v, _) => format!("{}.rows", nest.value(v).name),
            Holds::Joined(v, _) => format!("{}.joined", nest.value(v).name),
            Holds::Most(v) => format!("{}.most", nest.value(v).name),
            Holds::Taken(v, _) => format!("{}.taken", nest.value(v).name),
            Holds::RingStage(d) => format!("{}.slot", nest.axis(d.axis)),
        }
    }
}

impl Builder {
    /// Nothing but parameters.
    pub fn new(emit: Emit, params: Vec<Param>) -> Self {
        Builder {
            emit,
            sync: Sync::default(),
            params,
            frags: Vec::new(),
            frag_ids: HashMap::new(),
            pitches: BTreeMap::new(),
            cleared: BTreeSet::new(),
            barriers: Vec::new(),
            cursors: Vec::new(),
            cluster_barriers: Vec::new(),
            announced: false,
            unfinished: Unfinished::default(),
        }
    }

    /// The register fragment that holds something of a nest.
    pub fn fragment(&mut self, nest: &Nest, holds: Holds, dtype: DType, slots: u32) -> u32 {
        let name = holds.name(nest);
        let frags = &mut self.frags;
        *self.frag_ids.entry(holds).or_insert_with(|| {
            let name = crate::shared::unique(&name, |n| frags.iter().any(|f| f.name == n));
            frags.push(Frag { name, dtype, slots });
            frags.len() as u32 - 1
        })
    }

    /// A value that may be used again: a variable, unless it is one or a number.
    pub fn name(&mut self, value: KExpr, ty: DType) -> KExpr {
        if matches!(value, KExpr::Var(_) | KExpr::Float(..) | KExpr::Int(..)) {
            return value;
        }
        let var = self.emit.var(ty);
        self.emit.stmt(kernel::Stmt::Let(var, value));
        KExpr::Var(var)
    }

    /// Emits a barrier and forgets what may have changed in shared memory.
    pub fn emit_barrier(&mut self) {
        self.emit.stmt(kernel::Stmt::Barrier);
        self.emit.forget_loads(|mem| matches!(mem, Mem::Shared(_)));
    }

    /// About to write a shared buffer.
    pub fn write_shared(&mut self, buffer: u32) {
        if self.sync.write(Touch::shared(buffer), self.sync.depth()) {
            self.emit_barrier();
        }
        self.emit.forget_loads(|mem| mem == Mem::Shared(buffer));
    }

    /// About to read a shared buffer.
    pub fn read_shared(&mut self, buffer: u32) {
        if self.sync.read(Touch::shared(buffer)) {
            self.emit_barrier();
        }
    }

    /// A barrier of all threads, whatever was accessed.
    pub fn barrier(&mut self) {
        self.sync.barrier();
        self.emit_barrier();
    }
}

//! Decoded instructions: what the execution loop dispatches on.
//!
//! Registers live in 32-lane slots of 32 bits; a 64-bit register is two consecutive slots. Immediates,
//! symbol addresses and special registers get slots of their own, filled when a warp starts, so that every
//! operand of an arithmetic instruction is a slot.

mod alu;
mod call;
mod class;
mod image;
mod matrix;

use crate::kernel::Passed;
use crate::race::Scope;
use crate::types::Ty;

pub(crate) use alu::*;
pub(crate) use call::*;
pub use class::InstClass;
pub(crate) use image::*;
pub(crate) use matrix::*;

/// Index of a 32-lane register slot.
pub(crate) type Slot = u32;

/// Slot value of the sink operand `_`.
pub(crate) const SINK: Slot = u32::MAX;

/// A predicate source: slot and whether it is negated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PSrc(u32);

impl PSrc {
    /// Always true.
    pub const TRUE: PSrc = PSrc(u32::MAX);
    /// Never true.
    pub const FALSE: PSrc = PSrc(u32::MAX - 1);
    pub fn new(slot: u32, neg: bool) -> Self {
        PSrc(slot << 1 | neg as u32)
    }
    /// The lanes in which the predicate holds.
    #[inline(always)]
    pub fn lanes(self, preds: &[u32]) -> u32 {
        if self.0 >= u32::MAX - 1 {
            return if self == PSrc::TRUE { !0 } else { 0 };
        }
        let p = preds[(self.0 >> 1) as usize];
        if self.0 & 1 != 0 { !p } else { p }
    }
}

/// Where a memory instruction goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MSpace {
    Global,
    Shared,
    Local,
    Param,
    Generic,
}

/// An address operand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Addr {
    pub reg: Option<Slot>,
    /// The register has 64 bits.
    pub wide: bool,
    pub off: i64,
    /// Added at launch: the address of this module variable.
    pub global: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Sem {
    #[default]
    Weak,
    Volatile,
    Relaxed,
    Acquire,
    Release,
    AcqRel,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mem {
    pub space: MSpace,
    pub addr: Addr,
    /// Bytes of one element: 1, 2, 4, 8 or 16.
    pub width: u32,
    pub signed: bool,
    /// Slots of one register operand: 1, 2 or 4.
    pub slots: u32,
    /// One register per vector element.
    pub regs: Vec<Slot>,
    pub sem: Sem,
    pub scope: Scope,
    /// Bytes of a load whose values matter, a bit each; all, unless a pragma says less.
    pub used: u32,
}

impl Mem {
    /// Bytes of one lane's access.
    pub fn bytes(&self) -> u32 {
        self.width * self.regs.len() as u32
    }

    /// Bytes up to the last one that matters, at least one.
    pub fn reach(&self) -> u32 {
        let within = self.used & (!0u32 >> (32 - self.bytes().clamp(1, 32)));
        (32 - within.leading_zeros()).max(1)
    }

    /// Whether the value of an element matters.
    pub fn uses(&self, element: usize) -> bool {
        let bytes = !0u32 >> (32 - self.width.clamp(1, 32));
        self.used & bytes.wrapping_shl(element as u32 * self.width) != 0
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtomOp {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exch,
    Cas,
    Inc,
    Dec,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Atom {
    pub op: AtomOp,
    pub ty: Ty,
    pub space: MSpace,
    pub addr: Addr,
    /// SINK for `red`.
    pub d: Slot,
    pub b: Slot,
    pub c: Slot,
    pub sem: Sem,
    pub scope: Scope,
    /// Value registers of a vector `red`/`atom` (`.v2`, `.v4`, `.v8`).
    pub more: Vec<Slot>,
    /// Destinations of a vector `atom`, none for `red`.
    pub more_d: Vec<Slot>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShflMode {
    Up,
    Down,
    Bfly,
    Idx,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VoteMode {
    All,
    Any,
    Uni,
    Ballot,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReduxOp {
    Add,
    Min(bool),
    Max(bool),
    And,
    Or,
    Xor,
}

/// What a CTA barrier instruction does besides arriving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BarKind {
    Sync,
    Arrive,
    RedPopc,
    RedAnd,
    RedOr,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bar {
    pub kind: BarKind,
    pub aligned: bool,
    pub id: Slot,
    /// Number of threads; SINK: all threads of the CTA.
    pub count: Slot,
    /// Result: register slot (popc) or predicate slot.
    pub d: Slot,
    pub p: PSrc,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CpAsync {
    pub dst: Addr,
    pub src: Addr,
    pub bytes: u32,
    /// Register with the number of bytes to read; the rest is zero.
    pub src_size: Slot,
    pub ignore: PSrc,
    pub has_ignore: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MBarKind {
    Init,
    Inval,
    Arrive {
        drop: bool,
        expect: bool,
        no_complete: bool,
    },
    ExpectTx,
    CompleteTx,
    TestWait {
        parity: bool,
    },
    PendingCount,
    /// `cp.async.mbarrier.arrive`
    CopyArrive {
        noinc: bool,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MBar {
    pub kind: MBarKind,
    pub space: MSpace,
    pub addr: Addr,
    /// State, predicate or count that comes out.
    pub d: Slot,
    /// Count, bytes, state or parity that goes in.
    pub b: Slot,
    /// The arrival releases, the wait acquires (not `.relaxed`), and at which scope: `.cta` if none is written.
    pub ordered: bool,
    pub scope: Scope,
}

/// Directions of a bulk copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BulkDir {
    GlobalToShared,
    SharedToGlobal,
    SharedToShared,
    Prefetch,
}

/// `cp.async.bulk` and `cp.async.bulk.tensor`, with the reductions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bulk {
    pub dir: BulkDir,
    pub dst: Addr,
    pub src: Addr,
    /// Register with the size in bytes; SINK for tensor copies.
    pub size: Slot,
    /// Tensor coordinates.
    pub coords: Vec<Slot>,
    pub tensor: bool,
    pub mbar: Option<Addr>,
    /// Register with the mask of destination CTAs.
    pub multicast: Slot,
    /// An im2col window, with its offsets (none for stores).
    pub im2col: bool,
    pub offsets: Vec<Slot>,
    pub reduce: Option<(AtomOp, Ty)>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Op {
    Alu {
        k: Alu,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
        e: Slot,
    },
    /// d = (a cmp b) bop c; q = !(a cmp b) bop c.
    Setp {
        cmp: Cmp,
        ty: Ty,
        ftz: bool,
        d: Slot,
        q: Slot,
        a: Slot,
        b: Slot,
        bop: BoolOp,
        c: PSrc,
        has_c: bool,
    },
    Selp {
        slots: u32,
        d: Slot,
        a: Slot,
        b: Slot,
        p: PSrc,
    },
    /// d = a op b on predicates.
    PredLogic {
        op: BoolOp,
        d: Slot,
        a: PSrc,
        b: PSrc,
    },
    /// `set`: all ones or 1.0 where the comparison holds.
    Set {
        cmp: Cmp,
        ty: Ty,
        ftz: bool,
        float: bool,
        d: Slot,
        a: Slot,
        b: Slot,
        bop: BoolOp,
        c: PSrc,
        has_c: bool,
    },
    Slct {
        slots: u32,
        float: bool,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    /// Add or subtract with carry: `cin` reads, `cout` writes the carry flag.
    Carry {
        sub: bool,
        wide: bool,
        cin: bool,
        cout: bool,
        cc: Slot,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    /// `mad.cc`, `madc`: the low or high half of `a * b`, plus `c`, with carries as above.
    MadCarry {
        hi: bool,
        signed: bool,
        wide: bool,
        cin: bool,
        cout: bool,
        cc: Slot,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    Clock {
        d: Slot,
        wide: bool,
        hi: bool,
    },
    /// Register-only but with more operands than `Alu` carries.
    Unpack {
        from: Slot,
        width: u32,
        regs: Vec<Slot>,
    },
    Pack {
        d: Slot,
        width: u32,
        regs: Vec<Slot>,
    },
    ActiveMask {
        d: Slot,
    },
    Isspacep {
        space: MSpace,
        d: Slot,
        a: Slot,
    },
    Ld(Box<Mem>),
    St(Box<Mem>),
    Atom(Box<Atom>),
    CpAsync(Box<CpAsync>),
    MatrixCopy(Box<MatrixCopy>),
    /// `movmatrix`: an 8×8 matrix, transposed.
    MatrixMove {
        d: Slot,
        a: Slot,
    },
    Mma(Box<Mma>),
    WmmaCopy(Box<WmmaCopy>),
    Wmma(Box<Wmma>),
    Wgmma(Box<Wgmma>),
    WgFence,
    WgCommit,
    WgWait(u32),
    CpCommit,
    /// Leave this many groups pending; `u32::MAX` marks `wait_all`.
    CpWait(u32),
    Bra {
        target: u32,
    },
    Brx {
        idx: Slot,
        targets: Box<[u32]>,
    },
    Exit,
    Trap,
    Call(Box<Call>),
    /// From the function of that number.
    Ret(u32),
    Printf(Box<Printf>),
    Tex(Box<Tex>),
    Surface(Box<Surface>),
    /// `__assertfail`: message, file, line, function.
    AssertFail(Box<[Passed; 4]>),
    Bar(Box<Bar>),
    WarpSync {
        mask: Slot,
    },
    Shfl {
        mode: ShflMode,
        d: Slot,
        p: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
        mask: Slot,
    },
    Vote {
        mode: VoteMode,
        d: Slot,
        p: PSrc,
        mask: Slot,
    },
    Match {
        all: bool,
        wide: bool,
        d: Slot,
        p: Slot,
        a: Slot,
        mask: Slot,
    },
    Redux {
        op: ReduxOp,
        d: Slot,
        a: Slot,
        mask: Slot,
    },
    Elect {
        d: Slot,
        p: Slot,
        mask: Slot,
    },
    Fence(Scope),
    FenceProxyAsync,
    /// `fence.proxy.tensormap::generic.acquire` of a map in global memory.
    AcquireTensorMap {
        map: Addr,
        scope: Scope,
    },
    FenceMbarrierInit,
    MBar(Box<MBar>),
    Bulk(Box<Bulk>),
    BulkCommit,
    /// Leave this many bulk groups pending; `read`: only their reads need to be done.
    BulkWait {
        keep: u32,
        read: bool,
    },
    ClusterArrive {
        release: bool,
    },
    ClusterWait,
    /// Address `a` in the CTA of that rank.
    Mapa {
        d: Slot,
        a: Slot,
        rank: Slot,
        wide: bool,
    },
    CtaRank {
        d: Slot,
        a: Slot,
    },
    /// `setmaxnreg`: registers per thread after it; `true` asks for more.
    SetMaxNReg {
        inc: bool,
        count: u32,
    },
    /// `nanosleep`: lets other warps run.
    Yield,
    /// `griddepcontrol.wait`.
    GridWait,
    /// Prefetches and hints: checked when decoded, no effect.
    Nop,
}

impl Op {
    /// Starts work of an asynchronous agent with a clock of its own.
    pub fn is_asynchronous(&self) -> bool {
        match self {
            Op::Bulk(_) | Op::Wgmma(_) | Op::WgCommit | Op::WgWait(_) => true,
            Op::MBar(x) => matches!(x.kind, MBarKind::CopyArrive { .. }),
            _ => false,
        }
    }

    /// Accesses memory that other lanes can access, on behalf of the lanes that execute it.
    #[inline(always)]
    pub fn is_access(&self) -> bool {
        match self {
            Op::Ld(m) | Op::St(m) => !matches!(m.space, MSpace::Local | MSpace::Param),
            Op::Atom(_) | Op::MatrixCopy(_) | Op::WmmaCopy(_) | Op::CpAsync(_) | Op::CpWait(_) => true,
            Op::Tex(_) | Op::Surface(_) | Op::Printf(_) | Op::AssertFail(_) => true,
            // Initialisations are ordered as writes are.
            Op::MBar(x) => matches!(x.kind, MBarKind::Init | MBarKind::Inval),
            _ => false,
        }
    }

    /// Bytes of one lane's access to global memory, 16 at most and if there is none.
    pub fn granule(&self) -> u32 {
        let n = match self {
            Op::Ld(m) | Op::St(m) if matches!(m.space, MSpace::Global | MSpace::Generic) => m.bytes(),
            Op::Atom(a) if a.space != MSpace::Shared => a.ty.bytes(),
            Op::CpAsync(c) => c.bytes,
            Op::WmmaCopy(x) if x.space != MSpace::Shared => x.fragment.bytes,
            // Tiles may begin at any element; partly covered granules are left out.
            Op::Bulk(b) if b.tensor => 4,
            _ => 16,
        };
        n.min(16)
    }

    /// Bytes of the narrowest access to shared memory that it makes, 4 at most and if there is none.
    pub fn shared_granule(&self) -> u32 {
        let n = match self {
            Op::Ld(m) | Op::St(m) if matches!(m.space, MSpace::Shared | MSpace::Generic) => m.bytes(),
            Op::Atom(a) if a.space != MSpace::Global => a.ty.bytes(),
            _ => 4,
        };
        n.min(4)
    }

    /// All threads of the warp must execute it together.
    pub fn is_aligned(&self) -> bool {
        match self {
            Op::Bar(b) => b.aligned,
            Op::MatrixCopy(_)
            | Op::MatrixMove { .. }
            | Op::Mma(_)
            | Op::WmmaCopy(_)
            | Op::Wmma(_)
            | Op::Wgmma(_)
            | Op::WgFence
            | Op::WgCommit
            | Op::WgWait(_)
            | Op::SetMaxNReg { .. } => true,
            _ => false,
        }
    }
}

/// One decoded instruction.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Inst {
    pub op: Op,
    pub guard: PSrc,
}

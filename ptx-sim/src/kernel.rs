//! A decoded kernel: what the execution engine runs.

use crate::ast::Loc;
use crate::op::{Inst, InstClass, Slot};
use serde::Serialize;
use std::collections::HashMap;

/// First byte of a CTA's shared memory in the shared window; the bytes below are reserved by the system on
/// sm_90, which also makes a null shared pointer an out-of-bounds access.
pub(crate) const SHARED_BASE: u32 = 1024;
/// Generic addresses of the shared window, the local window and the parameters.
pub(crate) const SHARED_WINDOW: u64 = 0x0100_0000_0000;
pub(crate) const LOCAL_WINDOW: u64 = 0x0200_0000_0000;
pub(crate) const PARAM_WINDOW: u64 = 0x0300_0000_0000;
/// Size of each window.
pub(crate) const WINDOW: u64 = 0x0100_0000_0000;

/// Where an instruction stands in the PTX text and in the source it was compiled from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Site {
    pub line: u32,
    pub col: u32,
    pub loc: Option<Loc>,
    pub class: InstClass,
    /// Opcode with modifiers, as written.
    pub text: String,
    /// Floating-point operations per lane (fma = 2, packed forms twice that).
    pub flops: u32,
}

/// The value of a constant slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ConstVal {
    Imm(u32),
    /// Low or high half of a module variable's address plus an offset.
    Global {
        var: u32,
        off: i64,
        high: bool,
    },
    /// Address of a shared variable in this CTA.
    Shared(u32),
    Special(Special),
}

/// Special registers that are fixed for the life of a warp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    LaneId,
    WarpId,
    NWarpId,
    SmId,
    NSmId,
    GridId,
    LaneMask(u8),
    ClusterId(u8),
    NClusterId(u8),
    ClusterCtaid(u8),
    ClusterNctaid(u8),
    ClusterCtarank,
    ClusterNctarank,
    IsExplicitCluster,
    DynamicSmem,
    TotalSmem,
    /// `%reserved_smem_offset_…`: where the region that the system reserves begins, its end, and its size.
    ReservedSmem(u8),
    /// `%envreg1` and 2 hold the address of the grid's workspace, that is the state of cooperative groups' grid barrier.
    EnvReg(u8),
    Zero,
}

/// A module-scope variable in global or constant memory.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GlobalVar {
    pub name: String,
    pub size: u64,
    pub init: Vec<u8>,
    /// Addresses among the initial values: place, what they point at, and an offset from it.
    pub relocs: Vec<(u64, Reloc, i64)>,
}

/// What an address in an initial value points at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Reloc {
    /// A module variable.
    Global(u32),
    /// A function.
    Fixed(u64),
}

/// The address of a function, which only calls can use, by its place in the module.
pub(crate) fn function_address(n: u32) -> u64 {
    0x0400_0000_0000 + 16 * (n as u64 + 1)
}

/// Where an argument or a result lies: bytes of local memory, or a register.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Passed {
    Local { at: u32, bytes: u32 },
    Reg { slot: Slot, bytes: u32 },
}

/// A device function within a kernel.
#[derive(Debug)]
pub(crate) struct Func {
    pub name: String,
    /// Its first pc.
    pub entry: u32,
    pub address: u64,
    /// Register of the pc to return to.
    pub ret: Slot,
    pub params: Vec<Passed>,
    pub results: Vec<Passed>,
}

/// One kernel parameter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ParamInfo {
    /// Name in the PTX text.
    pub name: String,
    /// Size in bytes.
    pub size: u32,
    /// Alignment in bytes.
    pub align: u32,
    /// Offset in the parameter space.
    pub offset: u32,
}

/// What a launch needs to know about a kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KernelInfo {
    /// Name of the entry.
    pub name: String,
    /// The name as the source has it.
    pub demangled: String,
    /// Parameters in order.
    pub params: Vec<ParamInfo>,
    /// Bytes of statically allocated shared memory.
    pub static_shared: u32,
    /// Bytes of local memory per thread.
    pub local_bytes: u32,
    /// `.maxntid`, if given.
    pub max_threads: Option<[u32; 3]>,
    /// `.reqntid`, if given.
    pub required_threads: Option<[u32; 3]>,
    /// `.reqnctapercluster`, if given.
    pub cluster: Option<[u32; 3]>,
    /// `.maxnreg`, if given.
    pub max_registers: Option<u32>,
    /// `.minnctapersm`; 1 if it is not given.
    pub ctas_per_sm: u32,
    /// Number of instructions, those of the functions that it can call included.
    pub instructions: u32,
}

/// Bytes of shared memory that the system reserves, where a kernel asks for them.
pub(crate) const RESERVED: u32 = 1024;

impl Kernel {
    fn reads(&self, f: impl Fn(Special) -> bool) -> bool {
        self.consts.iter().any(|(_, v)| matches!(v, ConstVal::Special(s) if f(*s)))
    }

    /// Bytes of the reserved region: none if the kernel does not ask where it is. It lies behind the kernel's own.
    pub fn reserved_shared(&self) -> u32 {
        if self.reads(|s| matches!(s, Special::ReservedSmem(_))) { RESERVED } else { 0 }
    }

    /// Whether it asks for the state of the grid's barrier.
    pub fn cooperative(&self) -> bool {
        self.reads(|s| matches!(s, Special::EnvReg(1 | 2)))
    }
}

#[derive(Debug)]
pub(crate) struct Kernel {
    pub info: KernelInfo,
    /// The first pc; those of the functions are lower.
    pub entry: u32,
    pub funcs: Vec<Func>,
    pub insts: Vec<Inst>,
    pub sites: Vec<Site>,
    pub n_slots: u32,
    pub n_preds: u32,
    pub consts: Vec<(Slot, ConstVal)>,
    /// Name, offset from [`SHARED_BASE`], size. The dynamic part is not listed.
    pub shared_vars: Vec<(String, u32, u32)>,
    /// Offset of the dynamic part from [`SHARED_BASE`], and its name.
    pub dynamic: (u32, Option<String>),
    /// Bulk copies, `wgmma` or copies that arrive on an mbarrier: there are asynchronous agents.
    pub asynchronous: bool,
    /// Log2 of the bytes of the narrowest access to global memory.
    pub granule: u32,
    /// For each pc, the first one from there on whose instruction, other than `wgmma`, names a register that some
    /// `wgmma` accumulates into or takes A from; empty without such.
    pub wg_next: Vec<u32>,
    /// Those registers, by pc.
    pub wg_touch: HashMap<u32, Vec<Slot>>,
    /// Global atomics or acquire loads: CTAs must run one after the other to stay deterministic.
    pub sequential: bool,
}

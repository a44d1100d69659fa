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
    Zero,
}

/// A module-scope variable in global or constant memory.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GlobalVar {
    pub name: String,
    pub size: u64,
    pub init: Vec<u8>,
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
    /// Number of instructions.
    pub instructions: u32,
}

#[derive(Debug)]
pub(crate) struct Kernel {
    pub info: KernelInfo,
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

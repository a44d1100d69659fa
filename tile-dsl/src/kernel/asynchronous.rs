//! What completes on its own: mbarriers, tensor copies (TMA), and products that read shared memory (`wgmma`).
//!
//! ```text
//! Async ::= mbarriers Shared × n of count | arrive Shared[E] (expect bytes | of E) | await Shared[E] parity E
//!         | tensor Shared[E] <- Map[E*] completes Shared[E] (everywhere) | proxy_fence
//!         | acquire Map | prefetch Map | send Map[E*] <- Shared[E] | stores commit | stores wait n
//!         | wgmma frag[slots] += Tile x Tile (overwrites E) | products fence frag[slots]* | products commit | products wait n frag[slots]*
//! Tile  ::= Shared[E] major swizzle leading stride
//! ```
//! An mbarrier is two words of a shared buffer of type `i32`; slots of a ring have one each. A thread that waits for a
//! phase sees what was written before the arrivals that completed it, and what copies that completed it wrote.
//! The asynchronous proxy, by which tensor copies write and products read, sees ordinary stores only after a proxy fence
//! of the thread that made them.
//!
//! Source: PTX ISA 9.7.13.15 (`mbarrier`), 9.7.9.27 (`cp.async.bulk.tensor`), 9.7.16 (`wgmma`), 9.7.13.4 (`fence.proxy`).

use super::{Expr, Stmt};
use crate::nest::Atom;
use serde::{Deserialize, Serialize};

/// An asynchronous operation, or a wait for one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Async {
    /// One thread of the CTA initialises the mbarriers of a ring, and makes them known to the asynchronous proxy. The
    /// others know of them after a barrier.
    Init {
        /// Buffer, position in [`super::Kernel::shared`].
        barrier: u32,
        /// Slots.
        slots: u32,
        /// Arrivals that complete a phase.
        arrivals: u32,
    },
    /// This thread arrives at an mbarrier: `mbarrier.arrive`, release at the scope of the CTA. At another
    /// CTA's it says that a slot has been read, and makes no write of this thread visible there: the scope of the cluster
    /// would be a fence of the whole device.
    Arrive {
        /// Buffer.
        barrier: u32,
        /// Slot.
        slot: Expr,
        /// Bytes that copies will bring in this phase: `expect_tx`.
        bytes: Option<u32>,
        /// The CTA of the cluster whose mbarrier it is, `i32`; its own otherwise. No bytes are expected there.
        cta: Option<Expr>,
    },
    /// Waits until the phase of a parity is complete: `mbarrier.try_wait.parity`, acquire at the same scope.
    Wait {
        /// Buffer.
        barrier: u32,
        /// Slot.
        slot: Expr,
        /// 0 or 1, `i32`.
        parity: Expr,
    },
    /// A box of a tensor to shared memory, zeros where it leaves the tensor: `cp.async.bulk.tensor`. The bytes of the box
    /// count at an mbarrier when they have arrived.
    Copy {
        /// Tensor map, position in [`super::Kernel::params`].
        map: u32,
        /// Destination, position in [`super::Kernel::shared`].
        shared: u32,
        /// Offset of the first element.
        offset: Expr,
        /// First element of the box, fastest dimension first; `i32`, may be outside of the tensor.
        coordinates: Vec<Expr>,
        /// mbarrier.
        barrier: u32,
        /// Its slot.
        slot: Expr,
        /// To the same place in all CTAs of the cluster, each with its own mbarrier: `.multicast::cluster`.
        everywhere: bool,
    },
    /// A box in shared memory to a tensor, what lies outside of it left out: `cp.async.bulk.tensor` from shared memory.
    Store {
        /// Tensor map, position in [`super::Kernel::params`].
        map: u32,
        /// Source, position in [`super::Kernel::shared`].
        shared: u32,
        /// Offset of the first element.
        offset: Expr,
        /// First element of the box, fastest dimension first.
        coordinates: Vec<Expr>,
    },
    /// This thread's stores so far are a group: `cp.async.bulk.commit_group`.
    CommitStores,
    /// All but so many of this thread's youngest groups have read what they store: `cp.async.bulk.wait_group.read`.
    WaitStores {
        /// Groups.
        pending: u32,
    },
    /// What was written to a tensor map in global memory before the kernel is seen by the copies of this thread that name it:
    /// `fence.proxy.tensormap::generic.acquire` (PTX ISA 9.7.13.4). Maps among the parameters of the launch need none.
    AcquireMap {
        /// Tensor map, position in [`super::Kernel::params`].
        map: u32,
    },
    /// A tensor map is about to be named by copies: `prefetch.tensormap` (PTX ISA 9.7.9.15). Without, the first copy waits for it.
    PrefetchMap {
        /// Tensor map, position in [`super::Kernel::params`].
        map: u32,
    },
    /// What this thread has stored to shared memory is seen by the asynchronous proxy: `fence.proxy.async`.
    ProxyFence,
    /// A product of a warpgroup: accumulators += a · b. Between [`Async::Commit`] and the wait for its group the
    /// accumulators belong to the instruction.
    Multiply {
        /// The instruction.
        atom: Atom,
        /// Accumulators, position in [`super::Kernel::frags`].
        frag: u32,
        /// Their slots, in the order of the instruction's registers.
        slots: Vec<u32>,
        /// First operand.
        a: Tile,
        /// Second operand.
        b: Tile,
        /// Where true, the product overwrites the accumulators, which may be undefined; the same in all threads of the
        /// warpgroup.
        overwrites: Option<Expr>,
    },
    /// What this thread has written to accumulators is seen by the products that follow: `wgmma.fence`.
    Fence {
        /// Accumulators: fragment and slots.
        results: Vec<(u32, Vec<u32>)>,
    },
    /// The products so far are a group: `wgmma.commit_group`.
    Commit,
    /// At most so many of the youngest groups remain in flight: `wgmma.wait_group`.
    WaitProducts {
        /// Groups.
        pending: u32,
        /// Accumulators that groups in flight may hold: fragment and slots.
        results: Vec<(u32, Vec<u32>)>,
    },
}

/// An operand in shared memory: 8×8 matrices of rows of 16 bytes, as a descriptor says (PTX ISA 9.7.16.5.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tile {
    /// Buffer, position in [`super::Kernel::shared`].
    pub shared: u32,
    /// Offset of the first element, before the swizzle.
    pub offset: Expr,
    /// Whether elements lie side by side along k, not along m or n.
    pub k_major: bool,
    /// Bytes of the swizzle's span: 32, 64 or 128.
    pub swizzle: u32,
    /// Bytes from one span to the next along the contiguous dimension.
    pub leading: u32,
    /// Bytes from eight rows to the next eight.
    pub stride: u32,
}

/// Threads of a CTA with a program of their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Role {
    /// First thread, a multiple of 32.
    pub first: u32,
    /// Threads, a multiple of 32.
    pub threads: u32,
    /// Registers that each of them takes, from 24 to 240 by 8: `setmaxnreg`. Whole warpgroups only.
    pub registers: Option<u32>,
    /// What they do.
    pub body: Vec<Stmt>,
}

impl Stmt {
    /// The blocks directly inside.
    pub fn blocks(&self) -> Vec<&[Stmt]> {
        match self {
            Stmt::For { body, .. } | Stmt::One { body, .. } => vec![body],
            Stmt::If { then, otherwise, .. } => vec![then, otherwise],
            Stmt::Roles(roles) => roles.iter().map(|r| r.body.as_slice()).collect(),
            _ => Vec::new(),
        }
    }

    /// The blocks directly inside.
    pub fn blocks_mut(&mut self) -> Vec<&mut Vec<Stmt>> {
        match self {
            Stmt::For { body, .. } | Stmt::One { body, .. } => vec![body],
            Stmt::If { then, otherwise, .. } => vec![then, otherwise],
            Stmt::Roles(roles) => roles.iter_mut().map(|r| &mut r.body).collect(),
            _ => Vec::new(),
        }
    }
}

//! Asynchronous operations: mbarriers, tensor copies (TMA), and MMAs that read shared memory (`wgmma`).
//!
//! They are rows as [statements](super::statements) are.
//!
//! An mbarrier is two words of a shared buffer of type `i32`; stages of a ring have one each. A thread that waits for a
//! phase sees what was written before the arrivals that completed it, and what copies that completed it wrote.
//! The asynchronous proxy, by which tensor copies write and products read, sees ordinary stores only after a proxy fence
//! of the thread that made them.
//!
//! Source: PTX ISA 9.7.13.15 (`mbarrier`), 9.7.9.27 (`cp.async.bulk.tensor`), 9.7.16 (`wgmma`), 9.7.13.4 (`fence.proxy`).

use super::{
    Expr, Stmt, Var,
    visit::{Access::*, Meets::*, statements},
};
use crate::{dtype::DType, nest::Atom};
use serde::{Deserialize, Serialize};

statements! {
    /// An asynchronous operation, or a wait for one.
    Async:

    /// One thread of the CTA initialises the mbarriers of a ring, and makes them known to the asynchronous proxy. The
    /// others know of them after a barrier.
    "mbarriers full x 4 of 1"
    Init {
        /// Buffer, position in [`super::Kernel::shared`].
        barrier: u32,
        /// Stages.
        stages: u32,
        /// Arrivals that complete a phase.
        arrivals: u32,
    }: [
        meets(Program, "mbarriers that some threads do not know of")
        "mbarriers" ring(barrier) "x" number(stages) "of" number(arrivals)
    ];

    /// This thread arrives at an mbarrier: `mbarrier.arrive`, release at the scope of the CTA. At another
    /// CTA's it says that a stage has been read, and makes no write of this thread visible there: the scope of the cluster
    /// would be a fence of the whole device.
    "arrive shared full[%0] expect 8192"
    Arrive {
        /// Buffer.
        barrier: u32,
        /// Stage.
        stage: Expr,
        /// Bytes that copies will bring in this phase: `expect_tx`.
        bytes: Option<u32>,
        /// The CTA of the cluster whose mbarrier it is, `i32`; its own otherwise. No bytes are expected there.
        cta: Option<Expr>,
    }: [
        "arrive" shared(barrier, stage, Mbarrier) indexed("of", cta, "stage, parity or coordinate")
        numbered("expect", bytes)
    ];

    /// Waits until the phase of a parity is complete: `mbarrier.try_wait.parity`, acquire at the same scope.
    "await shared full[%0] parity %1"
    Wait {
        /// Buffer.
        barrier: u32,
        /// Stage.
        stage: Expr,
        /// 0 or 1, `i32`.
        parity: Expr,
    }: ["await" shared(barrier, stage, Mbarrier) "parity" index(parity, "stage, parity or coordinate")];

    /// Whether the phase of a parity is complete by now: `mbarrier.test_wait.parity`, acquire at the same scope where it is.
    "look %2: bool = shared full[%0] parity %1"
    Look {
        /// Whether it is.
        dst: Var,
        /// Buffer.
        barrier: u32,
        /// Stage.
        stage: Expr,
        /// 0 or 1, `i32`.
        parity: Expr,
    }: [
        "look" own(dst, DType::Bool) "=" shared(barrier, stage, Mbarrier) "parity" index(parity, "stage, parity or coordinate")
    ];

    /// A box of a tensor to shared memory, zeros where it leaves the tensor: `cp.async.bulk.tensor`. The bytes of the box
    /// count at an mbarrier when they have arrived.
    "tensor shared s[%0] <- x.map[%1, 0] completes shared full[%2] everywhere"
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
        /// Its stage.
        stage: Expr,
        /// To the same place in all CTAs of the cluster, each with its own mbarrier: `.multicast::cluster`.
        everywhere: bool,
    }: [
        "tensor" shared(shared, offset, Box) "<-" boxed(map, coordinates) "completes" shared(barrier, stage, Mbarrier)
        flag("everywhere", everywhere)
    ];

    /// A box in shared memory to a tensor, what lies outside of it left out: `cp.async.bulk.tensor` from shared memory.
    "send y.map[%0, 0] <- shared s[%1]"
    Store {
        /// Tensor map, position in [`super::Kernel::params`].
        map: u32,
        /// Source, position in [`super::Kernel::shared`].
        shared: u32,
        /// Offset of the first element.
        offset: Expr,
        /// First element of the box, fastest dimension first.
        coordinates: Vec<Expr>,
    }: ["send" boxed(map, coordinates) "<-" shared(shared, offset, Box)];

    /// This thread's stores so far are a group: `cp.async.bulk.commit_group`.
    "stores commit"
    CommitStores: ["stores commit"];

    /// All but so many of this thread's youngest groups have read what they store: `cp.async.bulk.wait_group.read`.
    "stores wait 0"
    WaitStores {
        /// Groups.
        pending: u32,
    }: ["stores wait" number(pending)];

    /// All that this thread has stored is written: `cp.async.bulk.wait_group 0`.
    "stores written"
    AwaitWritten: ["stores written"];

    /// What was written to a tensor map in global memory before the kernel is seen by the copies of this thread that name it:
    /// `fence.proxy.tensormap::generic.acquire` (PTX ISA 9.7.13.4). Maps among the parameters of the launch need none.
    "acquire x.map"
    AcquireMap {
        /// Tensor map, position in [`super::Kernel::params`].
        map: u32,
    }: ["acquire" map(map)];

    /// A tensor map is about to be named by copies: `prefetch.tensormap` (PTX ISA 9.7.9.15). Without, the first copy waits for it.
    "prefetch x.map"
    PrefetchMap {
        /// Tensor map, position in [`super::Kernel::params`].
        map: u32,
    }: ["prefetch" map(map)];

    /// What this thread has stored to shared memory is seen by the asynchronous proxy: `fence.proxy.async`.
    "proxy_fence"
    ProxyFence: ["proxy_fence"];

    /// A product of a warpgroup: accumulators += a · b. Between [`Async::Commit`] and the wait for its group the
    /// accumulators, and registers of the first operand, belong to the instruction.
    "wgmma64x8 acc[0, 1] += shared h[0] major k swizzle 128 leading 16 stride 1024 x shared h[%0] major mn swizzle 64 leading 16 stride 512 overwrites %1"
    Multiply {
        /// The instruction.
        atom: Atom,
        /// Accumulators, position in [`super::Kernel::frags`].
        frag: u32,
        /// Their slots, in the order of the instruction's registers.
        slots: Vec<u32>,
        /// First operand.
        a: Rows,
        /// Second operand.
        b: Tile,
        /// Where true, the product overwrites the accumulators, which may be undefined; the same in all threads of the
        /// warpgroup.
        overwrites: Option<Expr>,
    }: [
        meets(Warp, "a product of a warpgroup")
        atom(atom, true) slots(frag, slots) "+=" rows(a) "x" tile(b) whether("overwrites", overwrites, "condition")
    ];

    /// What this thread has written to accumulators and operands is seen by the products that follow: `wgmma.fence`.
    "products fence acc[0, 1]"
    Fence {
        /// Accumulators and operands: fragment and slots.
        results: Vec<(u32, Vec<u32>)>,
    }: [meets(Warp, "products") "products fence" results(results)];

    /// The products so far are a group: `wgmma.commit_group`.
    "products commit"
    Commit: [meets(Warp, "products") "products commit"];

    /// At most so many of the youngest groups remain in flight: `wgmma.wait_group`.
    "products wait 1 acc[0, 1]"
    WaitProducts {
        /// Groups.
        pending: u32,
        /// Accumulators and operands that groups in flight may hold: fragment and slots.
        results: Vec<(u32, Vec<u32>)>,
    }: [meets(Warp, "products") "products wait" number(pending) results(results)];

    /// Puts other elements in the registers of an operand, behind the wait for the products that have read it. No assembler puts them
    /// there before.
    "products replace acc[0, 1] = acc[2, 3]"
    Replace {
        /// The operand, position in [`super::Kernel::frags`].
        frag: u32,
        /// Its slots.
        slots: Vec<u32>,
        /// What has the other elements, as many.
        by: u32,
        /// Its slots.
        from: Vec<u32>,
    }: ["products replace" slots(frag, slots) "=" slots(by, from)];
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

/// The first operand of a product of a warpgroup.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Rows {
    /// In shared memory.
    Shared(Tile),
    /// In registers, as elements in the order of the instruction (PTX ISA 9.7.16.5.1.1).
    Held {
        /// Position in [`super::Kernel::frags`].
        frag: u32,
        /// Their slots.
        slots: Vec<u32>,
    },
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

//! The statements, each a row: what it looks like, its fields, and the pieces of its text with the role of each operand.
//!
//! From the row follow the text form and its parser, the types and scopes that [`super::verify`] checks, where threads
//! may differ, and what each walk over a kernel finds. `visit` defines the roles. Asynchronous operations have
//! a table beside, in [`super::asynchronous`].
//!
//! A statement that is new needs besides its row its meaning in [`super::interpret`], its code in `backend-ptx`, and the
//! lowering that makes it; a rule of its own, such as how many operands it has, goes to [`super::verify`].

use super::{
    Async, DType, Expr, Group, Mem, Role, Var,
    visit::{Access::*, Meets::*, statements},
};
#[cfg(doc)]
use super::{Frag, Kernel};
use crate::{nest::Atom, op::RedOp};
use serde::{Deserialize, Serialize};

statements! {
    /// Statements.
    Stmt:

    /// Defines a scalar.
    "let %0: i32 = (cta * 64)"
    Let(var: Var, value: Expr): ["let" def(var) "=" value(value, "value")];

    /// Loads `dst.len()` consecutive elements (1, 2, 4 or 8; at most 16 bytes, aligned to their size).
    "load %0, %1: f32 = x[%2] if %3"
    Load {
        /// One variable an element, of the buffer's element type.
        dst: Vec<Var>,
        /// Buffer.
        mem: Mem,
        /// Offset of the first element.
        offset: Expr,
        /// Where false, the result is zero and memory is not touched.
        guard: Option<Expr>,
    }: ["load" defs(dst) "=" place(mem, offset, Read) guard(guard)];

    /// Stores consecutive elements, as [`Stmt::Load`].
    "store y[%0] = %1, f32(0.0) if %2"
    Store {
        /// Buffer.
        mem: Mem,
        /// Offset of the first element.
        offset: Expr,
        /// One value an element, of the buffer's element type.
        values: Vec<Expr>,
        /// Where false, nothing happens.
        guard: Option<Expr>,
    }: ["store" place(mem, offset, Write) "=" values(values, "stored value") guard(guard)];

    /// Writes a register slot.
    "set acc[1] = fma(%0, %1, acc[1])"
    Set {
        /// Position in [`Kernel::frags`].
        frag: u32,
        /// Slot, below [`Frag::slots`].
        slot: u32,
        /// New value.
        value: Expr,
    }: ["set" slot(frag, slot) "=" value(value, "slot")];

    /// A loop at run time. `var` has the type of the bounds.
    "for %0: i32 in 0 to dim(N) step 8 { }"
    For {
        /// Counter, in scope in the body only.
        var: Var,
        /// First value.
        start: Expr,
        /// Exclusive end; no step runs where `start >= end`.
        end: Expr,
        /// Positive increment.
        step: Expr,
        /// One step.
        body: Vec<Stmt>,
    }: [
        "for" def(var) "in" value(start, "loop start") "to" value(end, "loop end") "step" value(step, "loop step")
        block(body)
    ];

    /// A loop that goes on while its condition holds, which its steps change by register slots.
    "while (acc[0] < f32(0.0)) { }"
    While {
        /// A `bool`, evaluated before each step.
        cond: Expr,
        /// One step.
        body: Vec<Stmt>,
    }: ["while" truth(cond, "condition") block(body)];

    /// A branch.
    "if %0 { } else { barrier }"
    If {
        /// A `bool`.
        cond: Expr,
        /// Runs where it is true.
        then: Vec<Stmt>,
        /// Runs where it is false.
        otherwise: Vec<Stmt>,
    }: ["if" truth(cond, "condition") block(then) otherwise(otherwise)];

    /// `cp.async` of `elems` consecutive elements (4, 8 or 16 bytes), zero-filled where the guard is false.
    "copy shared s[%0] <- x[%1] x 4 if %2"
    CopyAsync {
        /// Destination, position in [`Kernel::shared`].
        shared: u32,
        /// Offset of the first element written.
        shared_offset: Expr,
        /// Source, position in [`Kernel::params`].
        global: u32,
        /// Offset of the first element read.
        global_offset: Expr,
        /// Elements moved.
        elems: u32,
        /// Where false, zeros are written and global memory is not touched.
        guard: Option<Expr>,
    }: [
        "copy" shared(shared, shared_offset, Write) "<-" global(global, global_offset, Read) "x" elems(elems)
        guard(guard)
    ];

    /// `cp.async.commit_group`.
    "commit"
    CommitGroup: ["commit"];

    /// `cp.async.wait_group n`: at most `n` youngest groups of this thread remain in flight.
    "wait 1"
    WaitGroup(pending: u32): ["wait" number(pending)];

    /// `bar.sync 0`: all threads of the CTA.
    "barrier"
    Barrier: [meets(Cta, "a barrier that some threads may not reach") "barrier"];

    /// `bar.sync id, threads`: those of a role.
    "barrier 1 of 128"
    GroupBarrier(group: Group): [
        meets(Program, "a barrier that some threads may not reach") apart()
        group(group)
    ];

    /// `barrier.cluster.arrive`, `barrier.cluster.wait`: all threads of the cluster.
    "cluster_barrier"
    ClusterBarrier: [
        meets(Program, "a barrier of the cluster that some threads may not reach") apart()
        "cluster_barrier"
    ];

    /// `barrier.cluster.arrive.relaxed`: this thread runs. What it has done so far is not ordered before what others do behind
    /// the wait; that would be a fence of the whole device.
    "cluster arrive"
    ClusterArrive: [
        meets(Program, "a barrier of the cluster that some threads may not reach") apart()
        "cluster arrive"
    ];

    /// `barrier.cluster.wait`: all threads of the cluster have arrived.
    "cluster wait"
    ClusterWait: [
        meets(Program, "a barrier of the cluster that some threads may not reach") apart()
        "cluster wait"
    ];

    /// Stores consecutive elements, as [`Stmt::Store`], into the shared memory of another CTA of the cluster: `mapa`,
    /// `st.shared::cluster` (PTX ISA 9.7.9.23, 9.7.9.11). That CTA runs, and all threads of the cluster have met since it
    /// accessed those bytes; they meet once more before it does again, or ends.
    "peer shared s[%0] of %1 = %2, %3"
    StorePeer {
        /// Buffer, position in [`Kernel::shared`].
        shared: u32,
        /// Offset of the first element.
        offset: Expr,
        /// Number of the CTA in its cluster, `i32`.
        cta: Expr,
        /// One value an element, of the buffer's element type.
        values: Vec<Expr>,
    }: [
        apart()
        "peer" shared(shared, offset, Peer) "of" index(cta, "CTA of the cluster") "=" values(values, "stored value")
    ];

    /// `bar.warp.sync`: the lanes of each warp.
    "warp barrier"
    WarpBarrier: [meets(Warp, "a barrier of a warp") apart() "warp barrier"];

    /// `griddepcontrol.wait`, then `griddepcontrol.launch_dependents` (PTX ISA 9.7.13.13): each thread waits until the grids
    /// before this one have ended and their stores are visible, then lets the grid behind this one begin. That one waits for
    /// the end of this one in its turn, so the signal may be as early as this, and where one grid runs no more than one waits.
    "dependency"
    GridDependency: [meets(Program, "a dependency that the launch does not have") "dependency"];

    /// From here to the end of the block the parameters are those of the problem that a tile belongs to. The tiles of a
    /// problem are numbered one behind the other, and the problems follow one another.
    "problem %0: i32 = cta"
    Problem {
        /// The tile's number among those of its problem, `i32`.
        dst: Var,
        /// Its number among those of all problems, `i32`, below [`Expr::Tiles`]; the same in all threads that run this.
        tile: Expr,
    }: [table() "problem" common(dst, DType::I32) "=" index(tile, "number of a tile")];

    /// One thread of the warp that begins at `thread` runs the body; the others go on.
    "one thread 0 { }"
    One {
        /// First thread of the warp.
        thread: u32,
        /// What it does.
        body: Vec<Stmt>,
    }: [
        meets(Program, "a thread is chosen where some may not be") apart()
        "one thread" number(thread) alone(body)
    ];

    /// Each thread of the CTA runs the program of its role, and goes on when it has.
    "roles { threads 0 to 128 registers 232 { barrier } threads 128 to 256 { } }"
    Roles(roles: Vec<Role>): [
        meets(Program, "roles that some threads do not have") apart()
        "roles" roles(roles)
    ];

    /// Asynchronous copies and MMAs, and what says that they are complete.
    "proxy_fence"
    Async(operation: Async): [apart() asynchronous(operation)];

    /// The lives of shared buffers begin, positions in [`Kernel::shared`]: the bytes that they share with others are theirs
    /// from here on, without a value. Takes no instruction; all threads have left the others, [`mod@super::verify`] sees to it.
    "live s, h"
    Live(buffers: Vec<u32>): [
        meets(Program, "a life that begins for some threads alone")
        "live" lives(buffers)
    ];

    /// `shfl.sync.bfly` by `mask` over the full warp; 32-bit types, narrower ones are widened around it.
    "shuffle %0: f32 = %1 xor 16"
    Shuffle {
        /// The other lane's value.
        dst: Var,
        /// This lane's value.
        value: Expr,
        /// Lane exchanged with: lane xor `mask`, below 32.
        mask: u32,
    }: [meets(Warp, "a shuffle") "shuffle" lane(dst) "=" value(value, "value") "xor" number(mask)];

    /// `shfl.sync.up` (PTX ISA 9.7.9.6) over the full warp: the value of the lane that is `by` before this one, in groups of `width`
    /// lanes. Lanes that have none there get their own.
    "shift %0: f32 = %1 by 4 in 16"
    ShuffleUp {
        /// The other lane's value.
        dst: Var,
        /// This lane's value.
        value: Expr,
        /// Lanes between the two.
        by: u32,
        /// Lanes of a group, a power of two.
        width: u32,
    }: [
        meets(Warp, "a shuffle") "shift" lane(dst) "=" value(value, "value") "by" number(by) "in" number(width)
    ];

    /// `shfl.sync.idx` (PTX ISA 9.7.9.6) over the full warp: the value of the lane whose number has all bits of `mask`, and this lane's
    /// other ones.
    "last %0: f32 = %1 of 12"
    ShuffleLast {
        /// The other lane's value.
        dst: Var,
        /// This lane's value.
        value: Expr,
        /// Bits of lanes, below 32.
        mask: u32,
    }: [meets(Warp, "a shuffle") "last" lane(dst) "=" value(value, "value") "of" number(mask)];

    /// `ldmatrix` (PTX ISA 9.7.15.5.15): the warp loads 8×8 matrices of 16-bit elements. Lane 8·q + r gives the address of
    /// row r of matrix q; each lane gets two elements of each matrix, those of row lane/4 at columns 2·(lane mod 4) and
    /// the next. Lanes beyond the last matrix give no address. Of 32-bit elements, a matrix is 8×4, and each lane gets
    /// that of row lane/4 at column lane mod 4.
    "matrices %0, %1: bf16 = shared h[%2] transposed"
    LoadMatrices {
        /// Two variables a matrix, one of 32-bit elements; 1, 2 or 4 matrices.
        dst: Vec<Var>,
        /// Source, position in [`Kernel::shared`].
        shared: u32,
        /// Offset of this lane's row, a multiple of 16 bytes.
        offset: Expr,
        /// Rows and columns exchanged while loading; 16-bit elements only.
        transposed: bool,
    }: [
        meets(Warp, "a load of matrices")
        "matrices" defs(dst) "=" shared(shared, offset, Matrices) flag("transposed", transposed)
    ];

    /// `stmatrix` (PTX ISA 9.7.15.5.16): the warp stores 8×8 matrices of 16-bit elements. Lane 8·q + r gives the address
    /// of row r of matrix q, a multiple of 16 bytes; each lane has two elements of each matrix, as in
    /// [`Stmt::LoadMatrices`].
    "store_matrices shared h[%0] transposed = %1, %2"
    StoreMatrices {
        /// Destination, position in [`Kernel::shared`].
        shared: u32,
        /// Offset of this lane's row.
        offset: Expr,
        /// Two elements a matrix; 1, 2 or 4 matrices.
        values: Vec<Expr>,
        /// Rows and columns exchanged while storing.
        transposed: bool,
    }: [
        meets(Warp, "a store of matrices")
        "store_matrices" shared(shared, offset, Matrices) flag("transposed", transposed)
        "=" values(values, "element of a matrix")
    ];

    /// The four lanes that have pairs of a row of four 8×8 matrices of 16-bit elements, as in [`Stmt::LoadMatrices`],
    /// exchange them: each gets the whole of that row, lane 4·r + q of matrix q.
    "exchange %0, %1: bf16 = %2, %3"
    ExchangeMatrices {
        /// Eight elements side by side.
        dst: Vec<Var>,
        /// Two elements of each matrix, eight in all.
        values: Vec<Expr>,
    }: [
        meets(Warp, "an exchange of matrices")
        "exchange" defs(dst) "=" values(values, "element of a matrix")
    ];

    /// The four lanes of a row have pairs of 8-bit elements of it: in both of two 8×8 matrices side by side, columns 2·q and 2·q + 1
    /// of lane 4·r + q, and as much of a second row. They exchange them: each gets columns 4·q to 4·q + 3 of both rows.
    "join %0, %1: f8 = %2, %3"
    JoinTwos {
        /// Four elements side by side of the first row, and four of the second.
        dst: Vec<Var>,
        /// Of each matrix, a pair of the first row and one of the second.
        values: Vec<Expr>,
    }: [meets(Warp, "an exchange of pairs") "join" defs(dst) "=" values(values, "element of a pair")];

    /// Transposes an 8×8 matrix of 16-bit elements that a warp holds as in [`Stmt::LoadMatrices`]: `movmatrix`.
    "transpose %0, %1: bf16 = %2, %3"
    TransposeMatrix {
        /// Two elements side by side of the transposed matrix.
        dst: Vec<Var>,
        /// Two elements side by side of the matrix.
        values: Vec<Expr>,
    }: [meets(Warp, "a transposition") "transpose" defs(dst) "=" values(values, "element of a matrix")];

    /// An instruction that a warp executes together: accumulators += a · b.
    "mma acc[0, 1, 2, 3] += %0, %1 x %2, %3"
    Mma {
        /// The instruction.
        atom: Atom,
        /// Accumulators, position in [`Kernel::frags`].
        frag: u32,
        /// Their slots, in the order of the instruction's registers.
        slots: Vec<u32>,
        /// Elements of the first operand, likewise: variables or slots.
        a: Vec<Expr>,
        /// Elements of the second operand, likewise.
        b: Vec<Expr>,
    }: [
        meets(Warp, "an instruction of a warp")
        atom(atom, false) slots(frag, slots) "+=" operands(a) "x" operands(b)
    ];

    /// `red.relaxed` (PTX ISA 9.7.13.9) on consecutive elements of a buffer, as [`Stmt::Store`]: of the GPU on a tensor, of the
    /// CTA in shared memory.
    "combine y[%0] sum %1, %2 if %3"
    Combine {
        /// How the values are combined with what is there.
        op: RedOp,
        /// Buffer.
        mem: Mem,
        /// Offset of the first element.
        offset: Expr,
        /// One an element, `f32`, or `i32` or `u32`.
        values: Vec<Expr>,
        /// Where false, nothing happens.
        guard: Option<Expr>,
    }: ["combine" place(mem, offset, Combine) reduction(op) values(values, "operand") guard(guard)];

    /// How many of `most` numbers have been taken of a counter before; this thread takes one. The counter starts at zero, and whoever takes
    /// the last leaves it at zero. `atom.relaxed.gpu.inc` (PTX ISA 9.7.13.8).
    "take %0: i32 = p[%1] of %2"
    Take {
        /// An `i32`.
        dst: Var,
        /// Scratch parameter of type `i32`, by its position in [`Kernel::params`].
        counters: u32,
        /// Which counter.
        offset: Expr,
        /// How many are taken before the counter is zero again, at least 1.
        most: Expr,
    }: [apart() "take" own(dst, DType::I32) "=" global(counters, offset, Counter) "of" value(most, "numbers to take")];

    /// Decoupled look-back: the first warp publishes what the CTA's step adds, finds out what all steps before it add, and publishes
    /// what is known behind it. Its lanes have the result, other threads `start`. Each step has a word of 64 bits: its value, and whether that is of the step alone (1) or of all steps up to it (2). The words are
    /// zero at first. Step 0 finds `start`. All threads have the same operands.
    /// `st.relaxed.gpu.b64`, `ld.relaxed.gpu.b64` (PTX ISA 9.7.9.8): value and flag come in one access.
    "look back %0: f32 = p[%1] step %2 sum %3 from f32(0.0)"
    LookBack {
        /// Of the type of the value.
        dst: Var,
        /// Scratch parameter of type `i32`, by its position in [`Kernel::params`]: two a word.
        words: u32,
        /// Where the word of step 0 is, an even number of elements.
        offset: Expr,
        /// The step, an `i32`.
        step: Expr,
        /// How steps combine.
        op: RedOp,
        /// What the step adds, of 32 bits.
        value: Expr,
        /// What combining leaves as it is.
        start: Expr,
    }: [
        meets(Cta, "a look-back that some threads may not reach") apart()
        "look back" lane(dst) "=" global(words, offset, Words) "step" index(step, "step")
        reduction(op) value(value, "what a step adds") "from" value(start, "neutral element")
    ];

    /// Loads a number that all threads find alike.
    "alike %0: i32 = shared s[%1]"
    Alike {
        /// An `i32`.
        dst: Var,
        /// Buffer, position in [`Kernel::shared`].
        shared: u32,
        /// Offset; the same in all threads.
        offset: Expr,
    }: ["alike" common(dst, DType::I32) "=" shared(shared, offset, Read)];

    /// All threads of `parts` CTAs meet at a counter, without waiting: `dst` is true in every thread of the CTA that
    /// arrives last, which sees what the others stored to global memory before. A barrier of each CTA, or of its first
    /// threads where others have a role of their own.
    /// The counter starts at zero and is left at zero. `bar.sync`, `atom.acq_rel.gpu.inc` (PTX ISA 9.7.13.8) by
    /// one thread, `bar.red.or`.
    "last %0: bool = arrive p[%1] of 4 by barrier 1 of 128 if %2"
    Arrive {
        /// A `bool`, the same in all threads of the CTA.
        dst: Var,
        /// Scratch parameter of type `i32`, by its position in [`Kernel::params`].
        counters: u32,
        /// Which counter; the same in all threads of the CTA.
        offset: Expr,
        /// CTAs that meet there, at least 1; the same in all threads of the CTA.
        parts: Expr,
        /// The same in all threads of the CTA. Where false, nothing is counted and `dst` is true.
        guard: Option<Expr>,
        /// Those that come, the first threads of the CTA; `None` if all do.
        group: Option<Group>,
    }: [
        meets(Program, "an arrival that some threads may not reach")
        "last" common(dst, DType::Bool) "= arrive" global(counters, offset, Counter) "of" index(parts, "CTAs")
        grouped("by", group) guard(guard)
    ];
}

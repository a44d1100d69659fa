//! The chapters of the ladder in f32.

use super::multiply;
use crate::matmul::{
    blocktile_2d, coalesced, double_buffered, matmul, prefetched, shared, vectorized, warptile,
};
use tilewright::{
    prelude::*,
    sim::{Counters, InstClass},
};

// ANCHOR: solution_memory
schedule! {
    /// Half the step of k: half the shared memory, twice the barriers.
    pub shared_by_32 = shared { tile(k = 32); }
}
// ANCHOR_END: solution_memory

#[test]
fn half_a_step() {
    let size = [64, 64, 320];
    let (whole, half) = (multiply(&shared, size), multiply(&shared_by_32, size));
    assert_eq!((whole.shared_bytes, half.shared_bytes), (16384, 8192));
    let barriers = |report: &tilewright::LaunchReport| report.counters.as_ref().expect("counts").barriers;
    assert_eq!(barriers(&half), 2 * barriers(&whole));
    let sectors =
        |report: &tilewright::LaunchReport| report.counters.as_ref().expect("counts").global_load.sectors;
    assert_eq!(sectors(&half), sectors(&whole));
}

// ANCHOR: registers_alone
schedule! {
    /// Four by four elements a thread, and no shared memory.
    pub registers_alone for matmul<f32> {
        tile(i = 64, j = 64, k = 8);
        split(i -> it, ir: 4);
        split(j -> jr, jt: 16);
        reorder(k, ir, jr);
        unroll(k);
        bind(it -> thread.y, jt -> thread.x);
    }
}

#[test]
fn a_register_tile_without_shared_memory() {
    let size = [64, 64, 64];
    let counters = |schedule| multiply(schedule, size).counters.unwrap();
    let (bare, tiled, staged) = (counters(&coalesced), counters(&registers_alone), counters(&shared));
    let bytes = |counters: &Counters| counters.global_load.bytes / counters.class(InstClass::Fma).thread;
    // Bytes of a lane that it asks of global memory for a multiply-add: two operands, half an operand, 2/32 of one.
    assert_eq!((bytes(&bare), bytes(&tiled)), (8, 2));
    assert!(staged.global_load.bytes * 8 == tiled.global_load.bytes);
}
// ANCHOR_END: registers_alone

// ANCHOR: solution_registers
schedule! {
    /// Four by eight elements a thread, twice the threads.
    pub blocktile_4x8 = blocktile_2d { split(i -> it, ir: 4); }
}
// ANCHOR_END: solution_registers

#[test]
fn half_the_rows() {
    let size = [128, 128, 64];
    let operands = |schedule| {
        let counters = multiply(schedule, size).counters.expect("counts");
        counters.shared_load.bytes as f64 / 4.0 / counters.class(InstClass::Fma).thread as f64
    };
    // 8 + 8 operands serve 64 multiply-adds, 4 + 8 serve 32.
    assert_eq!((operands(&blocktile_2d), operands(&blocktile_4x8)), (16.0 / 64.0, 12.0 / 32.0));
}

// ANCHOR: too_early
schedule! {
    /// The copies of `shared`, 16 bytes at once.
    pub shared_wide = shared { stage(a, b at k: shared, vector(16)); }
    /// And two stages of them, past the registers.
    pub shared_wide_double = shared_wide {
        tile(k = 32);
        stage(a, b at k: shared, cp_async, vector(16));
        pipeline(k, 2);
    }
}

#[test]
fn wide_copies_do_not_help_where_shared_memory_is_the_limit() {
    let counters = |schedule| multiply(schedule, [64, 64, 128]).counters.unwrap();
    let [narrow, wide, double] = [counters(&shared), counters(&shared_wide), counters(&shared_wide_double)];
    assert_eq!(narrow.global_load.requests, 4 * wide.global_load.requests);
    assert_eq!(narrow.global_load.sectors, wide.global_load.sectors);
    // What limits all three: wavefronts of the loads of operands.
    assert_eq!(narrow.shared_load.wavefronts, wide.shared_load.wavefronts);
    assert_eq!(narrow.shared_load.wavefronts, double.shared_load.wavefronts);
}
// ANCHOR_END: too_early

// ANCHOR: solution_vectors
schedule! {
    /// B by single elements again, everything else as it was.
    pub narrow_b = vectorized { stage(b at k: shared); }
}
// ANCHOR_END: solution_vectors

#[test]
fn narrow_copies_of_b() {
    let size = [128, 128, 64];
    let requests = |schedule| {
        let counters = multiply(schedule, size).counters.expect("counts");
        (
            counters.buffer("a", tilewright::sim::Access::Load).requests,
            counters.buffer("b", tilewright::sim::Access::Load).requests,
        )
    };
    let ((a, b), (same, more)) = (requests(&vectorized), requests(&narrow_b));
    assert_eq!((same, more), (a, 4 * b));
}

// ANCHOR: solution_warps
schedule! {
    /// Rows of A's copy side by side, without the 16 bytes between.
    pub unpadded = warptile { drop(pad(a)); }
}
// ANCHOR_END: solution_warps

#[test]
fn without_the_pad() {
    let size = [128, 128, 64];
    let of = |schedule| {
        let counters = multiply(schedule, size).counters.expect("counts");
        (counters.shared_store, counters.shared_load)
    };
    let ((padded, loads), (plain, same)) = (of(&warptile), of(&unpadded));
    assert!(plain.wavefronts > padded.wavefronts && plain.bank_conflicts > padded.bank_conflicts);
    assert_eq!(same, loads);
}

// ANCHOR: solution_latency
schedule! {
    /// A third buffer: copies are two steps ahead.
    pub triple_buffered = double_buffered { pipeline(k, 3); }
}
// ANCHOR_END: solution_latency

#[test]
fn a_third_buffer() {
    let size = [128, 128, 96];
    let (two, three) = (multiply(&double_buffered, size), multiply(&triple_buffered, size));
    assert_eq!(2 * three.shared_bytes, 3 * two.shared_bytes);
    let loads = |report: &tilewright::LaunchReport| report.counters.as_ref().expect("counts").global_load;
    assert_eq!(loads(&three), loads(&two));
    multiply(&prefetched, size);
}

//! Slots sorted by expert, in blocks of one expert each: counted, not compared and swapped, so that equal experts keep their order.

use tilewright::prelude::*;

/// How many slots before part p go to each expert: a part has `each` slots, and the last row has the sums.
#[tile_kernel]
pub fn slots_before(at: &Tensor<i32, L>, before: &mut Tensor<i32, P, E>, each: i32) {
    let (p, e) = program_tile(P, E);
    let l = whole(L).below(p * each);
    store(before, [p, e], sum((load(at, [l]) == e).cast::<i32>(), l));
}

/// The expert of each block, −1 behind the last, and no token in any of them. Blocks of an expert begin where those of the experts before
/// it end.
#[tile_kernel]
pub fn empty_blocks(count: &Tensor<i32, E>, expert: &mut Tensor<i32, Z>, token: &mut Tensor<i32, Z, R>) {
    let z = program_tile(Z);
    let (e, i) = whole(E, R);
    let f = whole(E).below(e + 1);
    let end = sum((load(count, [f]) + R - 1) / R, f);
    let passed = sum((end <= z).cast::<i32>(), e);
    store(expert, [z], select(passed < E, passed, -1));
    store(token, [z, i], full::<i32>(-1, [z, i]));
}

/// Each slot's place in the blocks: behind those of the experts before its own, and behind the slots of its own before it. A token has
/// `top` slots.
#[tile_kernel]
pub fn fill_blocks(
    at: &Tensor<i32, L>,
    before: &Tensor<i32, P, E>,
    count: &Tensor<i32, E>,
    token: &mut Tensor<i32, M>,
    place: &mut Tensor<i32, L>,
    each: i32,
    block: i32,
    top: i32,
) {
    let l = program_tile(L);
    let own = load(at, [l]);
    let f = whole(E).below(own);
    let first = sum((load(count, [f]) + block - 1) / block, f) * block;
    let m = whole(L).between(l / each * each, l);
    let next = first + load(before, [l / each, own]) + sum((load(at, [m]) == own).cast::<i32>(), m);
    let known = select((own >= 0) & (own < E), next, -1);
    store(token, [unique(known)], l / top);
    store(place, [l], known);
}

schedule! {
    /// A lane an expert; 16 warps share the slots, four loads of four slots ahead.
    pub before_lanes for slots_before {
        tile(p = 1, e = 32);
        split(l -> lo, lu, lw, lv: 4, 16, 4);
        reduce(before.sum: cta);
        bind(lw -> warp.x, e -> lane.x);
        unroll(lu);
        vectorize(lv);
    }
    /// A warp a block.
    pub empty_lanes for empty_blocks {
        tile(z = 4);
        split(e -> eo, el: 32);
        split(i -> io, il: 32);
        fuse(end at e);
        reduce(passed: lane);
        bind(z -> warp.x, el -> lane.x, il -> lane.x);
    }
    /// A thread a slot, eight loads ahead.
    pub fill_threads for fill_blocks {
        tile(l = 128);
        split(f -> fo, fi: 8);
        split(m -> mo, mi: 8);
        bind(l -> thread.x);
        unroll(fi, mi);
    }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![before_lanes, empty_lanes, fill_threads];

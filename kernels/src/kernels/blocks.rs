//! Slots sorted by expert, in blocks of one expert each: counted, not compared and swapped, so that equal experts keep their order.

use tilewright::prelude::*;

/// How many slots before part p go to each expert. A part has 512 slots, and behind the last one are all.
#[tile_kernel]
pub fn slots_before(at: &Tensor<i32, L>, before: &mut Tensor<i32, P, E>) {
    let (p, e) = program_tile(P, E);
    let l = whole(L).below(512 * p);
    store(before, [p, e], sum((load(at, [l]) == e).cast::<i32>(), l));
}

/// Where the blocks of each expert end: it has a block for each `rows` of its slots, and another one for what is left.
#[tile_kernel]
pub fn block_ends(count: &Tensor<i32, E>, end: &mut Tensor<i32, E>, rows: i32) {
    let e = program_tile(E);
    let f = whole(E).below(e + 1);
    store(end, [e], sum((load(count, [f]) + rows - 1) / rows, f));
}

/// The expert of each block, −1 behind the last, and no token in any of them.
#[tile_kernel]
pub fn empty_blocks(end: &Tensor<i32, E>, expert: &mut Tensor<i32, Z>, token: &mut Tensor<i32, Z, R>) {
    let z = program_tile(Z);
    let (e, i) = whole(E, R);
    let passed = sum((load(end, [e]) <= z).cast::<i32>(), e);
    store(expert, [z], select(passed < E, passed, -1));
    store(token, [z, i], full::<i32>(-1, [z, i]));
}

/// Each slot's place in the blocks: behind those of the experts before its own, and behind the slots of its own before it. A token has
/// `top` slots.
#[tile_kernel]
pub fn fill_blocks(
    at: &Tensor<i32, L>,
    before: &Tensor<i32, P, E>,
    end: &Tensor<i32, E>,
    token: &mut Tensor<i32, M>,
    place: &mut Tensor<i32, L>,
    rows: i32,
    top: i32,
) {
    let l = program_tile(L);
    let own = load(at, [l]);
    let m = whole(L).between(l / 512 * 512, l);
    let near = sum((load(at, [m]) == own).cast::<i32>(), m);
    let next = load(end, [own - 1]) * rows + load(before, [l / 512, own]) + near;
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
    /// A warp an expert.
    pub ends_lanes for block_ends {
        tile(e = 4);
        split(f -> fo, fl: 32);
        reduce(end.sum: lane);
        bind(e -> warp.x, fl -> lane.x);
    }
    /// A warp a block.
    pub empty_lanes for empty_blocks {
        tile(z = 4);
        split(e -> eo, el: 32);
        split(i -> io, il: 32);
        reduce(passed: lane);
        bind(z -> warp.x, el -> lane.x, il -> lane.x);
    }
    /// A thread a slot, four loads of four others ahead.
    pub fill_threads for fill_blocks {
        tile(l = 128);
        split(m -> mo, mu, mv: 4, 4);
        bind(l -> thread.x);
        unroll(mu);
        vectorize(mv);
    }
}

schedule! {
    /// Begins while the launch before it ends.
    pub before_lanes_early on sm_90 = before_lanes { launch(dependent); }
    /// Begins while the launch before it ends.
    pub ends_lanes_early on sm_90 = ends_lanes { launch(dependent); }
    /// Begins while the launch before it ends.
    pub empty_lanes_early on sm_90 = empty_lanes { launch(dependent); }
    /// Begins while the launch before it ends.
    pub fill_threads_early on sm_90 = fill_threads { launch(dependent); }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![
    before_lanes,
    ends_lanes,
    empty_lanes,
    fill_threads,
    before_lanes_early,
    ends_lanes_early,
    empty_lanes_early,
    fill_threads_early
];

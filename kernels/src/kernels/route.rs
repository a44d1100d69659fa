//! The greatest elements of short rows, and where tokens go by them: without a sort.

use tilewright::prelude::*;

/// The C greatest elements of each row with their places, the greatest first, of equal ones the first first. An element's rank is the
/// number of those before it.
#[tile_kernel]
pub fn top_k<T: Float>(x: &Tensor<T, S, E>, value: &mut Tensor<T, S, C>, place: &mut Tensor<i32, S, C>) {
    let s = program_tile(S);
    let (e, f) = whole(E, E);
    let a = order(load(x, [s, e]));
    let b = order(load(x, [s, f]));
    let rank = sum(((b > a) | ((b == a) & (f < e))).cast::<i32>(), f);
    if rank < C {
        store(value, [s, unique(rank)], load(x, [s, e]));
        store(place, [s, unique(rank)], e);
    }
}

/// The C experts of each token with the greatest logits, and what softmax makes of these: over the `among` greatest.
#[tile_kernel]
pub fn route<T: Float>(
    x: &Tensor<T, S, E>,
    expert: &mut Tensor<i32, S, C>,
    gate: &mut Tensor<f32, S, C>,
    among: i32,
) {
    let s = program_tile(S);
    let (e, f) = whole(E, E);
    let a = order(load(x, [s, e]));
    let b = order(load(x, [s, f]));
    let rank = sum(((b > a) | ((b == a) & (f < e))).cast::<i32>(), f);
    let v = load(x, [s, e]).cast::<f32>();
    let p = exp(v - max(v, e));
    let total = sum(select(rank < among, p, 0.0), e);
    if rank < C {
        store(expert, [s, unique(rank)], e);
        store(gate, [s, unique(rank)], p / total);
    }
}

schedule! {
    /// A row a warp: each lane counts what is before its elements. Rows of up to 64.
    pub top_lanes for top_k<f32 | f16 | bf16> {
        fits(E <= 64);
        tile(s = 4);
        split(e -> eo, el: 32);
        split(f -> fo, fi: 8);
        fuse(b at f);
        reorder(fo, fi, eo in rank);
        bind(s -> warp.x, el -> lane.x);
        unroll(fi);
    }
    /// Rows of up to 256.
    pub top_long = top_lanes {
        fits(E <= 256);
        occupancy(8);
    }
}

schedule! {
    /// A row a warp: each lane counts what is before its elements. Rows of up to 64.
    pub route_lanes for route<f32 | f16 | bf16> = top_lanes { reduce(p.max, total: lane); }
    /// Rows of up to 256.
    pub route_long = route_lanes {
        fits(E <= 256);
        occupancy(8);
    }
}

schedule! {
    /// Begins while the launch before it ends.
    pub top_lanes_early on sm_90 = top_lanes { launch(dependent); }
    /// Begins while the launch before it ends.
    pub top_long_early on sm_90 = top_long { launch(dependent); }
    /// Begins while the launch before it ends.
    pub route_lanes_early on sm_90 = route_lanes { launch(dependent); }
    /// Begins while the launch before it ends.
    pub route_long_early on sm_90 = route_long { launch(dependent); }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![
    top_lanes,
    top_long,
    route_lanes,
    route_long,
    top_lanes_early,
    top_long_early,
    route_lanes_early,
    route_long_early
];

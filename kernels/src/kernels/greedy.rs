//! Where the greatest element of a row is.

use tilewright::prelude::*;

/// y = the first place of the greatest element of each row of x.
#[tile_kernel]
pub fn greedy<T: Float>(x: &Tensor<T, R, N>, y: &mut Tensor<i32, R>) {
    let r = program_tile(R);
    let n = whole(N);
    store(y, [r], argmax(load(x, [r, n]), n));
}

/// The same of part p of each row: the elements from `length`·p on, `length` of them. What a part has is its greatest element and the
/// first place of it.
#[tile_kernel]
pub fn greedy_parts<T: Float>(
    x: &Tensor<T, R, N>,
    most: &mut Tensor<f32, R, P>,
    place: &mut Tensor<i32, R, P>,
    length: i32,
) {
    let (r, p) = program_tile(R, P);
    let n = whole(N).between(p * length, (p + 1) * length);
    let v = load(x, [r, n]).cast::<f32>();
    let m = max(v, n);
    store(most, [r, p], m);
    // With a NaN among them the maximum is NaN, which equals nothing.
    store(place, [r, p], min(select((v == m) | (v != v), n, 2147483647), n));
}

/// The first of the greatest parts says the place.
#[tile_kernel]
pub fn greedy_joined(most: &Tensor<f32, R, P>, place: &Tensor<i32, R, P>, y: &mut Tensor<i32, R>) {
    let r = program_tile(R);
    let p = whole(P);
    store(y, [r], load(place, [r, argmax(load(most, [r, p]), p)]));
}

schedule! {
    /// A row a CTA, read twice: for the greatest element, and for its place.
    pub long for greedy<f32 | f16 | bf16> {
        tile(r = 1);
        split(n -> no, nt, nv: 1024, 4);
        reduce(y.max, y.min: cta);
        bind(nt -> thread.x);
        vectorize(nv);
    }
    /// A part a CTA, four loads of a thread ahead.
    pub parts for greedy_parts<f32 | f16 | bf16> {
        tile(r = 1, p = 1);
        split(n -> no, ni, nt, nv: 4, 256, 4);
        recompute(v);
        fuse(v at n);
        reduce(m, place.min: cta);
        bind(nt -> thread.x);
        unroll(ni);
        vectorize(nv);
    }
    /// A row a warp.
    pub joined for greedy_joined {
        tile(r = 1);
        split(p -> po, pl: 32);
        reduce(y.max, y.min: lane);
        bind(pl -> lane.x);
    }
    /// Begins while the launch before it ends.
    pub parts_early on sm_90 = parts { launch(dependent); }
    /// Begins while the launch before it ends.
    pub joined_early on sm_90 = joined { launch(dependent); }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![long, parts, joined, parts_early, joined_early];

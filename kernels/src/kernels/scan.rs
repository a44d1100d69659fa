//! What is known of all elements up to each: sums so far, places of those that are kept, where the rows of a group begin.

use tilewright::prelude::*;

/// y = the sums of x along its rows, up to each element. A tile is scanned, and what is before it is carried: rows have any length.
#[tile_kernel]
pub fn cumsum<T: Float>(x: &Tensor<T, R, N>, y: &mut Tensor<T, R, N>) {
    let r = program_tile(R);
    let mut before = zeros::<f32>([r]);
    for n in tiles(N) {
        let v = load(x, [r, n]).cast::<f32>();
        let s = cumsum(v, n);
        store(y, [r, n], (s + before).cast::<T>());
        before += sum(v, n);
    }
}

/// The elements of each row of x that are above a limit, in their order, from the start of y on; `count` says how many. What is behind them
/// in y stays.
#[tile_kernel]
pub fn compact<T: Float>(
    x: &Tensor<T, R, N>,
    limit: f32,
    y: &mut Tensor<T, R, N>,
    count: &mut Tensor<i32, R>,
) {
    let r = program_tile(R);
    let mut before = zeros::<i32>([r]);
    for n in tiles(N) {
        let v = load(x, [r, n]);
        let kept = (v.cast::<f32>() > limit).cast::<i32>();
        let place = cumsum(kept, n);
        if kept == 1 {
            store(y, [r, unique(before + place - 1)], v);
        }
        before += sum(kept, n);
    }
    store(count, [r], before);
}

/// Where groups begin and end whose elements stand one behind the other, in each of R lists: the tokens of an expert, the words of a text.
#[tile_kernel]
pub fn starts(lengths: &Tensor<i32, R, E>, first: &mut Tensor<i32, R, E>, end: &mut Tensor<i32, R, E>) {
    let r = program_tile(R);
    let mut before = zeros::<i32>([r]);
    for e in tiles(E) {
        let length = load(lengths, [r, e]);
        let s = cumsum(length, e);
        store(first, [r, e], before + s - length);
        store(end, [r, e], before + s);
        before += sum(length, e);
    }
}

schedule! {
    /// A row a thread.
    pub serial for cumsum<f32 | f16 | bf16> {
        tile(r = 32, n = 16);
        bind(r -> thread.x);
    }
    /// A row a CTA: four elements a thread, which lanes and then warps add up.
    pub rows for cumsum<f32 | f16 | bf16> {
        tile(r = 1, n = 1024);
        split(n -> nt, nv: 4);
        reduce(s, before.sum: cta);
        bind(nt -> thread.x);
        vectorize(nv);
    }
    /// Few long rows: CTAs share out the tiles of a row, and look back at the sums before theirs. Few threads with many elements each:
    /// more CTAs load while others look back.
    pub long for cumsum<f32 | f16 | bf16> {
        tile(r = 1, n = 8192);
        split(n -> nq, nr: 512);
        split(nr -> nt, nv: 4);
        reduce(s, before.sum: cta);
        bind(nt -> thread.x);
        unroll(nq);
        vectorize(nv);
        lookback(n, any_order);
    }
    /// A row a thread.
    pub compact_serial for compact<f32 | f16 | bf16> {
        tile(r = 32, n = 16);
        bind(r -> thread.x);
    }
    /// A row a CTA.
    pub compact_rows for compact<f32 | f16 | bf16> {
        tile(r = 1, n = 1024);
        split(n -> nt, nv: 4);
        reduce(place, before.sum: cta);
        bind(nt -> thread.x);
    }
    /// Few long rows, as `long`; the same places whichever CTA is first.
    pub compact_long for compact<f32 | f16 | bf16> {
        tile(r = 1, n = 8192);
        split(n -> nq, nr: 512);
        split(nr -> nt, nv: 4);
        reduce(place, before.sum: cta);
        bind(nt -> thread.x);
        unroll(nq);
        lookback(n);
    }
    /// A list a CTA.
    pub groups for starts {
        tile(r = 1, e = 1024);
        split(e -> et, ev: 4);
        reduce(s, before.sum: cta);
        bind(et -> thread.x);
    }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] =
    schedules![serial, rows, long, compact_serial, compact_rows, compact_long, groups];

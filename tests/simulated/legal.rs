//! Schedules that were refused once, in whole or at launch, though nothing is wrong with them.

use crate::support;

use support::agree;
use tilewright::{DType, Space};

/// Values that lack an axis of what is stored, and products of what is computed.
mod lacking {
    use tilewright::prelude::*;

    /// Each row of `y` over the sum of a row of `x`.
    #[tile_kernel]
    pub fn scaled(x: &Tensor<f32, M, K>, y: &Tensor<f32, M, N>, z: &mut Tensor<f32, M, N>) {
        let (i, j) = program_tile(M, N);
        let n = whole(K);
        let s = sum(load(x, [i, n]), n);
        store(z, [i, j], load(y, [i, j]) * s);
    }

    /// A bias that is used twice.
    #[tile_kernel]
    pub fn biased(x: &Tensor<f32, M, N>, bias: &Tensor<f32, N>, y: &mut Tensor<f32, M, N>) {
        let (i, j) = program_tile(M, N);
        let v = load(bias, [j]);
        store(y, [i, j], v * v + load(x, [i, j]));
    }

    /// Normalised rows, multiplied: the norm is summed in a loop of its own.
    #[tile_kernel]
    pub fn norm_mm(a: &Tensor<f32, M, K>, b: &Tensor<f32, K, N>, c: &mut Tensor<f32, M, N>) {
        let (i, j) = program_tile(M, N);
        let n = whole(K);
        let v = load(a, [i, n]);
        let s = rsqrt(sum(v * v, n) + 1.0);
        let mut acc = zeros::<f32>([i, j]);
        for k in tiles(K) {
            acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
        }
        store(c, [i, j], acc * s);
    }

    /// The same, summed beside the product.
    #[tile_kernel]
    pub fn rms_mm(x: &Tensor<f32, M, K>, w: &Tensor<f32, K, N>, y: &mut Tensor<f32, M, N>) {
        let (i, j) = program_tile(M, N);
        let mut g = zeros::<f32>([i, j]);
        let mut q = zeros::<f32>([i]);
        for k in tiles(K) {
            g = dot(load(x, [i, k]), load(w, [k, j]), g);
            q += sum(load(x, [i, k]) * load(x, [i, k]), k);
        }
        store(y, [i, j], g * rsqrt(q + 1.0));
    }

    /// The last axes of a batch, summed in two loops.
    #[tile_kernel]
    pub fn squares(u: &Tensor<f32, M, K, L>, y: &mut Tensor<f32, M>) {
        let i = program_tile(M);
        let mut s = zeros::<f32>([i]);
        for k in tiles(K) {
            for l in tiles(L) {
                s = dot(load(u, [i, k, l]), load(u, [i, k, l]), s);
            }
        }
        store(y, [i], s);
    }

    schedule! {
        pub both for scaled { tile(i = 8, j = 8); bind(i -> thread.y, j -> thread.x); }
        pub rows for scaled { tile(i = 8); bind(i -> thread.y); }
        pub columns for scaled { tile(j = 8); bind(j -> thread.x); }
        pub split_up for scaled { split(j -> jo, jt: 8); split(i -> io, it: 8); bind(jt -> thread.x, it -> thread.y); }
        pub first for biased { tile(i = 4); }
        pub all for biased { tile(i = 4, j = 4); bind(j -> thread.x, i -> thread.y); }
        pub normed for norm_mm { tile(i = 16, j = 16); fuse(v at n); bind(i -> thread.y, j -> thread.x); }
        pub staged for norm_mm { tile(i = 16, j = 16, k = 16); fuse(v at n); bind(i -> thread.y, j -> thread.x); stage(b at k: shared); }
        pub beside for rms_mm { tile(i = 16, j = 16, k = 16); bind(j -> thread.x, i -> thread.y); }
        pub nested for squares { tile(i = 64, k = 4, l = 8); bind(i -> thread.x); }
    }
}

#[test]
fn values_may_lack_axes_of_what_is_stored() {
    use lacking as k;
    let sizes: [&[(&str, i64)]; 3] = [
        &[("M", 16), ("N", 32), ("K", 16)],
        &[("M", 9), ("N", 33), ("K", 7)],
        &[("M", 1), ("N", 1), ("K", 0)],
    ];
    agree::<k::scaled>(k::scaled::KERNEL, None, &[&k::both, &k::rows, &k::columns, &k::split_up], &sizes);
    agree::<k::biased>(
        k::biased::KERNEL,
        None,
        &[&k::first, &k::all],
        &[&[("M", 8), ("N", 8)], &[("M", 5), ("N", 7)]],
    );
    agree::<k::norm_mm>(k::norm_mm::KERNEL, None, &[&k::normed, &k::staged], &sizes);
    agree::<k::rms_mm>(k::rms_mm::KERNEL, None, &[&k::beside], &sizes);
    agree::<k::squares>(
        k::squares::KERNEL,
        None,
        &[&k::nested],
        &[&[("M", 64), ("K", 8), ("L", 16)], &[("M", 5), ("K", 7), ("L", 3)]],
    );
}

/// Values by the names that the compiler gives them, and in the order in which they are listed.
mod names {
    use tilewright::prelude::*;

    /// Two sums in one statement.
    #[tile_kernel]
    pub fn two(x: &Tensor<f32, R, N>, y: &Tensor<f32, R, N>, z: &mut Tensor<f32, R>) {
        let r = program_tile(R);
        let n = whole(N);
        store(z, [r], sum(load(x, [r, n]), n) * sum(load(y, [r, n]), n));
    }

    /// A name that is bound three times.
    #[tile_kernel]
    pub fn shadow(x: &Tensor<f32, R, N>, z: &mut Tensor<f32, R, N>) {
        let r = program_tile(R);
        let n = whole(N);
        let v = load(x, [r, n]);
        let v = v - max(v, n);
        let v = v * sum(v, n);
        store(z, [r, n], v);
    }

    /// Two values that a sum and the result read.
    #[tile_kernel]
    pub fn pair(x: &Tensor<f32, R, N>, z: &Tensor<f32, R, N>, y: &mut Tensor<f32, R, N>) {
        let r = program_tile(R);
        let n = whole(N);
        let u = 2.0 * load(x, [r, n]);
        let g = 3.0 * load(z, [r, n]);
        let c1 = sum(u * g, n);
        let c2 = sum(g, n);
        store(y, [r, n], g - (u * c1 + c2));
    }

    schedule! {
        pub sums for two { split(n -> no, nt: 32); reduce(z.sum, z.sum.2: cta); bind(nt -> thread.x); }
        pub thrice for shadow {
            split(n -> no, nt: 32);
            recompute(v, v.2);
            fuse(v, v.2, v.3 at n);
            reduce(v.2.max, v.3.sum: cta);
            bind(nt -> thread.x);
        }
        pub forth for pair { tile(r = 64); bind(r -> thread.x); recompute(g, u); fuse(g, u at n); }
        pub back for pair { tile(r = 64); bind(r -> thread.x); recompute(u, g); fuse(g, u at n); }
        pub held for pair { fits(N <= 32); tile(r = 64); bind(r -> thread.x); recompute(u); }
    }
}

#[test]
fn values_can_be_named_and_listed_in_any_order() {
    use names as k;
    let sizes: [&[(&str, i64)]; 3] = [&[("R", 64), ("N", 32)], &[("R", 3), ("N", 31)], &[("R", 1), ("N", 1)]];
    agree::<k::two>(k::two::KERNEL, None, &[&k::sums], &sizes);
    agree::<k::shadow>(k::shadow::KERNEL, None, &[&k::thrice], &sizes);
    agree::<k::pair>(k::pair::KERNEL, None, &[&k::forth, &k::back, &k::held], &sizes);
}

/// A matrix product in unusual ways.
mod product {
    use tilewright::prelude::*;

    /// C = A·B.
    #[tile_kernel]
    pub fn mm(a: &Tensor<f32, M, K>, b: &Tensor<f32, K, N>, c: &mut Tensor<f32, M, N>) {
        let (i, j) = program_tile(M, N);
        let mut acc = zeros::<f32>([i, j]);
        for k in tiles(K) {
            acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
        }
        store(c, [i, j], acc);
    }

    schedule! {
        /// Twelve loops, reversed.
        pub reversed for mm {
            tile(i = 32, j = 16, k = 16);
            split(i -> i1, i2, i3, i4: 2, 2, 2);
            split(j -> j1, j2, j3, j4: 2, 2, 2);
            split(k -> k1, k2, k3, k4: 2, 2, 2);
            reorder(k4, k3, k2, k1, j4, j3, j2, j1, i4, i3, i2, i1 in acc);
            bind(i1 -> thread.x, j4 -> thread.y, j3 -> thread.z);
        }
        /// CTAs share the rows of a tile.
        pub grid for mm { tile(i = 32, j = 32, k = 8); bind(j -> thread.x); split(i.t -> ia, ib: 8); bind(ia -> block.z); }
        pub tiles_of_tiles for mm { tile(i = 32, j = 32, k = 8); bind(j -> thread.x); split(i.o -> ia, ib: 2); bind(ib -> block.z); }
        pub rows for mm { tile(i = 8, j = 16, k = 8); bind(i.t -> block.y); bind(j -> thread.x); }
        pub rings for mm { tile(i = 8, j = 16, k = 8); reorder(i.t, k.o); bind(j -> thread.x); stage(a, b at k: shared, cp_async); pipeline(k, 4); }
        pub lanes for mm { tile(i = 4, j = 32); split(k -> ka, kb: 32); reduce(acc: lane); bind(kb -> lane.x); stage(acc: shared); }
        pub parts for mm { tile(i = 8, j = 32, k = 4); split_k(k, 7); reduce(acc: cta); bind(k.t -> thread.x, i -> thread.y); stage(acc: shared); }
        pub many_parts for mm { tile(i = 4, j = 4, k = 7); split_k(k, 256); bind(i -> thread.x); }
        pub turned for mm { tile(i = 16, j = 64, k = 16); layout(b: col, a: col, c: col); stage(a, b at k: shared, transposed, vector(16)); swizzle(b: 64, a: 64); bind(j -> thread.x); }
        pub column for mm { tile(i = 16, j = 64, k = 16); layout(c: col); split(i -> it, iv: 4); vectorize(iv in c); bind(j -> thread.x); }
        pub skewed for mm { tile(i = 32, j = 32, k = 32); split(i -> iw, il: 8); split(j -> jw, jl, jr: 4, 2); bind(iw -> warp.y, jw -> warp.x, jl -> lane.x, il -> lane.y ^ lane.x); stage(a, b at k: shared); pipeline(k, 2); }
        /// All of the shared memory that there is.
        pub full for mm { tile(i = 5, j = 5211, k = 8); split(j -> jr, jt: 193); bind(jt -> thread.x); stage(a, b at k: shared); split_k(k, 2); }
    }
}

#[test]
fn products_in_unusual_ways() {
    use product as k;
    agree::<k::mm>(
        k::mm::KERNEL,
        None,
        &[
            &k::reversed,
            &k::grid,
            &k::tiles_of_tiles,
            &k::rows,
            &k::rings,
            &k::lanes,
            &k::parts,
            &k::many_parts,
            &k::turned,
            &k::column,
            &k::skewed,
        ],
        &[
            &[("M", 17), ("N", 33), ("K", 29)],
            &[("M", 32), ("N", 64), ("K", 32)],
            &[("M", 8), ("N", 16), ("K", 0)],
        ],
    );
    agree::<k::mm>(k::mm::KERNEL, None, &[&k::full], &[&[("M", 5), ("N", 100), ("K", 20)]]);
}

/// Tensors that are read and stored.
mod stored {
    use tilewright::prelude::*;

    /// Pairs turned by an angle, in place.
    #[tile_kernel]
    pub fn rope(cos: &Tensor<f32, S, D>, sin: &Tensor<f32, S, D>, x: &mut Tensor<f32, S, H, { 2 * D }>) {
        let (s, h, d) = program_tile(S, H, D);
        let a = load(x, [s, h, 2 * d]);
        let b = load(x, [s, h, 2 * d + 1]);
        let c = load(cos, [s, d]);
        let t = load(sin, [s, d]);
        store(x, [s, h, 2 * d], a * c - b * t);
        store(x, [s, h, 2 * d + 1], a * t + b * c);
    }

    /// Residual and normalised sum.
    #[tile_kernel]
    pub fn add_norm(x: &Tensor<f32, R, N>, h: &mut Tensor<f32, R, N>, y: &mut Tensor<f32, R, N>) {
        let r = program_tile(R);
        let n = whole(N);
        let v = load(x, [r, n]) + load(h, [r, n]);
        store(h, [r, n], v);
        store(y, [r, n], v * sum(v * v, n));
    }

    /// Each takes the other's place.
    #[tile_kernel]
    pub fn swap(x: &mut Tensor<f32, N>, y: &mut Tensor<f32, N>) {
        let i = program_tile(N);
        let a = load(x, [i]);
        let b = load(y, [i]);
        store(x, [i], b);
        store(y, [i], a);
    }

    schedule! {
        pub pairs for rope { tile(s = 2, h = 2, d = 16); bind(d -> thread.x, h -> thread.y); }
        pub sum_of_rows for add_norm { fits(N <= 64); tile(r = 4); split(n -> no, nt: 16); reduce(y.sum: cta); bind(nt -> thread.x, r -> thread.y); }
        pub exchanged for swap { tile(i = 64); bind(i -> thread.x); }
    }
}

#[test]
fn tensors_may_be_read_and_stored() {
    use stored as k;
    agree::<k::rope>(
        k::rope::KERNEL,
        None,
        &[&k::pairs],
        &[&[("S", 4), ("H", 2), ("D", 16)], &[("S", 3), ("H", 5), ("D", 7)]],
    );
    agree::<k::add_norm>(
        k::add_norm::KERNEL,
        None,
        &[&k::sum_of_rows],
        &[&[("R", 8), ("N", 64)], &[("R", 3), ("N", 29)]],
    );
    agree::<k::swap>(k::swap::KERNEL, None, &[&k::exchanged], &[&[("N", 128)], &[("N", 77)]]);
}

/// Values that a loop carries and only the loop reads, and sums that it reads while they grow.
mod carried {
    use tilewright::prelude::*;

    /// Each tile of a row plus the sum of those before it; the loop ends the kernel.
    #[tile_kernel]
    pub fn prefix(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R, N>) {
        let r = program_tile(R);
        let mut before = zeros::<f32>([r]);
        for n in tiles(N) {
            store(y, [r, n], load(x, [r, n]) + before);
            before = before + sum(load(x, [r, n]), n);
        }
    }

    /// Linear attention by tiles of a sequence.
    #[tile_kernel]
    pub fn linear<T: Float>(
        q: &Tensor<T, H, N, D>,
        k: &Tensor<T, H, N, D>,
        v: &Tensor<T, H, N, E>,
        o: &mut Tensor<f32, H, N, E>,
        last: &mut Tensor<f32, H, D, E>,
    ) {
        let h = program_tile(H);
        let d = whole(D);
        let e = whole(E);
        let mut st = zeros::<f32>([h, d, e]);
        for n in tiles(N) {
            store(o, [h, n, e], dot(load(q, [h, n, d]), st.cast::<T>(), zeros::<f32>([h, n, e])));
            st = dot(load(k, [h, n, d]), load(v, [h, n, e]), st);
        }
        store(last, [h, d, e], st);
    }

    /// One value reads the sum before it grows.
    #[tile_kernel]
    pub fn small(x: &Tensor<f32, R, N>, w: &Tensor<f32, N>, z: &mut Tensor<f32, R>, y: &mut Tensor<f32, R>) {
        let r = program_tile(R);
        let mut t = zeros::<f32>([r]);
        let mut u = zeros::<f32>([r]);
        for n in tiles(N) {
            u = u * 0.5 + t;
            t = dot(load(x, [r, n]), load(w, [n]), t);
        }
        store(z, [r], u);
        store(y, [r], t);
    }

    schedule! {
        pub by_row for prefix { tile(r = 32, n = 8); bind(r -> thread.x); }
        pub by_lanes for prefix { tile(r = 4, n = 32); reduce(before.sum: lane); bind(r -> warp.x, n -> lane.x); }
        pub produced on sm_90 for prefix {
            tile(r = 32, n = 32);
            bind(r -> thread.x);
            stage(x at n: shared, tma);
            pipeline(n, 3);
            produce(n: warp);
            persistent(1);
        }
        pub straight for linear<f32 | f16> { fits(E <= 64, D <= 16); tile(h = 1, n = 8); bind(e -> thread.x); }
        pub combined for linear<f32 | f16> {
            fits(E <= 8, D <= 32);
            tile(h = 1, n = 8, d = 32);
            reduce(o.dot: lane);
            bind(d -> lane.x);
        }
        pub products for linear<f16 | bf16> {
            fits(E <= 64, D <= 16);
            tile(h = 1, n = 16);
            stage(q, k, v at n: shared, cp_async, vector(16));
            pipeline(n, 2);
            tensor_core(st: mma; swapped);
            tensor_core(o.dot: mma);
        }
        pub smallest for small { tile(r = 32, n = 8); bind(r -> thread.x); }
        pub ahead for small { tile(r = 32, n = 8); bind(r -> thread.x); stage(x, w at n: shared); pipeline(n, 2); }
    }
}

#[test]
fn a_loop_may_read_what_it_carries_and_end_the_kernel() {
    use carried as k;
    agree::<k::prefix>(
        k::prefix::KERNEL,
        None,
        &[&k::by_row, &k::by_lanes, &k::produced],
        &[&[("R", 3), ("N", 30)], &[("R", 64), ("N", 64)], &[("R", 33), ("N", 1)], &[("R", 2), ("N", 0)]],
    );
    let sizes: [&[(&str, i64)]; 3] = [
        &[("H", 2), ("N", 30), ("D", 5), ("E", 7)],
        &[("H", 1), ("N", 32), ("D", 16), ("E", 8)],
        &[("H", 1), ("N", 1), ("D", 1), ("E", 1)],
    ];
    for dtype in [DType::F32, DType::F16] {
        agree::<k::linear>(k::linear::KERNEL, Some(dtype), &[&k::straight, &k::combined], &sizes);
    }
    for dtype in [DType::F16, DType::BF16] {
        agree::<k::linear>(k::linear::KERNEL, Some(dtype), &[&k::products], &sizes);
    }
    agree::<k::small>(
        k::small::KERNEL,
        None,
        &[&k::smallest, &k::ahead],
        &[&[("R", 33), ("N", 20)], &[("R", 32), ("N", 16)], &[("R", 1), ("N", 0)]],
    );
}

/// Tiles that one instruction takes as a whole: what counts instructions can be named all the same.
mod one_step {
    use tilewright::prelude::*;

    #[tile_kernel]
    pub fn mm<T: Float>(a: &Tensor<T, M, K>, b: &Tensor<T, K, N>, c: &mut Tensor<T, M, N>) {
        let (i, j) = program_tile(M, N);
        let mut acc = zeros::<f32>([i, j]);
        for k in tiles(K) {
            acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
        }
        store(c, [i, j], acc.cast::<T>());
    }

    /// Two products of two depths into one result.
    #[tile_kernel]
    pub fn lora<T: Float>(
        a: &Tensor<T, M, K>,
        b: &Tensor<T, K, N>,
        d: &Tensor<T, M, L>,
        e: &Tensor<T, L, N>,
        c: &mut Tensor<T, M, N>,
    ) {
        let (i, j) = program_tile(M, N);
        let mut acc = zeros::<f32>([i, j]);
        for k in tiles(K) {
            acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
        }
        let mut low = zeros::<f32>([i, j]);
        for l in tiles(L) {
            low = dot(load(d, [i, l]), load(e, [l, j]), low);
        }
        store(c, [i, j], (acc + low * 0.5).cast::<T>());
    }

    schedule! {
        pub wg on sm_90a for mm<f16 | bf16> {
            tile(i = 64, j = 64, k = 64);
            tensor_core(acc: wgmma(64, 64));
            stage(a, b at k: shared, tma);
            swizzle(a: 128, b: 128);
            unroll(k.atom);
            vectorize(j.pair);
        }
        pub child = wg { tile(k = 16); swizzle(a: 32); }
        pub deep for mm<f16> {
            tile(i = 32, j = 32, k = [16, 32]);
            tensor_core(acc: mma);
            unroll(k.atom);
            stage(a, b at k: shared, vector(16));
            pad(a: 16, b: 16);
        }
        pub tall for mm<f16> {
            tile(i = 64, j = 32, k = 32);
            split(i -> iw, im: [16, 32]);
            tensor_core(acc: mma);
            bind(iw -> warp.x);
            reorder(k.atom, im, j.atom);
            stage(a, b at k: shared, vector(16));
            pad(a: 16, b: 16);
        }
        pub both for lora<f16> {
            tile(i = 64, j = 64, k = 32, l = 16);
            split(i -> iw, im: 32);
            split(j -> jw, jm: 32);
            tensor_core(acc: mma);
            tensor_core(low: mma);
            stage(a, b at k: shared, cp_async, vector(16));
            stage(d, e at l: shared, cp_async, vector(16));
            bind(iw -> warp.y, jw -> warp.x);
            reorder(iw, jw, k.atom, im, jm in acc);
            reorder(iw, jw, l.atom, im, jm in low);
        }
    }
}

#[test]
fn what_one_instruction_takes_can_be_named() {
    use one_step as k;
    assert_eq!((k::deep.configurations().len(), k::deep.dropped().len()), (2, 0));
    assert_eq!((k::tall.configurations().len(), k::tall.dropped().len()), (2, 0));
    let sizes: [&[(&str, i64)]; 2] = [&[("M", 64), ("N", 64), ("K", 64)], &[("M", 70), ("N", 33), ("K", 25)]];
    agree::<k::mm>(k::mm::KERNEL, Some(DType::F16), &[&k::wg, &k::child], &sizes);
    let sizes: [&[(&str, i64)]; 2] =
        [&[("M", 64), ("N", 64), ("K", 64), ("L", 16)], &[("M", 70), ("N", 33), ("K", 25), ("L", 5)]];
    agree::<k::lora>(k::lora::KERNEL, Some(DType::F16), &[&k::both], &sizes);
}

/// What lies at a place that is computed, found by comparing.
mod chosen {
    use tilewright::prelude::*;

    #[tile_kernel]
    pub fn gather(x: &Tensor<f32, K, N>, at: &Tensor<f32, M>, y: &mut Tensor<f32, M, N>) {
        let (i, j) = program_tile(M, N);
        let k = whole(K);
        let place = abs(load(at, [i]));
        store(y, [i, j], sum(select(k.cast::<f32>() <= place, load(x, [k, j]), 0.0), k));
    }

    /// A result of one element.
    #[tile_kernel]
    pub fn total(x: &Tensor<f32, N>, y: &mut Tensor<f32, 1>) {
        let mut s = zeros::<f32>([]);
        for n in tiles(N) {
            s += sum(load(x, [n]), n);
        }
        store(y, [0], s);
    }

    schedule! {
        pub compared for gather { tile(i = 4, j = 32); bind(j -> thread.x, i -> thread.y); }
        pub lanes for total { tile(n = 64); split(n -> no, nl: 32); reduce(s: lane); bind(nl -> lane.x); }
    }
}

#[test]
fn what_messages_propose_is_legal() {
    use chosen as k;
    agree::<k::gather>(
        k::gather::KERNEL,
        None,
        &[&k::compared],
        &[&[("M", 8), ("N", 32), ("K", 3)], &[("M", 5), ("N", 7), ("K", 1)]],
    );
    agree::<k::total>(k::total::KERNEL, None, &[&k::lanes], &[&[("N", 64)], &[("N", 70)], &[("N", 0)]]);
}

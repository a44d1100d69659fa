//! Schedules that were refused once, in whole or at launch, though nothing is wrong with them.

mod support;

use support::agree;

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

//! Tensors that a kernel reads in more than one way, each with a copy of its own; a computed factor of two products; values that
//! are computed with their readers, whose loops stand otherwise.

use crate::support;
use rayon::prelude::*;
use support::agree;
use tilewright::{AnySchedule, DType, Kernel, Stage, Variant, emit, prelude::*, schedules};

/// C = A·Aᵀ.
#[tile_kernel]
pub fn gram<T: Float>(a: &Tensor<T, M, K>, c: &mut Tensor<T, M, M>) {
    let (i, j) = program_tile(M, M);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(a, [j, k]), acc);
    }
    store(c, [i, j], acc.cast::<T>());
}

/// C = A·B + A.
#[tile_kernel]
pub fn residual<T: Float>(a: &Tensor<T, M, K>, b: &Tensor<T, K, K>, c: &mut Tensor<T, M, K>) {
    let (i, j) = program_tile(M, K);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], (acc + load(a, [i, j]).cast::<f32>()).cast::<T>());
}

/// A product of rows that are as long as they are, and what makes them 1 long.
#[tile_kernel]
pub fn rms<T: Float>(a: &Tensor<T, M, K>, b: &Tensor<T, K, N>, c: &mut Tensor<T, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut ss = zeros::<f32>([i]);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        ss = ss + sum(load(a, [i, k]).cast::<f32>() * load(a, [i, k]).cast::<f32>(), k);
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], (acc * rsqrt(ss + 1.0)).cast::<T>());
}

/// Two products with one factor, which is computed.
#[tile_kernel]
pub fn same<T: Float>(
    a: &Tensor<T, M, D>,
    b: &Tensor<T, N, D>,
    u: &Tensor<T, N, E>,
    v: &Tensor<T, N, E>,
    x: &mut Tensor<f32, M, E>,
    y: &mut Tensor<f32, M, E>,
) {
    let i = program_tile(M);
    let d = whole(D);
    let e = whole(E);
    let mut p = zeros::<f32>([i, e]);
    let mut q = zeros::<f32>([i, e]);
    for j in tiles(N) {
        let s = dot(load(a, [i, d]), load(b, [j, d]), zeros::<f32>([i, j])).cast::<T>();
        p = dot(s, load(u, [j, e]), p);
        q = dot(s, load(v, [j, e]), q);
    }
    store(x, [i, e], p);
    store(y, [i, e], q);
}

/// Parts merged by their logarithms.
#[tile_kernel]
pub fn merge(o: &Tensor<f32, H, S, D>, lse: &Tensor<f32, H, S>, y: &mut Tensor<f32, H, D>) {
    let (h, d) = program_tile(H, D);
    let s = whole(S);
    let w = exp(load(lse, [h, s]));
    let z = sum(w, s);
    store(y, [h, d], sum(w * load(o, [h, s, d]), s) / z);
}

schedule! {
    /// Both boxes by one tensor map.
    pub maps on sm_90a for gram<f16 | bf16> {
        tile(i = 64, j = 64, k = 64);
        tensor_core(acc: wgmma(64, 64));
        stage(a[i, k], a[j, k] at k: shared, tma);
        swizzle(a[i, k]: 128, a[j, k]: 128);
    }
    /// The patterns of the two apart.
    pub spans = maps { tile(k = 32); swizzle(a[i, k]: 64, a[j, k]: 32); }
    pub produced = maps { swizzle(a: 128); pipeline(k, 3); produce(k: warpgroup); persistent(1); }
    /// The rows are of the tile of i, and the CTAs of a cluster share the columns.
    pub clustered = produced { drop(persistent); cluster(i: 2); }
    pub parts = maps { split_k(k, 2); }
    /// The columns from global memory.
    pub threads on sm_80 for gram<f32 | f16 | bf16> {
        tile(i = 16, j = 16, k = 8);
        stage(a[i, k] at k: shared);
        bind(i -> thread.y, j -> thread.x);
    }
    pub both_ways = threads { stage(a[i, k], a[j, k] at k: shared, transposed); pad(a[j, k]: 4); }
    /// Lists of numbers beside an index.
    pub tuned = both_ways { pad(a[j, k]: [4, 8]); stage(a[i, k] at k: shared, vector([4, 8])); }
    pub registers_too = threads {
        split(i -> it, ir: 4);
        split(j -> jt, jr: 4);
        stage(a[j, k] at k: shared);
        fragment(a[i, k], a[j, k] at k.t);
        pipeline(k, 2);
        pipeline(k.t, 2);
        bind(it -> thread.y, jt -> thread.x);
        drop(bind(i), bind(j));
    }
    pub warps on sm_80 for gram<f16 | bf16> {
        tile(i = 32, j = 32, k = 32);
        tensor_core(acc: mma);
        stage(a[i, k], a[j, k] at k: shared, cp_async, vector(16));
        pad(a[i, k]: 16);
        swizzle(a[j, k]: 64);
        pipeline(k, 3);
        fragment(a[i, k], a[j, k] at k.atom);
        pipeline(k.atom, 2);
    }

    pub added on sm_90a for residual<f16 | bf16> {
        tile(i = 64, j = 64, k = 64);
        tensor_core(acc: wgmma(64, 64));
        stage(a, b at k: shared, tma);
        swizzle(a: 128, b: 128);
        pipeline(k, 2);
        produce(k: warp);
    }
    pub added_from_a_copy = added {
        drop(stage(a), swizzle(a));
        stage(a[i, k] at k: shared, tma);
        swizzle(a[i, k]: 128);
        stage(a[i, j] at j: shared, vector(16));
        pad(a[i, j]: 16);
    }

    pub normed on sm_90a for rms<f16 | bf16> {
        tile(i = 64, j = 64, k = 64);
        tensor_core(acc: wgmma(64, 64));
        stage(a, b at k: shared, tma);
        swizzle(a: 128, b: 128);
        unroll(k.atom);
        vectorize(j.pair);
    }
    pub normed_far_ahead = normed { pipeline(k, 3); produce(k: warpgroup); }
    pub normed_by_warps on sm_80 for rms<f16 | bf16> {
        tile(i = 32, j = 32, k = 32);
        tensor_core(acc: mma);
        stage(a, b at k: shared, cp_async, vector(16));
        pad(a: 16, b: 16);
        pipeline(k, 2);
    }
    pub normed_by_threads on sm_80 for rms<f32 | f16 | bf16> {
        tile(i = 16, j = 16, k = 8);
        stage(a, b at k: shared);
        bind(i -> thread.y, j -> thread.x);
    }

    pub three_products on sm_80 for same<f16 | bf16> {
        fits(D <= 64, E <= 64);
        tile(i = 64, j = 32);
        split(i -> iw, im: 16);
        tensor_core(s.dot: mma);
        tensor_core(p: mma);
        tensor_core(q: mma);
        stage(a at i: shared, vector(16));
        stage(b, u, v at j: shared, vector(16));
        pad(a: 16, b: 16, u: 16, v: 16);
        bind(iw -> warp.x);
    }

    /// Each reader computes its own weights.
    pub recomputed for merge { tile(h = 1, d = 32); bind(d -> thread.x); recompute(w); fuse(w at s); }
    pub tiled for merge { tile(h = 2, d = 32, s = 4); bind(h -> thread.y, d -> thread.x); recompute(w); fuse(w at s.o); }
}

/// All executors agree at every size, in every variant.
fn all<K: Kernel>(encoded: &[u8], types: &[DType], schedules: &[&dyn AnySchedule], sizes: &[&[(&str, i64)]]) {
    for dtype in types {
        schedules.par_iter().for_each(|schedule| agree::<K>(encoded, Some(*dtype), &[*schedule], sizes));
    }
}

const SIXTEEN: &[DType] = &[DType::F16, DType::BF16];
const SINGLE: &[DType] = &[DType::F32];

#[test]
fn a_matrix_times_itself() {
    let sizes: &[&[(&str, i64)]] = &[
        &[("M", 128), ("K", 128)],
        &[("M", 70), ("K", 33)],
        &[("M", 129), ("K", 72)],
        &[("M", 1), ("K", 0)],
    ];
    let products = schedules![maps, spans, produced, clustered, parts, warps];
    all::<gram>(gram::KERNEL, SIXTEEN, products, sizes);
    let by_threads = schedules![threads, both_ways, registers_too];
    all::<gram>(gram::KERNEL, SIXTEEN, by_threads, &sizes[1..]);
    all::<gram>(gram::KERNEL, SINGLE, by_threads, sizes);
}

#[test]
fn boxes_that_are_alike_have_one_tensor_map() {
    let kernel = |schedule: &dyn AnySchedule| {
        emit(schedule, Some(DType::F16), Variant::Exact, Stage::Kernel).expect("it lowers")
    };
    let (alike, apart) = (kernel(&maps), kernel(&spans));
    assert!(alike.contains("a.i.k") && alike.contains("a.j.k"), "{alike}");
    assert_eq!((alike.contains("a.map_2"), apart.contains("a.map_2")), (false, true), "{alike}\n{apart}");
}

/// An index is no list of numbers.
#[test]
fn lists_stand_beside_an_index() {
    let all: Vec<String> = tuned.configurations().iter().map(|c| c.text().to_string()).collect();
    assert_eq!(all.len() + tuned.dropped().len(), 4, "{all:?}");
    assert!(!all.is_empty());
}

#[test]
fn a_product_and_what_it_is_added_to() {
    let sizes: &[&[(&str, i64)]] =
        &[&[("M", 64), ("K", 128)], &[("M", 70), ("K", 33)], &[("M", 3), ("K", 72)], &[("M", 1), ("K", 0)]];
    all::<residual>(residual::KERNEL, SIXTEEN, schedules![added, added_from_a_copy], sizes);
}

#[test]
fn squares_beside_a_product() {
    let sizes: &[&[(&str, i64)]] = &[
        &[("M", 64), ("N", 64), ("K", 128)],
        &[("M", 70), ("N", 37), ("K", 33)],
        &[("M", 3), ("N", 130), ("K", 72)],
        &[("M", 2), ("N", 5), ("K", 0)],
    ];
    all::<rms>(rms::KERNEL, SIXTEEN, schedules![normed, normed_far_ahead, normed_by_warps], sizes);
    all::<rms>(rms::KERNEL, SINGLE, schedules![normed_by_threads], sizes);
}

#[test]
fn one_factor_of_two_products() {
    let sizes: &[&[(&str, i64)]] = &[
        &[("M", 64), ("N", 64), ("D", 64), ("E", 64)],
        &[("M", 40), ("N", 50), ("D", 24), ("E", 32)],
        &[("M", 65), ("N", 1), ("D", 3), ("E", 17)],
        &[("M", 2), ("N", 0), ("D", 1), ("E", 5)],
    ];
    all::<same>(same::KERNEL, SIXTEEN, schedules![three_products], sizes);
}

#[test]
fn weights_that_each_reader_computes() {
    let sizes: &[&[(&str, i64)]] = &[
        &[("H", 2), ("S", 8), ("D", 64)],
        &[("H", 3), ("S", 5), ("D", 37)],
        &[("H", 1), ("S", 1), ("D", 1)],
    ];
    agree::<merge>(merge::KERNEL, None, schedules![recomputed, tiled], sizes);
}

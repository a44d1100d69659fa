//! Products of 8-bit numbers, and the ladder of schedules that they climb.

use tilewright::prelude::*;

/// C = (A·B)·scale, accumulated in f32. A and B hold numbers of eight bits, scaled so that they fit; `scale` takes that back.
#[tile_kernel]
pub fn matmul_f8<T: Float>(a: &Tensor<f8, M, K>, b: &Tensor<f8, K, N>, c: &mut Tensor<T, M, N>, scale: f32) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], (acc * scale).cast::<T>());
}

schedule! {
    /// CUDA cores: tiles pass through shared memory as they are, and factors are widened where they are multiplied.
    pub f8_shared on sm_89 for matmul_f8<f32 | f16 | bf16> {
        layout(b: col);
        tile(i = 32, j = 32, k = 64);
        bind(j -> thread.x, i -> thread.y);
        stage(a at k: shared);
        stage(b at k: shared, transposed);
        pad(b: 4);
        unroll(k);
    }
}

schedule! {
    /// A warpgroup multiplies 64×32 by 32×64 at once. Its rows run along what is summed: B lies in columns.
    pub f8_wgmma on sm_90a for matmul_f8<f32 | f16 | bf16> {
        layout(b: col);
        tile(i = 64, j = 64, k = 128);
        tensor_core(acc: wgmma(64, 64));
        stage(a at k: shared, tma);
        stage(b at k: shared, transposed, tma);
        swizzle(a: 128, b: 128);
        unroll(k.atom);
        vectorize(j.pair);
    }
    /// Four times the tile: what is copied serves twice as many products.
    pub f8_large_tile = f8_wgmma {
        tile(i = 128, j = 128);
        tensor_core(acc: wgmma(64, 128));
    }
    /// A ring of copies that a warp of its own keeps full.
    pub f8_producer_consumer = f8_large_tile {
        pipeline(k, 5);
        produce(k: warp);
    }
    /// Twice the tile, two warpgroups that multiply; the one that copies needs few registers.
    pub f8_two_consumers = f8_producer_consumer {
        tile(j = 256);
        tensor_core(acc: wgmma(64, 256));
        split(i -> iw, im: 64);
        bind(iw -> warpgroup.x);
        pipeline(k, 3);
        produce(k: warpgroup);
        registers(24, 240);
    }
    /// A CTA for each multiprocessor takes tile after tile, in bands: the next tile's copies arrive while this one is stored.
    pub f8_persistent = f8_two_consumers {
        persistent(1);
        order(grouped(16));
    }
    /// C is collected in shared memory, four 8×8 matrices a warp at once, from where the hardware stores it while the next
    /// tile is multiplied.
    pub f8_tma_store = f8_persistent<f16 | bf16> {
        stage(c: shared, tma, stmatrix);
        swizzle(c: 128);
    }
    /// Two CTAs with tiles below one another copy half of B's tile each, to both, and the CTAs at work at one time have
    /// squares of C.
    pub f8_best = f8_tma_store {
        order(hilbert);
        cluster(i: 2);
    }
}

/// The ladder, in climbing order.
pub const F8: &[&dyn AnySchedule] = schedules![
    f8_shared,
    f8_wgmma,
    f8_large_tile,
    f8_producer_consumer,
    f8_two_consumers,
    f8_persistent,
    f8_tma_store,
    f8_best
];

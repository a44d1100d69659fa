//! One matmul program, and the ladder of schedules it climbs.

use tilewright::prelude::*;

/// C = A·B, accumulated in f32. Each program owns one tile of C.
#[tile_kernel]
pub fn matmul<T: Float>(a: &Tensor<T, M, K>, b: &Tensor<T, K, N>, c: &mut Tensor<T, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], acc.cast::<T>());
}

/// C = A·B, of factors rounded to tf32: 11 significant bits and the exponents of f32.
#[tile_kernel]
pub fn matmul_tf32<T: Float>(a: &Tensor<T, M, K>, b: &Tensor<T, K, N>, c: &mut Tensor<T, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc, tf32);
    }
    store(c, [i, j], acc.cast::<T>());
}

schedule! {
    /// One element of C a thread; neighbouring lanes walk down a column, so each touches a row of its own.
    pub naive for matmul<f32 | f16 | bf16> {
        tile(i = 32, j = 32);
        bind(i -> thread.x, j -> thread.y);
    }
    /// Neighbouring lanes take neighbouring columns: loads of B and stores of C coalesce. One address serves 32 steps of k.
    pub coalesced = naive {
        bind(j -> thread.x, i -> thread.y);
        tile(k = 32);
        unroll(k);
    }
    /// Tiles of A and B pass through shared memory: global memory is read once a CTA, not once a thread.
    pub shared = coalesced {
        tile(k = 64);
        stage(a, b at k: shared);
    }
    /// Eight elements of a column a thread: what it reads of B serves all eight.
    pub blocktile_1d = shared {
        tile(i = 64, j = 64, k = 16);
        drop(bind(i));
        split(i -> it, ir: 8);
        bind(it -> thread.y);
        reorder(k, ir);
    }
    /// Eight by eight elements a thread: an outer product a step of k.
    pub blocktile_2d = blocktile_1d {
        tile(i = 128, j = 128, k = 8);
        drop(bind(j));
        split(j -> jr, jt: 16);
        bind(jt -> thread.x);
        reorder(k, ir, jr);
    }
    /// Sixteen bytes an instruction, to and from global memory and shared memory; A is transposed on its way.
    pub vectorized = blocktile_2d {
        stage(a at k: shared, transposed, vector(16));
        stage(b at k: shared, vector(16));
        split(i -> ih, it, ir: 16, 4);
        split(j -> jh, jt, jr: 16, 4);
        reorder(k, ih, ir, jh, jr);
        vectorize(jr);
        vectorize(ir in acc);
    }
    /// A level of warps between the CTA and the thread: a warp reads a compact tile of A and of B. Padded, the rows of A
    /// are transposed in four wavefronts a store, not eight; fewer would take rows that vectors of 16 bytes cannot read.
    pub warptile = vectorized {
        tile(k = 32);
        pad(a: 16);
        drop(bind(it), bind(jt));
        split(i -> iw, ih, il, ir: 2, 4, 4);
        split(j -> jw, jh, jl, jr: 2, 8, 4);
        split(jl -> jlo, jli: 2);
        bind(iw -> warp.y, jw -> warp.x, jli -> lane.x, il -> lane.y, jlo -> lane.z);
        occupancy(2);
    }
    /// Two buffers in turn: the next tiles are copied while these are multiplied.
    pub double_buffered = warptile {
        tile(k = 16);
        stage(b at k: shared, cp_async, vector(16));
        pipeline(k, 2);
    }
    /// Registers in turn, too: the operands of the next step of k are loaded while this one is computed, and the assembler
    /// leaves that order alone. No two neighbouring lanes ask for the same word: the answers come at an even pace.
    pub prefetched = double_buffered {
        bind(il -> lane.x, jli -> lane.y, jlo -> lane.z ^ lane.x);
        drop(unroll(k), vectorize(jr), vectorize(ir in acc));
        fragment(a, b at k.t);
        pipeline(k.t, 2);
        reorder(k, jh, jr, ih, ir);
        assemble(1);
    }
    /// Twice the tile, one CTA a multiprocessor: neighbouring multiply-adds share an operand, and C goes through shared memory
    /// to leave in whole lines.
    pub best on sm_90 = prefetched<f32> {
        tile(j = 256);
        split(j -> jw, jh, jl, jr: 4, 8, 4);
        drop(occupancy);
        pipeline(k, 3);
        serpentine(jh, jr, ih, ir in acc);
        stage(acc: shared);
        vectorize(jr in c);
        unroll(jh, ih, ir in c);
        order(grouped(8));
    }
}

schedule! {
    /// Tensor cores: a warp multiplies 16×16 by 16×8 at once, from copies in shared memory.
    pub mma for matmul<f16 | bf16> {
        tile(i = 128, j = 128, k = 32);
        split(i -> iw, im: 64);
        split(j -> jw, jm: 32);
        tensor_core(acc: mma);
        reorder(iw, jw, k.atom, im, jm);
        stage(a, b at k: shared, cp_async, vector(16));
        pad(a: 16, b: 16);
        pipeline(k, 3);
        bind(iw -> warp.y, jw -> warp.x);
        unroll(k.atom);
        vectorize(j.pair);
    }
    /// Registers in turn: the operands of the next step of k are loaded while this one is multiplied.
    pub mma_pipelined = mma {
        drop(unroll(k.atom));
        fragment(a, b at k.atom);
        pipeline(k.atom, 2);
    }
    /// Twice the tile, 64 by 64 elements a warp, and tiles of C in bands, so that what CTAs read together stays in L2.
    pub mma_large_tile = mma_pipelined {
        tile(i = 256);
        split(j -> jw, jm: 64);
        pipeline(k, 4);
        order(grouped(8));
    }
    /// One thread copies, by tensor maps, and goes on to the next tile while others store this one, in whole sectors; registers
    /// that its warps do not need, those that multiply have.
    pub mma_best on sm_90a = mma_large_tile {
        tile(k = 64);
        stage(a, b at k: shared, tma);
        drop(pad(a), pad(b));
        swizzle(a: 128, b: 128);
        produce(k: warpgroup);
        registers(40, 232);
        persistent(1);
        exchange(c);
    }
}

// Hopper: tensor maps, and the tensor cores of a warpgroup.
schedule! {
    /// A warpgroup multiplies 64×16 by 16×64 at once, from copies that one thread asks for and the hardware makes.
    pub tma_wgmma on sm_90a for matmul<f16 | bf16> {
        tile(i = 64, j = 64, k = 64);
        tensor_core(acc: wgmma(64, 64));
        stage(a, b at k: shared, tma);
        swizzle(a: 128, b: 128);
        unroll(k.atom);
        vectorize(j.pair);
    }
    /// Four times the tile: what is copied serves twice as many products.
    pub large_tile = tma_wgmma {
        tile(i = 128, j = 128);
        tensor_core(acc: wgmma(64, 128));
    }
    /// A ring of copies that a warp of its own keeps full.
    pub producer_consumer = large_tile {
        pipeline(k, 5);
        produce(k: warp);
        arrive(k: thread);
    }
    /// Twice the tile, two warpgroups that multiply; the one that copies needs few registers.
    pub two_consumers = producer_consumer {
        tile(j = 256);
        tensor_core(acc: wgmma(64, 256));
        split(i -> iw, im: 64);
        bind(iw -> warpgroup.x);
        pipeline(k, 3);
        produce(k: warpgroup);
        registers(24, 240);
    }
    /// A CTA for each multiprocessor takes tile after tile, in bands: the next tile's copies arrive while this one is stored.
    pub persistent = two_consumers {
        persistent(1);
        order(grouped(16));
    }
    /// One lane a warp, not each thread, says that a stage is free, and what lanes store are whole sectors.
    pub light_barriers = persistent {
        arrive(k: warp);
        exchange(c);
    }
    /// Two CTAs with tiles below one another copy half of B's tile each, to both.
    pub cluster = light_barriers { cluster(i: 2); }
    /// The first products overwrite the sums, and those of one step are on their way when the next are issued.
    pub micro = cluster { issue(acc: overwrite, in_flight(1)); }
    /// C is collected in shared memory, from where the hardware stores it while the next tile is multiplied.
    pub tma_store = micro {
        drop(exchange(c));
        stage(c: shared, tma);
        swizzle(c: 128);
    }
    /// The CTAs at work at one time have squares of C.
    pub hilbert = tma_store { order(hilbert); }
    /// A warp puts four 8×8 matrices of C into shared memory at once.
    pub stmatrix = hilbert { stage(c: shared, tma, stmatrix); }
    /// Two groups of 128 threads with a tile each take turns: one stores, as it holds it, while the other multiplies, both
    /// halves of a tile by the same rows of B. Neighbours meet in L2 without a cluster, whose CTAs would wait for one another; a
    /// tile begins with what the one before has read last. Of each 512 columns two tiles have 192 and one 128: wide ones read
    /// less, and together they come out even.
    pub wgmma_best = stmatrix {
        tile(j = 192);
        segment(j: 512);
        tensor_core(acc: wgmma(64, 192));
        drop(split(i), bind(iw), cluster(i), stage(c), swizzle(c));
        reorder(k.atom, i.atom in acc);
        exchange(c);
        pipeline(k, 5);
        pingpong(2);
        order(serpentine(8));
        alternate(k);
    }
}

schedule! {
    /// The factors are rounded, and the products added on CUDA cores.
    pub shared_tf32 for matmul_tf32<f32 | f16 | bf16> = shared {}
    /// Tensor cores: a warp multiplies 16×8 by 8×8 at once. B, whose rows run across what is summed, is read by words, and
    /// its rows are padded so that no two lanes meet in a bank.
    pub mma_tf32 for matmul_tf32<f32> {
        tile(i = 128, j = 128, k = 32);
        split(i -> iw, im: 64);
        split(j -> jw, jm: 32);
        tensor_core(acc: mma);
        reorder(iw, jw, k.atom, im, jm);
        stage(a, b at k: shared, cp_async, vector(16));
        pad(a: 16, b: 32);
        pipeline(k, 3);
        bind(iw -> warp.y, jw -> warp.x);
        unroll(k.atom);
        vectorize(j.pair);
    }
    /// Registers in turn, twice the tile, 64 by 64 elements a warp, and tiles of C in bands.
    pub mma_tf32_best = mma_tf32 {
        tile(i = 256);
        split(j -> jw, jm: 64);
        drop(unroll(k.atom));
        fragment(a, b at k.atom);
        pipeline(k.atom, 2);
        order(grouped(8));
    }
}

schedule! {
    /// A warpgroup multiplies 64×8 by 8×64 at once. It would cut off what tf32 lacks, so that threads copy, and round on the
    /// way; rows of both copies run along what is summed, for which B's are turned.
    pub tf32_wgmma on sm_90a for matmul_tf32<f32> {
        tile(i = 64, j = 64, k = 32);
        tensor_core(acc: wgmma(64, 64));
        stage(a at k: shared, vector(16));
        stage(b at k: shared, transposed);
        swizzle(a: 128, b: 128);
        unroll(k.atom);
        vectorize(j.pair);
    }
    /// Four times the tile: what is copied serves twice as many products.
    pub tf32_large_tile = tf32_wgmma {
        tile(i = 128, j = 128);
        tensor_core(acc: wgmma(64, 128));
    }
    /// Stages in turn: the next tiles are copied while these are multiplied.
    pub tf32_pipelined = tf32_large_tile { pipeline(k, 3); }
    /// Twice the tile, two warpgroups.
    pub tf32_two_warpgroups = tf32_pipelined {
        tile(j = 256);
        tensor_core(acc: wgmma(64, 256));
        split(i -> iw, im: 64);
        bind(iw -> warpgroup.x);
    }
    /// Tiles of C in bands, so that what CTAs read together stays in L2.
    pub tf32_best = tf32_two_warpgroups { order(grouped(8)); }
}

// For sizes that leave the ladder's top without work for all multiprocessors, or without vectors.
schedule! {
    /// Half the tile, four CTAs a multiprocessor: for small products.
    pub small = prefetched<f32> {
        tile(i = 64);
        occupancy(4);
    }
    /// For small products of some depth: four CTAs take a quarter of K each.
    pub small_split4 = small { split_k(k, 4); }
    /// The four are a cluster, whose shared memory the parts meet in.
    pub small_clustered4 on sm_90 = small {
        split_k(k, 4; cluster);
        occupancy(3);
    }
    /// For few tiles and a long K.
    pub small_split16 = small { split_k(k, 16); }
    /// A flat tile, 32 rows, for products of few rows: a CTA reads long rows of B. Sixteen of them take a part of K each.
    pub flat_split16 = small {
        tile(i = 32, j = 256);
        split_k(k, 16);
    }
    /// Sixteen elements a thread, so that a small product has a CTA for each multiprocessor, and few steps that wait for memory.
    pub tiny = small {
        tile(i = 32, j = 64, k = 64);
        split(i -> iw, ih, il, ir: 1, 4, 4);
        split(j -> jw, jh, jl, jr: 1, 8, 4);
    }
    /// For one tile or two, and a very long K.
    pub small_split64 = small { split_k(k, 64); }
    /// For rows that no vector fits: A, too, is copied four bytes at a time, past the registers.
    pub ragged = prefetched<f32> { stage(a at k: shared, transposed, cp_async); }
    /// The same for small products of some depth.
    pub ragged_split4 = small_split4 { stage(a at k: shared, transposed, cp_async); }
    /// Half the tile of `best`, two CTAs a multiprocessor: for flat and narrow products.
    pub narrow on sm_90 = best {
        tile(i = 64);
        pipeline(k, 2);
        occupancy(2);
    }
    /// For flat and narrow products of some depth.
    pub narrow_split4 = narrow { split_k(k, 4); }
    /// The four are a cluster; C leaves the registers as it is, since the parts take the shared memory it would go through.
    pub narrow_clustered4 = narrow {
        drop(stage(acc));
        split_k(k, 4; cluster);
    }
    /// The same, added up in C: faster, and the rounding changes from run to run.
    pub narrow_added4 = narrow { split_k(k, 4; atomic); }
    /// For very flat and narrow products; the rounding changes from run to run.
    pub narrow_added16 = narrow { split_k(k, 16; atomic); }
}

// The same for Hopper: tiles for products that have few, or that another one covers better.
schedule! {
    /// A warpgroup and a tile of 64×64: for small products, of which each CTA has one tile.
    pub tile64 = producer_consumer {
        tile(i = 64, j = 64);
        tensor_core(acc: wgmma(64, 64));
        pipeline(k, 8);
        arrive(k: warp);
        issue(acc: overwrite, in_flight(1));
        stage(c: shared, tma, stmatrix);
        swizzle(c: 128);
    }
    /// Twice the columns, and neighbours in time are neighbours in C.
    pub tile64x128 = tile64 {
        tile(j = 128);
        tensor_core(acc: wgmma(64, 128));
        order(grouped(16));
    }
    /// Two CTAs, a cluster, take half of K each: for deep products of few tiles.
    pub tile64_clustered2 = tile64 {
        drop(stage(c), swizzle(c));
        issue(acc: in_flight(1));
        order(grouped(2));
        split_k(k, 2; cluster);
    }
    /// Twice the columns.
    pub tile64x128_clustered2 = tile64_clustered2 {
        drop(order);
        tile(j = 128);
        tensor_core(acc: wgmma(64, 128));
        pipeline(k, 7);
    }
    /// Twice the columns, of which four CTAs take a quarter of K each and meet in global memory: for very deep products.
    pub tile64x128_split4 = tile64x128 {
        drop(stage(c), swizzle(c), order);
        issue(acc: in_flight(1));
        split_k(k, 4);
    }
    /// The ladder's tile, 128×256, without a cluster: C is collected and stored while the next tile is multiplied.
    pub tile128x256 = stmatrix {
        drop(cluster(i));
        order(serpentine(8));
        alternate(k);
    }
    /// Two warpgroups and a tile of 128×128.
    pub tile128 = tile128x256 {
        tile(j = 128);
        tensor_core(acc: wgmma(64, 128));
        pipeline(k, 5);
    }
    /// Half as many columns again.
    pub tile128x192 = tile128 {
        tile(j = 192);
        tensor_core(acc: wgmma(64, 192));
        pipeline(k, 4);
    }
    /// Three warpgroups, a tile a CTA, where other tiles leave multiprocessors without work. Rows of 96 elements are copied by
    /// thirds.
    pub tile192x96 = tile128x256 {
        tile(i = 192, j = 96);
        tensor_core(acc: wgmma(64, 96));
        drop(stage(c), swizzle(c), persistent, alternate(k), order);
        exchange(c);
        swizzle(b: 64);
        pipeline(k, 5);
        registers(32, 160);
    }
    /// Three warpgroups and a square tile, where tiles of 128×256 leave many multiprocessors without work in the last round.
    pub tile192 = tile128x256 {
        tile(i = 192, j = 192);
        tensor_core(acc: wgmma(64, 192));
        registers(32, 160);
    }
    /// Where rows begin within sectors, what comes from L2 is dear: four CTAs share each tile of B.
    pub shared_by4 = tile128x256 {
        drop(stage(c), swizzle(c));
        exchange(c);
        pipeline(k, 4);
        cluster(i: 4);
    }
    /// Operands swapped, so that rows of C need not be a multiple of 64: tiles of 160×256 leave few multiprocessors without
    /// work where those of 128×256 begin another round, and two CTAs share each tile of B.
    pub swapped160 = tile128x256 {
        tile(i = 160);
        drop(split(i), bind(iw), stage(c), swizzle(c), vectorize(j.pair));
        split(j -> jw, jm: 128);
        tensor_core(acc: wgmma(64, 160); swapped);
        bind(jw -> warpgroup.x);
        exchange(c);
        pipeline(k, 4);
        cluster(i: 2);
        order(grouped(8));
    }
    /// Tiles of 152×256, where those are the ones that come out even, and two CTAs share each tile of A.
    pub swapped152 = swapped160 {
        tile(i = 152);
        tensor_core(acc: wgmma(64, 152); swapped);
        drop(cluster(i));
        cluster(j: 2);
        order(row);
    }
    /// As the ladder's top, with tiles of one size.
    pub pingpong192 = wgmma_best { drop(segment(j)); }
    /// Tiles a third narrower: for products that have few, or rounds of them that come out even.
    pub pingpong128 = pingpong192 {
        tile(j = 128);
        tensor_core(acc: wgmma(64, 128));
        pipeline(k, 7);
        order(grouped(4));
    }
}

/// The ladder, in climbing order.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![
    naive,
    coalesced,
    shared,
    blocktile_1d,
    blocktile_2d,
    vectorized,
    warptile,
    double_buffered,
    prefetched,
    best,
    mma,
    mma_pipelined,
    mma_large_tile,
    mma_best,
    tma_wgmma,
    large_tile,
    producer_consumer,
    two_consumers,
    persistent,
    light_barriers,
    cluster,
    micro,
    tma_store,
    hilbert,
    stmatrix,
    wgmma_best
];

/// Schedules for sizes that are small, flat, narrow, deep or ragged; `choose` says which for which.
pub const BY_SIZE: &[&dyn AnySchedule] = schedules![
    small,
    small_split4,
    small_clustered4,
    small_split16,
    small_split64,
    flat_split16,
    tiny,
    ragged,
    ragged_split4,
    narrow,
    narrow_split4,
    narrow_clustered4,
    narrow_added4,
    narrow_added16,
    tile64,
    tile64x128,
    tile64_clustered2,
    tile64x128_clustered2,
    tile64x128_split4,
    tile128,
    tile128x256,
    tile128x192,
    tile192x96,
    tile192,
    shared_by4,
    swapped160,
    swapped152,
    pingpong192,
    pingpong128
];

/// Schedules of [`matmul_tf32`].
#[allow(dead_code, reason = "the plot of the ladder has the first kernel's schedules alone")]
pub const TF32: &[&dyn AnySchedule] = schedules![
    shared_tf32,
    mma_tf32,
    mma_tf32_best,
    tf32_wgmma,
    tf32_large_tile,
    tf32_pipelined,
    tf32_two_warpgroups,
    tf32_best
];

//! The rungs for Hopper: what each directive makes of the PTX, and that every trip count, tail and order of warps is right.

use crate::{product, products};

use product::{
    cluster, hilbert, large_tile, light_barriers, matmul, micro, persistent, pingpong192, producer_consumer,
    shared_by4, stmatrix, swapped152, swapped160, tile64, tile64_clustered2, tile64x128,
    tile64x128_clustered2, tile64x128_split4, tile128, tile128x192, tile128x256, tile192, tile192x96,
    tma_store, tma_wgmma, two_consumers, wgmma_best,
};
use products::{Factors, count, is, numbers, simulators};
use rayon::prelude::*;
use tilewright::{DType, Stage, Variant, emit, prelude::*};

const RUNGS: [&dyn AnySchedule; 13] = [
    &tma_wgmma,
    &large_tile,
    &producer_consumer,
    &two_consumers,
    &persistent,
    &light_barriers,
    &cluster,
    &micro,
    &tma_store,
    &hilbert,
    &stmatrix,
    &wgmma_best,
    // Beside the ladder.
    &swapped152,
];

/// PTX of a schedule for bf16.
fn ptx(schedule: &dyn AnySchedule) -> String {
    products::ptx(schedule, DType::BF16)
}

#[test]
fn each_rung_is_another_kernel() {
    let copies = "cp.async.bulk.tensor.2d.shared";
    let rung = ptx(&tma_wgmma);
    // One block of 64 rows times four steps of k; a box of A and one of B.
    assert_eq!(count(&rung, "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16"), 4);
    assert_eq!((count(&rung, copies), count(&rung, "mbarrier.init")), (2, 1));

    let rung = ptx(&large_tile);
    // Two blocks of 64 rows times four steps of k; a box of A, and B in two panels of 64 columns.
    assert_eq!(count(&rung, "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16"), 8);
    assert_eq!((count(&rung, copies), count(&rung, "mbarrier.init")), (3, 1));
    assert_eq!(count(&rung, "wgmma.wait_group"), 1);
    assert!(rung.contains(".reqntid 128"));

    let rung = ptx(&producer_consumer);
    // A ring of five, full and empty; the copies stand in one place, in the warp that makes them.
    assert_eq!((count(&rung, copies), count(&rung, "mbarrier.init")), (3, 10));
    assert!(rung.contains(".reqntid 160"));
    // All threads meet once, after the mbarriers are initialised.
    assert_eq!(count(&rung, "bar.sync") + count(&rung, "barrier.sync"), 1, "{rung}");

    let rung = ptx(&two_consumers);
    assert!(rung.contains("m64n256k16") && rung.contains(".reqntid 384"));
    assert_eq!((count(&rung, "setmaxnreg.inc.sync.aligned.u32"), count(&rung, "setmaxnreg.dec")), (1, 1));
    assert!(!rung.contains("%nctaid"));

    let rung = ptx(&persistent);
    assert!(rung.contains("%nctaid"));
    let stores = "cp.async.bulk.tensor.2d.global.shared";
    assert!(!rung.contains(stores));

    // Each of 256 threads arrives, then a lane of each of 8 warps, once they have met.
    let meets = |rung: &str| count(rung, "bar.warp.sync");
    assert_eq!((meets(&rung), meets(&ptx(&light_barriers))), (0, 1), "{rung}");
    let arrivals = |schedule: &dyn AnySchedule, arrivals: u32| {
        let kernel = emit(schedule, Some(DType::BF16), Variant::Exact, Stage::Kernel).expect("it lowers");
        kernel
            .lines()
            .filter(|l| l.contains("mbarriers a.empty") && l.ends_with(&format!("of {arrivals}")))
            .count()
    };
    assert_eq!((arrivals(&persistent, 256), arrivals(&light_barriers, 8)), (1, 1));
    // Half of 128 sums' pairs, one by one, and four by four once four lanes have exchanged them.
    let stored = |rung: &str| (count(rung, "st.global"), count(rung, "st.global.v4"));
    assert_eq!((stored(&rung), stored(&ptx(&light_barriers))), ((64, 0), (16, 16)));
    assert_eq!((count(&rung, "shfl.sync.bfly"), count(&ptx(&light_barriers), "shfl.sync.bfly")), (0, 64));

    let rung = ptx(&cluster);
    // Two of the four panels of B go to both CTAs, the box of A to one. The last warps' lanes tell both producers.
    assert!(rung.contains(".reqnctapercluster 2, 1, 1"), "{rung}");
    assert_eq!((count(&rung, copies), count(&rung, ".multicast::cluster")), (3, 2));
    assert_eq!((count(&rung, "mapa.shared::cluster"), count(&rung, "barrier.cluster.wait")), (1, 2));

    // The products of a step are waited for in the next one, and those of the last behind the loop. Of four in a step, the
    // first asks whether it overwrites.
    let (zeroed, overwritten) = (rung, ptx(&micro));
    let waits = |rung: &str| {
        (count(rung, "wgmma.wait_group.sync.aligned 0"), count(rung, "wgmma.wait_group.sync.aligned 1"))
    };
    assert_eq!((waits(&zeroed), waits(&overwritten)), ((1, 0), (1, 1)));
    let kernel =
        |schedule| emit(schedule, Some(DType::BF16), Variant::Exact, Stage::Kernel).expect("it lowers");
    assert_eq!((count(&kernel(&cluster), " overwrites "), count(&kernel(&micro), " overwrites ")), (0, 1));

    let rung = ptx(&tma_store);
    // Four panels of 64 columns, sent off by one thread, after the threads that compute have met, with their own barrier.
    assert_eq!(count(&rung, stores), 4);
    assert!(rung.contains("cp.async.bulk.wait_group.read") && rung.contains("fence.proxy.async"));
    assert_eq!(count(&rung, "st.global"), 0);
    let elements = |rung: &str| (count(rung, "st.shared"), count(rung, "stmatrix.sync"));
    // Half of 256 accumulators' pairs, a pair a store; the two words of each mbarrier are no such stores.
    assert_eq!(elements(&rung), (64, 0));

    let (banded, curved) = (rung, ptx(&hilbert));
    assert_ne!(banded, curved.replace("hilbert", "tma_store"));

    let rung = ptx(&stmatrix);
    assert_eq!(elements(&rung), (0, 16));
    assert_eq!(count(&rung, "stmatrix.sync.aligned.m8n8.x4.shared.b16"), 16);

    // No cluster; the bands, walked along, are another kernel than those walked back and forth. Of both halves of a tile the
    // products by the same rows of B follow one another.
    let rung = ptx(&wgmma_best);
    assert!(!rung.contains("cluster 2") && !rung.contains("mapa"));
    let named = |schedule: &dyn AnySchedule| ptx(schedule).replace(schedule.name(), "wgmma_best");
    assert_eq!(rung, named(&local::unchanged), "but for its name");
    assert_ne!(rung, named(&local::back));
    assert_ne!(rung, named(&local::halves));

    // Two groups that compute, with a program and a tile of C each, and an mbarrier for the turn of either.
    let (alone, turns) = (ptx(&tile128), ptx(&local::pingpong));
    let roles =
        |rung: &str| (count(rung, "setmaxnreg.inc"), count(rung, "mbarrier.init"), count(rung, stores));
    assert_eq!((roles(&alone), roles(&turns)), ((1, 10, 2), (2, 12, 4)));
    assert!(alone.contains(".reqntid 384") && turns.contains(".reqntid 384"));
}

/// Variations of the rungs.
mod local {
    use super::product;
    use tilewright::prelude::*;

    schedule! {
        pub unchanged on sm_90a for product::matmul<f16 | bf16> = product::wgmma_best {}
        pub back on sm_90a for product::matmul<f16 | bf16> = product::wgmma_best { order(serpentine(4)); }
        pub halves on sm_90a for product::matmul<f16 | bf16> = product::wgmma_best { drop(reorder(in acc)); }
        /// k runs forwards for all tiles.
        pub forwards = product::tile128x256 { drop(alternate(k)); }
        /// Groups that collect C, each a tile of its own.
        pub pingpong = product::pingpong128 {
            drop(exchange(c));
            stage(c: shared, tma, stmatrix);
            swizzle(c: 128);
            pipeline(k, 5);
        }
        /// Groups in a cluster, each thread of which arrives.
        pub clustered = pingpong {
            cluster(i: 2);
            arrive(k: thread);
        }
        /// Three groups, and no products in flight.
        pub three = pingpong {
            tile(i = 64);
            drop(issue(acc), reorder(in acc));
            pingpong(3);
            pipeline(k, 4);
            registers(24, 144);
        }
        /// Tiles of 128×192.
        pub collected192 = pingpong {
            tile(j = 192);
            tensor_core(acc: wgmma(64, 192));
            pipeline(k, 3);
        }
        /// Four CTAs take a quarter of K each.
        pub tile64_split4 on sm_90a for product::matmul<f16 | bf16> = product::tma_wgmma {
            pipeline(k, 6);
            split_k(k, 4);
        }
        /// Threads of their own copy, and those that compute meet: three CTAs, of which one has no neighbour; two
        /// warpgroups in eight.
        pub produced_split3 = tile64_split4 { produce(k: warp); split_k(k, 3); }
        pub produced_split8 for product::matmul<f16 | bf16> = product::two_consumers { split_k(k, 8); }
        /// The four are a cluster, and all threads that compute copy.
        pub tile64_clustered4 = tile64_split4 { split_k(k, 4; cluster); }
    }
}

/// For every second tile of a CTA, k runs backwards: 2²⁴ + 1 - 2²⁴ is 0 in f32, and -2²⁴ + 2²⁴ + 1 is 1.
#[test]
fn every_second_tile_is_summed_from_the_end() {
    let device = Device::sim();
    let (m, n, k) = (8 * 128, 256, 128);
    let large = bf16::from_f32(4096.0);
    let factor = |l: usize, own: bf16| {
        if l.is_multiple_of(64) { own } else { bf16::from_f32(f32::from(u8::from(l == 16))) }
    };
    let a: Vec<bf16> =
        (0..m * k).map(|at| factor(at % k, if at % k == 0 { large } else { -large })).collect();
    let b: Vec<bf16> = (0..k * n).map(|at| factor(at / n, large)).collect();
    let (a, b) = (
        Buffer::from_slice(&device, &a, &[m, k]).expect("room"),
        Buffer::from_slice(&device, &b, &[k, n]).expect("room"),
    );
    let tiles = |schedule: &'static dyn AnySchedule| {
        let mut c = Buffer::<bf16>::poisoned(&device, &[m, n]).expect("room");
        matmul(&a, &b, &mut c).schedule_dyn(schedule).run().expect("it runs");
        let c = c.to_vec().expect("read back");
        let tile = |t: &[bf16]| {
            assert!(t.iter().all(|x| *x == t[0]), "one order a tile");
            t[0].to_f32()
        };
        let mut tiles: Vec<f32> = c.chunks(128 * n).map(tile).collect();
        tiles.sort_by(f32::total_cmp);
        tiles
    };
    // Four multiprocessors with two tiles each.
    assert_eq!(tiles(&local::forwards), [0.0; 8]);
    assert_eq!(tiles(&tile128x256), [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]);
}

fn check(schedule: &dyn AnySchedule, size: [usize; 3], seed: u64) {
    check_on(&Device::sim_with_seed(seed), schedule, size, seed);
}

fn check_on(device: &Device, schedule: &dyn AnySchedule, size: [usize; 3], seed: u64) {
    let factors = Factors::new(size, numbers);
    let (a, b) = factors.buffers(device, bf16::from_f32, Layout::RowMajor);
    let what = format!("{}, seed {seed}", schedule.name());
    factors.check(
        device,
        &what,
        |c| matmul(&a, &b, c).schedule_dyn(schedule).run(),
        |i, j, found| is(found, bf16::from_f32(factors.sum(i, j))),
    );
}

/// A ring of three stages: none, one, one less than stages, as many, one more; whole tiles and tails.
#[test]
fn every_trip_count_and_tail_is_right() {
    for (seed, k) in (1..).zip([0, 8, 64, 128, 192, 200, 256, 328]) {
        for schedule in RUNGS {
            check(schedule, [72, 136, k], seed);
        }
    }
}

/// Twelve tiles on the simulator's four multiprocessors, in uneven rows; rows that no tensor map addresses.
#[test]
fn persistent_ctas_take_tile_after_tile() {
    for (seed, size) in [[392, 776, 72], [385, 769, 65], [136, 1288, 192]].into_iter().enumerate() {
        let taking: [&dyn AnySchedule; 12] = [
            &light_barriers,
            &tile128x256,
            &shared_by4,
            &swapped160,
            &swapped152,
            &persistent,
            &cluster,
            &micro,
            &stmatrix,
            &wgmma_best,
            &local::pingpong,
            &pingpong192,
        ];
        taking.into_par_iter().for_each(|schedule| check(schedule, size, seed as u64));
    }
}

/// Neither the order of warps nor when copies complete decides anything.
#[test]
fn seeds_agree() {
    for (seed, device) in simulators(0..10) {
        for schedule in RUNGS {
            check_on(&device, schedule, [72, 136, 136], seed);
        }
    }
}

/// Tiles of other shapes, whole and not.
#[test]
fn every_tile_is_right() {
    let tiles: [&dyn AnySchedule; 16] = [
        &tile64,
        &tile64x128,
        &tile64_clustered2,
        &tile64x128_clustered2,
        &tile64x128_split4,
        &local::tile64_split4,
        &local::produced_split3,
        &local::produced_split8,
        &local::tile64_clustered4,
        &tile128,
        &tile128x192,
        &tile192,
        &tile192x96,
        &pingpong192,
        &local::pingpong,
        &local::collected192,
    ];
    for (seed, size) in [[192, 192, 256], [200, 136, 328], [72, 392, 64]].into_iter().enumerate() {
        for schedule in tiles {
            check(schedule, size, seed as u64);
        }
    }
}

/// Several tiles a CTA.
#[test]
fn seeds_agree_from_tile_to_tile() {
    let launches: [(&dyn AnySchedule, [usize; 3]); 12] = [
        (&tma_store, [136, 264, 136]),
        (&stmatrix, [136, 264, 136]),
        (&wgmma_best, [136, 264, 136]),
        (&local::pingpong, [136, 264, 136]),
        (&local::clustered, [264, 520, 72]),
        (&local::three, [264, 520, 72]),
        (&local::clustered, [200, 1032, 264]),
        (&local::three, [200, 1032, 264]),
        // Tiles for both groups of some CTAs, and steps that turn the ring of five an odd number of times.
        (&local::pingpong, [264, 520, 72]),
        (&wgmma_best, [264, 520, 72]),
        (&local::pingpong, [520, 264, 328]),
        (&wgmma_best, [520, 264, 328]),
    ];
    launches.into_par_iter().for_each(|(schedule, size)| {
        for (seed, device) in simulators(0..3) {
            check_on(&device, schedule, size, seed);
        }
    });
}

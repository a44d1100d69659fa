//! The rungs for Hopper: what each directive makes of the PTX, and that every trip count, tail and order of warps is right.

#[path = "../examples/matmul/kernel.rs"]
#[allow(dead_code, reason = "the rungs for Hopper alone")]
mod product;

use product::{
    cluster, hilbert, large_tile, light_barriers, matmul, micro, persistent, pingpong, pingpong192,
    producer_consumer, shared_by4, stmatrix, tile64, tile64_split4, tile64x128, tile128, tile192, tma_store,
    tma_wgmma, two_consumers, wgmma_best,
};
use tilewright::{DType, Variant, prelude::*};

const RUNGS: [&dyn AnySchedule; 12] = [
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
];

/// PTX of a schedule for bf16.
fn ptx(schedule: &dyn AnySchedule) -> String {
    tilewright::ptx(schedule, Some(DType::BF16), Variant::Exact).expect("it compiles").text
}

fn count(text: &str, what: &str) -> usize {
    text.matches(what).count()
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
    let arrivals = |rung: &str, count: u32| rung.contains(&format!("{count};\n\tmbarrier.init"));
    let meets = |rung: &str| count(rung, "bar.warp.sync");
    let light = ptx(&light_barriers);
    assert_eq!((meets(&rung), meets(&light)), (0, 1), "{rung}");
    assert_eq!(count(&light, "mbarrier.init"), count(&rung, "mbarrier.init"));
    let _ = arrivals;

    let rung = ptx(&cluster);
    // Two of the four panels of B go to both CTAs, the box of A to one. The last warps' lanes tell both producers.
    assert!(rung.contains(".reqnctapercluster 2, 1, 1"), "{rung}");
    assert_eq!((count(&rung, copies), count(&rung, ".multicast::cluster")), (3, 2));
    assert_eq!((count(&rung, "mapa.shared::cluster"), count(&rung, "barrier.cluster.wait")), (1, 2));

    // Nothing but the first step's first product knows that it is the first; and a wait that leaves one group in flight.
    let (zeroed, overwritten) = (rung, ptx(&micro));
    let waits = |rung: &str| {
        (count(rung, "wgmma.wait_group.sync.aligned 0"), count(rung, "wgmma.wait_group.sync.aligned 1"))
    };
    assert_eq!((waits(&zeroed), waits(&overwritten)), ((1, 0), (1, 1)));

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
}

/// Small whole numbers: their sums are exact in f32.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|n| ((n * 7 + n / 11 * 3 + seed * 5) % 7) as f32 - 3.0).collect()
}

fn check(schedule: &dyn AnySchedule, size: [usize; 3], seed: u64) {
    check_on(&Device::sim_with_seed(seed), schedule, size, seed);
}

fn check_on(device: &Device, schedule: &dyn AnySchedule, [m, n, k]: [usize; 3], seed: u64) {
    let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
    let half = |x: &[f32]| x.iter().map(|x| bf16::from_f32(*x)).collect::<Vec<_>>();
    let (da, db) = (
        Buffer::from_slice(device, &half(&a), &[m, k]).expect("room"),
        Buffer::from_slice(device, &half(&b), &[k, n]).expect("room"),
    );
    let poison = vec![bf16::NAN; m * n];
    let mut c = Buffer::from_slice(device, &poison, &[m, n]).expect("room");
    let report = matmul(&da, &db, &mut c).schedule_dyn(schedule).run().expect("it runs");
    let name = schedule.name();
    assert!(report.findings.is_empty(), "{name}, {m}×{n}×{k}, seed {seed}: {}", report.findings[0]);
    let found = c.to_vec().expect("read back");
    for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
        let sum: f32 = (0..k).map(|l| a[i * k + l] * b[l * n + j]).sum();
        let wanted = bf16::from_f32(sum);
        assert_eq!(found[i * n + j], wanted, "{name}, C[{i}, {j}] of {m}×{n}×{k}, seed {seed}");
    }
}

/// A ring of three slots: none, one, one less than slots, as many, one more; whole tiles and tails.
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
        let taking: [&dyn AnySchedule; 8] =
            [&shared_by4, &persistent, &cluster, &micro, &stmatrix, &wgmma_best, &pingpong, &pingpong192];
        for schedule in taking {
            check(schedule, size, seed as u64);
        }
    }
}

/// Neither the order of warps nor when copies complete decides anything.
#[test]
fn seeds_agree() {
    for seed in 0..10 {
        for schedule in RUNGS {
            for device in [Device::sim_with_seed(seed), Device::sim_early(seed)] {
                check_on(&device, schedule, [72, 136, 136], seed);
            }
        }
    }
}

/// Tiles of other shapes, whole and not.
#[test]
fn every_tile_is_right() {
    let tiles: [&dyn AnySchedule; 7] =
        [&tile64, &tile64x128, &tile64_split4, &tile128, &tile192, &pingpong, &pingpong192];
    for (seed, size) in [[192, 192, 256], [200, 136, 328], [72, 392, 64]].into_iter().enumerate() {
        for schedule in tiles {
            check(schedule, size, seed as u64);
        }
    }
}

/// Several tiles a CTA.
#[test]
fn seeds_agree_from_tile_to_tile() {
    for seed in 0..3 {
        for device in [Device::sim_with_seed(seed), Device::sim_early(seed)] {
            for schedule in [&tma_store as &dyn AnySchedule, &stmatrix, &pingpong] {
                check_on(&device, schedule, [136, 264, 136], seed);
            }
            // Tiles for both groups of some CTAs, and steps that turn the ring of five an odd number of times.
            check_on(&device, &pingpong, [264, 520, 72], seed);
            check_on(&device, &pingpong, [520, 264, 328], seed);
        }
    }
}

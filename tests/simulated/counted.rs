//! Tiles by a counter: each is taken once, and the counter is at zero for the next launch.

use crate::products::{Factors, is, numbers, simulators};
use tilewright::{Graph, prelude::*};

mod kernels {
    use tilewright::prelude::*;

    /// c = lower(a)·b: lower rows take longer.
    #[tile_kernel]
    pub fn lower(a: &Tensor<f32, M, K>, b: &Tensor<f32, K, N>, c: &mut Tensor<f32, M, N>) {
        let (i, j) = program_tile(M, N);
        let mut acc = zeros::<f32>([i, j]);
        for k in tiles(K).below(i + 1) {
            acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
        }
        store(c, [i, j], acc);
    }

    schedule! {
        pub counted on sm_90 for lower {
            tile(i = 16, j = 16, k = 8);
            split(i -> it, ir: 4);
            split(j -> jt, jr: 2);
            stage(a, b at k: shared, tma);
            pipeline(k, 2);
            produce(k: warp);
            bind(it -> thread.y, jt -> thread.x);
            persistent(1, counter);
            order(reversed);
        }
        pub in_bands = counted { order(backwards(2) over j, i); persistent(2, counter); }
    }
}
use kernels as k;

fn check(device: &Device, schedule: &dyn AnySchedule, [m, n, depth]: [usize; 3], what: &str) {
    let factors = Factors::new([m, n, depth], numbers);
    let (a, b) = factors.buffers(device, |x| x, Layout::RowMajor);
    let launch = |c: &mut Buffer<f32>| k::lower(&a, &b, c).schedule_dyn(schedule).run();
    factors.check(device, &format!("{what} {}", schedule.name()), launch, |i, j, found| {
        is(found, factors.pairs(i, j).take(i + 1).map(|(a, b)| a * b).sum::<f32>())
    });
}

/// No tile, fewer than CTAs, as many, one more, and many, in whichever order warps run.
#[test]
fn every_tile_is_taken_once() {
    for (seed, device) in simulators(0..3) {
        for size in [[0, 16, 16], [16, 16, 8], [48, 16, 40], [64, 16, 64], [80, 16, 80], [150, 70, 150]] {
            for schedule in [&k::counted as &dyn AnySchedule, &k::in_bands] {
                check(&device, schedule, size, &format!("seed {seed}"));
            }
        }
    }
}

/// Launches of one stream share a counter: each leaves it at zero.
#[test]
fn launches_follow_one_another() {
    let device = Device::sim();
    let stream = Stream::new(&device).unwrap();
    let mut graph = Graph::new(&device);
    let sizes = [[150, 70, 150], [16, 16, 16], [100, 40, 60]];
    for round in 0..2 {
        for size @ [m, n, _] in sizes {
            let factors = Factors::new(size, numbers);
            let (a, b) = factors.buffers(&device, |x| x, Layout::RowMajor);
            let [mut queued, mut recorded] =
                [0; 2].map(|_| Buffer::<f32>::poisoned(&device, &[m, n]).unwrap());
            k::lower(&a, &b, &mut queued).schedule(k::counted).enqueue(&stream).unwrap();
            let replayed = graph.replay(&stream, |launches| {
                launches.add(k::lower(&a, &b, &mut recorded).schedule(k::counted)).map(|_| ())
            });
            replayed.unwrap();
            stream.sync().unwrap();
            for (what, c) in [("queued", queued), ("recorded", recorded)] {
                for (at, found) in c.to_vec().unwrap().into_iter().enumerate() {
                    let (i, j) = (at / n, at % n);
                    let wanted: f32 = factors.pairs(i, j).take(i + 1).map(|(a, b)| a * b).sum();
                    assert_eq!(found, wanted, "{what}, round {round}, {size:?} at {i}, {j}");
                }
            }
        }
    }
}

/// Each of several problems has scratch of its own, so these take their tiles in rounds.
#[test]
fn problems_of_a_group_are_right() {
    let device = Device::sim();
    let sizes = [[100, 40, 60], [0, 16, 16], [16, 70, 16], [64, 64, 64]];
    let factors = sizes.map(|size| Factors::new(size, numbers));
    let buffers = factors.each_ref().map(|f| f.buffers(&device, |x| x, Layout::RowMajor));
    let mut results = sizes.map(|[m, n, _]| Buffer::<f32>::poisoned(&device, &[m, n]).unwrap());
    for schedule in [&k::counted as &dyn AnySchedule, &k::in_bands] {
        let launches = buffers.iter().zip(&mut results).map(|((a, b), c)| k::lower(a, b, c));
        let report = grouped(launches).schedule_dyn(schedule).run().unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        for (factors, (c, [_, n, _])) in factors.iter().zip(results.iter().zip(sizes)) {
            for (at, found) in c.to_vec().unwrap().into_iter().enumerate() {
                let (i, j) = (at / n, at % n);
                let wanted: f32 = factors.pairs(i, j).take(i + 1).map(|(a, b)| a * b).sum();
                assert_eq!(found, wanted, "{} at {i}, {j}", schedule.name());
            }
        }
    }
}

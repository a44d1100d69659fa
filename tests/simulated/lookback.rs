//! Loops whose steps CTAs share out, each of which looks back at what the steps before it say.

use crate::{products::simulators, support::agree};
use tilewright::{DType, Graph, prelude::*};

mod kernels {
    use tilewright::prelude::*;

    /// Sums so far and the greatest so far, and what both end with.
    #[tile_kernel]
    pub fn running(
        x: &Tensor<i32, R, N>,
        y: &mut Tensor<i32, R, N>,
        z: &mut Tensor<i32, R, N>,
        end: &mut Tensor<i32, R>,
    ) {
        let r = program_tile(R);
        let mut before = full::<i32>(5, [r]);
        let mut most = full::<i32>(i32::MIN, [r]);
        for n in tiles(N) {
            let v = load(x, [r, n]);
            store(y, [r, n], cumsum(v, n) + before);
            store(z, [r, n], max(cummax(v, n), most));
            before += sum(v, n);
            most = max(most, max(v, n));
        }
        store(end, [r], before ^ most);
    }

    /// Sums so far of fractions, in place.
    #[tile_kernel]
    pub fn sums<T: Float>(x: &mut Tensor<T, R, N>) {
        let r = program_tile(R);
        let mut before = zeros::<f32>([r]);
        for n in tiles(N) {
            let v = load(x, [r, n]).cast::<f32>();
            let part = sum(v, n);
            store(x, [r, n], (cumsum(v, n) + before).cast::<T>());
            before += part;
        }
    }

    /// What is above a limit, in its order.
    #[tile_kernel]
    pub fn compact(x: &Tensor<f32, N>, limit: f32, y: &mut Tensor<f32, N>, count: &mut Tensor<i32, 1>) {
        let one = program_tile(1);
        let mut before = zeros::<i32>([one]);
        for n in tiles(N) {
            let v = load(x, [n]);
            let kept = (v > limit).cast::<i32>();
            let place = cumsum(kept, n);
            if kept == 1 {
                store(y, [unique(before + place - 1)], v);
            }
            before += sum(kept, n);
        }
        store(count, [one], before);
    }

    schedule! {
        /// Two states; elements of a thread lie apart.
        pub both for running {
            tile(r = 1, n = 256);
            split(n -> nq, nr: 128);
            split(nr -> nt, nv: 2);
            reduce(y.cumsum, z.cummax, before.sum, most.max: cta);
            bind(nt -> thread.x);
            unroll(nq);
            vectorize(nv);
            lookback(n);
        }
        /// 33 threads, one of them in a warp of its own.
        pub odd for running {
            tile(r = 1, n = 99);
            split(n -> nt, nv: 3);
            reduce(y.cumsum, z.cummax, before.sum, most.max: cta);
            bind(nt -> thread.x);
            lookback(n);
        }
        pub warp for sums<f32 | f16 | bf16> {
            tile(r = 1, n = 64);
            split(n -> nt, nv: 2);
            reduce(x.cumsum, part: cta);
            bind(nt -> lane.x);
            vectorize(nv);
            order(col);
            lookback(n, any_order);
        }
        pub in_order for compact {
            tile(one = 1, n = 64);
            reduce(place, before.sum: cta);
            bind(n.t -> thread.x);
            lookback(n);
        }
    }
}
use kernels as k;

const SIZES: &[&[(&str, i64)]] = &[
    &[("R", 1), ("N", 1)],
    &[("R", 3), ("N", 64)],
    &[("R", 2), ("N", 256)],
    &[("R", 1), ("N", 5003)],
    &[("R", 5), ("N", 1000)],
    &[("R", 3), ("N", 0)],
    &[("R", 0), ("N", 300)],
];

#[test]
fn steps_find_what_is_before_them() {
    agree::<k::running>(k::running::KERNEL, None, &[&k::both, &k::odd], SIZES);
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        agree::<k::sums>(k::sums::KERNEL, Some(dtype), &[&k::warp], SIZES);
    }
}

/// What is kept of some numbers, whose places say how many are before them.
fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|at| ((at * 37) % 101) as f32 - 50.0).collect()
}

fn is_kept(x: &[f32], y: &Buffer<f32>, count: &Buffer<i32>, what: &str) {
    let kept: Vec<f32> = x.iter().copied().filter(|x| *x > 10.0).collect();
    assert_eq!(count.to_vec().unwrap(), [kept.len() as i32], "{what}: {}", x.len());
    assert_eq!(y.to_vec().unwrap()[..kept.len()], kept, "{what}: {}", x.len());
}

/// In whichever order warps and CTAs run: whoever looks back meets all values, parts, and words that are not there yet, and more
/// than a warp looks at at once.
#[test]
fn what_is_kept_is_in_its_order() {
    for (seed, device) in simulators(0..24) {
        for n in [0, 1, 63, 64, 65, 2100, 64 * 70] {
            let x = numbers(n);
            let (input, mut y) =
                (Buffer::from_slice(&device, &x, &[n]), Buffer::poisoned(&device, &[n]).unwrap());
            let mut count = Buffer::<i32>::poisoned(&device, &[1]).unwrap();
            let report =
                k::compact(&input.unwrap(), 10.0, &mut y, &mut count).schedule(k::in_order).run().unwrap();
            assert!(report.findings.is_empty(), "seed {seed}: {:?}", report.findings);
            is_kept(&x, &y, &count, &format!("seed {seed}"));
        }
    }
}

/// Launches of one stream share numbers, arrivals and words: each leaves them at zero, also for one of another size.
#[test]
fn launches_follow_one_another() {
    let device = Device::sim();
    let stream = Stream::new(&device).unwrap();
    let mut graph = Graph::new(&device);
    for round in 0..2 {
        for n in [1000, 10, 3000, 0, 500] {
            let x = numbers(n);
            let input = Buffer::from_slice(&device, &x, &[n]).unwrap();
            let [mut queued, mut recorded] = [0; 2].map(|_| Buffer::<f32>::poisoned(&device, &[n]).unwrap());
            let [mut counted, mut again] = [0; 2].map(|_| Buffer::<i32>::poisoned(&device, &[1]).unwrap());
            k::compact(&input, 10.0, &mut queued, &mut counted)
                .schedule(k::in_order)
                .enqueue(&stream)
                .unwrap();
            let replayed = graph.replay(&stream, |launches| {
                let launch = k::compact(&input, 10.0, &mut recorded, &mut again).schedule(k::in_order);
                launches.add(launch).map(|_| ())
            });
            replayed.unwrap();
            stream.sync().unwrap();
            is_kept(&x, &queued, &counted, &format!("queued in round {round}"));
            is_kept(&x, &recorded, &again, &format!("recorded in round {round}"));
        }
    }
}

/// Each of several problems has numbers of its own.
#[test]
fn problems_of_a_group_are_right() {
    let device = Device::sim();
    let all = [1000, 0, 64, 131].map(numbers);
    let inputs = all.each_ref().map(|x| Buffer::from_slice(&device, x, &[x.len()]).unwrap());
    let mut kept = all.each_ref().map(|x| Buffer::<f32>::poisoned(&device, &[x.len()]).unwrap());
    let mut counts = all.each_ref().map(|_| Buffer::<i32>::poisoned(&device, &[1]).unwrap());
    let launches = inputs.iter().zip(kept.iter_mut().zip(&mut counts));
    let launches = launches.map(|(x, (y, count))| k::compact(x, 10.0, y, count));
    let report = grouped(launches).schedule(k::in_order).run().unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    for ((x, y), count) in all.iter().zip(&kept).zip(&counts) {
        is_kept(x, y, count, "of a group");
    }
}

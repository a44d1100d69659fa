//! Tensors whose rows no tensor map addresses, on the simulator: what is copied to padded rows and back, and what a launch
//! leaves as it was.

use crate::{product, products};

use product::{matmul, tma_store};
use products::numbers;
use tilewright::{DType, Graph, Stage, Stream, Variant, emit, prelude::*};

/// y = 2·x, and x = x + 1 where it lies.
#[tile_kernel]
fn step(x: &mut Tensor<f32, M, N>, y: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    let v = load(x, [i, j]);
    store(y, [i, j], 2.0 * v);
    store(x, [i, j], v + 1.0);
}

/// The first columns of y; others stay.
#[tile_kernel]
fn beside(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, M, { N + 3 }>) {
    let (i, j) = program_tile(M, N);
    store(y, [i, j], load(x, [i, j]));
}

/// Row sums, row by row: nothing to sum where N is 0.
#[tile_kernel]
fn sums(x: &Tensor<f32, N, M>, y: &mut Tensor<f32, P, M>) {
    let (p, i) = program_tile(P, M);
    let mut s = zeros::<f32>([i]);
    for n in tiles(N) {
        s += sum(load(x, [n, i]), n);
    }
    store(y, [p, i], s + zeros::<f32>([p, i]));
}

schedule! {
    stepped on sm_90 for step {
        tile(i = 8, j = 64);
        bind(j -> thread.x);
        unroll(i);
        stage(y: shared, tma);
    }
    loaded on sm_90 for beside {
        tile(i = 8, j = 64);
        stage(x at j: shared, tma);
        bind(j -> thread.x);
    }
    summed on sm_90 for sums {
        tile(p = 4, i = 64, n = 8);
        bind(i -> thread.x);
        unroll(p);
        stage(x at n: shared, tma);
        stage(y: shared, tma);
    }
}

/// The maps say which tensors are stored, as a whole: those alone are not copied in.
#[test]
fn maps_say_which_way_they_go() {
    let maps = |schedule: &dyn AnySchedule, dtype, wanted: &[&str]| {
        for variant in [Variant::Exact, Variant::Aligned, Variant::General] {
            let text = emit(schedule, dtype, variant, Stage::Kernel).expect("it lowers");
            let maps: Vec<&str> = text
                .lines()
                .filter(|l| l.contains(".map: "))
                .map(|l| l.split(" [").next().unwrap().trim())
                .collect();
            assert_eq!(maps, wanted, "{text}");
        }
    };
    maps(
        &tma_store,
        Some(DType::BF16),
        &["param a.map: map a", "param b.map: map b", "param c.map: stored map c"],
    );
    maps(&stepped, None, &["param y.map: stored map y"]);
    maps(&loaded, None, &["param x.map: map x"]);
    maps(&summed, None, &["param x.map: map x", "param y.map: stored map y"]);
}

/// A view in the middle of a poisoned buffer, and of one that holds something: every element is stored, and no other.
#[test]
fn a_view_is_stored_and_nothing_beside_it() {
    let half = |x: &[f32]| x.iter().map(|x| bf16::from_f32(*x)).collect::<Vec<_>>();
    for (seed, [m, n, k]) in (0..).zip([[136, 257, 65], [1, 1, 1], [129, 3, 0], [64, 64, 64]]) {
        let device = Device::sim_with_seed(seed);
        let kernel = tma_store.prepare(&device, DType::BF16).expect("it compiles");
        let (stream, mut graph) = (Stream::new(&device).expect("a stream"), Graph::new(&device));
        for (round, before) in [f32::NAN, 7.0].into_iter().enumerate() {
            let (a, b) = (numbers(m * k, round), numbers(k * n, round + 2));
            let (da, db) = (
                Buffer::from_slice(&device, &half(&a), &[m, k]).expect("room"),
                Buffer::from_slice(&device, &half(&b), &[k, n]).expect("room"),
            );
            let width = n + 4;
            for way in 0..3 {
                let poison = vec![bf16::from_f32(before); (m + 2) * width];
                let mut whole = Buffer::from_slice(&device, &poison, &[m + 2, width]).expect("room");
                let mut c = whole.slice_mut(&[1..m + 1, 3..n + 3]).expect("a view");
                let launch = matmul(&da, &db, &mut c).prepared(&kernel);
                match way {
                    0 => {
                        let report = launch.run().expect("it runs");
                        assert!(report.findings.is_empty(), "{}", report.findings[0]);
                    }
                    1 => drop(launch.enqueue(&stream).expect("it runs")),
                    _ => drop(graph.replay(&stream, |l| l.add(launch).map(drop)).expect("it runs")),
                }
                drop(c);
                for (at, found) in whole.to_vec().expect("read back").into_iter().enumerate() {
                    let (row, column) = (at / width, at % width);
                    let inside = (1..=m).contains(&row) && (3..n + 3).contains(&column);
                    let wanted = match inside {
                        true => (0..k).map(|l| a[(row - 1) * k + l] * b[l * n + column - 3]).sum(),
                        false => before,
                    };
                    let same = found.to_f32() == wanted || (wanted.is_nan() && found.is_nan());
                    assert!(same, "{found} at {row}, {column} of {m}×{n}×{k}, not {wanted}, way {way}");
                }
            }
        }
    }
}

/// What is updated where it lies goes by no map, beside a tensor that does.
#[test]
fn updates_in_place_beside_what_maps_store() {
    let device = Device::sim();
    for [m, n] in [[20, 129], [8, 64], [1, 1], [0, 5], [5, 0]] {
        let before = numbers(m * n, 1);
        let mut x = Buffer::from_slice(&device, &before, &[m, n]).expect("room");
        let mut y = Buffer::<f32>::poisoned(&device, &[m, n]).expect("room");
        for round in 0..3 {
            let report = step(&mut x, &mut y).schedule(stepped).run().expect("it runs");
            assert!(report.findings.is_empty(), "{}", report.findings[0]);
            let (x, y) = (x.to_vec().expect("read back"), y.to_vec().expect("read back"));
            for (at, before) in before.iter().enumerate() {
                let v = before + round as f32;
                assert_eq!((x[at], y[at]), (v + 1.0, 2.0 * v), "{at} of {m}×{n}, round {round}");
            }
        }
    }
}

/// What a kernel stores by itself, a part of a tensor here, needs no copy of that tensor.
#[test]
fn a_part_is_stored_beside_maps_that_read() {
    let device = Device::sim();
    for [m, n] in [[20, 129], [8, 64], [3, 1], [3, 0]] {
        let from = numbers(m * n, 1);
        let x = Buffer::from_slice(&device, &from, &[m, n]).expect("room");
        let mut y = Buffer::from_slice(&device, &vec![9.0f32; m * (n + 3)], &[m, n + 3]).expect("room");
        let report = beside(&x, &mut y).schedule(loaded).run().expect("it runs");
        assert!(report.findings.is_empty(), "{}", report.findings[0]);
        for (at, found) in y.to_vec().expect("read back").into_iter().enumerate() {
            let (i, j) = (at / (n + 3), at % (n + 3));
            assert_eq!(found, if j < n { from[i * n + j] } else { 9.0 }, "{i}, {j} of {m}×{n}");
        }
    }
}

/// Nothing is read, and all is stored: over no steps of the loop, of a tensor without elements.
#[test]
fn what_is_stored_does_not_hang_on_what_is_read() {
    let device = Device::sim();
    for [p, m, n] in [[5, 67, 0], [5, 67, 1], [4, 64, 17], [1, 1, 9]] {
        let from = numbers(n * m, 3);
        let x = Buffer::from_slice(&device, &from, &[n, m]).expect("room");
        let mut y = Buffer::<f32>::poisoned(&device, &[p, m]).expect("room");
        let report = sums(&x, &mut y).schedule(summed).run().expect("it runs");
        assert!(report.findings.is_empty(), "{}", report.findings[0]);
        for (at, found) in y.to_vec().expect("read back").into_iter().enumerate() {
            let wanted: f32 = (0..n).map(|l| from[l * m + at % m]).sum();
            assert_eq!(found, wanted, "{at} of {p}×{m} over {n}");
        }
    }
}

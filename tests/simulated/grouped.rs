//! Several problems in one launch: each is computed as it would be alone.

use crate::product;
use product::matmul;
use tilewright::{DType, Error, Graph, LaunchReport, PtxSource, Variant, aot, bundle, prelude::*};

/// Rows, columns and depth of each problem: tails, one tile, several, none.
const SIZES: [[usize; 3]; 6] =
    [[64, 64, 64], [200, 136, 72], [0, 64, 64], [8, 264, 8], [136, 8, 200], [128, 128, 0]];

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|n| ((n * 7 + seed * 13) % 5) as f32 - 2.0).collect()
}

struct Problem<T> {
    size: [usize; 3],
    a: Buffer<T>,
    b: Buffer<T>,
    c: Buffer<T>,
}

impl<T: Element> Problem<T> {
    fn new(device: &Device, size: [usize; 3], seed: usize, of: impl Fn(f32) -> T) -> Self {
        let [m, n, k] = size;
        let fill = |shape: [usize; 2], seed| {
            let elements: Vec<T> = numbers(shape[0] * shape[1], seed).into_iter().map(&of).collect();
            Buffer::from_slice(device, &elements, &shape).expect("room")
        };
        let c = Buffer::poisoned(device, &[m, n]).expect("room");
        Problem { size, a: fill([m, k], seed), b: fill([k, n], seed + 1), c }
    }

    /// Sums of products are exact in f32, and rounded once.
    fn is_right(&self, seed: usize, of: impl Fn(f32) -> T, what: &str) {
        let [m, n, k] = self.size;
        let (a, b) = (numbers(m * k, seed), numbers(k * n, seed + 1));
        for (at, c) in self.c.to_vec().expect("read back").into_iter().enumerate() {
            let (i, j) = (at / n, at % n);
            let sum: f32 = (0..k).map(|l| a[i * k + l] * b[l * n + j]).sum();
            assert_eq!(c, of(sum), "{what}: {:?} at {i}, {j}", self.size);
        }
    }
}

fn check<T: Float>(
    device: &Device,
    schedule: &dyn AnySchedule,
    sizes: &[[usize; 3]],
    of: impl Fn(f32) -> T + Copy,
) {
    let mut problems: Vec<Problem<T>> =
        sizes.iter().enumerate().map(|(n, size)| Problem::new(device, *size, n, of)).collect();
    let launches = problems.iter_mut().map(|p| matmul(&p.a, &p.b, &mut p.c));
    let report = grouped(launches).schedule_dyn(schedule).run().expect("it runs");
    let what = format!("{} {}", schedule.name(), T::DTYPE);
    assert!(report.findings.is_empty(), "{what}: {:?}", report.findings);
    assert_eq!(report.problems, sizes.iter().filter(|[m, n, _]| m * n > 0).count());
    problems.iter().enumerate().for_each(|(n, p)| p.is_right(n, of, &what));
}

#[test]
fn cuda_cores() {
    let device = Device::sim();
    let schedules = [
        &product::naive as &dyn AnySchedule,
        &product::warptile,
        &product::best,
        &product::small_split4,
        &product::small_clustered4,
        &product::narrow_added4,
    ];
    for schedule in schedules {
        check::<f32>(&device, schedule, &SIZES, |x| x);
    }
}

#[test]
fn tensor_cores() {
    let device = Device::sim();
    let schedules = [
        &product::mma_large_tile as &dyn AnySchedule,
        &product::mma_best,
        &product::tma_wgmma,
        &product::producer_consumer,
        &product::two_consumers,
        &product::cluster,
        &product::hilbert,
        &product::wgmma_best,
        &product::tile64_clustered2,
        &product::shared_by4,
    ];
    for schedule in schedules {
        check::<bf16>(&device, schedule, &SIZES, bf16::from_f32);
    }
}

/// Groups of threads skip the stages of tiles that others compute, which may belong to a problem of another depth.
#[test]
fn turns_pass_from_problem_to_problem() {
    let sizes: Vec<[usize; 3]> = (0..9).map(|n| [128, 136, [8, 456, 0, 392, 72][n % 5]]).collect();
    for seed in 0..2 {
        for device in [Device::sim_with_seed(seed), Device::sim_early(seed)] {
            for schedule in [&product::pingpong192 as &dyn AnySchedule, &product::wgmma_best] {
                check::<bf16>(&device, schedule, &sizes, bf16::from_f32);
            }
        }
    }
}

/// Tiles of two sizes: of each problem whole ones come first.
#[test]
fn each_problem_has_tiles_of_both_sizes() {
    let sizes = [[136, 520, 72], [64, 136, 200], [8, 1032, 8], [0, 520, 8], [72, 384, 0], [200, 392, 136]];
    for seed in 0..2 {
        for device in [Device::sim_with_seed(seed), Device::sim_early(seed)] {
            check::<bf16>(&device, &product::wgmma_best, &sizes, bf16::from_f32);
        }
    }
}

/// Rows that tensor maps cannot address, of some problems only.
#[test]
fn rows_of_any_pitch() {
    let sizes = [[33, 35, 37], [64, 64, 64], [1, 1, 1], [130, 9, 71]];
    for schedule in [&product::wgmma_best as &dyn AnySchedule, &product::tma_wgmma, &product::mma_best] {
        check::<bf16>(&Device::sim(), schedule, &sizes, bf16::from_f32);
    }
    check::<f32>(&Device::sim(), &product::best, &sizes, |x| x);
}

/// What differs from problem to problem: scalars, strides, the number of rows; what is updated in place.
#[test]
fn any_kernel() {
    let device = Device::sim();
    let rows = [5usize, 1000, 0, 256];
    let fill = |n: usize, seed| Buffer::from_slice(&device, &numbers(n, seed), &[n]).expect("room");
    let x: Vec<Buffer<f32>> = rows.iter().enumerate().map(|(seed, n)| fill(*n, seed)).collect();
    let mut y: Vec<Buffer<f32>> = rows.iter().enumerate().map(|(seed, n)| fill(*n, seed + 50)).collect();
    let launches = x.iter().zip(&mut y).enumerate().map(|(n, (x, y))| axpy(x, y, n as f32 + 0.5));
    let report = grouped(launches).schedule(strided_threads).run().expect("it runs");
    assert_eq!((report.problems, report.variant), (3, Some(Variant::Aligned)));
    for (n, (y, rows)) in y.iter().zip(rows).enumerate() {
        let (x, before) = (numbers(rows, n), numbers(rows, n + 50));
        let expected: Vec<f32> = x.iter().zip(before).map(|(x, y)| (n as f32 + 0.5) * x + y).collect();
        assert_eq!(y.to_vec().expect("read back"), expected, "{n}");
    }

    // A pitch of its own in the second problem makes it a parameter of all.
    let dense = Buffer::from_slice(&device, &numbers(6 * 8, 1), &[6, 8]).expect("room");
    let wide = Buffer::from_slice(&device, &numbers(9 * 40, 2), &[9, 40]).expect("room");
    let mut out = [[6, 8], [9, 24]].map(|s| Buffer::<f32>::poisoned(&device, &s).expect("room"));
    let [first, second] = &mut out;
    let view = wide.slice(&[0..9, 8..32]).expect("inside");
    let launches = [negated(&dense, first), negated(&view, second)];
    let report = grouped(launches).schedule(rows_of_threads).run().expect("it runs");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    let expected = [dense.to_vec().expect("read back"), view.to_vec().expect("read back")];
    for (out, expected) in out.iter().zip(expected) {
        let negated: Vec<f32> = expected.into_iter().map(|x| -x).collect();
        assert_eq!(out.to_vec().expect("read back"), negated);
    }
}

#[tile_kernel]
fn axpy(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>, alpha: f32) {
    let i = program_tile(N);
    store(y, [i], alpha * load(x, [i]) + load(y, [i]));
}

#[tile_kernel]
fn negated(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R, N>) {
    let (r, n) = program_tile(R, N);
    store(y, [r, n], -load(x, [r, n]));
}

schedule! {
    strided_threads for axpy {
        tile(i = 128);
        bind(i -> thread.x);
        persistent(1);
    }
    rows_of_threads for negated {
        tile(r = 4, n = 32);
        bind(n -> thread.x, r -> thread.y);
    }
}

/// On a stream, in a graph, prepared.
#[test]
fn by_every_way_to_launch() {
    let device = Device::sim();
    let stream = Stream::new(&device).expect("a stream");
    let prepared = product::small_split4.prepare(&device, DType::F32).expect("it is prepared");
    let sizes = [[64, 64, 256], [8, 8, 8]];
    let problems = || -> Vec<Problem<f32>> {
        sizes.iter().enumerate().map(|(n, size)| Problem::new(&device, *size, n, |x| x)).collect()
    };
    let right = |problems: &[Problem<f32>], what| {
        problems.iter().enumerate().for_each(|(n, p)| p.is_right(n, |x| x, what));
    };

    let mut group = problems();
    let launched = grouped(group.iter_mut().map(|p| matmul(&p.a, &p.b, &mut p.c)))
        .prepared(&prepared)
        .enqueue(&stream)
        .expect("it is queued");
    assert!(launched.ctas > 0);
    stream.sync().expect("it ends");
    right(&group, "enqueued");

    let mut graph = Graph::new(&device);
    for _ in 0..2 {
        let mut group = problems();
        let replayed = graph.replay(&stream, |launches| {
            let group = grouped(group.iter_mut().map(|p| matmul(&p.a, &p.b, &mut p.c)));
            launches.add(group.prepared(&prepared)).map(|_| ())
        });
        assert_eq!(replayed.expect("it is replayed").launches, 1);
        right(&group, "replayed");
    }
}

#[tile_kernel]
fn add_rows(x: &Tensor<f32, M>, z: &Tensor<f32, M, N>, y: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    store(y, [i, j], load(x, [i]) + load(z, [i, j]));
}

schedule! {
    // Each CTA loops over all columns, so that its grid does not know of them.
    by_rows for add_rows { tile(i = 8); stage(x at i.o: shared, vector(16)); stage(z at j: shared); pipeline(j, 2); }
}

/// A problem without columns takes no part, also where CTAs are counted by rows: its one row would be no vector.
#[test]
fn a_problem_without_columns() {
    let device = Device::sim();
    let mut problems = [(4, 3), (1, 0), (12, 1)].map(|(m, n)| {
        let fill = |shape: &[usize]| {
            Buffer::from_slice(&device, &numbers(shape.iter().product(), 1), shape).expect("room")
        };
        (fill(&[m]), fill(&[m, n]), Buffer::<f32>::poisoned(&device, &[m, n]).expect("room"))
    });
    let report = grouped(problems.iter_mut().map(|(x, z, y)| add_rows(&*x, &*z, y))).schedule(by_rows).run();
    let report = report.expect("it runs");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert_eq!((report.problems, report.ctas, report.variant), (2, 3, Some(Variant::Aligned)));
    for (x, z, y) in &problems {
        let (x, z, y) = (x.to_vec().expect("read"), z.to_vec().expect("read"), y.to_vec().expect("read"));
        let columns = z.len() / x.len();
        assert!((0..y.len()).all(|at| y[at] == x[at / columns] + z[at]), "{} rows", x.len());
    }
}

/// A group of no launches does what one of empty problems does: nothing.
#[test]
fn nothing_to_compute() {
    let device = Device::sim();
    let none = || Vec::<Launch<'_, matmul>>::new();
    let mut empty =
        [Problem::<f32>::new(&device, [0, 8, 8], 0, |x| x), Problem::new(&device, [8, 0, 8], 1, |x| x)];
    fn all(problems: &mut [Problem<f32>]) -> impl Iterator<Item = Launch<'_, matmul>> {
        problems.iter_mut().map(|p| matmul(&p.a, &p.b, &mut p.c))
    }
    let done =
        |r: &LaunchReport| (r.variant, r.problems, r.ctas, r.kernel.to_string(), r.schedule.to_string());
    let of_none = grouped(none()).schedule(product::naive).run().expect("it does nothing");
    assert_eq!(done(&of_none), (None, 0, 0, "matmul".into(), "naive".into()));
    assert_eq!(
        done(&of_none),
        done(&grouped(all(&mut empty)).schedule(product::naive).run().expect("it does nothing"))
    );
    assert_eq!(&*of_none.device, "");
    let placed = grouped(none()).schedule(product::naive).device(&device).run().expect("it does nothing");
    assert_eq!(
        placed.device,
        grouped(all(&mut empty)).schedule(product::naive).run().expect("it does nothing").device
    );

    let stream = Stream::new(&device).expect("a stream");
    let prepared = product::naive.prepare(&device, DType::F32).expect("it is prepared");
    let launched = grouped(none()).prepared(&prepared).enqueue(&stream).expect("it is queued");
    assert_eq!((launched.variant, launched.ctas), (None, 0));
    let launched = grouped(none()).schedule(product::naive).enqueue(&stream).expect("it is queued");
    assert_eq!((launched.variant, launched.ctas), (None, 0));
    assert_eq!(grouped(none()).prepared(&prepared).host_part().expect("nothing to do"), 0);
    let mut graph = Graph::new(&device);
    let replayed = graph.replay(&stream, |launches| {
        launches.add(grouped(none()).prepared(&prepared))?;
        launches.add(grouped(all(&mut empty)).prepared(&prepared)).map(|_| ())
    });
    assert_eq!(replayed.expect("it is replayed").launches, 0);

    // What is said all the same has to fit.
    let other = Device::sim();
    let error = grouped(none()).prepared(&prepared).device(&other).run().unwrap_err();
    assert!(matches!(error, Error::PreparedOn { .. }), "{error}");
    let elsewhere = Stream::new(&other).expect("a stream");
    let error = grouped(none()).prepared(&prepared).enqueue(&elsewhere).unwrap_err();
    assert!(matches!(error, Error::StreamMismatch { .. }), "{error}");
}

#[test]
fn mistakes_are_named() {
    let device = Device::sim();
    let none = grouped(Vec::<Launch<'_, matmul>>::new()).schedule_dyn(&strided_threads).run().unwrap_err();
    assert!(matches!(none, Error::WrongKernel { .. }), "{none}");

    let single = Problem::<f32>::new(&device, [8, 8, 8], 0, |x| x);
    let half = Problem::<f16>::new(&device, [8, 8, 8], 0, f16::from_f32);
    let (mut c, mut d) = (
        Buffer::<f32>::poisoned(&device, &[8, 8]).expect("room"),
        Buffer::<f16>::poisoned(&device, &[8, 8]).expect("room"),
    );
    let both = [matmul(&single.a, &single.b, &mut c), matmul(&half.a, &half.b, &mut d)];
    let error = grouped(both).schedule(product::naive).run().unwrap_err();
    assert_eq!(
        error.to_string(),
        "a group of launches of `matmul` for f32 and for f16: one kernel computes them all"
    );

    let mut small = Buffer::<f32>::poisoned(&device, &[8, 4]).expect("room");
    let mut c = Buffer::<f32>::poisoned(&device, &[8, 8]).expect("room");
    let wrong = [matmul(&single.a, &single.b, &mut c), matmul(&single.a, &single.b, &mut small)];
    let error = grouped(wrong).schedule(product::naive).run().unwrap_err();
    assert!(matches!(error, Error::Shape(_)), "{error}");

    let elsewhere = Problem::<f32>::new(&Device::sim(), [8, 8, 8], 0, |x| x);
    let mut there = Buffer::<f32>::poisoned(&Device::sim(), &[8, 8]).expect("room");
    let apart = [matmul(&single.a, &single.b, &mut c), matmul(&elsewhere.a, &elsewhere.b, &mut there)];
    let error = grouped(apart).schedule(product::naive).run().unwrap_err();
    assert!(matches!(error, Error::DeviceMismatch { .. }), "{error}");

    // One problem that does not divide, and no variant but the exact one.
    let mut two: Vec<Problem<f32>> =
        [[64, 64, 64], [33, 64, 64]].map(|size| Problem::new(&device, size, 0, |x| x)).into();
    let launches = two.iter_mut().map(|p| matmul(&p.a, &p.b, &mut p.c));
    let error = grouped(launches).schedule(product::naive).variant(Variant::Exact).run().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the exact variant of schedule `naive` assumes M % 32 == 0, which does not hold here"
    );
}

/// Kernels for groups are others than those for one problem, in a bundle too.
#[test]
fn compiled_ahead_of_time() {
    let bundle = bundle![fixture_kernels::simple].dtypes(&[DType::F32]).variants(&[Variant::General]);
    assert_eq!(bundle.compile().expect("it compiles").kernels, 1);
    let made = bundle.grouped().compile().expect("it compiles");
    assert_eq!(made.kernels, 2);
    aot::provide(&made.bytes).expect("it reads back");
    let device = Device::sim();
    let mut y = [3usize, 200].map(|n| Buffer::from_slice(&device, &numbers(n, n), &[n]).expect("room"));
    let x = [3usize, 200].map(|n| Buffer::from_slice(&device, &numbers(n, 1), &[n]).expect("room"));
    let launches = x.iter().zip(&mut y).map(|(x, y)| fixture_kernels::nested::axpy(x, y, 2.0));
    let launch = grouped(launches).schedule(fixture_kernels::simple).variant(Variant::General);
    let report = launch.run().expect("it runs");
    assert_eq!((report.problems, report.source), (2, Some(PtxSource::AheadOfTime)));
    for (y, n) in y.iter().zip([3, 200]) {
        let expected: Vec<f32> = numbers(n, 1).iter().zip(numbers(n, n)).map(|(x, y)| 2.0 * x + y).collect();
        assert_eq!(y.to_vec().expect("read back"), expected);
    }
}

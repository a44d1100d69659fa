//! Numbers of eight bits: every cast, and products of them by every schedule of the ladder.

use crate::{product, products, support};
#[path = "../../examples/matmul/f8.rs"]
mod eight;

use eight::{F8, f8_best, f8_persistent, f8_stmatrix, f8_wgmma, matmul_f8};
use products::{Factors, count, devices, is, numbers, simulators};
use rayon::prelude::*;
use support::Case;
use tilewright::{DType, Kernel, prelude::*};

const RUNGS: [&dyn AnySchedule; 4] = [&f8_wgmma, &f8_persistent, &f8_stmatrix, &f8_best];

/// PTX of a schedule for results in bf16.
fn ptx(schedule: &dyn AnySchedule) -> String {
    products::ptx(schedule, DType::BF16)
}

#[test]
fn each_rung_is_another_kernel() {
    let (copies, multiply) = ("cp.async.bulk.tensor.2d.shared", "wgmma.mma_async.sync.aligned.m64n");
    let rung = ptx(&f8_wgmma);
    // One block of 64 rows times four steps of k; a box of A and one of B. Nothing says which way rows run.
    assert_eq!(count(&rung, "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3"), 4);
    assert!(
        rung.lines().filter(|l| l.contains(multiply)).all(|l| l.trim_end().ends_with(", 1, 1;")),
        "{rung}"
    );
    assert_eq!((count(&rung, copies), count(&rung, "mbarrier.init")), (2, 1));
    let rung = ptx(&f8_persistent);
    // A block of 64 rows for either warpgroup; rows of 128 bytes need no panels. A ring of three, full and empty.
    assert_eq!((count(&rung, multiply), count(&rung, copies), count(&rung, "mbarrier.init")), (4, 2, 6));
    assert!(rung.contains("m64n256k32") && rung.contains(".reqntid 384") && rung.contains("%nctaid"));
    let rung = ptx(&f8_stmatrix);
    assert_eq!((count(&rung, "st.global"), count(&rung, "stmatrix.sync")), (0, 16));
    // The scale is multiplied into all of 128 sums.
    assert_eq!(count(&rung, "mul.rn.f32"), 128);
    assert!(rung.contains(".reqnctapercluster 2, 1, 1") && rung.contains("wgmma.wait_group.sync.aligned 1"));
    let rung = ptx(&f8_best);
    assert!(!rung.contains("cluster 2") && rung.contains("wgmma.wait_group.sync.aligned 1"));
    // Two groups, with tiles of 192 and of 128 columns: two blocks of 64 rows by four steps of k; what lanes exchanged.
    assert_eq!((count(&rung, "m64n192k32"), count(&rung, "m64n128k32")), (16, 16));
    assert_eq!((count(&rung, "st.global.v4"), count(&rung, "stmatrix.sync")), (2 * (24 + 16), 0));
}

fn check_on(device: &Device, schedule: &dyn AnySchedule, size: [usize; 3], seed: u64) {
    let factors = Factors::new(size, numbers);
    let (a, b) = factors.buffers(device, f8::from_f32, Layout::ColumnMajor);
    let what = format!("{}, seed {seed}", schedule.name());
    factors.check(
        device,
        &what,
        |c| matmul_f8(&a, &b, c, 0.5).schedule_dyn(schedule).run(),
        |i, j, found| is(found, bf16::from_f32(factors.sum(i, j) * 0.5)),
    );
}

fn check(schedule: &dyn AnySchedule, size: [usize; 3], seed: u64) {
    devices(seed).iter().for_each(|device| check_on(device, schedule, size, seed));
}

/// A ring of three stages: none, one, one less than stages, as many, one more; whole tiles and tails; rows of any length.
#[test]
fn every_trip_count_and_tail_is_right() {
    for (seed, k) in (1..).zip([0, 1, 16, 128, 129, 255, 400, 528]) {
        for schedule in RUNGS {
            check(schedule, [72, 136, k], seed);
        }
    }
}

/// One element, none, a tile and one more and one less.
#[test]
fn every_size_is_right() {
    for (seed, size) in
        [[1, 1, 1], [0, 5, 64], [5, 0, 64], [127, 255, 127], [128, 256, 128], [129, 257, 129], [64, 521, 129]]
            .into_iter()
            .enumerate()
    {
        for schedule in RUNGS {
            check(schedule, size, seed as u64);
        }
    }
}

/// Twelve tiles on the simulator's four multiprocessors, in uneven rows; rows that no tensor map addresses.
#[test]
fn persistent_ctas_take_tile_after_tile() {
    for (seed, size) in [[392, 776, 144], [385, 769, 129]].into_iter().enumerate() {
        for schedule in [&f8_persistent as &dyn AnySchedule, &f8_stmatrix, &f8_best] {
            check(schedule, size, seed as u64);
        }
    }
}

/// Neither the order of warps nor when copies complete decides anything.
#[test]
fn seeds_agree() {
    for (seed, device) in simulators(0..10) {
        for schedule in RUNGS {
            check_on(&device, schedule, [72, 136, 272], seed);
        }
    }
}

/// Other ways for the operands to lie: rows of each span, and rows that threads turn.
mod layouts {
    use super::eight::matmul_f8;
    use tilewright::prelude::*;

    schedule! {
        pub span64 on sm_90a for matmul_f8<bf16> {
            layout(b: col);
            tile(i = 64, j = 40, k = 64);
            tensor_core(acc: wgmma(64, 40));
            stage(a at k: shared, tma);
            stage(b at k: shared, transposed, tma);
            swizzle(a: 64, b: 64);
            pipeline(k, 3);
        }
        pub span32 = span64 {
            tile(k = 32);
            swizzle(a: 32, b: 32);
        }
        /// Rows longer than the span, in panels.
        pub panels = span64 {
            tile(k = 256);
            swizzle(a: 128, b: 64);
            pipeline(k, 2);
        }
        /// Both operands lie the other way, and pass through registers.
        pub turned on sm_90a for matmul_f8<bf16> {
            layout(a: col);
            tile(i = 64, j = 64, k = 64);
            tensor_core(acc: wgmma(64, 64));
            stage(a at k: shared, vector(16));
            stage(b at k: shared, transposed, vector(8));
            swizzle(a: 64, b: 64);
            pipeline(k, 2);
        }
        pub by_cp_async on sm_90a for matmul_f8<bf16> {
            layout(b: col);
            tile(i = 64, j = 64, k = 128);
            tensor_core(acc: wgmma(64, 64));
            stage(a at k: shared, cp_async, vector(16));
            stage(b at k: shared, transposed, cp_async, vector(16));
            swizzle(a: 128, b: 128);
            pipeline(k, 3);
        }
    }
    pub const ALL: &[&dyn AnySchedule] = schedules![span64, span32, panels, turned, by_cp_async];
}

fn products() -> Vec<Vec<(&'static str, i64)>> {
    [(1, 1, 1), (64, 64, 128), (65, 63, 130), (72, 41, 33), (130, 257, 300), (3, 4, 0), (0, 4, 4)]
        .map(|(m, n, k)| vec![("M", m), ("N", n), ("K", k)])
        .into()
}

/// The interpreters and the simulator agree with the evaluator.
fn everywhere<K: Kernel>(case: &Case, schedule: &dyn AnySchedule) {
    case.check_nest(schedule);
    case.check_kernel(schedule);
    case.check_simulator::<K>(schedule);
}

/// Evaluator, interpreters and the simulator, at random numbers, in every variant.
#[test]
fn all_executors_agree() {
    let sizes = products();
    let of = |dtype| if dtype == DType::BF16 { &sizes[..] } else { &sizes[2..3] };
    let cases = [DType::F32, DType::F16, DType::BF16]
        .map(|dtype| of(dtype).iter().map(move |dims| (Some(dtype), dims)));
    cases.into_iter().flatten().collect::<Vec<_>>().into_par_iter().for_each(|(dtype, dims)| {
        let case = Case::new(matmul_f8::KERNEL, dtype, dims, 11);
        for schedule in F8.iter().chain(layouts::ALL).filter(|s| s.admits(dtype)) {
            everywhere::<matmul_f8>(&case, *schedule);
        }
    });
}

/// y = x, in another type.
#[tile_kernel]
fn widened<T: Float>(x: &Tensor<f8, N>, y: &mut Tensor<T, N>) {
    let i = program_tile(N);
    store(y, [i], load(x, [i]).cast::<T>());
}

#[tile_kernel]
fn narrowed<T: Float>(x: &Tensor<T, N>, y: &mut Tensor<f8, N>) {
    let i = program_tile(N);
    store(y, [i], load(x, [i]).cast::<f8>());
}

/// Arithmetic on the elements themselves: widened, computed, rounded.
#[tile_kernel]
fn arithmetic<T: Float>(x: &Tensor<T, N>, z: &Tensor<T, N>, y: &mut Tensor<T, N>, least: T) {
    let i = program_tile(N);
    let u = load(x, [i]);
    let v = load(z, [i]);
    store(y, [i], select(u < v, max(u * v, least), abs(u) - v));
}

/// Sums and maxima of rows.
#[tile_kernel]
fn rows<T: Float>(x: &Tensor<T, R, N>, s: &mut Tensor<T, R>, m: &mut Tensor<T, R>) {
    let r = program_tile(R);
    let n = whole(N);
    store(s, [r], sum(load(x, [r, n]), n));
    store(m, [r], max(load(x, [r, n]), n));
}

schedule! {
    wide on sm_89 for widened<f32 | f16 | bf16 | f8> { tile(i = 64); bind(i -> thread.x); }
    wide_by_vectors = wide { split(i -> it, iv: 4); drop(bind(i)); bind(it -> thread.x); vectorize(iv); }
    narrow on sm_89 for narrowed<f32 | f16 | bf16 | f8> { tile(i = 64); bind(i -> thread.x); }
    narrow_by_vectors = narrow { split(i -> it, iv: 4); drop(bind(i)); bind(it -> thread.x); vectorize(iv); }
    by_sixteen = wide<f8> { split(i -> it, iv: 16); drop(bind(i)); bind(it -> thread.x); vectorize(iv); }
    each on sm_89 for arithmetic<f8> { tile(i = 64); bind(i -> thread.x); }
    by_thread on sm_89 for rows<f8> { tile(r = 32); bind(r -> thread.x); }
    by_lanes on sm_89 for rows<f8> {
        tile(r = 4);
        split(n -> no, nl: 32);
        bind(r -> warp.x, nl -> lane.x);
        reduce(s.sum: lane);
        reduce(m.max: lane);
    }
    staged on sm_89 for rows<f8> {
        fits(N <= 96);
        tile(r = 4);
        stage(x at r: shared);
        pad(x: 1);
        bind(r -> thread.x);
    }
}

fn bits(numbers: &[f8]) -> Vec<u8> {
    numbers.iter().map(|x| if x.is_nan() { 0x7f } else { x.to_bits() }).collect()
}

/// A program is launched under a schedule, and finds nothing wrong.
macro_rules! launch {
    ($schedule:expr, $launch:expr) => {{
        let report = $launch.schedule_dyn($schedule).run().expect("it runs");
        assert!(report.findings.is_empty(), "{}: {}", $schedule.name(), report.findings[0]);
    }};
}

#[test]
fn every_number_is_widened_exactly() {
    fn to<T: Float>(device: &Device) {
        // Of another length than whole vectors, too.
        for last in [240, 255] {
            let all: Vec<f8> = (0..=last).map(f8::from_bits).collect();
            let x = Buffer::from_slice(device, &all, &[all.len()]).unwrap();
            for schedule in [&wide as &dyn AnySchedule, &wide_by_vectors, &by_sixteen] {
                if !schedule.admits(Some(T::DTYPE)) {
                    continue;
                }
                let mut y = Buffer::<T>::poisoned(device, &[all.len()]).unwrap();
                launch!(schedule, widened(&x, &mut y));
                for (found, x) in y.to_vec().unwrap().into_iter().zip(&all) {
                    let (found, wanted) = (found.to_f64(), x.to_f64());
                    let same = found == wanted && found.is_sign_negative() == wanted.is_sign_negative();
                    assert!(same || (found.is_nan() && wanted.is_nan()), "{found} of {:#x}", x.to_bits());
                }
            }
        }
    }
    for device in devices(0) {
        to::<f32>(&device);
        to::<f16>(&device);
        to::<bf16>(&device);
        to::<f8>(&device);
    }
}

/// Numbers, what lies between two neighbours and beside that, and what is too large or no number.
fn hard_to_round() -> Vec<f32> {
    let all: Vec<f32> = (0..=0x7e).map(|bits| f8::from_bits(bits).to_f32()).collect();
    let between = all.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0);
    let mut hard: Vec<f32> =
        between.flat_map(|x| [x, x.next_up(), x.next_down()]).chain(all.clone()).collect();
    hard.extend([449.0, 464.0, 464.0f32.next_up(), 480.0, 1e30, f32::MAX, f32::INFINITY, f32::NAN]);
    hard.extend([
        2f32.powi(-10),
        2f32.powi(-10).next_up(),
        2f32.powi(-11),
        f32::MIN_POSITIVE,
        f32::from_bits(1),
    ]);
    hard.iter().flat_map(|x| [*x, -x]).collect()
}

#[test]
fn every_rounding_is_to_the_nearest() {
    fn from<T: Float>(device: &Device) {
        let all: Vec<T> = hard_to_round().into_iter().map(|x| T::from_f64(x.into())).collect();
        let x = Buffer::from_slice(device, &all, &[all.len()]).unwrap();
        for schedule in [&narrow as &dyn AnySchedule, &narrow_by_vectors] {
            let mut y = Buffer::<f8>::poisoned(device, &[all.len()]).unwrap();
            launch!(schedule, narrowed(&x, &mut y));
            let wanted: Vec<f8> = all.iter().map(|x| f8::from_f64(x.to_f64())).collect();
            assert_eq!(bits(&y.to_vec().unwrap()), bits(&wanted), "from {}", T::DTYPE);
        }
    }
    for device in devices(0) {
        from::<f32>(&device);
        from::<f16>(&device);
        from::<bf16>(&device);
        from::<f8>(&device);
    }
}

#[test]
fn arithmetic_is_widened_and_rounded() {
    let device = Device::sim();
    let pairs =
        (0..=255u8).flat_map(|a| (0..=255u8).step_by(3).map(move |b| (f8::from_bits(a), f8::from_bits(b))));
    let (u, v): (Vec<f8>, Vec<f8>) = pairs.unzip();
    let x = Buffer::from_slice(&device, &u, &[u.len()]).unwrap();
    let z = Buffer::from_slice(&device, &v, &[v.len()]).unwrap();
    let mut y = Buffer::<f8>::poisoned(&device, &[u.len()]).unwrap();
    let least = f8::from_f32(-3.0);
    launch!(&each, arithmetic(&x, &z, &mut y, least));
    let wanted = u.iter().zip(&v).map(|(u, v)| {
        let product = f8::from_f32(u.to_f32() * v.to_f32());
        match u < v {
            true if product.is_nan() => f8::NAN,
            true => {
                if product < least {
                    least
                } else {
                    product
                }
            }
            false => f8::from_f32(u.to_f32().abs() - v.to_f32()),
        }
    });
    assert_eq!(bits(&y.to_vec().unwrap()), bits(&wanted.collect::<Vec<_>>()));
}

/// A sum is added up in f32 and rounded once; there is no number below −448, so that is the maximum of nothing.
#[test]
fn rows_are_summed_in_f32() {
    for (r, n) in [(5, 96), (4, 33), (1, 1), (3, 0), (0, 3)] {
        let device = Device::sim();
        let values: Vec<f8> = (0..r * n).map(|at| f8::from_f32((at * 7 % 13) as f32 / 4.0 - 1.0)).collect();
        let x = Buffer::from_slice(&device, &values, &[r, n]).unwrap();
        for schedule in [&by_thread as &dyn AnySchedule, &by_lanes, &staged] {
            let (mut s, mut m) = (
                Buffer::<f8>::poisoned(&device, &[r]).unwrap(),
                Buffer::<f8>::poisoned(&device, &[r]).unwrap(),
            );
            launch!(schedule, rows(&x, &mut s, &mut m));
            let of = |row: usize| values[row * n..][..n].iter().map(|x| x.to_f32());
            let sums: Vec<f8> = (0..r).map(|row| f8::from_f32(of(row).sum())).collect();
            let most: Vec<f8> =
                (0..r).map(|row| f8::from_f32(of(row).fold(f32::NEG_INFINITY, f32::max))).collect();
            let name = schedule.name();
            assert_eq!((s.to_vec().unwrap(), m.to_vec().unwrap()), (sums, most), "{name}, {r}×{n}");
        }
    }
}

/// The other executors, for the same kernels.
#[test]
fn executors_agree_on_casts() {
    for n in [0, 1, 15, 64, 129] {
        for dtype in [DType::F32, DType::F16, DType::BF16, DType::F8].map(Some) {
            let dims = [("N", n)];
            let case = Case::new(widened::KERNEL, dtype, &dims, 3);
            for schedule in [&wide as &dyn AnySchedule, &wide_by_vectors] {
                everywhere::<widened>(&case, schedule);
            }
            let case = Case::new(narrowed::KERNEL, dtype, &dims, 4);
            for schedule in [&narrow as &dyn AnySchedule, &narrow_by_vectors] {
                everywhere::<narrowed>(&case, schedule);
            }
        }
        let case = Case::new(arithmetic::KERNEL, Some(DType::F8), &[("N", n)], 5);
        everywhere::<arithmetic>(&case, &each);
        let case = Case::new(rows::KERNEL, Some(DType::F8), &[("R", 5), ("N", n.min(96))], 5);
        for schedule in [&by_thread as &dyn AnySchedule, &by_lanes, &staged] {
            everywhere::<rows>(&case, schedule);
        }
    }
}

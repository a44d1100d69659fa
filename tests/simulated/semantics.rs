//! What operators and stores mean where that is easily left undefined, on the simulator: every variant's PTX agrees with
//! the reference. `tile-dsl/tests/compiler/semantics/` asks the same of the other executors, bit by bit.

use crate::support;

use support::Case;
use tilewright::{AnySchedule, Buffer, DType, Device, Float, Kernel};

const FLOATS: [Option<DType>; 3] = [Some(DType::F32), Some(DType::F16), Some(DType::BF16)];

mod kernels {
    use tilewright::prelude::*;

    /// Both operators on pairs of elements.
    #[tile_kernel]
    pub fn pairs<T: Float>(a: &Tensor<T, N>, b: &Tensor<T, N>, y: &mut Tensor<T, N>, z: &mut Tensor<T, N>) {
        let i = program_tile(N);
        store(y, [i], max(load(a, [i]), load(b, [i])));
        store(z, [i], min(load(a, [i]), 0.0));
    }

    /// Largest and smallest element of each row.
    #[tile_kernel]
    pub fn extremes<T: Float>(x: &Tensor<T, R, N>, y: &mut Tensor<T, R>, z: &mut Tensor<T, R>) {
        let r = program_tile(R);
        let n = whole(N);
        store(y, [r], max(load(x, [r, n]), n));
        store(z, [r], min(load(x, [r, n]), n));
    }

    /// Largest element of each row, by tiles.
    #[tile_kernel]
    pub fn largest(x: &Tensor<f32, R, K>, y: &mut Tensor<f32, R>) {
        let r = program_tile(R);
        let mut m = full::<f32>(-1.0, [r]);
        for k in tiles(K) {
            m = max(m, max(load(x, [r, k]), k));
        }
        store(y, [r], m);
    }

    /// Quotients and remainders of index values, some by zero.
    #[tile_kernel]
    pub fn quotients(
        x: &Tensor<f32, N>,
        y: &mut Tensor<f32, N>,
        z: &mut Tensor<f32, N>,
        w: &mut Tensor<f32, N>,
    ) {
        let i = program_tile(N);
        let a = load(x, [i]).cast::<i32>();
        store(y, [i], (a / (i - 3)).cast::<f32>());
        store(z, [i], (a % (i - 3)).cast::<f32>());
        store(w, [i], (a / 0 + a * 65536 * 65536 + (a - 1) / (0 - 1)).cast::<f32>());
    }

    /// Rounded to a narrower type, and twice that in its arithmetic.
    #[tile_kernel]
    pub fn narrowed<T: Float>(x: &Tensor<f32, N>, y: &mut Tensor<T, N>, z: &mut Tensor<T, N>) {
        let i = program_tile(N);
        let a = load(x, [i]).cast::<T>();
        store(y, [i], a);
        store(z, [i], a + a);
    }

    /// Sum of each row.
    #[tile_kernel]
    pub fn sums<T: Float>(x: &Tensor<T, R, N>, y: &mut Tensor<T, R>) {
        let r = program_tile(R);
        let mut s = zeros::<T>([r]);
        for n in tiles(N) {
            s += sum(load(x, [r, n]), n);
        }
        store(y, [r], s);
    }

    /// Factors rounded to tf32.
    #[tile_kernel]
    pub fn rounded(a: &Tensor<f32, M, K>, b: &Tensor<f32, K, N>, c: &mut Tensor<f32, M, N>) {
        let (i, j) = program_tile(M, N);
        let mut acc = zeros::<f32>([i, j]);
        for k in tiles(K) {
            acc = dot(load(a, [i, k]), load(b, [k, j]), acc, tf32);
        }
        store(c, [i, j], acc);
    }

    /// Exchanges two tensors.
    #[tile_kernel]
    pub fn swap(x: &mut Tensor<f32, N>, y: &mut Tensor<f32, N>) {
        let i = program_tile(N);
        let a = load(x, [i]);
        let b = load(y, [i]);
        store(x, [i], b);
        store(y, [i], a);
    }

    /// Adds in place, then normalises what was added.
    #[tile_kernel]
    pub fn add_norm(x: &Tensor<f32, R, N>, h: &mut Tensor<f32, R, N>, y: &mut Tensor<f32, R, N>) {
        let r = program_tile(R);
        let n = whole(N);
        let v = load(x, [r, n]) + load(h, [r, n]);
        store(h, [r, n], v);
        store(y, [r, n], v / (1.0 + sum(v * v, n)));
    }

    /// Rotates pairs of neighbours in place.
    #[tile_kernel]
    pub fn rotate(x: &Tensor<f32, N>, y: &mut Tensor<f32, { 2 * N }>) {
        let i = program_tile(N);
        let a = load(y, [2 * i]);
        let b = load(y, [2 * i + 1]);
        let c = load(x, [i]);
        store(y, [2 * i], a * c - b);
        store(y, [2 * i + 1], b * c + a);
    }

    schedule! {
        pub scalar for pairs<f32 | f16 | bf16> { tile(i = 8); bind(i -> thread.x); }
        pub vectors = scalar { tile(i = 64); drop(bind(i)); split(i -> it, iv: 4); bind(it -> thread.x); vectorize(iv); }
        pub narrow on sm_89 for narrowed<f16 | bf16 | f8> { tile(i = 8); bind(i -> thread.x); }
        pub narrow_vectors on sm_89 for narrowed<f16 | bf16 | f8> { tile(i = 64); split(i -> it, iv: 4); bind(it -> thread.x); vectorize(iv); }
        pub thread for extremes<f32 | f16 | bf16> { tile(r = 2); bind(r -> thread.x); }
        pub lanes for extremes<f32 | f16 | bf16> {
            tile(r = 2); split(n -> no, nl: 32); bind(r -> warp.x, nl -> lane.x); reduce(y.max, z.min: lane);
        }
        pub cta for extremes<f32 | f16 | bf16> { tile(r = 1); split(n -> no, nt: 64); bind(nt -> thread.x); reduce(y.max, z.min: cta); }
        pub split for largest { tile(r = 2, k = 4); bind(r -> thread.x); split_k(k, 3); }
        pub split_cta for largest { tile(r = 1, k = 32); bind(k.t -> thread.x); reduce(m: cta); split_k(k, 2); }
        pub dividing for quotients { tile(i = 8); bind(i -> thread.x); }
        pub unrolled for quotients { tile(i = 16); split(i -> it, iu: 8); bind(it -> thread.x); unroll(iu); }
        pub cores for rounded { tile(i = 8, j = 8); bind(i -> thread.x, j -> thread.y); }
        pub matrices for rounded { tile(i = 16, j = 16, k = 16); tensor_core(acc: mma); stage(a, b at k: shared); pad(a: 16, b: 32); }
        pub words = matrices { stage(a, b at k: shared, transposed); }
        pub one for sums<f32 | f16 | bf16> { tile(r = 2, n = 16); bind(r -> thread.x); stage(x at n: shared); }
        pub warp for sums<f32 | f16 | bf16> { tile(r = 2, n = 32); bind(r -> warp.x, n.t -> lane.x); reduce(s: lane); }
        pub block for sums<f32 | f16 | bf16> { tile(r = 1, n = 256); bind(n.t -> thread.x); reduce(s: cta); split_k(n, 3); }
        pub added for sums<f32> { tile(r = 1, n = 256); bind(n.t -> thread.x); reduce(s: cta); split_k(n, 3; atomic); }
        pub swapping for swap { tile(i = 64); split(i -> it, iv: 4); bind(it -> thread.x); vectorize(iv); }
        pub norm_thread for add_norm { fits(N <= 64); tile(r = 2); bind(r -> thread.x); unroll(n); }
        pub norm_warp for add_norm {
            fits(N <= 64); tile(r = 2); split(n -> no, nl: 32); bind(r -> warp.x, nl -> lane.x); reduce(y.sum: lane); unroll(no);
        }
        pub norm_shared for add_norm { fits(N <= 64); tile(r = 2); stage(v: shared); bind(r -> thread.x); }
        pub rotating for rotate { tile(i = 8); bind(i -> thread.x); }
    }
}

fn check<K: Kernel>(case: &Case, schedules: &[&dyn AnySchedule]) {
    for schedule in schedules {
        case.check_nest(*schedule);
        case.check_simulator::<K>(*schedule);
    }
}

#[test]
fn maximum_and_minimum_propagate_nan() {
    use kernels as k;
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    for dtype in FLOATS {
        let a = vec![nan, 1.0, nan, -1.0, 0.0, -0.0, inf, nan];
        let b = vec![0.0, nan, nan, 2.0, -0.0, 0.0, nan, -inf];
        let case = Case::with(k::pairs::KERNEL, dtype, &[("N", 8)], &[("a", a), ("b", b)]);
        check::<k::pairs>(&case, &[&k::scalar, &k::vectors]);
        for n in [0, 1, 5, 63, 64, 65] {
            let x = (0..4 * n).map(|at| match (at / n, at % n) {
                (0, at) if at == n / 2 => nan,
                (1, _) => nan,
                (3, _) => inf,
                (_, at) => -(at as f64),
            });
            let dims = [("R", 4), ("N", n as i64)];
            let case = Case::with(k::extremes::KERNEL, dtype, &dims, &[("x", x.collect())]);
            check::<k::extremes>(&case, &[&k::thread, &k::lanes, &k::cta]);
        }
    }
    let mut x = vec![-3.0; 3 * 40];
    x[17] = nan;
    x[40..80].fill(nan);
    let case = Case::with(k::largest::KERNEL, None, &[("R", 3), ("K", 40)], &[("x", x)]);
    check::<k::largest>(&case, &[&k::split, &k::split_cta]);
}

#[test]
fn products_are_of_factors_rounded_to_tf32() {
    use kernels as k;
    let tie = 1.0 + 2f64.powi(-11);
    let a: Vec<f64> =
        (0..17 * 11u32).map(|n| f64::from(f32::from_bits(0x3f80_0000 + n * 0x0003_6c3b))).collect();
    let b: Vec<f64> = (0..11 * 11).map(|n| if n % 11 == n / 11 { -tie } else { 0.0 }).collect();
    for rest in [0, 3] {
        let dims = [("M", 17), ("N", 11), ("K", 11 - rest)];
        let (a, b) = (&a[..17 * (11 - rest as usize)], &b[..11 * (11 - rest as usize)]);
        let case = Case::with(k::rounded::KERNEL, None, &dims, &[("a", a.to_vec()), ("b", b.to_vec())]);
        check::<k::rounded>(&case, &[&k::cores, &k::matrices, &k::words]);
    }
}

#[test]
fn integers_wrap_and_divide_by_zero() {
    use kernels as k;
    let low = f64::from(i32::MIN);
    let x = vec![low, 7.0, low, 5.0, low, -7.0, 1.0, 2_147_483_520.0, 0.0];
    for n in [0, 1, 8, 9] {
        let case = Case::with(k::quotients::KERNEL, None, &[("N", n)], &[("x", x[..n as usize].to_vec())]);
        check::<k::quotients>(&case, &[&k::dividing, &k::unrolled]);
    }
}

/// Beyond the greatest number: to infinity from half a unit on, in `f8` to the greatest. Bit for bit on the simulator, whose
/// conversions are the GPU's, and by the evaluator.
fn overflows_alike<T: Float>(greatest: f32, round: impl Fn(f32) -> f64) {
    use kernels as k;
    let mut x = vec![greatest, f32::MAX, f32::INFINITY, f32::NAN, 0.0, -0.0, greatest / 2.0];
    for near in [greatest, greatest / 2.0, greatest * 1.01] {
        let bits = near.to_bits();
        // Around the number and around the middle between it and the next one.
        let steps = [1u32, 1 << 11, 1 << 12, 1 << 13, 1 << 15, 1 << 16, 1 << 19, 1 << 20];
        let around = steps.iter().flat_map(|s| [s - 1, *s, s + 1]).flat_map(|s| [bits - s, bits + s]);
        x.extend(around.map(f32::from_bits).filter(|x| x.is_finite()));
    }
    let negative: Vec<f32> = x.iter().map(|x| -x).collect();
    x.extend(negative);
    let device = Device::sim();
    for schedule in [&k::narrow as &dyn AnySchedule, &k::narrow_vectors] {
        let input = Buffer::from_slice(&device, &x, &[x.len()]).unwrap();
        let mut y = Buffer::<T>::poisoned(&device, &[x.len()]).unwrap();
        let mut z = Buffer::<T>::poisoned(&device, &[x.len()]).unwrap();
        k::narrowed(&input, &mut y, &mut z).schedule_dyn(schedule).run().unwrap();
        let (y, z) = (y.to_vec().unwrap(), z.to_vec().unwrap());
        for ((x, y), z) in x.iter().zip(y).zip(z) {
            let is = |found: f64, wanted: f64| found == wanted || found.is_nan() && wanted.is_nan();
            let rounded = round(*x);
            assert!(is(y.to_f64(), rounded), "{x:e} is {} and not {rounded}", y.to_f64());
            let twice = round(rounded as f32 + rounded as f32);
            assert!(is(z.to_f64(), twice), "twice {x:e} is {} and not {twice}", z.to_f64());
        }
    }
    let values: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
    let dims = [("N", values.len() as i64)];
    let case = Case::with(k::narrowed::KERNEL, Some(T::DTYPE), &dims, &[("x", values)]);
    check::<k::narrowed>(&case, &[&k::narrow, &k::narrow_vectors]);
}

#[test]
fn what_overflows_is_rounded_alike() {
    use tilewright::prelude::{bf16, f8, f16};
    overflows_alike::<f16>(65504.0, |x| f16::from_f32(x).into());
    overflows_alike::<bf16>(bf16::MAX.into(), |x| bf16::from_f32(x).into());
    overflows_alike::<f8>(448.0, |x| f8::from_f32(x).into());
}

#[test]
fn sums_of_16_bit_floats_accumulate_in_f32() {
    use kernels as k;
    for dtype in FLOATS {
        for n in [0, 1, 255, 256, 257, 4096] {
            let dims = [("R", 2), ("N", n)];
            let case = Case::with(k::sums::KERNEL, dtype, &dims, &[("x", vec![1.0; 2 * n as usize])]);
            check::<k::sums>(&case, &[&k::one, &k::warp, &k::block]);
            if dtype == Some(DType::F32) {
                check::<k::sums>(&case, &[&k::added]);
            }
        }
    }
}

#[test]
fn values_stay_what_they_were_after_a_store() {
    use kernels as k;
    for n in [0, 1, 3, 4, 63, 64, 65] {
        let case = Case::new(k::swap::KERNEL, None, &[("N", n)], 3);
        check::<k::swap>(&case, &[&k::swapping]);
        let case = Case::new(k::rotate::KERNEL, None, &[("N", n)], 4);
        check::<k::rotate>(&case, &[&k::rotating]);
        for r in [0, 1, 3] {
            if n <= 64 {
                let case = Case::new(k::add_norm::KERNEL, None, &[("R", r), ("N", n)], 9);
                check::<k::add_norm>(&case, &[&k::norm_thread, &k::norm_warp, &k::norm_shared]);
            }
        }
    }
}

//! The same programs on a GPU and on the simulator. Every test is skipped, aloud, on a machine without a GPU.

#[path = "../examples/softmax/kernel.rs"]
mod rows;

use rows::softmax;
use tilewright::{AnySchedule, Error, LaunchReport, prelude::*};

#[tile_kernel]
fn matmul<T: Float>(a: &Tensor<T, M, K>, b: &Tensor<T, K, N>, c: &mut Tensor<T, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], acc.cast::<T>());
}

schedule! {
    naive for matmul<f32 | f16 | bf16> { tile(i = 32, j = 32); bind(j -> thread.x, i -> thread.y); }
    shared = naive { tile(k = 32); stage(a, b at k: shared); }
    registers = shared {
        tile(i = 64, j = 64, k = 8);
        drop(bind(i));
        split(i -> it, ir: 8);
        bind(it -> thread.y);
        reorder(k, ir);
        unroll(k);
    }
}

schedule! {
    /// Copies in flight while the tile before is used, in more shared memory than a CTA has unasked.
    pipelined for matmul<f32> {
        tile(i = 128, j = 128, k = 32);
        split(i -> it, ir: 8);
        split(j -> jt, jr: 8);
        bind(it -> thread.y, jt -> thread.x);
        stage(a, b at k: shared, cp_async, vector(16));
        pipeline(k, 3);
        reorder(k, ir, jr);
    }
}

/// The functions with their arguments' reciprocal, of the same elements.
#[tile_kernel]
fn functions(
    x: &Tensor<f32, N>,
    exps: &mut Tensor<f32, N>,
    powers: &mut Tensor<f32, N>,
    logs: &mut Tensor<f32, N>,
    roots: &mut Tensor<f32, N>,
    inverse_roots: &mut Tensor<f32, N>,
    tanhs: &mut Tensor<f32, N>,
    reciprocals: &mut Tensor<f32, N>,
) {
    let i = program_tile(N);
    let v = load(x, [i]);
    store(exps, [i], exp(v));
    store(powers, [i], exp2(v));
    store(logs, [i], log(v));
    store(roots, [i], sqrt(v));
    store(inverse_roots, [i], rsqrt(v));
    store(tanhs, [i], tanh(v));
    store(reciprocals, [i], 1.0 / v);
}

schedule! {
    elementwise for functions { tile(i = 256); bind(i -> thread.x); }
}

/// The GPU, or nothing where there is none.
fn gpu() -> Option<Device> {
    match Device::cuda(0) {
        Ok(device) => Some(device),
        Err(Error::NoDriver | Error::NoDevice { .. }) => {
            eprintln!("skipped: no GPU");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

fn random(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    (0..count).map(|_| next()).collect()
}

fn product<T: Float>(
    device: &Device,
    schedule: &dyn AnySchedule,
    [m, n, k]: [usize; 3],
) -> (Vec<T>, LaunchReport) {
    let narrow = |x: Vec<f32>| x.into_iter().map(|x| T::from_f64(x.into())).collect::<Vec<T>>();
    let a = Buffer::from_slice(device, &narrow(random(m * k, 1)), &[m, k]).unwrap();
    let b = Buffer::from_slice(device, &narrow(random(k * n, 2)), &[k, n]).unwrap();
    let mut c = Buffer::<T>::poisoned(device, &[m, n]).unwrap();
    let report =
        matmul(&a, &b, &mut c).schedule_dyn(schedule).timed().run().unwrap_or_else(|e| panic!("{e}"));
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    (c.to_vec().unwrap(), report)
}

fn same_bits<T: Float>(schedules: &[&dyn AnySchedule]) {
    let (Some(gpu), sim) = (gpu(), Device::sim()) else { return };
    for schedule in schedules {
        for size in [[1, 1, 1], [33, 65, 17], [127, 129, 130], [128, 128, 128], [256, 192, 320], [64, 64, 0]]
        {
            let (on_gpu, report) = product::<T>(&gpu, *schedule, size);
            let (on_sim, _) = product::<T>(&sim, *schedule, size);
            assert_eq!(on_gpu, on_sim, "{} {size:?} {:?}", report.schedule, report.variant);
            assert!(report.time_ms.is_some() && report.counters.is_none());
        }
    }
}

#[test]
fn products_have_the_simulators_bits() {
    same_bits::<f32>(&[&naive, &shared, &registers, &pipelined]);
}

#[test]
fn products_of_narrow_types_have_the_simulators_bits() {
    same_bits::<f16>(&[&naive, &shared, &registers]);
    same_bits::<bf16>(&[&naive, &shared, &registers]);
}

#[test]
fn rows_sum_to_one() {
    let Some(gpu) = gpu() else { return };
    for (schedule, n) in rows::SCHEDULES.iter().flat_map(|s| [1, 100, 1000, 1024].map(|n| (*s, n))) {
        let x = Buffer::from_slice(&gpu, &random(7 * n, 3), &[7, n]).unwrap();
        let mut y = Buffer::poisoned(&gpu, &[7, n]).unwrap();
        softmax(&x, &mut y).schedule_dyn(schedule).run().unwrap();
        for row in y.to_vec().unwrap().chunks(n) {
            let sum: f32 = row.iter().sum();
            assert!((sum - 1.0).abs() < 1e-5, "{}: {sum} for {n} elements", schedule.name());
        }
    }
}

/// Distance in units of the last place of the exact result.
fn ulps(got: f32, exact: f64) -> f64 {
    let rounded = exact as f32;
    if got == rounded || (got.is_nan() && rounded.is_nan()) {
        return 0.0;
    }
    let below = f32::from_bits(rounded.abs().min(f32::MAX).to_bits().max(1) - 1);
    let ulp = f64::from(rounded.abs().min(f32::MAX)).max(1e-45) - f64::from(below);
    (f64::from(got) - exact).abs() / ulp
}

/// The documented errors hold on the hardware, over 2²⁴ arguments spread evenly over all bit patterns.
#[test]
fn functions_are_as_accurate_as_documented() {
    let Some(gpu) = gpu() else { return };
    let x: Vec<f32> = (0..1u32 << 24).map(|i| f32::from_bits(i.wrapping_mul(256) + (i >> 16))).collect();
    let input = Buffer::from_slice(&gpu, &x, &[x.len()]).unwrap();
    let mut y: [Buffer<f32>; 7] = std::array::from_fn(|_| Buffer::poisoned(&gpu, &[x.len()]).unwrap());
    let [exps, powers, logs, roots, inverse_roots, tanhs, reciprocals] = &mut y;
    functions(&input, exps, powers, logs, roots, inverse_roots, tanhs, reciprocals)
        .schedule(elementwise)
        .run()
        .unwrap();
    type Function = fn(f64) -> f64;
    let exact: [(&str, Function, f64); 7] = [
        ("exp", f64::exp, 3.0),
        ("exp2", f64::exp2, 2.0),
        ("log", f64::ln, 1.0),
        ("sqrt", f64::sqrt, 0.5),
        ("rsqrt", |x| 1.0 / x.sqrt(), 2.0),
        ("tanh", f64::tanh, 3.0),
        ("reciprocal", |x| 1.0 / x, 0.5),
    ];
    for ((name, function, limit), y) in exact.into_iter().zip(&y) {
        // Powers of two that are subnormal are 0.
        let flushed =
            |x: f32, y: f32| name == "exp2" && y == 0.0 && function(x.into()) < f32::MIN_POSITIVE.into();
        let off =
            |(&x, y): (&f32, f32)| (if flushed(x, y) { 0.0 } else { ulps(y, function(x.into())) }, x, y);
        let errors = x.iter().zip(y.to_vec().unwrap()).map(off);
        let (error, x, y) = errors.fold((0.0, 0.0, 0.0), |worst, e| if e.0 > worst.0 { e } else { worst });
        println!("{name}: {error} ulp at {x:e}");
        assert!(error <= limit, "{name}({x:e}) = {y:e}: {error} ulp");
    }
}

#[test]
fn too_much_memory_is_an_error() {
    let Some(gpu) = gpu() else { return };
    let error = Buffer::<f32>::zeros(&gpu, &[1 << 40]).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
    assert!(gpu.check_memory(1 << 50).is_err());
    assert!(gpu.check_memory(1 << 20).is_ok());
}

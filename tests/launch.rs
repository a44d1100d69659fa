//! Launches: arguments, variants, caches, reports, on the simulator.

#[path = "../examples/softmax/kernel.rs"]
mod rows;

use rows::{short, softmax};
use tile_dsl::program::Program;
use tilewright::{
    AnySchedule, DType, Error, LaunchArgs, PtxCache, PtxSource, Scheduled, Stage, Variant, emit, prelude::*,
    sim::Access, verify::Expected,
};

/// y = alpha·x + y.
#[tile_kernel]
fn saxpy(alpha: f32, x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], alpha * load(x, [i]) + load(y, [i]));
}

/// C = A·B.
#[tile_kernel]
fn matmul<T: Float>(a: &Tensor<T, M, K>, b: &Tensor<T, K, N>, c: &mut Tensor<T, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], acc.cast::<T>());
}

/// Three neighbours, averaged.
#[tile_kernel]
fn smooth(x: &Tensor<f32, { N + 2 }>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], (load(x, [i]) + load(x, [i + 1]) + load(x, [i + 2])) / 3.0);
}

schedule! {
    simple for saxpy { tile(i = 128); bind(i -> thread.x); }
    wide = simple { tile(i = 512); split(i -> it, iv: 4); bind(it -> thread.x); vectorize(iv); drop(bind(i)); }
}

schedule! {
    tiled for matmul<f32 | f16> {
        tile(i = 16, j = 16, k = 16);
        bind(j -> thread.x, i -> thread.y);
        stage(a, b at k: shared);
    }
    by_columns = tiled { layout(b: col); }
    for_hopper on sm_90 = tiled {}
}

schedule! {
    window for smooth { tile(i = 64); bind(i -> thread.x); }
}

fn device() -> Device {
    Device::sim().with_cache(PtxCache::disabled())
}

fn buffer<T: Float>(device: &Device, shape: &[usize]) -> Buffer<T> {
    let count = shape.iter().product();
    let data: Vec<T> = (0..count).map(|i| T::from_f64(((i * 7) % 11) as f64 - 5.0)).collect();
    Buffer::from_slice(device, &data, shape).unwrap()
}

fn run_saxpy(n: usize, schedule: &dyn AnySchedule) -> tilewright::LaunchReport {
    let device = device();
    let (x, mut y) = (buffer::<f32>(&device, &[n]), buffer::<f32>(&device, &[n]));
    let expected: Vec<f32> = x.to_vec().unwrap().iter().map(|x| 3.0 * x + x).collect();
    let report = saxpy(3.0, &x, &mut y).schedule_dyn(schedule).run().unwrap();
    assert_eq!(y.to_vec().unwrap(), expected, "{}", report.schedule);
    assert_eq!(report.findings, []);
    report
}

#[test]
fn the_first_variant_that_holds_runs() {
    for (n, variant) in [(1024, Variant::Exact), (1000, Variant::Aligned), (1001, Variant::General)] {
        let report = run_saxpy(n, &wide);
        assert_eq!(report.variant, Some(variant), "N = {n}");
        assert_eq!(report.ctas, n.div_ceil(512) as u32);
        assert_eq!(report.threads, 128);
    }
    let assumptions = run_saxpy(1024, &wide).assumptions;
    assert!(assumptions.contains(&"N % 512 == 0".to_string()), "{assumptions:?}");
    assert!(assumptions.contains(&"x 16-byte aligned".to_string()), "{assumptions:?}");
}

#[test]
fn a_variant_can_be_asked_for() {
    let device = device();
    let (x, mut y) = (buffer::<f32>(&device, &[1024]), buffer::<f32>(&device, &[1024]));
    let report = saxpy(1.0, &x, &mut y).schedule(wide).variant(Variant::General).run().unwrap();
    assert_eq!(report.variant, Some(Variant::General));
    assert!(!report.ptx.contains("v4"), "{}", report.ptx);

    let (x, mut y) = (buffer::<f32>(&device, &[1001]), buffer::<f32>(&device, &[1001]));
    let error = saxpy(1.0, &x, &mut y).schedule(wide).variant(Variant::Exact).run().unwrap_err();
    assert!(error.to_string().contains("exact variant of schedule `wide` assumes N % "), "{error}");
}

#[test]
fn vectors_show_in_the_counters() {
    let per_request = |report: tilewright::LaunchReport, name| {
        report.counters.unwrap().buffer(name, Access::Load).sectors_per_request()
    };
    assert_eq!(per_request(run_saxpy(1024, &simple), "x"), 4.0);
    assert_eq!(per_request(run_saxpy(1024, &wide), "x"), 16.0);
}

#[test]
fn nothing_to_compute_launches_nothing() {
    let report = run_saxpy(0, &wide);
    assert_eq!((report.variant, report.ctas, report.source), (None, 0, None));
    assert_eq!(report.dims["N"], 0);
}

#[test]
fn empty_sums_are_zero() {
    let device = device();
    let (a, b) = (buffer::<f32>(&device, &[5, 0]), buffer::<f32>(&device, &[0, 7]));
    let mut c = Buffer::poisoned(&device, &[5, 7]).unwrap();
    matmul(&a, &b, &mut c).schedule(tiled).run().unwrap();
    assert_eq!(c.to_vec().unwrap(), [0.0; 35]);
}

fn check_matmul<T: Float>(m: usize, n: usize, k: usize) {
    let device = device();
    let (a, b) = (buffer::<T>(&device, &[m, k]), buffer::<T>(&device, &[k, n]));
    let mut c = Buffer::<T>::poisoned(&device, &[m, n]).unwrap();
    let program =
        Program::from_bytes(<tiled as tilewright::Schedule>::program(Some(T::DTYPE)).unwrap()).unwrap();
    let args = LaunchArgs::new("matmul", Some(T::DTYPE)).input("a", &a).input("b", &b).output("c", &mut c);
    let expected = Expected::of(&program, &args).unwrap();
    let report = matmul(&a, &b, &mut c).schedule(tiled).run().unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    let comparison = expected.compare("c", &c, 1.0).unwrap();
    assert!(comparison.verified(), "{comparison:?}");

    // One wrong element is noticed.
    let mut wrong = c.to_vec().unwrap();
    wrong[0] = T::from_f64(wrong[0].to_f64() + 1.0);
    let wrong = Buffer::from_slice(&device, &wrong, &[m, n]).unwrap();
    assert!(!expected.compare("c", &wrong, 1.0).unwrap().verified());
}

#[test]
fn results_agree_with_the_evaluator() {
    check_matmul::<f32>(33, 17, 20);
    check_matmul::<f16>(16, 32, 48);
}

#[test]
fn layouts_are_checked_and_read() {
    let device = device();
    let (a, b) = (buffer::<f32>(&device, &[3, 4]), buffer::<f32>(&device, &[4, 5]));
    let mut c = Buffer::poisoned(&device, &[3, 5]).unwrap();
    let error = matmul(&a, &b, &mut c).schedule(by_columns).run().unwrap_err();
    assert!(matches!(error, Error::LayoutMismatch { .. }), "{error}");
    assert!(error.to_string().contains("`b` of shape [4, 5] is row-major"), "{error}");

    matmul(&a, &b, &mut c).schedule(tiled).run().unwrap();
    let rows = b.to_vec().unwrap();
    let transposed: Vec<f32> = (0..20).map(|at| rows[at % 4 * 5 + at / 4]).collect();
    let b = Buffer::from_slice_in(&device, &transposed, &[4, 5], Layout::ColumnMajor).unwrap();
    let mut again = Buffer::poisoned(&device, &[3, 5]).unwrap();
    matmul(&a, &b, &mut again).schedule(by_columns).run().unwrap();
    assert_eq!(again.to_vec().unwrap(), c.to_vec().unwrap());
    assert!(matmul(&a, &b, &mut again).schedule(tiled).run().is_err());
}

#[test]
fn shapes_are_checked_before_anything_runs() {
    let device = device();
    let (a, b) = (buffer::<f32>(&device, &[3, 4]), buffer::<f32>(&device, &[5, 6]));
    let mut c = Buffer::from_slice(&device, &[7.0; 18], &[3, 6]).unwrap();
    let error = matmul(&a, &b, &mut c).schedule(tiled).run().unwrap_err().to_string();
    assert!(error.contains("[3, 4]") && error.contains("[5, 6]") && error.contains("K = 5"), "{error}");
    assert_eq!(c.to_vec().unwrap(), [7.0; 18], "nothing was written");

    let x = buffer::<f32>(&device, &[11]);
    let mut y = Buffer::poisoned(&device, &[10]).unwrap();
    let error = smooth(&x, &mut y).schedule(window).run().unwrap_err().to_string();
    assert!(error.contains("N + 2 = 11") && error.contains("[10]"), "{error}");
    let x = buffer::<f32>(&device, &[12]);
    smooth(&x, &mut y).schedule(window).run().unwrap();
    assert!(y.to_vec().unwrap().iter().all(|y| y.is_finite()));
}

#[test]
fn asserted_bounds_are_checked() {
    let device = device();
    let x = buffer::<f32>(&device, &[2, 1025]);
    let mut y = Buffer::poisoned(&device, &[2, 1025]).unwrap();
    let error = softmax(&x, &mut y).schedule(short).run().unwrap_err();
    assert!(matches!(error, Error::Promise { value: 1025, .. }), "{error}");
    assert!(error.to_string().contains("without `fits(N <= 1024)`"), "{error}");
}

#[test]
fn element_types_and_kernels_are_checked() {
    let device = device();
    let (a, b) = (buffer::<bf16>(&device, &[3, 4]), buffer::<bf16>(&device, &[4, 6]));
    let mut c = Buffer::zeros(&device, &[3, 6]).unwrap();
    let error = matmul(&a, &b, &mut c).schedule(tiled).run().unwrap_err().to_string();
    assert_eq!(error, "schedule `tiled` does not admit bf16; it admits f32, f16");

    let schedule: &dyn AnySchedule = &simple;
    let error = matmul(&a, &b, &mut c).schedule_dyn(schedule).run().unwrap_err().to_string();
    assert_eq!(error, "schedule `simple` is for kernel `saxpy`, not for `matmul`");
}

#[test]
fn arguments_on_another_device_are_refused() {
    let (here, there) = (device(), device());
    let (x, mut y) = (buffer::<f32>(&here, &[4]), buffer::<f32>(&there, &[4]));
    let error = saxpy(1.0, &x, &mut y).schedule(simple).run().unwrap_err();
    assert!(matches!(&error, Error::DeviceMismatch { name, .. } if name == "y"), "{error}");
    let mut y = buffer::<f32>(&here, &[4]);
    assert!(saxpy(1.0, &x, &mut y).schedule(simple).device(&there).run().is_err());
    assert!(saxpy(1.0, &x, &mut y).schedule(simple).device(&here).run().is_ok());
}

#[test]
fn hand_made_arguments_are_checked() {
    let device = device();
    let program = Program::from_bytes(<simple as tilewright::Schedule>::program(None).unwrap()).unwrap();
    let x = buffer::<f32>(&device, &[4]);
    let half = buffer::<f16>(&device, &[4]);
    let mut y = buffer::<f32>(&device, &[4]);
    fn message(program: &Program, args: LaunchArgs<'_>) -> String {
        Scheduled::new(args, program).run().unwrap_err().to_string()
    }
    fn args<'a>() -> LaunchArgs<'a> {
        LaunchArgs::new("saxpy", None)
    }
    assert!(message(&program, args().input("x", &x)).contains("2 tensors and 1 scalars"));
    assert!(
        message(&program, args().input("x", &x).input("y", &x).scalar("alpha", 1.0f32))
            .contains("it writes `y`")
    );
    let error = message(&program, args().input("x", &half).output("y", &mut y).scalar("alpha", 1.0f32));
    assert_eq!(error, "`x` has elements of f16, and the kernel takes f32");
    let error = message(&program, args().input("x", &x).output("y", &mut y).scalar("alpha", 1i32));
    assert_eq!(error, "`alpha` has elements of i32, and the kernel takes f32");
    let error = message(&program, LaunchArgs::new("other", None).input("x", &x));
    assert_eq!(error, "schedule `simple` is for kernel `saxpy`, not for `other`");
}

#[test]
fn buffers_refuse_what_does_not_fit() {
    let device = device();
    let error = Buffer::from_slice(&device, &[1.0f32; 5], &[2, 3]).unwrap_err();
    assert_eq!(error.to_string(), "5 elements do not fill a tensor of shape [2, 3]");
    let error = Buffer::<f32>::zeros(&device, &[usize::MAX, 2]).unwrap_err();
    assert!(matches!(error, Error::SizeOverflow { .. }), "{error}");
    let error = device.check_memory(1 << 60).unwrap_err();
    assert!(error.to_string().contains("cannot hold tensors of 1152921504606846976 bytes"), "{error}");
    let poisoned = Buffer::<f32>::poisoned(&device, &[3]).unwrap().to_vec().unwrap();
    assert!(poisoned.iter().all(|x| x.is_nan()));
}

#[test]
fn a_missing_gpu_is_said_so() {
    match Device::cuda(99) {
        Err(Error::NoDriver | Error::NoDevice { ordinal: 99, .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn ptx_is_kept_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let device = Device::sim().with_cache(PtxCache::at(folder.path()));
    let (x, mut y) = (buffer::<f32>(&device, &[70]), buffer::<f32>(&device, &[68]));
    let first = smooth(&x, &mut y).schedule(window).run().unwrap();
    // Another test of this process may have compiled it; then nothing was written.
    assert!(matches!(first.source, Some(PtxSource::Compiled | PtxSource::Memory)));
    let entries = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(entries == 1, first.source == Some(PtxSource::Compiled));
    let again = smooth(&x, &mut y).schedule(window).run().unwrap();
    assert_eq!(again.source, Some(PtxSource::Memory));
    assert_eq!(again.ptx, first.ptx);
}

#[test]
fn every_stage_has_a_text() {
    let text = |stage, variant| emit(&tiled, Some(DType::F32), variant, stage).unwrap();
    for (stage, part) in [
        (Stage::Tile, "dot("),
        (Stage::Nest, "(stage "),
        (Stage::Plan, "tiles grid "),
        (Stage::Kernel, "barrier"),
        (Stage::Llvm, "define ptx_kernel void @"),
        (Stage::Ptx, ".visible .entry"),
    ] {
        let text = text(stage, Variant::Exact);
        assert!(text.contains(part), "{stage:?}: `{part}` is missing in\n{text}");
    }
    assert_ne!(text(Stage::Ptx, Variant::Exact), text(Stage::Ptx, Variant::General));
    assert!(text(Stage::Kernel, Variant::General).contains("i64"));
    let error = emit(&tiled, Some(DType::BF16), Variant::Exact, Stage::Tile).unwrap_err();
    assert!(matches!(error, Error::DTypeNotAdmitted { .. }), "{error}");
}

#[test]
fn schedules_of_other_targets_run_on_the_simulator() {
    let device = device();
    let (a, b) = (buffer::<f32>(&device, &[3, 4]), buffer::<f32>(&device, &[4, 5]));
    let mut c = Buffer::poisoned(&device, &[3, 5]).unwrap();
    let report = matmul(&a, &b, &mut c).schedule(for_hopper).run().unwrap();
    assert!(report.ptx.contains(".target sm_90"), "{}", report.ptx);
}

#[test]
fn kernels_compiled_ahead_of_time_are_used() {
    use tilewright::aot;
    let pack = aot::compile(rows::SCHEDULES).unwrap();
    assert_eq!(aot::provide(&pack).unwrap(), 3 * rows::SCHEDULES.len());
    assert!(matches!(aot::provide(&pack[1..]), Err(Error::Precompiled)));
    let device = device();
    let x = buffer::<f32>(&device, &[6, 100]);
    let mut y = Buffer::poisoned(&device, &[6, 100]).unwrap();
    let report = softmax(&x, &mut y).schedule(short).run().unwrap();
    assert_eq!(report.source, Some(PtxSource::AheadOfTime));
    for row in y.to_vec().unwrap().chunks(100) {
        let sum: f32 = row.iter().sum();
        assert!((sum - 1.0).abs() < 1e-5, "{sum}");
    }
}

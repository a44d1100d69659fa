//! `split_k` with `cluster`: parts of a reduction in the CTAs of a cluster, on the simulator.

use crate::{random, support};

use ptx_sim::{Finding, FindingKind, Launch, Memory, Module};
use tile_dsl::{
    lower::lower,
    program::{Program, Variant},
};
use tilewright::{LaunchArgs, LaunchReport, PtxCache, Schedule, prelude::*, verify::Expected};

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

/// C = max(A·B + bias, 0), and twice that.
#[tile_kernel]
fn layer(
    a: &Tensor<f32, M, K>,
    b: &Tensor<f32, K, N>,
    bias: &Tensor<f32, N>,
    c: &mut Tensor<f32, M, N>,
    d: &mut Tensor<f32, M, N>,
) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    let y = max(acc + load(bias, [j]), 0.0);
    store(c, [i, j], y);
    store(d, [i, j], y + y);
}

/// C = A·B plus the sum of each row of A, from 1 on.
#[tile_kernel]
fn with_rows(a: &Tensor<f32, M, K>, b: &Tensor<f32, K, N>, c: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    let mut rows = full::<f32>(1.0, [i]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
        rows += sum(load(a, [i, k]), k);
    }
    store(c, [i, j], acc + rows);
}

/// C = A·B plus the sum of each row of A: not of one element, of all of the row.
#[tile_kernel]
fn rows_for_all(a: &Tensor<f32, M, K>, b: &Tensor<f32, K, 16>, c: &mut Tensor<f32, M, 16>) {
    let i = program_tile(M);
    let j = whole(16);
    let mut acc = zeros::<f32>([i, j]);
    let mut rows = zeros::<f32>([i]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
        rows += sum(load(a, [i, k]), k);
    }
    store(c, [i, j], acc + rows);
}

/// Each row of A·B less its sum, which needs the whole row.
#[tile_kernel]
fn shares(a: &Tensor<f32, M, K>, b: &Tensor<f32, K, 16>, c: &mut Tensor<f32, M, 16>) {
    let i = program_tile(M);
    let j = whole(16);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], acc - sum(acc, j));
}

/// Euclidean norm of each row.
#[tile_kernel]
fn norms(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R>) {
    let r = program_tile(R);
    let n = whole(N);
    store(y, [r], sqrt(sum(load(x, [r, n]) * load(x, [r, n]), n)));
}

/// Greatest element of each row.
#[tile_kernel]
fn greatest<T: Float>(x: &Tensor<T, R, N>, y: &mut Tensor<T, R>) {
    let r = program_tile(R);
    let n = whole(N);
    store(y, [r], max(load(x, [r, n]), n));
}

schedule! {
    /// A thread has an element: nothing to share out, so the first CTA goes on.
    alone on sm_90 for matmul<f32 | f16> {
        tile(i = 16, j = 16, k = 16);
        bind(j -> thread.x, i -> thread.y);
        stage(a, b at k: shared);
        split_k(k, 4; cluster);
    }
    of_three = alone { split_k(k, 3; cluster); pipeline(k, 2); order(grouped(2)); }
    of_eight = alone { split_k(k, 8; cluster); }
    of_one = alone { split_k(k, 1; cluster); }
    /// Each CTA goes on with rows of its own.
    by_rows on sm_90 for matmul<f32 | f16> {
        tile(i = 64, j = 16, k = 16);
        split(i -> ir, it: 8);
        bind(j -> thread.x, it -> thread.y);
        stage(a, b at k: shared);
        unroll(k);
        split_k(k, 4; cluster);
    }
    thirds = by_rows { tile(i = 48); split_k(k, 3; cluster); }
    two_rows = by_rows { split_k(k, 2; cluster); pipeline(k, 3); order(col); }
    inner = by_rows { drop(split_k(k)); split_k(k.t, 2; cluster); }
    published = by_rows { stage(acc: shared); unroll(ir in c); }
    vectors = by_rows<f32> { drop(bind(j)); split(j -> jt, jv: 4); bind(jt -> thread.x); vectorize(jv); }
    warps on sm_90 for matmul<f16> {
        tile(i = 64, j = 32, k = 32);
        split(i -> iw, im: 32);
        tensor_core(acc: mma);
        reorder(iw, k.atom, im);
        stage(a, b at k: shared, cp_async, vector(16));
        pad(a: 16, b: 16);
        pipeline(k, 3);
        bind(iw -> warp.x);
        vectorize(j.pair);
        split_k(k, 4; cluster);
    }
    warpgroup on sm_90a for matmul<f16 | bf16> {
        tile(i = 64, j = 64, k = 64);
        tensor_core(acc: wgmma(64, 64));
        stage(a, b at k: shared, tma);
        swizzle(a: 128, b: 128);
        unroll(k.atom);
        vectorize(j.pair);
        pipeline(k, 3);
        split_k(k, 4; cluster);
    }
    produced = warpgroup { produce(k: warp); }
    produced_by3 = produced { split_k(k, 3; cluster); }
    produced_by2 = produced { split_k(k, 2; cluster); pipeline(k, 4); }
    layered on sm_90 for layer {
        tile(i = 32, j = 16, k = 8);
        split(i -> ir, it: 8);
        bind(j -> thread.x, it -> thread.y);
        stage(a, b at k: shared);
        split_k(k, 2; cluster);
    }
    rows_too on sm_90 for with_rows {
        tile(i = 32, j = 16, k = 8);
        split(i -> ir, it: 8);
        bind(j -> thread.x, it -> thread.y);
        split_k(k, 4; cluster);
    }
    rows_by4 on sm_90 for rows_for_all {
        tile(i = 32, k = 8);
        bind(i -> thread.x);
        split_k(k, 4; cluster);
    }
    rows_by2 = rows_by4 { split_k(k, 2; cluster); }
    rows_by3 = rows_by4 { split_k(k, 3; cluster); }
    whole_rows on sm_90 for shares {
        tile(i = 32, k = 8);
        bind(i -> thread.x);
        split_k(k, 4; cluster);
    }
    in_warps on sm_90 for norms {
        tile(r = 4, n = 32);
        bind(r -> warp.x, n -> lane.x);
        reduce(y.sum: lane);
        split_k(n, 5; cluster);
    }
    by_thread on sm_90 for greatest<f32 | f16 | bf16> {
        tile(r = 32, n = 8);
        bind(r -> thread.x);
        split_k(n, 3; cluster);
    }
}

fn device(seed: u64) -> Device {
    Device::sim_with_seed(seed).with_cache(PtxCache::disabled())
}

fn buffer<T: Float>(device: &Device, shape: &[usize]) -> Buffer<T> {
    let count = shape.iter().product();
    let data: Vec<T> = (0..count).map(|i| T::from_f64(((i * 7) % 11) as f64 / 8.0 - 0.7)).collect();
    Buffer::from_slice(device, &data, shape).unwrap()
}

fn program<S: Schedule>(dtype: Option<tilewright::DType>) -> Program {
    Program::from_bytes(S::program(dtype).unwrap()).unwrap()
}

fn bits<T: Float>(c: &Buffer<T>) -> Vec<u64> {
    c.to_vec().unwrap().iter().map(|x| x.to_f64().to_bits()).collect()
}

/// Runs a product and checks it against the evaluator; returns its bits and the report.
fn product<T: Float, S: Schedule<Kernel = matmul>>(
    device: &Device,
    schedule: S,
    [m, n, k]: [usize; 3],
) -> (Vec<u64>, LaunchReport) {
    let (a, b) = (buffer::<T>(device, &[m, k]), buffer::<T>(device, &[k, n]));
    let mut c = Buffer::<T>::poisoned(device, &[m, n]).unwrap();
    let args = LaunchArgs::new("matmul", Some(T::DTYPE)).input("a", &a).input("b", &b).output("c", &mut c);
    let expected = Expected::of(&program::<S>(Some(T::DTYPE)), &args).unwrap();
    let report = matmul(&a, &b, &mut c).schedule(schedule).run().unwrap();
    assert!(report.findings.is_empty(), "{m}×{n}×{k}: {:?}", report.findings);
    let comparison = expected.compare("c", &c, 1.0).unwrap();
    assert!(comparison.verified(), "{m}×{n}×{k}: {comparison:?}");
    (bits(&c), report)
}

/// Whole tiles, tails, one element, fewer steps than CTAs, no step at all.
const SIZES: [[usize; 3]; 8] = [
    [128, 32, 224],
    [33, 17, 100],
    [16, 16, 16],
    [63, 15, 65],
    [65, 17, 15],
    [5, 40, 1],
    [1, 1, 97],
    [20, 20, 0],
];

#[test]
fn parts_of_any_number_and_size_add_up() {
    let device = device(0);
    for size in SIZES {
        product::<f32, _>(&device, alone, size);
        product::<f16, _>(&device, alone, size);
        product::<f32, _>(&device, of_three, size);
        product::<f32, _>(&device, of_eight, size);
        product::<f32, _>(&device, of_one, size);
        product::<f32, _>(&device, by_rows, size);
        product::<f16, _>(&device, by_rows, size);
        product::<f32, _>(&device, thirds, size);
        product::<f32, _>(&device, two_rows, size);
        product::<f32, _>(&device, inner, size);
        product::<f32, _>(&device, published, size);
        product::<f32, _>(&device, vectors, size);
    }
}

#[test]
fn tensor_cores_leave_parts_too() {
    let device = device(1);
    for size in [[64, 64, 512], [72, 136, 328], [64, 64, 64], [8, 8, 0]] {
        product::<f16, _>(&device, warps, size);
        product::<f16, _>(&device, warpgroup, size);
        product::<bf16, _>(&device, warpgroup, size);
        product::<f16, _>(&device, produced, size);
        product::<bf16, _>(&device, produced_by2, size);
        product::<bf16, _>(&device, produced_by3, size);
    }
}

/// Neither the order of warps nor when copies complete decides anything, down to the last bit.
#[test]
fn seeds_agree() {
    let size = [72, 40, 200];
    let of = |device: &Device| {
        let device = &device.clone().with_cache(PtxCache::disabled());
        [
            product::<f32, _>(device, of_three, size).0,
            product::<f32, _>(device, thirds, size).0,
            product::<f32, _>(device, two_rows, size).0,
            product::<f16, _>(device, warps, size).0,
            product::<f16, _>(device, warpgroup, size).0,
            product::<f16, _>(device, produced, size).0,
            product::<f16, _>(device, produced_by3, size).0,
        ]
    };
    let wanted = of(&device(0));
    for seed in 0..10 {
        for device in [Device::sim_with_seed(seed), Device::sim_early(seed)] {
            assert_eq!(of(&device), wanted, "seed {seed}");
        }
    }
}

/// Sums of every fourth tile of k, then of those from the first to the last.
#[test]
fn parts_are_added_in_the_order_of_their_ctas() {
    let (size @ [m, n, k], tile) = ([33, 17, 200], 16);
    let (found, _) = product::<f32, _>(&device(2), by_rows, size);
    let element = |i: usize| (((i * 7) % 11) as f64 / 8.0 - 0.7) as f32;
    for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
        let part = |cta: usize| {
            let steps = (0..k).filter(|l| l / tile % 4 == cta);
            steps.fold(0f32, |sum, l| element(i * k + l).mul_add(element(l * n + j), sum))
        };
        let sum = (1..4).fold(part(0), |sum, cta| sum + part(cta));
        assert_eq!(found[i * n + j], f64::from(sum).to_bits(), "C[{i}, {j}]");
    }
}

#[test]
fn whatever_follows_has_the_sums_that_it_needs() {
    let sizes = [[64, 32, 64], [33, 17, 100], [31, 15, 7], [7, 20, 3], [1, 1, 1], [40, 9, 0]];
    let early = Device::sim_early(4).with_cache(PtxCache::disabled());
    let runs = [device(3), early].into_iter().flat_map(|device| sizes.map(|size| (device.clone(), size)));
    for (device, [m, n, k]) in runs {
        let (a, b) = (buffer::<f32>(&device, &[m, k]), buffer::<f32>(&device, &[k, n]));
        let bias = buffer::<f32>(&device, &[n]);
        let poisoned = |shape: &[usize]| Buffer::<f32>::poisoned(&device, shape).unwrap();
        let (mut c, mut d) = (poisoned(&[m, n]), poisoned(&[m, n]));
        let args = LaunchArgs::new("layer", None).input("a", &a).input("b", &b).input("bias", &bias);
        let args = args.output("c", &mut c).output("d", &mut d);
        let expected = Expected::of(&program::<layered>(None), &args).unwrap();
        let report = layer(&a, &b, &bias, &mut c, &mut d).schedule(layered).run().unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        assert!(expected.compare("c", &c, 1.0).unwrap().verified(), "{m}×{n}×{k}");
        assert!(expected.compare("d", &d, 1.0).unwrap().verified(), "{m}×{n}×{k}");

        let args = LaunchArgs::new("with_rows", None).input("a", &a).input("b", &b);
        let args = args.output("c", &mut c);
        let expected = Expected::of(&program::<rows_too>(None), &args).unwrap();
        let report = with_rows(&a, &b, &mut c).schedule(rows_too).run().unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        assert!(expected.compare("c", &c, 1.0).unwrap().verified(), "{m}×{n}×{k}");

        let b = buffer::<f32>(&device, &[k, 16]);
        let mut c = poisoned(&[m, 16]);
        let args = LaunchArgs::new("shares", None).input("a", &a).input("b", &b).output("c", &mut c);
        let expected = Expected::of(&program::<whole_rows>(None), &args).unwrap();
        let report = shares(&a, &b, &mut c).schedule(whole_rows).run().unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        assert!(expected.compare("c", &c, 1.0).unwrap().verified(), "{m}×{n}×{k}");

        for schedule in [&rows_by4 as &dyn AnySchedule, &rows_by2, &rows_by3] {
            let mut c = poisoned(&[m, 16]);
            let args =
                LaunchArgs::new("rows_for_all", None).input("a", &a).input("b", &b).output("c", &mut c);
            let expected = Expected::of(&program::<rows_by4>(None), &args).unwrap();
            let report = rows_for_all(&a, &b, &mut c).schedule_dyn(schedule).run().unwrap();
            assert!(report.findings.is_empty(), "{:?}", report.findings);
            assert!(expected.compare("c", &c, 1.0).unwrap().verified(), "{m}×{n}×{k}");
        }
    }
}

#[test]
fn other_reductions_meet_before_what_follows_them() {
    let device = device(4);
    for shape in [[9, 200], [64, 31], [3, 1]] {
        let x = buffer::<f32>(&device, &shape);
        let mut y = Buffer::<f32>::poisoned(&device, &shape[..1]).unwrap();
        let args = LaunchArgs::new("norms", None).input("x", &x).output("y", &mut y);
        let expected = Expected::of(&program::<in_warps>(None), &args).unwrap();
        let report = norms(&x, &mut y).schedule(in_warps).run().unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        assert!(expected.compare("y", &y, 1.0).unwrap().verified(), "{shape:?}");
        maxima::<f32>(&device, &shape);
        maxima::<f16>(&device, &shape);
        maxima::<bf16>(&device, &shape);
    }
}

fn maxima<T: Float>(device: &Device, shape: &[usize]) {
    let x = buffer::<T>(device, shape);
    let mut y = Buffer::<T>::poisoned(device, &shape[..1]).unwrap();
    let args = LaunchArgs::new("greatest", Some(T::DTYPE)).input("x", &x).output("y", &mut y);
    let expected = Expected::of(&program::<by_thread>(Some(T::DTYPE)), &args).unwrap();
    let report = greatest(&x, &mut y).schedule(by_thread).run().unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert!(expected.compare("y", &y, 1.0).unwrap().verified(), "{shape:?}");
}

/// Those of seeded random legal schedules whose CTAs meet in clusters: evaluator, interpreter of the nest, simulator.
#[test]
fn random_schedules_meet_in_clusters() {
    use tilewright::{DType, Kernel};
    const FLOATS: &[DType] = &[DType::F32, DType::F16, DType::BF16];
    let size = [("M", 37), ("N", 70), ("K", 45)];
    let extents = size.iter().map(|(dim, n)| (dim.to_string(), *n)).collect();
    let drawn = random::mixed_schedules(matmul::NAME, matmul::KERNEL, FLOATS, 240, 20_261_123, &extents);
    let (mut some, mut none) = (0, 0);
    for schedule in &drawn {
        let (dtype, program) = schedule.programs[0];
        let nest = Program::from_bytes(program).unwrap().nest;
        if !nest.cluster_reduces() {
            continue;
        }
        *(if nest.share().is_some() { &mut some } else { &mut none }) += 1;
        let bounded = nest.bounds.values().min().map_or(i64::MAX, |n| i64::from(*n));
        let size = size.map(|(dim, n)| (dim, n.min(bounded)));
        let case = support::Case::new(matmul::KERNEL, dtype, &size, 7);
        case.check_nest(schedule);
        case.check_simulator::<matmul>(schedule);
    }
    println!("{some} with shares, {none} with the first CTA alone");
    assert!(some > 0 && none > 0, "{some} with shares, {none} with the first CTA alone");
}

/// Who goes on with what, and the shared memory that it takes.
#[test]
fn a_share_is_a_part_of_the_elements() {
    let f32 = Some(tilewright::DType::F32);
    let share = |program: &Program| program.nest.share().map(|d| program.nest.digit_name(d));
    assert_eq!(share(&program::<alone>(f32)), None);
    assert_eq!(share(&program::<by_rows>(f32)).as_deref(), Some("ir"));
    assert_eq!(share(&program::<vectors>(f32)).as_deref(), Some("ir"));
    assert_eq!(share(&program::<layered>(None)).as_deref(), Some("ir"));
    assert_eq!(share(&program::<rows_too>(None)).as_deref(), Some("ir"));
    assert_eq!(share(&program::<whole_rows>(None)), None);
    let half = Some(tilewright::DType::F16);
    assert_eq!(share(&program::<warpgroup>(half)).as_deref(), Some("j.group"));
    assert_eq!(share(&program::<rows_by4>(None)).as_deref(), Some("j"));
    assert_eq!(share(&program::<rows_by3>(None)), None);
    // Each of four CTAs stores two of its eight rows a thread, once it has the others' six.
    let of = |text: &str, what: &str| text.matches(what).count();
    let report = product::<f32, _>(&device(5), by_rows, [64, 16, 64]).1;
    assert_eq!(report.scratch_bytes, 0);
    let ptx = report.ptx;
    assert_eq!((of(&ptx, "st.global"), of(&ptx, "st.shared::cluster.v2")), (2, 4), "{ptx}");
    assert_eq!(of(&ptx, "barrier.cluster"), 4);
    assert_eq!(of(&ptx, "barrier.cluster.arrive.relaxed"), 1);
    assert_eq!((of(&ptx, "fence"), of(&ptx, "membar")), (0, 0));

    // Where as many CTAs fit then, the parts have bytes of their own: what the other CTAs have of this one's share.
    let parts = |program: &Program| {
        let kernel = lower(program, Variant::Exact).unwrap();
        let at = |s: &tile_dsl::kernel::Shared| s.name == "acc.parts";
        let parts = kernel.shared.iter().position(at).unwrap();
        let own = kernel.rivals()[parts].is_empty();
        (kernel.shared[parts].bytes(), own, kernel.shared_bytes(), kernel.to_string())
    };
    let (bytes, own, _, text) = parts(&program::<by_rows>(f32));
    assert_eq!((bytes, own), (128 * 2 * 3 * 4, true));
    assert_eq!(
        ["cluster arrive", "cluster wait", "cluster_barrier"].map(|w| of(&text, w)),
        [1, 1, 1],
        "{text}"
    );
    let (bytes, own, _, text) = parts(&program::<produced_by2>(half));
    assert_eq!((bytes, own), (64 * 64 / 2 * 4, true));
    assert_eq!(
        ["cluster arrive", "cluster wait", "cluster_barrier"].map(|w| of(&text, w)),
        [1, 2, 2],
        "{text}"
    );
    assert_eq!(parts(&program::<alone>(f32)).0, 256 * 3 * 4);
    assert_eq!(parts(&program::<rows_by2>(None)).0, 32 * 8 * 4);
    // Otherwise those of the pipeline.
    let (bytes, own, all, text) = parts(&program::<warpgroup>(half));
    assert_eq!((bytes, own), (64 * 64 / 4 * 3 * 4, false));
    assert!(all < 3 * 2 * 64 * 64 * 2 + 1024, "{all}");
    assert_eq!(
        ["cluster arrive", "cluster wait", "cluster_barrier"].map(|w| of(&text, w)),
        [0, 0, 2],
        "{text}"
    );
}

/// The cluster's barriers are what orders one CTA's stores behind the others' use of those bytes, and before their sums.
#[test]
fn a_weaker_barrier_is_found() {
    fn found<S: Schedule<Kernel = matmul>>(schedule: S, ctas: u32) -> impl Fn(&str) -> Vec<Finding> {
        let kernel = format!("matmul_{}_f32_exact", schedule.name());
        move |text: &str| {
            let module = Module::parse(text).unwrap();
            let mut memory = Memory::with_capacity(1 << 20);
            let mut params: Vec<Vec<u8>> = Vec::new();
            for (name, bytes) in [("a", 64 * 128 * 4), ("b", 128 * 16 * 4), ("c", 64 * 16 * 4)] {
                let address = memory.alloc(name, bytes).unwrap();
                memory.write(address, &vec![0; bytes as usize]).unwrap();
                params.push(address.to_le_bytes().to_vec());
            }
            params.extend([64u32, 128, 16].map(|dim| dim.to_le_bytes().to_vec()));
            let (kernel, grid) = (kernel.clone(), [ctas, 1, 1]);
            let launch = Launch { kernel, grid, block: [128, 1, 1], params, ..Launch::default() };
            ptx_sim::launch(&module, &mut memory, &launch).unwrap().findings
        }
    }
    let races = |found: &[Finding]| found.iter().any(|f| matches!(f.kind, FindingKind::SharedRace(_)));
    let (arrive, wait) = ("barrier.cluster.arrive;", "barrier.cluster.wait;");
    // The n-th, weakened, and left out.
    let changed = |ptx: &str, n: usize| {
        let at = |what: &str| ptx.match_indices(what).nth(n).map(|(at, _)| at).unwrap();
        let weak = |with: &str| format!("{}{with}{}", &ptx[..at(arrive)], &ptx[at(arrive) + arrive.len()..]);
        let missing = weak("");
        let from = at(arrive) + missing[at(arrive)..].find(wait).unwrap();
        let missing = format!("{}{}", &missing[..from], &missing[from + wait.len()..]);
        [weak("barrier.cluster.arrive.relaxed;"), missing]
    };
    let size = [64, 16, 128];
    // One of them, with an arrival at the start before it; and two, where the parts take the bytes of the pipeline.
    let ptx = product::<f32, _>(&device(0), by_rows, size).1.ptx;
    let run = found(by_rows, 4);
    assert_eq!(run(&ptx).len(), 0);
    changed(&ptx, 0).iter().for_each(|text| assert!(races(&run(text)), "{:?}", run(text)));
    let ptx = product::<f32, _>(&device(0), two_rows, size).1.ptx;
    let run = found(two_rows, 2);
    assert_eq!(run(&ptx).len(), 0);
    for n in [0, 1] {
        changed(&ptx, n).iter().for_each(|text| assert!(races(&run(text)), "{n}: {:?}", run(text)));
    }
}

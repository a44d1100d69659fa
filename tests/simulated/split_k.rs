//! `split_k`: parts of a reduction in several CTAs, on the simulator.

use tile_dsl::program::Program;
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

/// Euclidean norm of each row.
#[tile_kernel]
fn norms(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R>) {
    let r = program_tile(R);
    let n = whole(N);
    store(y, [r], sqrt(sum(load(x, [r, n]) * load(x, [r, n]), n)));
}

/// Greatest element of each row.
#[tile_kernel]
fn greatest(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R>) {
    let r = program_tile(R);
    let n = whole(N);
    store(y, [r], max(load(x, [r, n]), n));
}

/// The sum of all elements.
#[tile_kernel]
fn total(x: &Tensor<f32, N>, y: &mut Tensor<f32, 1>) {
    let mut s = zeros::<f32>([]);
    for n in tiles(N) {
        s += sum(load(x, [n]), n);
    }
    store(y, [0], s);
}

/// The sum of each row, as a column.
#[tile_kernel]
fn sums_of_rows(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R, 1>) {
    let r = program_tile(R);
    let n = whole(N);
    store(y, [r, 0], sum(load(x, [r, n]), n));
}

schedule! {
    whole for matmul<f32 | f16> {
        tile(i = 16, j = 16, k = 16);
        bind(j -> thread.x, i -> thread.y);
        stage(a, b at k: shared);
    }
    two = whole { split_k(k, 2); }
    three = whole { split_k(k, 3); }
    four = whole { split_k(k, 4); }
    seven = whole { split_k(k, 7); pipeline(k, 2); order(grouped(2)); }
    added = whole<f32> { split_k(k, 3; atomic); }
    within = whole { split_k(k.t, 2); }
    each_step = whole { drop(stage(a), stage(b)); split(k.o -> kx, ky: 4); split_k(ky, 4); }
    each_within = whole<f32> { split_k(k.t, 16; atomic); }
    outermost = whole { drop(stage(a), stage(b)); split(k.o -> kx, ky: 2); split_k(kx, 3); }
    in_warps for norms {
        tile(r = 4, n = 32);
        bind(r -> warp.x, n -> lane.x);
        reduce(y.sum: lane);
        split_k(n, 5);
    }
    by_thread for greatest {
        tile(r = 32, n = 8);
        bind(r -> thread.x);
        split_k(n, 3);
    }
    all for total { tile(n = 128); split(n -> no, nt: 32); bind(nt -> thread.x); reduce(s: cta); split_k(n, 16; atomic); }
    rows for sums_of_rows { tile(r = 32, n = 8); bind(r -> thread.x); split_k(n, 3; atomic); }
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

/// Runs a product and checks it against the evaluator; returns its bits and the report.
fn product<T: Float, S: Schedule<Kernel = matmul>>(
    schedule: S,
    [m, n, k]: [usize; 3],
    seed: u64,
) -> (Vec<u64>, LaunchReport) {
    let device = device(seed);
    let (a, b) = (buffer::<T>(&device, &[m, k]), buffer::<T>(&device, &[k, n]));
    let mut c = Buffer::<T>::poisoned(&device, &[m, n]).unwrap();
    let args = LaunchArgs::new("matmul", Some(T::DTYPE)).input("a", &a).input("b", &b).output("c", &mut c);
    let expected = Expected::of(&program::<S>(Some(T::DTYPE)), &args).unwrap();
    let report = matmul(&a, &b, &mut c).schedule(schedule).run().unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    let comparison = expected.compare("c", &c, 1.0).unwrap();
    assert!(comparison.verified(), "{m}×{n}×{k}: {comparison:?}");
    (c.to_vec().unwrap().iter().map(|x| x.to_f64().to_bits()).collect(), report)
}

const SIZES: [[usize; 3]; 6] =
    [[32, 16, 224], [33, 17, 100], [16, 16, 16], [5, 40, 1], [1, 1, 97], [20, 20, 0]];

#[test]
fn parts_of_any_number_and_size_add_up() {
    for size in SIZES {
        product::<f32, _>(two, size, 0);
        product::<f32, _>(three, size, 0);
        product::<f32, _>(four, size, 0);
        product::<f32, _>(seven, size, 0);
        product::<f32, _>(added, size, 0);
        product::<f32, _>(within, size, 0);
        product::<f32, _>(outermost, size, 0);
        product::<f32, _>(each_step, size, 0);
        product::<f32, _>(each_within, size, 0);
        product::<f16, _>(seven, size, 0);
    }
}

#[test]
fn a_workspace_gives_the_same_bits_in_every_order_of_ctas() {
    let size = [33, 17, 700];
    let (bits, report) = product::<f32, _>(seven, size, 0);
    let (at_once, _) = product::<f32, _>(four, size, 0);
    for seed in 1..8 {
        assert_eq!(product::<f32, _>(seven, size, seed).0, bits, "seed {seed}");
        assert_eq!(product::<f32, _>(four, size, seed).0, at_once, "seed {seed}");
    }
    // 3·2 tiles of 16×16 sums in 7 parts, and their counters.
    assert_eq!(report.scratch_bytes, 3 * 2 * 7 * (16 * 16 * 4 + 4));
    assert_eq!(product::<f32, _>(added, size, 0).1.scratch_bytes, 0);
    assert_eq!(product::<f32, _>(whole, size, 0).1.scratch_bytes, 0);
}

#[test]
fn other_reductions_meet_before_what_follows_them() {
    let device = device(3);
    for shape in [[9, 200], [64, 31], [3, 1]] {
        let x = buffer::<f32>(&device, &shape);
        let mut y = Buffer::<f32>::poisoned(&device, &shape[..1]).unwrap();
        let args = LaunchArgs::new("norms", None).input("x", &x).output("y", &mut y);
        let expected = Expected::of(&program::<in_warps>(None), &args).unwrap();
        let report = norms(&x, &mut y).schedule(in_warps).run().unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        assert!(expected.compare("y", &y, 1.0).unwrap().verified(), "{shape:?}");

        let args = LaunchArgs::new("greatest", None).input("x", &x).output("y", &mut y);
        let expected = Expected::of(&program::<by_thread>(None), &args).unwrap();
        let report = greatest(&x, &mut y).schedule(by_thread).run().unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        assert!(expected.compare("y", &y, 1.0).unwrap().verified(), "{shape:?}");
    }
}

#[test]
fn a_dimension_of_one_element_is_whole() {
    let device = device(2);
    for shape in [[9, 200], [64, 31], [1, 1], [3, 0]] {
        let x = buffer::<f32>(&device, &shape);
        let mut y = Buffer::<f32>::poisoned(&device, &[shape[0], 1]).unwrap();
        let args = LaunchArgs::new("sums_of_rows", None).input("x", &x).output("y", &mut y);
        let expected = Expected::of(&program::<rows>(None), &args).unwrap();
        let report = sums_of_rows(&x, &mut y).schedule(rows).run().unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        assert!(expected.compare("y", &y, 1.0).unwrap().verified(), "{shape:?}");

        let x = buffer::<f32>(&device, &[shape[0] * shape[1]]);
        let mut y = Buffer::<f32>::poisoned(&device, &[1]).unwrap();
        let args = LaunchArgs::new("total", None).input("x", &x).output("y", &mut y);
        let expected = Expected::of(&program::<all>(None), &args).unwrap();
        let report = total(&x, &mut y).schedule(all).run().unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        assert!(expected.compare("y", &y, 1.0).unwrap().verified(), "{shape:?}");
    }
}

/// The count is what orders one CTA's sums before the other's loads: without that, the simulator sees a race.
#[test]
fn an_unordered_count_is_a_race() {
    use ptx_sim::{Launch, Memory, Module};
    let (_, report) = product::<f32, _>(two, [16, 16, 64], 0);
    let run = |text: &str| {
        let module = Module::parse(text).unwrap();
        let mut memory = Memory::with_capacity(1 << 20);
        let mut params: Vec<Vec<u8>> = Vec::new();
        for (name, bytes) in [("a", 4096), ("b", 4096), ("c", 1024)] {
            params.push(memory.alloc(name, bytes).unwrap().to_le_bytes().to_vec());
        }
        params.extend([16u32, 64, 16].map(|dim| dim.to_le_bytes().to_vec()));
        for (name, bytes) in [("parts", 2048), ("arrivals", 8)] {
            let address = memory.alloc(name, bytes).unwrap();
            memory.write(address, &vec![0; bytes as usize]).unwrap();
            params.push(address.to_le_bytes().to_vec());
        }
        let kernel = "matmul_two_f32_exact".to_string();
        let launch = Launch { kernel, grid: [2, 1, 1], block: [256, 1, 1], params, ..Launch::default() };
        ptx_sim::launch(&module, &mut memory, &launch).unwrap().findings
    };
    assert_eq!(run(&report.ptx).len(), 0);
    let weakened = report.ptx.replace("atom.acq_rel.gpu", "atom.relaxed.gpu");
    assert_ne!(weakened, *report.ptx);
    let race = |f: &ptx_sim::Finding| matches!(f.kind, ptx_sim::FindingKind::GlobalRace(_));
    assert!(run(&weakened).iter().any(race), "{:?}", run(&weakened));
}

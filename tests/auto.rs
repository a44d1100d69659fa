//! Launches without a schedule.

use tilewright::{By, Error, PtxCache, PtxSource, Tuner, prelude::*};

/// y = alpha·x + y.
#[tile_kernel]
fn saxpy(alpha: f32, x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], alpha * load(x, [i]) + load(y, [i]));
}

/// Each row over its sum of powers.
#[tile_kernel]
fn softmax(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R, N>) {
    let r = program_tile(R);
    let n = whole(N);
    let v = load(x, [r, n]);
    let e = exp(v - max(v, n));
    store(y, [r, n], e / sum(e, n));
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

/// The sum of all elements.
#[tile_kernel]
fn total(x: &Tensor<f32, N>, y: &mut Tensor<f32, 1>) {
    let mut s = zeros::<f32>([]);
    for n in tiles(N) {
        s += sum(load(x, [n]), n);
    }
    store(y, [0], s);
}

fn ramp(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i % 7) as f32 - 3.0).collect()
}

#[test]
fn saxpy_runs_at_any_size() {
    let device = Device::sim();
    for n in [1, 3, 127, 1000, 4096] {
        let x = Buffer::from_slice(&device, &ramp(n), &[n]).expect("small");
        let mut y = Buffer::from_slice(&device, &vec![2.0; n], &[n]).expect("small");
        let report = saxpy(3.0, &x, &mut y).run().expect("it runs");
        assert!(report.findings.is_empty());
        assert_eq!(report.schedule.as_ref(), "auto");
        let expected: Vec<f32> = ramp(n).iter().map(|x| 3.0 * x + 2.0).collect();
        assert_eq!(y.to_vec().expect("memory"), expected, "{n}: {}", report.schedule_text());
    }
}

#[test]
fn nothing_to_compute_is_no_mistake() {
    let device = Device::sim();
    let x = Buffer::from_slice(&device, &[], &[0]).expect("small");
    let mut y = Buffer::from_slice(&device, &[], &[0]).expect("small");
    let report = saxpy(3.0, &x, &mut y).run().expect("it runs");
    assert_eq!((report.variant, report.ctas), (None, 0));
}

#[test]
fn rows_and_sums_agree_with_plain_loops() {
    let device = Device::sim();
    for (r, n) in [(3, 100), (1, 5), (7, 1030)] {
        let x = Buffer::from_slice(&device, &ramp(r * n), &[r, n]).expect("small");
        let mut y = Buffer::from_slice(&device, &vec![0.0; r * n], &[r, n]).expect("small");
        softmax(&x, &mut y).run().expect("it runs");
        for (row, out) in ramp(r * n).chunks(n).zip(y.to_vec().expect("memory").chunks(n)) {
            let sum: f64 = row.iter().map(|x| f64::from(*x).exp()).sum();
            for (x, y) in row.iter().zip(out) {
                let expected = f64::from(*x).exp() / sum;
                assert!((f64::from(*y) - expected).abs() <= 1e-5 * expected, "{y} for {expected}");
            }
        }
        let x = Buffer::from_slice(&device, &ramp(r * n), &[r * n]).expect("small");
        let mut s = Buffer::from_slice(&device, &[0.0], &[1]).expect("small");
        total(&x, &mut s).run().expect("it runs");
        assert_eq!(s.to_vec().expect("memory"), [ramp(r * n).iter().sum::<f32>()]);
    }
}

#[test]
fn products_take_layouts_and_types() {
    let device = Device::sim();
    let (m, n, k) = (17, 40, 24);
    let (a, b) = (ramp(m * k), ramp(k * n));
    let expected: Vec<f32> =
        (0..m * n).map(|at| (0..k).map(|l| a[at / n * k + l] * b[l * n + at % n]).sum()).collect();
    let x = Buffer::from_slice(&device, &a, &[m, k]).expect("small");
    let y = Buffer::from_slice(&device, &b, &[k, n]).expect("small");
    let mut z = Buffer::from_slice(&device, &vec![0f32; m * n], &[m, n]).expect("small");
    matmul(&x, &y, &mut z).run().expect("it runs");
    assert_eq!(z.to_vec().expect("memory"), expected);

    let short = |v: &[f32]| v.iter().map(|x| bf16::from_f32(*x)).collect::<Vec<_>>();
    let x = Buffer::from_slice(&device, &short(&a), &[m, k]).expect("small");
    let y = Buffer::from_slice(&device, &short(&b), &[k, n]).expect("small");
    let mut z = Buffer::from_slice(&device, &short(&vec![0f32; m * n]), &[m, n]).expect("small");
    matmul(&x, &y, &mut z).run().expect("it runs");
    assert_eq!(z.to_vec().expect("memory"), short(&expected));

    // The second factor by columns.
    let turned: Vec<f32> = (0..k * n).map(|at| b[at % k * n + at / k]).collect();
    let x = Buffer::from_slice(&device, &a, &[m, k]).expect("small");
    let y = Buffer::from_slice_in(&device, &turned, &[k, n], Layout::ColumnMajor).expect("small");
    let mut z = Buffer::from_slice(&device, &vec![0f32; m * n], &[m, n]).expect("small");
    let report = matmul(&x, &y, &mut z).run().expect("it runs");
    assert!(report.schedule_text().contains("layout(b: col)"), "{}", report.schedule_text());
    assert_eq!(z.to_vec().expect("memory"), expected);
}

mod pasted {
    use super::{matmul, softmax};
    use tilewright::prelude::*;

    pub mod row {
        use super::*;
        schedule! {
            pub(in super::super) auto for softmax {
                fits(N <= 128);
                tile(r = 4);
                split(n -> no, nl, nv: 32, 4);
                reduce(e.max, y.sum: lane);
                bind(r -> warp.x, nl -> lane.x);
                vectorize(nv);
            }
        }
    }
    pub mod product {
        use super::*;
        schedule! {
            pub(in super::super) auto on sm_90a for matmul<bf16> {
                tile(i = 8, j = 64, k = 64);
                tensor_core(acc: wgmma(64, 8); swapped);
                stage(a, b at k: shared, tma);
                swizzle(a: 128, b: 128);
                unroll(k.atom);
                pipeline(k, 11);
                produce(k: warp);
                issue(acc: overwrite, in_flight(1));
            }
        }
    }
}

#[test]
fn the_text_gives_the_same_ptx() {
    let device = Device::sim();
    let (r, n) = (3, 100);
    let x = Buffer::from_slice(&device, &ramp(r * n), &[r, n]).expect("small");
    let mut y = Buffer::from_slice(&device, &vec![0.0; r * n], &[r, n]).expect("small");
    let chosen = softmax(&x, &mut y).run().expect("it runs");
    let pasted = softmax(&x, &mut y).schedule(pasted::row::auto).run().expect("it runs");
    assert_eq!(chosen.schedule_text(), pasted.schedule_text());
    assert_eq!(chosen.ptx, pasted.ptx);
    assert!(!chosen.ptx.is_empty() && chosen.choice.is_some() && pasted.choice.is_none());

    let zeros = vec![bf16::ZERO; 64 * 64];
    let a = Buffer::from_slice(&device, &zeros, &[64, 64]).expect("small");
    let mut c = Buffer::from_slice(&device, &zeros, &[64, 64]).expect("small");
    let chosen = matmul(&a, &a, &mut c).run().expect("it runs");
    let pasted = matmul(&a, &a, &mut c).schedule(pasted::product::auto).run().expect("it runs");
    assert_eq!(chosen.schedule_text(), pasted.schedule_text());
    assert_eq!(chosen.ptx, pasted.ptx);
}

#[test]
fn a_choice_explains_itself() {
    let device = Device::sim();
    let x = Buffer::from_slice(&device, &ramp(1000), &[1000]).expect("small");
    let mut y = Buffer::from_slice(&device, &ramp(1000), &[1000]).expect("small");
    let report = saxpy(3.0, &x, &mut y).run().expect("it runs");
    let picked = report.choice.expect("nobody gave one");
    assert!(picked.us > 0.0 && picked.by == By::Model, "{picked}");
    let chosen = saxpy(3.0, &x, &mut y).explain().expect("a choice");
    assert_eq!(chosen.choice().candidate.to_string(), picked.how);
    let text = chosen.to_string();
    for part in ["axis i: program N stored", "does not apply", "candidates on H200", "us: launch", "chosen: "]
    {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
}

#[test]
fn streams_and_settings_go_with_it() {
    let device = Device::sim();
    let x = Buffer::from_slice(&device, &ramp(1000), &[1000]).expect("small");
    let mut y = Buffer::from_slice(&device, &vec![0.0; 1000], &[1000]).expect("small");
    let stream = Stream::new(&device).expect("a stream");
    saxpy(1.0, &x, &mut y).enqueue(&stream).expect("it is queued");
    stream.sync().expect("it ends");
    assert_eq!(y.to_vec().expect("memory"), ramp(1000));
    let general = saxpy(1.0, &x, &mut y).auto().expect("a choice").variant(tilewright::Variant::General);
    assert_eq!(general.run().expect("it runs").variant, Some(tilewright::Variant::General));
}

#[test]
fn shapes_are_checked_first() {
    let device = Device::sim();
    let x = Buffer::from_slice(&device, &ramp(8), &[8]).expect("small");
    let mut y = Buffer::from_slice(&device, &ramp(9), &[9]).expect("small");
    assert!(matches!(saxpy(1.0, &x, &mut y).run(), Err(Error::Shape(_))));
}

/// What is measured is among the candidates, the arguments hold what they held, and another process finds the answer on disk.
#[test]
fn tuned_launches_take_the_quickest_and_keep_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = || Device::sim().with_cache(PtxCache::at(folder.path()));
    let (r, n) = (3, 100);
    let run = |device: &Device, tuner: Option<&Tuner>| {
        let x = Buffer::from_slice(device, &ramp(r * n), &[r, n]).expect("small");
        let mut y = Buffer::from_slice(device, &vec![0.0; r * n], &[r, n]).expect("small");
        let launch = softmax(&x, &mut y);
        let report = match tuner {
            Some(tuner) => tuner.auto(launch, &[&pasted::row::auto]),
            None => launch.tuned_beside(&[&pasted::row::auto]),
        };
        let report = report.expect("a choice").run().expect("it runs");
        (report, y.to_vec().expect("memory"))
    };
    let (first, y) = run(&open(), None);
    let picked = first.choice.clone().expect("nobody gave one");
    assert!((picked.by, picked.kept) == (By::Simulation, false), "{picked}");
    assert!((3..=6).contains(&picked.compared.len()), "{picked}");
    assert!(picked.compared.windows(2).all(|w| w[0].us <= w[1].us), "{picked}");
    assert_eq!((&picked.compared[0].how, picked.compared[0].us), (&picked.how, picked.us));
    assert!(picked.compared.iter().any(|c| c.how == "auto"), "the program's own: {picked}");
    let sums: Vec<f32> = y.chunks(n).map(|row| row.iter().sum()).collect();
    assert!(sums.iter().all(|s| (s - 1.0).abs() < 1e-4), "{sums:?}");
    // In this process it is known; nothing is measured again.
    let (again, same) = run(&open(), None);
    assert_eq!((again.schedule_text(), &same), (first.schedule_text(), &y));
    // Afresh, the disk is not asked.
    let (fresh, _) = run(&open(), Some(&Tuner::new().fresh()));
    assert!(!fresh.choice.expect("nobody gave one").kept);
}

/// A process that finds a choice on disk neither chooses nor proves nor compiles.
#[test]
fn another_process_finds_what_was_chosen() {
    const FOLDER: &str = "TILEWRIGHT_TEST_CHOICES";
    let run = |folder: &str| {
        let device = Device::sim().with_cache(PtxCache::at(folder));
        let (r, n) = (5, 77);
        let x = Buffer::from_slice(&device, &ramp(r * n), &[r, n]).expect("small");
        let mut y = Buffer::from_slice(&device, &vec![0.0; r * n], &[r, n]).expect("small");
        let report = softmax(&x, &mut y).run().expect("it runs");
        let tuned = softmax(&x, &mut y).tuned().expect("a choice").run().expect("it runs");
        [report, tuned].map(|r| {
            let kept = r.choice.as_ref().is_some_and(|c| c.kept);
            (kept, r.source != Some(PtxSource::Compiled), r.schedule_text().to_string())
        })
    };
    if let Ok(folder) = std::env::var(FOLDER) {
        return println!("\nfound {:?}", run(&folder));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a name");
    let here = run(path);
    assert!(here.iter().all(|(kept, ..)| !kept), "{here:?}");
    let there = std::process::Command::new(std::env::current_exe().expect("a name"))
        .args(["--exact", "another_process_finds_what_was_chosen", "--nocapture"])
        .env(FOLDER, path)
        .output()
        .expect("it starts");
    let expected = here.map(|(.., text)| (true, true, text));
    let found = String::from_utf8_lossy(&there.stdout).into_owned();
    assert!(found.contains(&format!("found {expected:?}")), "{found}\n{expected:?}");
}

#[test]
fn schedules_of_other_kernels_are_refused() {
    let device = Device::sim();
    let x = Buffer::from_slice(&device, &ramp(10), &[10]).expect("small");
    let mut y = Buffer::from_slice(&device, &ramp(10), &[10]).expect("small");
    let wrong = saxpy(1.0, &x, &mut y).tuned_beside(&[&pasted::row::auto]).err().expect("another kernel");
    assert!(matches!(wrong, Error::WrongKernel { .. }), "{wrong}");
    let empty = Buffer::from_slice(&device, &ramp(0), &[0]).expect("small");
    let mut none = Buffer::from_slice(&device, &ramp(0), &[0]).expect("small");
    saxpy(1.0, &empty, &mut none).tuned().expect("a choice").run().expect("nothing to do");
}

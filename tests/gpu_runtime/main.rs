//! Streams, views and borrowed memory on a GPU. Every test is skipped, aloud, on a machine without one.

use kernels::*;
use tilewright::{
    Communicator, DType, Error, L2, LaunchReport, Origin, PtxCache, Tuner, Variant, interop, prelude::*,
};

#[path = "../../examples/ranks/checks.rs"]
mod checks;
mod graphs;
mod kernels;
mod memory;
#[path = "../../examples/matmul/kernel.rs"]
#[allow(dead_code, reason = "some of its schedules")]
mod product;

/// C = A·B on views with these pitches and offsets, with nothing beside it written.
fn pitched(
    device: &Device,
    [m, n, k]: [usize; 3],
    pitch: [usize; 3],
    at: [usize; 3],
) -> (Vec<f32>, LaunchReport) {
    let inside = |rows: usize, columns: usize, which: usize| {
        let mut data = vec![f32::NAN; (rows + 1) * pitch[which]];
        for (n, x) in numbers(rows * columns).into_iter().enumerate() {
            data[n / columns * pitch[which] + at[which] + n % columns] = x;
        }
        let buffer = Buffer::from_slice(device, &data, &[rows + 1, pitch[which]]).unwrap();
        (buffer, [0..rows, at[which]..at[which] + columns])
    };
    let ((a, at_a), (b, at_b), (mut c, at_c)) = (inside(m, k, 0), inside(k, n, 1), inside(m, n, 2));
    let before = c.to_vec().unwrap();
    let (a, b) = (a.slice(&at_a).unwrap(), b.slice(&at_b).unwrap());
    let mut view = c.slice_mut(&at_c).unwrap();
    let report = matmul(&a, &b, &mut view).schedule(wide).run().unwrap();
    let found = view.to_vec().unwrap();
    for (place, (before, after)) in before.iter().zip(c.to_vec().unwrap()).enumerate() {
        let inside = place / pitch[2] < m && at_c[1].contains(&(place % pitch[2]));
        assert!(inside || before.to_bits() == after.to_bits(), "{place} was written");
    }
    (found, report)
}

#[test]
fn views_have_the_simulators_bits_and_variants() {
    let (Some(gpu), sim) = (gpu(), Device::sim()) else { return };
    let size = [64, 64, 32];
    for (pitch, at, variant) in [
        ([32, 64, 64], [0, 0, 0], Variant::Exact),
        ([36, 68, 100], [4, 0, 8], Variant::Exact),
        ([36, 68, 68], [0, 1, 0], Variant::General),
        ([35, 71, 73], [1, 2, 3], Variant::General),
    ] {
        let (on_gpu, report) = pitched(&gpu, size, pitch, at);
        let (on_sim, _) = pitched(&sim, size, pitch, at);
        assert_eq!(report.variant, Some(variant), "{pitch:?} {at:?}");
        assert_eq!(on_gpu, on_sim, "{pitch:?} {at:?}");
    }
}

/// 4100 elements from row to row of 4096, and then one element further on.
#[test]
fn a_large_pitch_and_an_offset() {
    let Some(gpu) = gpu() else { return };
    let count = 4096;
    for (before, variant) in [(0, Variant::Exact), (1, Variant::General)] {
        let mut whole = Buffer::<f32>::zeros(&gpu, &[64, 4100]).unwrap();
        let mut x = whole.slice_mut(&[0..64, before..before + count]).unwrap();
        let report = increment(&mut x).schedule(by_rows).timed().run().unwrap();
        assert_eq!(report.variant, Some(variant));
        assert!(report.time_ms.unwrap() > 0.0);
        let x = whole.to_vec().unwrap();
        let wrong = (0..x.len()).find(|n| x[*n] != f32::from((before..before + count).contains(&(n % 4100))));
        assert_eq!(wrong, None);
    }
}

#[test]
fn launches_of_many_streams_follow_their_buffers() {
    let Some(gpu) = gpu() else { return };
    let kernel = by_rows.prepare(&gpu, None).unwrap();
    let streams: Vec<Stream> = (0..4).map(|_| Stream::new(&gpu).unwrap()).collect();
    let mut x = Buffer::<f32>::zeros(&gpu, &[256, 4096]).unwrap();
    for n in 0..400 {
        increment(&mut x).prepared(&kernel).enqueue(&streams[n * 7 % 4]).unwrap();
    }
    // Without a wait by the caller.
    assert!(x.to_vec().unwrap().iter().all(|x| *x == 400.0));
    let start = streams[0].timestamp().unwrap();
    increment(&mut x).prepared(&kernel).enqueue(&streams[0]).unwrap();
    let end = streams[0].timestamp().unwrap();
    assert!(end.ms_since(&start).unwrap().unwrap() > 0.0);
    let event = streams[0].record().unwrap();
    streams[1].wait(&event).unwrap();
    event.sync().unwrap();
    assert!(event.is_done().unwrap());
}

#[test]
fn buffers_may_go_while_kernels_run() {
    let Some(gpu) = gpu() else { return };
    let stream = Stream::new(&gpu).unwrap();
    let n = 1024;
    let mut c = Buffer::<f32>::poisoned(&gpu, &[n, n]).unwrap();
    for round in 0..20 {
        let a = Buffer::from_slice(&gpu, &vec![round as f32; n * n], &[n, n]).unwrap();
        let b = Buffer::from_slice(&gpu, &vec![1.0f32; n * n], &[n, n]).unwrap();
        matmul(&a, &b, &mut c).schedule(wide).enqueue(&stream).unwrap();
        // Their memory must not go to the next round's before the kernel has ended.
    }
    assert!(c.to_vec().unwrap().iter().all(|x| *x == 19.0 * n as f32));
}

/// Shared and separate buffers, shared and separate streams, scratch memory; no memory is lost.
#[test]
fn threads_and_streams() {
    let Some(gpu) = gpu() else { return };
    let launches: usize = std::env::var("TILEWRIGHT_LAUNCHES").map_or(500, |n| n.parse().expect("a number"));
    let round = |launches: usize| {
        let (plain, split) =
            (wide.prepare(&gpu, DType::F32).unwrap(), parts.prepare(&gpu, DType::F32).unwrap());
        let shared = Stream::new(&gpu).unwrap();
        let a = Buffer::from_slice(&gpu, &vec![1.0f32; 64 * 128], &[64, 128]).unwrap();
        let b = Buffer::from_slice(&gpu, &vec![2.0f32; 128 * 64], &[128, 64]).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (a, b, shared, plain, split, gpu) = (&a, &b, &shared, &plain, &split, &gpu);
                scope.spawn(move || {
                    let mut streams: Vec<Stream> = (0..3).map(|_| Stream::new(gpu).unwrap()).collect();
                    streams.push(shared.clone());
                    let mut c: Vec<_> =
                        (0..4).map(|_| Buffer::<f32>::poisoned(gpu, &[64, 64]).unwrap()).collect();
                    for n in 0..launches {
                        let kernel = if (n + thread) % 5 == 0 { split } else { plain };
                        let out = &mut c[n % 3 + n % 2];
                        matmul(a, b, out).prepared(kernel).enqueue(&streams[n % 4]).unwrap();
                        if n % 97 == 0 {
                            assert!(out.to_vec().unwrap().iter().all(|x| *x == 256.0), "{thread} {n}");
                        }
                    }
                    assert!(c.iter().all(|c| c.to_vec().unwrap().iter().all(|x| *x == 256.0)), "{thread}");
                });
            }
        });
    };
    let usage = || {
        gpu.trim().unwrap();
        gpu.memory().unwrap()
    };
    round(20);
    let before = usage();
    round(launches);
    let after = usage();
    assert_eq!((after.in_use, after.reserved), (before.in_use, before.reserved));
    assert!(after.free + (8 << 20) >= before.free, "{before:?}, {after:?}");
}

/// All GPUs, and the first alone.
#[test]
fn every_collective() {
    let Some(first) = gpu() else { return };
    for devices in [vec![first], Device::all().unwrap()] {
        match Communicator::new(&devices).and_then(|all| checks::everything(&all)) {
            Err(Error::NoNccl { why }) => return eprintln!("skipped: {why}"),
            checks => assert!(checks.unwrap() > 300),
        }
    }
}

/// All GPUs, and the first alone.
#[test]
fn collectives_are_in_order_with_launches() {
    let Some(first) = gpu() else { return };
    for devices in [vec![first], Device::all().unwrap()] {
        let all = match Communicator::new(&devices) {
            Err(Error::NoNccl { why }) => {
                eprintln!("skipped: {why}");
                return;
            }
            other => other.unwrap(),
        };
        let count = devices.len();
        let kernels: Vec<_> = devices.iter().map(|d| by_rows.prepare(d, None).unwrap()).collect();
        let compute: Vec<_> = devices.iter().map(|d| Stream::new(d).unwrap()).collect();
        let reduce: Vec<_> = devices.iter().map(|d| Stream::new(d).unwrap()).collect();
        let mut x: Vec<_> = devices.iter().map(|d| Buffer::<f32>::zeros(d, &[512, 1024]).unwrap()).collect();
        let mut expected = 0.0f32;
        for _ in 0..8 {
            for ((x, kernel), stream) in x.iter_mut().zip(&kernels).zip(&compute) {
                increment(x).prepared(kernel).enqueue(stream).unwrap();
            }
            // On other streams, without a wait by the caller.
            let mut each: Vec<_> = x.iter_mut().collect();
            all.all_reduce(&mut each, &reduce).unwrap();
            expected = (expected + 1.0) * count as f32;
        }
        for x in &x {
            assert!(x.to_vec().unwrap().iter().all(|x| *x == expected), "{count} devices");
        }
        let ones = |d| Buffer::from_slice(d, &[bf16::ONE; 1000], &[1000]).unwrap();
        let mut halves: Vec<Buffer<bf16>> = devices.iter().map(ones).collect();
        all.all_reduce(&mut halves.iter_mut().collect::<Vec<_>>(), &compute).unwrap();
        assert!(halves.iter().all(|x| x.to_vec().unwrap() == [bf16::from_f32(count as f32); 1000]));
    }
}

/// Body of the process that the next test starts; does nothing otherwise.
#[test]
fn fault_child() {
    if std::env::var_os("TILEWRIGHT_FAULT").is_none() {
        return;
    }
    let gpu = gpu().unwrap();
    let stream = Stream::new(&gpu).unwrap();
    // SAFETY: it is not; that is what the test is about, and the GPU notices.
    let mut x = unsafe { interop::raw_view_mut::<f32>(&gpu, 1 << 20, &[4, 512]) }.unwrap();
    increment(&mut x).schedule(by_rows).enqueue(&stream).unwrap();
    let error = stream.sync().unwrap_err().to_string();
    assert!(
        error.starts_with(
            "kernel `increment` with schedule `by_rows` (exact) failed on the GPU with CUDA_ERROR_"
        ),
        "{error}"
    );
    assert!(x.to_vec().is_err());
    println!("the fault was named");
}

#[test]
fn an_asynchronous_error_names_the_kernel() {
    let Some(_) = gpu() else { return };
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "fault_child", "--nocapture"])
        .env("TILEWRIGHT_FAULT", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("the fault was named"), "{text}");
}

#[test]
fn a_stream_of_another_device_is_refused() {
    let (Some(gpu), sim) = (gpu(), Device::sim()) else { return };
    let mut x = Buffer::<f32>::zeros(&gpu, &[4, 512]).unwrap();
    let error =
        increment(&mut x).schedule(by_rows).enqueue(&Stream::new(&sim).unwrap()).unwrap_err().to_string();
    let expected = format!(
        "the stream is one of simulator, and the launch is on CUDA device 0 ({}): open a stream on that device",
        gpu.name()
    );
    assert_eq!(error, expected);
}

schedule! {
    tuned = wide<f32> { tile(i = [16, 32], k = [8, 16]); pipeline(k, [2, 3]); }
    row_pieces = by_rows { tile(j = [256, 512, 1024]); }
}

#[test]
fn a_tuner_measures_once_and_then_recalls() {
    let folder = tempfile::tempdir().unwrap();
    let Some(gpu) = gpu().map(|gpu| gpu.with_cache(PtxCache::at(folder.path()))) else { return };
    let a = Buffer::from_slice(&gpu, &vec![1.0f32; 256 * 256], &[256, 256]).unwrap();
    let mut c = Buffer::from_slice(&gpu, &vec![7.0f32; 256 * 256], &[256, 256]).unwrap();
    let tuner = Tuner::new().budget(std::time::Duration::from_millis(300));
    let measured = tuner.tune(matmul(&a, &a, &mut c), tuned).unwrap();
    assert_eq!((measured.origin, measured.ranked.len()), (Origin::Measured, 8), "{measured}");
    assert!(c.to_vec().unwrap().iter().all(|c| *c == 7.0), "what the kernel writes is put back");
    assert!(measured.warnings.is_empty(), "{measured}");
    let recalled = tuner.tune(matmul(&a, &a, &mut c), tuned).unwrap();
    assert_eq!(recalled.origin, Origin::Cache);
    assert_eq!(recalled.best().text(), measured.best().text());
    let warm = tuner.clone().l2(L2::Warm).tune(matmul(&a, &a, &mut c), tuned).unwrap();
    assert_eq!(warm.origin, Origin::Measured, "another question");
    assert_eq!(tuner.fresh().tune(matmul(&a, &a, &mut c), tuned).unwrap().origin, Origin::Measured);
}

#[test]
fn a_tuner_puts_arguments_in_place_back() {
    let Some(gpu) = gpu() else { return };
    let mut x = Buffer::from_slice(&gpu, &numbers(64 * 1000), &[64, 1000]).unwrap();
    let mut part = x.slice_mut(&[0..64, 0..500]).unwrap();
    let tuner = Tuner::new().budget(std::time::Duration::from_millis(100)).fresh();
    for l2 in [L2::Cold, L2::Warm] {
        assert_eq!(tuner.clone().l2(l2).tune(increment(&mut part), row_pieces).unwrap().ranked.len(), 3);
    }
    drop(part);
    assert_eq!(x.to_vec().unwrap(), numbers(64 * 1000));
}

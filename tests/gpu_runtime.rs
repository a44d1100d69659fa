//! Streams, views and borrowed memory on a GPU. Every test is skipped, aloud, on a machine without one.

use tilewright::{
    Communicator, DType, Error, Graph, L2, LaunchReport, Origin, Pinned, PtxCache, Tuner, Variant,
    dlpack::{self, DLDevice},
    interop::{self, cudarc::driver::CudaContext},
    prelude::*,
};

#[path = "../examples/matmul/kernel.rs"]
#[allow(dead_code, reason = "one schedule with tensor maps")]
mod product;

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

/// x + 1, in place.
#[tile_kernel]
fn increment(x: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    store(x, [i, j], load(x, [i, j]) + 1.0);
}

schedule! {
    wide for matmul<f32 | f16> {
        tile(i = 32, j = 64, k = 16);
        split(j -> jt, jv: 4);
        split(i -> it, ir: 4);
        bind(jt -> thread.x, it -> thread.y);
        stage(a, b at k: shared, cp_async, vector(16));
        pipeline(k, 2);
        reorder(k, ir, jv);
        vectorize(jv);
    }
    parts = wide<f32> { split_k(k, 4); }
    added = wide<f32> { split_k(k, 4; atomic); }
}

schedule! {
    by_rows for increment {
        tile(i = 1, j = 512);
        split(j -> jt, jv: 4);
        bind(jt -> thread.x);
        vectorize(jv);
    }
    early on sm_90 = by_rows { launch(dependent); }
    layers_early = product::tma_store { launch(dependent); }
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

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7) % 11) as f32 - 5.0).collect()
}

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

/// A buffer that is dropped goes back to the pool behind the kernels that use it, and the host goes on.
#[test]
fn freed_memory_is_reused_after_its_users() {
    let Some(gpu) = gpu() else { return };
    let product = wide.prepare(&gpu, DType::F32).unwrap();
    let streams: Vec<Stream> = (0..3).map(|_| Stream::new(&gpu).unwrap()).collect();
    let n = 2048;
    let before = gpu.memory().unwrap();
    {
        let b = Buffer::from_slice(&gpu, &vec![1.0f32; n * n], &[n, n]).unwrap();
        let mut all: Vec<_> = (0..8).map(|_| Buffer::<f32>::poisoned(&gpu, &[n, n]).unwrap()).collect();
        for (round, c) in all.iter_mut().enumerate() {
            let a = Buffer::from_slice(&gpu, &vec![round as f32; n * n], &[n, n]).unwrap();
            // Read by two streams, and dropped while both are at it; the next round's takes its place.
            matmul(&a, &b, c).prepared(&product).enqueue(&streams[round % 3]).unwrap();
            let mut other = Buffer::<f32>::poisoned(&gpu, &[n, n]).unwrap();
            matmul(&a, &b, &mut other).prepared(&product).enqueue(&streams[(round + 1) % 3]).unwrap();
        }
        for (round, c) in all.iter().enumerate() {
            assert!(c.to_vec().unwrap().iter().all(|x| *x == (round * n) as f32), "round {round}");
        }
    }
    streams.iter().for_each(|stream| stream.sync().unwrap());
    let pooled = gpu.memory().unwrap();
    assert!(pooled.reserved >= before.reserved + (9 * n * n * 4) as u64, "what is freed is kept: {pooled:?}");
    gpu.trim().unwrap();
    let after = gpu.memory().unwrap();
    assert_eq!(after.in_use, before.in_use);
    assert!(after.reserved < pooled.reserved, "{after:?} {pooled:?}");
    gpu.check_memory(after.available().into()).unwrap();
    gpu.keep(0).unwrap();
    drop(Buffer::<f32>::zeros(&gpu, &[n, n]).unwrap());
    Stream::default_of(&gpu).sync().unwrap();
    gpu.trim().unwrap();
    assert_eq!(gpu.memory().unwrap().in_use, before.in_use);
}

#[test]
fn pinned_copies_follow_kernels_and_are_followed() {
    let Some(gpu) = gpu() else { return };
    let kernel = by_rows.prepare(&gpu, None).unwrap();
    let streams: Vec<Stream> = (0..3).map(|_| Stream::new(&gpu).unwrap()).collect();
    let (rows, columns) = (512, 4096);
    let mut x = Buffer::<f32>::zeros(&gpu, &[rows, columns]).unwrap();
    let mut read = Vec::new();
    for round in 0..12 {
        let data = Pinned::from_slice(&gpu, &vec![round as f32; rows * columns]).unwrap();
        let sent = x.copy_from_pinned(data, &streams[round % 3]).unwrap();
        increment(&mut x).prepared(&kernel).enqueue(&streams[(round + 1) % 3]).unwrap();
        let room = Pinned::zeros(&gpu, rows * columns).unwrap();
        read.push(x.copy_to_pinned(room, &streams[(round + 2) % 3]).unwrap());
        if round % 2 == 0 {
            assert_eq!(sent.wait().unwrap()[0], round as f32);
        }
        // Else it is dropped, which waits.
    }
    for (round, copying) in read.into_iter().enumerate() {
        let data = copying.wait().unwrap();
        assert!(data.iter().all(|x| *x == round as f32 + 1.0), "round {round}");
    }
    let mut part = x.slice_mut(&[3..7, 1..1001]).unwrap();
    let data = Pinned::from_slice(&gpu, &numbers(4000)).unwrap();
    let copying = part.copy_from_pinned(data, &streams[0]).unwrap();
    assert_eq!(part.to_vec().unwrap(), numbers(4000));
    assert!(copying.is_done().unwrap());
}

#[test]
fn memory_of_cudarc_is_used_in_place() {
    let Some(gpu) = gpu() else { return };
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    let mut slice = stream.clone_htod(&numbers(8 * 1024)).unwrap();
    {
        // SAFETY: the view is dropped before the slice is used again.
        let mut x = unsafe { interop::cuda_view_mut(&gpu, &mut slice, &[8, 1024]) }.unwrap();
        increment(&mut x).schedule(by_rows).enqueue(&Stream::new(&gpu).unwrap()).unwrap();
    }
    let expected: Vec<f32> = numbers(8 * 1024).iter().map(|x| x + 1.0).collect();
    assert_eq!(stream.clone_dtoh(&slice).unwrap(), expected);
    {
        // SAFETY: as above.
        let x = unsafe { interop::cuda_view::<f32, _>(&gpu, &slice, &[4, 2048]) }.unwrap();
        assert_eq!(x.to_vec().unwrap(), expected);
        // SAFETY: as above.
        let error = unsafe { interop::cuda_view::<f32, _>(&gpu, &slice, &[9, 1024]) }.unwrap_err();
        assert_eq!(error.to_string(), "8192 elements do not fill a tensor of shape [9, 1024]");
    }
    let mut owned = interop::cuda_buffer(&gpu, slice, &[8, 1024]).unwrap();
    increment(&mut owned).schedule(by_rows).run().unwrap();
    let pointer = owned.device_pointer().unwrap().unwrap();
    // SAFETY: `owned` outlives the view, and is not used meanwhile.
    let again = unsafe { interop::raw_view::<f32>(&gpu, pointer, &[8, 1024]) }.unwrap();
    assert_eq!(again.device_pointer().unwrap(), Some(pointer));
    assert!(again.to_vec().unwrap().iter().zip(&expected).all(|(found, x)| *found == x + 1.0));
    let shape = interop::Shape { extents: &[8, 1000], strides: Some(&[1024, 1]), layout: Layout::RowMajor };
    // SAFETY: as above.
    let part = unsafe { interop::raw_view::<f32>(&gpu, pointer, shape) }.unwrap();
    assert_eq!(part.to_vec().unwrap()[1000], expected[1024] + 1.0);
}

#[test]
fn a_tensor_goes_out_by_dlpack_and_comes_back() {
    let Some(gpu) = gpu() else { return };
    let stream = Stream::new(&gpu).unwrap();
    let before = gpu.memory().unwrap().in_use;
    let mut x = Buffer::from_slice(&gpu, &numbers(8 * 1024), &[8, 1024]).unwrap();
    increment(&mut x).schedule(by_rows).enqueue(&stream).unwrap();
    let pointer = x.device_pointer().unwrap().unwrap();
    let tensor = x.into_dlpack().unwrap();
    // SAFETY: the tensor lives until it is taken.
    let (data, place) = unsafe { (tensor.as_ref().dl_tensor.data as u64, tensor.as_ref().dl_tensor.device) };
    assert_eq!((data, place), (pointer, DLDevice { device_type: dlpack::CUDA, device_id: 0 }));
    // SAFETY: it is taken once, and no one else uses it.
    let mut back: Buffer<f32> = unsafe { dlpack::from_dlpack(&stream, tensor) }.unwrap();
    assert_eq!(back.device_pointer().unwrap(), Some(pointer));
    increment(&mut back).schedule(by_rows).enqueue(&Stream::new(&gpu).unwrap()).unwrap();
    assert!(back.to_vec().unwrap().iter().zip(numbers(8 * 1024)).all(|(found, x)| *found == x + 2.0));
    drop(back);
    gpu.trim().unwrap();
    assert_eq!(gpu.memory().unwrap().in_use, before, "the deleter was called");
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

#[test]
fn a_graph_is_replayed_with_new_pointers_and_sizes() {
    let Some(gpu) = gpu() else { return };
    let (kernel, split) = (by_rows.prepare(&gpu, None).unwrap(), parts.prepare(&gpu, DType::F32).unwrap());
    let streams = [Stream::new(&gpu).unwrap(), Stream::new(&gpu).unwrap()];
    let mut graph = Graph::new(&gpu);
    let a = Buffer::from_slice(&gpu, &vec![1.0f32; 256 * 256], &[256, 256]).unwrap();
    for (round, rows) in [64, 64, 128, 128, 64].into_iter().enumerate() {
        // New ones each time, some freed while the graph runs.
        let mut x = Buffer::<f32>::zeros(&gpu, &[rows, 1000]).unwrap();
        let mut c = Buffer::<f32>::poisoned(&gpu, &[256, 256]).unwrap();
        let kernels = 12;
        let replayed = graph
            .replay(&streams[round % 2], |launches| {
                launches.add(matmul(&a, &a, &mut c).prepared(&split))?;
                for _ in 1..kernels {
                    launches.add(increment(&mut x).prepared(&kernel))?;
                }
                Ok(())
            })
            .unwrap();
        assert_eq!((replayed.launches, replayed.made), (12, round == 0));
        assert!(c.to_vec().unwrap().iter().all(|c| *c == 256.0), "round {round}");
        assert!(x.to_vec().unwrap().iter().all(|x| *x == 11.0), "round {round}");
        // The same again changes nothing; without waiting between.
        for _ in 0..3 {
            let replayed = graph.replay(&streams[round % 2], |launches| {
                launches.add(matmul(&a, &a, &mut c).prepared(&split))?;
                for _ in 1..kernels {
                    launches.add(increment(&mut x).prepared(&kernel))?;
                }
                Ok(())
            });
            assert_eq!(replayed.unwrap().changed, 0);
        }
        assert!(x.to_vec().unwrap().iter().all(|x| *x == 44.0), "round {round}");
    }
    // Another number of launches makes another graph.
    let mut x = Buffer::<f32>::zeros(&gpu, &[64, 1000]).unwrap();
    let replayed =
        graph.replay(&streams[0], |launches| launches.add(increment(&mut x).prepared(&kernel)).map(drop));
    assert!(replayed.unwrap().made);
    drop(graph);
    assert!(x.to_vec().unwrap().iter().all(|x| *x == 1.0));
}

/// `split_k(..; atomic)` clears its result in the graph, whatever buffer it is.
#[test]
fn a_graph_clears_what_is_added_up() {
    let Some(gpu) = gpu() else { return };
    let kernel = added.prepare(&gpu, DType::F32).unwrap();
    let stream = Stream::new(&gpu).unwrap();
    let mut graph = Graph::new(&gpu);
    let a = Buffer::from_slice(&gpu, &vec![1.0f32; 256 * 256], &[256, 256]).unwrap();
    for round in 0..4 {
        let mut c = Buffer::<f32>::poisoned(&gpu, &[256, 256]).unwrap();
        let mut again = Buffer::<f32>::poisoned(&gpu, &[256, 256]).unwrap();
        let replayed = graph.replay(&stream, |launches| {
            launches.add(matmul(&a, &a, &mut c).prepared(&kernel))?;
            launches.add(matmul(&c, &a, &mut again).prepared(&kernel))?;
            launches.add(matmul(&a, &a, &mut c).prepared(&kernel)).map(drop)
        });
        let replayed = replayed.unwrap();
        assert_eq!((replayed.launches, replayed.made), (3, round == 0));
        assert!(c.to_vec().unwrap().iter().all(|c| *c == 256.0), "round {round}");
        assert!(again.to_vec().unwrap().iter().all(|c| *c == 65536.0), "round {round}");
    }
    // A view has gaps, which are cleared run by run: another number of steps, another graph.
    let mut whole = Buffer::<f32>::poisoned(&gpu, &[256, 300]).unwrap();
    let mut c = whole.slice_mut(&[0..256, 4..260]).unwrap();
    let replayed =
        graph.replay(&stream, |launches| launches.add(matmul(&a, &a, &mut c).prepared(&kernel)).map(drop));
    assert!(replayed.unwrap().made);
    assert!(c.to_vec().unwrap().iter().all(|c| *c == 256.0));
    let beside = |(n, x): (usize, &f32)| (4..260).contains(&(n % 300)) || x.is_nan();
    assert!(whole.to_vec().unwrap().iter().enumerate().all(beside));
}

/// Tensors that no tensor map addresses are copied to padded rows, and back, in the graph, whatever buffers they are.
#[test]
fn a_graph_copies_to_padded_rows() {
    let Some(gpu) = gpu().filter(|gpu| gpu.sm() == Some(90)) else {
        eprintln!("skipped: needs a GPU of compute capability 9.0");
        return;
    };
    let (stream, mut graph) = (Stream::new(&gpu).unwrap(), Graph::new(&gpu));
    let kernel = product::tma_store.prepare(&gpu, DType::BF16).unwrap();
    let (m, n, k) = (136, 257, 129);
    let ones = |rows: usize, columns: usize| {
        Buffer::from_slice(&gpu, &vec![bf16::ONE; rows * columns], &[rows, columns]).unwrap()
    };
    for round in 0..4 {
        let (a, b) = (ones(m, k), ones(k, n));
        let mut c = Buffer::<bf16>::poisoned(&gpu, &[m, n]).unwrap();
        for again in 0..2 {
            let replayed = graph.replay(&stream, |launches| {
                launches.add(product::matmul(&a, &b, &mut c).prepared(&kernel)).map(drop)
            });
            let replayed = replayed.unwrap();
            assert!(again == 0 || replayed.changed == 0, "round {round}: {replayed:?}");
            assert_eq!(replayed.made, round + again == 0, "round {round}: {replayed:?}");
        }
        assert!(c.to_vec().unwrap().iter().all(|c| c.to_f32() == 129.0), "round {round}");
    }
}

/// Dependent launches among others, copies and waits for other streams: each sees what was before it.
#[test]
fn dependent_launches_are_in_order() {
    let Some(gpu) = gpu().filter(|gpu| gpu.sm().is_some_and(|sm| sm >= 90)) else {
        eprintln!("skipped: needs a GPU of compute capability 9.0");
        return;
    };
    let (one, plain) = (early.prepare(&gpu, None).unwrap(), by_rows.prepare(&gpu, None).unwrap());
    let (stream, other) = (Stream::new(&gpu).unwrap(), Stream::new(&gpu).unwrap());
    // More CTAs than the GPU holds, and less than it has multiprocessors.
    for rows in [20_000, 64] {
        let mut x = Buffer::<f32>::zeros(&gpu, &[rows, 1024]).unwrap();
        let mut y = Buffer::<f32>::poisoned(&gpu, &[rows, 1024]).unwrap();
        let mut graph = Graph::new(&gpu);
        let mut sum = 0;
        for round in 0..50 {
            for _ in 0..20 {
                increment(&mut x).prepared(&one).enqueue(&stream).unwrap();
            }
            increment(&mut x).prepared(&plain).enqueue(&stream).unwrap();
            increment(&mut x).prepared(&one).enqueue(&stream).unwrap();
            y.copy_from_buffer(&x, &stream).unwrap();
            // On another stream, behind the copy; then back.
            let on = if round % 2 == 0 { &other } else { &stream };
            (0..3).for_each(|_| drop(increment(&mut y).prepared(&one).enqueue(on).unwrap()));
            x.copy_from_buffer(&y, &stream).unwrap();
            graph
                .replay(&stream, |launches| {
                    launches.add(increment(&mut x).prepared(&one))?;
                    launches
                        .add(increment(&mut x).prepared(if round % 3 == 0 { &plain } else { &one }))
                        .map(drop)
                })
                .unwrap();
            sum += 20 + 2 + 3 + 2;
        }
        stream.sync().unwrap();
        let x = x.to_vec().unwrap();
        assert!(x.iter().all(|x| *x == sum as f32), "{rows} rows: {} instead of {sum}", x[0]);
    }
    // By tensor maps, with rows that are copied to padded ones before and back afterwards.
    if gpu.sm() == Some(90) {
        let kernel = layers_early.prepare(&gpu, DType::BF16).unwrap();
        for n in [256, 257] {
            let eye: Vec<bf16> =
                (0..n * n).map(|i| bf16::from_f32(f32::from(u8::from(i / n == i % n)))).collect();
            let turn = Buffer::from_slice(&gpu, &eye, &[n, n]).unwrap();
            let data: Vec<bf16> = (0..n * n).map(|i| bf16::from_f32((i % 251) as f32)).collect();
            let mut here = Buffer::from_slice(&gpu, &data, &[n, n]).unwrap();
            let mut there = Buffer::<bf16>::poisoned(&gpu, &[n, n]).unwrap();
            for _ in 0..100 {
                product::matmul(&here, &turn, &mut there).prepared(&kernel).enqueue(&stream).unwrap();
                product::matmul(&turn, &there, &mut here).prepared(&kernel).enqueue(&stream).unwrap();
            }
            assert!(here.to_vec().unwrap() == data, "{n} columns");
        }
    }
}

#[test]
fn buffers_are_copied_between_devices_in_order() {
    let Some(first) = gpu() else { return };
    let kernel = by_rows.prepare(&first, None).unwrap();
    let stream = Stream::new(&first).unwrap();
    // To itself, to another GPU if there is one, and to the simulator.
    let mut devices = Device::all().unwrap();
    devices.push(Device::sim());
    for device in devices {
        let theirs = Stream::new(&device).unwrap();
        let mut x = Buffer::<f32>::zeros(&first, &[64, 1000]).unwrap();
        let mut y = Buffer::<f32>::poisoned(&device, &[64, 1002]).unwrap();
        for round in 1..=20 {
            increment(&mut x).prepared(&kernel).enqueue(&stream).unwrap();
            let mut part = y.slice_mut(&[0..64, 2..1002]).unwrap();
            part.copy_from_buffer(&x, if round % 2 == 0 { &stream } else { &theirs }).unwrap();
        }
        // Overwritten while the copy may still be at work.
        increment(&mut x).prepared(&kernel).enqueue(&stream).unwrap();
        let y = y.to_vec().unwrap();
        let right = |(n, y): (usize, &f32)| if n % 1002 < 2 { y.is_nan() } else { *y == 20.0 };
        assert!(y.iter().enumerate().all(right), "{}", device.name());
        let mut back = Buffer::<f32>::poisoned(&first, &[64, 1000]).unwrap();
        back.copy_from_buffer(&x, &stream).unwrap();
        assert!(back.to_vec().unwrap().iter().all(|x| *x == 21.0));
    }
}

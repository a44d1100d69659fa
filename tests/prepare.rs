//! Prepared launches and streams, on the simulator.

use tilewright::{DType, Error, Prepared, PtxCache, Stream, Variant, prelude::*};

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

/// x·factor, in place.
#[tile_kernel]
fn scale(factor: f32, x: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(x, [i], factor * load(x, [i]));
}

schedule! {
    tiled for matmul<f32 | f16> {
        tile(i = 16, j = 16, k = 16);
        bind(j -> thread.x, i -> thread.y);
        stage(a, b at k: shared);
    }
    for_hopper on sm_90 = tiled {}
}

schedule! {
    simple for scale { tile(i = 128); bind(i -> thread.x); }
}

fn device() -> Device {
    Device::sim().with_cache(PtxCache::disabled())
}

fn ones(device: &Device, shape: &[usize]) -> Buffer<f32> {
    Buffer::from_slice(device, &vec![1.0; shape.iter().product()], shape).unwrap()
}

#[test]
fn a_prepared_launch_does_what_a_plain_one_does() {
    let device = device();
    let product = tiled.prepare(&device, DType::F32).unwrap();
    for (m, n, k, variant) in
        [(32, 16, 48, Variant::Exact), (33, 17, 20, Variant::Aligned), (1, 1, 0, Variant::Aligned)]
    {
        let (a, b) = (ones(&device, &[m, k]), ones(&device, &[k, n]));
        let mut c = Buffer::poisoned(&device, &[m, n]).unwrap();
        let report = matmul(&a, &b, &mut c).prepared(&product).run().unwrap();
        assert_eq!(report.variant, Some(variant), "{m}×{n}×{k}");
        assert_eq!(c.to_vec().unwrap(), vec![k as f32; m * n]);
        let plain = matmul(&a, &b, &mut c).schedule(tiled).run().unwrap();
        assert_eq!((plain.ptx, plain.assumptions), (report.ptx, report.assumptions));
    }
}

#[test]
fn nothing_to_compute_queues_nothing() {
    let device = device();
    let (product, stream) = (tiled.prepare(&device, DType::F32).unwrap(), Stream::new(&device).unwrap());
    let (a, b) = (ones(&device, &[0, 4]), ones(&device, &[4, 4]));
    let mut c = Buffer::poisoned(&device, &[0, 4]).unwrap();
    let launched = matmul(&a, &b, &mut c).prepared(&product).enqueue(&stream).unwrap();
    assert_eq!((launched.variant, launched.ctas), (None, 0));
    assert!(launched.simulated.is_none());
}

#[test]
fn launches_on_a_stream_are_in_order() {
    let device = device();
    let scaled = simple.prepare(&device, None).unwrap();
    let streams = [Stream::new(&device).unwrap(), Stream::new(&device).unwrap(), Stream::default_of(&device)];
    let start = streams[0].timestamp().unwrap();
    let mut x = ones(&device, &[300]);
    for n in 0..9 {
        let launched = scale(2.0, &mut x).prepared(&scaled).enqueue(&streams[n % 3]).unwrap();
        assert_eq!((launched.variant, launched.ctas), (Some(Variant::Aligned), 3));
        let simulated = launched.simulated.expect("the simulator ran it");
        assert!(simulated.findings.is_empty(), "{:?}", simulated.findings);
    }
    assert_eq!(x.to_vec().unwrap(), [512.0; 300]);
    let event = streams[0].record().unwrap();
    streams[1].wait(&event).unwrap();
    event.sync().unwrap();
    assert!(event.is_done().unwrap());
    assert_eq!(
        streams[0].timestamp().unwrap().ms_since(&start).unwrap(),
        None,
        "the simulator claims no time"
    );
    streams[1].sync().unwrap();
}

#[test]
fn buffers_may_go_while_a_launch_is_queued() {
    let device = device();
    let stream = Stream::new(&device).unwrap();
    let (a, b) = (ones(&device, &[16, 16]), ones(&device, &[16, 16]));
    let mut c = Buffer::poisoned(&device, &[16, 16]).unwrap();
    matmul(&a, &b, &mut c).schedule(tiled).enqueue(&stream).unwrap();
    drop((a, b, stream, device));
    assert_eq!(c.to_vec().unwrap(), [16.0; 256]);
    c.copy_from(&[3.0; 256]).unwrap();
    assert_eq!(c.to_vec().unwrap(), [3.0; 256]);
    assert_eq!(
        c.copy_from(&[3.0; 255]).unwrap_err().to_string(),
        "255 elements do not fill a tensor of shape [16, 16]"
    );
}

#[test]
fn threads_share_buffers_streams_and_kernels() {
    let device = device();
    let product = tiled.prepare(&device, DType::F32).unwrap();
    let shared_stream = Stream::new(&device).unwrap();
    let (a, b) = (ones(&device, &[16, 32]), ones(&device, &[32, 16]));
    std::thread::scope(|scope| {
        for n in 0..8 {
            let (a, b, product, device) = (&a, &b, product.clone(), device.clone());
            let stream = if n % 2 == 0 { shared_stream.clone() } else { Stream::new(&device).unwrap() };
            scope.spawn(move || {
                for _ in 0..5 {
                    let mut c = Buffer::poisoned(&device, &[16, 16]).unwrap();
                    matmul(a, b, &mut c).prepared(&product).enqueue(&stream).unwrap();
                    assert_eq!(c.to_vec().unwrap(), [32.0; 256]);
                }
            });
        }
    });
}

#[test]
fn mistakes_in_prepared_launches_are_said() {
    let (here, there) = (device(), device());
    let product = tiled.prepare(&here, DType::F32).unwrap();
    let half = Buffer::<f16>::zeros(&here, &[4, 4]).unwrap();
    let mut out = Buffer::<f16>::zeros(&here, &[4, 4]).unwrap();
    let error = matmul(&half, &half, &mut out).prepared(&product).run().unwrap_err().to_string();
    assert_eq!(error, "schedule `tiled` was prepared for f32, and the arguments are of f16");

    let a = ones(&there, &[4, 4]);
    let mut c = ones(&there, &[4, 4]);
    let error = matmul(&a, &a, &mut c).prepared(&product).run().unwrap_err();
    assert!(matches!(&error, Error::DeviceMismatch { name, .. } if name == "a"), "{error}");
    let error = matmul(&a, &a, &mut c).prepared(&product).device(&there).run().unwrap_err().to_string();
    assert_eq!(
        error,
        "schedule `tiled` was prepared on another simulator, and the launch is on simulator: prepare it there"
    );
    let stream = Stream::new(&here).unwrap();
    let error = matmul(&a, &a, &mut c).schedule(tiled).enqueue(&stream).unwrap_err().to_string();
    assert_eq!(
        error,
        "the stream is one of another simulator, and the launch is on simulator: open a stream on that device"
    );

    let message = |result: Result<Prepared<matmul>, Error>| result.err().expect("a mistake").to_string();
    assert_eq!(
        message(tiled.prepare(&here, DType::BF16)),
        "schedule `tiled` does not admit bf16; it admits f32, f16"
    );
    assert_eq!(
        message(tiled.prepare(&here, None)),
        "kernel `matmul`: schedule `tiled` needs an element type, one of f32, f16"
    );
    assert_eq!(
        message(Prepared::new(&here, &simple, None)),
        "schedule `simple` is for kernel `scale`, not for `matmul`"
    );
    for_hopper.prepare(&here, DType::F32).unwrap().compile(Variant::Exact).unwrap();
}

#[test]
fn errors_name_shapes_as_before() {
    let device = device();
    let product = tiled.prepare(&device, DType::F32).unwrap();
    let (a, b) = (ones(&device, &[3, 4]), ones(&device, &[5, 6]));
    let mut c = ones(&device, &[3, 6]);
    let error = matmul(&a, &b, &mut c).prepared(&product).run().unwrap_err().to_string();
    assert_eq!(
        error,
        "shapes disagree: `b: [K, N]` has shape [5, 6], where K = 5, but `a: [M, K]` of shape [3, 4] makes K = 4"
    );
    let error =
        matmul(&a, &a, &mut c).prepared(&product).variant(Variant::Exact).run().unwrap_err().to_string();
    assert!(error.contains("`a: [M, K]` of shape [3, 4] makes K = 4"), "{error}");
    let b = ones(&device, &[4, 6]);
    let error =
        matmul(&a, &b, &mut c).prepared(&product).variant(Variant::Exact).run().unwrap_err().to_string();
    assert_eq!(
        error,
        "the exact variant of schedule `tiled` assumes K % 16 == 0, M % 16 == 0, N % 16 == 0, which does not hold here"
    );
    assert_eq!(c.to_vec().unwrap(), [1.0; 18], "nothing was written");
}

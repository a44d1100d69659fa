//! Graphs of launches, on the simulator.

use tilewright::{DType, Error, Graph, PtxCache, Replayed, Stream, prelude::*};

/// x·factor, in place.
#[tile_kernel]
fn scale(factor: f32, x: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(x, [i], factor * load(x, [i]));
}

/// z = x + y.
#[tile_kernel]
fn add<T: Float>(x: &Tensor<T, N>, y: &Tensor<T, N>, z: &mut Tensor<T, N>) {
    let i = program_tile(N);
    store(z, [i], load(x, [i]) + load(y, [i]));
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

schedule! {
    scaled for scale { tile(i = 128); bind(i -> thread.x); }
    added for add<f32> { tile(i = 128); bind(i -> thread.x); }
    summed for total { tile(n = 64); bind(n -> thread.x); reduce(s: cta); split_k(n, 3; atomic); }
}

fn device() -> Device {
    Device::sim().with_cache(PtxCache::disabled())
}

fn filled(device: &Device, value: f32, count: usize) -> Buffer<f32> {
    Buffer::from_slice(device, &vec![value; count], &[count]).unwrap()
}

#[test]
fn a_graph_is_replayed_with_other_buffers() {
    let device = device();
    let (twice, sum) = (scaled.prepare(&device, None).unwrap(), added.prepare(&device, DType::F32).unwrap());
    let stream = Stream::new(&device).unwrap();
    let mut graph = Graph::new(&device);
    for n in [10, 300, 300] {
        let (mut x, y, mut z) =
            (filled(&device, n as f32, n), filled(&device, 1.0, n), filled(&device, 0.0, n));
        let replayed = graph
            .replay(&stream, |launches| {
                launches.add(scale(2.0, &mut x).prepared(&twice))?;
                launches.add(scale(3.0, &mut x).prepared(&twice))?;
                let launched = launches.add(add(&x, &y, &mut z).prepared(&sum))?;
                assert_eq!(launched.ctas, n.div_ceil(128) as u32);
                Ok(())
            })
            .unwrap();
        assert_eq!(replayed.launches, 3);
        assert_eq!(z.to_vec().unwrap(), vec![6.0 * n as f32 + 1.0; n]);
    }
}

#[test]
fn what_is_added_up_is_cleared_in_each_replay() {
    let device = device();
    let (sum, stream) = (summed.prepare(&device, None).unwrap(), Stream::new(&device).unwrap());
    let (x, mut graph) = (filled(&device, 1.0, 500), Graph::new(&device));
    let mut y = filled(&device, 7.0, 1);
    for _ in 0..3 {
        graph.replay(&stream, |launches| launches.add(total(&x, &mut y).prepared(&sum)).map(drop)).unwrap();
        assert_eq!(y.to_vec().unwrap(), [500.0]);
    }
}

#[test]
fn nothing_to_compute_is_no_launch() {
    let device = device();
    let (stream, mut graph) = (Stream::new(&device).unwrap(), Graph::new(&device));
    let mut x = Buffer::<f32>::zeros(&device, &[0]).unwrap();
    let replayed =
        graph.replay(&stream, |launches| launches.add(scale(2.0, &mut x).schedule(scaled)).map(drop));
    assert_eq!(replayed.unwrap(), Replayed { launches: 0, changed: 0, made: false });
}

#[test]
fn buffers_of_a_graph_wait_until_it_is_queued() {
    let device = device();
    let (stream, mut graph) = (Stream::new(&device).unwrap(), Graph::new(&device));
    let mut x = filled(&device, 1.0, 8);
    let recorded =
        "the buffer is used by a launch that a graph is recording: use it after the replay that records it";
    graph
        .replay(&stream, |launches| {
            launches.add(scale(2.0, &mut x).schedule(scaled))?;
            assert_eq!(x.to_vec().unwrap_err().to_string(), recorded);
            assert_eq!(x.copy_from(&[0.0; 8]).unwrap_err().to_string(), recorded);
            let elsewhere = scale(2.0, &mut x).schedule(scaled).enqueue(&stream);
            assert_eq!(elsewhere.unwrap_err().to_string(), recorded);
            // It may go: the graph keeps what it needs.
            let mut gone = filled(&device, 1.0, 8);
            launches.add(scale(2.0, &mut gone).schedule(scaled)).map(drop)
        })
        .unwrap();
    assert_eq!(x.to_vec().unwrap(), [2.0; 8]);
}

#[test]
fn mistakes_end_a_replay() {
    let (device, other) = (device(), device());
    let (stream, mut graph) = (Stream::new(&device).unwrap(), Graph::new(&device));
    let mut x = filled(&device, 1.0, 8);
    let y = filled(&device, 1.0, 9);
    let mut z = filled(&device, 1.0, 8);
    let error = graph
        .replay(&stream, |launches| {
            launches.add(scale(2.0, &mut x).schedule(scaled))?;
            launches.add(add(&x, &y, &mut z).schedule(added)).map(drop)
        })
        .unwrap_err();
    assert!(matches!(error, Error::Shape(_)), "{error}");
    assert!(x.to_vec().is_ok(), "the buffers are free again");
    let theirs = Stream::new(&other).unwrap();
    let error = graph.replay(&theirs, |_| Ok(())).unwrap_err().to_string();
    assert_eq!(
        error,
        "the stream is one of another simulator, and the launch is on simulator: open a stream on that device"
    );
}

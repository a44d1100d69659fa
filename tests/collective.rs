//! Collectives between simulators.

use tilewright::{Communicator, Error, Graph, PtxCache, Replayed, prelude::*};

/// x + 1, in place.
#[tile_kernel]
fn increment(x: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(x, [i], load(x, [i]) + 1.0);
}

schedule! {
    simple for increment { tile(i = 128); bind(i -> thread.x); }
}

fn devices(count: usize) -> (Vec<Device>, Vec<Stream>) {
    let devices: Vec<Device> = (0..count).map(|_| Device::sim().with_cache(PtxCache::disabled())).collect();
    let streams = devices.iter().map(|device| Stream::new(device).unwrap()).collect();
    (devices, streams)
}

fn sums<T: Float>(count: usize) {
    let (devices, streams) = devices(count);
    let all = Communicator::new(&devices).unwrap();
    let value = |rank: usize, n: usize| T::from_f64(((rank * 5 + n * 3) % 17) as f64 - 8.0);
    let data = |rank: usize| (0..15).map(|n| value(rank, n)).collect::<Vec<T>>();
    let mut buffers: Vec<Buffer<T>> = devices
        .iter()
        .enumerate()
        .map(|(rank, device)| Buffer::from_slice(device, &data(rank), &[3, 5]).unwrap())
        .collect();
    let mut each: Vec<&mut Buffer<T>> = buffers.iter_mut().collect();
    all.all_reduce(&mut each, &streams).unwrap();
    let expected: Vec<T> =
        (0..15).map(|n| T::from_f64((0..count).map(|rank| value(rank, n).to_f64()).sum())).collect();
    for buffer in &buffers {
        assert_eq!(buffer.to_vec().unwrap(), expected, "{} of {count}", T::DTYPE);
    }
}

#[test]
fn every_device_gets_the_sum() {
    for count in [1, 2, 5] {
        sums::<f32>(count);
        sums::<f16>(count);
        sums::<bf16>(count);
    }
}

#[test]
fn halves_are_rounded_once() {
    let (devices, streams) = devices(3);
    // 2048 + 1 is no f16, and 2048 + 1 + 1 is.
    let of = |n: usize, x: f32| Buffer::from_slice(&devices[n], &[f16::from_f32(x)], &[1]).unwrap();
    let (mut a, mut b, mut c) = (of(0, 2048.0), of(1, 1.0), of(2, 1.0));
    let all = Communicator::new(&devices).unwrap();
    all.all_reduce(&mut [&mut a, &mut b, &mut c], &streams).unwrap();
    assert_eq!(a.to_vec().unwrap()[0].to_f32(), 2050.0);
}

#[test]
fn collectives_are_in_order_with_launches() {
    let (devices, streams) = devices(2);
    let all = Communicator::new(&devices).unwrap();
    let mut x: Vec<_> = devices.iter().map(|d| Buffer::<f32>::zeros(d, &[200]).unwrap()).collect();
    for _ in 0..3 {
        for (x, stream) in x.iter_mut().zip(&streams) {
            increment(x).schedule(simple).enqueue(stream).unwrap();
        }
        let [a, b] = &mut x[..] else { unreachable!() };
        all.all_reduce(&mut [a, b], &streams).unwrap();
    }
    // ((0 + 1)·2 + 1)·2 + 1, twice.
    assert!(x.iter().all(|x| x.to_vec().unwrap() == [14.0; 200]));
}

#[test]
fn every_device_gets_all_parts() {
    for count in [1, 2, 3] {
        let (devices, streams) = devices(count);
        let all = Communicator::new(&devices).unwrap();
        // Two rows a device; all else is a NaN.
        let value = |n: usize| 10.0 * n as f32 + 1.0;
        let part = |rank: usize| (2 * 5 * rank..2 * 5 * (rank + 1)).map(value).collect::<Vec<_>>();
        let mut buffers: Vec<Buffer<f32>> = devices
            .iter()
            .enumerate()
            .map(|(rank, device)| {
                let mut whole = Buffer::poisoned(device, &[2 * count, 5]).unwrap();
                let rows = 2 * rank..2 * (rank + 1);
                whole.slice_mut(&[rows, 0..5]).unwrap().copy_from(&part(rank)).unwrap();
                whole
            })
            .collect();
        all.all_gather(&mut buffers.iter_mut().collect::<Vec<_>>(), &streams).unwrap();
        let expected: Vec<f32> = (0..2 * 5 * count).map(value).collect();
        assert!(buffers.iter().all(|buffer| buffer.to_vec().unwrap() == expected), "{count}");
    }
    // A view of whole rows.
    let (devices, streams) = devices(2);
    let of = |n: usize, data: [i32; 6]| Buffer::from_slice(&devices[n], &data, &[3, 2]).unwrap();
    let (mut a, mut b) = (of(0, [1, 2, 3, 4, 5, 6]), of(1, [7, 8, 9, 10, 11, 12]));
    let all = Communicator::new(&devices).unwrap();
    let last = [2..3, 0..2];
    all.all_gather(&mut [&mut *a.slice_mut(&last).unwrap(), &mut *b.slice_mut(&last).unwrap()], &streams)
        .unwrap();
    assert_eq!(a.to_vec().unwrap(), [1, 2, 3, 4, 5, 12]);
    assert_eq!(b.to_vec().unwrap(), [7, 8, 9, 10, 5, 12]);
}

#[test]
fn graphs_hold_collectives() {
    let (devices, streams) = devices(3);
    let all = Communicator::new(&devices).unwrap();
    let zeros = || devices.iter().map(|d| Buffer::<f32>::zeros(d, &[300]).unwrap()).collect::<Vec<_>>();
    let (mut x, mut y) = (zeros(), zeros());
    let mut graphs: Vec<Graph> = devices.iter().map(Graph::new).collect();
    for round in 0..4 {
        // Another buffer in the third.
        let x = if round == 2 { &mut y } else { &mut x };
        let replayed = Graph::replay_together(&mut graphs, &streams, |on| {
            for _ in 0..2 {
                for (x, on) in x.iter_mut().zip(on) {
                    on.add(increment(x).schedule(simple))?;
                }
                all.all_reduce(&mut x.iter_mut().collect::<Vec<_>>(), on)?;
            }
            Ok(())
        });
        assert!(replayed.unwrap().iter().all(|replayed| replayed.launches == 2));
    }
    // x → 3·(3·(x + 1) + 1) = 9·x + 12.
    for (x, y) in x.iter().zip(&y) {
        assert_eq!(x.to_vec().unwrap(), [9.0 * (9.0 * 12.0 + 12.0) + 12.0; 300]);
        assert_eq!(y.to_vec().unwrap(), [12.0; 300]);
    }
}

#[test]
fn recorders_of_one_replay_belong_together() {
    let (devices, streams) = devices(2);
    let all = Communicator::new(&devices).unwrap();
    let zeros = |n: usize| Buffer::<f32>::zeros(&devices[n], &[4]).unwrap();
    let (mut a, mut b) = (zeros(0), zeros(1));
    let graphs = || devices.iter().map(Graph::new).collect::<Vec<_>>();
    let text = |result: Result<Vec<Replayed>, Error>| result.unwrap_err().to_string();
    let apart = "a collective: it takes all recorders of one replay, in their order";

    // A communicator of one device in a replay of two.
    let one = Communicator::new(&devices[..1]).unwrap();
    let result =
        Graph::replay_together(&mut graphs(), &streams, |on| one.all_reduce(&mut [&mut a], &on[..1]));
    assert_eq!(text(result), apart);
    // Devices in another order than the graphs.
    let turned = Communicator::new(&[devices[1].clone(), devices[0].clone()]).unwrap();
    let result =
        Graph::replay_together(&mut graphs(), &streams, |on| turned.all_reduce(&mut [&mut b, &mut a], on));
    assert!(text(result).starts_with("the stream is one of another simulator"));
    // A buffer is taken until the replay is queued, and free behind a mistake.
    let taken = Graph::replay_together(&mut graphs(), &streams, |on| {
        all.all_reduce(&mut [&mut a, &mut b], on)?;
        a.to_vec().map(drop)
    });
    assert!(matches!(taken, Err(Error::Recorded)));
    assert!(a.to_vec().is_ok() && b.to_vec().is_ok());
    // Graphs without streams, and no graphs.
    assert_eq!(
        text(Graph::replay_together(&mut graphs(), &streams[..1], |_| Ok(()))),
        "a collective: 2 graphs were given 1 streams"
    );
    assert_eq!(
        text(Graph::replay_together(&mut [], &[], |_| Ok(()))),
        "a collective: 0 graphs were given 0 streams"
    );
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let (devices, streams) = devices(2);
    let text = |result: Result<Communicator, Error>| result.unwrap_err().to_string();
    assert_eq!(text(Communicator::new(&[])), "a collective: there are no devices");
    assert_eq!(
        text(Communicator::new(&[devices[0].clone(), devices[0].clone()])),
        "a collective: simulator is there twice"
    );
    let all = Communicator::new(&devices).unwrap();
    let zeros = |n: usize, shape: &[usize]| Buffer::<f32>::zeros(&devices[n], shape).unwrap();
    let reduce = |buffers: &mut [&mut Buffer<f32>], streams: &[Stream]| {
        all.all_reduce(buffers, streams).unwrap_err().to_string()
    };
    let (mut a, mut b) = (zeros(0, &[4]), zeros(1, &[4]));
    assert_eq!(reduce(&mut [&mut a], &streams), "a collective: 2 devices were given 1 buffers and 2 streams");
    assert_eq!(
        reduce(&mut [&mut a, &mut zeros(1, &[5])], &streams),
        "buffer 0 of a collective is a row-major tensor of shape [4], and buffer 1 is a row-major one of shape [5]"
    );
    assert_eq!(
        reduce(&mut [&mut b, &mut a], &streams),
        "`buffer 0` lives on another simulator, and the launch is on simulator: create the buffer on that device"
    );
    let swapped = [streams[1].clone(), streams[0].clone()];
    assert_eq!(
        reduce(&mut [&mut a, &mut b], &swapped),
        "the stream is one of another simulator, and the launch is on simulator: open a stream on that device"
    );
    let (mut c, mut d) = (zeros(0, &[3, 4]), zeros(1, &[3, 4]));
    let (mut c, mut d) = (c.slice_mut(&[0..3, 0..2]).unwrap(), d.slice_mut(&[0..3, 0..2]).unwrap());
    assert_eq!(
        reduce(&mut [&mut c, &mut d], &streams),
        "a tensor of shape [3, 2] with strides [4, 1] has gaps, and a collective needs one without"
    );
    assert_eq!(
        all.all_gather(&mut [&mut zeros(0, &[3, 5]), &mut zeros(1, &[3, 5])], &streams)
            .unwrap_err()
            .to_string(),
        "a collective: a tensor of shape [3, 5] has no 2 equal parts, one a device"
    );
    let mut graph = Graph::new(&devices[0]);
    let recorded = graph.replay(&streams[0], |launches| {
        launches.add(increment(&mut a).schedule(simple))?;
        all.all_reduce(&mut [&mut a, &mut b], &streams)
    });
    assert!(matches!(recorded, Err(Error::Recorded)));
}

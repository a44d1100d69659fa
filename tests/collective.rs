//! Collectives between simulators.

use tilewright::{Communicator, Error, Graph, PtxCache, prelude::*};

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
    let mut graph = Graph::new(&devices[0]);
    let recorded = graph.replay(&streams[0], |launches| {
        launches.add(increment(&mut a).schedule(simple))?;
        all.all_reduce(&mut [&mut a, &mut b], &streams)
    });
    assert!(matches!(recorded, Err(Error::Recorded)));
}

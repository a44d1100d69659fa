//! "Several GPUs".

// ANCHOR: sum
use tilewright::{Communicator, prelude::*};

/// The sum over devices of what each has, on each of them.
pub fn everywhere(parts: &[Vec<f32>]) -> Result<Vec<Vec<f32>>, tilewright::Error> {
    let devices: Vec<Device> = parts.iter().map(|_| Device::sim()).collect(); // or Device::all()?
    let streams: Vec<Stream> = devices.iter().map(Stream::new).collect::<Result<_, _>>()?;
    let all = Communicator::new(&devices)?;
    let buffer = |(device, part): (&Device, &Vec<f32>)| Buffer::from_slice(device, part, &[part.len()]);
    let mut buffers: Vec<Buffer<f32>> = devices.iter().zip(parts).map(buffer).collect::<Result<_, _>>()?;
    let mut each: Vec<&mut Buffer<f32>> = buffers.iter_mut().collect();
    all.all_reduce(&mut each, &streams)?;
    buffers.iter().map(|buffer| buffer.to_vec()).collect()
}
// ANCHOR_END: sum

#[test]
fn each_has_the_sum() {
    let found = everywhere(&[vec![1.0, 2.0], vec![10.0, 20.0], vec![100.0, 200.0]]).expect("a sum");
    assert_eq!(found, vec![vec![111.0, 222.0]; 3]);
}

// ANCHOR: rank
use std::thread;
use tilewright::{Error, Id};

/// What a process does: the sum of its own part and those of all others. `all` is `Communicator::from_env()?` under torchrun.
pub fn in_a_process(all: &Communicator, part: &[f32]) -> Result<Vec<f32>, Error> {
    let device = &all.devices()[0];
    let mut x = Buffer::from_slice(device, part, &[part.len()])?;
    all.all_reduce(&mut [&mut x], &[Stream::new(device)?])?;
    x.to_vec()
}

/// All of them, a thread each.
pub fn in_threads(parts: &[Vec<f32>]) -> Result<Vec<Vec<f32>>, Error> {
    let id = Id::new("127.0.0.1:0")?;
    let one = &|rank: usize| {
        in_a_process(&Communicator::from_id(&id, rank, parts.len(), &Device::sim())?, &parts[rank])
    };
    thread::scope(|scope| {
        let ranks: Vec<_> = (0..parts.len()).map(|rank| scope.spawn(move || one(rank))).collect();
        ranks.into_iter().map(|rank| rank.join().expect("a rank that ends")).collect()
    })
}
// ANCHOR_END: rank

#[test]
fn each_process_has_the_sum() {
    let parts = [vec![1.0, 2.0], vec![10.0, 20.0], vec![100.0, 200.0]];
    assert_eq!(in_threads(&parts).expect("sums"), vec![vec![111.0, 222.0]; 3]);
}

// ANCHOR: solution
/// A·B on two devices: each has half of the columns of A and half of the rows of B.
pub fn split_by_k([m, n, k]: [usize; 3], a: &[f32], b: &[f32]) -> Result<Vec<f32>, tilewright::Error> {
    let devices = [Device::sim(), Device::sim()];
    let streams: Vec<Stream> = devices.iter().map(Stream::new).collect::<Result<_, _>>()?;
    let mut parts = Vec::new();
    for (rank, device) in devices.iter().enumerate() {
        let half = k / 2;
        let columns: Vec<f32> = a.chunks(k).flat_map(|row| &row[rank * half..][..half]).copied().collect();
        let rows = &b[rank * half * n..][..half * n];
        let a = Buffer::from_slice(device, &columns, &[m, half])?;
        let b = Buffer::from_slice(device, rows, &[half, n])?;
        let mut c = Buffer::poisoned(device, &[m, n])?;
        crate::matmul::matmul(&a, &b, &mut c).schedule(crate::matmul::shared).enqueue(&streams[rank])?;
        parts.push(c);
    }
    let mut each: Vec<&mut Buffer<f32>> = parts.iter_mut().collect();
    Communicator::new(&devices)?.all_reduce(&mut each, &streams)?;
    parts[1].to_vec()
}
// ANCHOR_END: solution

#[test]
fn halves_of_k() {
    let size = [40, 50, 60];
    let a: Vec<f32> = (0..40 * 60).map(super::value).collect();
    let b: Vec<f32> = (0..60 * 50).map(super::value).collect();
    assert_eq!(split_by_k(size, &a, &b).expect("a product"), super::product(size));
}

//! "Your first kernel".

// ANCHOR: kernel
use tilewright::prelude::*;

/// z = x + t·(y − x), element by element.
#[tile_kernel]
pub fn blend(t: f32, x: &Tensor<f32, N>, y: &Tensor<f32, N>, z: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    let a = load(x, [i]);
    store(z, [i], a + t * (load(y, [i]) - a));
}
// ANCHOR_END: kernel

// ANCHOR: schedules
schedule! {
    /// A CTA has 128 elements, a thread has one.
    pub one_each for blend {
        tile(i = 128);
        bind(i -> thread.x);
    }
    /// A thread has four elements side by side, and moves them as 16 bytes.
    pub four_each for blend {
        tile(i = 512);
        split(i -> it, iv: 4);
        bind(it -> thread.x);
        vectorize(iv);
    }
}
// ANCHOR_END: schedules

// ANCHOR: run
pub fn run() -> Result<Vec<f32>, tilewright::Error> {
    let device = Device::sim(); // Device::auto()? takes a GPU if there is one
    let x = Buffer::from_slice(&device, &[1.0; 1000], &[1000])?;
    let y = Buffer::from_slice(&device, &[3.0; 1000], &[1000])?;
    let mut z = Buffer::poisoned(&device, &[1000])?;

    let report = blend(0.25, &x, &y, &mut z).schedule(one_each).run()?;

    assert_eq!((report.ctas, report.threads), (8, 128));
    assert!(report.findings.is_empty());
    z.to_vec()
}
// ANCHOR_END: run

// ANCHOR: main
fn main() {
    println!("{}", run().unwrap()[0]);
}
// ANCHOR_END: main

#[test]
fn it_blends() {
    main();
    assert_eq!(run().expect("a launch"), [1.5; 1000]);
}

// ANCHOR: counts
#[test]
fn wide_accesses_are_fewer() {
    let device = Device::sim();
    let x = Buffer::from_slice(&device, &[1.0; 1024], &[1024]).unwrap();
    let y = Buffer::from_slice(&device, &[3.0; 1024], &[1024]).unwrap();
    let mut z = Buffer::poisoned(&device, &[1024]).unwrap();
    let mut counts = Vec::new();
    for schedule in schedules![one_each, four_each] {
        let report = blend(0.5, &x, &y, &mut z).schedule_dyn(*schedule).run().unwrap();
        assert_eq!(z.to_vec().unwrap(), [2.0; 1024]);
        let loads = report.counters.unwrap().global_load;
        counts.push((loads.requests, loads.sectors));
    }
    // (requests, sectors): a fourth of the requests, the same sectors.
    assert_eq!(counts, [(64, 256), (16, 256)]);
}
// ANCHOR_END: counts

// ANCHOR: solution
/// y = max(x + bias, 0): a bias for each column.
#[tile_kernel]
pub fn bias_relu(x: &Tensor<f32, R, C>, bias: &Tensor<f32, C>, y: &mut Tensor<f32, R, C>) {
    let (r, c) = program_tile(R, C);
    store(y, [r, c], max(load(x, [r, c]) + load(bias, [c]), 0.0));
}

schedule! {
    /// Neighbouring lanes take neighbouring columns.
    pub rows_of_lanes for bias_relu {
        tile(r = 8, c = 32);
        bind(c -> thread.x, r -> thread.y);
    }
}
// ANCHOR_END: solution

#[test]
fn bias_and_relu() {
    let (rows, columns) = (10, 50);
    let device = Device::sim();
    let host: Vec<f32> = (0..rows * columns).map(super::value).collect();
    let added: Vec<f32> = (0..columns).map(|c| super::value(3 * c)).collect();
    let x = Buffer::from_slice(&device, &host, &[rows, columns]).expect("x");
    let bias = Buffer::from_slice(&device, &added, &[columns]).expect("bias");
    let mut y = Buffer::poisoned(&device, &[rows, columns]).expect("y");
    let report = bias_relu(&x, &bias, &mut y).schedule(rows_of_lanes).run().expect("a launch");
    let expected: Vec<f32> =
        host.iter().enumerate().map(|(n, x)| (x + added[n % columns]).max(0.0)).collect();
    assert_eq!(y.to_vec().expect("y"), expected);
    assert!(report.findings.is_empty());
}

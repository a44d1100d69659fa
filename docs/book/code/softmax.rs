//! "Reductions and softmax".

use crate::softmax::{long, short};
use tilewright::prelude::*;

// ANCHOR: solution
/// y = log of the sum of the exponentials of each row.
#[tile_kernel]
pub fn log_sum_exp(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R>) {
    let r = program_tile(R);
    let n = whole(N);
    let v = load(x, [r, n]);
    let m = max(v, n);
    let s = sum(exp(v - m), n);
    store(y, [r], log(s) + m);
}

schedule! {
    /// A row a warp; both reductions are combined by shuffles.
    pub lanes for log_sum_exp {
        fits(N <= 1024);
        tile(r = 4);
        split(n -> no, nl: 32);
        reduce(m, s: lane);
        bind(r -> warp.x, nl -> lane.x);
    }
}
// ANCHOR_END: solution

#[test]
fn sums_of_exponentials() {
    let (rows, length) = (5, 300);
    let device = Device::sim();
    let host: Vec<f32> = (0..rows * length).map(|n| super::value(n) * 0.5).collect();
    let x = Buffer::from_slice(&device, &host, &[rows, length]).expect("x");
    let mut y = Buffer::poisoned(&device, &[rows]).expect("y");
    let report = log_sum_exp(&x, &mut y).schedule(lanes).run().expect("a launch");
    let expected: Vec<f32> =
        host.chunks(length).map(|row| row.iter().map(|x| x.exp()).sum::<f32>().ln()).collect();
    super::assert_close(&y.to_vec().expect("y"), &expected, 1e-5);
    assert!(report.findings.is_empty());
}

#[test]
fn rows_sum_to_one() {
    let device = Device::sim();
    let host: Vec<f32> = (0..4 * 200).map(super::value).collect();
    let x = Buffer::from_slice(&device, &host, &[4, 200]).expect("x");
    let mut y = Buffer::poisoned(&device, &[4, 200]).expect("y");
    for schedule in schedules![short, long] {
        crate::softmax::softmax(&x, &mut y).schedule_dyn(*schedule).run().expect("a launch");
        for row in y.to_vec().expect("y").chunks(200) {
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5);
        }
    }
}

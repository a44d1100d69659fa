//! The code of the book, a module a chapter. Each is what its page shows, and a test that runs it on the simulator.

mod convolution;
mod devices;
mod first_choice;
mod first_kernel;
mod first_schedule;
mod hopper;
mod indices;
mod ladder;
mod lengths;
mod limits;
mod model;
mod refusals;
mod shipping;
mod simulator;
mod softmax;
mod tensor_cores;
mod tuning;

use half::bf16;
use tilewright::{AnySchedule, Buffer, Device, LaunchReport};

/// Small whole numbers, so that sums are exact in any order: the `n`-th of a tensor.
fn value(n: usize) -> f32 {
    (n * 7 % 11) as f32 - 5.0
}

/// Whether two lists agree up to a relative error.
#[track_caller]
fn assert_close(found: &[f32], expected: &[f32], relative: f32) {
    assert_eq!(found.len(), expected.len());
    for (n, (x, y)) in found.iter().zip(expected).enumerate() {
        assert!((x - y).abs() <= relative * y.abs().max(1.0), "at {n}: {x}, not {y}");
    }
}

/// Compares a text with what is recorded beside this file, or records it.
#[track_caller]
fn assert_recorded(name: &str, text: &str) {
    let recorded = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/book/code").join(name);
    if std::env::var_os("TILEWRIGHT_BLESS").is_some() {
        std::fs::write(&recorded, text).expect("the checkout is writable");
    }
    assert_eq!(text, std::fs::read_to_string(&recorded).unwrap_or_default(), "{name}");
}

/// A·B of small whole numbers, row by row, by three loops.
fn product([m, n, k]: [usize; 3]) -> Vec<f32> {
    let element = |i: usize, j: usize| (0..k).map(|p| value(i * k + p) * value(p * n + j)).sum();
    (0..m * n).map(|at| element(at / n, at % n)).collect()
}

/// Runs a schedule of the matrix product in f32 on the simulator, and compares the result with three loops.
fn multiply(schedule: &'static dyn AnySchedule, size: [usize; 3]) -> LaunchReport {
    let [m, n, k] = size;
    let device = Device::sim();
    let of = |len: usize| (0..len).map(value).collect::<Vec<f32>>();
    let a = Buffer::from_slice(&device, &of(m * k), &[m, k]).expect("A");
    let b = Buffer::from_slice(&device, &of(k * n), &[k, n]).expect("B");
    let mut c = Buffer::<f32>::poisoned(&device, &[m, n]).expect("C");
    let report = crate::matmul::matmul(&a, &b, &mut c).schedule_dyn(schedule).run().expect("a launch");
    assert_eq!(c.to_vec().expect("C"), product(size), "{}", schedule.name());
    assert!(report.findings.is_empty(), "{}: {:?}", schedule.name(), report.findings);
    report
}

/// The same in bf16, which holds these factors exactly and rounds the sums.
fn multiply_bf16(schedule: &'static dyn AnySchedule, size: [usize; 3]) -> LaunchReport {
    let [m, n, k] = size;
    let device = Device::sim();
    let of = |len: usize| (0..len).map(|n| bf16::from_f32(value(n))).collect::<Vec<bf16>>();
    let a = Buffer::from_slice(&device, &of(m * k), &[m, k]).expect("A");
    let b = Buffer::from_slice(&device, &of(k * n), &[k, n]).expect("B");
    let mut c = Buffer::<bf16>::poisoned(&device, &[m, n]).expect("C");
    let report = crate::matmul::matmul(&a, &b, &mut c).schedule_dyn(schedule).run().expect("a launch");
    let expected: Vec<bf16> = product(size).into_iter().map(bf16::from_f32).collect();
    assert_eq!(c.to_vec().expect("C"), expected, "{}", schedule.name());
    assert!(report.findings.is_empty(), "{}: {:?}", schedule.name(), report.findings);
    report
}

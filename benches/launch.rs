//! What the host does for a launch before the driver is called: checks, variant, parameters.
//!
//! `plain` looks the schedule up each time, `prepared` does not; neither runs the kernel. What the driver takes comes on
//! top: `cargo run --release --example latency` measures both on a GPU.
#![allow(missing_docs, reason = "criterion_group makes an undocumented function")]

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use tilewright::{DType, prelude::*};

#[path = "../examples/matmul/kernel.rs"]
#[allow(missing_docs, dead_code, reason = "an example's")]
mod kernel;

use kernel::matmul;

fn launch(c: &mut Criterion) {
    let device = Device::sim();
    let square = |n: usize| Buffer::<f32>::zeros(&device, &[n, n]).expect("small");
    let mut group = c.benchmark_group("launch");
    for schedule in kernel::SCHEDULES.iter().filter(|s| ["naive", "best"].contains(&s.name())) {
        for n in [256, 252, 251] {
            let (a, b, mut out) = (square(n), square(n), square(n));
            let prepared = tilewright::Prepared::new(&device, *schedule, DType::F32).expect("admitted");
            group.bench_function(format!("{} {n} plain", schedule.name()), |bench| {
                bench.iter(|| {
                    black_box(matmul(&a, &b, &mut out).schedule_dyn(*schedule).host_part()).expect("fits")
                });
            });
            group.bench_function(format!("{} {n} prepared", schedule.name()), |bench| {
                bench.iter(|| {
                    black_box(matmul(&a, &b, &mut out).prepared(&prepared).host_part()).expect("fits")
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, launch);
criterion_main!(benches);

//! A linear layer with bias and ReLU in one kernel: `cargo run --example linear -- --schedule all`.

#[path = "../common/mod.rs"]
mod common;
mod kernel;
#[path = "../matmul/verify.rs"]
mod verify;

use clap::Parser;
use common::{
    data::normal,
    example::{Setup, run_example},
    report::{Record, measure},
};
use kernel::{SCHEDULES, linear};
use std::process::ExitCode;
use tilewright::{Buffer, Element};
use verify::Product;

/// Computes relu(x·w + bias) of random matrices under one schedule or all, and verifies the result.
#[derive(Parser)]
#[command(name = "linear", version)]
struct Options {
    /// Rows of the input [default: 4096 on a GPU, 256 on the simulator]
    #[arg(long)]
    batch: Option<usize>,
    /// Width of the input and of the output [default: 4096 on a GPU, 256 on the simulator]
    #[arg(long)]
    width: Option<usize>,
    #[command(flatten)]
    setup: Setup,
}

fn main() -> ExitCode {
    run_example::<Options>(
        SCHEDULES,
        "warptile",
        Some(f32::DTYPE),
        |o| &o.setup,
        |o, device, schedule| {
            let default = if device.is_gpu() { 4096 } else { 256 };
            let (m, n) = (o.batch.unwrap_or(default), o.width.unwrap_or(default));
            let k = n;
            let (a, b) = (normal::<f32>(o.setup.seed, 0, m * k), normal::<f32>(o.setup.seed, 1, k * n));
            let bias = normal::<f32>(o.setup.seed, 2, n);
            let mut c = Buffer::<f32>::poisoned(device, &[m, n])?;
            let x = Buffer::from_slice(device, &a, &[m, k])?;
            let w = Buffer::from_slice(device, &b, &[k, n])?;
            let added = Buffer::from_slice(device, &bias, &[n])?;
            let launch =
                measure(device, || linear(&x, &w, &added, &mut c).schedule_dyn(schedule).timed().run())?;
            let c = c.to_vec()?;
            let epilogue =
                |j: usize, sum: f64| ((sum + f64::from(bias[j])).max(0.0), f64::from(bias[j].abs()));
            let product = Product { m, n, k, a: &a, b: &b, c: &c, epilogue: Some(&epilogue) };
            Ok(Record {
                schedule: schedule.name(),
                dtype: "f32",
                sizes: vec![("m", m), ("n", n), ("k", k)],
                flops: 2.0 * m as f64 * n as f64 * k as f64,
                verdict: product.verify(),
                launch,
                criterion: product.criterion(),
            })
        },
    )
}

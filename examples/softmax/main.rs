//! Row-wise softmax of short and long rows: `cargo run --example softmax -- --schedule all`.

#[path = "../common/mod.rs"]
mod common;
mod kernel;

use clap::Parser;
use common::{
    data::normal,
    example::{Setup, run_example},
};
use kernel::{SCHEDULES, softmax};
use std::process::ExitCode;
use tile_bench::record::{Record, judge, measure};
use tilewright::Buffer;

/// Takes the softmax of each row of a random matrix under one schedule or all, and verifies the result.
#[derive(Parser)]
#[command(name = "softmax", version)]
struct Options {
    /// Number of rows [default: 65536 on a GPU, 64 on the simulator]
    #[arg(long)]
    rows: Option<usize>,
    /// Length of a row; the schedule `short` takes up to 1024
    #[arg(long, default_value_t = 1000)]
    length: usize,
    #[command(flatten)]
    setup: Setup,
}

fn main() -> ExitCode {
    run_example::<Options>(
        SCHEDULES,
        "long",
        None,
        |o| &o.setup,
        |o| vec![("R", o.rows.unwrap_or(1 << 16)), ("N", o.length)],
        |o, device, schedule| {
            let (rows, n) = (o.rows.unwrap_or(if device.is_gpu() { 1 << 16 } else { 64 }), o.length);
            let x = normal::<f32>(o.setup.seed, 0, rows * n);
            let mut y = Buffer::<f32>::poisoned(device, &[rows, n])?;
            let input = Buffer::from_slice(device, &x, &[rows, n])?;
            let launch = measure(device, || softmax(&input, &mut y).schedule_dyn(schedule).timed().run())?;
            let y = y.to_vec()?;
            let checks = x.chunks(n.max(1)).zip(y.chunks(n.max(1))).flat_map(|(x, y)| {
                let top = x.iter().fold(f64::NEG_INFINITY, |m, &x| m.max(x.into()));
                let e: Vec<f64> = x.iter().map(|&x| (f64::from(x) - top).exp()).collect();
                let sum: f64 = e.iter().sum();
                // exp and its argument, the sum of n positive terms, the division: relative errors add up.
                let relative = (n as f64).sqrt().mul_add(4.0, 16.0) * 2f64.powi(-24);
                let bound = move |r: f64, x: f64| r * relative * (1.0 + x.abs()) + 2f64.powi(-126);
                let rows: Vec<_> = e
                    .iter()
                    .zip(x)
                    .zip(y)
                    .map(|((e, &x), &y)| (y.into(), e / sum, bound(e / sum, f64::from(x) - top)))
                    .collect();
                rows
            });
            Ok(Record {
                schedule: schedule.name(),
                dtype: "f32",
                sizes: vec![("rows", rows), ("n", n)],
                flops: 5.0 * rows as f64 * n as f64,
                verdict: judge(checks),
                launch,
                criterion: "|y − ref| ≤ (16 + 4√N)·u·(1 + |x − max|)·ref, u = 2⁻²⁴".into(),
            })
        },
    )
}

//! A 3-point average with and without a staged support region: `cargo run --example conv1d -- --schedule all`.

#[path = "../common/mod.rs"]
mod common;
mod kernel;

use clap::Parser;
use common::{
    data::normal,
    example::{Setup, run_example},
};
use kernel::{SCHEDULES, conv1d};
use std::process::ExitCode;
use tile_bench::record::{Record, judge, measure};
use tilewright::Buffer;

/// Averages three neighbours of a random signal under one schedule or all, and verifies the result.
#[derive(Parser)]
#[command(name = "conv1d", version)]
struct Options {
    /// Number of outputs; the input has two more [default: 67108864 on a GPU, 100000 on the simulator]
    #[arg(long)]
    length: Option<usize>,
    #[command(flatten)]
    setup: Setup,
}

fn main() -> ExitCode {
    run_example::<Options>(
        SCHEDULES,
        "staged",
        None,
        |o| &o.setup,
        |o| vec![("N", o.length.unwrap_or(1 << 26))],
        |o, device, schedule| {
            let n = o.length.unwrap_or(if device.is_gpu() { 1 << 26 } else { 100_000 });
            let x = normal::<f32>(o.setup.seed, 0, n + 2);
            let mut y = Buffer::<f32>::poisoned(device, &[n])?;
            let signal = Buffer::from_slice(device, &x, &[n + 2])?;
            let launch = measure(device, || conv1d(&signal, &mut y).schedule_dyn(schedule).timed().run())?;
            let checks = y.to_vec()?.into_iter().zip(x.windows(3)).map(|(y, w)| {
                let sum: f64 = w.iter().map(|&x| f64::from(x)).sum();
                let magnitude: f64 = w.iter().map(|&x| f64::from(x.abs())).sum();
                // Two additions and a division, each rounded once.
                (y.into(), sum / 3.0, 3.0 * 2f64.powi(-24) * magnitude / 3.0 + 2f64.powi(-149))
            });
            Ok(Record {
                schedule: schedule.name(),
                dtype: "f32",
                sizes: vec![("n", n)],
                flops: 3.0 * n as f64,
                verdict: judge(checks),
                launch,
                criterion: "|y − ref| ≤ 3·u·Σ|x|/3, u = 2⁻²⁴".into(),
            })
        },
    )
}

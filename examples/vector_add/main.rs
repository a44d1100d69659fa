//! z = x + y: `cargo run --example vector_add -- --schedule all`.

#[path = "../common/mod.rs"]
mod common;
mod kernel;

use clap::Parser;
use common::{
    data::normal,
    example::{Setup, run_example},
};
use kernel::{SCHEDULES, vector_add};
use std::process::ExitCode;
use tile_bench::record::{Record, judge, measure};
use tilewright::{Buffer, Element};

/// Adds two random vectors under one schedule or all, and verifies the sum.
#[derive(Parser)]
#[command(name = "vector_add", version)]
struct Options {
    /// Length of the vectors [default: 67108864 on a GPU, 100000 on the simulator]
    #[arg(long)]
    length: Option<usize>,
    #[command(flatten)]
    setup: Setup,
}

fn main() -> ExitCode {
    run_example::<Options>(
        SCHEDULES,
        "vectorized",
        Some(f32::DTYPE),
        |o| &o.setup,
        |o| vec![("N", o.length.unwrap_or(1 << 26))],
        |o, device, schedule| {
            let n = o.length.unwrap_or(if device.is_gpu() { 1 << 26 } else { 100_000 });
            let (x, y) = (normal::<f32>(o.setup.seed, 0, n), normal::<f32>(o.setup.seed, 1, n));
            let mut z = Buffer::<f32>::poisoned(device, &[n])?;
            let (a, b) = (Buffer::from_slice(device, &x, &[n])?, Buffer::from_slice(device, &y, &[n])?);
            let launch = measure(device, || vector_add(&a, &b, &mut z).schedule_dyn(schedule).timed().run())?;
            // One correctly rounded operation: the sum in f32 is the only right answer.
            let checks = z
                .to_vec()?
                .into_iter()
                .zip(x.iter().zip(&y))
                .map(|(z, (x, y))| (z.into(), (x + y).into(), 0.0));
            Ok(Record {
                schedule: schedule.name(),
                dtype: "f32",
                sizes: vec![("n", n)],
                flops: n as f64,
                verdict: judge(checks),
                launch,
                criterion: "equal to the f32 sum".into(),
            })
        },
    )
}

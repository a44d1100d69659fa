//! How often each number occurs: `cargo run --example histogram -- --schedule all`.

#[path = "../common/mod.rs"]
mod common;
mod kernel;

use clap::Parser;
use common::{
    data::uniform,
    example::{Setup, run_example},
};
use kernel::{SCHEDULES, histogram};
use std::process::ExitCode;
use tile_bench::record::{Record, judge, measure};
use tilewright::Buffer;

/// Counts random numbers under one schedule or all, and verifies the counts.
#[derive(Parser)]
#[command(name = "histogram", version)]
struct Options {
    /// How many numbers [default: 67108864 on a GPU, 100000 on the simulator]
    #[arg(long)]
    length: Option<usize>,
    /// How many different numbers are counted; one more occurs, and so does -1
    #[arg(long, default_value_t = 256)]
    bins: usize,
    #[command(flatten)]
    setup: Setup,
}

fn main() -> ExitCode {
    run_example::<Options>(
        SCHEDULES,
        "shared",
        None,
        |o| &o.setup,
        |o| vec![("N", o.length.unwrap_or(1 << 26)), ("B", o.bins)],
        |o, device, schedule| {
            let n = o.length.unwrap_or(if device.is_gpu() { 1 << 26 } else { 100_000 });
            let last = i32::try_from(o.bins).unwrap_or(i32::MAX);
            let numbers = uniform(o.setup.seed, 0, n, -1..=last);
            let x = Buffer::from_slice(device, &numbers, &[n])?;
            // What is there counts, too.
            let before = uniform(o.setup.seed, 1, o.bins, -100..=100);
            let mut h = Buffer::from_slice(device, &before, &[o.bins])?;
            histogram(&x, &mut h).schedule_dyn(schedule).run()?;
            let found = h.to_vec()?;
            let launch = measure(device, || histogram(&x, &mut h).schedule_dyn(schedule).timed().run())?;
            let mut expected = before;
            for number in numbers {
                if let Some(count) = usize::try_from(number).ok().and_then(|at| expected.get_mut(at)) {
                    *count += 1;
                }
            }
            let checks =
                found.into_iter().zip(expected).map(|(found, count)| (found.into(), count.into(), 0.0));
            Ok(Record {
                schedule: schedule.name(),
                dtype: "i32",
                sizes: vec![("n", n), ("bins", o.bins)],
                flops: 0.0,
                verdict: judge(checks),
                launch,
                criterion: "equal to the counts".into(),
            })
        },
    )
}

//! Cross-entropy with labels: `cargo run --example loss -- --dtype bf16 --schedule all`.

#[path = "../common/mod.rs"]
mod common;
mod kernel;

use clap::Parser;
use common::{
    data::{normal, uniform},
    example::{Dims, Generic, Typed, run_generic},
    run::run_all,
};
use kernel::{SCHEDULES, cross_entropy, cross_entropy_online};
use std::process::ExitCode;
use tile_bench::record::{Record, judge, measure};
use tilewright::{AnySchedule, Buffer, Device, Error, Float};

/// The loss of each row of a random matrix under one schedule or all, verified against f64.
#[derive(Parser, Clone)]
#[command(name = "loss", version)]
struct Options {
    /// Number of rows [default: 8192 on a GPU, 8 on the simulator]
    #[arg(long)]
    rows: Option<usize>,
    /// Length of a row [default: 131072 on a GPU, 5000 on the simulator]
    #[arg(long)]
    length: Option<usize>,
    #[command(flatten)]
    typed: Typed,
}

impl Options {
    fn sizes(&self, gpu: bool) -> [usize; 2] {
        let [s, v] = if gpu { [1 << 13, 1 << 17] } else { [8, 5000] };
        [self.rows.unwrap_or(s), self.length.unwrap_or(v)]
    }
}

impl Generic for Options {
    fn typed(&self) -> &Typed {
        &self.typed
    }

    fn dims(&self, gpu: bool) -> Dims {
        let [s, v] = self.sizes(gpu);
        vec![("S", s), ("V", v)]
    }

    fn run<T: Float>(&self, device: &Device, schedules: &[&'static dyn AnySchedule]) -> Result<bool, Error> {
        let [s, v] = self.sizes(device.is_gpu());
        let setup = &self.typed.setup;
        let x = normal::<T>(setup.seed, 0, s * v);
        let mut labels = uniform(setup.seed, 1, s, 0..=i32::try_from(v).unwrap_or(i32::MAX) - 1);
        labels.iter_mut().step_by(7).for_each(|label| *label = -100);
        let input = Buffer::from_slice(device, &x, &[s, v])?;
        let label = Buffer::from_slice(device, &labels, &[s])?;
        let loss = |(row, label): (&[T], &i32)| {
            let Ok(hit) = usize::try_from(*label) else { return (0.0, 0.0) };
            let row: Vec<f64> = row.iter().map(|x| x.to_f64()).collect();
            let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = row.iter().map(|x| (x - top).exp()).sum();
            (top + sum.ln() - row[hit], top.abs() + sum.ln().abs() + row[hit].abs() + 1.0)
        };
        let expected: Vec<(f64, f64)> = x.chunks(v.max(1)).zip(&labels).map(loss).collect();
        Ok(run_all(setup, schedules, |schedule| {
            let mut y = Buffer::<f32>::poisoned(device, &[s])?;
            let twice = schedule.kernel() == "cross_entropy";
            let launch = measure(device, || match twice {
                true => cross_entropy(&input, &label, &mut y).schedule_dyn(schedule).timed().run(),
                false => cross_entropy_online(&input, &label, &mut y).schedule_dyn(schedule).timed().run(),
            })?;
            let found = y.to_vec()?;
            // The sum of v positive terms, exp and log, two differences.
            let relative = (v as f64).sqrt().mul_add(4.0, 32.0) * 2f64.powi(-24);
            let checks =
                found.iter().zip(&expected).map(|(y, (r, size))| (f64::from(*y), *r, relative * size));
            Ok(Record {
                schedule: schedule.name(),
                dtype: T::DTYPE.name(),
                sizes: vec![("rows", s), ("length", v)],
                flops: 4.0 * s as f64 * v as f64,
                verdict: judge(checks),
                launch,
                criterion: "|y − ref| ≤ (32 + 4√V)·u·(|max| + |log sum| + |hit| + 1), u = 2⁻²⁴".into(),
            })
        }))
    }
}

fn main() -> ExitCode {
    run_generic::<Options>(SCHEDULES, "one_pass")
}

//! The gradient of an embedding: `cargo run --example embedding_gradient -- --dtype f16 --schedule all`.

#[path = "../common/mod.rs"]
mod common;
mod kernel;

use clap::Parser;
use common::{
    data::{normal, uniform},
    example::{Dims, Generic, Typed, run_generic},
    run::run_all,
};
use kernel::{SCHEDULES, embed_gradient};
use std::process::ExitCode;
use tile_bench::record::{Record, judge, measure};
use tilewright::{AnySchedule, Buffer, Device, Error, Float};

/// Adds random rows to random rows of a table under one schedule or all, and verifies the sums.
#[derive(Parser, Clone)]
#[command(name = "embedding_gradient", version)]
struct Options {
    /// Number of rows that are added [default: 16384 on a GPU, 100 on the simulator]
    #[arg(long)]
    tokens: Option<usize>,
    /// Number of rows of the table [default: 32768 on a GPU, 1000 on the simulator]
    #[arg(long)]
    rows: Option<usize>,
    /// Length of a row [default: 4096 on a GPU, 1000 on the simulator]
    #[arg(long)]
    length: Option<usize>,
    #[command(flatten)]
    typed: Typed,
}

impl Options {
    fn sizes(&self, gpu: bool) -> [usize; 3] {
        let [s, v, d] = if gpu { [1 << 14, 1 << 15, 1 << 12] } else { [100, 1000, 1000] };
        [self.tokens.unwrap_or(s), self.rows.unwrap_or(v), self.length.unwrap_or(d)]
    }
}

impl Generic for Options {
    fn typed(&self) -> &Typed {
        &self.typed
    }

    fn dims(&self, gpu: bool) -> Dims {
        let [s, v, d] = self.sizes(gpu);
        vec![("S", s), ("V", v), ("D", d)]
    }

    fn run<T: Float>(&self, device: &Device, schedules: &[&'static dyn AnySchedule]) -> Result<bool, Error> {
        let [s, v, d] = self.sizes(device.is_gpu());
        let setup = &self.typed.setup;
        let rows = normal::<T>(setup.seed, 0, s * d);
        // -1 leads nowhere.
        let ids = uniform(setup.seed, 1, s, -1..=i32::try_from(v).unwrap_or(i32::MAX) - 1);
        let ids: Vec<i64> = ids.into_iter().map(i64::from).collect();
        let dy = Buffer::from_slice(device, &rows, &[s, d])?;
        let places = Buffer::from_slice(device, &ids, &[s])?;
        // Sums, and those of magnitudes.
        let (mut sums, mut magnitudes) = (vec![0.0; v * d], vec![0.0; v * d]);
        for (row, id) in rows.chunks(d).zip(&ids) {
            let Some(at) = usize::try_from(*id).ok().filter(|id| *id < v) else { continue };
            for (n, x) in row.iter().enumerate() {
                sums[at * d + n] += x.to_f64();
                magnitudes[at * d + n] += x.to_f64().abs();
            }
        }
        Ok(run_all(setup, schedules, |schedule| {
            let mut table = Buffer::from_slice(device, &vec![0.0f32; v * d], &[v, d])?;
            embed_gradient(&places, &dy, &mut table).schedule_dyn(schedule).run()?;
            let found = table.to_vec()?;
            let launch = measure(device, || {
                embed_gradient(&places, &dy, &mut table).schedule_dyn(schedule).timed().run()
            })?;
            // Each addition rounds, in any order; rows meet a few times at most.
            let rounding = 32.0 * f64::from(f32::EPSILON);
            let checks = found
                .iter()
                .zip(&sums)
                .zip(&magnitudes)
                .map(|((found, sum), magnitude)| (f64::from(*found), *sum, rounding * magnitude));
            Ok(Record {
                schedule: schedule.name(),
                dtype: T::DTYPE.name(),
                sizes: vec![("tokens", s), ("rows", v), ("length", d)],
                flops: 0.0,
                verdict: judge(checks),
                launch,
                criterion: "within 32 roundings of the sum of magnitudes".into(),
            })
        }))
    }
}

fn main() -> ExitCode {
    run_generic::<Options>(SCHEDULES, "vectorized")
}

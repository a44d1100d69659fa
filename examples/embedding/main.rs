//! Rows of a table, chosen by integers: `cargo run --example embedding -- --dtype f16 --schedule all`.

#[path = "../common/mod.rs"]
mod common;
mod kernel;

use clap::Parser;
use common::{
    data::{normal, uniform},
    example::{Dims, Generic, Typed, run_generic},
    run::run_all,
};
use kernel::{SCHEDULES, embed};
use std::process::ExitCode;
use tile_bench::record::{Record, judge, measure};
use tilewright::{AnySchedule, Buffer, Device, Error, Float};

/// Gathers random rows of a random table under one schedule or all, and verifies the result.
#[derive(Parser, Clone)]
#[command(name = "embedding", version)]
struct Options {
    /// Number of rows that are gathered [default: 16384 on a GPU, 100 on the simulator]
    #[arg(long)]
    tokens: Option<usize>,
    /// Number of rows of the table [default: 131072 on a GPU, 1000 on the simulator]
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
        let [s, v, d] = if gpu { [1 << 14, 1 << 17, 1 << 12] } else { [100, 1000, 1000] };
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
        let table = normal::<T>(setup.seed, 0, v * d);
        // -1 leads nowhere.
        let ids = uniform(setup.seed, 1, s, -1..=i32::try_from(v).unwrap_or(i32::MAX) - 1);
        let input = Buffer::from_slice(device, &table, &[v, d])?;
        let places = Buffer::from_slice(device, &ids, &[s])?;
        Ok(run_all(setup, schedules, |schedule| {
            let mut y = Buffer::<T>::poisoned(device, &[s, d])?;
            let launch =
                measure(device, || embed(&places, &input, &mut y).schedule_dyn(schedule).timed().run())?;
            let found = y.to_vec()?;
            let row = |id: i32| usize::try_from(id).ok().filter(|id| *id < v);
            let checks = found.iter().enumerate().map(|(n, found)| {
                let expected = row(ids[n / d]).map_or(0.0, |id| table[id * d + n % d].to_f64());
                (found.to_f64(), expected, 0.0)
            });
            Ok(Record {
                schedule: schedule.name(),
                dtype: T::DTYPE.name(),
                sizes: vec![("tokens", s), ("rows", v), ("length", d)],
                flops: 0.0,
                verdict: judge(checks),
                launch,
                criterion: "equal to the row of the table".into(),
            })
        }))
    }
}

fn main() -> ExitCode {
    run_generic::<Options>(SCHEDULES, "vectorized")
}

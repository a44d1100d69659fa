//! Rows put where integers say: `cargo run --example kv_append -- --dtype f16 --schedule all`.

#[path = "../common/mod.rs"]
mod common;
mod kernel;

use clap::Parser;
use common::{
    data::{normal, permutation},
    example::{Dims, Generic, Typed, run_generic},
    run::run_all,
};
use kernel::{SCHEDULES, append};
use std::process::ExitCode;
use tile_bench::record::{Record, judge, measure};
use tilewright::{AnySchedule, Buffer, Device, Error, Float};

/// Puts random rows into random slots of a cache under one schedule or all, and verifies the whole cache.
#[derive(Parser, Clone)]
#[command(name = "kv_append", version)]
struct Options {
    /// Number of rows [default: 65536 on a GPU, 50 on the simulator]
    #[arg(long)]
    tokens: Option<usize>,
    /// Number of slots of the cache [default: 131072 on a GPU, 80 on the simulator]
    #[arg(long)]
    slots: Option<usize>,
    /// Heads of a row
    #[arg(long, default_value_t = 8)]
    heads: usize,
    /// Length of a head
    #[arg(long, default_value_t = 128)]
    length: usize,
    #[command(flatten)]
    typed: Typed,
}

impl Options {
    fn sizes(&self, gpu: bool) -> [usize; 2] {
        let [s, l] = if gpu { [1 << 16, 1 << 17] } else { [50, 80] };
        [self.tokens.unwrap_or(s), self.slots.unwrap_or(l)]
    }
}

impl Generic for Options {
    fn typed(&self) -> &Typed {
        &self.typed
    }

    fn dims(&self, gpu: bool) -> Dims {
        let [s, l] = self.sizes(gpu);
        vec![("S", s), ("L", l), ("H", self.heads), ("D", self.length)]
    }

    fn run<T: Float>(&self, device: &Device, schedules: &[&'static dyn AnySchedule]) -> Result<bool, Error> {
        let ([s, l], h, d) = (self.sizes(device.is_gpu()), self.heads, self.length);
        let (setup, row) = (&self.typed.setup, h * d);
        let k = normal::<T>(setup.seed, 0, s * row);
        let before = normal::<T>(setup.seed, 1, l * row);
        // Every eleventh row has no slot.
        let mut slots = permutation(setup.seed, 2, l.max(s));
        slots.truncate(s);
        slots.iter_mut().step_by(11).for_each(|slot| *slot = -1);
        let input = Buffer::from_slice(device, &k, &[s, h, d])?;
        let places = Buffer::from_slice(device, &slots, &[s])?;
        let mut expected = before.clone();
        for (n, slot) in slots.iter().enumerate() {
            if let Some(slot) = usize::try_from(*slot).ok().filter(|slot| *slot < l) {
                expected[slot * row..][..row].copy_from_slice(&k[n * row..][..row]);
            }
        }
        Ok(run_all(setup, schedules, |schedule| {
            let mut cache = Buffer::from_slice(device, &before, &[l, h, d])?;
            let launch =
                measure(device, || append(&input, &places, &mut cache).schedule_dyn(schedule).timed().run())?;
            let found = cache.to_vec()?;
            let checks = found.iter().zip(&expected).map(|(x, y)| (x.to_f64(), y.to_f64(), 0.0));
            Ok(Record {
                schedule: schedule.name(),
                dtype: T::DTYPE.name(),
                sizes: vec![("tokens", s), ("slots", l), ("heads", h), ("length", d)],
                flops: 0.0,
                verdict: judge(checks),
                launch,
                criterion: "the rows in their slots, and all other slots as they were".into(),
            })
        }))
    }
}

fn main() -> ExitCode {
    run_generic::<Options>(SCHEDULES, "scalar")
}

//! Causal attention of sequences that lie one behind the other: `cargo run --example packed_attention -- --schedule all`.

#[allow(dead_code)] // some of its schedules are extended
#[path = "../attention/kernel.rs"]
mod attention;
#[path = "../common/mod.rs"]
mod common;
mod kernel;
#[path = "../attention/verify.rs"]
mod verify;

use clap::Parser;
use common::{
    data::normal,
    example::{Dims, Generic, Typed, run_generic},
    options::{elements, size},
    run::run_all,
};
use kernel::{SCHEDULES, packed};
use std::process::ExitCode;
use tile_bench::record::{Record, judge, measure};
use tilewright::{AnySchedule, Buffer, Device, Error, Float};
use verify::{Attention, Shape};

/// Attends random queries to the random keys of their sequences under one schedule or all, and verifies the result.
#[derive(Parser)]
#[command(name = "packed_attention", version)]
struct Options {
    /// Heads×tokens×head dimension [default: 32x16384x64 on a GPU, 2x150x64 on the simulator]
    #[arg(long, value_name = "HxNxD")]
    size: Option<Size>,
    /// Sequences; where they begin is random
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    sequences: u32,
    #[command(flatten)]
    typed: Typed,
}

size! {
    /// Sizes of one call.
    Size { h, n, d } as "H×N×D", "2x150x64"
}

/// Where the sequence of each token begins.
fn firsts(n: usize, sequences: u32, seed: u64) -> Vec<i32> {
    let mut begin = vec![false; n];
    let mut at = seed;
    for _ in 1..sequences {
        // Knuth's linear congruential generator.
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if n > 0 {
            begin[(at >> 33) as usize % n] = true;
        }
    }
    let mut first = 0;
    let place = |(i, begins): (usize, bool)| {
        first = if begins { i as i32 } else { first };
        first
    };
    begin.into_iter().enumerate().map(place).collect()
}

impl Options {
    fn size(&self, gpu: bool) -> Size {
        self.size.unwrap_or(match gpu {
            true => Size { h: 32, n: 16384, d: 64 },
            false => Size { h: 2, n: 150, d: 64 },
        })
    }
}

impl Generic for Options {
    fn typed(&self) -> &Typed {
        &self.typed
    }

    fn dims(&self, gpu: bool) -> Dims {
        let Size { h, n, d } = self.size(gpu);
        vec![("H", h), ("S", n), ("L", n), ("D", d)]
    }

    fn run<T: Float>(&self, device: &Device, schedules: &[&'static dyn AnySchedule]) -> Result<bool, Error> {
        let size = self.size(device.is_gpu());
        let Size { h, n, d } = size;
        let shape = [h, n, d];
        let len = elements(&shape)?;
        device.check_memory(4 * len as u128 * size_of::<T>() as u128)?;
        let setup = &self.typed.setup;
        let data = |stream| normal::<T>(setup.seed, stream, len);
        let (q, k, v) = (data(0), data(1), data(2));
        let on_device = [
            Buffer::from_slice(device, &q, &shape)?,
            Buffer::from_slice(device, &k, &shape)?,
            Buffer::from_slice(device, &v, &shape)?,
        ];
        let scale = 1.0 / (d.max(1) as f32).sqrt();
        let first = firsts(n, self.sequences, setup.seed);
        let first_in = Buffer::from_slice(device, &first, &[n])?;
        let seen = |i: usize| first[i] as usize..i + 1;
        let pairs: usize = (0..n).map(|i| seen(i).len()).sum();
        let one = |schedule: &'static dyn AnySchedule| -> Result<Record, Error> {
            let mut o = Buffer::<T>::poisoned(device, &shape)?;
            let [q_in, k_in, v_in] = &on_device;
            let launch = measure(device, || {
                packed(q_in, k_in, v_in, &first_in, &mut o, scale).schedule_dyn(schedule).timed().run()
            })?;
            let o = o.to_vec()?;
            let of = Shape { b: 1, h, m: n, n, d };
            let result = Attention { size: of, scale, q: &q, k: &k, v: &v, o: &o, seen: &seen };
            Ok(Record {
                schedule: schedule.name(),
                dtype: T::DTYPE.name(),
                sizes: size.named(),
                flops: 4.0 * (h * d) as f64 * pairs as f64,
                verdict: judge(result.checks()),
                launch,
                criterion: result.criterion(),
            })
        };
        Ok(run_all(setup, schedules, one))
    }
}

fn main() -> ExitCode {
    run_generic::<Options>(SCHEDULES, "mma")
}

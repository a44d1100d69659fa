//! Attention with a softmax that goes along with the keys: `cargo run --example attention -- --schedule all`.

#[path = "../common/mod.rs"]
mod common;
mod kernel;
mod verify;

use clap::Parser;
use common::{
    data::normal,
    example::{Dims, Generic, Typed, run_generic},
    options::{elements, size},
    run::run_all,
};
use kernel::{SCHEDULES, attention, attention_plain};
use std::process::ExitCode;
use tile_bench::record::{Record, judge, measure};
use tilewright::{AnySchedule, Buffer, Device, Error, Float};
use verify::{Attention, Shape};

/// Attends random queries to random keys and values under one schedule or all, and verifies the result.
#[derive(Parser)]
#[command(name = "attention", version)]
struct Options {
    /// Batch×heads×queries×keys×head dimension [default: 4x32x4096x4096x64 on a GPU, 1x2x160x100x64 on the simulator]
    #[arg(long, value_name = "BxHxMxNxD")]
    size: Option<Size>,
    #[command(flatten)]
    typed: Typed,
}

size! {
    /// Sizes of one call.
    Size { b, h, m, n, d } as "B×H×M×N×D", "1x2x160x100x64"
}

impl Options {
    fn size(&self, gpu: bool) -> Size {
        self.size.unwrap_or(match gpu {
            true => Size { b: 4, h: 32, m: 4096, n: 4096, d: 64 },
            false => Size { b: 1, h: 2, m: 160, n: 100, d: 64 },
        })
    }
}

impl Generic for Options {
    fn typed(&self) -> &Typed {
        &self.typed
    }

    fn dims(&self, gpu: bool) -> Dims {
        let Size { b, h, m, n, d } = self.size(gpu);
        vec![("B", b), ("H", h), ("M", m), ("N", n), ("D", d)]
    }

    fn run<T: Float>(&self, device: &Device, schedules: &[&'static dyn AnySchedule]) -> Result<bool, Error> {
        let size = self.size(device.is_gpu());
        let shape = |rows: usize| [size.b, size.h, rows, size.d];
        let (queries, keys) = (elements(&shape(size.m))?, elements(&shape(size.n))?);
        device.check_memory((2 * queries as u128 + 2 * keys as u128) * size_of::<T>() as u128)?;
        let setup = &self.typed.setup;
        let data = |stream, len| normal::<T>(setup.seed, stream, len);
        let (q, k, v) = (data(0, queries), data(1, keys), data(2, keys));
        let on_device = [
            Buffer::from_slice(device, &q, &shape(size.m))?,
            Buffer::from_slice(device, &k, &shape(size.n))?,
            Buffer::from_slice(device, &v, &shape(size.n))?,
        ];
        let scale = 1.0 / (size.d.max(1) as f32).sqrt();
        let one = |schedule: &'static dyn AnySchedule| -> Result<Record, Error> {
            let mut o = Buffer::<T>::poisoned(device, &shape(size.m))?;
            let [q_in, k_in, v_in] = &on_device;
            let launch = measure(device, || match schedule.kernel() {
                "attention" => {
                    attention(q_in, k_in, v_in, &mut o, scale).schedule_dyn(schedule).timed().run()
                }
                _ => attention_plain(q_in, k_in, v_in, &mut o, scale).schedule_dyn(schedule).timed().run(),
            })?;
            let o = o.to_vec()?;
            let Size { b, h, m, n, d } = size;
            let of = Shape { b, h, m, n, d };
            let result = Attention { size: of, scale, q: &q, k: &k, v: &v, o: &o, seen: &|_| 0..n };
            Ok(Record {
                schedule: schedule.name(),
                dtype: T::DTYPE.name(),
                sizes: size.named(),
                flops: 4.0 * queries as f64 * size.n as f64,
                verdict: judge(result.checks()),
                launch,
                criterion: result.criterion(),
            })
        };
        Ok(run_all(setup, schedules, one))
    }
}

fn main() -> ExitCode {
    run_generic::<Options>(SCHEDULES, "lanes")
}

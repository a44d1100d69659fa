//! Attention within a sliding window, causal where it is long: `cargo run --example windowed_attention -- --schedule all`.

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
use kernel::{SCHEDULES, windowed};
use std::process::ExitCode;
use tile_bench::record::{Record, judge, measure};
use tilewright::{AnySchedule, Buffer, Device, Error, Float};
use verify::{Attention, Shape};

/// Attends random queries to the random keys of a window under one schedule or all, and verifies the result.
#[derive(Parser)]
#[command(name = "windowed_attention", version)]
struct Options {
    /// Batch×heads×tokens×head dimension [default: 4x32x4096x64 on a GPU, 1x2x150x64 on the simulator]
    #[arg(long, value_name = "BxHxNxD")]
    size: Option<Size>,
    /// Keys that a query sees, itself among them; all before it where there are fewer [default: all]
    #[arg(long, default_value_t = i32::MAX, value_parser = clap::value_parser!(i32).range(1..))]
    window: i32,
    #[command(flatten)]
    typed: Typed,
}

size! {
    /// Sizes of one call.
    Size { b, h, n, d } as "B×H×N×D", "1x2x150x64"
}

impl Options {
    fn size(&self, gpu: bool) -> Size {
        self.size.unwrap_or(match gpu {
            true => Size { b: 4, h: 32, n: 4096, d: 64 },
            false => Size { b: 1, h: 2, n: 150, d: 64 },
        })
    }
}

impl Generic for Options {
    fn typed(&self) -> &Typed {
        &self.typed
    }

    fn dims(&self, gpu: bool) -> Dims {
        let Size { b, h, n, d } = self.size(gpu);
        vec![("B", b), ("H", h), ("M", n), ("N", n), ("D", d)]
    }

    fn run<T: Float>(&self, device: &Device, schedules: &[&'static dyn AnySchedule]) -> Result<bool, Error> {
        let size = self.size(device.is_gpu());
        let Size { b, h, n, d } = size;
        let shape = [b, h, n, d];
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
        let window = self.window;
        let seen = |i: usize| (i + 1).saturating_sub(window as usize)..i + 1;
        let pairs: usize = (0..n).map(|i| seen(i).len()).sum();
        let one = |schedule: &'static dyn AnySchedule| -> Result<Record, Error> {
            let mut o = Buffer::<T>::poisoned(device, &shape)?;
            let [q_in, k_in, v_in] = &on_device;
            let launch = measure(device, || {
                windowed(q_in, k_in, v_in, &mut o, window, scale).schedule_dyn(schedule).timed().run()
            })?;
            let o = o.to_vec()?;
            let of = Shape { b, h, m: n, n, d };
            let result = Attention { size: of, scale, q: &q, k: &k, v: &v, o: &o, seen: &seen };
            Ok(Record {
                schedule: schedule.name(),
                dtype: T::DTYPE.name(),
                sizes: size.named(),
                flops: 4.0 * (b * h * d) as f64 * pairs as f64,
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

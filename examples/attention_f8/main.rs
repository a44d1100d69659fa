//! Attention to numbers of eight bits: `cargo run --example attention_f8 -- --dtype bf16 --schedule all`.

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
use kernel::{SCHEDULES, attention_f8};
use std::process::ExitCode;
use tile_bench::record::{Record, judge, measure};
use tilewright::{AnySchedule, Buffer, Device, Error, Float, prelude::f8};
use verify::{Attention, Shape};

/// Attends random queries to random keys and values, all in eight bits, under one schedule or all, and verifies the result.
#[derive(Parser)]
#[command(name = "attention_f8", version)]
struct Options {
    /// Batch×heads×queries×keys×head dimension [default: 4x32x4096x4096x64 on a GPU, 1x2x160x100x64 on the simulator]
    #[arg(long, value_name = "BxHxMxNxD")]
    size: Option<Size>,
    /// The greatest weight of a row is 2 to the power of it [default: 8; 3 where the maximum stays as the first keys leave it]
    #[arg(long)]
    reach: Option<f32>,
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

/// What weights should reach under a schedule. Where the maximum stays as the first tile of keys leaves it, those of later tiles need room
/// up to 448: 2³ leaves 2⁵ of it.
fn reach(schedule: &dyn AnySchedule) -> f32 {
    if schedule.name().ends_with("_frozen") { 3.0 } else { 8.0 }
}

/// The greatest number of e4m3.
const GREATEST: f32 = 448.0;

/// Numbers in eight bits, and what those of each head were divided by: the greatest of them becomes the greatest that there is.
fn rounded(x: &[f32], head: usize) -> (Vec<f8>, Vec<f32>) {
    let scaled = x.chunks(head.max(1)).map(|x| {
        let greatest = x.iter().fold(0.0f32, |greatest, x| greatest.max(x.abs()));
        let scale = if greatest > 0.0 { greatest / GREATEST } else { 1.0 };
        (x.iter().map(|x| f8::from_f64(f64::from(x / scale))).collect::<Vec<f8>>(), scale)
    });
    let (numbers, scales): (Vec<_>, Vec<_>) = scaled.unzip();
    (numbers.concat(), scales)
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
        let Size { b, h, m, n, d } = size;
        let (queries, keys) = (elements(&[b, h, m, d])?, elements(&[b, h, n, d])?);
        device.check_memory((queries + 2 * keys) as u128 + queries as u128 * size_of::<T>() as u128)?;
        let setup = &self.typed.setup;
        let data = |stream, of: usize, len| rounded(&normal::<f32>(setup.seed, stream, len), of);
        // Of values, random ones are as good transposed.
        let ((q, of_q), (k, of_k), (v, values)) =
            (data(0, m * d, queries), data(1, n * d, keys), data(2, n * d, keys));
        let heads = |scales: Vec<f32>| if scales.is_empty() { vec![1.0; b * h] } else { scales };
        let scores: Vec<f32> = heads(of_q).into_iter().zip(heads(of_k)).map(|(q, k)| q * k).collect();
        let values = heads(values);
        let (q_in, k_in, v_in) = (
            Buffer::from_slice(device, &q, &[b, h, m, d])?,
            Buffer::from_slice(device, &k, &[b, h, n, d])?,
            Buffer::from_slice(device, &v, &[b, h, d, n])?,
        );
        let (scores_in, values_in) =
            (Buffer::from_slice(device, &scores, &[b, h])?, Buffer::from_slice(device, &values, &[b, h])?);
        let scale = 1.0 / (d.max(1) as f32).sqrt();
        let one = |schedule: &'static dyn AnySchedule| -> Result<Record, Error> {
            let reach = self.reach.unwrap_or(reach(schedule));
            let mut o = Buffer::<T>::poisoned(device, &[b, h, m, d])?;
            let launch = measure(device, || {
                attention_f8(&q_in, &k_in, &v_in, &scores_in, &values_in, &mut o, scale, reach)
                    .schedule_dyn(schedule)
                    .timed()
                    .run()
            })?;
            let o = o.to_vec()?;
            let of = Shape { b, h, m, n, d };
            let (q, k, v, scores, values, o) = (&q, &k, &v, &scores, &values, &o);
            let result = Attention { size: of, scale, reach, q, k, v, scores, values, o };
            Ok(Record {
                schedule: schedule.name(),
                dtype: T::DTYPE.name(),
                sizes: size.named(),
                flops: 4.0 * queries as f64 * n as f64,
                verdict: judge(result.checks()),
                launch,
                criterion: result.criterion(),
            })
        };
        Ok(run_all(setup, schedules, one))
    }
}

fn main() -> ExitCode {
    run_generic::<Options>(SCHEDULES, "naive")
}

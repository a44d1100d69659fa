//! A linear layer with bias and ReLU in one kernel: `cargo run --example linear -- --schedule all`.

#[path = "../common/mod.rs"]
mod common;
mod kernel;
#[allow(dead_code)] // some of its schedules are extended
#[path = "../matmul/kernel.rs"]
mod product;
#[path = "../matmul/verify.rs"]
mod verify;

use clap::Parser;
use common::{
    data::normal,
    example::{Dims, Generic, Typed, run_generic},
    options::elements,
    run::run_all,
};
use kernel::{SCHEDULES, linear};
use std::process::ExitCode;
use tile_bench::record::{Record, measure};
use tilewright::{AnySchedule, Buffer, Device, Error, Float};
use verify::Product;

/// Computes relu(x·w + bias) of random matrices under one schedule or all, and verifies the result.
#[derive(Parser)]
#[command(name = "linear", version)]
struct Options {
    /// Rows of the input [default: 4096 on a GPU, 256 on the simulator]
    #[arg(long)]
    batch: Option<usize>,
    /// Width of the input and of the output [default: 4096 on a GPU, 256 on the simulator]
    #[arg(long)]
    width: Option<usize>,
    #[command(flatten)]
    typed: Typed,
}

impl Options {
    /// Rows, and the widths of the output and of the input.
    fn size(&self, gpu: bool) -> [usize; 3] {
        let default = if gpu { 4096 } else { 256 };
        let (rows, width) = (self.batch.unwrap_or(default), self.width.unwrap_or(default));
        [rows, width, width]
    }
}

impl Generic for Options {
    fn typed(&self) -> &Typed {
        &self.typed
    }

    fn dims(&self, gpu: bool) -> Dims {
        let [m, n, k] = self.size(gpu);
        vec![("M", m), ("N", n), ("K", k)]
    }

    fn run<T: Float>(&self, device: &Device, schedules: &[&'static dyn AnySchedule]) -> Result<bool, Error> {
        let [m, n, k] = self.size(device.is_gpu());
        let (input, weights) = (elements(&[m, k])?, elements(&[k, n])?);
        device.check_memory((2 * input as u128 + weights as u128) * size_of::<T>() as u128)?;
        let setup = &self.typed.setup;
        let data = |stream, len| normal::<T>(setup.seed, stream, len);
        let (a, b, bias) = (data(0, input), data(1, weights), data(2, n));
        let x = Buffer::from_slice(device, &a, &[m, k])?;
        let w = Buffer::from_slice(device, &b, &[k, n])?;
        let added = Buffer::from_slice(device, &bias, &[n])?;
        let one = |schedule: &'static dyn AnySchedule| -> Result<Record, Error> {
            let mut c = Buffer::<T>::poisoned(device, &[m, n])?;
            let launch =
                measure(device, || linear(&x, &w, &added, &mut c).schedule_dyn(schedule).timed().run())?;
            let c = c.to_vec()?;
            let epilogue = |j: usize, sum: f64| {
                let bias = bias[j].to_f64();
                ((sum + bias).max(0.0), bias.abs())
            };
            let product = Product { epilogue: Some(&epilogue), ..Product::new([m, n, k], &a, &b, &c) };
            Ok(Record {
                schedule: schedule.name(),
                dtype: T::DTYPE.name(),
                sizes: vec![("m", m), ("n", n), ("k", k)],
                flops: 2.0 * m as f64 * n as f64 * k as f64,
                verdict: product.verify(),
                launch,
                criterion: product.criterion(),
            })
        };
        Ok(run_all(setup, schedules, one))
    }
}

fn main() -> ExitCode {
    run_generic::<Options>(SCHEDULES, "warptile")
}

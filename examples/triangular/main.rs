//! The product with a lower triangular matrix: `cargo run --example triangular -- --schedule all`.

#[path = "../common/mod.rs"]
mod common;
mod kernel;
#[allow(dead_code)] // one of its schedules is extended
#[path = "../matmul/kernel.rs"]
mod product;
#[path = "../matmul/verify.rs"]
#[allow(dead_code, reason = "products with an epilogue")]
mod verify;

use clap::Parser;
use common::{
    data::normal,
    example::{Dims, Generic, Typed, run_generic},
    options::{elements, size},
    run::run_all,
};
use kernel::{SCHEDULES, triangular};
use std::process::ExitCode;
use tile_bench::record::{Record, measure};
use tilewright::{AnySchedule, Buffer, Device, Error, Float};
use verify::Product;

/// Multiplies the lower part of a random matrix by another one under one schedule or all, and verifies the result.
#[derive(Parser)]
#[command(name = "triangular", version)]
struct Options {
    /// M×N×K [default: 4096x4096x4096 on a GPU, 200x144x200 on the simulator]
    #[arg(long, value_name = "MxNxK")]
    size: Option<Size>,
    #[command(flatten)]
    typed: Typed,
}

size! {
    /// Sizes of one call.
    Size { m, n, k } as "M×N×K", "200x144x200"
}

impl Options {
    fn size(&self, gpu: bool) -> Size {
        self.size.unwrap_or(match gpu {
            true => Size { m: 4096, n: 4096, k: 4096 },
            false => Size { m: 200, n: 144, k: 200 },
        })
    }
}

impl Generic for Options {
    fn typed(&self) -> &Typed {
        &self.typed
    }

    fn dims(&self, gpu: bool) -> Dims {
        let Size { m, n, k } = self.size(gpu);
        vec![("M", m), ("N", n), ("K", k)]
    }

    fn run<T: Float>(&self, device: &Device, schedules: &[&'static dyn AnySchedule]) -> Result<bool, Error> {
        let size = self.size(device.is_gpu());
        let Size { m, n, k } = size;
        let lengths = [elements(&[m, k])?, elements(&[k, n])?, elements(&[m, n])?];
        device.check_memory(lengths.into_iter().sum::<usize>() as u128 * size_of::<T>() as u128)?;
        let setup = &self.typed.setup;
        let (a, b) = (normal::<T>(setup.seed, 0, lengths[0]), normal::<T>(setup.seed, 1, lengths[1]));
        let a_in = Buffer::from_slice(device, &a, &[m, k])?;
        let b_in = Buffer::from_slice(device, &b, &[k, n])?;
        let below = |(n, x): (usize, &T)| if n % k <= n / k { *x } else { T::from_f64(0.0) };
        let lower: Vec<T> = a.iter().enumerate().map(below).collect();
        let products: usize = (0..m).map(|i| (i + 1).min(k)).sum();
        let one = |schedule: &'static dyn AnySchedule| -> Result<Record, Error> {
            let mut c = Buffer::<T>::poisoned(device, &[m, n])?;
            let launch =
                measure(device, || triangular(&a_in, &b_in, &mut c).schedule_dyn(schedule).timed().run())?;
            let c = c.to_vec()?;
            let product = Product::new([m, n, k], &lower, &b, &c);
            Ok(Record {
                schedule: schedule.name(),
                dtype: T::DTYPE.name(),
                sizes: size.named(),
                flops: 2.0 * n as f64 * products as f64,
                verdict: product.verify(),
                launch,
                criterion: product.criterion(),
            })
        };
        Ok(run_all(setup, schedules, one))
    }
}

fn main() -> ExitCode {
    run_generic::<Options>(SCHEDULES, "mma")
}

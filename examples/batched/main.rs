//! Products of a batch of matrices: `cargo run --example batched -- --schedule all`.

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
    options::{elements, size},
    run::run_all,
};
use kernel::{SCHEDULES, batched, batched_nt};
use std::process::ExitCode;
use tile_bench::record::{Record, measure};
use tilewright::{AnySchedule, Buffer, Device, Error, Float, Kernel, verify::Comparison};
use verify::Product;

/// Multiplies the matrices of two random batches under one schedule or all, and verifies the result.
///
/// Schedules whose name ends in `_nt` are of the kernel that reads the second factor as N×K.
#[derive(Parser)]
#[command(name = "batched", version)]
struct Options {
    /// Batch×M×N×K [default: 64x1024x1024x1024 on a GPU, 2x160x144x96 on the simulator]
    #[arg(long, value_name = "BxMxNxK")]
    size: Option<Size>,
    #[command(flatten)]
    typed: Typed,
}

size! {
    /// Sizes of one call.
    Size { b, m, n, k } as "B×M×N×K", "2x160x144x96"
}

/// Each matrix of a batch transposed.
fn transposed<T: Float>(matrices: &[T], Size { b, n, k, .. }: Size) -> Vec<T> {
    let place = |batch: usize, j: usize, l: usize| matrices[(batch * k + l) * n + j];
    (0..b).flat_map(|batch| (0..n).flat_map(move |j| (0..k).map(move |l| place(batch, j, l)))).collect()
}

impl Options {
    fn size(&self, gpu: bool) -> Size {
        self.size.unwrap_or(match gpu {
            true => Size { b: 64, m: 1024, n: 1024, k: 1024 },
            false => Size { b: 2, m: 160, n: 144, k: 96 },
        })
    }
}

impl Generic for Options {
    fn typed(&self) -> &Typed {
        &self.typed
    }

    fn dims(&self, gpu: bool) -> Dims {
        let Size { b, m, n, k } = self.size(gpu);
        vec![("B", b), ("M", m), ("N", n), ("K", k)]
    }

    fn run<T: Float>(&self, device: &Device, schedules: &[&'static dyn AnySchedule]) -> Result<bool, Error> {
        let size = self.size(device.is_gpu());
        let Size { b, m, n, k } = size;
        let [first, second, result] = [[b, m, k], [b, k, n], [b, m, n]];
        let lengths = [elements(&first)?, elements(&second)?, elements(&result)?];
        let bytes = |len: usize| len as u128 * size_of::<T>() as u128;
        device.check_memory(bytes(lengths[0]) + 2 * bytes(lengths[1]) + bytes(lengths[2]))?;
        let setup = &self.typed.setup;
        let (x, y) = (normal::<T>(setup.seed, 0, lengths[0]), normal::<T>(setup.seed, 1, lengths[1]));
        let x_in = Buffer::from_slice(device, &x, &first)?;
        let y_in = Buffer::from_slice(device, &y, &second)?;
        let y_nt = Buffer::from_slice(device, &transposed(&y, size), &[b, n, k])?;
        let one = |schedule: &'static dyn AnySchedule| -> Result<Record, Error> {
            let mut c = Buffer::<T>::poisoned(device, &result)?;
            let launch = measure(device, || match schedule.kernel() == batched_nt::NAME {
                true => batched_nt(&x_in, &y_nt, &mut c).schedule_dyn(schedule).timed().run(),
                false => batched(&x_in, &y_in, &mut c).schedule_dyn(schedule).timed().run(),
            })?;
            let c = c.to_vec()?;
            let product = |batch: usize| {
                let (x, y) = (&x[batch * m * k..][..m * k], &y[batch * k * n..][..k * n]);
                Product::new([m, n, k], x, y, &c[batch * m * n..][..m * n])
            };
            Ok(Record {
                schedule: schedule.name(),
                dtype: T::DTYPE.name(),
                sizes: size.named(),
                flops: 2.0 * lengths[2] as f64 * k as f64,
                verdict: (0..b).map(|n| product(n).verify()).fold(Comparison::EMPTY, Comparison::merge),
                launch,
                criterion: Product::<T, T>::new([m, n, k], &[], &[], &[]).criterion(),
            })
        };
        Ok(run_all(setup, schedules, one))
    }
}

fn main() -> ExitCode {
    run_generic::<Options>(SCHEDULES, "warptile")
}

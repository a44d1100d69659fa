//! Two linear layers on several devices: `cargo run --example sharded_linear -- --devices 2`. With a process for each device, as torchrun
//! starts them: `torchrun --no-python --nproc-per-node 2 sharded_linear --ranks`.
//!
//! y = relu(x·w₁ + b)·w₂. Each device has some columns of w₁ and b and the rows of w₂ that meet them, and all of x; the
//! parts of y that they compute are summed by an all-reduce (Shoeybi et al., "Megatron-LM", arXiv:1909.08053). The batch is cut
//! into tiles: while one tile is reduced on a stream of its own, the next one is computed.

#[path = "../common/mod.rs"]
mod common;
#[path = "../linear/kernel.rs"]
mod kernel;
mod layers;
#[allow(dead_code)] // some of its schedules are extended
#[path = "../matmul/kernel.rs"]
mod product;
mod verify;

use clap::Parser;
use common::{
    data::normal,
    example::{Dims, Generic, Typed, run_generic},
    options::elements,
    run::run_all,
};
use kernel::SCHEDULES;
use layers::{Layers, Sharded};
use std::process::ExitCode;
use tile_bench::record::Record;
use tilewright::{AnySchedule, Communicator, Device, Error, Float, World};

/// Computes relu(x·w₁ + b)·w₂ on several devices under one schedule or all, and verifies the result.
#[derive(Parser)]
#[command(name = "sharded_linear", version)]
struct Options {
    /// Devices: GPUs from ordinal 0 on, or simulators [default: all GPUs, or 2 simulators]
    #[arg(long)]
    devices: Option<usize>,
    /// This process is one rank, with one device, as `RANK`, `WORLD_SIZE`, `LOCAL_RANK`, `MASTER_ADDR` and `MASTER_PORT` say
    #[arg(long, conflicts_with = "devices")]
    ranks: bool,
    /// Rows of the input [default: 8192 on GPUs, 64 on simulators]
    #[arg(long)]
    batch: Option<usize>,
    /// Width of the input and of the output, a quarter of the hidden layer's [default: 4096 on GPUs, 64 on simulators]
    #[arg(long)]
    width: Option<usize>,
    /// Parts of the batch, of which one is reduced while the next is computed
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    tiles: u32,
    /// Multiprocessors that the products leave to the reductions, and NCCL's CTAs in processes; 0 leaves none and lets NCCL take what it likes
    #[arg(long, default_value_t = 4)]
    leave: u32,
    /// Print the time on all devices and on one, and the efficiency; needs GPUs
    #[arg(long)]
    bench: bool,
    #[command(flatten)]
    typed: Typed,
}

impl Options {
    /// The devices that work together, of which the first is open.
    fn communicator(&self, first: &Device) -> Result<Communicator, Error> {
        if self.ranks {
            let world = World::from_env()?;
            let world = if self.leave > 0 { world.with_ctas(self.leave) } else { world };
            let device = if first.is_gpu() { &world.device()? } else { first };
            return Communicator::join(&world, device);
        }
        Communicator::new(&self.open(first)?)
    }

    /// Those of one process.
    fn open(&self, first: &Device) -> Result<Vec<Device>, Error> {
        let all = || Ok::<_, Error>(Device::all()?.iter().filter(|device| device.is_gpu()).count());
        let count = match self.devices {
            Some(0) => return Err(Error::Shape("--devices 0: there is nothing to run on".into())),
            Some(count) => count,
            None if first.is_gpu() => all()?,
            None => 2,
        };
        let open = |n| if first.is_gpu() { Device::cuda(n) } else { Ok(Device::sim()) };
        std::iter::once(Ok(first.clone())).chain((1..count).map(open)).collect()
    }
}

impl Generic for Options {
    fn typed(&self) -> &Typed {
        &self.typed
    }

    /// Those of the first layer on one device.
    fn dims(&self, gpu: bool) -> Dims {
        let (batch, width) = if gpu { (8192, 4096) } else { (64, 64) };
        let (m, n) = (self.batch.unwrap_or(batch), self.width.unwrap_or(width));
        vec![("M", m), ("N", 4 * n), ("K", n)]
    }

    fn run<T: Float>(&self, device: &Device, schedules: &[&'static dyn AnySchedule]) -> Result<bool, Error> {
        let all = self.communicator(device)?;
        let device = &all.devices()[0];
        let (batch, width) = if device.is_gpu() { (8192, 4096) } else { (64, 64) };
        let (m, n) = (self.batch.unwrap_or(batch), self.width.unwrap_or(width));
        let hidden = 4 * n;
        let (input, weights) = (elements(&[m, n])?, elements(&[n, hidden])?);
        let part = weights.div_ceil(all.ranks()) as u128;
        device.check_memory(
            (2 * input as u128 + 2 * part + m as u128 * hidden as u128) * size_of::<T>() as u128,
        )?;
        let data = |stream, len| normal::<T>(self.typed.setup.seed, stream, len);
        // So that the result is of the input's size.
        let scaled = |stream, len, by: usize| -> Vec<T> {
            data(stream, len).iter().map(|x: &T| T::from_f64(x.to_f64() / (by as f64).sqrt())).collect()
        };
        let layers = Layers {
            sizes: [m, n, hidden],
            x: data(0, input),
            first: scaled(1, weights, n),
            bias: data(2, hidden),
            second: scaled(3, weights, hidden),
        };
        let one = |schedule: &'static dyn AnySchedule| -> Result<Record, Error> {
            let tiles = self.tiles as usize;
            let leave = if all.ranks() > 1 { self.leave } else { 0 };
            let mut sharded = Sharded::new(&layers, &all, schedule, tiles, leave)?;
            let mut launch = sharded.run()?;
            let verdict = verify::compare(&layers, &sharded.results()?, all.ranks());
            if self.bench {
                let one = Communicator::new(&all.devices()[..1])?;
                let (together, single) =
                    (sharded.time()?, Sharded::new(&layers, &one, schedule, tiles, 0)?.time()?);
                launch.time_ms = together;
                match together.zip(single) {
                    Some((together, single)) => eprintln!(
                        "{}: {together:.3} ms on {n} devices, {single:.3} ms on one: efficiency {:.1} %",
                        schedule.name(),
                        100.0 * single / (together * all.ranks() as f64),
                        n = all.ranks(),
                    ),
                    None => eprintln!("simulators claim no time"),
                }
            }
            Ok(Record {
                schedule: schedule.name(),
                dtype: T::DTYPE.name(),
                sizes: vec![("m", m), ("n", n), ("k", hidden), ("devices", all.ranks())],
                flops: 4.0 * m as f64 * n as f64 * hidden as f64,
                verdict,
                launch,
                criterion: verify::criterion::<T>(),
            })
        };
        Ok(run_all(&self.typed.setup, schedules, one))
    }
}

fn main() -> ExitCode {
    run_generic::<Options>(SCHEDULES, "warptile")
}

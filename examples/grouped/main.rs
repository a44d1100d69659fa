//! Products of several sizes in one launch: `cargo run --example grouped -- --schedule all`.

#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code)] // not all of its schedules are for such sizes
#[path = "../matmul/kernel.rs"]
mod product;
#[path = "../matmul/verify.rs"]
mod verify;

use clap::Parser;
use common::{
    data::normal,
    example::{Dims, Generic, Typed, run_generic},
    options::{elements, sizes},
    output::line,
    run::run_all,
};
use product::matmul;
use std::process::ExitCode;
use tile_bench::{
    record::{Record, measure},
    stats::median,
};
use tilewright::{
    AnySchedule, Buffer, Device, Error, Float, Launch, Prepared, Stream, grouped, verify::Comparison,
};
use verify::Product;

/// Multiplies matrices of different sizes in one launch under one schedule or all, and verifies the results.
///
/// So are the experts of a mixture: each has its own weights, and as many rows as there are tokens for it, none perhaps.
#[derive(Parser)]
#[command(name = "grouped", version)]
struct Options {
    /// M×N×K of each product [default: eight experts of 4096×4096 on a GPU, five small ones on the simulator]
    #[arg(long, value_name = "MxNxK", value_delimiter = ',', value_parser = size)]
    size: Vec<Size>,
    /// Time the one launch in turn with a launch a product, on a GPU
    #[arg(long)]
    bench: bool,
    #[command(flatten)]
    typed: Typed,
}

/// Sizes of one product.
#[derive(Clone, Copy, Debug)]
struct Size {
    m: usize,
    n: usize,
    k: usize,
}

fn size(text: &str) -> Result<Size, String> {
    let [m, n, k] = sizes(text, "M×N×K", "256x192x320")?;
    Ok(Size { m, n, k })
}

/// Rows of the experts: 8192 tokens, unevenly spread.
const ROWS: [usize; 8] = [2048, 1664, 1280, 1024, 896, 704, 448, 128];
/// On the simulator: whole tiles, none, ragged ones.
const SMALL: [[usize; 3]; 5] = [[160, 144, 96], [0, 144, 96], [33, 144, 96], [130, 72, 200], [1, 1, 1]];
/// Rounds that are timed.
const ROUNDS: usize = 20;

/// One product.
struct Problem<T> {
    size: Size,
    on_host: [Vec<T>; 2],
    a: Buffer<T>,
    b: Buffer<T>,
    c: Buffer<T>,
}

impl<T: Float> Problem<T> {
    fn new(device: &Device, size: Size, seed: u64) -> Result<Self, Error> {
        let Size { m, n, k } = size;
        let (a, b) = (normal::<T>(seed, 0, elements(&[m, k])?), normal::<T>(seed, 1, elements(&[k, n])?));
        Ok(Problem {
            size,
            a: Buffer::from_slice(device, &a, &[m, k])?,
            b: Buffer::from_slice(device, &b, &[k, n])?,
            c: Buffer::poisoned(device, &[m, n])?,
            on_host: [a, b],
        })
    }

    fn launch(&mut self) -> Launch<'_, matmul> {
        matmul(&self.a, &self.b, &mut self.c)
    }

    fn verify(&self) -> Result<Comparison, Error> {
        let (Size { m, n, k }, [a, b]) = (self.size, &self.on_host);
        Ok(Product::new([m, n, k], a, b, &self.c.to_vec()?).verify())
    }
}

impl Options {
    fn sizes(&self, gpu: bool) -> Vec<Size> {
        let all = |[m, n, k]: [usize; 3]| Size { m, n, k };
        match (self.size.is_empty(), gpu) {
            (false, _) => self.size.clone(),
            (true, true) => ROWS.map(|m| Size { m, n: 4096, k: 4096 }).into(),
            (true, false) => SMALL.map(all).into(),
        }
    }
}

impl Generic for Options {
    fn typed(&self) -> &Typed {
        &self.typed
    }

    /// Those of the first product: what is checked is a launch of it alone.
    fn dims(&self, gpu: bool) -> Dims {
        let first = self.sizes(gpu).into_iter().next();
        first.map(|Size { m, n, k }| vec![("M", m), ("N", n), ("K", k)]).unwrap_or_default()
    }

    fn run<T: Float>(&self, device: &Device, schedules: &[&'static dyn AnySchedule]) -> Result<bool, Error> {
        let (sizes, setup) = (self.sizes(device.is_gpu()), &self.typed.setup);
        let product = |a: usize, b: usize| (a as u128) * (b as u128);
        let bytes = sizes.iter().map(|s| product(s.m, s.k) + product(s.k, s.n) + product(s.m, s.n));
        device.check_memory(bytes.sum::<u128>() * size_of::<T>() as u128)?;
        let flops = |s: &Size| 2.0 * s.m as f64 * s.n as f64 * s.k as f64;
        let one = |schedule: &'static dyn AnySchedule| -> Result<Record, Error> {
            let problems =
                (setup.seed..).zip(&sizes).map(|(seed, size)| Problem::<T>::new(device, *size, seed));
            let mut problems = problems.collect::<Result<Vec<_>, Error>>()?;
            let launch = measure(device, || {
                grouped(problems.iter_mut().map(Problem::launch)).schedule_dyn(schedule).timed().run()
            })?;
            let verdicts = problems.iter().map(Problem::verify).collect::<Result<Vec<_>, Error>>()?;
            if self.bench && device.is_gpu() {
                let [together, apart] = times(device, schedule, &mut problems)?;
                line(format!("{}: {together:.4} ms together, {apart:.4} ms apart", schedule.name()));
            }
            let deepest = sizes.iter().max_by_key(|s| s.k).expect("a product at least");
            Ok(Record {
                schedule: schedule.name(),
                dtype: T::DTYPE.name(),
                sizes: vec![("problems", sizes.len())],
                flops: sizes.iter().map(flops).sum(),
                verdict: verdicts.into_iter().fold(Comparison::EMPTY, Comparison::merge),
                launch,
                criterion: Product::<T, T>::new([1, 1, deepest.k], &[], &[], &[]).criterion(),
            })
        };
        Ok(run_all(setup, schedules, one))
    }
}

/// Medians of the milliseconds of one launch and of a launch a product, in turn, on warm caches.
fn times<T: Float>(
    device: &Device,
    schedule: &'static dyn AnySchedule,
    problems: &mut [Problem<T>],
) -> Result<[f64; 2], Error> {
    let stream = Stream::new(device)?;
    let prepared = Prepared::<matmul>::new(device, schedule, T::DTYPE)?;
    let mut taken = [Vec::new(), Vec::new()];
    for round in 0..=ROUNDS {
        for (n, taken) in taken.iter_mut().enumerate() {
            let start = stream.timestamp()?;
            if n == 0 {
                grouped(problems.iter_mut().map(Problem::launch)).prepared(&prepared).enqueue(&stream)?;
            } else {
                for problem in &mut *problems {
                    problem.launch().prepared(&prepared).enqueue(&stream)?;
                }
            }
            let ms = stream.timestamp()?.ms_since(&start)?;
            // The first round loads the kernels.
            taken.extend(ms.filter(|_| round > 0));
        }
    }
    Ok(taken.map(|times| median(&times).unwrap_or(f64::NAN)))
}

fn main() -> ExitCode {
    run_generic::<Options>(SCHEDULES, "warptile")
}

/// Of matmul's schedules those whose tiles are not for one size alone.
const SCHEDULES: &[&dyn AnySchedule] = &[
    &product::naive,
    &product::warptile,
    &product::best,
    &product::mma_best,
    &product::tma_wgmma,
    &product::two_consumers,
    &product::wgmma_best,
    &product::tile128x256,
    &product::tile64,
];

//! One matmul program under a ladder of schedules: `cargo run --example matmul -- --schedule all`.

#[path = "../common/mod.rs"]
mod common;
mod kernel;
mod verify;

use clap::{CommandFactory, FromArgMatches, Parser, ValueEnum};
use common::{
    data::normal,
    options::{self, Common},
    report::{Record, measure, run_all},
};
use half::{bf16, f16};
use kernel::{SCHEDULES, matmul};
use std::{process::ExitCode, str::FromStr};
use tilewright::{AnySchedule, Buffer, Device, Error, prelude::Float};
use verify::Product;

/// Multiplies two random matrices, C = A·B, under one schedule or all, and verifies the result.
#[derive(Parser)]
#[command(name = "matmul", version)]
struct Options {
    /// Size M×N×K [default: 4096x4096x4096 on a GPU, 256x256x256 on the simulator]
    #[arg(long, value_name = "MxNxK")]
    size: Option<Size>,
    /// Element type of A, B and C; the accumulation is f32
    #[arg(long, value_enum, default_value = "f32")]
    dtype: TypeChoice,
    #[command(flatten)]
    common: Common,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TypeChoice {
    F32,
    F16,
    Bf16,
}

#[derive(Clone, Copy, Debug)]
struct Size {
    m: usize,
    n: usize,
    k: usize,
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected three numbers M×N×K such as 256x192x320, got `{text}`");
        let numbers: Result<Vec<usize>, _> = text.split(['x', '×']).map(|n| n.trim().parse()).collect();
        match numbers.map_err(|_| wrong())?[..] {
            [m, n, k] => Ok(Size { m, n, k }),
            _ => Err(wrong()),
        }
    }
}

impl Size {
    fn default_for(device: &Device) -> Self {
        let n = if device.is_gpu() { 4096 } else { 256 };
        Size { m: n, n, k: n }
    }

    /// Elements of A, B and C, refused before anything is allocated when they overflow.
    fn elements(self) -> Result<[usize; 3], Error> {
        let product = |x: usize, y: usize| x.checked_mul(y).ok_or(Error::SizeOverflow { shape: vec![x, y] });
        Ok([product(self.m, self.k)?, product(self.k, self.n)?, product(self.m, self.n)?])
    }
}

fn main() -> ExitCode {
    let command = options::with_schedules(Options::command(), SCHEDULES, "warptile");
    let matches = command.get_matches();
    let options = match Options::from_arg_matches(&matches) {
        Ok(options) => options,
        Err(error) => error.exit(),
    };
    if options.common.list {
        options::list(SCHEDULES);
        return ExitCode::SUCCESS;
    }
    let chosen = options::selected(&matches, SCHEDULES);
    let result = match options.dtype {
        TypeChoice::F32 => run::<f32>(&options, &chosen),
        TypeChoice::F16 => run::<f16>(&options, &chosen),
        TypeChoice::Bf16 => run::<bf16>(&options, &chosen),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

fn run<T: Float>(options: &Options, chosen: &[&'static dyn AnySchedule]) -> Result<ExitCode, Error> {
    let admitted = options::admitting(chosen, Some(T::DTYPE))?;
    if let Some(stage) = options.common.emit {
        return options::emit(&admitted, Some(T::DTYPE), stage);
    }
    let device = options.common.device.open()?;
    let size = options.size.unwrap_or_else(|| Size::default_for(&device));
    let [a_len, b_len, c_len] = size.elements()?;
    device.check_memory((a_len as u128 + b_len as u128 + c_len as u128) * size_of::<T>() as u128)?;

    let a_host = normal::<T>(options.common.seed, 0, a_len);
    let b_host = normal::<T>(options.common.seed, 1, b_len);
    let a = Buffer::from_slice(&device, &a_host, &[size.m, size.k])?;
    let b = Buffer::from_slice(&device, &b_host, &[size.k, size.n])?;
    Ok(run_all(&options.common, &admitted, |schedule| {
        // Not zeros: an element that no thread writes must not look like a result.
        let mut c = Buffer::<T>::poisoned(&device, &[size.m, size.n])?;
        let launch = measure(&device, || matmul(&a, &b, &mut c).schedule_dyn(schedule).run())?;
        let c_host = c.to_vec()?;
        let product =
            Product { m: size.m, n: size.n, k: size.k, a: &a_host, b: &b_host, c: &c_host, epilogue: None };
        Ok(Record {
            schedule: schedule.name(),
            dtype: T::DTYPE.name(),
            sizes: vec![("m", size.m), ("n", size.n), ("k", size.k)],
            flops: 2.0 * size.m as f64 * size.n as f64 * size.k as f64,
            verdict: product.verify(),
            launch,
            criterion: product.criterion(),
        })
    }))
}

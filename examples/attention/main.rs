//! Attention with a softmax that goes along with the keys: `cargo run --example attention -- --schedule all`.

#[path = "../common/mod.rs"]
mod common;
mod kernel;
mod verify;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, ValueEnum};
use common::{
    data::normal,
    options::{self, Common},
    report::{Record, judge, measure, run_all},
};
use half::{bf16, f16};
use kernel::{SCHEDULES, attention};
use std::{process::ExitCode, str::FromStr};
use tilewright::{AnySchedule, Buffer, Error, Float};
use verify::Attention;

/// Attends random queries to random keys and values under one schedule or all, and verifies the result.
#[derive(Parser)]
#[command(name = "attention", version)]
struct Options {
    /// Batch×heads×queries×keys×head dimension [default: 4x32x4096x4096x64 on a GPU, 1x2x160x100x64 on the simulator]
    #[arg(long, value_name = "BxHxMxNxD")]
    size: Option<Size>,
    /// Element type of the tensors; scores and sums are f32
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

/// Sizes of one call.
#[derive(Clone, Copy, Debug)]
struct Size {
    b: usize,
    h: usize,
    m: usize,
    n: usize,
    d: usize,
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected five numbers B×H×M×N×D such as 1x2x160x100x64, got `{text}`");
        let numbers: Result<Vec<usize>, _> = text.split(['x', '×']).map(|n| n.trim().parse()).collect();
        match numbers.map_err(|_| wrong())?[..] {
            [b, h, m, n, d] => Ok(Size { b, h, m, n, d }),
            _ => Err(wrong()),
        }
    }
}

impl Size {
    /// Elements of a tensor of so many rows a head, refused before anything is allocated when they overflow.
    fn elements(self, rows: usize) -> Result<usize, Error> {
        let shape = [self.b, self.h, rows, self.d];
        let product = shape.iter().try_fold(1usize, |p, n| p.checked_mul(*n));
        product.ok_or_else(|| Error::SizeOverflow { shape: shape.to_vec() })
    }
}

fn main() -> ExitCode {
    let command = options::with_schedules(Options::command(), SCHEDULES, &[], &[], "lanes");
    let matches = command.get_matches();
    let options = Options::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    if options.common.list {
        options::list(SCHEDULES, &[]);
        return ExitCode::SUCCESS;
    }
    let result = match options.dtype {
        TypeChoice::F32 => run::<f32>(&options, &matches),
        TypeChoice::F16 => run::<f16>(&options, &matches),
        TypeChoice::Bf16 => run::<bf16>(&options, &matches),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

fn run<T: Float>(options: &Options, matches: &ArgMatches) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let chosen = options::selected(matches, SCHEDULES, &[]);
    let chosen = options::admitting(&chosen, Some(T::DTYPE))?;
    if let Some(stage) = options.common.emit {
        options::emit(&options.common, &chosen, Some(T::DTYPE), stage)?;
        return Ok(ExitCode::SUCCESS);
    }
    let device = options.common.device.open()?;
    let size = options.size.unwrap_or(match device.is_gpu() {
        true => Size { b: 4, h: 32, m: 4096, n: 4096, d: 64 },
        false => Size { b: 1, h: 2, m: 160, n: 100, d: 64 },
    });
    let (queries, keys) = (size.elements(size.m)?, size.elements(size.n)?);
    device.check_memory((2 * queries as u128 + 2 * keys as u128) * size_of::<T>() as u128)?;
    let seed = options.common.seed;
    let (q, k, v) = (normal::<T>(seed, 0, queries), normal::<T>(seed, 1, keys), normal::<T>(seed, 2, keys));
    let shape = |rows: usize| [size.b, size.h, rows, size.d];
    let on_device = [
        Buffer::from_slice(&device, &q, &shape(size.m))?,
        Buffer::from_slice(&device, &k, &shape(size.n))?,
        Buffer::from_slice(&device, &v, &shape(size.n))?,
    ];
    let scale = 1.0 / (size.d.max(1) as f32).sqrt();
    let one = |schedule: &'static dyn AnySchedule| -> Result<Record, Error> {
        let mut o = Buffer::<T>::poisoned(&device, &shape(size.m))?;
        let [q_in, k_in, v_in] = &on_device;
        let launch = measure(&device, || {
            attention(q_in, k_in, v_in, &mut o, scale).schedule_dyn(schedule).timed().run()
        })?;
        let o = o.to_vec()?;
        let result = Attention { size, scale, q: &q, k: &k, v: &v, o: &o };
        Ok(Record {
            schedule: schedule.name(),
            dtype: T::DTYPE.name(),
            sizes: vec![("b", size.b), ("h", size.h), ("m", size.m), ("n", size.n), ("d", size.d)],
            flops: 4.0 * queries as f64 * size.n as f64,
            verdict: judge(result.checks()),
            launch,
            criterion: result.criterion(),
        })
    };
    let ok = run_all(&options.common, &chosen, one);
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

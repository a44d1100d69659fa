//! One matmul program under a ladder of schedules: `cargo run --example matmul -- --schedule all`.

mod bench;
mod choose;
#[path = "../common/mod.rs"]
mod common;
mod kernel;
mod verify;

use bench::Bench;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};
use common::{
    data::normal,
    options::{self, Common, TypeChoice, elements, size},
    output::line,
    run::run_all,
};
use half::{bf16, f16};
use kernel::{BY_SIZE, SCHEDULES, TF32, matmul, matmul_tf32};
use std::process::ExitCode;
use tile_bench::record::{Record, measure};
use tilewright::{AnySchedule, Buffer, DType, Device, Error, Kernel, LaunchReport, prelude::Float};
use verify::Product;

/// Multiplies two random matrices, C = A·B, under one schedule or all, and verifies the result.
#[derive(Parser)]
#[command(name = "matmul", version)]
struct Options {
    /// Size M×N×K, or several [default: 4096x4096x4096 on a GPU, 256x256x256 on the simulator]
    #[arg(long, value_name = "MxNxK", value_delimiter = ',')]
    size: Vec<Size>,
    /// Element type of A, B and C; the accumulation is f32
    #[arg(long, value_enum, default_value = "f32")]
    dtype: TypeChoice,
    /// Time the schedules in turn, against cuBLAS where it is installed; needs a GPU
    #[arg(long, conflicts_with = "emit")]
    bench: bool,
    /// Timed launches of each schedule under `--bench`
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(20..))]
    launches: u32,
    #[command(flatten)]
    common: Common,
}

size! { Size { m, n, k } as "M×N×K", "256x192x320" }

impl Size {
    fn cube(n: usize) -> Self {
        Size { m: n, n, k: n }
    }

    /// Floating-point operations of the product.
    pub fn flops(self) -> f64 {
        2.0 * self.m as f64 * self.n as f64 * self.k as f64
    }

    /// Elements of A, B and C, refused before anything is allocated when they overflow.
    fn elements(self) -> Result<[usize; 3], Error> {
        Ok([elements(&[self.m, self.k])?, elements(&[self.k, self.n])?, elements(&[self.m, self.n])?])
    }
}

/// Whether a schedule is of the kernel that rounds the factors to tf32.
fn is_rounded(schedule: &dyn AnySchedule) -> bool {
    schedule.kernel() == matmul_tf32::NAME
}

/// Matrices to multiply, on the host and on a device.
struct Inputs<T> {
    size: Size,
    a_host: Vec<T>,
    b_host: Vec<T>,
    a: Buffer<T>,
    b: Buffer<T>,
}

impl<T: Float> Inputs<T> {
    /// Standard normal matrices.
    fn random(device: &Device, size: Size, seed: u64) -> Result<Self, Error> {
        let [a_len, b_len, c_len] = size.elements()?;
        device.check_memory((a_len as u128 + b_len as u128 + c_len as u128) * size_of::<T>() as u128)?;
        let (a_host, b_host) = (normal::<T>(seed, 0, a_len), normal::<T>(seed, 1, b_len));
        let a = Buffer::from_slice(device, &a_host, &[size.m, size.k])?;
        let b = Buffer::from_slice(device, &b_host, &[size.k, size.n])?;
        Ok(Inputs { size, a_host, b_host, a, b })
    }

    /// C = A·B, as exactly as a schedule's kernel says.
    fn product<'a>(&'a self, c: &'a [T], rounded: bool) -> Product<'a, T> {
        let Size { m, n, k } = self.size;
        let product = Product::new([m, n, k], &self.a_host, &self.b_host, c);
        // Exact of 16-bit numbers, as `to_f64` is of all.
        let tf32: fn(&T) -> f64 = |x| f64::from(tile_dsl::op::tf32(x.to_f64() as f32));
        Product { factor: if rounded { tf32 } else { product.factor }, ..product }
    }

    /// The kernel of a schedule.
    fn multiply<'a>(
        &'a self,
        schedule: &'static dyn AnySchedule,
        c: &'a mut Buffer<T>,
    ) -> tilewright::Scheduled<'a> {
        match is_rounded(schedule) {
            true => matmul_tf32(&self.a, &self.b, c).schedule_dyn(schedule),
            false => matmul(&self.a, &self.b, c).schedule_dyn(schedule),
        }
    }

    /// Lets `run` write a poisoned C under a schedule, and verifies it.
    fn record(
        &self,
        device: &Device,
        schedule: &'static dyn AnySchedule,
        run: impl FnOnce(&mut Buffer<T>) -> Result<LaunchReport, Error>,
    ) -> Result<Record, Error> {
        // Not zeros: an element that no thread writes must not look like a result.
        let mut c = Buffer::<T>::poisoned(device, &[self.size.m, self.size.n])?;
        let launch = run(&mut c)?;
        let c = c.to_vec()?;
        let product = self.product(&c, is_rounded(schedule));
        Ok(Record {
            schedule: schedule.name(),
            dtype: T::DTYPE.name(),
            sizes: self.size.named(),
            flops: self.size.flops(),
            verdict: product.verify(),
            launch,
            criterion: product.criterion(),
        })
    }
}

fn main() -> ExitCode {
    let command =
        options::with_schedules(Options::command(), SCHEDULES, &[BY_SIZE, TF32], &RULES, "warptile")
            .after_help(AFTER_HELP);
    let matches = command.get_matches();
    let options = Options::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    if options.common.list {
        options::list(SCHEDULES, &[BY_SIZE, TF32]);
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

/// What `--schedule` calls the rules that choose one.
const RULES: [&str; 2] = [choose::NAME, choose::ATOMIC];

const AFTER_HELP: &str = "`--schedule auto-size` picks the schedule by the size, `auto-size-atomic` also among those whose rounding changes \
     from run to run: bench/src/choose.rs has the rule.\n\
     `--schedule all` is the ladder; the schedules after `mma_best` in `--list` are for sizes it does not suit, and those that \
     end in `_tf32` or `_tf32_best` are of a kernel that rounds the factors to tf32.";

/// The schedules that `--schedule` names; under `auto-size`, the one for the size.
fn schedules(
    matches: &ArgMatches,
    dtype: DType,
    size: Size,
    device: Option<&Device>,
) -> Result<Vec<&'static dyn AnySchedule>, Error> {
    let mut chosen = options::selected(matches, SCHEDULES, &[BY_SIZE, TF32]);
    for rule in RULES.into_iter().filter(|rule| options::named(matches, rule)) {
        let gpu = device.map(Device::gpu).transpose()?.flatten();
        let atomic = rule == choose::ATOMIC;
        let by_size = choose::by_size([size.m, size.n, size.k], dtype, gpu.as_ref(), atomic);
        if chosen.iter().all(|s| s.name() != by_size.name()) {
            chosen.push(by_size);
        }
    }
    options::admitting(&chosen, Some(dtype))
}

fn run<T: Float>(options: &Options, matches: &ArgMatches) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let sizes = |n| if options.size.is_empty() { vec![Size::cube(n)] } else { options.size.clone() };
    if let Some(stage) = options.common.emit {
        for size in sizes(4096) {
            let chosen = schedules(matches, T::DTYPE, size, None)?;
            options::emit(&options.common, &chosen, Some(T::DTYPE), stage)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let device = options.common.device.open()?;
    let sizes = sizes(if device.is_gpu() { 4096 } else { 256 });
    if options.bench {
        return Ok(run_bench::<T>(options, matches, &device, &sizes)?);
    }
    let mut ok = true;
    for size in sizes {
        let chosen = schedules(matches, T::DTYPE, size, Some(&device))?;
        let inputs = Inputs::<T>::random(&device, size, options.common.seed)?;
        ok &= run_all(&options.common, &chosen, |schedule| {
            inputs.record(&device, schedule, |c| {
                measure(&device, || inputs.multiply(schedule, c).timed().run())
            })
        });
    }
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_bench<T: Float>(
    options: &Options,
    matches: &ArgMatches,
    device: &Device,
    sizes: &[Size],
) -> Result<ExitCode, Error> {
    let wrong = |message: &str| {
        eprintln!("error: {message}");
        Ok(ExitCode::from(2))
    };
    if !device.is_gpu() {
        return wrong("`--bench` measures time, and the simulator claims none: it needs a GPU");
    }
    if sizes.iter().any(|s| s.m == 0 || s.n == 0) {
        return wrong("`--bench` needs something to time: M and N must be at least 1");
    }
    let bench = Bench::open(device, options.launches as usize)?;
    let mut ok = true;
    for &size in sizes {
        let chosen = schedules(matches, T::DTYPE, size, Some(device))?;
        if chosen.iter().any(|s| is_rounded(*s) != is_rounded(chosen[0])) {
            return wrong("`--bench` compares schedules of one precision: those of tf32 by themselves");
        }
        let inputs = Inputs::<T>::random(device, size, options.common.seed)?;
        let report = bench.measure(&inputs, &chosen)?;
        ok &= report.verified;
        if options.common.json {
            bench.to_json::<T>(&report, size).iter().for_each(line);
        } else {
            line(bench.to_table::<T>(&report, size));
        }
    }
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

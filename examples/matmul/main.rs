//! One matmul program under a ladder of schedules: `cargo run --example matmul -- --schedule all`.

mod bench;
mod choose;
#[path = "../common/mod.rs"]
mod common;
mod cpu;
mod f8;
mod kernel;
mod problem;
mod sweep;
mod verify;

use bench::{Bench, fastest};
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, parser::ValueSource};
use common::{
    auto::{self, AUTO, CANDIDATES},
    check::check_all,
    explain::explain_all,
    options::{self, Common, TypeChoice, elements, size},
    output::line,
    page,
    run::run_all,
};
use f8::F8;
use half::{bf16, f16};
use kernel::{self as product, BY_SIZE, SCHEDULES, TF32};
use problem::{Precision, problems};
use std::process::ExitCode;
use sweep::{RUNGS, SIDES, sweep};
use tile_bench::record::measure;
use tilewright::{AnySchedule, DType, Device, Error, prelude::Float};

/// Multiplies two random matrices, C = A·B, under one schedule or all, and verifies the result.
#[derive(Parser)]
#[command(name = "matmul", version)]
struct Options {
    /// Size M×N×K, or several [default: 4096x4096x4096 on a GPU, 256x256x256 on the simulator]
    #[arg(long, value_name = "MxNxK", value_delimiter = ',')]
    size: Vec<Size>,
    /// Element type of A, B and C, or of C where A and B are f8; the accumulation is f32
    #[arg(long, value_enum, default_value = "f32")]
    dtype: TypeChoice,
    /// Time the schedules in turn, against cuBLAS where it is installed; needs a GPU
    #[arg(long, conflicts_with_all = ["emit", "page", "check", "explain"])]
    bench: bool,
    /// Time the product in f32 at square sizes from 256 to 8192, or those of `--size`: on the CPU, and where there is a GPU
    /// the chosen schedules and cuBLAS [default: naive, shared, warptile and best]; prints CSV
    #[arg(long, conflicts_with_all = ["bench", "emit", "page", "check", "explain", "json", "dtype"])]
    sweep: bool,
    /// Timed launches of each schedule under `--bench` and `--sweep`
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(20..))]
    launches: u32,
    /// Before each timed launch, let the GPU rest N times as long as it takes: its clock is then that of a launch that comes alone
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1000), requires = "bench")]
    rest: u32,
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

/// Schedules that `--schedule all` leaves out.
const OTHERS: &[&[&dyn AnySchedule]] = &[BY_SIZE, TF32, F8];

fn main() -> ExitCode {
    let command = options::with_schedules(Options::command(), SCHEDULES, OTHERS, &RULES, "warptile")
        .after_help(AFTER_HELP);
    let matches = command.get_matches();
    let options = Options::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    if options.common.list {
        options::list(SCHEDULES, OTHERS);
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
const RULES: [&str; 5] = [choose::NAME, choose::ATOMIC, choose::TIMED, AUTO, CANDIDATES];

const AFTER_HELP: &str = "`--schedule auto-size` picks the schedule by the size, `auto-size-atomic` also among those whose rounding changes \
     from run to run: bench/src/choose.rs has the rule. `auto-timed` launches the five or so that the rule finds nearest, \
     on a GPU, and picks the fastest. `auto` is what a launch without a schedule takes, and \
     `candidates` are the five of which a tuned launch takes the quickest.\n\
     `--schedule all` is the ladder; the schedules after `wgmma_best` in `--list` are for sizes it does not suit, and those with \
     `tf32` in their name are of a kernel that rounds the factors to tf32, and those with `f8` of one that multiplies f8.";

/// The schedules that `--schedule` names; under `auto-size` and its like, the one for the size.
fn schedules<T: Float>(
    options: &Options,
    matches: &ArgMatches,
    size: Size,
    device: Option<&Device>,
) -> Result<Vec<&'static dyn AnySchedule>, Error> {
    let mut chosen = options::selected(matches, SCHEDULES, OTHERS);
    let gpu = device.map(Device::gpu).transpose()?.flatten();
    for rule in RULES.into_iter().filter(|rule| options::named(matches, rule)) {
        let extents = [size.m, size.n, size.k];
        if let (AUTO | CANDIDATES, Some(device)) = (rule, device) {
            let dims = ["M", "N", "K"].into_iter().zip(extents).collect();
            let of = options::kernels(SCHEDULES, Some(T::DTYPE));
            let most = if rule == CANDIDATES { 5 } else { 1 };
            for of in of.into_iter().take(1) {
                chosen.extend(auto::chosen(of, Some(T::DTYPE), &dims, device, most)?.0);
            }
            continue;
        }
        let by_size = match (rule, device) {
            (choose::TIMED, Some(device)) if gpu.is_some() => {
                let near = choose::near(extents, T::DTYPE, gpu.as_ref());
                fastest::<T>(device, &near, size, options.common.seed)?
            }
            _ => None,
        };
        let by_size = by_size
            .unwrap_or_else(|| choose::by_size(extents, T::DTYPE, gpu.as_ref(), rule == choose::ATOMIC));
        if chosen.iter().all(|s| s.name() != by_size.name()) {
            chosen.push(by_size);
        }
    }
    options::admitting(&chosen, Some(T::DTYPE))
}

fn run<T: Float>(options: &Options, matches: &ArgMatches) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let sizes = |n| if options.size.is_empty() { vec![Size::cube(n)] } else { options.size.clone() };
    if let Some(stage) = options.common.emit {
        for size in sizes(4096) {
            let chosen = schedules::<T>(options, matches, size, None)?;
            options::emit(&options.common, &chosen, Some(T::DTYPE), stage)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if options.common.explain {
        // A derivation is of all sizes; a rule that chooses by size may name others for another one.
        let mut chosen: Vec<&'static dyn AnySchedule> = Vec::new();
        for size in sizes(4096) {
            let more = schedules::<T>(options, matches, size, None)?;
            chosen.extend(
                more.into_iter().filter(|s| chosen.iter().all(|c| c.name() != s.name())).collect::<Vec<_>>(),
            );
        }
        return explain_all(&options.common, &chosen, Some(T::DTYPE));
    }
    if options.common.check {
        let mut status = ExitCode::SUCCESS;
        for size in sizes(4096) {
            let chosen = schedules::<T>(options, matches, size, None)?;
            let dims = [("M", size.m), ("N", size.n), ("K", size.k)];
            status = check_all(&options.common, &chosen, Some(T::DTYPE), &dims)?;
        }
        return Ok(status);
    }
    let device = options.common.open()?;
    if options.sweep {
        return Ok(run_sweep(options, matches, &device)?);
    }
    let sizes = sizes(if device.is_gpu() { 4096 } else { 256 });
    if options.bench {
        return Ok(run_bench::<T>(options, matches, &device, &sizes)?);
    }
    let mut ok = true;
    for size in sizes {
        let chosen = schedules::<T>(options, matches, size, Some(&device))?;
        let chosen = page::chosen(&options.common, chosen, Some(T::DTYPE))?;
        let problems = problems::<T>(&device, &chosen, size, options.common.seed)?;
        ok &= run_all(&options.common, &chosen, |schedule| {
            let problem = problems.of(schedule);
            problem::record(problem, &device, schedule, |c| {
                measure(&device, || problem.multiply(schedule, c).timed().run())
            })
        });
    }
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Says that the options do not go together.
fn wrong(message: &str) -> Result<ExitCode, Error> {
    eprintln!("error: {message}");
    Ok(ExitCode::from(2))
}

/// `--sweep`.
fn run_sweep(options: &Options, matches: &ArgMatches, device: &Device) -> Result<ExitCode, Error> {
    let sizes = match &options.size[..] {
        [] => SIDES.map(Size::cube).to_vec(),
        sizes => sizes.to_vec(),
    };
    if sizes.iter().any(|s| [s.m, s.n, s.k].contains(&0)) {
        return wrong("`--sweep` needs something to time: M, N and K must be at least 1");
    }
    let chosen = match matches.value_source("schedule") {
        Some(ValueSource::DefaultValue) => {
            SCHEDULES.iter().copied().filter(|s| RUNGS.contains(&s.name())).collect()
        }
        _ => options::selected(matches, SCHEDULES, &[BY_SIZE]),
    };
    let chosen = options::admitting(&chosen, Some(DType::F32))?;
    if chosen.is_empty() {
        return wrong("`--sweep` times schedules of f32, by name");
    }
    let bench = device.is_gpu().then(|| Bench::open(device, options.launches as usize, 0)).transpose()?;
    let ok = sweep(bench.as_ref().map(|bench| (device, bench)), &chosen, &sizes, options.common.seed)?;
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_bench<T: Float>(
    options: &Options,
    matches: &ArgMatches,
    device: &Device,
    sizes: &[Size],
) -> Result<ExitCode, Error> {
    if !device.is_gpu() {
        return wrong("`--bench` measures time, and the simulator claims none: it needs a GPU");
    }
    if sizes.iter().any(|s| s.m == 0 || s.n == 0) {
        return wrong("`--bench` needs something to time: M and N must be at least 1");
    }
    let bench = Bench::open(device, options.launches as usize, options.rest)?;
    let mut ok = true;
    for &size in sizes {
        let chosen = schedules::<T>(options, matches, size, Some(device))?;
        if chosen.iter().any(|s| Precision::of(*s) != Precision::of(chosen[0])) {
            return wrong(
                "`--bench` compares schedules of one precision: those of tf32 by themselves, and of f8",
            );
        }
        let problems = problems::<T>(device, &chosen, size, options.common.seed)?;
        let report = bench.measure(problems.of(chosen[0]), &chosen)?;
        ok &= report.verified;
        if options.common.json {
            bench.to_json::<T>(&report, size).iter().for_each(line);
        } else {
            line(bench.to_table::<T>(&report, size));
        }
    }
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

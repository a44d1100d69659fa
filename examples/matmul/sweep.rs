//! `--sweep`: one product at growing sizes, on the CPU and on the GPU, as CSV for `examples/plots`.
//!
//! ```sh
//! cargo run --release --example matmul -- --sweep > docs/measurements/h100-sweep.csv
//! cargo run --example plots -- sweep docs/book/src/pictures/sweep.svg
//! ```
//!
//! The GPU's contenders are measured as under `--bench`. The CPU's product is timed by the clock on the wall, after the same
//! rounds to warm up, while the GPU rests.

use crate::{
    Size,
    bench::Bench,
    common::{data::normal, output::line},
    cpu,
    problem::problems,
    verify::Product,
};
use serde_json::Value;
use std::{
    convert::Infallible,
    fs,
    process::Command,
    time::{Duration, Instant},
};
use tile_bench::{Rounds, stats::median};
use tilewright::{AnySchedule, Device, Error, verify::Comparison};

/// Sides of the products, where none are asked for.
pub const SIDES: [usize; 6] = [256, 512, 1024, 2048, 4096, 8192];
/// The schedules, where none are asked for.
pub const RUNGS: [&str; 4] = ["naive", "shared", "warptile", "best"];
/// What is measured, in the order of [`Row`].
const HEADER: &str = "date,device,driver,cpu,size,contender,ms,gflops,distribution";
/// Rounds of the CPU's product.
const ROUNDS: Rounds = Rounds { warm_up: 1, least: 5, most: 50, lasting: Duration::from_millis(250) };

/// A contender at a size: a line of the CSV.
struct Row<'a> {
    /// The GPU and its driver; empty for the CPU's product.
    gpu: [&'a str; 2],
    /// The CPU and its threads; empty for the GPU's products.
    cpu: &'a str,
    size: Size,
    contender: &'a str,
    ms: f64,
}

impl Row<'_> {
    /// Its text, on a day.
    fn csv(&self, date: &str) -> String {
        let Row { gpu: [device, driver], cpu, size: Size { m, n, k }, contender, ms } = self;
        let gflops = self.size.flops() / ms / 1e6;
        format!("{date},{device},{driver},{cpu},{m}x{n}x{k},{contender},{ms:.4},{gflops:.1},standard normal")
    }
}

/// Prints the lines of all sizes; `bench` is the GPU, if there is one. Whether every product was right.
///
/// # Errors
/// The driver's, cuBLAS's, and where there is no room for the matrices.
pub fn sweep(
    bench: Option<(&Device, &Bench)>,
    schedules: &[&'static dyn AnySchedule],
    sizes: &[Size],
    seed: u64,
) -> Result<bool, Error> {
    let (date, processor) = (date(), processor());
    if bench.is_none() {
        eprintln!("no GPU: the product on the CPU alone");
    }
    let mut ok = true;
    line(HEADER);
    for &size in sizes {
        let (ms, verdict) = on_cpu(size, seed)?;
        ok &= verdict.verified();
        if !verdict.verified() {
            eprintln!("error: {}: the product is wrong", cpu::NAME);
        }
        let row = Row { gpu: ["", ""], cpu: &processor, size, contender: cpu::NAME, ms };
        line(row.csv(&date));
        let Some((device, bench)) = bench else { continue };
        let problems = problems::<f32>(device, schedules, size, seed)?;
        let report = bench.measure(problems.of(schedules[0]), schedules)?;
        ok &= report.verified;
        on_gpu(&bench.to_json::<f32>(&report, size), size, |row| line(row.csv(&date)));
    }
    Ok(ok)
}

/// Milliseconds of the CPU's product, and whether it is right.
fn on_cpu(size: Size, seed: u64) -> Result<(f64, Comparison), Error> {
    let [a, b, c] = size.elements()?;
    let (a, b, mut c) = (normal(seed, 0, a), normal(seed, 1, b), vec![f32::NAN; c]);
    let played = ROUNDS.play(1, |_| {
        let start = Instant::now();
        cpu::multiply(size, &a, &b, &mut c);
        Ok::<_, Infallible>(Some(1e3 * start.elapsed().as_secs_f64()))
    });
    let Ok(played) = played;
    let ms = median(&played.times[0]).expect("five rounds at least");
    Ok((ms, Product::new([size.m, size.n, size.k], &a, &b, &c).verify()))
}

/// Hands on the rows of what was measured, cuBLAS's last, with its version.
fn on_gpu(lines: &[Value], size: Size, mut row: impl FnMut(Row<'_>)) {
    let text = |line: &'static str| lines.first().and_then(|l| l[line].as_str()).unwrap_or_default();
    let gpu = [text("device"), text("driver")];
    for line in lines {
        if let (Some(contender), Some(ms)) = (line["schedule"].as_str(), line["time_ms"].as_f64()) {
            row(Row { gpu, cpu: "", size, contender, ms });
        }
    }
    if let Some(rate) = lines.first().and_then(|line| line["cublas_tflops"].as_f64()) {
        let contender = format!("cuBLAS {}", text("cublas"));
        row(Row { gpu, cpu: "", size, contender: &contender, ms: size.flops() / rate / 1e9 });
    }
}

/// The CPU by its name, and how many threads multiply on it.
fn processor() -> String {
    let about = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = about.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let name = name.map_or("unknown CPU", |(_, name)| name.trim()).replace(',', " ");
    format!("{name} ({} threads)", rayon::current_num_threads())
}

/// Today in UTC, as `date` has it; empty where there is no such program.
fn date() -> String {
    let output = Command::new("date").args(["-u", "+%F"]).output();
    output.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_string()).unwrap_or_default()
}

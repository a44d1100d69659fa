//! The ladder of the matmul example as a table and a plot: measurements of a GPU beside predictions made without one.
//!
//! ```sh
//! cargo run --release --example matmul -- --bench --schedule all --json > ladder.jsonl     # on a GPU
//! cargo run --release --example ladder -- ladder.jsonl --svg docs/ladder.svg               # anywhere
//! ```
//!
//! `--tensor-cores` draws the ladder of bf16 below. The second line needs `ptxas` and `nvdisasm` (`scripts/ptxas.sh --path`). Measurements of other sizes in the same file
//! become a second table: cuBLAS, the fastest schedule, and what the size rule picks.

#[allow(dead_code)] // nothing is timed here
#[path = "../matmul/choose.rs"]
mod choose;
#[path = "../common/mod.rs"]
mod common;
#[path = "../matmul/kernel.rs"]
mod kernel;
mod plot;

use clap::Parser;
use common::{data::normal, output::line};
use kernel::{BY_SIZE, SCHEDULES, matmul};
use plot::{Bar, Panel};
use serde_json::Value;
use std::{
    error::Error,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};
use tile_bench::{
    Machine,
    peak::fma_per_cycle,
    roofline::{Gpu, Prediction, Work, predict},
};
use tile_dsl::program::Program;
use tilewright::{AnySchedule, Buffer, DType, Device, GpuInfo, Variant};

/// Draws measurements of the ladder beside predictions from the simulator's counts.
#[derive(Parser)]
#[command(name = "ladder", version)]
struct Options {
    /// JSON lines of `matmul --bench --json`; those of f32 are used
    measurements: PathBuf,
    /// Size of the ladder
    #[arg(long, value_name = "MxNxK", default_value = "4096x4096x4096")]
    size: String,
    /// JSON lines of the ladder on tensor cores: those of bf16 at the ladder's size are drawn below, without predictions
    #[arg(long, value_name = "MEASUREMENTS")]
    tensor_cores: Option<PathBuf>,
    /// Where to write the plot
    #[arg(long)]
    svg: Option<PathBuf>,
    /// Markdown file in which to replace what is between `<!-- ladder -->` and `<!-- /ladder -->`, and between
    /// `<!-- sizes -->` and `<!-- /sizes -->`, instead of printing the tables
    #[arg(long)]
    doc: Option<PathBuf>,
}

/// A schedule, measured and predicted; rates in TFLOP/s.
struct Rung {
    schedule: String,
    measured: f64,
    predicted: f64,
    cublas: Option<f64>,
    bound: &'static str,
    line: Value,
}

/// Side of the square that the simulator computes, and the two depths: multiples of every tile here.
const SIDE: usize = 256;
const DEPTHS: [usize; 2] = [256, 512];

fn main() -> ExitCode {
    match draw(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn draw(options: &Options) -> Result<(), Box<dyn Error>> {
    let lines = read(&options.measurements)?;
    let f32_lines: Vec<Value> = lines.into_iter().filter(|l| l["dtype"] == "f32").collect();
    let of_size = |l: &&Value| size(l) == options.size;
    let rungs = f32_lines.iter().filter(of_size).cloned().map(rung).collect::<Result<Vec<_>, _>>()?;
    let Some(first) = rungs.first() else {
        return Err(format!("no line is of f32 at {}", options.size).into());
    };
    let device = first.line["device"].as_str().unwrap_or("GPU");
    let title = format!("{} f32 on an {device}", options.size.replace('x', "×"));
    if let Some(path) = &options.svg {
        let bars = rungs.iter().map(|r| Bar {
            schedule: r.schedule.clone(),
            measured: r.measured,
            predicted: Some(r.predicted),
        });
        let cublas = rungs.iter().find_map(|r| r.cublas);
        let mut panels = vec![Panel { title, dtype: "f32".into(), bars: bars.collect(), cublas }];
        if let Some(measurements) = &options.tensor_cores {
            panels.push(tensor_cores(&read(measurements)?, &options.size)?);
        }
        plot::draw(path, &panels)?;
    }
    for (name, table) in [("ladder", table(&rungs)), ("sizes", sizes(&f32_lines))] {
        match &options.doc {
            Some(path) => replace(path, name, &table)?,
            None => line(table),
        }
    }
    Ok(())
}

/// The lines of a file of measurements.
fn read(path: &Path) -> Result<Vec<Value>, Box<dyn Error>> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// The ladder on tensor cores, as measured: its first lines of bf16 at a size.
fn tensor_cores(lines: &[Value], of: &str) -> Result<Panel, Box<dyn Error>> {
    let mut panel = Panel { title: String::new(), dtype: "bf16".into(), bars: vec![], cublas: None };
    for line in lines.iter().filter(|l| l["dtype"] == "bf16" && size(l) == of) {
        let schedule = line["schedule"].as_str().unwrap_or_default();
        let rung = SCHEDULES.iter().any(|s| s.name() == schedule);
        if !rung || panel.bars.iter().any(|bar| bar.schedule == schedule) {
            continue;
        }
        let measured = line["tflops"].as_f64().ok_or_else(|| format!("a line lacks `tflops`: {line}"))?;
        panel.bars.push(Bar { schedule: schedule.into(), measured, predicted: None });
        panel.cublas = panel.cublas.or(line["cublas_tflops"].as_f64());
        let device = line["device"].as_str().unwrap_or("GPU");
        panel.title = format!("{} bf16 on tensor cores of an {device}", of.replace('x', "×"));
    }
    if panel.bars.is_empty() {
        return Err(format!("no line is of bf16 at {of}").into());
    }
    Ok(panel)
}

/// The size of a line as `256x192x320`.
fn size(line: &Value) -> String {
    format!("{}x{}x{}", line["m"], line["n"], line["k"])
}

/// Predicts the schedule of a measured line.
fn rung(line: Value) -> Result<Rung, Box<dyn Error>> {
    let number = |key: &str| line[key].as_f64().ok_or_else(|| format!("a line lacks `{key}`: {line}"));
    let name = line["schedule"].as_str().unwrap_or_default();
    let schedule = *SCHEDULES
        .iter()
        .chain(BY_SIZE)
        .find(|s| s.name() == name)
        .ok_or_else(|| format!("there is no schedule `{name}` any more: measure again"))?;
    let (m, n, k) = (number("m")? as usize, number("n")? as usize, number("k")? as usize);
    if m % SIDE != 0 || n % SIDE != 0 || k % DEPTHS[0] != 0 {
        return Err(format!("predictions are for sizes that are multiples of {SIDE}").into());
    }
    let sm = number("sm")? as u32;
    let gpu = Gpu {
        multiprocessors: number("multiprocessors")?,
        clock_hz: 1e6 * number("sm_clock_mhz").or_else(|_| number("max_clock_mhz"))?,
        fma_lanes: fma_per_cycle(sm, DType::F32).ok_or("the GPU's f32 rate is not published")?.into(),
        // Data sheet of the H200.
        dram: if line["device"] == "NVIDIA H200" { 4.8e12 } else { 0.0 },
    };
    let [first, second] = DEPTHS.map(|depth| count(schedule, depth).map(|work| (depth, work)));
    let squares = (m / SIDE * (n / SIDE)) as f64;
    let mut work = Work::at_depth(first?, second?, k).times(squares);
    work.bytes = work.bytes.min(tile_bytes(schedule, m, n, k)?);
    let machine = Machine::of(schedule, Some(DType::F32), Variant::Exact, Some(format!("sm_{sm}")))?;
    let compulsory = 4.0 * (m * k + k * n + m * n) as f64;
    let issued = work.fma / machine.resources.hot.fma_share();
    let Prediction { bound, seconds } = predict(&gpu, &work, issued, compulsory);
    Ok(Rung {
        schedule: name.to_string(),
        measured: number("tflops")?,
        predicted: 2.0 * (m * n) as f64 * k as f64 / seconds / 1e12,
        cublas: line["cublas_tflops"].as_f64(),
        bound,
        line,
    })
}

/// Counts a square of C on the simulator.
fn count(schedule: &'static dyn AnySchedule, k: usize) -> Result<Work, Box<dyn Error>> {
    let device = Device::sim();
    let a = Buffer::from_slice(&device, &normal::<f32>(1, 0, SIDE * k), &[SIDE, k])?;
    let b = Buffer::from_slice(&device, &normal::<f32>(1, 1, k * SIDE), &[k, SIDE])?;
    let mut c = Buffer::<f32>::poisoned(&device, &[SIDE, SIDE])?;
    let report = matmul(&a, &b, &mut c).schedule_dyn(schedule).variant(Variant::Exact).run()?;
    let counters = report.counters.ok_or("the simulator counts")?;
    Ok(Work::counted(&counters))
}

/// Bytes that all CTAs need: each its tiles of A and B once (what it loads again comes from L1), and C.
fn tile_bytes(schedule: &dyn AnySchedule, m: usize, n: usize, k: usize) -> Result<f64, Box<dyn Error>> {
    let program = Program::from_bytes(schedule.program(Some(DType::F32)).ok_or("f32 is not admitted")?)?;
    let kernel = tile_dsl::lower::lower(&program, Variant::Exact).map_err(|e| e.to_string())?;
    let tiles: Vec<f64> = kernel.grid.iter().map(|axis| f64::from(axis.tile)).collect();
    let [rows, columns, ..] = tiles[..] else { return Err("a grid of two axes".into()) };
    let ctas = m as f64 / rows * n as f64 / columns;
    Ok(4.0 * (ctas * (rows + columns) * k as f64 + (m * n) as f64))
}

/// The ladder in Markdown.
fn table(rungs: &[Rung]) -> String {
    let line = &rungs[0].line;
    let text = |key: &str| line[key].as_str().unwrap_or("unknown").to_string();
    let number = |line: &Value, key: &str, digits: usize| match line[key].as_f64() {
        Some(x) => format!("{x:.digits$}"),
        None => "–".into(),
    };
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{} · driver {} · cuBLAS {} · SM clock {} MHz · {} data · L2 {} · {} launches each, interleaved, median\n",
        text("device"),
        text("driver"),
        text("cublas"),
        number(line, "sm_clock_mhz", 0),
        text("distribution"),
        text("l2"),
        line["launches"]
    );
    // In one line: Markdown tables have no other.
    out += "| schedule | ms | TFLOP/s | predicted | bound by | measured / predicted | of cuBLAS | step, paired | step, predicted | % of peak | registers | spilled B | shared B |\n";
    out += "|---|---:|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|\n";
    for (i, r) in rungs.iter().enumerate() {
        let step =
            i.checked_sub(1).map_or("–".into(), |p| format!("{:.2}×", r.predicted / rungs[p].predicted));
        let paired = r.line["ratio_to_previous"].as_f64().map_or("–".into(), |x| format!("{x:.2}×"));
        let _ = writeln!(
            out,
            "| {} | {} | {:.2} | {:.1} | {} | {:.2} | {} | {paired} | {step} | {} | {} | {} | {} |",
            r.schedule,
            number(&r.line, "time_ms", 3),
            r.measured,
            r.predicted,
            r.bound,
            r.measured / r.predicted,
            number(&r.line, "ratio", 3),
            number(&r.line, "percent_of_peak", 1),
            number(&r.line, "registers", 0),
            number(&r.line, "spills", 0),
            number(&r.line, "shared_bytes", 0),
        );
    }
    out
}

/// Every size measured, in Markdown: cuBLAS, the fastest schedule, those of the size rules.
fn sizes(lines: &[Value]) -> String {
    let rate = |line: &Value, key: &str| line[key].as_f64().unwrap_or(f64::NAN);
    let mut names: Vec<String> = Vec::new();
    for line in lines {
        if !names.contains(&size(line)) {
            names.push(size(line));
        }
    }
    let mut out = "| size | cuBLAS | fastest | TFLOP/s | of cuBLAS".to_string();
    for rule in [choose::NAME, choose::ATOMIC] {
        let _ = write!(out, " | `{rule}` picks | TFLOP/s | of cuBLAS");
    }
    out += " |\n|---|---:|---|---:|---:|---|---:|---:|---|---:|---:|\n";
    for name in names {
        let of_size: Vec<&Value> = lines.iter().filter(|l| size(l) == name).collect();
        let [m, n, k] = ["m", "n", "k"].map(|key| of_size[0][key].as_u64().unwrap_or(0) as usize);
        let gpu = GpuInfo {
            name: String::new(),
            sm: rate(of_size[0], "sm") as u32,
            multiprocessors: rate(of_size[0], "multiprocessors") as u32,
            l2_bytes: 0,
            max_clock_mhz: rate(of_size[0], "max_clock_mhz"),
            // No record has it, and no prediction asks for it.
            memory_gbps: 0.0,
            cuda_version: (0, 0),
            pci_bus_id: String::new(),
        };
        let picked =
            [false, true].map(|atomic| choose::by_size([m, n, k], DType::F32, Some(&gpu), atomic).name());
        let fastest = of_size.iter().max_by(|a, b| rate(a, "tflops").total_cmp(&rate(b, "tflops")));
        let measured = |picked: &str| of_size.iter().find(|l| l["schedule"] == picked);
        let cells = |picked: &str, line: Option<&&Value>| match line {
            Some(l) => {
                let schedule = l["schedule"].as_str().unwrap_or("–");
                format!("{schedule} | {:.2} | {:.3}", rate(l, "tflops"), rate(l, "ratio"))
            }
            None => format!("{picked} | not measured | –"),
        };
        let _ = writeln!(
            out,
            "| {} | {:.2} | {} | {} | {} |",
            name.replace('x', "×"),
            rate(of_size[0], "cublas_tflops"),
            cells("–", fastest),
            cells(picked[0], measured(picked[0])),
            cells(picked[1], measured(picked[1]))
        );
    }
    out
}

/// Replaces what is between the markers of a name.
fn replace(path: &Path, name: &str, table: &str) -> Result<(), Box<dyn Error>> {
    let (open, close) = (format!("<!-- {name} -->"), format!("<!-- /{name} -->"));
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let around = text.split_once(&open).and_then(|(before, rest)| Some((before, rest.split_once(&close)?.1)));
    let (before, after) = around.ok_or_else(|| format!("{} lacks {open} and {close}", path.display()))?;
    fs::write(path, format!("{before}{open}\n{table}{close}{after}"))?;
    Ok(())
}

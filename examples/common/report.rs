//! Runs a list of schedules and reports each: a table, or one JSON object a line.

use super::{options::Common, table::aligned};
use indicatif::{ProgressBar, ProgressStyle};
use ptx_sim::{Access, Counters, InstClass};
use serde_json::{Map, Value, json};
use std::time::Duration;
use tilewright::{AnySchedule, Device, LaunchReport, verify::Comparison};

/// Judges (result, reference, bound) triples. A NaN or an infinity out of place is never verified.
pub fn judge(checks: impl IntoIterator<Item = (f64, f64, f64)>) -> Comparison {
    let mut verdict = Comparison::EMPTY;
    for (position, (result, reference, bound)) in checks.into_iter().enumerate() {
        verdict.element(position, result, reference, bound);
    }
    verdict
}

/// Launches once on the simulator; on a GPU once to warm up and then ten times, reporting the median time.
pub fn measure(
    device: &Device,
    mut launch: impl FnMut() -> Result<LaunchReport, tilewright::Error>,
) -> Result<LaunchReport, tilewright::Error> {
    let mut report = launch()?;
    if device.is_gpu() {
        let mut times =
            (0..10).map(|_| Ok(launch()?.time_ms)).collect::<Result<Vec<_>, tilewright::Error>>()?;
        times.sort_by(|a, b| a.partial_cmp(b).expect("times are numbers"));
        report.time_ms = times[times.len() / 2];
    }
    Ok(report)
}

/// One run.
pub struct Record {
    pub schedule: &'static str,
    pub dtype: &'static str,
    /// Sizes by name, for example `m`, `n`, `k`.
    pub sizes: Vec<(&'static str, usize)>,
    /// Useful floating-point operations.
    pub flops: f64,
    pub verdict: Comparison,
    pub launch: LaunchReport,
    /// What `verified` means, for the reader of the table.
    pub criterion: String,
}

impl Record {
    /// 10¹² useful floating-point operations a second.
    pub fn tflops(&self) -> Option<f64> {
        self.launch.time_ms.map(|ms| self.flops / ms / 1e9)
    }

    /// Sizes as `256×192×320`.
    pub fn size(&self) -> String {
        self.sizes.iter().map(|(_, n)| n.to_string()).collect::<Vec<_>>().join("×")
    }

    /// One JSON object; unknown values are null.
    pub fn to_json(&self) -> Value {
        let mut o = Map::new();
        o.insert("schedule".into(), json!(self.schedule));
        o.insert("dtype".into(), json!(self.dtype));
        for (name, n) in &self.sizes {
            o.insert((*name).into(), json!(n));
        }
        o.insert("device".into(), json!(&*self.launch.device));
        o.insert("variant".into(), json!(self.launch.variant.map(|v| v.to_string())));
        o.insert("verified".into(), json!(self.verdict.verified()));
        o.insert("max_rel_error".into(), finite(self.verdict.max_rel_error));
        o.insert("error_bound_ratio".into(), finite(self.verdict.error_bound_ratio));
        o.insert("time_ms".into(), json!(self.launch.time_ms));
        o.insert("tflops".into(), json!(self.tflops()));
        o.insert("counters".into(), json!(self.launch.counters));
        o.into()
    }
}

/// JSON has no infinities.
fn finite(x: f64) -> Value {
    if x.is_finite() { json!(x) } else { Value::Null }
}

/// A progress bar over the runs when a terminal is attached, hidden otherwise.
fn progress(runs: usize, json: bool) -> ProgressBar {
    if runs < 2 || json {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:24} {pos}/{len} {msg}").expect("a constant template");
    ProgressBar::new(runs as u64).with_style(style)
}

/// Runs every schedule, prints each result, and returns whether all of them verified.
///
/// An error of one schedule is printed and the others still run.
pub fn run_all(
    common: &Common,
    schedules: &[&'static dyn AnySchedule],
    run: impl Fn(&'static dyn AnySchedule) -> Result<Record, tilewright::Error>,
) -> bool {
    let bar = progress(schedules.len(), common.json);
    bar.enable_steady_tick(Duration::from_millis(200));
    let mut records = Vec::new();
    let mut ok = true;
    for &schedule in schedules {
        bar.set_message(schedule.name());
        match run(schedule) {
            Ok(record) => {
                ok &= record.verdict.verified() && record.launch.findings.is_empty();
                if common.json {
                    println!("{}", record.to_json());
                }
                records.push(record);
            }
            Err(error) => {
                ok = false;
                bar.suspend(|| eprintln!("error: {}: {error}", schedule.name()));
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    if !common.json && !records.is_empty() {
        print_table(&records);
    }
    ok
}

fn print_table(records: &[Record]) {
    println!("{} · {} · {}", records[0].launch.device, records[0].dtype, records[0].size());
    let simulated = records.iter().any(|r| r.launch.counters.is_some());
    let mut rows = vec![header(simulated)];
    rows.extend(records.iter().map(|r| row(r, simulated)));
    print!("{}", aligned(&rows, 3));
    println!("verified: {}", records[0].criterion);
    for r in records {
        for finding in &r.launch.findings {
            println!("{}: {finding}", r.schedule);
        }
    }
}

fn header(simulated: bool) -> Vec<String> {
    let mut h = vec!["schedule", "variant", "verified", "error/bound"];
    h.extend(if simulated {
        &["sectors/req by buffer", "global bytes", "shared wavefronts/FMA", "barriers/CTA", "instr/FMA"][..]
    } else {
        &["ms", "TFLOP/s"][..]
    });
    h.into_iter().map(String::from).collect()
}

fn row(r: &Record, simulated: bool) -> Vec<String> {
    let mut row = vec![
        r.schedule.to_string(),
        r.launch.variant.map(|v| v.to_string()).unwrap_or_else(|| "nothing to do".into()),
        if r.verdict.verified() { "yes".into() } else { "NO".into() },
        format!("{:.3}", r.verdict.error_bound_ratio),
    ];
    if simulated {
        row.extend(r.launch.counters.as_ref().map(counter_cells).unwrap_or_else(|| vec!["-".into(); 5]));
    } else {
        row.push(r.launch.time_ms.map(|t| format!("{t:.3}")).unwrap_or_else(|| "-".into()));
        row.push(r.tflops().map(|t| format!("{t:.2}")).unwrap_or_else(|| "-".into()));
    }
    row
}

/// The counters that tell why one schedule is faster than another.
fn counter_cells(c: &Counters) -> Vec<String> {
    let sectors: Vec<String> = c
        .buffers
        .iter()
        .map(|b| {
            let arrow = if b.access == Access::Load { "" } else { "→" };
            format!("{arrow}{} {:.1}", b.buffer, b.count.sectors_per_request())
        })
        .collect();
    let fma = c.class(InstClass::Fma).warp;
    let per_fma = |n: u64| if fma == 0 { "-".to_string() } else { format!("{:.3}", n as f64 / fma as f64) };
    vec![
        sectors.join(", "),
        bytes(c.global_load.bytes + c.global_store.bytes),
        per_fma(c.shared_load.wavefronts + c.shared_store.wavefronts),
        format!("{:.0}", c.barriers_per_cta),
        per_fma(c.instructions.warp),
    ]
}

fn bytes(n: u64) -> String {
    let (mut value, mut unit) = (n as f64, "B");
    for next in ["KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    format!("{value:.1} {unit}")
}

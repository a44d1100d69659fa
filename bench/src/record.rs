//! A verified run of a schedule, as JSON and as a line of a table.

use crate::table::aligned;
use ptx_sim::{Access, Counters, GlobalCount, InstClass};
use serde_json::{Map, Value, json};
use tile_runtime::{Device, Error, LaunchReport, verify::Comparison};

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
    mut launch: impl FnMut() -> Result<LaunchReport, Error>,
) -> Result<LaunchReport, Error> {
    let mut report = launch()?;
    if device.is_gpu() {
        let mut times = (0..10).map(|_| Ok(launch()?.time_ms)).collect::<Result<Vec<_>, Error>>()?;
        times.sort_by(|a, b| a.partial_cmp(b).expect("times are numbers"));
        report.time_ms = times[times.len() / 2];
    }
    Ok(report)
}

/// One run.
#[derive(Clone, Debug)]
pub struct Record {
    /// Name of the schedule.
    pub schedule: &'static str,
    /// Element type of the tensors.
    pub dtype: &'static str,
    /// Sizes by name, for example `m`, `n`, `k`.
    pub sizes: Vec<(&'static str, usize)>,
    /// Useful floating-point operations.
    pub flops: f64,
    /// How the result compares with the reference.
    pub verdict: Comparison,
    /// What the launch reported.
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

/// The runs as a table with what `verified` means and what the simulator found below; all of one device, type and size.
pub fn table(records: &[Record]) -> String {
    let Some(first) = records.first() else { return String::new() };
    let simulated = records.iter().any(|r| r.launch.counters.is_some());
    let mut rows = vec![header(simulated)];
    rows.extend(records.iter().map(|r| row(r, simulated)));
    let mut text = format!("{} · {} · {}\n", first.launch.device, first.dtype, first.size());
    text += &aligned(&rows, 3);
    text += &format!("verified: {}\n", first.criterion);
    for r in records {
        for outside in &r.launch.outside {
            text += &format!("{}: {outside}\n", r.schedule);
        }
        for finding in &r.launch.findings {
            text += &format!("{}: {finding}\n", r.schedule);
        }
    }
    text
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
    // The problems of a group have buffers of the same names.
    let mut buffers: Vec<(String, GlobalCount)> = Vec::new();
    for b in &c.buffers {
        let name = format!("{}{}", if b.access == Access::Load { "" } else { "→" }, b.buffer);
        match buffers.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => {
                count.requests += b.count.requests;
                count.sectors += b.count.sectors;
            }
            None => buffers.push((name, b.count)),
        }
    }
    let sectors: Vec<String> =
        buffers.iter().map(|(name, count)| format!("{name} {:.1}", count.sectors_per_request())).collect();
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

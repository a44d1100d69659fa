//! The figures of a benchmark, as JSON and as cells of a table.

use crate::stats::{median, paired_ratio, quantile};
use serde_json::{Value, json};

/// Milliseconds of the launches of one contender, and of what it is compared with in the same rounds.
#[derive(Clone, Copy, Debug)]
pub struct Figures<'a> {
    /// Of its launches.
    pub times: &'a [f64],
    /// Of cuBLAS's launches; empty where it is not installed.
    pub cublas: &'a [f64],
    /// Of the schedule before it.
    pub previous: Option<&'a [f64]>,
    /// Useful floating-point operations.
    pub flops: f64,
    /// FLOP/s that the GPU can do.
    pub peak: Option<f64>,
}

/// 10¹² floating-point operations a second.
pub fn tflops(flops: f64, ms: f64) -> f64 {
    flops / ms / 1e9
}

/// What part of a peak in FLOP/s a rate in TFLOP/s is, in percent.
pub fn percent(tflops: f64, peak: f64) -> f64 {
    100.0 * tflops * 1e12 / peak
}

impl Figures<'_> {
    /// Keys and values; unknown values are null.
    pub fn json(&self) -> Vec<(&'static str, Value)> {
        let (time, cublas) = (median(self.times), median(self.cublas));
        let rate = |ms: Option<f64>| ms.map(|ms| tflops(self.flops, ms));
        vec![
            ("time_ms", json!(time)),
            ("time_ms_quartiles", json!([quantile(self.times, 0.25), quantile(self.times, 0.75)])),
            ("launches", json!(self.times.len())),
            ("tflops", json!(rate(time))),
            ("cublas_tflops", json!(rate(cublas))),
            ("ratio", json!(cublas.zip(time).map(|(cublas, time)| cublas / time))),
            ("ratio_to_previous", json!(self.previous.and_then(|p| paired_ratio(p, self.times)))),
            ("percent_of_peak", json!(rate(time).zip(self.peak).map(|(rate, peak)| percent(rate, peak)))),
        ]
    }
}

/// Heads of the columns that [`row`] fills.
pub const HEADER: [&str; 13] = [
    "schedule",
    "variant",
    "verified",
    "ms",
    "TFLOP/s",
    "of cuBLAS",
    "of previous",
    "% of peak",
    "registers",
    "spilled B",
    "shared B",
    "CTAs/SM",
    "quartiles ms",
];

/// A line of JSON as cells of a table; `-` for what is not known.
pub fn row(line: &Value) -> Vec<String> {
    let number = |value: &Value, digits: usize| match value.as_f64() {
        Some(x) => format!("{x:.digits$}"),
        None => "-".into(),
    };
    let quartiles = &line["time_ms_quartiles"];
    let text = |key: &str| line[key].as_str().unwrap_or("-").to_string();
    vec![
        text("schedule"),
        text("variant"),
        if line["verified"] == true { "yes".into() } else { "NO".into() },
        number(&line["time_ms"], 4),
        number(&line["tflops"], 2),
        number(&line["ratio"], 3),
        number(&line["ratio_to_previous"], 3),
        number(&line["percent_of_peak"], 1),
        number(&line["registers"], 0),
        number(&line["spills"], 0),
        number(&line["shared_bytes"], 0),
        number(&line["ctas_per_sm"], 0),
        format!("{} to {}", number(&quartiles[0], 4), number(&quartiles[1], 4)),
    ]
}

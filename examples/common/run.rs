//! Runs a list of schedules and reports each: a table, or one JSON object a line.

use super::{options::Common, output::line, page};
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;
use tile_bench::record::{Record, table};
use tilewright::{AnySchedule, Error};

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
    run: impl Fn(&'static dyn AnySchedule) -> Result<Record, Error>,
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
                    line(record.to_json());
                }
                if let Err(error) = page::written(common, schedule, &record.launch) {
                    ok = false;
                    bar.suspend(|| eprintln!("error: no page of {}: {error}", schedule.name()));
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
        line(table(&records).trim_end());
    }
    ok
}

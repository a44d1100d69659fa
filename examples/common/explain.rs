//! `--explain`: how schedules were derived, and a replay of it by a checker that shares no code with the rules.

use super::{options::Common, output::line};
use serde_json::json;
use std::{error::Error, process::ExitCode};
use tilewright::{AnySchedule, DType, explain, lints::proof::replay};

/// Prints the derivation of each schedule and replays it; with `--certificate`, also writes that of the only one to a file.
///
/// # Errors
/// When there is no derivation, a file cannot be written, or several schedules are to go into one file.
pub fn explain_all(
    common: &Common,
    schedules: &[&'static dyn AnySchedule],
    dtype: Option<DType>,
) -> Result<ExitCode, Box<dyn Error>> {
    if let (Some(_), [_, _, ..]) = (&common.certificate, schedules) {
        return Err("--certificate is for one schedule: name it with --schedule".into());
    }
    let mut wrong = 0;
    for (n, schedule) in schedules.iter().enumerate() {
        let certificate = explain(*schedule, dtype)?;
        if let Some(file) = &common.certificate {
            std::fs::write(file, certificate.to_bytes()).map_err(|e| format!("{}: {e}", file.display()))?;
        }
        let replayed = replay(&certificate);
        wrong += usize::from(replayed.is_err());
        if common.json {
            let counts = replayed.as_ref().ok();
            line(json!({
                "schedule": schedule.name(), "dtype": dtype.map(|d| d.name()),
                "nests": counts.map(|r| r.nests), "rewrites": counts.map(|r| r.rewrites),
                "sizes": counts.map(|r| r.sizes), "elements": counts.map(|r| r.elements),
                "wrong": replayed.as_ref().err().map(ToString::to_string),
            }));
            continue;
        }
        line(format_args!("{}{certificate}", if n > 0 { "\n" } else { "" }));
        match replayed {
            Ok(replayed) => line(format_args!("replayed: {replayed}")),
            Err(wrong) => eprintln!("error: {}: {wrong}", schedule.name()),
        }
    }
    Ok(if wrong > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

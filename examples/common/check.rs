//! `--check`: what will slow a schedule down, predicted without a run.

use super::{options::Common, output::line};
use serde_json::json;
use std::{error::Error, process::ExitCode};
use tilewright::{AnySchedule, DType, check};

/// Prints the lints of each schedule for a launch of some sizes: a text, or one JSON object a lint. The sizes of a schedule that does not
/// admit them are an error of that schedule alone.
///
/// # Errors
/// When nothing can be predicted of any schedule.
pub fn check_all(
    common: &Common,
    schedules: &[&'static dyn AnySchedule],
    dtype: Option<DType>,
    dims: &[(&str, usize)],
) -> Result<ExitCode, Box<dyn Error>> {
    let mut failed = 0;
    for (n, schedule) in schedules.iter().enumerate() {
        let checked = match check(*schedule, dtype, dims) {
            Ok(checked) => checked,
            Err(error) if schedules.len() > 1 => {
                eprintln!("error: {}: {error}", schedule.name());
                failed += 1;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        if !common.json {
            line(format_args!("{}{checked}", if n > 0 { "\n" } else { "" }));
            continue;
        }
        for lint in &checked.lints {
            let help =
                lint.help.as_ref().map(|h| json!({ "directives": h.directives, "predicted": h.predicted }));
            line(json!({
                "schedule": checked.schedule, "dtype": dtype.map(|d| d.name()), "dims": checked.dims,
                "rule": lint.rule, "place": lint.place, "predicted": lint.figures.predicted,
                "bound": lint.figures.bound, "unit": lint.figures.unit, "message": lint.message,
                "notes": lint.notes, "help": help,
            }));
        }
    }
    Ok(if failed == schedules.len() && failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

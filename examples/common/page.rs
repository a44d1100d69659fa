//! `--page FILE.html`: what one schedule does, as a page.

use super::options::Common;
use std::{error::Error, fs, path::Path};
use tilewright::{AnySchedule, DType, LaunchReport, pages};

/// Schedules to run.
type Schedules = Vec<&'static dyn AnySchedule>;

/// The schedules to run where a page is asked for: one, extended if that is asked for. Without a page, those that were chosen.
///
/// # Errors
/// Several schedules; directives that are none, or that the engine refuses: the page shows why.
pub fn chosen(common: &Common, chosen: Schedules, dtype: Option<DType>) -> Result<Schedules, Box<dyn Error>> {
    let Some(path) = &common.page else { return Ok(chosen) };
    let [schedule] = chosen[..] else {
        return Err(
            format!("a page shows one schedule, not {}: name it with `--schedule`", chosen.len()).into()
        );
    };
    let Some(text) = &common.extend else { return Ok(chosen) };
    match pages::extended(schedule, dtype, text)? {
        // A schedule lives as long as the process.
        pages::Outcome::Legal(extended) => Ok(vec![Box::leak(Box::new(extended))]),
        pages::Outcome::Refused { message, page } => {
            write(path, page)?;
            Err(format!("{message}; {} shows it", path.display()).into())
        }
    }
}

/// Writes the page of a run, if one is asked for.
///
/// # Errors
/// There is nothing to show, or the file cannot be written.
pub fn written(
    common: &Common,
    schedule: &dyn AnySchedule,
    report: &LaunchReport,
) -> Result<(), Box<dyn Error>> {
    match &common.page {
        Some(path) => write(path, tilewright::page(schedule, report)?),
        None => Ok(()),
    }
}

fn write(path: &Path, page: String) -> Result<(), Box<dyn Error>> {
    fs::write(path, page).map_err(|e| format!("{}: {e}", path.display()).into())
}

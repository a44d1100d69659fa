//! `--page` of a build without the feature `page`: an error that names it.

use super::options::Common;
use std::error::Error;
use tilewright::{AnySchedule, DType, LaunchReport};

/// Schedules to run.
type Schedules = Vec<&'static dyn AnySchedule>;

/// The schedules that were chosen.
///
/// # Errors
/// A page is asked for.
pub fn chosen(common: &Common, chosen: Schedules, _: Option<DType>) -> Result<Schedules, Box<dyn Error>> {
    match common.page {
        Some(_) => Err("this build draws no pages: build it with the feature `page`".into()),
        None => Ok(chosen),
    }
}

/// Nothing: [`chosen`] has refused a page.
///
/// # Errors
/// None.
pub fn written(_: &Common, _: &dyn AnySchedule, _: &LaunchReport) -> Result<(), Box<dyn Error>> {
    Ok(())
}

//! The frame of an example with one element type: options, `--list`, `--emit`, and a run a schedule.

use super::{
    options,
    report::{Record, run_all},
};
use clap::{CommandFactory, FromArgMatches};
use std::process::ExitCode;
use tilewright::{AnySchedule, DType, Device, Error};

pub use super::options::Common as Setup;

/// Parses the options `O`, opens the device and runs each chosen schedule.
///
/// Exit status: 0 if every run verified, 2 for wrong options, 1 otherwise.
pub fn run_example<O: CommandFactory + FromArgMatches>(
    schedules: &'static [&'static dyn AnySchedule],
    default: &'static str,
    dtype: Option<DType>,
    setup: impl Fn(&O) -> &Setup,
    run: impl Fn(&O, &Device, &'static dyn AnySchedule) -> Result<Record, Error>,
) -> ExitCode {
    let matches = options::with_schedules(O::command(), schedules, &[], &[], default).get_matches();
    let options = O::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let setup = setup(&options);
    if setup.list {
        options::list(schedules, &[]);
        return ExitCode::SUCCESS;
    }
    let chosen = options::selected(&matches, schedules, &[]);
    let attempt = || -> Result<ExitCode, Box<dyn std::error::Error>> {
        let admitted = options::admitting(&chosen, dtype)?;
        if let Some(stage) = setup.emit {
            return options::emit(setup, &admitted, dtype, stage).map(|()| ExitCode::SUCCESS);
        }
        let device = setup.device.open()?;
        let ok = run_all(setup, &admitted, |schedule| run(&options, &device, schedule));
        Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    };
    attempt().unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

//! The frame of an example: options, `--list`, `--emit`, and a run a schedule.

use super::{
    auto::{self, AUTO, CANDIDATES},
    check::check_all,
    explain::explain_all,
    options::{self, TypeChoice},
    output::line,
    page,
    run::run_all,
};
use clap::{Args, CommandFactory, FromArgMatches};
use half::{bf16, f16};
use std::process::ExitCode;
use tile_bench::Record;
use tilewright::{AnySchedule, DType, Device, Error, Float};

pub use super::options::Common as Setup;

type Schedules<'a> = &'a [&'static dyn AnySchedule];
/// Dims of a kernel, by name.
pub type Dims = Vec<(&'static str, usize)>;

/// Options of an example whose element type is chosen.
#[derive(Args, Clone, Debug)]
pub struct Typed {
    /// Element type of the tensors; sums are f32
    #[arg(long, value_enum, default_value = "f32")]
    pub dtype: TypeChoice,
    #[command(flatten)]
    pub setup: Setup,
}

/// An example whose element type is chosen.
pub trait Generic: CommandFactory + FromArgMatches {
    /// The options that it shares with others.
    fn typed(&self) -> &Typed;

    /// The dims of the kernel, by name; on a GPU or on the simulator, where the options leave them open.
    fn dims(&self, gpu: bool) -> Dims;

    /// Makes data of a type and runs schedules on it, as [`run_all`] does.
    ///
    /// # Errors
    /// Sizes that overflow or do not fit, and the device's.
    fn run<T: Float>(&self, device: &Device, schedules: Schedules<'_>) -> Result<bool, Error>;
}

/// Runs an example whose element type is chosen: exit status as of [`run_example`].
pub fn run_generic<O: Generic>(schedules: Schedules<'static>, default: &'static str) -> ExitCode {
    frame(
        schedules,
        default,
        |o: &O| (&o.typed().setup, Some(o.typed().dtype.into())),
        |o, gpu| o.dims(gpu),
        |o, device, chosen| match o.typed().dtype {
            TypeChoice::F32 => o.run::<f32>(device, chosen),
            TypeChoice::F16 => o.run::<f16>(device, chosen),
            TypeChoice::Bf16 => o.run::<bf16>(device, chosen),
        },
    )
}

/// Parses the options `O`, opens the device and runs each chosen schedule.
///
/// Exit status: 0 if every run verified, 2 for wrong options, 1 otherwise.
pub fn run_example<O: CommandFactory + FromArgMatches>(
    schedules: Schedules<'static>,
    default: &'static str,
    dtype: Option<DType>,
    setup: impl Fn(&O) -> &Setup,
    dims: impl Fn(&O) -> Dims,
    run: impl Fn(&O, &Device, &'static dyn AnySchedule) -> Result<Record, Error>,
) -> ExitCode {
    frame(
        schedules,
        default,
        |o| (setup(o), dtype),
        |o, _| dims(o),
        |o, device, chosen| Ok(run_all(setup(o), chosen, |schedule| run(o, device, schedule))),
    )
}

fn frame<O: CommandFactory + FromArgMatches>(
    schedules: Schedules<'static>,
    default: &'static str,
    setup: impl Fn(&O) -> (&Setup, Option<DType>),
    dims: impl Fn(&O, bool) -> Dims,
    run: impl Fn(&O, &Device, Schedules<'_>) -> Result<bool, Error>,
) -> ExitCode {
    let matches =
        options::with_schedules(O::command(), schedules, &[], &[AUTO, CANDIDATES], default).get_matches();
    let options = O::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let (setup, dtype) = setup(&options);
    if setup.list {
        options::list(schedules, &[]);
        return ExitCode::SUCCESS;
    }
    let chosen = options::selected(&matches, schedules, &[]);
    let attempt = || -> Result<ExitCode, Box<dyn std::error::Error>> {
        let mut admitted = options::admitting(&chosen, dtype)?;
        let candidates = if options::named(&matches, CANDIDATES) { 5 } else { 1 };
        if candidates > 1 || options::named(&matches, AUTO) {
            let device = setup.open()?;
            for of in options::kernels(schedules, dtype) {
                let dims = dims(&options, device.is_gpu());
                let (chosen, why) = auto::chosen(of, dtype, &dims, &device, candidates)?;
                admitted.extend(chosen);
                if setup.explain {
                    line(why);
                }
            }
        }
        if let Some(stage) = setup.emit {
            return options::emit(setup, &admitted, dtype, stage).map(|()| ExitCode::SUCCESS);
        }
        if setup.explain {
            return explain_all(setup, &admitted, dtype);
        }
        if setup.check {
            return check_all(setup, &admitted, dtype, &dims(&options, true));
        }
        let admitted = page::chosen(setup, admitted, dtype)?;
        let device = setup.open()?;
        let ok = run(&options, &device, &admitted)?;
        Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    };
    attempt().unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

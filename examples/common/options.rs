//! Options that every example takes.

use super::output::line;
use clap::{Args, ValueEnum, builder::PossibleValuesParser};
use std::path::PathBuf;
use tile_bench::Machine;
use tilewright::{AnySchedule, DType, Device, Error, SimOptions, Stage, Variant};

/// Where to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DeviceChoice {
    /// A GPU if there is one, else the simulator.
    Auto,
    /// The first CUDA GPU.
    Cuda,
    /// The embedded PTX simulator.
    Sim,
}

impl DeviceChoice {
    /// Opens the device.
    pub fn open(self) -> Result<Device, Error> {
        match self {
            DeviceChoice::Auto => Device::auto(),
            DeviceChoice::Cuda => Device::cuda(0),
            DeviceChoice::Sim => Ok(Device::sim()),
        }
    }
}

/// Element types of the tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TypeChoice {
    F32,
    F16,
    Bf16,
}

impl From<TypeChoice> for DType {
    fn from(choice: TypeChoice) -> DType {
        match choice {
            TypeChoice::F32 => DType::F32,
            TypeChoice::F16 => DType::F16,
            TypeChoice::Bf16 => DType::BF16,
        }
    }
}

/// Sizes such as `256x192x320`; `form` is `M×N×K`, and `example` says what to write.
///
/// # Errors
/// Another number of sizes, or what is no number.
pub fn sizes<const N: usize>(text: &str, form: &str, example: &str) -> Result<[usize; N], String> {
    let wrong = || format!("expected {N} numbers {form} such as {example}, got `{text}`");
    let numbers: Result<Vec<usize>, _> = text.split(['x', '×']).map(|n| n.trim().parse()).collect();
    numbers.map_err(|_| wrong())?.try_into().map_err(|_| wrong())
}

/// A struct of sizes: `size! { Size { m, n, k } as "M×N×K", "256x192x320" }` reads itself from such a text, and knows its
/// sizes by name.
#[allow(unused_macros)] // not every example takes sizes
macro_rules! size {
    ($(#[$about:meta])* $name:ident { $($field:ident),* } as $form:literal, $example:literal) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug)]
        struct $name {
            $($field: usize),*
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let [$($field),*] = $crate::common::options::sizes(text, $form, $example)?;
                Ok($name { $($field),* })
            }
        }

        impl $name {
            /// Each size with its name.
            fn named(self) -> Vec<(&'static str, usize)> {
                vec![$((stringify!($field), self.$field)),*]
            }
        }
    };
}
#[allow(unused_imports)] // as above
pub(crate) use size;

/// Elements of a tensor, refused before anything is allocated when they overflow.
///
/// # Errors
/// [`Error::SizeOverflow`].
pub fn elements(shape: &[usize]) -> Result<usize, Error> {
    let product = shape.iter().try_fold(1usize, |p, n| p.checked_mul(*n));
    product.ok_or_else(|| Error::SizeOverflow { shape: shape.to_vec() })
}

/// Which text of a program to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EmitChoice {
    /// The kernel as written.
    Tile,
    /// The scheduled loop nest.
    Nest,
    /// Tiles and roles, worked out of the nest.
    Plan,
    /// Threads, shared memory and barriers.
    Kernel,
    /// All of these, after each phase of the schedule and each pass.
    Passes,
    /// LLVM IR.
    Llvm,
    /// What the GPU or the simulator gets.
    Ptx,
    /// Machine code; needs ptxas and nvdisasm.
    Sass,
    /// Registers, spills, occupancy and the hot loop; needs ptxas and nvdisasm.
    Resources,
}

impl EmitChoice {
    /// The stage of this compiler; `None` for what NVIDIA's tools make of its PTX.
    fn stage(self) -> Option<Stage> {
        Some(match self {
            EmitChoice::Tile => Stage::Tile,
            EmitChoice::Nest => Stage::Nest,
            EmitChoice::Plan => Stage::Plan,
            EmitChoice::Kernel => Stage::Kernel,
            EmitChoice::Passes => Stage::Passes,
            EmitChoice::Llvm => Stage::Llvm,
            EmitChoice::Ptx => Stage::Ptx,
            EmitChoice::Sass | EmitChoice::Resources => return None,
        })
    }
}

/// Which variant of a program to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum VariantChoice {
    /// Sizes are multiples of the tiles: no guards.
    Exact,
    /// Whole, aligned vectors; tails are guarded.
    Aligned,
    /// Any size: all guards, no vectors in global memory, 64-bit offsets.
    General,
}

impl From<VariantChoice> for Variant {
    fn from(choice: VariantChoice) -> Variant {
        match choice {
            VariantChoice::Exact => Variant::Exact,
            VariantChoice::Aligned => Variant::Aligned,
            VariantChoice::General => Variant::General,
        }
    }
}

/// Options common to the examples.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// Where to run
    #[arg(long, value_enum, default_value = "auto")]
    pub device: DeviceChoice,
    /// Seed of the random inputs
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// One JSON object a line instead of a table
    #[arg(long)]
    pub json: bool,
    /// List the schedules and exit
    #[arg(long)]
    pub list: bool,
    /// Print a stage of the compilation instead of running
    #[arg(long, value_enum)]
    pub emit: Option<EmitChoice>,
    /// Architecture for `--emit sass` and `--emit resources`, such as sm_90 [default: the schedule's target]
    #[arg(long, value_name = "ARCH", requires = "emit")]
    pub arch: Option<String>,
    /// Write a page that shows what one schedule does, in one HTML file; runs on the simulator
    #[arg(long, value_name = "FILE.html", conflicts_with = "emit")]
    pub page: Option<PathBuf>,
    /// More directives for the schedule of `--page`, such as 'tile(k = 64)'; where they are refused, the page shows why
    #[arg(long, value_name = "DIRECTIVES", requires = "page")]
    pub extend: Option<String>,
    /// Predict what will slow the schedule down instead of running; needs no GPU and runs nothing
    #[arg(long, conflicts_with_all = ["emit", "page"])]
    pub check: bool,
    /// Print how the schedule was derived from the kernel, rewrite by rewrite, and replay it instead of running
    #[arg(long, conflicts_with_all = ["emit", "page", "check"])]
    pub explain: bool,
    /// Write the derivation of one schedule to a file, for `tilewright::lints::proof`
    #[arg(long, value_name = "FILE", requires = "explain")]
    pub certificate: Option<PathBuf>,
    /// Variant that `--emit` prints
    #[arg(long, value_enum, default_value = "exact", requires = "emit")]
    pub variant: VariantChoice,
}

impl Common {
    /// Opens the device: for a page, a simulator that records.
    ///
    /// # Errors
    /// The device's.
    pub fn open(&self) -> Result<Device, Error> {
        match self.page {
            Some(_) => Ok(Device::sim_with(SimOptions { trace: true, ..SimOptions::default() })),
            None => self.device.open(),
        }
    }
}

/// Lists of schedules beside the main one.
type Others<'a> = &'a [&'a [&'a dyn AnySchedule]];

/// Adds `--schedule NAME|all` with the names of `schedules` and of `others`, which `all` leaves out, and of `rules`
/// that choose one, to a command.
pub fn with_schedules(
    command: clap::Command,
    schedules: &'static [&'static dyn AnySchedule],
    others: Others<'static>,
    rules: &'static [&'static str],
    default: &'static str,
) -> clap::Command {
    let names = schedules
        .iter()
        .chain(others.iter().copied().flatten())
        .map(|s| s.name())
        .chain(rules.iter().copied())
        .chain(["all"]);
    command.arg(
        clap::Arg::new("schedule")
            .long("schedule")
            .value_name("NAME|all")
            .default_value(default)
            .value_delimiter(',')
            .action(clap::ArgAction::Append)
            .value_parser(PossibleValuesParser::new(names))
            .help(
                "Schedule to run, or several; `all` runs every one that admits the element type, `auto` the one that a launch \
                 without a schedule takes",
            ),
    )
}

/// Whether `--schedule` has a name.
pub fn named(matches: &clap::ArgMatches, name: &str) -> bool {
    matches.get_many::<String>("schedule").is_some_and(|mut names| names.any(|n| n == name))
}

/// The schedules that `--schedule` selected, in their own order.
pub fn selected(
    matches: &clap::ArgMatches,
    schedules: &'static [&'static dyn AnySchedule],
    others: Others<'static>,
) -> Vec<&'static dyn AnySchedule> {
    let all = named(matches, "all");
    let schedules = schedules.iter().filter(|s| all || named(matches, s.name()));
    let others = others.iter().copied().flatten().filter(|s| named(matches, s.name()));
    schedules.chain(others).copied().collect()
}

/// A schedule of each kernel that admits an element type, in their order.
pub fn kernels(
    schedules: &'static [&'static dyn AnySchedule],
    dtype: Option<DType>,
) -> Vec<&'static dyn AnySchedule> {
    let mut found: Vec<&'static dyn AnySchedule> = Vec::new();
    for schedule in schedules.iter().filter(|s| s.admits(dtype)) {
        if found.iter().all(|other| other.kernel() != schedule.kernel()) {
            found.push(*schedule);
        }
    }
    found
}

/// Prints the schedules with the first paragraph of their documentation.
pub fn list(schedules: &[&dyn AnySchedule], others: Others<'_>) {
    let all: Vec<&&dyn AnySchedule> = schedules.iter().chain(others.iter().copied().flatten()).collect();
    let width = all.iter().map(|s| s.name().len()).max().unwrap_or(0);
    for s in all {
        let types: Vec<_> = s.dtypes().iter().map(|d| d.name()).collect();
        let types = if types.is_empty() { String::new() } else { format!("  [{}]", types.join(", ")) };
        let purpose = s.doc().split("\n\n").next().unwrap_or("").replace('\n', " ");
        line(format_args!("{:width$}  {}{types}", s.name(), purpose.trim()));
    }
}

/// The chosen schedules that admit an element type.
///
/// # Errors
/// When none does: the message lists the types it admits.
pub fn admitting(
    chosen: &[&'static dyn AnySchedule],
    dtype: Option<DType>,
) -> Result<Vec<&'static dyn AnySchedule>, Error> {
    let admitted: Vec<_> = chosen.iter().copied().filter(|s| s.admits(dtype)).collect();
    match (admitted.is_empty(), chosen.first(), dtype) {
        (true, Some(s), Some(dtype)) => {
            Err(Error::DTypeNotAdmitted { schedule: s.name().into(), dtype, admitted: s.dtypes().to_vec() })
        }
        _ => Ok(admitted),
    }
}

/// Prints the stage of the compilation of each schedule that `--emit` names.
///
/// # Errors
/// When the program cannot be lowered or compiled, or a tool is missing.
pub fn emit(
    common: &Common,
    schedules: &[&'static dyn AnySchedule],
    dtype: Option<DType>,
    choice: EmitChoice,
) -> Result<(), Box<dyn std::error::Error>> {
    let variant = common.variant.into();
    for &schedule in schedules {
        match choice.stage() {
            Some(stage) => line(tilewright::emit(schedule, dtype, variant, stage)?),
            None => {
                let machine = Machine::of(schedule, dtype, variant, common.arch.clone())?;
                match (choice, common.json) {
                    (EmitChoice::Sass, _) => line(machine.sass),
                    (_, true) => line(machine.to_json()),
                    (_, false) => line(format_args!("{}\n{}", machine.entry, machine.resources)),
                }
            }
        }
    }
    Ok(())
}

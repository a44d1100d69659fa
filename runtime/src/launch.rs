//! Launches: the arguments of one call of a kernel, then a schedule and a device.

use crate::{
    buffer::{AnyBuffer, RawBuffer},
    compile,
    device::Device,
    dims::{self, Argument, Dims},
    element::ScalarValue,
    error::Error,
    execute,
    report::LaunchReport,
    schedule::{AnySchedule, Kernel, Schedule},
};
use std::{borrow::Cow, marker::PhantomData};
use tile_dsl::{
    dtype::DType,
    lower,
    program::{Program, Variant},
    tile::{AxisKind, ElemType},
};

/// One tensor argument.
pub enum TensorArg<'a> {
    /// `&Tensor`: read.
    In(&'a dyn AnyBuffer),
    /// `&mut Tensor`: written, perhaps read too.
    Out(&'a mut dyn AnyBuffer),
}

/// Arguments of one call of a kernel, as the macro collects them: tensors and scalars each in the order
/// of the kernel's parameters.
pub struct LaunchArgs<'a> {
    /// Name of the kernel.
    pub kernel: &'static str,
    /// Element type of the generic parameter.
    pub dtype: Option<DType>,
    /// Tensors with their parameter names.
    pub tensors: Vec<(&'static str, TensorArg<'a>)>,
    /// Scalars with their parameter names.
    pub scalars: Vec<(&'static str, ScalarValue)>,
}

impl<'a> LaunchArgs<'a> {
    /// No arguments yet.
    pub fn new(kernel: &'static str, dtype: Option<DType>) -> Self {
        LaunchArgs { kernel, dtype, tensors: Vec::new(), scalars: Vec::new() }
    }
    /// Adds a tensor that is read.
    pub fn input(mut self, name: &'static str, buffer: &'a dyn AnyBuffer) -> Self {
        self.tensors.push((name, TensorArg::In(buffer)));
        self
    }
    /// Adds a tensor that is written.
    pub fn output(mut self, name: &'static str, buffer: &'a mut dyn AnyBuffer) -> Self {
        self.tensors.push((name, TensorArg::Out(buffer)));
        self
    }
    /// Adds a scalar.
    pub fn scalar(mut self, name: &'static str, value: impl Into<ScalarValue>) -> Self {
        self.scalars.push((name, value.into()));
        self
    }
}

/// A call of kernel `K` that has its arguments but not yet a schedule: what calling a kernel returns.
#[must_use = "a launch does nothing until `.schedule(..).run()`"]
pub struct Launch<'a, K> {
    args: LaunchArgs<'a>,
    kernel: PhantomData<K>,
}

impl<'a, K: Kernel> Launch<'a, K> {
    /// Called by the function that `#[tile_kernel]` generates.
    pub fn new(args: LaunchArgs<'a>) -> Self {
        Launch { args, kernel: PhantomData }
    }

    /// Chooses the schedule; it must be one of this kernel's.
    pub fn schedule<S: Schedule<Kernel = K>>(self, schedule: S) -> Scheduled<'a> {
        self.schedule_dyn(&schedule)
    }

    /// Chooses a schedule known only when the program runs; that it is one of this kernel's is checked by `run`.
    pub fn schedule_dyn(self, schedule: &dyn AnySchedule) -> Scheduled<'a> {
        let program = schedule.program(self.args.dtype).map(Cow::Borrowed).ok_or_else(|| {
            if schedule.kernel() == self.args.kernel {
                Error::not_admitted(schedule, self.args.dtype)
            } else {
                Error::wrong_kernel(schedule.name(), schedule.kernel(), self.args.kernel)
            }
        });
        Scheduled { args: self.args, program, device: None, variant: None, cold: false }
    }

    /// Chooses a scheduled program at hand, such as one that a test made.
    pub fn program(self, program: &Program) -> Scheduled<'a> {
        Scheduled::new(self.args, program)
    }
}

/// A launch with its schedule.
#[must_use = "a launch does nothing until `.run()`"]
pub struct Scheduled<'a> {
    args: LaunchArgs<'a>,
    /// The encoded program, or why there is none.
    program: Result<Cow<'static, [u8]>, Error>,
    device: Option<Device>,
    variant: Option<Variant>,
    cold: bool,
}

impl<'a> Scheduled<'a> {
    /// A launch of a program at hand with arguments put together by hand.
    pub fn new(args: LaunchArgs<'a>, program: &Program) -> Self {
        Scheduled {
            args,
            program: Ok(Cow::Owned(program.to_bytes())),
            device: None,
            variant: None,
            cold: false,
        }
    }

    /// Runs on this device; by default, on the device of the arguments.
    pub fn device(mut self, device: &Device) -> Self {
        self.device = Some(device.clone());
        self
    }

    /// Runs this variant; by default, the first of exact, aligned, general whose assumptions hold.
    pub fn variant(mut self, variant: Variant) -> Self {
        self.variant = Some(variant);
        self
    }

    /// Overwrites a GPU's L2 cache first, so that the launch finds none of its data there; the time is that of the
    /// launch alone. Nothing changes on the simulator.
    pub fn cold(mut self) -> Self {
        self.cold = true;
        self
    }

    /// Checks the arguments, compiles if need be, runs, and waits for the result.
    ///
    /// # Errors
    /// [`Error`]; but for an error of the driver while the kernel runs, nothing has been written then.
    pub fn run(self) -> Result<LaunchReport, Error> {
        let Scheduled { mut args, program, device, variant, cold } = self;
        let bytes = program?;
        let program = Program::from_bytes(&bytes)
            .map_err(|source| Error::Program { schedule: args.kernel.into(), source })?;
        let schedule = &program.schedule;
        if schedule.kernel != args.kernel {
            return Err(Error::wrong_kernel(&schedule.name, &schedule.kernel, args.kernel));
        }
        args.check(&program)?;
        let device = args.device(device)?;
        check_target(&device, &program)?;

        let (dims, bases) = {
            let arguments: Vec<Argument<'_>> = args
                .tensors
                .iter()
                .map(|(_, t)| Argument { shape: &t.raw().shape, layout: t.raw().layout })
                .collect();
            let dims = dims::resolve(&program.nest.kernel.tensors, &arguments)?;
            dims::check_schedule(&program, &arguments, &dims)?;
            (dims, args.tensors.iter().map(|(_, t)| t.raw().address()).collect::<Vec<_>>())
        };
        let mut report = LaunchReport::new(&args, &program, &device, dims);
        let program_axes = program.nest.kernel.axes.iter().filter(|a| a.kind == AxisKind::Program);
        if program_axes.into_iter().any(|axis| axis.extent.eval(&report.dims) == Some(0)) {
            return Ok(report);
        }

        let variant = choose(&program, variant, &report.dims, &bases)?;
        report.variant = Some(variant);
        report.assumptions = lower::assumptions(&program, variant).iter().map(ToString::to_string).collect();
        let (compiled, source) =
            compile::compile(&device.cache, &program, &bytes, variant, &mut report.warnings)?;
        report.source = Some(source);
        report.ptx = compiled.text.clone();
        report.threads = compiled.ptx.threads;
        report.shared_bytes = compiled.ptx.static_shared + compiled.ptx.dynamic_shared;
        report.ctas = execute::ctas(&compiled.grid, &report.dims)?;
        if report.ctas > 0 {
            let scalars: Vec<ScalarValue> = args.scalars.iter().map(|(_, value)| *value).collect();
            let dims = &report.dims;
            let outcome =
                execute::run(&device, &compiled, report.ctas, dims, &mut args.tensors, &scalars, cold)?;
            report.time_ms = outcome.time_ms;
            report.resources = outcome.resources;
            report.counters = outcome.counters;
            report.findings = outcome.findings;
            report.scratch_bytes = outcome.scratch_bytes;
        }
        Ok(report)
    }
}

/// The variant asked for, or the first whose assumptions hold.
fn choose(program: &Program, asked: Option<Variant>, dims: &Dims, bases: &[u64]) -> Result<Variant, Error> {
    let failed = |variant| -> Vec<String> {
        let assumptions = lower::assumptions(program, variant);
        assumptions.iter().filter(|a| !a.holds(dims, bases)).map(ToString::to_string).collect()
    };
    let candidates = match asked {
        Some(variant) => vec![variant],
        None => vec![Variant::Exact, Variant::Aligned, Variant::General],
    };
    if let Some(variant) = candidates.iter().find(|&&variant| failed(variant).is_empty()) {
        return Ok(*variant);
    }
    let variant = asked.unwrap_or(Variant::General);
    Err(Error::Variant { schedule: program.schedule.name.clone(), variant, failed: failed(variant) })
}

/// PTX runs on its own compute capability and newer ones, architecture-specific PTX on its own alone.
fn check_target(device: &Device, program: &Program) -> Result<(), Error> {
    let target = program.schedule.target;
    match device.sm() {
        Some(sm) if sm < target.sm || (target.specific && sm != target.sm) => Err(Error::DeviceTooOld {
            schedule: program.schedule.name.clone(),
            target,
            device: device.name(),
            sm,
        }),
        _ => Ok(()),
    }
}

impl LaunchArgs<'_> {
    /// Number, element types and mutability of the arguments against the kernel's parameters.
    fn check(&self, program: &Program) -> Result<(), Error> {
        let kernel = &program.nest.kernel;
        let wrong = |what: String| Err(Error::Arguments { kernel: self.kernel.into(), what });
        let expected = (kernel.tensors.len(), kernel.scalars.len());
        if (self.tensors.len(), self.scalars.len()) != expected {
            return wrong(format!("it takes {} tensors and {} scalars", expected.0, expected.1));
        }
        for ((name, argument), parameter) in self.tensors.iter().zip(&kernel.tensors) {
            if parameter.mutable && matches!(argument, TensorArg::In(_)) {
                return wrong(format!("it writes `{name}`, which is passed as an input"));
            }
            check_dtype(name, argument.raw().dtype, parameter.elem)?;
        }
        for ((name, value), parameter) in self.scalars.iter().zip(&kernel.scalars) {
            check_dtype(name, value.dtype(), parameter.elem)?;
        }
        Ok(())
    }

    /// The device asked for, or that of the first tensor; every tensor must live there.
    fn device(&self, asked: Option<Device>) -> Result<Device, Error> {
        let first = self.tensors.first().map(|(_, t)| t.raw().device.clone());
        let Some(device) = asked.or(first) else {
            return Err(Error::Arguments { kernel: self.kernel.into(), what: "it has no tensors".into() });
        };
        for (name, tensor) in &self.tensors {
            let found = &tensor.raw().device;
            if !found.same_as(&device) {
                let (found, expected) = (found.name(), device.name());
                return Err(Error::DeviceMismatch { name: (*name).into(), found, expected });
            }
        }
        Ok(device)
    }
}

fn check_dtype(name: &str, found: DType, expected: ElemType) -> Result<(), Error> {
    match expected {
        ElemType::Fixed(expected) if expected != found => {
            Err(Error::DTypeMismatch { name: name.into(), found, expected })
        }
        _ => Ok(()),
    }
}

impl TensorArg<'_> {
    pub(crate) fn raw(&self) -> &RawBuffer {
        match self {
            TensorArg::In(buffer) => buffer.raw(),
            TensorArg::Out(buffer) => buffer.raw(),
        }
    }
}

//! Launches: the arguments of one call of a kernel, then a schedule and a device.

use crate::{
    buffer::AnyBuffer,
    element::ScalarValue,
    schedule::{AnySchedule, Kernel, Schedule},
};
use std::marker::PhantomData;
use tile_dsl::dtype::DType;

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
        let program = S::program(self.args.dtype);
        let _ = schedule;
        Scheduled {
            args: self.args,
            schedule: S::NAME,
            dtypes: S::DTYPES,
            scheduled_kernel: K::NAME,
            program,
        }
    }

    /// Chooses a schedule known only when the program runs; that it is one of this kernel's is checked by `run`.
    pub fn schedule_dyn(self, schedule: &dyn AnySchedule) -> Scheduled<'a> {
        Scheduled {
            schedule: schedule.name(),
            dtypes: schedule.dtypes(),
            scheduled_kernel: schedule.kernel(),
            program: schedule.program(self.args.dtype),
            args: self.args,
        }
    }
}

/// A launch with its schedule.
#[must_use = "a launch does nothing until `.run()`"]
#[expect(dead_code, reason = "read when the launch runs")]
pub struct Scheduled<'a> {
    pub(crate) args: LaunchArgs<'a>,
    pub(crate) schedule: &'static str,
    pub(crate) dtypes: &'static [DType],
    pub(crate) scheduled_kernel: &'static str,
    pub(crate) program: Option<&'static [u8]>,
}

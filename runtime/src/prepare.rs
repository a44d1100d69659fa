//! Prepared launches: what does not depend on arguments, done once.

use crate::{
    device::Device,
    error::Error,
    kernels::Kernels,
    launch::check_target,
    plan::{Gaps, Plan},
    schedule::{AnySchedule, Kernel, Schedule},
};
use std::{marker::PhantomData, sync::Arc};
use tile_dsl::{dtype::DType, program::Variant};

/// A schedule of kernel `K` for an element type, made ready on a device: decoded, its checks worked out, its kernels
/// loaded once they were needed. A launch of it checks its arguments, chooses the variant and queues it; it allocates
/// nothing.
///
/// ```text
/// let product = tiled.prepare(&device, DType::F32)?;
/// let stream = Stream::new(&device)?;
/// for (a, b, c) in work {
///     matmul(a, b, c).prepared(&product).enqueue(&stream)?;
/// }
/// stream.sync()?;
/// ```
pub struct Prepared<K> {
    pub(crate) device: Device,
    pub(crate) kernels: Arc<Kernels>,
    kernel: PhantomData<fn() -> K>,
}

impl<K: Kernel> Prepared<K> {
    /// Prepares a schedule known only when the program runs. `dtype` is the element type of the kernel's generic
    /// parameter, `None` for a kernel without one.
    ///
    /// # Errors
    /// [`Error::WrongKernel`], [`Error::DTypeNotAdmitted`], [`Error::Arguments`] when the element type is missing,
    /// [`Error::DeviceTooOld`], [`Error::Program`].
    pub fn new(
        device: &Device,
        schedule: &dyn AnySchedule,
        dtype: impl Into<Option<DType>>,
    ) -> Result<Self, Error> {
        let dtype = dtype.into();
        if schedule.kernel() != K::NAME {
            return Err(Error::wrong_kernel(schedule.name(), schedule.kernel(), K::NAME));
        }
        let bytes = schedule.program(dtype).ok_or_else(|| Error::not_admitted(schedule, dtype))?;
        let plan = Plan::embedded(bytes, schedule.name())?;
        check_target(device, &plan.program)?;
        Ok(Prepared { device: device.clone(), kernels: device.kernels(&plan), kernel: PhantomData })
    }

    /// Compiles and loads a variant now rather than at the first launch that runs it, with the kernels that copy tensors to
    /// padded rows, if it has tensor maps.
    ///
    /// # Errors
    /// What the compiler or the driver says.
    pub fn compile(&self, variant: Variant) -> Result<(), Error> {
        let (ready, _) = self.kernels.ready(&self.device, variant, (&Gaps::new(), false))?;
        self.kernels.load_row_copies(&self.device, &ready.compiled)
    }

    /// Where it runs.
    pub fn device(&self) -> &Device {
        &self.device
    }
}

impl<K> Clone for Prepared<K> {
    fn clone(&self) -> Self {
        Prepared { device: self.device.clone(), kernels: self.kernels.clone(), kernel: PhantomData }
    }
}

/// What every schedule can do on a device.
pub trait Prepare: Schedule {
    /// Makes the schedule ready on a device, for an element type of the kernel's generic parameter: `DType::F32`, or
    /// `None` for a kernel without one.
    ///
    /// # Errors
    /// As [`Prepared::new`].
    fn prepare(
        self,
        device: &Device,
        dtype: impl Into<Option<DType>>,
    ) -> Result<Prepared<Self::Kernel>, Error> {
        Prepared::new(device, &self, dtype)
    }
}

impl<S: Schedule> Prepare for S {}

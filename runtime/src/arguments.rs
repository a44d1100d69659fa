//! The arguments of one call of a kernel, checked against its parameters.

use crate::{
    buffer::{AnyBuffer, RawBuffer},
    device::Device,
    element::ScalarValue,
    error::Error,
    few::Few,
    plan::Plan,
};
use tile_dsl::{dtype::DType, tile::ElemType};

/// One tensor argument.
pub enum TensorArg<'a> {
    /// `&Tensor`: read.
    In(&'a dyn AnyBuffer),
    /// `&mut Tensor`: written, perhaps read too.
    Out(&'a mut dyn AnyBuffer),
}

/// Tensors with their parameter names.
pub(crate) type Tensors<'a> = Few<(&'static str, TensorArg<'a>), 6>;

/// Scalars with their parameter names.
pub(crate) type Scalars = Few<(&'static str, ScalarValue), 4>;

/// Arguments of one call of a kernel, as the macro collects them: tensors and scalars each in the order
/// of the kernel's parameters.
pub struct LaunchArgs<'a> {
    /// Name of the kernel.
    pub(crate) kernel: &'static str,
    /// Element type of the generic parameter.
    pub(crate) dtype: Option<DType>,
    /// Tensors with their parameter names.
    pub(crate) tensors: Tensors<'a>,
    /// Scalars with their parameter names.
    pub(crate) scalars: Scalars,
}

impl<'a> LaunchArgs<'a> {
    /// No arguments yet.
    #[inline]
    pub fn new(kernel: &'static str, dtype: Option<DType>) -> Self {
        LaunchArgs { kernel, dtype, tensors: Few::new(), scalars: Few::new() }
    }
    /// Adds a tensor that is read.
    #[inline]
    pub fn input(mut self, name: &'static str, buffer: &'a dyn AnyBuffer) -> Self {
        self.tensors.push((name, TensorArg::In(buffer)));
        self
    }
    /// Adds a tensor that is written.
    #[inline]
    pub fn output(mut self, name: &'static str, buffer: &'a mut dyn AnyBuffer) -> Self {
        self.tensors.push((name, TensorArg::Out(buffer)));
        self
    }
    /// Adds a scalar.
    #[inline]
    pub fn scalar(mut self, name: &'static str, value: impl Into<ScalarValue>) -> Self {
        self.scalars.push((name, value.into()));
        self
    }

    /// The same arguments for a launch of their own.
    pub(crate) fn reborrow(&mut self) -> LaunchArgs<'_> {
        let mut args = LaunchArgs::new(self.kernel, self.dtype);
        for (name, tensor) in self.tensors.iter_mut() {
            let tensor = match tensor {
                TensorArg::In(buffer) => TensorArg::In(*buffer),
                TensorArg::Out(buffer) => TensorArg::Out(&mut **buffer),
            };
            args.tensors.push((name, tensor));
        }
        for (name, value) in self.scalars.iter() {
            args.scalars.push((name, *value));
        }
        args
    }

    /// Number, element types and mutability of the arguments against the kernel's parameters.
    ///
    /// # Errors
    /// [`Error::Arguments`], [`Error::DTypeMismatch`].
    pub(crate) fn check(&self, plan: &Plan) -> Result<(), Error> {
        let wrong = |what: String| Err(Error::Arguments { kernel: self.kernel.into(), what });
        let expected = (plan.tensors.len(), plan.scalars.len());
        if (self.tensors.len(), self.scalars.len()) != expected {
            return wrong(format!("it takes {} tensors and {} scalars", expected.0, expected.1));
        }
        for ((name, argument), parameter) in self.tensors.iter().zip(&plan.tensors) {
            if parameter.mutable && !argument.is_out() {
                return wrong(format!("it writes `{name}`, which is passed as an input"));
            }
            check_dtype(name, argument.raw().dtype, parameter.elem)?;
        }
        for ((name, value), elem) in self.scalars.iter().zip(&plan.scalars) {
            check_dtype(name, value.dtype(), *elem)?;
        }
        Ok(())
    }

    /// The device asked for, or that of the first tensor; every tensor must live there.
    ///
    /// # Errors
    /// [`Error::DeviceMismatch`]; [`Error::Arguments`] when there is no tensor to tell.
    pub(crate) fn device<'d>(&'d self, asked: Option<&'d Device>) -> Result<&'d Device, Error> {
        let first = || self.tensors.iter().next().map(|(_, t)| &t.raw().memory.device);
        let Some(device) = asked.or_else(first) else {
            return Err(Error::Arguments { kernel: self.kernel.into(), what: "it has no tensors".into() });
        };
        for (name, tensor) in self.tensors.iter() {
            let found = &tensor.raw().memory.device;
            if !found.same_as(device) {
                let (found, expected) = Device::apart(found, device);
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

    /// Whether the kernel may write it.
    pub(crate) fn is_out(&self) -> bool {
        matches!(self, TensorArg::Out(_))
    }
}

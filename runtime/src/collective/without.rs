//! What stands in NCCL's place in a build without it: there is no communicator of several GPUs.

use super::Part;
use crate::{device::Device, error::Error};
use cudarc::driver::sys::CUstream;

/// None can be made.
pub(super) enum Nccl {}

impl Nccl {
    /// # Errors
    /// [`Error::NoNccl`], always.
    pub(super) fn new(_: &[Device]) -> Result<Self, Error> {
        Err(Error::NoNccl { why: "this build lacks the feature `nccl`" })
    }

    /// # Safety
    /// None: nothing calls it.
    ///
    /// # Errors
    /// None.
    pub(super) unsafe fn queue(&self, _: &[&Part], _: &[CUstream]) -> Result<(), Error> {
        match *self {}
    }
}

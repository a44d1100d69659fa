//! What stands in NCCL's place in a build without it: there is no communicator of several GPUs.

use super::part::{Part, Turns};
use crate::{
    device::Device,
    error::Error,
    ranks::{Health, Links, World},
};
use cudarc::driver::sys::CUstream;
use std::sync::Arc;

/// None can be made.
pub(super) enum Nccl {}

const NONE: Error = Error::NoNccl { why: "this build lacks the feature `nccl`" };

impl Nccl {
    /// # Errors
    /// [`Error::NoNccl`], always.
    pub(super) fn new(_: &[Device]) -> Result<Self, Error> {
        Err(NONE)
    }

    /// # Errors
    /// [`Error::NoNccl`], always.
    pub(super) fn present() -> Result<(), Error> {
        Err(NONE)
    }

    /// # Errors
    /// [`Error::NoNccl`], always.
    pub(super) fn id() -> Result<Vec<u8>, Error> {
        Err(NONE)
    }

    /// # Errors
    /// [`Error::NoNccl`], always.
    pub(super) fn join(_: &Device, _: &[u8], _: Links, _: &World) -> Result<Self, Error> {
        Err(NONE)
    }

    /// # Errors
    /// None.
    pub(super) fn begin(&self, _: &Turns) -> Result<(), Error> {
        match *self {}
    }

    pub(super) fn health(&self) -> Option<Arc<Health>> {
        match *self {}
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

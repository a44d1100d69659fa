//! Devices: where buffers live and kernels run.

mod cuda;
mod scratch;
mod sim;

use crate::{cache::PtxCache, error::Error, gpu::GpuInfo};
use cuda::CudaDevice;
use sim::SimDevice;
use std::{fmt, sync::Arc};

pub(crate) use cuda::{CudaMemory, Work};
pub(crate) use scratch::Wanted;
pub(crate) use sim::{SimData, SimTensor};

/// A device: a GPU or the simulator. Cheap to clone; clones are the same device.
#[derive(Clone)]
pub struct Device {
    pub(crate) kind: Arc<Kind>,
    pub(crate) cache: PtxCache,
}

pub(crate) enum Kind {
    Sim(SimDevice),
    Cuda(CudaDevice),
}

impl Device {
    /// The first GPU if a driver and a GPU are there, else the simulator.
    ///
    /// # Errors
    /// The driver's, when there is a GPU that cannot be opened.
    pub fn auto() -> Result<Self, Error> {
        match Self::cuda(0) {
            Err(Error::NoDriver | Error::NoDevice { .. }) => Ok(Self::sim()),
            other => other,
        }
    }

    /// A GPU by its CUDA ordinal.
    ///
    /// # Errors
    /// [`Error::NoDriver`], [`Error::NoDevice`], or the driver's error.
    pub fn cuda(ordinal: usize) -> Result<Self, Error> {
        Ok(Self::new(Kind::Cuda(CudaDevice::new(ordinal)?)))
    }

    /// The simulator, which executes the same PTX on the CPU and reports counters and findings.
    pub fn sim() -> Self {
        Self::new(Kind::Sim(SimDevice::new(0)))
    }

    /// A simulator with another order of warps and CTAs: programs without races give the same bits for every seed.
    pub fn sim_with_seed(seed: u64) -> Self {
        Self::new(Kind::Sim(SimDevice::new(seed)))
    }

    fn new(kind: Kind) -> Self {
        Device { kind: Arc::new(kind), cache: PtxCache::from_env() }
    }

    /// The same device with compiled kernels kept elsewhere.
    pub fn with_cache(self, cache: PtxCache) -> Self {
        Device { cache, ..self }
    }

    /// Name for reports: `simulator`, or the GPU's.
    pub fn name(&self) -> String {
        match &*self.kind {
            Kind::Sim(_) => "simulator".into(),
            Kind::Cuda(device) => device.name().to_string(),
        }
    }

    /// Whether this is a GPU rather than the simulator.
    pub fn is_gpu(&self) -> bool {
        matches!(&*self.kind, Kind::Cuda(_))
    }

    /// Whether buffers of so many bytes in all fit, before any is created.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if not; the driver's error, on a GPU.
    pub fn check_memory(&self, bytes: u128) -> Result<(), Error> {
        let free = match &*self.kind {
            Kind::Sim(_) => sim::CAPACITY,
            Kind::Cuda(device) => device.free_memory()?,
        };
        if bytes <= free.into() {
            Ok(())
        } else {
            Err(Error::OutOfMemory { device: self.name(), bytes, free })
        }
    }

    /// Compute capability times ten (90 for 9.0); `None` for the simulator, which runs every target.
    pub fn sm(&self) -> Option<u32> {
        match &*self.kind {
            Kind::Sim(_) => None,
            Kind::Cuda(device) => Some(device.sm()),
        }
    }

    /// Facts about the GPU; `None` for the simulator.
    ///
    /// # Errors
    /// The driver's.
    pub fn gpu(&self) -> Result<Option<GpuInfo>, Error> {
        match &*self.kind {
            Kind::Sim(_) => Ok(None),
            Kind::Cuda(device) => device.info().map(Some),
        }
    }

    pub(crate) fn same_as(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.kind, &other.kind)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Device").field(&self.name()).finish()
    }
}

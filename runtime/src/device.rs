//! Devices: where buffers live and kernels run.

mod cuda;
mod host;
mod scratch;
mod sim;

use crate::{
    cache::PtxCache, error::Error, gpu::GpuInfo, kernels::Kernels, memory::lock, plan::Plan, queue::Queue,
    usage::MemoryUse,
};
use sim::SimDevice;
pub use sim::SimOptions;
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex},
};

pub(crate) use cuda::driver_present;
pub(crate) use cuda::{CudaDevice, CudaEvent, CudaGraph, CudaMemory, CudaPinned, CudaQueue, Loaded, encode};
pub(crate) use host::HostMemory;
pub(crate) use scratch::{Scratch, Wanted};
pub(crate) use sim::{Reserved, SimTensor};

/// A device: a GPU or the simulator. Cheap to clone; clones are the same device.
#[derive(Clone)]
pub struct Device {
    pub(crate) inner: Arc<Inner>,
    pub(crate) cache: PtxCache,
}

/// What the clones of a device share.
pub(crate) struct Inner {
    /// What `Scheduled::run` works on. First to go: its destructor waits for work that uses the rest.
    pub(crate) queue: Arc<Queue>,
    /// Kernels of embedded programs, by the address of their plan, which they keep alive.
    kernels: Mutex<HashMap<usize, Arc<Kernels>>>,
    pub(crate) kind: Kind,
    pub(crate) name: Arc<str>,
}

pub(crate) enum Kind {
    Sim(SimDevice),
    Cuda(Box<CudaDevice>),
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
        let device = CudaDevice::new(ordinal)?;
        let queue = Queue::new(Some(device.new_queue()?));
        let name = device.name().into();
        Ok(Self::new(Kind::Cuda(Box::new(device)), queue, name))
    }

    /// All GPUs of this machine, in the order of their ordinals; the simulator alone where there is none.
    ///
    /// # Errors
    /// The driver's, when there is a GPU that cannot be opened.
    pub fn all() -> Result<Vec<Self>, Error> {
        match cuda::count() {
            Ok(count) if count > 0 => (0..count).map(Self::cuda).collect(),
            Ok(_) | Err(Error::NoDriver) => Ok(vec![Self::sim()]),
            Err(other) => Err(other),
        }
    }

    /// The simulator, which executes the same PTX on the CPU and reports counters and findings.
    pub fn sim() -> Self {
        Self::sim_with_seed(0)
    }

    /// A simulator with another order of warps and CTAs: programs without races give the same bits for every seed.
    pub fn sim_with_seed(seed: u64) -> Self {
        Self::sim_with(SimOptions { seed, ..SimOptions::default() })
    }

    /// The same, with asynchronous copies and products complete as soon as they are issued; otherwise they complete when a
    /// wait for them returns. Programs that wait where they must give the same bits either way.
    pub fn sim_early(seed: u64) -> Self {
        Self::sim_with(SimOptions { seed, early: true, ..SimOptions::default() })
    }

    /// A simulator with limits and checks of its own.
    pub fn sim_with(options: SimOptions) -> Self {
        Self::new(Kind::Sim(SimDevice::new(options)), Queue::simulated(), "simulator".into())
    }

    fn new(kind: Kind, queue: Queue, name: Arc<str>) -> Self {
        let inner = Inner { queue: Arc::new(queue), kernels: Mutex::default(), kind, name };
        Device { inner: Arc::new(inner), cache: PtxCache::from_env() }
    }

    /// The same device with compiled kernels kept elsewhere.
    pub fn with_cache(self, cache: PtxCache) -> Self {
        Device { cache, ..self }
    }

    /// Name for reports: `simulator`, or the GPU's.
    pub fn name(&self) -> String {
        self.inner.name.to_string()
    }

    /// Whether this is a GPU rather than the simulator.
    pub fn is_gpu(&self) -> bool {
        matches!(self.kind(), Kind::Cuda(_))
    }

    /// Whether buffers of so many bytes in all fit, before any is created.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if not; the driver's error, on a GPU.
    pub fn check_memory(&self, bytes: u128) -> Result<(), Error> {
        let memory = self.memory()?;
        match bytes <= memory.available().into() {
            true => Ok(()),
            false => Err(Error::OutOfMemory { device: self.name(), bytes, memory }),
        }
    }

    /// How much of the memory is taken. Buffers that were dropped are in use until the work on them has ended.
    ///
    /// # Errors
    /// The driver's.
    pub fn memory(&self) -> Result<MemoryUse, Error> {
        match self.kind() {
            Kind::Sim(sim) => Ok(sim.usage()),
            Kind::Cuda(device) => device.pool().usage(),
        }
    }

    /// Waits for all work on the GPU and gives memory that is not in use back, so that other libraries and processes
    /// find it. The simulator keeps none.
    ///
    /// # Errors
    /// Those of work that failed; the driver's.
    pub fn trim(&self) -> Result<(), Error> {
        match self.kind() {
            Kind::Sim(_) => Ok(()),
            Kind::Cuda(device) => device.pool().trim(),
        }
    }

    /// Keeps no more than so many bytes of memory that is not in use, where the default is all of it: the rest goes back
    /// when the host next waits for the GPU. The simulator keeps none.
    ///
    /// # Errors
    /// The driver's.
    pub fn keep(&self, bytes: u64) -> Result<(), Error> {
        match self.kind() {
            Kind::Sim(_) => Ok(()),
            Kind::Cuda(device) => device.pool().keep(bytes),
        }
    }

    /// Compute capability times ten (90 for 9.0); `None` for the simulator, which runs every target.
    pub fn sm(&self) -> Option<u32> {
        match self.kind() {
            Kind::Sim(_) => None,
            Kind::Cuda(device) => Some(device.sm()),
        }
    }

    /// Facts about the GPU; `None` for the simulator.
    ///
    /// # Errors
    /// The driver's.
    pub fn gpu(&self) -> Result<Option<GpuInfo>, Error> {
        match self.kind() {
            Kind::Sim(_) => Ok(None),
            Kind::Cuda(device) => device.info().map(Some),
        }
    }

    /// Multiprocessors that persistent CTAs are spread over: the simulator has four, so that CTAs take several tiles there.
    pub(crate) fn multiprocessors(&self) -> u32 {
        match self.kind() {
            Kind::Sim(_) => sim::MULTIPROCESSORS,
            Kind::Cuda(device) => device.multiprocessors(),
        }
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.inner.kind
    }

    /// Which device it is, where there may be several: `CUDA device 1 (NVIDIA H200)`.
    pub(crate) fn label(&self) -> String {
        match self.kind() {
            Kind::Sim(_) => self.name(),
            Kind::Cuda(device) => format!("CUDA device {} ({})", device.context.ordinal(), self.name()),
        }
    }

    /// Two devices that are not the same, the first seen from the second.
    pub(crate) fn apart(found: &Device, expected: &Device) -> (String, String) {
        let (found, expected) = (found.label(), expected.label());
        (if found == expected { format!("another {found}") } else { found }, expected)
    }

    pub(crate) fn same_as(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The kernels of an embedded program as this device has loaded them.
    pub(crate) fn kernels(&self, plan: &Arc<Plan>) -> Arc<Kernels> {
        let known = Arc::as_ptr(plan) as usize;
        lock(&self.inner.kernels).entry(known).or_insert_with(|| Arc::new(Kernels::new(plan.clone()))).clone()
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Device").field(&self.inner.name).finish()
    }
}

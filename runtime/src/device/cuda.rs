//! GPUs through the CUDA driver API, loaded when first used: neither building nor starting needs CUDA.

mod capture;
mod graph;
mod memory;
mod module;
mod pinned;
mod pool;
mod queue;
mod tensor_map;

use crate::{error::Error, gpu::GpuInfo, memory::lock, row_copy::GRANULES};
use cudarc::driver::{
    CudaContext, CudaStream,
    result::{self, DriverError},
    sys,
};
use std::{
    any::Any,
    collections::HashMap,
    ffi::CStr,
    sync::{Arc, Mutex, OnceLock},
};

pub(crate) use graph::CudaGraph;
pub(crate) use memory::CudaMemory;
pub(crate) use module::Loaded;
pub(crate) use pinned::CudaPinned;
use pool::Pool;
pub(crate) use queue::{CudaEvent, CudaQueue};
pub(crate) use tensor_map::encode;

/// A GPU with its context and the modules loaded into it.
pub(crate) struct CudaDevice {
    pub(crate) context: Arc<CudaContext>,
    name: Arc<str>,
    sm: u32,
    multiprocessors: u32,
    pool: Arc<Pool>,
    /// Frees what several streams used, so that none of them waits for the others.
    reaper: CudaQueue,
    /// Loaded kernels by their identity. The context outlives them.
    loaded: Mutex<HashMap<u64, Loaded>>,
    /// Copies rows, by granule.
    row_copies: Mutex<[Option<Loaded>; GRANULES.len()]>,
    /// Overwritten before a cold launch: twice the L2 cache.
    evictor: OnceLock<CudaMemory>,
}

/// Whether the driver's library can be loaded.
pub(crate) fn driver_present() -> bool {
    // SAFETY: looks for the library and nothing more. Without this, the first call would panic.
    unsafe { sys::is_culib_present() }
}

/// GPUs of this machine.
///
/// # Errors
/// [`Error::NoDriver`], or the driver's.
pub(crate) fn count() -> Result<usize, Error> {
    if !driver_present() {
        return Err(Error::NoDriver);
    }
    match result::init() {
        Err(DriverError(sys::CUresult::CUDA_ERROR_NO_DEVICE)) => return Ok(0),
        other => other.map_err(failed("initialising the driver"))?,
    }
    Ok(result::device::get_count().map_err(failed("counting devices"))?.max(0) as usize)
}

/// The version of CUDA that the driver is of: 12080 is 12.8.
///
/// # Errors
/// The driver's.
fn driver_version() -> Result<i32, Error> {
    let mut version = 0;
    // SAFETY: it writes one integer.
    unsafe { sys::cuDriverGetVersion(&mut version) }
        .result()
        .map_err(failed("asking for the driver's version"))?;
    Ok(version)
}

impl CudaDevice {
    pub(crate) fn new(ordinal: usize) -> Result<Self, Error> {
        let count = count()?;
        if ordinal >= count {
            return Err(Error::NoDevice { ordinal, count });
        }
        let context = CudaContext::new(ordinal).map_err(failed("opening the device"))?;
        let name: Arc<str> = context.name().map_err(failed("asking for the device's name"))?.into();
        let (major, minor) =
            context.compute_capability().map_err(failed("asking for the compute capability"))?;
        let sm = (10 * major + minor).max(0) as u32;
        let count = sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        let multiprocessors =
            context.attribute(count).map_err(failed("counting multiprocessors"))?.max(1) as u32;
        let pool = Arc::new(Pool::new(&context, name.clone())?);
        let stream = context.new_stream().map_err(failed("opening a stream"))?;
        Ok(CudaDevice {
            context,
            name,
            sm,
            multiprocessors,
            reaper: CudaQueue::new(stream, pool.clone()),
            pool,
            loaded: Mutex::default(),
            row_copies: Mutex::default(),
            evictor: OnceLock::new(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn sm(&self) -> u32 {
        self.sm
    }

    pub(crate) fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    /// A new queue of work.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn new_queue(&self) -> Result<CudaQueue, Error> {
        Ok(self.queue_on(self.context.new_stream().map_err(failed("opening a stream"))?))
    }

    /// A queue of work on a stream of this context.
    pub(crate) fn queue_on(&self, stream: Arc<CudaStream>) -> CudaQueue {
        CudaQueue::new(stream, self.pool.clone())
    }

    /// Has memory freed when the work of these queues so far has ended; the host does not wait.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn free_after(&self, memory: &mut CudaMemory, queues: &[&CudaQueue]) -> Result<(), Error> {
        match queues {
            [] => {}
            [one] if one.context().cu_ctx() == self.context.cu_ctx() => memory.free_on(&one.stream),
            several => {
                several.iter().try_for_each(|queue| self.reaper.wait_for(queue))?;
                memory.free_on(&self.reaper.stream);
            }
        }
        Ok(())
    }

    /// Memory that someone else frees, not before `keep` is dropped.
    pub(crate) fn foreign(
        &self,
        pointer: u64,
        bytes: usize,
        keep: Option<Box<dyn Any + Send + Sync>>,
    ) -> CudaMemory {
        CudaMemory::foreign(&self.context, pointer, bytes, keep)
    }

    /// Ordinal of the GPU that memory belongs to; `None` for an address that the driver does not know.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn owner(&self, pointer: u64) -> Result<Option<usize>, Error> {
        self.bind()?;
        let attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
        let mut ordinal: std::ffi::c_int = -1;
        // SAFETY: this attribute is one `int`.
        let status = unsafe { sys::cuPointerGetAttribute((&raw mut ordinal).cast(), attribute, pointer) };
        match status.result() {
            Err(DriverError(sys::CUresult::CUDA_ERROR_INVALID_VALUE)) => Ok(None),
            other => {
                other.map(|()| usize::try_from(ordinal).ok()).map_err(failed("asking whose memory it is"))
            }
        }
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Waits for all work on the GPU, that of others too.
    ///
    /// # Errors
    /// Those of the work.
    pub(crate) fn synchronize(&self) -> Result<(), Error> {
        self.context.synchronize().map_err(failed("waiting for the device"))
    }

    pub(crate) fn bind(&self) -> Result<(), Error> {
        self.context.bind_to_thread().map_err(failed("making the device current"))
    }

    pub(crate) fn info(&self) -> Result<GpuInfo, Error> {
        use sys::CUdevice_attribute_enum as Attribute;
        self.bind()?;
        let get = |attribute| -> Result<u64, Error> {
            let value = self.context.attribute(attribute).map_err(failed("asking for an attribute"))?;
            Ok(value.max(0) as u64)
        };
        let version = driver_version()?;
        let mut bus = [0; 32];
        // SAFETY: it writes at most as many bytes as it is told, with a zero at their end.
        unsafe { sys::cuDeviceGetPCIBusId(bus.as_mut_ptr(), bus.len() as i32, self.context.cu_device()) }
            .result()
            .map_err(failed("asking for the PCI bus id"))?;
        let bus: Vec<u8> = bus.iter().take_while(|&&c| c != 0).map(|&c| c as u8).collect();
        Ok(GpuInfo {
            name: self.name.to_string(),
            sm: self.sm,
            multiprocessors: get(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as u32,
            l2_bytes: get(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?,
            max_clock_mhz: get(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)? as f64 / 1e3,
            // kHz and bits.
            memory_gbps: 2.0
                * get(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)? as f64
                * get(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)? as f64
                / 8e6,
            cuda_version: (version as u32 / 1000, version as u32 % 1000 / 10),
            pci_bus_id: String::from_utf8_lossy(&bus).into_owned(),
        })
    }

    /// Memory that is overwritten to empty the L2 cache.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or the driver's.
    pub(crate) fn evictor(&self, queue: &CudaQueue) -> Result<&CudaMemory, Error> {
        if let Some(evictor) = self.evictor.get() {
            return Ok(evictor);
        }
        let evictor = queue.allocate(2 * self.info()?.l2_bytes as usize)?;
        // Other queues use it too.
        queue.synchronize()?;
        Ok(self.evictor.get_or_init(|| evictor))
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        // Buffers do not wait when they are dropped: kernels may still run.
        if self.synchronize().is_err() {
            return;
        }
        let copies = lock(&self.row_copies);
        for loaded in lock(&self.loaded).values().chain(copies.iter().flatten()) {
            // SAFETY: each module was loaded once into this context, and no launch is in flight. A failure leaves the module to the end of the process.
            let _ = unsafe { result::module::unload(loaded.module) };
        }
    }
}

fn failed(what: &'static str) -> impl Fn(DriverError) -> Error {
    move |e| Error::Cuda { what, code: describe(e) }
}

/// `CUDA_ERROR_INVALID_PTX: a PTX JIT compilation failed`.
fn describe(error: DriverError) -> String {
    let text = |c: Result<&CStr, DriverError>| c.map(|c| c.to_string_lossy().into_owned());
    match (text(error.error_name()), text(error.error_string())) {
        (Ok(name), Ok(description)) => format!("{name}: {description}"),
        _ => format!("{:?}", error.0),
    }
}

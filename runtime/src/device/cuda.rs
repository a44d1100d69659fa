//! GPUs through the CUDA driver API, loaded when first used: neither building nor starting needs CUDA.

use super::scratch::{Scratch, Wanted};
use crate::{
    error::Error,
    gpu::{GpuInfo, Resources},
};
use backend_ptx::Ptx;
use cudarc::driver::{
    CudaContext,
    result::{self, DriverError},
    sys,
};
use std::{
    collections::HashMap,
    ffi::{CStr, CString, c_void},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

/// A GPU with its context and the modules loaded into it.
pub(crate) struct CudaDevice {
    context: Arc<CudaContext>,
    name: String,
    sm: u32,
    /// Loaded kernels by the text of their PTX. The context outlives them.
    loaded: Mutex<HashMap<String, Loaded>>,
    /// Overwritten before a cold launch: twice the L2 cache.
    evictor: OnceLock<CudaMemory>,
    /// Locked while a kernel that uses it runs.
    scratch: Mutex<Scratch>,
}

/// What a launch needs beside its code.
pub(crate) struct Work<'a> {
    pub(crate) ctas: u32,
    /// Bytes of each parameter, in order, for these addresses of the scratch buffers.
    pub(crate) arguments: &'a dyn Fn(&[u64]) -> Vec<Vec<u8>>,
    pub(crate) scratch: &'a [Wanted],
    /// Memory that is set to zero first, as part of the launch: address and bytes.
    pub(crate) cleared: &'a [(u64, usize)],
    /// Overwrite the L2 cache first.
    pub(crate) cold: bool,
}

/// What a launch tells.
pub(crate) struct CudaRun {
    pub(crate) time_ms: f64,
    pub(crate) resources: Resources,
}

/// A function of a loaded module. Modules stay loaded as long as the device.
#[derive(Clone, Copy)]
struct Loaded {
    module: sys::CUmodule,
    function: sys::CUfunction,
    resources: Resources,
}

// SAFETY: module and function handles are process-wide; the driver may be called from any thread.
unsafe impl Send for Loaded {}

/// An allocation on a GPU, freed with the value.
pub(crate) struct CudaMemory {
    context: Arc<CudaContext>,
    /// 0 for an empty allocation, which the driver does not offer.
    pointer: sys::CUdeviceptr,
    bytes: usize,
}

impl CudaDevice {
    pub(crate) fn new(ordinal: usize) -> Result<Self, Error> {
        // SAFETY: looks for the library and nothing more. Without this, the first call would panic.
        if !unsafe { sys::is_culib_present() } {
            return Err(Error::NoDriver);
        }
        match result::init() {
            Err(DriverError(sys::CUresult::CUDA_ERROR_NO_DEVICE)) => {
                return Err(Error::NoDevice { ordinal, count: 0 });
            }
            other => other.map_err(failed("initialising the driver"))?,
        }
        let count = result::device::get_count().map_err(failed("counting devices"))?.max(0) as usize;
        if ordinal >= count {
            return Err(Error::NoDevice { ordinal, count });
        }
        let context = CudaContext::new(ordinal).map_err(failed("opening the device"))?;
        let name = context.name().map_err(failed("asking for the device's name"))?;
        let (major, minor) =
            context.compute_capability().map_err(failed("asking for the compute capability"))?;
        let sm = (10 * major + minor).max(0) as u32;
        Ok(CudaDevice {
            context,
            name,
            sm,
            loaded: Mutex::default(),
            evictor: OnceLock::new(),
            scratch: Mutex::default(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn sm(&self) -> u32 {
        self.sm
    }

    fn allocate(&self, bytes: usize) -> Result<CudaMemory, Error> {
        self.bind()?;
        let pointer = if bytes == 0 {
            0
        } else {
            // SAFETY: the context is current.
            match unsafe { result::malloc_sync(bytes) } {
                Err(DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => {
                    let (device, free) = (self.name.clone(), self.free_memory()?);
                    return Err(Error::OutOfMemory { device, bytes: bytes as u128, free });
                }
                other => other.map_err(failed("allocating memory"))?,
            }
        };
        Ok(CudaMemory { context: self.context.clone(), pointer, bytes })
    }

    pub(crate) fn upload(&self, data: &[u8]) -> Result<CudaMemory, Error> {
        let memory = self.allocate(data.len())?;
        if !data.is_empty() {
            // SAFETY: the allocation has `data.len()` bytes and the context is current.
            unsafe { result::memcpy_htod_sync(memory.pointer, data) }
                .map_err(failed("copying to the device"))?;
        }
        Ok(memory)
    }

    pub(crate) fn filled(&self, byte: u8, bytes: usize) -> Result<CudaMemory, Error> {
        let memory = self.allocate(bytes)?;
        if bytes > 0 {
            // SAFETY: as above.
            unsafe { result::memset_d8_sync(memory.pointer, byte, bytes) }
                .map_err(failed("filling memory"))?;
        }
        Ok(memory)
    }

    pub(crate) fn free_memory(&self) -> Result<u64, Error> {
        self.bind()?;
        let (free, _) = result::mem_get_info().map_err(failed("asking for free memory"))?;
        Ok(free as u64)
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
        let mut version = 0;
        // SAFETY: it writes one integer.
        unsafe { sys::cuDriverGetVersion(&mut version) }
            .result()
            .map_err(failed("asking for the driver's version"))?;
        let mut bus = [0; 32];
        // SAFETY: it writes at most as many bytes as it is told, with a zero at their end.
        unsafe { sys::cuDeviceGetPCIBusId(bus.as_mut_ptr(), bus.len() as i32, self.context.cu_device()) }
            .result()
            .map_err(failed("asking for the PCI bus id"))?;
        let bus: Vec<u8> = bus.iter().take_while(|&&c| c != 0).map(|&c| c as u8).collect();
        Ok(GpuInfo {
            name: self.name.clone(),
            sm: self.sm,
            multiprocessors: get(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as u32,
            l2_bytes: get(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?,
            max_clock_mhz: get(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)? as f64 / 1e3,
            cuda_version: (version as u32 / 1000, version as u32 % 1000 / 10),
            pci_bus_id: String::from_utf8_lossy(&bus).into_owned(),
        })
    }

    /// Queues `work` on the default stream and waits for it; returns the milliseconds between events around it.
    ///
    /// `cold`: overwrites the L2 cache first. The host queues the work while the GPU does that, so the time does
    /// not hold what the host takes to launch.
    ///
    /// # Safety
    /// What `work` queues is sound; it goes to the stream that it is given.
    pub(crate) unsafe fn time(
        &self,
        cold: bool,
        work: impl FnOnce(sys::CUstream) -> Result<(), Error>,
    ) -> Result<f64, Error> {
        self.bind()?;
        let stream = result::stream::null();
        let (start, end) = (Event::new()?, Event::new()?);
        // SAFETY: the context is current and the events are its own; the evictor lives as long as the device.
        unsafe {
            if cold {
                let evictor = self.evictor()?;
                result::memset_d8_async(evictor.pointer, 0, evictor.bytes, stream)
                    .map_err(failed("overwriting the L2 cache"))?;
            }
            start.record(stream)?;
            work(stream)?;
            end.record(stream)?;
            result::event::synchronize(end.0).map_err(failed("running the kernel"))?;
            let ms = result::event::elapsed(start.0, end.0).map_err(failed("timing the kernel"))?;
            Ok(ms.into())
        }
    }

    fn evictor(&self) -> Result<&CudaMemory, Error> {
        if let Some(evictor) = self.evictor.get() {
            return Ok(evictor);
        }
        let evictor = self.allocate(2 * self.info()?.l2_bytes as usize)?;
        Ok(self.evictor.get_or_init(|| evictor))
    }

    /// Runs a kernel and waits for it; returns the milliseconds between events around it, and what it occupies.
    ///
    /// # Safety
    /// The arguments match the entry's parameters, and the kernel touches memory only through pointers to live
    /// allocations that no one else uses at the time. So does what is cleared.
    pub(crate) unsafe fn run(&self, ptx: &Ptx, work: &Work<'_>) -> Result<CudaRun, Error> {
        self.bind()?;
        let Loaded { function, resources, .. } = self.load(ptx)?;
        let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let addresses = scratch.reserve(self, work.scratch)?;
        let arguments = (work.arguments)(&addresses);
        // The driver reads each argument through a pointer, with the alignment of its type.
        let mut words: Vec<u64> = arguments
            .iter()
            .map(|bytes| {
                let mut word = [0; 8];
                word[..bytes.len()].copy_from_slice(bytes);
                u64::from_ne_bytes(word)
            })
            .collect();
        let mut pointers: Vec<*mut c_void> = words.iter_mut().map(|w| std::ptr::from_mut(w).cast()).collect();
        let (grid, block) = ((work.ctas, 1, 1), (ptx.threads, 1, 1));
        // SAFETY: the function is this context's, the grid and the block have no zero dimension, and the caller
        // vouches for the arguments and for what is cleared.
        let time = unsafe {
            self.time(work.cold, |stream| {
                for (address, bytes) in work.cleared {
                    result::memset_d8_async(*address, 0, *bytes, stream)
                        .map_err(failed("clearing a tensor"))?;
                }
                result::launch_kernel(function, grid, block, ptx.dynamic_shared, stream, &mut pointers)
                    .map_err(failed("launching"))
            })
        };
        if time.is_err() {
            scratch.discard();
        }
        Ok(CudaRun { time_ms: time?, resources })
    }

    /// Loads the PTX, once in the life of the device.
    fn load(&self, ptx: &Ptx) -> Result<Loaded, Error> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = loaded.get(&ptx.text) {
            return Ok(*found);
        }
        let module = load_module(ptx)?;
        let entry = CString::new(ptx.entry.as_str()).map_err(|_| Error::Cuda {
            what: "finding the entry",
            code: "its name holds a zero byte".into(),
        })?;
        // SAFETY: the module was just loaded into the current context.
        let function =
            unsafe { result::module::get_function(module, entry) }.map_err(failed("finding the entry"))?;
        if ptx.dynamic_shared > 0 {
            let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function was just found.
            unsafe {
                result::function::set_function_attribute(function, attribute, ptx.dynamic_shared as i32)
            }
            .map_err(failed("reserving dynamic shared memory"))?;
        }
        let resources = resources(function, ptx)?;
        let entry = Loaded { module, function, resources };
        loaded.insert(ptx.text.clone(), entry);
        Ok(entry)
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        if self.bind().is_err() {
            return;
        }
        for loaded in self.loaded.get_mut().unwrap_or_else(PoisonError::into_inner).values() {
            // SAFETY: each module was loaded once into this context, and no launch is in flight: `run` waits.
            // A failure leaves the module to the end of the process.
            let _ = unsafe { result::module::unload(loaded.module) };
        }
    }
}

/// What the driver's compiler made of a kernel.
fn resources(function: sys::CUfunction, ptx: &Ptx) -> Result<Resources, Error> {
    use sys::CUfunction_attribute_enum as Attribute;
    // SAFETY: the function was just found in a module of the current context.
    let get = |attribute| unsafe {
        result::function::get_function_attribute(function, attribute)
            .map_err(failed("asking for a kernel's resources"))
    };
    // SAFETY: as above.
    let ctas = unsafe {
        result::occupancy::max_active_block_per_multiprocessor(
            function,
            ptx.threads as i32,
            ptx.dynamic_shared as usize,
        )
    };
    Ok(Resources {
        registers: get(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)? as u32,
        local_bytes: get(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)? as u32,
        ctas_per_multiprocessor: ctas.map_err(failed("asking for a kernel's occupancy"))? as u32,
    })
}

/// `cuModuleLoadDataEx` with a buffer for the log of the driver's compiler.
fn load_module(ptx: &Ptx) -> Result<sys::CUmodule, Error> {
    let image = CString::new(ptx.text.as_str()).map_err(|_| Error::PtxRejected {
        entry: ptx.entry.clone(),
        code: "not text".into(),
        log: "the PTX holds a zero byte".into(),
    })?;
    let mut log = vec![0u8; 1 << 16];
    let mut options = vec![
        sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
        sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
    ];
    let mut values = vec![log.as_mut_ptr().cast::<c_void>(), std::ptr::without_provenance_mut(log.len())];
    if let Some(level) = ptx.assemble {
        options.push(sys::CUjit_option::CU_JIT_OPTIMIZATION_LEVEL);
        values.push(std::ptr::without_provenance_mut(level as usize));
    }
    let mut module = std::ptr::null_mut();
    // SAFETY: the image ends with a zero, both arrays are as long as each other, and the log outlives the call.
    let status = unsafe {
        sys::cuModuleLoadDataEx(
            &mut module,
            image.as_ptr().cast(),
            options.len() as u32,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    status.result().map_err(|e| Error::PtxRejected {
        entry: ptx.entry.clone(),
        code: describe(e),
        log: CStr::from_bytes_until_nul(&log)
            .map_or_else(|_| "(no log)".into(), |log| log.to_string_lossy().trim().to_string()),
    })?;
    Ok(module)
}

impl CudaMemory {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn pointer(&self) -> u64 {
        self.pointer
    }

    pub(crate) fn download(&self) -> Result<Vec<u8>, Error> {
        let mut data = vec![0; self.bytes];
        if !data.is_empty() {
            self.context.bind_to_thread().map_err(failed("making the device current"))?;
            // SAFETY: the allocation has as many bytes, and launches have ended: `run` waits.
            unsafe { result::memcpy_dtoh_sync(&mut data, self.pointer) }
                .map_err(failed("copying from the device"))?;
        }
        Ok(data)
    }
}

impl Drop for CudaMemory {
    fn drop(&mut self) {
        if self.pointer != 0 && self.context.bind_to_thread().is_ok() {
            // SAFETY: allocated by `malloc_sync`, freed once. A failure leaves it to the end of the process.
            let _ = unsafe { result::free_sync(self.pointer) };
        }
    }
}

/// A timing event.
struct Event(sys::CUevent);

impl Event {
    fn new() -> Result<Self, Error> {
        let event = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT);
        Ok(Event(event.map_err(failed("creating an event"))?))
    }

    /// # Safety
    /// The event's context is current.
    unsafe fn record(&self, stream: sys::CUstream) -> Result<(), Error> {
        // SAFETY: passed on.
        unsafe { result::event::record(self.0, stream) }.map_err(failed("recording an event"))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        let _ = unsafe { result::event::destroy(self.0) };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drivers_log_says_what_is_wrong_with_ptx() {
        let Ok(device) = CudaDevice::new(0) else {
            eprintln!("skipped: no GPU");
            return;
        };
        let text =
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry bad() { frobnicate; ret; }";
        let ptx = Ptx {
            text: text.into(),
            entry: "bad".into(),
            assemble: None,
            threads: 32,
            static_shared: 0,
            dynamic_shared: 0,
        };
        let work = Work { ctas: 1, arguments: &|_| Vec::new(), scratch: &[], cleared: &[], cold: false };
        // SAFETY: nothing runs.
        let error = unsafe { device.run(&ptx, &work) }.err().expect("no PTX");
        let Error::PtxRejected { code, log, .. } = error else { panic!("{error}") };
        assert!(code.contains("CUDA_ERROR_INVALID_PTX"), "{code}");
        assert!(log.contains("frobnicate"), "{log}");
    }
}

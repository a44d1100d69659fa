//! PTX in the driver's hands: modules, functions, what they occupy.

use super::{CudaDevice, describe, failed};
use crate::{
    cache::PtxCache, compile::Compiled, error::Error, gpu::Resources, machine, memory::lock, row_copy,
};
use backend_ptx::Ptx;
use cudarc::driver::{result, sys};
use std::ffi::{CStr, CString, c_void};

/// A function of a loaded module, with what each launch of it says. Modules stay loaded as long as the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loaded {
    pub(super) module: sys::CUmodule,
    pub(super) function: sys::CUfunction,
    pub(super) threads: u32,
    pub(super) dynamic_shared: u32,
    /// It may begin before earlier work of its stream has ended.
    pub(super) dependent: bool,
    pub(crate) resources: Resources,
}

impl Loaded {
    /// Whether it may begin before earlier work of its stream has ended.
    pub(crate) fn is_dependent(&self) -> bool {
        self.dependent
    }
}

impl PartialEq for Loaded {
    /// Whether both are the same function, of which all else follows.
    fn eq(&self, other: &Loaded) -> bool {
        self.function == other.function
    }
}

// SAFETY: module and function handles are process-wide; the driver may be called from any thread.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

impl CudaDevice {
    /// Loads a kernel, once in the life of the device. `kept` has machine code for it, if there is some outside of the
    /// bundle.
    ///
    /// # Errors
    /// [`Error::PtxRejected`], or the driver's.
    pub(crate) fn load(
        &self,
        compiled: &Compiled,
        kept: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Result<Loaded, Error> {
        self.bind()?;
        let mut loaded = lock(&self.loaded);
        if let Some(found) = loaded.get(&compiled.id) {
            return Ok(*found);
        }
        let cluster = compiled.persistent_cluster();
        let bundled = compiled.machine.iter().find(|machine| machine.runs_on(self.sm()));
        let load_code = |code: &[u8]| {
            load_machine_code(code).and_then(|module| finish(module, &compiled.ptx, cluster)).ok()
        };
        // Machine code that the driver does not take is no reason to fail: there is the PTX.
        let entry = match bundled {
            Some(machine) => load_code(&machine.code),
            None => kept().and_then(|code| load_code(&code)),
        };
        let entry = entry.map_or_else(|| load(&compiled.ptx, cluster), Ok)?;
        let entry = Loaded { dependent: compiled.dependent, ..entry };
        loaded.insert(compiled.id, entry);
        Ok(entry)
    }

    /// The kernel that copies rows by this granule, which is loaded when it is first needed: as machine code where the cache
    /// and an assembler give some, as for other kernels.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn row_copy(&self, granule: usize, cache: &PtxCache) -> Result<Loaded, Error> {
        let slot = &mut lock(&self.row_copies)[granule];
        if let Some(found) = slot {
            return Ok(*found);
        }
        self.bind()?;
        let ptx = row_copy::ptx(granule);
        let code = machine::kept(cache, &ptx, &format!("sm_{}", self.sm()), &mut Vec::new());
        let loaded = code.and_then(|code| finish(load_machine_code(&code).ok()?, &ptx, None).ok());
        Ok(*slot.insert(loaded.map_or_else(|| load(&ptx, None), Ok)?))
    }
}

fn load(ptx: &Ptx, cluster: Option<u32>) -> Result<Loaded, Error> {
    finish(load_module(ptx)?, ptx, cluster)
}

/// Finds the entry of a loaded module and asks what it occupies, in clusters of so many CTAs.
fn finish(module: sys::CUmodule, ptx: &Ptx, cluster: Option<u32>) -> Result<Loaded, Error> {
    let entry = CString::new(ptx.entry.as_str())
        .map_err(|_| Error::Cuda { what: "finding the entry", code: "its name holds a zero byte".into() })?;
    // SAFETY: the module was just loaded into the current context.
    let function =
        unsafe { result::module::get_function(module, entry) }.map_err(failed("finding the entry"))?;
    if ptx.dynamic_shared > 0 {
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function was just found.
        unsafe { result::function::set_function_attribute(function, attribute, ptx.dynamic_shared as i32) }
            .map_err(failed("reserving dynamic shared memory"))?;
    }
    let resources = resources(function, ptx, cluster)?;
    let (threads, dynamic_shared) = (ptx.threads, ptx.dynamic_shared);
    Ok(Loaded { module, function, threads, dynamic_shared, dependent: false, resources })
}

/// What the driver's compiler made of a kernel.
fn resources(function: sys::CUfunction, ptx: &Ptx, cluster: Option<u32>) -> Result<Resources, Error> {
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
        clusters: cluster.map(|ctas| clusters(function, ptx, ctas)).transpose()?,
    })
}

/// Clusters of a kernel that the GPU holds at once: one lies within a GPC, so that multiprocessors may be left over in each.
fn clusters(function: sys::CUfunction, ptx: &Ptx, ctas: u32) -> Result<u32, Error> {
    // The function itself says how many CTAs a cluster has.
    let config = sys::CUlaunchConfig_st {
        gridDimX: ctas,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: ptx.threads,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: ptx.dynamic_shared,
        hStream: std::ptr::null_mut(),
        attrs: std::ptr::null_mut(),
        numAttrs: 0,
    };
    let mut count = 0;
    // SAFETY: the function was just found in a module of the current context; the driver writes one number.
    unsafe { sys::cuOccupancyMaxActiveClusters(&raw mut count, function, &raw const config) }
        .result()
        .map_err(failed("asking how many clusters fit"))?;
    Ok(count.max(0) as u32)
}

fn load_machine_code(code: &[u8]) -> Result<sys::CUmodule, Error> {
    // SAFETY: what the assembler made says itself how long it is, and the checksum of the bundle or of the cache's entry
    // was right.
    unsafe { result::module::load_data(code.as_ptr().cast()) }.map_err(failed("loading machine code"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drivers_log_says_what_is_wrong_with_ptx() {
        let Ok(device) = CudaDevice::new(0) else {
            eprintln!("skipped: no GPU");
            return;
        };
        device.bind().unwrap();
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
        let error = load(&ptx, None).expect_err("no PTX");
        let Error::PtxRejected { code, log, .. } = error else { panic!("{error}") };
        assert!(code.contains("CUDA_ERROR_INVALID_PTX"), "{code}");
        assert!(log.contains("frobnicate"), "{log}");
    }
}

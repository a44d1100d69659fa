//! One launch on a GPU through the driver, which is loaded when it is first used.

#![allow(unsafe_code)]

use super::plan::{Param, Plan};
use crate::{Refusal, Shape};
use cudarc::driver::{CudaContext, result, sys};
use ptx_sim::{Module, Swizzle, TensorElement, TensorMap};
use std::ffi::{CStr, CString, c_void};
use std::sync::Arc;

/// What a launch left on the GPU.
pub struct Outcome {
    pub device: String,
    /// The buffers of the plan, in order.
    pub buffers: Vec<Vec<u8>>,
    /// The module variables that were set, in order.
    pub variables: Vec<Vec<u8>>,
}

fn refused(what: impl std::fmt::Display) -> Refusal {
    Refusal::Gpu(what.to_string())
}

fn failed<E: std::fmt::Debug>(what: &str) -> impl Fn(E) -> Refusal + '_ {
    move |e| refused(format!("{what}: {e:?}"))
}

/// An allocation that is freed with the value.
struct Memory {
    at: sys::CUdeviceptr,
    size: usize,
}

impl Memory {
    fn new(size: usize, data: Option<&[u8]>) -> Result<Self, Refusal> {
        // SAFETY: the context is current; an allocation has at least a byte.
        let at =
            unsafe { result::malloc_sync(size.max(1)) }.map_err(failed("allocating memory on the GPU"))?;
        let memory = Memory { at, size };
        match data {
            // SAFETY: the data fit the allocation.
            Some(data) => unsafe { result::memcpy_htod_sync(at, data) },
            // SAFETY: as above.
            None => unsafe { result::memset_d8_sync(at, 0, size) },
        }
        .map_err(failed("filling memory of the GPU"))?;
        Ok(memory)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` and freed once. After a faulty kernel this fails, which changes nothing.
        let _ = unsafe { result::free_sync(self.at) };
    }
}

fn read(at: sys::CUdeviceptr, size: usize) -> Result<Vec<u8>, Refusal> {
    let mut out = vec![0; size];
    if size > 0 {
        // SAFETY: the caller's range has `size` bytes.
        unsafe { result::memcpy_dtoh_sync(&mut out, at) }.map_err(failed("reading memory of the GPU"))?;
    }
    Ok(out)
}

/// A loaded module, unloaded with the value.
struct Loaded(sys::CUmodule);

impl Loaded {
    fn new(ptx: &str) -> Result<Self, Refusal> {
        let text = CString::new(ptx).map_err(|_| refused("the PTX contains a NUL character"))?;
        let mut log = vec![0u8; 8192];
        let mut options = [
            sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
            sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ];
        // The driver takes numbers as pointers.
        let mut values = [log.as_mut_ptr().cast::<c_void>(), log.len() as *mut c_void];
        let mut module = std::ptr::null_mut();
        // SAFETY: the text ends in NUL, and there are as many values as options.
        let code = unsafe {
            sys::cuModuleLoadDataEx(
                &mut module,
                text.as_ptr().cast(),
                options.len() as u32,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        code.result().map_err(|e| {
            let log = CStr::from_bytes_until_nul(&log).map(CStr::to_string_lossy).unwrap_or_default();
            refused(format!("the driver refuses the PTX: {e:?}\n{}", log.trim()))
        })?;
        Ok(Loaded(module))
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: loaded in `new` and unloaded once.
        let _ = unsafe { sys::cuModuleUnload(self.0) };
    }
}

/// The driver's own encoding of a tensor map.
fn encode(map: &TensorMap, address: u64) -> Result<[u8; 128], Refusal> {
    use sys::CUtensorMapDataType_enum as T;
    use sys::CUtensorMapSwizzle_enum as S;
    if map.im2col.is_some() {
        return Err(refused("im2col maps are not compared"));
    }
    let element = match map.element {
        TensorElement::U8 => T::CU_TENSOR_MAP_DATA_TYPE_UINT8,
        TensorElement::U16 => T::CU_TENSOR_MAP_DATA_TYPE_UINT16,
        TensorElement::U32 => T::CU_TENSOR_MAP_DATA_TYPE_UINT32,
        TensorElement::I32 => T::CU_TENSOR_MAP_DATA_TYPE_INT32,
        TensorElement::U64 => T::CU_TENSOR_MAP_DATA_TYPE_UINT64,
        TensorElement::I64 => T::CU_TENSOR_MAP_DATA_TYPE_INT64,
        TensorElement::F16 => T::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        TensorElement::F32 => T::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        TensorElement::F64 => T::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
        TensorElement::BF16 => T::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
    };
    let swizzle = match map.swizzle {
        Swizzle::None => S::CU_TENSOR_MAP_SWIZZLE_NONE,
        Swizzle::B32 => S::CU_TENSOR_MAP_SWIZZLE_32B,
        Swizzle::B64 => S::CU_TENSOR_MAP_SWIZZLE_64B,
        Swizzle::B128 => S::CU_TENSOR_MAP_SWIZZLE_128B,
    };
    let fill = if map.nan_fill {
        sys::CUtensorMapFloatOOBfill_enum::CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
    } else {
        sys::CUtensorMapFloatOOBfill_enum::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE
    };
    let mut out = std::mem::MaybeUninit::<sys::CUtensorMap>::zeroed();
    // A tensor of one dimension has no strides, but the driver wants a pointer.
    let strides = if map.strides.is_empty() { vec![16] } else { map.strides.clone() };
    // SAFETY: the arrays have the rank's lengths (`TensorMap::validate` has checked them); the map is aligned as its type.
    unsafe {
        sys::cuTensorMapEncodeTiled(
            out.as_mut_ptr(),
            element,
            map.dims.len() as u32,
            address as *mut c_void,
            map.dims.as_ptr(),
            strides.as_ptr(),
            map.tile.as_ptr(),
            map.steps.as_ptr(),
            sys::CUtensorMapInterleave_enum::CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle,
            sys::CUtensorMapL2promotion_enum::CU_TENSOR_MAP_L2_PROMOTION_NONE,
            fill,
        )
    }
    .result()
    .map_err(failed("encoding a tensor map"))?;
    // SAFETY: a map is 128 bytes of plain data, and all were zeroed before the driver wrote them.
    Ok(unsafe { std::mem::transmute_copy::<sys::CUtensorMap, [u8; 128]>(out.assume_init_ref()) })
}

fn open() -> Result<(Arc<CudaContext>, String), Refusal> {
    // SAFETY: looks for the library and nothing more. Without this, the first call would panic.
    if !unsafe { sys::is_culib_present() } {
        return Err(refused("there is no CUDA driver here: `compare` needs a GPU, `run` does not"));
    }
    result::init().map_err(failed("initialising the driver"))?;
    let context = CudaContext::new(0).map_err(failed("opening GPU 0"))?;
    let name = context.name().map_err(failed("asking for the GPU's name"))?;
    Ok((context, name))
}

/// Launches the plan on GPU 0.
pub fn launch(
    ptx: &str,
    module: &Module,
    kernel: &str,
    shape: &Shape,
    plan: &Plan,
) -> Result<Outcome, Refusal> {
    let (context, device) = open()?;
    context.bind_to_thread().map_err(failed("using the GPU"))?;
    let mut memory = vec![];
    for b in &plan.buffers {
        memory.push(Memory::new(b.size, b.data.as_deref())?);
    }
    let loaded = Loaded::new(ptx)?;
    let c_string = |s: &str| CString::new(s).map_err(|_| refused("a name contains a NUL character"));
    let mut variables = vec![];
    for (name, contents) in &plan.sets {
        let name = super::plan::variable(module, name)?;
        let (mut at, mut size, text) = (0, 0, c_string(name)?);
        // SAFETY: the module is loaded and the name ends in NUL.
        unsafe { sys::cuModuleGetGlobal_v2(&mut at, &mut size, loaded.0, text.as_ptr()) }
            .result()
            .map_err(failed("looking for a module variable"))?;
        if contents.size > size {
            return Err(refused(format!(
                "--set {name}: {} bytes do not fit the variable's {size}",
                contents.size
            )));
        }
        let zero = vec![0; contents.size];
        // SAFETY: the data fit the variable.
        unsafe { result::memcpy_htod_sync(at, contents.data.as_deref().unwrap_or(&zero)) }
            .map_err(failed("setting a module variable"))?;
        variables.push((at, size));
    }
    let mut params: Vec<Vec<u8>> = vec![];
    for p in &plan.params {
        params.push(match p {
            Param::Bytes(b) => b.clone(),
            Param::Pointer((b, off)) => (memory[*b].at + off).to_le_bytes().to_vec(),
            Param::Map(map, (b, off), holder) => {
                let bytes = encode(map, memory[*b].at + off)?;
                match holder {
                    None => bytes.to_vec(),
                    Some(h) => {
                        // SAFETY: the holder has 128 bytes.
                        unsafe { result::memcpy_htod_sync(memory[*h].at, &bytes) }
                            .map_err(failed("writing a tensor map"))?;
                        memory[*h].at.to_le_bytes().to_vec()
                    }
                }
            }
            Param::Image(..) => return Err(refused("textures and surfaces are not compared")),
        });
    }
    let mut function = std::ptr::null_mut();
    let name = c_string(kernel)?;
    // SAFETY: the module is loaded and the name ends in NUL.
    unsafe { sys::cuModuleGetFunction(&mut function, loaded.0, name.as_ptr()) }
        .result()
        .map_err(failed("looking for the kernel"))?;
    if shape.shared > 48 * 1024 {
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function belongs to the loaded module.
        unsafe { sys::cuFuncSetAttribute(function, attribute, shape.shared as i32) }
            .result()
            .map_err(failed("asking for shared memory"))?;
    }
    // Tensor maps must be aligned to 64 bytes: so is every parameter.
    let mut aligned: Vec<Vec<u128>> = vec![];
    let mut pointers: Vec<*mut c_void> = vec![];
    for p in &params {
        let mut words = vec![0u128; p.len().div_ceil(16) + 4];
        let skip = words.as_ptr().align_offset(64);
        let start = words.as_mut_ptr().wrapping_add(skip).cast::<u8>();
        // SAFETY: 64 bytes beyond the parameter's leave room for the alignment.
        unsafe { std::ptr::copy_nonoverlapping(p.as_ptr(), start, p.len()) };
        aligned.push(words);
        pointers.push(start.cast());
    }
    // SAFETY: an all-zero attribute is a valid value of this plain type.
    let mut attribute: sys::CUlaunchAttribute = unsafe { std::mem::zeroed() };
    if let Some([x, y, z]) = shape.cluster {
        attribute.id = sys::CUlaunchAttributeID_enum::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        attribute.value.clusterDim.x = x;
        attribute.value.clusterDim.y = y;
        attribute.value.clusterDim.z = z;
    }
    let config = sys::CUlaunchConfig {
        gridDimX: shape.grid[0],
        gridDimY: shape.grid[1],
        gridDimZ: shape.grid[2],
        blockDimX: shape.block[0],
        blockDimY: shape.block[1],
        blockDimZ: shape.block[2],
        sharedMemBytes: shape.shared,
        hStream: std::ptr::null_mut(),
        attrs: &mut attribute,
        numAttrs: shape.cluster.is_some() as u32,
    };
    // SAFETY: the simulator has checked the number and sizes of the parameters; the pointers live until the launch returns.
    unsafe { sys::cuLaunchKernelEx(&config, function, pointers.as_mut_ptr(), std::ptr::null_mut()) }
        .result()
        .map_err(failed("launching on the GPU"))?;
    result::ctx::synchronize().map_err(failed("running on the GPU"))?;
    drop(aligned);
    let buffers = memory.iter().map(|m| read(m.at, m.size)).collect::<Result<_, _>>()?;
    let variables = variables.iter().map(|(at, size)| read(*at, *size)).collect::<Result<_, _>>()?;
    Ok(Outcome { device, buffers, variables })
}

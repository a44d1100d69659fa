//! NCCL, loaded when first used.
//!
//! The types are `cudarc`'s; its own loader does not know the name `libnccl.so.2`, under which the library is installed.

use super::{NCCL, Part, part::Work};
use crate::{
    device::{Device, Kind},
    error::Error,
    memory::lock,
};
use cudarc::{
    driver::sys::CUstream,
    nccl::sys::{cudaStream_t, ncclComm_t, ncclRedOp_t, ncclResult_t},
};
use libloading::Library;
use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    ptr::null_mut,
    sync::{Mutex, OnceLock},
};

/// Its functions.
struct Api {
    init_all: unsafe extern "C" fn(*mut ncclComm_t, c_int, *const c_int) -> ncclResult_t,
    destroy: unsafe extern "C" fn(ncclComm_t) -> ncclResult_t,
    group_start: unsafe extern "C" fn() -> ncclResult_t,
    group_end: unsafe extern "C" fn() -> ncclResult_t,
    all_reduce: unsafe extern "C" fn(
        *const c_void,
        *mut c_void,
        usize,
        c_uint,
        ncclRedOp_t,
        ncclComm_t,
        cudaStream_t,
    ) -> ncclResult_t,
    all_gather: unsafe extern "C" fn(
        *const c_void,
        *mut c_void,
        usize,
        c_uint,
        ncclComm_t,
        cudaStream_t,
    ) -> ncclResult_t,
    error_string: unsafe extern "C" fn(ncclResult_t) -> *const c_char,
}

impl Api {
    /// The library's functions, if there is one that has them.
    fn load() -> Option<Api> {
        // SAFETY: NVIDIA's libraries have no initialisers that rely on anything here.
        let library = NCCL.iter().find_map(|name| unsafe { Library::new(*name) }.ok())?;
        // SAFETY: the types are those of `nccl.h`, whose `ncclDataType_t` is an unsigned number. The library is never unloaded.
        let api = unsafe {
            Api {
                init_all: *library.get(b"ncclCommInitAll\0").ok()?,
                destroy: *library.get(b"ncclCommDestroy\0").ok()?,
                group_start: *library.get(b"ncclGroupStart\0").ok()?,
                group_end: *library.get(b"ncclGroupEnd\0").ok()?,
                all_reduce: *library.get(b"ncclAllReduce\0").ok()?,
                all_gather: *library.get(b"ncclAllGather\0").ok()?,
                error_string: *library.get(b"ncclGetErrorString\0").ok()?,
            }
        };
        std::mem::forget(library);
        Some(api)
    }

    /// # Errors
    /// [`Error::NoNccl`].
    fn get() -> Result<&'static Api, Error> {
        static API: OnceLock<Option<Api>> = OnceLock::new();
        API.get_or_init(Api::load).as_ref().ok_or(Error::NoNccl {
            why: "install NVIDIA's NCCL, for example the wheel nvidia-nccl-cu12, and name its folder in LD_LIBRARY_PATH (there must be a libnccl.so.2)",
        })
    }

    fn check(&self, what: &'static str, result: ncclResult_t) -> Result<(), Error> {
        match result {
            ncclResult_t::ncclSuccess => Ok(()),
            other => {
                // SAFETY: the text is a constant of the library.
                let text = unsafe { CStr::from_ptr((self.error_string)(other)) }.to_string_lossy();
                Err(Error::Cuda { what, code: format!("{other:?}: {text}") })
            }
        }
    }
}

/// A communicator of NCCL for each device.
pub(super) struct Nccl {
    api: &'static Api,
    communicators: Mutex<Communicators>,
    devices: Vec<Device>,
}

struct Communicators(Vec<ncclComm_t>);

// SAFETY: a communicator may be used from any thread, though by one at a time.
unsafe impl Send for Communicators {}

impl Nccl {
    /// # Errors
    /// [`Error::NoNccl`], NCCL's.
    pub(super) fn new(devices: &[Device]) -> Result<Self, Error> {
        let api = Api::get()?;
        let ordinals = devices.iter().filter_map(|device| match device.kind() {
            Kind::Cuda(cuda) => Some(cuda.context.ordinal() as c_int),
            Kind::Sim(_) => None,
        });
        let ordinals: Vec<c_int> = ordinals.collect();
        let mut communicators = vec![null_mut(); ordinals.len()];
        // SAFETY: both arrays are as long as it is told.
        let result =
            unsafe { (api.init_all)(communicators.as_mut_ptr(), ordinals.len() as c_int, ordinals.as_ptr()) };
        api.check("making a communicator", result)?;
        // NCCL reads the others' buffers directly where the machine can do that.
        for device in devices {
            for peer in devices {
                if let (Kind::Cuda(device), Kind::Cuda(peer)) = (device.kind(), peer.kind()) {
                    device.pool().share_with(&peer.context)?;
                }
            }
        }
        Ok(Nccl { api, communicators: Mutex::new(Communicators(communicators)), devices: devices.to_vec() })
    }

    /// A collective in place, queued on each stream, or captured by it.
    ///
    /// # Safety
    /// As [`Part::queue`].
    ///
    /// # Errors
    /// NCCL's.
    pub(super) unsafe fn queue(&self, parts: &[&Part], streams: &[CUstream]) -> Result<(), Error> {
        let what = "a collective";
        let Communicators(communicators) = &*lock(&self.communicators);
        // SAFETY: no arguments.
        self.api.check(what, unsafe { (self.api.group_start)() })?;
        let each = parts.iter().zip(streams).try_for_each(|(part, stream)| {
            let Some(dtype) = part.dtype.format().nccl else {
                unreachable!("no buffer has elements of {}", part.dtype)
            };
            let pointer = |at: u64| std::ptr::without_provenance_mut::<c_void>(at as usize);
            let (to, communicator) = (pointer(part.address), communicators[part.rank]);
            let stream: cudaStream_t = stream.cast();
            // SAFETY: the caller's.
            let result = unsafe {
                match part.work {
                    Work::Sum => {
                        let sum = ncclRedOp_t::ncclSum;
                        (self.api.all_reduce)(to, to, part.count, dtype, sum, communicator, stream)
                    }
                    Work::Gather => {
                        let count = part.count / self.devices.len();
                        let from = part.address + (part.rank * count) as u64 * u64::from(part.dtype.bytes());
                        (self.api.all_gather)(pointer(from), to, count, dtype, communicator, stream)
                    }
                }
            };
            self.api.check(what, result)
        });
        // SAFETY: no arguments; a group that was started is ended.
        let ended = self.api.check(what, unsafe { (self.api.group_end)() });
        each.and(ended)
    }
}

impl Drop for Nccl {
    fn drop(&mut self) {
        for device in &self.devices {
            if let Kind::Cuda(cuda) = device.kind() {
                // After a failure the GPU runs nothing any more.
                let _ = cuda.synchronize();
            }
        }
        for communicator in &lock(&self.communicators).0 {
            // SAFETY: made once, destroyed once, and its work has ended. A failure leaves it to the end of the process.
            let _ = unsafe { (self.api.destroy)(*communicator) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudarc::nccl::sys::ncclDataType_t as Type;
    use tile_dsl::dtype::DType;

    #[test]
    fn codes_of_types_are_those_of_the_library() {
        for (dtype, code) in [
            (DType::F32, Type::ncclFloat32),
            (DType::F16, Type::ncclFloat16),
            (DType::BF16, Type::ncclBfloat16),
            (DType::F8, Type::ncclFloat8e4m3),
            (DType::I32, Type::ncclInt32),
            (DType::U32, Type::ncclUint32),
            (DType::I8, Type::ncclInt8),
            (DType::U8, Type::ncclUint8),
            (DType::I64, Type::ncclInt64),
        ] {
            assert_eq!(dtype.format().nccl, Some(code as u32), "{dtype}");
        }
    }

    #[test]
    fn what_is_missing_is_said() {
        let Err(error) = Api::get() else {
            eprintln!("skipped: NCCL is here");
            return;
        };
        assert_eq!(
            error.to_string(),
            "no NCCL: install NVIDIA's NCCL, for example the wheel nvidia-nccl-cu12, and name its folder in LD_LIBRARY_PATH (there must be a libnccl.so.2)"
        );
    }
}

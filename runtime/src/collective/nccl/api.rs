//! NCCL's functions, loaded when first used.
//!
//! The types are `cudarc`'s; its own loader does not know the name `libnccl.so.2`, under which the library is installed.

use super::super::NCCL;
use crate::error::Error;
use cudarc::nccl::sys::{cudaStream_t, ncclComm_t, ncclConfig_t, ncclRedOp_t, ncclResult_t, ncclUniqueId};
use libloading::Library;
use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    sync::OnceLock,
};

type Answer = ncclResult_t;

/// `ncclDataType_t` is an unsigned number here: that of a newer library may have more than cudarc knows.
pub(super) struct Api {
    pub(super) init_all: unsafe extern "C" fn(*mut ncclComm_t, c_int, *const c_int) -> Answer,
    pub(super) unique_id: unsafe extern "C" fn(*mut ncclUniqueId) -> Answer,
    pub(super) init_rank:
        unsafe extern "C" fn(*mut ncclComm_t, c_int, ncclUniqueId, c_int, *mut ncclConfig_t) -> Answer,
    pub(super) async_error: unsafe extern "C" fn(ncclComm_t, *mut ncclResult_t) -> Answer,
    pub(super) finalize: unsafe extern "C" fn(ncclComm_t) -> Answer,
    pub(super) destroy: unsafe extern "C" fn(ncclComm_t) -> Answer,
    pub(super) abort: unsafe extern "C" fn(ncclComm_t) -> Answer,
    pub(super) group_start: unsafe extern "C" fn() -> Answer,
    pub(super) group_end: unsafe extern "C" fn() -> Answer,
    pub(super) all_reduce: unsafe extern "C" fn(
        *const c_void,
        *mut c_void,
        usize,
        c_uint,
        ncclRedOp_t,
        ncclComm_t,
        cudaStream_t,
    ) -> Answer,
    /// The count is that of what is received.
    pub(super) reduce_scatter: unsafe extern "C" fn(
        *const c_void,
        *mut c_void,
        usize,
        c_uint,
        ncclRedOp_t,
        ncclComm_t,
        cudaStream_t,
    ) -> Answer,
    /// The count is that of what is sent.
    pub(super) all_gather:
        unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_uint, ncclComm_t, cudaStream_t) -> Answer,
    pub(super) broadcast: unsafe extern "C" fn(
        *const c_void,
        *mut c_void,
        usize,
        c_uint,
        c_int,
        ncclComm_t,
        cudaStream_t,
    ) -> Answer,
    pub(super) send:
        unsafe extern "C" fn(*const c_void, usize, c_uint, c_int, ncclComm_t, cudaStream_t) -> Answer,
    pub(super) receive:
        unsafe extern "C" fn(*mut c_void, usize, c_uint, c_int, ncclComm_t, cudaStream_t) -> Answer,
    error_string: unsafe extern "C" fn(ncclResult_t) -> *const c_char,
}

impl Api {
    /// The library's functions, if there is one that has them.
    fn load() -> Option<Api> {
        // SAFETY: NVIDIA's libraries have no initialisers that rely on anything here.
        let library = NCCL.iter().find_map(|name| unsafe { Library::new(*name) }.ok())?;
        // SAFETY: the types are those of `nccl.h`. The library is never unloaded.
        let api = unsafe {
            Api {
                init_all: *library.get(b"ncclCommInitAll\0").ok()?,
                unique_id: *library.get(b"ncclGetUniqueId\0").ok()?,
                init_rank: *library.get(b"ncclCommInitRankConfig\0").ok()?,
                async_error: *library.get(b"ncclCommGetAsyncError\0").ok()?,
                finalize: *library.get(b"ncclCommFinalize\0").ok()?,
                destroy: *library.get(b"ncclCommDestroy\0").ok()?,
                abort: *library.get(b"ncclCommAbort\0").ok()?,
                group_start: *library.get(b"ncclGroupStart\0").ok()?,
                group_end: *library.get(b"ncclGroupEnd\0").ok()?,
                all_reduce: *library.get(b"ncclAllReduce\0").ok()?,
                reduce_scatter: *library.get(b"ncclReduceScatter\0").ok()?,
                all_gather: *library.get(b"ncclAllGather\0").ok()?,
                broadcast: *library.get(b"ncclBroadcast\0").ok()?,
                send: *library.get(b"ncclSend\0").ok()?,
                receive: *library.get(b"ncclRecv\0").ok()?,
                error_string: *library.get(b"ncclGetErrorString\0").ok()?,
            }
        };
        std::mem::forget(library);
        Some(api)
    }

    /// # Errors
    /// [`Error::NoNccl`].
    pub(super) fn get() -> Result<&'static Api, Error> {
        static API: OnceLock<Option<Api>> = OnceLock::new();
        API.get_or_init(Api::load).as_ref().ok_or(Error::NoNccl {
            why: "install NVIDIA's NCCL, for example the wheel nvidia-nccl-cu12, and name its folder in LD_LIBRARY_PATH (there must be a libnccl.so.2)",
        })
    }

    /// # Errors
    /// NCCL's.
    pub(super) fn check(&self, what: &'static str, result: ncclResult_t) -> Result<(), Error> {
        match result {
            ncclResult_t::ncclSuccess => Ok(()),
            other => {
                // SAFETY: the text is a constant of the library.
                let text = unsafe { CStr::from_ptr((self.error_string)(other)) }.to_string_lossy();
                Err(Error::Cuda { what, code: format!("{other:?}: {text}") })
            }
        }
    }

    /// The same, of a communicator that does not block: that a call goes on is no error.
    ///
    /// # Errors
    /// NCCL's.
    pub(super) fn check_begun(&self, what: &'static str, result: ncclResult_t) -> Result<(), Error> {
        match result {
            ncclResult_t::ncclInProgress => Ok(()),
            other => self.check(what, other),
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

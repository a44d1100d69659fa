//! A library that Python calls through `ctypes`: tensors of PyTorch or NumPy come by DLPack, a kernel works on them where
//! they are, and they go back. `scripts/check-torch.py` is the other side.
//!
//! ```sh
//! cargo build --release --example dlpack
//! scripts/check-torch.py target/release/examples/libdlpack.so --device cuda
//! ```

use std::{
    cell::RefCell,
    ffi::{CString, c_char, c_int},
    ptr::{NonNull, null, null_mut},
};
use tilewright::{
    Error, Variant,
    dlpack::{DLManagedTensor, from_dlpack},
    prelude::*,
};

/// y = factor·x.
#[tile_kernel]
fn scale<T: Float>(factor: f32, x: &Tensor<T, M, N>, y: &mut Tensor<T, M, N>) {
    let (i, j) = program_tile(M, N);
    store(y, [i, j], (load(x, [i, j]).cast::<f32>() * factor).cast::<T>());
}

schedule! {
    /// Four elements a thread, along the rows.
    rows for scale<f32 | f16> {
        tile(i = 1, j = 512);
        split(j -> jt, jv: 4);
        bind(jt -> thread.x);
        vectorize(jv);
    }
}

thread_local! {
    static ERROR: RefCell<CString> = RefCell::default();
}

/// What the last call of this thread that failed had to say; valid until the next one fails.
#[unsafe(no_mangle)]
pub extern "C" fn tilewright_error() -> *const c_char {
    ERROR.with_borrow(|text| text.as_ptr())
}

/// Keeps the text of an error.
fn or_null<T>(result: Result<*mut T, Error>) -> *mut T {
    result.unwrap_or_else(|e| {
        ERROR.set(CString::new(e.to_string()).unwrap_or_default());
        null_mut()
    })
}

/// A stream of a GPU, or of the simulator where `ordinal` is negative; null after an error.
#[unsafe(no_mangle)]
pub extern "C" fn tilewright_open(ordinal: c_int) -> *mut Stream {
    let device = usize::try_from(ordinal).map_or_else(|_| Ok(Device::sim()), Device::cuda);
    or_null(device.and_then(|device| Stream::new(&device)).map(|stream| Box::into_raw(Box::new(stream))))
}

/// The stream as `__dlpack__` takes it; null on the simulator.
///
/// # Safety
/// `stream` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilewright_stream(stream: *const Stream) -> *const std::ffi::c_void {
    // SAFETY: the caller's.
    let stream = unsafe { &*stream };
    stream.cuda_stream().map_or(null(), |stream| stream.cu_stream().cast_const().cast())
}

/// Closes a stream.
///
/// # Safety
/// `stream` is open, and is not used after this.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilewright_close(stream: *mut Stream) {
    // SAFETY: the caller's.
    drop(unsafe { Box::from_raw(stream) });
}

/// y = factor·x in place, for `bits` 32 or 16: takes both tensors over, gives y back, and says at `variant` what ran: 0 exact,
/// 1 aligned, 2 general. Null after an error.
///
/// # Safety
/// `stream` is open; `tensors` points to x and y, ready on that stream, which no one else uses until y is back; where one was
/// taken over there is null afterwards, and the others are still the caller's. `variant` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilewright_scale(
    stream: *const Stream,
    bits: c_int,
    factor: f32,
    tensors: *mut [*mut DLManagedTensor; 2],
    variant: *mut c_int,
) -> *mut DLManagedTensor {
    // SAFETY: the caller's.
    unsafe {
        let (stream, tensors) = (&*stream, &mut *tensors);
        let result = match bits {
            16 => scaled::<f16>(stream, factor, tensors),
            _ => scaled::<f32>(stream, factor, tensors),
        };
        or_null(result.map(|(tensor, chosen)| {
            *variant = chosen.map_or(-1, |v| v as c_int);
            tensor.as_ptr()
        }))
    }
}

/// # Safety
/// As [`tilewright_scale`].
unsafe fn scaled<T: Float>(
    stream: &Stream,
    factor: f32,
    tensors: &mut [*mut DLManagedTensor; 2],
) -> Result<(NonNull<DLManagedTensor>, Option<Variant>), Error> {
    let mut take = |n: usize| {
        let tensor = NonNull::new(tensors[n]).ok_or_else(|| Error::Shape("a tensor is missing".into()))?;
        // SAFETY: the caller's.
        let buffer = unsafe { from_dlpack::<T>(stream, tensor) }?;
        tensors[n] = null_mut();
        Ok::<_, Error>(buffer)
    };
    let (x, mut y) = (take(0)?, take(1)?);
    let launched = scale(factor, &x, &mut y).schedule(rows).device(stream.device()).enqueue(stream)?;
    Ok((y.into_dlpack()?, launched.variant))
}

//! Tensors of other libraries, and ours for them, by DLPack: nothing is copied.
//!
//! The structures are those of `dlpack/dlpack.h`, version 0.8 (<https://github.com/dmlc/dlpack>), which every library
//! still speaks; Python hands them over in a capsule named `dltensor` (Python array API standard, "Data interchange
//! mechanisms"). `examples/torch` has that side.

use crate::{
    buffer::{Buffer, RawBuffer, size_in_bytes},
    device::{Device, HostMemory, Kind},
    element::Element,
    error::Error,
    geometry::{Geometry, Layout, PerDim},
    memory::{Memory, Storage, lock},
    stream::Stream,
};
use smallvec::SmallVec;
use std::{
    ffi::c_void,
    ptr::{NonNull, null_mut},
    sync::Mutex,
};

/// `DLDevice`: where a tensor lives.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDevice {
    /// A `DLDeviceType`: [`CPU`], [`CUDA`] and others.
    pub device_type: i32,
    /// Which of them.
    pub device_id: i32,
}

/// `kDLCPU`.
pub const CPU: i32 = 1;
/// `kDLCUDA`.
pub const CUDA: i32 = 2;

/// `DLDataType`: what an element is.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDataType {
    /// A `DLDataTypeCode`: [`INT`], [`FLOAT`], [`BFLOAT`], [`BOOL`] and others.
    pub code: u8,
    /// Bits of a lane.
    pub bits: u8,
    /// Lanes, 1 for a scalar.
    pub lanes: u16,
}

/// `kDLInt`.
pub const INT: u8 = 0;
/// `kDLFloat`.
pub const FLOAT: u8 = 2;
/// `kDLBfloat`.
pub const BFLOAT: u8 = 4;
/// `kDLBool`: a byte, of which PyTorch and NumPy write 0 and 1.
pub const BOOL: u8 = 6;

impl DLDataType {
    /// That of an element type of buffers.
    ///
    /// # Errors
    /// [`Error::Dlpack`] for `f8`, which has a code since version 1.1 alone.
    pub fn of<T: Element>() -> Result<Self, Error> {
        let code = T::DTYPE.format().dlpack.ok_or_else(|| {
            wrong(format!("would have elements of {}, for which DLPack 0.8 has no code", T::DTYPE))
        })?;
        Ok(DLDataType { code, bits: 8 * size_of::<T>() as u8, lanes: 1 })
    }

    fn name(self) -> String {
        let DLDataType { code, bits, lanes } = self;
        let scalar = match code {
            INT => format!("int{bits}"),
            1 => format!("uint{bits}"),
            FLOAT => format!("float{bits}"),
            BFLOAT => format!("bfloat{bits}"),
            5 => format!("complex{bits}"),
            BOOL if bits == 8 => "bool".into(),
            BOOL => format!("bool{bits}"),
            other => format!("type {other} with {bits} bits"),
        };
        if lanes == 1 { scalar } else { format!("{scalar} in vectors of {lanes}") }
    }
}

/// `DLTensor`: a tensor in memory of someone else.
#[repr(C)]
#[derive(Debug)]
pub struct DLTensor {
    /// Start of the memory.
    pub data: *mut c_void,
    /// Where it is.
    pub device: DLDevice,
    /// Number of dimensions.
    pub ndim: i32,
    /// What an element is.
    pub dtype: DLDataType,
    /// Extents, as many as there are dimensions.
    pub shape: *mut i64,
    /// Strides in elements, as many; null for a row-major tensor without gaps.
    pub strides: *mut i64,
    /// From `data` to the first element.
    pub byte_offset: u64,
}

/// `DLManagedTensor`: a tensor with what frees it.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensor {
    /// The tensor.
    pub dl_tensor: DLTensor,
    /// The producer's.
    pub manager_ctx: *mut c_void,
    /// Called once by the consumer, when it uses the tensor no more.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

/// A tensor that was taken over: its deleter is called with the value.
struct Taken(NonNull<DLManagedTensor>);

// SAFETY: DLPack lets a consumer call the deleter from any thread.
unsafe impl Send for Taken {}
// SAFETY: nothing is done through a reference.
unsafe impl Sync for Taken {}

impl Drop for Taken {
    fn drop(&mut self) {
        // SAFETY: the tensor is live until its deleter is called, which is here and once.
        unsafe {
            if let Some(deleter) = self.0.as_ref().deleter {
                deleter(self.0.as_ptr());
            }
        }
    }
}

/// Takes a tensor over as a buffer in the same memory. Its deleter is called when the buffer is gone and the work that uses
/// it has ended. On a GPU `stream` is the one for which the producer made the tensor ready: that which `__dlpack__` was
/// called with; launches on other streams wait for it. The simulator takes tensors in the host's memory.
///
/// On an error the tensor is still the caller's: its deleter was not called.
///
/// # Safety
/// `tensor` follows the specification and was not taken over before. Until the deleter is called no one writes its elements,
/// and no one reads them while a launch writes the buffer, but through the buffer. On the simulator they have values. Those of
/// `bool` are any bytes: what is not zero is true.
///
/// # Errors
/// [`Error::Dlpack`] where elements, dimensions or address are none that a buffer can have; [`Error::DeviceMismatch`];
/// [`Error::Strides`], [`Error::SizeOverflow`].
pub unsafe fn from_dlpack<T: Element>(
    stream: &Stream,
    tensor: NonNull<DLManagedTensor>,
) -> Result<Buffer<T>, Error> {
    let device = stream.device();
    // SAFETY: the caller's.
    let found = unsafe { &tensor.as_ref().dl_tensor };
    check_device(device, found.device)?;
    let expected = DLDataType::of::<T>()?;
    if found.dtype != expected {
        let (found, expected) = (found.dtype.name(), expected.name());
        return Err(wrong(format!("has elements of {found}, and a buffer of {expected} was asked for")));
    }
    // SAFETY: the caller's.
    let geometry = unsafe { geometry(found) }?;
    size_in_bytes::<T>(&geometry.shape)?;
    let bytes = size_in_bytes::<T>(&[geometry.span()])?;
    let address = (found.data as u64).checked_add(found.byte_offset);
    let address = address.ok_or_else(|| wrong("has an offset beyond all addresses".into()))?;
    if bytes > 0 && found.data.is_null() {
        return Err(wrong("has elements and no memory".into()));
    }
    if !address.is_multiple_of(size_of::<T>() as u64) {
        let size = size_of::<T>();
        return Err(wrong(format!("has its first element at {address:#x}, no multiple of {size} bytes")));
    }
    let taken = Box::new(Taken(tensor));
    let storage = match device.kind() {
        Kind::Cuda(cuda) => Storage::Cuda(cuda.foreign(address, bytes, Some(taken))),
        Kind::Sim(_) => {
            let start = found.data.cast::<u8>().wrapping_add(found.byte_offset as usize);
            let start = NonNull::new(start).unwrap_or(NonNull::dangling());
            // SAFETY: the caller vouches for the elements; `taken` keeps them.
            Storage::Host(Mutex::new(unsafe { HostMemory::foreign(start, bytes, Some(taken)) }), None)
        }
    };
    let memory = Memory::new(device, storage);
    memory.used(&stream.queue, stream.queue.ticket(), true);
    Ok(Buffer::foreign(memory, geometry))
}

fn wrong(what: String) -> Error {
    Error::Dlpack { what }
}

fn check_device(device: &Device, found: DLDevice) -> Result<(), Error> {
    if found == place(device) {
        return Ok(());
    }
    let name = match found.device_type {
        CPU => "the host".into(),
        CUDA => format!("CUDA device {}", found.device_id),
        other => format!("a device of DLPack's type {other}"),
    };
    Err(Error::DeviceMismatch { name: "the tensor".into(), found: name, expected: device.label() })
}

/// A device as DLPack knows it: the simulator's memory is the host's.
fn place(device: &Device) -> DLDevice {
    match device.kind() {
        Kind::Sim(_) => DLDevice { device_type: CPU, device_id: 0 },
        Kind::Cuda(cuda) => DLDevice { device_type: CUDA, device_id: cuda.context.ordinal() as i32 },
    }
}

/// Shape and strides of a tensor that is row-major or column-major, perhaps with gaps.
///
/// # Safety
/// `shape`, and `strides` if not null, have as many numbers as `ndim` says.
unsafe fn geometry(tensor: &DLTensor) -> Result<Geometry, Error> {
    let rank = usize::try_from(tensor.ndim).map_err(|_| wrong(format!("has {} dimensions", tensor.ndim)))?;
    if rank > MAX_RANK {
        return Err(wrong(format!("has {rank} dimensions, and kernels take at most {MAX_RANK}")));
    }
    let numbers = |what: &str, from: *mut i64| -> Result<PerDim, Error> {
        let number = |d: usize| {
            // SAFETY: the caller's.
            let x = unsafe { *from.add(d) };
            usize::try_from(x).map_err(|_| wrong(format!("has {what} {x} in dimension {d}")))
        };
        (0..rank).map(number).collect()
    };
    let shape = numbers("extent", tensor.shape)?;
    size_in_bytes::<u8>(&shape)?;
    if tensor.strides.is_null() {
        return Ok(Geometry::dense(&shape, Layout::RowMajor));
    }
    let strides = numbers("stride", tensor.strides)?;
    let as_layout = |layout: Layout| {
        // Where there is one index or none, libraries put any stride.
        let (mut room, mut strides) = (1usize, strides.clone());
        for d in layout.fastest_first(rank) {
            if shape[d] <= 1 || shape.contains(&0) {
                strides[d] = room;
            }
            room = strides[d].max(room).saturating_mul(shape[d].max(1));
        }
        Geometry::strided(&shape, &strides, layout)
    };
    as_layout(Layout::RowMajor).or_else(|e| as_layout(Layout::ColumnMajor).map_err(|_| e))
}

/// Dimensions of a kernel's tensors.
const MAX_RANK: usize = 6;

/// What a tensor that was given away points to.
struct Given {
    tensor: DLManagedTensor,
    shape: SmallVec<[i64; 6]>,
    strides: SmallVec<[i64; 6]>,
    raw: RawBuffer,
}

impl<T: Element> Buffer<T> {
    /// Gives the buffer away as a tensor in the same memory, once the work that uses it has ended. Whoever takes it calls
    /// its deleter, which waits for the GPU before the memory is freed, whatever the streams that used it.
    ///
    /// # Errors
    /// [`Error::Recorded`]; [`Error::Asynchronous`] when the work failed; [`Error::Dlpack`] for `f8`.
    pub fn into_dlpack(self) -> Result<NonNull<DLManagedTensor>, Error> {
        let dtype = DLDataType::of::<T>()?;
        let raw = self.raw;
        raw.memory.wait(true)?;
        let offset = raw.geometry.offset * size_of::<T>();
        let start = match &raw.memory.storage {
            Storage::Host(contents, _) => lock(contents).as_mut_ptr().cast::<c_void>(),
            Storage::Cuda(memory) => std::ptr::without_provenance_mut(memory.pointer() as usize),
        };
        let numbers = |of: &PerDim| of.iter().map(|n| *n as i64).collect();
        let tensor = DLTensor {
            // In place of an offset, which some consumers ignore.
            data: start.wrapping_byte_add(offset),
            device: place(&raw.memory.device),
            ndim: raw.geometry.shape.len() as i32,
            dtype,
            shape: null_mut(),
            strides: null_mut(),
            byte_offset: 0,
        };
        let managed =
            DLManagedTensor { dl_tensor: tensor, manager_ctx: null_mut(), deleter: Some(delete_given) };
        let (shape, strides) = (numbers(&raw.geometry.shape), numbers(&raw.geometry.strides));
        let given = Box::into_raw(Box::new(Given { tensor: managed, shape, strides, raw }));
        // SAFETY: it was just made, and stays where it is until `delete_given`.
        unsafe {
            (*given).tensor.dl_tensor.shape = (*given).shape.as_mut_ptr();
            (*given).tensor.dl_tensor.strides = (*given).strides.as_mut_ptr();
            (*given).tensor.manager_ctx = given.cast();
            Ok(NonNull::new_unchecked(&raw mut (*given).tensor))
        }
    }
}

/// Frees what [`Buffer::into_dlpack`] made.
///
/// # Safety
/// `tensor` is such a tensor, and is not used after this.
unsafe extern "C" fn delete_given(tensor: *mut DLManagedTensor) {
    // SAFETY: the caller's; `manager_ctx` is the box.
    let given = unsafe { Box::from_raw((*tensor).manager_ctx.cast::<Given>()) };
    if let Kind::Cuda(cuda) = given.raw.memory.device.kind() {
        // The consumer's streams are unknown here. After a failure the GPU runs nothing any more.
        let _ = cuda.synchronize();
    }
}

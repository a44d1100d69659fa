//! Memory of others: kernels work on it, and it is freed by whom it belongs to.
//!
//! [`cuda_buffer`] takes over what `cudarc` holds, [`cuda_view`] and [`cuda_view_mut`] borrow it; [`raw_view`],
//! [`raw_view_mut`] and [`raw_buffer`] take addresses of any origin, [`Stream::from_cuda`] a stream. The other way,
//! [`Buffer::device_pointer`] gives the address of our own, and [`Stream::cuda_stream`] the stream. Nothing is copied.
//!
//! Borrowing is `unsafe` because the view's destructor is what waits for the GPU, and a destructor may be skipped
//! ([`std::mem::forget`]).

use crate::{
    buffer::{Buffer, size_in_bytes},
    device::{CudaQueue, Device, Kind},
    element::Element,
    error::Error,
    geometry::{Geometry, Layout},
    memory::{Memory, Storage},
    queue::Queue,
    stream::Stream,
    view::{View, ViewMut},
};
use std::{any::Any, sync::Arc};

/// The CUDA driver's interface whose types are taken here.
pub use cudarc;
use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut, DeviceSlice, DriverError};

/// What owns memory, to be dropped when it is used no more.
pub type Keep = Box<dyn Any + Send + Sync>;

/// Shape and strides of memory that is borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    /// Extents, outermost first.
    pub extents: &'a [usize],
    /// Elements from one index of each dimension to the next; `None` where there are no gaps.
    pub strides: Option<&'a [usize]>,
    /// Which dimension is contiguous: its stride is 1.
    pub layout: Layout,
}

impl<'a> From<&'a [usize]> for Shape<'a> {
    /// Row-major, without gaps.
    fn from(extents: &'a [usize]) -> Self {
        Shape { extents, strides: None, layout: Layout::RowMajor }
    }
}

impl<'a, const N: usize> From<&'a [usize; N]> for Shape<'a> {
    /// Row-major, without gaps.
    fn from(extents: &'a [usize; N]) -> Self {
        Shape::from(extents.as_slice())
    }
}

impl Shape<'_> {
    fn geometry<T>(&self) -> Result<Geometry, Error> {
        size_in_bytes::<T>(self.extents)?;
        let geometry = match self.strides {
            Some(strides) => Geometry::strided(self.extents, strides, self.layout)?,
            None => Geometry::dense(self.extents, self.layout),
        };
        size_in_bytes::<T>(&[geometry.span()])?;
        Ok(geometry)
    }
}

/// A `cudarc` slice as a buffer, which frees it. Launches wait, on the GPU, for the work of the slice's stream so far.
///
/// # Errors
/// As [`cuda_view`].
pub fn cuda_buffer<'a, T: Element>(
    device: &Device,
    slice: CudaSlice<T>,
    shape: impl Into<Shape<'a>>,
) -> Result<Buffer<T>, Error> {
    let geometry = shape.into().geometry::<T>()?;
    check(device, &slice, &geometry)?;
    let (length, theirs) = (slice.len(), slice.stream().clone());
    adopt(device, length, &theirs, &geometry, |stream| {
        let pointer = slice.device_ptr(stream).0;
        (pointer, Some(Box::new(slice)))
    })
}

/// A `cudarc` slice or view as a tensor to be read. Launches wait, on the GPU, for the work of the slice's stream so
/// far; dropping the view waits for the launches that used it.
///
/// # Safety
/// The view is dropped before the slice is used otherwise or freed: it is not forgotten.
///
/// # Errors
/// [`Error::DataLength`] when the slice is shorter than the tensor, [`Error::Strides`], [`Error::SizeOverflow`];
/// [`Error::DeviceMismatch`] when the slice is of another GPU, [`Error::ForeignMemory`] on the simulator; the driver's.
pub unsafe fn cuda_view<'a, T: Element, S: DevicePtr<T>>(
    device: &Device,
    slice: &'a S,
    shape: impl Into<Shape<'a>>,
) -> Result<View<'a, T>, Error> {
    let geometry = shape.into().geometry::<T>()?;
    check(device, slice, &geometry)?;
    let pointer = |stream: &CudaStream| (slice.device_ptr(stream).0, None);
    Ok(View::of(adopt(device, slice.len(), slice.stream(), &geometry, pointer)?))
}

/// [`cuda_view`] of memory to be written.
///
/// # Safety
/// As [`cuda_view`].
///
/// # Errors
/// As [`cuda_view`].
pub unsafe fn cuda_view_mut<'a, T: Element, S: DevicePtrMut<T>>(
    device: &Device,
    slice: &'a mut S,
    shape: impl Into<Shape<'a>>,
) -> Result<ViewMut<'a, T>, Error> {
    let geometry = shape.into().geometry::<T>()?;
    check(device, slice, &geometry)?;
    let (length, theirs) = (slice.len(), slice.stream().clone());
    let pointer = |stream: &CudaStream| (slice.device_ptr_mut(stream).0, None);
    Ok(ViewMut::of(adopt(device, length, &theirs, &geometry, pointer)?))
}

fn check<T: Element, S: DeviceSlice<T>>(
    device: &Device,
    slice: &S,
    geometry: &Geometry,
) -> Result<(), Error> {
    let context = slice.stream().context();
    match device.kind() {
        Kind::Cuda(cuda) if cuda.context.cu_ctx() == context.cu_ctx() => {}
        Kind::Sim(_) => return Err(no_gpu(device)),
        Kind::Cuda(_) => {
            let (name, found) = ("the slice".into(), format!("CUDA device {}", context.ordinal()));
            return Err(Error::DeviceMismatch { name, found, expected: device.label() });
        }
    }
    if slice.len() < geometry.span() {
        return Err(Error::DataLength { shape: geometry.shape.to_vec(), elements: slice.len() });
    }
    Ok(())
}

/// A tensor in `length` elements of memory that the work of `theirs` so far may use.
fn adopt<T: Element>(
    device: &Device,
    length: usize,
    theirs: &CudaStream,
    geometry: &Geometry,
    pointer: impl FnOnce(&CudaStream) -> (u64, Option<Keep>),
) -> Result<Buffer<T>, Error> {
    let failed = |what| move |e: DriverError| Error::Cuda { what, code: format!("{e:?}") };
    let queue = &device.inner.queue;
    let (Kind::Cuda(cuda), Some(ours)) = (device.kind(), &queue.cuda) else { return Err(no_gpu(device)) };
    ours.stream.join(theirs).map_err(failed("waiting for the slice's stream"))?;
    let (pointer, keep) = pointer(&ours.stream);
    let memory = Memory::new(device, Storage::Cuda(cuda.foreign(pointer, length * size_of::<T>(), keep)));
    // Other streams of ours wait for this one, which waits for theirs.
    memory.used(queue, queue.ticket(), true);
    Ok(Buffer::foreign(memory, geometry.clone()))
}

fn no_gpu(device: &Device) -> Error {
    Error::ForeignMemory { device: device.name() }
}

/// Memory of a GPU at an address, as a tensor to be read for as long as `'a`.
///
/// # Safety
/// `pointer` is the address on `device` of the first element of a tensor of this shape, aligned for `T`. Until the view
/// is dropped, which waits for the launches that used it, the memory stays allocated and nothing else writes it; what
/// wrote it before has ended.
///
/// # Errors
/// [`Error::Strides`], [`Error::SizeOverflow`]; [`Error::DeviceMismatch`] for memory of another GPU,
/// [`Error::ForeignMemory`] on the simulator; the driver's.
pub unsafe fn raw_view<'a, T: Element>(
    device: &Device,
    pointer: u64,
    shape: impl Into<Shape<'a>>,
) -> Result<View<'a, T>, Error> {
    // SAFETY: the caller's.
    Ok(View::of(unsafe { raw_buffer(device, pointer, shape, None) }?))
}

/// [`raw_view`] of memory to be written.
///
/// # Safety
/// As [`raw_view`], and nothing else reads the memory either.
///
/// # Errors
/// As [`raw_view`].
pub unsafe fn raw_view_mut<'a, T: Element>(
    device: &Device,
    pointer: u64,
    shape: impl Into<Shape<'a>>,
) -> Result<ViewMut<'a, T>, Error> {
    // SAFETY: the caller's.
    Ok(ViewMut::of(unsafe { raw_buffer(device, pointer, shape, None) }?))
}

/// Memory of a GPU at an address, as a buffer. When the buffer and the work that uses it are gone, `keep` is dropped,
/// and not before; freeing the memory is its task, or that of no one.
///
/// # Safety
/// As [`raw_view_mut`], until `keep` is dropped.
///
/// # Errors
/// As [`raw_view`].
pub unsafe fn raw_buffer<'a, T: Element>(
    device: &Device,
    pointer: u64,
    shape: impl Into<Shape<'a>>,
    keep: Option<Keep>,
) -> Result<Buffer<T>, Error> {
    let geometry = shape.into().geometry::<T>()?;
    let Kind::Cuda(cuda) = device.kind() else { return Err(no_gpu(device)) };
    if let Some(ordinal) = cuda.owner(pointer)?.filter(|ordinal| *ordinal != cuda.context.ordinal()) {
        let (name, found) = ("the memory".into(), format!("CUDA device {ordinal}"));
        return Err(Error::DeviceMismatch { name, found, expected: device.label() });
    }
    let memory = cuda.foreign(pointer, geometry.span() * size_of::<T>(), keep);
    Ok(Buffer::foreign(Memory::new(device, Storage::Cuda(memory)), geometry))
}

impl<T: Element> Buffer<T> {
    /// Address of the first element on the GPU, once everything that writes the buffer has ended; `None` on the
    /// simulator. It is valid as long as the buffer; what others do there has ended before the buffer is dropped.
    ///
    /// # Errors
    /// [`Error::Asynchronous`] when the work failed.
    pub fn device_pointer(&self) -> Result<Option<u64>, Error> {
        self.raw.memory.wait(false)?;
        Ok(self.device().is_gpu().then(|| self.raw.address()))
    }

    /// Address of the first element on the GPU, once everything that uses the buffer has ended; `None` on the
    /// simulator. What others write there has ended before the buffer is used again or dropped.
    ///
    /// # Errors
    /// [`Error::Asynchronous`] when the work failed.
    pub fn device_pointer_mut(&mut self) -> Result<Option<u64>, Error> {
        self.raw.memory.wait(true)?;
        Ok(self.device().is_gpu().then(|| self.raw.address()))
    }
}

impl Stream {
    /// A stream that `cudarc` has, or wraps for another owner (`CudaContext::wrap_borrowed_stream`): launches are in order with
    /// what is queued on it there. It waits for all its work when it is dropped, and lives on with those that hold it.
    ///
    /// # Errors
    /// [`Error::StreamMismatch`] for a stream of another device than this one.
    pub fn from_cuda(device: &Device, stream: Arc<CudaStream>) -> Result<Self, Error> {
        let context = stream.context();
        match device.kind() {
            Kind::Cuda(cuda) if cuda.context.cu_ctx() == context.cu_ctx() => {
                let queue = cuda.queue_on(stream);
                queue.share();
                Ok(Stream::on(device, Queue::new(Some(queue))))
            }
            _ => {
                let found = format!("CUDA device {}", context.ordinal());
                Err(Error::StreamMismatch { found, expected: device.label() })
            }
        }
    }

    /// The stream as `cudarc` knows it; `None` on the simulator. Work that is queued on it there is in order with the
    /// launches here, and [`Stream::sync`] waits for it.
    pub fn cuda_stream(&self) -> Option<Arc<CudaStream>> {
        self.queue.cuda.as_ref().map(CudaQueue::share)
    }
}

//! Buffers: typed tensors in a device's memory.

use crate::{
    device::{Device, Kind},
    element::Element,
    error::Error,
    geometry::{Geometry, Layout},
    memory::{Memory, Storage, lock},
};
use std::{marker::PhantomData, ops::Range, sync::Arc};
use tile_dsl::dtype::DType;

/// A tensor of `T` in a device's memory.
///
/// A buffer that was created has no gaps between its elements; [`View`](crate::View)s of it, which a kernel takes
/// just as well, may have.
///
/// Work that was queued on a [`Stream`](crate::Stream) may still be using the memory. Whatever would get in its way
/// waits for it: [`Buffer::to_vec`] for what writes, [`Buffer::copy_from`] for all of it. Dropping the buffer does not make
/// the host wait: its memory goes to another one when that work has ended.
pub struct Buffer<T> {
    pub(crate) raw: RawBuffer,
    elem: PhantomData<T>,
}

/// A buffer whose element type is known only when the program runs. Implemented by [`Buffer`] alone.
pub trait AnyBuffer: sealed::Sealed {
    /// Element type.
    fn dtype(&self) -> DType;
    /// Extents, outermost first as the kernel declares them, whatever the layout.
    fn shape(&self) -> &[usize];
    /// Elements from one index of each dimension to the next.
    fn strides(&self) -> &[usize];
    /// Which dimension is contiguous.
    fn layout(&self) -> Layout;
    /// Where it lives.
    fn device(&self) -> &Device;
    #[doc(hidden)]
    fn raw(&self) -> &RawBuffer;
}

/// Untyped contents of a [`Buffer`].
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct RawBuffer {
    /// Shared with the views of a buffer. Who may write is decided by the borrows of the buffers, not here.
    pub(crate) memory: Arc<Memory>,
    pub(crate) dtype: DType,
    pub(crate) geometry: Geometry,
}

impl RawBuffer {
    /// Address of the first element; on the simulator, from the start of its memory.
    pub(crate) fn address(&self) -> u64 {
        self.memory.address() + (self.geometry.offset * self.dtype.bytes() as usize) as u64
    }

    /// Bytes from the first element to one past the last, once what writes them has ended.
    ///
    /// # Errors
    /// Those of the work that was waited for, and the driver's.
    pub(crate) fn span(&self) -> Result<Vec<u8>, Error> {
        self.memory.wait(false)?;
        let size = self.dtype.bytes() as usize;
        let (start, length) = (self.geometry.offset * size, self.geometry.span() * size);
        match &self.memory.storage {
            Storage::Host(data, _) => Ok(lock(data)[start..start + length].to_vec()),
            Storage::Cuda(memory) => memory.download(start, length),
        }
    }

    /// The elements in the order in which the layout stores them, of memory of the host that no work is waited for to write.
    pub(crate) fn on_host(&self) -> Option<Vec<u8>> {
        let Storage::Host(data, _) = &self.memory.storage else { return None };
        let size = self.dtype.bytes() as usize;
        let mut out = Vec::with_capacity(self.geometry.count() * size);
        let data = lock(data);
        self.geometry.runs(|at, count| out.extend_from_slice(&data[at * size..(at + count) * size]));
        Some(out)
    }

    /// Some bytes of a tensor without gaps, of memory of the host that no work is waited for to write.
    pub(crate) fn part_on_host(&self, bytes: Range<usize>) -> Vec<u8> {
        let Storage::Host(data, _) = &self.memory.storage else { return Vec::new() };
        let first = self.geometry.offset * self.dtype.bytes() as usize;
        lock(data)[first + bytes.start..first + bytes.end].to_vec()
    }

    /// Overwrites bytes of a tensor without gaps, of memory of the host that nothing waits for.
    pub(crate) fn put_part_on_host(&self, at: usize, bytes: &[u8]) {
        let Storage::Host(data, _) = &self.memory.storage else { return };
        let first = self.geometry.offset * self.dtype.bytes() as usize + at;
        lock(data)[first..][..bytes.len()].copy_from_slice(bytes);
    }

    /// The elements, in the order in which the layout stores them.
    fn stored(&self) -> Result<Vec<u8>, Error> {
        let size = self.dtype.bytes() as usize;
        if self.geometry.is_dense() {
            return self.span();
        }
        let mut out = Vec::with_capacity(self.geometry.count() * size);
        // On the host without the gaps, which may be long; from a GPU in one piece.
        if let Storage::Host(data, _) = &self.memory.storage {
            self.memory.wait(false)?;
            let data = lock(data);
            self.geometry.runs(|at, count| out.extend_from_slice(&data[at * size..(at + count) * size]));
            return Ok(out);
        }
        let span = self.span()?;
        self.geometry.runs(|at, count| {
            let at = (at - self.geometry.offset) * size;
            out.extend_from_slice(&span[at..at + count * size]);
        });
        Ok(out)
    }

    /// Overwrites the elements, in the order in which the layout stores them.
    fn overwrite(&self, data: &[u8]) -> Result<(), Error> {
        self.memory.wait(true)?;
        let size = self.dtype.bytes() as usize;
        let (mut rest, mut result) = (data, Ok(()));
        self.geometry.runs(|at, count| {
            let (run, after) = rest.split_at(count * size);
            rest = after;
            match &self.memory.storage {
                Storage::Host(data, _) => lock(data)[at * size..][..run.len()].copy_from_slice(run),
                Storage::Cuda(memory) if result.is_ok() => result = memory.upload(at * size, run),
                Storage::Cuda(_) => {}
            }
        });
        result
    }
}

impl<T: Element> Buffer<T> {
    /// A row-major tensor with the elements of `data`, last dimension fastest.
    ///
    /// # Errors
    /// [`Error::DataLength`] when `data` does not have as many elements as `shape`,
    /// [`Error::SizeOverflow`] when `shape` has more than a device can address, [`Error::OutOfMemory`].
    pub fn from_slice(device: &Device, data: &[T], shape: &[usize]) -> Result<Self, Error> {
        Self::from_slice_in(device, data, shape, Layout::RowMajor)
    }

    /// A tensor with the elements of `data` in the order in which `layout` stores them.
    ///
    /// # Errors
    /// As [`Buffer::from_slice`].
    pub fn from_slice_in(
        device: &Device,
        data: &[T],
        shape: &[usize],
        layout: Layout,
    ) -> Result<Self, Error> {
        let bytes = size_in_bytes::<T>(shape)?;
        if size_of_val(data) != bytes {
            return Err(Error::DataLength { shape: shape.to_vec(), elements: data.len() });
        }
        let (data, memory) = (T::bytes_of(data), allocate(device, bytes, 0)?);
        let queue = &device.inner.queue;
        match (&memory.storage, &queue.cuda) {
            (Storage::Cuda(allocated), Some(cuda)) => {
                // SAFETY: the memory is new and as large, and freed after this work, which is noted.
                unsafe { cuda.upload(allocated.pointer(), &data)? };
                memory.used(queue, queue.ticket(), true);
            }
            (Storage::Host(contents, _), _) => lock(contents).copy_from_slice(&data),
            (Storage::Cuda(_), None) => unreachable!("a GPU has a queue"),
        }
        Ok(Self::new(memory, Geometry::dense(shape, layout)))
    }

    /// A row-major tensor of zeros.
    ///
    /// # Errors
    /// [`Error::SizeOverflow`], [`Error::OutOfMemory`].
    pub fn zeros(device: &Device, shape: &[usize]) -> Result<Self, Error> {
        Self::filled(device, shape, 0)
    }

    /// A row-major tensor to be written: every byte is `0xff`, which makes every float a NaN, so that an element
    /// which a kernel forgets is noticed.
    ///
    /// # Errors
    /// [`Error::SizeOverflow`], [`Error::OutOfMemory`].
    pub fn poisoned(device: &Device, shape: &[usize]) -> Result<Self, Error> {
        Self::filled(device, shape, 0xff)
    }

    /// A row-major tensor to be written, which costs no work of the device: on a GPU its elements are what the memory had before. On the
    /// simulator it is [`Buffer::poisoned`].
    ///
    /// # Errors
    /// [`Error::SizeOverflow`], [`Error::OutOfMemory`].
    pub fn uninit(device: &Device, shape: &[usize]) -> Result<Self, Error> {
        let memory = allocate(device, size_in_bytes::<T>(shape)?, 0xff)?;
        let queue = &device.inner.queue;
        if queue.cuda.is_some() {
            // The allocation itself is work.
            memory.used(queue, queue.ticket(), true);
        }
        Ok(Self::new(memory, Geometry::dense(shape, Layout::RowMajor)))
    }

    fn filled(device: &Device, shape: &[usize], byte: u8) -> Result<Self, Error> {
        let bytes = size_in_bytes::<T>(shape)?;
        let memory = allocate(device, bytes, byte)?;
        let queue = &device.inner.queue;
        if let (Storage::Cuda(allocated), Some(cuda)) = (&memory.storage, &queue.cuda) {
            // SAFETY: the memory is new, and freed after this work, which is noted.
            unsafe { cuda.fill(allocated.pointer(), byte, bytes)? };
            memory.used(queue, queue.ticket(), true);
        }
        Ok(Self::new(memory, Geometry::dense(shape, Layout::RowMajor)))
    }

    fn new(memory: Memory, geometry: Geometry) -> Self {
        let raw = RawBuffer { memory: Arc::new(memory), dtype: T::DTYPE, geometry };
        Buffer { raw, elem: PhantomData }
    }

    /// Another tensor in the same memory: the caller decides who may use it when.
    pub(crate) fn alias(&self, geometry: Geometry) -> Self {
        let raw = RawBuffer { memory: self.raw.memory.clone(), dtype: T::DTYPE, geometry };
        Buffer { raw, elem: PhantomData }
    }

    /// The same memory with elements of another type, of as many bytes.
    fn retyped<U: Element>(self) -> Buffer<U> {
        const { assert!(size_of::<T>() == size_of::<U>()) };
        Buffer { raw: RawBuffer { dtype: U::DTYPE, ..self.raw }, elem: PhantomData }
    }

    /// A tensor in memory of another owner.
    pub(crate) fn foreign(memory: Memory, geometry: Geometry) -> Self {
        Self::new(memory, geometry)
    }

    /// The elements, in the order in which the layout stores them, gaps left out. Waits for work that writes them.
    ///
    /// # Errors
    /// [`Error::Asynchronous`] when that work failed; the driver's, on a GPU.
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        Ok(T::from_bytes(&self.raw.stored()?))
    }

    /// Overwrites the elements, in the order in which the layout stores them. Waits for work that uses them.
    ///
    /// # Errors
    /// [`Error::DataLength`]; [`Error::Asynchronous`] when that work failed; the driver's, on a GPU.
    pub fn copy_from(&mut self, data: &[T]) -> Result<(), Error> {
        if data.len() != self.raw.geometry.count() {
            return Err(Error::DataLength { shape: self.shape().to_vec(), elements: data.len() });
        }
        self.raw.overwrite(&T::bytes_of(data))
    }

    /// Extents, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.raw.geometry.shape
    }

    /// Elements from one index of each dimension to the next.
    pub fn strides(&self) -> &[usize] {
        &self.raw.geometry.strides
    }

    /// Which dimension is contiguous.
    pub fn layout(&self) -> Layout {
        self.raw.geometry.layout
    }

    /// Where it lives.
    pub fn device(&self) -> &Device {
        &self.raw.memory.device
    }
}

impl Buffer<u8> {
    /// The same memory as a mask: what is not zero is true. Nothing is copied.
    pub fn into_bools(self) -> Buffer<bool> {
        self.retyped()
    }
}

impl Buffer<bool> {
    /// The same memory as bytes. Kernels store 0 and 1; bytes that no kernel stored are as they were. Nothing is copied.
    pub fn into_bytes(self) -> Buffer<u8> {
        self.retyped()
    }
}

impl<T: Element> std::fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer")
            .field("dtype", &self.raw.dtype)
            .field("shape", &self.shape())
            .field("strides", &self.strides())
            .field("layout", &self.layout())
            .field("device", &self.device())
            .finish()
    }
}

impl<T: Element> AnyBuffer for Buffer<T> {
    fn dtype(&self) -> DType {
        T::DTYPE
    }
    fn shape(&self) -> &[usize] {
        self.shape()
    }
    fn strides(&self) -> &[usize] {
        self.strides()
    }
    fn layout(&self) -> Layout {
        self.layout()
    }
    fn device(&self) -> &Device {
        self.device()
    }
    fn raw(&self) -> &RawBuffer {
        &self.raw
    }
}

/// New memory: each byte with this value on the simulator, without a value on a GPU, where it is the device's own queue
/// that may use it.
///
/// # Errors
/// [`Error::OutOfMemory`]; the driver's.
fn allocate(device: &Device, bytes: usize, byte: u8) -> Result<Memory, Error> {
    let storage = match (device.kind(), &device.inner.queue.cuda) {
        (Kind::Sim(sim), _) => sim.allocate(bytes, byte)?,
        (Kind::Cuda(_), Some(cuda)) => Storage::Cuda(cuda.allocate(bytes)?),
        (Kind::Cuda(_), None) => unreachable!("a GPU has a queue"),
    };
    Ok(Memory::new(device, storage))
}

pub(crate) fn size_in_bytes<T>(shape: &[usize]) -> Result<usize, Error> {
    shape
        .iter()
        .try_fold(size_of::<T>(), |n, &d| n.checked_mul(d))
        .filter(|&n| n <= isize::MAX as usize)
        .ok_or_else(|| Error::SizeOverflow { shape: shape.to_vec() })
}

mod sealed {
    pub trait Sealed {}
    impl<T> Sealed for super::Buffer<T> {}
}

//! Buffers: typed tensors in a device's memory.

use crate::{
    device::{CudaMemory, Device, Kind},
    element::Element,
    error::Error,
};
use std::marker::PhantomData;
use tile_dsl::dtype::DType;

/// Which dimension of a tensor is contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Layout {
    /// The last: element `[i, j]` of an `M×N` tensor lies at `i·N + j`.
    #[default]
    RowMajor,
    /// The first: element `[i, j]` of an `M×N` tensor lies at `i + j·M`.
    ColumnMajor,
}

impl Layout {
    /// `row-major` or `column-major`.
    pub fn name(self) -> &'static str {
        match self {
            Layout::RowMajor => "row-major",
            Layout::ColumnMajor => "column-major",
        }
    }
}

/// A tensor of `T` in a device's memory, without gaps between its elements.
pub struct Buffer<T> {
    raw: RawBuffer,
    elem: PhantomData<T>,
}

/// A buffer whose element type is known only when the program runs. Implemented by [`Buffer`] alone.
pub trait AnyBuffer: sealed::Sealed {
    /// Element type.
    fn dtype(&self) -> DType;
    /// Extents, outermost first as the kernel declares them, whatever the layout.
    fn shape(&self) -> &[usize];
    /// Which dimension is contiguous.
    fn layout(&self) -> Layout;
    /// Where it lives.
    fn device(&self) -> &Device;
    #[doc(hidden)]
    fn raw(&self) -> &RawBuffer;
    #[doc(hidden)]
    fn raw_mut(&mut self) -> &mut RawBuffer;
}

/// Untyped contents of a [`Buffer`].
#[doc(hidden)]
#[derive(Debug)]
pub struct RawBuffer {
    pub(crate) device: Device,
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    pub(crate) layout: Layout,
    pub(crate) storage: Storage,
}

/// Memory that holds a buffer's elements.
pub(crate) enum Storage {
    /// The simulator's: copied into its memory for each launch.
    Host(Vec<u8>),
    /// A GPU's.
    Cuda(CudaMemory),
}

impl std::fmt::Debug for Storage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (place, bytes) = match self {
            Storage::Host(data) => ("host", data.len()),
            Storage::Cuda(memory) => ("cuda", memory.bytes()),
        };
        write!(f, "{place}, {bytes} bytes")
    }
}

impl RawBuffer {
    /// Address on the device; 0 for the simulator, which places tensors anew, and well aligned, for each launch.
    pub(crate) fn address(&self) -> u64 {
        match &self.storage {
            Storage::Host(_) => 0,
            Storage::Cuda(memory) => memory.pointer(),
        }
    }
}

impl<T: Element> Buffer<T> {
    /// A row-major tensor with the elements of `data`, last dimension fastest.
    ///
    /// # Errors
    /// [`Error::DataLength`] when `data` does not have as many elements as `shape`,
    /// [`Error::SizeOverflow`] when `shape` has more than a device can address.
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
        let data = T::bytes_of(data);
        let storage = match &*device.kind {
            Kind::Sim(_) => Storage::Host(data),
            Kind::Cuda(cuda) => Storage::Cuda(cuda.upload(&data)?),
        };
        Ok(Self::from_storage(device, storage, shape, layout))
    }

    /// A row-major tensor of zeros.
    ///
    /// # Errors
    /// [`Error::SizeOverflow`], [`Error::OutOfMemory`].
    pub fn zeros(device: &Device, shape: &[usize]) -> Result<Self, Error> {
        Self::filled(device, shape, Layout::RowMajor, 0)
    }

    /// A row-major tensor to be written: every byte is `0xff`, which makes every float a NaN, so that an element
    /// which a kernel forgets is noticed.
    ///
    /// # Errors
    /// [`Error::SizeOverflow`], [`Error::OutOfMemory`].
    pub fn poisoned(device: &Device, shape: &[usize]) -> Result<Self, Error> {
        Self::filled(device, shape, Layout::RowMajor, 0xff)
    }

    fn filled(device: &Device, shape: &[usize], layout: Layout, byte: u8) -> Result<Self, Error> {
        let bytes = size_in_bytes::<T>(shape)?;
        let storage = match &*device.kind {
            Kind::Sim(_) => {
                let mut data = Vec::new();
                data.try_reserve_exact(bytes).map_err(|_| Error::OutOfMemory {
                    device: device.name(),
                    bytes: bytes as u128,
                    free: 0,
                })?;
                data.resize(bytes, byte);
                Storage::Host(data)
            }
            Kind::Cuda(cuda) => Storage::Cuda(cuda.filled(byte, bytes)?),
        };
        Ok(Self::from_storage(device, storage, shape, layout))
    }

    fn from_storage(device: &Device, storage: Storage, shape: &[usize], layout: Layout) -> Self {
        let raw =
            RawBuffer { device: device.clone(), dtype: T::DTYPE, shape: shape.to_vec(), layout, storage };
        Buffer { raw, elem: PhantomData }
    }

    /// The elements, in the order in which the layout stores them.
    ///
    /// # Errors
    /// The driver's, on a GPU.
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        Ok(match &self.raw.storage {
            Storage::Host(data) => T::from_bytes(data),
            Storage::Cuda(memory) => T::from_bytes(&memory.download()?),
        })
    }

    /// Extents, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.raw.shape
    }

    /// Which dimension is contiguous.
    pub fn layout(&self) -> Layout {
        self.raw.layout
    }

    /// Where it lives.
    pub fn device(&self) -> &Device {
        &self.raw.device
    }
}

impl<T: Element> std::fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer")
            .field("dtype", &self.raw.dtype)
            .field("shape", &self.raw.shape)
            .field("layout", &self.raw.layout)
            .field("device", &self.raw.device)
            .finish()
    }
}

impl<T: Element> AnyBuffer for Buffer<T> {
    fn dtype(&self) -> DType {
        T::DTYPE
    }
    fn shape(&self) -> &[usize] {
        &self.raw.shape
    }
    fn layout(&self) -> Layout {
        self.raw.layout
    }
    fn device(&self) -> &Device {
        &self.raw.device
    }
    fn raw(&self) -> &RawBuffer {
        &self.raw
    }
    fn raw_mut(&mut self) -> &mut RawBuffer {
        &mut self.raw
    }
}

fn size_in_bytes<T>(shape: &[usize]) -> Result<usize, Error> {
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

//! Page-locked memory of the host, and copies that go on while the host does something else.

use crate::{
    buffer::{Buffer, RawBuffer},
    device::{CudaPinned, Device, HostMemory, Kind},
    element::Element,
    error::Error,
    memory::{Storage, lock},
    stream::{Event, Stream},
    usage::MemoryUse,
};
use std::{
    marker::PhantomData,
    ops::{Deref, DerefMut},
};

/// Elements in memory of the host that is page-locked: a GPU copies from and to it while the host does something else.
/// It derefs to a slice.
///
/// A copy takes it over and gives it back when it has ended, so what is under way cannot be read, changed or freed:
///
/// ```
/// # use tile_runtime::{Buffer, Device, Error, Pinned, Stream};
/// # fn main() -> Result<(), Error> {
/// # let device = Device::sim();
/// let stream = Stream::new(&device)?;
/// let mut x = Buffer::<f32>::zeros(&device, &[2, 2])?;
/// let data = Pinned::from_slice(&device, &[1.0, 2.0, 3.0, 4.0])?;
/// let sent = x.copy_from_pinned(data, &stream)?;
/// // Launches on `x` come after the copy, whichever their stream is.
/// let data = sent.wait()?;
/// let data = x.copy_to_pinned(data, &stream)?.wait()?;
/// assert_eq!(data[..], [1.0, 2.0, 3.0, 4.0]);
/// # Ok(())
/// # }
/// ```
///
/// ```compile_fail,E0382
/// # use tile_runtime::{Buffer, Device, Error, Pinned, Stream};
/// # fn copy(x: Buffer<f32>, data: Pinned<f32>, stream: Stream) -> Result<(), Error> {
/// let read = x.copy_to_pinned(data, &stream)?;
/// println!("{}", data[0]); // error[E0382]: borrow of moved value: `data`
/// # Ok(())
/// # }
/// ```
pub struct Pinned<T> {
    place: Place,
    elem: PhantomData<T>,
}

/// Where the elements are; the simulator has nothing to lock pages for.
enum Place {
    Locked(CudaPinned),
    Pageable(HostMemory),
}

impl Place {
    fn bytes(&self) -> &[u8] {
        match self {
            Place::Locked(memory) => memory,
            Place::Pageable(memory) => memory,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Place::Locked(memory) => memory,
            Place::Pageable(memory) => memory,
        }
    }
}

impl<T: Element> Pinned<T> {
    /// So many zeros. All GPUs can copy from and to them, not `device` alone.
    ///
    /// # Errors
    /// [`Error::SizeOverflow`], [`Error::OutOfMemory`]; the driver's, on a GPU.
    pub fn zeros(device: &Device, length: usize) -> Result<Self, Error> {
        let bytes = crate::buffer::size_in_bytes::<T>(&[length])?;
        let place = match device.kind() {
            Kind::Cuda(cuda) if bytes > 0 => Place::Locked(cuda.pinned(bytes)?),
            _ => Place::Pageable(HostMemory::filled(bytes, 0).ok_or_else(|| Error::OutOfMemory {
                device: "the host".into(),
                bytes: bytes as u128,
                memory: MemoryUse { in_use: 0, reserved: 0, free: 0 },
            })?),
        };
        Ok(Pinned { place, elem: PhantomData })
    }

    /// A copy of these elements.
    ///
    /// # Errors
    /// As [`Pinned::zeros`].
    pub fn from_slice(device: &Device, data: &[T]) -> Result<Self, Error> {
        let mut pinned = Self::zeros(device, data.len())?;
        pinned.copy_from_slice(data);
        Ok(pinned)
    }
}

impl<T: Element> Deref for Pinned<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        let bytes = self.place.bytes();
        // SAFETY: pages and our own memory are aligned for every element type. Their bytes are zeros, elements of this type, or were
        // settled after the copy that wrote them.
        unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<T>()) }
    }
}

impl<T: Element> DerefMut for Pinned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        let bytes = self.place.bytes_mut();
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len() / size_of::<T>()) }
    }
}

impl<T: Element> std::fmt::Debug for Pinned<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pinned").field("dtype", &T::DTYPE).field("length", &self.len()).finish()
    }
}

/// A copy under way, with the memory of the host that it reads or writes. Dropping it waits for the copy; forgetting it
/// loses that memory for good.
#[must_use = "dropping it waits for the copy"]
pub struct Copying<T> {
    /// `None` once it was given back.
    pinned: Option<Pinned<T>>,
    event: Event,
}

impl<T: Element> Copying<T> {
    /// Whether it has ended.
    ///
    /// # Errors
    /// [`Error::Asynchronous`] when it failed, or work before it.
    pub fn is_done(&self) -> Result<bool, Error> {
        self.event.is_done()
    }

    /// Waits for the copy, and not for what was queued after it, and gives the memory back.
    ///
    /// # Errors
    /// [`Error::Asynchronous`] when it failed, or work before it: the memory is gone then.
    pub fn wait(mut self) -> Result<Pinned<T>, Error> {
        self.event.sync()?;
        let mut pinned = self.pinned.take().expect("given back once");
        T::settle(pinned.place.bytes_mut());
        Ok(pinned)
    }
}

impl<T> Drop for Copying<T> {
    fn drop(&mut self) {
        if self.pinned.is_some() {
            // After a failure the GPU runs nothing any more.
            let _ = self.event.sync();
        }
    }
}

impl<T> std::fmt::Debug for Copying<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Copying").finish_non_exhaustive()
    }
}

impl<T: Element> Buffer<T> {
    /// Overwrites the elements, in the order in which the layout stores them, with pinned ones. The copy is queued on
    /// `stream`, after the work that uses the buffer; what uses it later waits for it as for a launch. On the simulator it
    /// has ended when the call returns.
    ///
    /// # Errors
    /// [`Error::DataLength`], [`Error::StreamMismatch`], [`Error::Recorded`], and then `data` is gone; the driver's.
    pub fn copy_from_pinned(&mut self, data: Pinned<T>, stream: &Stream) -> Result<Copying<T>, Error> {
        queued(&self.raw, data, stream, true)
    }

    /// Copies the elements, in the order in which the layout stores them, to pinned memory. The copy is queued on `stream`,
    /// after the work that writes the buffer; what writes it later waits for it as for a launch. On the simulator it has
    /// ended when the call returns.
    ///
    /// # Errors
    /// As [`Buffer::copy_from_pinned`].
    pub fn copy_to_pinned(&self, data: Pinned<T>, stream: &Stream) -> Result<Copying<T>, Error> {
        queued(&self.raw, data, stream, false)
    }
}

/// Queues a copy, to the device or from it.
fn queued<T: Element>(
    raw: &RawBuffer,
    mut data: Pinned<T>,
    stream: &Stream,
    write: bool,
) -> Result<Copying<T>, Error> {
    if data.len() != raw.geometry.count() {
        return Err(Error::DataLength { shape: raw.geometry.shape.to_vec(), elements: data.len() });
    }
    if !raw.memory.device.same_as(stream.device()) {
        let (found, expected) = Device::apart(stream.device(), &raw.memory.device);
        return Err(Error::StreamMismatch { found, expected });
    }
    let queue = &stream.queue;
    raw.memory.order(queue, write)?;
    let mut bytes = data.place.bytes_mut();
    let mut result = Ok(());
    raw.geometry.runs(|at, count| {
        let (run, rest) = std::mem::take(&mut bytes).split_at_mut(count * size_of::<T>());
        bytes = rest;
        let at = at * size_of::<T>();
        match (&raw.memory.storage, &queue.cuda) {
            (Storage::Cuda(memory), Some(cuda)) if result.is_ok() => {
                let pointer = memory.pointer() + at as u64;
                // SAFETY: the run lies inside of the tensor, which is freed and overwritten only after this work, which is
                // noted below; what else uses it waits, which `order` saw to. `Copying` keeps the host's side until then.
                result = unsafe {
                    match write {
                        true => cuda.upload(pointer, run),
                        false => cuda.download(run, pointer),
                    }
                };
            }
            (Storage::Host(contents, _), _) => {
                let contents = &mut lock(contents)[at..at + run.len()];
                match write {
                    true => contents.copy_from_slice(run),
                    false => run.copy_from_slice(contents),
                }
            }
            (Storage::Cuda(_), _) => {}
        }
    });
    // Also after a failure: what was queued before it uses the memory.
    raw.memory.used(queue, queue.ticket(), write);
    match result.and_then(|()| stream.record()) {
        Ok(event) => Ok(Copying { pinned: Some(data), event }),
        Err(e) => {
            let _ = queue.sync();
            Err(e)
        }
    }
}

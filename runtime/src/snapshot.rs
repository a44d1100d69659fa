//! What a launch may overwrite, kept aside and put back.

use crate::{
    arguments::Tensors,
    buffer::RawBuffer,
    device::CudaMemory,
    error::Error,
    memory::{Storage, lock},
};

/// Copies of the tensors that a launch writes.
pub(crate) struct Snapshot(Vec<Kept>);

struct Kept {
    tensor: RawBuffer,
    /// From the first element to the last, with what lies between.
    copy: Copy,
}

enum Copy {
    Host(Vec<u8>),
    Cuda(CudaMemory),
}

impl Snapshot {
    /// Copies of the tensors that are passed as `&mut`, on their device.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; those of the work that writes them; the driver's.
    pub(crate) fn of(tensors: &Tensors<'_>) -> Result<Self, Error> {
        let written = tensors.iter().filter(|(_, t)| t.is_out());
        let kept = written.map(|(_, t)| Kept::of(t.raw())).collect::<Result<_, Error>>()?;
        Ok(Snapshot(kept))
    }

    /// Puts everything back. On a GPU that is queued on the device's own stream.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn restore(&self) -> Result<(), Error> {
        self.0.iter().try_for_each(Kept::restore)
    }
}

impl Kept {
    fn of(tensor: &RawBuffer) -> Result<Self, Error> {
        let size = tensor.dtype.bytes() as usize;
        let queue = &tensor.memory.device.inner.queue;
        let copy = match (&queue.cuda, &tensor.memory.storage) {
            (Some(cuda), Storage::Cuda(memory)) => {
                let (start, bytes) = (tensor.geometry.offset * size, tensor.geometry.span() * size);
                let copy = cuda.allocate(bytes)?;
                tensor.memory.order(queue, false)?;
                // SAFETY: both ranges are inside of their allocations. The copy is new, and the tensor is freed and
                // overwritten only after this, which is noted.
                unsafe { cuda.copy(copy.pointer(), memory.pointer() + start as u64, bytes)? };
                tensor.memory.used(queue, queue.ticket(), false);
                Copy::Cuda(copy)
            }
            _ => Copy::Host(tensor.span()?),
        };
        Ok(Kept { tensor: tensor.clone(), copy })
    }

    fn restore(&self) -> Result<(), Error> {
        let Kept { tensor, copy } = self;
        let (size, first) = (tensor.dtype.bytes() as usize, tensor.geometry.offset);
        let queue = &tensor.memory.device.inner.queue;
        match (copy, &tensor.memory.storage, &queue.cuda) {
            (Copy::Cuda(copy), Storage::Cuda(memory), Some(cuda)) => {
                tensor.memory.order(queue, true)?;
                let mut result = Ok(());
                tensor.geometry.runs(|at, count| {
                    if result.is_ok() {
                        let (to, from) = (
                            memory.pointer() + (at * size) as u64,
                            copy.pointer() + ((at - first) * size) as u64,
                        );
                        // SAFETY: a run lies inside of the tensor, whose borrow is the launch's, and of its copy, which is
                        // freed after this in the order of the queue.
                        result = unsafe { cuda.copy(to, from, count * size) };
                    }
                });
                tensor.memory.used(queue, queue.ticket(), true);
                result
            }
            (Copy::Host(copy), Storage::Host(data, _), _) => {
                tensor.memory.wait(true)?;
                let mut data = lock(data);
                tensor.geometry.runs(|at, count| {
                    let run = (at - first) * size..(at - first + count) * size;
                    data[at * size..(at + count) * size].copy_from_slice(&copy[run]);
                });
                Ok(())
            }
            _ => unreachable!("the copy was made where the tensor is"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Buffer, Device, LaunchArgs};

    use super::*;

    #[test]
    fn what_a_launch_writes_is_put_back_and_nothing_beside_it() {
        let device = Device::sim();
        let input = Buffer::from_slice(&device, &[1.0f32; 4], &[4]).unwrap();
        let mut output = Buffer::from_slice(&device, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]).unwrap();
        let mut part = output.slice_mut(&[0..2, 0..2]).unwrap();
        let args = LaunchArgs::new("k", None).input("x", &input).output("y", &mut *part);
        let snapshot = Snapshot::of(&args.tensors).unwrap();
        drop(args);
        assert_eq!(snapshot.0.len(), 1, "an input is not copied");
        drop(part);
        output.copy_from(&[0.0; 6]).unwrap();
        snapshot.restore().unwrap();
        assert_eq!(output.to_vec().unwrap(), [1.0, 2.0, 0.0, 4.0, 5.0, 0.0]);
    }
}

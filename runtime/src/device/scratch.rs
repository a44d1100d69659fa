//! Global memory that a kernel needs beside its tensors, kept from launch to launch of a queue.

use super::cuda::{CudaMemory, CudaQueue};
use crate::error::Error;
use smallvec::SmallVec;

/// A scratch buffer of one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) bytes: u64,
    /// Zero before the kernel, which leaves it zero.
    pub(crate) zeroed: bool,
}

/// Buffers start at multiples of this many bytes.
const ALIGN: u64 = 256;

/// One allocation for buffers without a value and one for zeroed ones, each as large as a launch ever needed.
#[derive(Default)]
pub(crate) struct Scratch {
    plain: Option<CudaMemory>,
    zeroed: Option<CudaMemory>,
}

impl Scratch {
    /// The address of each buffer, for work that is queued next. What used them on other queues has ended.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], and the driver's.
    pub(crate) fn reserve(
        &mut self,
        queue: &CudaQueue,
        wanted: &[Wanted],
    ) -> Result<SmallVec<[u64; 4]>, Error> {
        if wanted.is_empty() {
            return Ok(SmallVec::new());
        }
        let mut ends = [0u64; 2];
        let mut offsets = SmallVec::<[u64; 4]>::new();
        for buffer in wanted {
            let end = &mut ends[usize::from(buffer.zeroed)];
            offsets.push(*end);
            *end += buffer.bytes.next_multiple_of(ALIGN);
        }
        for (memory, bytes, byte) in [(&mut self.plain, ends[0], 0xff), (&mut self.zeroed, ends[1], 0)] {
            if bytes > memory.as_ref().map_or(0, |m| m.bytes() as u64) {
                // The old one first: there may be no room for both. It is freed after earlier work that uses it.
                if let Some(old) = memory.take() {
                    queue.free(old);
                }
                let new = queue.allocate(bytes as usize)?;
                // SAFETY: it is as large, and no one else's.
                unsafe { queue.fill(new.pointer(), byte, new.bytes())? };
                *memory = Some(new);
            }
        }
        let base = |memory: &Option<CudaMemory>| memory.as_ref().map_or(0, CudaMemory::pointer);
        let bases = [base(&self.plain), base(&self.zeroed)];
        Ok(wanted.iter().zip(offsets).map(|(b, offset)| bases[usize::from(b.zeroed)] + offset).collect())
    }
}

//! Global memory that a kernel needs beside its tensors, kept from launch to launch.

use super::cuda::{CudaDevice, CudaMemory};
use crate::error::Error;

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
    /// The address of each buffer.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], and the driver's.
    pub(crate) fn reserve(&mut self, device: &CudaDevice, wanted: &[Wanted]) -> Result<Vec<u64>, Error> {
        let mut ends = [0u64; 2];
        let mut offsets = Vec::new();
        for buffer in wanted {
            let end = &mut ends[usize::from(buffer.zeroed)];
            offsets.push(*end);
            *end += buffer.bytes.next_multiple_of(ALIGN);
        }
        for (memory, bytes, byte) in [(&mut self.plain, ends[0], 0xff), (&mut self.zeroed, ends[1], 0)] {
            if memory.as_ref().is_none_or(|m| (m.bytes() as u64) < bytes) {
                // The old one first: there may be no room for both.
                *memory = None;
                *memory = Some(device.filled(byte, bytes as usize)?);
            }
        }
        let base = |memory: &Option<CudaMemory>| memory.as_ref().map_or(0, CudaMemory::pointer);
        let bases = [base(&self.plain), base(&self.zeroed)];
        Ok(wanted.iter().zip(offsets).map(|(b, offset)| bases[usize::from(b.zeroed)] + offset).collect())
    }

    /// After a launch that failed: nobody knows what it left.
    pub(crate) fn discard(&mut self) {
        *self = Scratch::default();
    }
}

//! A device's part of a collective on GPUs.

use super::nccl::Nccl;
use crate::{buffer::RawBuffer, error::Error};
use cudarc::driver::sys::CUstream;
use std::sync::Arc;
use tile_dsl::dtype::DType;

/// What is done together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Every element becomes the sum of all in its place.
    Sum,
    /// The n-th part of each buffer becomes that of the n-th device.
    Gather,
}

/// What one device does of it, in place. A graph that has recorded it keeps the communicator.
#[doc(hidden)]
pub struct Part {
    nccl: Arc<Nccl>,
    pub(super) work: Work,
    /// Place of the device in the communicator.
    pub(super) rank: usize,
    pub(super) address: u64,
    /// Elements of the buffer.
    pub(super) count: usize,
    pub(super) dtype: DType,
}

impl Part {
    /// The part of each device.
    pub(super) fn each(nccl: &Arc<Nccl>, work: Work, raws: &[&RawBuffer]) -> Vec<Self> {
        let part = |(rank, raw): (usize, &&RawBuffer)| Part {
            nccl: nccl.clone(),
            work,
            rank,
            address: raw.address(),
            count: raw.geometry.count(),
            dtype: raw.dtype,
        };
        raws.iter().enumerate().map(part).collect()
    }

    /// Queues all parts of one collective, each on its stream, which may be capturing.
    ///
    /// # Safety
    /// They are the parts of one, in order, and the streams are those devices'. The memory is without gaps, live until the work has
    /// ended, and used by no one else meanwhile.
    ///
    /// # Errors
    /// NCCL's.
    pub(crate) unsafe fn queue(parts: &[&Part], streams: &[CUstream]) -> Result<(), Error> {
        match parts.first() {
            // SAFETY: the caller's.
            Some(first) => unsafe { first.nccl.queue(parts, streams) },
            None => Ok(()),
        }
    }
}

impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        let of = |part: &Part| (part.work, part.rank, part.address, part.count, part.dtype);
        Arc::ptr_eq(&self.nccl, &other.nccl) && of(self) == of(other)
    }
}

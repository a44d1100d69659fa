//! A device's part of a collective on GPUs.

use super::nccl::Nccl;
use crate::{
    error::Error,
    ranks::{Health, Links},
    reduction::Reduction,
};
use cudarc::driver::sys::CUstream;
use std::sync::Arc;
use tile_dsl::dtype::DType;

/// One call of NCCL. What only moves is counted in bytes, so that every type can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// Elements in place.
    AllReduce { at: u64, count: usize, dtype: DType, reduction: Reduction },
    /// `count` elements of this rank from those of all; `from` has them all.
    ReduceScatter { from: u64, to: u64, count: usize, dtype: DType, reduction: Reduction },
    /// Bytes of this rank; `to` has those of all.
    AllGather { from: u64, to: u64, bytes: usize },
    /// Bytes in place.
    Broadcast { at: u64, bytes: usize, root: usize },
    /// Bytes for another rank, or this one.
    Send { at: u64, bytes: usize, peer: usize },
    /// Bytes of another rank, or this one.
    Receive { at: u64, bytes: usize, peer: usize },
}

/// Who takes part in a call, by which ranks know who has made fewer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Turns {
    All,
    /// A rank for each message from it or to it.
    Messages(Vec<usize>),
}

impl Turns {
    /// Notes that it begins.
    ///
    /// # Errors
    /// [`Error::RankLost`].
    pub(super) fn begin(&self, links: &Links) -> Result<(), Error> {
        match self {
            Turns::All => links.begin(None),
            Turns::Messages(peers) => links.begin(Some(peers)),
        }
    }
}

/// What one device does of it. A graph that has recorded it keeps the communicator.
#[doc(hidden)]
pub struct Part {
    nccl: Arc<Nccl>,
    /// Place of the device among those of this process.
    pub(super) place: usize,
    /// What NCCL takes as one group; none where others have all of the work.
    pub(super) calls: Vec<Call>,
    turns: Turns,
}

impl Part {
    pub(super) fn new(nccl: &Arc<Nccl>, place: usize, calls: Vec<Call>, turns: Turns) -> Self {
        Part { nccl: nccl.clone(), place, calls, turns }
    }

    /// Queues all parts of one collective, each on its stream, which may be capturing.
    ///
    /// # Safety
    /// They are the parts of one, in order, and the streams are those devices'. The memory is without gaps, live until the work has
    /// ended, and used by no one else meanwhile.
    ///
    /// # Errors
    /// NCCL's; [`Error::RankLost`].
    pub(crate) unsafe fn queue(parts: &[&Part], streams: &[CUstream]) -> Result<(), Error> {
        match parts.first() {
            // SAFETY: the caller's.
            Some(first) => unsafe { first.nccl.queue(parts, streams) },
            None => Ok(()),
        }
    }

    /// Notes that it is about to be queued, or a graph that has captured it.
    ///
    /// # Errors
    /// [`Error::RankLost`].
    pub(crate) fn begin(&self) -> Result<(), Error> {
        self.nccl.begin(&self.turns)
    }

    /// What a wait for the work has to ask about its ranks; nothing for those of one process.
    pub(crate) fn health(&self) -> Option<Arc<Health>> {
        self.nccl.health()
    }
}

impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.nccl, &other.nccl)
            && self.place == other.place
            && self.calls == other.calls
            && self.turns == other.turns
    }
}

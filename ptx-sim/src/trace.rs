//! What the first CTA did, for those who draw it: the addresses of its requests, and its events in order.
//!
//! [`Launch::trace`](crate::Launch::trace) asks for it. Of each memory instruction the first request of each warp is kept: the
//! address of every lane, and what it cost by the rules that the counters follow. Events are the instructions that touch memory or
//! synchronise, in the order in which the simulator ran them. That order is one of those that the program allows; it says nothing
//! about time.

use crate::counters::Access;

/// Events that are kept at most; those behind are counted.
pub(crate) const MOST_EVENTS: usize = 200_000;

/// What the first CTA did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    /// First requests, in the order in which they were made.
    pub requests: Vec<Request>,
    /// Events, in order.
    pub events: Vec<Event>,
    /// Events that came behind the most that are kept.
    pub left_out: u64,
}

/// The first request of a warp by a memory instruction.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Line in the PTX text.
    pub line: u32,
    /// Warp of the CTA.
    pub warp: u32,
    /// The buffer, by the name given to [`crate::Memory::alloc`]; `None` for shared memory.
    pub buffer: Option<String>,
    /// Direction.
    pub access: Access,
    /// Bytes of a lane.
    pub bytes: u32,
    /// The byte of the buffer, or of shared memory, that each lane begins at; `None` for lanes that ask for nothing.
    pub lanes: [Option<u64>; 32],
    /// 32-byte sectors, or wavefronts of shared memory.
    pub cost: u32,
    /// The least that so many bytes cost in shared memory; in global memory the same as `cost`.
    pub least: u32,
    /// Rows of 8×8 matrices (`ldmatrix`, `stmatrix`): lanes are taken eight at a time.
    pub matrices: bool,
}

/// Something that a warp did, or that happened to the CTA.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The warp; `None` for a copy that completes by itself.
    pub warp: Option<u32>,
    /// Line in the PTX text.
    pub line: u32,
    /// What it was.
    pub kind: EventKind,
}

/// What an event was. Places in shared memory are bytes of it.
#[derive(Debug, Clone, PartialEq)]
pub enum EventKind {
    /// A load, a store or an atomic by lanes.
    Access {
        /// Direction.
        access: Access,
        /// Address of the first lane.
        at: Place,
    },
    /// `cp.async`.
    CopyAsync {
        /// Source of the first lane.
        from: Place,
        /// Destination of the first lane.
        to: u32,
    },
    /// `cp.async.commit_group`.
    Commit,
    /// `cp.async.wait_group`: so many groups remain in flight.
    WaitGroup(u32),
    /// A bulk or tensor copy begins.
    Bulk {
        /// The shared side.
        shared: u32,
        /// From shared memory to a tensor.
        store: bool,
        /// The mbarrier that it signals.
        mbarrier: Option<u32>,
    },
    /// Bytes of a bulk copy have come.
    Landed {
        /// The mbarrier that counts them.
        mbarrier: u32,
        /// How many.
        bytes: u32,
    },
    /// `cp.async.bulk.commit_group`.
    BulkCommit,
    /// `cp.async.bulk.wait_group`.
    BulkWait(u32),
    /// Arrival at a barrier of the CTA.
    Barrier(u32),
    /// A barrier of the cluster.
    Cluster,
    /// An mbarrier is initialised.
    Init {
        /// Which.
        mbarrier: u32,
    },
    /// Arrivals at an mbarrier.
    Arrive {
        /// Which.
        mbarrier: u32,
        /// Lanes that arrive.
        lanes: u32,
        /// That of another CTA of the cluster.
        remote: bool,
    },
    /// A wait for an mbarrier has returned.
    Waited {
        /// Which.
        mbarrier: u32,
    },
    /// An instruction of the tensor cores.
    Product,
    /// `wgmma.commit_group`.
    ProductCommit,
    /// `wgmma.wait_group`: so many groups remain in flight.
    ProductWait(u32),
    /// Lanes exchange values.
    Exchange,
}

/// An address.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    /// In global memory: the allocation by its name, and the byte of it.
    Global(String, u64),
    /// In shared memory.
    Shared(u32),
    /// Elsewhere, or nowhere.
    Other,
}

impl Trace {
    /// Adds an event.
    pub(crate) fn push(&mut self, event: Event) {
        if self.events.len() < MOST_EVENTS {
            self.events.push(event);
        } else {
            self.left_out += 1;
        }
    }

    /// Adds another part of the launch: only one has the first CTA.
    pub(crate) fn merge(&mut self, other: Trace) {
        self.requests.extend(other.requests);
        self.events.extend(other.events);
        self.left_out += other.left_out;
    }
}

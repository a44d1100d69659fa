//! Memory of a device, and which streams still work on it.

use crate::{
    device::{CudaMemory, CudaQueue, Device, HostMemory, Kind, Reserved},
    error::Error,
    queue::Queue,
};
use smallvec::SmallVec;
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU32, Ordering},
};

/// An allocation with what is under way on it. Freed when the last tensor in it is gone and all that work has ended;
/// for memory of our own on a GPU the host does not wait for that.
pub(crate) struct Memory {
    // Before `device`: it goes first.
    pub(crate) storage: Storage,
    pub(crate) device: Device,
    uses: Mutex<Uses>,
    /// Launches on it that graphs have recorded and not queued yet.
    recorded: AtomicU32,
}

/// Where the bytes are.
pub(crate) enum Storage {
    /// The simulator's: copied into its memory for each launch.
    Host(Mutex<HostMemory>, #[allow(dead_code, reason = "kept for its destructor")] Option<Reserved>),
    /// A GPU's.
    Cuda(CudaMemory),
}

/// The last work on an allocation, by stream.
#[derive(Default)]
struct Uses {
    write: Option<Use>,
    /// Reads since that write, at most one a stream.
    reads: SmallVec<[Use; 2]>,
}

struct Use {
    queue: Arc<Queue>,
    ticket: u64,
}

impl Memory {
    pub(crate) fn new(device: &Device, storage: Storage) -> Self {
        Memory { storage, device: device.clone(), uses: Mutex::default(), recorded: AtomicU32::new(0) }
    }

    /// Bytes in all.
    pub(crate) fn bytes(&self) -> usize {
        match &self.storage {
            Storage::Host(data, _) => lock(data).len(),
            Storage::Cuda(memory) => memory.bytes(),
        }
    }

    /// Address on the device. The simulator places memory anew for each launch, as well aligned as the host has it: there
    /// it is what the host's address is beyond that alignment.
    pub(crate) fn address(&self) -> u64 {
        match &self.storage {
            Storage::Host(data, _) => lock(data).skew() as u64,
            Storage::Cuda(memory) => memory.pointer(),
        }
    }

    /// Notes a launch that a graph has recorded: until it is queued, nothing else may use the memory.
    pub(crate) fn record(&self) {
        self.recorded.fetch_add(1, Ordering::AcqRel);
    }

    /// Takes back one [`Memory::record`].
    pub(crate) fn recorded(&self) {
        self.recorded.fetch_sub(1, Ordering::AcqRel);
    }

    fn check_recorded(&self) -> Result<(), Error> {
        match self.recorded.load(Ordering::Acquire) {
            0 => Ok(()),
            _ => Err(Error::Recorded),
        }
    }

    /// Makes work that is queued from now on wait for what it depends on: a reader for the last write, a writer for
    /// everything. Work of the same stream is in order anyway.
    ///
    /// # Errors
    /// [`Error::Recorded`]; the driver's.
    pub(crate) fn order(&self, queue: &Arc<Queue>, writes: bool) -> Result<(), Error> {
        self.check_recorded()?;
        let uses = lock(&self.uses);
        let reads = uses.reads.iter().filter(|_| writes);
        for earlier in uses.write.iter().chain(reads) {
            if !Arc::ptr_eq(&earlier.queue, queue) && !earlier.queue.is_done(earlier.ticket) {
                queue.wait_for(&earlier.queue, earlier.ticket)?;
            }
        }
        Ok(())
    }

    /// Notes work that was queued.
    pub(crate) fn used(&self, queue: &Arc<Queue>, ticket: u64, writes: bool) {
        let mut uses = lock(&self.uses);
        if writes {
            uses.reads.clear();
            match &mut uses.write {
                Some(write) if Arc::ptr_eq(&write.queue, queue) => write.ticket = ticket,
                write => *write = Some(Use { queue: queue.clone(), ticket }),
            }
        } else if let Some(read) = uses.reads.iter_mut().find(|read| Arc::ptr_eq(&read.queue, queue)) {
            read.ticket = read.ticket.max(ticket);
        } else {
            uses.reads.push(Use { queue: queue.clone(), ticket });
        }
    }

    /// Waits until the contents may be read (`writes`: overwritten or freed) by the host.
    ///
    /// # Errors
    /// [`Error::Recorded`]; those of the work that was waited for.
    pub(crate) fn wait(&self, writes: bool) -> Result<(), Error> {
        self.check_recorded()?;
        // Not under the lock: other threads may go on reading meanwhile.
        let pending = self.pending(writes);
        pending.into_iter().try_for_each(|(queue, ticket)| queue.wait(ticket))
    }

    /// What a use would have to wait for: queues and tickets.
    fn pending(&self, writes: bool) -> SmallVec<[(Arc<Queue>, u64); 2]> {
        let uses = lock(&self.uses);
        let reads = uses.reads.iter().filter(|_| writes);
        uses.write.iter().chain(reads).map(|u| (u.queue.clone(), u.ticket)).collect()
    }

    /// Has memory of our own freed behind the work that uses it; returns whether it is.
    fn free_behind(&mut self) -> bool {
        let pending = self.pending(true);
        let (Storage::Cuda(memory), Kind::Cuda(device)) = (&mut self.storage, self.device.kind()) else {
            return false;
        };
        let mut queues: SmallVec<[&CudaQueue; 2]> = SmallVec::new();
        for (queue, _) in pending.iter().filter(|(queue, ticket)| !queue.is_done(*ticket)) {
            queues
                .extend(queue.cuda.as_ref().filter(|q| queues.iter().all(|other| !std::ptr::eq(*other, *q))));
        }
        memory.is_pooled() && device.free_after(memory, &queues).is_ok()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if !self.free_behind() {
            // After a failure the GPU runs nothing any more.
            let _ = self.wait(true);
        }
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = match &self.storage {
            Storage::Host(..) => "host",
            Storage::Cuda(_) => "cuda",
        };
        write!(f, "{place}, {} bytes", self.bytes())
    }
}

/// Contents are plain bytes: a panic elsewhere leaves them valid.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_wait_for_the_writer_and_writers_for_everyone() {
        let nothing = HostMemory::filled(0, 0).unwrap();
        let memory = Memory::new(&Device::sim(), Storage::Host(Mutex::new(nothing), None));
        let pending = |memory: &Memory, writes| -> Vec<(usize, u64)> {
            memory.pending(writes).iter().map(|(q, ticket)| (Arc::as_ptr(q) as usize, *ticket)).collect()
        };
        let (a, b) = (Arc::new(Queue::simulated()), Arc::new(Queue::simulated()));
        let id = |queue: &Arc<Queue>| Arc::as_ptr(queue) as usize;
        memory.used(&a, 1, true);
        memory.used(&a, 2, false);
        memory.used(&b, 7, false);
        memory.used(&b, 9, false);
        assert_eq!(pending(&memory, false), [(id(&a), 1)]);
        assert_eq!(pending(&memory, true), [(id(&a), 1), (id(&a), 2), (id(&b), 9)]);
        memory.used(&b, 10, true);
        assert_eq!(pending(&memory, true), [(id(&b), 10)]);
    }
}

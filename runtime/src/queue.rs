//! The order of work on a device: what a stream has been given, and how far it is known to have come.

use crate::{
    device::{CudaQueue, Scratch},
    error::Error,
    memory::lock,
    parameters::Parameters,
    plan::Plan,
    ranks::Health,
    repeated::Repeated,
};
use std::{
    fmt::Write as _,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};
use tile_dsl::program::Variant;

/// Launches that an asynchronous error can name.
const REMEMBERED: usize = 16;

/// What a queue waits for on the GPU: of other queues, by their numbers, the work up to a ticket.
///
/// It forgets the oldest, and then waits again.
#[derive(Default)]
struct Waited {
    seen: [(u64, u64); 8],
    next: usize,
}

impl Waited {
    fn covers(&self, queue: u64, ticket: u64) -> bool {
        self.seen.iter().any(|(q, t)| *q == queue && *t >= ticket)
    }

    fn note(&mut self, queue: u64, ticket: u64) {
        match self.seen.iter_mut().find(|(q, _)| *q == queue) {
            Some((_, seen)) => *seen = ticket.max(*seen),
            None => {
                self.seen[self.next] = (queue, ticket);
                self.next = (self.next + 1) % self.seen.len();
            }
        }
    }
}

/// A queue of work. That of the simulator is always empty: it runs everything at once.
pub(crate) struct Queue {
    /// First to go: its destructor waits for the work.
    pub(crate) cuda: Option<CudaQueue>,
    /// Different for any two, and not 0.
    number: u64,
    /// Pieces of work queued so far.
    issued: AtomicU64,
    /// Of those, how many have ended for certain.
    done: AtomicU64,
    waited: Mutex<Waited>,
    state: Mutex<State>,
    /// Whether `ranks` are any.
    shares: AtomicBool,
    /// Those of communicators that its work, or what it waited for, is a part of.
    ranks: Mutex<Vec<Arc<Health>>>,
}

/// What one launch at a time may touch.
#[derive(Default)]
pub(crate) struct State {
    /// Memory that kernels need beside their tensors: those of one queue run one after another.
    pub(crate) scratch: Scratch,
    /// Room for a launch's.
    pub(crate) parameters: Parameters,
    /// Kernels that were launched before.
    pub(crate) repeated: Repeated,
    recent: Recent,
}

/// The last launches, oldest first from `next` on.
#[derive(Default)]
struct Recent {
    ring: [Option<(u64, Arc<Plan>, Variant)>; REMEMBERED],
    next: usize,
}

impl Recent {
    fn push(&mut self, ticket: u64, plan: &Arc<Plan>, variant: Variant) {
        match &mut self.ring[self.next] {
            // Launches in a loop: no count of references changes.
            Some((before, known, ran)) if Arc::ptr_eq(known, plan) => (*before, *ran) = (ticket, variant),
            oldest => *oldest = Some((ticket, plan.clone(), variant)),
        }
        self.next = (self.next + 1) % REMEMBERED;
    }
}

impl Queue {
    pub(crate) fn simulated() -> Self {
        Self::new(None)
    }

    pub(crate) fn new(cuda: Option<CudaQueue>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Queue {
            cuda,
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            issued: AtomicU64::new(0),
            done: AtomicU64::new(0),
            waited: Mutex::default(),
            state: Mutex::default(),
            shares: AtomicBool::new(false),
            ranks: Mutex::default(),
        }
    }

    /// Queues a launch and returns its ticket.
    ///
    /// # Errors
    /// Those of `work`.
    pub(crate) fn launch(
        &self,
        plan: &Arc<Plan>,
        variant: Variant,
        work: impl FnOnce(&mut State) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let mut state = lock(&self.state);
        work(&mut state)?;
        let ticket = self.ticket();
        state.recent.push(ticket, plan, variant);
        Ok(ticket)
    }

    /// Queues several launches as one piece of work and returns its ticket.
    ///
    /// # Errors
    /// Those of `work`.
    pub(crate) fn launch_together(
        &self,
        launches: &[(Arc<Plan>, Variant)],
        work: impl FnOnce() -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let mut state = lock(&self.state);
        work()?;
        let ticket = self.ticket();
        launches.iter().for_each(|(plan, variant)| state.recent.push(ticket, plan, *variant));
        Ok(ticket)
    }

    /// The ticket of a piece of work that was just queued.
    pub(crate) fn ticket(&self) -> u64 {
        let ticket = self.issued.fetch_add(1, Ordering::Release) + 1;
        if self.cuda.is_none() {
            self.done.fetch_max(ticket, Ordering::Relaxed);
        }
        ticket
    }

    /// Whether a piece of work has ended for certain.
    pub(crate) fn is_done(&self, ticket: u64) -> bool {
        ticket <= self.done.load(Ordering::Acquire)
    }

    /// Makes what is queued here from now on wait for a piece of work of `other`, unless it does already.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn wait_for(&self, other: &Queue, ticket: u64) -> Result<(), Error> {
        let (Some(this), Some(theirs)) = (&self.cuda, &other.cuda) else { return Ok(()) };
        let mut waited = lock(&self.waited);
        if waited.covers(other.number, ticket) {
            return Ok(());
        }
        // The event comes after all that has a ticket by now.
        let issued = other.issued.load(Ordering::Acquire);
        this.wait_for(theirs)?;
        waited.note(other.number, issued);
        drop(waited);
        if other.shares.load(Ordering::Acquire) {
            let theirs = lock(&other.ranks).clone();
            theirs.into_iter().for_each(|health| self.needs(Some(health)));
        }
        Ok(())
    }

    /// Notes that work is only as good as the ranks that take part in it: where one is lost, NCCL's kernels end early.
    pub(crate) fn needs(&self, health: Option<Arc<Health>>) {
        let Some(health) = health else { return };
        let mut ranks = lock(&self.ranks);
        if ranks.iter().all(|known| !Arc::ptr_eq(known, &health)) {
            ranks.push(health);
            self.shares.store(true, Ordering::Release);
        }
    }

    /// Whether the ranks that its work needs are there.
    ///
    /// # Errors
    /// [`Error::RankLost`].
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.shares.load(Ordering::Acquire) {
            true => lock(&self.ranks).iter().try_for_each(|health| health.check()),
            false => Ok(()),
        }
    }

    /// Waits until a piece of work has ended.
    ///
    /// # Errors
    /// [`Error::Asynchronous`] when it failed, or another before it; [`Error::RankLost`].
    pub(crate) fn wait(&self, ticket: u64) -> Result<(), Error> {
        if self.is_done(ticket) {
            return Ok(());
        }
        let issued = self.issued.load(Ordering::Acquire);
        if let Some(cuda) = &self.cuda {
            cuda.synchronize().map_err(|e| self.failed(e))?;
        }
        self.check()?;
        self.done.fetch_max(issued, Ordering::Release);
        Ok(())
    }

    /// Waits for everything queued so far.
    ///
    /// # Errors
    /// As [`Queue::wait`].
    pub(crate) fn sync(&self) -> Result<(), Error> {
        // Work that others queued on the same stream has no ticket.
        let issued = self.issued.load(Ordering::Acquire);
        if let Some(cuda) = &self.cuda {
            cuda.synchronize().map_err(|e| self.failed(e))?;
        }
        self.check()?;
        self.done.fetch_max(issued, Ordering::Release);
        Ok(())
    }

    /// Names the launches that may have failed.
    pub(crate) fn failed(&self, error: Error) -> Error {
        let Error::Cuda { code, .. } = error else { return error };
        let state = lock(&self.state);
        let Recent { ring, next } = &state.recent;
        let (newer, older) = ring.split_at(*next);
        let pending = older.iter().chain(newer).flatten().filter(|(ticket, ..)| !self.is_done(*ticket));
        let mut launches: Vec<(String, u32)> = Vec::new();
        for (_, plan, variant) in pending {
            let mut name = String::new();
            let _ = write!(name, "kernel `{}` with schedule `{}` ({variant})", plan.kernel, plan.schedule);
            match launches.last_mut() {
                Some((last, times)) if *last == name => *times += 1,
                _ => launches.push((name, 1)),
            }
        }
        let launches = launches.into_iter().map(|(name, times)| match times {
            1 => name,
            n => format!("{name}, {n} times"),
        });
        Error::Asynchronous { launches: launches.collect(), code }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // The scratch memory goes with the queue; what runs may still use it.
        if let Some(cuda) = &self.cuda {
            let _ = cuda.synchronize();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_waits_for_another_once() {
        let mut waited = Waited::default();
        assert!(!waited.covers(1, 1));
        waited.note(1, 5);
        assert!(waited.covers(1, 5) && waited.covers(1, 4));
        assert!(!waited.covers(1, 6) && !waited.covers(2, 1));
        waited.note(1, 7);
        waited.note(1, 6);
        assert!(waited.covers(1, 7), "what was waited for stays so");
        (2..=9).for_each(|queue| waited.note(queue, 1));
        assert!(!waited.covers(1, 1), "forgotten, and waited for again");
        assert!((2..=9).all(|queue| waited.covers(queue, 1)));
    }
}

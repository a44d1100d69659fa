//! Ranks in processes of their own, on simulators.
//!
//! A process is this test binary again: it runs `child` alone, which does what a variable says. Where no process has to die, threads
//! take the place of processes.

#[path = "../../examples/ranks/checks.rs"]
mod checks;
mod collectives;
mod lost;
mod processes;
mod rendezvous;

use std::{
    net::TcpListener,
    thread,
    time::{Duration, Instant},
};
use tilewright::{Communicator, Device, Error, Id, PtxCache, World};

/// Nothing here takes as long.
const LONG: Duration = Duration::from_secs(120);

fn sim() -> Device {
    Device::sim().with_cache(PtxCache::disabled())
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Joins as so many ranks, each in a thread of its own, and does something there.
fn ranks<R: Send>(count: usize, work: impl Fn(Communicator) -> R + Sync) -> Vec<R> {
    let id = Id::new("127.0.0.1:0").unwrap();
    each(count, |rank| work(Communicator::from_id(&id, rank, count, &sim()).unwrap()))
}

/// A thread for each rank.
fn each<R: Send>(count: usize, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|rank| scope.spawn(move || work(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Joins as a rank that is not like the others.
fn join(id: &Id, rank: usize, ranks: usize, timeout: Duration) -> Result<Communicator, Error> {
    Communicator::join(&World::from_id(id, rank, ranks)?.with_timeout(timeout), &sim())
}

/// What a call says, and that it says so in bounded time.
fn text<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    result.unwrap_err().to_string()
}

/// Ends in bounded time.
fn in_time<R>(work: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let result = work();
    assert!(start.elapsed() < LONG, "{:?}", start.elapsed());
    result
}

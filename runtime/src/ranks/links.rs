//! The connections of a rank to all others, for as long as they work together.
//!
//! A thread for each connection reads what comes, so that whoever writes is never held up by what the other is doing. It knows at once
//! when the other's process ends. A last thread says now and then that this rank is there, so that a machine that is gone is missed too.
//! Whatever goes wrong first is told to all others, who report the same.

use super::{
    frame::{End, Frame, Reader, data_head},
    health::{Health, Lost},
    text::seconds,
    wire::{GLANCE, write_until},
};
use crate::{error::Error, memory::lock};
use std::{
    collections::VecDeque,
    io,
    net::{Shutdown, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// How long others may take to read the last of this rank's messages when it leaves.
const FAREWELL: Duration = Duration::from_secs(5);
/// How long a write that failed is looked into: the reader knows more.
const SETTLE: Duration = Duration::from_secs(1);

/// A rank's connections.
pub(crate) struct Links {
    pub(super) shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

pub(super) struct Shared {
    pub(super) rank: usize,
    pub(super) health: Arc<Health>,
    peers: Mutex<Peers>,
    changed: Condvar,
    /// By rank; none to this one.
    pub(super) streams: Vec<Option<TcpStream>>,
    /// Held by who writes to a rank.
    writing: Vec<Mutex<()>>,
    /// How long nothing need be heard of a rank.
    silence: Duration,
    /// How long a rank may take to come to a call.
    patience: Duration,
}

pub(super) struct Peers {
    each: Vec<Peer>,
    /// All have been told what went wrong.
    told: bool,
    pub(super) closing: bool,
}

#[derive(Default)]
struct Peer {
    /// Messages that nobody has taken: what each belongs to, and its bytes.
    inbox: VecDeque<(String, Vec<u8>)>,
    /// Calls of this rank that it takes part in.
    calls: u64,
    /// It has left, after so many.
    left: Option<u64>,
    /// It has read this rank's last message, or will read none any more.
    done: bool,
    heard: Option<Instant>,
}

impl Links {
    /// # Errors
    /// The system's, where there are no threads.
    pub(super) fn new(
        rank: usize,
        streams: Vec<Option<TcpStream>>,
        silence: Duration,
        patience: Duration,
    ) -> io::Result<Self> {
        let count = streams.len();
        let now = Instant::now();
        let each = (0..count).map(|_| Peer { heard: Some(now), ..Peer::default() }).collect();
        let shared = Arc::new(Shared {
            rank,
            health: Arc::default(),
            peers: Mutex::new(Peers { each, told: false, closing: false }),
            changed: Condvar::new(),
            streams,
            writing: (0..count).map(|_| Mutex::new(())).collect(),
            silence,
            patience,
        });
        let mut links = Links { shared: shared.clone(), threads: Vec::new() };
        for peer in shared.others() {
            let shared = shared.clone();
            links.spawn(format!("tilewright rank {peer}"), move || shared.read(peer))?;
        }
        links.spawn("tilewright ranks".into(), move || shared.tick())?;
        Ok(links)
    }

    fn spawn(&mut self, name: String, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.threads.push(thread::Builder::new().name(name).spawn(work)?);
        Ok(())
    }

    /// Notes a call that all ranks take part in, or one with a message for each that is named, which may be named again.
    ///
    /// # Errors
    /// [`Error::RankLost`], also where one of them has left.
    pub(crate) fn begin(&self, peers: Option<&[usize]>) -> Result<(), Error> {
        self.shared.check()?;
        let mut state = self.shared.lock();
        let mut parted = None;
        for (rank, peer) in state.each.iter_mut().enumerate() {
            let calls = peers.map_or(1, |peers| peers.iter().filter(|peer| **peer == rank).count());
            if rank == self.shared.rank || calls == 0 {
                continue;
            }
            peer.calls += calls as u64;
            if peer.left.is_some_and(|calls| peer.calls > calls) {
                parted = parted.or(Some(rank));
            }
        }
        drop(state);
        if let Some(rank) = parted {
            self.shared.lose(Shared::left(rank));
        }
        self.shared.check()
    }

    /// Sends bytes of a call to a rank, which may take them later.
    ///
    /// # Errors
    /// [`Error::RankLost`].
    pub(crate) fn post(&self, to: usize, what: &str, bytes: &[u8]) -> Result<(), Error> {
        let until = Instant::now() + self.shared.patience;
        let written = self.shared.write(to, &[&data_head(what, bytes.len()), bytes], || {
            self.shared.health.lost().is_some() || Instant::now() >= until
        });
        if let Err(error) = written {
            self.shared.settle(to);
            let late = Lost { rank: to as u32, what: format!("rank {to} takes no messages: {error}") };
            self.shared.lose(late);
        }
        self.shared.check()
    }

    /// Takes the next bytes of a rank, which have to belong to this call.
    ///
    /// # Errors
    /// [`Error::RankLost`], also where it does not come in time, or is at another call.
    pub(crate) fn take(&self, from: usize, what: &str) -> Result<Vec<u8>, Error> {
        let shared = &self.shared;
        let until = Instant::now() + shared.patience;
        let mut state = shared.lock();
        let lost = loop {
            if let Some((theirs, bytes)) = state.each[from].inbox.pop_front() {
                if theirs == what {
                    return Ok(bytes);
                }
                // The same text on both sides.
                let mut both = [(from, theirs.as_str()), (shared.rank, what)];
                both.sort_unstable();
                let [(low, at), (high, other)] = both;
                let what = format!("rank {low} is at {at}, and rank {high} at {other}");
                break Lost { rank: high as u32, what };
            }
            if let Some(lost) = shared.health.lost() {
                break lost.clone();
            }
            if state.each[from].left.is_some() {
                break Shared::left(from);
            }
            let now = Instant::now();
            if now >= until {
                let waited = seconds(shared.patience);
                break Lost {
                    rank: from as u32,
                    what: format!("rank {from} did not come to {what} within {waited}"),
                };
            }
            state = shared.wait(state, until - now);
        };
        drop(state);
        shared.lose(lost.clone());
        shared.check()?;
        // Not reached: something is lost.
        Err(Error::RankLost { rank: lost.rank as usize, what: lost.what })
    }
}

impl Drop for Links {
    /// Leaves. Messages that others have not read yet arrive first.
    fn drop(&mut self) {
        let shared = &self.shared;
        let until = Instant::now() + FAREWELL;
        if shared.health.lost().is_none() {
            for peer in shared.others() {
                let calls = shared.lock().each[peer].calls;
                let over = || shared.health.lost().is_some() || Instant::now() >= until;
                if shared.write(peer, &[&Frame::Bye { calls }.head()], over).is_err() {
                    shared.lock().each[peer].done = true;
                }
            }
            let mut state = shared.lock();
            let rank = shared.rank;
            while state.each.iter().enumerate().any(|(n, peer)| n != rank && !peer.done) {
                let now = Instant::now();
                if now >= until || shared.health.lost().is_some() {
                    break;
                }
                state = shared.wait(state, until - now);
            }
        }
        if shared.health.lost().is_some() {
            let _ = shared.check();
        }
        shared.lock().closing = true;
        shared.changed.notify_all();
        for stream in shared.streams.iter().flatten() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn others(&self) -> Vec<usize> {
        (0..self.streams.len()).filter(|rank| *rank != self.rank).collect()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Peers> {
        lock(&self.peers)
    }

    pub(super) fn wait<'a>(&self, state: MutexGuard<'a, Peers>, time: Duration) -> MutexGuard<'a, Peers> {
        self.changed.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0
    }

    fn left(rank: usize) -> Lost {
        Lost {
            rank: rank as u32,
            what: format!("rank {rank} has dropped its communicator, and makes fewer calls"),
        }
    }

    /// Writes to a rank, one frame at a time.
    fn write(&self, to: usize, parts: &[&[u8]], mut stop: impl FnMut() -> bool) -> io::Result<()> {
        let Some(mut stream) = self.streams[to].as_ref() else { return Ok(()) };
        let _turn = lock(&self.writing[to]);
        parts.iter().try_for_each(|part| write_until(&mut stream, part, &mut stop))
    }

    /// After a write that failed: what the rank said last is about to be read.
    fn settle(&self, from: usize) {
        let until = Instant::now() + SETTLE;
        let mut state = self.lock();
        while self.health.lost().is_none() && state.each[from].left.is_none() && Instant::now() < until {
            state = self.wait(state, GLANCE);
        }
        if state.each[from].left.is_some() {
            drop(state);
            self.lose(Self::left(from));
        }
    }

    /// Notes what went wrong. If it is the first, the others are told, and no more is sent.
    pub(super) fn lose(&self, lost: Lost) {
        let frame = Frame::Lost(lost.clone()).head();
        {
            // So that nobody looks before and waits after.
            let _state = self.lock();
            if !self.health.lose(lost) {
                return;
            }
        }
        self.changed.notify_all();
        let until = Instant::now() + SETTLE;
        for peer in self.others() {
            let _ = self.write(peer, &[&frame], || Instant::now() >= until);
            if let Some(stream) = &self.streams[peer] {
                let _ = stream.shutdown(Shutdown::Write);
            }
        }
        self.lock().told = true;
        self.changed.notify_all();
    }

    /// Once something has gone wrong and the others know: this process may end now.
    pub(super) fn check(&self) -> Result<(), Error> {
        let result = self.health.check();
        if result.is_err() {
            let until = Instant::now() + FAREWELL;
            let mut state = self.lock();
            while !state.told && Instant::now() < until {
                state = self.wait(state, GLANCE);
            }
        }
        result
    }

    /// Reads what a rank says, until there is no more.
    fn read(&self, peer: usize) {
        let Some(stream) = &self.streams[peer] else { return };
        let heard = || self.lock().each[peer].heard = Some(Instant::now());
        let mut reader = Reader { stop: || self.is_over(), stream, heard: &heard };
        loop {
            match reader.frame() {
                Ok(Frame::Alive) => {}
                Ok(Frame::Data { what, bytes }) => {
                    self.lock().each[peer].inbox.push_back((what, bytes));
                }
                Ok(Frame::Bye { calls }) => {
                    let mut state = self.lock();
                    state.each[peer].left = Some(calls);
                    let early = state.each[peer].calls > calls;
                    drop(state);
                    let until = Instant::now() + SETTLE;
                    let _ = self.write(peer, &[&Frame::Read.head()], || Instant::now() >= until);
                    if early {
                        self.lose(Self::left(peer));
                    }
                }
                Ok(Frame::Read) => self.lock().each[peer].done = true,
                Ok(Frame::Lost(lost)) => {
                    self.lose(lost);
                }
                Err(end) => {
                    let mut state = self.lock();
                    state.each[peer].done = true;
                    let orderly = state.closing || state.each[peer].left.is_some();
                    drop(state);
                    self.changed.notify_all();
                    let what = match end {
                        End::Closed => "its process ended, or gave up, without a word",
                        End::Nonsense => "it sent what is no message",
                        End::Stopped => return,
                    };
                    if !orderly {
                        self.lose(Lost { rank: peer as u32, what: format!("rank {peer} is gone: {what}") });
                    }
                    return;
                }
            }
            self.changed.notify_all();
        }
    }

    fn is_over(&self) -> bool {
        self.lock().closing
    }

    /// Says that this rank is there, and looks whether others are.
    fn tick(&self) {
        let pause = (self.silence / 8).clamp(Duration::from_millis(10), Duration::from_secs(1));
        loop {
            let state = self.lock();
            if state.closing {
                return;
            }
            let state = self.wait(state, pause);
            if state.closing {
                return;
            }
            let silent = state.each.iter().enumerate().find(|(rank, peer)| {
                let quiet = peer.heard.is_some_and(|heard| heard.elapsed() > self.silence);
                *rank != self.rank && peer.left.is_none() && quiet
            });
            let silent = silent.map(|(rank, _)| rank);
            let left: Vec<bool> = state.each.iter().map(|peer| peer.left.is_some()).collect();
            drop(state);
            if self.health.lost().is_some() {
                // The readers go on until all have closed; there is no more to say.
                thread::sleep(GLANCE);
                continue;
            }
            if let Some(rank) = silent {
                let what =
                    format!("rank {rank} is gone: nothing was heard of it for {}", seconds(self.silence));
                self.lose(Lost { rank: rank as u32, what });
                continue;
            }
            for peer in self.others().into_iter().filter(|peer| !left[*peer]) {
                // Who is writing to it says enough.
                let Ok(_turn) = self.writing[peer].try_lock() else { continue };
                let Some(mut stream) = self.streams[peer].as_ref() else { continue };
                // One byte is written or not. A failure is the reader's to find.
                let _ = write_until(&mut stream, &Frame::Alive.head(), || true);
            }
        }
    }
}

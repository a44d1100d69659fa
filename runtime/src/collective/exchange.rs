//! Messages from rank to rank: of each to all, and of some.

use super::{
    Communicator,
    check::{Job, check_buffer, check_stream},
    host::{Label, Message, Share, Then},
    part::{Call, Turns},
    rank::Rank,
};
use crate::{
    buffer::{Buffer, RawBuffer},
    element::Element,
    error::Error,
};
use std::slice::from_ref;

/// How many elements a rank sends to each and receives from each, by rank: in the order in which the layout stores them, without gaps,
/// from the first on. What is behind them is not touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts<'a> {
    /// Elements for each rank.
    pub sent: &'a [usize],
    /// Elements of each rank: what that one sends here.
    pub received: &'a [usize],
}

/// A message of elements: from which rank, to which, and where they are.
struct Passed<'b> {
    from: usize,
    to: usize,
    raw: &'b RawBuffer,
}

impl Communicator {
    /// Gives each rank a part of what each has: with as many equal parts as there are ranks, part m of rank n's `to` becomes part n of
    /// rank m's `from`. `from`, `to` and `on` have one a device of this process, as in [`Communicator::all_reduce`].
    ///
    /// ```
    /// # use tile_runtime::{Buffer, Communicator, Device, Error, Stream};
    /// # fn main() -> Result<(), Error> {
    /// let devices = [Device::sim(), Device::sim()];
    /// let streams: Vec<Stream> = devices.iter().map(Stream::new).collect::<Result<_, _>>()?;
    /// let x = Buffer::from_slice(&devices[0], &[1, 2, 3, 4], &[4])?;
    /// let y = Buffer::from_slice(&devices[1], &[5, 6, 7, 8], &[4])?;
    /// let mut a = Buffer::zeros(&devices[0], &[4])?;
    /// let mut b = Buffer::zeros(&devices[1], &[4])?;
    /// Communicator::new(&devices)?.all_to_all(&[&x, &y], &mut [&mut a, &mut b], &streams)?;
    /// assert_eq!((a.to_vec()?, b.to_vec()?), (vec![1, 2, 5, 6], vec![3, 4, 7, 8]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Communicator::all_gather`].
    pub fn all_to_all<T: Element>(
        &self,
        from: &[&Buffer<T>],
        to: &mut [&mut Buffer<T>],
        on: &[impl Rank],
    ) -> Result<(), Error> {
        self.check_count(to.len(), on)?;
        self.check_count(from.len(), on)?;
        let mut counts = Vec::new();
        for (from, to) in from.iter().zip(&*to) {
            let [sent, received] = [self.part_of(from.shape())?, self.part_of(to.shape())?];
            if sent != received {
                return Err(Error::Shape(format!(
                    "an all_to_all from a tensor of shape {:?} to one of shape {:?}: they have as many elements",
                    from.shape(),
                    to.shape()
                )));
            }
            counts.push(vec![sent; self.ranks]);
        }
        let counts: Vec<_> = counts.iter().map(|each| Counts { sent: each, received: each }).collect();
        self.all_to_all_uneven(from, to, &counts, on)
    }

    /// The same with parts that are not equal: of tokens for experts, say. Each rank knows what it receives; where it does not, the counts
    /// themselves are an [`Communicator::all_to_all`] first. `counts` has one a device of this process.
    ///
    /// # Errors
    /// As [`Communicator::all_reduce`]; [`Error::Collective`] for other counts than one a rank, or more elements than a buffer has.
    pub fn all_to_all_uneven<T: Element>(
        &self,
        from: &[&Buffer<T>],
        to: &mut [&mut Buffer<T>],
        counts: &[Counts<'_>],
        on: &[impl Rank],
    ) -> Result<(), Error> {
        let wrong = |what: String| Err(Error::Collective { what });
        self.check_count(to.len(), on)?;
        self.check_count(from.len(), on)?;
        if counts.len() != self.devices.len() {
            return wrong(format!("{} devices were given {} counts", self.devices.len(), counts.len()));
        }
        let size = size_of::<T>();
        let mut jobs = Vec::new();
        for (place, (((from, to), counts), on)) in from.iter().zip(&*to).zip(counts).zip(on).enumerate() {
            let (device, rank) = (&self.devices[place], self.rank + place);
            check_buffer("from", &from.raw, device)?;
            check_buffer("to", &to.raw, device)?;
            check_stream(on, device)?;
            let side = |counts: &[usize], raw: &RawBuffer, what: &str| -> Result<(), Error> {
                if counts.len() != self.ranks {
                    return wrong(format!("there are {} ranks, and {} counts", self.ranks, counts.len()));
                }
                let sum = counts.iter().try_fold(0usize, |sum, count| sum.checked_add(*count));
                match sum.is_some_and(|sum| sum <= raw.geometry.count()) {
                    true => Ok(()),
                    false => {
                        let shape = &raw.geometry.shape;
                        wrong(format!(
                            "a tensor of shape {shape:?} has fewer elements than rank {rank} {what}"
                        ))
                    }
                }
            };
            side(counts.sent, &from.raw, "sends")?;
            side(counts.received, &to.raw, "receives")?;
            let messages = |counts: &[usize], buffer| {
                let mut at = 0;
                let one = move |(peer, count): (usize, &usize)| {
                    let bytes = at..at + count * size;
                    at = bytes.end;
                    Message { peer, buffer, bytes }
                };
                counts.iter().enumerate().map(one).collect::<Vec<_>>()
            };
            let sends = messages(counts.sent, &from.raw);
            let receives = messages(counts.received, &to.raw);
            let calls = calls(&sends, &receives);
            let uses = vec![(&from.raw, false), (&to.raw, true)];
            jobs.push(Job { uses, share: Share { rank, sends, receives }, calls });
        }
        for (here, job) in jobs.iter().enumerate() {
            for (there, other) in jobs.iter().enumerate() {
                let sent = job.share.sends[self.rank + there].bytes.len() / size;
                let received = other.share.receives[self.rank + here].bytes.len() / size;
                if sent != received {
                    let (from, to) = (self.rank + here, self.rank + there);
                    return wrong(format!(
                        "rank {from} sends {sent} elements to rank {to}, which receives {received}"
                    ));
                }
            }
        }
        self.run(jobs, on, Then::Store, &Label::Each("all_to_all", T::DTYPE), Turns::All)
    }

    /// Sends a buffer to another rank, which receives it; in a process with one rank. On GPUs this ends when the other receives.
    ///
    /// Two ranks that send to each other, and then receive, wait for ever on GPUs: [`Communicator::exchange`] does both at once.
    ///
    /// # Errors
    /// As [`Communicator::exchange`]; [`Error::Collective`] where this process has several ranks.
    pub fn send<T: Element>(&self, buffer: &Buffer<T>, to: usize, on: &impl Rank) -> Result<(), Error> {
        self.check_single()?;
        self.exchange(&[(self.rank, to, buffer)], &mut [], from_ref(on))
    }

    /// Receives what another rank sends: as many elements of the same type; in a process with one rank.
    ///
    /// # Errors
    /// As [`Communicator::exchange`]; [`Error::Collective`] where this process has several ranks.
    pub fn receive<T: Element>(
        &self,
        buffer: &mut Buffer<T>,
        from: usize,
        on: &impl Rank,
    ) -> Result<(), Error> {
        self.check_single()?;
        self.exchange(&[], &mut [(from, self.rank, buffer)], from_ref(on))
    }

    /// Sends buffers and receives others, all at once: each with the rank that sends and the one that receives. Those that send in
    /// `sends` are of this process, and those that receive in `receives`; messages of two ranks are in order. `on` has one a device of
    /// this process, as in [`Communicator::all_reduce`].
    ///
    /// ```
    /// # use tile_runtime::{Buffer, Communicator, Device, Error, Stream};
    /// # fn main() -> Result<(), Error> {
    /// let devices = [Device::sim(), Device::sim()];
    /// let streams: Vec<Stream> = devices.iter().map(Stream::new).collect::<Result<_, _>>()?;
    /// let x = Buffer::from_slice(&devices[0], &[1, 2, 3], &[3])?;
    /// let mut y = Buffer::zeros(&devices[1], &[3])?;
    /// Communicator::new(&devices)?.exchange(&[(0, 1, &x)], &mut [(0, 1, &mut y)], &streams)?;
    /// assert_eq!(y.to_vec()?, [1, 2, 3]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Collective`] for a rank that there is not, or one of another process where it has to be of this one, for messages within
    /// the process that do not match, and for another number of streams; as [`Communicator::all_reduce`] for the rest.
    pub fn exchange<T: Element>(
        &self,
        sends: &[(usize, usize, &Buffer<T>)],
        receives: &mut [(usize, usize, &mut Buffer<T>)],
        on: &[impl Rank],
    ) -> Result<(), Error> {
        self.check_count(self.devices.len(), on)?;
        on.iter().zip(&self.devices).try_for_each(|(on, device)| check_stream(on, device))?;
        let sends: Vec<Passed<'_>> = sends
            .iter()
            .map(|(from, to, buffer)| Passed { from: *from, to: *to, raw: &buffer.raw })
            .collect();
        let receives: Vec<Passed<'_>> = receives
            .iter()
            .map(|(from, to, buffer)| Passed { from: *from, to: *to, raw: &buffer.raw })
            .collect();
        for (passed, own, what) in
            sends.iter().map(|p| (p, p.from, "sends")).chain(receives.iter().map(|p| (p, p.to, "receives")))
        {
            self.check_rank(passed.from)?;
            self.check_rank(passed.to)?;
            let Some(device) = own.checked_sub(self.rank).and_then(|place| self.devices.get(place)) else {
                let what = format!("rank {own} {what}, and is of another process");
                return Err(Error::Collective { what });
            };
            check_buffer("a message", passed.raw, device)?;
        }
        self.check_matched(&sends, &receives)?;
        let mut jobs = Vec::new();
        let mut turns = Vec::new();
        for place in 0..self.devices.len() {
            let rank = self.rank + place;
            let message = |peer, passed: &Passed<'_>| (peer, 0..passed.raw.geometry.count() * size_of::<T>());
            let mut uses = Vec::new();
            let (mut sent, mut received) = (Vec::new(), Vec::new());
            for passed in sends.iter().filter(|passed| passed.from == rank) {
                let (peer, bytes) = message(passed.to, passed);
                sent.push(Message { peer, buffer: passed.raw, bytes });
                uses.push((passed.raw, false));
            }
            for passed in receives.iter().filter(|passed| passed.to == rank) {
                let (peer, bytes) = message(passed.from, passed);
                received.push(Message { peer, buffer: passed.raw, bytes });
                uses.push((passed.raw, true));
            }
            turns.extend(sent.iter().chain(&received).map(|message| message.peer));
            let calls = calls(&sent, &received);
            jobs.push(Job { uses, share: Share { rank, sends: sent, receives: received }, calls });
        }
        self.run(jobs, on, Then::Store, &Label::Each("a message", T::DTYPE), Turns::Messages(turns))
    }

    fn check_single(&self) -> Result<(), Error> {
        match self.devices.len() {
            1 => Ok(()),
            several => {
                let what = format!(
                    "this process has {several} ranks: `exchange` says which of them sends or receives"
                );
                Err(Error::Collective { what })
            }
        }
    }

    /// What ranks of this process send to each other, they receive.
    fn check_matched(&self, sends: &[Passed<'_>], receives: &[Passed<'_>]) -> Result<(), Error> {
        let here = self.rank..self.rank + self.devices.len();
        for from in here.clone() {
            for to in here.clone() {
                let of = |list: &[Passed<'_>]| -> Vec<usize> {
                    let matching = list.iter().filter(|passed| (passed.from, passed.to) == (from, to));
                    matching.map(|passed| passed.raw.geometry.count()).collect()
                };
                let (sent, received) = (of(sends), of(receives));
                if sent != received {
                    let what = format!(
                        "rank {from} sends messages of {sent:?} elements to rank {to}, which receives {received:?}"
                    );
                    return Err(Error::Collective { what });
                }
            }
        }
        Ok(())
    }
}

/// What NCCL does for these messages.
fn calls(sends: &[Message<'_>], receives: &[Message<'_>]) -> Vec<Call> {
    let at = |message: &Message<'_>| message.buffer.address() + message.bytes.start as u64;
    let some = |message: &&Message<'_>| !message.bytes.is_empty();
    let send = |m: &Message<'_>| Call::Send { at: at(m), bytes: m.bytes.len(), peer: m.peer };
    let receive = |m: &Message<'_>| Call::Receive { at: at(m), bytes: m.bytes.len(), peer: m.peer };
    sends.iter().filter(some).map(send).chain(receives.iter().filter(some).map(receive)).collect()
}

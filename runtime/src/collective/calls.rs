//! Collectives in which all ranks have alike buffers.

use super::{
    Between, Communicator,
    check::Job,
    host::{Label, Message, Share, Then},
    part::{Call, Turns},
    rank::Rank,
};
use crate::{
    buffer::{Buffer, RawBuffer},
    element::{Element, Reducible},
    error::Error,
    reduction::Reduction,
};
use std::ops::Range;

impl Communicator {
    /// Replaces each element of each rank's buffer by the sum of those at its place in all of them. `buffers` and `on` have one a device of
    /// this process, in the devices' order: streams on which the sum is queued, or recorders of graphs, which have it then
    /// ([`Graph::replay_together`]).
    ///
    /// The simulator adds floats in f32 in the order of the ranks and rounds once; NCCL decides order and rounding itself. All ranks get
    /// the same bits.
    ///
    /// # Errors
    /// [`Error::Collective`] for another number of them, or recorders of several replays; [`Error::Shape`] when shapes or layouts differ,
    /// [`Error::Gaps`]; [`Error::DeviceMismatch`], [`Error::StreamMismatch`], [`Error::Recorded`]: nothing is queued then. NCCL's;
    /// [`Error::RankLost`], also where simulators of other processes make another call, or one of another size.
    ///
    /// [`Graph::replay_together`]: crate::Graph::replay_together
    pub fn all_reduce<T: Reducible>(
        &self,
        buffers: &mut [&mut Buffer<T>],
        on: &[impl Rank],
    ) -> Result<(), Error> {
        self.all_reduce_by(Reduction::Sum, buffers, on)
    }

    /// The same with the greatest or the least in place of the sum.
    ///
    /// # Errors
    /// As [`Communicator::all_reduce`].
    pub fn all_reduce_by<T: Reducible>(
        &self,
        reduction: Reduction,
        buffers: &mut [&mut Buffer<T>],
        on: &[impl Rank],
    ) -> Result<(), Error> {
        let raws = raws(buffers);
        self.check_alike(&raws, on)?;
        let count = raws[0].geometry.count();
        let job = |rank: usize, raw| {
            let call = Call::AllReduce { at: RawBuffer::address(raw), count, dtype: T::DTYPE, reduction };
            self.job(rank, raw, |_| 0..bytes::<T>(count), |_| 0..bytes::<T>(count), call)
        };
        let label = Label::Whole(format!("all_reduce ({reduction}) of {count} {}", T::DTYPE));
        let then = Then::combine::<T>(reduction);
        self.run(self.jobs(&raws, job), on, then, &label, Turns::All)
    }

    /// Gives each rank what all have: of each buffer, cut into as many equal parts as there are ranks, the n-th part becomes that of
    /// rank n's buffer, bit for bit. `buffers` and `on` are as in [`Communicator::all_reduce`].
    ///
    /// ```
    /// # use tile_runtime::{Buffer, Communicator, Device, Error, Stream};
    /// # fn main() -> Result<(), Error> {
    /// let devices = [Device::sim(), Device::sim()];
    /// let streams: Vec<Stream> = devices.iter().map(Stream::new).collect::<Result<_, _>>()?;
    /// let mut x = Buffer::from_slice(&devices[0], &[1, 2, 0, 0], &[4])?;
    /// let mut y = Buffer::from_slice(&devices[1], &[0, 0, 3, 4], &[4])?;
    /// Communicator::new(&devices)?.all_gather(&mut [&mut x, &mut y], &streams)?;
    /// assert_eq!((x.to_vec()?, y.to_vec()?), (vec![1, 2, 3, 4], vec![1, 2, 3, 4]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Communicator::all_reduce`]; [`Error::Collective`] where there are no equal parts.
    pub fn all_gather<T: Element>(
        &self,
        buffers: &mut [&mut Buffer<T>],
        on: &[impl Rank],
    ) -> Result<(), Error> {
        let raws = raws(buffers);
        let part = self.part_of(raws.first().map_or(&[], |raw| &raw.geometry.shape[..]))?;
        self.check_alike(&raws, on)?;
        let range = |rank: usize| bytes::<T>(rank * part)..bytes::<T>((rank + 1) * part);
        let job = |rank: usize, raw| {
            let to = RawBuffer::address(raw);
            let (from, bytes) = (to + range(rank).start as u64, bytes::<T>(part));
            let call = Call::AllGather { from, to, bytes };
            self.job(rank, raw, |_| range(rank), range, call)
        };
        let label = Label::Whole(format!("all_gather of {} {}", self.ranks * part, T::DTYPE));
        self.run(self.jobs(&raws, job), on, Then::Store, &label, Turns::All)
    }

    /// Gives each rank its part of what all have together: of each buffer, cut into as many equal parts as there are ranks, rank n's n-th
    /// part becomes the sum, the greatest or the least of those at its place in all of them. The other parts stay as they are. `buffers` and
    /// `on` are as in [`Communicator::all_reduce`].
    ///
    /// ```
    /// # use tile_runtime::{Buffer, Communicator, Device, Error, Reduction, Stream};
    /// # fn main() -> Result<(), Error> {
    /// let devices = [Device::sim(), Device::sim()];
    /// let streams: Vec<Stream> = devices.iter().map(Stream::new).collect::<Result<_, _>>()?;
    /// let mut x = Buffer::from_slice(&devices[0], &[1, 2, 3, 4], &[4])?;
    /// let mut y = Buffer::from_slice(&devices[1], &[5, 6, 7, 8], &[4])?;
    /// Communicator::new(&devices)?.reduce_scatter(Reduction::Sum, &mut [&mut x, &mut y], &streams)?;
    /// assert_eq!((x.to_vec()?, y.to_vec()?), (vec![6, 8, 3, 4], vec![5, 6, 10, 12]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Communicator::all_gather`].
    pub fn reduce_scatter<T: Reducible>(
        &self,
        reduction: Reduction,
        buffers: &mut [&mut Buffer<T>],
        on: &[impl Rank],
    ) -> Result<(), Error> {
        let raws = raws(buffers);
        let part = self.part_of(raws.first().map_or(&[], |raw| &raw.geometry.shape[..]))?;
        self.check_alike(&raws, on)?;
        let range = |rank: usize| bytes::<T>(rank * part)..bytes::<T>((rank + 1) * part);
        let job = |rank: usize, raw| {
            let from = RawBuffer::address(raw);
            let to = from + range(rank).start as u64;
            let call = Call::ReduceScatter { from, to, count: part, dtype: T::DTYPE, reduction };
            self.job(rank, raw, range, |_| range(rank), call)
        };
        let label =
            Label::Whole(format!("reduce_scatter ({reduction}) of {} {}", self.ranks * part, T::DTYPE));
        let then = Then::combine::<T>(reduction);
        self.run(self.jobs(&raws, job), on, then, &label, Turns::All)
    }

    /// Gives each rank what one has: each buffer becomes that of rank `root`, bit for bit. `buffers` and `on` are as in
    /// [`Communicator::all_reduce`].
    ///
    /// # Errors
    /// As [`Communicator::all_reduce`]; [`Error::Collective`] where there is no such rank.
    pub fn broadcast<T: Element>(
        &self,
        root: usize,
        buffers: &mut [&mut Buffer<T>],
        on: &[impl Rank],
    ) -> Result<(), Error> {
        self.check_rank(root)?;
        let raws = raws(buffers);
        self.check_alike(&raws, on)?;
        let count = raws[0].geometry.count();
        let all = 0..bytes::<T>(count);
        let job = |rank: usize, raw| {
            let message = |peer| Message { peer, buffer: raw, bytes: all.clone() };
            let (sends, receives) = match rank == root {
                true => ((0..self.ranks).filter(|peer| *peer != root).map(message).collect(), Vec::new()),
                false => (Vec::new(), vec![message(root)]),
            };
            let call = Call::Broadcast { at: RawBuffer::address(raw), bytes: all.end, root };
            let calls = if self.moves_nothing(all.end) { Vec::new() } else { vec![call] };
            Job { uses: vec![(raw, true)], share: Share { rank, sends, receives }, calls }
        };
        let label = Label::Whole(format!("broadcast from rank {root} of {count} {}", T::DTYPE));
        self.run(self.jobs(&raws, job), on, Then::Store, &label, Turns::All)
    }

    /// One job a device here.
    fn jobs<'b>(
        &self,
        raws: &[&'b RawBuffer],
        job: impl Fn(usize, &'b RawBuffer) -> Job<'b>,
    ) -> Vec<Job<'b>> {
        raws.iter().enumerate().map(|(place, raw)| job(self.rank + place, raw)).collect()
    }

    /// What a rank does that sends something to each, and receives something of each, in the ranks' order.
    fn job<'b>(
        &self,
        rank: usize,
        raw: &'b RawBuffer,
        sent: impl Fn(usize) -> Range<usize>,
        received: impl Fn(usize) -> Range<usize>,
        call: Call,
    ) -> Job<'b> {
        let sends: Vec<_> =
            (0..self.ranks).map(|peer| Message { peer, buffer: raw, bytes: sent(peer) }).collect();
        let receives = (0..self.ranks).map(|peer| Message { peer, buffer: raw, bytes: received(peer) });
        let receives = receives.collect();
        let nothing = self.moves_nothing(raw.geometry.count());
        let calls = if nothing { Vec::new() } else { vec![call] };
        Job { uses: vec![(raw, true)], share: Share { rank, sends, receives }, calls }
    }

    /// Whether there is no use in asking NCCL.
    fn moves_nothing(&self, count: usize) -> bool {
        count == 0 || matches!(self.between, Between::Alone(_))
    }
}

fn raws<'b, T: Element>(buffers: &'b [&mut Buffer<T>]) -> Vec<&'b RawBuffer> {
    buffers.iter().map(|buffer| &buffer.raw).collect()
}

/// Bytes of elements.
fn bytes<T: Element>(count: usize) -> usize {
    count * size_of::<T>()
}

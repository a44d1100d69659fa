//! What has to hold of a collective's arguments, and how one runs that keeps to it.

use super::{
    Between, Communicator,
    host::{self, Label, Share, Then},
    nccl::Nccl,
    part::{Call, Part, Turns},
    rank::Rank,
};
use crate::{buffer::RawBuffer, device::Device, error::Error};
use std::sync::{Arc, OnceLock};

/// What one device does.
pub(super) struct Job<'b> {
    /// The buffers, and whether they are written.
    pub(super) uses: Vec<(&'b RawBuffer, bool)>,
    pub(super) share: Share<'b>,
    pub(super) calls: Vec<Call>,
}

impl Communicator {
    /// Checks that there is a buffer and a stream for each device.
    ///
    /// # Errors
    /// [`Error::Collective`], [`Error::StreamMismatch`].
    pub(super) fn check_count<R: Rank>(&self, buffers: usize, on: &[R]) -> Result<(), Error> {
        let (count, streams) = (self.devices.len(), on.len());
        if (buffers, streams) != (count, count) {
            let what = format!("{count} devices were given {buffers} buffers and {streams} streams");
            return Err(Error::Collective { what });
        }
        Ok(())
    }

    /// Checks buffers, one a device, that are of the same shape.
    ///
    /// # Errors
    /// [`Error::Collective`], [`Error::DeviceMismatch`], [`Error::StreamMismatch`], [`Error::Shape`], [`Error::Gaps`].
    pub(super) fn check_alike<R: Rank>(&self, raws: &[&RawBuffer], on: &[R]) -> Result<(), Error> {
        self.check_count(raws.len(), on)?;
        let first = &raws[0].geometry;
        for (n, ((raw, on), device)) in raws.iter().zip(on).zip(&self.devices).enumerate() {
            let (name, g) = (format!("buffer {n}"), &raw.geometry);
            check_device(&name, raw, device)?;
            check_stream(on, device)?;
            if g.shape != first.shape || g.layout != first.layout {
                return Err(Error::Shape(format!(
                    "buffer 0 of a collective is a {} tensor of shape {:?}, and buffer {n} is a {} one of shape {:?}",
                    first.layout.name(),
                    first.shape,
                    g.layout.name(),
                    g.shape
                )));
            }
            check_buffer(&name, raw, device)?;
        }
        Ok(())
    }

    /// Elements of the parts of a tensor, one a rank.
    ///
    /// # Errors
    /// [`Error::Collective`] where there are no equal ones.
    pub(super) fn part_of(&self, shape: &[usize]) -> Result<usize, Error> {
        let (ranks, count) = (self.ranks, shape.iter().product::<usize>());
        if !count.is_multiple_of(ranks) {
            let what = format!("a tensor of shape {shape:?} has no {ranks} equal parts, one a device");
            return Err(Error::Collective { what });
        }
        Ok(count / ranks)
    }

    /// Checks a rank that was named.
    ///
    /// # Errors
    /// [`Error::Collective`].
    pub(super) fn check_rank(&self, rank: usize) -> Result<(), Error> {
        match rank < self.ranks {
            true => Ok(()),
            false => {
                Err(Error::Collective { what: format!("there is no rank {rank}: there are {}", self.ranks) })
            }
        }
    }

    /// Runs what was checked.
    ///
    /// # Errors
    /// [`Error::Recorded`], and nothing is queued then; [`Error::Collective`] for recorders of several replays; NCCL's and the driver's;
    /// [`Error::RankLost`].
    pub(super) fn run<R: Rank>(
        &self,
        jobs: Vec<Job<'_>>,
        on: &[R],
        then: Then,
        label: &Label,
        turns: Turns,
    ) -> Result<(), Error> {
        R::check(on)?;
        for (job, on) in jobs.iter().zip(on) {
            job.uses.iter().try_for_each(|(raw, writes)| on.order(raw, *writes))?;
        }
        let uses: Vec<Vec<(&RawBuffer, bool)>> = jobs.iter().map(|job| job.uses.clone()).collect();
        let result = match &self.between {
            Between::Host => self.on_host(jobs, then, label, &turns),
            Between::Links(_) => self.on_host(jobs, then, label, &turns),
            Between::Nccl(nccl) => put(nccl, jobs, on, turns),
            Between::Alone(nccl) => {
                if jobs.iter().all(|job| job.calls.is_empty()) {
                    return Ok(());
                }
                self.alone(nccl).and_then(|nccl| put(nccl, jobs, on, turns))
            }
        };
        // Also after a failure: some of it may have been queued.
        for (uses, on) in uses.iter().zip(on) {
            uses.iter().for_each(|(raw, writes)| on.used(raw, *writes));
        }
        result
    }

    /// What carries what one GPU sends to itself.
    ///
    /// # Errors
    /// [`Error::NoNccl`], NCCL's.
    fn alone<'a>(&self, known: &'a OnceLock<Arc<Nccl>>) -> Result<&'a Arc<Nccl>, Error> {
        if let Some(known) = known.get() {
            return Ok(known);
        }
        let made = Arc::new(Nccl::new(&self.devices)?);
        Ok(known.get_or_init(|| made))
    }

    fn on_host(&self, jobs: Vec<Job<'_>>, then: Then, label: &Label, turns: &Turns) -> Result<(), Error> {
        let links = match &self.between {
            Between::Links(links) => Some(links),
            _ => None,
        };
        let shares: Vec<Share<'_>> = jobs.into_iter().map(|job| job.share).collect();
        host::run(&shares, then, label, turns, links)
    }
}

/// # Errors
/// NCCL's; [`Error::RankLost`].
fn put<R: Rank>(nccl: &Arc<Nccl>, jobs: Vec<Job<'_>>, on: &[R], turns: Turns) -> Result<(), Error> {
    let part = |(place, job): (usize, Job<'_>)| Part::new(nccl, place, job.calls, turns.clone());
    let parts: Vec<Part> = jobs.into_iter().enumerate().map(part).collect();
    // SAFETY: the buffers are without gaps and as long as the calls say, each on its device; they are freed and overwritten only
    // after this work, which `used` notes; what else uses them waits, which `order` saw to.
    unsafe { R::put(on, parts) }
}

/// # Errors
/// [`Error::StreamMismatch`].
pub(super) fn check_stream<R: Rank>(on: &R, device: &Device) -> Result<(), Error> {
    let stream = on.stream();
    match stream.device().same_as(device) {
        true => Ok(()),
        false => {
            let (found, expected) = Device::apart(stream.device(), device);
            Err(Error::StreamMismatch { found, expected })
        }
    }
}

/// # Errors
/// [`Error::DeviceMismatch`], in which the buffer has a name.
fn check_device(name: &str, raw: &RawBuffer, device: &Device) -> Result<(), Error> {
    let found = &raw.memory.device;
    match found.same_as(device) {
        true => Ok(()),
        false => {
            let (found, expected) = Device::apart(found, device);
            Err(Error::DeviceMismatch { name: name.into(), found, expected })
        }
    }
}

/// Checks one buffer of a device, called `name` in messages.
///
/// # Errors
/// [`Error::DeviceMismatch`], [`Error::Gaps`].
pub(super) fn check_buffer(name: &str, raw: &RawBuffer, device: &Device) -> Result<(), Error> {
    check_device(name, raw, device)?;
    let g = &raw.geometry;
    match g.is_dense() {
        true => Ok(()),
        false => {
            let (shape, strides) = (g.shape.to_vec(), g.strides.to_vec());
            Err(Error::Gaps { shape, strides, what: "a collective" })
        }
    }
}

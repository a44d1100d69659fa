//! Schedules against each other, on the arguments of one launch.

use super::{Answer, L2, Progress, Tuner, measure, measure::Limits};
use crate::{
    arguments::LaunchArgs,
    error::Error,
    launch::{Outline, Scheduled},
    memory::lock,
    plan::Plan,
    roofline,
    schedule::AnySchedule,
    snapshot::Snapshot,
    stats::median,
};
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

/// Rounds of launches at most: beyond, a median hardly moves.
const MOST_ROUNDS: usize = 400;

/// A schedule that is measured.
#[derive(Clone)]
pub(crate) enum Entrant<'s> {
    /// One of the program's, with what it is called here.
    Given(&'s dyn AnySchedule, &'s str),
    /// One that was chosen for the launch.
    Chosen(Arc<Plan>),
}

impl Entrant<'_> {
    /// What it is called among the others.
    pub(super) fn text(&self) -> String {
        match self {
            Entrant::Given(_, text) => (*text).into(),
            Entrant::Chosen(plan) => plan.text().to_string(),
        }
    }
}

/// An entrant that can run.
pub(super) struct Candidate<'s> {
    /// Its place among the entrants.
    pub(super) at: usize,
    pub(super) entrant: Entrant<'s>,
    pub(super) outline: Outline,
}

impl Candidate<'_> {
    pub(super) fn text(&self) -> String {
        self.entrant.text()
    }
}

/// How a candidate did.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time {
    /// Which candidate.
    pub(super) at: usize,
    /// Microseconds: the median of what was measured, or the prediction.
    pub(super) us: f64,
    /// Launches that were timed.
    pub(super) launches: u32,
    /// The resource that takes longest, of a prediction.
    pub(super) bound: Option<&'static str>,
}

impl Time {
    pub(super) fn answer(&self, candidates: &[Candidate<'_>]) -> Answer {
        Answer { configuration: candidates[self.at].text(), us: self.us, launches: self.launches }
    }
}

/// What can run, and why the rest cannot, each with its place among the entrants.
type Sifted<'s> = (Vec<Candidate<'s>>, Vec<(usize, Error)>);

/// Times, and why some entrants have none, each with its place among them.
type Timed = (Vec<Time>, Vec<(usize, Error)>);

/// Each entrant against the arguments.
///
/// # Errors
/// [`Error::Tune`] when there is nothing to compute.
pub(super) fn candidates<'s>(
    args: &mut LaunchArgs<'_>,
    entrants: &[Entrant<'s>],
) -> Result<Sifted<'s>, Error> {
    let (mut candidates, mut failed) = (Vec::new(), Vec::new());
    for (at, entrant) in entrants.iter().enumerate() {
        match Scheduled::entered(args.reborrow(), entrant).outline() {
            Ok(Some(outline)) => candidates.push(Candidate { at, entrant: entrant.clone(), outline }),
            Ok(None) => {
                let what = format!(
                    "there is nothing to compute, so `{}` cannot be tuned: pass tensors with elements",
                    args.kernel
                );
                return Err(Error::Tune { what });
            }
            Err(why) => failed.push((at, why)),
        }
    }
    Ok((candidates, failed))
}

impl Tuner {
    /// Times of the candidates, and why some have none, each with its place among the entrants. On a GPU they are measured, on the
    /// simulator predicted. The arguments hold what they held before.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; [`Error::Asynchronous`]; the simulator's.
    pub(super) fn race(
        &self,
        args: &mut LaunchArgs<'_>,
        candidates: &[Candidate<'_>],
    ) -> Result<Timed, Error> {
        match candidates.first() {
            Some(first) if first.outline.device.is_gpu() => self.measure(args, candidates),
            _ => Ok((self.predict(args, candidates)?, Vec::new())),
        }
    }

    fn measure(&self, args: &mut LaunchArgs<'_>, candidates: &[Candidate<'_>]) -> Result<Timed, Error> {
        let snapshot = Snapshot::of(&args.tensors)?;
        let mut launch = |candidate: &Candidate<'_>| {
            snapshot.restore()?;
            let launch = Scheduled::entered(args.reborrow(), &candidate.entrant);
            let report = match self.l2 {
                L2::Cold => launch.cold(),
                L2::Warm => launch.warm(),
            };
            Ok::<f64, Error>(report.run()?.time_ms.unwrap_or(f64::INFINITY) * 1e3)
        };
        let (mut sound, mut failed) = (Vec::new(), Vec::new());
        for (n, compiled) in self.compile(candidates).into_iter().enumerate() {
            // One launch shows what loading does not: too many registers for the threads, say.
            match compiled.and_then(|()| launch(&candidates[n])) {
                Ok(_) => sound.push(n),
                Err(lost @ Error::Asynchronous { .. }) => return Err(lost),
                Err(why) => failed.push((candidates[n].at, why)),
            }
        }
        let limits = Limits { budget: self.budget, most: MOST_ROUNDS };
        let start = Instant::now();
        let times = measure::play(
            sound.len(),
            limits,
            |n| launch(&candidates[sound[n]]),
            |left| self.tell(Progress::Measuring { left, spent: start.elapsed(), budget: self.budget }),
        )?;
        snapshot.restore()?;
        let time = |(&at, times): (&usize, &Vec<f64>)| {
            Some(Time { at, us: median(times)?, launches: times.len() as u32, bound: None })
        };
        Ok((sound.iter().zip(&times).filter_map(time).collect(), failed))
    }

    /// Compiles and loads all candidates, on all cores: what became of each.
    fn compile(&self, candidates: &[Candidate<'_>]) -> Vec<Result<(), Error>> {
        let results: Vec<Mutex<Result<(), Error>>> = candidates.iter().map(|_| Mutex::new(Ok(()))).collect();
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = || {
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                let Some(Candidate { outline, .. }) = candidates.get(n) else { break };
                let Outline { device, kernels, variant, gaps, .. } = outline;
                *lock(&results[n]) = kernels.ready(device, *variant, (gaps, false)).map(|_| ());
                let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                self.tell(Progress::Compiling { done, of: candidates.len() });
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(candidates.len());
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(work);
            }
        });
        results.into_iter().map(|r| r.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
    }

    /// Runs each candidate once on the simulator: what the busiest resource of an H200 would take.
    fn predict(&self, args: &mut LaunchArgs<'_>, candidates: &[Candidate<'_>]) -> Result<Vec<Time>, Error> {
        let snapshot = Snapshot::of(&args.tensors)?;
        let mut times = Vec::new();
        for (at, Candidate { entrant, outline, .. }) in candidates.iter().enumerate() {
            self.tell(Progress::Simulating { done: at, of: candidates.len() });
            let report = Scheduled::entered(args.reborrow(), entrant).run()?;
            snapshot.restore()?;
            let Some(counters) = report.counters else { continue };
            let (work, issued) = (roofline::Work::counted(&counters), counters.instructions.warp as f64);
            let prediction = roofline::predict(&roofline::Gpu::H200, &work, issued, outline.bytes as f64);
            times.push(Time { at, us: prediction.seconds * 1e6, launches: 0, bound: Some(prediction.bound) });
        }
        Ok(times)
    }
}

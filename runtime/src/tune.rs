//! Which configuration of a schedule with lists is the fastest, for a launch at hand.
//!
//! | step | |
//! |---|---|
//! | outline | each configuration against the arguments: variant, assumptions; what cannot run is listed with the reason |
//! | recall | an answer on disk for this device, kernel, list of configurations and class of shapes ends it here |
//! | compile | all that is left, on all cores |
//! | play | launches in turn; the slower drop out ([`measure`]) |
//! | keep | the medians, on disk ([`crate::question`]) |
//!
//! A *class of shapes* is what launches have in common that one configuration serves: the element type, the variant that
//! each configuration runs, which tensors have gaps, and each dim up to a quarter of its power of two (1024 to 1279, 1280
//! to 1535, ..; dims below 32 as they are).
//!
//! What the kernel writes is copied first, put back before each launch, and after all.

mod auto;
mod choice;
mod measure;
mod race;

pub use choice::{Choice, Origin, Ranked};
pub(crate) use race::Entrant;

use crate::{
    device::{Device, Kind},
    error::Error,
    launch::Launch,
    question::Question,
    schedule::{AnySchedule, Kernel},
    space::{Configuration, Space},
};
use race::{Candidate, Time};
use serde::{Deserialize, Serialize};
use std::{fmt::Write as _, sync::Arc, time::Duration};

/// What a GPU's L2 cache holds when a timed launch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum L2 {
    /// None of the launch's data: it was overwritten.
    #[default]
    Cold,
    /// What a launch right before it left there. For kernels whose inputs come from the last one.
    Warm,
}

/// How far a tuner is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// Compiled, of so many configurations.
    Compiling {
        /// Finished.
        done: usize,
        /// In all.
        of: usize,
    },
    /// Run on the simulator, of so many configurations.
    Simulating {
        /// Finished.
        done: usize,
        /// In all.
        of: usize,
    },
    /// Rounds of launches.
    Measuring {
        /// Configurations that have not dropped out.
        left: usize,
        /// Since the first launch.
        spent: Duration,
        /// For all launches.
        budget: Duration,
    },
    /// The choice is made, or there is an error.
    Done,
}

/// Finds the fastest configuration of a [`Space`] for a launch.
///
/// ```text
/// schedule! {
///     tuned for double { tile(i = [128, 256, 2048]); bind(i -> thread.x); }
/// }
///
/// let choice = Tuner::new().tune(double(&x, &mut y), tuned)?;
/// println!("{choice}");
/// double(&x, &mut y).schedule_dyn(choice.best()).run()?;
/// ```
#[derive(Clone)]
pub struct Tuner {
    budget: Duration,
    l2: L2,
    fresh: bool,
    watch: Option<Arc<dyn Fn(Progress) + Send + Sync>>,
}

/// How a configuration did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Answer {
    /// Its directives that have lists.
    configuration: String,
    /// Median microseconds.
    us: f64,
    /// Launches that were timed.
    launches: u32,
}

impl Default for Tuner {
    fn default() -> Self {
        Tuner { budget: Duration::from_secs(10), l2: L2::Cold, fresh: false, watch: None }
    }
}

impl Tuner {
    /// Ten seconds of launches, with a cold L2 cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// Time for launches in all, without compiling. Five rounds are played whatever they take.
    pub fn budget(mut self, budget: Duration) -> Self {
        self.budget = budget;
        self
    }

    /// What the L2 cache holds.
    pub fn l2(mut self, l2: L2) -> Self {
        self.l2 = l2;
        self
    }

    /// Measures, whatever was found before.
    pub fn fresh(mut self) -> Self {
        self.fresh = true;
        self
    }

    /// Tells how far it is.
    pub fn watch(mut self, watch: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.watch = Some(Arc::new(watch));
        self
    }

    /// Shows how far it is as a bar on the terminal's error output.
    #[cfg(feature = "progress")]
    pub fn bar(self) -> Self {
        let bar = indicatif::ProgressBar::new(100).with_style(
            indicatif::ProgressStyle::with_template("{bar:30} {percent:>3} % {msg}").expect("a template"),
        );
        self.watch(move |progress| {
            let share = |done: f64, of: f64| (100.0 * done / of).min(100.0) as u64;
            let steps = |done: usize, of: usize| share(done as f64, of as f64);
            let (position, text) = match progress {
                Progress::Compiling { done, of } => (steps(done, of), format!("compiling, {done} of {of}")),
                Progress::Simulating { done, of } => (steps(done, of), format!("simulating, {done} of {of}")),
                Progress::Measuring { left, spent, budget } => {
                    (share(spent.as_secs_f64(), budget.as_secs_f64()), format!("measuring, {left} left"))
                }
                Progress::Done => return bar.finish_and_clear(),
            };
            if bar.is_finished() {
                bar.reset();
            }
            bar.set_position(position);
            bar.set_message(text);
        })
    }

    fn tell(&self, progress: Progress) {
        if let Some(watch) = &self.watch {
            watch(progress);
        }
    }

    /// Finds the fastest configuration for these arguments, on their device. Where the cache of the device has an answer
    /// for a launch of the same class, nothing runs; on the simulator each configuration runs once, and the ranking is a
    /// prediction, which is not kept. The arguments hold what they held before; a copy of what the kernel writes needs as
    /// much memory again.
    ///
    /// # Errors
    /// [`Error::Tune`] when there is nothing to compute; the error of the first configuration when none can run;
    /// [`Error::OutOfMemory`]; [`Error::Asynchronous`].
    pub fn tune<K: Kernel, S: Space<Kernel = K>>(
        &self,
        launch: Launch<'_, K>,
        space: S,
    ) -> Result<Choice, Error> {
        let choice = self.choose(launch, space);
        self.tell(Progress::Done);
        choice
    }

    fn choose<K: Kernel, S: Space<Kernel = K>>(
        &self,
        launch: Launch<'_, K>,
        space: S,
    ) -> Result<Choice, Error> {
        let mut args = launch.into_args();
        let dtype = args.dtype;
        let legal: Vec<&'static Configuration> =
            space.configurations().iter().filter(|c| c.admits(dtype)).collect();
        let Some(first) = legal.first() else {
            return Err(Error::no_program(K::NAME, S::NAME, S::DTYPES, dtype));
        };
        let entrants: Vec<Entrant<'_>> = legal.iter().map(|c| Entrant::Given(*c, c.text())).collect();
        let (candidates, failed) = race::candidates(&mut args, &entrants)?;
        let reason = |failed: Vec<(usize, Error)>| {
            let mut reasons = failed.into_iter().map(|(_, why)| why);
            reasons.next().unwrap_or_else(|| Error::not_admitted(*first, dtype))
        };
        let Some(outline) = candidates.first().map(|c| &c.outline) else {
            return Err(reason(failed));
        };
        let device = outline.device.clone();
        let told = |failed: &[(usize, Error)]| -> Vec<_> {
            failed.iter().map(|(n, why)| (legal[*n], why.to_string())).collect()
        };
        let mut choice = Choice {
            kernel: K::NAME,
            space: S::NAME,
            dtype,
            device: device.name(),
            dims: outline.dims.clone(),
            l2: self.l2,
            origin: Origin::Cache,
            ranked: Vec::new(),
            failed: told(&failed),
            dropped: space.dropped().iter().filter(|d| d.dtype == dtype).copied().collect(),
            warnings: Vec::new(),
        };
        let question = if device.is_gpu() { Some(question(&device, self.l2, &candidates)?) } else { None };
        if let Some(question) = question.as_ref().filter(|_| !self.fresh)
            && let Some(answers) = question.recall::<Vec<Answer>>(&device.cache)
        {
            choice.ranked = ranked(&legal, &candidates, &answers);
            if !choice.ranked.is_empty() {
                return Ok(choice);
            }
        }
        let (times, failed) = self.race(&mut args, &candidates)?;
        if times.is_empty() {
            return Err(reason(failed));
        }
        choice.failed.extend(told(&failed));
        let answers: Vec<Answer> = times.iter().map(|time| time.answer(&candidates)).collect();
        choice.origin = match &question {
            None => Origin::Predicted,
            Some(question) => {
                if let Err(e) = question.keep(&device.cache, &answers) {
                    choice.warnings.push(format!("the result cannot be kept: {e}"));
                }
                Origin::Measured
            }
        };
        choice.ranked = ranked(&legal, &candidates, &answers);
        for ranked in &mut choice.ranked {
            let of = |time: &&Time| candidates[time.at].text() == ranked.configuration.text();
            ranked.bound = times.iter().find(of).and_then(|time| time.bound);
        }
        Ok(choice)
    }
}

/// The answers that are about candidates, the fastest first; of equals, in the order of the lists.
fn ranked(legal: &[&'static Configuration], candidates: &[Candidate<'_>], answers: &[Answer]) -> Vec<Ranked> {
    let rank = |c: &Candidate<'_>| {
        let answer = answers.iter().find(|a| a.configuration == c.text())?;
        let (configuration, variant) = (legal[c.at], c.outline.variant);
        Some(Ranked { configuration, variant, us: answer.us, launches: answer.launches, bound: None })
    };
    let mut ranked: Vec<Ranked> = candidates.iter().filter_map(rank).collect();
    ranked.sort_by(|a, b| a.us.total_cmp(&b.us));
    ranked
}

/// All that decides which candidate is the fastest.
fn question(device: &Device, l2: L2, candidates: &[Candidate<'_>]) -> Result<Question, Error> {
    let mut text = format!("{} · {l2:?}", backend_ptx::VERSION);
    if let (Kind::Cuda(_), Some(gpu)) = (device.kind(), device.gpu()?) {
        let _ = write!(text, " · {} · sm_{} · {} multiprocessors", gpu.name, gpu.sm, gpu.multiprocessors);
    }
    for (n, Candidate { outline, .. }) in candidates.iter().enumerate() {
        let plan = &outline.kernels.plan;
        if n == 0 {
            let _ = write!(text, "\n{}\n", plan.program.nest.kernel);
            for (name, value) in &outline.dims {
                let _ = write!(text, "{name} = {} ", class_of(*value));
            }
        }
        let schedule = &plan.program.schedule;
        let _ = write!(
            text,
            "\n{} on {} · {} · {:?} ·",
            schedule.name, schedule.target, outline.variant, outline.gaps
        );
        for directive in &schedule.directives {
            let _ = write!(text, " {directive};");
        }
    }
    Ok(Question(text))
}

/// The smallest number of a dim's class.
fn class_of(value: i64) -> i64 {
    let Some(octave) = value.checked_ilog2().filter(|octave| *octave > 4) else { return value };
    value >> (octave - 2) << (octave - 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_a_quarter_of_an_octave() {
        for (value, class) in [
            (0, 0),
            (1, 1),
            (16, 16),
            (31, 31),
            (32, 32),
            (39, 32),
            (40, 40),
            (1000, 896),
            (1023, 896),
            (1024, 1024),
        ] {
            assert_eq!(class_of(value), class, "{value}");
        }
        assert_eq!((class_of(1279), class_of(1280), class_of(4096 + 1023)), (1024, 1280, 4096));
    }
}

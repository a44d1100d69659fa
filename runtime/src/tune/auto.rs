//! The quickest of several schedules that nobody wrote, and of some that somebody did.
//!
//! ```text
//! candidates of templates ─► five of different families ┐
//! schedules of the program ─────────────────────────────┴► launches in turn ─► the quickest, kept on disk
//! ```
//! The answer is kept for a *class* of launches: the kernel, element type, layouts, gaps, places in memory up to 16 bytes, the GPU,
//! the schedules of the program that took part, and each size up to a quarter of its power of two.

use super::{Entrant, L2, Tuner, class_of, race};
use crate::{
    arguments::LaunchArgs,
    auto::{By, Choice, Compared, Picked, Site, planned},
    error::Error,
    launch::{Launch, Scheduled},
    memory::lock,
    question::Question,
    schedule::{AnySchedule, Kernel},
};
use std::{
    collections::HashMap,
    fmt::Write as _,
    sync::{LazyLock, Mutex},
    time::Duration,
};

/// Candidates of templates that are measured.
const CANDIDATES: usize = 5;

/// Time for launches of [`Launch::tuned`].
const BUDGET: Duration = Duration::from_secs(2);

/// Choices of this process.
static TUNED: LazyLock<Mutex<HashMap<Question, Choice>>> = LazyLock::new(Mutex::default);

impl<'a, K: Kernel> Launch<'a, K> {
    /// Chooses a schedule by measurements: of five candidates of different families, the one whose launches take the least time. That takes some
    /// seconds the first time; later launches of the same class, in this process or another, find the answer.
    /// [`LaunchReport::schedule_text`](crate::LaunchReport::schedule_text) has it as a text.
    ///
    /// ```text
    /// let report = softmax(&x, &mut y).tuned()?.run()?;
    /// println!("{}", report.schedule_text());
    /// ```
    /// On the simulator each candidate runs once, and what the busiest resource of an H200 would take decides.
    ///
    /// # Errors
    /// [`Error::NoSchedule`]; those of the arguments; [`Error::OutOfMemory`]: what the kernel writes is copied meanwhile.
    pub fn tuned(self) -> Result<Scheduled<'a>, Error> {
        self.tuned_beside(&[])
    }

    /// As [`Launch::tuned`], with schedules of the program among the candidates.
    ///
    /// # Errors
    /// Those of [`Launch::tuned`]; [`Error::WrongKernel`] of a schedule of another kernel.
    pub fn tuned_beside(self, schedules: &[&dyn AnySchedule]) -> Result<Scheduled<'a>, Error> {
        let tuner = Tuner::new().budget(BUDGET);
        #[cfg(feature = "progress")]
        let tuner = tuner.bar();
        tuner.auto(self, schedules)
    }
}

impl Tuner {
    /// As [`Launch::tuned_beside`], with the settings of this tuner.
    ///
    /// # Errors
    /// As there.
    pub fn auto<'a, K: Kernel>(
        &self,
        launch: Launch<'a, K>,
        schedules: &[&dyn AnySchedule],
    ) -> Result<Scheduled<'a>, Error> {
        let mut args = launch.into_args();
        let choice = self.automatic(&mut args, K::ENCODED, schedules);
        self.tell(super::Progress::Done);
        Ok(Scheduled::chosen(args, choice?))
    }

    fn automatic(
        &self,
        args: &mut LaunchArgs<'_>,
        kernel: &'static [u8],
        schedules: &[&dyn AnySchedule],
    ) -> Result<Choice, Error> {
        let site = Site::of(args, kernel)?;
        if let Some(other) = schedules.iter().find(|s| s.kernel() != args.kernel) {
            return Err(Error::wrong_kernel(other.name(), other.kernel(), args.kernel));
        }
        let question = question(&site, args, schedules, self.l2);
        if !self.fresh {
            let known = lock(&TUNED).get(&question).cloned();
            // A schedule may hold up to so many elements, and the class has more.
            let fits = |choice: &Choice| {
                let entrant = Entrant::Chosen(choice.plan.clone());
                Scheduled::entered(args.reborrow(), &entrant).outline().is_ok()
            };
            if let Some(choice) = known.or_else(|| site.recall(&question)).filter(fits) {
                lock(&TUNED).insert(question, choice.clone());
                return Ok(choice);
            }
        }
        let several = site.several(CANDIDATES)?;
        let ranked = |at: usize| several.first.ranked[at].candidate.to_string();
        let mut names = vec![several.first.choice().candidate.to_string()];
        let mut entrants = vec![Entrant::Chosen(planned(&several.first.program))];
        for (at, program) in &several.others {
            names.push(ranked(*at));
            entrants.push(Entrant::Chosen(planned(program)));
        }
        for schedule in schedules.iter().filter(|s| s.admits(args.dtype)) {
            names.push(schedule.name().into());
            entrants.push(Entrant::Given(*schedule, schedule.name()));
        }
        let (candidates, mut failed) = match race::candidates(args, &entrants) {
            // What takes no time cannot be measured.
            Err(Error::Tune { .. }) => return site.choice(),
            sifted => sifted?,
        };
        let (mut times, unsound) = self.race(args, &candidates)?;
        failed.extend(unsound);
        times.sort_by(|a, b| a.us.total_cmp(&b.us));
        let Some(best) = times.first() else {
            failed.sort_by_key(|(at, _)| *at);
            return Err(failed.swap_remove(0).1);
        };
        let name = |at: usize| names[candidates[at].at].clone();
        let compared = times.iter().map(|t| Compared { how: name(t.at), us: t.us, launches: t.launches });
        let picked = Picked {
            how: name(best.at),
            us: best.us,
            by: if site.device.is_gpu() { By::Measurement } else { By::Simulation },
            kept: false,
            compared: compared.collect(),
            warnings: failed
                .iter()
                .map(|(at, why)| format!("{} cannot run here: {why}", names[*at]))
                .collect(),
        };
        let plan = candidates[best.at].outline.kernels.plan.clone();
        let choice = site.keep(&question, picked, planned(&plan.program));
        lock(&TUNED).insert(question, choice.clone());
        Ok(choice)
    }
}

/// The class of a size: about how much it is, and of what it is a multiple, up to 16. Copies are as wide as that allows.
fn class(size: i64) -> String {
    format!("{} by {}", class_of(size), 1 << size.trailing_zeros().min(4))
}

/// All that decides which is the quickest.
fn question(site: &Site, args: &LaunchArgs<'_>, schedules: &[&dyn AnySchedule], l2: L2) -> Question {
    let Question(mut text) = site.question(class);
    let device = if site.device.is_gpu() { "measured" } else { "simulated" };
    let _ = write!(text, " · {} · {device} · {l2:?}", backend_ptx::VERSION);
    for (name, tensor) in args.tensors.iter() {
        let raw = tensor.raw();
        let dense = crate::geometry::Geometry::dense(&raw.geometry.shape, raw.geometry.layout);
        let gaps = if dense.strides == raw.geometry.strides { "" } else { ", gaps" };
        let _ = write!(text, " · {name} at {}{gaps}", raw.address() % 16);
    }
    for schedule in schedules {
        let program = schedule.program(args.dtype);
        let key = program.map(|bytes| crate::cache::Key::of_program(bytes).to_string());
        let _ = write!(text, " · {} {}", schedule.name(), key.unwrap_or_default());
    }
    Question(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_tells_even_sizes_from_odd_ones() {
        assert_eq!(class(1000), class(1016));
        assert_ne!(class(1000), class(1001));
        assert_ne!(class(1000), class(1008));
        assert_ne!(class(1000), class(2000));
        assert_eq!(class(0), "0 by 16");
    }
}

//! Groups: one kernel on several lists of arguments in one launch.

use crate::{
    launch::{Launch, Scheduled},
    prepare::Prepared,
    schedule::{AnySchedule, Kernel, Schedule},
};

/// Launches of kernel `K` that are one launch, each a problem of it: what [`grouped`] returns.
#[must_use = "a group does nothing until `.schedule(..).run()`"]
pub struct Group<'a, K> {
    problems: Vec<Launch<'a, K>>,
}

/// Makes one launch of several: the CTAs of all problems are one grid.
///
/// Sizes, strides, scalars and tensors differ from problem to problem; the element type, the schedule and the device are the
/// same, and so is the variant, the first whose assumptions hold for all of them. Problems may be empty, and there may be
/// none, as where no token went to any expert: then nothing runs. A persistent CTA
/// takes tiles of one problem after another's, so a group of small products fills a GPU that none of them would.
/// The kernel reads what differs from a table, which each launch writes to the device: the host's part grows with the number
/// of problems.
///
/// ```text
/// let experts = tokens.iter().zip(&weights).zip(&mut out).map(|((x, w), y)| matmul(x, w, y));
/// grouped(experts).schedule(wgmma_best).run()?;
/// ```
pub fn grouped<'a, K: Kernel>(launches: impl IntoIterator<Item = Launch<'a, K>>) -> Group<'a, K> {
    Group { problems: launches.into_iter().collect() }
}

impl<'a, K: Kernel> Group<'a, K> {
    /// Chooses the schedule, for all problems.
    pub fn schedule<S: Schedule<Kernel = K>>(self, schedule: S) -> Scheduled<'a> {
        self.schedule_dyn(&schedule)
    }

    /// Chooses a schedule known only when the program runs; that it is one of this kernel's is checked by `run`.
    pub fn schedule_dyn(self, schedule: &dyn AnySchedule) -> Scheduled<'a> {
        self.with(|first| first.schedule_dyn(schedule), || Scheduled::of_no_problem(K::NAME, schedule))
    }

    /// Uses a schedule that was prepared, on the device for which it was.
    pub fn prepared(self, prepared: &'a Prepared<K>) -> Scheduled<'a> {
        self.with(|first| first.prepared(prepared), || Scheduled::of_no_problem_prepared(K::NAME, prepared))
    }

    fn with(
        self,
        schedule: impl FnOnce(Launch<'a, K>) -> Scheduled<'a>,
        without: impl FnOnce() -> Scheduled<'a>,
    ) -> Scheduled<'a> {
        let mut problems = self.problems.into_iter();
        match problems.next() {
            Some(first) => schedule(first).with_others(problems.map(Launch::into_args).collect()),
            None => without(),
        }
    }
}

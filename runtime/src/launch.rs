//! Launches: the arguments of one call of a kernel, then a schedule and a device.

use crate::{
    arguments::LaunchArgs,
    auto::{self, Picked, Site},
    device::Device,
    error::Error,
    execute::{Call, Simulated},
    job::Job,
    kernels::{Kernels, Origin, Ready},
    plan::{Gaps, Plan, RulesRef},
    prepare::Prepared,
    report::LaunchReport,
    schedule::{AnySchedule, Kernel, Schedule},
    solve::Values,
    stream::Stream,
    timing::{self, Before},
    tune::Entrant,
};
use smallvec::SmallVec;
use std::{borrow::Cow, marker::PhantomData, sync::Arc, time::Duration};
use tile_auto::Chosen;
use tile_dsl::{
    dtype::DType,
    program::{Program, Variant},
};

/// A call of kernel `K` that has its arguments but not yet a schedule: what calling a kernel returns.
#[must_use = "a launch does nothing until `.run()`"]
pub struct Launch<'a, K> {
    args: LaunchArgs<'a>,
    kernel: PhantomData<K>,
}

impl<'a, K: Kernel> Launch<'a, K> {
    /// Called by the function that `#[tile_kernel]` generates.
    pub fn new(args: LaunchArgs<'a>) -> Self {
        Launch { args, kernel: PhantomData }
    }

    /// Chooses the schedule; it must be one of this kernel's.
    pub fn schedule<S: Schedule<Kernel = K>>(self, schedule: S) -> Scheduled<'a> {
        self.schedule_dyn(&schedule)
    }

    /// Chooses a schedule known only when the program runs; that it is one of this kernel's is checked by `run`.
    pub fn schedule_dyn(self, schedule: &dyn AnySchedule) -> Scheduled<'a> {
        let source = Source::named(&self.args, schedule);
        Scheduled::from(self.args, source)
    }

    /// Chooses a schedule from what the kernel does, the sizes of the arguments and the GPU: of the candidates that templates make, the
    /// quickest by a closed-form model that is proved legal. Nothing runs for it. [`LaunchReport::schedule_text`] has it as a text.
    ///
    /// # Errors
    /// [`Error::NoSchedule`]; those of the arguments.
    pub fn auto(self) -> Result<Scheduled<'a>, Error> {
        let choice = Site::of(&self.args, K::ENCODED)?.choice()?;
        Ok(Scheduled::chosen(self.args, choice))
    }

    /// The choice of [`Launch::auto`] with its reasons: what the kernel does, the templates that suit it, what the model expects of the
    /// candidates, and why the engine refuses some.
    ///
    /// # Errors
    /// Those of [`Launch::auto`].
    pub fn explain(self) -> Result<Chosen, Error> {
        Site::of(&self.args, K::ENCODED)?.explained()
    }

    /// Runs under a schedule that is chosen as by [`Launch::auto`], and waits for the result.
    ///
    /// # Errors
    /// Those of [`Launch::auto`] and [`Scheduled::run`].
    pub fn run(self) -> Result<LaunchReport, Error> {
        self.auto()?.run()
    }

    /// Puts the launch on a stream under a schedule that is chosen as by [`Launch::auto`].
    ///
    /// # Errors
    /// Those of [`Launch::auto`] and [`Scheduled::enqueue`].
    pub fn enqueue(self, stream: &Stream) -> Result<Launched, Error> {
        self.auto()?.enqueue(stream)
    }

    /// Uses a schedule that was prepared, on the device for which it was.
    pub fn prepared(self, prepared: &'a Prepared<K>) -> Scheduled<'a> {
        Scheduled::from(self.args, Source::Prepared(&prepared.device, &prepared.kernels))
    }

    /// The arguments.
    pub(crate) fn into_args(self) -> LaunchArgs<'a> {
        self.args
    }

    /// Chooses a scheduled program at hand, such as one that a test made.
    pub fn program(self, program: &Program) -> Scheduled<'a> {
        Scheduled::new(self.args, program)
    }
}

/// A launch with its schedule.
#[must_use = "a launch does nothing until `.run()` or `.enqueue(..)`"]
pub struct Scheduled<'a> {
    /// Of a group, those of its first problem.
    args: LaunchArgs<'a>,
    /// Of a group, those of the others.
    others: Vec<LaunchArgs<'a>>,
    /// Whether it is a group, perhaps of one.
    grouped: bool,
    source: Source<'a>,
    device: Option<Device>,
    variant: Option<Variant>,
    /// What comes before it where its time is taken.
    timed: Option<Before>,
    /// How the schedule was chosen, where none was given.
    choice: Option<Arc<Picked>>,
}

/// Where the scheduled program comes from.
enum Source<'a> {
    /// The binary.
    Embedded { bytes: &'static [u8], schedule: &'static str },
    /// The caller.
    Given(Arc<Plan>),
    /// A choice of this process, which keeps it for ever.
    Chosen(Arc<Plan>),
    /// An earlier call of `prepare`.
    Prepared(&'a Device, &'a Arc<Kernels>),
    /// Nowhere, as a group of no launches has nothing to run; where it would, if that is known.
    NoProblem { schedule: Arc<str>, dtype: Option<DType>, device: Option<&'a Device> },
    /// Nowhere, for this reason, which is told once.
    Missing(Option<Error>),
}

impl Source<'_> {
    /// A schedule that is known only when the program runs.
    fn named(args: &LaunchArgs<'_>, schedule: &dyn AnySchedule) -> Self {
        match schedule.program(args.dtype) {
            Some(bytes) => Source::Embedded { bytes, schedule: schedule.name() },
            None if schedule.kernel() == args.kernel => {
                Source::Missing(Some(Error::not_admitted(schedule, args.dtype)))
            }
            None => {
                let why = Error::wrong_kernel(schedule.name(), schedule.kernel(), args.kernel);
                Source::Missing(Some(why))
            }
        }
    }
}

/// What is known of the kernel before the device is.
enum Known<'a> {
    Plan(Arc<Plan>),
    Kernels(Cow<'a, Arc<Kernels>>),
}

impl Known<'_> {
    fn plan(&self) -> &Arc<Plan> {
        match self {
            Known::Plan(plan) => plan,
            Known::Kernels(kernels) => &kernels.plan,
        }
    }
}

/// What a launch that was queued is.
#[derive(Clone, Debug)]
pub struct Launched {
    /// Variant that runs; `None` when there is nothing to compute and nothing runs.
    pub variant: Option<Variant>,
    /// CTAs; 0 when nothing runs.
    pub ctas: u32,
    /// What the simulator tells, which has run the launch; `None` on a GPU.
    pub simulated: Option<Box<Simulated>>,
}

impl<'a> Scheduled<'a> {
    /// A launch of what a tuner measures.
    pub(crate) fn entered(args: LaunchArgs<'a>, entrant: &Entrant<'_>) -> Self {
        let source = match entrant {
            Entrant::Given(schedule, _) => Source::named(&args, *schedule),
            Entrant::Chosen(plan) => Source::Chosen(plan.clone()),
        };
        Self::from(args, source)
    }

    /// A launch of what was chosen for it.
    pub(crate) fn chosen(args: LaunchArgs<'a>, choice: auto::Choice) -> Self {
        Scheduled { choice: Some(choice.picked), ..Self::from(args, Source::Chosen(choice.plan)) }
    }

    /// A launch of a program at hand with arguments put together by hand.
    pub fn new(args: LaunchArgs<'a>, program: &Program) -> Self {
        let plan = Plan::new(program.clone(), &program.to_bytes());
        Self::from(args, Source::Given(Arc::new(plan)))
    }

    fn from(args: LaunchArgs<'a>, source: Source<'a>) -> Self {
        let (others, grouped) = (Vec::new(), false);
        Scheduled { args, others, grouped, source, device: None, variant: None, timed: None, choice: None }
    }

    /// A group of no launches.
    pub(crate) fn of_no_problem(kernel: &'static str, schedule: &dyn AnySchedule) -> Self {
        let source = match schedule.kernel() == kernel {
            true => Source::NoProblem { schedule: schedule.name().into(), dtype: None, device: None },
            false => {
                let why = Error::wrong_kernel(schedule.name(), schedule.kernel(), kernel);
                Source::Missing(Some(why))
            }
        };
        Self::from(LaunchArgs::new(kernel, None), source)
    }

    /// A group of no launches, of a schedule that was prepared.
    pub(crate) fn of_no_problem_prepared<K>(kernel: &'static str, prepared: &'a Prepared<K>) -> Self {
        let plan = &prepared.kernels.plan;
        let (schedule, dtype) = (plan.schedule.clone(), plan.dtype());
        let source = Source::NoProblem { schedule, dtype, device: Some(&prepared.device) };
        Self::from(LaunchArgs::new(kernel, None), source)
    }

    /// The report of a group of no launches, and where it was to run, if that is known; `None` for other launches.
    ///
    /// # Errors
    /// [`Error::PreparedOn`].
    fn of_nothing(&self) -> Result<Option<(LaunchReport, Option<&Device>)>, Error> {
        let Source::NoProblem { schedule, dtype, device } = &self.source else { return Ok(None) };
        let (asked, home) = (self.device.as_ref(), *device);
        if let (Some(asked), Some(home)) = (asked, home)
            && !home.same_as(asked)
        {
            let (prepared, expected) = Device::apart(home, asked);
            return Err(Error::PreparedOn { schedule: schedule.to_string(), prepared, expected });
        }
        let device = asked.or(home);
        let name = device.map_or_else(|| "".into(), |device| device.inner.name.clone());
        Ok(Some((LaunchReport::of(self.args.kernel.into(), schedule.clone(), *dtype, name), device)))
    }

    /// The same kernel on further arguments in the same launch: a problem each. [`grouped`](crate::grouped) checks more of it
    /// while the program is compiled.
    pub fn with_others(self, others: Vec<LaunchArgs<'a>>) -> Self {
        Scheduled { others, grouped: true, ..self }
    }

    /// Runs on this device; by default, on the device of the arguments.
    pub fn device(mut self, device: &Device) -> Self {
        self.device = Some(device.clone());
        self
    }

    /// Runs this variant; by default, the first of exact, aligned, general whose assumptions hold.
    pub fn variant(mut self, variant: Variant) -> Self {
        self.variant = Some(variant);
        self
    }

    /// Takes the time of [`Scheduled::run`] on a GPU, between two events around the launch.
    pub fn timed(mut self) -> Self {
        self.timed = Some(Before::Nothing);
        self
    }

    /// Overwrites a GPU's L2 cache first, so that [`Scheduled::run`] finds none of its data there, and takes the time
    /// of the launch alone. Nothing changes on the simulator.
    pub fn cold(self) -> Self {
        self.cold_after(Duration::ZERO)
    }

    /// As [`Scheduled::cold`], after the GPU has done nothing for so long, so that its clock and power are those that a launch
    /// finds which comes alone.
    pub fn cold_after(mut self, rest: Duration) -> Self {
        self.timed = Some(Before::Evict { rest });
        self
    }

    /// Runs the launch twice and takes the time of the second alone, which finds in a GPU's L2 cache what the first left
    /// there: an argument that is updated in place is updated twice. Nothing changes on the simulator.
    pub fn warm(mut self) -> Self {
        self.timed = Some(Before::Same);
        self
    }

    /// Checks the arguments, compiles if need be, runs, and waits for the result.
    ///
    /// # Errors
    /// [`Error`]; but for [`Error::Asynchronous`], nothing has been written then.
    pub fn run(mut self) -> Result<LaunchReport, Error> {
        if let Some((report, _)) = self.of_nothing()? {
            return Ok(report);
        }
        let (timed, chosen) = (self.timed, self.choice.take());
        let checked = self.check()?;
        let mut report = LaunchReport::new(checked.plan(), checked.device);
        report.choice = chosen;
        if let [problem] = &checked.problems[..] {
            report.dims = checked.plan().dims(&problem.values).map(|(n, v)| (n.to_string(), v)).collect();
        }
        let Some(choice) = checked.choose(0)? else { return Ok(report) };
        let calls = checked.calls(&choice);
        let job = Job { calls: &calls, ctas: choice.ctas };
        report.variant = Some(choice.variant);
        report.assumptions = checked.plan().texts(&choice.rules, choice.variant);
        report.source = Some(choice.origin.source);
        report.warnings = choice.origin.warnings.clone();
        let compiled = &choice.ready.compiled;
        report.ptx = compiled.text.clone();
        report.problems = calls.len();
        report.threads = compiled.ptx.threads;
        report.shared_bytes = compiled.ptx.static_shared + compiled.ptx.dynamic_shared;
        report.ctas = choice.ctas;
        if choice.ctas > 0 {
            report.scratch_bytes = job.needs().wanted.iter().map(|w| w.bytes).sum();
            let queue = &checked.device.inner.queue;
            let simulated = if let Some(before) = timed {
                // What other streams still do with the arguments is not the launch's time.
                job.memories().try_for_each(|(memory, writes)| memory.wait(writes))?;
                let (simulated, ms) = timing::timed(checked.device, queue, before, || {
                    job.queue(checked.device.kind(), queue, true)
                })?;
                report.time_ms = ms;
                simulated
            } else {
                job.queue(checked.device.kind(), queue, false)?
            };
            queue.sync()?;
            report.resources = choice.ready.loaded.map(|l| l.resources);
            if let Some(Simulated { counters, findings, outside, trace }) = simulated.map(|ran| *ran) {
                (report.counters, report.findings, report.trace) = (Some(counters), findings, trace);
                report.outside = outside;
            }
        }
        Ok(report)
    }

    /// Checks the arguments, compiles if need be, and puts the launch on a stream; on a GPU it has not ended then.
    ///
    /// The buffers may be used, passed to other launches and dropped at once: what would get in the way of the
    /// kernel waits for it.
    ///
    /// # Errors
    /// [`Error`]; nothing has been queued then.
    pub fn enqueue(self, stream: &Stream) -> Result<Launched, Error> {
        self.submit(stream, |job| job.queue(stream.device().kind(), &stream.queue, false))
    }

    /// Checks the arguments, compiles if need be, and hands over a launch that has something to do.
    ///
    /// # Errors
    /// [`Error`]; those of `to`.
    pub(crate) fn submit(
        mut self,
        stream: &Stream,
        to: impl FnOnce(&Job<'_, '_>) -> Result<Option<Box<Simulated>>, Error>,
    ) -> Result<Launched, Error> {
        let nothing = Launched { variant: None, ctas: 0, simulated: None };
        let on = |device: &Device| match device.same_as(stream.device()) {
            true => Ok(()),
            false => {
                let (found, expected) = Device::apart(stream.device(), device);
                Err(Error::StreamMismatch { found, expected })
            }
        };
        if let Some((_, device)) = self.of_nothing()? {
            return device.map_or(Ok(()), on).map(|()| nothing);
        }
        let checked = self.check()?;
        on(checked.device)?;
        let Some(choice) = checked.choose(stream.left)? else { return Ok(nothing) };
        let calls = checked.calls(&choice);
        let job = Job { calls: &calls, ctas: choice.ctas };
        let simulated = if choice.ctas > 0 { to(&job)? } else { None };
        Ok(Launched { variant: Some(choice.variant), ctas: choice.ctas, simulated })
    }

    /// All that [`Scheduled::enqueue`] does but the driver's part, for measuring it: returns the parameters' sum.
    ///
    /// # Errors
    /// As [`Scheduled::enqueue`].
    #[doc(hidden)]
    pub fn host_part(mut self) -> Result<u64, Error> {
        if self.of_nothing()?.is_some() {
            return Ok(0);
        }
        let checked = self.check()?;
        let Some(choice) = checked.choose(0)? else { return Ok(0) };
        let scratch: SmallVec<[u64; 4]> =
            choice.ready.compiled.wanted(choice.ctas).map(|w| w.bytes).collect();
        let sum = |sum, call: &Call<'_, '_>| call.words(call.bases, &scratch).fold(sum, u64::wrapping_add);
        Ok(checked.calls(&choice).iter().fold(choice.ctas.into(), sum))
    }

    /// What the launch would run, without compiling it; `None` when there is nothing to compute.
    ///
    /// # Errors
    /// As [`Scheduled::enqueue`], of the arguments.
    pub(crate) fn outline(mut self) -> Result<Option<Outline>, Error> {
        if self.of_nothing()?.is_some() {
            return Ok(None);
        }
        let checked = self.check()?;
        let plan = checked.plan().clone();
        let Some(problem) = checked.problems.first().filter(|p| !p.empty) else {
            return Ok(None);
        };
        let variant = plan.choose(&plan.rules(&checked.gaps), checked.variant, checked.known())?;
        let dims = plan.dims(&problem.values).map(|(name, value)| (name.to_string(), value)).collect();
        let spans = problem.args.tensors.iter().map(|(_, t)| {
            let raw = t.raw();
            raw.geometry.span() as u64 * u64::from(raw.dtype.bytes())
        });
        let bytes = spans.sum();
        let Checked { kernels, device, gaps, .. } = checked;
        let (device, kernels) = (device.clone(), kernels.into_owned());
        Ok(Some(Outline { device, kernels, variant, gaps, dims, bytes }))
    }

    /// Everything that does not need the compiled kernel.
    fn check(&mut self) -> Result<Checked<'_, 'a>, Error> {
        let Scheduled { args, others, grouped, source, device, variant, .. } = self;
        let (args, others, asked, grouped, variant) = (&*args, &*others, device.as_ref(), *grouped, *variant);
        let (known, home) = match source {
            Source::Embedded { bytes, schedule } => (Known::Plan(Plan::embedded(bytes, schedule)?), None),
            Source::Chosen(plan) => (Known::Plan(plan.clone()), None),
            Source::Given(plan) => (Known::Kernels(Cow::Owned(Arc::new(Kernels::new(plan.clone())))), None),
            Source::Prepared(home, kernels) => (Known::Kernels(Cow::Borrowed(*kernels)), Some(*home)),
            Source::NoProblem { .. } => unreachable!("a group of no launches has no arguments to check"),
            Source::Missing(why) => return Err(why.take().expect("a launch is checked once")),
        };
        let plan = known.plan();
        if *plan.kernel != *args.kernel {
            return Err(Error::wrong_kernel(&plan.schedule, &plan.kernel, args.kernel));
        }
        if home.is_some() && plan.dtype() != args.dtype {
            let (prepared, found) = (plan.dtype(), args.dtype);
            return Err(Error::PreparedFor { schedule: plan.schedule.to_string(), prepared, found });
        }
        args.check(plan)?;
        for other in others {
            if other.dtype != args.dtype {
                let (first, other) = (args.dtype, other.dtype);
                return Err(Error::GroupOf { kernel: plan.kernel.to_string(), first, other });
            }
            other.check(plan)?;
        }
        if let (Some(home), Some(asked)) = (home, asked)
            && !home.same_as(asked)
        {
            let (prepared, expected) = Device::apart(home, asked);
            return Err(Error::PreparedOn { schedule: plan.schedule.to_string(), prepared, expected });
        }
        let device = args.device(asked.or(home))?;
        for other in others {
            other.device(Some(device))?;
        }
        check_target(device, &plan.program)?;
        let kernels = match known {
            Known::Kernels(kernels) => kernels,
            Known::Plan(plan) => Cow::Owned(device.kernels(&plan)),
        };
        let mut gaps = Gaps::new();
        let mut problems: SmallVec<[Problem<'_, 'a>; 1]> = SmallVec::new();
        for args in std::iter::once(args).chain(others) {
            let at = problems.len();
            problems.push(Problem { args, values: Values::new(), bases: SmallVec::new(), empty: false });
            // In its place: lists of some hundred bytes that are handed on are copied each time.
            let problem = &mut problems[at];
            kernels.plan.values(|t| &args.tensors[t].1.raw().geometry, &mut problem.values, &mut gaps)?;
            problem.bases.extend(args.tensors.iter().map(|(_, t)| t.raw().address()));
            problem.empty = kernels.plan.is_empty(&problem.values);
        }
        if grouped {
            gaps.sort_unstable();
            gaps.dedup();
            // What lies without gaps in one problem has strides as parameters where it has gaps in another.
            problems.iter().try_for_each(|p| kernels.plan.check_strides(&gaps, &p.values))?;
        }
        Ok(Checked { problems, grouped, kernels, device, variant, gaps })
    }
}

/// A launch before it is compiled.
pub(crate) struct Outline {
    pub(crate) device: Device,
    pub(crate) kernels: Arc<Kernels>,
    pub(crate) variant: Variant,
    pub(crate) gaps: Gaps,
    /// Values of the named dims.
    pub(crate) dims: Vec<(String, i64)>,
    /// Bytes from the first to the last element of each tensor.
    pub(crate) bytes: u64,
}

/// Arguments that fit the kernel and the schedule.
struct Problem<'c, 'a> {
    args: &'c LaunchArgs<'a>,
    values: Values,
    /// Address of each tensor, which on the simulator is relative to its memory.
    bases: SmallVec<[u64; 8]>,
    /// Whether there is nothing to compute.
    empty: bool,
}

/// A launch whose arguments fit the kernel and the schedule.
struct Checked<'c, 'a> {
    /// One, or those of a group.
    problems: SmallVec<[Problem<'c, 'a>; 1]>,
    grouped: bool,
    /// Borrowed from what was prepared.
    kernels: Cow<'c, Arc<Kernels>>,
    device: &'c Device,
    /// Asked for.
    variant: Option<Variant>,
    /// Tensors with strides of their own, in some problem.
    gaps: Gaps,
}

/// The variant that a launch runs.
struct Choice<'c> {
    variant: Variant,
    rules: RulesRef<'c>,
    ready: Cow<'c, Arc<Ready>>,
    origin: Origin,
    /// Of each problem.
    tiles: SmallVec<[u32; 1]>,
    ctas: u32,
}

impl<'a> Checked<'_, 'a> {
    fn plan(&self) -> &Arc<Plan> {
        &self.kernels.plan
    }

    /// The first variant whose assumptions hold, compiled and loaded; `None` when there is nothing to compute.
    /// So many multiprocessors are left to others.
    fn choose(&self, left: u32) -> Result<Option<Choice<'_>>, Error> {
        let plan = self.plan();
        if self.problems.iter().all(|p| p.empty) {
            return Ok(None);
        }
        let rules = plan.rules(&self.gaps);
        let variant = plan.choose(&rules, self.variant, self.known())?;
        let (ready, origin) = self.kernels.ready(self.device, variant, (&self.gaps, self.grouped))?;
        let mut tiles: SmallVec<[u32; 1]> = SmallVec::new();
        for problem in &self.problems {
            // An empty axis may be one that each CTA loops over: the variant was not chosen for such a problem.
            tiles.push(if problem.empty { 0 } else { ready.compiled.tiles(&problem.values)? });
        }
        let all = ready.compiled.counted(tiles.iter().map(|n| i128::from(*n)).sum())?;
        let clusters = ready.loaded.and_then(|loaded| loaded.resources.clusters);
        let ctas =
            ready.compiled.ctas(all, self.device.multiprocessors().saturating_sub(left).max(1), clusters);
        Ok(Some(Choice { variant, rules, ready, origin, tiles, ctas }))
    }

    /// Values and addresses of each problem with something to compute.
    fn known(&self) -> impl Iterator<Item = (&Values, &[u64])> + Clone {
        let some = self.problems.iter().filter(|p| !p.empty);
        some.map(|p| (&p.values, &p.bases[..]))
    }

    /// The calls of the problems with something to compute.
    fn calls<'c>(&'c self, choice: &'c Choice<'_>) -> SmallVec<[Call<'c, 'a>; 1]> {
        let some = self.problems.iter().zip(&choice.tiles).filter(|(_, tiles)| **tiles > 0);
        some.map(|(problem, tiles)| Call {
            plan: self.plan(),
            variant: choice.variant,
            compiled: &choice.ready.compiled,
            loaded: choice.ready.loaded,
            ctas: if self.grouped { *tiles } else { choice.ctas },
            values: &problem.values,
            bases: &problem.bases,
            tensors: &problem.args.tensors,
            scalars: &problem.args.scalars,
        })
        .collect()
    }
}

/// PTX runs on its own compute capability and newer ones, architecture-specific PTX on its own alone.
pub(crate) fn check_target(device: &Device, program: &Program) -> Result<(), Error> {
    let target = program.schedule.target;
    match device.sm() {
        Some(sm) if sm < target.sm || (target.specific && sm != target.sm) => Err(Error::DeviceTooOld {
            schedule: program.schedule.name.clone(),
            target,
            device: device.name(),
            sm,
        }),
        _ => Ok(()),
    }
}

//! Many cases on many threads.

use crate::{
    case::Case,
    check::{Class, Done, Failure, caught, check},
    data::mix,
    impossible,
    make::{Id, Made, empty, make},
    outcome::{Found, Outcome, kind_of},
    pairs::Pairs,
    plan::{Plan, Theme},
    program::{multiplies, random_kernel},
    shrink::{shrink, signature},
    wish::Wish,
};
use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tile_dsl::engine::testing::{kinds, multiplying};

/// Statements of the kernel IR beyond which a variant is left out, to spare codegen.
pub const MOST_STATEMENTS: usize = 2_500;

/// How much, and where to begin.
#[derive(Clone, Debug)]
pub struct Options {
    /// Equal seeds give equal cases.
    pub seed: u64,
    /// Kernels that multiply matrices alone.
    pub products: bool,
    /// Number of kernels.
    pub programs: u64,
    /// Stops after so many seconds.
    pub seconds: Option<u64>,
    /// Threads.
    pub jobs: usize,
    /// Schedules for each kernel.
    pub schedules: u64,
    /// Sizes for each schedule.
    pub sizes: usize,
    /// Failures of each class that are made small.
    pub shrunk: usize,
    /// Seconds spent on making one failure small.
    pub shrink_seconds: u64,
    /// What is wished for alone, if anything.
    pub wishes: Vec<Wish>,
    /// Says what runs before it runs.
    pub trace: bool,
    /// Cases that [`cover`] runs before it wishes for what is rare: what granted such wishes before.
    pub known: Vec<Id>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            seed: 1,
            products: false,
            programs: 100,
            seconds: None,
            jobs: 1,
            schedules: 4,
            sizes: 4,
            shrunk: 4,
            shrink_seconds: 20,
            wishes: vec![],
            trace: false,
            known: vec![],
        }
    }
}

/// How often [`cover`] tries again.
const ROUNDS: u64 = 256;
/// Programs beyond those that wish for each thing once: wishes that are rarely granted are tried a few times in a round.
const SPARE: u64 = 4;

/// As [`run`]; then what was launched fewer than so many `times` is wished for alone, once each, and what is still rare once more: so
/// few programs cover what many would by chance. Cases that are known to cover what is rare come before: some wishes are granted so rarely
/// that looking for them takes longer than all the rest.
pub fn cover(options: &Options, times: u64, progress: &(dyn Fn(&Outcome) + Sync)) -> Outcome {
    let mut outcome = run(options, progress);
    if !options.known.is_empty() {
        let seconds = options.seconds.map(|seconds| seconds.saturating_sub(outcome.seconds as u64));
        outcome.add(listed(&Options { seconds, ..options.clone() }, progress));
    }
    for round in 1..=ROUNDS {
        let mut wishes: Vec<Wish> =
            outcome.pairs.rarer_than(times).into_iter().map(|(wish, _)| wish).collect();
        wishes.retain(|wish| options.wishes.is_empty() || options.wishes.contains(wish));
        wishes.retain(|wish| !options.products || multiplying(&wish.kinds()));
        let seconds = options.seconds.map(|seconds| seconds.saturating_sub(outcome.seconds as u64));
        if wishes.is_empty() || seconds == Some(0) {
            break;
        }
        let seed = mix(options.seed, u64::MAX - round);
        let programs = wishes.len() as u64 / options.schedules.max(1) + SPARE;
        let options = Options { wishes, seconds, seed, programs, ..options.clone() };
        outcome.add(run(&options, progress));
    }
    outcome
}

/// Runs the known cases.
fn listed(options: &Options, progress: &(dyn Fn(&Outcome) + Sync)) -> Outcome {
    let job = Job::new(options);
    let next = AtomicU64::new(0);
    job.on_threads(&|| {
        while let (false, Some(id)) = (job.late(), options.known.get(next.fetch_add(1, Relaxed) as usize)) {
            let failed = job.case(*id, &mut Pairs::default());
            failed.into_iter().for_each(|failed| note(options, failed, job.start, &job.outcome));
            job.passes(progress);
        }
    });
    job.ends()
}

/// Runs cases on `jobs` threads; `progress` is called now and then.
pub fn run(options: &Options, progress: &(dyn Fn(&Outcome) + Sync)) -> Outcome {
    let job = Job::new(options);
    let next = AtomicU64::new(0);
    let mut possible = if options.wishes.is_empty() { impossible::wishes() } else { options.wishes.clone() };
    possible.retain(|wish| !options.products || multiplying(&wish.kinds()));
    let plan = Plan::new(options.seed, possible, options.schedules);
    job.on_threads(&|| {
        while !job.late() {
            let p = next.fetch_add(1, Relaxed);
            if p >= options.programs {
                return;
            }
            let mut program = mix(options.seed, p);
            while options.products && !multiplies(program) {
                program = mix(program, p);
            }
            let Some(wishes) = plan.wishes(p, &|| job.late()) else { return };
            let theme = if wishes.is_empty() && !options.products { Theme::of(p) } else { Theme::Any };
            while !theme.suits(program) {
                program = mix(program, p);
            }
            let (mut run, mut failed) = (Pairs::default(), Vec::new());
            // The last one is that of a launch without a schedule.
            for schedule in (0..options.schedules).chain([Id::CHOSEN]) {
                if job.late() {
                    break;
                }
                let id = Id { program, schedule, wish: wishes.get(schedule as usize).copied() };
                failed.extend(job.case(id, &mut run));
            }
            plan.done(p, &run);
            failed.into_iter().for_each(|failed| note(options, failed, job.start, &job.outcome));
            job.passes(progress);
        }
    });
    job.ends()
}

/// What the threads of a run share.
struct Job<'o> {
    options: &'o Options,
    start: Instant,
    outcome: Mutex<Outcome>,
    /// Cases that run, since when, and whether it was said that they do not end.
    running: Mutex<BTreeMap<Id, (Instant, bool)>>,
}

impl<'o> Job<'o> {
    fn new(options: &'o Options) -> Self {
        Job { options, start: Instant::now(), outcome: Mutex::default(), running: Mutex::default() }
    }

    fn late(&self) -> bool {
        self.options.seconds.is_some_and(|s| self.start.elapsed() >= Duration::from_secs(s))
    }

    fn case(&self, id: Id, run: &mut Pairs) -> Vec<Failed> {
        let running = || self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running().insert(id, (Instant::now(), false));
        let failed = one(self.options, id, &self.outcome, run);
        running().remove(&id);
        failed
    }

    /// A program is done.
    fn passes(&self, progress: &(dyn Fn(&Outcome) + Sync)) {
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        outcome.programs += 1;
        outcome.seconds = self.start.elapsed().as_secs_f64();
        progress(&outcome);
    }

    fn on_threads(&self, work: &(dyn Fn() + Sync)) {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.options.jobs.max(1))
                .map(|_| {
                    // Kernels nest deeply where everything is unrolled.
                    let thread = std::thread::Builder::new().stack_size(256 << 20);
                    thread.spawn_scoped(scope, work).expect("a thread")
                })
                .collect();
            // What never ends is worth knowing, too.
            while threads.iter().any(|thread| !thread.is_finished()) {
                std::thread::sleep(Duration::from_millis(50));
                let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
                for (id, (since, said)) in running.iter_mut() {
                    if !*said && since.elapsed() > Duration::from_secs(60 + self.options.shrink_seconds) {
                        eprintln!("case {id} has been running for {} s", since.elapsed().as_secs());
                        *said = true;
                    }
                }
            }
        });
    }

    fn ends(self) -> Outcome {
        let mut outcome = self.outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
        outcome.seconds = self.start.elapsed().as_secs_f64();
        outcome
    }
}

/// A case that failed.
struct Failed {
    id: Id,
    case: Case,
    failure: Failure,
}

/// Runs a case; what failed, and counts what was run.
fn one(options: &Options, id: Id, outcome: &Mutex<Outcome>, run: &mut Pairs) -> Vec<Failed> {
    if options.trace {
        eprintln!("{id}");
    }
    let begin = Instant::now();
    let made = caught(|| make(id, options.sizes));
    let (mut failed, mut done, mut proved) = (Vec::new(), Done::default(), None);
    let mut missed = None;
    match made {
        Ok(Made { case, internal, refused, unchosen }) => {
            if let Some((case, message)) = unchosen {
                let class = Class::Unchosen;
                let failure = Failure { class, message, launch: None, variant: None, seed: None };
                failed.push(Failed { id, case, failure });
            }
            for case in internal {
                if let (_, Some(failure)) = check(&case, MOST_STATEMENTS) {
                    failed.push(Failed { id, case, failure });
                }
            }
            missed = refused;
            if let Some(case) = case {
                let (d, failure) = check(&case, MOST_STATEMENTS);
                done = d;
                failed.extend(failure.map(|failure| Failed { id, case: case.clone(), failure }));
                proved = Some(case);
            }
        }
        Err(message) => {
            let kernel = random_kernel(id.program);
            let schedule = empty(&kernel, None);
            let failure = Failure { class: Class::Panic, message, launch: None, variant: None, seed: None };
            failed.push(Failed {
                id,
                case: Case { kernel, dtype: None, schedule, launches: vec![] },
                failure,
            });
        }
    }
    let took = begin.elapsed().as_secs_f64();
    let mut counted = Pairs::default();
    if let Some(case) = &proved {
        counted.count(case, &done);
        run.add(&counted);
    }
    let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
    outcome.schedules += u64::from(proved.is_some());
    outcome.unscheduled += u64::from(proved.is_none());
    for kind in proved.iter().flat_map(|case| kinds(&case.schedule)) {
        *outcome.directives.entry(kind).or_default() += 1;
    }
    let of = |pairs: &Pairs| -> Vec<u64> {
        options.wishes.iter().flat_map(|wish| pairs.by_variant(*wish)).collect()
    };
    let before = of(&outcome.pairs);
    outcome.pairs.add(&counted);
    if before.iter().zip(of(&outcome.pairs)).any(|(before, after)| *before == 0 && after > 0) {
        outcome.granted.push(id);
    }
    if let (Some(wish), Some(why)) = (id.wish, missed) {
        let (times, said) = outcome.missed.entry(wish).or_default();
        *times += 1;
        *said = why;
    }
    outcome.done.add(done);
    if outcome.slowest.is_none_or(|(seconds, _)| took > seconds) {
        outcome.slowest = Some((took, id));
    }
    failed
}

/// Counts a failure; makes it small if it is a new one.
fn note(options: &Options, failed: Failed, start: Instant, outcome: &Mutex<Outcome>) {
    let Failed { id, case, failure } = failed;
    let lock = || outcome.lock().unwrap_or_else(PoisonError::into_inner);
    let class = failure.class;
    let rough = (class, signature(&failure));
    let after = {
        let mut outcome = lock();
        *outcome.failures.entry(class).or_default() += 1;
        let after = (start.elapsed().as_secs_f64(), outcome.schedules + outcome.unscheduled);
        // Wrong values tell their causes only when they are small.
        let vague = matches!(class, Class::Wrong | Class::Finding | Class::Order | Class::Nest);
        let seen = outcome.found.iter().filter(|(key, _)| key.0 == class).count();
        let known = outcome.found.iter_mut().find(|(key, found)| match vague {
            true => seen >= options.shrunk && key.0 == class,
            false => {
                (class, signature(&found.failure)) == rough || seen >= 4 * options.shrunk && key.0 == class
            }
        });
        if let Some((_, found)) = known {
            found.count += 1;
            return;
        }
        after
    };
    // Said at once: whoever stops the run knows which cases to look at.
    eprintln!("case {id}: {failure}");
    let deadline = Instant::now() + Duration::from_secs(options.shrink_seconds);
    let (case, failure) = shrink(&case, &failure, MOST_STATEMENTS, deadline);
    let key = (class, kind_of(&case, &failure));
    let mut outcome = lock();
    let found = outcome.found.entry(key).or_insert(Found { failure, case, id, after, count: 0 });
    found.count += 1;
}

//! Many cases, and the table at the end.

use crate::{
    case::Case,
    check::{Class, Done, Failure, caught, check, dtypes, program},
    data::mix,
    program::{multiplies, random_kernel},
    shrink::{shrink, signature},
    sizes::sizes,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tile_dsl::{
    engine::testing::{Random, Wild, wild_schedule},
    schedule::{DirectiveKind, Via},
};

/// The most that a case makes a simulator do, in steps of a warp for each CTA.
const MOST_WORK: u64 = 1 << 12;
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
    /// Says what runs before it runs.
    pub trace: bool,
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
            trace: false,
        }
    }
}

/// Names a case: the seed of its kernel and the number of its schedule, `123.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// Seed of the kernel.
    pub program: u64,
    /// Number of the schedule.
    pub schedule: u64,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.program, self.schedule)
    }
}

impl std::str::FromStr for Id {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is no case: write the seed of a kernel and the number of a schedule, 123.0");
        let (program, schedule) = text.split_once('.').ok_or_else(wrong)?;
        Ok(Id {
            program: program.parse().map_err(|_| wrong())?,
            schedule: schedule.parse().map_err(|_| wrong())?,
        })
    }
}

/// The case of an id, and cases in which the engine caught itself in a mistake.
pub struct Made {
    /// Nothing if no schedule was found.
    pub case: Option<Case>,
    /// The engine's mistakes on the way.
    pub internal: Vec<Case>,
}

/// Makes the case of an id.
///
/// # Panics
/// Where the engine does.
pub fn make(id: Id, count: usize) -> Made {
    let kernel = random_kernel(id.program);
    let seed = mix(id.program, id.schedule);
    let mut random = Random::new(seed);
    let dtype = *random.pick(&dtypes(kernel.generic.is_some()));
    let Some(Wild { schedule, internal }) = wild_schedule(&kernel, dtype, seed, MOST_WORK) else {
        return Made { case: None, internal: vec![] };
    };
    let case = |schedule| Case { kernel: kernel.clone(), dtype, schedule, launches: vec![] };
    let internal = internal.into_iter().map(|(schedule, _)| case(schedule)).collect();
    let mut case = case(schedule);
    if let Ok(program) = program(&case) {
        case.launches = sizes(&program, &mut random, count);
    }
    Made { case: Some(case), internal }
}

/// A kind of failure.
#[derive(Clone, Debug)]
pub struct Found {
    /// The failure, made small.
    pub failure: Failure,
    /// The case, made small.
    pub case: Case,
    /// Where it comes from.
    pub id: Id,
    /// Seconds and cases until then.
    pub after: (f64, u64),
    /// How often the like of it occurred.
    pub count: u64,
}

/// What a run came to.
#[derive(Default)]
pub struct Outcome {
    /// Kernels.
    pub programs: u64,
    /// Schedules proved and checked.
    pub schedules: u64,
    /// How many of them have a directive, by its name.
    pub directives: BTreeMap<&'static str, u64>,
    /// Kernels for which no schedule was found in some attempt.
    pub unscheduled: u64,
    /// Runs and what was left out.
    pub done: Done,
    /// Failures by class.
    pub failures: BTreeMap<Class, u64>,
    /// Kinds of failures, each once.
    pub found: BTreeMap<(Class, String), Found>,
    /// Seconds, and the id of the case that took the longest with its seconds.
    pub seconds: f64,
    /// The case that took longest.
    pub slowest: Option<(f64, Id)>,
}

impl Outcome {
    /// Whether every case passed.
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }
}

/// Runs cases on `jobs` threads; `progress` is called now and then.
pub fn run(options: &Options, progress: &(dyn Fn(&Outcome) + Sync)) -> Outcome {
    let start = Instant::now();
    let next = AtomicU64::new(0);
    let outcome = Mutex::new(Outcome::default());
    let running: Mutex<BTreeMap<Id, (Instant, bool)>> = Mutex::default();
    let late = || options.seconds.is_some_and(|s| start.elapsed() >= Duration::from_secs(s));
    let work = || {
        while !late() {
            let p = next.fetch_add(1, Relaxed);
            if p >= options.programs {
                return;
            }
            let mut program = mix(options.seed, p);
            while options.products && !multiplies(program) {
                program = mix(program, p);
            }
            for schedule in 0..options.schedules {
                if late() {
                    break;
                }
                let id = Id { program, schedule };
                let running = || running.lock().unwrap_or_else(PoisonError::into_inner);
                running().insert(id, (Instant::now(), false));
                one(options, id, start, &outcome);
                running().remove(&id);
            }
            let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
            outcome.programs += 1;
            outcome.seconds = start.elapsed().as_secs_f64();
            progress(&outcome);
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..options.jobs.max(1))
            .map(|_| {
                // Kernels nest deeply where everything is unrolled.
                let thread = std::thread::Builder::new().stack_size(256 << 20);
                thread.spawn_scoped(scope, work).expect("a thread")
            })
            .collect();
        // What never ends is worth knowing, too.
        while threads.iter().any(|thread| !thread.is_finished()) {
            std::thread::sleep(Duration::from_millis(50));
            for (id, (since, said)) in running.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
                if !*said && since.elapsed() > Duration::from_secs(60 + options.shrink_seconds) {
                    eprintln!("case {id} has been running for {} s", since.elapsed().as_secs());
                    *said = true;
                }
            }
        }
    });
    let mut outcome = outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
    outcome.seconds = start.elapsed().as_secs_f64();
    outcome
}

fn one(options: &Options, id: Id, start: Instant, outcome: &Mutex<Outcome>) {
    if options.trace {
        eprintln!("{id}");
    }
    let begin = Instant::now();
    let made = caught(|| make(id, options.sizes));
    let (mut failed, mut done, mut proved) = (Vec::new(), Done::default(), false);
    let mut directives = BTreeSet::new();
    match made {
        Ok(made) => {
            for case in made.internal {
                if let (_, Some(failure)) = check(&case, MOST_STATEMENTS) {
                    failed.push((case, failure));
                }
            }
            if let Some(case) = made.case {
                proved = true;
                directives.extend(case.schedule.directives.iter().map(|d| label(&d.kind)));
                let (d, failure) = check(&case, MOST_STATEMENTS);
                done = d;
                failed.extend(failure.map(|failure| (case, failure)));
            }
        }
        Err(message) => {
            let kernel = random_kernel(id.program);
            let schedule = tile_dsl::schedule::Schedule {
                name: "case".into(),
                kernel: kernel.name.clone(),
                dtypes: vec![],
                target: tile_dsl::schedule::Target { sm: 80, specific: false },
                directives: vec![],
            };
            let failure = Failure { class: Class::Panic, message, launch: None, variant: None, seed: None };
            failed.push((Case { kernel, dtype: None, schedule, launches: vec![] }, failure));
        }
    }
    let took = begin.elapsed().as_secs_f64();
    let lock = || outcome.lock().unwrap_or_else(PoisonError::into_inner);
    let cases = {
        let mut outcome = lock();
        outcome.schedules += u64::from(proved);
        outcome.unscheduled += u64::from(!proved);
        directives.into_iter().for_each(|name| *outcome.directives.entry(name).or_default() += 1);
        outcome.done.add(done);
        if outcome.slowest.is_none_or(|(seconds, _)| took > seconds) {
            outcome.slowest = Some((took, id));
        }
        outcome.schedules + outcome.unscheduled
    };
    for (case, failure) in failed {
        let after = (start.elapsed().as_secs_f64(), cases);
        let class = failure.class;
        let rough = (class, signature(&failure));
        {
            let mut outcome = lock();
            *outcome.failures.entry(class).or_default() += 1;
            // Wrong values tell their causes only when they are small.
            let vague = matches!(class, Class::Wrong | Class::Finding | Class::Order | Class::Nest);
            let seen = outcome.found.iter().filter(|(key, _)| key.0 == class).count();
            let known = outcome.found.iter_mut().find(|(key, found)| match vague {
                true => seen >= options.shrunk && key.0 == class,
                false => {
                    (class, signature(&found.failure)) == rough
                        || seen >= 4 * options.shrunk && key.0 == class
                }
            });
            if let Some((_, found)) = known {
                found.count += 1;
                continue;
            }
        }
        let deadline = Instant::now() + Duration::from_secs(options.shrink_seconds);
        let (case, failure) = shrink(&case, &failure, MOST_STATEMENTS, deadline);
        let key = (class, kind_of(&case, &failure));
        let mut outcome = lock();
        let found = outcome.found.entry(key).or_insert(Found { failure, case, id, after, count: 0 });
        found.count += 1;
    }
}

/// What a directive is counted as.
fn label(kind: &DirectiveKind) -> &'static str {
    match kind {
        DirectiveKind::Stage { via: Via::Tma, at: Some(_), .. } => "stage by tensor maps",
        DirectiveKind::Stage { via: Via::Tma, at: None, .. } => "stage of outputs",
        kind => kind.name(),
    }
}

/// What tells failures of one class apart once they are small: the directives that it takes, and the message where
/// that says why.
fn kind_of(case: &Case, failure: &Failure) -> String {
    let mut names: Vec<&str> = case.schedule.directives.iter().map(|d| d.kind.name()).collect();
    names.sort_unstable();
    names.dedup();
    match failure.class {
        Class::Wrong | Class::Order => names.join(" "),
        Class::Finding | Class::Nest => {
            format!("{} {}", failure.message.split(':').next().unwrap_or_default(), names.join(" "))
        }
        _ => signature(failure),
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let done = &self.done;
        let [exact, aligned, general] = done.variants;
        writeln!(f, "{:>10}  programs", self.programs)?;
        writeln!(f, "{:>10}  schedules ({} attempts found none)", self.schedules, self.unscheduled)?;
        let directives: Vec<String> = self.directives.iter().map(|(name, n)| format!("{name} {n}")).collect();
        writeln!(f, "            with {}", directives.join(", "))?;
        writeln!(f, "{:>10}  launches: exact {exact}, aligned {aligned}, general {general}", done.launches)?;
        writeln!(f, "{:>10}  of them of several problems", done.groups)?;
        writeln!(f, "{:>10}  of them compared bit for bit", done.exact)?;
        writeln!(
            f,
            "{:>10}  sizes left out: rounding may change results beyond any bound",
            done.incomparable
        )?;
        writeln!(f, "{:>10}  variants left out: more than {MOST_STATEMENTS} statements", done.long)?;
        for class in Class::ALL {
            writeln!(f, "{:>10}  {class}", self.failures.get(&class).copied().unwrap_or_default())?;
        }
        write!(f, "{:>10.1}  seconds", self.seconds)?;
        if let Some((seconds, id)) = self.slowest {
            write!(f, "; the slowest case, {id}, took {seconds:.1}")?;
        }
        writeln!(f)
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, cases) = self.after;
        writeln!(f, "// {}", self.failure.to_string().replace('\n', "\n// "))?;
        writeln!(f, "// case {}, after {seconds:.0} s and {cases} cases; {} like it", self.id, self.count)?;
        write!(f, "{}", self.case)
    }
}

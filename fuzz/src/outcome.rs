//! What a run came to, and its table.

use crate::{
    case::Case,
    check::{Class, Done, Failure},
    impossible,
    make::Id,
    pairs::Pairs,
    run::MOST_STATEMENTS,
    shrink::signature,
    wish::Wish,
};
use std::{collections::BTreeMap, fmt};
use tile_dsl::engine::testing::Kind;

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
    /// How many of them have a kind of directive.
    pub directives: BTreeMap<Kind, u64>,
    /// How many were launched with pairs of them.
    pub pairs: Pairs,
    /// What was wished for without success, how often, and what the engine said of it last.
    pub missed: BTreeMap<Wish, (u64, String)>,
    /// Cases that were the first to run what [`Options::wishes`](crate::run::Options::wishes) has, in some variant.
    pub granted: Vec<Id>,
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

    /// Adds what another run came to, that began when this one had ended.
    pub fn add(&mut self, other: Outcome) {
        let (seconds, cases) = (self.seconds, self.schedules + self.unscheduled);
        self.programs += other.programs;
        self.schedules += other.schedules;
        self.unscheduled += other.unscheduled;
        other.directives.into_iter().for_each(|(kind, n)| *self.directives.entry(kind).or_default() += n);
        self.pairs.add(&other.pairs);
        self.granted.extend(other.granted);
        for (wish, (times, why)) in other.missed {
            let missed = self.missed.entry(wish).or_default();
            *missed = (missed.0 + times, why);
        }
        self.done.add(other.done);
        other.failures.into_iter().for_each(|(class, n)| *self.failures.entry(class).or_default() += n);
        for (key, mut found) in other.found {
            found.after = (found.after.0 + seconds, found.after.1 + cases);
            let count = found.count;
            self.found.entry(key).and_modify(|found| found.count += count).or_insert(found);
        }
        self.seconds += other.seconds;
        let slower = |a: (f64, Id), b: (f64, Id)| if b.0 > a.0 { b } else { a };
        self.slowest = [self.slowest, other.slowest].into_iter().flatten().reduce(slower);
    }

    /// What was run fewer times than that, rarest first, a line each, with what the engine said if it was not run at all.
    pub fn rare(&self, times: u64) -> Vec<String> {
        let line = |(wish, n): (Wish, u64)| match self.missed.get(&wish) {
            Some((tries, why)) if n == 0 => format!("{wish}: no schedule in {tries} attempts; {why}"),
            _ if n == 0 => format!("{wish}: not drawn"),
            _ => format!("{wish}: {n}"),
        };
        self.pairs.rarer_than(times).into_iter().map(line).collect()
    }
}

/// What tells failures of one class apart once they are small: the directives that it takes, and the message where
/// that says why.
pub(crate) fn kind_of(case: &Case, failure: &Failure) -> String {
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
        let possible = impossible::possible().iter().filter(|w| matches!(w, Wish::Pair(..))).count();
        let rare = |times| {
            let rare = self.pairs.rarer_than(times).into_iter();
            rare.partition::<Vec<_>, _>(|(wish, _)| matches!(wish, Wish::Pair(..)))
        };
        let ((none, none_typed), (few, few_typed)) = (rare(1), rare(50));
        writeln!(
            f,
            "{possible:>10}  pairs of directives: {} not launched, {} less than 50 times",
            none.len(),
            few.len()
        )?;
        writeln!(
            f,
            "{:>10}  directives by element type: {} not launched in each variant, {} less than 50 times",
            impossible::possible().len() - possible,
            none_typed.len(),
            few_typed.len()
        )?;
        let few: Vec<String> = few.iter().take(8).map(|(wish, n)| format!("{wish} {n}")).collect();
        if !few.is_empty() {
            writeln!(f, "            rarest: {}", few.join(", "))?;
        }
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

//! The case of an id: a random kernel under a random schedule, or under one that has what is wished for.

use crate::{
    case::Case,
    check::{dtypes, program},
    chosen::chosen,
    data::mix,
    impossible,
    lookback::{carries, carrying, carrying_kernel},
    program::{multiplies, random_kernel, runs},
    sizes::sizes,
    wish::Wish,
};
use std::fmt;
use tile_dsl::{
    dtype::DType,
    engine::testing::{Kind, Random, Refusal, Wild, can_meet, multiplying, wild_schedule, wished_schedule},
    schedule::{Schedule, Target},
    tile::Kernel,
};

/// The most that a case makes a simulator do, in steps of a warp for each CTA.
const MOST_WORK: u64 = 1 << 12;
/// Kernels that are tried for a wish, and those that are looked at for it.
const KERNELS: (usize, u64) = (32, 240);

/// Names a case: the seed of its kernel, the number of its schedule, and what it was to have: `123.0`, `123.0:serpentine+produce-warp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// Seed of the kernel.
    pub program: u64,
    /// Number of the schedule.
    pub schedule: u64,
    /// What the schedule was to have.
    pub wish: Option<Wish>,
}

impl Id {
    /// Number of the schedule that nobody gave.
    pub const CHOSEN: u64 = u64::MAX;

    /// The n-th of the cases of a seed; each third has a pair of directives that it is drawn for.
    pub fn numbered(seed: u64, n: u64) -> Id {
        let program = mix(seed, n);
        let wishes = impossible::possible();
        let wish = (n % 3 == 2).then(|| wishes[(program % wishes.len() as u64) as usize]);
        Id { program, schedule: 0, wish }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.schedule {
            Self::CHOSEN => write!(f, "{}.auto", self.program)?,
            schedule => write!(f, "{}.{schedule}", self.program)?,
        }
        self.wish.map_or(Ok(()), |wish| write!(f, ":{wish}"))
    }
}

impl std::str::FromStr for Id {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is no case: write the seed of a kernel and the number of a schedule, 123.0");
        let (numbers, wish) = match text.split_once(':') {
            Some((numbers, wish)) => (numbers, Some(wish.parse()?)),
            None => (text, None),
        };
        let (program, schedule) = numbers.split_once('.').ok_or_else(wrong)?;
        Ok(Id {
            program: program.parse().map_err(|_| wrong())?,
            schedule: match schedule {
                "auto" => Id::CHOSEN,
                number => number.parse().map_err(|_| wrong())?,
            },
            wish,
        })
    }
}

/// The case of an id, and cases in which the engine caught itself in a mistake.
pub struct Made {
    /// Nothing if no schedule was found.
    pub case: Option<Case>,
    /// The engine's mistakes on the way.
    pub internal: Vec<Case>,
    /// Why there is no schedule that has what was wished for, if there is none.
    pub refused: Option<String>,
    /// A kernel for which no schedule could be chosen, and why.
    pub unchosen: Option<(Case, String)>,
}

/// A schedule without directives.
pub fn empty(kernel: &Kernel, dtype: Option<DType>) -> Schedule {
    Schedule {
        name: "case".into(),
        kernel: kernel.name.clone(),
        dtypes: dtype.into_iter().collect(),
        target: Target::DEFAULT,
        directives: vec![],
    }
}

/// Makes the case of an id.
///
/// # Panics
/// Where the engine does.
pub fn make(id: Id, count: usize) -> Made {
    let mut refused = None;
    if id.schedule == Id::CHOSEN {
        let mut random = Random::new(mix(id.program, id.schedule));
        return match chosen(id.program, &mut random) {
            Ok(Some(case)) => complete(case, vec![], &mut random, count),
            Ok(None) => Made { case: None, internal: vec![], refused, unchosen: None },
            Err(why) => Made { case: None, internal: vec![], refused, unchosen: Some(*why) },
        };
    }
    if let Some(wish) = id.wish {
        let (made, refusals) = wished(wish, mix(id.program, id.schedule), count);
        if let Some(made) = made {
            return made;
        }
        let last = refusals.last().map(|(kind, why)| format!("last, {kind}: {why}"));
        refused = Some(last.unwrap_or_else(|| "nothing to propose".into()));
    }
    let seed = mix(id.program, id.schedule);
    let mut random = Random::new(seed);
    // Of loops whose state steps can publish most have a schedule by which they do.
    let own = id.wish.is_none() && carries(id.program);
    if own
        && random.below(3) > 0
        && let Some(case) = carrying(seed)
    {
        return complete(case, vec![], &mut random, count);
    }
    let kernel = if own { carrying_kernel(seed) } else { random_kernel(id.program) };
    let dtype = *random.pick(&dtypes(kernel.generic.is_some()));
    let asked = !own && random.below(ASKED) == 0;
    let Wild { schedule, internal } = match asked {
        true => asking(&kernel, dtype, seed, [(); 4].map(|()| *random.pick(Kind::ALL))),
        false => wild_schedule(&kernel, dtype, seed, MOST_WORK),
    };
    let case = |schedule| Case { kernel: kernel.clone(), dtype, schedule, launches: vec![] };
    let internal = internal.into_iter().map(|(schedule, _)| case(schedule)).collect();
    match schedule {
        Some(schedule) => Made { refused, ..complete(case(schedule), internal, &mut random, count) },
        // Perhaps because of the engine's mistakes.
        None => Made { case: None, internal, refused, unchosen: None },
    }
}

/// Of so many schedules without a wish one has a kind of directive that is drawn first. What values or limits decide is so met by each
/// kind, which a schedule where all kinds are drawn rarely has.
const ASKED: usize = 3;

/// A random schedule of a kernel with the first of these kinds of directives that is legal there; without one, where none is.
fn asking(kernel: &Kernel, dtype: Option<DType>, seed: u64, kinds: [Kind; 4]) -> Wild {
    let mut internal = Vec::new();
    for (attempt, kind) in (0..).zip(kinds) {
        let (seed, meeting) = (mix(seed, attempt), attempt % 2 == 0);
        let found = wished_schedule(kernel, dtype, seed, MOST_WORK, &[kind], meeting).found;
        internal.extend(found.internal);
        if found.schedule.is_some() {
            return Wild { schedule: found.schedule, internal };
        }
    }
    let mut wild = wild_schedule(kernel, dtype, seed, MOST_WORK);
    wild.internal.extend(internal);
    wild
}

/// With sizes to launch it at.
fn complete(mut case: Case, internal: Vec<Case>, random: &mut Random, count: usize) -> Made {
    if let Ok(program) = program(&case) {
        case.launches = sizes(&program, random, count);
    }
    Made { case: Some(case), internal, refused: None, unchosen: None }
}

/// What a case has beside its wish, where that can be had.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Bias {
    /// Directives concern the same loops.
    meeting: bool,
    /// A tensor has elements of 2 bytes.
    narrow: bool,
}

/// A case that has what is wished for and can be launched, if one was found; why not, otherwise.
pub fn wished(wish: Wish, seed: u64, count: usize) -> (Option<Made>, Vec<Refusal>) {
    let kinds = wish.kinds();
    let mut random = Random::new(seed);
    let meeting = can_meet(&kinds) && random.below(100) < 70;
    // Half a word may be all that the last tile of a segment has of it.
    let narrow = if kinds.contains(&Kind::Segment) { 70 } else { 40 };
    let bias = Bias { meeting, narrow: random.below(100) < narrow };
    let mut refusals = Vec::new();
    // With a bias all attempts have it at first: those without are granted sooner.
    let first = (bias != Bias::default()).then_some(bias);
    for bias in first.into_iter().chain([Bias::default()]) {
        let mut tried = 0;
        for attempt in 0..KERNELS.1 {
            if tried == KERNELS.0 {
                break;
            }
            let program = mix(seed, attempt);
            if let Some(made) = attempted(wish, program, bias, count, &mut tried, &mut refusals) {
                return (Some(made), refusals);
            }
        }
    }
    (None, refusals)
}

/// One attempt, with a kernel that follows from a seed.
fn attempted(
    wish: Wish,
    seed: u64,
    bias: Bias,
    count: usize,
    tried: &mut usize,
    refusals: &mut Vec<Refusal>,
) -> Option<Made> {
    let kinds = wish.kinds();
    let mut program = seed;
    let mut random = Random::new(program);
    // What a product has, and few other kernels: two program axes and a sum.
    let deep = [Kind::SplitK, Kind::SplitKAtomic, Kind::SplitKCluster, Kind::Cluster, Kind::ProduceWarpgroup];
    // Where each step of a sum reads a row, a thread reads it in one piece, and half a word behind it, perhaps.
    let rows = bias.narrow && kinds.contains(&Kind::Segment);
    let deeply = if rows || kinds.iter().any(|k| deep.contains(k)) { 80 } else { 40 };
    let product = multiplying(&kinds) || (rows || !bias.meeting) && random.below(100) < deeply;
    // Few others carry a maximum.
    let running = kinds.contains(&Kind::Freeze);
    let mut step = 0;
    while product && !multiplies(program) || running && !runs(program) {
        program = mix(program, step);
        step += 1;
    }
    let kernel = random_kernel(program);
    let mut types = dtypes(kernel.generic.is_some());
    if let Wish::Typed(_, dtype) = wish {
        types.retain(|t| crate::pairs::types(&kernel, *t).contains(&dtype));
    } else if bias.narrow {
        types.retain(|t| crate::pairs::types(&kernel, *t).iter().any(|dtype| dtype.bytes() == 2));
    }
    if types.is_empty() {
        return None;
    }
    let dtype: Option<DType> = *random.pick(&types);
    let wished = wished_schedule(&kernel, dtype, program, MOST_WORK, &kinds, bias.meeting);
    *tried += usize::from(wished.tried);
    refusals.extend(wished.refusals);
    let Wild { schedule, internal } = wished.found;
    let case = |schedule| Case { kernel: kernel.clone(), dtype, schedule, launches: vec![] };
    let internal = internal.into_iter().map(|(schedule, _)| case(schedule)).collect();
    let made = complete(case(schedule?), internal, &mut random, count);
    made.case.as_ref().is_some_and(|case| !case.launches.is_empty()).then_some(made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tile_dsl::{
        directive::{self, DirectiveKind},
        engine::testing::kinds,
        tile::AxisKind,
    };

    /// Kernels with limits have schedules with kinds of directives that are drawn rarely, where they are asked for.
    #[test]
    fn rare_kinds_meet_kernels_with_limits() {
        for kind in [Kind::Segment, Kind::Persistent, Kind::Serpentine] {
            let mut limited = (0..).map(|n| mix(2, n)).filter(|seed| crate::program::limited(*seed)).take(40);
            let met = limited.any(|seed| {
                let kernel = random_kernel(seed);
                let dtype = dtypes(kernel.generic.is_some())[0];
                let schedule = asking(&kernel, dtype, seed, [kind; 4]).schedule;
                schedule.is_some_and(|schedule| kinds(&schedule).contains(&kind))
            });
            assert!(met, "{kind}");
        }
    }

    /// Of random schedules some have a producer that copies the next tile while CTAs read one.
    #[test]
    fn tiles_are_copied_ahead() {
        let ahead = |seed: u64| {
            let kernel = random_kernel(mix(1, seed));
            let dtype = dtypes(kernel.generic.is_some())[0];
            let directives = wild_schedule(&kernel, dtype, seed, MOST_WORK).schedule?.directives;
            let persistent = directives.iter().any(|d| matches!(d.kind, DirectiveKind::Persistent(_)));
            let of_tiles = |axis: &str| {
                kernel.axes.iter().any(|a| a.kind == AxisKind::Program && format!("{}.o", a.name) == axis)
            };
            let produced = directives.iter().any(|d| match &d.kind {
                DirectiveKind::Produce(directive::Produce { digit, .. }) => of_tiles(digit),
                _ => false,
            });
            (persistent && produced).then_some(seed)
        };
        let found: Vec<u64> = (0..150).filter_map(ahead).collect();
        assert!(found.len() >= 3, "{found:?}");
    }
}

//! The choice: candidates of all templates that apply, the quickest by the model first, until the engine proves one.

use crate::{
    candidate::Candidate,
    gpu::Gpu,
    model::{Prediction, predict},
    site::Site,
    spelling::Spelling,
    structure::Sizes,
    template,
};
use std::{
    collections::{BTreeSet, VecDeque},
    fmt::{self, Display},
};
use tile_dsl::{
    dtype::DType,
    engine::Prover,
    program::Program,
    schedule::{self, Schedule, Target},
    tile,
};

/// Name of a schedule that was chosen.
pub const NAME: &str = "auto";

/// Refusals of a template after which its other candidates are tried last.
const PATIENCE: usize = 6;

/// What is expected to take so many times as long as the quickest is not measured.
const FAR: f64 = 3.0;

/// What a schedule is wanted for.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// The kernel, its generic element type and all.
    pub kernel: &'a tile::Kernel,
    /// Element type of the generic parameter, `None` for a kernel without one.
    pub dtype: Option<DType>,
    /// Values of the named dims.
    pub sizes: &'a Sizes,
    /// Tensors whose first dimension is the contiguous one.
    pub column_major: &'a BTreeSet<String>,
    /// The GPU.
    pub gpu: &'a Gpu,
}

/// A candidate with what it is expected to take.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    /// The candidate.
    pub candidate: Candidate,
    /// What the model says.
    pub prediction: Prediction,
}

/// A candidate that the engine refuses.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    /// The candidate.
    pub candidate: Candidate,
    /// Why.
    pub reason: String,
}

/// What was chosen, and what was not.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The kernel's structures, as written first.
    pub spellings: Vec<Spelling>,
    /// Templates that do not apply to the kernel as written, with the fact that is against each.
    pub passed: Vec<(&'static str, &'static str)>,
    /// All candidates, quickest first; of equal ones in the order of templates.
    pub ranked: Vec<Ranked>,
    /// Position of the choice.
    pub at: usize,
    /// Those that the engine refuses, in the order in which they were tried.
    pub refused: Vec<Refused>,
    /// The proof.
    pub program: Program,
    /// Name of the GPU's row.
    pub gpu: &'static str,
}

/// Why nothing was chosen.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A kernel that no schedule can be proved for.
    ///
    /// What to do: change the kernel as the message says.
    #[error("no schedule can be proved for this kernel: {0}")]
    Kernel(String),
    /// A GPU without an element type of the kernel.
    ///
    /// What to do: use a newer GPU, or another element type.
    #[error("no template has a candidate for {gpu}: it lacks an element type of the kernel")]
    NoCandidate {
        /// The GPU's row in the table.
        gpu: &'static str,
    },
    /// No candidate is legal.
    ///
    /// What to do: write a schedule with `schedule!`. The reason is that of the simplest candidate.
    #[error(
        "none of {count} candidates is legal: write a schedule. The simplest, `{text}`, is refused: {reason}"
    )]
    NoneLegal {
        /// Candidates.
        count: usize,
        /// Directives of the last.
        text: String,
        /// Why the engine refuses it.
        reason: String,
    },
}

/// All candidates for a launch, quickest first; of equal ones in the order of spellings and templates. With them: templates that do not
/// apply to the kernel as written.
pub fn candidates(
    spellings: &[Spelling],
    sizes: &Sizes,
    gpu: &Gpu,
) -> (Vec<Ranked>, Vec<(&'static str, &'static str)>) {
    let (mut found, mut passed) = (Vec::<Ranked>::new(), Vec::new());
    let mut texts = BTreeSet::new();
    for spelling in spellings {
        let site = Site::new(spelling, sizes, gpu);
        for template in template::ALL {
            match (template.applies)(&site) {
                Err(fact) if spelling.online.is_none() => passed.push((template.name, fact)),
                Err(_) => {}
                Ok(()) => {
                    for candidate in (template.candidates)(&site) {
                        if candidate.target <= gpu.target && texts.insert(candidate.text.clone()) {
                            let prediction = predict(&site, &candidate);
                            found.push(Ranked { candidate, prediction });
                        }
                    }
                }
            }
        }
    }
    // By nanoseconds: last bits of logarithms and roots are not the same on every machine.
    found.sort_by_key(|ranked| (ranked.prediction.us * 1e3).round() as i64);
    (found, passed)
}

/// Proves a candidate.
///
/// # Errors
/// The mistakes, on one line.
pub fn prove(prover: &mut Prover, dtype: Option<DType>, candidate: &Candidate) -> Result<Program, String> {
    let schedule = schedule(&prover.kernel().name, dtype, candidate.target, &candidate.text)?;
    let nests = prover.prove(&schedule, &[dtype], 0);
    match nests {
        Ok(mut nests) => Ok(Program { schedule, dtype, nest: nests.remove(0).0 }),
        Err(mistakes) => Err(mistakes.iter().map(|(d, _)| d.message.as_str()).collect::<Vec<_>>().join("; ")),
    }
}

/// A schedule of these directives.
fn schedule(kernel: &str, dtype: Option<DType>, target: Target, text: &str) -> Result<Schedule, String> {
    let items = schedule::parse(text).map_err(|e| format!("`{text}` is no schedule: {e}"))?;
    let directives = schedule::extend(&[], &items)
        .map_err(|wrong| wrong.iter().map(|d| d.message.as_str()).collect::<Vec<_>>().join("; "))?;
    let dtypes = dtype.into_iter().collect();
    Ok(Schedule { name: NAME.into(), kernel: kernel.into(), dtypes, target, directives })
}

/// Candidates in their order, of which the engine proves one after the other.
struct Search<'a> {
    wanted: &'a Wanted<'a>,
    ranked: Vec<Ranked>,
    prover: Prover,
    refused: Vec<Refused>,
    order: VecDeque<usize>,
    put_off: BTreeSet<usize>,
}

impl Search<'_> {
    /// The next that is legal, of those that are wanted.
    fn next(&mut self, is_wanted: impl Fn(&Candidate) -> bool) -> Option<(usize, Program)> {
        // A template that is refused again and again is put off: one fact is against all of it, mostly.
        let tired = |refused: &[Refused], template: &str| {
            refused.iter().filter(|r| r.candidate.template == template).count() >= PATIENCE
        };
        while let Some(at) = self.order.pop_front() {
            let candidate = &self.ranked[at].candidate;
            if !is_wanted(candidate) {
                continue;
            }
            if tired(&self.refused, candidate.template) && self.put_off.insert(at) {
                self.order.push_back(at);
                continue;
            }
            match prove(&mut self.prover, self.wanted.dtype, candidate) {
                Ok(program) => return Some((at, program)),
                Err(reason) => self.refused.push(Refused { candidate: candidate.clone(), reason }),
            }
        }
        None
    }
}

/// The quickest candidate by the model that the engine proves.
///
/// # Errors
/// [`Error`].
pub fn choose(wanted: &Wanted<'_>) -> Result<Chosen, Error> {
    several(wanted, 1).map(|several| several.first)
}

/// Candidates to measure: the quickest by the model, and others of different families.
#[derive(Clone, Debug)]
pub struct Several {
    /// The quickest.
    pub first: Chosen,
    /// The others: the place of each among [`Chosen::ranked`], and its proof.
    pub others: Vec<(usize, Program)>,
}

/// Candidates that the engine proves, `most` at most: the quickest by the model of each family, then the next ones. What is expected
/// to take more than three times as long as the first is none of them.
///
/// # Errors
/// [`Error`].
pub fn several(wanted: &Wanted<'_>, most: usize) -> Result<Several, Error> {
    let spellings = Spelling::all(wanted.kernel, wanted.dtype, wanted.column_major)
        .map_err(|d| Error::Kernel(d.message.clone()))?;
    let (ranked, passed) = candidates(&spellings, wanted.sizes, wanted.gpu);
    let all = || (0..ranked.len()).collect::<VecDeque<_>>();
    let (order, prover) = (all(), Prover::new(wanted.kernel.clone()));
    let mut search = Search { wanted, order, prover, refused: Vec::new(), put_off: BTreeSet::new(), ranked };
    let Some((at, program)) = search.next(|_| true) else {
        return Err(match search.refused.pop() {
            None => Error::NoCandidate { gpu: wanted.gpu.name },
            Some(Refused { candidate, reason }) => {
                Error::NoneLegal { count: search.ranked.len(), text: candidate.text, reason }
            }
        });
    };
    let limit = FAR * search.ranked[at].prediction.us;
    let near: Vec<usize> =
        (at + 1..search.ranked.len()).filter(|n| search.ranked[*n].prediction.us <= limit).collect();
    let mut taken = vec![(at, program)];
    for new_family in [true, false] {
        search.order = near.iter().copied().filter(|n| taken.iter().all(|(at, _)| at != n)).collect();
        search.put_off.clear();
        while taken.len() < most {
            let families: BTreeSet<String> =
                taken.iter().map(|(at, _)| search.ranked[*at].candidate.family()).collect();
            let refused: BTreeSet<String> = search.refused.iter().map(|r| r.candidate.text.clone()).collect();
            let wanted =
                |c: &Candidate| !(refused.contains(&c.text) || new_family && families.contains(&c.family()));
            match search.next(wanted) {
                Some(next) => taken.push(next),
                None => break,
            }
        }
    }
    let Search { ranked, refused, .. } = search;
    let (at, program) = taken.remove(0);
    let gpu = wanted.gpu.name;
    Ok(Several { first: Chosen { spellings, passed, at, refused, program, gpu, ranked }, others: taken })
}

impl Chosen {
    /// The choice.
    pub fn choice(&self) -> &Ranked {
        &self.ranked[self.at]
    }
}

/// Why this one: structure, templates, microseconds of the first candidates by their terms, refusals.
impl Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Spelling { structure, online, .. } in &self.spellings {
            if let Some(axis) = online {
                writeln!(f, "with `{0}` in one loop, `online({0} = ..)`:", structure.name(*axis))?;
            }
            write!(f, "{structure}")?;
        }
        for (name, fact) in &self.passed {
            writeln!(f, "template {name} does not apply: {fact}")?;
        }
        writeln!(f, "{} candidates on {}", self.ranked.len(), self.gpu)?;
        for (n, Ranked { candidate, prediction }) in self.ranked.iter().enumerate() {
            let refused = self.refused.iter().find(|r| r.candidate.text == candidate.text);
            if n >= 5 && n != self.at && refused.is_none() {
                continue;
            }
            let mark = if n == self.at { ">" } else { " " };
            writeln!(f, "{mark} {candidate}: {prediction}")?;
            if let Some(refused) = refused {
                writeln!(f, "    refused: {}", refused.reason)?;
            }
        }
        writeln!(f, "chosen: {}", self.choice().candidate.text)
    }
}

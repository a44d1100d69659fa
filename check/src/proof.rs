//! An independent checker of derivations: it replays a [`Certificate`] without the rules that made it.
//!
//! ```text
//! Certificate ─► sizes: small launches that reach each tail ─► run: each nest, symbolically ─► the same terms, or a Fault
//! ```
//! Each nest on the way is run on small sizes. An element is no number but a term: what the nest would compute there, with inputs as
//! unknowns, and sums as sets of summands (`terms`). A step is right if every element that it stores is the term that it was before. Four
//! conditions are judged in the same run:
//!
//! - nothing is read that nothing has computed;
//! - what a copy holds is as old as the copy: nothing inside its `stage`, or in the pipelined loop around it, stores to what it read;
//! - steps that units take at once, and lanes of a vector, do not read or overwrite what another one writes (`concurrent`);
//! - a reduction whose steps units take says how the parts come together (`reduce`, `split_k`).
//!
//! The checker knows the nest IR and nothing of the engine. What facts alone decide (layouts, budgets, the order of the grid) changes no
//! term: such a step is replayed, and that it stores the same is all that is said of it.

mod concurrent;
mod run;
mod sizes;
mod terms;

use std::{collections::BTreeMap, fmt};
use tile_dsl::{
    engine::{Certificate, Move},
    nest::Nest,
};

/// Why a derivation is not accepted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("step {step} (`{directive}`, {rule}) at {sizes}: {fault}")]
pub struct Wrong {
    /// Number of the step, from 1; 0 is the kernel's own nest.
    pub step: usize,
    /// The directive.
    pub directive: String,
    /// The rule, or `by itself`.
    pub rule: String,
    /// The sizes at which it shows: `K = 2, M = 33, N = 2`.
    pub sizes: String,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with a nest.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Fault {
    /// An element is another term than it was.
    #[error("{0} is not what it was before")]
    Different(String),
    /// An element is not stored any more, or was not stored before.
    #[error("{0} is stored by one of the two nests only")]
    Missing(String),
    /// Read before anything computed it.
    #[error("`{0}` is read where nothing has computed it")]
    Unset(String),
    /// A store outside of a tensor.
    #[error("{0} is outside of its tensor")]
    Outside(String),
    /// Two steps that are taken at once, one of which writes what the other one touches.
    #[error("steps that are taken at once touch {0}, and one of them writes it")]
    AtOnce(String),
    /// A reduction over units without a way to combine.
    #[error("units hold parts of `{0}`, and nothing combines them")]
    Parts(String),
}

/// What was replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Nests, the first one included.
    pub nests: usize,
    /// Of the steps, those by a rule of the e-graph.
    pub rewrites: usize,
    /// Sizes at which each was run.
    pub sizes: usize,
    /// Elements that were compared.
    pub elements: usize,
}

impl fmt::Display for Replayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Replayed { nests, rewrites, sizes, elements } = self;
        write!(f, "{nests} nests ({rewrites} rewrites), {sizes} sizes, {elements} elements compared")
    }
}

/// Replays a derivation.
///
/// # Errors
/// The first step that is wrong, with the smallest of the sizes tried at which it shows.
pub fn replay(certificate: &Certificate) -> Result<Replayed, Wrong> {
    let steps: Vec<_> = certificate.steps().collect();
    let nests = std::iter::once(&certificate.first).chain(steps.iter().map(|(_, step)| &step.nest));
    let nests: Vec<&Nest> = nests.collect();
    let mut done = Replayed { nests: nests.len(), ..Replayed::default() };
    done.rewrites = steps.iter().filter(|(_, step)| step.rule.is_some()).count();
    for sizes in sizes::of(&nests) {
        let wrong = |step: usize, fault| {
            let (directive, rule) = match step.checked_sub(1).map(|n| steps[n]) {
                Some((Move { directive, .. }, step)) => {
                    (directive.clone(), step.rule.as_ref().map(|(rule, _)| format!("by {rule}")))
                }
                None => ("the kernel".into(), None),
            };
            let rule = rule.unwrap_or_else(|| "by itself".into());
            Wrong { step, directive, rule, sizes: shown(&sizes), fault }
        };
        let mut before: Option<(&Nest, run::Stored)> = None;
        for (n, nest) in nests.iter().enumerate() {
            let complete = n + 1 == nests.len();
            if !complete && before.as_ref().is_some_and(|(was, _)| was == nest) {
                continue;
            }
            let stored = run::run(nest, &sizes, complete).map_err(|fault| wrong(n, fault))?;
            // The size of tiles that the kernel sees is part of what it computes.
            if let Some((was, expected)) = &before
                && was.recurrences == nest.recurrences
            {
                done.elements += compare(nest, expected, &stored).map_err(|fault| wrong(n, fault))?;
            }
            before = Some((nest, stored));
        }
        done.sizes += 1;
    }
    Ok(done)
}

/// Compares what two nests store; how many elements.
fn compare(nest: &Nest, before: &run::Stored, after: &run::Stored) -> Result<usize, Fault> {
    for (place, term) in after {
        let name = || format!("{}{:?}", nest.tensor(place.0).name, place.1);
        match before.get(place) {
            None => return Err(Fault::Missing(name())),
            Some(was) if was != term => return Err(Fault::Different(name())),
            Some(_) => {}
        }
    }
    match before.keys().find(|place| !after.contains_key(place)) {
        Some(place) => Err(Fault::Missing(format!("{}{:?}", nest.tensor(place.0).name, place.1))),
        None => Ok(after.len()),
    }
}

fn shown(sizes: &BTreeMap<String, i64>) -> String {
    let each: Vec<String> = sizes.iter().map(|(name, n)| format!("{name} = {n}")).collect();
    if each.is_empty() { "its own size".into() } else { each.join(", ") }
}

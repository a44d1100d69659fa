//! Templates, a file each: a predicate over the structure, and candidates whose holes are filled by rules.
//!
//! None knows a kernel. The order of the list breaks ties between candidates that the model finds equal. The last template applies to
//! every kernel.

mod chain;
mod column;
mod fma;
mod full;
mod map;
mod mma;
mod pairs;
mod plain;
mod products;
mod recurrence;
mod row;
mod together;
mod transpose;
mod wgmma;

use crate::{candidate::Candidate, site::Site};

/// A template.
#[derive(Clone, Copy)]
pub struct Template {
    /// Name.
    pub name: &'static str,
    /// What it is for.
    pub what: &'static str,
    /// Whether it applies, or the fact that is against it.
    pub applies: fn(&Site<'_>) -> Result<(), &'static str>,
    /// Its candidates where it applies.
    pub candidates: fn(&Site<'_>) -> Vec<Candidate>,
}

/// Every template, in the order in which ties are broken.
pub const ALL: &[Template] = &[
    map::TEMPLATE,
    pairs::TEMPLATE,
    transpose::TEMPLATE,
    row::TEMPLATE,
    column::TEMPLATE,
    full::TEMPLATE,
    wgmma::TEMPLATE,
    mma::TEMPLATE,
    fma::TEMPLATE,
    chain::TEMPLATE,
    together::TEMPLATE,
    recurrence::TEMPLATE,
    plain::TEMPLATE,
];

/// A reason against a template where a fact does not hold.
fn needs(holds: bool, fact: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(fact) }
}

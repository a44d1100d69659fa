//! Entry points for tests: random members of e-classes and random legal schedules.

mod kinds;
mod schedules;

pub use crate::directive::Kind;
pub use kinds::kinds;
pub(crate) use schedules::{ATOMS, COMPUTING, COPIES, Generator, PRODUCERS, Wish};
pub use schedules::{
    Extents, Refusal, Wild, Wished, can_meet, multiplying, random_schedule, random_schedule_at, repaired,
    wild_schedule, wild_schedule_at, wished_schedule,
};

pub use crate::random::Random;

/// Element types that random kernels have, and that generic ones are scheduled for.
pub const TYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

use super::phase;
use crate::{
    dtype::DType,
    nest::{Nest, Stmt},
    schedule::Directive,
};

/// `count` random members of the class of the whole nest, after the rules of a directive saturated.
///
/// Every member computes the same, whether the directive counts as applied in it or not.
pub fn members(directive: &Directive, nest: &Nest, count: usize, seed: u64) -> Vec<Stmt> {
    phase::sampling(count, seed, || {
        // A failed directive has a class too.
        let _ = super::apply(directive, nest);
    })
}

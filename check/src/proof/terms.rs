//! Terms by their hashes: two elements are equal if they are computed alike from the inputs, sums up to the order of summands.
//!
//! A hash has 128 bits, so that two terms of one run that differ have the same hash with a probability below 2⁻⁸⁰.

use std::hash::{Hash, Hasher};

/// The hash of a term.
pub type Term = u128;

/// What a term is made by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// An element of an input.
    Input,
    /// A number, a size, a scalar parameter, or a point of an axis.
    Number,
    /// An operator.
    Operator,
    /// A sum, a maximum and so on of a set of terms.
    Reduced,
}

/// A term of parts in their order.
pub fn term(made: Made, parts: impl IntoIterator<Item = u128>) -> Term {
    // Each step is injective in the part, and the hash so far is scattered.
    parts.into_iter().fold(scatter(made as u128 + 1), |hash, part| {
        scatter(hash.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).wrapping_add(part))
    })
}

/// What something stands for in a term. Things of two kinds that may stand in one place have their kind's name beside them.
pub fn name(of: &impl Hash) -> u128 {
    let mut bits = Bits(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
    of.hash(&mut bits);
    scatter(bits.0)
}

/// FNV-1a, of 128 bits, a number a step.
struct Bits(u128);

impl Bits {
    fn add(&mut self, number: u64) {
        self.0 = (self.0 ^ u128::from(number)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
}

impl Hasher for Bits {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.add(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.add(number);
    }

    fn write_isize(&mut self, number: isize) {
        self.add(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0 as u64
    }
}

/// What a summand adds to the hash of its sum: the same in any order.
pub fn summand(term: Term) -> u128 {
    scatter(term ^ 0x5851_f42d_4c95_7f2d_1405_7b7e_f767_814f)
}

/// A permutation of the numbers of 128 bits in which each bit depends on all.
fn scatter(mut x: u128) -> u128 {
    x ^= x >> 67;
    x = x.wrapping_mul(0xda94_2042_e4dd_58b5_5851_f42d_4c95_7f2d);
    x ^= x >> 59;
    x = x.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645);
    x ^ (x >> 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_of_two_kinds_have_two_names() {
        use tile_dsl::{dtype::DType, op::RedOp};
        let names = [name(&("to", DType::F16)), name(&("to", DType::F32)), name(&("reduce", DType::F16))];
        assert!(names[0] != names[1] && names[0] != names[2] && names[1] != names[2]);
        assert_ne!(name(&(RedOp::Add, DType::F32)), name(&(RedOp::Max, DType::F32)));
        assert_ne!(name(&1.0f64.to_bits()), name(&2.0f64.to_bits()));
    }

    #[test]
    fn the_order_of_parts_counts_and_that_of_summands_does_not() {
        let (a, b) = (term(Made::Input, [1]), term(Made::Input, [2]));
        assert_ne!(term(Made::Operator, [a, b]), term(Made::Operator, [b, a]));
        assert_ne!(a, term(Made::Number, [1]));
        assert_ne!(term(Made::Operator, [a]), term(Made::Operator, [a, 0]));
        let sum = |terms: &[Term]| terms.iter().fold(0u128, |sum, t| sum.wrapping_add(summand(*t)));
        assert_eq!(sum(&[a, b]), sum(&[b, a]));
        assert_ne!(sum(&[a, a]), sum(&[a]));
    }
}

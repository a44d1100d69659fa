//! Terms by their hashes: two elements are equal if they are computed alike from the inputs, sums up to the order of summands.
//!
//! A hash has 128 bits, so that two terms of one run that differ have the same hash with a probability below 2⁻⁸⁰.

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
    parts.into_iter().fold(scatter(made as u128 + 1), |hash, part| {
        scatter(hash.rotate_left(41) ^ scatter(part.wrapping_add(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834)))
    })
}

/// What something that prints stands for in a term.
pub fn name(what: &dyn std::fmt::Debug) -> u128 {
    format!("{what:?}").bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash: u128, byte| {
        // FNV-1a, 128 bits.
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    })
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

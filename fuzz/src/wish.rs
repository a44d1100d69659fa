//! What a schedule is to have: two kinds of directives, or one on tensors of a type.

use std::fmt;
use tile_dsl::{dtype::DType, engine::testing::Kind};

/// What a schedule is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wish {
    /// Two kinds, the first before the second in [`Kind::ALL`].
    Pair(Kind, Kind),
    /// A kind, in a kernel with a tensor of this type.
    Typed(Kind, DType),
}

impl Wish {
    /// A pair, in the order of [`Kind::ALL`].
    pub fn pair(a: Kind, b: Kind) -> Wish {
        Wish::Pair(a.min(b), a.max(b))
    }

    /// All pairs of different kinds.
    pub fn pairs() -> impl Iterator<Item = (Kind, Kind)> {
        let after = |n: usize| Kind::ALL[n + 1..].iter();
        Kind::ALL.iter().enumerate().flat_map(move |(n, a)| after(n).map(|b| (*a, *b)))
    }

    /// The kinds.
    pub fn kinds(self) -> Vec<Kind> {
        match self {
            Wish::Pair(a, b) => vec![a, b],
            Wish::Typed(kind, _) => vec![kind],
        }
    }
}

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wish::Pair(a, b) => write!(f, "{a}+{b}"),
            Wish::Typed(kind, dtype) => write!(f, "{kind}+{dtype}"),
        }
    }
}

impl std::str::FromStr for Wish {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no pair of directives, such as `serpentine+produce-warp`");
        let (a, b) = text.split_once('+').ok_or_else(wrong)?;
        let a = a.parse()?;
        match DType::from_name(b) {
            Some(dtype) => Ok(Wish::Typed(a, dtype)),
            None => Ok(Wish::pair(a, b.parse()?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_read_back_as_printed() {
        for (a, b) in Wish::pairs() {
            assert!(a < b);
            assert_eq!(Wish::Pair(a, b).to_string().parse(), Ok(Wish::Pair(a, b)));
        }
        let typed = Wish::Typed(Kind::StageTma, DType::BF16);
        assert_eq!(typed.to_string(), "stage-tma+bf16");
        assert_eq!(typed.to_string().parse(), Ok(typed));
        assert!("stage-tma+stages".parse::<Wish>().is_err());
    }
}

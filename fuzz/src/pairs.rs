//! How often pairs of directives were accepted and run, and directives by variant and element type.

use crate::{case::Case, check::Done, impossible, wish::Wish};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};
use tile_dsl::{
    dtype::DType,
    engine::testing::{Kind, kinds},
    program::Variant,
    tile::{ElemType, Kernel},
};

/// Variants, in the order of [`Done::variants`].
const VARIANTS: [Variant; 3] = [Variant::Exact, Variant::Aligned, Variant::General];
pub use tile_dsl::engine::testing::TYPES;

/// Numbers of schedules that were launched, each once, however often.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs {
    /// With both kinds of directives.
    pub pairs: BTreeMap<(Kind, Kind), u64>,
    /// With a kind of directive, in a variant, with a tensor of a type.
    pub cells: BTreeMap<(Kind, Variant, DType), u64>,
}

/// Element types of a kernel's tensors.
pub fn types(kernel: &Kernel, dtype: Option<DType>) -> BTreeSet<DType> {
    let of = |elem: &ElemType| match elem {
        ElemType::Fixed(dtype) => Some(*dtype),
        ElemType::Generic => dtype,
    };
    kernel.tensors.iter().filter_map(|t| of(&t.elem)).collect()
}

impl Pairs {
    /// Counts a case with what was done of it.
    pub fn count(&mut self, case: &Case, done: &Done) {
        if done.launches == 0 {
            return;
        }
        let (kinds, types) = (kinds(&case.schedule), types(&case.kernel, case.dtype));
        for (n, a) in kinds.iter().enumerate() {
            for b in kinds.iter().skip(n + 1) {
                *self.pairs.entry((*a, *b)).or_default() += 1;
            }
            for (variant, launches) in VARIANTS.into_iter().zip(done.variants) {
                if launches > 0 {
                    types.iter().for_each(|t| *self.cells.entry((*a, variant, *t)).or_default() += 1);
                }
            }
        }
    }

    /// Adds up.
    pub fn add(&mut self, other: &Pairs) {
        other.pairs.iter().for_each(|(key, n)| *self.pairs.entry(*key).or_default() += n);
        other.cells.iter().for_each(|(key, n)| *self.cells.entry(*key).or_default() += n);
    }

    /// How often what is wished for was run: in the variant in which it was run least.
    pub fn of(&self, wish: Wish) -> u64 {
        self.by_variant(wish).into_iter().min().unwrap_or(0)
    }

    /// How often what is wished for was run, in each variant that counts.
    pub fn by_variant(&self, wish: Wish) -> Vec<u64> {
        let cell = |kind, dtype, v| self.cells.get(&(kind, v, dtype)).copied().unwrap_or(0);
        match wish {
            Wish::Pair(a, b) => vec![self.pairs.get(&(a, b)).copied().unwrap_or(0)],
            Wish::Typed(kind, dtype) => {
                let variants = VARIANTS.into_iter().filter(|v| impossible::cell(kind, *v, dtype).is_none());
                variants.map(|v| cell(kind, dtype, v)).collect()
            }
        }
    }

    /// What can be legal and was run fewer times than that, rarest first.
    pub fn rarer_than(&self, times: u64) -> Vec<(Wish, u64)> {
        let all = impossible::possible().iter().map(|wish| (*wish, self.of(*wish)));
        let mut rare: Vec<(Wish, u64)> = all.filter(|(_, n)| *n < times).collect();
        rare.sort_by_key(|(_, n)| *n);
        rare
    }
}

/// The whole table, as text.
impl fmt::Display for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "schedules launched with both directives; `-`: none is known to be legal\n")?;
        let pairs = Wish::pairs().map(|(a, b)| (self.of(Wish::Pair(a, b)), a, b, impossible::pair(a, b)));
        let mut pairs: Vec<_> = pairs.collect();
        pairs.sort_by_key(|(n, _, _, reason)| (reason.is_some(), *n));
        for (n, a, b, reason) in pairs {
            match reason {
                None => writeln!(f, "{n:>8}  {a} + {b}")?,
                Some(why) if n == 0 => writeln!(f, "{:>8}  {a} + {b}: {}", "-", why.text())?,
                Some(why) => writeln!(f, "{n:>8}  {a} + {b}, although {}", why.text())?,
            }
        }
        writeln!(f, "\nschedules launched with a directive, by variant and element type of a tensor\n")?;
        write!(f, "{:<24}", "")?;
        for variant in VARIANTS {
            for dtype in TYPES {
                write!(f, "{:>13}", format!("{variant} {dtype}"))?;
            }
        }
        writeln!(f)?;
        for kind in Kind::ALL {
            write!(f, "{:<24}", kind.name())?;
            for variant in VARIANTS {
                for dtype in TYPES {
                    let n = self.cells.get(&(*kind, variant, dtype)).copied().unwrap_or(0);
                    match impossible::cell(*kind, variant, dtype) {
                        Some(_) if n == 0 => write!(f, "{:>13}", "-")?,
                        _ => write!(f, "{n:>13}")?,
                    }
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

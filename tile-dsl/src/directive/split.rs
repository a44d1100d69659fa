//! `split`: a loop is cut into several, outermost first; each name but the first has a factor.
//!
//! ```text
//! split(i -> it, ir: 8)      (for i X)  →  (for it (for ir X))
//! ```
//! Condition: the factors divide the steps of the loop; a loop without a fixed number of steps keeps its open end outermost.
//! Cost: none by itself. It makes loops for `reorder`, `bind` and `unroll`.

use super::prelude::*;
use crate::engine::families::split;

directive! {
    /// `split(n -> no, nl, nv: 32, 4)`: outermost first; a factor for each name but the first.
    "split(i -> it, ir: 8)" in Split, 0:
    Split { digit: DigitName, names: Vec<String>, factors: Vec<u32> } => |s| {
        let at = s.one(digit, "a loop").mark("->").here();
        s.new_names(names).mark(":").numbers(factors);
        s.check(at, names.len() == factors.len() + 1, || {
            let counted = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
            let (names, factors) = (counted(names.len(), "name"), counted(factors.len(), "factor"));
            format!("{names} and {factors}: each name but the first has a factor")
        });
    }
}

impl Definition for Split {
    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        split::apply(nest, &self.digit, &self.names, &self.factors)
    }

    fn gives(&self) -> Vec<Name> {
        self.names.iter().cloned().map(Name::Loop).collect()
    }

    fn needs(&self) -> Vec<Name> {
        vec![Name::Loop(self.digit.clone())]
    }
}

impl Drawn for Split {
    fn candidates(_: Kind, generator: &mut Generator<'_>, wish: &Wish<'_>) -> Vec<DirectiveKind> {
        let Wish { set, product, .. } = *wish;
        generator.fresh += 2;
        let names = vec![format!("d{}", generator.fresh), format!("d{}", generator.fresh + 1)];
        let split = |(digit, factor)| Split { digit, names: names.clone(), factors: vec![factor] }.into();
        if let Some(product) = product {
            // What an atom takes at once stays together.
            let whole = if set.contains(&Kind::Wgmma) { [64, 64, 16] } else { [16, 16, 16] };
            let tiles = product.axes.iter().map(crate::nest::in_tile).zip(whole);
            return tiles.map(split).collect();
        }
        let factor = *generator.random.pick(&[2, 2, 4, 8]);
        let mut digits: Vec<String> = generator.digits(false).into_iter().map(|d| d.0).collect();
        digits.retain(|d| !d.ends_with(".o"));
        digits.into_iter().map(|digit| split((digit, factor))).collect()
    }
}

//! Computed operands: which elements of a factor lanes compute, and which they multiply.
//!
//! A register of an operand has elements side by side along k. Of 16 bits there are two, and sums of a product have columns by twos,
//! too: what is computed from these lies as the instruction takes it. Of 8 bits there are four, so that what lanes have by twos
//! goes from lane to lane. Of 16 points along k and two rows, as the four lanes of a row have them:
//!
//! ```text
//! lane                       0                1                2                3
//! computed, of either row    0 1  8 9         2 3  10 11       4 5  12 13       6 7  14 15
//! multiplied                 0 1 2 3          4 5 6 7          8 9 10 11        12 13 14 15
//! ```
//! Source: FlashAttention-3 (Shah and others, 2024), section 3.3.

use super::{
    Atom, Digit, Factor, Frame, LoopKind, Nest, Operand, Part, Place, Placement, Product, Role, Target,
    ValueId, leaves, parts,
    rows::{PAIR, QUADS},
};

/// Elements that a lane gives to the other three and gets of them at once: four of either row.
pub(crate) const EXCHANGED: usize = 8;

/// The place among the elements that a lane gets that one of those which it gives has: a row's second two stand behind its first.
/// It is that of the first among the second, too.
pub(crate) fn joined_place(given: usize) -> usize {
    given / 4 * 2 + given / 2 % 2 * 4 + given % 2
}

/// How lanes have a factor that they compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Computed {
    /// As the instruction takes it.
    InPlace,
    /// As they have the columns of a product's sums: by twos, which the four lanes of a row exchange.
    ByTwos,
}

impl Atom {
    /// The digits of a computed operand along one of its dimensions, each with how far a step in registers moves on among the
    /// elements of a lane. `None` where lanes do not exchange elements for it.
    pub(crate) fn computed(self, operand: Operand, role: Role, how: Computed) -> Option<Vec<(Part, u32)>> {
        let each = self.each() as u32;
        let order = match operand {
            Operand::A => self.row().a,
            Operand::B => self.row().b,
        };
        let by_twos = how == Computed::ByTwos;
        // Words that lanes exchange have twos of two rows, of which either register has one.
        if by_twos && (each != 4 || operand == Operand::B || order.first() != Some(&[8, 0])) {
            return None;
        }
        if by_twos && role == Role::K {
            let groups = Part { name: "group", stride: 8, steps: self.size(Role::K) / 8, place: Place::Slot };
            return Some(vec![(groups, 4), (QUADS, 1), (PAIR, 1)]);
        }
        let dimension = usize::from(role == Role::K);
        let weight = |part: &Part| {
            let bit = order.iter().position(|step| step[dimension] == part.stride && part.stride > 1);
            match bit.filter(|_| part.place == Place::Slot) {
                Some(_) if by_twos => 2,
                Some(bit) => each << bit,
                None => 1,
            }
        };
        Some(self.operand(operand, role).into_iter().map(|part| (part, weight(&part))).collect())
    }
}

impl Nest {
    /// How lanes have a factor of a product that they compute: by twos where what it is computed from lies so.
    pub(crate) fn computed(&self, product: &Product<'_>, operand: Operand) -> Computed {
        let Factor::Computed(expr) = product.factor(operand) else { return Computed::InPlace };
        let [_, _, k] = product.digits;
        if product.atom.computed(operand, Role::K, Computed::ByTwos).is_none() {
            return Computed::InPlace;
        }
        let mut read = expr.values();
        read.retain(|value| self.value(*value).placement == Placement::Register);
        let twos = (QUADS.digit(k), QUADS.at());
        let mut found = false;
        leaves(&self.body, &mut |path, leaf| {
            let writes = |value: &ValueId| leaf.leaf().is_some_and(|(t, _)| t == Target::Value(*value));
            if let Some(at) = read.iter().find(|v| writes(v)).and_then(|v| Nest::binder(path, *v)) {
                let mut steps = path[at..].iter().filter_map(Frame::step);
                found |= steps.any(|(digit, at)| parts(digit, at).contains(&twos));
            }
        });
        if found { Computed::ByTwos } else { Computed::InPlace }
    }
}

/// The digits of the loops around a computed operand, those of the instruction as its lanes have them.
pub(super) fn seen(
    (digit, at): (Digit, LoopKind),
    (operand, how): (Operand, Computed),
) -> Vec<(Digit, LoopKind)> {
    match at {
        LoopKind::Atom(atom, role) => {
            let own = atom.computed(operand, role, how).unwrap_or_default();
            own.iter().map(|(part, _)| (part.digit(digit), part.at())).collect()
        }
        _ => vec![(digit, at)],
    }
}

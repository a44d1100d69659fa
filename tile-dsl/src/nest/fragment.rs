//! Fragments: which elements of a tensor a thread holds in registers, and in which slot.
//!
//! A copy in registers holds what the expanded loops inside of it read: each element once, by its index counted from the loops
//! around the copy, numbered as the program first reads them. An operand of an atom is read as a whole: a lane holds the
//! elements that the instruction gives it, one slot after the other.

use super::{
    AccessId, Atom, Copy, CopyId, Digit, Frame, LoopKind, Nest, Operand, Role, Steps, Stmt, with_paths,
};
use crate::{
    index::Affine,
    machine::{Space, Unit, UnitDim},
};
use std::collections::BTreeMap;

/// Elements beyond which nobody asks how many a thread would hold.
pub(crate) const MOST_HELD: u32 = 1 << 14;

/// A loop, and the point at which it stands if its steps are told apart.
pub(crate) type LoopAt = (Digit, LoopKind, Option<i64>);

/// What moves an index from thread to thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mover {
    /// A unit of a CTA, skewed by another dimension of it.
    Unit(Unit, UnitDim, Option<UnitDim>),
    /// A loop bound to CTAs.
    Block(Digit),
}

/// Index of an element, one a dimension: what moves it, and by how many points, and a constant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ElementIndex(Vec<(BTreeMap<Mover, i64>, i64)>);

/// An element that is loaded, where the program first reads it.
#[derive(Clone, Debug)]
pub(crate) struct HeldElement {
    pub access: AccessId,
    /// The loops inside of the copy, those of an atom too.
    pub loops: Vec<LoopAt>,
    /// Its slot; of an operand of an atom, the first of its slots.
    pub slot: u32,
}

/// The registers of a copy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fragment {
    pub held: Vec<HeldElement>,
    /// Slots in all, as far as [`MOST_HELD`].
    pub slots: u32,
    by_index: BTreeMap<ElementIndex, u32>,
}

impl ElementIndex {
    /// The element so many points further by dimension.
    pub fn moved(&self, by: impl Fn(usize) -> i64) -> ElementIndex {
        let further = |(dim, (movers, constant)): (usize, &(BTreeMap<Mover, i64>, i64))| {
            (movers.clone(), constant + by(dim))
        };
        ElementIndex(self.0.iter().enumerate().map(further).collect())
    }
}

impl Fragment {
    /// The registers for what `body` reads from a copy.
    ///
    /// # Errors
    /// A loop at run time that would index them.
    pub fn of(nest: &Nest, copy: CopyId, body: &Stmt) -> Result<Fragment, Digit> {
        let mut fragment = Fragment::default();
        fragment.read(nest, nest.copy(copy), body, &mut Vec::new())?;
        Ok(fragment)
    }

    /// The slot of an element.
    pub fn slot(&self, index: &ElementIndex) -> Option<u32> {
        self.by_index.get(index).copied()
    }

    /// Visits each read of the copy at each step of the expanded loops that move it.
    fn read(&mut self, nest: &Nest, copy: &Copy, stmt: &Stmt, loops: &mut Vec<LoopAt>) -> Result<(), Digit> {
        match stmt {
            Stmt::For { digit, at, body } => {
                let Some(moves) = moved(nest, copy, body, digit) else { return Ok(()) };
                let steps = match (*at, digit.steps) {
                    (LoopKind::Unit(..), _) => None,
                    (LoopKind::Atom(..), _) => Some(1),
                    (at, Steps::Fixed(n)) if moves && (at.is_expanded() || n == 1) => Some(n),
                    _ if moves => return Err(*digit),
                    _ => Some(1),
                };
                for step in 0..steps.unwrap_or(1) {
                    if self.slots > MOST_HELD {
                        break;
                    }
                    loops.push((*digit, *at, steps.map(|_| i64::from(step) * i64::from(digit.stride))));
                    let result = self.read(nest, copy, body, loops);
                    loops.pop();
                    result?;
                }
                Ok(())
            }
            other => {
                for access in other.leaf().map(|(_, expr)| expr.accesses()).unwrap_or_default() {
                    if copy.serves(nest.access(access)) {
                        self.hold(nest, access, loops);
                    }
                }
                other.parts().try_for_each(|part| self.read(nest, copy, part, loops))
            }
        }
    }

    fn hold(&mut self, nest: &Nest, access: AccessId, loops: &[LoopAt]) {
        let Some(index) = nest.element_index(&nest.access(access).index, loops.iter().copied()) else {
            return;
        };
        if self.by_index.contains_key(&index) {
            return;
        }
        let slot = self.slots;
        self.by_index.insert(index, slot);
        self.held.push(HeldElement { access, loops: loops.to_vec(), slot });
        let operand = |atom: Atom, m: Digit| {
            let rows = nest.access_axes(access).contains(&m.axis);
            atom.elements(if rows { Operand::A } else { Operand::B })
        };
        self.slots += loops
            .iter()
            .find_map(|(digit, at, _)| match at {
                LoopKind::Atom(atom, Role::M) => Some(operand(*atom, *digit)),
                _ => None,
            })
            .unwrap_or(1);
    }
}

/// Whether a loop over a digit moves some read of a copy inside; nothing if there is none.
fn moved(nest: &Nest, copy: &Copy, stmt: &Stmt, digit: &Digit) -> Option<bool> {
    let mut moves = None;
    stmt.each(&mut |stmt| {
        let Some((_, expr)) = stmt.leaf() else { return };
        for access in expr.accesses().into_iter().map(|a| nest.access(a)).filter(|a| copy.serves(a)) {
            *moves.get_or_insert(false) |= access.index.iter().any(|i| i.coefficient(digit.axis) != 0);
        }
    });
    moves
}

impl Nest {
    /// An index as the loops inside of a copy give it; `None` where one at run time moves it.
    pub(crate) fn element_index(
        &self,
        index: &[Affine],
        loops: impl Iterator<Item = LoopAt> + Clone,
    ) -> Option<ElementIndex> {
        let dimension = |index: &Affine| {
            let (mut movers, mut constant) = (BTreeMap::new(), index.constant);
            for (digit, at, point) in loops.clone() {
                let c = index.coefficient(digit.axis);
                if c == 0 || digit.steps == Steps::Fixed(1) {
                    continue;
                }
                let mover = match at {
                    LoopKind::Unit(Unit::Block, _) => Mover::Block(digit),
                    LoopKind::Unit(unit, dim) => Mover::Unit(unit, dim, self.skew.get(&digit).copied()),
                    _ => {
                        constant += c * point?;
                        continue;
                    }
                };
                *movers.entry(mover).or_insert(0) += c * i64::from(digit.stride);
            }
            Some((movers, constant))
        };
        index.iter().map(dimension).collect::<Option<_>>().map(ElementIndex)
    }

    /// The copies in registers, each with the sets of registers that it has and what reads it, in program order.
    pub(crate) fn held_copies(&self) -> Vec<(CopyId, u32, &Stmt)> {
        let mut found = Vec::new();
        with_paths(&self.body, &mut |path, stmt| {
            let Stmt::Stage { copy, body } = stmt else { return };
            let around = path.iter().rfind(|frame| !matches!(frame, Frame::Stage(_)));
            let sets = match around {
                Some(Frame::For(_, LoopKind::Pipe(sets))) => (*sets).max(1),
                _ => 1,
            };
            if self.copy(*copy).space == Space::Register {
                found.push((*copy, sets, &**body));
            }
        });
        found
    }
}

//! The fragments: which registers each copy in registers has.

use crate::nest::{CopyId, Digit, Fragment, Frame, LoopKind, Nest, Stmt, chain, leaves};
use std::rc::Rc;

/// The registers of a copy at one of its places.
#[derive(Clone, Debug)]
pub(crate) struct HeldCopy {
    /// The copy.
    pub copy: CopyId,
    /// Which of its places, in program order.
    pub place: usize,
    /// Sets of registers: as many as its pipeline has stages.
    pub sets: u32,
    /// The elements of a set.
    pub layout: Rc<Fragment>,
    /// Which of its places has the registers: the first of those in which a thread holds as many elements.
    pub set: usize,
}

impl HeldCopy {
    /// Registers of all sets.
    pub fn slots(&self) -> u32 {
        self.layout.slots.saturating_mul(self.sets)
    }
}

/// Why a copy has no registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unheld {
    /// A loop would index them at run time.
    RunTime(CopyId, Digit, Option<LoopKind>),
    /// Nothing reads it.
    Unread(CopyId),
}

impl Unheld {
    /// The copy.
    pub fn copy(self) -> CopyId {
        match self {
            Unheld::RunTime(copy, ..) | Unheld::Unread(copy) => copy,
        }
    }

    /// In words.
    pub fn text(self, nest: &Nest) -> String {
        let name = nest.copy_name(self.copy());
        match self {
            Unheld::RunTime(_, digit, at) => {
                let which = if matches!(at, Some(LoopKind::Pipe(_))) { "a pipelined loop" } else { "a loop" };
                format!(
                    "`{name}` is held in registers over `{}`, which {which} steps through: registers are addressed while compiling",
                    nest.digit_name(digit)
                )
            }
            Unheld::Unread(_) => format!("nothing reads the fragment of `{name}`"),
        }
    }
}

/// The copies of a nest in registers, in program order; each with the reason where it has none.
#[derive(Clone, Debug)]
pub(crate) struct Fragments(Vec<Result<HeldCopy, Unheld>>);

impl Fragments {
    /// Those of a nest.
    pub fn of(nest: &Nest) -> Fragments {
        let mut found: Vec<Result<HeldCopy, Unheld>> = Vec::new();
        for (copy, sets, body) in nest.held_copies() {
            let place = found.iter().filter(|of| copy_of(of) == copy).count();
            let mut held = held(nest, (copy, place), sets, body);
            if let Ok(held) = &mut held {
                let mut before = found.iter().flatten().filter(|other| other.copy == copy);
                held.set =
                    before.find(|other| other.slots() == held.slots()).map_or(place, |other| other.place);
            }
            found.push(held);
        }
        Fragments(found)
    }

    /// The first reason for which a copy has no registers.
    pub fn unheld(&self) -> Option<Unheld> {
        self.0.iter().find_map(|held| held.as_ref().err().copied())
    }

    /// Those of a copy, one for each of its places.
    pub fn of_copy(&self, copy: CopyId) -> impl Iterator<Item = Result<&HeldCopy, Unheld>> {
        let own = self.0.iter().filter(move |of| copy_of(of) == copy);
        own.map(|held| held.as_ref().map_err(|why| *why))
    }

    /// That of a copy around a body.
    pub fn get(&self, nest: &Nest, copy: CopyId, body: &Stmt) -> Option<&HeldCopy> {
        let place = match self.of_copy(copy).count() {
            1 => 0,
            _ => nest.bodies(copy).into_iter().position(|other| chain(other).1 == chain(body).1)?,
        };
        self.of_copy(copy).flatten().find(|held| held.place == place)
    }
}

/// The copy that registers, or the reason why there are none, are of.
fn copy_of(of: &Result<HeldCopy, Unheld>) -> CopyId {
    of.as_ref().map_or_else(|why| why.copy(), |held| held.copy)
}

fn held(nest: &Nest, (copy, place): (CopyId, usize), sets: u32, body: &Stmt) -> Result<HeldCopy, Unheld> {
    if let Some((digit, at)) = piped(nest, copy) {
        return Err(Unheld::RunTime(copy, digit, Some(at)));
    }
    let layout = Fragment::of(nest, copy, body).map_err(|digit| Unheld::RunTime(copy, digit, None))?;
    if layout.slots == 0 {
        return Err(Unheld::Unread(copy));
    }
    Ok(HeldCopy { copy, place, sets, layout: Rc::new(layout), set: place })
}

/// A pipelined loop inside a copy in registers that moves what is read of it.
fn piped(nest: &Nest, copy: CopyId) -> Option<(Digit, LoopKind)> {
    let mut found = None;
    leaves(&nest.body, &mut |path, leaf| {
        let Some(inside) = path.iter().position(|f| *f == Frame::Stage(copy)) else { return };
        let Some((_, expr)) = leaf.leaf() else { return };
        for access in expr.accesses().into_iter().filter(|access| nest.serves(copy, *access)) {
            let index = &nest.access(access).index;
            found = found.or(path[inside..].iter().filter_map(Frame::step).find(|(digit, at)| {
                let moves = index.iter().any(|i| i.coefficient(digit.axis) != 0);
                moves && matches!(at, LoopKind::Pipe(_))
            }));
        }
    });
    found
}

//! Pipelines of registers: whether they are prefetched across the iterations of the channel around them, and how their loads and
//! that channel's copies are spread over the computation.
//!
//! Accesses that are issued one behind the other queue for the memory pipe while the arithmetic units wait (Volkov and
//! Demmel 2008, on prefetching into registers), so they are spread; [`Interleave`] says over which part of it. Where registers are
//! not prefetched across iterations, [`Carry`] says why.

use super::{CopyId, Digit, LoopKind, Nest, Step, Steps, Stmt, chain};
use crate::machine::{Space, Unit, Via};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A part of a whole: `3/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fraction {
    /// So many.
    pub parts: u32,
    /// Of so many.
    pub of: u32,
}

impl Fraction {
    /// That part of a number, rounded down.
    pub(crate) fn floor(self, n: usize) -> usize {
        (n as u64 * u64::from(self.parts) / u64::from(self.of.max(1))) as usize
    }

    /// Whether it is a part of the whole, and not nothing.
    pub(crate) fn is_part(self) -> bool {
        (1..=self.of).contains(&self.parts)
    }

    /// Whether it is less than another.
    pub(crate) fn is_below(self, other: Fraction) -> bool {
        u64::from(self.parts) * u64::from(other.of) < u64::from(other.parts) * u64::from(self.of)
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.parts, self.of)
    }
}

/// How memory accesses stand among the computation on registers that are loaded ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interleave {
    /// The loads of a step to come: spread over this first part of the computation. Later ones have no time to arrive.
    pub loads: Fraction,
    /// Copies for the stage ahead of the channel around: issued over this first part of the steps, where registers are prefetched across iterations.
    pub copies: Fraction,
    /// Copies among them that pass through registers: stored from this part of the steps on.
    pub stores: Fraction,
}

impl Default for Interleave {
    /// Parts of whatever the loop has: a load has the later 5/8 of a step's computation to arrive in, a copy the later three quarters
    /// of the steps, and what it loaded is stored in their second half. They were the fastest of those tried on a product of f32 on
    /// CUDA cores; nothing in them depends on its extents or its type. A kernel that gains by others says them.
    fn default() -> Self {
        let part = |parts, of| Fraction { parts, of };
        Interleave { loads: part(3, 8), copies: part(1, 4), stores: part(1, 2) }
    }
}

impl Nest {
    /// How accesses stand among the computation in a loop with a pipeline of registers.
    pub(crate) fn interleave(&self, digit: Digit) -> Interleave {
        self.interleaved.get(&digit).copied().unwrap_or_default()
    }

    /// What some copies are of: "`a`, `b`".
    pub(crate) fn copied(&self, copies: &[CopyId]) -> String {
        let names: Vec<String> = copies.iter().map(|c| format!("`{}`", self.copy_name(*c))).collect();
        names.join(", ")
    }

    /// Whether a copy is made by `cp.async`, where vectors may be used or not: elements of two bytes are too narrow for it
    /// by themselves.
    pub(crate) fn is_asynchronous(&self, copy: CopyId, vectors: bool) -> bool {
        let info = self.copy(copy);
        let elem = self.elem(info.tensor).bytes();
        let vector = info.vector.filter(|_| vectors).unwrap_or(elem).max(elem);
        info.via == Via::CpAsync && matches!(vector, 4 | 8 | 16)
    }

    /// The pipelines of registers over a digit, in program order.
    pub(crate) fn register_pipelines(&self, digit: Digit) -> Vec<Prefetch<'_>> {
        let mut found = Vec::new();
        prefetches(self, &self.body, digit, &None, &mut found);
        found
    }
}

/// A pipeline of registers.
#[derive(Clone, Debug)]
pub(crate) struct Prefetch<'s> {
    /// The copies of the pipelined loop around it, and what reads their stages.
    pub around: Option<(Vec<CopyId>, &'s Stmt)>,
    /// What reads the registers.
    pub inner: &'s Stmt,
}

fn prefetches<'s>(
    nest: &Nest,
    stmt: &'s Stmt,
    of: Digit,
    around: &Option<(Vec<CopyId>, &'s Stmt)>,
    found: &mut Vec<Prefetch<'s>>,
) {
    match stmt {
        Stmt::For { digit, at: LoopKind::Pipe(2..), body } => {
            let (copies, inner) = chain(body);
            if !copies_to_registers(nest, body) {
                return prefetches(nest, inner, of, &Some((copies, inner)), found);
            }
            if *digit == of {
                found.push(Prefetch { around: around.clone(), inner });
            }
            prefetches(nest, inner, of, around, found);
        }
        other => other.parts().for_each(|part| prefetches(nest, part, of, around, found)),
    }
}

/// Sets of registers of a pipeline that is prefetched across iterations: one is read, one is loaded. Only the last step loads from
/// the next stage, behind the one barrier of an iteration.
pub(crate) const CARRIED_SETS: u32 = 2;

/// A pipeline of registers in each step of a channel, and whether it is prefetched across iterations.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Carry<'s> {
    /// There is none.
    None,
    /// It runs empty at the end of each step, because of this.
    Apart(String),
    /// It is prefetched across iterations: its last step fills the registers that the first step of the next item reads.
    Over(RegisterPipeline<'s>),
}

/// A pipeline of registers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RegisterPipeline<'s> {
    /// The loops between it and the channel across whose iterations it is prefetched, all bound to units.
    pub units: Vec<Step>,
    pub digit: Digit,
    pub steps: u32,
    /// Sets of registers.
    pub sets: u32,
    pub copies: Vec<CopyId>,
    pub inner: &'s Stmt,
}

impl<'s> Carry<'s> {
    /// What becomes of the registers that are filled in each step of a channel with these copies, of which `body` reads the stages.
    pub fn of(nest: &Nest, filled: &[CopyId], body: &'s Stmt) -> Carry<'s> {
        let Some(pipeline) = registers(nest, body) else { return Carry::None };
        let Stmt::For { digit, at: LoopKind::Pipe(sets), body: copied } = pipeline else {
            return Carry::None;
        };
        if filled.iter().any(|c| nest.copy(*c).via == Via::Tma) {
            return Carry::Apart(format!(
                "{} are copied by tensor maps, which one thread issues: no copies are left to spread over its steps",
                nest.copied(filled)
            ));
        }
        let mut units = Vec::new();
        let mut at = body;
        while !std::ptr::eq(at, pipeline) {
            match at {
                Stmt::For { digit, at: how @ LoopKind::Unit(unit, _), body } if *unit != Unit::Block => {
                    units.push((*digit, *how));
                    at = body;
                }
                Stmt::For { digit, .. } => {
                    let between = nest.digit_name(*digit);
                    return Carry::Apart(format!(
                        "`{between}` stands between, which is not bound to a unit: each of its steps starts the registers anew"
                    ));
                }
                _ => return Carry::Apart("other statements stand between".into()),
            }
        }
        if *sets != CARRIED_SETS {
            return Carry::Apart(format!(
                "it has {sets} sets of registers, not {CARRIED_SETS}: more would be loaded ahead of the barrier before its last step"
            ));
        }
        let (copies, inner) = chain(copied);
        let Steps::Fixed(steps) = digit.steps else { return Carry::None };
        if !steps.is_multiple_of(CARRIED_SETS) {
            return Carry::Apart(format!(
                "it has {steps} steps, no multiple of its {CARRIED_SETS} sets: its first step would find its registers in another set each time"
            ));
        }
        // Behind the barrier before the last step nobody reads the stage any more, so that it can be filled.
        let held = |c: &CopyId| {
            let accesses = nest.copied_accesses(*c);
            accesses.iter().all(|read| copies.iter().any(|own| nest.copy(*own).serves(read)))
        };
        if let Some(other) = filled.iter().find(|c| !held(c)) {
            let name = nest.copy_name(*other);
            return Carry::Apart(format!(
                "`{name}` is read from its stage in its last step, too, when that is filled again"
            ));
        }
        Carry::Over(RegisterPipeline { units, digit: *digit, steps, sets: *sets, copies, inner })
    }
}

/// Whether the copies directly around a statement go to registers.
pub(crate) fn copies_to_registers(nest: &Nest, stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::Stage { copy, .. } if nest.copy(*copy).space == Space::Register)
}

/// The first pipeline of registers in a statement.
fn registers<'s>(nest: &Nest, stmt: &'s Stmt) -> Option<&'s Stmt> {
    match stmt {
        Stmt::For { at: LoopKind::Pipe(2..), body, .. } if copies_to_registers(nest, body) => Some(stmt),
        other => other.parts().find_map(|part| registers(nest, part)),
    }
}

//! The environment: which digits the enclosing loops bind, and what each contributes to its axis.

use super::{Lowerer, linear::Linear};
use crate::{
    index::{Affine, AxisId},
    kernel::Var,
    nest::{Digit, Ends, LoopKind, Step, Steps, ends},
    program::Variant,
    schedule::Unit,
};

/// A digit bound by an enclosing loop.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    pub digit: Digit,
    pub at: LoopKind,
    /// Its contribution in points of the axis: a number where the loop is expanded.
    pub value: Linear,
    /// Of an expanded loop that is being walked: which of its steps this is, in the order of the walk, and of how many.
    pub pass: Option<(u32, u32)>,
}

/// A loop at run time that runs backwards for some tiles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passing {
    pub digit: Digit,
    /// Points of the steps before the current one, whichever way the loop runs.
    pub passed: Var,
}

/// In which order the steps of expanded loops are taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StepOrder {
    /// As the schedule says, backwards every second time where a loop is serpentine. All roles walk so: their n-th steps meet.
    Scheduled,
    /// By their points.
    Points,
}

/// How the threads at hand take the steps of a loop.
pub(super) enum Taken {
    /// Theirs alone, by its number: a CTA, a warp or a lane has one.
    One(Linear),
    /// One after the other in straight-line code.
    Each(Vec<Linear>),
    /// By a loop at run time.
    Loop,
}

impl Bound {
    pub fn new(digit: Digit, at: LoopKind, value: Linear) -> Self {
        Bound { digit, at, value, pass: None }
    }

    /// The contribution, where the loop is expanded.
    pub fn fixed(&self) -> Option<i64> {
        self.value.terms.is_empty().then_some(self.value.constant)
    }
}

impl Lowerer<'_> {
    /// How the threads at hand take the steps of a loop that is neither an atom's nor a ring's.
    pub fn taken(&mut self, digit: Digit, at: LoopKind) -> Taken {
        match (at, digit.steps) {
            (LoopKind::Unit(Unit::Block, _), _) => {
                Taken::One(self.grid.values.get(&digit).cloned().unwrap_or_default())
            }
            (LoopKind::Unit(unit, dim), _) => Taken::One(self.unit_value(unit, dim, digit)),
            (at, Steps::Fixed(steps)) if at.is_expanded() => Taken::Each(self.expanded(digit, steps)),
            (LoopKind::Seq, Steps::Fixed(1)) => Taken::One(Linear::default()),
            _ => Taken::Loop,
        }
    }

    /// What each step of an expanded loop contributes: of one that CTAs share out, those of this CTA.
    fn expanded(&self, digit: Digit, steps: u32) -> Vec<Linear> {
        let steps = match self.in_tile(digit).steps {
            Steps::Fixed(steps) => steps,
            Steps::Rest => steps,
        };
        let point = |step: u32| Linear::constant(i64::from(step) * i64::from(digit.stride));
        match self.share.filter(|s| s.digit == digit) {
            None => (0..steps).map(point).collect(),
            Some(share) => (0..steps / share.ctas).map(|step| share.step(point(step))).collect(),
        }
    }

    /// Whether a serpentine loop that starts here runs backwards: every second time that it is entered from the outermost
    /// serpentine loop around it, which runs forwards.
    pub fn enters_backwards(&self) -> bool {
        let outermost = self.stack.iter().position(|b| b.at == LoopKind::Serpentine && b.pass.is_some());
        let passes = outermost.map_or(&[][..], |from| &self.stack[from..]).iter().filter_map(|b| b.pass);
        passes.fold(0, |odd, (step, steps)| (odd * (steps & 1) + step) & 1) == 1
    }

    /// Of a loop at run time, the points of the steps before the current one, whichever way it runs.
    pub fn passed(&self, bound: &Bound) -> Linear {
        match self.passing.iter().rev().find(|p| p.digit == bound.digit) {
            Some(passing) => Linear::var(passing.passed),
            None => bound.value.clone(),
        }
    }

    /// Value of an axis: what the digits bound at `from` and inside contribute.
    pub fn axis_from(&self, axis: AxisId, from: usize) -> Linear {
        let mut sum = Linear::default();
        for bound in self.stack[from..].iter().filter(|b| b.digit.axis == axis) {
            sum.add_scaled(&bound.value, 1);
        }
        sum
    }

    /// Value of an index without its constant, from the digits bound at `from` and inside.
    pub fn index_from(&self, index: &Affine, from: usize) -> Linear {
        let mut sum = Linear::default();
        for (axis, c) in &index.terms {
            sum.add_scaled(&self.axis_from(*axis, from), *c);
        }
        sum
    }

    /// Value of an index.
    pub fn index(&self, index: &Affine) -> Linear {
        let mut sum = self.index_from(index, 0);
        sum.constant += index.constant;
        sum
    }

    /// Digits bound by the enclosing loops, as these run.
    pub fn digits(&self) -> Vec<Digit> {
        let steps: Vec<Step> = self.stack.iter().map(|b| (b.digit, b.at)).collect();
        let run = self.nest.as_run(&steps).into_iter().zip(&steps);
        run.map(|(run, (digit, _))| if self.known_to_fill(digit.axis) { *digit } else { run }).collect()
    }

    /// A digit as a loop over it runs.
    pub fn run_time(&self, step: Step) -> Digit {
        if self.known_to_fill(step.0.axis) { step.0 } else { self.nest.at_run_time(step) }
    }

    /// Whether an axis with a bound has all points that its loops take, which the exact variant assumes where a statement takes
    /// points of it.
    fn known_to_fill(&self, axis: AxisId) -> bool {
        self.variant == Variant::Exact && !self.nest.recurrences.contains_key(&axis)
    }

    /// Whether these digits reach points at or beyond the extent of the axis.
    pub fn ragged(&self, axis: AxisId, digits: &[Digit]) -> bool {
        match ends(self.nest, axis, digits) {
            Ends::Always => false,
            Ends::Never => true,
            Ends::Multiple(_) | Ends::Points(_) => self.variant != Variant::Exact,
        }
    }
}

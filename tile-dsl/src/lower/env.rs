//! The environment: what the loops and the `let`s around the current point bind.

use super::{
    emit::{Atom, Emit},
    grid::Grid,
    layout::Layout,
    linear::Linear,
};
use crate::{
    index::{Affine, AxisId},
    kernel::Var,
    machine::{Unit, UnitDim},
    nest::{CopyId, Digit, Fragment, Frozen, Layout as Slots, LoopKind, Steps, TileSize, Units, ValueId},
    plan::{CopyBox, Join, Place, Sum},
    tile::TensorId,
};
use std::{collections::BTreeMap, rc::Rc};

/// What is around the current point.
pub(super) struct Env<'a> {
    /// The tile at hand, and who computes it.
    pub tile: Tile,
    /// Digits bound by the enclosing loops, outermost first.
    pub stack: Vec<Bound>,
    /// Enclosing loops that run backwards for some tiles.
    pub passing: Vec<Passing>,
    /// Enclosing stages, outermost first.
    pub stages: Vec<Staged<'a>>,
    /// Enclosing copies in registers, outermost first.
    pub fragments: Vec<HeldFragment>,
    /// Values in scope.
    pub held: BTreeMap<ValueId, Held<'a>>,
    /// While the operands of a store are loaded: the condition that this thread is the one that stores.
    pub owner: Option<Atom>,
    /// Each CTA holds a part of what is stored: stores add.
    pub adding: bool,
    /// Axes with limits of whose tile at hand all points count, for all rows at hand.
    pub within: Vec<AxisId>,
    /// Axes all of whose points the tile at hand has: the extent does not cut it.
    pub full: Vec<AxisId>,
    /// While a loop is lowered all of whose steps but the first leave a running maximum as it is.
    pub frozen: Option<&'a Frozen>,
    /// In such a step.
    pub stays: Option<&'a Frozen>,
    /// The condition under which that pass runs, if there is one.
    pub quick: Option<Atom>,
    /// What this CTA of a cluster has of a reduction that it shares.
    pub share: Option<Share>,
}

/// The tile at hand, and who computes it.
pub(super) struct Tile {
    /// The threads that compute it together.
    pub units: Units,
    /// Which of the groups that take tiles in turn.
    pub group: u32,
    /// The threads at hand compute; others copy.
    pub computes: bool,
    /// What loops bound to CTAs contribute.
    pub grid: Grid,
    /// Its size.
    pub size: TileSize,
    /// Of a persistent CTA, whether it is every second one.
    pub odd: Option<Atom>,
    /// Of a persistent CTA, what tells its tiles apart: the counter of its loop over them, or the place of the tile's number.
    pub counter: Option<Atom>,
    /// Which pass over its tiles a CTA is in.
    pub pass: Pass,
    /// Of a persistent CTA of several problems, its number among those of all.
    pub number: Option<Atom>,
    /// Of a CTA with one tile of several problems, its number among those of its problem.
    pub in_problem: Option<Atom>,
    /// Where CTAs look back, the scratch parameter with the words of steps.
    pub words: Option<u32>,
}

/// Which pass over its tiles a CTA is in: a running maximum that stays (`super::freeze`) makes two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// The only one, or the one that computes tiles again: steps do all that they say.
    Exact,
    /// The first one.
    Quick,
}

impl Tile {
    /// A tile that one group computes, of the size that most have.
    pub fn new(units: Units, grid: Grid, in_problem: Option<Atom>) -> Self {
        Tile {
            units,
            group: 0,
            computes: true,
            grid,
            size: TileSize::Whole,
            odd: None,
            counter: None,
            pass: Pass::Exact,
            number: None,
            in_problem,
            words: None,
        }
    }
}

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

impl Bound {
    pub fn new(digit: Digit, at: LoopKind, value: Linear) -> Self {
        Bound { digit, at, value, pass: None }
    }

    /// The contribution, where the loop is expanded.
    pub fn fixed(&self) -> Option<i64> {
        self.value.terms.is_empty().then_some(self.value.constant)
    }
}

/// A stage around the current point.
#[derive(Clone, Debug)]
pub(super) struct Staged<'p> {
    /// What the copy holds.
    pub of: &'p CopyBox,
    pub tensor: TensorId,
    pub buffer: u32,
    /// Digits bound outside of it.
    pub height: usize,
    pub layout: Layout,
    /// Offset of the ring stage to read.
    pub stage: Linear,
}

impl Staged<'_> {
    /// Variable and constant part of an offset into the stage that is read.
    pub fn place(&self, emit: &mut Emit, offset: &Linear) -> (Option<Atom>, i64) {
        self.layout.place(emit, &offset.clone().plus(&self.stage))
    }

    /// The same before the swizzle: where a descriptor starts.
    pub fn start(&self, emit: &mut Emit, offset: &Linear) -> (Option<Atom>, i64) {
        let at = self.layout.start(emit, &offset.clone().plus(&self.stage));
        emit.index_base(&at)
    }
}

/// A fragment around the current point.
#[derive(Clone)]
pub(super) struct HeldFragment {
    pub copy: CopyId,
    pub frag: u32,
    pub layout: Rc<Fragment>,
    /// First slot of the set that is read.
    pub first: u32,
    pub height: usize,
}

/// A value in scope.
#[derive(Clone, Debug)]
pub(super) struct Held<'a> {
    /// Digits bound outside its `let`.
    pub height: usize,
    /// Loops at run time outside its `let`.
    pub loops: usize,
    /// Where it lives.
    pub place: &'a Place,
    /// How its parts come together, if it has any.
    pub sum: Option<&'a Sum>,
    pub registers: Option<Registers<'a>>,
    /// The registers of what lanes exchanged of it.
    pub joined: Option<(u32, &'a Join)>,
    pub shared: Option<SharedBox>,
}

/// A value in registers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registers<'a> {
    pub frag: u32,
    pub slots: u32,
    pub layout: &'a Slots,
}

/// A value in shared memory.
#[derive(Clone, Debug)]
pub(super) struct SharedBox {
    pub buffer: u32,
    /// Weight of a point of each axis, in elements.
    pub pitches: BTreeMap<AxisId, i64>,
    /// While partial results accumulate here: the units that hold them, and this thread's place among them.
    pub partial: Vec<(Unit, UnitDim)>,
    pub place: Linear,
}

/// The steps of a digit that this CTA has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub digit: Digit,
    /// CTAs that share it.
    pub ctas: u32,
    /// This one's number.
    pub rank: Atom,
}

impl Share {
    /// A step of this CTA, given the same step of the first one.
    pub fn step(&self, first: Linear) -> Linear {
        let Steps::Fixed(steps) = self.digit.steps else { return first };
        let wide = i64::from(steps / self.ctas) * i64::from(self.digit.stride);
        let mut point = first;
        if let Atom::Var(rank) = self.rank {
            point.add_scaled(&Linear::var(rank), wide);
        }
        point
    }
}

impl<'a> Env<'a> {
    /// That of a tile, outside of all loops.
    pub fn new(tile: Tile) -> Self {
        Env {
            tile,
            stack: Vec::new(),
            passing: Vec::new(),
            stages: Vec::new(),
            fragments: Vec::new(),
            held: BTreeMap::new(),
            owner: None,
            adding: false,
            within: Vec::new(),
            full: Vec::new(),
            frozen: None,
            stays: None,
            quick: None,
            share: None,
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

    /// Whether a value is not computed in this step.
    pub fn is_left_out(&self, value: ValueId) -> bool {
        self.stays.is_some_and(|frozen| frozen.unused.contains(&value) || frozen.value == value)
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
}

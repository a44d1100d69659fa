//! Layouts: where each element of a value lies, and which of a thread's slots it is.
//!
//! ```text
//! Layout ::= Digit* ; outermost loop first
//! Where  ::= unit.dim   ; other threads hold the other steps
//!          | slot       ; each step has a register, or a place in shared memory, of its own
//! ```
//! The loops around the statement that computes a value take its axes apart into digits; those of an atom fall into the
//! digits of the instruction ([`super::parts`]). A unit that no digit mentions holds a replica. Two statements that touch
//! a value in registers must see the same layout: neighbouring digits in slots are one digit then, because slots are told
//! apart by the points that they hold.
//! The digits are those of Triton's linear layouts (Zhou et al., 2025) with strides that need be no powers of two.

use super::{
    CopyId, Digit, Frame, LoopKind, Nest, Placement, Step, Steps, Stmt, Target, ValueId, leaves, parts,
    value_box, writers,
};
use crate::{
    index::AxisId,
    machine::{Space, Unit, UnitDim},
};
use std::{
    cmp::Reverse,
    collections::BTreeSet,
    fmt::{self, Write},
};

/// Where the steps of a digit lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Where {
    /// In different units of the grid or CTA.
    Unit(Unit, UnitDim),
    /// In different registers of a thread, or places in shared memory.
    Slot,
}

/// Where the elements of a value lie.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Layout {
    /// The digits of its axes with more than one step.
    pub(crate) digits: Vec<(Digit, Where)>,
}

/// The loops over a value's own axes from `first` of its `let` to each statement that computes it.
pub(crate) fn own_loops_of_all(nest: &Nest, value: ValueId, first: &Stmt) -> Vec<Vec<Step>> {
    let axes = &nest.value(value).axes;
    let own = |loops: Vec<Step>| -> Vec<Step> {
        loops.into_iter().flat_map(|(d, at)| parts(d, at)).filter(|(d, _)| axes.contains(&d.axis)).collect()
    };
    writers(nest, first, value).into_iter().map(own).collect()
}

/// Those to the first of these statements: they say where the value lies.
pub(crate) fn own_loops(nest: &Nest, value: ValueId, first: &Stmt) -> Vec<Step> {
    own_loops_of_all(nest, value, first).into_iter().next().unwrap_or_default()
}

/// A digit held across the coordinates of a unit: unit, stride of the digit, steps.
pub(crate) type Spread = (Unit, UnitDim, u32, Steps);

impl Layout {
    /// That of a value that `first` of its `let` computes.
    pub fn of(nest: &Nest, value: ValueId, first: &Stmt) -> Layout {
        Layout::new(nest, value, own_loops(nest, value, first))
    }

    /// That of a value, given the loops around it as one thread sees them.
    pub fn new(nest: &Nest, value: ValueId, loops: impl IntoIterator<Item = (Digit, LoopKind)>) -> Layout {
        let axes = &nest.value(value).axes;
        let own = |(d, _): &(Digit, LoopKind)| axes.contains(&d.axis) && d.steps != Steps::Fixed(1);
        let place = |(d, at)| {
            (d, if let LoopKind::Unit(unit, dim) = at { Where::Unit(unit, dim) } else { Where::Slot })
        };
        Layout { digits: loops.into_iter().filter(own).map(place).collect() }
    }

    /// The digits and where they lie, outermost loop first.
    pub fn digits(&self) -> &[(Digit, Where)] {
        &self.digits
    }

    /// Elements of the CTA's tile; a digit without a fixed number of steps counts once.
    pub fn elements(&self) -> u64 {
        count(self.digits.iter())
    }

    /// Elements that one thread holds in registers.
    pub fn slots(&self) -> u64 {
        count(self.digits.iter().filter(|(_, at)| *at == Where::Slot))
    }

    /// What a point along an axis, so far from the first that a thread holds, adds to the number of its slot: slots of the
    /// innermost loop follow one another. `None` if no slot holds it.
    pub fn slot(&self, axis: AxisId, offset: i64) -> Option<u32> {
        let (mut own, mut weight) = (Vec::new(), 1u64);
        for (digit, _) in self.digits.iter().rev().filter(|(_, at)| *at == Where::Slot) {
            if digit.axis == axis {
                own.push((*digit, weight));
            }
            weight = weight.saturating_mul(steps(*digit));
        }
        own.sort_by_key(|(digit, _)| Reverse(digit.stride));
        let (mut rest, mut slot) = (u64::try_from(offset).ok()?, 0);
        for (digit, weight) in own {
            let step = rest / u64::from(digit.stride);
            if step >= steps(digit) {
                return None;
            }
            rest -= step * u64::from(digit.stride);
            slot += step * weight;
        }
        u32::try_from(slot).ok().filter(|_| rest == 0)
    }

    /// The slots of a thread's elements less than so many points along an axis from its first.
    pub(crate) fn slots_below(&self, axis: AxisId, points: u32) -> Vec<u32> {
        let held = |slot: &u32| {
            let (mut rest, mut at) = (u64::from(*slot), 0);
            for (digit, _) in self.digits.iter().rev().filter(|(_, at)| *at == Where::Slot) {
                let step = rest % steps(*digit);
                rest /= steps(*digit);
                at += if digit.axis == axis { step * u64::from(digit.stride) } else { 0 };
            }
            at < u64::from(points)
        };
        (0..self.slots() as u32).filter(held).collect()
    }

    /// How an axis is spread over units.
    pub(crate) fn spread(&self, axis: AxisId) -> BTreeSet<Spread> {
        let own = self.digits.iter().filter(|(digit, _)| digit.axis == axis);
        own.filter_map(|(digit, at)| match at {
            Where::Unit(unit, dim) => Some((*unit, *dim, digit.stride, digit.steps)),
            Where::Slot => None,
        })
        .collect()
    }

    /// Whether each thread finds each element in the same place in both.
    pub fn agrees(&self, other: &Layout) -> bool {
        self.merged() == other.merged()
    }

    /// In one order, neighbouring digits in slots as one.
    fn merged(&self) -> Vec<(Digit, Where)> {
        let mut sorted = self.digits.clone();
        sorted.sort();
        sorted.dedup();
        let mut out: Vec<(Digit, Where)> = Vec::new();
        for (digit, at) in sorted {
            let below = out.iter_mut().rev().find(|(d, w)| d.axis == digit.axis && *w == Where::Slot);
            match (below, digit.steps) {
                (Some((below, _)), Steps::Fixed(n))
                    if at == Where::Slot
                        && u64::from(below.stride).saturating_mul(steps(*below))
                            == u64::from(digit.stride) =>
                {
                    below.steps = Steps::Fixed((steps(*below) as u32).saturating_mul(n));
                }
                _ => out.push((digit, at)),
            }
        }
        out.sort();
        out
    }

    /// A digit that lies elsewhere in the other.
    pub fn difference(&self, other: &Layout) -> Option<Digit> {
        let apart = |a: &Layout, b: &Layout| {
            let mut digits: Vec<Digit> =
                a.digits.iter().filter(|d| !b.digits.contains(d)).map(|(d, _)| *d).collect();
            digits.sort();
            digits.first().copied()
        };
        apart(self, other).or_else(|| apart(other, self))
    }

    /// "`i.row` on lane.y, `i.half` in registers".
    pub fn show(&self, nest: &Nest) -> String {
        let mut sorted = self.digits.clone();
        sorted.sort();
        sorted.dedup();
        listed(&sorted, "every thread", |digit, at| match at {
            Where::Unit(..) => format!("`{}` on {at}{}", nest.digit_name(digit), nest.print_skew(digit)),
            Where::Slot => format!("`{}` in registers", nest.digit_name(digit)),
        })
    }

    /// As the printed nest has it: "i.row lane.y, j.o lane.z^x, i.half register".
    fn plain(&self, nest: &Nest) -> String {
        let show = |digit, at| match at {
            Where::Unit(..) => format!("{} {at}{}", nest.digit_name(digit), nest.print_skew(digit)),
            Where::Slot => format!("{} {at}", nest.digit_name(digit)),
        };
        listed(&self.digits, "a replica in each", show)
    }
}

impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Where::Unit(unit, dim) => write!(f, "{unit}.{dim}"),
            Where::Slot => f.write_str("register"),
        }
    }
}

/// What `show` says of each digit; `none` if there are none.
fn listed(digits: &[(Digit, Where)], none: &str, show: impl Fn(Digit, Where) -> String) -> String {
    let parts: Vec<String> = digits.iter().map(|(digit, at)| show(*digit, *at)).collect();
    if parts.is_empty() { none.into() } else { parts.join(", ") }
}

fn count<'d>(digits: impl Iterator<Item = &'d (Digit, Where)>) -> u64 {
    digits.fold(1, |n, (digit, _)| n.saturating_mul(steps(*digit)))
}

fn steps(digit: Digit) -> u64 {
    if let Steps::Fixed(n) = digit.steps { n.into() } else { 1 }
}

impl Nest {
    /// The layouts that a leaf statement sees a value in, given the frames from the value's `let` inward: that of what it
    /// writes first.
    pub fn layouts(&self, path: &[Frame], leaf: &Stmt, value: ValueId) -> Vec<Layout> {
        self.views(path, leaf, value).into_iter().map(|loops| Layout::new(self, value, loops)).collect()
    }

    /// Position on a path of the frame of the innermost `let` that binds a value.
    pub fn binder(path: &[Frame], value: ValueId) -> Option<usize> {
        path.iter().rposition(|f| matches!(f, Frame::First(vs) | Frame::Rest(vs) if vs.contains(&value)))
    }

    /// The layout of each value and each copy in shared memory, a line each, in the order in which the nest computes them.
    /// Indices of copies count from the corner of their box.
    pub fn print_layouts(&self) -> String {
        let mut out = String::new();
        let (mut values, mut copies): (Vec<ValueId>, Vec<CopyId>) = Default::default();
        leaves(&self.body, &mut |path, leaf| {
            for (n, frame) in path.iter().enumerate() {
                if let Frame::Stage(copy) = frame
                    && !copies.contains(copy)
                    && let Some(body) = self.body.inside(&path[..=n])
                {
                    copies.push(*copy);
                    let outer = path[..n].iter().rev().find(|f| !matches!(f, Frame::Stage(_)));
                    self.print_copy_layout(&mut out, *copy, body, outer);
                }
            }
            if let Some((Target::Value(v), _)) = leaf.leaf()
                && !values.contains(&v)
                && let Some(at) = Nest::binder(path, v)
            {
                values.push(v);
                let layouts = self.layouts(&path[at..], leaf, v);
                let layout = layouts.first().cloned().unwrap_or_default();
                let _ = match (self.value(v).placement, self.elements_in_shared(v)) {
                    (Placement::Shared, Some(elements)) => {
                        writeln!(out, "; {}: shared, {elements} elements", self.value(v).name)
                    }
                    (Placement::Shared, None) => writeln!(out, "; {}: shared", self.value(v).name),
                    (Placement::Register, _) => {
                        let slots = layout.slots();
                        writeln!(out, "; {}: {slots} a thread; {}", self.value(v).name, layout.plain(self))
                    }
                };
            }
        });
        if self.cluster_reduces() {
            let ctas = self.cluster_ctas();
            let _ = match self.share() {
                Some(d) => {
                    let (name, all) = (self.digit_name(d), steps(d));
                    writeln!(
                        out,
                        "; then each of {ctas} CTAs has {} of {all} steps of {name}",
                        all / u64::from(ctas)
                    )
                }
                None => writeln!(out, "; then the first of {ctas} CTAs has all"),
            };
        }
        out
    }

    /// Elements that a value has in shared memory, from its first `let` of fixed size on.
    fn elements_in_shared(&self, value: ValueId) -> Option<u64> {
        let boxed = |(v, first): (ValueId, &Stmt)| {
            if v == value { value_box(self, v, &own_loops(self, v, first)) } else { None }
        };
        let points = self.lets().into_iter().find_map(boxed)?.points;
        Some(points.into_iter().fold(1, u64::saturating_mul))
    }

    fn print_copy_layout(&self, out: &mut String, copy: CopyId, body: &Stmt, around: Option<&Frame>) {
        let info = self.copy(copy);
        let name = self.copy_name(copy);
        if info.space != Space::Shared {
            let _ = writeln!(out, "; {name}.frag: what each thread reads");
            return;
        }
        let Some(layout) = self.copy_layout(copy, body) else { return };
        let access = self.copied_access(copy, body);
        let dims: Vec<String> = layout
            .order
            .iter()
            .map(|d| (layout.strides[*d], self.print_affine(&access.index[*d])))
            .map(|(stride, index)| match (stride, index.contains(' ')) {
                (1, _) => index,
                (stride, true) => format!("{stride}·({index})"),
                (stride, false) => format!("{stride}·{index}"),
            })
            .collect();
        let _ = write!(out, "; {name}: shared, element {} of {}", dims.join(" + "), layout.elems);
        if info.swizzle > 0 {
            let _ = write!(out, ", swizzle {}", info.swizzle);
        }
        if let Some(Frame::For(_, LoopKind::Pipe(n))) = around {
            let _ = write!(out, ", {n} stages");
        }
        out.push('\n');
    }
}

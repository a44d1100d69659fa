//! What loops reach: the points of an axis that its digits cover, and the values that an index takes.

use super::{Digit, Frame, LoopKind, Nest, Placement, Step, Steps, Target, Value, ValueId, leaves};
use crate::{
    index::{Affine, AxisId, Extent},
    machine::Space,
    tile::AxisKind,
};
use std::collections::BTreeSet;

/// The points of an axis that digits reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cover {
    /// The extent rounded up to a multiple: of a tile, or of a segment of tiles.
    Multiple(i64),
    /// A fixed number.
    Points(i64),
}

/// The points of an axis that digits reach.
pub(crate) fn cover(nest: &Nest, axis: AxisId, digits: &[Digit]) -> Cover {
    let mut points = 1;
    for digit in digits.iter().filter(|d| d.axis == axis) {
        match digit.steps {
            Steps::Rest => return Cover::Multiple(nest.period(*digit).into()),
            Steps::Fixed(n) => points += i64::from(digit.stride) * (i64::from(n) - 1),
        }
    }
    Cover::Points(points)
}

/// Steps of the longest loop whose number of steps is kept under a bound.
const FEW_STEPS: u32 = 8;

impl Nest {
    /// A digit as a loop over it runs. With a bound (`fits`), the outermost digit of an axis has as many steps as the bound needs, which
    /// is how much is held of it. A loop at run time over it ends with the extent all the same: its steps are open.
    ///
    /// What other digits of the axis add is nothing in any step that has points, as this one reaches the bound alone. A loop of few steps
    /// keeps their number: the assembler unrolls it, and what is left out would be little. So does a loop that fills a value in shared
    /// memory of which more is read than there are points.
    pub(crate) fn at_run_time(&self, (digit, at): Step) -> Digit {
        match self.may_end(digit, at) && !self.filled_to_the_bound(digit.axis).contains(&digit) {
            true => Digit { steps: Steps::Rest, ..digit },
            false => digit,
        }
    }

    /// Whether a loop at run time reaches the bound of an inner axis in more than a few steps. A pipeline of registers is none: it is
    /// expanded, all of its steps.
    fn may_end(&self, digit: Digit, at: LoopKind) -> bool {
        let inner = self.kernel.axes[usize::from(digit.axis.0)].kind != AxisKind::Program;
        let held = || self.copies_in(digit).iter().any(|c| self.copy(*c).space == Space::Register);
        match (at, digit.steps, self.bounds.get(&digit.axis)) {
            (LoopKind::Seq | LoopKind::Pipe(_), Steps::Fixed(n), Some(bound)) => {
                let reaches = u64::from(digit.stride) * u64::from(n) >= u64::from(*bound);
                inner && n > FEW_STEPS && reaches && !(matches!(at, LoopKind::Pipe(_)) && held())
            }
            _ => false,
        }
    }

    /// Digits of an axis whose loops fill values in shared memory up to the bound, because a statement reads them so far: one in an
    /// expanded loop, or in one that threads take.
    fn filled_to_the_bound(&self, axis: AxisId) -> BTreeSet<Digit> {
        let holds = |v: &Value| v.placement == Placement::Shared && v.axes.contains(&axis);
        if !self.values.iter().any(holds) {
            return BTreeSet::new();
        }
        let shared = |v: &ValueId| holds(self.value(*v));
        let (mut fills, mut reads) = (Vec::new(), Vec::new());
        leaves(&self.body, &mut |path, leaf| {
            let (target, expr) = leaf.leaf().expect("a leaf");
            let steps = path.iter().filter_map(Frame::step);
            let ending: Vec<Digit> =
                steps.filter(|(d, at)| d.axis == axis && self.may_end(*d, *at)).map(|(d, _)| d).collect();
            reads.extend(expr.values().into_iter().filter(shared).map(|v| (v, ending.clone())));
            if let Target::Value(v) = target
                && shared(&v)
            {
                fills.push((v, ending));
            }
        });
        let mut filled: BTreeSet<Digit> = BTreeSet::new();
        loop {
            // A read ends with the extent if a loop around it does, in no longer steps than that which fills.
            let ends = |by: &Digit, read: &[Digit]| {
                read.iter().any(|d| d.stride <= by.stride && !filled.contains(d))
            };
            let more: Vec<Digit> = fills
                .iter()
                .flat_map(|(v, digits)| digits.iter().map(move |d| (v, d)))
                .filter(|(v, by)| reads.iter().any(|(read, digits)| read == *v && !ends(by, digits)))
                .map(|(_, by)| *by)
                .filter(|by| !filled.contains(by))
                .collect();
            if more.is_empty() {
                return filled;
            }
            filled.extend(more);
        }
    }

    /// The digits of some loops as they run. One that ends with the extent does not say where the loops end if steps of another
    /// digit of its axis lie beyond the bound.
    pub(crate) fn as_run(&self, steps: &[Step]) -> Vec<Digit> {
        let beyond = |digit: Digit| {
            let other = |(d, _): &Step| d.axis == digit.axis && d.stride > digit.stride;
            steps.iter().any(|step| other(step) && step.0.steps != Steps::Fixed(1))
        };
        let run = steps.iter().map(|step| if beyond(step.0) { step.0 } else { self.at_run_time(*step) });
        run.collect()
    }
}

/// Where loops over an axis end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// Where the axis does.
    Always,
    /// Beyond it or before.
    Never,
    /// Where the axis does, if its extent is a multiple.
    Multiple(i64),
    /// Where the axis does, if it has so many points.
    Points(i64),
}

/// Where loops over these digits of an axis end.
pub(crate) fn ends(nest: &Nest, axis: AxisId, digits: &[Digit]) -> Ends {
    let extent = &nest.kernel.axes[usize::from(axis.0)].extent;
    let (known, else_) = match cover(nest, axis, digits) {
        Cover::Multiple(of) => (nest.is_multiple(extent, of), Ends::Multiple(of)),
        Cover::Points(points) => (extent.as_constant().map(|n| n == points), Ends::Points(points)),
    };
    match known {
        Some(true) => Ends::Always,
        Some(false) => Ends::Never,
        None => else_,
    }
}

impl Nest {
    /// Whether an extent is a multiple of a number in every launch, or in none; nothing where it depends on the launch.
    pub(crate) fn is_multiple(&self, extent: &Extent, of: i64) -> Option<bool> {
        // Each term adds a multiple of it.
        let each = |dim: &String| self.multiples.get(dim).map_or(1, |m| i64::from(*m));
        let step = extent.dims.iter().fold(of, |step, (dim, c)| gcd(step, c.saturating_mul(each(dim))));
        match extent.constant % step {
            0 if step == of => Some(true),
            0 => None,
            _ => Some(false),
        }
    }
}

/// Greatest common divisor.
fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a.abs() } else { gcd(b, a % b) }
}

/// Whether loops over digits of an axis take steps that start at or beyond its extent, in any variant.
pub(crate) fn oversteps(nest: &Nest, axis: AxisId, digits: &[Digit]) -> bool {
    let extent = &nest.kernel.axes[usize::from(axis.0)].extent;
    let own = |d: &&Digit| d.axis == axis && d.steps != Steps::Fixed(1);
    let own: Vec<&Digit> = digits.iter().filter(own).collect();
    let last: Option<i64> = own
        .iter()
        .map(|d| match d.steps {
            Steps::Fixed(n) => Some(i64::from(d.stride) * (i64::from(n) - 1)),
            Steps::Rest => None,
        })
        .sum();
    match (own.as_slice(), last, extent.as_constant()) {
        // It runs as long as it is inside.
        ([single], _, _) if single.steps == Steps::Rest => false,
        (_, Some(last), Some(points)) => last >= points,
        (_, _, None) => ends(nest, axis, digits) != Ends::Always,
        _ => true,
    }
}

/// Smallest and largest value of an index over the extents of its axes.
pub(crate) fn range(nest: &Nest, index: &Affine) -> (Extent, Extent) {
    let mut low = Extent::constant(index.constant);
    let mut high = low.clone();
    for (axis, c) in &index.terms {
        let mut last = nest.kernel.axes[axis.0 as usize].extent.clone();
        last.constant -= 1;
        let bound = if *c > 0 { &mut high } else { &mut low };
        add_scaled(bound, &last, *c);
    }
    (low, high)
}

fn add_scaled(sum: &mut Extent, other: &Extent, factor: i64) {
    sum.constant += factor * other.constant;
    for (name, c) in &other.dims {
        let at = sum.dims.entry(name.clone()).or_insert(0);
        *at += factor * c;
        if *at == 0 {
            sum.dims.remove(name);
        }
    }
}

pub(crate) fn difference(a: &Extent, b: &Extent) -> Extent {
    let mut out = a.clone();
    add_scaled(&mut out, b, -1);
    out
}

/// Whether an extent is at least zero for all dims.
pub(crate) fn non_negative(e: &Extent) -> bool {
    e.constant >= 0 && e.dims.values().all(|c| *c >= 0)
}

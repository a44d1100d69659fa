//! Mixed tile sizes: an axis is cut to segments of so many points, and the last tile of each segment has what is left.
//!
//! ```text
//! segment(j: 512), tiles of 192:   | 192 | 192 | 128 | 192 | 192 | 128 | ..
//! ```
//! The term is that of whole tiles. In the last tile of a segment the outermost loops over the axis inside take fewer steps, and
//! an instruction along whose columns they lie takes fewer; the engine has seen to it that no other loop would have to.
//! Whole tiles of all segments come first in the order of the grid, then the last ones: CTAs that run at one time have tiles
//! of one size, and read the same steps of what is summed over.

use super::{Atom, Digit, Nest, Steps};
use serde::{Deserialize, Serialize};

/// The tiles of an axis, cut to segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// The loop over the tiles.
    pub digit: Digit,
    /// Points of a segment: more than a tile has, and no multiple.
    pub points: u32,
}

/// Of tiles of two sizes, which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TileSize {
    /// Whole ones.
    Whole,
    /// The last ones of segments.
    Last,
}

impl Segment {
    /// Whole tiles in each.
    pub fn whole(&self) -> u32 {
        self.points / self.digit.stride
    }

    /// Points of the last tile.
    pub fn rest(&self) -> u32 {
        self.points % self.digit.stride
    }

    /// First point of the last tile.
    pub fn last(&self) -> u32 {
        self.points - self.rest()
    }

    /// The first point of each tile of an axis of so many points, in the order of the grid, and its size.
    pub fn tiles(&self, extent: i64) -> Vec<(i64, TileSize)> {
        let [tile, points] = [self.digit.stride, self.points].map(i64::from);
        let segments = || (0..extent).step_by(self.points as usize);
        let whole = segments()
            .flat_map(|from| (0..points - tile + 1).step_by(tile as usize).map(move |at| from + at));
        let last = segments().map(|from| from + i64::from(self.last()));
        let sized = whole.map(|at| (at, TileSize::Whole)).chain(last.map(|at| (at, TileSize::Last)));
        sized.filter(|(at, _)| *at < extent).collect()
    }

    /// A loop as the last tile has it.
    pub fn in_last(&self, digit: Digit) -> Digit {
        let rest = self.rest();
        match digit.steps {
            Steps::Fixed(n) if self.reaches_beyond(digit) => {
                Digit { steps: Steps::Fixed(n.min(rest.div_ceil(digit.stride))), ..digit }
            }
            _ => digit,
        }
    }

    /// Whether a loop inside a tile reaches points beyond the last one.
    pub fn reaches_beyond(&self, digit: Digit) -> bool {
        let points = match digit.steps {
            Steps::Fixed(n) => u64::from(digit.stride) * u64::from(n),
            Steps::Rest => 0,
        };
        digit.axis == self.digit.axis && digit != self.digit && points > u64::from(self.rest())
    }

    /// An instruction, whose columns lie along `n`, as the last tile has it; `None` if there is none of so few.
    pub fn atom_in_last(&self, atom: Atom, n: Digit) -> Option<Atom> {
        match self.in_last(n).steps {
            Steps::Fixed(columns) if self.reaches_beyond(n) => atom.of_columns(columns),
            _ => Some(atom),
        }
    }
}

impl Nest {
    /// Points after which the tiles that a loop goes through start over: those of a tile, or of a segment.
    pub fn period(&self, digit: Digit) -> u32 {
        self.segment.filter(|s| s.digit == digit).map_or(digit.stride, |s| s.points)
    }
}

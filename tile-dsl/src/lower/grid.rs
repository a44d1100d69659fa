//! The grid: one factor for each loop bound to CTAs, and each CTA's coordinates in the order asked for. Of tiles of two sizes those
//! of either are a grid of their own; the number of a tile goes through the whole ones first.

use super::{
    emit::{Atom, Emit, Op, linear},
    linear::Linear,
};
use crate::{
    kernel::GridAxis,
    nest::{Digit, Order, Segment, TileSize},
    op::{BinOp, CmpOp},
    plan::{Factor, Share, Tiles},
};
use std::collections::BTreeMap;

/// What each loop bound to CTAs contributes to its axis in this CTA.
pub(super) struct Grid {
    pub values: BTreeMap<Digit, Linear>,
    /// This CTA's number among those of the program axes.
    pub tile: Atom,
    /// Where CTAs share a reduction: which part this one takes, and how many there are.
    pub part: Option<(Atom, u32)>,
    /// Where CTAs look back: which step this one takes, and how many there are.
    pub step: Option<(Atom, Atom)>,
}

impl Grid {
    /// Nothing yet: a persistent CTA decodes the number of each of its tiles.
    pub fn none() -> Grid {
        Grid { values: BTreeMap::new(), tile: Atom::i32(0), part: None, step: None }
    }

    /// The factors of the grid as a launch counts them.
    pub fn axes(tiles: &Tiles) -> Vec<GridAxis> {
        tiles.factors.iter().map(axis).collect()
    }

    /// Number of tiles.
    pub fn tiles(tiles: &Tiles, emit: &mut Emit) -> Atom {
        let whole = Self::of_size(tiles, emit, TileSize::Whole);
        match tiles.segment {
            None => whole,
            Some(_) => {
                let last = Self::of_size(tiles, emit, TileSize::Last);
                emit.add(whole, last)
            }
        }
    }

    /// Those of a size.
    fn of_size(tiles: &Tiles, emit: &mut Emit, size: TileSize) -> Atom {
        let counts = Self::counts(tiles, emit, size);
        counts.into_iter().fold(Atom::i32(1), |n, c| emit.bin(BinOp::Mul, n, c))
    }

    /// How many steps each factor has in tiles of a size.
    fn counts(tiles: &Tiles, emit: &mut Emit, size: TileSize) -> Vec<Atom> {
        let count = |factor: &Factor| match tiles.segment_of(factor) {
            Some(segment) => in_segments(emit, segment, factor, size),
            None => {
                let mut rounded = factor.extent.clone();
                rounded.constant += i64::from(factor.tile) - 1;
                let rounded = emit.dim(&rounded);
                let count = emit.bin(BinOp::Div, rounded, Atom::i32(factor.tile.into()));
                match factor.share {
                    Share::Steps => emit.bin(BinOp::Max, count, Atom::i32(1)),
                    _ => count,
                }
            }
        };
        tiles.factors.iter().map(count).collect()
    }

    /// Decodes the number of a tile; that of the CTA where none is given.
    pub fn of(tiles: &Tiles, emit: &mut Emit, number: Option<Atom>) -> Grid {
        let counts = Self::counts(tiles, emit, TileSize::Whole);
        let number = number.unwrap_or_else(|| emit.op(Op::Cta, &[]));
        Decoded::of(tiles, emit, number, &counts).grid(tiles, emit, TileSize::Whole)
    }
}

/// A factor as a launch counts it.
fn axis(factor: &Factor) -> GridAxis {
    let least = u32::from(factor.share == Share::Steps);
    GridAxis { extent: factor.extent.clone(), tile: factor.tile, period: factor.period, least }
}

/// A CTA's step of each factor of the grid.
pub(super) struct Decoded {
    pub steps: Vec<Atom>,
    tile: Atom,
    part: Option<(Atom, u32)>,
    step: Option<(Atom, Atom)>,
}

impl Decoded {
    /// Decodes the number of a tile of two sizes: among the whole ones, if that says so, or behind them.
    pub fn of_two_sizes(tiles: &Tiles, emit: &mut Emit, number: Atom) -> (Atom, Decoded) {
        let whole = Grid::of_size(tiles, emit, TileSize::Whole);
        let is_whole = emit.cmp(CmpOp::Lt, number, whole);
        let behind = emit.bin(BinOp::Sub, number, whole);
        let number = emit.op(Op::Select, &[is_whole, number, behind]);
        let counts = Grid::counts(tiles, emit, TileSize::Whole);
        let last = Grid::counts(tiles, emit, TileSize::Last);
        // One way of decoding for both: what it takes of numbers that do not change is little.
        let of_size = |(whole, last): (&Atom, &Atom)| match whole == last {
            true => *whole,
            false => emit.op(Op::Select, &[is_whole, *whole, *last]),
        };
        let counts: Vec<Atom> = counts.iter().zip(&last).map(of_size).collect();
        (is_whole, Decoded::of(tiles, emit, number, &counts))
    }

    /// Decodes the number of a CTA.
    pub fn of(tiles: &Tiles, emit: &mut Emit, cta: Atom, counts: &[Atom]) -> Decoded {
        let factors = tiles.of_program();
        let (mut tile, mut part) = (cta, None);
        if let Some(Share::Parts { parts, adjacent }) = tiles.factors.get(factors.len()).map(|f| f.share) {
            let wide = match adjacent {
                true => Atom::i32(parts.into()),
                false => {
                    let counts = counts[..factors.len()].iter();
                    counts.fold(Atom::i32(1), |n, c| emit.bin(BinOp::Mul, n, *c))
                }
            };
            let (fast, slow) = (emit.bin(BinOp::Rem, cta, wide), emit.bin(BinOp::Div, cta, wide));
            let own;
            (tile, own) = if adjacent { (slow, fast) } else { (fast, slow) };
            part = Some((own, parts));
        }
        let mut step = None;
        if tiles.factors.get(factors.len()).is_some_and(|f| f.share == Share::Steps) {
            // Steps of one tile follow one another: those before are taken first.
            let count = counts[factors.len()];
            step = Some((emit.bin(BinOp::Rem, cta, count), count));
            tile = emit.bin(BinOp::Div, cta, count);
        }
        let rank = factors.iter().position(|f| f.share == Share::Cluster);
        let mut others: Vec<usize> = (0..factors.len()).collect();
        let (mut own, mut ranked) = (tile, None);
        if let Some(rank) = rank {
            others.remove(rank);
            ranked = Some((rank, emit.bin(BinOp::Rem, tile, counts[rank])));
            own = emit.bin(BinOp::Div, tile, counts[rank]);
        }
        let (others, order) = tiles.slowest_first(others);
        let of: Vec<(Atom, GridAxis)> = others.iter().map(|n| (counts[*n], axis(&factors[*n]))).collect();
        let (other_counts, other_axes): (Vec<Atom>, Vec<GridAxis>) = of.into_iter().unzip();
        let decoded = decode(emit, order, own, &other_counts, &other_axes);
        let mut steps: Vec<(usize, Atom)> = others.into_iter().zip(decoded).chain(ranked).collect();
        steps.sort_by_key(|(at, _)| *at);
        let last = part.map(|(part, _)| part).or(step.map(|(step, _)| step));
        let steps = steps.into_iter().map(|(_, step)| step).chain(last).collect();
        Decoded { steps, tile, part, step }
    }

    /// The coordinates of a tile of a size.
    pub fn grid(&self, tiles: &Tiles, emit: &mut Emit, size: TileSize) -> Grid {
        let values = tiles.factors.iter().zip(&self.steps).map(|(factor, step)| {
            let point = match tiles.segment_of(factor) {
                Some(segment) => start(emit, segment, *step, size),
                None => {
                    let stride = i64::from(factor.digit.stride);
                    let point = emit.bin(BinOp::Mul, *step, Atom::i32(stride));
                    linear(emit.multiple(point, stride), 0)
                }
            };
            (factor.digit, point)
        });
        Grid { values: values.collect(), tile: self.tile, part: self.part, step: self.step }
    }
}

/// Tiles of a size of an axis in segments.
fn in_segments(emit: &mut Emit, segment: Segment, axis: &Factor, size: TileSize) -> Atom {
    let extent = emit.dim(&axis.extent);
    let points = Atom::i32(segment.points.into());
    let (segments, rest) = (emit.bin(BinOp::Div, extent, points), emit.bin(BinOp::Rem, extent, points));
    match size {
        TileSize::Whole => {
            let whole = Atom::i32(segment.whole().into());
            let begun = emit.add(rest, Atom::i32(i64::from(axis.tile) - 1));
            let begun = emit.bin(BinOp::Div, begun, Atom::i32(axis.tile.into()));
            let begun = emit.bin(BinOp::Min, begun, whole);
            let before = emit.bin(BinOp::Mul, segments, whole);
            emit.add(before, begun)
        }
        TileSize::Last => {
            let begun = emit.cmp(CmpOp::Gt, rest, Atom::i32(segment.last().into()));
            let begun = emit.op(Op::Select, &[begun, Atom::i32(1), Atom::i32(0)]);
            emit.add(segments, begun)
        }
    }
}

/// First point of a tile, by its number among those of its size along the axis.
fn start(emit: &mut Emit, segment: Segment, number: Atom, size: TileSize) -> Linear {
    let points = i64::from(segment.points);
    let of_segment = |emit: &mut Emit, n: Atom| {
        let first = emit.bin(BinOp::Mul, n, Atom::i32(points));
        linear(emit.multiple(first, points), 0)
    };
    match size {
        TileSize::Whole => {
            let (whole, tile) = (Atom::i32(segment.whole().into()), i64::from(segment.digit.stride));
            let n = emit.bin(BinOp::Div, number, whole);
            let first = of_segment(emit, n);
            let within = emit.bin(BinOp::Rem, number, whole);
            let within = emit.bin(BinOp::Mul, within, Atom::i32(tile));
            first.plus(&linear(emit.multiple(within, tile), 0))
        }
        TileSize::Last => of_segment(emit, number).plus(&Linear::constant(segment.last().into())),
    }
}

/// The greatest number of steps of a grid axis: extents are below 2³¹.
fn most(axis: &GridAxis) -> i64 {
    let extent = axis.extent.as_constant().unwrap_or((1 << 31) - 1);
    axis.tiles(extent.max(0) as u64) as i64
}

/// Step of each grid axis in this CTA.
pub(super) fn decode(
    emit: &mut Emit,
    order: Order,
    cta: Atom,
    counts: &[Atom],
    axes: &[GridAxis],
) -> Vec<Atom> {
    if counts.is_empty() {
        return Vec::new();
    }
    let n = counts.len();
    match order {
        Order::Grouped(band) if n >= 2 => in_bands(emit, (cta, band.into()), counts, axes, Walk::Along),
        Order::Serpentine(band) if n >= 2 => in_bands(emit, (cta, band.into()), counts, axes, Walk::Back),
        Order::Backwards(band) if n >= 2 => in_bands(emit, (cta, band.into()), counts, axes, Walk::FromEnd),
        Order::Hilbert if n >= 2 => in_bands(emit, (cta, SQUARE), counts, axes, Walk::Squares),
        Order::Row | Order::Grouped(_) | Order::Serpentine(_) | Order::Hilbert => {
            mixed_radix(emit, cta, counts)
        }
        // Of one axis both are the same.
        Order::Reversed | Order::Backwards(_) => {
            let all = counts.iter().fold(Atom::i32(1), |n, count| emit.bin(BinOp::Mul, n, *count));
            let last = emit.bin(BinOp::Sub, all, Atom::i32(1));
            let number = emit.bin(BinOp::Sub, last, cta);
            mixed_radix(emit, number, counts)
        }
        Order::Column => {
            let reversed: Vec<Atom> = counts.iter().rev().copied().collect();
            let mut steps = mixed_radix(emit, cta, &reversed);
            steps.reverse();
            steps
        }
    }
}

/// How bands are walked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Walk {
    /// Each along the last axis.
    Along,
    /// Every second one back.
    Back,
    /// Each from the end of the last axis.
    FromEnd,
    /// Along, whole squares along Hilbert's curve.
    Squares,
}

/// Bands of `band` steps of the last axis but one of these, walked along the last; others are slower.
fn in_bands(
    emit: &mut Emit,
    (cta, band): (Atom, i64),
    counts: &[Atom],
    axes: &[GridAxis],
    walk: Walk,
) -> Vec<Atom> {
    let n = counts.len();
    let (first, last) = (counts[n - 2], counts[n - 1]);
    let plane = emit.bin(BinOp::Mul, first, last);
    let inner = if n == 2 { cta } else { emit.bin(BinOp::Rem, cta, plane) };
    let band = match band {
        // A band along the longest axis that there can be has less than 2³¹ tiles.
        band if band * most(&axes[n - 1]) < 1 << 31 => Atom::i32(band),
        // One as high as the axis has no more tiles than the grid.
        band => emit.bin(BinOp::Min, first, Atom::i32(band.min(i32::MAX.into()))),
    };
    let width = emit.bin(BinOp::Mul, last, band);
    let index = emit.bin(BinOp::Div, inner, width);
    let start = emit.bin(BinOp::Mul, index, band);
    let left = emit.bin(BinOp::Sub, first, start);
    let height = emit.bin(BinOp::Min, left, band);
    let within = emit.bin(BinOp::Rem, inner, width);
    let mut row = emit.bin(BinOp::Rem, within, height);
    let mut column = None;
    if walk == Walk::Squares {
        let square = emit.bin(BinOp::Div, within, Atom::i32(SQUARE * SQUARE));
        let corner = emit.bin(BinOp::Mul, square, Atom::i32(SQUARE));
        let end = emit.add(corner, Atom::i32(SQUARE));
        let high = emit.cmp(CmpOp::Ge, left, Atom::i32(SQUARE));
        let wide = emit.cmp(CmpOp::Le, end, last);
        let whole = emit.op(Op::Select, &[high, wide, Atom::Bool(false)]);
        let number = emit.bin(BinOp::Rem, within, Atom::i32(SQUARE * SQUARE));
        let (x, y) = on_curve(emit, number);
        let x = emit.add(corner, x);
        row = emit.op(Op::Select, &[whole, y, row]);
        let plain = emit.bin(BinOp::Div, within, height);
        column = Some(emit.op(Op::Select, &[whole, x, plain]));
    }
    if walk == Walk::FromEnd {
        let column_along = emit.bin(BinOp::Div, within, height);
        let end = emit.bin(BinOp::Sub, last, Atom::i32(1));
        column = Some(emit.bin(BinOp::Sub, end, column_along));
    }
    if walk == Walk::Back {
        let column_along = emit.bin(BinOp::Div, within, height);
        let end = emit.bin(BinOp::Sub, last, Atom::i32(1));
        let column_back = emit.bin(BinOp::Sub, end, column_along);
        let odd = emit.bin(BinOp::Rem, index, Atom::i32(2));
        let back = emit.cmp(CmpOp::Eq, odd, Atom::i32(1));
        column = Some(emit.op(Op::Select, &[back, column_back, column_along]));
    }
    let mut steps = Vec::new();
    if n > 2 {
        let outer = emit.bin(BinOp::Div, cta, plane);
        steps = mixed_radix(emit, outer, &counts[..n - 2]);
    }
    steps.push(emit.add(start, row));
    steps.push(column.unwrap_or_else(|| emit.bin(BinOp::Div, within, height)));
    steps
}

/// Tiles along a side of a square.
const SQUARE: i64 = 16;

/// Column and row of a number along Hilbert's curve through a square, which begins and ends in its first row.
///
/// Source: D. Hilbert, Über die stetige Abbildung einer Linie auf ein Flächenstück, Math. Ann. 38 (1891).
fn on_curve(emit: &mut Emit, number: Atom) -> (Atom, Atom) {
    let (mut x, mut y, mut left) = (Atom::i32(0), Atom::i32(0), number);
    let mut side = 1;
    while side < SQUARE {
        let quarter = emit.bin(BinOp::Rem, left, Atom::i32(4));
        left = emit.bin(BinOp::Div, left, Atom::i32(4));
        // Quarters 0 and 3 are turned, and 3 is mirrored, too.
        let is = |emit: &mut Emit, n: i64| emit.cmp(CmpOp::Eq, quarter, Atom::i32(n));
        let (begins, ends) = (is(emit, 0), is(emit, 3));
        let last = Atom::i32(side - 1);
        let mirrored = [x, y].map(|at| emit.bin(BinOp::Sub, last, at));
        let mut choose = |condition: Atom, yes: Atom, no: Atom| emit.op(Op::Select, &[condition, yes, no]);
        let (x_of, y_of) = (choose(ends, mirrored[1], x), choose(ends, mirrored[0], y));
        let (x_in, y_in) = (choose(begins, y, x_of), choose(begins, x, y_of));
        let right = emit.bin(BinOp::Div, quarter, Atom::i32(2));
        let low = emit.bin(BinOp::Rem, quarter, Atom::i32(2));
        // Quarters 1 and 2 are the lower ones.
        let lower = emit.op(Op::Bin(BinOp::Xor), &[right, low]);
        let across = emit.bin(BinOp::Mul, right, Atom::i32(side));
        let down = emit.bin(BinOp::Mul, lower, Atom::i32(side));
        (x, y) = (emit.add(x_in, across), emit.add(y_in, down));
        side *= 2;
    }
    (x, y)
}

/// Digits of `index`, the last of `counts` fastest.
fn mixed_radix(emit: &mut Emit, index: Atom, counts: &[Atom]) -> Vec<Atom> {
    let mut left = index;
    let mut steps = Vec::new();
    for (i, count) in counts.iter().enumerate().rev() {
        if i == 0 {
            steps.push(left);
        } else {
            steps.push(emit.bin(BinOp::Rem, left, *count));
            left = emit.bin(BinOp::Div, left, *count);
        }
    }
    steps.reverse();
    steps
}

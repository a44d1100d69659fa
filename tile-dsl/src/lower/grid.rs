//! The grid: one factor for each loop bound to CTAs, and each CTA's coordinates in the order asked for.

use super::{
    emit::{Atom, Emit, Op},
    linear::Linear,
};
use crate::index::Extent;
use crate::{
    kernel::GridAxis,
    nest::{Digit, LoopKind, Nest, Order, Steps, Stmt},
    op::BinOp,
    schedule::Unit,
    tile::AxisKind,
};
use std::collections::BTreeMap;

/// The loops bound to CTAs, and what each contributes to its axis in this CTA.
pub(super) struct Grid {
    pub axes: Vec<GridAxis>,
    pub values: BTreeMap<Digit, Linear>,
    /// This CTA's number among those of the program axes.
    pub tile: Atom,
    /// Where CTAs share a reduction: which part this one takes, and how many there are.
    pub part: Option<(Atom, u32)>,
}

impl Grid {
    /// Nothing yet: a persistent CTA decodes the number of each of its tiles.
    pub fn none() -> Grid {
        Grid { axes: Vec::new(), values: BTreeMap::new(), tile: Atom::i32(0), part: None }
    }

    /// Number of tiles.
    pub fn tiles(nest: &Nest, emit: &mut Emit) -> Atom {
        let (_, _, counts) = Self::factors(nest, emit);
        counts.into_iter().fold(Atom::i32(1), |n, c| emit.bin(BinOp::Mul, n, c))
    }

    /// The digits bound to CTAs, the axes that they count, and how many steps each has.
    fn factors(nest: &Nest, emit: &mut Emit) -> (Vec<Digit>, Vec<GridAxis>, Vec<Atom>) {
        let mut digits = Vec::new();
        collect(&nest.body, &mut digits);
        // Program axes in kernel order, outer digits before inner ones; then what `split_k` shares out.
        let is_part = |d: &Digit| nest.kernel.axes[d.axis.0 as usize].kind != AxisKind::Program;
        digits.sort_by_key(|d| (is_part(d), d.axis, std::cmp::Reverse(d.stride)));
        digits.dedup();
        let axes: Vec<GridAxis> = digits
            .iter()
            .map(|d| match d.steps {
                Steps::Rest => {
                    GridAxis { extent: nest.kernel.axes[d.axis.0 as usize].extent.clone(), tile: d.stride }
                }
                Steps::Fixed(n) => GridAxis { extent: Extent::constant(n.into()), tile: 1 },
            })
            .collect();
        let counts: Vec<Atom> = axes
            .iter()
            .map(|axis| {
                let mut rounded = axis.extent.clone();
                rounded.constant += i64::from(axis.tile) - 1;
                let rounded = emit.dim(&rounded);
                emit.bin(BinOp::Div, rounded, Atom::i32(axis.tile.into()))
            })
            .collect();
        (digits, axes, counts)
    }

    /// Decodes the number of a tile; that of the CTA where none is given.
    pub fn of(nest: &Nest, emit: &mut Emit, number: Option<Atom>) -> Grid {
        let (digits, axes, counts) = Self::factors(nest, emit);
        let cta = number.unwrap_or_else(|| emit.op(Op::Cta, &[]));
        let is_part = |d: &Digit| nest.kernel.axes[d.axis.0 as usize].kind != AxisKind::Program;
        let tiles = digits.iter().take_while(|d| !is_part(d)).count();
        let (mut tile, mut part) = (cta, None);
        if let Some(Digit { steps: Steps::Fixed(parts), .. }) = digits.get(tiles) {
            // All tiles of one part first: neighbours share more of what they read.
            let plane = counts[..tiles].iter().fold(Atom::i32(1), |n, c| emit.bin(BinOp::Mul, n, *c));
            tile = emit.bin(BinOp::Rem, cta, plane);
            part = Some((emit.bin(BinOp::Div, cta, plane), *parts));
        }
        let mut steps = decode(emit, nest.order, tile, &counts[..tiles], &axes[..tiles]);
        steps.extend(part.map(|(part, _)| part));
        let values = digits
            .iter()
            .zip(steps)
            .map(|(digit, step)| {
                let point = emit.bin(BinOp::Mul, step, Atom::i32(digit.stride.into()));
                let value = match point {
                    Atom::Var(var) => {
                        emit.set_multiple(var, digit.stride.into());
                        Linear::var(var)
                    }
                    Atom::Int(n, _) => Linear::constant(n),
                    Atom::Float(..) | Atom::Bool(_) => unreachable!("an index is an integer"),
                };
                (*digit, value)
            })
            .collect();
        Grid { axes, values, tile, part }
    }
}

fn collect(stmt: &Stmt, digits: &mut Vec<Digit>) {
    match stmt {
        Stmt::For { digit, at, body } => {
            if matches!(at, LoopKind::Unit(Unit::Block, _)) {
                digits.push(*digit);
            }
            collect(body, digits);
        }
        Stmt::Let { first, rest, .. } => {
            collect(first, digits);
            collect(rest, digits);
        }
        Stmt::Stage { body, .. } => collect(body, digits),
        Stmt::Def { .. } | Stmt::Red { .. } | Stmt::Set { .. } | Stmt::Put { .. } => {}
    }
}

/// The greatest number of steps of a grid axis: extents are below 2³¹.
fn most(axis: &GridAxis) -> i64 {
    let extent = axis.extent.as_constant().unwrap_or((1 << 31) - 1);
    (extent + i64::from(axis.tile) - 1) / i64::from(axis.tile)
}

/// Step of each grid axis in this CTA.
fn decode(emit: &mut Emit, order: Order, cta: Atom, counts: &[Atom], axes: &[GridAxis]) -> Vec<Atom> {
    if counts.is_empty() {
        return Vec::new();
    }
    let n = counts.len();
    match order {
        Order::Grouped(band) if n >= 2 => {
            // Bands of `band` steps of the first axis, walked along the last; axes between are slowest.
            let (first, last) = (counts[0], counts[n - 1]);
            let plane = emit.bin(BinOp::Mul, first, last);
            let inner = if n == 2 { cta } else { emit.bin(BinOp::Rem, cta, plane) };
            let band = match i64::from(band) {
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
            let row = emit.bin(BinOp::Rem, within, height);
            let mut steps = vec![emit.add(start, row)];
            if n > 2 {
                let outer = emit.bin(BinOp::Div, cta, plane);
                steps.extend(mixed_radix(emit, outer, &counts[1..n - 1]));
            }
            steps.push(emit.bin(BinOp::Div, within, height));
            steps
        }
        Order::Row | Order::Grouped(_) => mixed_radix(emit, cta, counts),
        Order::Column => {
            let reversed: Vec<Atom> = counts.iter().rev().copied().collect();
            let mut steps = mixed_radix(emit, cta, &reversed);
            steps.reverse();
            steps
        }
    }
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

//! What tests see of the grid: what CTAs compute of their number.

use super::{
    emit::{Atom, Emit},
    grid::{Decoded, decode},
};
use crate::{
    index::{AxisId, Extent},
    kernel::{Expr, GridAxis, Stmt},
    nest::{Digit, Order, Steps},
    plan::{Factor, Share, Tiles},
};

/// Steps of a CTA along grid axes of so many tiles: definitions, and an expression for each.
pub fn decoded(order: Order, counts: &[i64], cta: i64) -> (Vec<Stmt>, Vec<Expr>) {
    let axes: Vec<GridAxis> = counts.iter().map(|n| GridAxis::of(Extent::constant(*n), 1)).collect();
    let counts: Vec<Atom> = counts.iter().copied().map(Atom::i32).collect();
    let mut emit = Emit::new();
    let steps = decode(&mut emit, order, Atom::i32(cta), &counts, &axes);
    (emit.pop(), steps.into_iter().map(Atom::expr).collect())
}

/// Steps of a CTA along program axes of so many tiles, in bands of one axis along another; CTAs of a cluster share out the axis
/// `rank`. Axes of one tile are left out.
pub fn taken(
    order: Order,
    bands: [u16; 2],
    counts: &[i64],
    rank: Option<usize>,
    cta: i64,
) -> (Vec<Stmt>, Vec<Expr>) {
    let several = || (0..counts.len()).filter(|n| counts[*n] > 1);
    let factor = |n: usize| Factor {
        digit: Digit { axis: AxisId(n as u16), stride: 1, steps: Steps::Rest },
        extent: Extent::constant(counts[n]),
        tile: 1,
        period: 1,
        share: if rank == Some(n) { Share::Cluster } else { Share::Tiles },
    };
    let (factors, bands) = (several().map(factor).collect(), Some(bands.map(AxisId)));
    let (whole, unsegmented) = (Vec::new(), Vec::new());
    let tiles = Tiles {
        factors,
        order,
        bands,
        persistent: None,
        serpentine_rounds: false,
        counted: false,
        segment: None,
        whole,
        unsegmented,
    };
    let own: Vec<Atom> = several().map(|n| Atom::i32(counts[n])).collect();
    let mut emit = Emit::new();
    let decoded = Decoded::of(&tiles, &mut emit, Atom::i32(cta), &own);
    (emit.pop(), decoded.steps.into_iter().map(Atom::expr).collect())
}

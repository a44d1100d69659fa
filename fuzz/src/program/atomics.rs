//! What comes after a kernel is drawn: stores that combine, at places where points meet.

use super::node;
use std::collections::{BTreeMap, BTreeSet};
use tile_dsl::{
    dtype::DType,
    engine::testing::Random,
    index::{Affine, AxisId},
    op::{BinOp, RedOp},
    tile::{self, ElemType, ExprKind, Index, Kernel, Stmt, TensorId, expressions, statements},
};

const I32: ElemType = ElemType::Fixed(DType::I32);

/// Tensors that a kernel combines with.
pub(super) fn combined(kernel: &Kernel) -> BTreeSet<TensorId> {
    let mut found = BTreeSet::new();
    statements(&kernel.body, &mut |stmt| {
        if let Stmt::Store { tensor, combine: Some(_), .. } = stmt {
            found.insert(*tensor);
        }
    });
    found
}

/// The kernel with some of its stores atomic, or as it was where that is not well-formed.
pub(super) fn with_atomics(kernel: Kernel, random: &mut Random) -> Kernel {
    let mut stores: BTreeMap<TensorId, usize> = BTreeMap::new();
    statements(&kernel.body, &mut |stmt| {
        if let Stmt::Store { tensor, .. } = stmt {
            *stores.entry(*tensor).or_default() += 1;
        }
    });
    expressions(&kernel.body, &mut |expr| {
        if let ExprKind::Load { tensor, .. } = &expr.kind {
            stores.remove(tensor);
        }
    });
    let mut ops: BTreeMap<TensorId, RedOp> = BTreeMap::new();
    for tensor in stores.into_keys() {
        let ElemType::Fixed(dtype) = kernel.tensors[usize::from(tensor.0)].elem else { continue };
        let of: Vec<RedOp> = RedOp::ALL.iter().copied().filter(|op| op.is_atomic(dtype)).collect();
        if !of.is_empty() && random.below(4) > 0 {
            ops.insert(tensor, *random.pick(&of));
        }
    }
    let mut changed = kernel.clone();
    for stmt in &mut changed.body {
        stmt.each_mut(&mut |stmt| {
            if let Stmt::Store { tensor, index, combine, .. } = stmt
                && let Some(op) = ops.get(tensor)
            {
                *combine = Some(*op);
                for entry in index.iter_mut() {
                    entry.unique = false;
                    meet(entry, random);
                }
            }
        });
    }
    if tile::verify(&changed).is_empty() && super::schedulable(&changed) { changed } else { kernel }
}

/// An entry at which several points may meet.
fn meet(entry: &mut Index, random: &mut Random) {
    let axes: Vec<AxisId> = entry.affine.terms.keys().copied().collect();
    let ([axis], None) = (axes.as_slice(), &entry.value) else { return };
    match random.below(6) {
        // All of them.
        0 => *entry = Affine::default().into(),
        // Some of them.
        1 | 2 => {
            let by = f64::from(random.below(3) as u32 + 1);
            let op = *random.pick(&[BinOp::Div, BinOp::Rem]);
            let number = node(ExprKind::Const { value: by, elem: Some(I32) });
            let value = ExprKind::Bin(op, Box::new(node(ExprKind::Iota(*axis))), Box::new(number));
            *entry = Index::by(Affine::default(), node(value));
        }
        _ => {}
    }
}

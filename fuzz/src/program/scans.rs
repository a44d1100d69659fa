//! What comes after a kernel is drawn: scans of some of its values.

use super::node;
use tile_dsl::{
    engine::testing::Random,
    index::AxisId,
    op::RedOp,
    tile::{self, AxisKind, Expr, ExprKind, Kernel, Stmt, expressions},
};

/// The kernel with one or two of its values scanned, or as it was where that is not well-formed.
pub(super) fn with_scans(kernel: Kernel, random: &mut Random) -> Kernel {
    let mut scanned = kernel.clone();
    for _ in 0..1 + random.below(2) {
        if let Some(more) = with_scan(&scanned, random) {
            scanned = more;
        }
    }
    scanned
}

fn with_scan(kernel: &Kernel, random: &mut Random) -> Option<Kernel> {
    let axes: Vec<AxisId> = (0..kernel.axes.len() as u16)
        .map(AxisId)
        .filter(|axis| kernel.axes[usize::from(axis.0)].kind != AxisKind::Program)
        .collect();
    if axes.is_empty() {
        return None;
    }
    // Of the values that statements and reductions take; those that lack the axis are no candidates.
    let wanted =
        |expr: &Expr| !matches!(expr.kind, ExprKind::Const { .. } | ExprKind::Full { .. } | ExprKind::Dim(_));
    let mut count = 0;
    expressions(&kernel.body, &mut |expr| count += usize::from(wanted(expr)));
    for _ in 0..8 {
        let (axis, op) = (*random.pick(&axes), *random.pick(RedOp::ALL));
        let place = random.below(count.max(1));
        let (mut changed, mut at) = (kernel.clone(), 0);
        for stmt in &mut changed.body {
            stmt.each_mut(&mut |stmt| {
                // The sum that a loop carries stays one.
                if matches!(stmt, Stmt::Assign { .. }) {
                    return;
                }
                for value in stmt.operands_mut() {
                    value.each_mut(&mut |expr| {
                        at += usize::from(wanted(expr));
                        if at == place + 1 && wanted(expr) {
                            let x = std::mem::replace(expr, node(ExprKind::Dim(String::new())));
                            *expr = node(ExprKind::Scan(op, Box::new(x), axis));
                            at += 1;
                            return false;
                        }
                        true
                    });
                }
            });
        }
        if changed != *kernel && tile::verify(&changed).is_empty() && super::schedulable(&changed) {
            return Some(changed);
        }
    }
    None
}

//! Exchanged outputs: four lanes with pairs of a row's elements exchange them, and each stores eight elements at once.
//!
//! ```text
//! (put c E)*  →  let v = E                                   // until four matrices are complete
//!             →  transpose v0, v1 = v0, v1; ..               // where lanes hold columns
//!             →  exchange w0, .., w7 = v0, .., v7; store c[..] = w0, .., w7
//! ```
//! Variants without vectors store element by element.

use super::{
    build::Four,
    context::Cx,
    digits,
    emit::{Atom, linear},
    error::LowerError,
    expr, gather, guard,
    linear::Linear,
    loads::Lanes,
    store,
};
use crate::{
    dtype::DType,
    kernel::{self, Expr as KExpr},
    machine::{Unit, UnitDim},
    nest::{AccessId, Digit, ExchangedMatrices, Expr, LANES_OF_ROW, MATRIX_ROWS},
    op::BinOp,
};

/// Keeps an element until its four matrices are complete, and then stores them.
pub(super) fn exchange(
    cx: &mut Cx<'_>,
    id: AccessId,
    how: &ExchangedMatrices,
    expr: &Expr,
) -> Result<(), LowerError> {
    let access = cx.view.nest.access(id);
    let dtype = cx.view.nest.elem(access.tensor);
    let value = expr::value(cx, expr)?.expr();
    let value = cx.build.name(value, dtype);
    let own = cx.env.stack.clone();
    let (matrix, pair) = at_first_of_four(cx, how)?;
    let at: Vec<Linear> = access.index.iter().map(|i| cx.env.index(i)).collect();
    let fours = cx.build.unfinished.fours.entry(id).or_default();
    let n = fours.iter().position(|f| f.at == at).unwrap_or_else(|| {
        fours.push(Four { at, values: Default::default() });
        fours.len() - 1
    });
    fours[n].values[2 * matrix + pair] = Some(value);
    if fours[n].values.iter().all(Option::is_some) {
        let mut values: Vec<KExpr> = fours.swap_remove(n).values.into_iter().flatten().collect();
        if how.matrices.transposed {
            values = values.chunks(2).flat_map(|pair| transposed(cx, pair, dtype)).collect();
        }
        let dst: Vec<_> = (0..MATRIX_ROWS).map(|_| cx.build.emit.var(dtype)).collect();
        cx.build.emit.stmt(kernel::Stmt::ExchangeMatrices { dst: dst.clone(), values });
        at_own_matrix(cx, how);
        let lanes = Lanes { axis: how.matrices.contiguous(), steps: MATRIX_ROWS as u32, lane: 0 };
        let replica = guard::replica_guard(cx, &[]);
        let place = gather::place(cx, id, &[])?;
        let place = store::stored_place(cx, id, place, Some(lanes), replica)?;
        let values = dst.into_iter().map(KExpr::Var).collect();
        store::emit_store(cx, &place, values);
    }
    cx.env.stack = own;
    Ok(())
}

/// Columns for rows: this lane then has two elements of the row with its number among eight.
fn transposed(cx: &mut Cx<'_>, pair: &[KExpr], ty: DType) -> Vec<KExpr> {
    let dst: Vec<_> = pair.iter().map(|_| cx.build.emit.var(ty)).collect();
    cx.build.emit.stmt(kernel::Stmt::TransposeMatrix { dst: dst.clone(), values: pair.to_vec() });
    dst.into_iter().map(KExpr::Var).collect()
}

/// Moves the current point to the first element of this lane's row in the first of four matrices; returns which of the
/// four, and which of the two elements of a lane, it was at.
fn at_first_of_four(cx: &mut Cx<'_>, how: &ExchangedMatrices) -> Result<(usize, usize), LowerError> {
    let of = &how.matrices;
    let (mut matrix, mut pair) = (0, 0);
    let row = of.transposed.then(|| {
        let rows = Digit { stride: of.rows().stride, ..of.row };
        digits::unit_value(cx, Unit::Lane, UnitDim::Y, rows)
    });
    let unfixed = || LowerError::Malformed("matrices that no expanded loop counts".into());
    for bound in &mut cx.env.stack {
        if bound.digit == of.pair {
            pair = (bound.fixed().ok_or_else(unfixed)? / i64::from(of.pair.stride)) as usize;
            bound.value = row.clone().unwrap_or_default();
        } else if bound.digit == of.quad || of.transposed && bound.digit == of.row {
            bound.value = Linear::default();
        }
        let mut each = 1;
        for (digit, taken) in &how.fours {
            if bound.digit == *digit {
                let own = bound.fixed().ok_or_else(unfixed)? / i64::from(digit.stride) % i64::from(*taken);
                bound.value.constant -= own * i64::from(digit.stride);
                matrix += each * own as usize;
            }
            each *= *taken as usize;
        }
    }
    Ok((matrix, pair))
}

/// Moves the current point from the first of four matrices to the one with the number of this lane among those of its row.
fn at_own_matrix(cx: &mut Cx<'_>, how: &ExchangedMatrices) {
    let number = cx.env.tile.units.coordinate(&mut cx.build.emit, Unit::Lane, UnitDim::X);
    let mut each = 1;
    for (digit, taken) in &how.fours {
        let part = cx.build.emit.bin(BinOp::Div, number, Atom::i32(each));
        let last = each * i64::from(*taken) == i64::from(LANES_OF_ROW);
        let part = if last { part } else { cx.build.emit.bin(BinOp::Rem, part, Atom::i32((*taken).into())) };
        for bound in cx.env.stack.iter_mut().filter(|b| b.digit == *digit) {
            bound.value.add_scaled(&linear(part, 0), digit.stride.into());
        }
        each *= i64::from(*taken);
    }
}

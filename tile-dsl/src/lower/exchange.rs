//! Exchanged outputs: four lanes with pairs of a row's elements exchange them, and each stores eight elements at once.
//!
//! ```text
//! (put c E)*  →  let v = E                                   // until four matrices are complete
//!             →  transpose v0, v1 = v0, v1; ..               // where lanes hold columns
//!             →  exchange w0, .., w7 = v0, .., v7; store c[..] = w0, .., w7
//! ```
//! Variants without vectors store element by element.

use super::{
    Lowerer, copy::linear, emit::Atom, error::LowerError, expr::Lanes, linear::Linear, put::StoredPlace,
};
use crate::{
    kernel::{self, Expr as KExpr, Ty},
    nest::{AccessId, Digit, ExchangedMatrices, Expr, LANES_OF_ROW, MATRIX_ROWS},
    op::BinOp,
    schedule::{Unit, UnitDim},
};

/// Matrices that wait for one another.
pub(super) struct Four {
    /// The first element of this lane's row in the first of them, one coordinate a dimension.
    at: Vec<Linear>,
    /// Two elements of each matrix.
    values: [Option<KExpr>; MATRIX_ROWS as usize],
}

impl Lowerer<'_> {
    /// Keeps an element until its four matrices are complete, and then stores them.
    pub fn exchange(&mut self, id: AccessId, how: &ExchangedMatrices, expr: &Expr) -> Result<(), LowerError> {
        let access = self.nest.access(id);
        let dtype = self.nest.elem(access.tensor);
        let value = self.value(expr)?.expr();
        let value = self.name(value, Ty::Elem(dtype));
        let own = self.stack.clone();
        let (matrix, pair) = self.at_first_of_four(how)?;
        let at: Vec<Linear> = access.index.iter().map(|i| self.index(i)).collect();
        let fours = self.fours.entry(access.tensor).or_default();
        let n = fours.iter().position(|f| f.at == at).unwrap_or_else(|| {
            fours.push(Four { at, values: Default::default() });
            fours.len() - 1
        });
        fours[n].values[2 * matrix + pair] = Some(value);
        if fours[n].values.iter().all(Option::is_some) {
            let mut values: Vec<KExpr> = fours.swap_remove(n).values.into_iter().flatten().collect();
            if how.matrices.transposed {
                values = values.chunks(2).flat_map(|pair| self.transposed(pair, Ty::Elem(dtype))).collect();
            }
            let dst: Vec<_> = (0..MATRIX_ROWS).map(|_| self.emit.var(Ty::Elem(dtype))).collect();
            self.emit.stmt(kernel::Stmt::ExchangeMatrices { dst: dst.clone(), values });
            self.at_own_matrix(how);
            let lanes = Lanes { axis: how.matrices.contiguous(), steps: MATRIX_ROWS as u32, lane: 0 };
            let replica = self.replica_guard(&[]);
            let StoredPlace { mem, base, constant, ty, guard } =
                self.stored_place(id, Some(lanes), replica)?;
            let values = dst.into_iter().map(KExpr::Var).collect();
            self.emit_store(mem, base, constant, ty, values, guard);
        }
        self.stack = own;
        Ok(())
    }

    /// Columns for rows: this lane then has two elements of the row with its number among eight.
    fn transposed(&mut self, pair: &[KExpr], ty: Ty) -> Vec<KExpr> {
        let dst: Vec<_> = pair.iter().map(|_| self.emit.var(ty)).collect();
        self.emit.stmt(kernel::Stmt::TransposeMatrix { dst: dst.clone(), values: pair.to_vec() });
        dst.into_iter().map(KExpr::Var).collect()
    }

    /// Moves the current point to the first element of this lane's row in the first of four matrices; returns which of the
    /// four, and which of the two elements of a lane, it was at.
    fn at_first_of_four(&mut self, how: &ExchangedMatrices) -> Result<(usize, usize), LowerError> {
        let of = &how.matrices;
        let (mut matrix, mut pair) = (0, 0);
        let row = of.transposed.then(|| {
            let rows = Digit { stride: of.rows().stride, ..of.row };
            self.unit_value(Unit::Lane, UnitDim::Y, rows)
        });
        let unfixed = || LowerError::Malformed("matrices that no expanded loop counts".into());
        for bound in &mut self.stack {
            if bound.digit == of.pair {
                pair = (bound.fixed().ok_or_else(unfixed)? / i64::from(of.pair.stride)) as usize;
                bound.value = row.clone().unwrap_or_default();
            } else if bound.digit == of.quad || of.transposed && bound.digit == of.row {
                bound.value = Linear::default();
            }
            let mut each = 1;
            for (digit, taken) in &how.fours {
                if bound.digit == *digit {
                    let own =
                        bound.fixed().ok_or_else(unfixed)? / i64::from(digit.stride) % i64::from(*taken);
                    bound.value.constant -= own * i64::from(digit.stride);
                    matrix += each * own as usize;
                }
                each *= *taken as usize;
            }
        }
        Ok((matrix, pair))
    }

    /// Moves the current point from the first of four matrices to the one with the number of this lane among those of its row.
    fn at_own_matrix(&mut self, how: &ExchangedMatrices) {
        let number = self.units.coordinate(&mut self.emit, Unit::Lane, UnitDim::X);
        let mut each = 1;
        for (digit, taken) in &how.fours {
            let part = self.emit.bin(BinOp::Div, number, Atom::i32(each));
            let last = each * i64::from(*taken) == i64::from(LANES_OF_ROW);
            let part = if last { part } else { self.emit.bin(BinOp::Rem, part, Atom::i32((*taken).into())) };
            for bound in self.stack.iter_mut().filter(|b| b.digit == *digit) {
                bound.value.add_scaled(&linear(part, 0), digit.stride.into());
            }
            each *= i64::from(*taken);
        }
    }
}

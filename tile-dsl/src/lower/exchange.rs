//! Exchanged outputs: four lanes with pairs of a row's elements exchange them, and each stores eight elements at once.
//!
//! ```text
//! (put c E)*  →  let v = E                                   // until four matrices beside each other are complete
//!             →  exchange w0, .., w7 = v0, .., v7; store c[..] = w0, .., w7
//! ```
//! Variants without vectors store element by element.

use super::{Lowerer, error::LowerError, expr::Lanes, linear::Linear, put::StoredPlace};
use crate::{
    kernel::{self, Expr as KExpr, Ty},
    nest::{AccessId, Digit, Expr, LANES_OF_ROW, LoopKind, MATRIX_ROWS, StoredMatrices},
    program::Variant,
    schedule::{Unit, UnitDim},
    tile::TensorId,
};

/// Matrices beside each other that wait for one another.
pub(super) struct Four {
    /// Their first element in this lane's row, one coordinate a dimension.
    at: Vec<Linear>,
    /// Two elements of each matrix.
    values: [Option<KExpr>; MATRIX_ROWS as usize],
}

impl Lowerer<'_> {
    /// Whether lanes exchange what they store of a tensor, in this variant.
    pub fn exchanges(&self, tensor: TensorId) -> bool {
        self.variant != Variant::General && self.nest.exchanged.contains_key(&tensor)
    }

    /// Keeps an element until its four matrices are complete, and then stores them.
    pub fn exchange(&mut self, id: AccessId, expr: &Expr) -> Result<(), LowerError> {
        let access = self.nest.access(id);
        let loops: Vec<(Digit, LoopKind)> = self.stack.iter().map(|b| (b.digit, b.at)).collect();
        let malformed = |_| LowerError::Malformed("lanes that hold no four matrices".into());
        let (how, four) = self.nest.exchanged_matrices(access, &loops).map_err(malformed)?;
        let dtype = self.nest.elem(access.tensor);
        let value = self.value(expr)?.expr();
        let value = self.name(value, Ty::Elem(dtype));
        let own = self.stack.clone();
        let (matrix, pair) = self.at_first_of_four(how, four)?;
        let at: Vec<Linear> = access.index.iter().map(|i| self.index(i)).collect();
        let fours = self.fours.entry(access.tensor).or_default();
        let n = fours.iter().position(|f| f.at == at).unwrap_or_else(|| {
            fours.push(Four { at, values: Default::default() });
            fours.len() - 1
        });
        fours[n].values[2 * matrix + pair] = Some(value);
        if fours[n].values.iter().all(Option::is_some) {
            let values = fours.swap_remove(n).values.into_iter().flatten().collect();
            let dst: Vec<_> = (0..MATRIX_ROWS).map(|_| self.emit.var(Ty::Elem(dtype))).collect();
            self.emit.stmt(kernel::Stmt::ExchangeMatrices { dst: dst.clone(), values });
            // This lane has a whole row of the matrix with its number.
            let lane = self.unit_value(Unit::Lane, UnitDim::X, how.quad);
            for bound in self.stack.iter_mut().filter(|b| b.digit == how.quad) {
                bound.value = lane.scaled(LANES_OF_ROW.into());
            }
            let lanes = Lanes { axis: how.pair.axis, steps: MATRIX_ROWS as u32, lane: 0 };
            let replica = self.replica_guard(&[]);
            let StoredPlace { mem, base, constant, ty, guard } =
                self.stored_place(id, Some(lanes), replica)?;
            let values = dst.into_iter().map(KExpr::Var).collect();
            self.emit_store(mem, base, constant, ty, values, guard);
        }
        self.stack = own;
        Ok(())
    }

    /// Moves the current point to the first element of its row in the first of four matrices; returns which of the four, and
    /// which of the two elements of a lane, it was at.
    fn at_first_of_four(&mut self, how: StoredMatrices, four: Digit) -> Result<(usize, usize), LowerError> {
        let (mut matrix, mut pair) = (0, 0);
        for bound in &mut self.stack {
            let unfixed = || LowerError::Malformed("matrices that no expanded loop counts".into());
            if bound.digit == four {
                let step = bound.fixed().ok_or_else(unfixed)? / i64::from(four.stride);
                matrix = (step % i64::from(LANES_OF_ROW)) as usize;
                bound.value.constant -= matrix as i64 * i64::from(four.stride);
            } else if bound.digit == how.pair {
                pair = (bound.fixed().ok_or_else(unfixed)? / i64::from(how.pair.stride)) as usize;
                bound.value = Linear::default();
            } else if bound.digit == how.quad {
                bound.value = Linear::default();
            }
        }
        Ok((matrix, pair))
    }
}

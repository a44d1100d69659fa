//! Instructions that a warp executes together.

use super::{
    Run, Var,
    column::{Column, Fault},
};
use crate::{
    kernel::{Expr, Mem},
    machine::UnitDim,
    nest::{Atom, MATRIX_ROW_BYTES, MATRIX_ROWS, Part, Place, Role},
};
use std::rc::Rc;

/// Lanes of a warp.
const WARP: usize = 32;
/// Rows of a matrix.
const EDGE: usize = MATRIX_ROWS as usize;

/// Row and column of a matrix that element `e` is of the `each` of a lane.
fn element(lane: usize, e: usize, each: usize) -> (usize, usize) {
    (lane / 4, each * (lane % 4) + e)
}

/// Where matrix `q` starts, along m or n and along k.
fn matrix(order: &[[u32; 2]], q: usize) -> [usize; 2] {
    let taken = order.iter().enumerate().filter(|(bit, _)| q >> bit & 1 == 1);
    taken.fold([0, 0], |[free, k], (_, [f, s])| [free + *f as usize, k + *s as usize])
}

/// The point of a dimension of an accumulator that a register of a lane holds; `weights`: those of its slot digits.
fn point(parts: &[Part], lane: usize, register: usize, weight: u32) -> usize {
    let step = |part: &Part| match part.place {
        Place::Slot => register / weight as usize % part.steps as usize,
        Place::Unit(_, UnitDim::X) => lane % 4,
        Place::Unit(..) => lane / 4,
    };
    parts.iter().map(|p| step(p) * p.stride as usize).sum()
}

impl Run<'_> {
    pub(super) fn load_matrices(
        &mut self,
        dst: &[Var],
        shared: u32,
        offset: &Expr,
        transposed: bool,
        mask: &[bool],
    ) -> Result<(), Fault> {
        whole(mask)?;
        let dtype = self.kernel.dtype_of(Mem::Shared(shared)).ok_or((0, "no such buffer".to_string()))?;
        let (long, each) = ((MATRIX_ROW_BYTES as u32 / dtype.bytes()) as usize, (4 / dtype.bytes()) as usize);
        let offset = self.eval(offset, mask)?;
        let offset = offset.ints()?;
        let mut columns = vec![vec![0.0; mask.len()]; dst.len()];
        for warp in 0..mask.len() / WARP {
            for (q, r) in (0..dst.len() / each).flat_map(|q| (0..EDGE).map(move |r| (q, r))) {
                let thread = warp * WARP + EDGE * q + r;
                let mut row = vec![0.0; long];
                self.counts.shared_loads += 1;
                // Every lane reads: none of them may have written since the last barrier.
                let reader = (mask.len() + warp) as u32;
                let found = |n: usize, x| row[n] = x;
                self.shared
                    .load((shared, offset[thread]), long, reader, self.epoch, found)
                    .map_err(|what| (thread, what))?;
                for (c, x) in row.into_iter().enumerate() {
                    let (r, c) = if transposed { (c, r) } else { (r, c) };
                    columns[each * q + c % each][warp * WARP + 4 * r + c / each] = x;
                }
            }
        }
        for (var, column) in dst.iter().zip(columns) {
            self.define(*var, Rc::new(Column::elements(column, dtype)), mask);
        }
        Ok(())
    }

    pub(super) fn store_matrices(
        &mut self,
        (shared, offset): (u32, &Expr),
        values: &[Expr],
        transposed: bool,
        mask: &[bool],
    ) -> Result<(), Fault> {
        whole(mask)?;
        let offset = self.eval(offset, mask)?;
        let offset = offset.ints()?;
        let held = values.iter().map(|e| self.eval(e, mask)?.to_f32()).collect::<Result<Vec<_>, Fault>>()?;
        for warp in 0..mask.len() / WARP {
            for (q, r) in (0..held.len() / 2).flat_map(|q| (0..EDGE).map(move |r| (q, r))) {
                let thread = warp * WARP + EDGE * q + r;
                let element = |c: usize| {
                    let (r, c) = if transposed { (c, r) } else { (r, c) };
                    held[2 * q + c % 2][warp * WARP + 4 * r + c / 2]
                };
                let row: Vec<f32> = (0..EDGE).map(element).collect();
                self.counts.shared_stores += 1;
                let place = (shared, offset[thread]);
                self.shared.store(place, &row, thread as u32, self.epoch).map_err(|what| (thread, what))?;
            }
        }
        Ok(())
    }

    pub(super) fn transpose_matrix(
        &mut self,
        dst: &[Var],
        values: &[Expr],
        mask: &[bool],
    ) -> Result<(), Fault> {
        whole(mask)?;
        let held = values.iter().map(|e| self.eval(e, mask)?.to_f32()).collect::<Result<Vec<_>, Fault>>()?;
        for (n, var) in dst.iter().enumerate() {
            let dtype = self.kernel.vars[var.0 as usize];
            // Row t / 4, column 2·(t % 4) + n, of what has rows for columns.
            let element = |t: usize| {
                let (r, c) = (t % WARP / 4, 2 * (t % 4) + n);
                held[r % 2][t / WARP * WARP + 4 * c + r / 2]
            };
            let column = (0..mask.len()).map(element).collect();
            self.define(*var, Rc::new(Column::elements(column, dtype)), mask);
        }
        Ok(())
    }

    pub(super) fn exchange_matrices(
        &mut self,
        dst: &[Var],
        values: &[Expr],
        mask: &[bool],
    ) -> Result<(), Fault> {
        whole(mask)?;
        let held = values.iter().map(|e| self.eval(e, mask)?.to_f32()).collect::<Result<Vec<_>, Fault>>()?;
        for (n, var) in dst.iter().enumerate() {
            let dtype = self.kernel.vars[var.0 as usize];
            // Lane q of four has the matrix q, of which lane n / 2 has had element n.
            let element = |t: usize| held[2 * (t % 4) + n % 2][t / 4 * 4 + n / 2];
            let column = (0..mask.len()).map(element).collect();
            self.define(*var, Rc::new(Column::elements(column, dtype)), mask);
        }
        Ok(())
    }

    pub(super) fn join_twos(&mut self, dst: &[Var], values: &[Expr], mask: &[bool]) -> Result<(), Fault> {
        whole(mask)?;
        let held = values.iter().map(|e| self.eval(e, mask)?.to_f32()).collect::<Result<Vec<_>, Fault>>()?;
        for (n, var) in dst.iter().enumerate() {
            let dtype = self.kernel.vars[var.0 as usize];
            let (row, column) = (n / 4, n % 4);
            // Column of 16 that lane q of four gets, and the lane that has had it.
            let element = |t: usize| {
                let c = 4 * (t % 4) + column;
                held[c / 8 * 4 + 2 * row + c % 2][t / 4 * 4 + c % 8 / 2]
            };
            let column = (0..mask.len()).map(element).collect();
            self.define(*var, Rc::new(Column::elements(column, dtype)), mask);
        }
        Ok(())
    }

    /// Products are summed exactly and rounded once; hardware rounds in between. Integers wrap around.
    pub(super) fn mma(
        &mut self,
        atom: Atom,
        (frag, slots): (u32, &[u32]),
        a: &[Expr],
        b: &[Expr],
        mask: &[bool],
    ) -> Result<(), Fault> {
        whole(mask)?;
        let (row, each) = (atom.row(), atom.each());
        let [m, n, k] = row.shape.map(|x| x as usize);
        let values = |elements: &[Expr]| -> Result<Vec<Vec<f32>>, Fault> {
            elements.iter().map(|e| self.eval(e, mask)?.to_f32()).collect()
        };
        let (a, b) = (values(a)?, values(b)?);
        let slot = |slot: &u32| self.eval(&Expr::Slot { frag, slot: *slot }, mask)?.to_f64();
        let mut sums = slots.iter().map(slot).collect::<Result<Vec<_>, _>>()?;
        for warp in 0..mask.len() / WARP {
            // Element (x, y) of an operand, x along m or n.
            let gather = |held: &[Vec<f32>], order: &[[u32; 2]], rows: usize| {
                let mut all = vec![0.0; rows * k];
                for (register, lane) in (0..held.len()).flat_map(|r| (0..WARP).map(move |l| (r, l))) {
                    let [x, y] = matrix(order, register / each);
                    let (r, c) = element(lane, register % each, each);
                    all[(x + r) * k + y + c] = f64::from(held[register][warp * WARP + lane]);
                }
                all
            };
            let (x, y) = (gather(&a, row.a, m), gather(&b, row.b, n));
            for (register, sum) in sums.iter_mut().enumerate() {
                for lane in 0..WARP {
                    let i = point(atom.parts(Role::M), lane, register, row.slots[0]);
                    let j = point(atom.parts(Role::N), lane, register, row.slots[1]);
                    let products = (0..k).map(|k_| x[i * k + k_] * y[j * k + k_]);
                    let at = &mut sum[warp * WARP + lane];
                    *at += products.sum::<f64>();
                }
            }
        }
        for (slot, sum) in slots.iter().zip(sums) {
            self.set(frag, *slot, Rc::new(Column::sums(sum, row.accumulator)), mask);
        }
        Ok(())
    }
}

fn whole(mask: &[bool]) -> Result<(), Fault> {
    match mask.iter().position(|m| !m) {
        Some(thread) => Err((thread, "does not reach an instruction of its warp".into())),
        None if !mask.len().is_multiple_of(WARP) => {
            Err((mask.len() - 1, "is in a warp that is not full".into()))
        }
        None => Ok(()),
    }
}

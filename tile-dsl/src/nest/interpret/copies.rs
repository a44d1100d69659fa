//! Copies: what they hold, and from where they take it.

use super::{Buffer, Extent, Filled, Index, InterpretError, Machine, Neutral, offset};
use crate::{
    index::Affine,
    nest::{Access, BoxDim, CopyId, Stmt},
};

impl<S: Neutral> Machine<'_, S> {
    /// Copies what the body of a stage reads, from the copy around it if there is one; zero outside the tensor.
    pub(super) fn fill(&mut self, copy: CopyId, body: &Stmt) -> Result<Buffer, InterpretError> {
        let nest = self.nest;
        let tensor = usize::from(nest.copy(copy).tensor.0);
        let filled = self.filled.entry((copy, std::ptr::from_ref(body))).or_insert_with(|| {
            let (dims, access) = (nest.footprint(copy, body), nest.copied_access(copy, body));
            // `low` has the constant in it already.
            let dim = |(dim, index): (&BoxDim, &Affine)| Extent {
                low: dim.low,
                extent: dim.extent,
                index: Index::of(index, 0),
            };
            Filled { access, dims: dims.iter().zip(&access.index).map(dim).collect() }
        });
        let Filled { access, dims } = filled.clone();
        let low: Vec<i64> = dims.iter().map(|dim| dim.low + dim.index.at(&self.point)).collect();
        let extents = dims.iter().map(|dim| dim.extent.map(|n| n as i64)).collect::<Option<Vec<i64>>>();
        let extents = extents.ok_or_else(|| InterpretError::Poison("a copy without bound".into()))?;
        let len = extents.iter().product::<i64>();
        let mut data = Vec::with_capacity(len as usize);
        let (mut index, mut from) = (low.clone(), low.clone());
        // What values name is looked up at points of its own: the copy around this one is the same for all.
        let outer = self.buffers[tensor].iter().rposition(|b| nest.copy(b.copy).serves(access));
        for _ in 0..len {
            data.push(match outer.map(|at| &self.buffers[tensor][at]) {
                Some(outer) => {
                    let at = offset(&outer.extents, index.iter().zip(&outer.low).map(|(i, l)| i - l));
                    outer.data[at.ok_or_else(|| {
                        InterpretError::Poison(format!("a copy reads {index:?}, beside the copy around it"))
                    })?]
                }
                None => {
                    from.copy_from_slice(&index);
                    self.look_up(access, &index, &mut from)?;
                    let global = &self.tensors[tensor];
                    offset(&global.shape, from.iter().copied()).map_or(0.0, |o| global.data[o])
                }
            });
            for d in (0..index.len()).rev() {
                index[d] += 1;
                if index[d] < low[d] + extents[d] {
                    break;
                }
                index[d] = low[d];
            }
        }
        Ok(Buffer { copy, units: self.units, lost: false, low, extents, data })
    }

    /// Where a copy takes the element from that it has at an index, along dimensions in which values say so. Nowhere, as outside of the
    /// tensor, beyond the end of the axis of rows.
    fn look_up(&mut self, access: &Access, index: &[i64], from: &mut [i64]) -> Result<(), InterpretError> {
        for (dim, gathered) in &access.gathered {
            let row = gathered.row.map(|axis| usize::from(axis.0)).zip(access.row_of(*dim));
            let here = row.map(|(row, counts)| std::mem::replace(&mut self.point[row], index[counts]));
            let form = match row {
                Some(_) => Index::of(&gathered.form, gathered.form.constant).at(&self.point),
                None => index[*dim],
            };
            let value = self.expr(&gathered.value);
            if let (Some((row, _)), Some(here)) = (row, here) {
                self.point[row] = here;
            }
            let unknown =
                || InterpretError::Poison(format!("what says where {} is", self.nest.print_access(access)));
            let value = value?.0.ok_or_else(unknown)?;
            let beyond = row.is_some_and(|(row, counts)| index[counts] >= self.extents[row]);
            from[*dim] =
                if beyond { -1 } else { i64::from((form as i32).wrapping_add(S::number(value) as i32)) };
        }
        Ok(())
    }
}

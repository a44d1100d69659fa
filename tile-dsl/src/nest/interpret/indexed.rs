//! Accesses where values say, and stores.

use super::{AccessId, Element, Expr, InterpretError, Machine, Neutral, offset};
use crate::dtype::DType;

impl<S: Neutral> Machine<'_, S> {
    /// Stores an element where its condition holds.
    pub(super) fn put(&mut self, access: AccessId, expr: &Expr) -> Result<(), InterpretError> {
        let (by, when, value) = expr.stored();
        let info = self.nest.access(access);
        let poison = || InterpretError::Poison(format!("put {}", self.nest.print_access(info)));
        if let Some(when) = when
            && !S::holds(self.expr(when)?.0.ok_or_else(poison)?)
        {
            return Ok(());
        }
        let element = self.expr(value)?.0.ok_or_else(poison)?;
        let index = self.index_by(access, by)?.ok_or_else(poison)?;
        let tensor = usize::from(info.tensor.0);
        match offset(&self.tensors[tensor].shape, index.iter().copied()) {
            Some(offset) => {
                let dtype = self.tensors[tensor].dtype;
                let held = &mut self.tensors[tensor].data[offset];
                *held = match &info.combines {
                    Some((op, _)) => S::bin(op.combine(), dtype, *held, element, false),
                    None => element,
                };
            }
            // Values may lead outside.
            None if !info.by.is_empty() => {}
            None => {
                let shown = self.nest.print_access(info);
                return Err(InterpretError::Poison(format!("{shown} at {index:?} is outside")));
            }
        }
        Ok(())
    }

    /// The index of an access at the current point, with values added; `None` where one is poison.
    fn index_by(&self, access: AccessId, by: &[Expr]) -> Result<Option<Vec<i64>>, InterpretError> {
        let mut index: Vec<i64> = self.index(access).collect();
        for (dim, value) in self.nest.access(access).by.keys().zip(by) {
            let Some(value) = self.expr(value)?.0 else { return Ok(None) };
            index[*dim] = i64::from((index[*dim] as i32).wrapping_add(S::number(value) as i32));
        }
        Ok(Some(index))
    }

    /// An element where values say; zero outside.
    pub(super) fn gather(&self, access: AccessId, by: &[Expr]) -> Result<(Element, DType), InterpretError> {
        let global = &self.tensors[usize::from(self.nest.access(access).tensor.0)];
        let at = |index: Vec<i64>| offset(&global.shape, index.into_iter());
        let index = self.index_by(access, by)?;
        Ok((index.map(|index| at(index).map_or(0.0, |o| global.data[o])), global.dtype))
    }
}

//! Elements where values say: the coordinates of a gather or a scatter.
//!
//! A coordinate that leaves its dimension is replaced by 0, and the access is guarded: what is computed from coordinates stays
//! as small as the tensor is.

use super::{
    context::Cx,
    emit::{self, Atom, Op},
    error::LowerError,
    linear::Linear,
};
use crate::{
    nest::AccessId,
    op::{BinOp, CmpOp},
    tile::TensorId,
};

/// Where an access goes at the current point.
pub(super) struct Place {
    /// Coordinates, one a dimension.
    pub coords: Vec<Linear>,
    /// The values lead inside; absent where none is added.
    pub guard: Option<Atom>,
}

/// Where an access goes whose values are given, in the order of their dimensions.
pub(super) fn place(cx: &mut Cx<'_>, id: AccessId, by: &[Atom]) -> Result<Place, LowerError> {
    let access = cx.view.nest.access(id);
    let (mut values, mut coords, mut guard) = (by.iter(), Vec::new(), None);
    for (dim, form) in access.index.iter().enumerate() {
        let at = cx.env.index(form);
        if !access.by.contains_key(&dim) {
            coords.push(at);
            continue;
        }
        let missing = || LowerError::Malformed("an access lacks the value that is added to its index".into());
        let value = *values.next().ok_or_else(missing)?;
        let (at, inside) = inside(cx, (access.tensor, dim), value, &at);
        coords.push(emit::linear(at, 0));
        guard = cx.build.emit.and(guard, Some(inside));
    }
    Ok(Place { coords, guard })
}

/// A value with a form added, or 0 where that leaves its dimension; and whether it does not.
pub(super) fn inside(
    cx: &mut Cx<'_>,
    (tensor, dim): (TensorId, usize),
    value: Atom,
    form: &Linear,
) -> (Atom, Atom) {
    let at = match *form == Linear::default() {
        true => value,
        false => {
            let form = cx.build.emit.index(form);
            cx.build.emit.op(Op::Wrapping(BinOp::Add), &[value, form])
        }
    };
    let extent = cx.build.emit.dim(&cx.view.tensor(tensor).dims[dim]);
    let below = cx.build.emit.cmp(CmpOp::Ge, at, Atom::i32(0));
    let above = cx.build.emit.cmp(CmpOp::Lt, at, extent);
    let inside = cx.build.emit.and(Some(below), Some(above)).unwrap_or(Atom::Bool(true));
    (cx.build.emit.op(Op::Select, &[inside, at, Atom::i32(0)]), inside)
}

//! Which of the instructions of one name multiplies: what the kernel says of its factors decides, and no schedule does.

use super::Failure;
use crate::{
    dtype::DType,
    nest::{Atom, Nest, Stmt, Target, ValueId, leaves},
};

/// The instruction for the products that a value sums: of the atom's name, and for f32 rounded to tf32 where both factors
/// are.
pub(super) fn chosen(nest: &Nest, value: ValueId, atom: Atom) -> Atom {
    let mut rounded = false;
    leaves(&nest.body, &mut |_, leaf| {
        if let (Stmt::Red { expr, .. }, Some((Target::Value(v), _))) = (leaf, leaf.leaf())
            && v == value
        {
            rounded |= nest.rounds(expr);
        }
    });
    let of_name = |a: &Atom| a.row().name == atom.row().name && a.row().rounded == rounded;
    if atom.row().rounded == rounded { atom } else { Atom::all().find(of_name).unwrap_or(atom) }
}

/// What to write where factors have too many bits.
pub(super) fn advice(failure: Failure, dtype: DType) -> Failure {
    match dtype {
        DType::F32 => {
            failure.remark("write `dot(.., .., .., tf32)` in the kernel to round both factors to tf32")
        }
        _ => failure,
    }
}

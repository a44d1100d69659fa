//! Which of the instructions of one name multiplies: what the kernel says of its factors decides, and no schedule does.

use super::Failure;
use crate::{
    dtype::DType,
    nest::{Atom, Nest, Stmt, Target, ValueId, leaves},
};

/// The instruction for the products that a value sums: of the atom's name and shape, for f32 rounded to tf32 where both
/// factors are, and for the type that they have where there is one.
pub(super) fn chosen(nest: &Nest, value: ValueId, atom: Atom) -> Atom {
    let (mut rounded, mut dtype) = (false, None);
    leaves(&nest.body, &mut |_, leaf| {
        if let (Stmt::Red { expr, .. }, Some((Target::Value(v), _))) = (leaf, leaf.leaf())
            && v == value
        {
            rounded |= nest.rounds(expr);
            dtype = nest.factors(expr).ok().map(|[first, _]| nest.factor_dtype(first));
        }
    });
    let named = |a: &Atom| {
        let ([m, n, _], [x, y, _]) = (a.row().shape, atom.row().shape);
        a.row().name == atom.row().name && (m, n) == (x, y)
    };
    let fits = |a: &Atom| {
        named(a) && a.row().rounded == rounded && dtype.is_some_and(|d| a.row().operands.contains(&d))
    };
    Atom::all().find(fits).or_else(|| Atom::all().find(named)).unwrap_or(atom)
}

/// What to write where factors have too many bits.
pub(super) fn advice(failure: Failure, dtype: DType) -> Failure {
    match dtype {
        DType::F32 => {
            failure.remark("write `dot(.., .., .., tf32)` in the kernel to round both factors to tf32")
        }
        DType::F8 => failure.remark("`wgmma` multiplies f8: `wgmma(64, 128)`, on sm_90a"),
        _ => failure,
    }
}

//! Which of the instructions of one name multiplies: what the kernel says of its factors decides, and no schedule does.

use crate::{
    dtype::DType,
    engine::Failure,
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
    let fits =
        |a: &Atom| named(a) && a.row().rounded == rounded && dtype.is_some_and(|d| a.row().multiplies(d));
    Atom::all().find(fits).or_else(|| Atom::all().find(named)).unwrap_or(atom)
}

/// What to write where an instruction does not multiply factors of this type: another that does.
pub(super) fn advice(failure: Failure, dtype: DType) -> Failure {
    let Some(row) = Atom::all().map(Atom::row).find(|row| row.multiplies(dtype)) else { return failure };
    if row.rounded {
        return failure.remark("write `dot(.., .., .., tf32)` in the kernel to round both factors to tf32");
    }
    failure.remark(format!("`{}` multiplies {dtype}: `{}`, on {}", row.name, row.example, row.target))
}

//! What comes after a kernel is drawn: tensors and scalars of other integer types, and of bools. What is read of them is cast, and what
//! is stored.

use super::{I32, Indexed, atomics, boxed, indexed, node};
use std::collections::BTreeMap;
use tile_dsl::{
    dtype::DType,
    engine::testing::Random,
    op::{CmpOp, UnOp},
    tile::{self, ElemType, Expr, ExprKind, Kernel, ScalarId, Stmt, TensorId, expressions_mut},
};

/// The kernel with some of its tensors of other integer types or bools, or as it was where that is not well-formed.
pub(super) fn with_types(kernel: Kernel, random: &mut Random) -> Kernel {
    let (indices, combined) = (indexed(&kernel), atomics::combined(&kernel));
    let mut changed = kernel.clone();
    // Elements of the types that they had, by which the kernel computes.
    let mut were = BTreeMap::new();
    for (id, tensor) in (0u16..).map(TensorId).zip(&mut changed.tensors) {
        let ElemType::Fixed(was) = tensor.elem else { continue };
        let types = types_for(was, indices.get(&id), tensor.mutable);
        if !types.is_empty() && !combined.contains(&id) && random.below(3) == 0 {
            tensor.elem = ElemType::Fixed(*random.pick(&types));
            were.insert(id, (ElemType::Fixed(was), indices.contains_key(&id)));
        }
    }
    expressions_mut(&mut changed.body, &mut |expr| {
        if let ExprKind::Load { tensor, .. } = &expr.kind
            && let Some((was, false)) = were.get(tensor)
        {
            cast(expr, *was);
        }
        // What is cast now is not cast again.
        !matches!(&expr.kind, ExprKind::Cast(_, x) if matches!(x.kind, ExprKind::Load { .. }))
    });
    let types: Vec<ElemType> = changed.tensors.iter().map(|tensor| tensor.elem).collect();
    for stmt in &mut changed.body {
        stmt.each_mut(&mut |stmt| {
            if let Stmt::Store { tensor, value, .. } = stmt
                && let Some((was, _)) = were.get(tensor)
            {
                match types[usize::from(tensor.0)] {
                    ElemType::Fixed(DType::Bool) => compare(value, *was),
                    other => cast(value, other),
                }
            }
        });
    }
    if tile::verify(&changed).is_empty() && super::schedulable(&changed) { changed } else { kernel }
}

/// The kernel with scalars of other types, which are cast where they are read, or as it was where that is not well-formed.
pub(super) fn with_scalars(kernel: Kernel, random: &mut Random) -> Kernel {
    let mut changed = kernel.clone();
    let mut were = BTreeMap::new();
    for (id, scalar) in (0u16..).map(ScalarId).zip(&mut changed.scalars) {
        let ElemType::Fixed(was) = scalar.elem else { continue };
        let types: Vec<DType> = DType::scalars().filter(|dtype| *dtype != was && !dtype.is_float()).collect();
        scalar.elem = ElemType::Fixed(*random.pick(&types));
        were.insert(id, ElemType::Fixed(was));
    }
    expressions_mut(&mut changed.body, &mut |expr| {
        if let ExprKind::Scalar(id) = &expr.kind
            && let Some(was) = were.get(id)
        {
            cast(expr, *was);
        }
        // What is cast now is not cast again.
        !matches!(&expr.kind, ExprKind::Cast(_, x) if matches!(x.kind, ExprKind::Scalar(_)))
    });
    if tile::verify(&changed).is_empty() && super::schedulable(&changed) { changed } else { kernel }
}

/// The kernel with comparisons of floats that are loaded made by `order`: what is computed may be a zero of either sign.
pub(super) fn with_order(kernel: Kernel, random: &mut Random) -> Kernel {
    let loaded = |expr: &Expr| match &expr.kind {
        ExprKind::Cast(_, x) => matches!(x.kind, ExprKind::Load { .. }),
        kind => matches!(kind, ExprKind::Load { .. }),
    };
    let mut changed = kernel.clone();
    expressions_mut(&mut changed.body, &mut |expr| {
        if let ExprKind::Cmp(_, a, b) = &mut expr.kind
            && loaded(a)
            && loaded(b)
            && random.below(3) > 0
        {
            for side in [a, b] {
                let inner = std::mem::replace(&mut **side, node(ExprKind::Const { value: 0.0, elem: None }));
                **side = node(ExprKind::Un(UnOp::Order, Box::new(inner)));
            }
        }
        true
    });
    if tile::verify(&changed).is_empty() && super::schedulable(&changed) { changed } else { kernel }
}

/// The kernel with comparisons of `i32` made without a sign, or as it was where that is not well-formed: what is negative is great.
pub(super) fn without_sign(kernel: Kernel, random: &mut Random) -> Kernel {
    let whole = |tensor: TensorId| kernel.tensors[usize::from(tensor.0)].elem == I32;
    // All that such a kernel computes.
    let integers = kernel.tensors.first().is_some_and(|tensor| tensor.elem == I32);
    let is_whole = |expr: &Expr| match &expr.kind {
        ExprKind::Iota(_) | ExprKind::Const { elem: Some(I32), .. } => true,
        ExprKind::Load { tensor, .. } => whole(*tensor),
        _ => integers,
    };
    let mut changed = kernel.clone();
    expressions_mut(&mut changed.body, &mut |expr| {
        if let ExprKind::Cmp(op, a, b) = &mut expr.kind
            && !matches!(op, CmpOp::Eq | CmpOp::Ne)
            && is_whole(a)
            && is_whole(b)
            && random.below(3) > 0
        {
            [a, b].into_iter().for_each(|side| cast(side, ElemType::Fixed(DType::U32)));
        }
        true
    });
    if tile::verify(&changed).is_empty() && super::schedulable(&changed) { changed } else { kernel }
}

/// The types that a tensor may have instead.
fn types_for(was: DType, index: Option<&Indexed>, mutable: bool) -> Vec<DType> {
    // Integers are much like each other, and bools like none of them.
    let often = DType::ALL.into_iter().chain([DType::Bool; 3]);
    let others = often.filter(|dtype| *dtype != was && !dtype.is_float());
    match (index, was.is_integer()) {
        // Eight bits have few distinct numbers.
        (Some(of), _) if of.distinct => others.filter(|dtype| dtype.bytes() > 1).collect(),
        (Some(_), _) => others.filter(|dtype| dtype.is_integer()).collect(),
        (None, true) => others.collect(),
        // Floats that are rounded are not cast to integers.
        (None, false) if !mutable => others.filter(|dtype| dtype.bytes() == 1).collect(),
        (None, false) => Vec::new(),
    }
}

/// Whether a value is not zero.
fn compare(expr: &mut Expr, was: ElemType) {
    let inner = std::mem::replace(expr, node(ExprKind::Const { value: 0.0, elem: None }));
    let zero = boxed(ExprKind::Const { value: 0.0, elem: Some(was) });
    *expr = node(ExprKind::Cmp(CmpOp::Ne, Box::new(inner), zero));
}

fn cast(expr: &mut Expr, to: ElemType) {
    let inner = std::mem::replace(expr, node(ExprKind::Const { value: 0.0, elem: None }));
    *expr = node(ExprKind::Cast(to, Box::new(inner)));
}

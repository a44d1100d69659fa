//! What comes after a kernel is drawn: masks. Some of what is loaded is chosen by a bool, some of what is stored is stored where one is
//! true, and what is made of a mask is stored beside.

use super::{boxed, indexed, node};
use std::collections::BTreeMap;
use tile_dsl::{
    dtype::DType,
    engine::testing::Random,
    op::{BinOp, CmpOp, UnOp},
    span::SpanId,
    tile::{self, ElemType, Expr, ExprKind, Index, Kernel, Stmt, Tensor, TensorId, expressions_mut},
};

/// The kernel with masks of some of its tensors, or as it was where that is not well-formed.
pub(super) fn with_masks(kernel: Kernel, random: &mut Random) -> Kernel {
    let indices = indexed(&kernel);
    let mut changed = kernel.clone();
    let mut body = std::mem::take(&mut changed.body);
    let mut masks = Masks { kernel: changed, known: BTreeMap::new() };
    expressions_mut(&mut body, &mut |expr| {
        let ExprKind::Load { tensor, index } = &expr.kind else { return true };
        let of = &masks.kernel.tensors[usize::from(tensor.0)];
        if of.mutable || indices.contains_key(tensor) || random.below(2) == 0 {
            return true;
        }
        let zero = boxed(ExprKind::Const { value: 0.0, elem: Some(of.elem) });
        let holds = masks.load(*tensor, index.clone());
        let value = std::mem::replace(expr, node(ExprKind::Const { value: 0.0, elem: None }));
        *expr = node(ExprKind::Select(Box::new(holds), Box::new(value), zero));
        false
    });
    for stmt in &mut body {
        stmt.each_mut(&mut |stmt| {
            if let Stmt::Store { tensor, index, when: when @ None, combine: None, .. } = stmt
                && random.below(3) == 0
            {
                let read = index.iter().cloned().map(|entry| Index { unique: false, ..entry });
                *when = Some(masks.load(*tensor, read.collect()));
            }
        });
    }
    if random.below(2) == 0 {
        masks.store_beside(&mut body, random);
    }
    let changed = Kernel { body, ..masks.kernel };
    if tile::verify(&changed).is_empty() && super::schedulable(&changed) { changed } else { kernel }
}

struct Masks {
    kernel: Kernel,
    /// By the tensor that it is as large as.
    known: BTreeMap<TensorId, TensorId>,
}

impl Masks {
    /// The bool at a place of a tensor.
    fn load(&mut self, of: TensorId, index: Vec<Index>) -> Expr {
        let mask = self.known.get(&of).copied().unwrap_or_else(|| self.tensor("mask", of, false));
        self.known.insert(of, mask);
        node(ExprKind::Load { tensor: mask, index })
    }

    /// Bools, as many as a tensor has elements.
    fn tensor(&mut self, name: &str, of: TensorId, mutable: bool) -> TensorId {
        let tensors = &mut self.kernel.tensors;
        let dims = tensors[usize::from(of.0)].dims.clone();
        let (name, elem) = (format!("{name}{}", of.0), ElemType::Fixed(DType::Bool));
        tensors.push(Tensor { name, elem, dims, mutable, span: SpanId::NONE });
        TensorId(tensors.len() as u16 - 1)
    }

    /// Behind a store of all elements of a tensor one of bools.
    fn store_beside(&mut self, body: &mut Vec<Stmt>, random: &mut Random) {
        let plain = |stmt: &Stmt| match stmt {
            Stmt::Store { tensor, index, combine: None, .. } if index.iter().all(|e| e.value.is_none()) => {
                Some((*tensor, index.clone()))
            }
            _ => None,
        };
        let Some((at, (of, index))) = body.iter().enumerate().find_map(|(at, s)| Some((at, plain(s)?)))
        else {
            return;
        };
        let holds = Box::new(self.load(of, index.clone()));
        let truth = boxed(ExprKind::Const {
            value: random.below(2) as f64,
            elem: Some(ElemType::Fixed(DType::Bool)),
        });
        let value = node(match random.below(4) {
            0 => ExprKind::Un(UnOp::Not, holds),
            1 => ExprKind::Bin(BinOp::Or, holds, truth),
            2 => ExprKind::Cmp(CmpOp::Eq, holds, truth),
            _ => holds.kind,
        });
        let tensor = self.tensor("flag", of, true);
        let stmt = Stmt::Store { tensor, index, when: None, combine: None, value, span: SpanId::NONE };
        body.insert(at + 1, stmt);
    }
}

//! Generic kernel + element type → kernel with fixed types, every literal typed.

use super::{ElemType, Expr, ExprKind, Kernel, expressions_mut, verify};
use crate::dtype::DType;

impl Kernel {
    /// Replaces the generic element type and gives each literal the type of its context; names are told apart as in its text.
    ///
    /// `None` is for a kernel without a generic parameter; a generic kernel stays generic then.
    pub fn instantiate(&self, dtype: Option<DType>) -> Kernel {
        let mut kernel = self.named_apart().into_owned();
        if let Some(dtype) = dtype {
            kernel.generic = None;
            for elem in kernel
                .tensors
                .iter_mut()
                .map(|t| &mut t.elem)
                .chain(kernel.scalars.iter_mut().map(|s| &mut s.elem))
            {
                fix(elem, dtype);
            }
            substitute(&mut kernel, dtype);
        }
        verify::type_literals(&mut kernel);
        kernel
    }
}

fn fix(elem: &mut ElemType, dtype: DType) {
    if *elem == ElemType::Generic {
        *elem = ElemType::Fixed(dtype);
    }
}

fn substitute(kernel: &mut Kernel, dtype: DType) {
    let fix_all = &mut |expr: &mut Expr| {
        match &mut expr.kind {
            ExprKind::Full { elem, .. }
            | ExprKind::Cast(elem, _)
            | ExprKind::Const { elem: Some(elem), .. } => {
                fix(elem, dtype);
            }
            _ => {}
        }
        true
    };
    expressions_mut(&mut kernel.body, fix_all);
    let limits = kernel.axes.iter_mut().flat_map(|axis| axis.limits.ends_mut());
    limits.for_each(|end| end.each_mut(fix_all));
}

//! Operators of two operands: the types that they take.

use super::{BOOL, Checker, F32, STORED_ONLY, bits, conversion, is_float, is_integer, untyped};
use crate::{
    diagnostic::Diagnostic,
    dtype::DType,
    op::BinOp,
    span::SpanId,
    tile::{ElemType, Expr, ValueType},
};

impl Checker<'_> {
    /// Type of `a op b`.
    pub(super) fn binary(
        &mut self,
        op: BinOp,
        a: &mut Expr,
        b: &mut Expr,
        expected: Option<ElemType>,
        span: SpanId,
    ) -> Option<ValueType> {
        let (left, right) = self.operands(a, b, expected)?;
        let takes = |elem: ElemType| match elem {
            ElemType::Fixed(dtype) => op.takes(dtype),
            ElemType::Generic => op.row().float.is_some(),
        };
        let row = op.row();
        let (sides, taken) = ([&left, &right], [takes(left.elem), takes(right.elem)]);
        // No cast of the other operand helps.
        let float = sides.into_iter().find(|side| is_float(side.elem) && row.float.is_none());
        let found = match float.filter(|_| sides.iter().all(|side| side.elem != BOOL)) {
            Some(float) => float.clone(),
            // Each may have a type of its own.
            None if op.takes_bits() => match taken {
                [true, false] => right.clone(),
                _ => joined(&left, &right),
            },
            None => self.same(a, b, sides, span, op.written())?,
        };
        if takes(found.elem) {
            let elem = match found.elem {
                ElemType::Fixed(dtype) => ElemType::Fixed(op.result(dtype)),
                ElemType::Generic => ElemType::Generic,
            };
            return Some(ValueType { elem, ..found });
        }
        let stored_only = is_integer(found.elem) && row.int.is_some();
        let help = match (row.float, row.truth) {
            _ if stored_only => STORED_ONLY,
            (None, Some(_)) => {
                "it takes bools, such as results of comparisons, and the bits of i32 and u32 values"
            }
            (None, None) if op.shifts() => "only i32 and u32 values have bits that move",
            (None, None) if op.takes_bits() => "a seed and a counter are i32 or u32 values",
            (None, None) => "remainders are of i32 and u32 values only",
            (Some(_), _) => "`.cast::<i32>()` makes numbers of them; `&`, `|`, `==` and `!=` combine them",
        };
        let message = format!("`{}` of {} values", op.written(), self.kernel.elem_name(found.elem));
        let error = Diagnostic::new(span, message).remark(help);
        let widened = [&*a, &*b]
            .into_iter()
            .zip(taken)
            .filter(|(operand, taken)| stored_only && !untyped(operand) && !(op.takes_bits() && *taken));
        let widened: Vec<SpanId> = widened.map(|(operand, _)| operand.span).collect();
        self.error(match widened[..] {
            [at] => error.rewrite(at, "", ".cast::<i32>()"),
            _ => error,
        });
        None
    }

    /// Two operands of equal element type; their axes are joined.
    pub(super) fn pair(
        &mut self,
        a: &mut Expr,
        b: &mut Expr,
        expected: Option<ElemType>,
        span: SpanId,
        op: &str,
    ) -> Option<ValueType> {
        let (left, right) = self.operands(a, b, expected)?;
        self.same(a, b, [&left, &right], span, op)
    }

    /// Types of two operands; a literal has that of the other one.
    fn operands(
        &mut self,
        a: &mut Expr,
        b: &mut Expr,
        expected: Option<ElemType>,
    ) -> Option<(ValueType, ValueType)> {
        Some(if untyped(a) && !untyped(b) {
            let right = self.infer(b, expected)?;
            (self.infer(a, Some(right.elem))?, right)
        } else {
            let left = self.infer(a, expected);
            let right = match &left {
                Some(left) => self.infer(b, Some(left.elem)),
                None if untyped(b) => None,
                None => self.infer(b, expected),
            };
            (left?, right?)
        })
    }

    /// The type that two operands have both, with the axes of both.
    fn same(
        &mut self,
        a: &Expr,
        b: &Expr,
        [left, right]: [&ValueType; 2],
        span: SpanId,
        op: &str,
    ) -> Option<ValueType> {
        if left.elem != right.elem {
            let names = [self.kernel.elem_name(left.elem), self.kernel.elem_name(right.elem)];
            // Integers become floats, and few bits many.
            let (cast, to) = match (left.elem, right.elem) {
                (x, y) if is_integer(x) && is_integer(y) && bits(x) >= bits(y) => (b, x),
                (x, other) if is_integer(x) => (a, other),
                (other, y) if is_integer(y) || other == F32 => (b, other),
                (_, other) => (a, other),
            };
            let cast = cast.span;
            let to = self.kernel.elem_name(to);
            let error =
                Diagnostic::new(span, format!("operands of `{op}` are {} and {}", names[0], names[1]))
                    .note(a.span, format!("this is {}", names[0]))
                    .note(b.span, format!("this is {}", names[1]));
            // What combines bools takes no numbers, and what computes no bools.
            let combines = BinOp::from_symbol(op).is_some_and(|op| op.takes(DType::Bool));
            self.error(match (left.elem, right.elem) {
                (BOOL, number) if combines => {
                    error.rewrite(b.span, "(", conversion(self.kernel, number, BOOL) + ")")
                }
                (number, BOOL) if combines => {
                    error.rewrite(a.span, "(", conversion(self.kernel, number, BOOL) + ")")
                }
                (BOOL, number) => error.rewrite(a.span, "", conversion(self.kernel, BOOL, number)),
                (number, BOOL) => error.rewrite(b.span, "", conversion(self.kernel, BOOL, number)),
                _ => error.rewrite(cast, "", format!(".cast::<{to}>()")),
            });
            return None;
        }
        Some(joined(left, right))
    }
}

/// The first operand's elements along the axes of both.
fn joined(left: &ValueType, right: &ValueType) -> ValueType {
    ValueType { axes: &left.axes | &right.axes, elem: left.elem }
}

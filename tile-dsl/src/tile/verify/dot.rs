//! `dot`: what it contracts, and what it accumulates into.

use super::{BOOL, Checker, F32, I32, is_float};
use crate::{
    diagnostic::{Diagnostic, replace},
    index::AxisId,
    span::SpanId,
    tile::{AxisKind, ElemType, Expr, ExprKind, Form, Operation, ValueType},
};
use std::collections::BTreeSet;

/// A literal as it is written.
#[derive(Clone, Copy)]
pub(super) struct Literal {
    value: f64,
    elem: Option<ElemType>,
    span: SpanId,
}

impl Literal {
    /// The literal that an expression is.
    pub fn of(expr: &Expr) -> Option<Literal> {
        match expr.kind {
            ExprKind::Const { value, elem } => Some(Literal { value, elem, span: expr.span }),
            _ => None,
        }
    }
}

/// What an accumulator of two factors is, where nothing else says so.
pub(super) fn accumulator(a: Option<ElemType>, b: Option<ElemType>) -> ElemType {
    if a.is_some_and(is_narrow) && b.is_some_and(is_narrow) { I32 } else { F32 }
}

/// Whether elements are integers of 8 bits, which `dot` multiplies.
fn is_narrow(elem: ElemType) -> bool {
    matches!(elem, ElemType::Fixed(dtype) if dtype.is_integer() && dtype.bytes() == 1)
}

/// A number as literals are written.
pub(super) fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.1}") } else { value.to_string() }
}

impl Checker<'_> {
    /// A literal has no axes, so it is no accumulator of operands with more of them than those that are contracted: the
    /// mistake is the literal, where it is written.
    pub(super) fn literal_accumulator(
        &mut self,
        a: &ValueType,
        b: &ValueType,
        acc: &Expr,
        elem: ElemType,
    ) -> Option<()> {
        let kernel = self.kernel;
        let var = if let ExprKind::Var(var) = acc.kind { Some(var) } else { None };
        let bound = var.and_then(|var| self.literals.get(&var)).copied();
        let Some((literal, error)) = Literal::of(acc).map(|l| (l, None)).or(bound) else { return Some(()) };
        let kind = |axis: &AxisId| kernel.axes[usize::from(axis.0)].kind;
        let one = &a.axes ^ &b.axes;
        let program: BTreeSet<AxisId> =
            (&a.axes & &b.axes).into_iter().filter(|axis| kind(axis) == AxisKind::Program).collect();
        let own = &one | &program;
        // Outside of its loop, nothing has an axis of `tiles`.
        if own.is_empty() || var.is_some() && own.iter().any(|axis| kind(axis) == AxisKind::Tiles) {
            return Some(());
        }
        let (text, axes) = (number(literal.value), kernel.axes_text(&own));
        let named = kernel.elem_name(literal.elem.unwrap_or(elem));
        let tile = match literal.value == 0.0 {
            true => format!("zeros::<{named}>({axes})"),
            false => format!("full::<{named}>({text}, {axes})"),
        };
        let written = literal.elem.map_or(text.clone(), |_| format!("{text}{named}"));
        let mistake = Diagnostic::new(
            literal.span,
            format!("the accumulator of `dot` is a number, and its operands have axes {axes} that are not contracted"),
        )
        .help(replace(written, tile))
        .card(Operation::Form(Form::Dot).place());
        match error {
            Some(error) => self.errors[error] = mistake,
            None => {
                let place = self.errors.len();
                self.error(mistake);
                var.map(|var| self.literals.insert(var, (literal, Some(place))));
            }
        }
        None
    }

    /// Type of a product.
    pub(super) fn dot(
        &mut self,
        a: &ValueType,
        b: &ValueType,
        acc: &ValueType,
        spans: [SpanId; 3],
        span: SpanId,
    ) -> Option<ValueType> {
        let kernel = self.kernel;
        let text = |t: &ValueType| kernel.axes_text(&t.axes);
        let shapes = |d: Diagnostic| {
            d.note(spans[0], format!("the first operand has axes {}", text(a)))
                .note(spans[1], format!("the second operand has axes {}", text(b)))
                .note(spans[2], format!("the accumulator has axes {}", text(acc)))
        };
        let axis_name = |axis: &AxisId| kernel.axes[usize::from(axis.0)].name.as_str();
        let before = self.errors.len();
        let eight_bits = is_narrow(a.elem) && is_narrow(b.elem);
        if !eight_bits && (a.elem != b.elem || !is_float(a.elem)) {
            let (x, y) = (kernel.elem_name(a.elem), kernel.elem_name(b.elem));
            let help = match is_float(a.elem) || is_float(b.elem) {
                true => "both have the same floating-point type: add a cast to one",
                false if a.elem == BOOL || b.elem == BOOL => {
                    "it multiplies floats: `.cast::<f16>()` makes 1 of what is true"
                }
                false => "it multiplies floats, or i8 and u8: cast both, or write `sum(a * b, k)`",
            };
            self.error(Diagnostic::new(span, format!("operands of `dot` are {x} and {y}")).remark(help));
        } else if eight_bits && acc.elem != I32 {
            let [x, y, z] = [acc, a, b].map(|value| kernel.elem_name(value.elem));
            let operands = if y == z { y.to_string() } else { format!("{y} and {z}") };
            self.error(
                Diagnostic::new(spans[2], format!("the accumulator of `dot` is {x}, its operands are {operands}"))
                    .card(Operation::Form(Form::Dot).place())
                    .remark("accumulate in i32, which is exact: `zeros::<i32>(..)`; `.cast::<f32>()` makes floats of the sum"),
            );
        } else if !eight_bits && acc.elem != F32 && acc.elem != a.elem {
            let (x, y) = (kernel.elem_name(acc.elem), kernel.elem_name(a.elem));
            self.error(
                Diagnostic::new(spans[2], format!("the accumulator of `dot` is {x}, its operands are {y}"))
                    .card(Operation::Form(Form::Dot).place())
                    .remark("accumulate in f32: `zeros::<f32>(..)`"),
            );
        }
        let either = &a.axes | &b.axes;
        let foreign: Vec<_> = (&acc.axes - &either).into_iter().collect();
        if let Some(axis) = foreign.first() {
            let name = axis_name(axis);
            self.error(
                shapes(Diagnostic::new(
                    span,
                    format!("the accumulator of `dot` has axis `{name}`, which neither operand has"),
                ))
                .remark(format!("index an operand by `{name}`, or leave it out of the accumulator")),
            );
        }
        let contracted = &either - &acc.axes;
        for axis in &contracted {
            let name = axis_name(axis);
            let entry = &kernel.axes[usize::from(axis.0)];
            let missing = match (a.axes.contains(axis), b.axes.contains(axis)) {
                (true, true) => None,
                (true, false) => Some("second"),
                _ => Some("first"),
            };
            if let Some(which) = missing {
                self.error(shapes(Diagnostic::new(
                    span,
                    format!("`dot` contracts `{name}`, which its {which} operand does not have"),
                ))
                .remark(format!(
                    "a contracted axis is in both operands: index the {which} operand by `{name}`, or give the accumulator the axis `{name}`"
                )));
            } else if entry.kind == AxisKind::Program {
                self.error(
                    shapes(Diagnostic::new(span, format!("`dot` contracts the program axis `{name}`")))
                        .note(
                            entry.span,
                            format!("each program owns one tile of `{name}`, so no program sees all of it"),
                        )
                        .remark(format!("bind `{name}` with `whole(..)` or `tiles(..)`")),
                );
            }
        }
        for axis in &contracted {
            let missing = &kernel.limiting_axes(*axis) - &acc.axes;
            if let Some(limiting) = missing.first() {
                let (name, limiting) = (axis_name(axis), axis_name(limiting));
                self.error(
                    shapes(Diagnostic::new(
                        span,
                        format!("`dot` contracts `{name}`, whose points depend on `{limiting}`, which the accumulator lacks"),
                    ))
                    .note(kernel.axes[usize::from(axis.0)].span, format!("the limits of `{name}` are here"))
                    .remark(format!("give the accumulator the axis `{limiting}`")),
                );
            }
        }
        if contracted.is_empty() && foreign.is_empty() {
            self.error(
                shapes(Diagnostic::new(
                    span,
                    "`dot` contracts nothing: the accumulator has every axis of the operands",
                ))
                .remark("write `acc + a * b` for an elementwise product"),
            );
        }
        (self.errors.len() == before).then(|| acc.clone())
    }
}

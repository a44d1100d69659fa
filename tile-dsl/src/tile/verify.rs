//! Typing rules of the tile IR. Every mistake is reported, none twice.
//!
//! | rule | condition |
//! |---|---|
//! | elementwise | equal element types; the axes are the union |
//! | `reduce(op, x, a)` | `a` ∈ axes(x), not a program axis, a float type |
//! | `dot(A, B, C)` | axes(C) ⊆ A ∪ B; contracted = (A ∪ B) ∖ C, in both, not empty, no program axis |
//! | `x = E` | keeps axes and element type; inside a loop that `x` was declared outside of |
//! | scope | an axis of `tiles` and a value bound in its loop do not leave the loop |
//! | `store` | axes(E) = axes(index), or a part of them where values are in the index; the index map is injective and inside the tensor; no program axis and no open loop is missing |
//! | an index that is a value | an integer; in a store its axes are determined by other dimensions, or `unique` promises that they are |
//! | `atomic_add` and the like | each program axis and each open loop is among the axes of index and value; nothing else stores to the tensor or loads from it |
//! | `if c { store }` | a condition with no axis that the store lacks |
//! | a limit of `a` | an `i32` without `a`, known before the loops over `a`; `dot` over `a` and what loops over `a` carry or store have its axes |
//! | numbers | extents and index expressions stay in 32 bits, as far as their numbers tell |
//! | tensors | stores to one tensor never meet; it is read only where none does, or at the identical index before it is overwritten; where values say where it is stored or read, it is either stored once or only read |

use super::{
    AxisKind, ElemType, Expr, ExprKind, Form, Index, Kernel, Limits, Operation, ScalarId, Stmt, TensorId,
    ValueType, VarId,
};
use crate::{
    diagnostic::{Diagnostic, replace},
    dtype::DType,
    index::{Affine, AxisId, Extent},
    op::{Makes, RedOp},
    span::SpanId,
};
use combine::Combined;
use dot::Literal;
use std::collections::{BTreeMap, BTreeSet};

mod combine;
mod disjoint;
mod dot;
mod index;
mod limits;
mod operands;
mod signature;

/// Checks every typing rule; an empty list means the kernel is well-formed. Works on generic kernels too.
pub fn verify(kernel: &Kernel) -> Vec<Diagnostic> {
    // Messages name variables as the text does.
    let kernel = &*kernel.named_apart();
    let mut errors = signature::check(kernel);
    let mut body = kernel.body.clone();
    let mut checker = Checker::new(kernel);
    checker.block(&mut body);
    checker.unused_stores();
    errors.append(&mut checker.errors);
    errors
}

/// Gives each literal the type of its context, as far as that is known.
pub(super) fn type_literals(kernel: &mut Kernel) {
    let mut body = std::mem::take(&mut kernel.body);
    let mut checker = Checker::new(kernel);
    checker.block(&mut body);
    let limits = checker.typed_limits;
    kernel.body = body;
    for (axis, typed) in limits {
        kernel.axes[usize::from(axis.0)].limits = typed;
    }
}

struct Checker<'k> {
    kernel: &'k Kernel,
    /// Types of the variables in scope; `None` where the definition was wrong, to report nothing twice.
    vars: BTreeMap<VarId, Option<ValueType>>,
    /// Number of loops open where a variable was bound.
    depth: BTreeMap<VarId, usize>,
    /// Variables bound to a literal, with the place of the mistake if its type is unknown.
    literals: BTreeMap<VarId, (Literal, Option<usize>)>,
    /// Loops around the current statement.
    open: Vec<AxisId>,
    stores: BTreeMap<TensorId, Vec<(Vec<Index>, SpanId)>>,
    loads: Vec<(TensorId, Vec<Index>, SpanId)>,
    /// Limits that were checked, with the types of their literals.
    typed_limits: BTreeMap<AxisId, Limits>,
    /// Tensors that atomic operations combine: by which, and where first.
    combined: BTreeMap<TensorId, (RedOp, SpanId)>,
    errors: Vec<Diagnostic>,
}

/// Numbers in extents and indices lie below this: indices are 32-bit, with room for tails.
const LIMIT: i64 = (1 << 31) - (1 << 16);

const F32: ElemType = ElemType::Fixed(DType::F32);
const I32: ElemType = ElemType::Fixed(DType::I32);
const BOOL: ElemType = ElemType::Fixed(DType::Bool);

fn is_float(elem: ElemType) -> bool {
    match elem {
        ElemType::Fixed(dtype) => dtype.is_float(),
        ElemType::Generic => true,
    }
}

fn is_integer(elem: ElemType) -> bool {
    matches!(elem, ElemType::Fixed(dtype) if dtype.is_integer())
}

/// Bits of an element; of the generic type none is known.
fn bits(elem: ElemType) -> u32 {
    match elem {
        ElemType::Fixed(dtype) => dtype.format().bits,
        ElemType::Generic => 0,
    }
}

/// What makes a value of another type, written behind it.
fn conversion(kernel: &Kernel, from: ElemType, to: ElemType) -> String {
    match to {
        BOOL if is_integer(from) => " != 0".into(),
        BOOL => " != 0.0".into(),
        to => format!(".cast::<{}>()", kernel.elem_name(to)),
    }
}

/// Why an integer is not computed with.
const STORED_ONLY: &str =
    "they are loaded, stored, compared and cast; `.cast::<i32>()` makes of them what is computed with";

/// Whether the type of the expression follows from its context alone: built from plain literals.
fn untyped(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Const { elem, .. } => elem.is_none(),
        ExprKind::Un(_, x) => untyped(x),
        ExprKind::Bin(_, a, b) => untyped(a) && untyped(b),
        ExprKind::Select(_, a, b) => untyped(a) && untyped(b),
        _ => false,
    }
}

impl<'k> Checker<'k> {
    fn new(kernel: &'k Kernel) -> Self {
        Checker {
            kernel,
            vars: BTreeMap::new(),
            depth: BTreeMap::new(),
            literals: BTreeMap::new(),
            open: Vec::new(),
            stores: BTreeMap::new(),
            loads: Vec::new(),
            typed_limits: BTreeMap::new(),
            combined: BTreeMap::new(),
            errors: Vec::new(),
        }
    }

    fn error(&mut self, diagnostic: Diagnostic) {
        self.errors.push(diagnostic);
    }

    fn block(&mut self, body: &mut [Stmt]) {
        let mut bound = Vec::new();
        for stmt in body {
            self.limits_of_whole();
            match stmt {
                Stmt::Let { var, value } => {
                    self.check_overwritten(value);
                    let literal = Literal::of(value);
                    let found = self.infer(value, None);
                    if let Some(literal) = literal {
                        let error = found.is_none().then(|| self.errors.len() - 1);
                        self.literals.insert(*var, (literal, error));
                    }
                    self.vars.insert(*var, found);
                    self.depth.insert(*var, self.open.len());
                    bound.push(*var);
                }
                Stmt::Assign { var, value, span } => self.assign(*var, value, *span),
                Stmt::For { axis, body, span } => self.for_loop(*axis, body, *span),
                Stmt::Store { tensor, index, when, combine, value, span } => {
                    when.iter().for_each(|when| self.check_overwritten(when));
                    let (tensor, span) = (*tensor, *span);
                    let axes = match *combine {
                        Some(op) => self.combine(Combined { op, tensor, index, value, span }),
                        None => self.store(tensor, index, value, span),
                    };
                    if let Some(when) = when {
                        self.condition(tensor, when, axes.as_ref());
                    }
                }
            }
        }
        for var in bound {
            self.vars.remove(&var);
        }
    }

    fn for_loop(&mut self, axis: AxisId, body: &mut [Stmt], span: SpanId) {
        let name = &self.kernel.axes[usize::from(axis.0)].name;
        if self.kernel.axes[usize::from(axis.0)].kind != AxisKind::Tiles {
            self.error(
                Diagnostic::new(
                    span,
                    format!("`{name}` is not bound by `tiles`, so it cannot be looped over"),
                )
                .remark(format!("write `for {name} in tiles(..)`")),
            );
        }
        if self.open.contains(&axis) {
            self.error(Diagnostic::new(span, format!("the loop over `{name}` is inside itself")));
        }
        self.limits(axis);
        self.open.push(axis);
        self.block(body);
        self.open.pop();
    }

    fn assign(&mut self, var: VarId, value: &mut Expr, span: SpanId) {
        self.check_overwritten(value);
        let old = self.vars.get(&var).cloned().flatten();
        let found = self.infer(value, old.as_ref().map(|t| t.elem));
        let (kernel, entry) = (self.kernel, &self.kernel.vars[usize::from(var.0)]);
        let name = &entry.name;
        // `v.2` is a name bound again.
        let bound = name.split('.').next().unwrap_or(name);
        if !self.vars.contains_key(&var) {
            self.error(Diagnostic::new(span, format!("`{name}` is not bound here")));
            return;
        }
        if !entry.mutable {
            self.error(
                Diagnostic::new(span, format!("`{name}` is assigned but not declared `mut`"))
                    .note(entry.span, format!("`{name}` is bound here"))
                    .help(replace(format!("let {bound}"), format!("let mut {bound}"))),
            );
        }
        if self.depth[&var] == self.open.len() {
            self.error(
                Diagnostic::new(span, format!("`{name}` is assigned outside a loop"))
                    .remark(format!("bind it again: `let {name} = ..`")),
            );
        }
        let (Some(old), Some(found)) = (old, found) else { return };
        if self.lacks_limiting_axes(var, &old, span) {
            return;
        }
        if found.elem != old.elem {
            let (was, is) = (kernel.elem_name(old.elem), kernel.elem_name(found.elem));
            let error = Diagnostic::new(value.span, format!("`{name}` holds {was} but is assigned {is}"))
                .card(Operation::Form(Form::Assign).place())
                .note(entry.span, format!("`{name}` is bound here"));
            self.error(error.rewrite(value.span, "", conversion(kernel, found.elem, old.elem)));
        }
        if found.axes != old.axes {
            let extra: BTreeSet<_> = &found.axes - &old.axes;
            let message = format!(
                "`{name}` has axes {} but is assigned a value with axes {}",
                kernel.axes_text(&old.axes),
                kernel.axes_text(&found.axes)
            );
            let mut diagnostic = Diagnostic::new(value.span, message)
                .note(entry.span, format!("`{name}` is bound here"))
                .card(Operation::Form(Form::Assign).place());
            diagnostic = match extra.iter().find(|a| self.open.contains(a)) {
                Some(axis) => {
                    let axis = &kernel.axes[usize::from(axis.0)].name;
                    diagnostic.remark(format!(
                        "`{axis}` would escape its loop: contract it with `dot(.., .., {name})`, or reduce it with `sum(.., {axis})`"
                    ))
                }
                None if extra.is_empty() => diagnostic.remark(format!(
                    "an assignment keeps the axes: bind `{name}` with axes {}, or add the missing axes to the value",
                    kernel.axes_text(&found.axes)
                )),
                None => diagnostic
                    .remark(format!("bind `{name}` with axes {}", kernel.axes_text(&(&old.axes | &found.axes)))),
            };
            self.error(diagnostic);
        }
    }

    /// Type of an expression; `None` after an error in it. `expected` gives plain literals their type.
    fn infer(&mut self, expr: &mut Expr, expected: Option<ElemType>) -> Option<ValueType> {
        let (kernel, span) = (self.kernel, expr.span);
        match &mut expr.kind {
            ExprKind::Load { tensor, index } => {
                let axes = self.index_axes(*tensor, index, span)?;
                self.load(*tensor, index, span)?;
                Some(ValueType { axes, elem: kernel.tensors[usize::from(tensor.0)].elem })
            }
            ExprKind::Full { value, elem, axes } => {
                self.representable_literal(*value, *elem, span)?;
                let axes: BTreeSet<_> = axes.iter().copied().collect();
                self.in_scope(&axes, span)?;
                Some(ValueType { axes, elem: *elem })
            }
            ExprKind::Iota(axis) => {
                let axes = [*axis].into();
                self.in_scope(&axes, span)?;
                Some(ValueType { axes, elem: I32 })
            }
            ExprKind::Dim(_) | ExprKind::Edge(..) => Some(ValueType::scalar(I32)),
            ExprKind::Const { value, elem } => {
                let Some(found) = elem.or(expected) else {
                    let text = dot::number(*value);
                    self.error(
                        Diagnostic::new(span, "the type of this literal does not follow from its context")
                            .help(replace(&text, format!("{text}f32"))),
                    );
                    return None;
                };
                if elem.is_none() && found == BOOL {
                    let error = Diagnostic::new(span, format!("the literal {value} is used as a bool"));
                    self.error(error.remark("a bool is `true`, `false` or a comparison: `x != 0`"));
                    return None;
                }
                self.representable_literal(*value, found, span)?;
                *elem = Some(found);
                Some(ValueType::scalar(found))
            }
            ExprKind::Scalar(ScalarId(id)) => Some(ValueType::scalar(kernel.scalars[usize::from(*id)].elem)),
            ExprKind::Var(id) => match self.vars.get(id) {
                Some(known) => known.clone(),
                None => {
                    let name = &kernel.vars[usize::from(id.0)].name;
                    self.error(Diagnostic::new(span, format!("`{name}` is not bound here")).remark(
                        "a value lives in the block of its `let`: carry it out of a loop with `let mut`",
                    ));
                    None
                }
            },
            ExprKind::Un(op, x) => {
                let op = *op;
                let expected = expected.filter(|_| op.row().makes.is_none());
                let found = self.infer(x, expected)?;
                let row = op.row();
                let fits = match found.elem {
                    ElemType::Fixed(dtype) => op.takes(dtype),
                    ElemType::Generic => op.takes(DType::F32),
                };
                if !fits {
                    let (name, elem) = (op.name(), kernel.article(found.elem));
                    let to = match row.int {
                        Some(_) if is_integer(found.elem) => DType::I32,
                        _ => DType::F32,
                    };
                    let error = Diagnostic::new(span, format!("`{name}` of {elem} value"));
                    self.error(match (row.float, row.int) {
                        _ if let Some(Makes::Fraction(_)) = row.makes => match found.elem == BOOL {
                            true => error.remark("it takes words of 32 random bits: `random(seed, i, 0)`"),
                            false => error.rewrite(x.span, "", ".cast::<u32>()"),
                        },
                        (None, Some(_)) if is_integer(found.elem) => {
                            error.remark(STORED_ONLY).rewrite(x.span, "", format!(".cast::<{to}>()"))
                        }
                        (None, Some(_)) => error
                            .remark("it takes a bool, such as the result of a comparison, or an i32 or u32"),
                        _ => error.rewrite(x.span, "", format!(".cast::<{to}>()")),
                    });
                    return None;
                }
                let elem = match row.makes {
                    Some(_) => ElemType::Fixed(op.result(DType::F32)),
                    None => found.elem,
                };
                Some(ValueType { elem, ..found })
            }
            ExprKind::Bin(op, a, b) => self.binary(*op, a, b, expected, span),
            ExprKind::Cmp(op, a, b) => {
                let name = op.name();
                let found = self.pair(a, b, None, span, name)?;
                if found.elem == BOOL && op.row().ordered {
                    self.error(Diagnostic::new(span, format!("`{name}` of bool values")).remark(
                        "they have no order: `==` and `!=` compare them, `&`, `|` and `!` combine them",
                    ));
                    return None;
                }
                Some(ValueType { elem: BOOL, ..found })
            }
            ExprKind::Select(c, a, b) => {
                let condition = self.infer(c, None);
                let found = self.pair(a, b, expected, span, "select");
                let (condition, found) = (condition?, found?);
                if condition.elem != BOOL {
                    let elem = kernel.elem_name(condition.elem);
                    self.error(
                        Diagnostic::new(c.span, format!("the condition of `select` is {elem}, not bool"))
                            .card(Operation::Form(Form::Select).place())
                            .remark("compare it: `select(x > 0.0, a, b)`"),
                    );
                    return None;
                }
                Some(ValueType { axes: &found.axes | &condition.axes, elem: found.elem })
            }
            ExprKind::Cast(elem, x) => {
                let elem = *elem;
                let found = self.infer(x, Some(elem))?;
                if elem == BOOL && found.elem != BOOL {
                    self.error(
                        Diagnostic::new(span, format!("{} is not cast to bool", kernel.article(found.elem)))
                            .remark("compare it: `x != 0`"),
                    );
                    return None;
                }
                Some(ValueType { elem, ..found })
            }
            ExprKind::Reduce(op, x, axis) => {
                let (op, axis) = (*op, *axis);
                let mut found = self.infer(x, expected)?;
                self.in_scope(&[axis].into(), span)?;
                self.reduce(op, op.name(), &found, axis, x.span, span)?;
                found.axes.remove(&axis);
                found.axes.extend(kernel.limiting_axes(axis));
                Some(found)
            }
            ExprKind::Scan(op, x, axis) => {
                let (op, axis) = (*op, *axis);
                let mut found = self.infer(x, expected)?;
                self.in_scope(&[axis].into(), span)?;
                self.reduce(op, op.scan(), &found, axis, x.span, span)?;
                found.axes.extend(kernel.limiting_axes(axis));
                Some(found)
            }
            ExprKind::Dot(a, b, c) => {
                let left = self.infer(a, None);
                let right = self.infer(b, left.as_ref().map(|t| t.elem));
                let sums = dot::accumulator(left.as_ref().map(|t| t.elem), right.as_ref().map(|t| t.elem));
                if let (Some(left), Some(right)) = (&left, &right) {
                    self.literal_accumulator(left, right, c, expected.unwrap_or(sums))?;
                }
                let acc = self.infer(c, expected.or(Some(sums)));
                self.dot(&left?, &right?, &acc?, [a.span, b.span, c.span], span)
            }
        }
    }

    /// Whether a type has a number.
    fn representable_literal(&mut self, value: f64, elem: ElemType, span: SpanId) -> Option<()> {
        let ElemType::Fixed(dtype) = elem else { return Some(()) };
        if dtype.is_float() || dtype.round_f64(value) == value {
            return Some(());
        }
        if dtype.is_truth() {
            let error = Diagnostic::new(span, format!("the literal {value} is used as a bool"));
            self.error(error.remark("a bool is `true` or `false`"));
            return None;
        }
        let (least, greatest) = (dtype.least(), dtype.greatest());
        let instead = match value.fract() == 0.0 && dtype.bytes() < 4 {
            true => "`x.cast::<i32>()` has more bits",
            false => "`x.cast::<f32>()` makes floats of integers",
        };
        self.error(
            Diagnostic::new(span, format!("the literal {value} is used as {} {dtype}", dtype.article()))
                .remark(format!(
                    "{} {dtype} is a whole number from {least} to {greatest}; {instead}",
                    dtype.article()
                )),
        );
        None
    }

    /// What a reduction or a scan over an axis requires, `name_of_op` by its name.
    fn reduce(
        &mut self,
        op: RedOp,
        name_of_op: &str,
        x: &ValueType,
        axis: AxisId,
        of: SpanId,
        span: SpanId,
    ) -> Option<()> {
        let entry = &self.kernel.axes[usize::from(axis.0)];
        let name = &entry.name;
        if !x.axes.contains(&axis) {
            let axes = self.kernel.axes_text(&x.axes);
            self.error(
                Diagnostic::new(
                    span,
                    format!("`{name_of_op}` over `{name}` of a value that does not have it"),
                )
                .note(SpanId::NONE, format!("the value has axes {axes}"))
                .remark(format!("reduce over one of {axes}")),
            );
            return None;
        }
        if entry.kind == AxisKind::Program {
            self.error(
                Diagnostic::new(span, format!("`{name_of_op}` over the program axis `{name}`"))
                    .note(
                        entry.span,
                        format!("each program owns one tile of `{name}`, so no program sees all of it"),
                    )
                    .remark(format!("bind `{name}` with `whole(..)` or loop over it with `tiles(..)`")),
            );
            return None;
        }
        let takes = match x.elem {
            ElemType::Fixed(dtype) => op.combine().takes(dtype),
            ElemType::Generic => true,
        };
        if !takes {
            let elem = self.kernel.elem_name(x.elem);
            let error = Diagnostic::new(span, format!("`{name_of_op}` over an axis of {elem} values"));
            let error = if x.elem == BOOL { error } else { error.remark(STORED_ONLY) };
            self.error(error.rewrite(of, "", ".cast::<i32>()"));
            return None;
        }
        Some(())
    }

    /// Reports axes whose loop is not open here.
    fn in_scope(&mut self, axes: &BTreeSet<AxisId>, span: SpanId) -> Option<()> {
        for axis in axes {
            let entry = &self.kernel.axes[usize::from(axis.0)];
            if entry.kind == AxisKind::Tiles && !self.open.contains(axis) {
                let name = &entry.name;
                self.error(
                    Diagnostic::new(span, format!("axis `{name}` is used outside its loop"))
                        .note(entry.span, format!("`{name}` is bound here"))
                        .remark(format!(
                            "use it inside `for {name} in tiles(..)`, or bind it with `whole(..)`"
                        )),
                );
                return None;
            }
        }
        Some(())
    }
}

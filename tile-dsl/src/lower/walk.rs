//! The walk over the term.

use super::{
    context::Cx,
    control,
    digits::StepOrder,
    error::LowerError,
    expr::{self, Operand},
    guard, lets, limits, lookback, matrix, pipeline, put, stage, storage,
};
use crate::{
    dtype::DType,
    kernel::{self, Expr as KExpr},
    nest::{Digit, Expr, LoopKind, Steps, Stmt, ValueId},
    op::{BinOp, RedOp},
};

/// Statements beyond which expansion is a mistake: the engine admits 2¹⁵ operations of straight-line code, and the guards and
/// the address of none take 64 statements.
const MAX_STATEMENTS: usize = 1 << 21;

pub(super) fn stmt(cx: &mut Cx<'_>, statement: &Stmt) -> Result<(), LowerError> {
    if cx.build.emit.count > MAX_STATEMENTS {
        return Err(LowerError::Malformed(format!(
            "expanded loops give more than {MAX_STATEMENTS} statements"
        )));
    }
    if let Stmt::Def { value, .. }
    | Stmt::Set { value, .. }
    | Stmt::Red { value, .. }
    | Stmt::Scan { value, .. } = statement
        && cx.env.is_left_out(*value)
    {
        return Ok(());
    }
    match statement {
        Stmt::For { digit, at, body } => loop_(cx, *digit, *at, body),
        Stmt::Let { values, first, rest } => let_(cx, values, first, rest),
        Stmt::Stage { .. } => stage::stage(cx, statement, stmt),
        Stmt::Def { value, expr } => define(cx, *value, expr),
        Stmt::Set { value, expr } => set(cx, *value, expr),
        Stmt::Red { value, op, expr } => reduce(cx, *value, *op, expr),
        Stmt::Scan { value, expr } => scanned(cx, *value, expr),
        Stmt::Put { access, expr } => put::put(cx, *access, expr),
        Stmt::Skip => Ok(()),
    }
}

fn loop_(cx: &mut Cx<'_>, digit: Digit, at: LoopKind, body: &Stmt) -> Result<(), LowerError> {
    if cx.view.plan.lookback.as_ref().is_some_and(|lookback| lookback.digit == digit) {
        return lookback::step(cx, (digit, at), |cx| stmt(cx, body));
    }
    match (at, digit.steps) {
        (LoopKind::Atom(atom, _), _) => matrix::atom(cx, atom, digit, body),
        (LoopKind::Pipe(stages @ 2..), _) => pipeline::pipeline(cx, digit, stages, body, stmt),
        (at, Steps::Rest) if at.is_expanded() => {
            let axis = cx.view.axis_name(digit.axis);
            Err(LowerError::Malformed(format!("all of `{axis}` is expanded")))
        }
        _ => {
            let pending = cx.build.unfinished.vectors.len();
            control::each_step(cx, (digit, at), StepOrder::Scheduled, limits::span, &mut |cx| {
                stmt(cx, body)
            })?;
            if at == LoopKind::Vec
                && control::innermost_vec(cx).is_none()
                && cx.build.unfinished.vectors.len() != pending
            {
                return Err(LowerError::Malformed("a vectorized store lacks elements".into()));
            }
            Ok(())
        }
    }
}

fn let_(cx: &mut Cx<'_>, values: &[ValueId], first: &Stmt, rest: &Stmt) -> Result<(), LowerError> {
    lets::bound(cx, values, first, &|cx| stmt(cx, first), &|cx| stmt(cx, rest))
}

fn define(cx: &mut Cx<'_>, value: ValueId, expr: &Expr) -> Result<(), LowerError> {
    let operand = expr::value(cx, expr)?;
    if storage::held(cx, value)?.shared.is_some() {
        return storage::store_shared(cx, value, operand.expr());
    }
    let (frag, slot) = storage::slot(cx, value)?;
    cx.build.emit.stmt(kernel::Stmt::Set { frag, slot, value: operand.expr() });
    Ok(())
}

/// What is to be scanned at this point. Points beyond the axis stand behind all others, which do not see them.
fn scanned(cx: &mut Cx<'_>, value: ValueId, expr: &Expr) -> Result<(), LowerError> {
    let element = expr::value(cx, expr)?.expr();
    let (frag, slot) = storage::slot(cx, value)?;
    cx.build.emit.stmt(kernel::Stmt::Set { frag, slot, value: element });
    Ok(())
}

/// `value = expr`, unless the step of the loop that carries it has no points.
fn set(cx: &mut Cx<'_>, value: ValueId, expr: &Expr) -> Result<(), LowerError> {
    let height = storage::held(cx, value)?.height;
    let guard = guard::step_guard(cx, value, height);
    let (frag, slot) = storage::slot(cx, value)?;
    let new = expr::value(cx, expr)?.expr();
    if new == (KExpr::Slot { frag, slot }) {
        return Ok(());
    }
    let value = match guard {
        None => new,
        Some(guard) => {
            let old = KExpr::Slot { frag, slot };
            KExpr::Select(Box::new(guard.expr()), Box::new(new), Box::new(old))
        }
    };
    cx.build.emit.stmt(kernel::Stmt::Set { frag, slot, value });
    Ok(())
}

fn reduce(cx: &mut Cx<'_>, value: ValueId, op: RedOp, expr: &Expr) -> Result<(), LowerError> {
    let held = storage::held(cx, value)?;
    let (height, in_place) = (held.height, held.registers.is_none());
    let guard = guard::red_guard(cx, value, height, op, expr);
    let dtype = cx.view.nest.values[value.0 as usize].dtype;
    let kept = match storage::shared_place(cx, value)? {
        Some((buffer, offset)) if in_place => storage::load_own(cx, value, buffer, &offset)?,
        _ => {
            let (frag, slot) = storage::slot(cx, value)?;
            KExpr::Slot { frag, slot }
        }
    };
    let sum = Box::new(kept.clone());
    let updated = match (op, expr) {
        (RedOp::Add, Expr::Bin(BinOp::Mul, a, b)) if dtype == DType::F32 => {
            let (a, b) = (expr::value(cx, a)?, expr::value(cx, b)?);
            KExpr::Fma(Box::new(a.expr()), Box::new(b.expr()), sum)
        }
        _ => {
            let x: Operand = expr::value(cx, expr)?;
            KExpr::combined(op.combine(), dtype, *sum, x.expr())
        }
    };
    let updated = match guard {
        None => updated,
        Some(guard) => KExpr::Select(Box::new(guard.expr()), Box::new(updated), Box::new(kept.clone())),
    };
    match kept {
        KExpr::Slot { frag, slot } => cx.build.emit.stmt(kernel::Stmt::Set { frag, slot, value: updated }),
        _ => storage::store_shared(cx, value, updated)?,
    }
    Ok(())
}

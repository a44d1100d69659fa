//! Rows of a copy that values name, and boxes that a value moves: whoever fills the copy looks the values up.

use super::{
    context::Cx,
    emit::{self, Atom, Op},
    env::Bound,
    error::LowerError,
    expr,
    flow::CopyPlan,
    gather,
    linear::Linear,
};
use crate::{
    nest::{Digit, Gathered, LoopKind, Steps},
    op::BinOp,
    tile::TensorId,
};

/// The corner of a box that values move. Where it leaves the tensor, the hardware fills in zeros.
pub(super) fn moved(
    cx: &mut Cx<'_>,
    plan: &CopyPlan<'_>,
    mut corner: Vec<Linear>,
) -> Result<Vec<Linear>, LowerError> {
    for (dim, gathered) in &plan.of.gathered {
        let value = expr::named(cx, &gathered.value)?;
        let form = cx.build.emit.index(&corner[*dim]);
        let at = cx.build.emit.op(Op::Wrapping(BinOp::Add), &[value, form]);
        corner[*dim] = emit::linear(at, 0);
    }
    Ok(corner)
}

/// Where the elements of a copy are along a dimension in which a value says so, and that it leads inside. `at` is the place in the copy
/// counted from where loops around it stand, and `inside`, one of so many rows, from where the copy begins.
pub(super) fn looked_up(
    cx: &mut Cx<'_>,
    (tensor, dim): (TensorId, usize),
    gathered: &Gathered,
    at: &Linear,
    (inside, rows): (Linear, u32),
) -> Result<(Linear, Atom), LowerError> {
    let (value, form) = match gathered.row {
        None => (one_by_one(cx, |cx| expr::named(cx, &gathered.value))?, at.clone()),
        Some(axis) => {
            // As if an expanded loop took the rows: all of them, also those beyond the end of the axis, where a loop at run time stops.
            let row = Digit { axis, stride: 1, steps: Steps::Fixed(rows) };
            cx.env.stack.push(Bound::new(row, LoopKind::Unroll, inside));
            let value = one_by_one(cx, |cx| expr::named(cx, &gathered.value));
            let form = cx.env.index(&gathered.form);
            cx.env.stack.pop();
            (value?, form)
        }
    };
    let (at, guard) = gather::inside(cx, (tensor, dim), value, &form);
    Ok((emit::linear(at, 0), guard))
}

/// What `f` loads, element by element: a vector of what reads the copy is none of what says where its rows are.
fn one_by_one<'a, R>(cx: &mut Cx<'a>, f: impl FnOnce(&mut Cx<'a>) -> R) -> R {
    let vectors: Vec<usize> =
        (0..cx.env.stack.len()).filter(|n| cx.env.stack[*n].at == LoopKind::Vec).collect();
    vectors.iter().for_each(|n| cx.env.stack[*n].at = LoopKind::Unroll);
    let result = f(cx);
    vectors.iter().for_each(|n| cx.env.stack[*n].at = LoopKind::Vec);
    result
}

//! How an atom reads an operand from a copy: by matrices, of which `ldmatrix` loads up to four at once.
//!
//! Lane 8·q + r gives the address of row r of matrix q.

use super::{
    context::Cx,
    digits,
    emit::{Atom as Operand, Emit, MatrixKey},
    env::Staged,
    error::LowerError,
    linear::Linear,
    loads,
};
use crate::{
    dtype::DType,
    kernel::{self, Expr as KExpr, Mem, Var},
    nest::{AccessId, Atom, Digit, LoopKind, MATRIX_ROWS, Matrices, Operand as Side, Role, Steps, UnitRange},
    op::BinOp,
};

/// How an atom reads an operand.
pub(super) struct Reads {
    /// The atom's digit of m or n.
    pub free: Digit,
    /// By how much the digits of a matrix's number move it along m or n and along k.
    pub order: &'static [[u32; 2]],
    /// Elements of a matrix that a lane holds.
    pub each: usize,
    /// Elements of the operand that it holds.
    pub elements: usize,
    /// The next atom along n reads what lies beside: by how many points it moves, and whether this is the second of two.
    pub next: Option<(u32, bool)>,
}

/// An `ldmatrix`, its destination left open.
pub(super) struct MatrixLoad {
    pub shared: u32,
    pub offset: KExpr,
    pub transposed: bool,
    /// Type of the elements.
    pub ty: DType,
}

impl MatrixLoad {
    pub fn into_stmt(self, dst: Vec<Var>) -> kernel::Stmt {
        let MatrixLoad { shared, offset, transposed, .. } = self;
        kernel::Stmt::LoadMatrices { dst, shared, offset, transposed }
    }
}

/// The expanded loop over the atoms beside this one along n, if it takes them two by two from one copy: by how many
/// points it moves, and whether this is the second of two. `height`: digits bound outside of the copy.
pub(super) fn neighbour(cx: &Cx<'_>, atom: Atom, n: Digit, height: usize) -> Option<(u32, bool)> {
    let size = n.stride * atom.size(Role::N);
    let inside = &cx.env.stack[height..];
    let bound = inside.iter().find(|b| b.digit.axis == n.axis && b.digit.stride == size)?;
    let at = bound.fixed().filter(|_| bound.at.is_expanded())? / i64::from(size);
    matches!(digits::in_tile(cx, bound.digit).steps, Steps::Fixed(steps) if steps.is_multiple_of(2))
        .then_some((size, at % 2 == 1))
}

/// How the atom at the current point reads a tensor; `None` outside of atoms.
pub(super) fn atom_reads(cx: &Cx<'_>, access: AccessId) -> Option<Reads> {
    let [.., m, n, k] = cx.env.stack.as_slice() else { return None };
    let (LoopKind::Atom(atom, Role::M), LoopKind::Atom(_, Role::N), LoopKind::Atom(_, Role::K)) =
        (m.at, n.at, k.at)
    else {
        return None;
    };
    let rows = cx.view.nest.access_axes(access).contains(&m.digit.axis);
    let height = loads::staged(cx, access).map_or(cx.env.stack.len(), |stage| stage.height);
    let (operand, free, order, next) = match rows {
        true => (Side::A, m.digit, atom.row().a, None),
        false => (Side::B, n.digit, atom.row().b, neighbour(cx, atom, n.digit, height)),
    };
    let elements = atom.elements(operand) as usize;
    Some(Reads { free, order, each: atom.each(), elements, next })
}

/// How the atom at the current point finds an operand in its copy.
pub(super) fn matrices(cx: &Cx<'_>, access: AccessId) -> Result<Matrices, LowerError> {
    let loops = cx.env.stack.iter().map(|b| b.digit);
    let missing = || LowerError::Malformed("an atom whose operand is not in rows of 16 bytes".into());
    cx.view.plan.products.loaded(access, loops).ok_or_else(missing)
}

/// The load of an operand of the atom at the current point; of two beside each other, `both`.
pub(super) fn matrix_load(
    cx: &mut Cx<'_>,
    access: AccessId,
    reads: &Reads,
    stage: &Staged,
    both: bool,
) -> Result<(MatrixKey, MatrixLoad), LowerError> {
    let how = matrices(cx, access)?;
    let mut order = reads.order.to_vec();
    let mut first = loads::staged_offset(cx, access, stage);
    if let (Some((points, second)), true) = (reads.next, both) {
        order.push([points, 0]);
        first.constant -= if second { i64::from(points) * how.free } else { 0 };
    }
    let offset = first.plus(&row_of_lane(cx, how, &order));
    let (base, constant) = stage.place(&mut cx.build.emit, &offset);
    cx.build.read_shared(stage.buffer);
    let key = (Mem::Shared(stage.buffer), base, constant, how.transposed, 1 << order.len());
    let ty = cx.view.nest.elem(stage.tensor);
    let offset = Emit::sum_expr(base, constant, DType::I32);
    Ok((key, MatrixLoad { shared: stage.buffer, offset, transposed: how.transposed, ty }))
}

/// What a lane adds to the address of the first row: lane 8·q + r that of row r of matrix q.
pub(super) fn row_of_lane(cx: &mut Cx<'_>, how: Matrices, order: &[[u32; 2]]) -> Linear {
    let lane = cx.env.tile.units.part(&mut cx.build.emit, UnitRange { stride: 1, extent: 32 });
    let row = cx.build.emit.bin(BinOp::Rem, lane, Operand::i32(MATRIX_ROWS));
    let mut sum = Linear::default();
    let mut add = |atom: Operand, weight: i64| {
        if let Operand::Var(var) = atom {
            sum.add_scaled(&Linear::var(var), weight);
        }
    };
    add(row, if how.transposed { how.k } else { how.free });
    for (bit, [free, k]) in order.iter().enumerate() {
        let digit = cx.build.emit.bin(BinOp::Div, lane, Operand::i32(MATRIX_ROWS << bit));
        let digit = cx.build.emit.bin(BinOp::Rem, digit, Operand::i32(2));
        add(digit, i64::from(*free) * how.free + i64::from(*k) * how.k);
    }
    sum
}

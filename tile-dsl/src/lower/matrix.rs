//! Atoms: operands from staged copies to registers by `ldmatrix`, or computed there, and the instruction.
//!
//! Lane 8·q + r gives the address of row r of matrix q. An operand that several atoms of one straight line read is
//! loaded once; where the next atom along the columns follows, one `ldmatrix` loads for both.

use super::{
    context::Cx,
    digits,
    emit::{Atom as Operand, Emit, MatrixKey, Op},
    env::Bound,
    env::Staged,
    error::LowerError,
    expr, fragment,
    guard::{self, Within},
    linear::Linear,
    storage, words,
};
use crate::{
    index::AxisId,
    kernel::{self, Async, Expr as KExpr, Mem, Tile, Ty, Var},
    nest::{
        AccessId, Atom, Digit, Expr, Factor, LoopKind, MATRIX_ROWS, Matrices, Operand as Side, Place, Placed,
        Role, Steps, Stmt, UnitRange, ValueId,
    },
    op::{BinOp, CmpOp, RedOp, UnOp},
};

/// How an atom reads an operand.
pub(super) struct Reads {
    /// The atom's digit of m or n.
    pub free: Digit,
    /// That of k.
    k: Digit,
    /// By how much the digits of a matrix's number move it along m or n and along k.
    pub order: &'static [[u32; 2]],
    /// Elements of a matrix that a lane holds.
    each: usize,
    /// Elements of the operand that it holds.
    pub elements: usize,
    /// The next atom along n reads what lies beside: by how many points it moves, and whether this is the second of two.
    pub next: Option<(u32, bool)>,
}

/// An `ldmatrix`, its destination left open.
pub(super) struct MatrixLoad {
    shared: u32,
    offset: KExpr,
    transposed: bool,
    /// Type of the elements.
    pub ty: Ty,
}

impl MatrixLoad {
    pub fn into_stmt(self, dst: Vec<Var>) -> kernel::Stmt {
        let MatrixLoad { shared, offset, transposed, .. } = self;
        kernel::Stmt::LoadMatrices { dst, shared, offset, transposed }
    }
}

/// The loops of an atom: `digit` is that of m, `body` the rest.
pub(super) fn atom(cx: &mut Cx<'_>, atom: Atom, m: Digit, body: &Stmt) -> Result<(), LowerError> {
    let malformed = || LowerError::Malformed(format!("the loops of an `{atom}` do not stand together"));
    let Stmt::For { digit: n, body, .. } = body else { return Err(malformed()) };
    let Stmt::For { digit: k, body, .. } = &**body else { return Err(malformed()) };
    let Stmt::Red { value, op: RedOp::Add, expr } = &**body else { return Err(malformed()) };
    let (n, k) = (*n, *k);
    let Some(taken) = cx.env.tile.last.map_or(Some(atom), |segment| segment.atom_in_last(atom, n)) else {
        return Err(LowerError::Malformed(format!("a last tile for no `{atom}`")));
    };
    let digits = [(m, Role::M), (n, Role::N), (k, Role::K)];
    let height = cx.env.stack.len();
    for (digit, role) in digits {
        cx.env.stack.push(Bound::new(digit, LoopKind::Atom(atom, role), Linear::default()));
    }
    let beyond = reaches_beyond(cx, *value)?;
    // Beyond the end of k, both factors are zero; the end of another axis is the same for all lanes.
    let others = beyond.iter().filter(|axis| **axis != k.axis && !guard::vanishes(cx, expr, **axis));
    let within: Vec<Within> = others.map(|axis| guard::end_of(cx, *axis)).collect();
    let guard = guard::inside(cx, &within);
    if guard.is_some() {
        cx.build.emit.push();
    }
    let result = multiply(cx, [atom, taken], [m, n, k], *value, expr, beyond.contains(&k.axis));
    if let Some(guard) = guard {
        let then = cx.build.emit.pop();
        cx.build.emit.stmt(kernel::Stmt::If { cond: guard.expr(), then, otherwise: Vec::new() });
    }
    cx.env.stack.truncate(height);
    result
}

/// A product by an atom, of whose columns the tile at hand takes as many as another one has.
fn multiply(
    cx: &mut Cx<'_>,
    [atom, taken]: [Atom; 2],
    [m, n, k]: [Digit; 3],
    value: ValueId,
    expr: &Expr,
    beyond: bool,
) -> Result<(), LowerError> {
    let Some(factors) = cx.view.nest.operands(expr, m.axis) else {
        return Err(LowerError::Malformed("an atom of no product".into()));
    };
    if atom.row().descriptors {
        return multiply_copies(cx, [atom, taken], [m, n, k], value, factors);
    }
    let mut operands = Vec::new();
    for (side, factor) in [Side::A, Side::B].into_iter().zip(factors) {
        let elements = match factor {
            Factor::Load(access) if beyond && !cx.view.nest.ends_with(access, k.axis) => {
                return Err(LowerError::Malformed(format!("an `{atom}` would add what does not exist")));
            }
            Factor::Load(access) => operand(cx, access)?,
            Factor::Computed(expr) => {
                let free = if side == Side::A { (m, Role::M) } else { (n, Role::N) };
                computed(cx, atom, side, [free, (k, Role::K)], expr, beyond)?
            }
        };
        operands.push(match atom.row().rounded {
            true => elements.into_iter().map(|e| KExpr::Un(UnOp::Tf32, Box::new(e))).collect(),
            false => elements,
        });
    }
    let (frag, slots) = accumulators(cx, atom, [m, n], value)?;
    let [a, b] = operands.try_into().expect("two operands");
    cx.build.emit.stmt(kernel::Stmt::Mma { atom, frag, slots, a, b });
    Ok(())
}

/// A product of operands that the instruction reads from their copies.
fn multiply_copies(
    cx: &mut Cx<'_>,
    [atom, taken]: [Atom; 2],
    [m, n, k]: [Digit; 3],
    value: ValueId,
    factors: [Factor<'_>; 2],
) -> Result<(), LowerError> {
    let mut tiles = Vec::new();
    for (factor, free) in factors.into_iter().zip([m, n]) {
        let missing = || LowerError::Malformed(format!("an operand of `{atom}` that is no staged copy"));
        let Factor::Load(access) = factor else { return Err(missing()) };
        let stage = expr::staged(cx, access).ok_or_else(missing)?;
        let own = cx.env.stack[stage.height..].iter().filter(|b| !matches!(b.at, LoopKind::Atom(..)));
        let inside: Vec<Digit> = own.map(|b| b.digit).collect();
        let axes = [free.axis, k.axis];
        let placed = Placed { copy: stage.of.copy, layout: &stage.of.layout, low: &stage.of.low };
        let how = cx.view.nest.descriptor(taken, access, placed, axes, &inside);
        let how = how.map_err(|_| LowerError::Malformed(format!("a copy that `{atom}` cannot read")))?;
        let offset = expr::staged_offset(cx, access, &stage);
        let (base, constant) = stage.start(&mut cx.build.emit, &offset);
        cx.build.read_shared(stage.buffer);
        tiles.push(Tile {
            shared: stage.buffer,
            offset: Emit::sum_expr(base, constant, Ty::I32),
            k_major: how.k_major,
            swizzle: how.swizzle,
            leading: how.leading,
            stride: how.stride,
        });
    }
    let (frag, mut slots) = accumulators(cx, atom, [m, n], value)?;
    // The instruction's last registers are those of its last columns.
    slots.truncate(slots.len() * taken.size(Role::N) as usize / atom.size(Role::N) as usize);
    let [a, b] = tiles.try_into().expect("two operands");
    let overwrites = match cx.view.nest.overwrites(value) {
        true => first_point(cx, value)?,
        false => None,
    };
    cx.build.emit.stmt(kernel::Stmt::Async(Async::Multiply { atom: taken, frag, slots, a, b, overwrites }));
    Ok(())
}

/// Whether the current point is the first that a value is summed over; `None` where it never is.
fn first_point(cx: &mut Cx<'_>, value: ValueId) -> Result<Option<KExpr>, LowerError> {
    let from = storage::held(cx, value)?.height;
    let own = &cx.view.nest.value(value).axes;
    let mut first = Operand::Bool(true);
    for n in from..cx.env.stack.len() {
        let bound = &cx.env.stack[n];
        if own.contains(&bound.digit.axis) || matches!(bound.at, LoopKind::Atom(..)) {
            continue;
        }
        if bound.fixed().is_some_and(|at| at != 0) {
            return Ok(None);
        }
        let passed = cx.env.passed(bound);
        let at = cx.build.emit.index(&passed);
        let zero = cx.build.emit.cmp(CmpOp::Eq, at, Operand::i32(0));
        first = cx.build.emit.op(Op::Select, &[first, zero, Operand::Bool(false)]);
    }
    Ok(Some(first.expr()))
}

/// The axes that a value is summed over whose ends the atom at the current point may pass.
fn reaches_beyond(cx: &Cx<'_>, value: ValueId) -> Result<Vec<AxisId>, LowerError> {
    let from = storage::held(cx, value)?.height;
    let digits = digits::digits(cx);
    let own = &cx.view.nest.value(value).axes;
    let mut axes: Vec<AxisId> = digits[from..].iter().map(|d| d.axis).filter(|a| !own.contains(a)).collect();
    axes.sort();
    axes.dedup();
    axes.retain(|a| digits::ragged(cx, *a, &digits));
    Ok(axes)
}

/// An operand that each lane computes: its elements in the order of the instruction's registers, zero beyond the end
/// of k.
fn computed(
    cx: &mut Cx<'_>,
    atom: Atom,
    operand: Side,
    digits: [(Digit, Role); 2],
    expr: &Expr,
    beyond: bool,
) -> Result<Vec<KExpr>, LowerError> {
    let outside = cx.env.stack.split_off(cx.env.stack.len() - 3);
    let height = cx.env.stack.len();
    // By dimension, the slot digits; each matrix has pairs of elements side by side.
    let mut steps: [Vec<(usize, u32)>; 2] = [Vec::new(), Vec::new()];
    for ((digit, role), steps) in digits.into_iter().zip(&mut steps) {
        for part in atom.operand(operand, role) {
            let own = part.digit(digit);
            let value = match part.at() {
                LoopKind::Unit(unit, dim) => digits::unit_value(cx, unit, dim, own),
                _ => Linear::default(),
            };
            if part.place == Place::Slot {
                steps.push((cx.env.stack.len(), part.stride));
            }
            cx.env.stack.push(Bound::new(own, part.at(), value));
        }
    }
    let order = if operand == Side::A { atom.row().a } else { atom.row().b };
    let mut elements = Vec::new();
    let result = (0..atom.elements(operand) as usize).try_for_each(|n| {
        let (matrix, pair) = (n / atom.each(), n % atom.each());
        for (dimension, steps) in steps.iter().enumerate() {
            for (at, stride) in steps {
                let of_matrix = order.iter().position(|o| o[dimension] == *stride && *stride > 1);
                let step = of_matrix.map_or(pair, |bit| matrix >> bit & 1);
                let bound = &mut cx.env.stack[*at];
                bound.value = Linear::constant(step as i64 * i64::from(bound.digit.stride));
            }
        }
        let element = expr::value(cx, expr)?.expr();
        let end = beyond.then(|| guard::end_of(cx, digits[1].0.axis));
        let within: Vec<Within> = end.into_iter().collect();
        elements.push(match guard::inside(cx, &within) {
            None => element,
            Some(inside) => {
                let zero = KExpr::Float(0.0, cx.view.nest.dtype(expr));
                KExpr::Select(Box::new(inside.expr()), Box::new(element), Box::new(zero))
            }
        });
        Ok(())
    });
    cx.env.stack.truncate(height);
    cx.env.stack.extend(outside);
    result.map(|()| elements)
}

/// The slots of the accumulators, in the order of the instruction's registers.
fn accumulators(
    cx: &mut Cx<'_>,
    atom: Atom,
    digits: [Digit; 2],
    value: ValueId,
) -> Result<(u32, Vec<u32>), LowerError> {
    let height = cx.env.stack.len();
    let mut weights = atom.row().slots.iter().copied();
    let mut slots: Vec<(usize, u32, u32, u32)> = Vec::new();
    for (digit, role) in digits.into_iter().zip([Role::M, Role::N]) {
        for part in atom.parts(role) {
            let own = part.digit(digit);
            let value = match part.at() {
                LoopKind::Unit(unit, dim) => digits::unit_value(cx, unit, dim, own),
                _ => Linear::default(),
            };
            if part.place == Place::Slot {
                slots.push((cx.env.stack.len(), own.stride, weights.next().unwrap_or(1), part.steps));
            }
            cx.env.stack.push(Bound::new(own, part.at(), value));
        }
    }
    let count = atom.parts(Role::M).iter().chain(atom.parts(Role::N));
    let count: u32 = count.filter(|p| p.place == Place::Slot).map(|p| p.steps).product();
    let mut found = Vec::new();
    for register in 0..count {
        for (at, stride, weight, steps) in &slots {
            cx.env.stack[*at].value =
                Linear::constant(i64::from(register / weight % steps) * i64::from(*stride));
        }
        found.push(storage::slot(cx, value)?);
    }
    cx.env.stack.truncate(height);
    let frag = found.first().map_or(0, |(frag, _)| *frag);
    Ok((frag, found.into_iter().map(|(_, slot)| slot).collect()))
}

/// The expanded loop over the atoms beside this one along n, if it takes them two by two from one copy: by how many
/// points it moves, and whether this is the second of two. `height`: digits bound outside of the copy.
fn neighbour(cx: &Cx<'_>, atom: Atom, n: Digit, height: usize) -> Option<(u32, bool)> {
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
    let height = expr::staged(cx, access).map_or(cx.env.stack.len(), |stage| stage.height);
    let (operand, free, order, next) = match rows {
        true => (Side::A, m.digit, atom.row().a, None),
        false => (Side::B, n.digit, atom.row().b, neighbour(cx, atom, n.digit, height)),
    };
    let elements = atom.elements(operand) as usize;
    Some(Reads { free, k: k.digit, order, each: atom.each(), elements, next })
}

/// An operand of the atom at the current point, in registers.
fn operand(cx: &mut Cx<'_>, access: AccessId) -> Result<Vec<KExpr>, LowerError> {
    let missing = |what: &str| LowerError::Malformed(format!("an atom {what}"));
    let reads = atom_reads(cx, access).ok_or_else(|| missing("outside of its loops"))?;
    if let Some(slots) = fragment::fragment_slots(cx, access, reads.elements)? {
        return Ok(slots);
    }
    let Some(stage) = expr::staged(cx, access) else {
        return Err(missing("of what is not staged"));
    };
    if let Some(words) = words::words(cx, access, &reads, &stage)? {
        return Ok(words.into_iter().map(|offset| words::word(cx, &stage, &offset)).collect());
    }
    let (key, load) = matrix_load(cx, access, &reads, &stage, reads.next.is_some())?;
    let all = match cx.build.emit.find_matrices(&key) {
        Some(known) => known,
        None => {
            let dst: Vec<Var> = (0..key.4 * reads.each).map(|_| cx.build.emit.var(load.ty)).collect();
            cx.build.emit.stmt(load.into_stmt(dst.clone()));
            cx.build.emit.remember_matrices(key, dst.clone());
            dst
        }
    };
    let from = if let Some((_, true)) = reads.next { reads.elements } else { 0 };
    Ok(all[from..from + reads.elements].iter().map(|v| KExpr::Var(*v)).collect())
}

/// How the atom at the current point finds an operand in its copy.
pub(super) fn matrices(
    cx: &Cx<'_>,
    access: AccessId,
    reads: &Reads,
    stage: &Staged,
) -> Result<Matrices, LowerError> {
    let own = cx.env.stack[stage.height..].iter().filter(|b| !matches!(b.at, LoopKind::Atom(..)));
    let inside: Vec<Digit> = own.map(|b| b.digit).collect();
    let axes = [reads.free.axis, reads.k.axis];
    let found = cx.view.nest.matrices(access, &stage.of.layout, &stage.of.low, axes, &inside);
    found.map_err(|_| LowerError::Malformed("an atom whose operand is not in rows of 16 bytes".into()))
}

/// The load of an operand of the atom at the current point; of two beside each other, `both`.
pub(super) fn matrix_load(
    cx: &mut Cx<'_>,
    access: AccessId,
    reads: &Reads,
    stage: &Staged,
    both: bool,
) -> Result<(MatrixKey, MatrixLoad), LowerError> {
    let how = matrices(cx, access, reads, stage)?;
    let mut order = reads.order.to_vec();
    let mut first = expr::staged_offset(cx, access, stage);
    if let (Some((points, second)), true) = (reads.next, both) {
        order.push([points, 0]);
        first.constant -= if second { i64::from(points) * how.free } else { 0 };
    }
    let offset = first.plus(&row_of_lane(cx, how, &order));
    let (base, constant) = stage.place(&mut cx.build.emit, &offset);
    cx.build.read_shared(stage.buffer);
    let key = (Mem::Shared(stage.buffer), base, constant, how.transposed, 1 << order.len());
    let ty = Ty::Elem(cx.view.nest.elem(stage.tensor));
    let offset = Emit::sum_expr(base, constant, Ty::I32);
    Ok((key, MatrixLoad { shared: stage.buffer, offset, transposed: how.transposed, ty }))
}

/// What a lane adds to the address of the first row: lane 8·q + r that of row r of matrix q.
fn row_of_lane(cx: &mut Cx<'_>, how: Matrices, order: &[[u32; 2]]) -> Linear {
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

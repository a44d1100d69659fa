//! Atoms: operands from staged copies to registers by `ldmatrix`, or computed there, and the instruction.
//!
//! Lane 8·q + r gives the address of row r of matrix q. An operand that several atoms of one straight line read is
//! loaded once; where the next atom along the columns follows, one `ldmatrix` loads for both.

use super::{
    build::Holds,
    context::Cx,
    digits,
    emit::{Atom as Operand, Emit, Op},
    env::Bound,
    error::LowerError,
    expr,
    guard::{self, Within},
    held, joined,
    linear::Linear,
    loads, operand, storage, words,
};
use crate::{
    dtype::DType,
    index::AxisId,
    kernel::{self, Async, Expr as KExpr, Rows, Tile, Var},
    nest::{
        AccessId, Atom, Computed, Digit, EXCHANGED, Expr, Factor, LoopKind, Operand as Side, Place, Role,
        Stmt, TileSize, ValueId, joined_place,
    },
    op::{CmpOp, RedOp, UnOp},
    plan::{OperandPath, Product},
};

/// The loops of an atom: `digit` is that of m, `body` the rest.
pub(super) fn atom(cx: &mut Cx<'_>, atom: Atom, m: Digit, body: &Stmt) -> Result<(), LowerError> {
    let malformed = || LowerError::Malformed(format!("the loops of an `{atom}` do not stand together"));
    let Stmt::For { digit: n, body, .. } = body else { return Err(malformed()) };
    let Stmt::For { digit: k, body, .. } = &**body else { return Err(malformed()) };
    let Stmt::Red { value, op: RedOp::Add, expr } = &**body else { return Err(malformed()) };
    let (n, k) = (*n, *k);
    let Some(taken) = cx.view.plan.tiles.atom(atom, n, cx.env.tile.size) else {
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
    let (plan, loops) = (cx.view.plan, cx.env.stack.iter().map(|b| b.digit));
    let Some(product) = plan.products.get(value, loops) else {
        return Err(LowerError::Malformed(format!("no `{atom}` is planned here")));
    };
    if atom.row().descriptors {
        return multiply_copies(cx, [atom, taken], [m, n, k], (value, product), factors, beyond);
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
                computed(cx, (atom, side, product), [free, (k, Role::K)], expr, beyond)?
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

/// A product of which the instruction reads the second operand from its copy, and the first one too, unless lanes compute it.
fn multiply_copies(
    cx: &mut Cx<'_>,
    [atom, taken]: [Atom; 2],
    [m, n, k]: [Digit; 3],
    (value, product): (ValueId, &Product),
    [first, second]: [Factor<'_>; 2],
    beyond: bool,
) -> Result<(), LowerError> {
    let a = match first {
        Factor::Computed(expr) => {
            let elements =
                computed(cx, (atom, Side::A, product), [(m, Role::M), (k, Role::K)], expr, beyond)?;
            match joined::taken(cx, expr, &elements)? {
                Some(rows) => rows,
                None => {
                    let dtype = cx.view.nest.factor_dtype(first);
                    in_registers(cx, atom, value, elements, dtype)
                }
            }
        }
        Factor::Load(access) => Rows::Shared(described(cx, atom, access, product.operand(Side::A))?),
    };
    let Factor::Load(access) = second else {
        return Err(LowerError::Malformed(format!("columns of `{atom}` that no copy has")));
    };
    let b = described(cx, atom, access, product.operand(Side::B))?;
    let (frag, mut slots) = accumulators(cx, atom, [m, n], value)?;
    // The instruction's last registers are those of its last columns.
    slots.truncate(slots.len() * taken.size(Role::N) as usize / atom.size(Role::N) as usize);
    let overwrites = match product.overwrites {
        true => first_point(cx, value)?,
        false => None,
    };
    cx.build.emit.stmt(kernel::Stmt::Async(Async::Multiply { atom: taken, frag, slots, a, b, overwrites }));
    Ok(())
}

/// An operand that the instruction reads from a copy.
fn described(
    cx: &mut Cx<'_>,
    atom: Atom,
    access: AccessId,
    operand: &OperandPath,
) -> Result<Tile, LowerError> {
    let missing = || LowerError::Malformed(format!("an operand of `{atom}` that is no staged copy"));
    let stage = loads::staged(cx, access).ok_or_else(missing)?;
    let OperandPath::Described(sizes) = operand else { return Err(missing()) };
    let how = sizes[usize::from(cx.env.tile.size == TileSize::Last)];
    let offset = loads::staged_offset(cx, access, &stage);
    let (base, constant) = stage.start(&mut cx.build.emit, &offset);
    cx.build.read_shared(stage.buffer);
    Ok(Tile {
        shared: stage.buffer,
        offset: Emit::sum_expr(base, constant, DType::I32),
        k_major: how.k_major,
        swizzle: how.swizzle,
        leading: how.leading,
        stride: how.stride,
    })
}

/// Elements of the first operand in registers of their own, which belong to the instruction while it is in flight.
fn in_registers(cx: &mut Cx<'_>, atom: Atom, value: ValueId, elements: Vec<KExpr>, dtype: DType) -> Rows {
    let holds = Holds::Operand(value, cx.build.frags.len() as u32);
    let frag = cx.build.fragment(cx.view.nest, holds, dtype, elements.len() as u32);
    let slots: Vec<u32> = (0..elements.len() as u32).collect();
    for (slot, element) in slots.iter().copied().zip(elements) {
        let value = match atom.row().rounded {
            true => KExpr::Un(UnOp::Tf32, Box::new(element)),
            false => element,
        };
        cx.build.emit.stmt(kernel::Stmt::Set { frag, slot, value });
    }
    Rows::Held { frag, slots }
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
    (atom, operand, product): (Atom, Side, &Product),
    digits: [(Digit, Role); 2],
    expr: &Expr,
    beyond: bool,
) -> Result<Vec<KExpr>, LowerError> {
    let unplanned = || LowerError::Malformed(format!("no operand of `{atom}` is computed here"));
    let OperandPath::Computed(how) = *product.operand(operand) else { return Err(unplanned()) };
    let outside = cx.env.stack.split_off(cx.env.stack.len() - 3);
    let height = cx.env.stack.len();
    // The digits in slots: where they stand, steps, and by how many elements of a lane a step moves on.
    let mut slots: Vec<(usize, u32, u32)> = Vec::new();
    for (digit, role) in digits {
        for (part, weight) in atom.computed(operand, role, how).ok_or_else(unplanned)? {
            let own = part.digit(digit);
            let value = match part.at() {
                LoopKind::Unit(unit, dim) => digits::unit_value(cx, unit, dim, own),
                _ => Linear::default(),
            };
            if part.place == Place::Slot {
                slots.push((cx.env.stack.len(), part.steps, weight));
            }
            cx.env.stack.push(Bound::new(own, part.at(), value));
        }
    }
    let known = if how == Computed::ByTwos { joined::known(cx, expr)? } else { None };
    let mut elements = Vec::new();
    let result: Result<(), LowerError> = (0..atom.elements(operand)).try_for_each(|n| {
        for (at, steps, weight) in &slots {
            let bound = &mut cx.env.stack[*at];
            bound.value = Linear::constant(i64::from(n / weight % steps) * i64::from(bound.digit.stride));
        }
        if let Some(joined) = known {
            elements.push(joined::element(cx, joined)?);
            return Ok(());
        }
        let end = beyond.then(|| guard::end_of(cx, digits[1].0.axis));
        let within: Vec<Within> = end.into_iter().collect();
        let inside = guard::inside(cx, &within);
        elements.push(match inside {
            None => expr::value(cx, expr)?.expr(),
            Some(inside) => expr::or_zero(cx, expr::Operand::Atom(inside), expr)?.expr(),
        });
        Ok(())
    });
    cx.env.stack.truncate(height);
    cx.env.stack.extend(outside);
    result?;
    Ok(match how {
        Computed::InPlace => elements,
        Computed::ByTwos if known.is_some() => {
            let places = (0..elements.len()).map(|n| n / EXCHANGED * EXCHANGED + joined_place(n % EXCHANGED));
            places.map(|n| elements[n].clone()).collect()
        }
        Computed::ByTwos => {
            let dtype = cx.view.nest.dtype(expr);
            elements.chunks(EXCHANGED).flat_map(|twos| joined::exchanged(cx, dtype, twos)).collect()
        }
    })
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

/// An operand of the atom at the current point, in registers.
fn operand(cx: &mut Cx<'_>, access: AccessId) -> Result<Vec<KExpr>, LowerError> {
    let missing = |what: &str| LowerError::Malformed(format!("an atom {what}"));
    let reads = operand::atom_reads(cx, access).ok_or_else(|| missing("outside of its loops"))?;
    if let Some(slots) = held::fragment_slots(cx, access, reads.elements)? {
        return Ok(slots);
    }
    let Some(stage) = loads::staged(cx, access) else {
        return Err(missing("of what is not staged"));
    };
    if let Some(words) = words::words(cx, access, &reads, &stage)? {
        return Ok(words.into_iter().map(|offset| words::word(cx, &stage, &offset)).collect());
    }
    let (key, load) = operand::matrix_load(cx, access, &reads, &stage, reads.next.is_some())?;
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

//! The statement builder: scopes, value numbering, and hoisting.
//!
//! A pure operation is placed in the outermost scope where its operands exist, and computed once there;
//! so loop-invariant parts of offsets and guards leave their loops while they are emitted.
//! Loads stay where they are, and are shared within one straight line of statements.

use super::linear::{Linear, Offset, Pitch};
use crate::{
    dtype::{DType, Kind},
    index::Extent,
    kernel::{Expr, Mem, Stmt, Var},
    op::{BinOp, CmpOp, UnOp},
    tile::TensorId,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// An operand without substructure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Atom {
    Var(Var),
    Int(i64, DType),
    /// Bits of the value.
    Float(u64, DType),
    Bool(bool),
}

impl Atom {
    pub fn i32(n: i64) -> Self {
        Atom::Int(n, DType::I32)
    }

    pub fn float(x: f64, dtype: DType) -> Self {
        Atom::Float(x.to_bits(), dtype)
    }

    pub fn expr(self) -> Expr {
        match self {
            Atom::Var(v) => Expr::Var(v),
            Atom::Int(n, ty) => Expr::Int(n, ty),
            Atom::Float(bits, dtype) => Expr::Float(f64::from_bits(bits), dtype),
            Atom::Bool(b) => Expr::Bool(b),
        }
    }
}

/// Operand fragments known in a straight line: buffer, address of the first row, whether rows are transposed, matrices.
pub(super) type MatrixKey = (Mem, Option<Atom>, i64, bool, usize);

/// A pitch as a factor of offsets of type `ty`.
fn weight(pitch: Pitch, ty: DType) -> Atom {
    match pitch {
        Pitch::Fixed(c) | Pitch::Wide(c) => Atom::Int(c, ty),
        Pitch::Var(var) => Atom::Var(var),
    }
}

/// A pure operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Op {
    Tid,
    Cta,
    Ctas,
    Tiles,
    Dim(Extent),
    Scalar(u32),
    Un(UnOp),
    Bin(BinOp),
    Wrapping(BinOp),
    Cmp(CmpOp),
    Select,
    Cast(DType),
    Fma,
}

impl Op {
    /// An operator on values of the kernel, which wrap around where they are integers; indices do not.
    pub fn of_values(op: BinOp, dtype: DType) -> Self {
        if op.wraps(dtype) { Op::Wrapping(op) } else { Op::Bin(op) }
    }

    /// The type of the result, from those of the operands.
    pub fn result(&self, operand: impl Fn(usize) -> DType) -> DType {
        match self {
            Op::Tid | Op::Cta | Op::Ctas | Op::Tiles | Op::Dim(_) => DType::I32,
            Op::Scalar(_) => unreachable!("scalars are emitted by `scalar`"),
            Op::Cmp(_) => DType::Bool,
            Op::Select => operand(1),
            Op::Cast(ty) => *ty,
            Op::Un(op) => op.result(operand(0)),
            Op::Bin(_) | Op::Wrapping(_) | Op::Fma => operand(0),
        }
    }

    /// The operation as an expression over `args`.
    pub fn expr(self, args: Vec<Expr>) -> Expr {
        let mut args = args.into_iter().map(Box::new);
        let mut next = || args.next().expect("as many operands as the operation has");
        match self {
            Op::Tid => Expr::Tid,
            Op::Cta => Expr::Cta,
            Op::Ctas => Expr::Ctas,
            Op::Tiles => Expr::Tiles,
            Op::Dim(extent) => Expr::Dim(extent),
            Op::Scalar(i) => Expr::Scalar(i),
            Op::Un(op) => Expr::Un(op, next()),
            Op::Bin(op) => Expr::Bin(op, next(), next()),
            Op::Wrapping(op) => Expr::Wrapping(op, next(), next()),
            Op::Cmp(op) => Expr::Cmp(op, next(), next()),
            Op::Select => Expr::Select(next(), next(), next()),
            Op::Cast(ty) => Expr::Cast(ty, next()),
            Op::Fma => Expr::Fma(next(), next(), next()),
        }
    }
}

/// Identifies a load that may be shared: buffer, variable part and constant part of the offset, guard.
pub(super) type LoadKey = (Mem, Option<Atom>, i64, Option<Atom>);

/// An element of a tensor: its index, one a dimension.
pub(super) type Point = (TensorId, Vec<Linear>);

#[derive(Default)]
struct Scope {
    stmts: Vec<Stmt>,
    pure: HashMap<(Op, Vec<Atom>), Atom>,
    loads: HashMap<LoadKey, Var>,
    /// As `loads`, by the element asked for: saves working out the offset again.
    points: HashMap<Point, (Mem, Atom)>,
    /// Operands of atoms.
    matrices: HashMap<MatrixKey, Vec<Var>>,
    /// Offsets that differ in their rows only: rows and offset, in the order emitted.
    rows: HashMap<Offset, Vec<(Rows, Atom)>>,
}

/// Constant multiples of symbolic pitches.
type Rows = BTreeMap<Pitch, i64>;

struct VarInfo {
    ty: DType,
    /// Scope it is defined in.
    depth: usize,
    /// A number that divides every value it takes.
    multiple: i64,
}

/// Builds the body of a kernel.
pub(super) struct Emit {
    vars: Vec<VarInfo>,
    scopes: Vec<Scope>,
    /// The scope in which the parameters of the kernel are known.
    known: usize,
    /// Statements emitted so far.
    pub count: usize,
    /// Trees over register slots that have a name in the innermost scope, and whose slots have not changed since.
    named: Vec<(Expr, Var)>,
}

impl Emit {
    pub fn new() -> Self {
        Emit { vars: Vec::new(), scopes: vec![Scope::default()], known: 0, count: 0, named: Vec::new() }
    }

    /// Opens the body of a loop or branch.
    pub fn push(&mut self) {
        self.named.clear();
        self.scopes.push(Scope::default());
    }

    /// Closes it and returns its statements.
    pub fn pop(&mut self) -> Vec<Stmt> {
        self.named.clear();
        self.scopes.pop().expect("an open scope").stmts
    }

    /// The statements and the types of the variables.
    pub fn finish(mut self) -> (Vec<Stmt>, Vec<DType>) {
        (self.pop(), self.vars.iter().map(|v| v.ty).collect())
    }

    /// The problem of a tile: its parameters are known from here on, in this scope. Returns the tile's number in the problem.
    pub fn problem(&mut self, tile: Atom) -> Atom {
        self.known = self.scopes.len() - 1;
        let dst = self.var(DType::I32);
        self.stmt(Stmt::Problem { dst, tile: tile.expr() });
        Atom::Var(dst)
    }

    /// The problem of another tile, in this scope alone; what [`Emit::leave_problem`] takes.
    pub fn enter_problem(&mut self, tile: Atom) -> usize {
        let around = self.known;
        self.problem(tile);
        around
    }

    /// Parameters are again those of the problem around.
    pub fn leave_problem(&mut self, around: usize) {
        self.known = around;
    }

    /// A variable of the innermost scope.
    pub fn var(&mut self, ty: DType) -> Var {
        self.var_at(ty, self.scopes.len() - 1, 1)
    }

    fn var_at(&mut self, ty: DType, depth: usize, multiple: i64) -> Var {
        self.vars.push(VarInfo { ty, depth, multiple });
        Var(self.vars.len() as u32 - 1)
    }

    /// States that every value of `var` is a multiple of `n`.
    pub fn set_multiple(&mut self, var: Var, n: i64) {
        self.vars[var.0 as usize].multiple = n;
    }

    /// The same of an operand.
    pub fn multiple(&mut self, atom: Atom, n: i64) -> Atom {
        if let Atom::Var(var) = atom {
            self.set_multiple(var, n);
        }
        atom
    }

    /// The end of the innermost scope.
    pub fn mark(&self) -> usize {
        self.scopes.last().expect("an open scope").stmts.len()
    }

    /// Takes back the statements of the innermost scope from a mark on, to be emitted again in the same scope.
    pub fn take(&mut self, mark: usize) -> Vec<Stmt> {
        self.named.clear();
        let stmts = self.scopes.last_mut().expect("an open scope").stmts.split_off(mark);
        self.count -= stmts.len();
        stmts
    }

    pub fn stmt(&mut self, stmt: Stmt) {
        match &stmt {
            Stmt::Let(..) | Stmt::Load { .. } | Stmt::Store { .. } => {}
            Stmt::Set { frag, slot, .. } => {
                let slot = Expr::Slot { frag: *frag, slot: *slot };
                self.named.retain(|(tree, _)| {
                    let mut changes = false;
                    tree.each(&mut |e| changes |= *e == slot);
                    !changes
                });
            }
            _ => self.named.clear(),
        }
        self.count += 1;
        self.scopes.last_mut().expect("an open scope").stmts.push(stmt);
    }

    /// A variable that has the value of a tree over register slots as they are now: the same for the same tree.
    pub fn name(&mut self, tree: Expr, ty: DType) -> Var {
        if let Some((_, known)) = self.named.iter().find(|(other, _)| *other == tree) {
            return *known;
        }
        let var = self.var(ty);
        self.stmt(Stmt::Let(var, tree.clone()));
        self.named.push((tree, var));
        var
    }

    /// The scope that a value is defined in, counted from outside.
    pub fn depth(&self, atom: Atom) -> usize {
        match atom {
            Atom::Var(v) => self.vars[v.0 as usize].depth,
            _ => 0,
        }
    }

    pub fn ty(&self, atom: Atom) -> DType {
        match atom {
            Atom::Var(v) => self.vars[v.0 as usize].ty,
            Atom::Int(_, ty) => ty,
            Atom::Float(_, dtype) => dtype,
            Atom::Bool(_) => DType::Bool,
        }
    }

    /// A pure operation: folded, found, or emitted where its operands exist.
    pub fn op(&mut self, op: Op, args: &[Atom]) -> Atom {
        if let Some(folded) = self.fold(&op, args) {
            return folded;
        }
        let floor = if matches!(op, Op::Dim(_)) { self.known } else { 0 };
        let depth = args.iter().map(|a| self.depth(*a)).max().unwrap_or(0).max(floor);
        let key = (op, args.to_vec());
        if let Some(found) = self.scopes[depth].pure.get(&key) {
            return *found;
        }
        let ty = self.result(&key.0, args);
        let var = self.var_at(ty, depth, 1);
        let value = key.0.clone().expr(args.iter().map(|a| a.expr()).collect());
        self.count += 1;
        self.scopes[depth].stmts.push(Stmt::Let(var, value));
        self.scopes[depth].pure.insert(key, Atom::Var(var));
        Atom::Var(var)
    }

    fn result(&self, op: &Op, args: &[Atom]) -> DType {
        op.result(|n| self.ty(args[n]))
    }

    /// A scalar parameter.
    pub fn scalar(&mut self, param: u32, dtype: DType) -> Atom {
        let key = (Op::Scalar(param), Vec::new());
        let depth = self.known;
        if let Some(found) = self.scopes[depth].pure.get(&key) {
            return *found;
        }
        let var = self.var_at(dtype, depth, 1);
        self.scopes[depth].stmts.push(Stmt::Let(var, Expr::Scalar(param)));
        self.scopes[depth].pure.insert(key, Atom::Var(var));
        Atom::Var(var)
    }

    fn fold(&self, op: &Op, args: &[Atom]) -> Option<Atom> {
        Some(match (op, args) {
            (Op::Dim(extent), []) => Atom::i32(extent.as_constant()?),
            (Op::Bin(op), [Atom::Int(a, ty), Atom::Int(b, _)]) => {
                let n = (op.row().int?.checked)(*a, *b)?;
                // Out of range wraps at run time; leave it there.
                if ty.wrap(n) != n {
                    return None;
                }
                Atom::Int(n, *ty)
            }
            (Op::Wrapping(op), [Atom::Int(a, ty), Atom::Int(b, _)]) => {
                Atom::Int(op.of_integers(*ty, *a, *b)?, *ty)
            }
            (Op::Bin(op), [a, Atom::Int(n, _)]) if op.neutral()[1] == Some(*n) => *a,
            (Op::Bin(op), [Atom::Int(n, _), a]) if op.neutral()[0] == Some(*n) => *a,
            (Op::Bin(BinOp::Rem), [_, Atom::Int(1, ty)]) => Atom::Int(0, *ty),
            (Op::Bin(BinOp::And), [Atom::Bool(true), a] | [a, Atom::Bool(true)]) => *a,
            (Op::Bin(BinOp::And), [Atom::Bool(false), _] | [_, Atom::Bool(false)]) => Atom::Bool(false),
            (Op::Bin(BinOp::And), [a, b]) if a == b => *a,
            (Op::Cmp(op), [Atom::Int(a, _), Atom::Int(b, _)]) => Atom::Bool(op.holds(a, b)),
            (Op::Select, [Atom::Bool(c), a, b]) => {
                if *c {
                    *a
                } else {
                    *b
                }
            }
            (Op::Cast(ty), [a]) if self.ty(*a) == *ty => *a,
            (Op::Cast(ty), [Atom::Int(n, _)]) if ty.is_integer() => Atom::Int(ty.wrap(*n), *ty),
            _ => return None,
        })
    }

    pub fn bin(&mut self, op: BinOp, a: Atom, b: Atom) -> Atom {
        self.op(Op::Bin(op), &[a, b])
    }

    /// Two results of a reduction as one: see [`Expr::combined`].
    pub fn combined(&mut self, op: BinOp, dtype: DType, a: Atom, b: Atom) -> Atom {
        self.op(Op::of_values(op, dtype), &[a, b])
    }

    pub fn add(&mut self, a: Atom, b: Atom) -> Atom {
        self.bin(BinOp::Add, a, b)
    }

    pub fn cmp(&mut self, op: CmpOp, a: Atom, b: Atom) -> Atom {
        self.op(Op::Cmp(op), &[a, b])
    }

    pub fn dim(&mut self, extent: &Extent) -> Atom {
        self.op(Op::Dim(extent.clone()), &[])
    }

    /// Conjunction; `None` is true.
    pub fn and(&mut self, a: Option<Atom>, b: Option<Atom>) -> Option<Atom> {
        match (a, b) {
            (Some(a), Some(b)) => Some(self.bin(BinOp::And, a, b)),
            (a, b) => a.or(b),
        }
    }

    /// Variable part of an index, outer scopes first so that inner loops add to hoisted sums.
    fn sum(&mut self, index: &Linear) -> Option<Atom> {
        let mut terms: Vec<_> = index.terms.iter().map(|(v, c)| (*v, *c)).collect();
        terms.sort_by_key(|(v, _)| (self.vars[v.0 as usize].depth, *v));
        let mut total = None;
        for (var, c) in terms {
            let term = self.bin(BinOp::Mul, Atom::Var(var), Atom::i32(c));
            total = Some(match total {
                None => term,
                Some(sum) => self.add(sum, term),
            });
        }
        total
    }

    /// An `i32` index: its variable part; the constant is left to the caller.
    pub fn index_base(&mut self, index: &Linear) -> (Option<Atom>, i64) {
        (self.sum(index), index.constant)
    }

    /// An `i32` index as one operand.
    pub fn index(&mut self, index: &Linear) -> Atom {
        match self.sum(index) {
            None => Atom::i32(index.constant),
            Some(base) => self.add(base, Atom::i32(index.constant)),
        }
    }

    /// Variable and constant part of an offset of type `ty` (`I32` or `I64`).
    ///
    /// Constant multiples of a symbolic pitch (the rows of an unrolled loop) are added one after another,
    /// each to the row before it: a register for each row would have to live through the loop.
    pub fn offset(&mut self, offset: &Offset, ty: DType) -> (Option<Atom>, i64) {
        let mut start = offset.clone();
        start.unit.constant = 0;
        let rows: Rows =
            offset.pitched.iter().map(|(p, l)| (*p, l.constant)).filter(|(_, c)| *c != 0).collect();
        start.pitched.values_mut().for_each(|l| l.constant = 0);
        let constant = offset.unit.constant;
        if rows.is_empty() {
            return (self.offset_start(&start, ty), constant);
        }
        let top = self.scopes.len() - 1;
        let known = self.scopes[top].rows.get(&start).cloned().unwrap_or_default();
        if let Some((_, atom)) = known.iter().find(|(r, _)| *r == rows) {
            return (Some(*atom), constant);
        }
        let (from, mut total) = match known.last() {
            Some((r, atom)) => (r.clone(), Some(*atom)),
            None => (Rows::new(), self.offset_start(&start, ty)),
        };
        let pitches: BTreeSet<Pitch> = from.keys().chain(rows.keys()).copied().collect();
        for pitch in pitches {
            let step = rows.get(&pitch).unwrap_or(&0) - from.get(&pitch).unwrap_or(&0);
            if step == 0 {
                continue;
            }
            let term = self.bin(BinOp::Mul, weight(pitch, ty), Atom::Int(step, ty));
            total = Some(match total {
                None => term,
                Some(sum) => self.add(sum, term),
            });
        }
        if let Some(atom) = total {
            self.scopes[top].rows.entry(start).or_default().push((rows, atom));
        }
        (total, constant)
    }

    /// Variable part of an offset without constants, outer scopes first so that inner loops add to hoisted
    /// sums.
    fn offset_start(&mut self, offset: &Offset, ty: DType) -> Option<Atom> {
        // One summand for each (scope, pitch): what the scope's own variables contribute.
        let mut parts: BTreeMap<(usize, Option<Pitch>), Linear> = BTreeMap::new();
        let pitched = offset.pitched.iter().map(|(p, l)| (Some(*p), l));
        for (pitch, index) in pitched.chain([(None, &offset.unit)]) {
            let floor = match pitch {
                Some(Pitch::Var(var)) => self.vars[var.0 as usize].depth,
                _ => 0,
            };
            for (v, c) in &index.terms {
                let depth = self.vars[v.0 as usize].depth.max(floor);
                parts.entry((depth, pitch)).or_default().terms.insert(*v, *c);
            }
        }
        let mut total = None;
        for ((_, pitch), index) in parts {
            let mut term = self.index(&index);
            term = self.op(Op::Cast(ty), &[term]);
            if let Some(pitch) = pitch {
                term = self.bin(BinOp::Mul, term, weight(pitch, ty));
            }
            total = Some(match total {
                None => term,
                Some(sum) => self.add(sum, term),
            });
        }
        total
    }

    /// `base + constant` as an expression; the sum is not named, so that addresses fold it.
    pub fn sum_expr(base: Option<Atom>, constant: i64, ty: DType) -> Expr {
        match (base, constant) {
            (None, c) => Expr::Int(c, ty),
            (Some(base), 0) => base.expr(),
            (Some(base), c) => Expr::Bin(BinOp::Add, Box::new(base.expr()), Box::new(Expr::Int(c, ty))),
        }
    }

    /// Whether every value of the index is a multiple of `n`.
    pub fn is_multiple(&self, index: &Linear, n: i64) -> bool {
        index.constant % n == 0
            && index.terms.iter().all(|(v, c)| (c * self.vars[v.0 as usize].multiple) % n == 0)
    }

    pub fn find_load(&self, key: &LoadKey) -> Option<Var> {
        self.scopes.last().expect("an open scope").loads.get(key).copied()
    }

    pub fn remember_load(&mut self, key: LoadKey, var: Var) {
        self.scopes.last_mut().expect("an open scope").loads.insert(key, var);
    }

    pub fn find_point(&self, point: &Point) -> Option<Atom> {
        self.scopes.last().expect("an open scope").points.get(point).map(|(_, atom)| *atom)
    }

    pub fn remember_point(&mut self, point: Point, mem: Mem, atom: Atom) {
        self.scopes.last_mut().expect("an open scope").points.insert(point, (mem, atom));
    }

    pub fn find_matrices(&self, key: &MatrixKey) -> Option<Vec<Var>> {
        self.scopes.last().expect("an open scope").matrices.get(key).cloned()
    }

    pub fn remember_matrices(&mut self, key: MatrixKey, vars: Vec<Var>) {
        self.scopes.last_mut().expect("an open scope").matrices.insert(key, vars);
    }

    /// After a store to these buffers, or a barrier: loads of them are not shared any more.
    pub fn forget_loads(&mut self, stale: impl Fn(Mem) -> bool) {
        for scope in &mut self.scopes {
            scope.loads.retain(|key, _| !stale(key.0));
            scope.points.retain(|_, (mem, _)| !stale(*mem));
            scope.matrices.retain(|key, _| !stale(key.0));
        }
    }
}

/// `atom + constant` as an index.
pub(super) fn linear(atom: Atom, constant: i64) -> Linear {
    match atom {
        Atom::Var(var) => Linear::var(var).plus(&Linear::constant(constant)),
        Atom::Int(n, _) => Linear::constant(n + constant),
        Atom::Float(..) | Atom::Bool(_) => unreachable!("an index is an integer"),
    }
}

/// A literal of an element type.
pub(super) fn literal(x: f64, dtype: DType) -> Atom {
    match dtype.format().kind {
        Kind::Float(_) => Atom::float(x, dtype),
        // The greatest of no integers is the least one there is.
        Kind::Int { .. } => Atom::Int(dtype.round_f64(x) as i64, dtype),
        Kind::Bool => Atom::Bool(x != 0.0),
    }
}

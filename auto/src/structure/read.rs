//! Reads the facts off an unscheduled nest.

use super::{Access, Axis, AxisAt, Dim, Factor, How, Product, Reduction, Role, Structure, Value, Work};
use std::collections::{BTreeMap, BTreeSet};
use tile_dsl::{
    dtype::DType,
    index::AxisId,
    nest::{AccessId, Expr, Factor as NestFactor, Frame, Nest, Stmt, Target, ValueId, leaves},
    op::UnOp,
    tile::AxisKind,
};

/// What one statement uses.
struct Leaf<'n> {
    target: Target,
    expr: &'n Expr,
    stmt: &'n Stmt,
    /// Axes of the loops around it.
    points: BTreeSet<AxisId>,
    /// Axes of the loops inside of the `let` of the value that it writes.
    inside: BTreeSet<AxisId>,
}

/// The facts of a nest. `column_major` names tensors whose first dimension is the contiguous one.
pub(super) fn read(nest: &Nest, dtype: Option<DType>, column_major: &BTreeSet<String>) -> Structure {
    let mut all: Vec<Leaf<'_>> = Vec::new();
    leaves(&nest.body, &mut |path, stmt| {
        let (target, expr) = stmt.leaf().expect("a leaf");
        let axes = |frames: &[Frame]| frames.iter().filter_map(Frame::step).map(|(d, _)| d.axis).collect();
        let own = |f: &Frame| matches!((f, target), (Frame::First(vs), Target::Value(v)) if vs.contains(&v));
        let from = path.iter().rposition(own).unwrap_or(0);
        all.push(Leaf { target, expr, stmt, points: axes(path), inside: axes(&path[from..]) });
    });
    let (accesses, place) = accesses(nest, &all, column_major);
    let reductions = reductions(nest, &all, &place);
    let mut structure = Structure {
        dtype,
        column_major: column_major.clone(),
        axes: Vec::new(),
        values: values(nest, &all),
        work: work(&all),
        accesses,
        reductions,
    };
    for (n, axis) in nest.kernel.axes.iter().enumerate() {
        let id = AxisId(n as u16);
        let stored = |a: &Access| a.how != How::Read && a.axes().contains(&n);
        structure.axes.push(Axis {
            name: axis.name.clone(),
            role: match axis.kind {
                AxisKind::Program => Role::Program,
                AxisKind::Tiles => Role::Tiles,
                AxisKind::Whole => Role::Whole,
            },
            extent: axis.extent.clone(),
            reduced: structure.reductions.iter().any(|r| r.over.contains(&n)),
            stored: structure.accesses.iter().any(stored),
            carried: nest.recurrences.contains_key(&id),
            limited: nest.limits.contains_key(&id),
            late: nest.limits.get(&id).is_some_and(|limits| limits.from.is_some()),
        });
    }
    structure
}

fn at(axis: AxisId) -> AxisAt {
    usize::from(axis.0)
}

fn ats<'a>(axes: impl IntoIterator<Item = &'a AxisId>) -> BTreeSet<AxisAt> {
    axes.into_iter().map(|a| at(*a)).collect()
}

/// The accesses of all statements, and where each of the nest's is among them.
fn accesses(
    nest: &Nest,
    all: &[Leaf<'_>],
    column_major: &BTreeSet<String>,
) -> (Vec<Access>, BTreeMap<(AccessId, bool), usize>) {
    let mut found: Vec<Access> = Vec::new();
    let mut place: BTreeMap<(AccessId, bool), usize> = BTreeMap::new();
    let mut add = |id: AccessId, writes: bool, points: &BTreeSet<AxisId>| {
        if let Some(n) = place.get(&(id, writes)) {
            found[*n].points.extend(ats(points));
            return;
        }
        let access = nest.access(id);
        let tensor = nest.tensor(access.tensor);
        let how = match (writes, &access.combines) {
            (false, _) => How::Read,
            (true, None) => How::Write,
            (true, Some(_)) => How::Combine,
        };
        let dims = access.index.iter().enumerate().map(|(d, form)| Dim {
            terms: form.terms.iter().map(|(a, c)| (at(*a), *c)).collect(),
            constant: form.constant,
            by: access.by.get(&d).map(|axes| ats(axes).into_iter().collect()),
        });
        place.insert((id, writes), found.len());
        found.push(Access {
            tensor: tensor.name.clone(),
            how,
            dtype: nest.elem(access.tensor),
            dims: dims.collect(),
            column_major: column_major.contains(&tensor.name),
            guarded: access.guarded.is_some(),
            points: ats(points),
        });
    };
    for leaf in all {
        leaf.expr.visit(&mut |e| {
            if let Expr::Load(access) | Expr::Gather(access, _) = e {
                add(*access, false, &leaf.points);
            }
        });
        if let Target::Access(access) = leaf.target {
            add(access, true, &leaf.points);
        }
    }
    (found, place)
}

fn values(nest: &Nest, all: &[Leaf<'_>]) -> Vec<Value> {
    let reads = |leaf: &Leaf<'_>, value: ValueId| {
        let mut found = false;
        leaf.expr.visit(&mut |e| found |= matches!(e, Expr::Get(v) if *v == value));
        found
    };
    let mut found = Vec::new();
    let maxima = nest.running_maxima();
    for n in 0..nest.values.len() {
        let id = ValueId(n as u16);
        let of = nest.value(id);
        let is_written = all.iter().any(|l| l.target == Target::Value(id));
        let is_reduced = all.iter().any(|l| matches!(l.stmt, Stmt::Red { value, .. } if *value == id));
        if !is_written || is_reduced {
            continue;
        }
        found.push(Value {
            name: of.name.clone(),
            axes: ats(&of.axes),
            dtype: of.dtype,
            carried: of.carried,
            maximum: maxima.contains(&of.name),
            readers: all.iter().filter(|l| reads(l, id)).count(),
        });
    }
    found
}

fn reductions(nest: &Nest, all: &[Leaf<'_>], place: &BTreeMap<(AccessId, bool), usize>) -> Vec<Reduction> {
    let mut found = Vec::new();
    for leaf in all {
        let Stmt::Red { value, op, expr } = leaf.stmt else { continue };
        let of = nest.value(*value);
        let factor = |f: NestFactor<'_>| Factor {
            access: f.element().or(masked(f)).and_then(|access| place.get(&(access, false)).copied()),
            masked: masked(f).is_some(),
            dtype: nest.factor_dtype(f),
            axes: ats(&nest.factor_axes(f)),
        };
        let factors = nest.factors(expr).ok().filter(|_| *op == tile_dsl::op::RedOp::Add);
        let product =
            factors.map(|[a, b]| Product { tf32: nest.rounds(expr), factors: [factor(a), factor(b)] });
        found.push(Reduction {
            name: of.name.clone(),
            op: *op,
            axes: ats(&of.axes),
            over: ats(&leaf.inside.difference(&of.axes).copied().collect::<Vec<_>>()),
            dtype: of.dtype,
            carried: of.carried,
            product,
        });
    }
    found
}

/// What is loaded where a condition holds, of a factor that is zero elsewhere.
fn masked(factor: NestFactor<'_>) -> Option<AccessId> {
    let NestFactor::Computed(Expr::Select(_, loaded, zero)) = factor else { return None };
    match (&**loaded, &**zero) {
        (Expr::Load(access) | Expr::Gather(access, _), Expr::Const(0.0, _)) => Some(*access),
        _ => None,
    }
}

/// Instructions that a function takes, about: what the assembler makes of the approximations that code generation uses.
fn instructions(op: UnOp) -> f64 {
    match op {
        UnOp::Neg | UnOp::Abs | UnOp::Tf32 => 1.0,
        UnOp::Exp | UnOp::Exp2 | UnOp::Log | UnOp::Sqrt | UnOp::Rsqrt => 4.0,
        _ => 12.0,
    }
}

fn work(all: &[Leaf<'_>]) -> Vec<Work> {
    let mut sums: BTreeMap<BTreeSet<AxisAt>, f64> = BTreeMap::new();
    for leaf in all {
        let mut operations = 0.0;
        leaf.expr.visit(&mut |e| {
            operations += match e {
                Expr::Un(op, _) => instructions(*op),
                Expr::Bin(op, ..) if *op == tile_dsl::op::BinOp::Div => 8.0,
                Expr::Bin(..) | Expr::Cmp(..) | Expr::Select(..) | Expr::Cast(..) => 1.0,
                _ => 0.0,
            }
        });
        // The product of a sum of products is part of the addition.
        if matches!(leaf.stmt, Stmt::Red { .. })
            && !matches!(leaf.expr, Expr::Bin(tile_dsl::op::BinOp::Mul, ..))
        {
            operations += 1.0;
        }
        *sums.entry(ats(&leaf.points)).or_default() += operations;
    }
    let some = sums.into_iter().filter(|(_, operations)| *operations > 0.0);
    some.map(|(axes, operations)| Work { axes, operations }).collect()
}

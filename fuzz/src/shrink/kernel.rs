//! Changes that make a kernel smaller.

use std::collections::{BTreeMap, BTreeSet};
use tile_dsl::{
    dtype::DType,
    index::{Affine, AxisId, Extent},
    span::SpanId,
    tile::{
        self, Axis, AxisKind, ElemType, Expr, ExprKind, Index, Kernel, Limits, ScalarId, Stmt, TensorId,
        VarId, expressions, expressions_mut, statements,
    },
};

/// The `n`th change: `None` when there are fewer, `Some(None)` when it leaves no well-formed kernel.
pub(super) fn change(kernel: &Kernel, mut n: usize) -> Option<Option<Kernel>> {
    let statements = count_statements(&kernel.body);
    if n < statements {
        let mut changed = kernel.clone();
        remove_statement(&mut changed.body, &mut n);
        return Some(finish(changed));
    }
    n -= statements;
    let axes = kernel.axes.len();
    if n < axes {
        return Some(without_axis(kernel, AxisId(n as u16)).and_then(finish));
    }
    n -= axes;
    let whole = whole_changes(kernel);
    if n < whole.len() {
        return Some(finish(whole.into_iter().nth(n).expect("counted")));
    }
    n -= whole.len();
    let mut simpler = Vec::new();
    let mut at = 0;
    expressions(&kernel.body, &mut |expr| {
        simpler.extend((0..simpler_exprs(expr).len()).map(|choice| (at, choice)));
        at += 1;
    });
    let (at, choice) = *simpler.get(n)?;
    let mut changed = kernel.clone();
    let mut count = 0;
    expressions_mut(&mut changed.body, &mut |expr| {
        let here = count == at;
        count += 1;
        if here {
            *expr = simpler_exprs(expr).swap_remove(choice);
        }
        !here
    });
    Some(finish(changed))
}

fn finish(kernel: Kernel) -> Option<Kernel> {
    let kernel = compact(kernel)?;
    tile::verify(&kernel).is_empty().then_some(kernel)
}

fn count_statements(body: &[Stmt]) -> usize {
    let mut count = 0;
    statements(body, &mut |_| count += 1);
    count
}

/// Removes the `n`th statement, in the order written.
fn remove_statement(body: &mut Vec<Stmt>, n: &mut usize) -> bool {
    for at in 0..body.len() {
        if *n == 0 {
            body.remove(at);
            return true;
        }
        *n -= 1;
        if let Stmt::For { body, .. } = &mut body[at]
            && remove_statement(body, n)
        {
            return true;
        }
    }
    false
}

/// Fixed types, smaller and plain extents.
fn whole_changes(kernel: &Kernel) -> Vec<Kernel> {
    let mut all = Vec::new();
    if kernel.generic.is_some() {
        all.push(kernel.instantiate(Some(DType::F32)));
    }
    let mut elems: BTreeSet<DType> = BTreeSet::new();
    for tensor in &kernel.tensors {
        if let ElemType::Fixed(dtype) = tensor.elem {
            elems.insert(dtype);
        }
    }
    elems.remove(&DType::F32);
    for from in elems {
        all.push(retyped(kernel, from));
    }
    // Stores without their conditions.
    let mut plain = kernel.clone();
    for stmt in &mut plain.body {
        stmt.each_mut(&mut |stmt| {
            if let Stmt::Store { when, .. } = stmt {
                *when = None;
            }
        });
    }
    if plain != *kernel {
        all.push(plain);
    }
    for (n, var) in (0..).zip(&kernel.vars) {
        if !var.mutable {
            all.extend(inlined(kernel, VarId(n)));
        }
    }
    // Smaller constant extents, everywhere at once.
    let constants: BTreeSet<i64> =
        kernel.axes.iter().filter_map(|a| a.extent.as_constant()).filter(|n| *n > 1).collect();
    for n in constants {
        for smaller in [1, 2, n - 1] {
            if smaller < n {
                let mut changed = kernel.clone();
                let extents = changed.axes.iter_mut().map(|a| &mut a.extent);
                for extent in extents.chain(changed.tensors.iter_mut().flat_map(|t| &mut t.dims)) {
                    if extent.as_constant() == Some(n) {
                        *extent = Extent::constant(smaller);
                    }
                }
                all.push(changed);
            }
        }
    }
    // `N + 1` and `2*N` as `N`.
    let affine: BTreeSet<Extent> = kernel
        .axes
        .iter()
        .map(|a| &a.extent)
        .filter(|e| e.dims.len() == 1 && e.as_dim().is_none())
        .cloned()
        .collect();
    for extent in affine {
        let name = extent.dims.keys().next().expect("one dim").clone();
        let mut changed = kernel.clone();
        let extents = changed.axes.iter_mut().map(|a| &mut a.extent);
        for e in extents.chain(changed.tensors.iter_mut().flat_map(|t| &mut t.dims)) {
            if *e == extent {
                *e = Extent::dim(&name);
            }
        }
        all.push(changed);
    }
    all
}

/// The kernel with a value in the place of each of its uses.
fn inlined(kernel: &Kernel, var: VarId) -> Option<Kernel> {
    let mut value = None;
    statements(&kernel.body, &mut |stmt| match stmt {
        Stmt::Let { var: v, value: found } if *v == var => value = value.or(Some(found)),
        _ => {}
    });
    let value = value?.clone();
    let mut changed = kernel.clone();
    expressions_mut(&mut changed.body, &mut |expr| {
        if expr.kind == ExprKind::Var(var) {
            *expr = value.clone();
        }
        true
    });
    Some(changed)
}

/// The kernel with f32 in place of another type.
fn retyped(kernel: &Kernel, from: DType) -> Kernel {
    let mut changed = kernel.clone();
    let fix = |elem: &mut ElemType| {
        if *elem == ElemType::Fixed(from) {
            *elem = ElemType::Fixed(DType::F32);
        }
    };
    changed.tensors.iter_mut().for_each(|t| fix(&mut t.elem));
    changed.scalars.iter_mut().for_each(|s| fix(&mut s.elem));
    expressions_mut(&mut changed.body, &mut |expr| {
        match &mut expr.kind {
            ExprKind::Full { elem, .. } | ExprKind::Cast(elem, _) => fix(elem),
            ExprKind::Const { elem: Some(elem), .. } => fix(elem),
            _ => {}
        }
        true
    });
    changed
}

/// The kernel at one point of an axis: what is indexed by it alone loses a dimension.
fn without_axis(kernel: &Kernel, axis: AxisId) -> Option<Kernel> {
    let mut changed = kernel.clone();
    if kernel.axes[usize::from(axis.0)].kind == AxisKind::Tiles {
        return None;
    }
    // Dimensions that go, by tensor: where every access has exactly the axis.
    let mut dims: BTreeMap<(TensorId, usize), bool> = BTreeMap::new();
    let mut look = |tensor: TensorId, index: &[Index]| {
        for (n, entry) in index.iter().enumerate() {
            let form = entry.as_affine();
            let alone = form.is_some_and(|form| form.terms.len() == 1 && form.terms.contains_key(&axis));
            *dims.entry((tensor, n)).or_insert(true) &= alone;
        }
    };
    for_accesses(&mut changed.body, &mut |tensor, index| look(tensor, index));
    dims.retain(|(tensor, _), gone| *gone && kernel.tensors[usize::from(tensor.0)].dims.len() > 1);
    let mut cut = |tensor: TensorId, index: &mut Vec<Index>| {
        let mut n = 0;
        index.retain(|_| {
            n += 1;
            !dims.contains_key(&(tensor, n - 1))
        });
        for entry in index {
            entry.affine.terms.remove(&axis);
        }
    };
    for_accesses(&mut changed.body, &mut cut);
    for_limits(&mut changed.axes, &mut |expr| {
        if let ExprKind::Load { tensor, index } = &mut expr.kind {
            cut(*tensor, index);
        }
        true
    });
    for (t, tensor) in (0..).zip(&mut changed.tensors) {
        let mut n = 0;
        tensor.dims.retain(|_| {
            n += 1;
            !dims.contains_key(&(TensorId(t), n - 1))
        });
    }
    let at_zero = &mut |expr: &mut Expr| {
        match &mut expr.kind {
            ExprKind::Full { axes, .. } => axes.retain(|a| *a != axis),
            ExprKind::Reduce(_, x, a) | ExprKind::Scan(_, x, a) if *a == axis => *expr = (**x).clone(),
            ExprKind::Iota(a) if *a == axis => {
                expr.kind = ExprKind::Const { value: 0.0, elem: Some(ElemType::Fixed(DType::I32)) };
            }
            _ => {}
        }
        true
    };
    expressions_mut(&mut changed.body, at_zero);
    for_limits(&mut changed.axes, at_zero);
    Some(changed)
}

/// What an expression may be replaced by: its operands, simpler indices.
fn simpler_exprs(expr: &Expr) -> Vec<Expr> {
    let mut all: Vec<Expr> = match &expr.kind {
        ExprKind::Dot(..) | ExprKind::Cmp(..) => vec![],
        _ => expr.children().into_iter().cloned().collect(),
    };
    match &expr.kind {
        ExprKind::Load { tensor, index } => {
            for (n, _) in index.iter().enumerate().filter(|(_, entry)| entry.value.is_some()) {
                let mut plain = index.clone();
                plain[n] = plain[n].affine.clone().into();
                all.push(with(ExprKind::Load { tensor: *tensor, index: plain }));
            }
            for (n, entry) in index.iter().enumerate() {
                for axis in entry.affine.terms.keys() {
                    let mut plain = index.clone();
                    plain[n] = Affine::axis(*axis).into();
                    if plain != *index {
                        all.push(with(ExprKind::Load { tensor: *tensor, index: plain }));
                    }
                }
            }
        }
        ExprKind::Const { value, elem } if *value != 1.0 => {
            all.push(with(ExprKind::Const { value: 1.0, elem: *elem }));
        }
        ExprKind::Full { value, elem, axes } if *value != 0.0 => {
            all.push(with(ExprKind::Full { value: 0.0, elem: *elem, axes: axes.clone() }));
        }
        ExprKind::Dot(a, b, c) => {
            all.push((**c).clone());
            for (x, y) in [(a, b), (b, a)] {
                // A product in place of operands that are more than a load.
                if let ExprKind::Bin(_, p, q) = &x.kind {
                    for part in [p, q] {
                        let dot = if std::ptr::eq(x, a) {
                            ExprKind::Dot(part.clone(), y.clone(), c.clone())
                        } else {
                            ExprKind::Dot(y.clone(), part.clone(), c.clone())
                        };
                        all.push(with(dot));
                    }
                }
            }
        }
        _ => {}
    }
    all
}

fn with(kind: ExprKind) -> Expr {
    Expr { kind, span: SpanId::NONE }
}

/// Calls `f` with each expression of limits, each before its operands.
fn for_limits(axes: &mut [Axis], f: &mut dyn FnMut(&mut Expr) -> bool) {
    axes.iter_mut().flat_map(|axis| axis.limits.ends_mut()).for_each(|end| end.each_mut(f));
}

fn for_accesses(body: &mut [Stmt], f: &mut impl FnMut(TensorId, &mut Vec<Index>)) {
    for stmt in &mut *body {
        stmt.each_mut(&mut |stmt| {
            if let Stmt::Store { tensor, index, .. } = stmt {
                f(*tensor, index);
            }
        });
    }
    expressions_mut(body, &mut |expr| {
        if let ExprKind::Load { tensor, index } = &mut expr.kind {
            f(*tensor, index);
        }
        true
    });
}

/// Without parameters, values, axes and loops that nothing mentions; nothing if a value is read that is not bound.
fn compact(mut kernel: Kernel) -> Option<Kernel> {
    while drop_unread(&mut kernel) {}
    let (mut tensors, mut scalars, mut vars, mut axes) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut body = std::mem::take(&mut kernel.body);
    for_accesses(&mut body, &mut |tensor, index| {
        tensors.insert(tensor);
        axes.extend(index.iter().flat_map(|entry| entry.affine.terms.keys()).copied());
    });
    expressions(&body, &mut |expr| match &expr.kind {
        ExprKind::Scalar(id) => drop(scalars.insert(*id)),
        ExprKind::Full { axes: some, .. } => axes.extend(some),
        ExprKind::Iota(axis)
        | ExprKind::Edge(axis, _)
        | ExprKind::Reduce(_, _, axis)
        | ExprKind::Scan(_, _, axis) => {
            axes.insert(*axis);
        }
        _ => {}
    });
    // Limits of what is left mention what masks do.
    for (n, axis) in (0..).zip(&mut kernel.axes) {
        let kept = axes.contains(&AxisId(n));
        let mut known = true;
        for end in axis.limits.ends() {
            end.each(&mut |expr| match &expr.kind {
                ExprKind::Iota(a) => known &= axes.contains(a),
                ExprKind::Load { tensor, .. } => known &= tensors.contains(tensor),
                ExprKind::Scalar(id) => known &= scalars.contains(id),
                _ => {}
            });
        }
        if !kept || !known {
            axis.limits = Limits::default();
        }
    }
    bound(&body, &mut vars, &mut axes);
    let mut unbound = false;
    expressions(&body, &mut |expr| unbound |= matches!(&expr.kind, ExprKind::Var(v) if !vars.contains(v)));
    if unbound {
        return None;
    }
    let place = |keep: &[u16], old: u16| keep.iter().position(|k| *k == old).expect("kept") as u16;
    let tensors: Vec<u16> = tensors.into_iter().map(|t: TensorId| t.0).collect();
    let scalars: Vec<u16> = scalars.into_iter().map(|s: ScalarId| s.0).collect();
    let vars: Vec<u16> = vars.into_iter().map(|v: VarId| v.0).collect();
    let axes: Vec<u16> = axes.into_iter().map(|a: AxisId| a.0).collect();
    let axis = |a: AxisId| AxisId(place(&axes, a.0));
    for_accesses(&mut body, &mut |_, index| {
        for Index { affine, .. } in index {
            affine.terms = std::mem::take(&mut affine.terms).into_iter().map(|(a, c)| (axis(a), c)).collect();
        }
    });
    let renamed = &mut |expr: &mut Expr| {
        match &mut expr.kind {
            ExprKind::Load { tensor, .. } => tensor.0 = place(&tensors, tensor.0),
            ExprKind::Scalar(id) => id.0 = place(&scalars, id.0),
            ExprKind::Var(id) => id.0 = place(&vars, id.0),
            ExprKind::Full { axes, .. } => axes.iter_mut().for_each(|a| *a = axis(*a)),
            ExprKind::Iota(a)
            | ExprKind::Edge(a, _)
            | ExprKind::Reduce(_, _, a)
            | ExprKind::Scan(_, _, a) => *a = axis(*a),
            _ => {}
        }
        true
    };
    expressions_mut(&mut body, renamed);
    for_limits(&mut kernel.axes, &mut |expr| {
        if let ExprKind::Load { index, .. } = &mut expr.kind {
            for Index { affine, .. } in index {
                affine.terms =
                    std::mem::take(&mut affine.terms).into_iter().map(|(a, c)| (axis(a), c)).collect();
            }
        }
        renamed(expr)
    });
    renumber(&mut body, &|t| TensorId(place(&tensors, t.0)), &|v| VarId(place(&vars, v.0)), &axis);
    kernel.body = body;
    fn keep<T>(table: &mut Vec<T>, kept: &[u16]) {
        let mut n = 0;
        table.retain(|_| {
            n += 1;
            kept.contains(&(n - 1))
        });
    }
    keep(&mut kernel.tensors, &tensors);
    keep(&mut kernel.scalars, &scalars);
    keep(&mut kernel.vars, &vars);
    keep(&mut kernel.axes, &axes);
    Some(kernel)
}

fn bound(body: &[Stmt], vars: &mut BTreeSet<VarId>, axes: &mut BTreeSet<AxisId>) {
    statements(body, &mut |stmt| match stmt {
        Stmt::Let { var, .. } | Stmt::Assign { var, .. } => drop(vars.insert(*var)),
        Stmt::For { axis, .. } => drop(axes.insert(*axis)),
        Stmt::Store { .. } => {}
    });
}

fn renumber(
    body: &mut [Stmt],
    tensors: &impl Fn(TensorId) -> TensorId,
    vars: &impl Fn(VarId) -> VarId,
    axes: &impl Fn(AxisId) -> AxisId,
) {
    for stmt in body {
        stmt.each_mut(&mut |stmt| match stmt {
            Stmt::Let { var, .. } | Stmt::Assign { var, .. } => *var = vars(*var),
            Stmt::For { axis, .. } => *axis = axes(*axis),
            Stmt::Store { tensor, .. } => *tensor = tensors(*tensor),
        });
    }
}

/// Drops values that nothing reads and loops without statements; whether there were any.
fn drop_unread(kernel: &mut Kernel) -> bool {
    fn prune(body: &mut Vec<Stmt>, read: &BTreeSet<VarId>) -> bool {
        let before = body.len();
        let mut inner = false;
        for stmt in body.iter_mut() {
            if let Stmt::For { body, .. } = stmt {
                inner |= prune(body, read);
            }
        }
        body.retain(|stmt| match stmt {
            Stmt::Let { var, .. } | Stmt::Assign { var, .. } => read.contains(var),
            Stmt::For { body, .. } => !body.is_empty(),
            Stmt::Store { .. } => true,
        });
        inner || body.len() != before
    }
    let mut read = BTreeSet::new();
    // Reads but for that of a variable in its own assignment.
    statements(&kernel.body, &mut |stmt| {
        let own = match stmt {
            Stmt::Let { var, .. } | Stmt::Assign { var, .. } => Some(*var),
            Stmt::For { .. } | Stmt::Store { .. } => None,
        };
        stmt.operands().into_iter().for_each(|value| {
            value.each(&mut |e| match &e.kind {
                ExprKind::Var(v) if Some(*v) != own => drop(read.insert(*v)),
                _ => {}
            });
        });
    });
    prune(&mut kernel.body, &read)
}

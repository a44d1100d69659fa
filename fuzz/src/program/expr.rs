//! Expressions: `expr(axes, elem, depth)` has a subset of the axes and exactly the type.

use super::{
    Affine, AxisId, AxisKind, BinOp, DType, ElemType, Expr, ExprKind, Extent, Generator, I32, Known, RedOp,
    TYPES, TensorId, VarId, boxed, loaded, node, scaled,
};
use tile_dsl::op::{CmpOp, UnOp, unary::Drawn};

/// Nodes after which only leaves are made.
const MOST_NODES: usize = 60;

impl Generator<'_> {
    pub(super) fn expr(&mut self, axes: &[AxisId], elem: ElemType, depth: usize) -> Expr {
        self.nodes += 1;
        if depth == 0 || self.nodes > MOST_NODES {
            return self.leaf(axes, elem);
        }
        let smooth = if self.smooth { 10 } else { 0 };
        match self.random.below(100) {
            0..44 => {
                let op = *self.random.pick(&[
                    BinOp::Add,
                    BinOp::Add,
                    BinOp::Sub,
                    BinOp::Mul,
                    BinOp::Mul,
                    BinOp::Max,
                    BinOp::Min,
                ]);
                let a = self.expr(axes, elem, depth - 1);
                let fewer = if self.chance(50) { self.subset(axes, 60) } else { axes.to_vec() };
                let b = self.expr(&fewer, elem, depth - 1);
                let (a, b) = if self.chance(85) { (a, b) } else { (b, a) };
                node(ExprKind::Bin(op, Box::new(a), Box::new(b)))
            }
            44..52 => {
                let op = self.operator(Drawn::Often);
                node(ExprKind::Un(op, Box::new(self.expr(axes, elem, depth - 1))))
            }
            52..60 => {
                let condition = self.condition(axes, elem, 1);
                let a = self.expr(axes, elem, depth - 1);
                let b = self.leaf(axes, elem);
                node(ExprKind::Select(Box::new(condition), Box::new(a), Box::new(b)))
            }
            60..73 => self.reduction(axes, elem, depth - 1),
            73..78 => self.dot(axes, elem),
            78..82 => {
                let other = *self.random.pick(&TYPES);
                let x = self.expr(axes, ElemType::Fixed(other), depth - 1);
                self.cast(x, ElemType::Fixed(other), elem)
            }
            x if x >= 100 - smooth => self.smooth_function(axes, elem, depth - 1),
            _ => self.leaf(axes, elem),
        }
    }

    fn leaf(&mut self, axes: &[AxisId], elem: ElemType) -> Expr {
        self.nodes += 1;
        match self.random.below(100) {
            0..30 => {
                let known: Vec<Known> =
                    self.known.iter().filter(|k| k.axes.iter().all(|a| axes.contains(a))).cloned().collect();
                if known.is_empty() {
                    return self.load(axes, elem);
                }
                // The last ones mostly, or nobody would read them.
                let at = known.len() - 1 - self.random.below(known.len().min(3));
                self.cast(node(ExprKind::Var(known[at].var)), known[at].elem, elem)
            }
            30..37 => node(ExprKind::Const { value: self.random.below(7) as f64 - 3.0, elem: Some(elem) }),
            37..39 => {
                node(ExprKind::Const { value: *self.random.pick(&[0.5, -0.25, 1.5]), elem: Some(elem) })
            }
            39..43 => {
                let scalar = self.scalar(elem);
                node(ExprKind::Scalar(scalar))
            }
            43 => self.random(axes, elem),
            44..52 => {
                let whole = self.integer(axes, 2);
                self.cast(whole, I32, elem)
            }
            _ => self.load(axes, elem),
        }
    }

    /// Index values and extents, with `/` and `%`.
    fn integer(&mut self, axes: &[AxisId], depth: usize) -> Expr {
        self.nodes += 1;
        if depth > 0 && self.chance(12) {
            return self.bits(axes, depth);
        }
        if depth > 0 && self.chance(65) {
            let op = *self.random.pick(&[
                BinOp::Add,
                BinOp::Sub,
                BinOp::Mul,
                BinOp::Div,
                BinOp::Rem,
                BinOp::Rem,
                BinOp::Max,
                BinOp::Min,
            ]);
            let a = self.integer(axes, depth - 1);
            let b = match matches!(op, BinOp::Div | BinOp::Rem) && self.chance(93) {
                true => {
                    let value = *self.random.pick(&[1.0, 2.0, 3.0, 4.0, 5.0, -3.0]);
                    node(ExprKind::Const { value, elem: Some(I32) })
                }
                false => self.integer(axes, depth - 1),
            };
            return node(ExprKind::Bin(op, Box::new(a), Box::new(b)));
        }
        let dims: Vec<String> = self.kernel.axes.iter().flat_map(|a| a.extent.dims.keys().cloned()).collect();
        match self.random.below(10) {
            0..6 if !axes.is_empty() => node(ExprKind::Iota(*self.random.pick(axes))),
            6 if !dims.is_empty() => node(ExprKind::Dim(self.random.pick(&dims).clone())),
            _ => {
                let value = *self.random.pick(&[1.0, 2.0, 3.0, 5.0, 7.0, -1.0, -3.0, 0.0]);
                node(ExprKind::Const { value, elem: Some(I32) })
            }
        }
    }

    /// A random number of two integers, in a type.
    fn random(&mut self, axes: &[AxisId], elem: ElemType) -> Expr {
        let words = [BinOp::Random0, BinOp::Random1, BinOp::Random2, BinOp::Random3];
        let (seed, i) = (self.integer(axes, 0), self.integer(axes, 1));
        let word = node(ExprKind::Bin(*self.random.pick(&words), Box::new(seed), Box::new(i)));
        let number = node(ExprKind::Un(UnOp::Uniform, Box::new(word)));
        self.cast(number, ElemType::Fixed(DType::F32), elem)
    }

    /// Bits of integers, moved by more places than there are, too.
    fn bits(&mut self, axes: &[AxisId], depth: usize) -> Expr {
        let a = Box::new(self.integer(axes, depth - 1));
        let op = *self.random.pick(&[BinOp::Shl, BinOp::Shr, BinOp::Shr, BinOp::And, BinOp::Or, BinOp::Xor]);
        if self.chance(10) {
            return node(ExprKind::Un(UnOp::Not, a));
        }
        let literal = match op.shifts() {
            true => *self.random.pick(&[0.0, 1.0, 2.0, 3.0, 31.0, 32.0, 33.0, -1.0]),
            false => *self.random.pick(&[1.0, 3.0, 15.0, 255.0, -1.0, -8.0]),
        };
        let b = match self.chance(75) {
            true => node(ExprKind::Const { value: literal, elem: Some(I32) }),
            false => self.integer(axes, depth - 1),
        };
        node(ExprKind::Bin(op, a, Box::new(b)))
    }

    fn condition(&mut self, axes: &[AxisId], elem: ElemType, depth: usize) -> Expr {
        match self.random.below(8) {
            0 if depth > 0 => {
                let op = *self.random.pick(&[BinOp::And, BinOp::Or]);
                let a = self.condition(axes, elem, depth - 1);
                let b = self.condition(axes, elem, depth - 1);
                return node(ExprKind::Bin(op, Box::new(a), Box::new(b)));
            }
            1 if depth > 0 => {
                return node(ExprKind::Un(UnOp::Not, Box::new(self.condition(axes, elem, depth - 1))));
            }
            _ => {}
        }
        let op = *self.random.pick(&[CmpOp::Eq, CmpOp::Ne, CmpOp::Lt, CmpOp::Le, CmpOp::Gt, CmpOp::Ge]);
        let (a, b) = match self.chance(40) {
            true => (self.integer(axes, 1), self.integer(axes, 1)),
            false => (self.leaf(axes, elem), self.leaf(axes, elem)),
        };
        node(ExprKind::Cmp(op, Box::new(a), Box::new(b)))
    }

    /// Functions that round; divisors and arguments are kept where that does little harm.
    fn smooth_function(&mut self, axes: &[AxisId], elem: ElemType, depth: usize) -> Expr {
        let x = self.expr(axes, elem, depth);
        let number = |value| boxed(ExprKind::Const { value, elem: Some(elem) });
        let positive = |x: Expr| {
            let positive = boxed(ExprKind::Un(UnOp::Abs, Box::new(x)));
            node(ExprKind::Bin(BinOp::Add, positive, number(1.0)))
        };
        match self.random.below(6) {
            0 => {
                // As in a softmax.
                let axes: Vec<AxisId> = self.type_of(&x).map(|t| t.0).unwrap_or_default();
                let inner: Vec<AxisId> =
                    axes.into_iter().filter(|a| self.kind_of(*a) == AxisKind::Whole).collect();
                let most = match inner.is_empty() {
                    true => return node(ExprKind::Un(UnOp::Tanh, Box::new(x))),
                    false => ExprKind::Reduce(RedOp::Max, Box::new(x.clone()), *self.random.pick(&inner)),
                };
                let less = boxed(ExprKind::Bin(BinOp::Sub, Box::new(x), boxed(most)));
                node(ExprKind::Un(UnOp::Exp, less))
            }
            1 => {
                let small = boxed(ExprKind::Bin(BinOp::Min, Box::new(x), number(4.0)));
                let small = boxed(ExprKind::Bin(BinOp::Max, small, number(-4.0)));
                let op = self.operator(Drawn::Small);
                node(ExprKind::Un(op, small))
            }
            2 => node(ExprKind::Un(self.operator(Drawn::Any), Box::new(x))),
            3 => {
                let divisor = self.expr(axes, elem, depth);
                node(ExprKind::Bin(BinOp::Div, Box::new(x), Box::new(positive(divisor))))
            }
            4 => {
                let divisor = self.leaf(axes, elem);
                node(ExprKind::Bin(BinOp::Div, Box::new(x), Box::new(divisor)))
            }
            _ => {
                let op = self.operator(Drawn::Positive);
                node(ExprKind::Un(op, Box::new(positive(x))))
            }
        }
    }

    /// An operator for such operands.
    fn operator(&mut self, drawn: Drawn) -> UnOp {
        let all = UnOp::drawn(drawn);
        // Where there is no choice no number is drawn, so that equal seeds go on giving equal programs.
        if let [only] = all[..] { only } else { *self.random.pick(&all) }
    }

    /// `sum(x, a)` and the like, over an axis that the result lacks. Not over the axis of a loop over tiles: its value
    /// would depend on their size.
    pub(super) fn reduction(&mut self, axes: &[AxisId], elem: ElemType, depth: usize) -> Expr {
        let inner: Vec<AxisId> =
            self.usable().into_iter().filter(|a| self.kind_of(*a) == AxisKind::Whole).collect();
        if inner.is_empty() || self.nodes > MOST_NODES {
            return self.leaf(axes, elem);
        }
        let over = *self.random.pick(&inner);
        let op = *self.random.pick(&[RedOp::Add, RedOp::Add, RedOp::Max, RedOp::Min]);
        let mut wider: Vec<AxisId> = axes.iter().copied().filter(|a| *a != over).collect();
        wider.push(over);
        let x = match depth {
            0 => self.load(&wider, elem),
            _ => self.expr(&wider, elem, depth),
        };
        let has = self.type_of(&x).is_some_and(|(axes, _)| axes.contains(&over));
        let x = match has {
            true => x,
            false => {
                let other = self.load(&wider, elem);
                let joined = node(ExprKind::Bin(BinOp::Mul, Box::new(x), Box::new(other)));
                self.spread(joined, &[over], elem)
            }
        };
        node(ExprKind::Reduce(op, Box::new(x), over))
    }

    pub(super) fn dot(&mut self, axes: &[AxisId], elem: ElemType) -> Expr {
        let inner: Vec<AxisId> = self
            .usable()
            .into_iter()
            .filter(|a| self.kind_of(*a) == AxisKind::Whole && !axes.contains(a))
            .collect();
        if inner.is_empty() || self.nodes > MOST_NODES {
            return self.leaf(axes, elem);
        }
        let mut contracted = vec![*self.random.pick(&inner)];
        if self.chance(20) {
            contracted = inner;
        }
        let acc = match self.chance(70) {
            true => node(ExprKind::Full { value: 0.0, elem, axes: axes.to_vec() }),
            false => {
                let acc = self.leaf(axes, elem);
                self.spread(acc, axes, elem)
            }
        };
        let (a, b) = self.factors(axes, &contracted, elem);
        node(ExprKind::Dot(Box::new(a), Box::new(b), Box::new(acc)))
    }

    /// A load with all of these axes, cast if need be; a number where there are none.
    pub(super) fn load(&mut self, axes: &[AxisId], elem: ElemType) -> Expr {
        self.nodes += 1;
        let places: Vec<_> =
            self.in_place.iter().filter(|p| p.axes.iter().all(|a| axes.contains(a))).cloned().collect();
        if !places.is_empty() && self.chance(30) {
            let place = self.random.pick(&places).clone();
            let from = self.elem_of(place.tensor);
            let load = loaded(place.tensor, place.index);
            return self.cast(load, from, elem);
        }
        let some = if self.narrow || self.chance(85) { axes.to_vec() } else { self.subset(axes, 70) };
        if some.is_empty() {
            return node(ExprKind::Const { value: self.random.below(5) as f64 - 2.0, elem: Some(elem) });
        }
        let order = if self.narrow || self.chance(60) {
            let mut sorted = some;
            sorted.sort_unstable();
            sorted
        } else {
            self.subset(&some, 100)
        };
        let (index, dims) = match self.narrow && self.chance(85) {
            true => (
                order.iter().map(|a| Affine::axis(*a)).collect(),
                order.iter().map(|a| self.extent_of(*a).clone()).collect(),
            ),
            false => self.index(&order),
        };
        let reuse: Vec<TensorId> = (0..self.kernel.tensors.len() as u16)
            .map(TensorId)
            .filter(|t| {
                let tensor = &self.kernel.tensors[usize::from(t.0)];
                !tensor.mutable && tensor.dims == dims
            })
            .collect();
        let crowded = self.kernel.tensors.len() >= 7;
        let tensor = match !reuse.is_empty() && (crowded || self.narrow || self.chance(65)) {
            true => *self.random.pick(&reuse),
            false => {
                let stored = if self.chance(85) { self.stored } else { super::F32 };
                self.tensor(dims, stored, false)
            }
        };
        let from = self.elem_of(tensor);
        self.cast(loaded(tensor, index), from, elem)
    }

    /// An index with these axes in this order, and extents that it goes with.
    fn index(&mut self, axes: &[AxisId]) -> (Vec<Affine>, Vec<Extent>) {
        let (mut index, mut dims) = (Vec::new(), Vec::new());
        let mut rest = axes;
        while let Some((&axis, after)) = rest.split_first() {
            rest = after;
            let extent = self.extent_of(axis).clone();
            let (form, dim) = match self.random.below(100) {
                // A window: i + r.
                0..10 if !rest.is_empty() => {
                    let (&other, after) = rest.split_first().expect("not empty");
                    rest = after;
                    let scale = *self.random.pick(&[1, 1, 2]);
                    let mut dim = scaled(&extent, scale, -scale);
                    for (name, c) in &self.extent_of(other).dims {
                        *dim.dims.entry(name.clone()).or_default() += c;
                    }
                    dim.constant += self.extent_of(other).constant;
                    let short = self.chance(15);
                    // A constant sum that is too short or negative is no extent.
                    if short || dim.constant < 0 {
                        dim.constant = dim.constant.max(0) + 1;
                    }
                    (Affine { terms: [(axis, scale), (other, 1)].into(), constant: 0 }, dim)
                }
                // A halo; sometimes one that the tensor does not have, which reads zeros.
                10..18 => {
                    let shift = self.random.below(4) as i64 - 1;
                    let room = if self.chance(60) { shift.max(0) } else { 0 };
                    (Affine { terms: [(axis, 1)].into(), constant: shift }, scaled(&extent, 1, room))
                }
                18..21 => {
                    let shift = self.random.below(2) as i64;
                    (Affine { terms: [(axis, 2)].into(), constant: shift }, scaled(&extent, 2, shift))
                }
                // Backwards, from the end or from anywhere.
                21..25 => {
                    let last = match extent.as_constant() {
                        Some(points) => points - 1,
                        None => self.random.below(48) as i64,
                    };
                    (Affine { terms: [(axis, -1)].into(), constant: last }, extent)
                }
                _ => (Affine::axis(axis), extent),
            };
            index.push(form);
            dims.push(dim);
        }
        if self.chance(4) {
            index.push(Affine { terms: Default::default(), constant: self.random.below(3) as i64 });
            dims.push(Extent::constant(3));
        }
        (index, dims)
    }

    pub(super) fn kernel_type<'k>(
        &self,
        expr: &Expr,
        var: &dyn Fn(VarId) -> Option<&'k Known>,
    ) -> Option<(Vec<AxisId>, ElemType)> {
        let join = |mut a: Vec<AxisId>, b: Vec<AxisId>| {
            a.extend(b.into_iter().filter(|x| !a.contains(x)).collect::<Vec<_>>());
            a
        };
        let of = |e: &Expr| self.kernel_type(e, var);
        let bool_type = ElemType::Fixed(DType::Bool);
        Some(match &expr.kind {
            ExprKind::Load { tensor, index } => {
                let axes = index.iter().flat_map(|entry| entry.affine.terms.keys().copied());
                (axes.fold(vec![], |all, a| join(all, vec![a])), self.elem_of(*tensor))
            }
            ExprKind::Full { elem, axes, .. } => (axes.clone(), *elem),
            ExprKind::Iota(axis) => (vec![*axis], I32),
            ExprKind::Dim(_) | ExprKind::Edge(..) => (vec![], I32),
            ExprKind::Const { elem, .. } => (vec![], (*elem)?),
            ExprKind::Scalar(id) => (vec![], self.kernel.scalars[usize::from(id.0)].elem),
            ExprKind::Var(id) => var(*id).map(|k| (k.axes.clone(), k.elem))?,
            ExprKind::Un(op, x) => match op.row().makes {
                Some(_) => (of(x)?.0, ElemType::Fixed(op.result(DType::F32))),
                None => of(x)?,
            },
            ExprKind::Bin(op, a, b) => {
                let ((a, elem), (b, _)) = (of(a)?, of(b)?);
                let elem = if op.random_word().is_some() { ElemType::Fixed(DType::U32) } else { elem };
                (join(a, b), elem)
            }
            ExprKind::Cmp(_, a, b) => (join(of(a)?.0, of(b)?.0), bool_type),
            ExprKind::Select(c, a, b) => {
                let ((a, elem), (b, _)) = (of(a)?, of(b)?);
                (join(join(of(c)?.0, a), b), elem)
            }
            ExprKind::Cast(elem, x) => (of(x)?.0, *elem),
            ExprKind::Reduce(_, x, axis) => {
                let (mut axes, elem) = of(x)?;
                axes.retain(|a| a != axis);
                (axes, elem)
            }
            ExprKind::Scan(_, x, _) => of(x)?,
            ExprKind::Dot(_, _, acc) => of(acc)?,
        })
    }
}

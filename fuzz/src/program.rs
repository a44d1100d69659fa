//! Random kernels in the tile IR, well-formed and with a nest.
//!
//! Axes and a skeleton of statements first: values (`let`), loops over tiles with accumulators, stores; then their
//! expressions, whose axes are a subset of those asked for (`expr`). What the typing rules refuse is thrown away.

mod atomics;
mod expr;
mod limits;
mod masks;
mod product;
mod running;
mod scans;
mod seed;
#[cfg(test)]
mod tests;
mod types;
mod values;

pub use limits::multiplies_within_limits;
pub use seed::{gathers, limited, multiplies, random_kernel, runs, scatters};
pub use values::{Indexed, indexed, leading};

use tile_dsl::{
    dtype::DType,
    engine::testing::{Random, TYPES},
    index::{Affine, AxisId, Extent},
    nest,
    op::{BinOp, RedOp},
    span::SpanId,
    tile::{
        Axis, AxisKind, ElemType, Expr, ExprKind, Kernel, Limits, Scalar, ScalarId, Stmt, Tensor, TensorId,
        Var, VarId,
    },
};

/// Names of dims.
const DIMS: [&str; 6] = ["M", "N", "K", "L", "P", "Q"];
/// Names of axes, in the order of their making.
const AXES: [&str; 6] = ["i", "j", "k", "l", "p", "q"];

const F32: ElemType = ElemType::Fixed(DType::F32);
const I32: ElemType = ElemType::Fixed(DType::I32);

fn schedulable(kernel: &Kernel) -> bool {
    let dtype = kernel.generic.as_ref().map(|_| DType::F32);
    nest::initial(&kernel.instantiate(dtype)).is_ok_and(|nest| nest.values.len() <= 24)
}

fn node(kind: ExprKind) -> Expr {
    Expr { kind, span: SpanId::NONE }
}

fn stored(tensor: TensorId, index: Vec<Affine>, value: Expr) -> Stmt {
    let index = index.into_iter().map(Into::into).collect();
    Stmt::Store { tensor, index, when: None, combine: None, value, span: SpanId::NONE }
}

fn loaded(tensor: TensorId, index: Vec<Affine>) -> Expr {
    node(ExprKind::Load { tensor, index: index.into_iter().map(Into::into).collect() })
}

fn boxed(kind: ExprKind) -> Box<Expr> {
    Box::new(node(kind))
}

/// A value that may be read.
#[derive(Clone)]
struct Known {
    var: VarId,
    axes: Vec<AxisId>,
    elem: ElemType,
}

/// An output that is read before it is stored, at the same index.
#[derive(Clone)]
struct InPlace {
    tensor: TensorId,
    index: Vec<Affine>,
    axes: Vec<AxisId>,
}

struct Generator<'a> {
    random: &'a mut Random,
    kernel: Kernel,
    known: Vec<Known>,
    in_place: Vec<InPlace>,
    /// Axes of `tiles` whose loop is open.
    open: Vec<AxisId>,
    /// Type that most of the arithmetic has.
    compute: ElemType,
    /// Type that most tensors have.
    stored: ElemType,
    /// Functions that round are used.
    smooth: bool,
    /// Few tensors, read again and again.
    narrow: bool,
    nodes: usize,
}

impl<'a> Generator<'a> {
    fn new(random: &'a mut Random) -> Self {
        let generic = random.below(100) < 25;
        let stored = match random.below(10) {
            _ if generic => ElemType::Generic,
            0..7 => F32,
            n => ElemType::Fixed(TYPES[1 + (n - 7) / 2]),
        };
        let compute = if random.below(100) < 75 { F32 } else { stored };
        let smooth = random.below(100) < 35;
        let narrow = random.below(100) < 40;
        let kernel = Kernel {
            name: "k".into(),
            generic: generic.then(|| "T".to_string()),
            tensors: vec![],
            scalars: vec![],
            axes: vec![],
            vars: vec![],
            body: vec![],
        };
        Generator {
            random,
            kernel,
            known: vec![],
            in_place: vec![],
            open: vec![],
            compute,
            stored,
            smooth,
            narrow,
            nodes: 0,
        }
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.random.below(100) < percent
    }

    fn run(&mut self) {
        self.axes();
        let outputs = *self.random.pick(&[1, 1, 1, 2, 2, 3]);
        if self.chance(30) {
            self.in_place_output();
        }
        let mut body = Vec::new();
        for _ in 0..outputs {
            self.statements(&mut body);
            let store = self.output();
            body.push(store);
        }
        // Now and then the last statement is a loop whose values nobody reads after it.
        if self.in_place.is_empty() && self.chance(20) {
            self.last_loop(&mut body);
        }
        for target in std::mem::take(&mut self.in_place) {
            let value = self.value_over(&target.axes, self.elem_of(target.tensor));
            body.push(stored(target.tensor, target.index, value));
        }
        self.kernel.body = body;
    }

    fn elem_of(&self, tensor: TensorId) -> ElemType {
        self.kernel.tensors[usize::from(tensor.0)].elem
    }

    fn extent_of(&self, axis: AxisId) -> &Extent {
        &self.kernel.axes[usize::from(axis.0)].extent
    }

    fn kind_of(&self, axis: AxisId) -> AxisKind {
        self.kernel.axes[usize::from(axis.0)].kind
    }

    fn axes(&mut self) {
        let program = *self.random.pick(&[0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3]);
        let inner = *self.random.pick(&[0, 1, 1, 1, 2, 2, 2, 3]).max(&usize::from(program == 0));
        let mut dims = 0;
        for (n, name) in AXES.iter().enumerate().take(program + inner) {
            let kind = match n < program {
                true => AxisKind::Program,
                false => *self.random.pick(&[AxisKind::Whole, AxisKind::Whole, AxisKind::Tiles]),
            };
            let fixed = if kind == AxisKind::Program { 12 } else { 35 };
            let extent = match self.random.below(100) {
                x if x < fixed => Extent::constant(1 + self.random.below(8) as i64),
                x if x < fixed + 8 && dims > 0 => Extent::dim(DIMS[self.random.below(dims)]),
                x => {
                    dims += 1;
                    let name = DIMS[dims - 1].to_string();
                    let (coefficient, constant) = match x {
                        94.. => (1, 1 + self.random.below(2) as i64),
                        92.. => (2, self.random.below(2) as i64),
                        _ => (1, 0),
                    };
                    Extent { dims: [(name, coefficient)].into(), constant }
                }
            };
            let (name, limits) = (name.to_string(), Limits::default());
            self.kernel.axes.push(Axis { name, extent, kind, limits, span: SpanId::NONE });
        }
    }

    fn all_axes(&self) -> Vec<AxisId> {
        (0..self.kernel.axes.len() as u16).map(AxisId).collect()
    }

    /// Axes that an expression may have here.
    fn usable(&self) -> Vec<AxisId> {
        let mut axes = self.all_axes();
        axes.retain(|a| self.kind_of(*a) != AxisKind::Tiles || self.open.contains(a));
        axes
    }

    /// A random subset, in random order.
    fn subset(&mut self, of: &[AxisId], percent: usize) -> Vec<AxisId> {
        let mut some: Vec<AxisId> = of.to_vec();
        some.retain(|_| self.random.below(100) < percent);
        for n in (1..some.len()).rev() {
            some.swap(n, self.random.below(n + 1));
        }
        some
    }

    fn let_of(&mut self, value: Expr, mutable: bool) -> (VarId, Stmt) {
        let var = VarId(self.kernel.vars.len() as u16);
        let name = format!("v{}", var.0);
        self.kernel.vars.push(Var { name, mutable, span: SpanId::NONE });
        (var, Stmt::Let { var, value })
    }

    /// Axes and type of an expression; nothing for one that is not well-formed.
    fn type_of(&self, expr: &Expr) -> Option<(Vec<AxisId>, ElemType)> {
        let vars = |v: VarId| self.known.iter().find(|k| k.var == v);
        self.kernel_type(expr, &vars)
    }

    /// `let v = ..`, several perhaps, and loops.
    fn statements(&mut self, body: &mut Vec<Stmt>) {
        for _ in 0..*self.random.pick(&[0, 1, 1, 2, 2, 3]) {
            let tiles: Vec<AxisId> =
                self.all_axes().into_iter().filter(|a| self.kind_of(*a) == AxisKind::Tiles).collect();
            if !tiles.is_empty() && self.chance(60) {
                let axis = *self.random.pick(&tiles);
                if !self.open.contains(&axis) {
                    self.tiles_loop(axis, body);
                    continue;
                }
            }
            self.bind(body);
        }
        // A loop's axis is of no use otherwise.
        if self.open.is_empty()
            && self.known.is_empty()
            && let Some(axis) = self.all_axes().into_iter().find(|a| self.kind_of(*a) == AxisKind::Tiles)
        {
            self.tiles_loop(axis, body);
        }
    }

    /// A loop that carries values and stores, as the last of some statements.
    fn last_loop(&mut self, body: &mut Vec<Stmt>) {
        let tiles = |a: &AxisId| self.kind_of(*a) == AxisKind::Tiles && !self.open.contains(a);
        let tiles: Vec<AxisId> = self.all_axes().into_iter().filter(tiles).collect();
        if !tiles.is_empty() {
            let axis = *self.random.pick(&tiles);
            self.tiles_loop_of(axis, true, body);
        }
    }

    fn bind(&mut self, body: &mut Vec<Stmt>) {
        let usable = self.usable();
        let axes = self.subset(&usable, 75);
        let elem = self.compute;
        let value = match self.random.below(10) {
            0..3 => self.load(&axes, elem),
            // Several reductions of what is loaded as it is.
            3..6 => {
                let depth = if self.narrow && self.chance(60) { 0 } else { 2 };
                self.reduction(&axes, elem, depth)
            }
            6 => self.dot(&axes, elem),
            _ => self.expr(&axes, elem, 3),
        };
        let Some((axes, elem)) = self.type_of(&value) else { return };
        let (var, stmt) = self.let_of(value, false);
        self.known.push(Known { var, axes, elem });
        body.push(stmt);
    }

    /// Accumulators before, or what the steps carry, `for axis { .. }`, and what they hold after.
    fn tiles_loop(&mut self, axis: AxisId, body: &mut Vec<Stmt>) {
        self.tiles_loop_of(axis, false, body);
    }

    /// `last`: its steps store, as nothing after it reads what it carries.
    fn tiles_loop_of(&mut self, axis: AxisId, last: bool, body: &mut Vec<Stmt>) {
        let outside = self.usable();
        let count = *self.random.pick(&[1, 1, 2]);
        let mut accumulators = Vec::new();
        for _ in 0..count {
            let axes = self.subset(&outside, 75);
            let elem = if self.chance(85) { F32 } else { self.compute };
            let start = match self.chance(80) {
                true => 0.0,
                false => self.random.below(5) as f64 - 2.0,
            };
            let value = match self.chance(90) {
                true => node(ExprKind::Full { value: start, elem, axes: axes.clone() }),
                false => {
                    let value = self.expr(&axes, elem, 1);
                    self.spread(value, &axes, elem)
                }
            };
            let (var, stmt) = self.let_of(value, true);
            body.push(stmt);
            accumulators.push(Known { var, axes, elem });
        }
        self.open.push(axis);
        let before = self.known.len();
        let mut inner = Vec::new();
        let carried = last || self.chance(45);
        if carried {
            self.known.extend(accumulators.iter().cloned());
        }
        for _ in 0..*self.random.pick(&[0, 0, 1, 2]) {
            self.bind(&mut inner);
        }
        if carried && self.chance(15) {
            self.statements(&mut inner);
        }
        for accumulator in &accumulators {
            let value = match carried && self.chance(75) {
                true => self.carry(accumulator, axis),
                false => self.accumulate(accumulator, axis),
            };
            inner.push(Stmt::Assign { var: accumulator.var, value, span: SpanId::NONE });
            // Between the updates: what was, and what is now.
            if carried && self.chance(30) {
                self.bind(&mut inner);
            }
        }
        if carried && self.chance(30) {
            let again = self.random.pick(&accumulators).clone();
            let value = self.carry(&again, axis);
            inner.push(Stmt::Assign { var: again.var, value, span: SpanId::NONE });
        }
        if last || self.chance(if carried { 25 } else { 12 }) {
            let store = self.output();
            let at = if self.chance(50) { inner.len() } else { self.random.below(inner.len() + 1) };
            // Before the updates it reads what the steps before have left.
            inner.insert(at, store);
        }
        if self.chance(10) {
            self.last_loop(&mut inner);
        }
        self.known.truncate(before);
        self.open.pop();
        body.push(Stmt::For { axis, body: inner, span: SpanId::NONE });
        self.known.extend(accumulators);
    }

    /// A new value for what is carried from tile to tile: any expression, mostly of the old one and of the tile.
    fn carry(&mut self, acc: &Known, axis: AxisId) -> Expr {
        let old = || boxed(ExprKind::Var(acc.var));
        let scaled = match self.random.below(4) {
            0 => {
                let half = node(ExprKind::Const { value: 0.5, elem: Some(acc.elem) });
                node(ExprKind::Bin(BinOp::Mul, old(), Box::new(half)))
            }
            1 => {
                let other = self.expr(&acc.axes, acc.elem, 1);
                let op = *self.random.pick(&[BinOp::Mul, BinOp::Max, BinOp::Sub]);
                node(ExprKind::Bin(op, old(), Box::new(other)))
            }
            _ => *old(),
        };
        let mut axes = acc.axes.clone();
        let value = match self.random.below(4) {
            0 => {
                let elem = if acc.elem == F32 && self.chance(50) { self.stored } else { acc.elem };
                let (a, b) = self.factors(&acc.axes, &[axis], elem);
                return node(ExprKind::Dot(Box::new(a), Box::new(b), Box::new(scaled)));
            }
            1 => self.expr(&axes, acc.elem, 2),
            _ => {
                axes.push(axis);
                let op = *self.random.pick(&[RedOp::Add, RedOp::Max, RedOp::Min]);
                let value = self.expr(&axes, acc.elem, 2);
                let value = self.spread(value, &axes, acc.elem);
                node(ExprKind::Reduce(op, Box::new(value), axis))
            }
        };
        let op = *self.random.pick(&[BinOp::Add, BinOp::Sub, BinOp::Max, BinOp::Min]);
        let joined = node(ExprKind::Bin(op, Box::new(scaled), Box::new(value)));
        self.spread(joined, &acc.axes, acc.elem)
    }

    /// `dot(a, b, acc)`, `acc + sum(x, k)`, `max(acc, max(x, k))`.
    fn accumulate(&mut self, acc: &Known, axis: AxisId) -> Expr {
        let old = boxed(ExprKind::Var(acc.var));
        if self.chance(55) {
            let elem = if acc.elem == F32 && self.chance(50) { self.stored } else { acc.elem };
            let mut contracted = vec![axis];
            let whole: Vec<AxisId> = self
                .usable()
                .into_iter()
                .filter(|a| self.kind_of(*a) == AxisKind::Whole && !acc.axes.contains(a))
                .collect();
            if !whole.is_empty() && self.chance(25) {
                contracted.push(*self.random.pick(&whole));
            }
            let (a, b) = self.factors(&acc.axes, &contracted, elem);
            return node(ExprKind::Dot(Box::new(a), Box::new(b), old));
        }
        let op = *self.random.pick(&[RedOp::Add, RedOp::Add, RedOp::Max, RedOp::Min]);
        let mut axes = acc.axes.clone();
        axes.push(axis);
        let value = self.expr(&axes, acc.elem, 2);
        let value = self.spread(value, &axes, acc.elem);
        let part = boxed(ExprKind::Reduce(op, Box::new(value), axis));
        let combine = op.combine();
        match self.chance(80) {
            true => node(ExprKind::Bin(combine, old, part)),
            false => node(ExprKind::Bin(combine, part, old)),
        }
    }

    /// Two operands with the contracted axes in both and the others in one or both.
    fn factors(&mut self, kept: &[AxisId], contracted: &[AxisId], elem: ElemType) -> (Expr, Expr) {
        let (mut left, mut right) = (contracted.to_vec(), contracted.to_vec());
        for axis in kept {
            match self.random.below(9) {
                0 => {
                    left.push(*axis);
                    right.push(*axis);
                }
                1..5 => left.push(*axis),
                _ => right.push(*axis),
            }
        }
        let mut operand = |axes: Vec<AxisId>| {
            let value = if self.chance(75) { self.load(&axes, elem) } else { self.expr(&axes, elem, 1) };
            self.spread(value, &axes, elem)
        };
        (operand(left), operand(right))
    }

    /// A tensor that is loaded and, at the end, stored at the same index.
    fn in_place_output(&mut self) {
        let (axes, index, dims) = self.target();
        let tensor = self.tensor(dims, self.stored, true);
        self.in_place.push(InPlace { tensor, index, axes });
    }

    /// Axes, index and extents of what is stored: all program axes, all open loops, some others.
    fn target(&mut self) -> (Vec<AxisId>, Vec<Affine>, Vec<Extent>) {
        let mut axes: Vec<AxisId> =
            self.usable().into_iter().filter(|a| self.kind_of(*a) != AxisKind::Whole).collect();
        let whole: Vec<AxisId> =
            self.usable().into_iter().filter(|a| self.kind_of(*a) == AxisKind::Whole).collect();
        axes.extend(self.subset(&whole, 45));
        if axes.is_empty() {
            axes = self.usable().into_iter().take(1).collect();
        }
        let mut order = self.subset(&axes, 100);
        if self.chance(75) {
            order = axes.clone();
        }
        let (mut index, mut dims) = (Vec::new(), Vec::new());
        for axis in order {
            let extent = self.extent_of(axis).clone();
            let (scale, shift) = match self.random.below(30) {
                0 => (1, 1 + self.random.below(2) as i64),
                1 => (2, self.random.below(2) as i64),
                _ => (1, 0),
            };
            index.push(Affine { terms: [(axis, scale)].into(), constant: shift });
            // The last index is scale · (n - 1) + shift; an extent of 0 still gives a tensor.
            dims.push(scaled(&extent, scale, shift));
        }
        if self.chance(4) {
            index.push(Affine { terms: Default::default(), constant: 1 });
            dims.push(Extent::constant(2));
        }
        (axes, index, dims)
    }

    fn output(&mut self) -> Stmt {
        let (axes, index, dims) = self.target();
        let elem = if self.chance(85) { self.stored } else { F32 };
        let value = self.value_over(&axes, elem);
        let tensor = self.tensor(dims, elem, true);
        stored(tensor, index, value)
    }

    fn value_over(&mut self, axes: &[AxisId], elem: ElemType) -> Expr {
        let depth = 1 + self.random.below(3);
        let compute = self.compute;
        let value = self.expr(axes, compute, depth);
        let value = self.spread(value, axes, compute);
        self.cast(value, compute, elem)
    }

    fn tensor(&mut self, dims: Vec<Extent>, elem: ElemType, mutable: bool) -> TensorId {
        let id = TensorId(self.kernel.tensors.len() as u16);
        let name = format!("{}{}", if mutable { "y" } else { "x" }, id.0);
        self.kernel.tensors.push(Tensor { name, elem, dims, mutable, span: SpanId::NONE });
        id
    }

    fn scalar(&mut self, elem: ElemType) -> ScalarId {
        if let Some(n) = self.kernel.scalars.iter().position(|s| s.elem == elem) {
            return ScalarId(n as u16);
        }
        let name = format!("s{}", self.kernel.scalars.len());
        self.kernel.scalars.push(Scalar { name, elem, span: SpanId::NONE });
        ScalarId(self.kernel.scalars.len() as u16 - 1)
    }

    fn cast(&self, value: Expr, from: ElemType, to: ElemType) -> Expr {
        if from == to { value } else { node(ExprKind::Cast(to, Box::new(value))) }
    }

    /// The value with exactly these axes: those it lacks come from a tensor of zeros or of numbers.
    fn spread(&mut self, value: Expr, axes: &[AxisId], elem: ElemType) -> Expr {
        let found = self.type_of(&value).map(|t| t.0).unwrap_or_default();
        let missing: Vec<AxisId> = axes.iter().filter(|a| !found.contains(a)).copied().collect();
        if missing.is_empty() {
            return value;
        }
        let other = match self.chance(60) {
            true => self.load(&missing, elem),
            false => node(ExprKind::Full { value: 1.0, elem, axes: missing }),
        };
        let op = *self.random.pick(&[BinOp::Add, BinOp::Mul, BinOp::Sub]);
        let joined = node(ExprKind::Bin(op, Box::new(value), Box::new(other)));
        let found = self.type_of(&joined).map(|t| t.0).unwrap_or_default();
        let missing: Vec<AxisId> = axes.iter().filter(|a| !found.contains(a)).copied().collect();
        if missing.is_empty() {
            return joined;
        }
        let zeros = node(ExprKind::Full { value: 0.0, elem, axes: missing });
        node(ExprKind::Bin(BinOp::Add, Box::new(joined), Box::new(zeros)))
    }
}

/// `scale · extent + shift`.
fn scaled(extent: &Extent, scale: i64, shift: i64) -> Extent {
    Extent {
        dims: extent.dims.iter().map(|(name, c)| (name.clone(), c * scale)).collect(),
        constant: extent.constant * scale + shift,
    }
}

//! Interpreter of nests on small inputs, written to catch wrong rewrites.
//!
//! Values start as poison (reductions at their initial element) each time their `let` is entered. A staged copy
//! is a real copy of the box that its own body reads, so reading beside it is caught, and so is a copy whose box
//! leaves that of the copy around it. What shared memory holds is lost when another buffer takes its bytes. Steps of unit-bound loops run in a seeded random order, those of serpentine ones
//! backwards every second time. Points at or beyond the extent of an axis are guarded as the grammar says: `red` and
//! `put` skip them, a `ld` outside its tensor yields zero; anything else there is poison and must not reach a `put`.

mod copies;
mod indexed;
mod modular;
mod scanned;

use super::{
    Access, AccessId, CopyId, Digit, Expr, LoopKind, Nest, Recurrence, Segment, Steps, Stmt, TileSize,
    ValueId, in_place, own_loops,
};
use crate::{
    dtype::DType,
    index::{Affine, AxisId},
    random::Random,
    shared::{Allocation, Content},
    tile::{
        Edge, ElemType,
        evaluate::{EvalError, Inputs, semantics::Exact},
    },
};
use modular::{Modular, Neutral};
use std::{collections::BTreeMap, rc::Rc};

/// How elements are computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// In their element types, as [`crate::tile::evaluate()`].
    Exact,
    /// Integers modulo a prime, exact under reassociation; `exp` and the like are fixed permutations.
    Modular,
}

/// Why a nest has no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InterpretError {
    /// The arguments do not fit the kernel.
    #[error(transparent)]
    Inputs(#[from] EvalError),
    /// An element that nothing computed was used.
    #[error("poison: {0}")]
    Poison(String),
}

/// Runs a nest; the tensors stored to, by name, row-major.
///
/// `seed` orders the steps of unit-bound loops.
///
/// # Errors
/// Missing arguments, and uses of elements that were not computed or not copied.
pub fn interpret(
    nest: &Nest,
    inputs: &Inputs,
    arithmetic: Arithmetic,
    seed: u64,
) -> Result<BTreeMap<String, Vec<f64>>, InterpretError> {
    interpret_in(&Allocation::of_nest(nest), nest, inputs, arithmetic, seed)
}

/// [`interpret`] with buffers in given places of shared memory.
pub(crate) fn interpret_in(
    shared: &Allocation,
    nest: &Nest,
    inputs: &Inputs,
    arithmetic: Arithmetic,
    seed: u64,
) -> Result<BTreeMap<String, Vec<f64>>, InterpretError> {
    match arithmetic {
        Arithmetic::Exact => Machine::<Exact>::run(shared, nest, inputs, seed),
        Arithmetic::Modular => Machine::<Modular>::run(shared, nest, inputs, seed),
    }
}

/// A tensor in global memory.
struct Global {
    dtype: DType,
    shape: Vec<i64>,
    data: Vec<f64>,
}

/// The elements of a value in its innermost `let`. An element of another generation is poison.
struct Store {
    axes: Vec<AxisId>,
    data: Vec<(u32, f64)>,
    generation: u32,
    initial: Option<f64>,
    dtype: DType,
    /// Steps of units around its `let`.
    units: usize,
    /// Another buffer has its bytes.
    lost: bool,
    /// Of a scan, the elements that the first part of its `let` has computed.
    scanned: Vec<usize>,
}

/// A staged copy.
struct Buffer {
    copy: CopyId,
    /// Steps of units around it.
    units: usize,
    /// Another buffer has its bytes.
    lost: bool,
    low: Vec<i64>,
    extents: Vec<i64>,
    data: Vec<f64>,
}

/// An index of an access: axes by their places, with coefficients, and a constant.
struct Index {
    terms: Vec<(usize, i64)>,
    constant: i64,
}

/// The box of a copy: a dimension's first point, and how many.
struct Extent {
    /// Without what axes add.
    low: i64,
    /// None where nothing bounds them.
    extent: Option<u64>,
    /// What axes add.
    index: Index,
}

/// What a copy is filled with.
#[derive(Clone)]
struct Filled<'n> {
    /// An access that it serves.
    access: &'n Access,
    dims: Rc<[Extent]>,
}

struct Machine<'n, S> {
    nest: &'n Nest,
    /// The indices of each access.
    indices: Vec<Vec<Index>>,
    /// By access, which copies serve it.
    served: Vec<Vec<bool>>,
    /// What copies are filled with, by what they are filled for.
    filled: BTreeMap<(CopyId, *const Stmt), Filled<'n>>,
    shared: &'n Allocation,
    /// Whether buffers share bytes.
    overlaid: bool,
    /// Enclosing loops that units share out.
    units: usize,
    inputs: &'n Inputs,
    extents: Vec<i64>,
    /// Value of each axis.
    point: Vec<i64>,
    /// Axes bound by enclosing loops, with repetitions.
    bound: Vec<AxisId>,
    tensors: Vec<Global>,
    values: Vec<Store>,
    /// Copies in force, innermost last, by tensor.
    buffers: Vec<Vec<Buffer>>,
    random: Random,
    /// The segment whose last tile is the current one.
    last: Option<Segment>,
    /// How often each serpentine loop was entered.
    entered: BTreeMap<Digit, usize>,
    semantics: std::marker::PhantomData<S>,
}

impl Index {
    /// An affine index with a constant of its own.
    fn of(index: &Affine, constant: i64) -> Self {
        Index { terms: index.terms.iter().map(|(a, c)| (usize::from(a.0), *c)).collect(), constant }
    }

    /// Its value at a point.
    fn at(&self, point: &[i64]) -> i64 {
        self.terms.iter().map(|(a, c)| c * point[*a]).sum::<i64>() + self.constant
    }
}

/// `None` is poison.
type Element = Option<f64>;

impl<'n, S: Neutral> Machine<'n, S> {
    fn run(
        shared: &'n Allocation,
        nest: &'n Nest,
        inputs: &'n Inputs,
        seed: u64,
    ) -> Result<BTreeMap<String, Vec<f64>>, InterpretError> {
        let kernel = &nest.kernel;
        let extent = |e: &crate::index::Extent| {
            e.eval(&inputs.dims).filter(|n| *n >= 0).ok_or_else(|| EvalError::Extent(e.to_string()))
        };
        let extents = kernel.axes.iter().map(|a| extent(&a.extent)).collect::<Result<Vec<_>, _>>()?;
        let tensors = kernel
            .tensors
            .iter()
            .map(|t| {
                let shape = t.dims.iter().map(extent).collect::<Result<Vec<_>, _>>()?;
                let ElemType::Fixed(dtype) = t.elem else {
                    return Err(EvalError::Generic(kernel.name.clone()));
                };
                let len = shape.iter().product::<i64>() as usize;
                let data: Vec<f64> = match inputs.tensors.get(&t.name) {
                    Some(given) => given.to_f64().into_iter().map(S::input).collect(),
                    None if t.mutable => vec![S::input(0.0); len],
                    None => return Err(EvalError::Missing { kind: "tensor", name: t.name.clone() }),
                };
                if data.len() != len {
                    let shape = shape.iter().map(|n| *n as usize).collect();
                    return Err(EvalError::Length { name: t.name.clone(), shape, found: data.len() });
                }
                Ok(Global { dtype, shape, data })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let values = nest
            .values
            .iter()
            .map(|v| {
                let axes: Vec<AxisId> = v.axes.iter().copied().collect();
                let len = axes.iter().map(|a| extents[usize::from(a.0)] as usize).product();
                let neutral = v.reduction.map(|op| S::neutral(op, v.dtype));
                let initial = v.init.map(|c| S::literal(c, v.dtype)).or(neutral);
                Store {
                    axes,
                    data: vec![(0, 0.0); len],
                    generation: 0,
                    initial,
                    dtype: v.dtype,
                    units: 0,
                    lost: false,
                    scanned: Vec::new(),
                }
            })
            .collect();
        let index = |i: &Affine| Index::of(i, i.constant);
        let indices = nest.accesses.iter().map(|a| a.index.iter().map(index).collect()).collect();
        let served =
            nest.accesses.iter().map(|a| nest.copies.iter().map(|c| c.serves(a)).collect()).collect();
        let mut machine = Machine::<S> {
            nest,
            indices,
            served,
            filled: BTreeMap::new(),
            shared,
            overlaid: shared.overlaid(),
            units: 0,
            inputs,
            point: vec![0; extents.len()],
            bound: Vec::new(),
            extents,
            values,
            buffers: tensors.iter().map(|_| Vec::new()).collect(),
            tensors,
            random: Random::new(seed),
            last: None,
            entered: BTreeMap::new(),
            semantics: std::marker::PhantomData,
        };
        machine.stmt(&nest.body)?;
        let named = kernel.tensors.iter().zip(machine.tensors);
        Ok(named.filter(|(t, _)| t.mutable).map(|(t, g)| (t.name.clone(), g.data)).collect())
    }

    /// Whether a value of a `let` is computed in shared memory.
    fn accumulates_in_place(&self, value: ValueId, first: &Stmt) -> bool {
        in_place(self.nest, value, &own_loops(self.nest, value, first))
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<(), InterpretError> {
        match stmt {
            Stmt::For { digit, at, body } => self.steps(*digit, *at, body),
            Stmt::Let { values, first, rest } => {
                for v in values {
                    let store = &mut self.values[usize::from(v.0)];
                    store.generation += 1;
                    (store.units, store.lost) = (self.units, false);
                    if self.overlaid && self.accumulates_in_place(*v, first) {
                        self.take(Content::Value(*v));
                        self.take(Content::Partial(*v));
                    }
                }
                self.stmt(first)?;
                values.iter().for_each(|v| self.scan(*v));
                // Until here a reduction may have been in registers.
                let later = |v: &&ValueId| self.overlaid && !self.accumulates_in_place(**v, first);
                let later: Vec<ValueId> = values.iter().filter(later).copied().collect();
                // All are combined, then all meet those of other CTAs, then all are published.
                later.iter().for_each(|v| self.take(Content::Partial(*v)));
                later.iter().for_each(|v| self.take(Content::Parts(*v)));
                for v in later {
                    self.values[usize::from(v.0)].lost = false;
                    self.take(Content::Value(v));
                }
                self.stmt(rest)
            }
            Stmt::Stage { copy, body } => {
                let tensor = usize::from(self.nest.copy(*copy).tensor.0);
                let buffer = self.fill(*copy, body)?;
                self.take(Content::Copy(*copy));
                self.buffers[tensor].push(buffer);
                let result = self.stmt(body);
                self.buffers[tensor].pop();
                result
            }
            Stmt::Def { value, expr } => {
                if let Some(at) = self.slot(*value) {
                    let element = self.expr(expr)?.0;
                    let store = &mut self.values[usize::from(value.0)];
                    // Poison beyond the extents stays poison.
                    store.data[at] = match element {
                        Some(x) => (store.generation, x),
                        None => (0, 0.0),
                    };
                }
                Ok(())
            }
            Stmt::Scan { value, expr } => {
                if self.inside()
                    && let Some(at) = self.slot(*value)
                {
                    let element = self.expr(expr)?.0.ok_or_else(|| self.poison("scan", *value))?;
                    let store = &mut self.values[usize::from(value.0)];
                    store.data[at] = (store.generation, element);
                    store.scanned.push(at);
                }
                Ok(())
            }
            Stmt::Set { value, expr } => {
                if self.inside()
                    && let Some(at) = self.slot(*value)
                {
                    let element = self.expr(expr)?.0.ok_or_else(|| self.poison("set", *value))?;
                    let store = &mut self.values[usize::from(value.0)];
                    store.data[at] = (store.generation, element);
                }
                Ok(())
            }
            Stmt::Red { value, op, expr } => {
                if self.inside()
                    && let Some(at) = self.slot(*value)
                {
                    let (part, _) = self.expr(expr)?;
                    let part = part.ok_or_else(|| self.poison("red", *value))?;
                    let store = &self.values[usize::from(value.0)];
                    let old = match store.data[at] {
                        (g, x) if g == store.generation => Some(x),
                        _ => store.initial,
                    };
                    let old = old.ok_or_else(|| self.poison("red into", *value))?;
                    let new = S::bin(op.combine(), store.dtype, old, part, false);
                    let store = &mut self.values[usize::from(value.0)];
                    store.data[at] = (store.generation, new);
                }
                Ok(())
            }
            Stmt::Skip => Ok(()),
            Stmt::Put { access, expr } => {
                if self.inside() {
                    self.put(*access, expr)?;
                }
                Ok(())
            }
        }
    }

    /// A buffer takes its bytes: what others have there is lost. A copy that has several buffers takes none and loses none,
    /// and what is filled outside of a loop that units share out is kept: its steps, one after the other here, are taken at
    /// once.
    fn take(&mut self, content: Content) {
        if !self.overlaid {
            return;
        }
        let mut own = self.shared.buffers.iter().filter(|b| b.content == content);
        let (Some(own), None) = (own.next(), own.next()) else { return };
        let units = self.units;
        let single = |c: Content| self.shared.buffers.iter().filter(|b| b.content == c).count() == 1;
        let rivals = self.shared.buffers.iter().filter(|b| b.content != content && b.overlaps(own));
        for rival in rivals.filter(|b| single(b.content)) {
            match rival.content {
                Content::Value(v) => {
                    let store = &mut self.values[usize::from(v.0)];
                    store.lost |= store.units == units;
                }
                Content::Copy(copy) => {
                    let held =
                        self.buffers.iter_mut().flatten().filter(|b| b.copy == copy && b.units == units);
                    held.for_each(|b| b.lost = true);
                }
                Content::Partial(_)
                | Content::Parts(_)
                | Content::Full(_)
                | Content::Empty(_)
                | Content::Output(..)
                | Content::Turn
                | Content::Numbers
                | Content::NumberFull
                | Content::NumberEmpty
                | Content::Verdict
                | Content::Again
                | Content::Ticket
                | Content::Before(_) => {}
            }
        }
    }

    fn steps(&mut self, digit: Digit, at: LoopKind, body: &Stmt) -> Result<(), InterpretError> {
        let axis = usize::from(digit.axis.0);
        let mut order = self.points(digit);
        if matches!(at, LoopKind::Unit(..)) {
            // Fisher–Yates.
            for n in (1..order.len()).rev() {
                order.swap(n, self.random.below(n + 1));
            }
        }
        if at == LoopKind::Serpentine {
            let entered = self.entered.entry(digit).or_insert(0);
            if *entered % 2 == 1 {
                order.reverse();
            }
            *entered += 1;
        }
        let units = usize::from(matches!(at, LoopKind::Unit(..)));
        self.units += units;
        self.bound.push(digit.axis);
        let around = self.last;
        for (point, last) in order {
            self.point[axis] += point;
            self.last = last;
            // Everything inside is guarded there.
            let beyond = self.point[axis] >= self.extents[axis];
            let result = if beyond { Ok(()) } else { self.stmt(body) };
            self.point[axis] -= point;
            result?;
        }
        self.last = around;
        self.bound.pop();
        self.units -= units;
        Ok(())
    }

    /// What each step of a loop adds to its axis, and the segment whose last tile is inside.
    fn points(&self, digit: Digit) -> Vec<(i64, Option<Segment>)> {
        let extent = self.extents[usize::from(digit.axis.0)];
        if let Some(segment) = self.nest.segment.filter(|s| s.digit == digit) {
            // Loops around it over points of a tile have fewer steps in the last one.
            let within = self.point[usize::from(digit.axis.0)];
            let has = |size: &TileSize| *size == TileSize::Whole || within < i64::from(segment.rest());
            let tiles = segment.tiles(extent).into_iter().filter(|(_, size)| has(size));
            return tiles.map(|(at, size)| (at, (size == TileSize::Last).then_some(segment))).collect();
        }
        let stride = i64::from(digit.stride);
        let steps = match self.last.map_or(digit, |segment| segment.in_last(digit)).steps {
            Steps::Fixed(n) => i64::from(n),
            Steps::Rest => (extent + stride - 1) / stride,
        };
        // Nothing happens in steps beyond the extent.
        let left = (extent - self.point[usize::from(digit.axis.0)]).max(0);
        let steps = steps.min(left / stride + i64::from(left % stride > 0));
        (0..steps).map(|step| (step * stride, self.last)).collect()
    }

    /// Whether the point lies inside the extents of all axes of the enclosing loops.
    fn inside(&self) -> bool {
        self.bound.iter().all(|a| self.point[usize::from(a.0)] < self.extents[usize::from(a.0)])
    }

    /// Position of the current point in a value; `None` beyond the extent of one of its axes.
    fn slot(&self, value: ValueId) -> Option<usize> {
        self.values[usize::from(value.0)].axes.iter().try_fold(0usize, |at, axis| {
            let (x, n) = (self.point[usize::from(axis.0)], self.extents[usize::from(axis.0)]);
            (x < n).then(|| at * n as usize + x as usize)
        })
    }

    /// The index of an access at the current point.
    fn index(&self, access: AccessId) -> impl Iterator<Item = i64> {
        self.indices[usize::from(access.0)].iter().map(|index| index.at(&self.point))
    }

    fn poison(&self, what: &str, value: ValueId) -> InterpretError {
        InterpretError::Poison(format!("{what} `{}` at {:?}", self.nest.value(value).name, self.point))
    }

    /// The innermost copy that an access is read from, if there is one.
    fn buffer(&self, access: AccessId) -> Option<&Buffer> {
        let of_tensor = &self.buffers[usize::from(self.nest.access(access).tensor.0)];
        let served = &self.served[usize::from(access.0)];
        of_tensor.iter().rev().find(|b| served[usize::from(b.copy.0)])
    }

    fn load(&self, access: AccessId) -> Result<(Element, DType), InterpretError> {
        let info = self.nest.access(access);
        let tensor = usize::from(info.tensor.0);
        let global = &self.tensors[tensor];
        let element = match self.buffer(access) {
            Some(buffer) => {
                let inner = self.index(access).zip(&buffer.low).map(|(i, l)| i - l);
                let Some(at) = offset(&buffer.extents, inner) else {
                    let shown = self.nest.print_access(info);
                    let index: Vec<i64> = self.index(access).collect();
                    return Err(InterpretError::Poison(format!("{shown} at {index:?} is beside its copy")));
                };
                if buffer.lost {
                    let shown = self.nest.print_access(info);
                    return Err(InterpretError::Poison(format!("another buffer has the bytes of {shown}")));
                }
                buffer.data[at]
            }
            None => offset(&global.shape, self.index(access)).map_or(0.0, |o| global.data[o]),
        };
        Ok((Some(element), global.dtype))
    }

    fn expr(&self, expr: &Expr) -> Result<(Element, DType), InterpretError> {
        Ok(match expr {
            Expr::Load(a) => self.load(*a)?,
            Expr::Gather(a, by) => self.gather(*a, by)?,
            Expr::Scatter { .. } => {
                return Err(InterpretError::Poison("a scatter that is not stored".into()));
            }
            Expr::Get(v) => {
                let store = &self.values[usize::from(v.0)];
                if store.lost {
                    return Err(self.poison("another buffer has the bytes of", *v));
                }
                let element = match self.slot(*v) {
                    None => None,
                    Some(at) => match store.data[at] {
                        (g, x) if g == store.generation && g > 0 => Some(x),
                        _ => store.initial,
                    },
                };
                (element, store.dtype)
            }
            Expr::Const(c, t) => (Some(S::literal(*c, *t)), *t),
            Expr::Scalar(s) => {
                let scalar = &self.nest.kernel.scalars[usize::from(s.0)];
                let ElemType::Fixed(t) = scalar.elem else {
                    return Err(EvalError::Generic(self.nest.kernel.name.clone()).into());
                };
                let x = self.inputs.scalars.get(&scalar.name).copied();
                let name = scalar.name.clone();
                (Some(S::literal(x.ok_or(EvalError::Missing { kind: "scalar", name })?, t)), t)
            }
            Expr::Iota(a) => (Some(self.point[usize::from(a.0)] as f64), DType::I32),
            Expr::Edge(a, edge) => {
                let axis = usize::from(a.0);
                let tile = i64::from(
                    self.nest.recurrences.get(a).and_then(|r| r.tile).unwrap_or(Recurrence::UNTILED),
                );
                let first = self.point[axis] / tile * tile;
                let at = match edge {
                    Edge::First => first,
                    Edge::End => (first + tile).min(self.extents[axis]),
                };
                (Some(at as f64), DType::I32)
            }
            Expr::Dim(d) => {
                let n = d.eval(&self.inputs.dims).ok_or_else(|| EvalError::Extent(d.to_string()))?;
                (Some(n as f64), DType::I32)
            }
            Expr::Un(op, a) => {
                let (a, t) = self.expr(a)?;
                (a.map(|a| S::un(*op, t, a, false)), op.result(t))
            }
            Expr::Bin(op, a, b) => {
                let ((a, t), (b, _)) = (self.expr(a)?, self.expr(b)?);
                (a.zip(b).map(|(a, b)| S::bin(*op, t, a, b, false)), t)
            }
            Expr::Cmp(op, a, b) => {
                let ((a, _), (b, _)) = (self.expr(a)?, self.expr(b)?);
                (a.zip(b).map(|(a, b)| S::cmp(*op, a, b)), DType::Bool)
            }
            Expr::Select(c, a, b) => {
                let ((c, _), (a, t), (b, _)) = (self.expr(c)?, self.expr(a)?, self.expr(b)?);
                (c.and_then(|c| if S::holds(c) { a } else { b }), t)
            }
            Expr::Cast(to, a) => {
                let (a, from) = self.expr(a)?;
                (a.map(|a| S::cast(from, *to, a, false)), *to)
            }
        })
    }
}

/// Row-major position of an index; `None` outside.
fn offset(shape: &[i64], index: impl Iterator<Item = i64>) -> Option<usize> {
    shape
        .iter()
        .zip(index)
        .try_fold(0usize, |at, (n, i)| (0..*n).contains(&i).then(|| at * *n as usize + i as usize))
}

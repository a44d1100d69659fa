//! Runs a nest on terms.

use super::{
    Fault,
    concurrent::{Moments, Touched},
    terms::{Made, Term, name, summand, term},
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use tile_dsl::{
    index::{Affine, AxisId},
    nest::{AccessId, CopyId, Digit, Expr, LoopKind, Nest, Segment, Steps, Stmt, ValueId},
    op::RedOp,
    tile::{Edge, TensorId},
};

/// An element of a tensor.
pub type Place = (TensorId, SmallVec<[i64; 6]>);
/// What a nest has stored: the term of each element.
pub type Stored = BTreeMap<Place, Term>;

/// Runs a nest at sizes of its dims; what it has stored. Of a complete nest it is asked, too, that parts of reductions come together.
///
/// # Errors
/// The first [`Fault`] that shows.
pub fn run(nest: &Nest, sizes: &BTreeMap<String, i64>, complete: bool) -> Result<Stored, Fault> {
    let extent = |e: &tile_dsl::index::Extent| e.eval(sizes).unwrap_or(0);
    let mut written = BTreeSet::new();
    writes(&nest.body, &mut |access| {
        written.insert(nest.access(access).tensor);
    });
    let mut machine = Machine {
        nest,
        sizes,
        complete,
        units: Vec::new(),
        extents: nest.kernel.axes.iter().map(|a| extent(&a.extent)).collect(),
        shapes: nest.kernel.tensors.iter().map(|t| t.dims.iter().map(extent).collect()).collect(),
        written,
        point: vec![0; nest.kernel.axes.len()],
        values: nest.values.iter().map(|_| None).collect(),
        stored: BTreeMap::new(),
        touched: FxHashMap::default(),
        frames: Vec::new(),
        moments: Moments::new(),
        entered: BTreeMap::new(),
        last: None,
    };
    machine.stmt(&nest.body)?;
    Ok(machine.stored)
}

/// Visits the accesses that a statement stores through.
fn writes(stmt: &Stmt, visit: &mut dyn FnMut(AccessId)) {
    match stmt {
        Stmt::For { body, .. } | Stmt::Stage { body, .. } => writes(body, visit),
        Stmt::Let { first, rest, .. } => {
            writes(first, visit);
            writes(rest, visit);
        }
        Stmt::Put { access, .. } => visit(*access),
        Stmt::Def { .. } | Stmt::Red { .. } | Stmt::Scan { .. } | Stmt::Set { .. } | Stmt::Skip => {}
    }
}

/// What an element of a value holds.
#[derive(Clone, Copy)]
enum Held {
    Is(Term),
    /// The summands so far.
    Sum(RedOp, u128),
}

/// The elements of a value in its innermost `let`, by number.
#[derive(Default)]
struct Elements {
    held: FxHashMap<usize, (Option<Held>, Touched)>,
    /// How many loops that units share out are around the `let`.
    units: usize,
}

/// What stands around a statement.
enum Frame {
    /// A loop that runs a step after the other.
    Loop,
    /// A pipelined loop: its copies may have been made when it was entered. What it has stored to since, as it was then.
    Pipelined(FxHashMap<Place, Option<Term>>),
    /// A copy: what has been stored to since it was made, as it was then.
    Copied(CopyId, FxHashMap<Place, Option<Term>>),
}

/// The steps of a loop: what each adds to its axis, with the segment whose last tile it is.
enum Points {
    Even { steps: i64, stride: i64, last: Option<Segment> },
    Segments(Vec<(i64, Option<Segment>)>),
}

struct Machine<'n> {
    nest: &'n Nest,
    sizes: &'n BTreeMap<String, i64>,
    complete: bool,
    /// The axes of the loops around whose steps units take.
    units: Vec<AxisId>,
    extents: Vec<i64>,
    shapes: Vec<Vec<i64>>,
    /// Tensors that the nest stores to.
    written: BTreeSet<TensorId>,
    /// Value of each axis.
    point: Vec<i64>,
    values: Vec<Option<Elements>>,
    stored: Stored,
    touched: FxHashMap<Place, Touched>,
    frames: Vec<Frame>,
    moments: Moments,
    /// How often each serpentine loop was entered.
    entered: BTreeMap<Digit, usize>,
    /// The segment whose last tile is around.
    last: Option<Segment>,
}

impl Machine<'_> {
    fn stmt(&mut self, stmt: &Stmt) -> Result<(), Fault> {
        match stmt {
            Stmt::For { digit, at, body } => self.steps(*digit, *at, body),
            Stmt::Let { values, first, rest } => {
                let outer: Vec<_> = values
                    .iter()
                    .map(|v| {
                        self.values[usize::from(v.0)]
                            .replace(Elements { units: self.units.len(), ..Elements::default() })
                    })
                    .collect();
                self.stmt(first)?;
                values.iter().for_each(|v| self.scan(*v));
                self.stmt(rest)?;
                for (v, outer) in values.iter().zip(outer) {
                    self.values[usize::from(v.0)] = outer;
                }
                Ok(())
            }
            Stmt::Stage { copy, body } => self.inside(Frame::Copied(*copy, FxHashMap::default()), body),
            Stmt::Skip => Ok(()),
            Stmt::Def { value, expr } | Stmt::Set { value, expr } => {
                let new = Held::Is(self.expr(expr)?);
                self.write(*value, false, |_| new)
            }
            Stmt::Scan { value, expr } => {
                let element = summand(self.expr(expr)?);
                self.combines(*value)?;
                let op = self.nest.value(*value).scan.map_or(RedOp::Add, |(op, _)| op);
                self.write(*value, false, |_| Held::Sum(op, element))
            }
            Stmt::Red { value, op, expr } => {
                let more = match expr {
                    // A sum of sums is a sum.
                    Expr::Get(part) => match self.read(*part)? {
                        Held::Sum(of, sum) if of == *op && self.nest.value(*part).init.is_none() => sum,
                        held => summand(self.finished(*part, held)),
                    },
                    _ => summand(self.expr(expr)?),
                };
                self.combines(*value)?;
                let start = self.initial(*value);
                self.write(*value, true, |held| match held.or(start) {
                    Some(Held::Sum(_, sum)) => Held::Sum(*op, sum.wrapping_add(more)),
                    Some(Held::Is(first)) => Held::Sum(*op, summand(first).wrapping_add(more)),
                    None => Held::Sum(*op, more),
                })
            }
            Stmt::Put { access, expr } => {
                let (by, when, value) = expr.stored();
                let by = by.iter().map(|value| self.expr(value)).collect::<Result<Vec<_>, _>>()?;
                let new = match when {
                    None => self.expr(value)?,
                    Some(when) => term(Made::Operator, [name(&"if"), self.expr(when)?, self.expr(value)?]),
                };
                let place = self.place(*access, &by);
                if !self.exists(*access, &place) {
                    return Err(Fault::Outside(self.shown(&place)));
                }
                if self.nest.access(*access).combines.is_some() {
                    // The points that meet there, in any order.
                    let sum = self.stored.entry(place).or_default();
                    *sum = sum.wrapping_add(summand(new));
                    return Ok(());
                }
                let old = self.stored.insert(place.clone(), new);
                for frame in &mut self.frames {
                    if let Frame::Pipelined(since) | Frame::Copied(_, since) = frame {
                        since.entry(place.clone()).or_insert(old);
                    }
                }
                // To store the same twice changes nothing.
                let at_once = self.touched.entry(place.clone()).or_default().write(&self.moments, false);
                if at_once && old != Some(new) { Err(Fault::AtOnce(self.shown(&place))) } else { Ok(()) }
            }
        }
    }

    fn inside(&mut self, frame: Frame, body: &Stmt) -> Result<(), Fault> {
        self.frames.push(frame);
        let result = self.stmt(body);
        self.frames.pop();
        result
    }

    fn steps(&mut self, digit: Digit, at: LoopKind, body: &Stmt) -> Result<(), Fault> {
        let axis = usize::from(digit.axis.0);
        let mut backwards = false;
        if at == LoopKind::Serpentine {
            let entered = self.entered.entry(digit).or_insert(0);
            *entered += 1;
            backwards = entered.is_multiple_of(2);
        }
        self.frames.push(match at {
            LoopKind::Pipe(_) => Frame::Pipelined(FxHashMap::default()),
            _ => Frame::Loop,
        });
        let at_once = matches!(at, LoopKind::Unit(..) | LoopKind::Vec | LoopKind::Atom(..));
        let entry = self.moments.enter();
        let unit = matches!(at, LoopKind::Unit(..));
        if unit {
            self.units.push(digit.axis);
        }
        let (around, points) = (self.last, self.points(digit));
        let mut step = |n: usize, (offset, last): (i64, Option<Segment>)| {
            self.point[axis] += offset;
            self.last = last;
            let mut result = Ok(());
            // Points beyond the extent do nothing.
            if self.point[axis] < self.extents[axis] {
                if at_once {
                    self.moments.step_in((entry, n as i64));
                }
                result = self.stmt(body);
                if at_once {
                    self.moments.step_out();
                }
            }
            self.point[axis] -= offset;
            result
        };
        let result = match points {
            Points::Even { steps, stride, last } => {
                let mut order = (0..steps).map(|n| if backwards { steps - 1 - n } else { n });
                order.try_for_each(|n| step(n as usize, (n * stride, last)))
            }
            Points::Segments(mut order) => {
                if backwards {
                    order.reverse();
                }
                order.into_iter().enumerate().try_for_each(|(n, point)| step(n, point))
            }
        };
        if unit {
            self.units.pop();
        }
        self.last = around;
        self.frames.pop();
        result
    }

    fn points(&self, digit: Digit) -> Points {
        let (at, extent) = (self.point[usize::from(digit.axis.0)], self.extents[usize::from(digit.axis.0)]);
        let stride = i64::from(digit.stride);
        if let Some(segment) = self.nest.segment.filter(|s| s.digit == digit) {
            // Tile after tile of each segment; the last one has the rest.
            let tiles = (0..extent).step_by(segment.points as usize).flat_map(|from| {
                let whole = i64::from(segment.points) / stride;
                (0..=whole).map(move |n| (from + n * stride, (n == whole).then_some(segment)))
            });
            return Points::Segments(tiles.collect());
        }
        // In the last tile of a segment there are no points behind it.
        let end = match self.last.filter(|s| s.digit.axis == digit.axis) {
            Some(segment) => extent.min(at - at % i64::from(segment.points) + i64::from(segment.points)),
            None => extent,
        };
        let left = ((end - at).max(0) + stride - 1) / stride;
        let steps = match digit.steps {
            Steps::Fixed(n) => left.min(i64::from(n)),
            Steps::Rest => left,
        };
        Points::Even { steps, stride, last: self.last }
    }

    /// What the first part of a `let` has left of a scan becomes the scan: at each point the sum of those up to it.
    fn scan(&mut self, value: ValueId) {
        let info = self.nest.value(value);
        let (Some((_, axis)), Some(elements)) = (info.scan, self.values[usize::from(value.0)].as_mut())
        else {
            return;
        };
        let behind = info.axes.iter().skip_while(|a| **a != axis).skip(1);
        let stride: usize = behind.map(|a| self.extents[usize::from(a.0)] as usize).product();
        let line = stride * self.extents[usize::from(axis.0)] as usize;
        let mut places: Vec<usize> = elements.held.keys().copied().collect();
        places.sort_unstable();
        for at in places {
            let before = at.checked_sub(stride).filter(|b| b / line == at / line);
            let before = before.and_then(|b| elements.held.get(&b)?.0);
            if let (Some(Held::Sum(_, sum)), Some((Some(Held::Sum(_, own)), _))) =
                (before, elements.held.get_mut(&at))
            {
                *own = own.wrapping_add(sum);
            }
        }
    }

    /// Whether it is said how the parts of a reduction come together, if units hold parts of it.
    fn combines(&self, value: ValueId) -> Result<(), Fault> {
        let info = self.nest.value(value);
        let said = self.nest.combine.contains_key(&value) || self.nest.across.contains_key(&value);
        let around = self.values[usize::from(value.0)].as_ref().map_or(0, |elements| elements.units);
        let parts = self.units[around..].iter().any(|axis| info.is_parted_by(*axis));
        if self.complete && parts && !said { Err(Fault::Parts(info.name.clone())) } else { Ok(()) }
    }

    /// The number of a value's element at this point, as if they lay in rows.
    fn element(&self, value: ValueId) -> usize {
        let axes = self.nest.value(value).axes.iter().map(|axis| usize::from(axis.0));
        axes.fold(0, |row, axis| row * self.extents[axis] as usize + self.point[axis] as usize)
    }

    /// What an element holds before anything writes it.
    fn initial(&self, value: ValueId) -> Option<Held> {
        let info = self.nest.value(value);
        match (info.init, info.reduction) {
            (Some(number), _) => Some(Held::Is(term(Made::Number, [name(&(number.to_bits(), info.dtype))]))),
            (None, Some(op)) => Some(Held::Sum(op, 0)),
            (None, None) => None,
        }
    }

    fn read(&mut self, value: ValueId) -> Result<Held, Fault> {
        let element = self.element(value);
        let unset = || Fault::Unset(self.nest.value(value).name.clone());
        let start = self.initial(value);
        let elements = self.values[usize::from(value.0)].as_mut().ok_or_else(unset)?;
        let (held, touched) = elements.held.entry(element).or_default();
        let at_once = touched.read(&self.moments);
        let held = held.or(start).ok_or_else(unset)?;
        if at_once { Err(Fault::AtOnce(format!("`{}`", self.nest.value(value).name))) } else { Ok(held) }
    }

    fn write(
        &mut self,
        value: ValueId,
        contributes: bool,
        new: impl FnOnce(Option<Held>) -> Held,
    ) -> Result<(), Fault> {
        let element = self.element(value);
        let info = self.nest.value(value);
        let unset = || Fault::Unset(info.name.clone());
        let elements = self.values[usize::from(value.0)].as_mut().ok_or_else(unset)?;
        let (held, touched) = elements.held.entry(element).or_default();
        *held = Some(new(*held));
        if touched.write(&self.moments, contributes) {
            return Err(Fault::AtOnce(format!("`{}`", info.name)));
        }
        Ok(())
    }

    /// The term of what an element holds.
    fn finished(&self, value: ValueId, held: Held) -> Term {
        match held {
            Held::Is(term) => term,
            Held::Sum(op, sum) => term(Made::Reduced, [name(&(op, self.nest.value(value).dtype)), sum]),
        }
    }

    /// Where an access is at this point. Where values are added, the terms of the sums stand for the coordinates.
    fn place(&self, access: AccessId, by: &[Term]) -> Place {
        let info = self.nest.access(access);
        let mut at: SmallVec<_> = info.index.iter().map(|index| self.index(index)).collect();
        for (dim, value) in info.by.keys().zip(by) {
            at[*dim] = term(Made::Operator, [name(&"index"), at[*dim] as u128, *value]) as i64;
        }
        (info.tensor, at)
    }

    fn index(&self, index: &Affine) -> i64 {
        index.terms.iter().map(|(axis, c)| c * self.point[usize::from(axis.0)]).sum::<i64>() + index.constant
    }

    /// Whether a place is inside of its tensor, as far as forms tell.
    fn exists(&self, access: AccessId, (tensor, index): &Place) -> bool {
        let shape = &self.shapes[usize::from(tensor.0)];
        let info = self.nest.access(access);
        let named = |dim: &usize| info.by.contains_key(dim) || info.gathered.contains_key(dim);
        let mut dims = shape.iter().zip(index).enumerate();
        dims.all(|(dim, (n, i))| named(&dim) || (0..*n).contains(i))
    }

    fn shown(&self, (tensor, index): &Place) -> String {
        format!("{}{index:?}", self.nest.tensor(*tensor).name)
    }

    fn load(&mut self, access: AccessId, by: &[Term]) -> Result<Term, Fault> {
        let mut place = self.place(access, by);
        // Of a copy whose values say where it is, the index is the place in the copy.
        for (dim, gathered) in &self.nest.access(access).gathered {
            let value = self.expr(&gathered.value)?;
            let form = self.index(&gathered.form);
            place.1[*dim] = term(Made::Operator, [name(&"index"), form as u128, value]) as i64;
        }
        if !self.exists(access, &place) {
            return Ok(term(Made::Number, [0]));
        }
        let (tensor, index) = &place;
        let input = || {
            let index = index.iter().map(|i| *i as u128);
            term(Made::Input, std::iter::once(u128::from(tensor.0)).chain(index))
        };
        if !self.written.contains(tensor) {
            return Ok(input());
        }
        if self.touched.entry(place.clone()).or_default().read(&self.moments) {
            return Err(Fault::AtOnce(self.shown(&place)));
        }
        let now = self.stored.get(&place).copied();
        // The innermost copy that it is read from, and the pipelined loop directly around that one.
        let copy = self.frames.iter().rposition(
            |f| matches!(f, Frame::Copied(copy, _) if self.nest.copy(*copy).serves(self.nest.access(access))),
        );
        let was = copy.and_then(|at| {
            let around = self.frames[..at].iter().rev().find(|f| !matches!(f, Frame::Copied(..)));
            let of = |frame: &Frame| match frame {
                Frame::Pipelined(since) | Frame::Copied(_, since) => since.get(&place).copied(),
                Frame::Loop => None,
            };
            around.and_then(of).or_else(|| of(&self.frames[at]))
        });
        Ok(was.unwrap_or(now).unwrap_or_else(input))
    }

    fn expr(&mut self, expr: &Expr) -> Result<Term, Fault> {
        let made =
            |of: Term, parts: &[Term]| term(Made::Operator, std::iter::once(of).chain(parts.iter().copied()));
        Ok(match expr {
            Expr::Load(access) => self.load(*access, &[])?,
            Expr::Gather(access, by) => {
                let by = by.iter().map(|value| self.expr(value)).collect::<Result<Vec<_>, _>>()?;
                self.load(*access, &by)?
            }
            Expr::Scatter { value, .. } => self.expr(value)?,
            Expr::Get(value) => {
                let held = self.read(*value)?;
                self.finished(*value, held)
            }
            Expr::Const(number, dtype) => term(Made::Number, [name(&(number.to_bits(), dtype))]),
            Expr::Scalar(scalar) => term(Made::Number, [1, u128::from(scalar.0)]),
            Expr::Iota(axis) => term(Made::Number, [2, self.point[usize::from(axis.0)] as u128]),
            Expr::Edge(axis, edge) => {
                let at = usize::from(axis.0);
                // As long as nothing says its size, a tile has two points.
                let tile = i64::from(self.nest.recurrences.get(axis).and_then(|r| r.tile).unwrap_or(2));
                let first = self.point[at] / tile * tile;
                let number = match edge {
                    Edge::First => first,
                    Edge::End => (first + tile).min(self.extents[at]),
                };
                term(Made::Number, [2, number as u128])
            }
            Expr::Dim(extent) => term(Made::Number, [2, extent.eval(self.sizes).unwrap_or(0) as u128]),
            Expr::Un(op, a) => made(name(&("one", op)), &[self.expr(a)?]),
            Expr::Bin(op, a, b) => made(name(&("two", op)), &[self.expr(a)?, self.expr(b)?]),
            Expr::Cmp(op, a, b) => made(name(&("compare", op)), &[self.expr(a)?, self.expr(b)?]),
            Expr::Select(c, a, b) => made(name(&"select"), &[self.expr(c)?, self.expr(a)?, self.expr(b)?]),
            Expr::Cast(to, a) => made(name(&("to", to)), &[self.expr(a)?]),
        })
    }
}

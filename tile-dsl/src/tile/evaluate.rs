//! Reference evaluator of the tile IR, on tensors that fit in memory many times over.
//!
//! [`evaluate`] follows the element types exactly: 16-bit arithmetic is widen, compute in f32, round; `sum` accumulates in
//! f32 and rounds once, also over the tiles of a loop; `dot` accumulates in its stated type with fused multiply-add. Both
//! ascend over the axis. [`reference()`]
//! computes in f64 and carries along the magnitude that a rounding-error bound needs.
//!
//! A loop over tiles runs with a tile size of 1 unless [`Inputs::tiles`] says otherwise: for accumulations this is
//! the plain ascending order, whatever the schedule's tile. A carried loop (a recurrence that is no
//! accumulation) may depend on its tile size; give it the schedule's.

mod array;
mod outside;
mod reference;
pub(crate) mod semantics;

pub use outside::{Outside, outside};
pub use reference::{Comparison, Reference, U, half_ulp};

use super::{
    Edge, ElemType, Expr, ExprKind, Index, Kernel, Stmt, TensorId, ValueType, VarId, added, index, sums,
};
use crate::{
    dtype::{DType, Number},
    index::AxisId,
    op::{BinOp, RedOp},
};
use array::Array;
use semantics::{Bounded, Exact, Semantics};
use std::collections::{BTreeMap, BTreeSet};

macro_rules! elements {
    ($($variant:ident: $ty:ty, $kind:ident;)*) => {
        /// Elements of a tensor in their own type, row-major: a variant for each type.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Elements {
            $(
                #[doc = concat!("`", stringify!($ty), "`.")]
                $variant(Vec<$ty>),
            )*
        }

        impl Elements {
            /// Rounds each number to `dtype`.
            pub fn from_f64(dtype: DType, values: impl IntoIterator<Item = f64>) -> Self {
                let values = values.into_iter();
                match dtype {
                    $(DType::$variant => Elements::$variant(values.map(<$ty as Number>::from_f64).collect()),)*
                }
            }

            /// The elements, widened exactly.
            pub fn to_f64(&self) -> Vec<f64> {
                match self {
                    $(Elements::$variant(v) => v.iter().map(|x| Number::to_f64(*x)).collect(),)*
                }
            }

            /// Element type.
            pub fn dtype(&self) -> DType {
                match self {
                    $(Elements::$variant(_) => DType::$variant,)*
                }
            }

            /// Number of elements.
            pub fn len(&self) -> usize {
                match self {
                    $(Elements::$variant(v) => v.len(),)*
                }
            }

            /// Whether there are none.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }
    };
}
crate::element_types!(elements);

/// Arguments of a kernel, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inputs {
    /// Extents of the named dims.
    pub dims: BTreeMap<String, i64>,
    /// Scalars; rounded to their parameter's type.
    pub scalars: BTreeMap<String, f64>,
    /// Tensors. A tensor that is only stored to may be absent and then starts as zeros.
    pub tensors: BTreeMap<String, Elements>,
    /// Tile sizes of loops over tiles, by axis name.
    pub tiles: BTreeMap<String, u32>,
}

/// The arguments do not fit the kernel.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EvalError {
    /// A generic kernel.
    #[error("`{0}` is generic: instantiate it for an element type first")]
    Generic(String),
    /// A dim, scalar or tensor is absent.
    #[error("no value is given for the {kind} `{name}`")]
    Missing {
        /// `dim`, `scalar` or `tensor`.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// Elements of another type.
    #[error("tensor `{name}` holds {expected}, {found} elements are given")]
    Type {
        /// Tensor.
        name: String,
        /// Type of the parameter.
        expected: DType,
        /// Type given.
        found: DType,
    },
    /// Another number of elements than the shape has.
    #[error("tensor `{name}` has shape {shape:?}, {found} elements are given")]
    Length {
        /// Tensor.
        name: String,
        /// Shape under the given dims.
        shape: Vec<usize>,
        /// Elements given.
        found: usize,
    },
    /// An integer of 64 bits that is no `f64`.
    #[error("`{name}` holds {value}: the evaluator knows integers up to 2^53")]
    Large {
        /// Tensor.
        name: String,
        /// The first such element.
        value: i64,
    },
    /// An extent is negative or too large.
    #[error("the extent `{0}` is negative or too large under the given dims")]
    Extent(String),
}

/// Runs an instantiated, verified kernel with exact element types; the tensors stored to, by name.
pub fn evaluate(kernel: &Kernel, inputs: &Inputs) -> Result<BTreeMap<String, Elements>, EvalError> {
    let results = Machine::<Exact>::run(kernel, inputs)?;
    Ok(results.into_iter().map(|(name, t)| (name, Elements::from_f64(t.dtype, t.data))).collect())
}

/// Runs an instantiated, verified kernel in f64, with the magnitudes that error bounds need; by name of the
/// tensor stored to.
pub fn reference(kernel: &Kernel, inputs: &Inputs) -> Result<BTreeMap<String, Reference>, EvalError> {
    let results = Machine::<Bounded>::run(kernel, inputs)?;
    Ok(results.into_iter().map(|(name, t)| (name, Reference::new(t.dtype, &t.data, t.steps))).collect())
}

/// A tensor in memory.
struct Memory<E> {
    dtype: DType,
    shape: Vec<usize>,
    data: Vec<E>,
    /// Rounding steps on the longest path to an element.
    steps: u64,
}

struct Machine<'k, S: Semantics> {
    kernel: &'k Kernel,
    inputs: &'k Inputs,
    extents: Vec<i64>,
    /// Points of each axis under consideration: all, or the current tile.
    ranges: Vec<(i64, i64)>,
    tensors: Vec<Memory<S::E>>,
    /// Element types of the variables.
    types: Vec<DType>,
    vars: BTreeMap<VarId, Array<S::E>>,
    /// Variables that hold a sum wider than their type until the end of a loop.
    wide: BTreeSet<VarId>,
}

fn fixed(kernel: &Kernel, elem: ElemType) -> Result<DType, EvalError> {
    match elem {
        ElemType::Fixed(dtype) => Ok(dtype),
        ElemType::Generic => Err(EvalError::Generic(kernel.name.clone())),
    }
}

impl<'k, S: Semantics> Machine<'k, S> {
    fn run(kernel: &'k Kernel, inputs: &'k Inputs) -> Result<BTreeMap<String, Memory<S::E>>, EvalError> {
        let mut machine = Self::new(kernel, inputs, false)?;
        machine.block(&kernel.body);
        let named = kernel.tensors.iter().zip(machine.tensors);
        Ok(named.filter(|(t, _)| t.mutable).map(|(t, memory)| (t.name.clone(), memory)).collect())
    }

    /// Before the first statement. `partial`: tensors may be absent, which nothing reads then.
    fn new(kernel: &'k Kernel, inputs: &'k Inputs, partial: bool) -> Result<Self, EvalError> {
        let extents =
            kernel.axes.iter().map(|a| extent(&a.extent, &inputs.dims)).collect::<Result<Vec<_>, _>>()?;
        let tensors = kernel
            .tensors
            .iter()
            .map(|t| {
                let dtype = fixed(kernel, t.elem)?;
                let shape = t
                    .dims
                    .iter()
                    .map(|d| Ok(usize::try_from(extent(d, &inputs.dims)?).expect("extents are checked")))
                    .collect::<Result<Vec<_>, EvalError>>()?;
                let len: usize = shape.iter().product();
                let data = match inputs.tensors.get(&t.name) {
                    Some(given) if given.dtype() != dtype => {
                        let (name, found) = (t.name.clone(), given.dtype());
                        return Err(EvalError::Type { name, expected: dtype, found });
                    }
                    Some(given) if given.len() != len => {
                        return Err(EvalError::Length { name: t.name.clone(), shape, found: given.len() });
                    }
                    Some(Elements::I64(given))
                        if let Some(value) = given.iter().find(|n| n.unsigned_abs() > 1 << 53) =>
                    {
                        return Err(EvalError::Large { name: t.name.clone(), value: *value });
                    }
                    Some(given) => given.to_f64().into_iter().map(S::input).collect(),
                    None if partial => Vec::new(),
                    None if t.mutable => vec![S::input(0.0); len],
                    None => return Err(EvalError::Missing { kind: "tensor", name: t.name.clone() }),
                };
                Ok(Memory { dtype, shape, data, steps: 0 })
            })
            .collect::<Result<Vec<_>, _>>()?;
        for s in &kernel.scalars {
            fixed(kernel, s.elem)?;
            if !inputs.scalars.contains_key(&s.name) {
                return Err(EvalError::Missing { kind: "scalar", name: s.name.clone() });
            }
        }
        let ranges = extents.iter().map(|n| (0, *n)).collect();
        let types = kernel.value_types().iter().map(ValueType::dtype).collect();
        let (vars, wide) = (BTreeMap::new(), BTreeSet::new());
        Ok(Machine { kernel, inputs, extents, ranges, tensors, types, vars, wide })
    }

    fn block(&mut self, body: &[Stmt]) {
        for stmt in body {
            match stmt {
                Stmt::Assign { var, value, .. } if self.wide.contains(var) => {
                    let part = added(*var, value).expect("a sum that goes on");
                    let part = match &part.kind {
                        ExprKind::Reduce(RedOp::Add, x, axis) => self.reduce(RedOp::Add, x, *axis),
                        _ => self.expr(part, false),
                    };
                    let add = |a, b| S::bin(BinOp::Add, DType::F32, a, b, false);
                    let sum = self.vars[var].zip(&part, 1, add);
                    self.vars.insert(*var, sum);
                }
                Stmt::Let { var, value } | Stmt::Assign { var, value, .. } => {
                    let value = self.expr(value, false);
                    self.vars.insert(*var, value);
                }
                Stmt::For { axis, body, .. } => self.for_loop(*axis, body),
                Stmt::Store { tensor, index, when, combine, value, .. } => {
                    let places = self.places(*tensor, index);
                    let value = self.expr(value, combine.is_none());
                    // What is combined may have axes that the index lacks.
                    let value = places.zip(&value, 0, |_, value| value);
                    let places = value.zip(&places, 0, |_, place| place);
                    let when = when.as_ref().map(|when| self.spread(&places.axes, &self.expr(when, false)));
                    self.store(*tensor, &places, when.as_ref(), (*combine, &value));
                }
            }
        }
    }

    fn for_loop(&mut self, axis: AxisId, body: &[Stmt]) {
        let at = usize::from(axis.0);
        let extent = self.extents[at];
        let wider = |var: &VarId| {
            let dtype = self.types[usize::from(var.0)];
            RedOp::Add.accumulator(dtype) != dtype && !self.wide.contains(var)
        };
        let sums: Vec<VarId> = sums(body).into_iter().filter(wider).collect();
        self.wide.extend(&sums);
        let tile = match self.inputs.tiles.get(&self.kernel.axes[at].name) {
            Some(tile) => i64::from(*tile).max(1),
            None if tile_size_is_irrelevant(body) => extent.max(1),
            None => 1,
        };
        let mut start = 0;
        while start < extent {
            self.ranges[at] = (start, (start + tile).min(extent));
            self.block(body);
            start += tile;
        }
        self.ranges[at] = (0, extent);
        for var in sums {
            self.wide.remove(&var);
            let dtype = self.types[usize::from(var.0)];
            if let Some(sum) = self.vars.remove(&var) {
                self.vars.insert(var, sum.map(0, |x| S::cast(DType::F32, dtype, x, false)));
            }
        }
    }

    /// A reduction in the type it accumulates in, not rounded to its own.
    fn reduce(&self, op: RedOp, x: &Expr, axis: AxisId) -> Array<S::E> {
        let (dtype, combine) = (op.accumulator(self.kernel_dtype(x)), op.combine());
        let neutral = S::literal(op.neutral().into(), dtype);
        let steps = u64::from(op.rounds());
        self.expr(x, false).reduce(axis, neutral, steps, |acc, x| S::bin(combine, dtype, acc, x, false))
    }

    /// A scan in the type it accumulates in, not rounded to its own.
    fn scan(&self, op: RedOp, x: &Expr, axis: AxisId) -> Array<S::E> {
        let (dtype, combine) = (op.accumulator(self.kernel_dtype(x)), op.combine());
        let steps = u64::from(op.rounds());
        self.expr(x, false).scan(axis, steps, |acc, x| S::bin(combine, dtype, acc, x, false))
    }

    fn shape(&self, axes: &[AxisId]) -> Vec<usize> {
        let len = |a: &AxisId| {
            let (lo, hi) = self.ranges[usize::from(a.0)];
            usize::try_from(hi - lo).expect("ranges are ascending")
        };
        axes.iter().map(len).collect()
    }

    /// The first point of each axis.
    fn starts(&self, axes: &[AxisId]) -> Vec<i64> {
        axes.iter().map(|a| self.ranges[usize::from(a.0)].0).collect()
    }

    /// An array over sorted axes, from the coordinates of each point.
    fn tabulate(&self, mut axes: Vec<AxisId>, mut f: impl FnMut(&[i64]) -> S::E) -> Array<S::E> {
        axes.sort_unstable();
        axes.dedup();
        let shape = self.shape(&axes);
        let starts = self.starts(&axes);
        let mut data = Vec::with_capacity(shape.iter().product());
        array::points(&shape, |point| {
            let at: Vec<i64> = starts.iter().zip(point).map(|(start, p)| start + *p as i64).collect();
            data.push(f(&at));
        });
        Array { axes, shape, data, steps: 0 }
    }

    /// An array over more axes, all of its own among them.
    fn spread(&self, axes: &[AxisId], array: &Array<S::E>) -> Array<S::E> {
        self.tabulate(axes.to_vec(), |_| S::input(0.0)).zip(array, 0, |_, value| value)
    }

    /// Position in a tensor's elements at each point of the axes of an index; `None` outside.
    fn places(&self, tensor: TensorId, index: &[Index]) -> Array<Option<usize>> {
        let values: Vec<Option<Array<S::E>>> =
            index.iter().map(|i| i.value.as_ref().map(|value| self.expr(value, false))).collect();
        let mut axes = index::affine_axes(index);
        axes.extend(values.iter().flatten().flat_map(|value| &value.axes));
        let axes: Vec<AxisId> = axes.into_iter().collect();
        let values: Vec<_> = values.iter().map(|v| v.as_ref().map(|v| self.spread(&axes, v))).collect();
        let memory = &self.tensors[usize::from(tensor.0)];
        let mut n = 0;
        let (shape, starts) = (self.shape(&axes), self.starts(&axes));
        let mut data = Vec::with_capacity(shape.iter().product());
        array::points(&shape, |point| {
            let at: Vec<i64> = starts.iter().zip(point).map(|(start, p)| start + *p as i64).collect();
            let coordinate = |(entry, value): (&Index, &Option<Array<S::E>>)| {
                let terms = axes.iter().zip(&at).map(|(axis, at)| entry.affine.coefficient(*axis) * at);
                let affine = entry.affine.constant + terms.sum::<i64>();
                value.as_ref().map_or(affine, |value| {
                    // The sum wraps around.
                    i64::from((affine as i32).wrapping_add(index::number(S::number(value.data[n]))))
                })
            };
            let coordinates = index.iter().zip(&values).map(coordinate);
            data.push(coordinates.zip(&memory.shape).try_fold(0, |offset, (at, extent)| {
                usize::try_from(at).ok().filter(|at| at < extent).map(|at| offset * extent + at)
            }));
            n += 1;
        });
        Array { axes, shape, data, steps: 0 }
    }

    fn store(
        &mut self,
        tensor: TensorId,
        places: &Array<Option<usize>>,
        when: Option<&Array<S::E>>,
        (combine, value): (Option<RedOp>, &Array<S::E>),
    ) {
        let memory = &mut self.tensors[usize::from(tensor.0)];
        let mut met = BTreeMap::new();
        for (n, (place, element)) in places.data.iter().zip(&value.data).enumerate() {
            let Some(place) = place else { continue };
            if when.is_some_and(|when| !S::holds(when.data[n])) {
                continue;
            }
            memory.data[*place] = match combine {
                Some(op) => {
                    *met.entry(*place).or_insert(0) += 1;
                    S::bin(op.combine(), memory.dtype, memory.data[*place], *element, false)
                }
                None => *element,
            };
        }
        // As many roundings as points meet at one element.
        memory.steps = memory.steps.max(value.steps) + met.into_values().max().unwrap_or(0);
    }

    /// `root`: the value is stored as it is, so the rounding of its last operation is the store's.
    fn expr(&self, expr: &Expr, root: bool) -> Array<S::E> {
        let types = |e: &Expr| self.kernel_dtype(e);
        match &expr.kind {
            ExprKind::Load { tensor, index } => {
                let memory = &self.tensors[usize::from(tensor.0)];
                let element = |place: Option<usize>| place.map_or_else(|| S::input(0.0), |o| memory.data[o]);
                let mut array = self.places(*tensor, index).map(0, element);
                array.steps = memory.steps;
                array
            }
            ExprKind::Full { value, elem, axes } => {
                let literal = S::literal(*value, self.dtype(*elem));
                self.tabulate(axes.clone(), |_| literal)
            }
            ExprKind::Iota(axis) => self.tabulate(vec![*axis], |at| S::input(at[0] as f64)),
            ExprKind::Edge(axis, edge) => {
                let (first, end) = self.ranges[usize::from(axis.0)];
                Array::scalar(S::input(match edge {
                    Edge::First => first,
                    Edge::End => end,
                } as f64))
            }
            ExprKind::Dim(name) => Array::scalar(S::input(self.inputs.dims[name] as f64)),
            ExprKind::Const { value, elem } => {
                let elem = elem.expect("literals of an instantiated kernel have a type");
                Array::scalar(S::literal(*value, self.dtype(elem)))
            }
            ExprKind::Scalar(id) => {
                let scalar = &self.kernel.scalars[usize::from(id.0)];
                Array::scalar(S::literal(self.inputs.scalars[&scalar.name], self.dtype(scalar.elem)))
            }
            ExprKind::Var(id) => self.vars[id].clone(),
            ExprKind::Un(op, x) => {
                let dtype = types(x);
                let steps = op.row().float.map_or(0, |real| real.steps);
                self.expr(x, false).map(steps, |x| S::un(*op, dtype, x, root))
            }
            ExprKind::Bin(op, a, b) => {
                let dtype = types(a);
                let steps = op.row().float.map_or(1, |real| real.steps);
                self.expr(a, false).zip(&self.expr(b, false), steps, |a, b| S::bin(*op, dtype, a, b, root))
            }
            ExprKind::Cmp(op, a, b) => {
                self.expr(a, false).zip(&self.expr(b, false), 0, |a, b| S::cmp(*op, a, b))
            }
            ExprKind::Select(c, a, b) => {
                let chosen = self.expr(a, root).zip(&self.expr(b, root), 0, |a, b| (a, b));
                self.expr(c, false).zip(&chosen, 0, |c, (a, b)| if S::holds(c) { a } else { b })
            }
            ExprKind::Cast(elem, x) => {
                let (from, to) = (types(x), self.dtype(*elem));
                self.expr(x, false).map(0, |x| S::cast(from, to, x, root))
            }
            ExprKind::Reduce(op, x, axis) => {
                let dtype = types(x);
                let wide = op.accumulator(dtype);
                let result = self.reduce(*op, x, *axis);
                if wide == dtype { result } else { result.map(0, |x| S::cast(wide, dtype, x, root)) }
            }
            ExprKind::Scan(op, x, axis) => {
                let dtype = types(x);
                let wide = op.accumulator(dtype);
                let result = self.scan(*op, x, *axis);
                if wide == dtype { result } else { result.map(0, |x| S::cast(wide, dtype, x, root)) }
            }
            ExprKind::Dot(a, b, c) => {
                let dtype = types(c);
                let first = match semantics::coarseness_of_products([types(a), types(b)]) {
                    Some(by) => self.expr(a, false).map(0, |x| S::coarse(x, by)),
                    None => self.expr(a, false),
                };
                self.expr(c, false).dot(&first, &self.expr(b, false), |acc, a, b| S::fma(dtype, a, b, acc))
            }
        }
    }

    fn dtype(&self, elem: ElemType) -> DType {
        fixed(self.kernel, elem).expect("parameters were fixed, so casts are")
    }

    /// Element type of an expression.
    fn kernel_dtype(&self, expr: &Expr) -> DType {
        match &expr.kind {
            ExprKind::Load { tensor, .. } => self.tensors[usize::from(tensor.0)].dtype,
            ExprKind::Full { elem, .. }
            | ExprKind::Cast(elem, _)
            | ExprKind::Const { elem: Some(elem), .. } => self.dtype(*elem),
            ExprKind::Const { elem: None, .. } => panic!("literals of an instantiated kernel have a type"),
            ExprKind::Iota(_) | ExprKind::Edge(..) | ExprKind::Dim(_) => DType::I32,
            ExprKind::Scalar(id) => self.dtype(self.kernel.scalars[usize::from(id.0)].elem),
            ExprKind::Cmp(..) => DType::Bool,
            ExprKind::Var(id) => self.types[usize::from(id.0)],
            ExprKind::Un(op, x) => op.result(self.kernel_dtype(x)),
            ExprKind::Bin(op, x, _) => op.result(self.kernel_dtype(x)),
            ExprKind::Select(_, x, _) | ExprKind::Reduce(_, x, _) | ExprKind::Scan(_, x, _) => {
                self.kernel_dtype(x)
            }
            ExprKind::Dot(_, _, acc) => self.kernel_dtype(acc),
        }
    }
}

/// Whether all that a loop carries are sums by `dot`, which ascend over the axis whatever the tile.
fn tile_size_is_irrelevant(body: &[Stmt]) -> bool {
    let reads = |expr: &Expr, var: VarId| expr.any(&|e| e.kind == ExprKind::Var(var));
    fn values(body: &[Stmt]) -> Option<Vec<&Expr>> {
        body.iter()
            .map(|stmt| match stmt {
                Stmt::Let { value, .. } | Stmt::Assign { value, .. } => Some(value),
                _ => None,
            })
            .collect()
    }
    let Some(values) = values(body) else { return false };
    // A scan starts anew with each tile.
    if values.iter().any(|value| value.any(&|e| matches!(e.kind, ExprKind::Scan(..)))) {
        return false;
    }
    body.iter().all(|stmt| match stmt {
        Stmt::Assign { var, value, .. } => {
            let ExprKind::Dot(_, _, acc) = &value.kind else { return false };
            acc.kind == ExprKind::Var(*var) && values.iter().filter(|e| reads(e, *var)).count() == 1
        }
        _ => true,
    })
}

fn extent(extent: &crate::index::Extent, dims: &BTreeMap<String, i64>) -> Result<i64, EvalError> {
    if let Some(name) = extent.dims.keys().find(|d| !dims.contains_key(*d)) {
        return Err(EvalError::Missing { kind: "dim", name: name.clone() });
    }
    let fits = |n: &i64| (0..=1 << 31).contains(n);
    extent.eval(dims).filter(fits).ok_or_else(|| EvalError::Extent(extent.to_string()))
}

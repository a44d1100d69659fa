//! Which results are exact: whole numbers (or halves, quarters, ..) small enough that no order of the arithmetic rounds.
//! Those are compared bit for bit, the others under the evaluator's bound on the error.
//!
//! Interval arithmetic over the kernel, for the contents of one launch. A number is a multiple of 2^grain in an interval;
//! without a grain it is rounded somewhere. NaN and infinities among the contents change nothing: what becomes of them
//! does not depend on the order of the arithmetic, as long as nothing else rounds. A loop whose tiles have a size runs
//! from tile to tile, as what it carries does; any other one is one step.

use crate::data::dtype;
use std::collections::{BTreeMap, BTreeSet};
use tile_dsl::{
    dtype::{DType, Kind},
    index::AxisId,
    op::{BinOp, RedOp, UnOp, binary::Unit, unary::Needs},
    tile::{self, Expr, ExprKind, Index, Kernel, Stmt, VarId, evaluate::Inputs},
};

/// Why results cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incomparable {
    /// A number that was rounded decides something, or is a divisor near zero.
    Discontinuous,
    /// A number may leave the range of its type.
    Overflow,
}

/// For each stored tensor, whether its elements are exact.
///
/// # Errors
/// [`Incomparable`]: rounding may change results beyond any bound.
pub fn exact(kernel: &Kernel, inputs: &Inputs) -> Result<BTreeMap<String, bool>, Incomparable> {
    let contents = inputs.tensors.iter().map(|(name, elements)| {
        // Zero: an element outside of the tensor.
        let finite = elements.to_f64().into_iter().filter(|x| x.is_finite());
        (name.clone(), finite.fold((0f64, 0f64), |(lo, hi), x| (lo.min(x), hi.max(x))))
    });
    let mut scope = Scope {
        kernel,
        inputs,
        contents: contents.collect(),
        points: BTreeMap::new(),
        vars: BTreeMap::new(),
        stored: BTreeMap::new(),
    };
    scope.block(&kernel.body)?;
    Ok(scope.stored)
}

#[derive(Clone, Copy, Debug)]
struct Range {
    lo: f64,
    hi: f64,
    grain: Option<i32>,
    dtype: DType,
}

/// Bits of a significand, and the greatest number.
fn precision(dtype: DType) -> (i32, f64) {
    dtype.float().map_or((31, f64::INFINITY), |float| (float.mantissa as i32 + 1, float.max()))
}

impl Range {
    fn most(&self) -> f64 {
        self.lo.abs().max(self.hi.abs())
    }

    /// Rounds to the type if need be.
    fn settle(mut self) -> Result<Range, Incomparable> {
        let (bits, largest) = precision(self.dtype);
        if !self.dtype.is_float() {
            // Integers wrap, and conditions are none.
            let [least, greatest] = [self.dtype.least() as f64, self.dtype.greatest() as f64];
            if !(least..=greatest).contains(&self.lo) || !(least..=greatest).contains(&self.hi) {
                (self.lo, self.hi) = (least, greatest);
            }
            return Ok(self);
        }
        if self.lo.is_nan() || self.hi.is_nan() || self.most() > largest / 4.0 {
            return Err(Incomparable::Overflow);
        }
        self.grain = self.grain.filter(|g| *g >= -24 && self.most() <= 2f64.powi(bits + g));
        Ok(self)
    }

    fn rounded(self) -> Result<Range, Incomparable> {
        Range { grain: None, ..self }.settle()
    }

    fn hull(self, other: Range) -> Range {
        let grain = self.grain.zip(other.grain).map(|(a, b)| a.min(b));
        Range { lo: self.lo.min(other.lo), hi: self.hi.max(other.hi), grain, ..self }
    }

    fn plus(self, other: Range) -> Result<Range, Incomparable> {
        let grain = self.grain.zip(other.grain).map(|(a, b)| a.min(b));
        Range { lo: self.lo + other.lo, hi: self.hi + other.hi, grain, ..self }.settle()
    }

    fn times(self, other: Range) -> Result<Range, Incomparable> {
        let corners = [self.lo * other.lo, self.lo * other.hi, self.hi * other.lo, self.hi * other.hi];
        let grain = self.grain.zip(other.grain).map(|(a, b)| a + b);
        let (lo, hi) =
            corners.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), c| (l.min(*c), h.max(*c)));
        Range { lo, hi, grain, ..self }.settle()
    }

    /// The sum of `n` such numbers in any order.
    fn summed(self, n: f64) -> Result<Range, Incomparable> {
        if n == 0.0 {
            return Ok(Range { lo: 0.0, hi: 0.0, grain: Some(0), ..self });
        }
        // Partial sums reach from nothing to all.
        let sum = Range { lo: self.lo * n, hi: self.hi * n, ..self }.settle()?;
        if self.dtype.is_float() && (self.lo * n).abs().max((self.hi * n).abs()) > 1e30 {
            return Err(Incomparable::Overflow);
        }
        Ok(sum)
    }
}

struct Scope<'a> {
    kernel: &'a Kernel,
    inputs: &'a Inputs,
    /// Least and greatest element of each tensor.
    contents: BTreeMap<String, (f64, f64)>,
    /// Points of the current tile of an axis.
    points: BTreeMap<AxisId, i64>,
    vars: BTreeMap<VarId, (Range, BTreeSet<AxisId>)>,
    stored: BTreeMap<String, bool>,
}

type Typed = (Range, BTreeSet<AxisId>);

/// The greatest power of two that divides a number.
fn grain(x: f64) -> Option<i32> {
    (-24..=24).rev().find(|g| (x / 2f64.powi(*g)).fract() == 0.0)
}

/// Either truth value.
const TRUTH: Range = Range { lo: 0.0, hi: 1.0, grain: Some(0), dtype: DType::Bool };

fn literal(value: f64, dtype: DType) -> Range {
    let value = match dtype.format().kind {
        Kind::Float(_) => f64::from(dtype.round(value as f32)),
        Kind::Int { .. } => dtype.round_f64(value),
        Kind::Bool => return TRUTH,
    };
    Range { lo: value, hi: value, grain: grain(value).or(Some(-24)), dtype }
}

impl Scope<'_> {
    fn block(&mut self, body: &[Stmt]) -> Result<(), Incomparable> {
        for stmt in body {
            match stmt {
                Stmt::Let { var, value } | Stmt::Assign { var, value, .. } => {
                    let value = self.expr(value)?;
                    self.vars.insert(*var, value);
                }
                Stmt::For { axis, body, .. } => {
                    let info = &self.kernel.axes[usize::from(axis.0)];
                    let Some(tile) = self.inputs.tiles.get(&info.name) else {
                        self.block(body)?;
                        continue;
                    };
                    let extent = self.extent(*axis) as i64;
                    let tile = i64::from(*tile).max(1);
                    for start in (0..extent).step_by(tile as usize) {
                        self.points.insert(*axis, tile.min(extent - start));
                        self.block(body)?;
                    }
                    self.points.remove(axis);
                }
                Stmt::Store { tensor, index, when, combine, value, .. } => {
                    let axes = self.index(index)?;
                    if let Some(when) = when {
                        self.expr(when)?;
                    }
                    let (mut range, own) = self.expr(value)?;
                    let name = self.kernel.tensors[usize::from(tensor.0)].name.clone();
                    if combine.is_some_and(RedOp::rounds) {
                        // Those of all tiles of a loop around.
                        let points = (&axes | &own).into_iter().map(|axis| self.extent(axis)).product();
                        let (lo, hi) = self.contents[&name];
                        let held = Range { lo, hi, grain: Some(0), ..range };
                        range = range.summed(points)?.plus(held)?;
                    }
                    let exact = range.grain.is_some();
                    *self.stored.entry(name).or_insert(true) &= exact;
                }
            }
        }
        Ok(())
    }

    fn extent(&self, axis: AxisId) -> f64 {
        self.kernel.axes[usize::from(axis.0)].extent.eval(&self.inputs.dims).unwrap_or(0).max(0) as f64
    }

    /// Points that a reduction over an axis takes.
    fn reduced(&self, axis: AxisId) -> f64 {
        self.points.get(&axis).map_or_else(|| self.extent(axis), |n| *n as f64)
    }

    fn load(&self, tensor: tile_dsl::tile::TensorId, index: &[Index]) -> Result<Typed, Incomparable> {
        let tensor = &self.kernel.tensors[usize::from(tensor.0)];
        let (lo, hi) = self.contents[&tensor.name];
        let axes = self.index(index)?;
        if dtype(tensor.elem).is_truth() {
            return Ok((TRUTH, axes));
        }
        Ok((Range { lo, hi, grain: Some(0), dtype: dtype(tensor.elem) }, axes))
    }

    /// The axes of an index, whose values are exact.
    fn index(&self, index: &[Index]) -> Result<BTreeSet<AxisId>, Incomparable> {
        let mut axes = tile::index::affine_axes(index);
        for value in tile::index::values(index) {
            let (range, own) = self.expr(value)?;
            if range.grain.is_none() {
                return Err(Incomparable::Discontinuous);
            }
            axes.extend(own);
        }
        Ok(axes)
    }

    fn expr(&self, expr: &Expr) -> Result<Typed, Incomparable> {
        let fixed = |range: Range| (range, BTreeSet::new());
        Ok(match &expr.kind {
            ExprKind::Load { tensor, index } => self.load(*tensor, index)?,
            ExprKind::Full { value, elem, axes } => {
                (literal(*value, dtype(*elem)).settle()?, axes.iter().copied().collect())
            }
            ExprKind::Iota(axis) => {
                let range = Range { lo: 0.0, hi: self.extent(*axis), grain: Some(0), dtype: DType::I32 };
                (range, [*axis].into())
            }
            ExprKind::Edge(axis, _) => {
                fixed(Range { lo: 0.0, hi: self.extent(*axis), grain: Some(0), dtype: DType::I32 })
            }
            ExprKind::Dim(name) => fixed(literal(self.inputs.dims[name] as f64, DType::I32)),
            ExprKind::Const { value, elem } => {
                fixed(literal(*value, dtype(elem.expect("literals are typed"))).settle()?)
            }
            ExprKind::Scalar(id) => {
                let scalar = &self.kernel.scalars[usize::from(id.0)];
                fixed(literal(self.inputs.scalars[&scalar.name], dtype(scalar.elem)))
            }
            ExprKind::Var(var) => self.vars[var].clone(),
            ExprKind::Un(op, x) => {
                let (range, axes) = self.expr(x)?;
                (unary(*op, range)?, axes)
            }
            ExprKind::Bin(op, a, b) => {
                let ((a, p), (b, q)) = (self.expr(a)?, self.expr(b)?);
                (binary(*op, a, b)?, &p | &q)
            }
            ExprKind::Cmp(_, a, b) => {
                let ((a, p), (b, q)) = (self.expr(a)?, self.expr(b)?);
                if a.grain.is_none() || b.grain.is_none() {
                    return Err(Incomparable::Discontinuous);
                }
                (TRUTH, &p | &q)
            }
            ExprKind::Select(c, a, b) => {
                let ((_, o), (a, p), (b, q)) = (self.expr(c)?, self.expr(a)?, self.expr(b)?);
                (a.hull(b), &(&o | &p) | &q)
            }
            ExprKind::Cast(elem, x) => {
                let (range, axes) = self.expr(x)?;
                let to = dtype(*elem);
                if !to.is_float() {
                    let Some(grain) = range.grain else { return Err(Incomparable::Discontinuous) };
                    return Ok((Range { grain: Some(grain.max(0)), dtype: to, ..range }.settle()?, axes));
                }
                (Range { dtype: to, ..range }.settle()?, axes)
            }
            ExprKind::Reduce(op, x, axis) => {
                let (range, mut axes) = self.expr(x)?;
                axes.remove(axis);
                let n = self.reduced(*axis);
                // A maximum of nothing is an infinity, whose further way does not round.
                (if op.rounds() { range.summed(n)? } else { range }, axes)
            }
            // Of fewer points than the axis has, and of one at least.
            ExprKind::Scan(op, x, axis) => {
                let (range, axes) = self.expr(x)?;
                let n = self.reduced(*axis);
                (if op.rounds() { range.summed(n)?.hull(range) } else { range }, axes)
            }
            ExprKind::Dot(a, b, acc) => {
                let ((a, p), (b, q), (acc, axes)) = (self.expr(a)?, self.expr(b)?, self.expr(acc)?);
                let wide = |r: Range| Range { dtype: acc.dtype, ..r };
                let n = (&(&p | &q) - &axes).into_iter().map(|axis| self.reduced(axis)).product();
                (wide(a).times(wide(b))?.summed(n)?.plus(acc)?, axes)
            }
        })
    }
}

fn unary(op: UnOp, x: Range) -> Result<Range, Incomparable> {
    let results = op.row().results;
    let exact = x.grain.is_some();
    let comparable = match results.needs {
        Needs::Nothing => true,
        Needs::ExactOrPositive => exact || x.lo > 1e-3,
        Needs::Exact => exact,
    };
    if !comparable {
        return Err(Incomparable::Discontinuous);
    }
    if x.lo < results.within[0] || x.hi > results.within[1] {
        return Err(Incomparable::Overflow);
    }
    let [lo, hi] = (results.range)([x.lo, x.hi]);
    let result = Range { lo, hi, dtype: op.result(x.dtype), ..x };
    if results.rounds { result.rounded() } else { result.settle() }
}

fn binary(op: BinOp, a: Range, b: Range) -> Result<Range, Incomparable> {
    let row = op.row();
    let results = match a.dtype.is_float() {
        true => row.float.map(|real| real.results),
        false => row.int.map(|int| int.results),
    };
    // Of truth values.
    let Some(results) = results else { return Ok(a.hull(b)) };
    let b = if results.unit == Unit::Rounded { divisor(a, b)? } else { b };
    let [lo, hi] = (results.range)([a.lo, a.hi], [b.lo, b.hi]);
    let grains = a.grain.zip(b.grain);
    let grain = match results.unit {
        Unit::Chosen | Unit::Smaller => grains.map(|(a, b)| a.min(b)),
        Unit::Product => grains.map(|(a, b)| a + b),
        Unit::Whole => Some(0),
        Unit::Rounded => None,
    };
    let result = Range { lo, hi, grain, dtype: op.result(a.dtype) };
    if results.unit == Unit::Chosen { Ok(result) } else { result.settle() }
}

/// The least magnitude of a divisor.
fn divisor(a: Range, b: Range) -> Result<Range, Incomparable> {
    let away = b.lo > 1e-3 || b.hi < -1e-3;
    // By zero, the sign of the dividend decides between infinities, or that it is none: one that was rounded may have either.
    let by_zero = b.lo <= 0.0 && b.hi >= 0.0;
    let signless = a.grain.is_none() && a.lo <= 0.0 && a.hi >= 0.0;
    if !away && b.grain.is_none() || by_zero && signless {
        return Err(Incomparable::Discontinuous);
    }
    // An exact divisor that is not zero is at least its grain.
    let least = match (away, b.grain) {
        (true, _) => b.lo.abs().min(b.hi.abs()),
        (false, Some(grain)) => 2f64.powi(grain),
        (false, None) => 1.0,
    };
    Ok(Range { lo: least, hi: least, ..b })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sum of rounded products is nothing, or nearly so: divided by zero it is NaN, or an infinity of either sign.
    #[test]
    fn what_was_rounded_is_not_divided_by_zero() {
        let range = |lo, hi, grain| Range { lo, hi, grain, dtype: DType::BF16 };
        let (zero, some) = (range(0.0, 0.0, Some(0)), range(-2.0, 3.0, Some(0)));
        for divisor in [zero, some] {
            let of = |a: Range| binary(BinOp::Div, a, divisor).err();
            assert_eq!(of(range(-1.0, 1.0, None)), Some(Incomparable::Discontinuous));
            assert_eq!(of(range(-1.0, 1.0, Some(0))), None, "exact: the sign is known");
            assert_eq!(of(range(0.5, 1.0, None)), None, "its sign is known");
        }
        assert!(binary(BinOp::Div, range(-1.0, 1.0, None), range(2.0, 3.0, Some(0))).is_ok());
    }
}

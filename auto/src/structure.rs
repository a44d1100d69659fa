//! What a kernel does to its data, without its names and its arithmetic: the facts that decide which schedules suit it.
//!
//! They are read off the unscheduled nest ([`tile_dsl::nest::initial`]), so a schedule that follows from them follows from what is
//! proved. A text has them, a line a fact:
//!
//! ```text
//! structure ::= "kernel" ["of" type] {axis} {access} {value} {reduction} {work}
//! axis      ::= "axis" name ":" role extent {mark}         ; role: program | whole | tiles
//! mark      ::= "reduced" | "stored" | "carried" | "limited" | "late"
//! access    ::= how tensor "[" dim, .. "]" ":" type ["along" axis] ["again over" axes] {"guarded"}
//! how       ::= "read" | "write" | "combine"               ; combine: atomic operations
//! dim       ::= affine form over axes | "by" axes | form "+ by" axes
//! value     ::= "value" name axes ":" type ["carried" ["maximum"]] n "readers"
//! reduction ::= "sum" | "max" | "min" name axes ":" type "over" axes ["carried"] ["=" product]
//! product   ::= factor "·" factor                          ; factor: ["masked"] tensor type axes | "computed" type axes
//! work      ::= "work" axes ":" n "operations"             ; a point of these axes
//! ```
//! `along` is the axis along which neighbouring points are neighbours in memory. `again over` are axes of the points that use an
//! element and do not say which: each is a chance to load once and use often.

mod print;
mod read;

use std::collections::{BTreeMap, BTreeSet};
use tile_dsl::{diagnostic::Diagnostic, dtype::DType, index::Extent, op::RedOp, tile};

/// Index into [`Structure::axes`].
pub type AxisAt = usize;

/// The facts of a kernel for one element type.
#[derive(Clone, Debug, PartialEq)]
pub struct Structure {
    /// Element type of the generic parameter, `None` for a kernel without one.
    pub dtype: Option<DType>,
    /// Tensors whose first dimension is the contiguous one, by name.
    pub column_major: BTreeSet<String>,
    /// Axes in the order of the kernel's table.
    pub axes: Vec<Axis>,
    /// Distinct accesses.
    pub accesses: Vec<Access>,
    /// Elementwise values that stand between statements.
    pub values: Vec<Value>,
    /// Reductions in the order written.
    pub reductions: Vec<Reduction>,
    /// Operations beside those of loads and stores, by the axes of the points that compute them.
    pub work: Vec<Work>,
}

/// How an axis is bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Programs share it out.
    Program,
    /// Each program has all of it.
    Whole,
    /// A loop over tiles.
    Tiles,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Name in schedules.
    pub name: String,
    /// Binder.
    pub role: Role,
    /// Number of points.
    pub extent: Extent,
    /// Some reduction goes over it.
    pub reduced: bool,
    /// Some store goes along it.
    pub stored: bool,
    /// Its loop carries state, so what is computed depends on the size of its tiles, and a schedule has to say it.
    pub carried: bool,
    /// It has limits: some of its points do nothing.
    pub limited: bool,
    /// A limit says where it begins: its first points may do nothing.
    pub late: bool,
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// It loads.
    Read,
    /// It stores.
    Write,
    /// It combines by atomic operations.
    Combine,
}

/// A dimension of an access.
#[derive(Clone, Debug, PartialEq)]
pub struct Dim {
    /// Axes with their factors.
    pub terms: Vec<(AxisAt, i64)>,
    /// Constant summand.
    pub constant: i64,
    /// Axes of a value that is added, if there is one.
    pub by: Option<Vec<AxisAt>>,
}

/// An access to a tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// The tensor.
    pub tensor: String,
    /// Load, store or atomic operation.
    pub how: How,
    /// Element type.
    pub dtype: DType,
    /// Dimensions, outermost first as written.
    pub dims: Vec<Dim>,
    /// The first dimension is the contiguous one.
    pub column_major: bool,
    /// It stores under a condition.
    pub guarded: bool,
    /// Axes of the points that use it.
    pub points: BTreeSet<AxisAt>,
}

/// An elementwise value, or one that is carried.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Name in schedules.
    pub name: String,
    /// Its axes.
    pub axes: BTreeSet<AxisAt>,
    /// Element type.
    pub dtype: DType,
    /// Steps of a loop hand it on.
    pub carried: bool,
    /// It is a running maximum, which `freeze` can leave as the first step makes it.
    pub maximum: bool,
    /// Statements that read it.
    pub readers: usize,
}

/// One of the two factors of a product.
#[derive(Clone, Debug, PartialEq)]
pub struct Factor {
    /// The access, into [`Structure::accesses`], of a factor that is loaded as it is, or masked.
    pub access: Option<usize>,
    /// It is zero where a condition does not hold: limits of an axis.
    pub masked: bool,
    /// Element type.
    pub dtype: DType,
    /// Its axes.
    pub axes: BTreeSet<AxisAt>,
}

/// A sum of products.
#[derive(Clone, Debug, PartialEq)]
pub struct Product {
    /// Both factors are rounded to tf32.
    pub tf32: bool,
    /// The factors as written.
    pub factors: [Factor; 2],
}

/// A reduction.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduction {
    /// Name in schedules.
    pub name: String,
    /// Operator.
    pub op: RedOp,
    /// Axes that stay.
    pub axes: BTreeSet<AxisAt>,
    /// Axes that go.
    pub over: BTreeSet<AxisAt>,
    /// Type in which it accumulates.
    pub dtype: DType,
    /// Steps of a loop hand it on.
    pub carried: bool,
    /// What is summed, if that is a product.
    pub product: Option<Product>,
}

/// Operations of a point.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// Axes of the points.
    pub axes: BTreeSet<AxisAt>,
    /// Operations of each, functions such as `exp` by the instructions that they take.
    pub operations: f64,
}

/// Values of a launch's named dims.
pub type Sizes = BTreeMap<String, i64>;

impl Structure {
    /// The structure of a kernel for an element type of its generic parameter. `column_major` names tensors whose first dimension
    /// is the contiguous one.
    ///
    /// # Errors
    /// A kernel that no schedule can be proved for ([`tile_dsl::engine::schedulable`]).
    pub fn of(
        kernel: &tile::Kernel,
        dtype: Option<DType>,
        column_major: &BTreeSet<String>,
    ) -> Result<Self, Diagnostic> {
        let nest = tile_dsl::nest::initial(&kernel.instantiate(dtype))?;
        Ok(read::read(&nest, dtype, column_major))
    }

    /// Axes that programs share out, outermost first.
    pub fn program(&self) -> Vec<AxisAt> {
        self.with_role(Role::Program)
    }

    /// Axes of a role, in the order of the kernel's table.
    pub fn with_role(&self, role: Role) -> Vec<AxisAt> {
        (0..self.axes.len()).filter(|a| self.axes[*a].role == role).collect()
    }

    /// Axes that some reduction goes over.
    pub fn reduced(&self) -> Vec<AxisAt> {
        (0..self.axes.len()).filter(|a| self.axes[*a].reduced).collect()
    }

    /// Name of an axis.
    pub fn name(&self, axis: AxisAt) -> &str {
        &self.axes[axis].name
    }

    /// Points of an axis, at least 1; 1 where a dim is not given.
    pub fn extent(&self, axis: AxisAt, sizes: &Sizes) -> i64 {
        self.axes[axis].extent.eval(sizes).unwrap_or(1).max(1)
    }

    /// Points of some axes together.
    pub fn points<'a>(&self, axes: impl IntoIterator<Item = &'a AxisAt>, sizes: &Sizes) -> f64 {
        axes.into_iter().map(|a| self.extent(*a, sizes) as f64).product()
    }

    /// Whether an index goes by a value: a gather, or a scatter.
    pub fn is_indexed_by_values(&self) -> bool {
        self.accesses.iter().any(Access::goes_by_values)
    }

    /// Whether some loop carries state that depends on the size of its tiles.
    pub fn is_recurrent(&self) -> bool {
        self.axes.iter().any(|a| a.carried)
    }

    /// Elementwise values that are as long as an axis that programs do not share out.
    pub fn long_values(&self) -> impl Iterator<Item = &Value> {
        let long = |v: &&Value| v.axes.iter().any(|a| self.axes[*a].role != Role::Program);
        self.values.iter().filter(|v| !v.carried).filter(long)
    }

    /// The access that moves the most bytes, of equal ones the first: reads before stores.
    pub fn largest(&self, sizes: &Sizes) -> Option<&Access> {
        let bytes = |a: &Access| self.points(&a.axes(), sizes) * f64::from(a.dtype.bytes());
        let mut best: Option<&Access> = None;
        for access in &self.accesses {
            let larger = best
                .is_none_or(|b| (bytes(access), b.how == How::Write) > (bytes(b), access.how == How::Write));
            if larger {
                best = Some(access);
            }
        }
        best
    }

    /// The axis along which most bytes are neighbours, of those that programs share out if `program`, else of all.
    pub fn lane_axis(&self, program: bool, sizes: &Sizes) -> Option<AxisAt> {
        let mut weight = vec![0.0; self.axes.len()];
        for access in &self.accesses {
            if let Some(axis) = access.along() {
                weight[axis] += self.points(&access.axes(), sizes) * f64::from(access.dtype.bytes());
            }
        }
        let mut best: Option<AxisAt> = None;
        for axis in (0..self.axes.len()).filter(|a| !program || self.axes[*a].role == Role::Program) {
            if best.is_none_or(|b| weight[axis] >= weight[b]) {
                best = Some(axis);
            }
        }
        best
    }
}

impl Access {
    /// All axes that say where it goes, those of values in its index among them.
    pub fn axes(&self) -> BTreeSet<AxisAt> {
        let forms = self.dims.iter().flat_map(|d| d.terms.iter().map(|(a, _)| *a));
        forms.chain(self.dims.iter().flat_map(|d| d.by.iter().flatten().copied())).collect()
    }

    /// The dimension whose neighbours are neighbours in memory.
    pub fn contiguous(&self) -> Option<&Dim> {
        if self.column_major { self.dims.first() } else { self.dims.last() }
    }

    /// The axis along which it is contiguous: its factor in the contiguous dimension is 1.
    pub fn along(&self) -> Option<AxisAt> {
        let terms = &self.contiguous()?.terms;
        terms.iter().rev().find(|(_, factor)| *factor == 1).map(|(axis, _)| *axis)
    }

    /// Whether some dimension goes by a value.
    pub fn goes_by_values(&self) -> bool {
        self.dims.iter().any(|d| d.by.is_some())
    }

    /// Axes of the points that use it and do not say which element.
    pub fn again_over(&self) -> BTreeSet<AxisAt> {
        &self.points - &self.axes()
    }
}

impl Product {
    /// Axes that the first factor has alone, those that the second has alone, those that both have.
    pub fn split(&self) -> [BTreeSet<AxisAt>; 3] {
        let [a, b] = &self.factors;
        [&a.axes - &b.axes, &b.axes - &a.axes, &a.axes & &b.axes]
    }
}

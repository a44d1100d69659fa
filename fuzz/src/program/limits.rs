//! What comes last when a kernel is drawn: limits of an axis, by other axes, by numbers, and by what is loaded.

use super::{I32, node};
use tile_dsl::{
    engine::testing::Random,
    index::{Affine, AxisId},
    op::BinOp,
    span::SpanId,
    tile::{self, AxisKind, Expr, ExprKind, Index, Kernel, Limits, Tensor, TensorId, expressions},
};

/// Limits that are tried before a kernel stays without.
const TRIES: usize = 12;

/// The kernel with limits on one or two of its axes, or as it was where none is well-formed.
pub(super) fn with_limits(kernel: Kernel, random: &mut Random) -> Kernel {
    let (plain, mut kernel) = (kernel.clone(), kernel);
    let mut left = 1 + usize::from(random.below(5) == 0);
    for _ in 0..TRIES {
        if let Some(limited) = limited(&kernel, random) {
            kernel = limited;
            left -= 1;
            if left == 0 {
                break;
            }
        }
    }
    kernel.apply_limits();
    if tile::verify(&kernel).is_empty() && super::schedulable(&kernel) { kernel } else { plain }
}

/// Whether products may be over axes with limits: what NaN or infinity does beyond a limit, in the factor that is not masked, is not
/// defined.
pub fn multiplies_within_limits(kernel: &Kernel) -> bool {
    let mut products = false;
    expressions(&kernel.body, &mut |expr| products |= matches!(expr.kind, ExprKind::Dot(..)));
    products && kernel.axes.iter().any(|axis| !axis.limits.is_none())
}

fn limited(kernel: &Kernel, random: &mut Random) -> Option<Kernel> {
    let free = |axis: &AxisId| {
        let axis = &kernel.axes[usize::from(axis.0)];
        axis.kind != AxisKind::Program && axis.limits.is_none()
    };
    let all = (0..kernel.axes.len() as u16).map(AxisId);
    let candidates: Vec<AxisId> = all.clone().filter(free).collect();
    if candidates.is_empty() {
        return None;
    }
    let axis = *random.pick(&candidates);
    let kind = |a: &AxisId| kernel.axes[usize::from(a.0)].kind;
    let mut by: Vec<AxisId> = all.filter(|a| *a != axis && kind(a) != AxisKind::Tiles).collect();
    // Points that a CTA goes through itself: in loops around that over what is limited, and inside of it.
    let whole: Vec<AxisId> = by.iter().copied().filter(|a| kind(a) == AxisKind::Whole).collect();
    if !whole.is_empty() && random.below(2) == 0 {
        by = whole;
    }
    let mut drawn = Drawn { kernel: kernel.clone(), by, random };
    let (from, to) = match drawn.random.below(6) {
        0 => (Some(drawn.end(false)), None),
        1..4 => (Some(drawn.end(false)), Some(drawn.end(true))),
        _ => (None, Some(drawn.end(true))),
    };
    let mut changed = drawn.kernel;
    changed.axes[usize::from(axis.0)].limits = Limits { from, to };
    tile::verify(&changed).is_empty().then_some(changed)
}

struct Drawn<'r> {
    kernel: Kernel,
    /// Axes that limits may depend on.
    by: Vec<AxisId>,
    random: &'r mut Random,
}

fn number(n: i64) -> Expr {
    node(ExprKind::Const { value: n as f64, elem: Some(I32) })
}

fn bin(op: BinOp, a: Expr, b: Expr) -> Expr {
    node(ExprKind::Bin(op, Box::new(a), Box::new(b)))
}

impl Drawn<'_> {
    fn end(&mut self, last: bool) -> Expr {
        let value = self.value();
        let shift = self.random.below(5) as i64;
        match self.random.below(8) {
            0 => bin(BinOp::Div, value, number(1 + self.random.below(3) as i64)),
            1 => bin(BinOp::Mul, value, number(2)),
            2 => bin(BinOp::Rem, value, number(2 + self.random.below(7) as i64)),
            3 => {
                let other = self.value();
                bin(*self.random.pick(&[BinOp::Min, BinOp::Max, BinOp::Add, BinOp::Sub]), value, other)
            }
            4 | 5 if last => bin(BinOp::Add, value, number(shift)),
            4 | 5 => bin(BinOp::Sub, value, number(shift)),
            _ => value,
        }
    }

    fn value(&mut self) -> Expr {
        let by = (!self.by.is_empty()).then(|| *self.random.pick(&self.by));
        match (self.random.below(10), by) {
            (0..4, Some(axis)) => node(ExprKind::Iota(axis)),
            (4..8, Some(axis)) => self.load(axis),
            (8, _) if let Some(name) = self.dims().first() => node(ExprKind::Dim(name.clone())),
            _ => number(self.random.below(12) as i64 - 1),
        }
    }

    fn dims(&self) -> Vec<String> {
        let mut dims: Vec<String> =
            self.kernel.tensors.iter().flat_map(|t| &t.dims).flat_map(|d| d.dims.keys().cloned()).collect();
        dims.sort();
        dims.dedup();
        dims
    }

    /// An element of a new index tensor, now and then of one that is there.
    fn load(&mut self, axis: AxisId) -> Expr {
        let extent = self.kernel.axes[usize::from(axis.0)].extent.clone();
        let known = self.kernel.tensors.iter().position(|t| {
            t.name.starts_with("at")
                && !t.mutable
                && t.elem == I32
                && t.dims.len() == 1
                && t.dims[0] == extent
        });
        let tensor = match known {
            Some(n) if self.random.below(2) == 0 => TensorId(n as u16),
            _ => {
                let tensors = &mut self.kernel.tensors;
                let name = format!("at{}", tensors.len());
                let dims = vec![extent];
                tensors.push(Tensor { name, elem: I32, dims, mutable: false, span: SpanId::NONE });
                TensorId(tensors.len() as u16 - 1)
            }
        };
        node(ExprKind::Load { tensor, index: vec![Index::from(Affine::axis(axis))] })
    }
}

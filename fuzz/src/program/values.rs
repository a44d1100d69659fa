//! What comes after a kernel is drawn: integers in place of f32, and indices that are values: gathers, scatters and conditions,
//! put into a kernel that has none.
//!
//! Index tensors are named `at0`, `at1`, ..; [`Indexed`] says what they index, so that `data` can give them contents that lead
//! to elements, beside them, and, where a store promises so, to distinct ones.

use super::{F32, I32, node};
use std::collections::{BTreeMap, BTreeSet};
use tile_dsl::{
    dtype::DType,
    engine::testing::Random,
    index::{Affine, AxisId, Extent},
    op::{BinOp, CmpOp},
    span::SpanId,
    tile::{
        self, AxisKind, ElemType, Expr, ExprKind, Index, Kernel, Stmt, Tensor, TensorId, Var, VarId,
        expressions, expressions_mut, statements,
    },
};

/// What the elements of an index tensor index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Indexed {
    /// Extent of the dimension.
    pub extent: Extent,
    /// They are distinct.
    pub distinct: bool,
}

/// What index tensors index: those that are loaded in an index, and those of which a variable there is an element.
pub fn leading(kernel: &Kernel) -> BTreeMap<TensorId, Indexed> {
    let mut loads: BTreeMap<VarId, TensorId> = BTreeMap::new();
    statements(&kernel.body, &mut |stmt| {
        if let Stmt::Let { var, value } = stmt
            && let ExprKind::Load { tensor, .. } = &value.kind
            && is_integer(kernel.tensors[usize::from(tensor.0)].elem)
        {
            loads.insert(*var, *tensor);
        }
    });
    let mut found = indexed(kernel);
    expressions(&kernel.body, &mut |expr| {
        let ExprKind::Load { tensor, index } = &expr.kind else { return };
        for (entry, extent) in index.iter().zip(&kernel.tensors[usize::from(tensor.0)].dims) {
            if let Some(Expr { kind: ExprKind::Var(var), .. }) = entry.value.as_deref()
                && let Some(tensor) = loads.get(var)
            {
                found.entry(*tensor).or_insert(Indexed { extent: extent.clone(), distinct: false });
            }
        }
    });
    found
}

/// What index tensors index: those that are loaded directly in an index.
pub fn indexed(kernel: &Kernel) -> BTreeMap<TensorId, Indexed> {
    let mut found: BTreeMap<TensorId, Indexed> = BTreeMap::new();
    let mut look = |tensor: TensorId, index: &[Index]| {
        for (entry, extent) in index.iter().zip(&kernel.tensors[usize::from(tensor.0)].dims) {
            let Some(value) = &entry.value else { continue };
            value.each(&mut |expr| {
                if let ExprKind::Load { tensor, .. } = &expr.kind {
                    let extent = extent.clone();
                    let of = found.entry(*tensor).or_insert(Indexed { extent, distinct: false });
                    of.distinct |= entry.unique;
                }
            });
        }
    };
    statements(&kernel.body, &mut |stmt| {
        if let Stmt::Store { tensor, index, .. } = stmt {
            look(*tensor, index);
        }
    });
    expressions(&kernel.body, &mut |expr| {
        if let ExprKind::Load { tensor, index } = &expr.kind {
            look(*tensor, index);
        }
    });
    // What limits an axis leads to its points, too.
    for axis in &kernel.axes {
        for end in axis.limits.ends() {
            end.each(&mut |expr| {
                if let ExprKind::Load { tensor, .. } = &expr.kind {
                    let extent = axis.extent.clone();
                    found.entry(*tensor).or_insert(Indexed { extent, distinct: false });
                }
            });
        }
    }
    found
}

/// The kernel with some of its indices values, or as it was where that is not well-formed.
pub(super) fn with_values(kernel: Kernel, random: &mut Random) -> Kernel {
    let mut stored = Vec::new();
    statements(&kernel.body, &mut |stmt| {
        if let Stmt::Store { tensor, index, .. } = stmt {
            stored.push((*tensor, index.clone()));
        }
    });
    let moving = random.below(3) == 0;
    let mut adder = Adder { kernel: kernel.clone(), stored, moving, front: vec![], random };
    let mut body = std::mem::take(&mut adder.kernel.body);
    let (gathers, scatters, conditions) =
        (adder.random.below(3) > 0, adder.random.below(2) > 0, adder.random.below(4) == 0);
    if gathers {
        if adder.random.below(4) == 0 {
            adder.selection(&mut body);
        }
        adder.gathers(&mut body);
    }
    let once = stored_once(&body);
    for stmt in &mut body {
        stmt.each_mut(&mut |stmt| {
            if let Stmt::Store { tensor, index, when, .. } = stmt {
                if scatters && once.contains(tensor) && adder.random.below(2) > 0 {
                    adder.scatter(index);
                }
                if conditions && adder.random.below(2) > 0 {
                    *when = adder.condition(index);
                }
            }
        });
    }
    adder.front.append(&mut body);
    let changed = Kernel { body: adder.front, ..adder.kernel };
    if tile::verify(&changed).is_empty() && super::schedulable(&changed) { changed } else { kernel }
}

/// Whether elements are integers.
pub(super) fn is_integer(elem: ElemType) -> bool {
    matches!(elem, ElemType::Fixed(dtype) if dtype.is_integer())
}

/// The kernel with integers in place of f32, or as it was where that is not well-formed.
pub(super) fn of_integers(kernel: Kernel, whole: DType) -> Kernel {
    let fix = |elem: &mut ElemType| {
        if *elem == F32 {
            *elem = ElemType::Fixed(whole);
        }
    };
    let mut changed = kernel.clone();
    changed.tensors.iter_mut().for_each(|tensor| fix(&mut tensor.elem));
    changed.scalars.iter_mut().for_each(|scalar| fix(&mut scalar.elem));
    expressions_mut(&mut changed.body, &mut |expr| {
        match &mut expr.kind {
            ExprKind::Full { value, elem, .. } | ExprKind::Const { value, elem: Some(elem) } => {
                if *elem == F32 {
                    *value = whole.cast_f64(DType::I32, *value);
                }
                fix(elem);
            }
            ExprKind::Cast(elem, _) => fix(elem),
            _ => {}
        }
        true
    });
    if tile::verify(&changed).is_empty() && super::schedulable(&changed) { changed } else { kernel }
}

/// Tensors that one statement stores, and none reads.
fn stored_once(body: &[Stmt]) -> BTreeSet<TensorId> {
    let mut stores: BTreeMap<TensorId, usize> = BTreeMap::new();
    statements(body, &mut |stmt| {
        if let Stmt::Store { tensor, .. } = stmt {
            *stores.entry(*tensor).or_default() += 1;
        }
    });
    expressions(body, &mut |expr| {
        if let ExprKind::Load { tensor, .. } = &expr.kind {
            stores.remove(tensor);
        }
    });
    stores.into_iter().filter(|(_, n)| *n == 1).map(|(tensor, _)| tensor).collect()
}

struct Adder<'r> {
    kernel: Kernel,
    /// What the kernel stores to.
    stored: Vec<(TensorId, Vec<Index>)>,
    /// Values move boxes, mostly.
    moving: bool,
    /// What comes before all else.
    front: Vec<Stmt>,
    random: &'r mut Random,
}

impl Adder<'_> {
    fn extent(&self, axis: AxisId) -> Extent {
        self.kernel.axes[usize::from(axis.0)].extent.clone()
    }

    fn gathers(&mut self, body: &mut [Stmt]) {
        expressions_mut(body, &mut |expr| {
            if let ExprKind::Load { tensor, index } = &mut expr.kind
                && !self.kernel.tensors[usize::from(tensor.0)].mutable
                && !is_integer(self.kernel.tensors[usize::from(tensor.0)].elem)
                && self.random.below(3) == 0
            {
                self.gather(index);
                // Several values name a row.
                if self.random.below(6) == 0 {
                    self.gather(index);
                }
            }
            // What is put into an index stays as it is.
            !matches!(expr.kind, ExprKind::Load { .. })
        });
    }

    /// One list names the points of an axis in all that is read along it alone.
    fn selection(&mut self, body: &mut [Stmt]) {
        let axis = AxisId(self.random.below(self.kernel.axes.len().max(1)) as u16);
        let mut list = None;
        expressions_mut(body, &mut |expr| {
            if let ExprKind::Load { tensor, index } = &mut expr.kind
                && !self.kernel.tensors[usize::from(tensor.0)].mutable
                && let Some(entry) = index
                    .iter_mut()
                    .find(|entry| entry.value.is_none() && entry.affine.as_axis() == Some(axis))
            {
                let value = list.get_or_insert_with(|| self.load(&[axis])).clone();
                *entry = Index::by(Affine::default(), value);
            }
            !matches!(expr.kind, ExprKind::Load { .. })
        });
    }

    /// An entry that is a value, with the axes that it had, or more.
    fn gather(&mut self, index: &mut [Index]) {
        let all: Vec<AxisId> = tile::index::affine_axes(index).into_iter().collect();
        // Rows of a box lie along the last dimension.
        let box_moves = self.moving && index.len() > 1 && self.random.below(4) > 0;
        let dim = self.random.below(index.len().max(1) - usize::from(box_moves));
        let Some(entry) = index.get_mut(dim).filter(|entry| entry.value.is_none()) else { return };
        if box_moves {
            let place = self.random.below(2) as i64;
            let value = self.load_at(place);
            *entry = Index::by(entry.affine.clone(), value);
            return;
        }
        let mut axes: Vec<AxisId> = entry.affine.terms.keys().copied().collect();
        if axes.is_empty() || self.random.below(6) == 0 {
            axes.extend(all.iter().find(|a| !axes.contains(a)));
        }
        if axes.is_empty() {
            return;
        }
        if let Some(value) = self.changing() {
            *entry = Index::by(entry.affine.clone(), value);
            return;
        }
        if self.random.below(4) == 0
            && let Some(value) = self.cursor(&axes)
        {
            *entry = Index::by(Affine::default(), value);
            return;
        }
        *entry = match self.random.below(12) {
            // Computed from the axis.
            0 if axes.len() == 1 => {
                let by = f64::from(self.random.below(4) as u32 + 1);
                let op = *self.random.pick(&[BinOp::Div, BinOp::Rem]);
                let number = node(ExprKind::Const { value: by, elem: Some(I32) });
                let value = ExprKind::Bin(op, Box::new(node(ExprKind::Iota(axes[0]))), Box::new(number));
                Index::by(Affine::default(), node(value))
            }
            // Beside the axis: a window that begins where a value says.
            1 | 2 => {
                let begin = all.iter().copied().find(|a| !axes.contains(a)).unwrap_or(axes[0]);
                let value = self.load(&[begin]);
                Index::by(entry.affine.clone(), value)
            }
            // The same for all of the kernel: one value moves a box.
            3 | 4 => {
                let place = self.random.below(2) as i64;
                let value = self.load_at(place);
                Index::by(entry.affine.clone(), value)
            }
            5 | 6 => {
                let affine = Affine { constant: self.random.below(4) as i64 - 2, ..Affine::default() };
                let value = self.load(&axes);
                Index::by(affine, value)
            }
            // A distance from where it was.
            7 | 8 => {
                let value = self.load(&axes);
                Index::by(entry.affine.clone(), value)
            }
            _ => {
                let value = self.load(&axes);
                Index::by(Affine::default(), value)
            }
        };
    }

    /// In a kernel of integers now and then something that may change after it is read: a variable, perhaps one that a loop carries,
    /// or an element of a tensor that is stored later.
    fn changing(&mut self) -> Option<Expr> {
        if self.kernel.tensors.first().is_none_or(|t| !is_integer(t.elem)) || self.random.below(3) > 0 {
            return None;
        }
        let vars = self.kernel.vars.len();
        if self.stored.is_empty() || vars > 0 && self.random.below(2) == 0 {
            return (vars > 0).then(|| node(ExprKind::Var(VarId(self.random.below(vars) as u16))));
        }
        let (tensor, index) = self.random.pick(&self.stored).clone();
        Some(node(ExprKind::Load { tensor, index }))
    }

    /// What an element of a new tensor was before the kernel moved it on.
    fn cursor(&mut self, axes: &[AxisId]) -> Option<Expr> {
        let kind = |axis: &AxisId| self.kernel.axes[usize::from(axis.0)].kind;
        if axes.iter().any(|axis| kind(axis) == AxisKind::Tiles) {
            return None;
        }
        let all = (0..self.kernel.axes.len() as u16).map(AxisId);
        let own: Vec<AxisId> = all.filter(|a| axes.contains(a) || kind(a) == AxisKind::Program).collect();
        let read = self.load(&own);
        let ExprKind::Load { tensor, index } = &read.kind else { return None };
        let (tensor, index) = (*tensor, index.clone());
        self.kernel.tensors[usize::from(tensor.0)].mutable = true;
        let var = VarId(self.kernel.vars.len() as u16);
        self.kernel.vars.push(Var { name: format!("v{}", var.0), mutable: false, span: SpanId::NONE });
        let step = ExprKind::Const { value: f64::from(self.random.below(5) as u32 + 1), elem: Some(I32) };
        let value = ExprKind::Bin(BinOp::Add, Box::new(node(ExprKind::Var(var))), Box::new(node(step)));
        let store =
            Stmt::Store { tensor, index, when: None, combine: None, value: node(value), span: SpanId::NONE };
        self.front.extend([Stmt::Let { var, value: read }, store]);
        Some(node(ExprKind::Var(var)))
    }

    /// An element of a new index tensor.
    fn load(&mut self, axes: &[AxisId]) -> Expr {
        let tensors = &mut self.kernel.tensors;
        let name = format!("at{}", tensors.len());
        let dims = axes.iter().map(|axis| self.kernel.axes[usize::from(axis.0)].extent.clone()).collect();
        tensors.push(Tensor { name, elem: I32, dims, mutable: false, span: SpanId::NONE });
        let tensor = TensorId(self.kernel.tensors.len() as u16 - 1);
        let index = axes.iter().map(|axis| Index::from(Affine::axis(*axis))).collect();
        node(ExprKind::Load { tensor, index })
    }

    /// An element of a new index tensor of two.
    fn load_at(&mut self, place: i64) -> Expr {
        let tensors = &mut self.kernel.tensors;
        let name = format!("at{}", tensors.len());
        let dims = vec![Extent::constant(2)];
        tensors.push(Tensor { name, elem: I32, dims, mutable: false, span: SpanId::NONE });
        let tensor = TensorId(self.kernel.tensors.len() as u16 - 1);
        let index = vec![Index::from(Affine { constant: place, ..Affine::default() })];
        node(ExprKind::Load { tensor, index })
    }

    /// An entry of a store that is a value.
    fn scatter(&mut self, index: &mut [Index]) {
        let dim = self.random.below(index.len().max(1));
        let others: Vec<AxisId> = index
            .iter()
            .enumerate()
            .filter(|(n, entry)| *n != dim && entry.affine.as_axis().is_some())
            .filter_map(|(_, entry)| entry.affine.as_axis())
            .collect();
        let Some(entry) = index.get_mut(dim) else { return };
        // Where another dimension tells the points apart, a value of its axis moves this one.
        if let (Some(other), true) = (others.first(), self.random.below(3) == 0) {
            let value = self.load(&[*other]);
            *entry = Index::by(entry.affine.clone(), value);
            return;
        }
        let axes: Vec<AxisId> = entry.affine.terms.keys().copied().collect();
        if !axes.is_empty() {
            let value = self.load(&axes);
            *entry = Index { unique: true, ..Index::by(Affine::default(), value) };
        }
    }

    /// A condition over axes of a store.
    fn condition(&mut self, index: &[Index]) -> Option<Expr> {
        let axes: Vec<AxisId> = tile::index::affine_axes(index).into_iter().collect();
        let axis = (!axes.is_empty()).then(|| *self.random.pick(&axes))?;
        let value = match (self.random.below(3), self.extent(axis).as_constant()) {
            (0, _) => self.load(&[axis]),
            _ => node(ExprKind::Iota(axis)),
        };
        let op = *self.random.pick(&[CmpOp::Lt, CmpOp::Ge, CmpOp::Ne]);
        let number = f64::from(self.random.below(5) as u32);
        let number = node(ExprKind::Const { value: number, elem: Some(I32) });
        Some(node(ExprKind::Cmp(op, Box::new(value), Box::new(number))))
    }
}

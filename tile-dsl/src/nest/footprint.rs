//! What a staged copy holds: a box of its tensor, and how the box lies in memory.

use super::{AccessId, CopyId, Digit, Frame, LoopKind, Nest, PERIOD, Step, Steps, Stmt, TileSize, leaves};
use crate::{
    index::Affine,
    machine::{Unit, Via},
    tile::TensorId,
};

/// One dimension of the box of a copy.
///
/// The box starts at `low + Σ coefficient · digit · stride` over the digits bound *outside* the stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoxDim {
    /// Offset of the first element, the digits inside at their extreme.
    pub low: i64,
    /// Number of elements; `None` when a loop without a bound runs inside the stage.
    pub extent: Option<u64>,
}

/// How a copy lies in shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyLayout {
    /// Tensor dimensions in storage order, slowest first.
    pub order: Vec<usize>,
    /// The dimension whose elements lie side by side: the fastest of those with more than one element, if there is one.
    pub contiguous: usize,
    /// Elements of the box, by dimension of the tensor.
    pub extents: Vec<u64>,
    /// Elements between neighbours of each tensor dimension, in the order of the tensor.
    pub strides: Vec<u64>,
    /// Elements from one row to the next, padding included.
    pub row: u64,
    /// Elements of a row in a panel, where a swizzled row is longer than the span of the swizzle: the first so many of all
    /// rows, then the next ones. Strides are those without panels.
    pub panel: Option<u64>,
    /// Elements of one stage, padding included; with a swizzle whole periods of it.
    pub elems: u64,
    /// Bytes at whose multiples the copy starts.
    pub align: u32,
}

/// The part of a box that one of several CTAs copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Dimension of the tensor along which parts follow one another.
    pub dim: usize,
    /// Elements of that dimension from one part to the next.
    pub by: u64,
    /// Panels of a row that a part has.
    pub pieces: u64,
    /// Elements in memory from one part to the next.
    pub elems: u64,
}

/// Bytes of a line, within which a swizzle moves chunks of 16 bytes.
pub(crate) const SWIZZLE_LINE: u64 = 128;
/// Bytes at whose multiples a box of a tensor map lies (PTX ISA 5.5.6).
const BOX_ALIGN: u32 = 128;
/// Dimensions of a tensor map (`cuTensorMapEncodeTiled`).
pub(crate) const MAP_DIMENSIONS: usize = 5;
/// Points of one dimension of a box.
pub(crate) const BOX_POINTS: u64 = 256;
/// Bytes of which a row of a box, and where it begins, are multiples.
pub(crate) const BOX_BYTES: u64 = 16;
/// Elements of a box are counted up to so many: far more than fit, and what is computed of them still fits in 64 bits.
const MOST_ELEMS: u64 = 1 << 40;
/// Bytes of the widest access: each stage of a ring starts at a multiple.
pub(crate) const WIDEST: u64 = 16;

impl CopyLayout {
    /// A box of these extents, dimensions from slowest to fastest in `order`, rows `pad` bytes longer or swizzled over spans of
    /// `swizzle` bytes, elements of `size` bytes.
    fn new(extents: Vec<u64>, order: Vec<usize>, pad: u64, swizzle: u64, size: u64) -> CopyLayout {
        let pad = pad / size;
        let contiguous = order.iter().rev().find(|d| extents[**d] > 1).or(order.last()).copied().unwrap_or(0);
        let mut strides = vec![1; extents.len()];
        let mut elems = 1u64;
        for dim in order.iter().rev() {
            strides[*dim] = elems;
            let row = extents[*dim] + if *dim == contiguous { pad } else { 0 };
            elems = elems.saturating_mul(row).min(MOST_ELEMS);
        }
        let row = extents.get(contiguous).map_or(1, |n| n + pad).max(1);
        if swizzle > 0 {
            elems = elems.checked_next_multiple_of(PERIOD * row).unwrap_or(elems).min(MOST_ELEMS);
        }
        let panel = (swizzle > 0 && row > swizzle / size).then_some(swizzle / size);
        let align = if swizzle > 0 { PERIOD * swizzle } else { WIDEST } as u32;
        CopyLayout { order, contiguous, extents, strides, row, panel, elems, align }
    }

    /// The same for boxes of tensor maps.
    fn boxed(self) -> CopyLayout {
        CopyLayout { align: self.align.max(BOX_ALIGN), ..self }
    }

    /// Panels of a row.
    pub fn pieces(&self) -> u64 {
        self.panel.map_or(1, |width| self.row.div_ceil(width))
    }

    /// How a box is shared out among some CTAs; `None` where the parts would not be boxes that begin where a box may. A part
    /// need not begin with the pattern of a swizzle: which units a copy permutes, the shared address says (PTX ISA 5.5.6;
    /// CUDA C++ Programming Guide, "TMA Swizzle"). Elements have `size` bytes.
    pub fn shared_out(&self, ctas: u32, size: u64) -> Option<Part> {
        let ctas = u64::from(ctas);
        if self.pieces().is_multiple_of(ctas) {
            let pieces = self.pieces() / ctas;
            let by = pieces * self.panel?;
            return Some(Part { dim: self.contiguous, by, pieces, elems: by * self.rows() });
        }
        let slowest = *self.order.iter().find(|d| self.extents[**d] > 1)?;
        let by = self.extents[slowest] / ctas;
        let elems = by * self.strides[slowest] / self.row * self.panel.unwrap_or(self.row);
        let whole = slowest != self.contiguous && self.extents[slowest].is_multiple_of(ctas);
        (whole && (elems * size).is_multiple_of(BOX_ALIGN.into())).then_some(Part {
            dim: slowest,
            by,
            pieces: self.pieces(),
            elems,
        })
    }

    /// Elements from one stage to the next of a ring of `depth`, for elements of `size` bytes; a copy alone takes what it
    /// holds.
    pub fn stage(&self, depth: u32, size: u64) -> u64 {
        let align = u64::from(self.align).max(WIDEST);
        if depth > 1 { self.elems.next_multiple_of((align / size).max(1)) } else { self.elems }
    }

    /// Rows of one stage.
    pub fn rows(&self) -> u64 {
        self.elems / self.row.max(1)
    }
}

impl Nest {
    /// The bodies of a copy, in program order: it stands once in each loop that its directive names.
    ///
    /// Loops may be in another order at each place, so each place has a box of its own.
    pub fn bodies(&self, copy: CopyId) -> Vec<&Stmt> {
        let mut out = Vec::new();
        self.body.each(&mut |stmt| match stmt {
            Stmt::Stage { copy: here, body } if *here == copy => out.push(&**body),
            _ => {}
        });
        out
    }

    /// The box of its tensor that a copy around `body` holds, a dimension each: the union over all accesses in `body` that it is
    /// for.
    ///
    /// These must agree in their coefficients over the axes, which `stage` checks.
    pub fn footprint(&self, copy: CopyId, body: &Stmt) -> Vec<BoxDim> {
        self.footprint_in(TileSize::Whole, copy, body)
    }

    /// [`Nest::footprint`] in tiles of a size.
    pub fn footprint_in(&self, size: TileSize, copy: CopyId, body: &Stmt) -> Vec<BoxDim> {
        let last = self.segment.filter(|_| size == TileSize::Last);
        let in_tile = |digit: Digit| last.map_or(digit, |segment| segment.in_last(digit));
        let (copy, tensor) = (self.copy(copy), self.copy(copy).tensor);
        let mut dims: Vec<Option<(i64, Option<i64>)>> = vec![None; self.tensor(tensor).dims.len()];
        leaves(body, &mut |path, leaf| {
            let inner: Vec<Digit> = path
                .iter()
                .filter_map(|f| if let Frame::For(d, _) = f { Some(in_tile(*d)) } else { None })
                .collect();
            for access in leaf.leaf().expect("a leaf").1.accesses() {
                let access = self.access(access);
                if !copy.serves(access) {
                    continue;
                }
                for (dim, index) in dims.iter_mut().zip(&access.index) {
                    let (low, high) = span(index, &inner);
                    *dim = Some(match *dim {
                        None => (low, high),
                        Some((l, h)) => (l.min(low), h.zip(high).map(|(a, b)| a.max(b))),
                    });
                }
            }
        });
        dims.into_iter()
            .map(|d| match d {
                None => BoxDim { low: 0, extent: Some(0) },
                Some((low, high)) => BoxDim { low, extent: high.map(|h| (h - low + 1) as u64) },
            })
            .collect()
    }

    /// An access inside the stage of a copy around `body`: how its box moves with the axes. All of that stage move alike.
    ///
    /// # Panics
    /// If nothing in `body` is read from the copy, which no legal nest has.
    pub fn copied_access(&self, copy: CopyId, body: &Stmt) -> &super::Access {
        let mut found = None;
        leaves(body, &mut |_, leaf| {
            let accesses = leaf.leaf().expect("a leaf").1.accesses();
            found = found.or_else(|| accesses.into_iter().find(|a| self.serves(copy, *a)));
        });
        self.access(found.expect("a staged tensor is read"))
    }

    /// The accesses inside all stages of a copy. Those of different stages, in one loop after another, may move otherwise.
    pub fn copied_accesses(&self, copy: CopyId) -> Vec<&super::Access> {
        let mut found = Vec::new();
        leaves(&self.body, &mut |path, leaf| {
            if path.contains(&Frame::Stage(copy)) {
                let accesses = leaf.leaf().expect("a leaf").1.accesses();
                found.extend(accesses.into_iter().filter(|a| self.serves(copy, *a)).map(|a| self.access(a)));
            }
        });
        found
    }

    /// Dimensions of a copied tensor in the order of its copies, slowest first.
    pub fn copy_order(&self, copy: CopyId) -> Vec<usize> {
        let info = self.copy(copy);
        let dims = 0..self.tensor(info.tensor).dims.len();
        if info.transposed { dims.rev().collect() } else { dims.collect() }
    }

    /// Layout in shared memory of a copy around `body`; `None` when its box has no bound.
    pub fn copy_layout(&self, copy: CopyId, body: &Stmt) -> Option<CopyLayout> {
        let info = self.copy(copy);
        let dims = self.footprint(copy, body);
        let extents: Vec<u64> = dims.iter().map(|d| d.extent).collect::<Option<_>>()?;
        let size = u64::from(self.elem(info.tensor).bytes());
        let layout =
            CopyLayout::new(extents, self.copy_order(copy), u64::from(info.pad), info.swizzle.into(), size);
        Some(if info.via == Via::Tma { layout.boxed() } else { layout })
    }

    /// Points that a copy around `body` fills in tiles of a size, by dimension; `None` when its box has no bound.
    ///
    /// Of the last tile of a segment threads fill what it has. The hardware packs boxes: they end at a panel of a row, or at a
    /// row of the slowest dimension.
    pub fn filled(&self, size: TileSize, copy: CopyId, body: &Stmt) -> Option<Vec<u64>> {
        let (info, layout) = (self.copy(copy), self.copy_layout(copy, body)?);
        let dims = self.footprint_in(size, copy, body).into_iter().zip(&layout.extents).enumerate();
        let slowest = layout.order.first();
        dims.map(|(dim, (taken, whole))| {
            let (taken, packed) = (taken.extent?, info.via == Via::Tma);
            Some(match layout.panel {
                _ if !packed || taken == *whole => taken,
                Some(width) if dim == layout.contiguous => taken.next_multiple_of(width).min(*whole),
                _ if slowest == Some(&dim) && dim != layout.contiguous => taken,
                _ => *whole,
            })
        })
        .collect()
    }

    /// Layout in shared memory of what a CTA stores by an access inside of some loops, outermost first; `None` when that has no bound,
    /// or is not collected.
    pub fn output_layout(&self, access: AccessId, loops: &[Step]) -> Option<CopyLayout> {
        let tensor = self.access(access).tensor;
        let output = self.outputs.get(&tensor)?;
        let own: Vec<Digit> = of_a_tile(loops.to_vec()).into_iter().map(|(d, _)| d).collect();
        let spans = self.access(access).index.iter().map(|index| span(index, &own));
        let extents: Option<Vec<u64>> = spans.map(|(low, high)| Some((high? - low + 1) as u64)).collect();
        let order = self.fastest_first(tensor).into_iter().rev().collect();
        let size = u64::from(self.elem(tensor).bytes());
        Some(CopyLayout::new(extents?, order, 0, output.swizzle.into(), size).boxed())
    }

    /// Elements of the largest box of a copy, padding included; `None` when one has no bound.
    pub fn copy_elems(&self, copy: CopyId) -> Option<u64> {
        let layouts = self.bodies(copy).into_iter().map(|body| self.copy_layout(copy, body));
        layouts.map(|layout| layout.map(|l| l.elems)).try_fold(0, |most, elems| Some(elems?.max(most)))
    }

    /// Element type of a tensor.
    pub fn elem(&self, tensor: TensorId) -> crate::dtype::DType {
        match self.tensor(tensor).elem {
            crate::tile::ElemType::Fixed(t) => t,
            crate::tile::ElemType::Generic => crate::dtype::DType::F32,
        }
    }

    /// Element type of a scalar parameter.
    pub(crate) fn scalar_dtype(&self, scalar: crate::tile::ScalarId) -> crate::dtype::DType {
        match self.kernel.scalars[usize::from(scalar.0)].elem {
            crate::tile::ElemType::Fixed(t) => t,
            crate::tile::ElemType::Generic => crate::dtype::DType::F32,
        }
    }

    /// The dimensions of a tensor as they lie in global memory, fastest first.
    pub fn fastest_first(&self, tensor: TensorId) -> Vec<usize> {
        let dims = 0..self.tensor(tensor).dims.len();
        if self.column_major.contains(&tensor) { dims.collect() } else { dims.rev().collect() }
    }

    /// The dimension of a tensor that is contiguous in global memory.
    pub fn contiguous(&self, tensor: TensorId) -> usize {
        self.fastest_first(tensor).first().copied().unwrap_or(0)
    }
}

/// Loops but those of the grid.
pub(crate) fn of_a_tile(mut loops: Vec<Step>) -> Vec<Step> {
    loops.retain(|(_, at)| !matches!(at, LoopKind::Unit(Unit::Block, _)));
    loops
}

/// Least and greatest value of an index while the given digits run (the rest of each axis at 0).
pub(super) fn span(index: &Affine, inner: &[Digit]) -> (i64, Option<i64>) {
    let (mut low, mut high) = (index.constant, Some(index.constant));
    for (axis, c) in &index.terms {
        for digit in inner.iter().filter(|d| d.axis == *axis) {
            let reach = match digit.steps {
                Steps::Fixed(n) => Some(c * i64::from(digit.stride) * (i64::from(n) - 1)),
                Steps::Rest => None,
            };
            match reach {
                Some(r) if r < 0 => low += r,
                Some(r) => high = high.map(|h| h + r),
                None => high = None,
            }
        }
    }
    (low, high)
}

//! The boxes: what each copy in shared memory takes of its tensor, at each place where the copy stands.

use crate::{
    dtype::DType,
    index::AxisId,
    machine::{Space, Unit},
    nest::{
        AccessId, CopyId, CopyLayout, CopyPart, Digit, Gathered, LoopKind, Nest, Stmt, TileSize, chain,
        leaves,
    },
};
use std::{collections::BTreeMap, fmt};

/// The box of a copy at one of its places.
#[derive(Clone, Debug)]
pub(crate) struct CopyBox {
    /// The copy.
    pub copy: CopyId,
    /// Which of its places, in program order.
    pub place: usize,
    /// What reads it, with the loops inside the stage around each access. There is one at least, and all move alike with the loops
    /// outside.
    pub reads: Vec<(AccessId, Vec<Digit>)>,
    /// Its first index, relative to the loops outside, by dimension of the tensor.
    pub low: Vec<i64>,
    /// Dimensions in which values say where its elements are.
    pub gathered: BTreeMap<usize, Gathered>,
    /// How it lies in shared memory.
    pub layout: CopyLayout,
    /// Elements that the last tile of a segment fills of it, by dimension; `None` where tiles are of one size.
    last: Option<Vec<u64>>,
    /// The part of it that each CTA of a cluster copies for all.
    pub part: Option<CopyPart>,
    /// Elements are rounded to tf32 on their way.
    pub rounded: bool,
}

/// Why a copy has no box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unboxed {
    /// Nothing reads it.
    Unread(CopyId),
    /// It stands in a loop whose steps threads take.
    Spread(CopyId, AxisId, Unit),
    /// Accesses move differently along a dimension with the loops outside.
    Apart(CopyId, usize),
    /// A loop without a bound runs inside.
    Unbounded(CopyId),
}

impl Unboxed {
    /// The copy.
    pub fn copy(self) -> CopyId {
        match self {
            Unboxed::Unread(copy)
            | Unboxed::Spread(copy, ..)
            | Unboxed::Apart(copy, _)
            | Unboxed::Unbounded(copy) => copy,
        }
    }

    /// In words. Most schedules of which it holds are refused before, with what mends them.
    pub fn text(self, nest: &Nest) -> String {
        match self {
            Unboxed::Unread(copy) => format!("nothing reads the copy of `{}`", nest.copy_name(copy)),
            Unboxed::Spread(copy, axis, unit) => format!(
                "the copy of `{}` stands in a loop over `{}` that is bound to a {unit}",
                nest.copy_name(copy),
                nest.axis(axis)
            ),
            Unboxed::Apart(copy, dim) => format!(
                "accesses of the copy of `{}` move differently along dimension {dim}",
                nest.copy_name(copy)
            ),
            Unboxed::Unbounded(copy) => format!("a copy of `{}` has no size", nest.copy_name(copy)),
        }
    }
}

impl CopyBox {
    /// Elements that tiles of a size fill, by dimension.
    pub fn extents(&self, size: TileSize) -> &[u64] {
        match (size, &self.last) {
            (TileSize::Last, Some(last)) => last,
            _ => &self.layout.extents,
        }
    }

    /// Panels of a row that tiles of a size fill.
    pub fn pieces(&self, size: TileSize) -> u64 {
        let row = self.extents(size).get(self.layout.contiguous).copied().unwrap_or(1);
        self.layout.panel.map_or(1, |width| row.div_ceil(width))
    }

    /// Bytes that tiles of a size fill, of elements of a type.
    pub fn bytes(&self, size: TileSize, dtype: DType) -> u32 {
        self.extents(size).iter().product::<u64>() as u32 * dtype.bytes()
    }

    /// Points of one box of a tensor map for it, in tiles of a size, by dimension: a panel of a row, and the part of a CTA.
    pub fn sides(&self, size: TileSize) -> Vec<u64> {
        let contiguous = self.layout.contiguous;
        let side = |(dim, points): (usize, &u64)| match (self.layout.panel, self.part) {
            (Some(width), _) if dim == contiguous => width,
            (_, Some(part)) if dim == part.dim && dim != contiguous => part.by,
            _ => *points,
        };
        self.extents(size).iter().enumerate().map(side).collect()
    }

    fn write(&self, nest: &Nest, out: &mut dyn fmt::Write) -> fmt::Result {
        let points = |size| {
            let each: Vec<String> = self.extents(size).iter().map(u64::to_string).collect();
            each.join("×")
        };
        write!(out, "box {} {}", nest.copy_word(self.copy), points(TileSize::Whole))?;
        if self.extents(TileSize::Last) != self.extents(TileSize::Whole) {
            write!(out, " | {}", points(TileSize::Last))?;
        }
        write!(out, " in rows of {}", self.layout.row)?;
        if let Some(width) = self.layout.panel {
            write!(out, ", panels of {width}")?;
        }
        if let Some(part) = self.part {
            write!(out, ", {} along {} by each CTA", part.by, part.dim)?;
        }
        for (dim, gathered) in &self.gathered {
            let row = if gathered.row.is_some() { "rows" } else { "all" };
            write!(out, ", {row} along {dim} at {}", nest.expr(&gathered.value))?;
        }
        writeln!(out, "{}", if self.rounded { ", rounded" } else { "" })
    }
}

/// The boxes of a nest, in program order; each with the reason where a copy has none.
#[derive(Clone, Debug)]
pub(crate) struct Boxes(Vec<Result<CopyBox, Unboxed>>);

impl Boxes {
    /// Those of a nest.
    pub fn of(nest: &Nest) -> Boxes {
        let mut finder = Finder { nest, around: Vec::new(), found: Vec::new() };
        finder.stmt(&nest.body);
        Boxes(finder.found)
    }

    /// The first reason for which a copy has none.
    pub fn unboxed(&self) -> Option<Unboxed> {
        self.0.iter().find_map(|of| of.as_ref().err().copied())
    }

    /// The box of a copy around a body.
    pub fn get(&self, nest: &Nest, copy: CopyId, body: &Stmt) -> Option<&CopyBox> {
        let place = match self.0.iter().filter(|of| of_copy(of) == copy).count() {
            1 => 0,
            _ => nest.bodies(copy).into_iter().position(|other| chain(other).1 == chain(body).1)?,
        };
        self.of_copy(copy).find(|b| b.place == place)
    }

    /// Those of a copy, one for each of its places.
    pub fn of_copy(&self, copy: CopyId) -> impl Iterator<Item = &CopyBox> {
        self.0.iter().flatten().filter(move |b| b.copy == copy)
    }

    pub(super) fn write(&self, nest: &Nest, out: &mut dyn fmt::Write) -> fmt::Result {
        self.0.iter().flatten().try_for_each(|b| b.write(nest, out))
    }
}

/// The copy that a box, or the reason why there is none, is of.
fn of_copy(of: &Result<CopyBox, Unboxed>) -> CopyId {
    of.as_ref().map_or_else(|why| why.copy(), |b| b.copy)
}

/// Finds the boxes of a nest.
struct Finder<'n> {
    nest: &'n Nest,
    /// Loops around the current statement, outermost first.
    around: Vec<(Digit, LoopKind)>,
    found: Vec<Result<CopyBox, Unboxed>>,
}

impl Finder<'_> {
    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For { digit, at, body } => {
                self.around.push((*digit, *at));
                self.stmt(body);
                self.around.pop();
            }
            Stmt::Stage { copy, body } => {
                if self.nest.copy(*copy).space == Space::Shared {
                    let found = self.copy(*copy, body);
                    self.found.push(found);
                }
                self.stmt(body);
            }
            other => other.parts().for_each(|part| self.stmt(part)),
        }
    }

    fn copy(&self, copy: CopyId, body: &Stmt) -> Result<CopyBox, Unboxed> {
        let nest = self.nest;
        for (digit, at) in &self.around {
            if let LoopKind::Unit(unit, _) = at
                && *unit != Unit::Block
            {
                return Err(Unboxed::Spread(copy, digit.axis, *unit));
            }
        }
        let mut reads: Vec<(AccessId, Vec<Digit>)> = Vec::new();
        leaves(body, &mut |path, leaf| {
            let accesses = leaf.leaf().expect("a leaf").1.accesses();
            let served = accesses.into_iter().filter(|access| nest.serves(copy, *access));
            let digits = || path.iter().filter_map(|f| f.step().map(|(d, _)| d));
            reads.extend(served.map(|access| (access, digits().collect())));
        });
        let index = |access: AccessId| &nest.access(access).index;
        let Some((first, _)) = reads.first() else { return Err(Unboxed::Unread(copy)) };
        let (like, gathered) = (index(*first), nest.access(*first).gathered.clone());
        let apart = |dim: &usize| {
            let moves = |access: AccessId, axis| index(access)[*dim].coefficient(axis);
            let differs = |(d, _): &(Digit, LoopKind)| {
                reads.iter().any(|(access, _)| moves(*access, d.axis) != like[*dim].coefficient(d.axis))
            };
            self.around.iter().any(differs)
        };
        if let Some(dim) = (0..like.len()).find(apart) {
            return Err(Unboxed::Apart(copy, dim));
        }
        let layout = nest.copy_layout(copy, body).ok_or(Unboxed::Unbounded(copy))?;
        let last = match nest.segment {
            Some(_) => Some(nest.filled(TileSize::Last, copy, body).ok_or(Unboxed::Unbounded(copy))?),
            None => None,
        };
        let produced = self.around.last().is_some_and(|(digit, _)| nest.produced.contains(digit));
        Ok(CopyBox {
            copy,
            place: self.found.iter().filter(|of| of_copy(of) == copy).count(),
            reads,
            low: nest.footprint(copy, body).iter().map(|d| d.low).collect(),
            part: if produced { nest.shared_part(copy, &layout) } else { None },
            rounded: nest.rounds_copy(copy),
            gathered,
            layout,
            last,
        })
    }
}

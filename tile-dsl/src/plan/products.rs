//! The products: by which instruction each sum of products of tensor cores is made, and how its operands come to it.

use super::{boxes::Boxes, tiles::Tiles};
use crate::{
    index::AxisId,
    machine::{Space, Unit, Via},
    nest::{
        self, AccessId, Atom, Computed, CopyId, Descriptor, Digit, Ends, Expr, Factor, Frame, LoopKind,
        MATRIX_ROW_BYTES, Matrices, Nest, NoDescriptor, NoMatrices, Operand, Placed, Stmt, TileSize, ValueId,
        copy_on, ends, leaves,
    },
};
use std::fmt;

/// A product of tensor cores.
#[derive(Clone, Debug)]
pub(crate) struct Product {
    /// What it adds to.
    value: ValueId,
    /// The loops around it, outermost first, those of the instruction last.
    loops: Vec<Digit>,
    /// The instruction, in a whole tile.
    pub atom: Atom,
    /// Its first and second operand, and what reads it.
    operands: [(Option<AccessId>, OperandPath); 2],
    /// The first product of a tile overwrites what is in the registers.
    pub overwrites: bool,
}

/// How an operand comes to the instruction.
#[derive(Clone, Debug)]
pub(crate) enum OperandPath {
    /// The instruction reads it from shared memory; by the size of the tile, whole ones first.
    Described([Descriptor; 2]),
    /// Lanes load it from shared memory, before the loops of a fragment where there is one.
    Loaded {
        /// How it lies there.
        matrices: Matrices,
        /// It is in the registers of a fragment.
        held: bool,
    },
    /// Lanes compute it.
    Computed(Computed),
}

/// Why an instruction does not make a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unmultiplied {
    /// The instruction.
    pub atom: Atom,
    /// What stands in the way.
    pub why: Obstacle,
}

/// What stands in the way of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// An operand is no staged copy. The loop over tiles inside of a CTA where it could be staged.
    Unstaged(AccessId, Option<Digit>),
    /// An operand is held in registers, and the instruction reads it from shared memory.
    Held(AccessId, CopyId),
    /// An operand is computed from a fragment, which has what is multiplied as it is.
    Computed(AccessId, CopyId),
    /// Its copy has no box.
    Unboxed(CopyId),
    /// No descriptor says how an operand lies.
    Described {
        /// The operand.
        access: AccessId,
        /// Its copy.
        copy: CopyId,
        /// Why.
        why: NoDescriptor,
        /// Axes of its rows or columns, and of k.
        axes: [AxisId; 2],
        /// Elements of a row of the copy.
        row: u64,
    },
    /// The last tile of a segment has columns for no instruction.
    Columns,
    /// Lanes do not load the matrices of an operand.
    Loaded {
        /// The operand.
        access: AccessId,
        /// Its copy.
        copy: CopyId,
        /// Why.
        why: NoMatrices,
        /// Axes of its rows or columns, and of k.
        axes: [AxisId; 2],
    },
    /// The instruction that copies an operand does not round it.
    Unrounded(AccessId, CopyId),
    /// What is rounded for the instruction is read as it is elsewhere.
    ReadElsewhere {
        /// The operand.
        access: AccessId,
        /// Its copy.
        copy: CopyId,
        /// The other read.
        elsewhere: AccessId,
    },
    /// What lies beyond the end of an axis would be added.
    Beyond(AccessId, AxisId),
    /// Some warps would leave the instruction out in steps of a loop that do not exist.
    LeftOut(ValueId, Digit),
    /// The factors are not those of a product.
    Factors(ValueId),
}

impl Unmultiplied {
    /// In words.
    pub fn text(self, nest: &Nest) -> String {
        let Unmultiplied { atom, why } = self;
        let name = |access: AccessId| &nest.tensor(nest.access(access).tensor).name;
        let extent = |axis: AxisId| &nest.kernel.axes[usize::from(axis.0)].extent;
        match why {
            Obstacle::Unstaged(access, _) => format!(
                "`{}` is read from global memory: `{atom}` takes its operands from shared memory",
                name(access)
            ),
            Obstacle::Held(_, copy) => format!(
                "`{atom}` reads `{}` from shared memory by itself: a fragment of it is never read",
                nest.copy_name(copy)
            ),
            Obstacle::Computed(_, copy) => format!(
                "a factor of `{atom}` is computed from `{}`: `fragment` holds factors that are loaded, not computed",
                nest.copy_name(copy)
            ),
            Obstacle::Unboxed(copy) => format!("the copy of `{}` has no box", nest.copy_name(copy)),
            Obstacle::Described { copy, why, axes: [free, k], row, .. } => {
                let (free, k) = (nest.axis(free), nest.axis(k));
                undescribed(nest, atom, copy, why, [free, k], row)
            }
            Obstacle::Columns => format!("the last tile of a segment has columns for no `{atom}`"),
            Obstacle::Loaded { copy, why, axes: [free, k], .. } => {
                let (name, row) = (nest.copy_name(copy), MATRIX_ROW_BYTES);
                match why {
                    NoMatrices::Apart => format!(
                        "the copy of `{name}` is contiguous along neither `{}` nor `{}`: `ldmatrix` reads rows of {row} bytes",
                        nest.axis(free),
                        nest.axis(k)
                    ),
                    NoMatrices::Unaligned(by) => format!(
                        "rows of the copy of `{name}` lie {by} elements apart: `ldmatrix` reads rows of {row} bytes at multiples of {row}"
                    ),
                }
            }
            Obstacle::Unrounded(_, copy) => {
                let who = match nest.copy(copy).via {
                    Via::CpAsync => "`cp.async` copies bits as they are",
                    _ => "how a tensor map rounds is not documented",
                };
                format!(
                    "`{atom}` truncates f32 to tf32, the kernel asks for `{}` to be rounded, and {who}",
                    nest.copy_name(copy)
                )
            }
            Obstacle::ReadElsewhere { copy, .. } => format!(
                "the copy of `{}` is rounded to tf32 for `{atom}`, and another read needs it unrounded",
                nest.copy_name(copy)
            ),
            Obstacle::Beyond(access, axis) => format!(
                "`{}` does not end where `{}` does: `{atom}` would add what lies beyond {}",
                name(access),
                nest.axis(axis),
                extent(axis)
            ),
            Obstacle::LeftOut(_, digit) => format!(
                "steps of `{}` beyond {} do not exist: some warps would leave out an `{atom}` that others execute",
                nest.axis(digit.axis),
                extent(digit.axis)
            ),
            Obstacle::Factors(value) => format!("`{}` is no sum of products", nest.value(value).name),
        }
    }
}

/// Why descriptors do not say how an operand lies in its copy, whose rows have so many elements.
fn undescribed(
    nest: &Nest,
    atom: Atom,
    copy: CopyId,
    why: NoDescriptor,
    [free, k]: [&str; 2],
    row: u64,
) -> String {
    let name = nest.copy_name(copy);
    match why {
        NoDescriptor::Plain => {
            format!("rows of the copy of `{name}` are not swizzled: `{atom}` reads swizzled rows")
        }
        NoDescriptor::Turned => format!(
            "rows of the copy of `{name}` run along `{free}`: `{atom}` reads {} in rows along `{k}` alone",
            nest.elem(nest.copy(copy).tensor)
        ),
        NoDescriptor::Apart => format!(
            "the copy of `{name}` has no neighbouring rows of points of `{free}` or of `{k}`: `{atom}` reads rows along one, row by row along the other"
        ),
        NoDescriptor::Unaligned(by) => format!(
            "tiles of the copy of `{name}` start {by} elements apart, in rows of {row}: `{atom}` reads whole groups of eight rows, and whole rows of {} bytes along `{free}`",
            nest.copy(copy).swizzle
        ),
    }
}

impl Product {
    /// An operand.
    pub fn operand(&self, side: Operand) -> &OperandPath {
        match side {
            Operand::A => &self.operands[0].1,
            Operand::B => &self.operands[1].1,
        }
    }

    fn write(&self, nest: &Nest, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "product {}: {}", nest.value(self.value).name, self.atom.row().name)?;
        for (side, (_, operand)) in ["a", "b"].into_iter().zip(&self.operands) {
            write!(out, ", {side} ")?;
            match operand {
                OperandPath::Described([whole, _]) => {
                    let along = if whole.k_major { "k" } else { "mn" };
                    write!(
                        out,
                        "described along {along}, leading {} stride {} swizzle {}",
                        whole.leading, whole.stride, whole.swizzle
                    )?;
                }
                OperandPath::Loaded { matrices, held } => {
                    let by = match (matrices.words, matrices.transposed) {
                        (true, _) => "words",
                        (false, false) => "matrices",
                        (false, true) => "matrices transposed",
                    };
                    write!(out, "by {by}{}", if *held { " in a fragment" } else { "" })?;
                }
                OperandPath::Computed(Computed::InPlace) => write!(out, "computed")?,
                OperandPath::Computed(Computed::ByTwos) => write!(out, "computed by twos, exchanged")?,
            }
        }
        writeln!(out, "{}", if self.overwrites { ", the first overwrites" } else { "" })
    }
}

/// A statement that an instruction makes.
struct Planner<'n> {
    nest: &'n Nest,
    boxes: &'n Boxes,
    tiles: &'n Tiles,
    path: &'n [Frame],
    atom: Atom,
    /// Digits of m, n and k.
    digits: [Digit; 3],
}

impl Planner<'_> {
    /// How a factor, whose rows or columns lie along `free`, comes to the instruction.
    fn operand(
        &self,
        product: &nest::Product<'_>,
        side: Operand,
        free: Digit,
    ) -> Result<(Option<AccessId>, OperandPath), Obstacle> {
        let access = match product.factor(side) {
            Factor::Load(access) => access,
            Factor::Computed(expr) => {
                if let (true, Some(access)) = (self.atom.row().descriptors, product.factor(side).element()) {
                    return Err(Obstacle::Unstaged(access, self.tile_of(access)));
                }
                self.computed(expr)?;
                return Ok((None, OperandPath::Computed(self.nest.computed(product, side))));
            }
        };
        let (nest, path) = (self.nest, self.path);
        let unstaged = || Obstacle::Unstaged(access, self.tile_of(access));
        let (at, copy) = copy_on(nest, path, access).ok_or_else(unstaged)?;
        let described = self.atom.row().descriptors;
        if let (true, Some(copy)) = (described, nest.is_held(path, access)) {
            return Err(Obstacle::Held(access, copy));
        }
        let body = nest.body.inside(&path[..=at]);
        let of = body.and_then(|body| self.boxes.get(nest, copy, body)).ok_or(Obstacle::Unboxed(copy))?;
        let inside: Vec<Digit> = path[at..]
            .iter()
            .filter_map(|f| match f {
                Frame::For(_, LoopKind::Atom(..)) => None,
                Frame::For(digit, _) => Some(*digit),
                _ => None,
            })
            .collect();
        let [_, n, k] = self.digits;
        let axes = [free.axis, k.axis];
        if described {
            let placed = Placed { copy, layout: &of.layout, low: &of.low };
            let row = of.layout.row;
            let of_size = |size| {
                let atom = self.tiles.atom(self.atom, n, size).ok_or(Obstacle::Columns)?;
                let how = nest.descriptor(atom, access, placed, axes, &inside);
                how.map_err(|why| Obstacle::Described { access, copy, why, axes, row })
            };
            let whole = of_size(TileSize::Whole)?;
            self.rounded(access, copy)?;
            return Ok((Some(access), OperandPath::Described([whole, of_size(TileSize::Last)?])));
        }
        let matrices = nest.matrices(access, &of.layout, &of.low, axes, &inside);
        let matrices = matrices.map_err(|why| Obstacle::Loaded { access, copy, why, axes })?;
        let nearest = nest.served_on(path, access).map(|(_, copy)| nest.copy(copy).space);
        let held = nearest == Some(Space::Register);
        Ok((Some(access), OperandPath::Loaded { matrices, held }))
    }

    /// What a lane computes with is not held for it: a fragment has what `ldmatrix` reads.
    fn computed(&self, expr: &Expr) -> Result<(), Obstacle> {
        let held = |access: AccessId| Some((access, self.nest.is_held(self.path, access)?));
        match expr.accesses().into_iter().find_map(held) {
            Some((access, copy)) => Err(Obstacle::Computed(access, copy)),
            None => Ok(()),
        }
    }

    /// The innermost loop over tiles inside of the CTA that moves an access.
    fn tile_of(&self, access: AccessId) -> Option<Digit> {
        let axes = self.nest.access_axes(access);
        let program =
            |axis: AxisId| self.nest.kernel.axes[usize::from(axis.0)].kind == crate::tile::AxisKind::Program;
        self.path.iter().rev().find_map(|f| match f {
            Frame::For(d, LoopKind::Seq | LoopKind::Pipe(_))
                if d.steps == crate::nest::Steps::Rest && axes.contains(&d.axis) && !program(d.axis) =>
            {
                Some(*d)
            }
            _ => None,
        })
    }

    /// What an instruction rounds nothing of is rounded on its way to shared memory, by the threads that copy it, and is read
    /// by no one else.
    fn rounded(&self, access: AccessId, copy: CopyId) -> Result<(), Obstacle> {
        let nest = self.nest;
        if !nest.rounds_copy(copy) {
            return Ok(());
        }
        if nest.copy(copy).via != Via::Plain {
            return Err(Obstacle::Unrounded(access, copy));
        }
        let mut other = None;
        leaves(&nest.body, &mut |path, leaf| {
            let Some((_, expr)) = leaf.leaf() else { return };
            let product =
                nest.product(path, leaf).filter(|p| p.atom.row().descriptors && p.atom.row().rounded);
            let as_it_is = expr.accesses().into_iter().find(|a| {
                let here = nest.serves(copy, *a) && path.contains(&Frame::Stage(copy));
                here && product.is_none_or(|p| !p.factors.contains(&Factor::Load(*a)))
            });
            other = other.or(as_it_is);
        });
        match other {
            Some(elsewhere) => Err(Obstacle::ReadElsewhere { access, copy, elsewhere }),
            None => Ok(()),
        }
    }

    /// Whether the loops around may go beyond the end of an axis.
    fn oversteps(&self, axis: AxisId) -> bool {
        ends(self.nest, axis, &digits(self.path)) != Ends::Always
    }

    /// Where tiles reach beyond the end of what is summed, both factors are zero there.
    fn beyond(&self, factors: [Factor<'_>; 2]) -> Option<Obstacle> {
        let axis = self.digits[2].axis;
        if !self.oversteps(axis) {
            return None;
        }
        // What is computed is left out there.
        factors.into_iter().find_map(|f| match f {
            Factor::Load(access) if !self.nest.ends_with(access, axis) => {
                Some(Obstacle::Beyond(access, axis))
            }
            _ => None,
        })
    }

    /// An atom is left out in steps of another axis that do not exist, and then by all warps.
    fn left_out(&self, factors: [Factor<'_>; 2], value: ValueId) -> Option<Obstacle> {
        let nest = self.nest;
        let summed = |axis: AxisId| {
            let of_it = |f: &Factor<'_>| nest.factor_axes(*f).contains(&axis);
            axis != self.digits[2].axis
                && !nest.value(value).axes.contains(&axis)
                && factors.iter().any(of_it)
        };
        let digit = self.path.iter().find_map(|f| match f {
            Frame::For(d, LoopKind::Unit(unit, _)) if *unit != Unit::Block && summed(d.axis) => Some(*d),
            _ => None,
        })?;
        self.oversteps(digit.axis).then_some(Obstacle::LeftOut(value, digit))
    }
}

/// The digits of the loops of a path.
fn digits(path: &[Frame]) -> Vec<Digit> {
    path.iter().filter_map(Frame::step).map(|(digit, _)| digit).collect()
}

/// The products of a nest, in program order.
#[derive(Clone, Debug)]
pub(crate) struct Products {
    all: Vec<Product>,
    wrong: Vec<Unmultiplied>,
}

impl Products {
    /// Those of a nest whose boxes and tiles are planned.
    pub fn of(nest: &Nest, boxes: &Boxes, tiles: &Tiles) -> Products {
        let mut products = Products { all: Vec::new(), wrong: Vec::new() };
        leaves(&nest.body, &mut |path, leaf| products.add(nest, boxes, tiles, path, leaf));
        products
    }

    /// Why instructions do not make products, in program order.
    pub fn unmultiplied(&self) -> &[Unmultiplied] {
        &self.wrong
    }

    fn add(&mut self, nest: &Nest, boxes: &Boxes, tiles: &Tiles, path: &[Frame], leaf: &Stmt) {
        let Stmt::Red { value, .. } = leaf else { return };
        let atom = path.iter().find_map(|f| match f {
            Frame::For(_, LoopKind::Atom(atom, _)) => Some(*atom),
            _ => None,
        });
        let Some(atom) = atom else { return };
        let Some(found) = nest.product(path, leaf) else {
            self.wrong.push(Unmultiplied { atom, why: Obstacle::Factors(*value) });
            return;
        };
        let planner = Planner { nest, boxes, tiles, path, atom, digits: found.digits };
        let [m, n, _] = found.digits;
        let mut operands = Vec::new();
        for (side, free) in [(Operand::A, m), (Operand::B, n)] {
            match planner.operand(&found, side, free) {
                Ok(operand) => operands.push(operand),
                Err(why) => self.wrong.push(Unmultiplied { atom, why }),
            }
        }
        let others = [planner.beyond(found.factors), planner.left_out(found.factors, *value)];
        self.wrong.extend(others.into_iter().flatten().map(|why| Unmultiplied { atom, why }));
        if let Ok(operands) = <[_; 2]>::try_from(operands) {
            let overwrites = nest.overwrites(*value);
            self.all.push(Product { value: *value, loops: digits(path), atom, operands, overwrites });
        }
    }

    /// The one that adds to a value inside of these loops, outermost first.
    pub fn get(&self, value: ValueId, loops: impl Iterator<Item = Digit> + Clone) -> Option<&Product> {
        self.all.iter().find(|p| p.value == value && p.loops.iter().copied().eq(loops.clone()))
    }

    /// How lanes load what an access reads for a product inside of these loops, outermost first.
    pub fn loaded(&self, access: AccessId, loops: impl Iterator<Item = Digit> + Clone) -> Option<Matrices> {
        let inside = self.all.iter().filter(|p| p.loops.iter().copied().eq(loops.clone()));
        inside.flat_map(|p| &p.operands).find_map(|(of, operand)| match operand {
            OperandPath::Loaded { matrices, .. } if *of == Some(access) => Some(*matrices),
            _ => None,
        })
    }

    pub(super) fn write(&self, nest: &Nest, out: &mut dyn fmt::Write) -> fmt::Result {
        self.all.iter().try_for_each(|product| product.write(nest, out))
    }
}

//! The products: by which instruction each sum of products of tensor cores is made, and how its operands come to it.

use super::{boxes::Boxes, tiles::Tiles};
use crate::{
    machine::Space,
    nest::{
        AccessId, Atom, Descriptor, Digit, Factor, Frame, LoopKind, Matrices, Nest, NoDescriptor, NoMatrices,
        Operand, Placed, Stmt, TileSize, ValueId, copy_on, leaves,
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
    Computed,
}

/// Why an operand does not come to the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmultiplied {
    /// It is no staged copy.
    Unstaged(AccessId),
    /// The last tile of a segment has columns for no instruction.
    Columns(Atom),
    /// Lanes do not load its matrices.
    Matrices(AccessId, NoMatrices),
    /// No descriptor says how it lies.
    Described(AccessId, NoDescriptor),
    /// The factors are not those of a product.
    Factors(ValueId),
}

impl Unmultiplied {
    /// In words. Schedules of which it holds are refused before, with what mends them.
    pub fn text(self, nest: &Nest) -> String {
        let name = |access: AccessId| nest.print_access(nest.access(access));
        match self {
            Unmultiplied::Unstaged(access) => format!("`{}` is an operand that is not staged", name(access)),
            Unmultiplied::Columns(atom) => format!("a last tile for no `{atom}`"),
            Unmultiplied::Matrices(access, why) => format!("no matrices of `{}`: {why:?}", name(access)),
            Unmultiplied::Described(access, why) => format!("no descriptor of `{}`: {why:?}", name(access)),
            Unmultiplied::Factors(value) => format!("`{}` is no sum of products", nest.value(value).name),
        }
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

    fn of(
        nest: &Nest,
        boxes: &Boxes,
        tiles: &Tiles,
        path: &[Frame],
        leaf: &Stmt,
    ) -> Result<Option<Product>, Unmultiplied> {
        let Stmt::Red { value, .. } = leaf else { return Ok(None) };
        if !path.iter().any(|f| matches!(f, Frame::For(_, LoopKind::Atom(..)))) {
            return Ok(None);
        }
        let found = nest.product(path, leaf).ok_or(Unmultiplied::Factors(*value))?;
        let [m, n, k] = found.digits;
        let operand = |factor: Factor<'_>, free: Digit| {
            let Factor::Load(access) = factor else { return Ok((None, OperandPath::Computed)) };
            let (at, copy) = copy_on(nest, path, access).ok_or(Unmultiplied::Unstaged(access))?;
            let body = nest.body.inside(&path[..=at]);
            let of =
                body.and_then(|body| boxes.get(nest, copy, body)).ok_or(Unmultiplied::Unstaged(access))?;
            let inside: Vec<Digit> = path[at..]
                .iter()
                .filter_map(|f| match f {
                    Frame::For(_, LoopKind::Atom(..)) => None,
                    Frame::For(digit, _) => Some(*digit),
                    _ => None,
                })
                .collect();
            let axes = [free.axis, k.axis];
            if found.atom.row().descriptors {
                let placed = Placed { copy, layout: &of.layout, low: &of.low };
                let of_size = |size| {
                    let atom = tiles.atom(found.atom, n, size).ok_or(Unmultiplied::Columns(found.atom))?;
                    let how = nest.descriptor(atom, access, placed, axes, &inside);
                    how.map_err(|why| Unmultiplied::Described(access, why))
                };
                let sizes = [of_size(TileSize::Whole)?, of_size(TileSize::Last)?];
                return Ok((Some(access), OperandPath::Described(sizes)));
            }
            let matrices = nest.matrices(access, &of.layout, &of.low, axes, &inside);
            let matrices = matrices.map_err(|why| Unmultiplied::Matrices(access, why))?;
            let nearest = nest.served_on(path, access).map(|(_, copy)| nest.copy(copy).space);
            let held = nearest == Some(Space::Register);
            Ok((Some(access), OperandPath::Loaded { matrices, held }))
        };
        let [a, b] = found.factors;
        Ok(Some(Product {
            value: *value,
            loops: digits(path),
            atom: found.atom,
            operands: [operand(a, m)?, operand(b, n)?],
            overwrites: nest.overwrites(*value),
        }))
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
                OperandPath::Computed => write!(out, "computed")?,
            }
        }
        writeln!(out, "{}", if self.overwrites { ", the first overwrites" } else { "" })
    }
}

/// The digits of the loops of a path.
fn digits(path: &[Frame]) -> Vec<Digit> {
    path.iter().filter_map(Frame::step).map(|(digit, _)| digit).collect()
}

/// The products of a nest, in program order.
#[derive(Clone, Debug)]
pub(crate) struct Products(Vec<Product>);

impl Products {
    /// Those of a nest whose boxes and tiles are planned.
    ///
    /// # Errors
    /// Why an operand does not come to its instruction.
    pub fn of(nest: &Nest, boxes: &Boxes, tiles: &Tiles) -> Result<Products, Unmultiplied> {
        let mut found = Ok(Vec::new());
        leaves(&nest.body, &mut |path, leaf| {
            let Ok(products) = &mut found else { return };
            match Product::of(nest, boxes, tiles, path, leaf) {
                Ok(product) => products.extend(product),
                Err(why) => found = Err(why),
            }
        });
        found.map(Products)
    }

    /// The one that adds to a value inside of these loops, outermost first.
    pub fn get(&self, value: ValueId, loops: impl Iterator<Item = Digit> + Clone) -> Option<&Product> {
        self.0.iter().find(|p| p.value == value && p.loops.iter().copied().eq(loops.clone()))
    }

    /// How lanes load what an access reads for a product inside of these loops, outermost first.
    pub fn loaded(&self, access: AccessId, loops: impl Iterator<Item = Digit> + Clone) -> Option<Matrices> {
        let inside = self.0.iter().filter(|p| p.loops.iter().copied().eq(loops.clone()));
        inside.flat_map(|p| &p.operands).find_map(|(of, operand)| match operand {
            OperandPath::Loaded { matrices, .. } if *of == Some(access) => Some(*matrices),
            _ => None,
        })
    }

    pub(super) fn write(&self, nest: &Nest, out: &mut dyn fmt::Write) -> fmt::Result {
        self.0.iter().try_for_each(|product| product.write(nest, out))
    }
}

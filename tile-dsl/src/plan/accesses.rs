//! The accesses: from where each element is read or to where it is stored, and how many at once.

use crate::{
    machine::Space,
    nest::{AccessId, CopyId, Digit, Frame, Nest, Step, Stmt, Target, Vector, leaves, vector},
    tile::TensorId,
};
use std::{collections::BTreeSet, fmt};

/// An access of a tensor by a statement.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// What it reads or stores.
    pub access: AccessId,
    /// Whether it stores.
    stores: bool,
    /// Where the element is.
    pub from: From,
    /// The loop whose steps are one instruction; in global memory, in variants with vectors alone.
    pub vector: Option<Vector>,
}

/// Where an access finds its element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// In global memory.
    Global,
    /// In a copy in shared memory.
    Shared(CopyId),
    /// In a copy in registers.
    Registers(CopyId),
}

/// The accesses of a nest.
#[derive(Clone, Debug)]
pub(crate) struct Accesses {
    /// Statement by statement in program order, what is stored last.
    all: Vec<Access>,
    /// Tensors that some statements read and some store.
    pub in_place: BTreeSet<TensorId>,
}

impl Accesses {
    /// Those of a nest.
    pub fn of(nest: &Nest) -> Accesses {
        let mut found = Vec::new();
        leaves(&nest.body, &mut |path, leaf| {
            let Some((target, expr)) = leaf.leaf() else { return };
            let vector = |access: AccessId| nest.vector(nest.access(access), loops(path)).unwrap_or(None);
            for access in expr.accesses() {
                let (from, vector) = match nest.served_on(path, access) {
                    None => (From::Global, vector(access)),
                    Some((_, copy)) if nest.copy(copy).space == Space::Register => {
                        (From::Registers(copy), None)
                    }
                    Some((at, copy)) => (From::Shared(copy), in_copy(nest, access, path, (at, copy))),
                };
                found.push(Access { access, stores: false, from, vector });
            }
            if let (Stmt::Put { .. }, Target::Access(access)) = (leaf, target) {
                found.push(Access { access, stores: true, from: From::Global, vector: vector(access) });
            }
        });
        let of = |stores: bool| -> BTreeSet<TensorId> {
            let own = found.iter().filter(|a: &&Access| a.stores == stores);
            own.map(|a| nest.access(a.access).tensor).collect()
        };
        let in_place = &of(false) & &of(true);
        Accesses { all: found, in_place }
    }

    /// Those of global memory.
    pub fn global(&self) -> impl Iterator<Item = &Access> {
        self.all.iter().filter(|access| access.from == From::Global)
    }

    pub(super) fn write(&self, nest: &Nest, out: &mut dyn fmt::Write) -> fmt::Result {
        let mut written = Vec::new();
        for Access { access, stores, from, vector } in &self.all {
            let verb = if *stores { "stores" } else { "reads" };
            let from = match from {
                From::Global => String::new(),
                From::Shared(copy) => format!(" in copy {}", nest.copy_word(*copy)),
                From::Registers(copy) => format!(" in registers {}", nest.copy_word(*copy)),
            };
            let at_once = vector.map_or(String::new(), |Vector { digit, steps }| {
                format!(", {steps} at once over {}", nest.digit_name(digit))
            });
            let line = format!("access {verb} {}{from}{at_once}", nest.print_access(nest.access(*access)));
            // Copies of a statement access alike.
            if !written.contains(&line) {
                writeln!(out, "{line}")?;
                written.push(line);
            }
        }
        Ok(())
    }
}

/// The loops of a path, outermost first.
fn loops(path: &[Frame]) -> impl Iterator<Item = Step> {
    path.iter().filter_map(Frame::step)
}

/// The vector of an access of the copy whose stage stands at a place of its path. Loops around the stage move the copy, not the
/// place in it.
fn in_copy(nest: &Nest, access: AccessId, path: &[Frame], (at, copy): (usize, CopyId)) -> Option<Vector> {
    let layout = nest.copy_layout(copy, nest.body.inside(&path[..=at])?)?;
    let moved = |digit: Digit| -> i64 {
        let along = nest.access(access).index.iter().zip(&layout.strides);
        along.map(|(i, s)| i.coefficient(digit.axis) * i64::from(digit.stride) * *s as i64).sum()
    };
    vector(loops(&path[at..]), moved).unwrap_or(None)
}

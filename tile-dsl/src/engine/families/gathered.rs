//! `stage` of what is read where values say: the values become part of the copy.
//!
//! ```text
//! (for at (.. (gather x[*z.i, k] V)))  →  (for at (.. (ld x[row i of *z.i, k])))     `i` runs inside: a row for each of its points
//! (for at (.. (gather w[*z, k, j] V)))  →  (for at (.. (ld w[at *z, k, j])))         `z` stands still: the value moves the box
//! ```
//! Side conditions: the value is made of numbers, axes and loads of what nothing in the kernel changes, none of which is staged itself, so
//! that it can be worked out wherever the copy is filled; all reads inside agree in it; it varies along at most one axis inside, and along no
//! other than what is added to it does.
//! Source: pages found by a table (Kwon et al. 2023, "Efficient Memory Management for Large Language Model Serving with PagedAttention").

use super::{
    Failure,
    reads::looked_up,
    stage::{Request, refuse},
};
use crate::{
    diagnostic::Edit,
    engine::names,
    index::{Affine, AxisId},
    machine::Via,
    nest::{Access, AccessId, Copy, Digit, Expr, Frame, Gathered, Nest, Steps, Stmt, leaves},
    tile::TensorId,
};
use std::collections::{BTreeMap, BTreeSet};

/// A read where values say, inside of the loop at which a copy is made.
struct Read {
    access: AccessId,
    /// What is added to its index, with definitions in the places of values.
    by: Vec<Expr>,
    /// The axes of the loops inside.
    inside: BTreeSet<AxisId>,
}

/// The nest in which values belong to the copy of a tensor, made in steps of `at`; `None` where no value says what these read of it.
pub(crate) fn gathered(
    nest: &Nest,
    request: &Request<'_>,
    new: &Copy,
    at: Digit,
) -> Result<Option<Nest>, Failure> {
    let tensor = new.tensor;
    let plain = read_plainly(nest, tensor, at);
    if new.follows.is_some() && plain.is_some() {
        // The name is that of forms.
        return Ok(None);
    }
    let reads = reads(nest, tensor, at);
    let Some(first) = reads.first() else { return Ok(None) };
    let name = request.buffer;
    let span = nest.access(first.access).span;
    let noted = |text: String| refuse(text).note(span, format!("`{name}` is read here"));
    let refused = |text: String| noted(text).edit(Edit::remove());
    if let Some(plain) = plain {
        let text =
            format!("`{name}` is read where values say, and where they do not: one copy cannot hold both");
        return Err(refused(text).note(nest.access(plain).span, "no value says where this is"));
    }
    for value in reads.iter().flat_map(|read| &read.by) {
        known_ahead(nest, name, value).map_err(&refused)?;
    }
    let inside: BTreeSet<AxisId> = reads.iter().flat_map(|read| &read.inside).copied().collect();
    let mut placed: BTreeMap<AccessId, Access> = BTreeMap::new();
    for read in &reads {
        let access = nest.access(read.access);
        let mut new = Access { by: BTreeMap::new(), ..access.clone() };
        for ((dim, axes), value) in access.by.iter().zip(&read.by) {
            let row = row(nest, name, &access.index[*dim], axes, &inside).map_err(&refused)?;
            let form = access.index[*dim].clone();
            if let Some(row) = row {
                // The first dimension counts rows.
                let counted = new.gathered.values().any(|gathered| gathered.row == Some(row));
                new.index[*dim] = if counted { Affine::default() } else { Affine::axis(row) };
            }
            if request.via == Via::Tma {
                moved_box(nest, request, *dim, row).map_err(|text| {
                    let by_threads = Request { via: Via::CpAsync, vector: Some(16), ..*request };
                    let plain = Request { via: Via::Plain, vector: None, ..*request };
                    noted(text)
                        .edit(Edit::instead([by_threads.kind()]))
                        .edit(Edit::instead([plain.kind()]))
                        .edit(Edit::remove())
                })?;
            }
            new.gathered.insert(*dim, Gathered { form, value: value.clone(), axes: axes.clone(), row });
        }
        placed.entry(read.access).or_insert_with(|| new.clone());
        let agrees = |other: AccessId| placed.get(&other).is_none_or(|other| other.gathered == new.gathered);
        if !agrees(read.access) || !agrees(first.access) {
            let text =
                format!("values say where `{name}` is read in several ways: one copy cannot hold them all");
            let failure = refused(text);
            return Err(match read.access == first.access {
                true => failure,
                false => failure.note(access.span, "and read where another one says here"),
            });
        }
    }
    Ok(Some(with_places(nest, at, placed)))
}

/// The reads of a tensor where values say, inside of loops over a digit.
fn reads(nest: &Nest, tensor: TensorId, at: Digit) -> Vec<Read> {
    let defined = nest.definitions();
    let mut found = Vec::new();
    leaves(&nest.body, &mut |path, leaf| {
        let Some(here) = path.iter().position(|f| matches!(f, Frame::For(d, _) if *d == at)) else { return };
        let moving = |f: &Frame| f.step().filter(|(d, _)| d.steps != Steps::Fixed(1)).map(|(d, _)| d.axis);
        leaf.leaf().expect("a leaf").1.visit(&mut |e| {
            if let Expr::Gather(access, by) = e
                && nest.access(*access).tensor == tensor
            {
                let by = by.iter().map(|value| value.inlined(&defined)).collect();
                found.push(Read {
                    access: *access,
                    by,
                    inside: path[here + 1..].iter().filter_map(moving).collect(),
                });
            }
        });
    });
    found
}

/// A read of a tensor inside of loops over a digit, where no value says.
fn read_plainly(nest: &Nest, tensor: TensorId, at: Digit) -> Option<AccessId> {
    let inside = |path: &[Frame]| path.iter().any(|f| matches!(f, Frame::For(d, _) if *d == at));
    nest.ways(tensor, inside).into_iter().find(|access| nest.access(*access).gathered.is_empty())
}

/// Whether a value is known wherever a copy may be made; else why not.
fn known_ahead(nest: &Nest, name: &str, value: &Expr) -> Result<(), String> {
    let mut problem = None;
    value.visit(&mut |e| match e {
        Expr::Get(computed) => {
            let computed = &nest.value(*computed).name;
            problem = Some(format!(
                "`{computed}` says where `{name}` is read, and the kernel computes it: a copy is made before what reads it is computed"
            ));
        }
        Expr::Edge(axis, _) => {
            let axis = nest.axis(*axis);
            problem = Some(format!("what says where `{name}` is read depends on the tiles of `{axis}`, which a copy is not told"));
        }
        Expr::Load(access) | Expr::Gather(access, _) => {
            let tensor = nest.access(*access).tensor;
            let info = nest.tensor(tensor);
            if info.mutable {
                problem = Some(format!("`{}` says where `{name}` is read, and the kernel stores to it", info.name));
            }
            if nest.copies.iter().any(|copy| copy.tensor == tensor) {
                problem = Some(looked_up(nest, tensor));
            }
        }
        _ => {}
    });
    problem.map_or(Ok(()), Err)
}

/// The axis of which a copy has a row for each point, if the value along these axes varies inside; else why there is none.
fn row(
    nest: &Nest,
    name: &str,
    form: &Affine,
    axes: &BTreeSet<AxisId>,
    inside: &BTreeSet<AxisId>,
) -> Result<Option<AxisId>, String> {
    let moving: Vec<AxisId> = axes.intersection(inside).copied().collect();
    let Some(row) = moving.first().copied() else { return Ok(None) };
    if let Some(other) = moving.get(1) {
        let (a, b) = (nest.axis(row), nest.axis(*other));
        return Err(format!(
            "the value that says where `{name}` is read varies along `{a}` and along `{b}` within a step: a copy has rows along one axis"
        ));
    }
    match form.terms.keys().find(|axis| **axis != row && inside.contains(axis)) {
        Some(other) => {
            let (a, b) = (nest.axis(row), nest.axis(*other));
            Err(format!(
                "a value along `{a}` and the place along `{b}` are added in one dimension of `{name}`: a copy has rows along one axis"
            ))
        }
        None => Ok(Some(row)),
    }
}

/// A tensor map copies what a value moves as a whole, by rows that begin at whole 16 bytes; else why not.
fn moved_box(nest: &Nest, request: &Request<'_>, dim: usize, row: Option<AxisId>) -> Result<(), String> {
    let name = request.buffer;
    let tensor = names::tensor(nest, name.split('[').next().unwrap_or(name));
    if let Some(row) = row {
        return Err(format!(
            "values say where each row of `{name}` along `{}` is read: a tensor map copies boxes, and rows anywhere are none",
            nest.axis(row)
        ));
    }
    match tensor.is_some_and(|tensor| nest.contiguous(tensor) == dim) {
        true => Err(format!(
            "a value says where rows of `{name}` begin: a tensor map copies from multiples of 16 bytes on"
        )),
        false => Ok(()),
    }
}

/// The nest with other accesses in loops over a digit.
fn with_places(nest: &Nest, at: Digit, placed: BTreeMap<AccessId, Access>) -> Nest {
    let mut new = nest.clone();
    // What is read elsewhere stays as it is: by other statements, and where limits or places are looked up.
    let mut ids: BTreeMap<AccessId, AccessId> = BTreeMap::new();
    let limits = nest.limits.values().flat_map(|limits| limits.from.iter().chain(&limits.to));
    let places = nest.accesses.iter().flat_map(|access| access.gathered.values().map(|of| &of.value));
    let beside: BTreeSet<AccessId> = limits.chain(places).flat_map(Expr::accesses).collect();
    for (old, access) in placed {
        let here = |path: &[Frame]| path.iter().any(|f| matches!(f, Frame::For(d, _) if *d == at));
        let mut elsewhere = beside.contains(&old);
        leaves(&nest.body, &mut |path, leaf| {
            elsewhere |= !here(path) && leaf.leaf().expect("a leaf").1.accesses().contains(&old);
        });
        if elsewhere {
            ids.insert(old, AccessId(new.accesses.len() as u16));
            new.accesses.push(access);
        } else {
            ids.insert(old, old);
            new.accesses[usize::from(old.0)] = access;
        }
    }
    new.body = replaced(&nest.body, at, false, &ids);
    new
}

/// A statement that reads from copies, inside of loops over a digit.
fn replaced(stmt: &Stmt, at: Digit, inside: bool, ids: &BTreeMap<AccessId, AccessId>) -> Stmt {
    let inside = inside || matches!(stmt, Stmt::For { digit, .. } if *digit == at);
    let read = |expr: &Expr| {
        expr.replaced(&mut |e| match e {
            Expr::Gather(access, _) => ids.get(access).map(|new| Expr::Load(*new)),
            _ => None,
        })
    };
    match stmt.leaf() {
        Some(_) if inside => stmt.computing(&read),
        _ => stmt.map(&mut |part| replaced(part, at, inside, ids)),
    }
}

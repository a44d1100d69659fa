//! Which reads of a tensor a copy of it is for.
//!
//! A copy of all reads inside has a box that follows them all. Where reads move apart, `a[i, k]` and `a[j, k]` in a product of a
//! matrix with itself, each way to move has a copy of its own, named by its index. Constants are no part of it: `x[i]` and
//! `x[i + 1]` are read from one box.

use super::{Access, AccessId, Copy, CopyId, Frame, Nest, leaves};
use crate::{index::Affine, machine::Space, tile::TensorId};
use std::fmt;

impl Copy {
    /// Whether a read inside of the copy is read from it.
    pub fn serves(&self, access: &Access) -> bool {
        self.tensor == access.tensor
            && access.is_plain()
            && self.follows.as_ref().is_none_or(|f| moves_alike(f, &access.index))
    }
}

/// Whether two indices move alike with every axis.
pub(crate) fn moves_alike(a: &[Affine], b: &[Affine]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.terms == b.terms)
}

impl Nest {
    /// Whether an access inside of a copy is read from it.
    pub fn serves(&self, copy: CopyId, access: AccessId) -> bool {
        self.copy(copy).serves(self.access(access))
    }

    /// The innermost copy on a path that an access is read from, with its place on the path.
    pub fn served_on(&self, path: &[Frame], access: AccessId) -> Option<(usize, CopyId)> {
        path.iter().enumerate().rev().find_map(|(n, f)| match f {
            Frame::Stage(c) if self.serves(*c, access) => Some((n, *c)),
            _ => None,
        })
    }

    /// Whether an access is read from registers that a copy on a path fills.
    pub(crate) fn is_held(&self, path: &[Frame], access: AccessId) -> Option<CopyId> {
        path.iter().find_map(|f| match f {
            Frame::Stage(c) if self.copy(*c).space == Space::Register && self.serves(*c, access) => Some(*c),
            _ => None,
        })
    }

    /// The reads of a tensor on some paths, one for each way in which they move.
    pub(crate) fn ways(&self, tensor: TensorId, on: impl Fn(&[Frame]) -> bool) -> Vec<AccessId> {
        let mut found: Vec<AccessId> = Vec::new();
        leaves(&self.body, &mut |path, leaf| {
            if !on(path) {
                return;
            }
            for a in leaf.leaf().expect("a leaf").1.accesses() {
                let alike = |b: &AccessId| moves_alike(&self.access(*b).index, &self.access(a).index);
                let read = self.access(a);
                if read.tensor == tensor && read.is_plain() && !found.iter().any(alike) {
                    found.push(a);
                }
            }
        });
        found
    }

    /// What directives call a copy: `a`, or `a[i, k]`.
    pub fn copy_name(&self, copy: CopyId) -> String {
        let copy = self.copy(copy);
        let tensor = &self.tensor(copy.tensor).name;
        copy.follows.as_ref().map_or_else(|| tensor.clone(), |index| self.indexed(tensor, index))
    }

    /// What directives call a copy for the reads that move as an access does: `a[i, k]`.
    pub fn read_name(&self, access: &Access) -> String {
        self.indexed(&self.tensor(access.tensor).name, &access.index)
    }

    /// What copies of a tensor are called: by the tensor, or by each way in which it is read where there are several.
    pub(crate) fn buffers(&self, tensor: TensorId) -> Vec<String> {
        match self.ways(tensor, |_| true).as_slice() {
            [] | [_] => vec![self.tensor(tensor).name.clone()],
            ways => ways.iter().map(|a| self.read_name(self.access(*a))).collect(),
        }
    }

    /// The name of a copy where names have no brackets: `a`, or `a.i.k`.
    pub(crate) fn copy_word(&self, copy: CopyId) -> String {
        let copy = self.copy(copy);
        let mut word = self.tensor(copy.tensor).name.clone();
        for axis in copy.follows.iter().flatten().flat_map(|index| index.terms.keys()) {
            word.push('.');
            word.push_str(self.axis(*axis));
        }
        word
    }

    fn indexed(&self, tensor: &str, index: &[Affine]) -> String {
        let terms = |i: &Affine| i.terms.iter().map(|(a, c)| (self.axis(*a).to_string(), *c)).collect();
        index_name(tensor, index.iter().map(terms))
    }
}

/// A name with an index: what it moves by, a dimension each. Terms stand in the order of their names.
pub(crate) fn index_name(name: &str, index: impl IntoIterator<Item = Vec<(String, i64)>>) -> String {
    struct Show(Vec<(String, i64)>);
    impl fmt::Display for Show {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            crate::index::write_affine(f, self.0.iter().map(|(a, c)| (a.as_str(), *c)), 0)
        }
    }
    let shown = index.into_iter().map(|mut terms| {
        terms.sort();
        Show(terms).to_string()
    });
    format!("{name}[{}]", shown.collect::<Vec<_>>().join(", "))
}

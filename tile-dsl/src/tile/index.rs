//! Where an access goes in one dimension of its tensor.

use super::Expr;
use crate::index::{Affine, AxisId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Index of one dimension: an affine form over axes, plus an integer value where there is one.
///
/// `2*i + 1`, `load(ids, [s])` and `t + load(first, [b])` are indices. A value of another integer type counts as by [`number`];
/// the sum wraps around as `i32`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Index {
    /// The form over axes.
    pub affine: Affine,
    /// What is added to it, an integer.
    pub value: Option<Box<Expr>>,
    /// `unique(value)` in a store: the author's promise that points with distinct values go to distinct elements, or to none.
    pub unique: bool,
}

impl From<Affine> for Index {
    fn from(affine: Affine) -> Self {
        Index { affine, value: None, unique: false }
    }
}

impl Index {
    /// One that adds a value.
    pub fn by(affine: Affine, value: Expr) -> Self {
        Index { affine, value: Some(Box::new(value)), unique: false }
    }

    /// The form, if no value is added to it.
    pub fn as_affine(&self) -> Option<&Affine> {
        self.value.is_none().then_some(&self.affine)
    }
}

/// A value of an index as what is added: what is no `i32` is −2³¹, which leads beyond every tensor.
pub fn number(value: f64) -> i32 {
    if f64::from(value as i32) == value { value as i32 } else { i32::MIN }
}

/// The forms of an index, if no value is added to any.
pub fn affine(index: &[Index]) -> Option<Vec<Affine>> {
    index.iter().map(|i| i.as_affine().cloned()).collect()
}

/// The axes that the forms of an index mention; those of its values are not among them.
pub fn affine_axes(index: &[Index]) -> BTreeSet<AxisId> {
    index.iter().flat_map(|i| i.affine.terms.keys()).copied().collect()
}

/// The values of an index, by dimension.
pub fn values(index: &[Index]) -> impl Iterator<Item = &Expr> {
    index.iter().filter_map(|i| i.value.as_deref())
}

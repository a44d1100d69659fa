//! What directives introduce for later ones, so that one mistake is reported once.

use super::names::{self, is_of_atoms};
use crate::directive::DirectiveKind;

/// A name that directives give others and need of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// A loop, as it is called: `i.o`, `ir`; or an axis, whose loops are.
    Loop(String),
    /// A copy of what is read by a name.
    Copy(String),
    /// A copy made in each step of a loop.
    CopyAt(String),
    /// The pipeline of a loop.
    Pipeline(String),
    /// The loops that instructions of the tensor cores leave.
    Atoms,
    /// A value that each reader has its own computation of.
    Recomputed(String),
}

impl Name {
    /// The loops of a tiled axis, by all that they may be called.
    pub(crate) fn loops_of(axis: &str) -> Vec<Name> {
        [names::over_tiles(axis), names::in_tile(axis), axis.to_string()].map(Name::Loop).to_vec()
    }

    /// What a copy may be named by: as it is, and by its tensor alone.
    pub(crate) fn copies_of(buffer: &str) -> impl Iterator<Item = Name> {
        let tensor = buffer.split_once('[').map(|(tensor, _)| tensor);
        [Some(buffer), tensor].into_iter().flatten().map(|name| Name::Copy(name.to_string()))
    }
}

/// Names introduced by other directives that it needs.
pub(super) fn mentions(kind: &DirectiveKind) -> Vec<Name> {
    let mut names = kind.needs();
    if names.iter().any(|name| matches!(name, Name::Loop(name) if is_of_atoms(name))) {
        names.push(Name::Atoms);
    }
    names
}

/// The directive with one name for another.
pub(super) fn renamed(kind: &DirectiveKind, from: &str, to: &str) -> DirectiveKind {
    let mut kind = kind.clone();
    let names = kind.names_mut().into_iter().filter(|name| name.as_str() == from);
    names.for_each(|name| *name = to.to_string());
    kind
}

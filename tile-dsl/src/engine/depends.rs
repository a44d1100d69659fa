//! What directives introduce for later ones, so that one mistake is reported once.

use super::families::tensor_core;
use crate::schedule::DirectiveKind;

/// Names that it introduces for directives after it.
pub(super) fn introduces(kind: &DirectiveKind) -> Vec<String> {
    use DirectiveKind as D;
    match kind {
        D::Tile { axis, .. } => vec![format!("{axis}.o"), format!("{axis}.t"), axis.clone()],
        D::Split { names, .. } => names.clone(),
        D::Stage { buffer, at, .. } => {
            // Its copy, and what a pipeline of the loop would run ahead.
            let copy = of(buffer).map(|b| format!("stage {b}"));
            copy.chain(at.iter().map(|a| format!("stage at {a}"))).collect()
        }
        D::Fragment { buffer, at } => {
            let copy = of(buffer).map(|b| format!("fragment {b}"));
            copy.chain([format!("stage at {at}")]).collect()
        }
        D::TensorCore { .. } => vec!["tensor_core".into()],
        D::Reduce { value, .. } => vec![format!("reduce {value}")],
        D::Recompute { value } => vec![format!("recompute {value}")],
        D::Fits { .. } => vec!["fits".into()],
        _ => Vec::new(),
    }
}

/// What a copy may be named by: as it is, and by its tensor alone.
fn of(buffer: &str) -> impl Iterator<Item = &str> {
    std::iter::once(buffer).chain(buffer.split_once('[').map(|(tensor, _)| tensor))
}

/// Names introduced by other directives that it needs.
pub(super) fn mentions(kind: &DirectiveKind) -> Vec<String> {
    let mut names = named(kind);
    if names.iter().any(|name| tensor_core::introduces(name)) {
        names.push("tensor_core".into());
    }
    names
}

fn named(kind: &DirectiveKind) -> Vec<String> {
    use DirectiveKind as D;
    match kind {
        D::Split { digit, .. } | D::SplitK { digit, .. } | D::Bind { digit, .. } => vec![digit.clone()],
        D::Unroll { digit, .. } | D::Serpentine { digit, .. } | D::Vectorize { digit, .. } => {
            vec![digit.clone()]
        }
        D::Reorder { digits, .. } => digits.clone(),
        D::Fragment { at, .. } => vec![at.clone()],
        D::Stage { at, .. } => at.iter().cloned().collect(),
        D::Pad { buffer, .. } | D::Swizzle { buffer, .. } => vec![format!("stage {buffer}")],
        D::Pipeline { digit, .. } => vec![digit.clone(), format!("stage at {digit}")],
        D::Interleave { digit, .. } => vec![digit.clone(), format!("pipeline {digit}")],
        D::Fuse { value, at } => vec![at.clone(), format!("recompute {value}")],
        _ => Vec::new(),
    }
}

/// The directive with one name for another.
pub(super) fn renamed(kind: &DirectiveKind, from: &str, to: &str) -> DirectiveKind {
    let mut kind = kind.clone();
    let names = kind.names_mut().into_iter().filter(|name| name.as_str() == from);
    names.for_each(|name| *name = to.to_string());
    kind
}

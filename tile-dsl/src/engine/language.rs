//! The e-graph's language: the statements of the nest IR, with loops over digits as binders.
//!
//! Leaf statements (`def`, `red`, `scan`, `set`, `put`) mention axes, never digits, so no rule looks inside them:
//! they are opaque numbers into a side table. Everything else that a rule could match is a child, so
//! patterns can bind it. All leaves are plain data, hashed inline.

use crate::nest::{CopyId, Digit, LoopKind};
use egg::{Id, Language};
use std::fmt;

/// A set of values, tensors, accesses or axes, by number. At most 128 of each fit.
pub(crate) type Bits = u128;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Node {
    /// `(for digit at body)`
    For([Id; 3]),
    /// `(let values first rest)`
    Let([Id; 3]),
    /// `(stage copy body)`
    Stage([Id; 2]),
    /// A leaf statement, by number.
    Do(u32),
    Digit(Digit),
    LoopKind(LoopKind),
    Values(Bits),
    Copy(CopyId),
}

impl Language for Node {
    type Discriminant = std::mem::Discriminant<Node>;

    fn discriminant(&self) -> Self::Discriminant {
        std::mem::discriminant(self)
    }

    fn matches(&self, other: &Self) -> bool {
        match (self, other) {
            (Node::For(_), Node::For(_))
            | (Node::Let(_), Node::Let(_))
            | (Node::Stage(_), Node::Stage(_)) => true,
            _ => self == other,
        }
    }

    fn children(&self) -> &[Id] {
        match self {
            Node::For(ids) | Node::Let(ids) => ids,
            Node::Stage(ids) => ids,
            _ => &[],
        }
    }

    fn children_mut(&mut self) -> &mut [Id] {
        match self {
            Node::For(ids) | Node::Let(ids) => ids,
            Node::Stage(ids) => ids,
            _ => &mut [],
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::For(_) => f.write_str("for"),
            Node::Let(_) => f.write_str("let"),
            Node::Stage(_) => f.write_str("stage"),
            leaf => write!(f, "{leaf:?}"),
        }
    }
}

/// Patterns consist of statements and variables; leaves are always variables.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is no statement of the nest language with {1} operands")]
pub(crate) struct NotAStatement(String, usize);

impl egg::FromOp for Node {
    type Error = NotAStatement;

    fn from_op(op: &str, children: Vec<Id>) -> Result<Self, Self::Error> {
        match (op, children.as_slice()) {
            ("for", &[a, b, c]) => Ok(Node::For([a, b, c])),
            ("let", &[a, b, c]) => Ok(Node::Let([a, b, c])),
            ("stage", &[a, b]) => Ok(Node::Stage([a, b])),
            _ => Err(NotAStatement(op.to_string(), children.len())),
        }
    }
}

/// The elements of a set, ascending.
pub(crate) fn members(mut bits: Bits) -> impl Iterator<Item = u16> {
    std::iter::from_fn(move || {
        let n = bits.trailing_zeros();
        (n < Bits::BITS).then(|| {
            bits &= bits - 1;
            n as u16
        })
    })
}

/// The set of one element.
pub(crate) fn bit(n: u16) -> Bits {
    1 << n
}

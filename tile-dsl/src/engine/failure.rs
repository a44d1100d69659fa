//! What became of a directive: a proof, or one of four failures that are never conflated.

use super::Name;
use crate::{
    diagnostic::{Diagnostic, Edit, Note},
    span::SpanId,
};

/// Why a directive did not apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// Which of the outcomes it is.
    pub kind: FailureKind,
    /// What to tell the user.
    pub diagnostic: Box<Diagnostic>,
    /// Names that the directive would have introduced; directives that mention them depend on it.
    pub introduces: Vec<Name>,
    /// A name that is not there, and the one that was probably meant.
    pub(crate) meant: Option<(String, String)>,
    /// A name of a loop that was split, and those of its parts.
    pub(crate) parts: Vec<(String, String)>,
}

/// The four outcomes besides success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The directive speaks of something that is not in the nest.
    NoMatch,
    /// A condition failed: the directive is illegal here.
    Refused,
    /// Conditions held, yet the nest asked for was not derived.
    Unmet,
    /// The engine ran out of room or caught itself in a mistake.
    Internal,
}

impl Failure {
    /// A failure of a kind.
    pub(crate) fn new(kind: FailureKind, diagnostic: Diagnostic) -> Self {
        Failure {
            kind,
            diagnostic: Box::new(diagnostic),
            introduces: Vec::new(),
            meant: None,
            parts: Vec::new(),
        }
    }

    pub(crate) fn no_match(message: impl Into<String>) -> Self {
        Failure::new(FailureKind::NoMatch, Diagnostic::new(SpanId::NONE, message))
    }

    pub(crate) fn refused(diagnostic: Diagnostic) -> Self {
        Failure::new(FailureKind::Refused, diagnostic)
    }

    pub(crate) fn unmet(message: impl Into<String>) -> Self {
        Failure::new(FailureKind::Unmet, Diagnostic::new(SpanId::NONE, message))
    }

    pub(crate) fn internal(message: impl std::fmt::Display) -> Self {
        let text = format!("internal limit of the rewrite engine, not a mistake in the schedule: {message}");
        Failure::new(FailureKind::Internal, Diagnostic::new(SpanId::NONE, text))
    }

    /// Adds an edit to try.
    pub(crate) fn edit(mut self, edit: Edit) -> Self {
        self.diagnostic.edits.push(edit);
        self
    }

    /// Adds edits to try.
    pub(crate) fn edits(mut self, edits: impl IntoIterator<Item = Edit>) -> Self {
        self.diagnostic.edits.extend(edits);
        self
    }

    /// Adds a remark on no source in particular.
    pub(crate) fn remark(mut self, text: impl Into<String>) -> Self {
        self.diagnostic.notes.push(Note { span: SpanId::NONE, text: text.into() });
        self
    }

    pub(crate) fn note(mut self, span: SpanId, text: impl Into<String>) -> Self {
        self.diagnostic.notes.push(Note { span, text: text.into() });
        self
    }
}

/// Why a directive is legal: the rules that applied and the facts their conditions used.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Proof {
    /// The directive, as written.
    pub directive: String,
    /// Names of rules with how often each applied.
    pub rules: Vec<(&'static str, u32)>,
    /// Facts, a sentence each.
    pub facts: Vec<String>,
}

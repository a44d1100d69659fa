//! What became of a directive: a proof, or one of four failures that are never conflated.

use crate::{diagnostic::Diagnostic, span::SpanId};

/// Why a directive did not apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// Which of the outcomes it is.
    pub kind: FailureKind,
    /// What to tell the user.
    pub diagnostic: Diagnostic,
    /// Names that the directive would have introduced; directives that mention them depend on it.
    pub introduces: Vec<String>,
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
    pub(super) fn new(kind: FailureKind, diagnostic: Diagnostic) -> Self {
        Failure { kind, diagnostic, introduces: Vec::new() }
    }

    pub(super) fn no_match(message: impl Into<String>) -> Self {
        Failure::new(FailureKind::NoMatch, Diagnostic::new(SpanId::NONE, message))
    }

    pub(super) fn refused(diagnostic: Diagnostic) -> Self {
        Failure::new(FailureKind::Refused, diagnostic)
    }

    pub(super) fn unmet(message: impl Into<String>) -> Self {
        Failure::new(FailureKind::Unmet, Diagnostic::new(SpanId::NONE, message))
    }

    pub(super) fn internal(message: impl std::fmt::Display) -> Self {
        let text = format!("internal limit of the rewrite engine, not a mistake in the schedule: {message}");
        Failure::new(FailureKind::Internal, Diagnostic::new(SpanId::NONE, text))
    }

    pub(super) fn help(mut self, text: impl Into<String>) -> Self {
        self.diagnostic = self.diagnostic.help(text);
        self
    }

    pub(super) fn note(mut self, span: SpanId, text: impl Into<String>) -> Self {
        self.diagnostic = self.diagnostic.note(span, text);
        self
    }
}

thread_local! {
    static SUGGESTING: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Looks for something to suggest by trying it. What is tried makes no suggestions of its own.
pub(super) fn suggest<T>(search: impl FnOnce() -> Option<T>) -> Option<T> {
    if SUGGESTING.replace(true) {
        return None;
    }
    let found = search();
    SUGGESTING.set(false);
    found
}

/// Whether a suggestion is being tried.
pub(super) fn suggesting() -> bool {
    SUGGESTING.get()
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

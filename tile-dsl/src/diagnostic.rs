//! Diagnostics: what is wrong, where, and what to write instead.

use crate::span::SpanId;
use serde::{Deserialize, Serialize};

/// One mistake. The macro crate turns it into a `rustc` error at `span`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// What to underline.
    pub span: SpanId,
    /// Which condition failed, with the numbers in it. One sentence, lower case, no full stop.
    pub message: String,
    /// Loads, loops or parent directives involved; printed as `file:line` with an excerpt where they have a span.
    pub notes: Vec<Note>,
    /// A legal alternative that was checked.
    pub help: Option<String>,
}

/// A remark attached to a [`Diagnostic`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// Source it speaks of, or [`SpanId::NONE`].
    pub span: SpanId,
    /// Text.
    pub text: String,
}

impl Diagnostic {
    /// A diagnostic without notes.
    pub fn new(span: SpanId, message: impl Into<String>) -> Self {
        Diagnostic { span, message: message.into(), notes: Vec::new(), help: None }
    }

    /// Adds a note.
    pub fn note(mut self, span: SpanId, text: impl Into<String>) -> Self {
        self.notes.push(Note { span, text: text.into() });
        self
    }

    /// Sets the help.
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help = Some(text.into());
        self
    }
}

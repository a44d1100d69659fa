//! Diagnostics: what is wrong, where, and what to write instead.

use crate::span::SpanId;
use serde::{Deserialize, Serialize};
use std::fmt::Display;

/// One mistake. The macro crate turns it into a `rustc` error at `span`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// What to underline.
    pub span: SpanId,
    /// Which condition failed, with the numbers in it. One sentence, lower case, no full stop.
    pub message: String,
    /// Loads, loops or parent directives involved; printed as `file:line` with an excerpt where they have a span.
    pub notes: Vec<Note>,
    /// An edit that mends the mistake. It was tried.
    pub help: Option<String>,
    /// The piece of source that the help rewrites, where only its place is known here.
    pub rewrite: Option<Box<Rewrite>>,
    /// Edits of the schedule that may mend it, the least first. The engine tries them and makes one the help.
    pub edits: Vec<Edit>,
    /// Where the reference describes the directive or the operation at fault.
    pub card: Option<Box<Card>>,
}

/// A heading of a page of the reference, from the root of the repository: `docs/directives.md#tile`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Card(pub String);

/// What to write before and after a piece of source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rewrite {
    /// The piece.
    pub span: SpanId,
    /// Text before it.
    pub before: String,
    /// Text after it.
    pub after: String,
}

/// An edit of a schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Edit {
    /// Whether the directive at fault goes.
    pub instead: bool,
    /// Directives to add, as they are written, in place of those of the same key.
    pub put: Vec<String>,
    /// A name, and another for it, in all that the schedule itself says.
    pub rename: Option<(String, String)>,
    /// What it costs or achieves; printed in parentheses.
    pub remark: Option<String>,
}

impl Edit {
    /// Adds directives, or gives those of the same key other arguments.
    pub fn put(directives: impl IntoIterator<Item = impl Display>) -> Self {
        let put = directives.into_iter().map(|directive| directive.to_string()).collect();
        Edit { instead: false, put, rename: None, remark: None }
    }

    /// Directives in place of the one at fault.
    pub fn instead(directives: impl IntoIterator<Item = impl Display>) -> Self {
        Edit { instead: true, ..Edit::put(directives) }
    }

    /// The directive at fault goes.
    pub fn remove() -> Self {
        Edit { instead: true, put: Vec::new(), rename: None, remark: None }
    }

    /// Another name wherever the schedule itself uses one.
    pub fn rename(from: impl Into<String>, to: impl Into<String>) -> Self {
        Edit { instead: false, put: Vec::new(), rename: Some((from.into(), to.into())), remark: None }
    }

    /// Says what it costs or achieves.
    pub fn remark(mut self, text: impl Into<String>) -> Self {
        self.remark = Some(text.into());
        self
    }
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
        Diagnostic {
            span,
            message: message.into(),
            notes: Vec::new(),
            help: None,
            rewrite: None,
            edits: Vec::new(),
            card: None,
        }
    }

    /// Adds a note.
    pub fn note(mut self, span: SpanId, text: impl Into<String>) -> Self {
        self.notes.push(Note { span, text: text.into() });
        self
    }

    /// Adds a remark on no source in particular: a rule, a list of names, what to look for.
    pub fn remark(self, text: impl Into<String>) -> Self {
        self.note(SpanId::NONE, text)
    }

    /// Adds edits to try.
    pub fn edits(mut self, edits: impl IntoIterator<Item = Edit>) -> Self {
        self.edits.extend(edits);
        self
    }

    /// Names the card of what is at fault.
    pub fn card(mut self, place: impl Into<Option<String>>) -> Self {
        self.card = place.into().map(|place| Box::new(Card(place)));
        self
    }

    /// Sets the help: a piece of source with more before and after it.
    pub fn rewrite(mut self, span: SpanId, before: impl Into<String>, after: impl Into<String>) -> Self {
        self.rewrite = Some(Box::new(Rewrite { span, before: before.into(), after: after.into() }));
        self
    }

    /// Sets the help: an edit of the source, worded as [`replace`] does.
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help = Some(text.into());
        self
    }
}

/// The help that replaces one piece of source by another.
pub fn replace(old: impl Display, new: impl Display) -> String {
    format!("replace `{old}` by `{new}`")
}

/// `` `a`, `b` and `c` ``.
pub fn list(names: &[impl AsRef<str>]) -> String {
    let quoted: Vec<String> = names.iter().map(|n| format!("`{}`", n.as_ref())).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

/// Whether two names differ by one edit.
pub fn near(a: &str, b: &str) -> bool {
    a.chars().count().min(b.chars().count()) > 1 && distance(a, b) <= 1
}

/// Edit distance (Wagner and Fischer 1974).
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let substitute = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

//! Keys: what a directive acts on. A child's directive replaces its parent's of the same key, `drop(..)` removes by key.

use super::{DigitName, Directive};
use std::fmt;

/// Key of a directive, printed as `drop` takes it: `bind(i)`, `stage(a)`, `occupancy`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Name of the directive.
    pub directive: String,
    /// What it acts on; absent for directives of the whole kernel.
    pub subject: Option<String>,
    /// The statement it is restricted to, if any.
    pub within: Option<String>,
}

impl Key {
    /// A key as written in `drop(..)`; a bare tiled axis and its digit are one subject.
    pub fn new(directive: &str, subject: Option<&str>, within: Option<&str>) -> Self {
        Key {
            directive: directive.to_string(),
            subject: subject.map(|s| subject_of(directive, s)),
            within: within.map(str::to_string),
        }
    }
}

/// `k` in `pipeline(k)` and `split_k(k)` means `k.o`, everywhere else a bare axis means `k.t`: both spellings are one key.
fn subject_of(directive: &str, subject: &str) -> DigitName {
    let implied = if matches!(directive, "pipeline" | "split_k" | "produce") { ".o" } else { ".t" };
    subject.strip_suffix(implied).unwrap_or(subject).to_string()
}

impl Directive {
    /// The key of this directive.
    pub fn key(&self) -> Key {
        Key::new(self.kind.name(), self.kind.subject(), self.kind.within())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.directive)?;
        match (&self.subject, &self.within) {
            (Some(s), Some(w)) => write!(f, "({s} in {w})"),
            (Some(s), None) => write!(f, "({s})"),
            (None, Some(w)) => write!(f, "(in {w})"),
            (None, None) => Ok(()),
        }
    }
}

//! The names in a directive, and its key: what it acts on. A child's directive replaces its parent's of the same key, `drop(..)`
//! removes by key.

use super::{
    Directive, DirectiveKind,
    grammar::{Many, Row, Syntax},
    rows,
};
use std::fmt;

/// The names in a directive that are of the kernel or of other directives: all but those that `split` makes.
#[derive(Default)]
pub(super) struct Names<'a> {
    /// In the order written.
    pub all: Vec<&'a mut String>,
    /// Whether the first is what it acts on, its key.
    pub subject: bool,
    /// The statement that it is restricted to, among `all`.
    within: Option<usize>,
    /// Whether a bare axis as the subject means its loop over tiles.
    tiles: bool,
    /// Whether what it acts on may have an index.
    indexed: bool,
}

impl<'a> Names<'a> {
    pub fn of(kind: &'a mut DirectiveKind) -> Self {
        let mut names = Names::default();
        kind.walk(&mut names);
        names
    }
}

impl DirectiveKind {
    /// The names in it that are of the kernel or of other directives: all but those that `split` makes. What it acts on
    /// comes first.
    pub fn names_mut(&mut self) -> Vec<&mut String> {
        Names::of(self).all
    }
}

impl Row {
    /// Whether what it acts on may have an index.
    pub fn is_indexed(&self) -> bool {
        Names::of(&mut (self.blank)()).indexed
    }

    /// Whether it acts on the whole kernel and so has no subject.
    pub fn whole_kernel(&self) -> bool {
        !Names::of(&mut (self.blank)()).subject
    }
}

impl<'a> Syntax<'a> for Names<'a> {
    fn subject(&mut self, name: &'a mut String, _: &'static str, many: Many) -> &mut Self {
        (self.subject, self.tiles) = (true, many == Many::Tiles);
        self.all.push(name);
        self
    }
    fn name(&mut self, name: &'a mut String, _: &'static str) -> &mut Self {
        self.all.push(name);
        self
    }
    fn names(&mut self, names: &'a mut Vec<String>, _: &'static str) -> &mut Self {
        self.all.extend(names);
        self
    }
    fn optional(&mut self, word: &'static str, name: &'a mut Option<String>, _: &'static str) -> &mut Self {
        if let Some(name) = name {
            self.within = (word == "in").then_some(self.all.len());
            self.all.push(name);
        }
        self
    }
    fn indexed(&mut self) -> &mut Self {
        self.indexed = true;
        self
    }
    fn has(&mut self, _: &'static str, written: bool) -> bool {
        written
    }
}

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
        let row = rows().iter().find(|row| row.name() == directive);
        let tiles = row.is_some_and(|row| Names::of(&mut (row.blank)()).tiles);
        Key::of(directive, subject, within, tiles)
    }

    /// `k` in `pipeline(k)` means `k.o`, where no loop over tiles is wanted `k.t`: both spellings are one key.
    fn of(directive: &str, subject: Option<&str>, within: Option<&str>, tiles: bool) -> Self {
        let implied = if tiles { ".o" } else { ".t" };
        Key {
            directive: directive.to_string(),
            subject: subject.map(|s| s.strip_suffix(implied).unwrap_or(s).to_string()),
            within: within.map(str::to_string),
        }
    }
}

impl Directive {
    /// The key of this directive.
    pub fn key(&self) -> Key {
        let mut kind = self.kind.clone();
        let names = Names::of(&mut kind);
        let subject = names.all.first().filter(|_| names.subject);
        let within = names.within.map(|n| names.all[n].as_str());
        Key::of(self.kind.name(), subject.map(|s| s.as_str()), within, names.tiles)
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

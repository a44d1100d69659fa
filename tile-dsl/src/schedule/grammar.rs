//! What the grammar of a directive is written in.
//!
//! Each [row](crate::directive) walks over the fields of its directive, in the order in which they are
//! written, and says what stands between them:
//!
//! ```text
//! "fits(N <= 1024)" in Assume, 0: Fits { dim: String, max: u32 } => |s| s.each(dim, "a dim").mark("<=").number(max);
//! ```
//! Who walks decides what happens: [`Reader`](super::read) sets the fields from tokens, [`Printer`](super::print) writes them,
//! [`Names`](super::names::Names) collects the names in them. So a walk sets nothing but fields, and does the same whoever walks.

use super::Phase;
use crate::directive::DirectiveKind;
use crate::{
    machine::{Across, Evict, Level, Order, Space, Start, Unit, UnitDim},
    nest::{Atom, Fraction},
};
use std::fmt::Display;

/// What a grammar consists of, with what it is to one who passes it by. After a mistake nothing more is read.
pub(crate) trait Syntax<'a> {
    /// What the directive acts on.
    fn subject(&mut self, name: &'a mut String, wanted: &'static str, many: Many) -> &mut Self;
    /// Another name.
    fn name(&mut self, name: &'a mut String, wanted: &'static str) -> &mut Self;
    /// Names.
    fn names(&mut self, names: &'a mut Vec<String>, wanted: &'static str) -> &mut Self;
    /// A name after a word, or neither.
    fn optional(
        &mut self,
        word: &'static str,
        name: &'a mut Option<String>,
        wanted: &'static str,
    ) -> &mut Self;
    /// Whether a mark stands there that what follows depends on. `written` says so of a directive that is there.
    fn has(&mut self, mark: &'static str, written: bool) -> bool;

    /// What it acts on, where it may be given several, each with all that follows: `tile(i = 32, j = 8)`.
    fn each(&mut self, name: &'a mut String, wanted: &'static str) -> &mut Self {
        self.subject(name, wanted, Many::Each)
    }
    /// What it acts on, where several share what follows: `stage(a, b at k: shared)`.
    fn alike(&mut self, name: &'a mut String, wanted: &'static str) -> &mut Self {
        self.subject(name, wanted, Many::Alike)
    }
    /// What it acts on, one of it.
    fn one(&mut self, name: &'a mut String, wanted: &'static str) -> &mut Self {
        self.subject(name, wanted, Many::One)
    }
    /// The loop that it acts on, of a bare axis the one over tiles.
    fn tiles(&mut self, name: &'a mut String) -> &mut Self {
        self.subject(name, "a loop", Many::Tiles)
    }

    /// What it acts on may have an index, which says how it is read: `a[i, k]`.
    fn indexed(&mut self) -> &mut Self {
        self
    }
    /// A mark or a word that has to stand there.
    fn mark(&mut self, _mark: &'static str) -> &mut Self {
        self
    }
    /// Names that the directive makes.
    fn new_names(&mut self, _names: &mut Vec<String>) -> &mut Self {
        self
    }
    /// A number, not 0.
    fn number(&mut self, _number: &mut u32) -> &mut Self {
        self
    }
    /// A number that may be 0.
    fn level(&mut self, _number: &mut u32, _wanted: &'static str) -> &mut Self {
        self
    }
    /// Numbers, none of them 0.
    fn numbers(&mut self, _numbers: &mut Vec<u32>) -> &mut Self {
        self
    }
    /// One of several words; `what` they are, for messages.
    fn one_of<T: Word>(&mut self, _word: &mut T, _what: &'static str, _known: &[T]) -> &mut Self {
        self
    }
    /// An instruction of the tensor cores.
    fn atom(&mut self, _atom: &mut Atom) -> &mut Self {
        self
    }
    /// Any of some options, each after a comma.
    fn options(&mut self, _options: &mut [Extra<'_>]) -> &mut Self {
        self
    }
    /// At least one of some options, each once and in their order.
    fn some_of(&mut self, _options: &mut [Extra<'_>]) -> &mut Self {
        self
    }
    /// The place of what comes next.
    fn here(&self) -> usize {
        0
    }
    /// A condition on what was read, with the place that it is about.
    fn check(&mut self, _at: usize, _holds: bool, _message: impl FnOnce() -> String) -> &mut Self {
        self
    }
}

/// How many a directive may act on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Many {
    /// Several, each with all that follows.
    Each,
    /// Several that share what follows.
    Alike,
    /// One.
    One,
    /// One, a loop over tiles.
    Tiles,
}

/// A word of several, with a number in parentheses if it has one.
pub(crate) trait Word: Copy + PartialEq + Display {
    /// Its number.
    fn number(&mut self) -> Option<&mut u32> {
        None
    }
}

impl Word for &'static str {}
impl Word for Space {}
impl Word for Unit {}
impl Word for UnitDim {}
impl Word for Level {}
impl Word for Across {}
impl Word for Evict {}
impl Word for Start {}
impl Word for Order {
    fn number(&mut self) -> Option<&mut u32> {
        match self {
            Order::Grouped(n) | Order::Serpentine(n) | Order::Backwards(n) => Some(n),
            Order::Row | Order::Column | Order::Hilbert | Order::Reversed => None,
        }
    }
}

/// A word that may be left out.
pub(crate) struct Extra<'o> {
    /// With an example of what is in its parentheses.
    pub form: &'static str,
    /// Whether it is there.
    pub said: Said<'o>,
    /// The option that it stands after, and why.
    pub after: Option<(&'static str, &'static str)>,
}

/// What a word that may be left out says.
pub(crate) enum Said<'o> {
    Flag(&'o mut bool),
    Number(&'o mut Option<u32>),
    Part(&'o mut Option<Fraction>),
}

impl<'o> Extra<'o> {
    pub fn flag(form: &'static str, flag: &'o mut bool) -> Self {
        Extra { form, said: Said::Flag(flag), after: None }
    }

    /// `vector(16)`.
    pub fn number(form: &'static str, number: &'o mut Option<u32>) -> Self {
        Extra { form, said: Said::Number(number), after: None }
    }

    /// `loads(3/8)`.
    pub fn part(form: &'static str, part: &'o mut Option<Fraction>) -> Self {
        Extra { form, said: Said::Part(part), after: None }
    }

    /// It stands after another, which `why` says.
    pub fn after(self, other: &'static str, why: &'static str) -> Self {
        Extra { after: Some((other, why)), ..self }
    }

    pub fn word(&self) -> &'static str {
        word_of(self.form)
    }

    pub fn is_said(&self) -> bool {
        match &self.said {
            Said::Flag(flag) => **flag,
            Said::Number(number) => number.is_some(),
            Said::Part(part) => part.is_some(),
        }
    }
}

/// The word that an example begins with.
pub(crate) fn word_of(form: &str) -> &str {
    form.split_once('(').map_or(form, |(word, _)| word)
}

/// How a directive is written, and when it applies.
pub(crate) trait Grammar {
    /// An example, for messages.
    const FORM: &'static str;
    /// When it applies.
    const PHASE: Phase;
    /// Place among the directives of its phase, for those that need others first.
    const RANK: u8;

    /// The directive with what holds where nothing is said.
    fn blank() -> Self;

    /// Walks over its arguments in the order in which they are written.
    fn walk<'a, S: Syntax<'a>>(&'a mut self, syntax: &mut S);
}

/// What there is to know of a directive whatever its arguments.
#[derive(Debug)]
pub struct Row {
    /// An example, for messages.
    pub form: &'static str,
    /// When it applies.
    pub phase: Phase,
    /// Place among the directives of its phase, for those that need others first.
    pub(crate) rank: u8,
    /// The directive with what holds where nothing is said.
    pub(crate) blank: fn() -> DirectiveKind,
}

impl Row {
    /// Name of the directive.
    pub fn name(&self) -> &'static str {
        word_of(self.form)
    }

    /// Where its card is, from the root of the repository.
    pub fn place(&self) -> String {
        format!("docs/directives.md#{}", self.name())
    }
}

//! Rewrite rules: two patterns and a condition that says why not.

use super::facts::Graph;
use super::language::Node;
use crate::diagnostic::Diagnostic;
use egg::{Id, Pattern, Subst, Var};

/// What a condition says of one match.
pub(crate) enum Verdict {
    /// The rule applies.
    Apply,
    /// The rule has no business here (another digit, already done): not worth a word.
    Skip,
    /// The rule would apply, but a condition fails.
    Refuse(Box<Diagnostic>),
}

impl Verdict {
    pub fn refuse(d: Diagnostic) -> Self {
        Verdict::Refuse(Box::new(d))
    }
}

type Condition<'a> = Box<dyn Fn(&mut Graph, &mut Subst) -> Verdict + 'a>;

/// `before → after if condition`. The condition may bind variables that only `after` mentions.
pub(crate) struct Rule<'a> {
    pub name: &'static str,
    pub before: &'static Pattern<Node>,
    pub after: &'static Pattern<Node>,
    pub condition: Condition<'a>,
}

impl<'a> Rule<'a> {
    pub fn new(
        name: &'static str,
        before: &'static Pattern<Node>,
        after: &'static Pattern<Node>,
        condition: impl Fn(&mut Graph, &mut Subst) -> Verdict + 'a,
    ) -> Self {
        Rule { name, before, after, condition: Box::new(condition) }
    }
}

/// Whether a conjunct of a condition is in force. Where debug assertions are, tests switch them off one at a time, to see that
/// each is needed.
#[cfg(not(debug_assertions))]
pub(crate) const fn enforced(_conjunct: &'static str) -> bool {
    true
}

#[cfg(debug_assertions)]
thread_local! {
    pub(crate) static OFF: std::cell::Cell<&'static str> = const { std::cell::Cell::new("") };
}

#[cfg(debug_assertions)]
pub(crate) fn enforced(conjunct: &'static str) -> bool {
    OFF.get() != conjunct
}

/// Declares patterns, parsed once. Variables are numbers: `?#0`.
macro_rules! patterns {
    ($($name:ident = $text:literal;)*) => {$(
        static $name: std::sync::LazyLock<egg::Pattern<$crate::engine::language::Node>> =
            std::sync::LazyLock::new(|| $text.parse().expect("a pattern over statements and variables"));
    )*};
}
pub(crate) use patterns;

/// The class that a variable is bound to.
pub(crate) fn get(subst: &Subst, var: u32) -> Id {
    *subst.get(Var::from_u32(var)).expect("bound by the pattern")
}

/// Binds a variable of the right-hand side.
pub(crate) fn set(subst: &mut Subst, var: u32, id: Id) {
    subst.insert(Var::from_u32(var), id);
}

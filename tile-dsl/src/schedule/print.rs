//! Writes directives as they are read, with what holds where nothing is said left out.

use super::{
    Directive, DirectiveKind,
    grammar::{Extra, Many, Said, Syntax, Word},
};
use crate::nest::Atom;
use std::fmt::{self, Write};

impl fmt::Display for DirectiveKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printer = Printer(String::new());
        // The walk is one that could set the fields.
        self.clone().walk(&mut printer);
        write!(f, "{}({})", self.name(), printer.0)
    }
}

impl fmt::Display for Directive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

/// What stands in the parentheses.
struct Printer(String);

impl Printer {
    fn put(&mut self, text: impl fmt::Display) -> &mut Self {
        let _ = write!(self.0, "{text}");
        self
    }

    fn list(&mut self, members: impl IntoIterator<Item = impl fmt::Display>) -> &mut Self {
        for (n, member) in members.into_iter().enumerate() {
            self.put(if n == 0 { "" } else { ", " }).put(member);
        }
        self
    }
}

/// The options that are there, as written.
fn said(options: &[Extra<'_>]) -> Vec<String> {
    let text = |option: &Extra<'_>| {
        let word = option.word();
        match &option.said {
            Said::Flag(flag) => flag.then(|| word.to_string()),
            Said::Number(number) => number.map(|n| format!("{word}({n})")),
            Said::Part(part) => part.map(|part| format!("{word}({part})")),
        }
    };
    options.iter().filter_map(text).collect()
}

impl<'a> Syntax<'a> for Printer {
    fn mark(&mut self, mark: &'static str) -> &mut Self {
        match mark {
            "." => self.put(mark),
            ":" | "," | ";" => self.put(mark).put(" "),
            _ => self.put(" ").put(mark).put(" "),
        }
    }
    fn has(&mut self, mark: &'static str, written: bool) -> bool {
        if written {
            self.mark(mark);
        }
        written
    }
    fn subject(&mut self, name: &'a mut String, _: &'static str, _: Many) -> &mut Self {
        self.put(name)
    }
    fn name(&mut self, name: &'a mut String, _: &'static str) -> &mut Self {
        self.put(name)
    }
    fn optional(&mut self, word: &'static str, name: &'a mut Option<String>, _: &'static str) -> &mut Self {
        match name {
            Some(name) => self.mark(word).put(name),
            None => self,
        }
    }
    fn names(&mut self, names: &'a mut Vec<String>, _: &'static str) -> &mut Self {
        self.list(names)
    }
    fn new_names(&mut self, names: &mut Vec<String>) -> &mut Self {
        self.list(names)
    }
    fn number(&mut self, number: &mut u32) -> &mut Self {
        self.put(number)
    }
    fn level(&mut self, number: &mut u32, _: &'static str) -> &mut Self {
        self.put(number)
    }
    fn numbers(&mut self, numbers: &mut Vec<u32>) -> &mut Self {
        self.list(numbers)
    }
    fn one_of<T: Word>(&mut self, word: &mut T, _: &'static str, _: &[T]) -> &mut Self {
        self.put(word)
    }
    fn atom(&mut self, atom: &mut Atom) -> &mut Self {
        self.put(atom)
    }
    fn options(&mut self, options: &mut [Extra<'_>]) -> &mut Self {
        for option in said(options) {
            self.mark(",").put(option);
        }
        self
    }
    fn some_of(&mut self, options: &mut [Extra<'_>]) -> &mut Self {
        self.list(said(options))
    }
}

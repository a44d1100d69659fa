//! The numbers in a directive.

use super::{
    DirectiveKind,
    grammar::{Extra, Said, Syntax, Word},
};

impl DirectiveKind {
    /// Calls `each` with every number in it, in the order written, which it may change. The shape of an instruction is none: it is
    /// one of a table.
    pub fn numbers(&mut self, each: &mut dyn FnMut(&mut u32)) {
        self.walk(&mut Numbers(each));
    }
}

/// Visits the numbers.
struct Numbers<'f>(&'f mut dyn FnMut(&mut u32));

impl Numbers<'_> {
    fn said(&mut self, options: &mut [Extra<'_>]) {
        for option in options {
            match &mut option.said {
                Said::Flag(_) => {}
                Said::Number(number) => number.iter_mut().for_each(&mut *self.0),
                Said::Part(part) => part.iter_mut().for_each(|part| {
                    (self.0)(&mut part.parts);
                    (self.0)(&mut part.of);
                }),
            }
        }
    }
}

impl<'a> Syntax<'a> for Numbers<'_> {
    fn subject(&mut self, _: &'a mut String, _: &'static str, _: super::grammar::Many) -> &mut Self {
        self
    }
    fn name(&mut self, _: &'a mut String, _: &'static str) -> &mut Self {
        self
    }
    fn names(&mut self, _: &'a mut Vec<String>, _: &'static str) -> &mut Self {
        self
    }
    fn optional(&mut self, _: &'static str, _: &'a mut Option<String>, _: &'static str) -> &mut Self {
        self
    }
    fn has(&mut self, _: &'static str, written: bool) -> bool {
        written
    }
    fn number(&mut self, number: &mut u32) -> &mut Self {
        (self.0)(number);
        self
    }
    fn level(&mut self, number: &mut u32, _: &'static str) -> &mut Self {
        (self.0)(number);
        self
    }
    fn numbers(&mut self, numbers: &mut Vec<u32>) -> &mut Self {
        numbers.iter_mut().for_each(&mut *self.0);
        self
    }
    fn one_of<T: Word>(&mut self, word: &mut T, _: &'static str, _: &[T]) -> &mut Self {
        word.number().into_iter().for_each(&mut *self.0);
        self
    }
    fn options(&mut self, options: &mut [Extra<'_>]) -> &mut Self {
        self.said(options);
        self
    }
    fn some_of(&mut self, options: &mut [Extra<'_>]) -> &mut Self {
        self.said(options);
        self
    }
}

//! Writes the grammar of a directive in EBNF.

use super::{
    Row,
    grammar::{Extra, Many, Said, Syntax, Word, word_of},
};
use crate::nest::Atom;

impl Row {
    /// How the directive is written, in EBNF: `"tile" , "(" , axis , "=" , number , ")"`.
    pub fn ebnf(&self) -> String {
        let mut out = Ebnf { parts: Vec::new(), open: 0, indexed: false, each: false };
        (self.blank)().walk(&mut out);
        let mut inside = out.parts.join(" , ");
        inside.push_str(&" ]".repeat(out.open));
        // An opening bracket is no part of its own.
        let inside = inside.replace("[ , ", "[ ");
        let inside = if out.each {
            format!("member , {{ \",\" , member }} , \")\"   (* member = {inside} *)")
        } else {
            format!("{inside} , \")\"")
        };
        format!("\"{}\" , \"(\" , {inside}", self.name())
    }
}

/// Parts of a production, in the order written.
struct Ebnf {
    parts: Vec<String>,
    /// Brackets that nothing has closed: what follows depends on what stands in front of it.
    open: usize,
    /// Whether what it acts on may have an index.
    indexed: bool,
    /// Whether all of it may stand several times.
    each: bool,
}

/// `loop` of `a pipelined loop`, `( tensor | value )` of `a tensor or a value`.
fn noun(wanted: &str) -> String {
    let last = |phrase: &str| match phrase.split(' ').next_back().unwrap_or(phrase) {
        "accumulator" => "value".to_string(),
        noun => noun.to_string(),
    };
    // `the name of a value`.
    let nouns: Vec<String> = wanted.split(" or ").map(last).collect();
    if nouns.len() > 1 { format!("( {} )", nouns.join(" | ")) } else { nouns.concat() }
}

impl Ebnf {
    fn put(&mut self, part: impl Into<String>) -> &mut Self {
        self.parts.push(part.into());
        self
    }

    fn list(&mut self, of: &str) -> &mut Self {
        self.put(format!("{of} , {{ \",\" , {of} }}"))
    }

    fn any(words: &[String]) -> String {
        if words.len() > 1 { format!("( {} )", words.join(" | ")) } else { words.concat() }
    }
}

fn option(option: &Extra<'_>) -> String {
    let word = option.word();
    match option.said {
        Said::Flag(_) => format!("\"{word}\""),
        Said::Number(_) => format!("\"{word}\" , \"(\" , number , \")\""),
        Said::Part(_) => format!("\"{word}\" , \"(\" , number , \"/\" , number , \")\""),
    }
}

impl<'a> Syntax<'a> for Ebnf {
    fn subject(&mut self, _: &'a mut String, wanted: &'static str, many: Many) -> &mut Self {
        let index = if self.indexed { " , [ index ]" } else { "" };
        let noun = format!("{}{index}", noun(wanted));
        self.each = many == Many::Each;
        if many == Many::Alike { self.list(&noun) } else { self.put(noun) }
    }
    fn name(&mut self, _: &'a mut String, wanted: &'static str) -> &mut Self {
        self.put(noun(wanted))
    }
    fn names(&mut self, _: &'a mut Vec<String>, wanted: &'static str) -> &mut Self {
        self.list(&noun(wanted))
    }
    fn optional(&mut self, word: &'static str, _: &'a mut Option<String>, wanted: &'static str) -> &mut Self {
        self.put(format!("[ \"{word}\" , {} ]", noun(wanted)))
    }
    fn has(&mut self, mark: &'static str, _: bool) -> bool {
        self.open += 1;
        self.put("[").put(format!("\"{mark}\""));
        true
    }
    fn indexed(&mut self) -> &mut Self {
        self.indexed = true;
        self
    }
    fn mark(&mut self, mark: &'static str) -> &mut Self {
        self.put(format!("\"{mark}\""))
    }
    fn new_names(&mut self, _: &mut Vec<String>) -> &mut Self {
        self.list("name")
    }
    fn number(&mut self, _: &mut u32) -> &mut Self {
        self.put("number")
    }
    fn level(&mut self, _: &mut u32, _: &'static str) -> &mut Self {
        self.put("level")
    }
    fn numbers(&mut self, _: &mut Vec<u32>) -> &mut Self {
        self.list("number")
    }
    fn one_of<T: Word>(&mut self, _: &mut T, _: &'static str, known: &[T]) -> &mut Self {
        let word = |word: &T| match (word.to_string(), (*word).clone().number().is_some()) {
            (text, true) => format!("\"{}\" , \"(\" , number , \")\"", word_of(&text)),
            (text, false) => format!("\"{text}\""),
        };
        let words: Vec<String> = known.iter().map(word).collect();
        self.put(Ebnf::any(&words))
    }
    fn atom(&mut self, _: &mut Atom) -> &mut Self {
        self.put("atom")
    }
    fn options(&mut self, options: &mut [Extra<'_>]) -> &mut Self {
        let words: Vec<String> = options.iter().map(option).collect();
        self.put(format!("{{ \",\" , {} }}", Ebnf::any(&words)))
    }
    fn some_of(&mut self, options: &mut [Extra<'_>]) -> &mut Self {
        let words: Vec<String> = options.iter().map(option).collect();
        let any = Ebnf::any(&words);
        self.list(&any)
    }
}

//! Reads one directive from tokens, by the [rows](crate::directive). What is wrong it says with a place, what would be right,
//! and what was probably meant.

use super::{
    Directive, DirectiveKind, Item, Key,
    grammar::{Extra, Many, Row, Said, Syntax, Word, word_of},
    rows,
    token::{Token, TokenKind},
};
use crate::{
    diagnostic::{list, near, replace},
    nest::{Atom, Fraction, index_name},
    span::SpanId,
};
use std::ops::Range;

/// Why tokens are no directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The token at fault; past the last one where some are missing.
    pub at: usize,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub note: Option<String>,
    /// What was meant.
    pub help: Option<String>,
}

type Read<T> = Result<T, Mistake>;

const DROP: &str = "drop";
const DROP_FORM: &str = "drop(bind(i))";

/// Reads one directive, or a `drop`; a list such as `tile(i = 32, j = 32)` yields an item for each member. `inherited` is the
/// schedule that they are inherited from, `span` enters tokens as a source range: those of the member, or all if it is the
/// only one.
///
/// # Errors
/// The first mistake.
pub fn read(
    tokens: &[Token],
    inherited: Option<&str>,
    mut span: impl FnMut(Range<usize>) -> SpanId,
) -> Result<Vec<Item>, Mistake> {
    let found = statement(tokens)?;
    let single = found.len() == 1;
    let item = |(found, range)| {
        let span = span(if single { 0..tokens.len() } else { range });
        match found {
            Found::Kind(kind) => {
                Item::Directive(Directive { kind, span, inherited: inherited.map(str::to_string) })
            }
            Found::Drop(key) => Item::Drop { key, span },
        }
    };
    Ok(found.into_iter().map(item).collect())
}

enum Found {
    Kind(DirectiveKind),
    Drop(Key),
}

type Members = Vec<(Found, Range<usize>)>;

fn statement(tokens: &[Token]) -> Read<Members> {
    let Some(first) = tokens.first().filter(|token| token.kind == TokenKind::Word) else {
        let note = "directives are `name(arguments);`, such as `tile(i = 32);`";
        return Err(Mistake::new(0, "expected a directive").note(note));
    };
    let name = first.text.as_str();
    let row = rows().iter().find(|row| row.name() == name);
    let form = match row {
        Some(row) => row.form.to_string(),
        None if name == DROP => DROP_FORM.to_string(),
        None => return Err(no_directive(name)),
    };
    let mut reader = Reader {
        tokens,
        at: 1,
        name,
        form,
        many: Many::One,
        indexed: false,
        subjects: Vec::new(),
        mistake: None,
    };
    if !reader.eat("(") {
        return Err(reader.wrong(0, format!("`{name}` needs arguments in parentheses")));
    }
    let found = match row {
        Some(row) => reader.directives(row)?,
        None => reader.drops()?,
    };
    if let Some(token) = reader.next() {
        return Err(reader.wrong(reader.at, format!("unexpected `{}` in `{name}`", token.text)));
    }
    reader.close()?;
    match tokens.get(reader.at) {
        None => Ok(found),
        Some(next) => {
            let mistake = Mistake::new(reader.at, format!("expected `;` after `{name}(..)`"));
            Err(mistake.help(format!("add `;` before `{}`", next.text)))
        }
    }
}

fn no_directive(name: &str) -> Mistake {
    let mistake = Mistake::new(0, format!("unknown directive `{name}`"));
    let names: Vec<&str> = rows().iter().map(Row::name).chain([DROP]).collect();
    match names.iter().find(|known| near(known, name)) {
        Some(meant) => mistake.help(replace(name, meant)),
        None => mistake.note(format!("directives are {}", names.join(", "))),
    }
}

/// A word for one of several: with the one that was probably meant, if there is one.
fn unknown(at: usize, what: &str, word: &str, names: &[&str]) -> Mistake {
    let mistake = Mistake::new(at, format!("unknown {what} `{word}`"));
    let lower = word.to_lowercase();
    let alike = |known: &&str| near(known, &lower) || lower.starts_with(*known) || known.starts_with(&lower);
    match names.iter().copied().find(alike).or((names.len() == 1).then(|| names[0])) {
        Some(meant) => mistake.help(replace(word, meant)),
        None => mistake.note(format!("{what}s are {}", list(names))),
    }
}

/// `` `a`, `b` or `c` ``.
fn or(forms: &[impl AsRef<str>]) -> String {
    match list(forms).rsplit_once(" and ") {
        Some((all, last)) => format!("{all} or {last}"),
        None => list(forms),
    }
}

impl Mistake {
    fn new(at: usize, message: impl Into<String>) -> Self {
        Mistake { at, message: message.into(), note: None, help: None }
    }
    fn note(self, note: impl Into<String>) -> Self {
        Mistake { note: Some(note.into()), ..self }
    }
    fn help(self, help: String) -> Self {
        Mistake { help: Some(help), ..self }
    }
}

struct Reader<'t> {
    tokens: &'t [Token],
    at: usize,
    /// Of the directive.
    name: &'t str,
    /// How the directive is written, with the instruction that is meant.
    form: String,
    /// How many it may act on.
    many: Many,
    /// Whether what it acts on may have an index.
    indexed: bool,
    /// What it acts on, where several share what follows.
    subjects: Vec<(String, Range<usize>)>,
    mistake: Option<Mistake>,
}

impl<'t> Reader<'t> {
    /// The next token, unless the parentheses end.
    fn next(&self) -> Option<&'t Token> {
        self.tokens.get(self.at).filter(|token| token.text != ")")
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.tokens.get(self.at).is_some_and(|token| token.text == text);
        self.at += usize::from(found);
        found
    }

    fn wrong(&self, at: usize, message: impl Into<String>) -> Mistake {
        Mistake::new(at, message).note(format!("the form is `{};`", self.form))
    }

    /// Something else stands here.
    fn expected(&self, wanted: &str) -> Mistake {
        let found = self.next().map(|token| format!(", found `{}`", token.text)).unwrap_or_default();
        self.wrong(self.at, format!("expected {wanted} in `{}`{found}", self.name))
    }

    /// One operator for another, or one word for another.
    fn exchanged(&self, wanted: &str, found: &str) -> Mistake {
        let message = format!("expected `{wanted}` in `{}`, found `{found}`", self.name);
        Mistake::new(self.at, message).help(replace(found, wanted))
    }

    fn expect(&mut self, text: &str) -> Read<()> {
        let word = text.starts_with(char::is_alphabetic);
        let exchanged =
            |token: &&Token| if word { token.kind == TokenKind::Word } else { token.is_operator() };
        match self.next().filter(exchanged) {
            _ if self.eat(text) => Ok(()),
            Some(token) => Err(self.exchanged(text, &token.text)),
            None => Err(self.expected(&format!("`{text}`"))),
        }
    }

    fn close(&mut self) -> Read<()> {
        if self.eat(")") { Ok(()) } else { Err(self.expected("`)`")) }
    }

    fn take(&mut self, kind: TokenKind) -> Option<&'t str> {
        let found = self.next().filter(|token| token.kind == kind)?;
        self.at += 1;
        Some(&found.text)
    }

    fn word(&mut self, wanted: &str) -> Read<&'t str> {
        self.take(TokenKind::Word).ok_or_else(|| self.expected(wanted))
    }

    /// `i`, `i.t`, `e.max`, `v.2`, `y.sum.2`.
    fn dotted(&mut self, wanted: &str) -> Read<String> {
        let mut name = self.word(wanted)?.to_string();
        while self.eat(".") {
            name.push('.');
            name.push_str(match self.take(TokenKind::Number) {
                Some(number) => number,
                None => self.word("a name after the dot")?,
            });
        }
        Ok(name)
    }

    /// `a`, and where the directive takes an index `a[i, k]`.
    fn acted_on(&mut self, wanted: &str) -> Read<String> {
        let name = self.dotted(wanted)?;
        if !self.indexed || !self.eat("[") {
            return Ok(name);
        }
        let mut index = vec![self.index()?];
        while self.eat(",") {
            index.push(self.index()?);
        }
        if self.eat("]") { Ok(index_name(&name, index)) } else { Err(self.expected("`]`")) }
    }

    /// `i`, `2*p + r`, `i - r`, and `0` where no axis moves it: each axis with its factor.
    fn index(&mut self) -> Read<Vec<(String, i64)>> {
        let mut terms: Vec<(String, i64)> = Vec::new();
        let mut sign = if self.eat("-") { -1 } else { 1 };
        if terms.is_empty() && sign == 1 && self.eat("0") {
            return Ok(terms);
        }
        loop {
            let at = self.at;
            let number = self.next().is_some_and(|token| token.kind == TokenKind::Number);
            let factor = if number { i64::from(self.positive()?) } else { 1 };
            if number && !self.eat("*") {
                let why = "one copy serves all reads whose indices differ by constants: write the index without them";
                let note = "an index is `a[2*i + r, k]`, and `0` for a dimension that no axis moves";
                return Err(Mistake::new(at, why).note(note));
            }
            let axis = self.word("an axis")?;
            if terms.iter().any(|(known, _)| known == axis) {
                return Err(self.wrong(at, format!("`{axis}` occurs twice in an index")));
            }
            terms.push((axis.to_string(), sign * factor));
            sign = match () {
                () if self.eat("+") => 1,
                () if self.eat("-") => -1,
                () => return Ok(terms),
            };
        }
    }

    /// A number from `least` on.
    fn count(&mut self, least: u32, wanted: &str) -> Read<u32> {
        let at = self.at;
        let digits = self.next().filter(|token| token.text.chars().all(|c| c.is_ascii_digit()));
        let Some(digits) = digits else { return Err(self.expected(wanted)) };
        self.at += 1;
        match digits.text.parse() {
            Ok(n) if n >= least => Ok(n),
            Ok(n) => Err(self.wrong(at, format!("`{}` takes a number from {least} on, not {n}", self.name))),
            Err(_) => Err(self.wrong(at, "this number does not fit in 32 bits")),
        }
    }

    fn positive(&mut self) -> Read<u32> {
        self.count(1, "a positive number")
    }

    /// What stands in parentheses after a word.
    fn argument<T>(&mut self, what: &str, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        if !self.eat("(") {
            return Err(self.expected(&format!("{what} in parentheses")));
        }
        let found = read(self)?;
        self.close()?;
        Ok(found)
    }

    /// Members with commas between, and perhaps one after the last.
    fn list<T>(&mut self, mut member: impl FnMut(&mut Self) -> Read<T>) -> Read<Vec<T>> {
        let mut members = vec![member(self)?];
        while self.eat(",") && self.next().is_some() {
            members.push(member(self)?);
        }
        Ok(members)
    }

    /// Position of a word among some forms.
    fn known(&mut self, what: &str, forms: &[impl AsRef<str>]) -> Read<usize> {
        let at = self.at;
        let word = self.word(&or(forms))?;
        if let Some(found) = forms.iter().position(|form| word_of(form.as_ref()) == word) {
            return Ok(found);
        }
        // What is in parentheses may stay.
        let argued = self.next().is_some_and(|token| token.text == "(");
        let shown = |form| if argued { word_of(form) } else { form };
        let forms: Vec<&str> = forms.iter().map(|form| shown(form.as_ref())).collect();
        Err(unknown(at, what, word, &forms))
    }

    fn option(&mut self, options: &mut [Extra<'_>]) -> Read<usize> {
        let at = self.at;
        let forms: Vec<&str> = options.iter().map(|option| option.form).collect();
        let found = self.known("option", &forms)?;
        let word = options[found].word();
        if let Some((other, why)) = options[found].after
            && !options.iter().any(|option| option.word() == other && option.is_said())
        {
            let message = format!("`{word}` {why}: it stands after `{other}`");
            return Err(Mistake::new(at, message).help(replace(word, format!("{other}, {word}"))));
        }
        match &mut options[found].said {
            Said::Flag(flag) => **flag = true,
            Said::Number(number) => **number = Some(self.argument("a number", Self::positive)?),
            Said::Part(part) => **part = Some(self.argument("a fraction", Self::fraction)?),
        }
        Ok(found)
    }

    /// `3/8`.
    fn fraction(&mut self) -> Read<Fraction> {
        let parts = self.positive()?;
        self.expect("/")?;
        Ok(Fraction { parts, of: self.positive()? })
    }

    /// `64, 128`.
    fn shape(&mut self) -> Read<[u32; 2]> {
        let m = self.positive()?;
        self.expect(",")?;
        Ok([m, self.positive()?])
    }

    /// Goes on unless something was wrong before.
    fn then(&mut self, read: impl FnOnce(&mut Self) -> Read<()>) -> &mut Self {
        if self.mistake.is_none() {
            self.mistake = read(self).err();
        }
        self
    }

    fn directives(&mut self, row: &Row) -> Read<Members> {
        let mut members = Vec::new();
        loop {
            let start = self.at;
            let mut kind = (row.blank)();
            kind.walk(self);
            if let Some(mistake) = self.mistake.take() {
                return Err(mistake);
            }
            if self.many == Many::Alike {
                let with = |(subject, range)| {
                    let mut kind = kind.clone();
                    *kind.names_mut()[0] = subject;
                    (Found::Kind(kind), range)
                };
                return Ok(std::mem::take(&mut self.subjects).into_iter().map(with).collect());
            }
            members.push((Found::Kind(kind), start..self.at));
            if self.many != Many::Each || !self.eat(",") || self.next().is_none() {
                return Ok(members);
            }
        }
    }

    /// `bind(i), stage(a, b), unroll(k in acc), order`.
    fn drops(&mut self) -> Read<Members> {
        let keys = self.list(|reader| {
            let start = reader.at;
            let keys = reader.keys()?;
            Ok(keys.into_iter().map(|key| (Found::Drop(key), start..reader.at)).collect::<Vec<_>>())
        })?;
        Ok(keys.into_iter().flatten().collect())
    }

    fn keys(&mut self) -> Read<Vec<Key>> {
        let at = self.at;
        let name = self.word("the name of a directive")?;
        let Some(row) = rows().iter().find(|row| row.name() == name) else {
            let names: Vec<&str> = rows().iter().map(Row::name).collect();
            return Err(unknown(at, "directive", name, &names));
        };
        let whole = row.whole_kernel();
        if !self.eat("(") {
            return if whole {
                Ok(vec![Key::new(name, None, None)])
            } else {
                let note = format!("the form is `drop({name}(..));`, with what it acts on");
                Err(Mistake::new(at, format!("`drop({name})` does not say which")).note(note))
            };
        }
        self.indexed = row.is_indexed();
        let subjects = if whole { vec![] } else { self.list(|r| r.acted_on("what it acts on"))? };
        let within = if self.eat("in") { Some(self.dotted("the name of a value")?) } else { None };
        self.close()?;
        Ok(match whole {
            true => vec![Key::new(name, None, within.as_deref())],
            false => subjects.iter().map(|s| Key::new(name, Some(s), within.as_deref())).collect(),
        })
    }
}

impl<'a> Syntax<'a> for Reader<'_> {
    fn subject(&mut self, name: &'a mut String, wanted: &'static str, many: Many) -> &mut Self {
        self.then(|r| {
            r.many = many;
            if many != Many::Alike {
                *name = r.acted_on(wanted)?;
                return Ok(());
            }
            r.subjects = r.list(|r| {
                let start = r.at;
                Ok((r.acted_on(wanted)?, start..r.at))
            })?;
            name.clone_from(&r.subjects[0].0);
            Ok(())
        })
    }
    fn name(&mut self, name: &'a mut String, wanted: &'static str) -> &mut Self {
        self.then(|r| r.dotted(wanted).map(|found| *name = found))
    }
    fn names(&mut self, names: &'a mut Vec<String>, wanted: &'static str) -> &mut Self {
        self.then(|r| r.list(|r| r.dotted(wanted)).map(|found| *names = found))
    }
    fn optional(
        &mut self,
        word: &'static str,
        name: &'a mut Option<String>,
        wanted: &'static str,
    ) -> &mut Self {
        self.then(|r| {
            if r.eat(word) {
                *name = Some(r.dotted(wanted)?);
            }
            Ok(())
        })
    }
    fn indexed(&mut self) -> &mut Self {
        self.indexed = true;
        self
    }
    fn has(&mut self, mark: &'static str, _: bool) -> bool {
        self.mistake.is_none() && self.eat(mark)
    }
    fn mark(&mut self, mark: &'static str) -> &mut Self {
        self.then(|r| r.expect(mark))
    }
    fn new_names(&mut self, names: &mut Vec<String>) -> &mut Self {
        self.then(|r| r.list(|r| r.word("a name").map(str::to_string)).map(|found| *names = found))
    }
    fn number(&mut self, number: &mut u32) -> &mut Self {
        self.then(|r| r.positive().map(|found| *number = found))
    }
    fn level(&mut self, number: &mut u32, wanted: &'static str) -> &mut Self {
        self.then(|r| r.count(0, wanted).map(|found| *number = found))
    }
    fn numbers(&mut self, numbers: &mut Vec<u32>) -> &mut Self {
        self.then(|r| r.list(Self::positive).map(|found| *numbers = found))
    }
    fn one_of<T: Word>(&mut self, word: &mut T, what: &'static str, known: &[T]) -> &mut Self {
        self.then(|r| {
            let forms: Vec<String> = known.iter().map(T::to_string).collect();
            *word = known[r.known(what, &forms)?];
            if let Some(number) = word.number() {
                *number = r.argument("a number", Self::positive)?;
            }
            Ok(())
        })
    }
    fn atom(&mut self, atom: &mut Atom) -> &mut Self {
        let forms = Atom::forms();
        self.then(|r| {
            let at = r.at;
            let form = forms[r.known("instruction", &forms)?];
            let name = word_of(form);
            r.form = r.form.replace(forms[0], form);
            let shaped = r.next().is_some_and(|token| token.text == "(");
            let shape = shaped.then(|| r.argument("a shape", Self::shape)).transpose()?;
            *atom = Atom::from_name(name, shape).map_err(|message| r.wrong(at, message))?;
            Ok(())
        })
    }
    fn options(&mut self, options: &mut [Extra<'_>]) -> &mut Self {
        self.then(|r| {
            while r.eat(",") && r.next().is_some() {
                r.option(options)?;
            }
            Ok(())
        })
    }
    fn some_of(&mut self, options: &mut [Extra<'_>]) -> &mut Self {
        self.then(|r| {
            let mut next = 0;
            r.list(|r| {
                let at = r.at;
                let found = r.option(options)?;
                let words: Vec<&str> = options.iter().map(Extra::word).collect();
                if found < next {
                    let (word, order) = (words[found], words.join(", "));
                    return Err(r.wrong(
                        at,
                        format!("`{word}` is given twice, or out of order: the order is {order}"),
                    ));
                }
                next = found + 1;
                Ok(())
            })?;
            Ok(())
        })
    }
    fn here(&self) -> usize {
        self.at
    }
    fn check(&mut self, at: usize, holds: bool, message: impl FnOnce() -> String) -> &mut Self {
        self.then(|r| if holds { Ok(()) } else { Err(r.wrong(at, message())) })
    }
}

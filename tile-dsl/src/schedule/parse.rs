//! Reads directives as text, such as they are printed. For tests and tools, and the only reader of text.
//!
//! ```text
//! directives ::= { (directive | drop(key, ..)) ";" }     ; the last ";" may be left out
//! ```
//! The directives are those of `docs/schedule.md`, lists included: `tile(i = 32, j = 8); stage(a, b at k: shared)`.
//!
//! `schedule!` has a reader of the same grammar in `tile-macros`, over tokens: it needs the span of each member of a list,
//! and of the word that a mistake is about, to underline them, and macros hand a schedule's tokens on from crate to crate
//! with their spans. Text has none of this. A test there runs both over the same directives. This one leaves to the engine
//! what the other says at once: a number that is 0, and a `split` with another number of factors than of names. Lists of
//! numbers are `schedule!`'s alone: what is printed is one configuration.

use super::{
    Directive, DirectiveKind, Evict, Item, Key, NAMES, Space, Start, Unit, UnitDim, Via, WHOLE_KERNEL,
};
use crate::{
    nest::{Across, Atom, Fraction, Level, Order},
    span::SpanId,
};

/// The text is not a list of directives.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("directive {directive}: {message}")]
pub struct ParseError {
    /// Which directive, from 1.
    pub directive: usize,
    /// What was expected and what was found.
    pub message: String,
}

/// Reads a list of directives. Spans count them from 1, members of a list one by one.
///
/// # Errors
/// The first place where the text is something else.
pub fn parse(text: &str) -> Result<Vec<Item>, ParseError> {
    let mut parser = Parser { tokens: tokens(text), at: 0, directive: 0 };
    let mut items = Vec::new();
    while !parser.done() {
        parser.directive += 1;
        parser.directive(&mut items)?;
        if !parser.done() {
            parser.expect(";")?;
        }
    }
    Ok(items)
}

/// Words and punctuation; `->` and `<=` are one token.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|c: char| !(c.is_alphanumeric() || "_.".contains(c))).unwrap_or(rest.len());
        let length = match word {
            0 if rest.starts_with("->") || rest.starts_with("<=") => 2,
            0 => first.len_utf8(),
            n => n,
        };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    tokens
}

struct Parser<'a> {
    tokens: Vec<&'a str>,
    at: usize,
    directive: usize,
}

type Parsed<T> = std::result::Result<T, ParseError>;

impl<'a> Parser<'a> {
    fn done(&self) -> bool {
        self.at == self.tokens.len()
    }

    fn peek(&self) -> &'a str {
        self.tokens.get(self.at).copied().unwrap_or("the end")
    }

    fn fail<T>(&self, wanted: &str) -> Parsed<T> {
        let message = format!("expected {wanted}, found `{}`", self.peek());
        Err(ParseError { directive: self.directive, message })
    }

    fn eat(&mut self, token: &str) -> bool {
        let found = !self.done() && self.peek() == token;
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, token: &str) -> Parsed<()> {
        if self.eat(token) { Ok(()) } else { self.fail(&format!("`{token}`")) }
    }

    /// `i`, `i.t`, `y.sum.2`: a name, and names or numbers after dots.
    fn word(&mut self, wanted: &str) -> Parsed<&'a str> {
        let token = self.peek();
        let begins = |part: &str| part.starts_with(|c: char| c.is_alphabetic() || c == '_');
        if self.done() || !begins(token) || token.split('.').any(str::is_empty) {
            return self.fail(wanted);
        }
        self.at += 1;
        Ok(token)
    }

    fn name(&mut self) -> Parsed<String> {
        self.word("a name").map(str::to_string)
    }

    /// A name of one word.
    fn plain(&mut self) -> Parsed<String> {
        let name = self.name()?;
        if name.contains('.') {
            self.at -= 1;
            return self.fail("a name without a dot");
        }
        Ok(name)
    }

    fn number(&mut self) -> Parsed<u32> {
        match self.peek().replace('_', "").parse() {
            Ok(n) if !self.done() => {
                self.at += 1;
                Ok(n)
            }
            _ => self.fail("a number"),
        }
    }

    fn one_of<T: Copy>(&mut self, words: &[(&str, T)]) -> Parsed<T> {
        match words.iter().find(|(word, _)| !self.done() && *word == self.peek()) {
            Some((_, value)) => {
                self.at += 1;
                Ok(*value)
            }
            None => {
                let words: Vec<String> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
                self.fail(&words.join(" or "))
            }
        }
    }

    fn list<T>(&mut self, mut member: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut members = vec![member(self)?];
        while self.eat(",") && self.peek() != ")" {
            members.push(member(self)?);
        }
        Ok(members)
    }

    fn within(&mut self) -> Parsed<Option<String>> {
        if self.eat("in") { self.name().map(Some) } else { Ok(None) }
    }

    fn directive(&mut self, items: &mut Vec<Item>) -> Parsed<()> {
        let first = items.len() as u32 + 1;
        let name = self.word("a directive")?;
        self.expect("(")?;
        if name == "drop" {
            let keys = self.list(Self::keys)?.into_iter().flatten().zip(first..);
            items.extend(keys.map(|(key, n)| Item::Drop { key, span: SpanId(n) }));
        } else {
            let kinds = self.kinds(name)?.into_iter().zip(first..);
            items.extend(
                kinds.map(|(kind, n)| Item::Directive(Directive { kind, span: SpanId(n), inherited: None })),
            );
        }
        self.expect(")")
    }

    /// `bind(i, j)`, `unroll(k in acc)`, `order`.
    fn keys(&mut self) -> Parsed<Vec<Key>> {
        let name = self.word("the name of a directive")?;
        if !NAMES.contains(&name) {
            self.at -= 1;
            return self.fail("the name of a directive");
        }
        let whole = WHOLE_KERNEL.contains(&name);
        if whole && self.peek() != "(" {
            return Ok(vec![Key::new(name, None, None)]);
        }
        self.expect("(")?;
        let subjects = if whole { vec![] } else { self.list(Self::name)? };
        let within = self.within()?;
        self.expect(")")?;
        Ok(match subjects.is_empty() {
            true => vec![Key::new(name, None, within.as_deref())],
            false => subjects.iter().map(|s| Key::new(name, Some(s), within.as_deref())).collect(),
        })
    }

    fn kinds(&mut self, name: &str) -> Parsed<Vec<DirectiveKind>> {
        use DirectiveKind as D;
        Ok(match name {
            "fits" => self.list(|p| {
                let dim = p.plain()?;
                p.expect("<=")?;
                Ok(D::Fits { dim, max: p.number()? })
            })?,
            "layout" => self.list(|p| {
                let tensor = p.plain()?;
                p.expect(":")?;
                Ok(D::Layout { tensor, column_major: p.one_of(&[("row", false), ("col", true)])? })
            })?,
            "tile" => self.list(|p| {
                let axis = p.name()?;
                p.expect("=")?;
                Ok(D::Tile { axis, size: p.number()? })
            })?,
            "split" => {
                let digit = self.name()?;
                self.expect("->")?;
                let names = self.list(Self::plain)?;
                self.expect(":")?;
                vec![D::Split { digit, names, factors: self.list(Self::number)? }]
            }
            "recompute" => self.list(|p| Ok(D::Recompute { value: p.name()? }))?,
            "fuse" => {
                let values = self.list(Self::name)?;
                self.expect("at")?;
                let at = self.name()?;
                values.into_iter().map(|value| D::Fuse { value, at: at.clone() }).collect()
            }
            "reorder" => {
                vec![D::Reorder { digits: self.list(Self::name)?, within: self.within()? }]
            }
            "stage" => self.stage()?,
            "fragment" => {
                let buffers = self.list(Self::name)?;
                self.expect("at")?;
                let at = self.name()?;
                buffers.into_iter().map(|buffer| D::Fragment { buffer, at: at.clone() }).collect()
            }
            "pad" => self.list(|p| {
                let buffer = p.name()?;
                p.expect(":")?;
                Ok(D::Pad { buffer, bytes: p.number()? })
            })?,
            "swizzle" => self.list(|p| {
                let buffer = p.name()?;
                p.expect(":")?;
                Ok(D::Swizzle { buffer, span: p.number()? })
            })?,
            "pipeline" => {
                let digit = self.name()?;
                self.expect(",")?;
                vec![D::Pipeline { digit, stages: self.number()? }]
            }
            "interleave" => vec![self.interleave()?],
            "split_k" => {
                let digit = self.name()?;
                self.expect(",")?;
                let parts = self.number()?;
                let across = match self.eat(";") {
                    true => self.one_of(&[("atomic", Across::Atomic), ("cluster", Across::Cluster)])?,
                    false => Across::Workspace,
                };
                vec![D::SplitK { digit, parts, across }]
            }
            "tensor_core" => {
                let value = self.name()?;
                self.expect(":")?;
                let name = self.plain()?;
                let shape = match self.eat("(") {
                    true => {
                        let m = self.number()?;
                        self.expect(",")?;
                        let n = self.number()?;
                        self.expect(")")?;
                        Some([m, n])
                    }
                    false => None,
                };
                let atom = Atom::from_name(&name, shape)
                    .map_err(|message| ParseError { directive: self.directive, message })?;
                let swapped = self.eat(";");
                if swapped {
                    self.expect("swapped")?;
                }
                vec![D::TensorCore { value, atom, swapped }]
            }
            "reduce" => {
                let values = self.list(Self::name)?;
                self.expect(":")?;
                let levels = [("lane", Level::Lane), ("warp", Level::Warp), ("cta", Level::Cta)];
                let level = self.one_of(&levels)?;
                values.into_iter().map(|value| D::Reduce { value, level }).collect()
            }
            "bind" => self.list(Self::bind)?,
            "unroll" | "serpentine" | "vectorize" => {
                let digits = self.list(Self::name)?;
                let within = self.within()?;
                let kind = |digit| match (name, within.clone()) {
                    ("unroll", within) => D::Unroll { digit, within },
                    ("serpentine", within) => D::Serpentine { digit, within },
                    (_, within) => D::Vectorize { digit, within },
                };
                digits.into_iter().map(kind).collect()
            }
            "produce" => {
                let digit = self.name()?;
                self.expect(":")?;
                let unit = self.one_of(&[("warp", Unit::Warp), ("warpgroup", Unit::Warpgroup)])?;
                vec![D::Produce { digit, unit }]
            }
            "exchange" => self.list(|p| Ok(D::Exchange { tensor: p.name()? }))?,
            "cache" => self.list(|p| {
                let tensor = p.name()?;
                p.expect(":")?;
                Ok(D::Cache { tensor, evict: p.one_of(&Evict::NAMED)? })
            })?,
            "arrive" => {
                let digit = self.name()?;
                self.expect(":")?;
                let unit = self.one_of(&[("thread", Unit::Thread), ("warp", Unit::Warp)])?;
                vec![D::Arrive { digit, unit }]
            }
            "issue" => {
                let value = self.name()?;
                self.expect(":")?;
                let overwrite = self.eat("overwrite");
                let in_flight = match !overwrite || self.eat(",") {
                    true => {
                        self.expect("in_flight")?;
                        self.expect("(")?;
                        let steps = self.number()?;
                        self.expect(")")?;
                        steps
                    }
                    false => 0,
                };
                vec![D::Issue { value, overwrite, in_flight }]
            }
            "registers" => {
                let producer = self.number()?;
                self.expect(",")?;
                vec![D::Registers { producer, consumer: self.number()? }]
            }
            "persistent" => vec![D::Persistent { ctas: self.number()? }],
            "pingpong" => vec![D::Pingpong { groups: self.number()? }],
            "alternate" => {
                let digits = self.list(Self::name)?;
                digits.into_iter().map(|digit| D::Alternate { digit }).collect()
            }
            "cluster" => {
                let axis = self.name()?;
                self.expect(":")?;
                vec![D::Cluster { axis, ctas: self.number()? }]
            }
            "occupancy" => vec![D::Occupancy { ctas: self.number()? }],
            "order" => vec![D::Order(match (self.eat("grouped"), self.eat("serpentine")) {
                (false, false) => {
                    self.one_of(&[("row", Order::Row), ("col", Order::Column), ("hilbert", Order::Hilbert)])?
                }
                (grouped, _) => {
                    self.expect("(")?;
                    let n = self.number()?;
                    self.expect(")")?;
                    if grouped { Order::Grouped(n) } else { Order::Serpentine(n) }
                }
            })],
            "assemble" => vec![D::Assemble { level: self.number()? }],
            "launch" => vec![D::Launch(self.one_of(&[("dependent", Start::Dependent)])?)],
            other => {
                let message = format!("there is no directive `{other}`");
                return Err(ParseError { directive: self.directive, message });
            }
        })
    }

    /// `a, b at k: shared, transposed, cp_async, vector(16)`.
    fn stage(&mut self) -> Parsed<Vec<DirectiveKind>> {
        let buffers = self.list(Self::name)?;
        let at = if self.eat("at") { Some(self.name()?) } else { None };
        self.expect(":")?;
        self.expect("shared")?;
        let space = Space::Shared;
        let (mut transposed, mut via, mut vector) = (false, Via::Plain, None);
        while self.eat(",") && self.peek() != ")" {
            match self.word("`transposed`, `cp_async`, `tma`, `stmatrix` or `vector(bytes)`")? {
                "transposed" => transposed = true,
                "cp_async" => via = Via::CpAsync,
                "tma" => via = Via::Tma,
                "stmatrix" if via == Via::Tma => via = Via::Stmatrix,
                "vector" => {
                    self.expect("(")?;
                    vector = Some(self.number()?);
                    self.expect(")")?;
                }
                _ => {
                    self.at -= 1;
                    return self
                        .fail("`transposed`, `cp_async`, `tma`, `stmatrix` after `tma`, or `vector(bytes)`");
                }
            }
        }
        let stage = |buffer| DirectiveKind::Stage { buffer, at: at.clone(), space, transposed, via, vector };
        Ok(buffers.into_iter().map(stage).collect())
    }

    /// `k.t: loads(3/8), copies(1/4), stores(1/2)`, at least one of them, in this order.
    fn interleave(&mut self) -> Parsed<DirectiveKind> {
        let digit = self.name()?;
        self.expect(":")?;
        let mut parts = [None; 3];
        let names = ["loads", "copies", "stores"];
        let mut next = 0;
        loop {
            let Some(which) = (next..names.len()).find(|n| self.eat(names[*n])) else {
                return self.fail("`loads(part)`, `copies(part)` or `stores(part)`, once, in this order");
            };
            self.expect("(")?;
            let some = self.number()?;
            self.expect("/")?;
            parts[which] = Some(Fraction { parts: some, of: self.number()? });
            self.expect(")")?;
            next = which + 1;
            if !self.eat(",") || self.peek() == ")" {
                let [loads, copies, stores] = parts;
                return Ok(DirectiveKind::Interleave { digit, loads, copies, stores });
            }
        }
    }

    /// `i -> thread.x`, `j -> lane.y ^ lane.x`.
    fn bind(&mut self) -> Parsed<DirectiveKind> {
        let digit = self.name()?;
        self.expect("->")?;
        let (unit, dim) = self.unit()?;
        // `lane` alone is no coordinate.
        let coordinate = self.tokens[self.at - 1].contains('.');
        let xor = match coordinate && self.eat("^") {
            false => None,
            true => match self.unit()? {
                (other, xor) if other == unit && self.tokens[self.at - 1].contains('.') => Some(xor),
                _ => {
                    self.at -= 1;
                    return self.fail(&format!("a coordinate of `{unit}`"));
                }
            },
        };
        Ok(DirectiveKind::Bind { digit, unit, dim, xor })
    }

    /// `thread.x`, and `warp` for `warp.x`.
    fn unit(&mut self) -> Parsed<(Unit, UnitDim)> {
        let word = self.word("a unit")?;
        let (unit, dim) = word.split_once('.').unwrap_or((word, "x"));
        let units = ["block", "warpgroup", "warp", "lane", "thread"].into_iter().zip([
            Unit::Block,
            Unit::Warpgroup,
            Unit::Warp,
            Unit::Lane,
            Unit::Thread,
        ]);
        let dims = [("x", UnitDim::X), ("y", UnitDim::Y), ("z", UnitDim::Z)];
        let unit = units.clone().find(|(name, _)| *name == unit);
        let dim = dims.iter().find(|(name, _)| *name == dim);
        match (unit, dim) {
            (Some((_, unit)), Some((_, dim))) => Ok((unit, *dim)),
            _ => {
                self.at -= 1;
                self.fail("`block`, `warpgroup`, `warp`, `lane` or `thread` with `.x`, `.y` or `.z`")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: &str) -> Vec<String> {
        let show = |item: Item| match item {
            Item::Directive(d) => d.to_string(),
            Item::Drop { key, .. } => format!("drop({key})"),
        };
        parse(text).unwrap().into_iter().map(show).collect()
    }

    #[test]
    fn every_directive_reads_back_as_printed() {
        let all = [
            "fits(N <= 1024)",
            "layout(b: col)",
            "tile(i = 128)",
            "split(n -> no, nl, nv: 32, 4)",
            "recompute(v)",
            "fuse(z.sum.2 at n)",
            "reorder(k, i.t, jr)",
            "reorder(k, i.t in y.sum)",
            "stage(a at k: shared, transposed, cp_async, vector(16))",
            "stage(a at k: shared, tma)",
            "stage(p: shared)",
            "fragment(a at k.t)",
            "pad(a: 16)",
            "swizzle(a: 128)",
            "pipeline(k, 2)",
            "interleave(k.t: loads(3/8))",
            "interleave(k.t: copies(1/4), stores(1/2))",
            "interleave(k.t: loads(3/8), copies(1/4), stores(1/2))",
            "split_k(k, 4)",
            "split_k(k, 3; atomic)",
            "split_k(k, 4; cluster)",
            "reduce(e.max: lane)",
            "bind(i -> thread.x)",
            "bind(j -> lane.y ^ lane.x)",
            "unroll(k)",
            "serpentine(i in acc)",
            "vectorize(jv in c)",
            "exchange(c)",
            "cache(c: evict_first)",
            "cache(a: evict_last)",
            "tensor_core(acc: mma)",
            "tensor_core(acc: wgmma(64, 128))",
            "tensor_core(acc: mma; swapped)",
            "produce(k: warpgroup)",
            "registers(40, 232)",
            "persistent(1)",
            "pingpong(2)",
            "alternate(k)",
            "order(serpentine(16))",
            "arrive(k: thread)",
            "issue(acc: overwrite)",
            "issue(acc: in_flight(2))",
            "issue(acc: overwrite, in_flight(1))",
            "cluster(i: 2)",
            "occupancy(2)",
            "order(grouped(8))",
            "order(col)",
            "assemble(1)",
            "launch(dependent)",
            "drop(unroll(k in acc))",
            "drop(order)",
        ];
        assert_eq!(printed(&all.join("; ")), all);
        assert_eq!(printed(""), [""; 0]);
    }

    #[test]
    fn lists_are_taken_apart() {
        assert_eq!(
            printed("tile(i = 2, j = 3);bind(i->thread.x,j->warp);"),
            ["tile(i = 2)", "tile(j = 3)", "bind(i -> thread.x)", "bind(j -> warp.x)"]
        );
        assert_eq!(
            printed("drop(bind(i, j), reorder(in acc))"),
            ["drop(bind(i))", "drop(bind(j))", "drop(reorder(in acc))"]
        );
        assert_eq!(printed("unroll(i, j in c)"), ["unroll(i in c)", "unroll(j in c)"]);
    }

    #[test]
    fn mistakes_say_where_and_what() {
        let error = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(error("tile(i = 2); tile(j 3)"), "directive 2: expected `=`, found `3`");
        assert_eq!(error("tiles(i = 2)"), "directive 1: there is no directive `tiles`");
        assert_eq!(error("tile(i = x)"), "directive 1: expected a number, found `x`");
        assert_eq!(error("tile(i = 2"), "directive 1: expected `)`, found `the end`");
        assert_eq!(error("reduce(s: grid)"), "directive 1: expected `lane` or `warp` or `cta`, found `grid`");
        assert_eq!(
            error("bind(j -> lane.y ^ thread.x)"),
            "directive 1: expected a coordinate of `lane`, found `thread.x`"
        );
        assert_eq!(error("drop(bind)"), "directive 1: expected `(`, found `)`");
        assert_eq!(error("drop(tiles(i))"), "directive 1: expected the name of a directive, found `tiles`");
        assert_eq!(error("unroll(i..t)"), "directive 1: expected a name, found `i..t`");
    }
}

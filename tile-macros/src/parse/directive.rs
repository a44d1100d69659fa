//! One directive: `tile(i = 32, j = 32)`, `stage(a at k: shared, cp_async)`, `drop(bind(i))`.
//!
//! [`tile_dsl::schedule::parse`] reads the same grammar from text, for tests and tools. This reader is over tokens, for the
//! spans that mistakes are underlined by, and says what was probably meant. [`super::schedule`] tests that both agree.

use super::expr::near;
use crate::spans::{Range, Spans};
use proc_macro2::{Ident, Span, TokenTree};
use quote::ToTokens;
use std::fmt::Display;
use syn::{
    LitFloat, LitInt, Token,
    ext::IdentExt,
    parenthesized,
    parse::{Parse, ParseStream},
};
use tile_dsl::{
    diagnostic::{list, replace},
    nest::{Across, Atom, Level, Order},
    schedule::{Directive, DirectiveKind, Item, Key, Space, Start, Unit, UnitDim, Via, WHOLE_KERNEL},
};

/// The operator that comes next, whose last character is that of the operator's end: `=>` is one, not two.
fn punctuation(input: ParseStream) -> Option<(String, Span)> {
    let rest = input.fork();
    let (mut text, mut first) = (String::new(), None);
    while let Ok(TokenTree::Punct(punct)) = rest.parse::<TokenTree>() {
        if matches!(punct.as_char(), ',' | ';' | '.') {
            break;
        }
        first = first.or(Some(punct.span()));
        text.push(punct.as_char());
        if punct.spacing() == proc_macro2::Spacing::Alone {
            break;
        }
    }
    Some((text, first?))
}

/// A word for one of several: with the one that was probably meant, if there is one.
fn one_of<T>(word: &Ident, what: &str, known: &[&str]) -> syn::Result<T> {
    let text = word.to_string();
    let lower = text.to_lowercase();
    let meant = known.iter().find(|k| near(k, &lower) || lower.starts_with(**k) || k.starts_with(&lower));
    let message = format!("unknown {what} `{text}`");
    match meant {
        Some(meant) => mend(word.span(), message, &text, meant),
        None => error(word.span(), message, format!("{what}s are {}", list(known))),
    }
}

/// Every directive with its form, in the order of the phases.
pub const FORMS: [(&str, &str); 28] = [
    ("fits", "fits(N <= 1024)"),
    ("layout", "layout(b: col)"),
    ("tile", "tile(i = 32, j = 32)"),
    ("split", "split(i -> it, ir: 8)"),
    ("recompute", "recompute(v)"),
    ("fuse", "fuse(v at n)"),
    ("tensor_core", "tensor_core(acc: mma)"),
    ("reorder", "reorder(k, i, j)"),
    ("stage", "stage(a, b at k: shared)"),
    ("fragment", "fragment(a, b at k.t)"),
    ("pad", "pad(a: 16)"),
    ("swizzle", "swizzle(a: 128)"),
    ("pipeline", "pipeline(k, 2)"),
    ("split_k", "split_k(k, 4)"),
    ("reduce", "reduce(s: lane)"),
    ("bind", "bind(i -> thread.x)"),
    ("unroll", "unroll(k)"),
    ("serpentine", "serpentine(i, j)"),
    ("vectorize", "vectorize(j)"),
    ("produce", "produce(k: warpgroup)"),
    ("registers", "registers(40, 232)"),
    ("persistent", "persistent(1)"),
    ("cluster", "cluster(i: 2)"),
    ("occupancy", "occupancy(2)"),
    ("order", "order(grouped(8))"),
    ("assemble", "assemble(1)"),
    ("launch", "launch(dependent)"),
    ("drop", "drop(bind(i))"),
];

fn form(name: &str) -> &'static str {
    FORMS.iter().find(|(n, _)| *n == name).map_or("tile(i = 32)", |(_, form)| form)
}

fn error<T>(span: Span, message: impl Display, remark: impl Display) -> syn::Result<T> {
    Err(syn::Error::new(span, format!("{message}\n= note: {remark}")))
}

/// A mistake that other text mends.
fn mend<T>(span: Span, message: impl Display, old: impl Display, new: impl Display) -> syn::Result<T> {
    Err(syn::Error::new(span, format!("{message}\n= help: {}", replace(old, new))))
}

/// Reads one directive; a list such as `tile(i = 32, j = 32)` yields one item for each member.
pub fn parse(input: ParseStream, inherited: Option<&str>, spans: &mut Spans) -> syn::Result<Vec<Item>> {
    let whole = Range::of(&input.fork().parse::<proc_macro2::TokenStream>()?);
    if !input.peek(Ident::peek_any) {
        return error(
            input.span(),
            "expected a directive",
            "directives are `name(arguments);`, such as `tile(i = 32);`",
        );
    }
    let name = input.call(Ident::parse_any)?;
    let text = name.to_string();
    if !FORMS.iter().any(|(n, _)| *n == text) {
        let message = format!("unknown directive `{text}`");
        return match FORMS.iter().find(|(n, _)| near(n, &text)) {
            Some((meant, _)) => mend(name.span(), message, &text, meant),
            None => {
                let names: Vec<_> = FORMS.iter().map(|(n, _)| *n).collect();
                error(name.span(), message, format!("directives are {}", names.join(", ")))
            }
        };
    }
    if !input.peek(syn::token::Paren) {
        return error(
            name.span(),
            format!("`{text}` needs arguments in parentheses"),
            format!("the form is `{};`", form(&text)),
        );
    }
    let content;
    parenthesized!(content in input);
    let mut args = Args { name: &text, input: &content };
    let found = args.directive(spans)?;
    if !content.is_empty() {
        let token: TokenTree = content.parse()?;
        return error(
            token.span(),
            format!("unexpected `{token}` in `{text}`"),
            format!("the form is `{};`", form(&text)),
        );
    }
    if !input.is_empty() {
        let next: TokenTree = input.parse()?;
        let message = format!("expected `;` after `{text}(..)`\n= help: add `;` before `{next}`");
        return Err(syn::Error::new(next.span(), message));
    }
    let single = found.len() == 1;
    Ok(found
        .into_iter()
        .map(|(found, range)| {
            let span = spans.add(if single { whole } else { range });
            match found {
                Found::Drop(key) => Item::Drop { key, span },
                Found::Kind(kind) => {
                    Item::Directive(Directive { kind, span, inherited: inherited.map(str::to_string) })
                }
            }
        })
        .collect())
}

enum Found {
    Kind(DirectiveKind),
    Drop(Key),
}

struct Args<'a> {
    name: &'a str,
    input: ParseStream<'a>,
}

type Members = Vec<(Found, Range)>;

impl Args<'_> {
    fn fail<T>(&self, span: Span, message: impl Display) -> syn::Result<T> {
        error(span, message, format!("the form is `{};`", form(self.name)))
    }

    fn here<T>(&self, wanted: &str) -> syn::Result<T> {
        match self.input.fork().parse::<TokenTree>() {
            Ok(token) => {
                let token = token.to_token_stream();
                self.fail(self.input.span(), format!("expected {wanted} in `{}`, found `{token}`", self.name))
            }
            Err(_) => self.fail(self.input.span(), format!("expected {wanted} in `{}`", self.name)),
        }
    }

    fn word(&self, wanted: &str) -> syn::Result<Ident> {
        if self.input.peek(Ident::peek_any) { self.input.call(Ident::parse_any) } else { self.here(wanted) }
    }

    /// `i`, `i.t`, `e.max`, `v.2`, `y.sum.2`.
    fn dotted(&self, wanted: &str) -> syn::Result<String> {
        let mut name = self.word(wanted)?.to_string();
        while self.input.parse::<Option<Token![.]>>()?.is_some() {
            name.push('.');
            if self.input.peek(LitInt) {
                let number: LitInt = self.input.parse()?;
                name.push_str(&number.to_string());
            } else if self.input.peek(LitFloat) {
                // Two numbers in a row, `v.2.3`, are one literal to Rust.
                let numbers: LitFloat = self.input.parse()?;
                name.push_str(&numbers.to_string());
            } else {
                name.push_str(&self.word("a name after the dot")?.to_string());
            }
        }
        Ok(name)
    }

    fn number(&self) -> syn::Result<u32> {
        if !self.input.peek(LitInt) {
            return self.here("a positive number");
        }
        let literal: LitInt = self.input.parse()?;
        match literal.base10_parse::<u32>() {
            Ok(0) => self.fail(literal.span(), format!("`{}` of 0", self.name)),
            Ok(n) => Ok(n),
            Err(_) => self.fail(literal.span(), "this number does not fit in 32 bits"),
        }
    }

    /// A number that may be 0.
    fn level(&self) -> syn::Result<u32> {
        if !self.input.peek(LitInt) {
            return self.here("a level from 0 to 4");
        }
        let literal: LitInt = self.input.parse()?;
        match literal.base10_parse::<u32>() {
            Ok(n) => Ok(n),
            Err(_) => self.fail(literal.span(), "this number does not fit in 32 bits"),
        }
    }

    fn token<T: Parse>(&self, text: &str) -> syn::Result<()> {
        match self.input.fork().parse::<T>() {
            Ok(_) => self.input.parse::<T>().map(drop),
            Err(_) => match punctuation(self.input) {
                // One operator for another.
                Some((found, span)) => {
                    let message = format!("expected `{text}` in `{}`, found `{found}`", self.name);
                    mend(span, message, found, text)
                }
                None => self.here(&format!("`{text}`")),
            },
        }
    }

    fn keyword(&self, word: &str) -> syn::Result<()> {
        let found = self.word(&format!("`{word}`"))?;
        if found == word {
            Ok(())
        } else {
            mend(found.span(), format!("expected `{word}` in `{}`, found `{found}`", self.name), found, word)
        }
    }

    fn peek_word(&self, word: &str) -> bool {
        self.input.peek(Ident::peek_any) && self.input.fork().call(Ident::parse_any).is_ok_and(|w| w == word)
    }

    /// Optional `in value`.
    fn within(&self) -> syn::Result<Option<String>> {
        if self.input.parse::<Option<Token![in]>>()?.is_none() {
            return Ok(None);
        }
        self.dotted("the name of a value").map(Some)
    }

    /// Comma-separated members, each with its range.
    fn list<T>(&self, mut member: impl FnMut(&Self) -> syn::Result<T>) -> syn::Result<Vec<(T, Range)>> {
        let mut members = vec![self.ranged(&mut member)?];
        while self.input.parse::<Option<Token![,]>>()?.is_some() {
            if self.input.is_empty() {
                break;
            }
            members.push(self.ranged(&mut member)?);
        }
        Ok(members)
    }

    fn ranged<T>(&self, member: impl FnOnce(&Self) -> syn::Result<T>) -> syn::Result<(T, Range)> {
        let rest = self.input.fork();
        let value = member(self)?;
        let mut tokens = Vec::new();
        while rest.cursor() != self.input.cursor() {
            tokens.push(rest.parse::<TokenTree>()?);
        }
        Ok((value, Range::of(&tokens.into_iter().collect::<proc_macro2::TokenStream>())))
    }

    fn kinds(&self, mut member: impl FnMut(&Self) -> syn::Result<DirectiveKind>) -> syn::Result<Members> {
        self.list(|a| member(a).map(Found::Kind))
    }

    fn one(kind: DirectiveKind) -> syn::Result<Members> {
        Ok(vec![(Found::Kind(kind), Span::call_site().into())])
    }

    fn directive(&mut self, _spans: &Spans) -> syn::Result<Members> {
        use DirectiveKind as D;
        match self.name {
            "fits" => self.kinds(|a| {
                let dim = a.word("a dim")?.to_string();
                a.token::<Token![<=]>("<=")?;
                Ok(D::Fits { dim, max: a.number()? })
            }),
            "layout" => self.kinds(|a| {
                let tensor = a.word("a tensor")?.to_string();
                a.token::<Token![:]>(":")?;
                let layout = a.word("`row` or `col`")?;
                match layout.to_string().as_str() {
                    "row" => Ok(D::Layout { tensor, column_major: false }),
                    "col" => Ok(D::Layout { tensor, column_major: true }),
                    _ => one_of(&layout, "layout", &["row", "col"]),
                }
            }),
            "tile" => self.kinds(|a| {
                let axis = a.dotted("an axis")?;
                a.token::<Token![=]>("=")?;
                Ok(D::Tile { axis, size: a.number()? })
            }),
            "split" => self.split(),
            "recompute" => self.kinds(|a| Ok(D::Recompute { value: a.dotted("a value")? })),
            "fuse" => {
                let values = self.list(|a| a.dotted("a value"))?;
                self.keyword("at")?;
                let at = self.dotted("a loop")?;
                let fuse = |value| Found::Kind(D::Fuse { value, at: at.clone() });
                Ok(values.into_iter().map(|(value, range)| (fuse(value), range)).collect())
            }
            "reorder" => {
                let digits = self.list(|a| a.dotted("a loop"))?.into_iter().map(|(d, _)| d).collect();
                Self::one(D::Reorder { digits, within: self.within()? })
            }
            "stage" => self.stage(),
            "fragment" => {
                let buffers = self.list(|a| a.dotted("a tensor"))?;
                self.keyword("at")?;
                let at = self.dotted("a loop")?;
                let fragment = |buffer| Found::Kind(D::Fragment { buffer, at: at.clone() });
                Ok(buffers.into_iter().map(|(buffer, range)| (fragment(buffer), range)).collect())
            }
            "pad" => self.kinds(|a| {
                let buffer = a.dotted("a staged buffer")?;
                a.token::<Token![:]>(":")?;
                Ok(D::Pad { buffer, bytes: a.number()? })
            }),
            "swizzle" => self.kinds(|a| {
                let buffer = a.dotted("a staged buffer")?;
                a.token::<Token![:]>(":")?;
                Ok(D::Swizzle { buffer, span: a.number()? })
            }),
            "pipeline" => {
                let digit = self.dotted("a loop")?;
                self.token::<Token![,]>(",")?;
                Self::one(D::Pipeline { digit, stages: self.number()? })
            }
            "split_k" => {
                let digit = self.dotted("a loop")?;
                self.token::<Token![,]>(",")?;
                let parts = self.number()?;
                if self.input.is_empty() {
                    return Self::one(D::SplitK { digit, parts, across: Across::Workspace });
                }
                self.token::<Token![;]>(";")?;
                self.keyword("atomic")?;
                Self::one(D::SplitK { digit, parts, across: Across::Atomic })
            }
            "tensor_core" => {
                let value = self.dotted("an accumulator")?;
                self.token::<Token![:]>(":")?;
                let word = self.word("an instruction")?;
                if word != "mma" && word != "wgmma" {
                    return one_of(&word, "instruction", &["mma", "wgmma(64, 128)"]);
                }
                let shape = match self.input.peek(syn::token::Paren) {
                    true => Some(self.shape()?),
                    false => None,
                };
                match Atom::from_name(&word.to_string(), shape) {
                    Ok(atom) => Self::one(D::TensorCore { value, atom }),
                    Err(message) => self.fail(word.span(), message),
                }
            }
            "reduce" => {
                let values = self.list(|a| a.dotted("a value"))?;
                self.token::<Token![:]>(":")?;
                let level = self.word("`lane`, `warp` or `cta`")?;
                let level = match level.to_string().as_str() {
                    "lane" => Level::Lane,
                    "warp" => Level::Warp,
                    "cta" => Level::Cta,
                    _ => return one_of(&level, "level", &["lane", "warp", "cta"]),
                };
                let reduce = |value| Found::Kind(D::Reduce { value, level });
                Ok(values.into_iter().map(|(value, range)| (reduce(value), range)).collect())
            }
            "bind" => self.kinds(Self::bind),
            "unroll" | "serpentine" | "vectorize" => {
                let digits = self.list(|a| a.dotted("a loop"))?;
                let within = self.within()?;
                let kind = |digit| match self.name {
                    "unroll" => D::Unroll { digit, within: within.clone() },
                    "serpentine" => D::Serpentine { digit, within: within.clone() },
                    _ => D::Vectorize { digit, within: within.clone() },
                };
                Ok(digits.into_iter().map(|(digit, range)| (Found::Kind(kind(digit)), range)).collect())
            }
            "produce" => {
                let digit = self.dotted("a pipelined loop")?;
                self.token::<Token![:]>(":")?;
                let word = self.word("`warp` or `warpgroup`")?;
                match word.to_string().as_str() {
                    "warp" => Self::one(D::Produce { digit, unit: Unit::Warp }),
                    "warpgroup" => Self::one(D::Produce { digit, unit: Unit::Warpgroup }),
                    _ => one_of(&word, "producer", &["warp", "warpgroup"]),
                }
            }
            "registers" => {
                let producer = self.number()?;
                self.token::<Token![,]>(",")?;
                Self::one(D::Registers { producer, consumer: self.number()? })
            }
            "persistent" => Self::one(D::Persistent { ctas: self.number()? }),
            "cluster" => {
                let axis = self.dotted("an axis")?;
                self.token::<Token![:]>(":")?;
                Self::one(D::Cluster { axis, ctas: self.number()? })
            }
            "occupancy" => Self::one(D::Occupancy { ctas: self.number()? }),
            "assemble" => Self::one(D::Assemble { level: self.level()? }),
            "launch" => {
                let start = self.word("`dependent`")?;
                match start.to_string().as_str() {
                    "dependent" => Self::one(D::Launch(Start::Dependent)),
                    _ => one_of(&start, "start of a kernel", &["dependent"]),
                }
            }
            "order" => {
                let order = self.word("`row`, `col`, `grouped(n)` or `hilbert`")?;
                Self::one(D::Order(match order.to_string().as_str() {
                    "row" => Order::Row,
                    "col" => Order::Column,
                    "grouped" => Order::Grouped(self.argument()?),
                    "hilbert" => Order::Hilbert,
                    _ => return one_of(&order, "order", &["row", "col", "grouped(8)", "hilbert"]),
                }))
            }
            _ => self.drops(),
        }
    }

    /// `(16)` after a word.
    fn argument(&self) -> syn::Result<u32> {
        if !self.input.peek(syn::token::Paren) {
            return self.here("a number in parentheses");
        }
        let content;
        parenthesized!(content in self.input);
        Args { name: self.name, input: &content }.number()
    }

    /// `(64, 128)` after a word.
    fn shape(&self) -> syn::Result<[u32; 2]> {
        let content;
        parenthesized!(content in self.input);
        let inner = Args { name: self.name, input: &content };
        let m = inner.number()?;
        inner.token::<Token![,]>(",")?;
        Ok([m, inner.number()?])
    }

    fn split(&self) -> syn::Result<Members> {
        let digit = self.dotted("a loop")?;
        self.token::<Token![->]>("->")?;
        let names: Vec<_> = self.list(|a| a.word("a name"))?.into_iter().map(|(n, _)| n).collect();
        self.token::<Token![:]>(":")?;
        let factors: Vec<_> = self.list(Self::number)?.into_iter().map(|(n, _)| n).collect();
        if names.len() != factors.len() + 1 {
            let (n, f) = (names.len(), factors.len());
            let plural = |n: usize| if n == 1 { "" } else { "s" };
            return self.fail(
                names[0].span(),
                format!(
                    "{n} name{} and {f} factor{}: each name but the first has a factor",
                    plural(n),
                    plural(f)
                ),
            );
        }
        let names = names.iter().map(ToString::to_string).collect();
        Self::one(DirectiveKind::Split { digit, names, factors })
    }

    /// `i -> thread.x`, `j -> lane.y ^ lane.x`.
    fn bind(&self) -> syn::Result<DirectiveKind> {
        let digit = self.dotted("a loop")?;
        self.token::<Token![->]>("->")?;
        let (unit, _) = self.unit()?;
        if self.input.parse::<Option<Token![.]>>()?.is_none() {
            return Ok(DirectiveKind::Bind { digit, unit, dim: UnitDim::X, xor: None });
        }
        let dim = self.dimension()?;
        if self.input.parse::<Option<Token![^]>>()?.is_none() {
            return Ok(DirectiveKind::Bind { digit, unit, dim, xor: None });
        }
        let (other, span) = self.unit()?;
        if other != unit {
            let message = format!("`{unit}.{dim}` is combined with a coordinate of another unit, `{other}`");
            return self.fail(span, message);
        }
        self.token::<Token![.]>(".")?;
        let xor = Some(self.dimension()?);
        Ok(DirectiveKind::Bind { digit, unit, dim, xor })
    }

    fn unit(&self) -> syn::Result<(Unit, Span)> {
        let word = self.word("a unit")?;
        let unit = match word.to_string().as_str() {
            "block" => Unit::Block,
            "warpgroup" => Unit::Warpgroup,
            "warp" => Unit::Warp,
            "lane" => Unit::Lane,
            "thread" => Unit::Thread,
            _ => return one_of(&word, "unit", &["block", "warpgroup", "warp", "lane", "thread"]),
        };
        Ok((unit, word.span()))
    }

    fn dimension(&self) -> syn::Result<UnitDim> {
        let word = self.word("`x`, `y` or `z`")?;
        match word.to_string().as_str() {
            "x" => Ok(UnitDim::X),
            "y" => Ok(UnitDim::Y),
            "z" => Ok(UnitDim::Z),
            _ => one_of(&word, "dimension", &["x", "y", "z"]),
        }
    }

    /// `a, b at k: shared, transposed, cp_async, vector(16)`.
    fn stage(&self) -> syn::Result<Members> {
        let buffers = self.list(|a| a.dotted("a tensor or a value"))?;
        let at = match self.peek_word("at") {
            true => {
                self.keyword("at")?;
                Some(self.dotted("a loop")?)
            }
            false => None,
        };
        self.token::<Token![:]>(":")?;
        let space = self.word("`shared`")?;
        if space != "shared" {
            return mend(space.span(), format!("unknown memory space `{space}`"), space, "shared");
        }
        let (mut transposed, mut via, mut vector) = (false, Via::Plain, None);
        while self.input.parse::<Option<Token![,]>>()?.is_some() && !self.input.is_empty() {
            let option = self.word("`transposed`, `cp_async`, `tma`, `stmatrix` or `vector(bytes)`")?;
            match option.to_string().as_str() {
                "transposed" => transposed = true,
                "cp_async" => via = Via::CpAsync,
                "tma" => via = Via::Tma,
                "stmatrix" if via == Via::Tma => via = Via::Stmatrix,
                "stmatrix" => {
                    let text =
                        "`stmatrix` collects what a tensor map stores: it stands after `tma`".to_string();
                    return mend(option.span(), text, option, "tma, stmatrix");
                }
                "vector" => vector = Some(self.argument()?),
                _ => {
                    return one_of(
                        &option,
                        "option",
                        &["transposed", "cp_async", "tma", "stmatrix", "vector(16)"],
                    );
                }
            }
        }
        let stage = |buffer| {
            Found::Kind(DirectiveKind::Stage {
                buffer,
                at: at.clone(),
                space: Space::Shared,
                transposed,
                via,
                vector,
            })
        };
        Ok(buffers.into_iter().map(|(buffer, range)| (stage(buffer), range)).collect())
    }

    /// `bind(i), stage(a, b), unroll(k in acc), order`.
    fn drops(&self) -> syn::Result<Members> {
        let mut keys = Vec::new();
        for (found, range) in self.list(Self::drop_keys)? {
            keys.extend(found.into_iter().map(|key| (Found::Drop(key), range)));
        }
        Ok(keys)
    }

    fn drop_keys(&self) -> syn::Result<Vec<Key>> {
        let word = self.word("the name of a directive")?;
        let name = word.to_string();
        if name == "drop" || !FORMS.iter().any(|(n, _)| *n == name) {
            let names: Vec<_> = FORMS.iter().map(|(n, _)| *n).filter(|n| *n != "drop").collect();
            return one_of(&word, "directive", &names);
        }
        let whole = WHOLE_KERNEL.contains(&name.as_str());
        if !self.input.peek(syn::token::Paren) {
            return if whole {
                Ok(vec![Key::new(&name, None, None)])
            } else {
                let remark = format!("the form is `drop({name}(..));`, with what it acts on");
                error(word.span(), format!("`drop({name})` does not say which"), remark)
            };
        }
        let content;
        parenthesized!(content in self.input);
        let inner = Args { name: self.name, input: &content };
        let subjects = if whole { vec![] } else { inner.list(|a| a.dotted("what it acts on"))? };
        let within = inner.within()?;
        if !content.is_empty() {
            return inner.here("`)`");
        }
        Ok(match whole {
            true => vec![Key::new(&name, None, within.as_deref())],
            false => subjects.iter().map(|(s, _)| Key::new(&name, Some(s), within.as_deref())).collect(),
        })
    }
}

//! One directive: `tile(i = 32, j = 32)`, `stage(a at k: shared, cp_async)`, `drop(bind(i))`.
//!
//! [`tile_dsl::schedule::parse`] reads the same grammar from text, for tests and tools. This reader is over tokens, for the
//! spans that mistakes are underlined by, and says what was probably meant. [`super::schedule`] tests that both agree.

mod args;
mod members;

use super::expr::near;
use crate::spans::{Range, Spans};
use args::Args;
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
    nest::{Across, Atom, Fraction, Level, Order},
    schedule::{Directive, DirectiveKind, Evict, Item, Key, Space, Start, Unit, UnitDim, Via, WHOLE_KERNEL},
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
pub const FORMS: [(&str, &str); 35] = [
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
    ("interleave", "interleave(k.t: loads(3/8))"),
    ("split_k", "split_k(k, 4)"),
    ("reduce", "reduce(s: lane)"),
    ("bind", "bind(i -> thread.x)"),
    ("unroll", "unroll(k)"),
    ("serpentine", "serpentine(i, j)"),
    ("vectorize", "vectorize(j)"),
    ("exchange", "exchange(c)"),
    ("cache", "cache(c: evict_first)"),
    ("produce", "produce(k: warpgroup)"),
    ("arrive", "arrive(k: warp)"),
    ("issue", "issue(acc: overwrite, in_flight(1))"),
    ("registers", "registers(40, 232)"),
    ("persistent", "persistent(1)"),
    ("pingpong", "pingpong(2)"),
    ("alternate", "alternate(k)"),
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

type Members = Vec<(Found, Range)>;

impl Args<'_> {
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
            "interleave" => self.interleave(),
            "split_k" => {
                let digit = self.dotted("a loop")?;
                self.token::<Token![,]>(",")?;
                let parts = self.number()?;
                if self.input.is_empty() {
                    return Self::one(D::SplitK { digit, parts, across: Across::Workspace });
                }
                self.token::<Token![;]>(";")?;
                let word = self.word("`atomic` or `cluster`")?;
                let across = match word.to_string().as_str() {
                    "atomic" => Across::Atomic,
                    "cluster" => Across::Cluster,
                    _ => return one_of(&word, "combination", &["atomic", "cluster"]),
                };
                Self::one(D::SplitK { digit, parts, across })
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
                let atom = match Atom::from_name(&word.to_string(), shape) {
                    Ok(atom) => atom,
                    Err(message) => return self.fail(word.span(), message),
                };
                if self.input.is_empty() {
                    return Self::one(D::TensorCore { value, atom, swapped: false });
                }
                self.token::<Token![;]>(";")?;
                let word = self.word("`swapped`")?;
                if word != "swapped" {
                    return one_of(&word, "order", &["swapped"]);
                }
                Self::one(D::TensorCore { value, atom, swapped: true })
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
            "arrive" => {
                let digit = self.dotted("a pipelined loop")?;
                self.token::<Token![:]>(":")?;
                let word = self.word("`warp` or `thread`")?;
                match word.to_string().as_str() {
                    "warp" => Self::one(D::Arrive { digit, unit: Unit::Warp }),
                    "thread" => Self::one(D::Arrive { digit, unit: Unit::Thread }),
                    _ => one_of(&word, "arrival", &["warp", "thread"]),
                }
            }
            "exchange" => self.kinds(|a| Ok(D::Exchange { tensor: a.dotted("a tensor")? })),
            "cache" => self.kinds(|a| {
                let tensor = a.dotted("a tensor")?;
                a.token::<Token![:]>(":")?;
                let word = a.word("`evict_first` or `evict_last`")?;
                match Evict::named(&word.to_string()) {
                    Some(evict) => Ok(D::Cache { tensor, evict }),
                    None => one_of(&word, "cache hint", &Evict::NAMED.map(|(name, _)| name)),
                }
            }),
            "issue" => self.issue(),
            "registers" => {
                let producer = self.number()?;
                self.token::<Token![,]>(",")?;
                Self::one(D::Registers { producer, consumer: self.number()? })
            }
            "persistent" => Self::one(D::Persistent { ctas: self.number()? }),
            "alternate" => self.kinds(|a| Ok(D::Alternate { digit: a.dotted("a pipelined loop")? })),
            "pingpong" => Self::one(D::Pingpong { groups: self.number()? }),
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
                let order = self.word("`row`, `col`, `grouped(n)`, `serpentine(n)` or `hilbert`")?;
                Self::one(D::Order(match order.to_string().as_str() {
                    "row" => Order::Row,
                    "col" => Order::Column,
                    "grouped" => Order::Grouped(self.argument()?),
                    "serpentine" => Order::Serpentine(self.argument()?),
                    "hilbert" => Order::Hilbert,
                    _ => {
                        return one_of(
                            &order,
                            "order",
                            &["row", "col", "grouped(8)", "serpentine(8)", "hilbert"],
                        );
                    }
                }))
            }
            _ => self.drops(),
        }
    }
}

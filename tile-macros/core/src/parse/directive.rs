//! One directive: `tile(i = 32, j = 32)`, `stage(a at k: shared, cp_async)`, `drop(bind(i))`.
//!
//! [`tile_dsl::schedule`] has the grammar and reads it. Here its tokens are made of the macro's, and its places spans.

use crate::spans::{Range, Spans};
use proc_macro2::{Delimiter, Spacing, Span, TokenStream, TokenTree};
use syn::LitInt;
use tile_dsl::schedule::{self, Item, Mistake, Token, TokenKind};

/// Reads one directive; a list such as `tile(i = 32, j = 32)` yields one item for each member.
///
/// # Errors
/// The first mistake, where it is; at the call site if tokens are missing at the end.
pub fn parse(statement: TokenStream, inherited: Option<&str>, spans: &mut Spans) -> syn::Result<Vec<Item>> {
    let mut tokens = Tokens::default();
    tokens.add(statement);
    let Tokens { tokens, places } = tokens;
    let enter = |range: std::ops::Range<usize>| {
        spans.add(Range { first: places[range.start], last: places[range.end - 1] })
    };
    schedule::read(&tokens, inherited, enter).map_err(|Mistake { at, mut message, note, help }| {
        let place = places.get(at).copied().unwrap_or_else(Span::call_site);
        for (label, text) in [("note", note), ("help", help)] {
            message.extend(text.map(|text| format!("\n= {label}: {text}")));
        }
        syn::Error::new(place, message)
    })
}

/// Tokens with their places.
#[derive(Default)]
struct Tokens {
    tokens: Vec<Token>,
    places: Vec<Span>,
}

impl Tokens {
    fn push(&mut self, kind: TokenKind, text: impl Into<String>, place: Span) {
        self.tokens.push(Token::new(kind, text));
        self.places.push(place);
    }

    fn add(&mut self, stream: TokenStream) {
        let mut trees = stream.into_iter().peekable();
        while let Some(tree) = trees.next() {
            match tree {
                TokenTree::Ident(word) => self.push(TokenKind::Word, word.to_string(), word.span()),
                TokenTree::Literal(literal) => {
                    let (text, place) = (literal.to_string(), literal.span());
                    // Two numbers that a dot joins, in `v.2.3`, are one literal to Rust.
                    let number = match syn::parse_str::<LitInt>(&text) {
                        Ok(number) => Some(number.base10_digits().to_string()),
                        Err(_) => text.chars().all(|c| c.is_ascii_digit() || c == '.').then(|| text.clone()),
                    };
                    match number {
                        Some(number) => self.push(TokenKind::Number, number, place),
                        None => self.push(TokenKind::Other, text, place),
                    }
                }
                TokenTree::Punct(punct) => {
                    let (mut text, mut spacing) = (punct.as_char().to_string(), punct.spacing());
                    // An operator is one token.
                    while spacing == Spacing::Joint
                        && !separates(&text)
                        && let Some(TokenTree::Punct(next)) = trees.next_if(is_operator)
                    {
                        text.push(next.as_char());
                        spacing = next.spacing();
                    }
                    self.push(TokenKind::Mark, text, punct.span());
                }
                TokenTree::Group(group) => {
                    let (open, close) = match group.delimiter() {
                        Delimiter::Parenthesis => ("(", ")"),
                        Delimiter::Bracket => ("[", "]"),
                        Delimiter::Brace => ("{", "}"),
                        Delimiter::None => {
                            self.add(group.stream());
                            continue;
                        }
                    };
                    self.push(TokenKind::Mark, open, group.span_open());
                    self.add(group.stream());
                    self.push(TokenKind::Mark, close, group.span_close());
                }
            }
        }
    }
}

/// Whether it is one of the marks that are no part of an operator.
fn separates(mark: &str) -> bool {
    matches!(mark, "," | ";" | ".")
}

fn is_operator(tree: &TokenTree) -> bool {
    matches!(tree, TokenTree::Punct(punct) if !separates(&punct.as_char().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a macro would read it.
    fn read(text: &str) -> Option<Vec<Item>> {
        let statements = super::super::schedule::statements(&text.parse().map_err(drop).ok()?);
        let mut spans = Spans::default();
        let read = |statement| parse(statement, None, &mut spans).ok();
        Some(statements.into_iter().map(read).collect::<Option<Vec<_>>>()?.concat())
    }

    #[test]
    fn tokens_of_a_macro_are_those_of_a_text() {
        let forms = schedule::rows().iter().map(|row| row.form);
        for text in forms.chain([
            "tile(i = 1_024,); bind(j->lane.y^lane.x)",
            "fits(N<=1024, M <= 4)",
            "fuse(z.sum.2, v.2.3 at n.o); split(n.t -> no, nl, nv: 32, 4)",
            "interleave(k.t: loads(3/8), copies(1/4), stores(1/2))",
            "stage(a, e.max at k.o: shared, transposed, cp_async, vector(16))",
            "tensor_core(acc: wgmma(64, 128); swapped); split_k(k, 3; atomic)",
            "drop(bind(i, j.t), reorder(in acc), unroll(k in acc), order)",
        ]) {
            assert_eq!(read(text), schedule::parse(text).ok(), "{text}");
            assert!(read(text).is_some(), "{text}");
        }
        for text in ["tile(i => 2)", "tile(i = 2.5)", "tile(i = -1)", "tile(i = 4294967296)", "unroll(i..t)"]
        {
            assert_eq!((read(text), schedule::parse(text).ok()), (None, None), "{text}");
        }
    }
}

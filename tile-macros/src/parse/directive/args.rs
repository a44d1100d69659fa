//! The arguments of a directive, token by token.

use super::*;

pub(super) struct Args<'a> {
    pub name: &'a str,
    pub input: ParseStream<'a>,
}

impl Args<'_> {
    pub(super) fn fail<T>(&self, span: Span, message: impl Display) -> syn::Result<T> {
        error(span, message, format!("the form is `{};`", form(self.name)))
    }

    pub(super) fn here<T>(&self, wanted: &str) -> syn::Result<T> {
        match self.input.fork().parse::<TokenTree>() {
            Ok(token) => {
                let token = token.to_token_stream();
                self.fail(self.input.span(), format!("expected {wanted} in `{}`, found `{token}`", self.name))
            }
            Err(_) => self.fail(self.input.span(), format!("expected {wanted} in `{}`", self.name)),
        }
    }

    pub(super) fn word(&self, wanted: &str) -> syn::Result<Ident> {
        if self.input.peek(Ident::peek_any) { self.input.call(Ident::parse_any) } else { self.here(wanted) }
    }

    /// `i`, `i.t`, `e.max`, `v.2`, `y.sum.2`.
    pub(super) fn dotted(&self, wanted: &str) -> syn::Result<String> {
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

    pub(super) fn number(&self) -> syn::Result<u32> {
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
    pub(super) fn level(&self) -> syn::Result<u32> {
        if !self.input.peek(LitInt) {
            return self.here("a level from 0 to 4");
        }
        let literal: LitInt = self.input.parse()?;
        match literal.base10_parse::<u32>() {
            Ok(n) => Ok(n),
            Err(_) => self.fail(literal.span(), "this number does not fit in 32 bits"),
        }
    }

    pub(super) fn token<T: Parse>(&self, text: &str) -> syn::Result<()> {
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

    pub(super) fn keyword(&self, word: &str) -> syn::Result<()> {
        let found = self.word(&format!("`{word}`"))?;
        if found == word {
            Ok(())
        } else {
            mend(found.span(), format!("expected `{word}` in `{}`, found `{found}`", self.name), found, word)
        }
    }

    pub(super) fn peek_word(&self, word: &str) -> bool {
        self.input.peek(Ident::peek_any) && self.input.fork().call(Ident::parse_any).is_ok_and(|w| w == word)
    }

    /// Optional `in value`.
    pub(super) fn within(&self) -> syn::Result<Option<String>> {
        if self.input.parse::<Option<Token![in]>>()?.is_none() {
            return Ok(None);
        }
        self.dotted("the name of a value").map(Some)
    }

    /// Comma-separated members, each with its range.
    pub(super) fn list<T>(
        &self,
        mut member: impl FnMut(&Self) -> syn::Result<T>,
    ) -> syn::Result<Vec<(T, Range)>> {
        let mut members = vec![self.ranged(&mut member)?];
        while self.input.parse::<Option<Token![,]>>()?.is_some() {
            if self.input.is_empty() {
                break;
            }
            members.push(self.ranged(&mut member)?);
        }
        Ok(members)
    }

    pub(super) fn ranged<T>(&self, member: impl FnOnce(&Self) -> syn::Result<T>) -> syn::Result<(T, Range)> {
        let rest = self.input.fork();
        let value = member(self)?;
        let mut tokens = Vec::new();
        while rest.cursor() != self.input.cursor() {
            tokens.push(rest.parse::<TokenTree>()?);
        }
        Ok((value, Range::of(&tokens.into_iter().collect::<proc_macro2::TokenStream>())))
    }

    pub(super) fn kinds(
        &self,
        mut member: impl FnMut(&Self) -> syn::Result<DirectiveKind>,
    ) -> syn::Result<Members> {
        self.list(|a| member(a).map(Found::Kind))
    }

    pub(super) fn one(kind: DirectiveKind) -> syn::Result<Members> {
        Ok(vec![(Found::Kind(kind), Span::call_site().into())])
    }

    /// `(16)` after a word.
    pub(super) fn argument(&self) -> syn::Result<u32> {
        if !self.input.peek(syn::token::Paren) {
            return self.here("a number in parentheses");
        }
        let content;
        parenthesized!(content in self.input);
        Args { name: self.name, input: &content }.number()
    }

    /// `(3/8)` after a word.
    pub(super) fn fraction(&self) -> syn::Result<Fraction> {
        if !self.input.peek(syn::token::Paren) {
            return self.here("a fraction in parentheses");
        }
        let content;
        parenthesized!(content in self.input);
        let inner = Args { name: self.name, input: &content };
        let parts = inner.number()?;
        inner.token::<Token![/]>("/")?;
        let fraction = Fraction { parts, of: inner.number()? };
        if content.is_empty() { Ok(fraction) } else { inner.here("`)`") }
    }

    /// `(64, 128)` after a word.
    pub(super) fn shape(&self) -> syn::Result<[u32; 2]> {
        let content;
        parenthesized!(content in self.input);
        let inner = Args { name: self.name, input: &content };
        let m = inner.number()?;
        inner.token::<Token![,]>(",")?;
        Ok([m, inner.number()?])
    }
}

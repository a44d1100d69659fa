//! The table behind [`SpanId`]: source ranges as first and last token, as `Span::join` is not stable.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use tile_dsl::span::SpanId;

/// Source range from the first to the last token.
#[derive(Clone, Copy)]
pub struct Range {
    pub first: Span,
    pub last: Span,
}

impl Range {
    /// Range of some tokens; the call site if there are none.
    pub fn of(tokens: &impl ToTokens) -> Range {
        let stream: TokenStream = tokens.to_token_stream();
        let mut trees = stream.into_iter();
        let Some(head) = trees.next() else { return Span::call_site().into() };
        let first = match &head {
            proc_macro2::TokenTree::Group(group) => group.span_open(),
            other => other.span(),
        };
        let last = match trees.last().unwrap_or(head) {
            proc_macro2::TokenTree::Group(group) => group.span_close(),
            other => other.span(),
        };
        Range { first, last }
    }

    /// `file:line`, where the compiler knows it.
    pub fn place(self) -> Option<String> {
        let span = self.first.unwrap();
        let (file, line) = (span.file(), span.line());
        (!file.is_empty() && line > 0).then(|| format!("{file}:{line}"))
    }

    /// The text of a range on one line, as written.
    pub fn excerpt(self) -> Option<String> {
        let (first, last) = (self.first.unwrap(), self.last.unwrap());
        if first.line() == last.line()
            && first.file() == last.file()
            && let Some(line) =
                std::fs::read_to_string(first.local_file()?).ok()?.lines().nth(first.line() - 1)
        {
            let chars: Vec<char> = line.chars().collect();
            let text: String = chars.get(first.column() - 1..last.end().column() - 1)?.iter().collect();
            return Some(text);
        }
        self.first.source_text()
    }
}

impl From<Span> for Range {
    fn from(span: Span) -> Self {
        Range { first: span, last: span }
    }
}

/// Source ranges by [`SpanId`].
#[derive(Default)]
pub struct Spans(Vec<Range>);

impl Spans {
    /// Enters a range.
    pub fn add(&mut self, range: impl Into<Range>) -> SpanId {
        self.0.push(range.into());
        SpanId(u32::try_from(self.0.len()).expect("sources have fewer than 2³² tokens"))
    }

    /// Enters the range of some tokens.
    pub fn of(&mut self, tokens: &impl ToTokens) -> SpanId {
        self.add(Range::of(tokens))
    }

    /// The range, unless it is [`SpanId::NONE`].
    pub fn get(&self, id: SpanId) -> Option<Range> {
        self.0.get(usize::try_from(id.0).ok()?.checked_sub(1)?).copied()
    }
}

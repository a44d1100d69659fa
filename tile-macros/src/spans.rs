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

    /// The text as written, if it stands on one line.
    pub fn line(self) -> Option<String> {
        let (first, last) = (self.first.unwrap(), self.last.unwrap());
        self.excerpt().filter(|_| first.line() == last.line())
    }

    /// The text as written; of several lines the first.
    pub fn excerpt(self) -> Option<String> {
        let (first, end) = (self.first.unwrap(), self.last.unwrap().end());
        let source = || std::fs::read_to_string(first.local_file()?).ok();
        let Some(source) = source() else { return self.first.source_text() };
        let line: Vec<char> = source.lines().nth(first.line().checked_sub(1)?)?.chars().collect();
        let start = first.column().checked_sub(1)?;
        if first.line() == end.line() && first.file() == end.file() {
            return Some(line.get(start..end.column().checked_sub(1)?)?.iter().collect());
        }
        let text: String = line.get(start..)?.iter().collect();
        Some(format!("{} ..", text.trim_end()))
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
        SpanId(self.len())
    }

    /// Enters the range of some tokens.
    pub fn of(&mut self, tokens: &impl ToTokens) -> SpanId {
        self.add(Range::of(tokens))
    }

    /// Number of ranges so far: the next id is one more.
    pub fn len(&self) -> u32 {
        u32::try_from(self.0.len()).expect("sources have fewer than 2³² tokens")
    }

    /// The range, unless it is [`SpanId::NONE`].
    pub fn get(&self, id: SpanId) -> Option<Range> {
        self.0.get(usize::try_from(id.0).ok()?.checked_sub(1)?).copied()
    }
}

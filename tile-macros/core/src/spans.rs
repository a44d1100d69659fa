//! The table behind [`SpanId`]: source ranges as first and last token, as `Span::join` is not stable.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use std::collections::BTreeMap;
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
        let (file, line) = (self.first.file(), self.first.start().line);
        (!file.is_empty() && line > 0).then(|| format!("{file}:{line}"))
    }

    /// The text as written, if it stands on one line.
    pub fn line(self) -> Option<String> {
        self.excerpt().filter(|_| self.first.start().line == self.last.start().line)
    }

    /// The text as written; of several lines the first.
    pub fn excerpt(self) -> Option<String> {
        let (start, end) = (self.first.start(), self.last.end());
        let one_line = start.line == end.line && self.first.file() == self.last.file();
        let text: String = match self.first.join(self.last).and_then(|all| all.source_text()) {
            Some(text) => text.lines().next()?.to_string(),
            None => {
                let source = || std::fs::read_to_string(self.first.local_file()?).ok();
                let Some(source) = source() else { return self.first.source_text() };
                let line: Vec<char> = source.lines().nth(start.line.checked_sub(1)?)?.chars().collect();
                line.get(start.column..if one_line { end.column } else { line.len() })?.iter().collect()
            }
        };
        Some(if one_line { text } else { format!("{} ..", text.trim_end()) })
    }
}

impl From<Span> for Range {
    fn from(span: Span) -> Self {
        Range { first: span, last: span }
    }
}

/// Source ranges by [`SpanId`], and where the reference describes what stands there.
#[derive(Default)]
pub struct Spans {
    ranges: Vec<Range>,
    cards: BTreeMap<SpanId, String>,
}

impl Spans {
    /// Enters a range.
    pub fn add(&mut self, range: impl Into<Range>) -> SpanId {
        self.ranges.push(range.into());
        SpanId(self.len())
    }

    /// Enters the range of some tokens.
    pub fn of(&mut self, tokens: &impl ToTokens) -> SpanId {
        self.add(Range::of(tokens))
    }

    /// Number of ranges so far: the next id is one more.
    pub fn len(&self) -> u32 {
        u32::try_from(self.ranges.len()).expect("sources have fewer than 2³² tokens")
    }

    /// The range, unless it is [`SpanId::NONE`].
    pub fn get(&self, id: SpanId) -> Option<Range> {
        self.ranges.get(usize::try_from(id.0).ok()?.checked_sub(1)?).copied()
    }

    /// Says where the reference describes what stands there.
    pub fn describe(&mut self, id: SpanId, card: String) {
        self.cards.insert(id, card);
    }

    /// Where the reference describes what stands there.
    pub fn card(&self, id: SpanId) -> Option<&str> {
        self.cards.get(&id).map(String::as_str)
    }
}

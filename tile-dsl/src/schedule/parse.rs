//! Reads directives as text, such as they are printed. For tests and tools, and the only reader of text.
//!
//! ```text
//! directives ::= { (directive | drop(key, ..)) ";" }     ; the last ";" may be left out
//! ```
//! The directives are those of `docs/schedule.md`, lists included: `tile(i = 32, j = 8); stage(a, b at k: shared)`. Lists of
//! numbers are `schedule!`'s alone: what is printed is one configuration.

use super::{Item, read::read, token::tokens};
use crate::span::SpanId;

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
    let tokens = tokens(text);
    let mut depth = 0usize;
    let mut statements: Vec<_> = tokens
        .split(|token| {
            match token.text.as_str() {
                "(" => depth += 1,
                ")" => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && token.text == ";"
        })
        .collect();
    if statements.last().is_some_and(|last| last.is_empty()) {
        statements.pop();
    }
    let (mut items, mut count) = (Vec::new(), 0);
    for (n, statement) in statements.into_iter().enumerate() {
        let span = |_| {
            count += 1;
            SpanId(count)
        };
        let found = read(statement, None, span);
        items.extend(found.map_err(|mistake| ParseError { directive: n + 1, message: mistake.message })?);
    }
    Ok(items)
}

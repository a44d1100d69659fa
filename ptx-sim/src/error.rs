//! Why PTX text was refused.

use crate::lex::Pos;

/// Malformed or unsupported PTX, with the place and what was expected there.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct ParseError {
    /// Line of the PTX text, from 1.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
    /// What is wrong and what was expected.
    pub message: String,
}

impl ParseError {
    pub(crate) fn at(pos: Pos, message: impl Into<String>) -> Self {
        ParseError { line: pos.line, column: pos.col, message: message.into() }
    }
}

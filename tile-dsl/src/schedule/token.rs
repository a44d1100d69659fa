//! Tokens of directives, of text as of a macro's input. Places are positions in the list of them.

/// A token. Groups are taken apart: their brackets are tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: TokenKind,
    /// As written; a number without its underscores.
    pub text: String,
}

/// Kinds of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A name or a keyword.
    Word,
    /// A number, or two of them that a dot joins: Rust reads `v.2.3` so.
    Number,
    /// A whole operator, such as `->`, a bracket, or one of `,` `;` `.`.
    Mark,
    /// What stands in no directive.
    Other,
}

impl Token {
    /// A token of some kind.
    pub fn new(kind: TokenKind, text: impl Into<String>) -> Self {
        Token { kind, text: text.into() }
    }

    /// Whether it is an operator, other than those that separate.
    pub(super) fn is_operator(&self) -> bool {
        self.kind == TokenKind::Mark && !self.text.starts_with(alone)
    }
}

/// Marks that are tokens by themselves, whatever stands beside them.
fn alone(c: char) -> bool {
    "()[]{},;.".contains(c)
}

/// The tokens of a text.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let while_in = |inside: fn(char) -> bool| rest.find(|c| !inside(c)).unwrap_or(rest.len());
        let letters = while_in(|c| c.is_alphanumeric() || c == '_');
        let (kind, length) = match first {
            _ if first.is_numeric() => (TokenKind::Number, letters + fraction(&rest[letters..])),
            _ if letters > 0 => (TokenKind::Word, letters),
            _ if alone(first) => (TokenKind::Mark, first.len_utf8()),
            _ => {
                let operator =
                    while_in(|c| !(c.is_alphanumeric() || c == '_' || c.is_whitespace() || alone(c)));
                (TokenKind::Mark, operator)
            }
        };
        let text = &rest[..length];
        let text = if kind == TokenKind::Number { text.replace('_', "") } else { text.to_string() };
        tokens.push(Token { kind, text });
        rest = rest[length..].trim_start();
    }
    tokens
}

/// Length of `.3`.
fn fraction(rest: &str) -> usize {
    let digits = rest.strip_prefix('.').map(|d| d.find(|c: char| !c.is_numeric()).unwrap_or(d.len()));
    digits.filter(|n| *n > 0).map_or(0, |n| n + 1)
}

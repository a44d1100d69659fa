//! Tokens of PTX text (PTX ISA §4: lexical structure).

use crate::error::ParseError;

/// Position of a token: line and column, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pos {
    pub line: u32,
    pub col: u32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Tok<'a> {
    /// Identifier, including register names (`%r1`, `$L__BB0_1`).
    Ident(&'a str),
    /// A directive or modifier without its leading dot; `::` parts belong to it (`shared::cta`).
    Dot(&'a str),
    Int(u64),
    /// `0f3F800000`: the bits of an f32.
    F32(u32),
    /// `0d3FF0000000000000` or a decimal literal: the bits of an f64.
    F64(u64),
    Str(&'a str),
    Punct(char),
    Eof,
}

impl Tok<'_> {
    pub fn describe(&self) -> String {
        match self {
            Tok::Ident(s) => format!("`{s}`"),
            Tok::Dot(s) => format!("`.{s}`"),
            Tok::Int(v) => format!("`{v}`"),
            Tok::F32(v) => format!("`0f{v:08X}`"),
            Tok::F64(v) => format!("`0d{v:016X}`"),
            Tok::Str(s) => format!("\"{s}\""),
            Tok::Punct(c) => format!("`{c}`"),
            Tok::Eof => "the end of the file".into(),
        }
    }
}

fn is_ident_start(c: u8) -> bool {
    c.is_ascii_alphabetic() || matches!(c, b'_' | b'$' | b'%')
}

fn is_ident(c: u8) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, b'_' | b'$')
}

/// Splits `src` into tokens; the last one is [`Tok::Eof`].
pub(crate) fn lex(src: &str) -> Result<Vec<(Tok<'_>, Pos)>, ParseError> {
    let b = src.as_bytes();
    let mut toks = Vec::with_capacity(src.len() / 4);
    let (mut i, mut line, mut line_start) = (0usize, 1u32, 0usize);
    while i < b.len() {
        let c = b[i];
        let pos = Pos { line, col: (i - line_start) as u32 + 1 };
        match c {
            b'\n' => {
                line += 1;
                i += 1;
                line_start = i;
            }
            _ if c.is_ascii_whitespace() || c == 0 => i += 1,
            b'/' if b.get(i + 1) == Some(&b'/') => {
                while i < b.len() && b[i] != b'\n' {
                    i += 1;
                }
            }
            b'/' if b.get(i + 1) == Some(&b'*') => {
                i += 2;
                loop {
                    if i + 1 >= b.len() {
                        return Err(ParseError::at(pos, "this comment is never closed: expected `*/`"));
                    }
                    if b[i] == b'*' && b[i + 1] == b'/' {
                        i += 2;
                        break;
                    }
                    if b[i] == b'\n' {
                        line += 1;
                        line_start = i + 1;
                    }
                    i += 1;
                }
            }
            b'"' => {
                let start = i + 1;
                i += 1;
                while i < b.len() && b[i] != b'"' && b[i] != b'\n' {
                    i += if b[i] == b'\\' { 2 } else { 1 };
                }
                if b.get(i) != Some(&b'"') {
                    return Err(ParseError::at(pos, "this string is never closed: expected `\"`"));
                }
                toks.push((Tok::Str(&src[start..i]), pos));
                i += 1;
            }
            b'.' if b.get(i + 1).is_some_and(|c| is_ident(*c)) => {
                let start = i + 1;
                i += 1;
                loop {
                    while i < b.len() && is_ident(b[i]) {
                        i += 1;
                    }
                    if b.get(i) == Some(&b':')
                        && b.get(i + 1) == Some(&b':')
                        && b.get(i + 2).is_some_and(|c| is_ident(*c))
                    {
                        i += 2;
                    } else {
                        break;
                    }
                }
                toks.push((Tok::Dot(&src[start..i]), pos));
            }
            _ if c.is_ascii_digit() => {
                let (tok, next) = number(src, i, pos)?;
                toks.push((tok, pos));
                i = next;
            }
            _ if is_ident_start(c) => {
                let start = i;
                i += 1;
                while i < b.len() && is_ident(b[i]) {
                    i += 1;
                }
                toks.push((Tok::Ident(&src[start..i]), pos));
            }
            b'(' | b')' | b'{' | b'}' | b'[' | b']' | b'<' | b'>' | b',' | b';' | b':' | b'+' | b'-'
            | b'@' | b'!' | b'|' | b'=' | b'*' | b'/' | b'~' | b'&' | b'^' | b'?' | b'.' => {
                toks.push((Tok::Punct(c as char), pos));
                i += 1;
            }
            _ => {
                let ch = src[i..].chars().next().unwrap_or('?');
                return Err(ParseError::at(pos, format!("`{ch}` does not belong in PTX")));
            }
        }
    }
    toks.push((Tok::Eof, Pos { line, col: (i.saturating_sub(line_start)) as u32 + 1 }));
    Ok(toks)
}

fn number(src: &str, start: usize, pos: Pos) -> Result<(Tok<'_>, usize), ParseError> {
    let b = src.as_bytes();
    let hex_run = |from: usize| {
        let mut j = from;
        while j < b.len() && b[j].is_ascii_hexdigit() {
            j += 1;
        }
        j
    };
    let bad = |what: &str| ParseError::at(pos, format!("malformed number: expected {what}"));
    if b[start] == b'0' && start + 1 < b.len() {
        let digits = start + 2;
        match b[start + 1] {
            b'f' | b'F' if hex_run(digits) >= digits + 8 => {
                let v = u32::from_str_radix(&src[digits..digits + 8], 16).map_err(|_| bad("8 hex digits"))?;
                return Ok((Tok::F32(v), digits + 8));
            }
            b'd' | b'D' if hex_run(digits) >= digits + 16 => {
                let v =
                    u64::from_str_radix(&src[digits..digits + 16], 16).map_err(|_| bad("16 hex digits"))?;
                return Ok((Tok::F64(v), digits + 16));
            }
            b'x' | b'X' => {
                let end = hex_run(digits);
                let v =
                    u64::from_str_radix(&src[digits..end], 16).map_err(|_| bad("a 64-bit hex integer"))?;
                return Ok((Tok::Int(v), skip_u(b, end)));
            }
            b'b' | b'B' => {
                let mut end = digits;
                while end < b.len() && (b[end] == b'0' || b[end] == b'1') {
                    end += 1;
                }
                let v =
                    u64::from_str_radix(&src[digits..end], 2).map_err(|_| bad("a 64-bit binary integer"))?;
                return Ok((Tok::Int(v), skip_u(b, end)));
            }
            b'f' | b'F' => return Err(bad("`0f` and 8 hex digits")),
            b'd' | b'D' => return Err(bad("`0d` and 16 hex digits")),
            _ => {}
        }
    }
    let mut j = start;
    while j < b.len() && b[j].is_ascii_digit() {
        j += 1;
    }
    let mut float = false;
    if b.get(j) == Some(&b'.') && b.get(j + 1).is_some_and(u8::is_ascii_digit) {
        float = true;
        j += 1;
        while j < b.len() && b[j].is_ascii_digit() {
            j += 1;
        }
    }
    if matches!(b.get(j), Some(b'e' | b'E')) {
        let mut k = j + 1;
        if matches!(b.get(k), Some(b'+' | b'-')) {
            k += 1;
        }
        if b.get(k).is_some_and(u8::is_ascii_digit) {
            float = true;
            while k < b.len() && b[k].is_ascii_digit() {
                k += 1;
            }
            j = k;
        }
    }
    if float {
        let v: f64 = src[start..j].parse().map_err(|_| bad("a decimal number"))?;
        return Ok((Tok::F64(v.to_bits()), j));
    }
    let text = &src[start..j];
    // Identifiers such as `2d` only follow a dot, so a letter here is a mistake.
    let v = if text.len() > 1 && text.starts_with('0') && text.bytes().all(|c| (b'0'..=b'7').contains(&c)) {
        u64::from_str_radix(text, 8)
    } else {
        text.parse()
    };
    Ok((Tok::Int(v.map_err(|_| bad("an integer below 2^64"))?), skip_u(b, j)))
}

fn skip_u(b: &[u8], i: usize) -> usize {
    if matches!(b.get(i), Some(b'U' | b'u')) { i + 1 } else { i }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(s: &str) -> Vec<Tok<'_>> {
        lex(s).unwrap().into_iter().map(|t| t.0).collect()
    }

    #[test]
    fn modifiers_keep_their_scope_parts() {
        assert_eq!(
            kinds("ld.shared::cta.v4.b32 {%r1}, [%rd2+16];")[..4],
            [Tok::Ident("ld"), Tok::Dot("shared::cta"), Tok::Dot("v4"), Tok::Dot("b32")]
        );
    }

    #[test]
    fn numbers_of_every_base() {
        assert_eq!(
            kinds("0x1F 017 0b101 0f3F800000 0d3FF0000000000000 1.5 2e3 9U"),
            [
                Tok::Int(31),
                Tok::Int(15),
                Tok::Int(5),
                Tok::F32(0x3F80_0000),
                Tok::F64(0x3FF0_0000_0000_0000),
                Tok::F64(1.5f64.to_bits()),
                Tok::F64(2000f64.to_bits()),
                Tok::Int(9),
                Tok::Eof
            ]
        );
    }

    #[test]
    fn positions_survive_comments_and_bad_characters_are_located() {
        let e = lex("mov /* a\nb */ ;\n  #").unwrap_err();
        assert_eq!((e.line, e.column), (3, 3));
        assert!(lex("/* open").is_err());
        assert!(lex("\"open").is_err());
        assert!(lex("99999999999999999999").is_err());
    }
}

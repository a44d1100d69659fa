//! Recursive-descent parser of PTX modules (PTX ISA §4 and §5).

mod body;
mod debug;
mod function;
mod target;

use crate::ast::*;
use crate::error::ParseError;
use crate::lex::{Pos, Tok, lex};
use crate::types::Ty;
use std::collections::HashMap;

type Res<T> = Result<T, ParseError>;

/// Parses a whole module.
pub(crate) fn parse(src: &str) -> Res<AstModule<'_>> {
    let toks = lex(src)?;
    Parser { toks, i: 0, depth: 0, inlined: vec![], inlined_ids: HashMap::new(), locs: HashMap::new() }
        .module()
}

struct Parser<'a> {
    toks: Vec<(Tok<'a>, Pos)>,
    i: usize,
    /// Nesting of operands and initial values, which recurse.
    depth: u32,
    inlined: Vec<Inlined<'a>>,
    inlined_ids: HashMap<Inlined<'a>, u32>,
    /// What each `.loc` of the body so far stands in.
    locs: HashMap<(u32, u32, u32), Option<u32>>,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Tok<'a> {
        self.toks[self.i].0
    }

    fn peek_at(&self, k: usize) -> Tok<'a> {
        self.toks[(self.i + k).min(self.toks.len() - 1)].0
    }

    fn pos(&self) -> Pos {
        self.toks[self.i].1
    }

    fn next(&mut self) -> Tok<'a> {
        let t = self.toks[self.i].0;
        if self.i + 1 < self.toks.len() {
            self.i += 1;
        }
        t
    }

    fn err<T>(&self, expected: &str) -> Res<T> {
        Err(ParseError::at(self.pos(), format!("expected {expected}, found {}", self.peek().describe())))
    }

    fn eat(&mut self, c: char) -> bool {
        let hit = self.peek() == Tok::Punct(c);
        if hit {
            self.next();
        }
        hit
    }

    fn expect(&mut self, c: char) -> Res<()> {
        if self.eat(c) { Ok(()) } else { self.err(&format!("`{c}`")) }
    }

    fn ident(&mut self, what: &str) -> Res<&'a str> {
        match self.peek() {
            Tok::Ident(s) => {
                self.next();
                Ok(s)
            }
            _ => self.err(what),
        }
    }

    fn int(&mut self, what: &str) -> Res<u64> {
        match self.peek() {
            Tok::Int(v) => {
                self.next();
                Ok(v)
            }
            _ => self.err(what),
        }
    }

    fn u32(&mut self, what: &str) -> Res<u32> {
        let pos = self.pos();
        u32::try_from(self.int(what)?).map_err(|_| ParseError::at(pos, format!("{what} must be below 2^32")))
    }

    fn skip_block(&mut self) -> Res<()> {
        let open = self.pos();
        self.expect('{')?;
        let mut depth = 1;
        while depth > 0 {
            match self.next() {
                Tok::Punct('{') => depth += 1,
                Tok::Punct('}') => depth -= 1,
                Tok::Eof => return Err(ParseError::at(open, "this `{` is never closed: expected `}`")),
                _ => {}
            }
        }
        Ok(())
    }

    fn module(mut self) -> Res<AstModule<'a>> {
        let mut m = AstModule::default();
        loop {
            let pos = self.pos();
            match self.next() {
                Tok::Eof => break,
                Tok::Punct(';') => {}
                Tok::Dot("version") => m.version = self.version()?,
                Tok::Dot("target") => loop {
                    let at = self.pos();
                    let name = self.ident("a target such as `sm_90a`")?;
                    if let target::Target::Sm(sm, suffix) = target::at(at, name)? {
                        (m.sm, m.suffix) = (sm, suffix);
                    }
                    if !self.eat(',') {
                        break;
                    }
                },
                Tok::Dot("address_size") => {
                    if self.int("64")? != 64 {
                        return Err(ParseError::at(pos, "only `.address_size 64` is supported"));
                    }
                }
                Tok::Dot("visible" | "weak" | "common" | "extern") => {}
                Tok::Dot("section") if self.peek() == Tok::Dot("debug_str") => {
                    self.next();
                    self.debug_str(&mut m)?;
                }
                Tok::Dot("file") => self.file(&mut m)?,
                Tok::Dot("section") => {
                    self.next();
                    self.skip_block()?;
                }
                Tok::Dot("pragma") => while !matches!(self.next(), Tok::Punct(';') | Tok::Eof) {},
                Tok::Dot("alias") => while !matches!(self.next(), Tok::Punct(';') | Tok::Eof) {},
                Tok::Dot("entry") => {
                    let e = self.entry()?;
                    if !e.has_body {
                        continue;
                    }
                    if m.entries.iter().any(|o| o.name == e.name) {
                        return Err(ParseError::at(pos, format!("kernel `{}` is defined twice", e.name)));
                    }
                    m.entries.push(e);
                }
                Tok::Dot("func") => {
                    let f = self.func()?;
                    // A declaration may come before and after the definition.
                    match m.funcs.iter_mut().find(|o| o.name == f.name) {
                        Some(o) if o.has_body && f.has_body => {
                            return Err(ParseError::at(
                                pos,
                                format!("function `{}` is defined twice", f.name),
                            ));
                        }
                        Some(o) if f.has_body => *o = f,
                        Some(_) => {}
                        None => m.funcs.push(f),
                    }
                }
                Tok::Dot(s @ ("global" | "const" | "shared")) => {
                    let space = match s {
                        "global" => Space::Global,
                        "const" => Space::Const,
                        _ => Space::Shared,
                    };
                    self.vars(space, &mut m.vars)?;
                }
                t => {
                    return Err(ParseError::at(
                        pos,
                        format!(
                            "expected a module directive such as `.version`, `.entry` or `.shared`, found {}",
                            t.describe()
                        ),
                    ));
                }
            }
        }
        m.inlined = self.inlined;
        if m.version == (0, 0) {
            return Err(ParseError::at(
                Pos { line: 1, col: 1 },
                "expected `.version` at the start of the module",
            ));
        }
        if m.sm == 0 {
            return Err(ParseError::at(Pos { line: 1, col: 1 }, "expected `.target sm_…` after `.version`"));
        }
        Ok(m)
    }

    fn version(&mut self) -> Res<(u32, u32)> {
        let pos = self.pos();
        // `8.6` lexes as a decimal.
        let v = match self.next() {
            Tok::F64(bits) => f64::from_bits(bits),
            _ => return Err(ParseError::at(pos, "expected a version such as `8.0`")),
        };
        let tenths = (v * 10.0).round();
        if !(10.0..=94.0).contains(&tenths) {
            return Err(ParseError::at(
                pos,
                format!("PTX version {v} is not supported: expected 1.0 to 9.4"),
            ));
        }
        Ok((tenths as u32 / 10, tenths as u32 % 10))
    }

    fn file(&mut self, m: &mut AstModule<'a>) -> Res<()> {
        let n = self.u32("a file number")?;
        let Tok::Str(name) = self.next() else { return self.err("a file name in quotes") };
        m.files.insert(n, name);
        while self.eat(',') {
            self.int("a timestamp or size")?;
        }
        Ok(())
    }

    /// After the state space: `.align N .type name[dims] = init, …;`
    fn vars(&mut self, space: Space, out: &mut Vec<Var<'a>>) -> Res<()> {
        let mut align = None;
        let mut vec = 1u64;
        let ty = loop {
            let pos = self.pos();
            match self.next() {
                Tok::Dot("align") => align = Some(self.u32("an alignment")?),
                Tok::Dot("v2") => vec = 2,
                Tok::Dot("v4") => vec = 4,
                Tok::Dot("attribute") => {
                    self.expect('(')?;
                    while !self.eat(')') {
                        if self.next() == Tok::Eof {
                            return self.err("`)`");
                        }
                    }
                }
                Tok::Dot(s) if Ty::parse(s).is_some_and(|t| t != Ty::Pred) => break Ty::parse(s).unwrap(),
                t => {
                    return Err(ParseError::at(
                        pos,
                        format!("expected `.align` or a type, found {}", t.describe()),
                    ));
                }
            }
        };
        let elem = ty.bytes() as u64 * vec;
        let align = align.unwrap_or(elem as u32);
        if !align.is_power_of_two() || align > 1 << 20 {
            return self.err("an alignment that is a power of two");
        }
        loop {
            let pos = self.pos();
            let name = self.ident("a variable name")?;
            let mut size = elem;
            let mut incomplete = false;
            while self.eat('[') {
                if self.eat(']') {
                    incomplete = true;
                    continue;
                }
                let n = self.int("an array length")?;
                size = size
                    .checked_mul(n)
                    .filter(|s| *s <= 1 << 40)
                    .ok_or_else(|| ParseError::at(pos, format!("array `{name}` is too large")))?;
                self.expect(']')?;
            }
            let (mut init, mut relocs) = (vec![], vec![]);
            if self.eat('=') {
                self.init(ty, &mut init, &mut relocs)?;
                if incomplete {
                    size = init.len() as u64;
                    incomplete = false;
                }
                if init.len() as u64 > size {
                    return Err(ParseError::at(
                        pos,
                        format!("`{name}` has more initial values than elements"),
                    ));
                }
            }
            out.push(Var { name, space, align, size: if incomplete { 0 } else { size }, init, relocs });
            if !self.eat(',') {
                break;
            }
        }
        self.expect(';')
    }

    fn init(&mut self, ty: Ty, out: &mut Vec<u8>, relocs: &mut Vec<(usize, &'a str, i64)>) -> Res<()> {
        if self.eat('{') {
            self.nest()?;
            loop {
                self.init(ty, out, relocs)?;
                if !self.eat(',') {
                    break;
                }
            }
            self.depth -= 1;
            return self.expect('}');
        }
        let neg = self.eat('-');
        let n = ty.bytes() as usize;
        let bits = match self.peek() {
            Tok::Int(v) if ty == Ty::F32 => (v as f32).to_bits() as u64 ^ ((neg as u64) << 31),
            Tok::Int(v) if ty == Ty::F64 => (v as f64).to_bits() ^ ((neg as u64) << 63),
            Tok::Int(v) => {
                if neg {
                    v.wrapping_neg()
                } else {
                    v
                }
            }
            Tok::F32(v) => v as u64,
            Tok::F64(v) if ty == Ty::F32 => (f64::from_bits(v) as f32).to_bits() as u64,
            Tok::F64(v) => v,
            // The address of a variable or function; `generic(…)` makes it a generic one, which it is here anyway.
            Tok::Ident(name) if !neg && ty.bytes() == 8 => {
                self.next();
                let name = match name {
                    "generic" if self.eat('(') => {
                        let name = self.ident("a symbol")?;
                        self.expect(')')?;
                        name
                    }
                    name => name,
                };
                relocs.push((out.len(), name, self.offset()?));
                out.extend_from_slice(&[0; 8]);
                return Ok(());
            }
            _ => return self.err("a number, or (for 64-bit types) the address of a symbol"),
        };
        self.next();
        let mut bytes = [0u8; 16];
        bytes[..8].copy_from_slice(&bits.to_le_bytes());
        out.extend_from_slice(&bytes[..n]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

    fn err(body: &str) -> ParseError {
        let text = format!("{HEAD}.entry k(.param .u64 p) {{\n{body}\n}}");
        parse(&text).map(|mut m| m.entries.remove(0).error.expect("an error")).unwrap_or_else(|e| e)
    }

    #[test]
    fn scopes_shadow_registers_and_labels() {
        let src = format!(
            "{HEAD}.entry k() {{ .reg .b32 %r<2>; {{ .reg .b64 %r<1>; L: mov.b64 %r0, 1; bra L; }} L: mov.b32 %r0, 2; ret; }}"
        );
        let m = parse(&src).unwrap();
        let e = &m.entries[0];
        assert_eq!(e.body[0].ops[0], Operand::Reg(RegId(2)));
        assert_eq!(e.body[2].ops[0], Operand::Reg(RegId(0)));
        assert_eq!(e.labels.len(), 2);
    }

    #[test]
    fn params_and_directives() {
        let src = format!(
            "{HEAD}.visible .entry k(.param .align 64 .b8 m[128], .param .u64 .ptr .global .align 16 p, .param .f32 a)\n\
             .maxntid 128, 2, 1 .minnctapersm 1 {{ .loc 1 7 3, function_name $x, inlined_at 1 2 3\n ret; }} .section .debug_x {{ .b8 1 }}"
        );
        let m = parse(&src).unwrap();
        let p: Vec<_> = m.entries[0].params.iter().map(|p| (p.size, p.align)).collect();
        assert_eq!(p, [(128, 64), (8, 8), (4, 4)]);
        assert_eq!(m.entries[0].maxntid, Some([128, 2, 1]));
        assert_eq!(m.entries[0].body[0].loc, Some(Loc { file: 1, line: 7, col: 3, inlined: Some(0) }));
    }

    #[test]
    fn errors_say_where_and_what() {
        let e = err("mov.b32 %r9, 1;");
        assert_eq!((e.line, e.column), (5, 9));
        assert!(e.message.contains("%r9"), "{e}");
        let e = err(".reg .b32 %r<2>; add.s32 %r0, %r1 %r1;");
        assert!(e.message.starts_with("expected `,` and another operand, or `;`"), "{e}");
        assert!(parse(".target sm_80").unwrap_err().message.contains(".version"));
        let e = parse(".version 8.0\n.target debug, sm_81\n").unwrap_err();
        assert_eq!((e.line, e.column), (2, 16));
        assert!(e.message.starts_with("unknown target `sm_81`: known are sm_10, "), "{e}");
        assert!(err("ret; {").message.contains("never closed"));
    }
}

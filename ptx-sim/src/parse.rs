//! Recursive-descent parser of PTX modules (PTX ISA §4 and §5).

use crate::ast::*;
use crate::error::ParseError;
use crate::lex::{Pos, Tok, lex};
use crate::types::Ty;
use std::collections::HashMap;

type Res<T> = Result<T, ParseError>;

/// Parses a whole module.
pub(crate) fn parse(src: &str) -> Res<AstModule<'_>> {
    let toks = lex(src)?;
    Parser { toks, i: 0, depth: 0 }.module()
}

struct Parser<'a> {
    toks: Vec<(Tok<'a>, Pos)>,
    i: usize,
    /// Nesting of operands and initial values, which recurse.
    depth: u32,
}

/// A register family declared by `%r<8>`, or one register (`count` 0 means exact name).
#[derive(Default)]
struct Scope<'a> {
    id: ScopeId,
    exact: HashMap<&'a str, RegId>,
    ranges: HashMap<&'a str, (u32, u32)>,
}

impl Scope<'_> {
    fn find(&self, name: &str) -> Option<RegId> {
        if let Some(r) = self.exact.get(name) {
            return Some(*r);
        }
        let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
        // The prefix may itself end in digits (`%r1x<3>` does not occur, `%f1_<3>` may), so try every split.
        for cut in (name.len() - digits.len().min(name.len()))..name.len() {
            let (prefix, num) = name.split_at(cut);
            if num.len() > 1 && num.starts_with('0') || !num.bytes().all(|c| c.is_ascii_digit()) {
                continue;
            }
            if let (Some((first, count)), Ok(n)) = (self.ranges.get(prefix), num.parse::<u32>())
                && n < *count
            {
                return Some(RegId(first + n));
            }
        }
        None
    }
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
        let mut m =
            AstModule { version: (0, 0), sm: 0, vars: vec![], entries: vec![], files: HashMap::new() };
        loop {
            let pos = self.pos();
            match self.next() {
                Tok::Eof => break,
                Tok::Punct(';') => {}
                Tok::Dot("version") => m.version = self.version()?,
                Tok::Dot("target") => loop {
                    let at = self.pos();
                    let name = self.ident("a target such as `sm_90a`")?;
                    if let Some(n) = name.strip_prefix("sm_") {
                        m.sm = n.trim_end_matches(['a', 'f']).parse().map_err(|_| {
                            ParseError::at(at, format!("`{name}` is no target: expected e.g. `sm_80`"))
                        })?;
                    } else if !matches!(name, "debug" | "texmode_independent" | "texmode_unified") {
                        return Err(ParseError::at(
                            at,
                            format!("unknown target `{name}`: expected e.g. `sm_80`"),
                        ));
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
                Tok::Dot("file") => self.file(&mut m)?,
                Tok::Dot("section") => {
                    self.next();
                    self.skip_block()?;
                }
                Tok::Dot("pragma") => while !matches!(self.next(), Tok::Punct(';') | Tok::Eof) {},
                Tok::Dot("alias") => while !matches!(self.next(), Tok::Punct(';') | Tok::Eof) {},
                Tok::Dot("entry") => {
                    let e = self.entry()?;
                    if m.entries.iter().any(|o| o.name == e.name) {
                        return Err(ParseError::at(pos, format!("kernel `{}` is defined twice", e.name)));
                    }
                    m.entries.push(e);
                }
                // Device functions are skipped; calling one is an error where it is called.
                Tok::Dot("func") => {
                    while !matches!(self.peek(), Tok::Punct(';' | '{') | Tok::Eof) {
                        self.next();
                    }
                    if self.peek() == Tok::Punct('{') {
                        self.skip_block()?;
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
        if !(10.0..=90.0).contains(&tenths) {
            return Err(ParseError::at(
                pos,
                format!("PTX version {v} is not supported: expected 1.0 to 9.0"),
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
            let mut init = vec![];
            if self.eat('=') {
                self.init(ty, &mut init)?;
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
            out.push(Var { name, space, align, size: if incomplete { 0 } else { size }, init });
            if !self.eat(',') {
                break;
            }
        }
        self.expect(';')
    }

    fn init(&mut self, ty: Ty, out: &mut Vec<u8>) -> Res<()> {
        if self.eat('{') {
            self.nest()?;
            loop {
                self.init(ty, out)?;
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
            _ => return self.err("a number (symbol addresses in initial values are not supported)"),
        };
        self.next();
        let mut bytes = [0u8; 16];
        bytes[..8].copy_from_slice(&bits.to_le_bytes());
        out.extend_from_slice(&bytes[..n]);
        Ok(())
    }

    fn dims(&mut self) -> Res<[u32; 3]> {
        let mut d = [1; 3];
        for (k, slot) in d.iter_mut().enumerate() {
            *slot = self.u32("a size")?;
            if k == 2 || !self.eat(',') {
                break;
            }
        }
        Ok(d)
    }

    fn entry(&mut self) -> Res<Entry<'a>> {
        let mut e = Entry { name: self.ident("a kernel name")?, ..Entry::default() };
        if self.eat('(') && !self.eat(')') {
            loop {
                let p = self.param()?;
                e.params.push(p);
                if !self.eat(',') {
                    break;
                }
            }
            self.expect(')')?;
        }
        loop {
            match self.peek() {
                Tok::Dot(d) => {
                    self.next();
                    match d {
                        "maxntid" => e.maxntid = Some(self.dims()?),
                        "reqntid" => e.reqntid = Some(self.dims()?),
                        "maxnreg" => e.maxnreg = Some(self.u32("a register count")?),
                        "minnctapersm" | "maxnctapersm" | "maxclusterrank" => {
                            self.int("a count")?;
                        }
                        "reqnctapercluster" => e.reqnctapercluster = Some(self.dims()?),
                        "explicitcluster" => e.explicit_cluster = true,
                        "blocksareclusters" | "noreturn" => {}
                        "pragma" => while !matches!(self.next(), Tok::Punct(';') | Tok::Eof) {},
                        _ => {
                            self.i -= 1;
                            return self.err("a performance directive such as `.maxntid`, or `{`");
                        }
                    }
                }
                Tok::Punct('{') => break,
                _ => return self.err("`{` and the kernel's body"),
            }
        }
        let open = self.pos();
        self.next();
        e.scope_parent.push(0);
        let mut scopes = vec![Scope::default()];
        let mut loc = None;
        while !scopes.is_empty() {
            if self.peek() == Tok::Eof {
                return Err(ParseError::at(open, "this `{` is never closed: expected `}`"));
            }
            self.statement(&mut e, &mut scopes, &mut loc)?;
        }
        Ok(e)
    }

    fn param(&mut self) -> Res<Param<'a>> {
        let pos = self.pos();
        if self.next() != Tok::Dot("param") {
            return Err(ParseError::at(pos, "expected `.param`"));
        }
        let (mut align, mut ty, mut is_ptr) = (None, None, false);
        loop {
            match self.peek() {
                Tok::Dot("align") => {
                    self.next();
                    let a = self.u32("an alignment")?;
                    // After `.ptr` the alignment is the pointee's.
                    if !is_ptr {
                        align = Some(a);
                    }
                }
                Tok::Dot("ptr") => {
                    self.next();
                    is_ptr = true;
                }
                Tok::Dot("global" | "shared" | "const" | "local") if is_ptr => {
                    self.next();
                }
                Tok::Dot(s) => match Ty::parse(s).filter(|t| *t != Ty::Pred) {
                    Some(t) if ty.is_none() => {
                        ty = Some(t);
                        self.next();
                    }
                    _ => return self.err("a parameter's type or attribute"),
                },
                Tok::Ident(_) => break,
                _ => return self.err("a parameter's type or name"),
            }
        }
        let Some(ty) = ty else { return self.err("a type before the parameter's name") };
        let name = self.ident("a parameter name")?;
        let mut size = ty.bytes();
        if self.eat('[') {
            let at = self.pos();
            let n = self.u32("the parameter's length")?;
            size = size
                .checked_mul(n)
                .filter(|s| *s <= 32764)
                .ok_or_else(|| ParseError::at(at, "parameters take at most 32764 bytes"))?;
            self.expect(']')?;
        }
        let align = align.unwrap_or(ty.bytes()).max(1);
        if !align.is_power_of_two() {
            return Err(ParseError::at(pos, "expected an alignment that is a power of two"));
        }
        Ok(Param { name, size, align })
    }

    fn statement(
        &mut self,
        e: &mut Entry<'a>,
        scopes: &mut Vec<Scope<'a>>,
        loc: &mut Option<Loc>,
    ) -> Res<()> {
        let pos = self.pos();
        match self.peek() {
            Tok::Punct('{') => {
                self.next();
                let id = e.scope_parent.len() as ScopeId;
                e.scope_parent.push(scopes.last().map_or(0, |s| s.id));
                scopes.push(Scope { id, ..Scope::default() });
            }
            Tok::Punct('}') => {
                self.next();
                scopes.pop();
            }
            Tok::Punct(';') => {
                self.next();
            }
            Tok::Dot(d) => {
                self.next();
                match d {
                    "reg" => self.regs(e, scopes)?,
                    "shared" => self.vars(Space::Shared, &mut e.vars)?,
                    "local" => self.vars(Space::Local, &mut e.vars)?,
                    "global" => self.vars(Space::Global, &mut e.vars)?,
                    "const" => self.vars(Space::Const, &mut e.vars)?,
                    "pragma" => while !matches!(self.next(), Tok::Punct(';') | Tok::Eof) {},
                    "loc" => {
                        let file = self.u32("a file number")?;
                        let line = self.u32("a line")?;
                        let col = self.u32("a column")?;
                        *loc = Some(Loc { file, line, col });
                        while self.eat(',') {
                            match self.ident("`function_name` or `inlined_at`")? {
                                "function_name" => {
                                    self.ident("a name")?;
                                    if self.eat('+') {
                                        self.int("an offset")?;
                                    }
                                }
                                _ => {
                                    for _ in 0..3 {
                                        self.int("a number")?;
                                    }
                                }
                            }
                        }
                    }
                    _ => {
                        self.i -= 1;
                        return self
                            .err("a directive such as `.reg`, `.shared` or `.loc`, or an instruction");
                    }
                }
            }
            Tok::Ident(name) if self.peek_at(1) == Tok::Punct(':') => {
                self.next();
                self.next();
                let scope = scopes.last().map_or(0, |s| s.id);
                if self.peek() == Tok::Dot("branchtargets") {
                    self.next();
                    let mut list = vec![];
                    loop {
                        list.push(self.ident("a label")?);
                        if !self.eat(',') {
                            break;
                        }
                    }
                    self.expect(';')?;
                    e.branch_targets.insert((scope, name), list);
                } else if e.labels.insert((scope, name), e.body.len()).is_some() {
                    return Err(ParseError::at(pos, format!("label `{name}` is defined twice")));
                }
            }
            Tok::Ident(_) | Tok::Punct('@') => {
                let inst = self.instruction(scopes, *loc)?;
                e.body.push(inst);
            }
            _ => return self.err("an instruction, a label, a directive or `}`"),
        }
        Ok(())
    }

    fn regs(&mut self, e: &mut Entry<'a>, scopes: &mut [Scope<'a>]) -> Res<()> {
        let ty = match self.peek() {
            Tok::Dot(s) => match Ty::parse(s) {
                Some(t) => t,
                None => return self.err("a register type"),
            },
            _ => return self.err("a register type"),
        };
        self.next();
        let Some(scope) = scopes.last_mut() else { return Ok(()) };
        loop {
            let name = self.ident("a register name")?;
            let first = e.reg_types.len() as u32;
            let pos = self.pos();
            if self.eat('<') {
                let n = self.u32("a register count")?;
                if n as usize + e.reg_types.len() > 1 << 20 {
                    return Err(ParseError::at(pos, "a kernel has at most 2^20 registers"));
                }
                self.expect('>')?;
                scope.ranges.insert(name, (first, n));
                e.reg_types.extend(std::iter::repeat_n(ty, n as usize));
            } else {
                scope.exact.insert(name, RegId(first));
                e.reg_types.push(ty);
            }
            if !self.eat(',') {
                break;
            }
        }
        self.expect(';')
    }

    fn find_reg(scopes: &[Scope<'a>], name: &str) -> Option<RegId> {
        scopes.iter().rev().find_map(|s| s.find(name))
    }

    fn guard_reg(&mut self, scopes: &[Scope<'a>]) -> Res<RegId> {
        let pos = self.pos();
        let name = self.ident("a predicate register")?;
        Self::find_reg(scopes, name).ok_or_else(|| {
            ParseError::at(pos, format!("register `{name}` is not declared: expected a `.reg` before"))
        })
    }

    fn instruction(&mut self, scopes: &[Scope<'a>], loc: Option<Loc>) -> Res<AstInst<'a>> {
        let pos = self.pos();
        let mut guard = None;
        if self.eat('@') {
            let neg = self.eat('!');
            guard = Some((self.guard_reg(scopes)?, neg));
        }
        let pos = if guard.is_some() { self.pos() } else { pos };
        let opcode = self.ident("an opcode")?;
        let mut mods = vec![];
        while let Tok::Dot(m) = self.peek() {
            mods.push(m);
            self.next();
        }
        let mut ops = vec![];
        if self.peek() != Tok::Punct(';') {
            loop {
                ops.push(self.operand(scopes)?);
                if !self.eat(',') {
                    break;
                }
            }
        }
        if self.peek() != Tok::Punct(';') {
            return self.err("`,` and another operand, or `;`");
        }
        self.next();
        Ok(AstInst { pos, loc, guard, opcode, mods, ops, scope: scopes.last().map_or(0, |s| s.id) })
    }

    fn operand(&mut self, scopes: &[Scope<'a>]) -> Res<Operand<'a>> {
        let first = self.atom(scopes)?;
        if self.eat('|') {
            let second = self.atom(scopes)?;
            return Ok(Operand::Pair(Box::new(first), Box::new(second)));
        }
        Ok(first)
    }

    fn offset(&mut self) -> Res<i64> {
        let neg = match self.peek() {
            Tok::Punct('+') => {
                self.next();
                self.eat('-')
            }
            Tok::Punct('-') => {
                self.next();
                true
            }
            _ => return Ok(0),
        };
        let v = self.int("an offset in bytes")? as i64;
        Ok(if neg { v.wrapping_neg() } else { v })
    }

    fn list(&mut self, scopes: &[Scope<'a>]) -> Res<Vec<Operand<'a>>> {
        let mut v = vec![];
        loop {
            v.push(self.atom(scopes)?);
            if !self.eat(',') {
                break;
            }
        }
        self.expect('}')?;
        Ok(v)
    }

    fn nest(&mut self) -> Res<()> {
        self.depth += 1;
        if self.depth > 16 { self.err("less nesting") } else { Ok(()) }
    }

    fn atom(&mut self, scopes: &[Scope<'a>]) -> Res<Operand<'a>> {
        self.nest()?;
        let o = self.atom_inner(scopes);
        self.depth -= 1;
        o
    }

    fn atom_inner(&mut self, scopes: &[Scope<'a>]) -> Res<Operand<'a>> {
        let pos = self.pos();
        match self.next() {
            Tok::Int(v) => Ok(Operand::Int(v)),
            Tok::F32(v) => Ok(Operand::F32(v)),
            Tok::F64(v) => Ok(Operand::F64(v)),
            Tok::Punct('-') => match self.next() {
                Tok::Int(v) => Ok(Operand::Int(v.wrapping_neg())),
                Tok::F32(v) => Ok(Operand::F32(v ^ 1 << 31)),
                Tok::F64(v) => Ok(Operand::F64(v ^ 1 << 63)),
                t => Err(ParseError::at(pos, format!("expected a number after `-`, found {}", t.describe()))),
            },
            Tok::Punct('!') => Ok(Operand::Not(self.guard_reg(scopes)?)),
            Tok::Punct('{') => Ok(Operand::Vec(self.list(scopes)?)),
            Tok::Punct('[') => {
                let base = match self.atom(scopes)? {
                    b @ (Operand::Reg(_) | Operand::Sym(..) | Operand::Int(_)) => b,
                    _ => {
                        return Err(ParseError::at(
                            pos,
                            "expected a register, a symbol or a number as the address",
                        ));
                    }
                };
                let (base, mut off) = match base {
                    Operand::Sym(s, o) => (Operand::Sym(s, 0), o),
                    b => (b, 0),
                };
                off += self.offset()?;
                let mut coords = vec![];
                while self.eat(',') {
                    if self.eat('{') {
                        let list = self.list(scopes)?;
                        coords.push(Operand::Vec(list));
                    } else {
                        coords.push(self.atom(scopes)?);
                    }
                }
                self.expect(']')?;
                Ok(Operand::Addr(Box::new(base), off, coords))
            }
            Tok::Ident("_") => Ok(Operand::Sink),
            Tok::Ident(name) => {
                if let Some(r) = Self::find_reg(scopes, name) {
                    if let Tok::Dot(c) = self.peek() {
                        return Err(ParseError::at(
                            self.pos(),
                            format!("`.{c}`: components of vector registers are not supported"),
                        ));
                    }
                    return Ok(Operand::Reg(r));
                }
                if let Some(special) = name.strip_prefix('%') {
                    let comp = match self.peek() {
                        Tok::Dot(c @ ("x" | "y" | "z" | "w")) => {
                            self.next();
                            c
                        }
                        _ => "",
                    };
                    if !crate::decode::is_special(special) {
                        return Err(ParseError::at(
                            pos,
                            format!("`{name}` is neither a declared register nor a special register"),
                        ));
                    }
                    return Ok(Operand::Special(special, comp));
                }
                let off = self.offset()?;
                Ok(Operand::Sym(name, off))
            }
            t => Err(ParseError::at(pos, format!("expected an operand, found {}", t.describe()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

    fn err(body: &str) -> ParseError {
        parse(&format!("{HEAD}.entry k(.param .u64 p) {{\n{body}\n}}")).unwrap_err()
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
        assert_eq!(m.entries[0].body[0].loc, Some(Loc { file: 1, line: 7, col: 3 }));
    }

    #[test]
    fn errors_say_where_and_what() {
        let e = err("mov.b32 %r9, 1;");
        assert_eq!((e.line, e.column), (5, 9));
        assert!(e.message.contains("%r9"), "{e}");
        let e = err(".reg .b32 %r<2>; add.s32 %r0, %r1 %r1;");
        assert!(e.message.starts_with("expected `,` and another operand, or `;`"), "{e}");
        assert!(parse(".target sm_80").unwrap_err().message.contains(".version"));
        assert!(err("ret; {").message.contains("never closed"));
    }
}

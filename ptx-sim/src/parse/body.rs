//! The body of a kernel: statements, instructions, operands, and the scopes of register names.

use super::{Parser, Res};
use crate::ast::*;
use crate::error::ParseError;
use crate::lex::Tok;
use crate::types::Ty;
use std::collections::HashMap;

/// A register family declared by `%r<8>`, or one register (`count` 0 means exact name).
#[derive(Default)]
pub(super) struct Scope<'a> {
    id: ScopeId,
    exact: HashMap<&'a str, RegId>,
    ranges: HashMap<&'a str, (u32, u32)>,
    /// `.param` variables, by their place in [`Entry::call_params`]; and the bytes that those in scope take.
    pub params: HashMap<&'a str, u32>,
    pub call_top: u32,
}

impl<'a> Scope<'a> {
    /// A register with exactly this name.
    pub fn declare(&mut self, e: &mut Entry<'a>, name: &'a str, ty: Ty) -> RegId {
        let id = RegId(e.reg_types.len() as u32);
        self.exact.insert(name, id);
        e.reg_types.push(ty);
        id
    }

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
    pub(super) fn statement(
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
                let call_top = scopes.last().map_or(0, |s| s.call_top);
                scopes.push(Scope { id, call_top, ..Scope::default() });
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
                    "param" => match scopes.last_mut() {
                        Some(scope) => self.call_param(e, scope)?,
                        None => return self.err("`.param` inside the body"),
                    },
                    "pragma" => self.pragma(e)?,
                    "loc" => *loc = Some(self.loc()?),
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
                if matches!(self.peek(), Tok::Dot("callprototype" | "calltargets")) {
                    // What an indirect call may reach is told from the functions whose address is taken.
                    while !matches!(self.next(), Tok::Punct(';') | Tok::Eof) {}
                } else if self.peek() == Tok::Dot("branchtargets") {
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
                let mut inst = self.instruction(scopes, *loc)?;
                inst.used = e.used_bytes.take();
                e.body.push(inst);
            }
            _ => return self.err("an instruction, a label, a directive or `}`"),
        }
        Ok(())
    }

    /// `.pragma "used_bytes_mask 0xfff";` (PTX ISA 12.3) speaks of the next instruction; other strings are ignored.
    fn pragma(&mut self, e: &mut Entry<'a>) -> Res<()> {
        let pos = self.pos();
        loop {
            match self.next() {
                Tok::Str(text) => {
                    let Some(mask) = text.trim().strip_prefix("used_bytes_mask") else { continue };
                    let hex = mask.trim().trim_start_matches("0x");
                    let mask = u32::from_str_radix(hex, 16);
                    e.used_bytes = Some(mask.map_err(|_| {
                        ParseError::at(pos, "`used_bytes_mask` takes a hexadecimal mask of at most 32 bits")
                    })?);
                }
                Tok::Punct(';') | Tok::Eof => return Ok(()),
                _ => {}
            }
        }
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
            let pos = self.pos();
            let name = self.ident("a register name")?;
            let first = e.reg_types.len() as u32;
            let twice =
                || Err(ParseError::at(pos, format!("register `{name}` is declared twice in one scope")));
            if self.eat('<') {
                let n = self.u32("a register count")?;
                if n as usize + e.reg_types.len() > 1 << 20 {
                    return Err(ParseError::at(pos, "a kernel has at most 2^20 registers"));
                }
                self.expect('>')?;
                if scope.ranges.insert(name, (first, n)).is_some() {
                    return twice();
                }
                e.reg_types.extend(std::iter::repeat_n(ty, n as usize));
            } else {
                if scope.find(name).is_some() {
                    return twice();
                }
                scope.declare(e, name, ty);
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
        Ok(AstInst {
            pos,
            loc,
            guard,
            opcode,
            mods,
            ops,
            scope: scopes.last().map_or(0, |s| s.id),
            used: None,
        })
    }

    fn operand(&mut self, scopes: &[Scope<'a>]) -> Res<Operand<'a>> {
        let first = self.atom(scopes)?;
        if self.eat('|') {
            let second = self.atom(scopes)?;
            return Ok(Operand::Pair(Box::new(first), Box::new(second)));
        }
        Ok(first)
    }

    pub(super) fn offset(&mut self) -> Res<i64> {
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

    fn list(&mut self, scopes: &[Scope<'a>], end: char) -> Res<Vec<Operand<'a>>> {
        let mut v = vec![];
        loop {
            v.push(self.atom(scopes)?);
            if !self.eat(',') {
                break;
            }
        }
        self.expect(end)?;
        Ok(v)
    }

    pub(super) fn nest(&mut self) -> Res<()> {
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
            Tok::Punct('{') => Ok(Operand::Vec(self.list(scopes, '}')?)),
            Tok::Punct('(') if self.eat(')') => Ok(Operand::List(vec![])),
            Tok::Punct('(') => Ok(Operand::List(self.list(scopes, ')')?)),
            Tok::Punct('[') => {
                let base = match self.atom(scopes)? {
                    b @ (Operand::Reg(_) | Operand::Sym(..) | Operand::CallParam(..) | Operand::Int(_)) => b,
                    _ => {
                        return Err(ParseError::at(
                            pos,
                            "expected a register, a symbol or a number as the address",
                        ));
                    }
                };
                let (base, mut off) = match base {
                    Operand::Sym(s, o) => (Operand::Sym(s, 0), o),
                    Operand::CallParam(p, o) => (Operand::CallParam(p, 0), o),
                    b => (b, 0),
                };
                off += self.offset()?;
                let mut coords = vec![];
                while self.eat(',') {
                    if self.eat('{') {
                        let list = self.list(scopes, '}')?;
                        coords.push(Operand::Vec(list));
                    } else {
                        coords.push(self.atom(scopes)?);
                    }
                }
                self.expect(']')?;
                Ok(Operand::Addr(Box::new(base), off, coords))
            }
            Tok::Ident("_") => Ok(Operand::Sink),
            Tok::Ident("WARP_SZ") => Ok(Operand::Int(32)),
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
                Ok(match scopes.iter().rev().find_map(|s| s.params.get(name)) {
                    Some(p) => Operand::CallParam(*p, off),
                    None => Operand::Sym(name, off),
                })
            }
            t => Err(ParseError::at(pos, format!("expected an operand, found {}", t.describe()))),
        }
    }
}

//! Kernels and device functions: headers, parameters, and the frame around a body (PTX ISA §5.4, §7.1, §11.1, §11.4).

use super::body::Scope;
use super::{Parser, Res};
use crate::ast::*;
use crate::error::ParseError;
use crate::lex::Tok;
use crate::types::Ty;

/// Most bytes of a parameter.
const MOST: u32 = 32764;

impl<'a> Parser<'a> {
    /// After `.entry`. A declaration only, which ends with `;`, has no body.
    pub(super) fn entry(&mut self) -> Res<Entry<'a>> {
        let name = self.ident("a kernel name")?;
        let mut e = Entry { name, ..Entry::default() };
        let mut scope = Scope::default();
        e.params = self.params(&mut e, &mut scope)?;
        self.attributes(&mut e)?;
        if self.eat(';') {
            return Ok(e);
        }
        if self.peek() != Tok::Punct('{') {
            return self.err("`{` and the kernel's body");
        }
        self.body(&mut e, scope)?;
        Ok(e)
    }

    /// After `.func`: results in parentheses, name, parameters, attributes, and a body unless it is only declared.
    pub(super) fn func(&mut self) -> Res<Entry<'a>> {
        let mut e = Entry { is_func: true, ..Entry::default() };
        let mut scope = Scope::default();
        // `.attribute(.unified(…))` may stand before.
        if self.peek() == Tok::Dot("attribute") {
            self.next();
            self.skip_parentheses()?;
        }
        e.results = self.params(&mut e, &mut scope)?;
        e.name = self.ident("a function name")?;
        e.params = self.params(&mut e, &mut scope)?;
        self.attributes(&mut e)?;
        if self.eat(';') {
            return Ok(e);
        }
        if self.peek() != Tok::Punct('{') {
            return self.err("`;`, or `{` and the function's body");
        }
        self.body(&mut e, scope)?;
        Ok(e)
    }

    pub(super) fn skip_parentheses(&mut self) -> Res<()> {
        self.expect('(')?;
        let mut depth = 1;
        while depth > 0 {
            match self.next() {
                Tok::Punct('(') => depth += 1,
                Tok::Punct(')') => depth -= 1,
                Tok::Eof => return self.err("`)`"),
                _ => {}
            }
        }
        Ok(())
    }

    /// Performance-tuning directives, up to the body or `;`.
    fn attributes(&mut self, e: &mut Entry<'a>) -> Res<()> {
        while let Tok::Dot(d) = self.peek() {
            self.next();
            match d {
                "maxntid" => e.maxntid = Some(self.dims()?),
                "reqntid" => e.reqntid = Some(self.dims()?),
                "maxnreg" => e.maxnreg = Some(self.u32("a register count")?),
                "minnctapersm" => e.minnctapersm = Some(self.u32("a count")?),
                "maxnctapersm" | "maxclusterrank" | "abi_preserve" | "abi_preserve_control" => {
                    self.int("a count")?;
                }
                "reqnctapercluster" => e.reqnctapercluster = Some(self.dims()?),
                "explicitcluster" => e.explicit_cluster = true,
                "blocksareclusters" | "noreturn" => {}
                "attribute" => self.skip_parentheses()?,
                "pragma" => while !matches!(self.next(), Tok::Punct(';') | Tok::Eof) {},
                _ => {
                    self.i -= 1;
                    return self.err("a performance directive such as `.maxntid`, or `{`");
                }
            }
        }
        Ok(())
    }

    /// The body, from `{` on. What is wrong in it is kept: only who launches or calls this is refused.
    fn body(&mut self, e: &mut Entry<'a>, scope: Scope<'a>) -> Res<()> {
        let open = self.i;
        self.next();
        e.has_body = true;
        e.scope_parent.push(0);
        self.locs.clear();
        let (mut scopes, mut loc) = (vec![scope], None);
        let mut error = None;
        while !scopes.is_empty() && error.is_none() {
            if self.peek() == Tok::Eof {
                error = Some(ParseError::at(self.toks[open].1, "this `{` is never closed: expected `}`"));
            } else {
                error = self.statement(e, &mut scopes, &mut loc).err();
            }
        }
        if error.is_some() {
            self.depth = 0;
            self.i = open;
            if self.skip_block().is_err() {
                // Where the text ends too early, nothing after it can be told.
                return error.map_or(Ok(()), Err);
            }
            e.error = error;
        }
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

    /// A list of parameters in parentheses, if there is one.
    fn params(&mut self, e: &mut Entry<'a>, scope: &mut Scope<'a>) -> Res<Vec<Param<'a>>> {
        let mut list = vec![];
        if self.eat('(') && !self.eat(')') {
            loop {
                list.push(self.param(e, scope)?);
                if !self.eat(',') {
                    break;
                }
            }
            self.expect(')')?;
        }
        Ok(list)
    }

    fn param(&mut self, e: &mut Entry<'a>, scope: &mut Scope<'a>) -> Res<Param<'a>> {
        let pos = self.pos();
        let register = match self.next() {
            Tok::Dot("param") => false,
            Tok::Dot("reg") if e.is_func => true,
            _ => return Err(ParseError::at(pos, "expected `.param`")),
        };
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
                // Opaque types are 64-bit handles.
                Tok::Dot("texref" | "samplerref" | "surfref") if ty.is_none() => {
                    ty = Some(Ty::B64);
                    self.next();
                }
                Tok::Dot(s) => match Ty::parse(s).filter(|t| register || *t != Ty::Pred) {
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
        if register {
            let reg = Some(scope.declare(e, name, ty));
            return Ok(Param { name, size: ty.bytes(), align: ty.bytes(), reg });
        }
        let size = self.length(ty.bytes())?;
        let align = align.unwrap_or(ty.bytes()).max(1);
        if !align.is_power_of_two() {
            return Err(ParseError::at(pos, "expected an alignment that is a power of two"));
        }
        Ok(Param { name, size, align, reg: None })
    }

    /// `[n]` after a parameter's name, if it is an array: its bytes.
    fn length(&mut self, element: u32) -> Res<u32> {
        if !self.eat('[') {
            return Ok(element);
        }
        let at = self.pos();
        let size = self
            .u32("the parameter's length")?
            .checked_mul(element)
            .filter(|s| *s <= MOST)
            .ok_or_else(|| ParseError::at(at, format!("parameters take at most {MOST} bytes")))?;
        self.expect(']')?;
        Ok(size)
    }

    /// A `.param` variable in a body, after `.param`: `.align 8 .b8 param0[16];`
    pub(super) fn call_param(&mut self, e: &mut Entry<'a>, scope: &mut Scope<'a>) -> Res<()> {
        let mut align = None;
        let ty = loop {
            match self.peek() {
                Tok::Dot("align") => {
                    self.next();
                    align = Some(self.u32("an alignment")?);
                }
                Tok::Dot(s) if Ty::parse(s).is_some_and(|t| t != Ty::Pred) => {
                    self.next();
                    break Ty::parse(s).unwrap_or(Ty::B8);
                }
                _ => return self.err("`.align` or the type of a `.param` variable"),
            }
        };
        loop {
            let pos = self.pos();
            let name = self.ident("a variable name")?;
            let size = self.length(ty.bytes())?;
            // Whole words, so that calls can pass words.
            let align = align.unwrap_or(ty.bytes()).max(4);
            if !align.is_power_of_two() || align > 1024 {
                return Err(ParseError::at(
                    pos,
                    "expected an alignment that is a power of two, at most 1024",
                ));
            }
            let at = scope.call_top.next_multiple_of(align);
            scope.call_top = at + size.next_multiple_of(4);
            e.call_bytes = e.call_bytes.max(scope.call_top);
            if e.call_bytes > 1 << 20 {
                return Err(ParseError::at(pos, "the `.param` variables of one body take at most 1 MiB"));
            }
            scope.params.insert(name, e.call_params.len() as u32);
            e.call_params.push((at, size));
            if !self.eat(',') {
                break;
            }
        }
        self.expect(';')
    }
}

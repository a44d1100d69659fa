//! Reads statements: tries the rows of the [table](super::super::statements).

use super::{Parse, ParseError, Parser};
use crate::{
    kernel::{
        Async, DType, Expr, Group, Mem, Role, Rows, Stmt, Var,
        visit::{Access, Row, VisitorMut},
    },
    nest::Atom,
    op::RedOp,
};

impl Parser {
    /// Statements up to and including the closing brace.
    pub(super) fn statements(&mut self) -> Parse<Vec<Stmt>> {
        let mut stmts = Vec::new();
        while !self.eat("}") {
            stmts.push(self.row(Stmt::ROWS, |stmt, reader| stmt.visit_mut(reader))?);
        }
        Ok(stmts)
    }

    /// What the row that fits the most words says, `fill` being the visit of its pieces.
    fn row<T>(&mut self, rows: &[Row<T>], fill: fn(&mut T, &mut Self) -> Parse) -> Parse<T> {
        let start = self.at;
        let mut best: Option<(usize, T)> = None;
        let mut error: Option<(usize, ParseError)> = None;
        for row in rows {
            self.at = start;
            let mut stmt = (row.blank)();
            match fill(&mut stmt, self) {
                Ok(()) if best.as_ref().is_none_or(|(end, _)| *end < self.at) => best = Some((self.at, stmt)),
                Err(e) if error.as_ref().is_none_or(|(end, _)| *end < self.at) => error = Some((self.at, e)),
                _ => {}
            }
        }
        match (best, error) {
            (Some((end, stmt)), _) => {
                self.at = end;
                Ok(stmt)
            }
            // Its first word is that of a row.
            (None, Some((end, error))) if end > start + 1 => {
                self.at = end;
                Err(error)
            }
            _ => {
                self.at = start + 1;
                self.fail("a statement")
            }
        }
    }

    fn defined(&mut self) -> Parse<Vec<Var>> {
        let mut vars = Vec::new();
        while vars.is_empty() || self.eat(",") {
            self.expect("%")?;
            vars.push(Var(self.parsed()?));
        }
        self.expect(":")?;
        let ty = self.dtype()?;
        self.types.extend(vars.iter().map(|v| (v.0, ty)));
        Ok(vars)
    }

    fn defined_one(&mut self) -> Parse<Var> {
        match self.defined()?.as_slice() {
            [var] => Ok(*var),
            _ => self.fail("one variable"),
        }
    }

    fn exprs(&mut self) -> Parse<Vec<Expr>> {
        let mut exprs = vec![self.expr()?];
        while self.eat(",") {
            exprs.push(self.expr()?);
        }
        Ok(exprs)
    }

    fn at(&mut self) -> Parse<(Mem, Expr)> {
        let mem = match self.eat("shared") {
            true => Mem::Shared(self.shared_named()?),
            false => Mem::Global(self.param("a buffer")?),
        };
        self.expect("[")?;
        let offset = self.expr()?;
        self.expect("]")?;
        Ok((mem, offset))
    }

    fn shared_named(&mut self) -> Parse<u32> {
        let name = self.next();
        let found = self.kernel.shared.iter().position(|s| s.name == name);
        found.map_or_else(|| self.fail("a shared buffer"), |n| Ok(n as u32))
    }

    fn param(&mut self, wanted: &str) -> Parse<u32> {
        let name = self.next();
        self.param_named(&name).map_or_else(|| self.fail(wanted), Ok)
    }
}

impl<'a> VisitorMut<'a> for Parser {
    type Error = ParseError;

    fn operand(&mut self, e: &'a mut Expr) -> Parse {
        self.expr().map(|read| *e = read)
    }
    fn block(&mut self, block: &'a mut Vec<Stmt>) -> Parse {
        self.expect("{")?;
        self.statements().map(|read| *block = read)
    }
    /// Of a word with marks in it each is a word of the text.
    fn text(&mut self, text: &'static str) -> Parse {
        for word in text.split(' ') {
            let mut rest = word;
            while !rest.is_empty() {
                let fits = self.words.get(self.at).and_then(|(found, _)| rest.strip_prefix(found.as_str()));
                self.at += 1;
                let Some(left) = fits else { return self.fail(&format!("`{word}`")) };
                rest = left;
            }
        }
        Ok(())
    }
    fn number(&mut self, n: &'a mut u32) -> Parse {
        self.parsed().map(|read| *n = read)
    }
    fn numbered(&mut self, word: &'static str, n: &'a mut Option<u32>) -> Parse {
        if self.eat(word) {
            *n = Some(self.parsed()?);
        }
        Ok(())
    }
    fn flag(&mut self, word: &'static str, flag: &'a mut bool) -> Parse {
        *flag = self.eat(word);
        Ok(())
    }
    fn either(&mut self, [yes, no]: [&'static str; 2], which: &'a mut bool) -> Parse {
        *which = self.eat(yes);
        if *which { Ok(()) } else { self.text(no) }
    }
    fn reduction(&mut self, op: &'a mut RedOp) -> Parse {
        let found = RedOp::from_name(&self.next());
        let Some(found) = found else { return self.fail("a reduction") };
        *op = found;
        Ok(())
    }
    fn atom(&mut self, atom: &'a mut Atom, descriptors: bool) -> Parse {
        let found = Atom::from_label(&self.next()).filter(|atom| atom.row().descriptors == descriptors);
        let Some(found) = found else { return self.fail("an instruction") };
        *atom = found;
        Ok(())
    }
    fn group(&mut self, group: &'a mut Group) -> Parse {
        let Group { id, threads } = group;
        self.text("barrier")?;
        self.number(id)?;
        self.text("of")?;
        self.number(threads)
    }
    fn grouped(&mut self, word: &'static str, group: &'a mut Option<Group>) -> Parse {
        if self.eat(word) {
            self.group(group.insert(Group { id: 0, threads: 0 }))?;
        }
        Ok(())
    }

    fn def(&mut self, var: &'a mut Var) -> Parse {
        self.defined_one().map(|read| *var = read)
    }
    fn lane(&mut self, var: &'a mut Var) -> Parse {
        self.defined_one().map(|read| *var = read)
    }
    fn defs(&mut self, vars: &'a mut Vec<Var>) -> Parse {
        self.defined().map(|read| *vars = read)
    }
    fn common(&mut self, var: &'a mut Var, _: DType) -> Parse {
        self.defined_one().map(|read| *var = read)
    }
    fn own(&mut self, var: &'a mut Var, _: DType) -> Parse {
        self.defined_one().map(|read| *var = read)
    }
    fn values(&mut self, es: &'a mut Vec<Expr>, _: &'static str) -> Parse {
        self.exprs().map(|read| *es = read)
    }
    fn operands(&mut self, es: &'a mut Vec<Expr>) -> Parse {
        self.exprs().map(|read| *es = read)
    }
    fn indexed(&mut self, word: &'static str, e: &'a mut Option<Expr>, what: &'static str) -> Parse {
        self.whether(word, e, what)
    }
    fn whether(&mut self, word: &'static str, e: &'a mut Option<Expr>, _: &'static str) -> Parse {
        if self.eat(word) {
            *e = Some(self.expr()?);
        }
        Ok(())
    }

    fn place(&mut self, mem: &'a mut Mem, offset: &'a mut Expr, _: Access) -> Parse {
        (*mem, *offset) = self.at()?;
        Ok(())
    }
    fn shared(&mut self, buffer: &'a mut u32, offset: &'a mut Expr, _: Access) -> Parse {
        let (Mem::Shared(found), at) = self.at()? else { return self.fail("a place in shared memory") };
        (*buffer, *offset) = (found, at);
        Ok(())
    }
    fn global(&mut self, param: &'a mut u32, offset: &'a mut Expr, _: Access) -> Parse {
        let (Mem::Global(found), at) = self.at()? else { return self.fail("a place in global memory") };
        (*param, *offset) = (found, at);
        Ok(())
    }
    fn boxed(&mut self, map: &'a mut u32, coordinates: &'a mut Vec<Expr>) -> Parse {
        self.map(map)?;
        self.expect("[")?;
        *coordinates = self.exprs()?;
        self.expect("]")
    }
    fn map(&mut self, map: &'a mut u32) -> Parse {
        self.param("a tensor map").map(|read| *map = read)
    }
    fn rows(&mut self, rows: &'a mut Rows) -> Parse {
        if self.kernel.frags.iter().any(|f| f.name == self.peek()) {
            *rows = Rows::Held { frag: 0, slots: Vec::new() };
        }
        match rows {
            Rows::Shared(tile) => self.tile(tile),
            Rows::Held { frag, slots } => self.slots(frag, slots),
        }
    }
    fn ring(&mut self, buffer: &'a mut u32) -> Parse {
        self.shared_named().map(|read| *buffer = read)
    }
    fn lives(&mut self, buffers: &'a mut Vec<u32>) -> Parse {
        while buffers.is_empty() || self.eat(",") {
            buffers.push(self.shared_named()?);
        }
        Ok(())
    }

    fn slot(&mut self, frag: &'a mut u32, slot: &'a mut u32) -> Parse {
        let name = self.next();
        (*frag, *slot) = self.slot_of(&name)?;
        Ok(())
    }
    fn slots(&mut self, frag: &'a mut u32, slots: &'a mut Vec<u32>) -> Parse {
        let name = self.next();
        *frag = self.frag(&name)?;
        self.expect("[")?;
        while slots.is_empty() || self.eat(",") {
            slots.push(self.parsed()?);
        }
        self.expect("]")
    }
    fn results(&mut self, results: &'a mut Vec<(u32, Vec<u32>)>) -> Parse {
        while self.kernel.frags.iter().any(|f| f.name == self.peek()) {
            let (mut frag, mut slots) = (0, Vec::new());
            self.slots(&mut frag, &mut slots)?;
            results.push((frag, slots));
        }
        Ok(())
    }

    fn otherwise(&mut self, block: &'a mut Vec<Stmt>) -> Parse {
        if self.eat("else") { self.block(block) } else { Ok(()) }
    }
    fn roles(&mut self, roles: &'a mut Vec<Role>) -> Parse {
        self.expect("{")?;
        while self.eat("threads") {
            let first: u32 = self.parsed()?;
            self.expect("to")?;
            let end: u32 = self.parsed()?;
            let (mut registers, mut body) = (None, Vec::new());
            self.numbered("registers", &mut registers)?;
            self.block(&mut body)?;
            roles.push(Role { first, threads: end.saturating_sub(first), registers, body });
        }
        self.expect("}")
    }
    fn asynchronous(&mut self, operation: &'a mut Async) -> Parse {
        self.row(Async::ROWS, |operation, reader| operation.visit_mut(reader)).map(|read| *operation = read)
    }
}

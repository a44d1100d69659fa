//! Reads the text that the printer writes, against the tables of a nest.

use super::{AccessId, Across, Atom, CopyId, Digit, Expr, Level, LoopKind, Nest, Role, Steps, Stmt, ValueId};
use crate::{
    dtype::DType,
    index::AxisId,
    machine::{Unit, UnitDim},
    op::{BinOp, CmpOp, RedOp, UnOp},
    tile::{self, ScalarId},
};
use std::collections::BTreeMap;

/// The text is no statement over the tables.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

/// Reads a statement; digits, values, accesses and copies are those of `tables`.
///
/// `#block` carries no dimension in print and is read as x.
///
/// # Errors
/// The first place where the text is no statement, or names what the tables do not have.
pub fn parse(text: &str, tables: &Nest) -> Result<Stmt, ParseError> {
    Ok(term(text, tables)?.body)
}

/// Reads a nest with its facts; values, accesses and copies are those of `tables`. Source spans of facts are not printed, and read
/// as [`crate::span::SpanId::NONE`].
///
/// # Errors
/// As [`parse`].
pub fn parse_nest(text: &str, tables: &Nest) -> Result<Nest, ParseError> {
    let mut nest = tables.without_facts();
    // Other facts are about digits by their names.
    let (names, others): (Vec<&str>, Vec<&str>) =
        text.lines().filter(|line| line.starts_with(';')).partition(|line| line.starts_with("; names("));
    for line in names.into_iter().chain(others) {
        // The other lines say what follows from the term.
        let _ = nest.read_fact(line);
    }
    let Term { body, combine, across, skew } = term(text, &nest)?;
    Ok(Nest { body, combine, across, skew, ..nest })
}

/// A term, with the facts that it shows.
struct Term {
    body: Stmt,
    combine: BTreeMap<ValueId, Level>,
    across: BTreeMap<ValueId, Across>,
    skew: BTreeMap<Digit, UnitDim>,
}

fn term(text: &str, tables: &Nest) -> Result<Term, ParseError> {
    let term: String =
        text.lines().filter(|line| !line.starts_with(';')).flat_map(|line| [line, "\n"]).collect();
    let mut p = Parser {
        tokens: tokens(&term),
        at: 0,
        tables,
        combine: BTreeMap::new(),
        across: BTreeMap::new(),
        skew: BTreeMap::new(),
    };
    let body = p.stmt()?;
    match p.tokens.get(p.at) {
        None => Ok(Term { body, combine: p.combine, across: p.across, skew: p.skew }),
        Some(t) => Err(ParseError(format!("`{t}` after the statement"))),
    }
}

/// Parentheses, and atoms: everything else up to white space outside of brackets.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let (mut atom, mut depth) = (String::new(), 0);
    let flush = |atom: &mut String, tokens: &mut Vec<String>| {
        if !atom.is_empty() {
            tokens.push(std::mem::take(atom));
        }
    };
    for c in text.chars() {
        match c {
            '(' | ')' if depth == 0 => {
                // `vector(16)` inside the name of a copy is no list.
                if c == '(' && !atom.is_empty() {
                    depth += 1;
                    atom.push(c);
                    continue;
                }
                flush(&mut atom, &mut tokens);
                tokens.push(c.to_string());
            }
            '[' | '(' => {
                depth += 1;
                atom.push(c);
            }
            ']' | ')' => {
                depth -= 1;
                atom.push(c);
            }
            c if c.is_whitespace() && depth == 0 => flush(&mut atom, &mut tokens),
            c => atom.push(c),
        }
    }
    flush(&mut atom, &mut tokens);
    tokens
}

struct Parser<'a> {
    tokens: Vec<String>,
    at: usize,
    tables: &'a Nest,
    combine: BTreeMap<ValueId, Level>,
    across: BTreeMap<ValueId, Across>,
    skew: BTreeMap<Digit, UnitDim>,
}

impl Parser<'_> {
    fn next(&mut self) -> Result<String, ParseError> {
        self.at += 1;
        self.tokens.get(self.at - 1).cloned().ok_or_else(|| ParseError("the text ends early".into()))
    }

    fn peek(&self) -> Option<&str> {
        self.tokens.get(self.at).map(String::as_str)
    }

    fn expect(&mut self, what: &str) -> Result<(), ParseError> {
        let found = self.next()?;
        if found == what { Ok(()) } else { Err(ParseError(format!("`{what}` expected, not `{found}`"))) }
    }

    fn stmt(&mut self) -> Result<Stmt, ParseError> {
        self.expect("(")?;
        let head = self.next()?;
        let stmt = match head.as_str() {
            "for" => {
                let digit = self.digit()?;
                let at = match self.tokens.get(self.at) {
                    Some(t) if t.starts_with('#') => self.at_kind(digit)?,
                    _ => LoopKind::Seq,
                };
                Stmt::For { digit, at, body: Box::new(self.stmt()?) }
            }
            "let" => {
                let names = self.next()?;
                let names = names.strip_prefix('[').and_then(|n| n.strip_suffix(']'));
                let names = names.ok_or_else(|| ParseError("a list of values expected".into()))?;
                let values =
                    names.split_whitespace().map(|n| self.bound_value(n)).collect::<Result<_, _>>()?;
                Stmt::Let { values, first: Box::new(self.stmt()?), rest: Box::new(self.stmt()?) }
            }
            "stage" => {
                let name = self.next()?;
                let shown = |c: CopyId| {
                    let how = super::print::print_copy(self.tables.copy(c));
                    format!("{}:{how}", self.tables.copy_name(c))
                };
                let mut ids = (0..self.tables.copies.len() as u16).map(CopyId);
                let copy = ids.find(|c| shown(*c) == name);
                let copy = copy.ok_or_else(|| ParseError(format!("no copy `{name}`")))?;
                Stmt::Stage { copy, body: Box::new(self.stmt()?) }
            }
            "def" | "set" => {
                let name = self.next()?;
                let (value, expr) = (self.value(&name)?, self.expr()?);
                if head == "def" { Stmt::Def { value, expr } } else { Stmt::Set { value, expr } }
            }
            "red" => {
                let (name, op) = (self.next()?, self.next()?);
                let op = RedOp::from_name(&op).ok_or_else(|| ParseError(format!("no reduction `{op}`")))?;
                Stmt::Red { value: self.value(&name)?, op, expr: self.expr()? }
            }
            "scan" => {
                let (name, op, axis) = (self.next()?, self.next()?, self.next()?);
                let value = self.value(&name)?;
                let known = self.tables.value(value).scan;
                if known.is_none_or(|(by, along)| by.name() != op || self.tables.axis(along) != axis) {
                    return Err(ParseError(format!("`{name}` is no scan by `{op}` along `{axis}`")));
                }
                Stmt::Scan { value, expr: self.expr()? }
            }
            "skip" => Stmt::Skip,
            "put" => Stmt::Put { access: self.access()?, expr: self.expr()? },
            other => return Err(ParseError(format!("no statement `{other}`"))),
        };
        self.expect(")")?;
        Ok(stmt)
    }

    fn digit(&mut self) -> Result<Digit, ParseError> {
        let name = self.next()?;
        let found = self.tables.names.get(&name).copied().or_else(|| self.tables.read_plain_digit(&name));
        found.ok_or_else(|| ParseError(format!("no digit `{name}`")))
    }

    /// `v`, `v@shared`, `v@lane@workspace`.
    fn bound_value(&mut self, text: &str) -> Result<ValueId, ParseError> {
        let mut words = text.split('@');
        let value = self.value(words.next().unwrap_or(text))?;
        for word in words {
            let level = [Level::Lane, Level::Warp, Level::Cta].into_iter().find(|l| l.to_string() == word);
            let ways = [Across::Workspace, Across::Atomic, Across::Cluster];
            let across = ways.into_iter().find(|a| a.to_string() == word);
            self.combine.extend(level.map(|level| (value, level)));
            self.across.extend(across.map(|across| (value, across)));
        }
        Ok(value)
    }

    /// `#mma.m`.
    fn atom(&self, text: &str) -> Option<LoopKind> {
        let (name, role) = text.strip_prefix('#')?.split_once('.')?;
        let role = [Role::M, Role::N, Role::K].into_iter().find(|r| r.to_string() == role)?;
        Some(LoopKind::Atom(Atom::from_label(name)?, role))
    }

    fn at_kind(&mut self, digit: Digit) -> Result<LoopKind, ParseError> {
        let text = self.next()?;
        let unknown = || ParseError(format!("no `{text}` loop"));
        Ok(match text.as_str() {
            "#seq" => LoopKind::Seq,
            "#unroll" => LoopKind::Unroll,
            "#serpentine" => LoopKind::Serpentine,
            "#vec" => LoopKind::Vec,
            "#block" => LoopKind::Unit(Unit::Block, UnitDim::X),
            pipe if pipe.starts_with("#pipe") => LoopKind::Pipe(pipe[5..].parse().map_err(|_| unknown())?),
            atom if self.atom(atom).is_some() => self.atom(atom).ok_or_else(unknown)?,
            unit => {
                let dimension = |name: &str| {
                    let dims = [UnitDim::X, UnitDim::Y, UnitDim::Z];
                    dims.into_iter().find(|d| d.to_string() == name).ok_or_else(unknown)
                };
                let (unit, xor) = unit.split_once('^').map_or((unit, None), |(unit, xor)| (unit, Some(xor)));
                if let Some(xor) = xor {
                    self.skew.insert(digit, dimension(xor)?);
                }
                let (unit, dim) = unit[1..].split_once('.').ok_or_else(unknown)?;
                let units = [Unit::Warpgroup, Unit::Warp, Unit::Lane, Unit::Thread];
                let unit = units.into_iter().find(|u| u.to_string() == unit).ok_or_else(unknown)?;
                LoopKind::Unit(unit, dimension(dim)?)
            }
        })
    }

    fn value(&self, name: &str) -> Result<ValueId, ParseError> {
        let at = self.tables.values.iter().position(|v| v.name == name);
        at.map(|n| ValueId(n as u16)).ok_or_else(|| ParseError(format!("no value `{name}`")))
    }

    fn axis(&mut self) -> Result<AxisId, ParseError> {
        let name = self.next()?;
        let at = self.tables.kernel.axes.iter().position(|a| a.name == name);
        at.map(|n| AxisId(n as u16)).ok_or_else(|| ParseError(format!("no axis `{name}`")))
    }

    fn access(&mut self) -> Result<AccessId, ParseError> {
        let text = self.next()?;
        let at = self.tables.accesses.iter().position(|a| self.tables.print_access(a) == text);
        at.map(|n| AccessId(n as u16)).ok_or_else(|| ParseError(format!("no access `{text}`")))
    }

    fn expr(&mut self) -> Result<Expr, ParseError> {
        let token = self.next()?;
        if token != "(" {
            let unknown = || ParseError(format!("no expression `{token}`"));
            let (number, dtype) = token.split_once(':').ok_or_else(unknown)?;
            let dtype = DType::from_name(dtype).ok_or_else(unknown)?;
            return Ok(Expr::Const(number.parse().map_err(|_| unknown())?, dtype));
        }
        let head = self.next()?;
        // `-` and the like are binary; `neg` has a name of its own.
        let expr = match head.as_str() {
            "ld" => Expr::Load(self.access()?),
            "gather" => {
                let access = self.access()?;
                let values = 0..self.tables.access(access).by.len();
                Expr::Gather(access, values.map(|_| self.expr()).collect::<Result<_, _>>()?)
            }
            "scatter" => {
                let (mut by, mut when) = (Vec::new(), None);
                while self.peek() != Some(")") {
                    match self.peek() {
                        Some("if") => {
                            self.next()?;
                            when = Some(Box::new(self.expr()?));
                        }
                        _ => by.push(self.expr()?),
                    }
                }
                let value = by.pop().ok_or_else(|| ParseError("a scatter of nothing".into()))?;
                Expr::Scatter { by, when, value: Box::new(value) }
            }
            "get" => {
                let name = self.next()?;
                Expr::Get(self.value(&name)?)
            }
            "scalar" => {
                let name = self.next()?;
                let at = self.tables.kernel.scalars.iter().position(|s| s.name == name);
                Expr::Scalar(ScalarId(at.ok_or_else(|| ParseError(format!("no scalar `{name}`")))? as u16))
            }
            "iota" => Expr::Iota(self.axis()?),
            edge if tile::Edge::from_name(edge).is_some() => {
                let axis = self.axis()?;
                Expr::Edge(axis, tile::Edge::from_name(edge).expect("checked above"))
            }
            "dim" => Expr::Dim(crate::index::Extent::dim(&self.next()?)),
            "select" => Expr::Select(Box::new(self.expr()?), Box::new(self.expr()?), Box::new(self.expr()?)),
            "cast" => {
                let name = self.next()?;
                let to = DType::from_name(&name).ok_or_else(|| ParseError(format!("no type `{name}`")))?;
                Expr::Cast(to, Box::new(self.expr()?))
            }
            op => {
                let first = Box::new(self.expr()?);
                if let Some(op) = UnOp::from_name(op) {
                    Expr::Un(op, first)
                } else if let Some(op) = BinOp::from_name(op) {
                    Expr::Bin(op, first, Box::new(self.expr()?))
                } else if let Some(op) = CmpOp::from_name(op) {
                    Expr::Cmp(op, first, Box::new(self.expr()?))
                } else {
                    return Err(ParseError(format!("no operator `{op}`")));
                }
            }
        };
        self.expect(")")?;
        Ok(expr)
    }
}

impl Nest {
    /// Reads an expression of a fact, where no comma is followed by a space.
    pub(super) fn read_expr(&self, text: &str) -> Option<Expr> {
        let tokens = tokens(&text.replace(',', ", "));
        let (combine, across, skew) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut p = Parser { tokens, at: 0, tables: self, combine, across, skew };
        p.expr().ok()
    }

    /// Reads `axis.stride.steps`.
    pub(super) fn read_plain_digit(&self, text: &str) -> Option<Digit> {
        let parts: Vec<&str> = text.split('.').collect();
        let [axis, stride, steps] = parts.as_slice() else { return None };
        let axis = self.kernel.axes.iter().position(|a| a.name == *axis)?;
        let steps = match *steps {
            "rest" => Steps::Rest,
            n => Steps::Fixed(n.parse().ok()?),
        };
        Some(Digit { axis: crate::index::AxisId(axis as u16), stride: stride.parse().ok()?, steps })
    }
}

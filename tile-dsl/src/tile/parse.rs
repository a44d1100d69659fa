//! Reads the text that [`super::print`] writes. For tests: kernels come from the macro.

use super::{
    Axis, AxisKind, Edge, ElemType, Expr, ExprKind, Index, Kernel, Limits, Scalar, ScalarId, Stmt, Tensor,
    TensorId, Var, VarId,
};
use crate::{
    dtype::DType,
    index::{Affine, AxisId, Extent},
    op::{BinOp, CmpOp, RedOp, UnOp, binary::Form},
    span::SpanId,
};

/// The text is not a kernel.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ParseError {
    /// Line, from 1.
    pub line: usize,
    /// What was expected and what was found.
    pub message: String,
}

/// Reads one kernel. Spans are [`SpanId::NONE`]; types are not checked ([`super::verify`] does).
pub fn parse(text: &str) -> Result<Kernel, ParseError> {
    let mut p = Parser { tokens: tokens(text), at: 0, kernel: empty(), visible: vec![] };
    p.kernel()?;
    Ok(p.kernel)
}

fn empty() -> Kernel {
    Kernel {
        name: String::new(),
        generic: None,
        tensors: vec![],
        scalars: vec![],
        axes: vec![],
        vars: vec![],
        body: vec![],
    }
}

/// Words, numbers and punctuation with their lines.
fn tokens(text: &str) -> Vec<(String, usize)> {
    let mut tokens = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let line = line.split("//").next().unwrap_or_default();
        let chars: Vec<char> = line.chars().collect();
        let mut at = 0;
        while at < chars.len() {
            let start = at;
            let c = chars[at];
            if c.is_whitespace() {
                at += 1;
                continue;
            }
            if c.is_ascii_digit() {
                // 1, 1.5, 1e-7, 1.0_f32; a sign belongs to the number after an `e` only
                while at < chars.len()
                    && (chars[at].is_alphanumeric()
                        || chars[at] == '_'
                        || (chars[at] == '.' && chars.get(at + 1).is_some_and(char::is_ascii_digit))
                        || (matches!(chars[at], '-' | '+') && chars[at - 1] == 'e'))
                {
                    at += 1;
                }
            } else if c.is_alphabetic() || c == '_' {
                // A name bound again has a number: `v.2`.
                while at < chars.len()
                    && (chars[at].is_alphanumeric()
                        || chars[at] == '_'
                        || (chars[at] == '.' && chars.get(at + 1).is_some_and(char::is_ascii_digit)))
                {
                    at += 1;
                }
                // Parts of what is written have names: `j.from`, `m.max`.
                while chars.get(at) == Some(&'.') {
                    let word = chars[at + 1..].iter().take_while(|c| c.is_alphanumeric() || **c == '_');
                    let word: String = word.collect();
                    let end = at + 1 + word.len();
                    if word.is_empty() || word == "cast" || chars.get(end) == Some(&'(') {
                        break;
                    }
                    at = end;
                }
            } else {
                let two: String = chars[at..(at + 2).min(chars.len())].iter().collect();
                at += if ["::", "==", "!=", "<=", ">="].contains(&two.as_str()) { 2 } else { 1 };
            }
            tokens.push((chars[start..at].iter().collect(), n + 1));
        }
    }
    tokens
}

struct Parser {
    tokens: Vec<(String, usize)>,
    at: usize,
    kernel: Kernel,
    /// Variables in scope, the last bound last: what is bound in a loop stays there.
    visible: Vec<VarId>,
}

type Result<T, E = ParseError> = std::result::Result<T, E>;

fn id(n: usize) -> u16 {
    u16::try_from(n).expect("kernels are small")
}

impl Parser {
    fn peek(&self) -> &str {
        self.tokens.get(self.at).map_or("", |(t, _)| t)
    }

    fn next(&mut self) -> String {
        let token = self.peek().to_string();
        self.at += 1;
        token
    }

    fn fail<T>(&self, message: impl Into<String>) -> Result<T> {
        let line = self.tokens.get(self.at.min(self.tokens.len().saturating_sub(1))).map_or(1, |(_, l)| *l);
        Err(ParseError { line, message: message.into() })
    }

    fn eat(&mut self, token: &str) -> bool {
        let found = self.peek() == token;
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, token: &str) -> Result<()> {
        if self.eat(token) {
            Ok(())
        } else {
            self.fail(format!("expected `{token}`, found `{}`", self.peek()))
        }
    }

    fn comma_separated(&mut self, close: &str, mut item: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        while !self.eat(close) {
            item(self)?;
            if !self.eat(",") {
                return self.expect(close);
            }
        }
        Ok(())
    }

    fn elem(&mut self) -> Result<ElemType> {
        let name = self.next();
        self.elem_named(&name)
    }

    fn elem_named(&self, name: &str) -> Result<ElemType> {
        match DType::from_name(name) {
            Some(dtype) => Ok(ElemType::Fixed(dtype)),
            None if self.kernel.generic.as_deref() == Some(name) => Ok(ElemType::Generic),
            None => self.fail(format!("`{name}` is not an element type")),
        }
    }

    fn kernel(&mut self) -> Result<()> {
        self.expect("kernel")?;
        self.kernel.name = self.next();
        if self.eat("<") {
            self.kernel.generic = Some(self.next());
            self.expect(">")?;
        }
        self.expect("(")?;
        self.comma_separated(")", Self::param)?;
        self.expect("{")?;
        // Limits may mention axes that are bound behind theirs.
        for at in self.at..self.tokens.len().saturating_sub(2) {
            let [word, name, within] = [0, 1, 2].map(|n| self.tokens[at + n].0.as_str());
            if word == "axis" && within == "in" {
                let (extent, kind, limits) = (Extent::default(), AxisKind::Whole, Limits::default());
                let name = name.to_string();
                self.kernel.axes.push(Axis { name, extent, kind, limits, span: SpanId::NONE });
            }
        }
        let mut bound = 0;
        while self.eat("axis") {
            self.at += 1;
            self.expect("in")?;
            let kind = match self.next().as_str() {
                "program_tile" => AxisKind::Program,
                "tiles" => AxisKind::Tiles,
                "whole" => AxisKind::Whole,
                other => return self.fail(format!("`{other}` does not bind an axis")),
            };
            self.expect("(")?;
            let extent = self.extent()?;
            self.expect(")")?;
            let limits = self.limits()?;
            self.expect(";")?;
            let axis = &mut self.kernel.axes[bound];
            (axis.extent, axis.kind, axis.limits) = (extent, kind, limits);
            bound += 1;
        }
        self.kernel.body = self.block()?;
        if self.peek().is_empty() { Ok(()) } else { self.fail("text after the kernel") }
    }

    /// `.below(E)`, `.from(E)`, `.between(E, E)`, or nothing.
    fn limits(&mut self) -> Result<Limits> {
        let mut limits = Limits::default();
        if !self.eat(".") {
            return Ok(limits);
        }
        let word = self.next();
        self.expect("(")?;
        if word != "below" {
            limits.from = Some(self.expr(0)?);
        }
        if word == "between" {
            self.expect(",")?;
        }
        if word != "from" {
            limits.to = Some(self.expr(0)?);
        }
        self.expect(")")?;
        Ok(limits)
    }

    fn param(&mut self) -> Result<()> {
        let name = self.next();
        self.expect(":")?;
        if !self.eat("&") {
            let elem = self.elem()?;
            self.kernel.scalars.push(Scalar { name, elem, span: SpanId::NONE });
            return Ok(());
        }
        let mutable = self.eat("mut");
        self.expect("[")?;
        let elem = self.elem()?;
        self.expect(";")?;
        let mut dims = Vec::new();
        self.comma_separated("]", |p| {
            dims.push(p.extent()?);
            Ok(())
        })?;
        self.kernel.tensors.push(Tensor { name, elem, dims, mutable, span: SpanId::NONE });
        Ok(())
    }

    /// `2*a - b + 1` as (coefficient, name or nothing).
    fn terms(&mut self) -> Result<Vec<(i64, Option<String>)>> {
        let mut terms = Vec::new();
        let mut sign = if self.eat("-") { -1 } else { 1 };
        loop {
            let token = self.next();
            terms.push(match token.parse::<i64>() {
                Ok(n) if self.eat("*") => (sign * n, Some(self.next())),
                Ok(n) => (sign * n, None),
                Err(_) => (sign, Some(token)),
            });
            sign = match self.peek() {
                "+" => 1,
                "-" => -1,
                _ => return Ok(terms),
            };
            self.at += 1;
        }
    }

    fn extent(&mut self) -> Result<Extent> {
        let mut extent = Extent::default();
        for (c, name) in self.terms()? {
            match name {
                Some(name) => *extent.dims.entry(name).or_default() += c,
                None => extent.constant += c,
            }
        }
        Ok(extent)
    }

    fn axis(&self, name: &str) -> Result<AxisId> {
        match self.kernel.axes.iter().position(|a| a.name == name) {
            Some(n) => Ok(AxisId(id(n))),
            None => self.fail(format!("`{name}` is not an axis")),
        }
    }

    fn index(&mut self) -> Result<Vec<Index>> {
        let mut index = Vec::new();
        self.expect("[")?;
        self.comma_separated("]", |p| {
            index.push(p.entry()?);
            Ok(())
        })?;
        Ok(index)
    }

    /// `2*i + 1`, `(value) + i`, `unique(value)`.
    fn entry(&mut self) -> Result<Index> {
        let unique = self.eat("unique");
        let mut entry = Index::from(Affine::default());
        if unique || self.peek() == "(" {
            self.expect("(")?;
            entry = Index { value: Some(Box::new(self.expr(0)?)), unique, ..entry };
            self.expect(")")?;
            if !self.eat("+") {
                return Ok(entry);
            }
        }
        for (c, name) in self.terms()? {
            match name {
                Some(name) => *entry.affine.terms.entry(self.axis(&name)?).or_default() += c,
                None => entry.affine.constant += c,
            }
        }
        Ok(entry)
    }

    fn tensor(&mut self) -> Result<TensorId> {
        let name = self.next();
        match self.kernel.tensors.iter().position(|t| t.name == name) {
            Some(n) => Ok(TensorId(id(n))),
            None => self.fail(format!("`{name}` is not a tensor")),
        }
    }

    fn block(&mut self) -> Result<Vec<Stmt>> {
        let outside = self.visible.len();
        let mut body = Vec::new();
        while !self.eat("}") {
            body.push(self.stmt()?);
        }
        self.visible.truncate(outside);
        Ok(body)
    }

    fn stmt(&mut self) -> Result<Stmt> {
        let span = SpanId::NONE;
        match self.next().as_str() {
            "let" => {
                let mutable = self.eat("mut");
                let name = self.next();
                self.expect("=")?;
                let value = self.expr(0)?;
                self.expect(";")?;
                self.kernel.vars.push(Var { name, mutable, span });
                let var = VarId(id(self.kernel.vars.len() - 1));
                self.visible.push(var);
                Ok(Stmt::Let { var, value })
            }
            "for" => {
                let name = self.next();
                let axis = self.axis(&name)?;
                self.expect("{")?;
                Ok(Stmt::For { axis, body: self.block()?, span })
            }
            "if" => {
                let when = self.expr(0)?;
                self.expect("{")?;
                let Stmt::Store { tensor, index, combine, value, .. } = self.stmt()? else {
                    return self.fail("an `if` has a store inside");
                };
                self.expect("}")?;
                Ok(Stmt::Store { tensor, index, when: Some(when), combine, value, span })
            }
            name if (name == "store" || RedOp::from_atomic(name).is_some()) && self.eat("(") => {
                let combine = RedOp::from_atomic(name);
                let tensor = self.tensor()?;
                self.expect(",")?;
                let index = self.index()?;
                self.expect(",")?;
                let value = self.expr(0)?;
                self.expect(")")?;
                self.expect(";")?;
                Ok(Stmt::Store { tensor, index, when: None, combine, value, span })
            }
            name => {
                let Some(var) = self.variable(name) else {
                    return self.fail(format!("`{name}` starts no statement"));
                };
                self.expect("=")?;
                let value = self.expr(0)?;
                self.expect(";")?;
                Ok(Stmt::Assign { var, value, span })
            }
        }
    }

    /// Infix expressions that bind at least as strongly as `level`.
    fn expr(&mut self, level: u8) -> Result<Expr> {
        let mut left = self.operand()?;
        loop {
            let op = self.peek().to_string();
            let (cmp, bin) = (CmpOp::from_name(&op), BinOp::from_name(&op));
            let own = match (cmp, bin.map(|op| op.row().form)) {
                (Some(_), _) => 1,
                (None, Some(Form::Infix(own))) => own,
                _ => return Ok(left),
            };
            if own < level.max(1) {
                return Ok(left);
            }
            self.at += 1;
            let (a, b) = (Box::new(left), Box::new(self.expr(own + 1)?));
            left = expr(match (cmp, bin) {
                (None, Some(op)) => ExprKind::Bin(op, a, b),
                (Some(op), _) => ExprKind::Cmp(op, a, b),
                (None, None) => return self.fail(format!("`{op}` is no operator")),
            });
        }
    }

    fn operand(&mut self) -> Result<Expr> {
        let mut value = self.primary()?;
        while self.eat(".") {
            self.expect("cast")?;
            let elem = self.turbofish()?;
            self.expect("(")?;
            self.expect(")")?;
            value = expr(ExprKind::Cast(elem, Box::new(value)));
        }
        Ok(value)
    }

    fn turbofish(&mut self) -> Result<ElemType> {
        self.expect("::")?;
        self.expect("<")?;
        let elem = self.elem()?;
        self.expect(">")?;
        Ok(elem)
    }

    fn args<const N: usize>(&mut self) -> Result<[Box<Expr>; N]> {
        let mut args = Vec::new();
        self.comma_separated(")", |p| {
            args.push(Box::new(p.expr(0)?));
            Ok(())
        })?;
        args.try_into()
            .or_else(|args: Vec<_>| self.fail(format!("expected {N} arguments, found {}", args.len())))
    }

    fn number(&self, token: &str, sign: f64) -> Result<ExprKind> {
        let (digits, suffix) = token.split_once('_').map_or((token, None), |(d, s)| (d, Some(s)));
        let elem = suffix.map(|s| self.elem_named(s)).transpose()?;
        match digits.parse::<f64>() {
            Ok(value) => Ok(ExprKind::Const { value: sign * value, elem }),
            Err(_) => self.fail(format!("`{token}` is not a number")),
        }
    }

    fn signed_number(&mut self) -> Result<ExprKind> {
        if let Some(truth) = Self::truth(self.peek()) {
            self.at += 1;
            return Ok(truth);
        }
        let sign = if self.eat("-") { -1.0 } else { 1.0 };
        let token = self.next();
        self.number(&token, sign)
    }

    fn truth(token: &str) -> Option<ExprKind> {
        let value = u8::from(token.parse::<bool>().ok()?).into();
        Some(ExprKind::Const { value, elem: Some(ElemType::Fixed(DType::Bool)) })
    }

    fn is_number(token: &str) -> bool {
        token.starts_with(|c: char| c.is_ascii_digit())
            || matches!(token.split('_').next(), Some("inf" | "NaN"))
    }

    fn primary(&mut self) -> Result<Expr> {
        let token = self.next();
        let kind = match token.as_str() {
            "(" => {
                let inner = self.expr(0)?;
                self.expect(")")?;
                return Ok(inner);
            }
            "-" if Self::is_number(self.peek()) => {
                self.at -= 1;
                self.signed_number()?
            }
            "-" => ExprKind::Un(UnOp::Neg, Box::new(self.operand()?)),
            "load" if self.eat("(") => {
                let tensor = self.tensor()?;
                self.expect(",")?;
                let index = self.index()?;
                self.expect(")")?;
                ExprKind::Load { tensor, index }
            }
            "full" if self.peek() == "::" => {
                let elem = self.turbofish()?;
                self.expect("(")?;
                let ExprKind::Const { value, .. } = self.signed_number()? else {
                    unreachable!("a number is a constant")
                };
                self.expect(",")?;
                self.expect("[")?;
                let mut axes = Vec::new();
                self.comma_separated("]", |p| {
                    let name = p.next();
                    axes.push(p.axis(&name)?);
                    Ok(())
                })?;
                self.expect(")")?;
                ExprKind::Full { value, elem, axes }
            }
            "iota" | "dim" if self.eat("(") => {
                let name = self.next();
                self.expect(")")?;
                if token == "dim" { ExprKind::Dim(name) } else { ExprKind::Iota(self.axis(&name)?) }
            }
            name if Edge::from_name(name).is_some() && self.eat("(") => {
                let axis = self.next();
                self.expect(")")?;
                ExprKind::Edge(self.axis(&axis)?, Edge::from_name(name).expect("checked above"))
            }
            "select" if self.eat("(") => {
                let [c, a, b] = self.args()?;
                ExprKind::Select(c, a, b)
            }
            "dot" if self.eat("(") => {
                let a = self.expr(0)?;
                self.expect(",")?;
                let b = self.expr(0)?;
                self.expect(",")?;
                let acc = Box::new(self.expr(0)?);
                let rounded = self.eat(",");
                if rounded {
                    self.expect("tf32")?;
                }
                self.expect(")")?;
                let factor = |x: Expr| Box::new(if rounded { x.tf32() } else { x });
                ExprKind::Dot(factor(a), factor(b), acc)
            }
            name if is_reduction_or_binary(name) && self.eat("(") => self.reduce_or_binary(&token)?,
            name if let Some(op) = RedOp::from_scan(name)
                && self.eat("(") =>
            {
                let x = Box::new(self.expr(0)?);
                self.expect(",")?;
                let axis = self.next();
                self.expect(")")?;
                ExprKind::Scan(op, x, self.axis(&axis)?)
            }
            name if UnOp::from_name(name).is_some() && self.eat("(") => {
                let [x] = self.args()?;
                ExprKind::Un(UnOp::from_name(name).expect("checked above"), x)
            }
            number if Self::is_number(number) => self.number(number, 1.0)?,
            word if let Some(truth) = Self::truth(word) => truth,
            name => self.name(name)?,
        };
        Ok(expr(kind))
    }

    /// `max(x, n)` reduces if `n` is an axis, else takes the larger of two values, as `max(x, (n))` does in any case.
    fn reduce_or_binary(&mut self, name: &str) -> Result<ExprKind> {
        let a = Box::new(self.expr(0)?);
        self.expect(",")?;
        if let Some(op) = RedOp::from_name(name)
            && self.tokens.get(self.at + 1).is_some_and(|(after, _)| after == ")")
            && let Ok(axis) = self.axis(self.peek())
        {
            self.at += 1;
            self.expect(")")?;
            return Ok(ExprKind::Reduce(op, a, axis));
        }
        let b = Box::new(self.expr(0)?);
        self.expect(")")?;
        match BinOp::from_name(name) {
            Some(op) => Ok(ExprKind::Bin(op, a, b)),
            None => self.fail(format!("`{name}` needs an axis")),
        }
    }

    /// The variable that a name stands for here: the last one bound of those in scope.
    fn variable(&self, name: &str) -> Option<VarId> {
        let is_called = |var: &&VarId| self.kernel.vars[usize::from(var.0)].name == name;
        self.visible.iter().rev().find(is_called).copied()
    }

    fn name(&self, name: &str) -> Result<ExprKind> {
        if let Some(var) = self.variable(name) {
            return Ok(ExprKind::Var(var));
        }
        match self.kernel.scalars.iter().position(|s| s.name == name) {
            Some(n) => Ok(ExprKind::Scalar(ScalarId(id(n)))),
            None => self.fail(format!("`{name}` is neither a value nor a scalar")),
        }
    }
}

/// Whether a name is that of a reduction, or of an operator that is written as a function.
fn is_reduction_or_binary(name: &str) -> bool {
    RedOp::from_name(name).is_some()
        || BinOp::from_name(name).is_some_and(|op| !matches!(op.row().form, Form::Infix(_)))
}

fn expr(kind: ExprKind) -> Expr {
    Expr { kind, span: SpanId::NONE }
}

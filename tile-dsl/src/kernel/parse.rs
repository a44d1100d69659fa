//! Reads the text form of the kernel IR that [`super::print`] writes. For tests.

mod interface;
mod statement;
mod words;

use super::{Expr, Kernel, Var};
use crate::{
    dtype::DType,
    machine::Target,
    op::{BinOp, CmpOp, UnOp},
};
use std::collections::HashMap;
use words::words;

/// The text is not a kernel.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ParseError {
    /// Line, from 1.
    pub line: usize,
    /// What was expected and what was found.
    pub message: String,
}

type Parse<T = ()> = Result<T, ParseError>;

/// Reads one kernel; [`super::verify`] is left to the caller.
///
/// # Errors
/// The first word that does not fit.
pub fn parse(text: &str) -> Parse<Kernel> {
    let kernel = Kernel {
        name: String::new(),
        target: Target { sm: 80, specific: false },
        params: Vec::new(),
        cleared: Vec::new(),
        shared: Vec::new(),
        frags: Vec::new(),
        vars: Vec::new(),
        threads: 1,
        grid: Vec::new(),
        min_ctas: None,
        persistent: None,
        cluster: None,
        assemble: None,
        dependent: false,
        grouped: false,
        body: Vec::new(),
    };
    let mut parser = Parser { words: words(text), at: 0, kernel, types: HashMap::new() };
    parser.kernel()?;
    let count = parser.types.keys().max().map_or(0, |last| last + 1);
    let ty = |n| parser.types.get(&n).copied().unwrap_or(DType::I32);
    parser.kernel.vars = (0..count).map(ty).collect();
    Ok(parser.kernel)
}

struct Parser {
    words: Vec<(String, usize)>,
    at: usize,
    kernel: Kernel,
    types: HashMap<u32, DType>,
}

impl Parser {
    fn peek(&self) -> &str {
        self.words.get(self.at).map_or("", |w| &w.0)
    }

    fn next(&mut self) -> String {
        let word = self.peek().to_string();
        self.at += 1;
        word
    }

    fn fail<T>(&self, expected: &str) -> Parse<T> {
        let at = self.at.saturating_sub(1);
        let (found, line) = self.words.get(at).cloned().unwrap_or(("the end".into(), 0));
        Err(ParseError { line, message: format!("expected {expected}, found `{found}`") })
    }

    fn eat(&mut self, word: &str) -> bool {
        let found = self.peek() == word;
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, word: &str) -> Parse {
        if self.next() == word { Ok(()) } else { self.fail(&format!("`{word}`")) }
    }

    fn parsed<T: std::str::FromStr>(&mut self) -> Parse<T> {
        let word = self.next();
        word.parse().or_else(|_| self.fail("a number"))
    }

    fn dtype(&mut self) -> Parse<DType> {
        let word = self.next();
        DType::from_name(&word).map_or_else(|| self.fail("an element type"), Ok)
    }

    fn param_named(&self, name: &str) -> Option<u32> {
        self.kernel.params.iter().position(|p| p.name() == name).map(|i| i as u32)
    }

    /// `[1]`, of a fragment by its name.
    fn slot_of(&mut self, name: &str) -> Parse<(u32, u32)> {
        let frag = self.frag(name)?;
        self.expect("[")?;
        let slot = self.parsed()?;
        self.expect("]")?;
        Ok((frag, slot))
    }

    fn frag(&self, name: &str) -> Parse<u32> {
        let found = self.kernel.frags.iter().position(|f| f.name == name);
        found.map_or_else(|| self.fail("a fragment or an expression"), |n| Ok(n as u32))
    }

    fn args<const N: usize>(&mut self) -> Parse<[Box<Expr>; N]> {
        self.expect("(")?;
        let mut args = Vec::new();
        for n in 0..N {
            if n > 0 {
                self.expect(",")?;
            }
            args.push(Box::new(self.expr()?));
        }
        self.expect(")")?;
        Ok(args.try_into().expect("N arguments"))
    }

    fn expr(&mut self) -> Parse<Expr> {
        let word = self.next();
        let is_call = self.peek() == "(";
        match word.as_str() {
            "(" => {
                let a = Box::new(self.expr()?);
                let op = self.next();
                let b = Box::new(self.expr()?);
                self.expect(")")?;
                if let Some(op) = BinOp::from_name(&op) {
                    return Ok(Expr::Bin(op, a, b));
                }
                CmpOp::from_name(&op).map_or_else(|| self.fail("an operator"), |op| Ok(Expr::Cmp(op, a, b)))
            }
            "%" => self.parsed().map(|n| Expr::Var(Var(n))),
            "$" => {
                let name = self.next();
                self.param_named(&name).map_or_else(|| self.fail("a scalar"), |i| Ok(Expr::Scalar(i)))
            }
            "tid" => Ok(Expr::Tid),
            "cta" => Ok(Expr::Cta),
            "ctas" => Ok(Expr::Ctas),
            "tiles" => Ok(Expr::Tiles),
            "true" => Ok(Expr::Bool(true)),
            "false" => Ok(Expr::Bool(false)),
            "dim" if is_call => {
                self.expect("(")?;
                let extent = self.extent()?;
                self.expect(")")?;
                Ok(Expr::Dim(extent))
            }
            "wrapping" if is_call => match self.expr()? {
                Expr::Bin(op, a, b) => Ok(Expr::Wrapping(op, a, b)),
                _ => self.fail("an operation"),
            },
            "fma" if is_call => self.args().map(|[a, b, c]| Expr::Fma(a, b, c)),
            "select" if is_call => self.args().map(|[a, b, c]| Expr::Select(a, b, c)),
            "cast" => {
                let ty = self.dtype()?;
                self.args().map(|[a]| Expr::Cast(ty, a))
            }
            name if is_call => {
                if let Some(dtype) = DType::from_name(name) {
                    self.expect("(")?;
                    let literal = match dtype.is_integer() {
                        true => Expr::Int(self.parsed()?, dtype),
                        false => Expr::Float(self.parsed()?, dtype),
                    };
                    self.expect(")")?;
                    return Ok(literal);
                }
                if let Some(op) = UnOp::from_name(name) {
                    return self.args().map(|[a]| Expr::Un(op, a));
                }
                match BinOp::from_name(name) {
                    Some(op) => self.args().map(|[a, b]| Expr::Bin(op, a, b)),
                    None => self.fail("a function"),
                }
            }
            word => {
                if let Some(Ok(n)) = word.strip_suffix('l').map(str::parse) {
                    return Ok(Expr::Int(n, DType::I64));
                }
                if let Ok(n) = word.parse() {
                    return Ok(Expr::Int(n, DType::I32));
                }
                let name = word.to_string();
                self.slot_of(&name).map(|(frag, slot)| Expr::Slot { frag, slot })
            }
        }
    }
}

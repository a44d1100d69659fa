//! Reads the text form of the kernel IR that [`super::print`] writes. For tests.

mod asynchronous;
mod interface;
mod words;

use super::{Expr, Group, Kernel, Mem, Stmt, Ty, Var};
use crate::{
    dtype::DType,
    nest::Atom,
    op::{BinOp, CmpOp, UnOp},
    schedule::Target,
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
    let ty = |n| parser.types.get(&n).copied().unwrap_or(Ty::I32);
    parser.kernel.vars = (0..count).map(ty).collect();
    Ok(parser.kernel)
}

struct Parser {
    words: Vec<(String, usize)>,
    at: usize,
    kernel: Kernel,
    types: HashMap<u32, Ty>,
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

    fn number<T: std::str::FromStr>(&mut self) -> Parse<T> {
        let word = self.next();
        word.parse().or_else(|_| self.fail("a number"))
    }

    fn dtype(&mut self) -> Parse<DType> {
        let word = self.next();
        DType::from_name(&word).map_or_else(|| self.fail("an element type"), Ok)
    }

    fn ty(&mut self) -> Parse<Ty> {
        if self.eat("i64") { Ok(Ty::I64) } else { self.dtype().map(Ty::Elem) }
    }

    /// Statements up to and including the closing brace.
    fn block(&mut self) -> Parse<Vec<Stmt>> {
        let mut stmts = Vec::new();
        while !self.eat("}") {
            stmts.push(self.stmt()?);
        }
        Ok(stmts)
    }

    fn var(&mut self) -> Parse<Var> {
        self.expect("%")?;
        self.number().map(Var)
    }

    fn vars(&mut self) -> Parse<Vec<Var>> {
        let mut vars = vec![self.var()?];
        while self.eat(",") {
            vars.push(self.var()?);
        }
        Ok(vars)
    }

    fn exprs(&mut self) -> Parse<Vec<Expr>> {
        let mut exprs = vec![self.expr()?];
        while self.eat(",") {
            exprs.push(self.expr()?);
        }
        Ok(exprs)
    }

    fn declare(&mut self, vars: &[Var]) -> Parse {
        self.expect(":")?;
        let ty = self.ty()?;
        self.types.extend(vars.iter().map(|v| (v.0, ty)));
        Ok(())
    }

    fn stmt(&mut self) -> Parse<Stmt> {
        match self.next().as_str() {
            "let" => {
                let var = self.var()?;
                self.declare(&[var])?;
                self.expect("=")?;
                Ok(Stmt::Let(var, self.expr()?))
            }
            "matrices" => {
                let dst = self.vars()?;
                self.declare(&dst)?;
                self.expect("=")?;
                let (Mem::Shared(shared), offset) = self.place()? else {
                    return self.fail("a shared buffer");
                };
                Ok(Stmt::LoadMatrices { dst, shared, offset, transposed: self.eat("transposed") })
            }
            "store_matrices" => {
                let (Mem::Shared(shared), offset) = self.place()? else {
                    return self.fail("a shared buffer");
                };
                let transposed = self.eat("transposed");
                self.expect("=")?;
                Ok(Stmt::StoreMatrices { shared, offset, values: self.exprs()?, transposed })
            }
            word @ ("exchange" | "transpose") => {
                let dst = self.vars()?;
                self.declare(&dst)?;
                self.expect("=")?;
                let values = self.exprs()?;
                Ok(match word {
                    "exchange" => Stmt::ExchangeMatrices { dst, values },
                    _ => Stmt::TransposeMatrix { dst, values },
                })
            }
            word if Atom::from_label(word).is_some() => {
                let Some(atom) = Atom::from_label(word) else { return self.fail("an instruction") };
                let (frag, slots) = self.slots()?;
                self.expect("+")?;
                self.expect("=")?;
                if atom.row().descriptors {
                    return self.multiply(atom, (frag, slots));
                }
                let a = self.exprs()?;
                self.expect("x")?;
                Ok(Stmt::Mma { atom, frag, slots, a, b: self.exprs()? })
            }
            "load" => {
                let dst = self.vars()?;
                self.declare(&dst)?;
                self.expect("=")?;
                let (mem, offset) = self.place()?;
                Ok(Stmt::Load { dst, mem, offset, guard: self.guard()? })
            }
            "store" => {
                let (mem, offset) = self.place()?;
                self.expect("=")?;
                let values = self.exprs()?;
                Ok(Stmt::Store { mem, offset, values, guard: self.guard()? })
            }
            "set" => {
                let name = self.next();
                let (frag, slot) = self.slot(&name)?;
                self.expect("=")?;
                Ok(Stmt::Set { frag, slot, value: self.expr()? })
            }
            "for" => {
                let var = self.var()?;
                self.declare(&[var])?;
                self.expect("in")?;
                let start = self.expr()?;
                self.expect("to")?;
                let end = self.expr()?;
                self.expect("step")?;
                let step = self.expr()?;
                self.expect("{")?;
                Ok(Stmt::For { var, start, end, step, body: self.block()? })
            }
            "if" => {
                let cond = self.expr()?;
                self.expect("{")?;
                let then = self.block()?;
                let mut otherwise = Vec::new();
                if self.eat("else") {
                    self.expect("{")?;
                    otherwise = self.block()?;
                }
                Ok(Stmt::If { cond, then, otherwise })
            }
            "copy" => {
                let (Mem::Shared(shared), shared_offset) = self.place()? else {
                    return self.fail("a place in shared memory");
                };
                self.expect("<-")?;
                let (Mem::Global(global), global_offset) = self.place()? else {
                    return self.fail("a place in global memory");
                };
                self.expect("x")?;
                let elems = self.number()?;
                let guard = self.guard()?;
                Ok(Stmt::CopyAsync { shared, shared_offset, global, global_offset, elems, guard })
            }
            "commit" => Ok(Stmt::CommitGroup),
            "wait" => Ok(Stmt::WaitGroup(self.number()?)),
            "barrier" if self.peek().parse::<u32>().is_err() => Ok(Stmt::Barrier),
            "barrier" => self.group().map(Stmt::GroupBarrier),
            "warp" => self.expect("barrier").map(|()| Stmt::WarpBarrier),
            "dependency" => Ok(Stmt::GridDependency),
            "problem" => {
                let dst = self.var()?;
                self.declare(&[dst])?;
                self.expect("=")?;
                Ok(Stmt::Problem { dst, tile: self.expr()? })
            }
            "cluster" if self.eat("arrive") => Ok(Stmt::ClusterArrive),
            "cluster" => self.expect("wait").map(|()| Stmt::ClusterWait),
            "cluster_barrier" => Ok(Stmt::ClusterBarrier),
            "peer" => {
                let (Mem::Shared(shared), offset) = self.place()? else {
                    return self.fail("a shared buffer");
                };
                self.expect("of")?;
                let cta = self.expr()?;
                self.expect("=")?;
                Ok(Stmt::StorePeer { shared, offset, cta, values: self.exprs()? })
            }
            "one" => {
                self.expect("thread")?;
                let thread = self.number()?;
                self.expect("{")?;
                Ok(Stmt::One { thread, body: self.block()? })
            }
            "roles" => self.roles(),
            word @ ("mbarriers" | "arrive" | "await" | "tensor" | "proxy_fence" | "products" | "send"
            | "stores" | "acquire" | "prefetch") => self.asynchronous(word).map(Stmt::Async),
            "live" => {
                let mut buffers = vec![self.shared()?];
                while self.eat(",") {
                    buffers.push(self.shared()?);
                }
                Ok(Stmt::Live(buffers))
            }
            "shuffle" => {
                let dst = self.var()?;
                self.declare(&[dst])?;
                self.expect("=")?;
                let value = self.expr()?;
                self.expect("xor")?;
                Ok(Stmt::Shuffle { dst, value, mask: self.number()? })
            }
            "add" => {
                let (Mem::Global(global), offset) = self.place()? else { return self.fail("a tensor") };
                self.expect("+")?;
                self.expect("=")?;
                let values = self.exprs()?;
                Ok(Stmt::Add { global, offset, values, guard: self.guard()? })
            }
            "last" => {
                let dst = self.var()?;
                self.declare(&[dst])?;
                self.expect("=")?;
                self.expect("arrive")?;
                let (Mem::Global(counters), offset) = self.place()? else {
                    return self.fail("a scratch buffer");
                };
                self.expect("of")?;
                let parts = self.number()?;
                let group = match self.eat("by") {
                    true => Some(self.expect("barrier").and_then(|()| self.group())?),
                    false => None,
                };
                Ok(Stmt::Arrive { dst, counters, offset, parts, guard: self.guard()?, group })
            }
            _ => self.fail("a statement"),
        }
    }

    /// `1 of 128`: a named barrier.
    fn group(&mut self) -> Parse<Group> {
        let id = self.number()?;
        self.expect("of")?;
        Ok(Group { id, threads: self.number()? })
    }

    fn guard(&mut self) -> Parse<Option<Expr>> {
        if self.eat("if") { self.expr().map(Some) } else { Ok(None) }
    }

    fn place(&mut self) -> Parse<(Mem, Expr)> {
        let shared = self.eat("shared");
        let name = self.next();
        let found = if shared {
            self.kernel.shared.iter().position(|s| s.name == name).map(|i| Mem::Shared(i as u32))
        } else {
            self.param_named(&name).map(Mem::Global)
        };
        let Some(mem) = found else { return self.fail("a buffer") };
        self.expect("[")?;
        let offset = self.expr()?;
        self.expect("]")?;
        Ok((mem, offset))
    }

    fn shared(&mut self) -> Parse<u32> {
        let name = self.next();
        let found = self.kernel.shared.iter().position(|s| s.name == name);
        found.map_or_else(|| self.fail("a shared buffer"), |n| Ok(n as u32))
    }

    fn param_named(&self, name: &str) -> Option<u32> {
        self.kernel.params.iter().position(|p| p.name() == name).map(|i| i as u32)
    }

    /// `acc[0, 1]`.
    fn slots(&mut self) -> Parse<(u32, Vec<u32>)> {
        let name = self.next();
        let frag = self.frag(&name)?;
        self.expect("[")?;
        let mut slots = vec![self.number()?];
        while self.eat(",") {
            slots.push(self.number()?);
        }
        self.expect("]")?;
        Ok((frag, slots))
    }

    fn slot(&mut self, name: &str) -> Parse<(u32, u32)> {
        let frag = self.frag(name)?;
        self.expect("[")?;
        let slot = self.number()?;
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
                if op == "xor" {
                    return Ok(Expr::Xor(a, b));
                }
                if let Some(op) = BinOp::from_name(&op) {
                    return Ok(Expr::Bin(op, a, b));
                }
                CmpOp::from_name(&op).map_or_else(|| self.fail("an operator"), |op| Ok(Expr::Cmp(op, a, b)))
            }
            "%" => self.number().map(|n| Expr::Var(Var(n))),
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
                let ty = self.ty()?;
                self.args().map(|[a]| Expr::Cast(ty, a))
            }
            name if is_call => {
                if let Some(dtype) = DType::from_name(name) {
                    self.expect("(")?;
                    let x = self.number()?;
                    self.expect(")")?;
                    return Ok(Expr::Float(x, dtype));
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
                    return Ok(Expr::Int(n, Ty::I64));
                }
                if let Ok(n) = word.parse() {
                    return Ok(Expr::Int(n, Ty::I32));
                }
                let name = word.to_string();
                self.slot(&name).map(|(frag, slot)| Expr::Slot { frag, slot })
            }
        }
    }
}

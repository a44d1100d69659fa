//! Text form of the kernel IR: `Kernel: Display`. [`super::parse`] reads it back.
//!
//! ```text
//! kernel name sm_80 threads 256 min_ctas 2 persistent 1 cluster 2 assemble 1 dependent grouped {
//!   param a: tensor f32 align 16          param c: mut tensor f32 align 4
//!   param b: tensor f32 align 4 cache evict_last
//!   param M: dim                          param alpha: scalar f32
//!   param c: cleared mut tensor f32 align 4  param a.map: map a [1: 64, 0: 128] swizzle 128  param c.map: stored map c ..
//!   param parts: scratch f32[1024]        param arrivals: zeroed scratch i32[1]
//!   shared a: f32[1024] align 16          frag acc: f32[64]
//!   grid M / 32, N / 32
//!   load %4, %5: f32 = a[(%3 + 1)] if %7  ..
//! }
//! ```
//! Statements are the pieces of their [row](super::statements), with a space between two.
//! A place in shared memory is written `shared name[offset]`, in global memory `name[offset]`.
//! `i64` literals end in `l`; float literals carry their type: `f32(1.5)`.

use super::{
    DType, Expr, Group, Kernel, Mem, Param, Role, Stmt, Var,
    visit::{Access, Visitor},
};
use crate::{
    nest::Atom,
    op::{RedOp, binary::Form},
};
use std::fmt::{self, Display, Formatter, Write};

impl Display for Kernel {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let specific = if self.target.specific { "a" } else { "" };
        write!(f, "kernel {} sm_{}{specific} threads {}", self.name, self.target.sm, self.threads)?;
        if let Some(n) = self.min_ctas {
            write!(f, " min_ctas {n}")?;
        }
        if let Some(ctas) = self.persistent {
            write!(f, " persistent {ctas}")?;
        }
        if let Some(ctas) = self.cluster {
            write!(f, " cluster {ctas}")?;
        }
        if let Some(level) = self.assemble {
            write!(f, " assemble {level}")?;
        }
        if self.dependent {
            f.write_str(" dependent")?;
        }
        if self.grouped {
            f.write_str(" grouped")?;
        }
        f.write_str(" {\n")?;
        for (n, param) in (0..).zip(&self.params) {
            match param {
                Param::Tensor { name, dtype, mutable, align, cache } => {
                    let cache = cache.map_or(String::new(), |evict| format!(" cache {evict}"));
                    let cleared = if self.cleared.contains(&n) { "cleared " } else { "" };
                    let kind = if *mutable { "mut tensor" } else { "tensor" };
                    writeln!(f, "  param {name}: {cleared}{kind} {dtype} align {align}{cache}")?;
                }
                Param::Scratch { name, dtype, elems, zeroed } => {
                    let zeroed = if *zeroed { "zeroed " } else { "" };
                    writeln!(f, "  param {name}: {zeroed}scratch {dtype}[{elems}]")?;
                }
                Param::Dim(name) => writeln!(f, "  param {name}: dim")?,
                Param::Scalar { name, dtype } => writeln!(f, "  param {name}: scalar {dtype}")?,
                Param::TensorMap { name, tensor, dims, tile, swizzle, stored } => {
                    let stored = if *stored { "stored " } else { "" };
                    let dims = dims.iter().zip(tile).map(|(dim, points)| format!("{dim}: {points}"));
                    let dims = dims.collect::<Vec<_>>().join(", ");
                    writeln!(
                        f,
                        "  param {name}: {stored}map {} [{dims}] swizzle {swizzle}",
                        param_name(self, *tensor)
                    )?;
                }
            }
        }
        // Where each has bytes of its own, they lie one after the other.
        let overlaid = self.rivals().iter().any(|rivals| !rivals.is_empty());
        for s in &self.shared {
            write!(f, "  shared {}: {}[{}] align {}", s.name, s.dtype, s.elems, s.align)?;
            if overlaid {
                write!(f, " at {}", s.start)?;
            }
            f.write_str("\n")?;
        }
        for frag in &self.frags {
            writeln!(f, "  frag {}: {}[{}]", frag.name, frag.dtype, frag.slots)?;
        }
        for (i, axis) in self.grid.iter().enumerate() {
            write!(f, "{}{} / {}", if i == 0 { "  grid " } else { ", " }, axis.extent, axis.tile)?;
            if axis.period != axis.tile {
                write!(f, " of {}", axis.period)?;
            }
            if axis.least > 0 {
                write!(f, " least {}", axis.least)?;
            }
        }
        if !self.grid.is_empty() {
            f.write_str("\n")?;
        }
        let mut text = String::new();
        Printer::new(self, &mut text).lines(&self.body, 1)?;
        f.write_str(&text)?;
        f.write_str("}\n")
    }
}

/// One expression, as in the text form of `kernel`.
pub fn expr(kernel: &Kernel, e: &Expr) -> String {
    let mut out = String::new();
    Printer::new(kernel, &mut out).expr(e).expect("writing to a string");
    out
}

/// One statement, as in the text form of `kernel`.
pub fn stmt(kernel: &Kernel, s: &Stmt) -> String {
    let mut out = String::new();
    s.visit(&mut Printer::new(kernel, &mut out)).expect("writing to a string");
    out
}

struct Printer<'k, 'o> {
    kernel: &'k Kernel,
    out: &'o mut String,
    /// Blocks around the statement at hand.
    depth: usize,
    /// Where the statement at hand begins in `out`.
    start: usize,
}

impl<'k, 'o> Printer<'k, 'o> {
    fn new(kernel: &'k Kernel, out: &'o mut String) -> Self {
        let start = out.len();
        Printer { kernel, out, depth: 0, start }
    }

    /// Statements, a line each.
    fn lines(&mut self, stmts: &[Stmt], depth: usize) -> fmt::Result {
        let around = (self.depth, self.start);
        self.depth = depth;
        for stmt in stmts {
            self.indent(depth);
            self.start = self.out.len();
            stmt.visit(self)?;
            self.out.push('\n');
        }
        (self.depth, self.start) = around;
        Ok(())
    }

    fn indent(&mut self, depth: usize) {
        (0..depth).for_each(|_| self.out.push_str("  "));
    }

    fn braces(&mut self, stmts: &[Stmt], depth: usize) -> fmt::Result {
        self.gap().push_str("{\n");
        self.lines(stmts, depth + 1)?;
        self.indent(depth);
        self.out.push('}');
        Ok(())
    }

    /// A space behind the piece before, if there is one.
    fn gap(&mut self) -> &mut String {
        if self.out.len() > self.start {
            self.out.push(' ');
        }
        self.out
    }

    /// `%4, %5: f32`.
    fn defined(&mut self, vars: &[Var]) -> fmt::Result {
        self.gap();
        for (i, var) in vars.iter().enumerate() {
            write!(self.out, "{}%{}", if i == 0 { "" } else { ", " }, var.0)?;
        }
        let ty = vars.first().and_then(|var| self.kernel.vars.get(var.0 as usize));
        write!(self.out, ": {}", ty.unwrap_or(&DType::I64))
    }

    fn at(&mut self, mem: Mem, offset: &Expr) -> fmt::Result {
        let kernel = self.kernel;
        let name = match mem {
            Mem::Global(i) => param_name(kernel, i),
            Mem::Shared(i) => {
                self.gap().push_str("shared");
                shared_name(kernel, i)
            }
        };
        self.gap().push_str(name);
        self.indices(std::slice::from_ref(offset))
    }

    /// `[%4, %5]`.
    fn indices(&mut self, exprs: &[Expr]) -> fmt::Result {
        self.out.push('[');
        self.list(exprs)?;
        self.out.write_char(']')
    }
}

impl<'a> Visitor<'a> for Printer<'_, '_> {
    type Error = fmt::Error;

    fn operand(&mut self, e: &'a Expr) -> fmt::Result {
        self.gap();
        self.expr(e)
    }
    fn block(&mut self, block: &'a Vec<Stmt>) -> fmt::Result {
        self.braces(block, self.depth)
    }
    fn text(&mut self, text: &'static str) -> fmt::Result {
        self.gap().write_str(text)
    }
    fn number(&mut self, n: &'a u32) -> fmt::Result {
        write!(self.gap(), "{n}")
    }
    fn numbered(&mut self, word: &'static str, n: &'a Option<u32>) -> fmt::Result {
        n.map_or(Ok(()), |n| write!(self.gap(), "{word} {n}"))
    }
    fn flag(&mut self, word: &'static str, flag: &'a bool) -> fmt::Result {
        if *flag { self.text(word) } else { Ok(()) }
    }
    fn either(&mut self, [yes, no]: [&'static str; 2], which: &'a bool) -> fmt::Result {
        self.text(if *which { yes } else { no })
    }
    fn reduction(&mut self, op: &'a RedOp) -> fmt::Result {
        self.text(op.name())
    }
    fn atom(&mut self, atom: &'a Atom, _: bool) -> fmt::Result {
        self.gap().write_str(&atom.label())
    }
    fn group(&mut self, Group { id, threads }: &'a Group) -> fmt::Result {
        write!(self.gap(), "barrier {id} of {threads}")
    }

    fn def(&mut self, var: &'a Var) -> fmt::Result {
        self.defined(&[*var])
    }
    fn lane(&mut self, var: &'a Var) -> fmt::Result {
        self.defined(&[*var])
    }
    fn defs(&mut self, vars: &'a Vec<Var>) -> fmt::Result {
        self.defined(vars)
    }
    fn common(&mut self, var: &'a Var, _: DType) -> fmt::Result {
        self.defined(&[*var])
    }
    fn own(&mut self, var: &'a Var, _: DType) -> fmt::Result {
        self.defined(&[*var])
    }
    fn values(&mut self, es: &'a Vec<Expr>, _: &'static str) -> fmt::Result {
        self.gap();
        self.list(es)
    }
    fn operands(&mut self, es: &'a Vec<Expr>) -> fmt::Result {
        self.gap();
        self.list(es)
    }

    fn place(&mut self, mem: &'a Mem, offset: &'a Expr, _: Access) -> fmt::Result {
        self.at(*mem, offset)
    }
    fn shared(&mut self, buffer: &'a u32, offset: &'a Expr, _: Access) -> fmt::Result {
        self.at(Mem::Shared(*buffer), offset)
    }
    fn global(&mut self, param: &'a u32, offset: &'a Expr, _: Access) -> fmt::Result {
        self.at(Mem::Global(*param), offset)
    }
    fn boxed(&mut self, map: &'a u32, coordinates: &'a Vec<Expr>) -> fmt::Result {
        self.map(map)?;
        self.indices(coordinates)
    }
    fn map(&mut self, map: &'a u32) -> fmt::Result {
        let kernel = self.kernel;
        self.gap().write_str(param_name(kernel, *map))
    }
    fn ring(&mut self, buffer: &'a u32) -> fmt::Result {
        let kernel = self.kernel;
        self.gap().write_str(shared_name(kernel, *buffer))
    }
    fn lives(&mut self, buffers: &'a Vec<u32>) -> fmt::Result {
        let names = buffers.iter().map(|b| shared_name(self.kernel, *b)).collect::<Vec<_>>().join(", ");
        self.gap().write_str(&names)
    }

    fn slot(&mut self, frag: &'a u32, slot: &'a u32) -> fmt::Result {
        let kernel = self.kernel;
        write!(self.gap(), "{}[{slot}]", frag_name(kernel, *frag))
    }
    fn slots(&mut self, frag: &'a u32, slots: &'a Vec<u32>) -> fmt::Result {
        let kernel = self.kernel;
        self.gap().push_str(frag_name(kernel, *frag));
        for (n, slot) in slots.iter().enumerate() {
            write!(self.out, "{}{slot}", if n == 0 { "[" } else { ", " })?;
        }
        self.out.write_char(']')
    }
    fn results(&mut self, results: &'a Vec<(u32, Vec<u32>)>) -> fmt::Result {
        results.iter().try_for_each(|(frag, slots)| self.slots(frag, slots))
    }

    fn otherwise(&mut self, block: &'a Vec<Stmt>) -> fmt::Result {
        if block.is_empty() {
            return Ok(());
        }
        self.text("else")?;
        self.block(block)
    }
    fn roles(&mut self, roles: &'a Vec<Role>) -> fmt::Result {
        self.gap().push('{');
        for Role { first, threads, registers, body } in roles {
            self.out.push('\n');
            self.indent(self.depth + 1);
            write!(self.out, "threads {first} to {}", first + threads)?;
            self.numbered("registers", registers)?;
            self.braces(body, self.depth + 1)?;
        }
        self.out.push('\n');
        self.indent(self.depth);
        self.out.write_char('}')
    }
}

impl Printer<'_, '_> {
    fn list(&mut self, exprs: &[Expr]) -> fmt::Result {
        for (i, e) in exprs.iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            self.expr(e)?;
        }
        Ok(())
    }

    fn call(&mut self, name: impl Display, args: &[&Expr]) -> fmt::Result {
        write!(self.out, "{name}(")?;
        for (i, e) in args.iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            self.expr(e)?;
        }
        self.out.push(')');
        Ok(())
    }

    fn infix(&mut self, a: &Expr, op: &str, b: &Expr) -> fmt::Result {
        self.out.push('(');
        self.expr(a)?;
        write!(self.out, " {op} ")?;
        self.expr(b)?;
        self.out.push(')');
        Ok(())
    }

    fn expr(&mut self, e: &Expr) -> fmt::Result {
        match e {
            Expr::Float(x, dtype) => write!(self.out, "{dtype}({x:?})"),
            Expr::Int(n, DType::I64) => write!(self.out, "{n}l"),
            Expr::Int(n, DType::I32) => write!(self.out, "{n}"),
            Expr::Int(n, dtype) => write!(self.out, "{dtype}({n})"),
            Expr::Bool(b) => write!(self.out, "{b}"),
            Expr::Var(v) => write!(self.out, "%{}", v.0),
            Expr::Slot { frag, slot } => write!(self.out, "{}[{slot}]", frag_name(self.kernel, *frag)),
            Expr::Tid => self.out.write_str("tid"),
            Expr::Cta => self.out.write_str("cta"),
            Expr::Ctas => self.out.write_str("ctas"),
            Expr::Tiles => self.out.write_str("tiles"),
            Expr::Dim(extent) => write!(self.out, "dim({extent})"),
            Expr::Scalar(i) => write!(self.out, "${}", param_name(self.kernel, *i)),
            Expr::Un(op, a) => self.call(op.name(), &[a]),
            Expr::Bin(op, a, b) => match op.row().form {
                Form::Function | Form::Part(_) => self.call(op.name(), &[a, b]),
                Form::Infix(_) | Form::Word => self.infix(a, op.name(), b),
            },
            Expr::Fma(a, b, c) => self.call("fma", &[a, b, c]),
            Expr::Wrapping(op, a, b) => {
                self.out.push_str("wrapping");
                self.infix(a, op.name(), b)
            }
            Expr::Cmp(op, a, b) => self.infix(a, op.name(), b),
            Expr::Select(c, a, b) => self.call("select", &[c, a, b]),
            Expr::Cast(ty, a) => self.call(format_args!("cast {ty} "), &[a]),
        }
    }
}

fn param_name(kernel: &Kernel, i: u32) -> &str {
    kernel.params.get(i as usize).map_or("?", Param::name)
}

fn shared_name(kernel: &Kernel, i: u32) -> &str {
    kernel.shared.get(i as usize).map_or("?", |s| &s.name)
}

fn frag_name(kernel: &Kernel, i: u32) -> &str {
    kernel.frags.get(i as usize).map_or("?", |f| &f.name)
}

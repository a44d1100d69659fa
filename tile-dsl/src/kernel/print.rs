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
//!   let %0: i32 = (tid % 32)              load %4, %5: f32 = a[(%3 + 1)] if %7
//!   store c[%9] = %4, %5 if %7            set acc[3] = fma(%4, %5, acc[3])
//!   for %3: i32 in 0 to dim(K) step 8 { } if %7 { } else { }
//!   copy shared a[%2] <- a[%3] x 4 if %7  commit   wait 0   barrier
//!   shuffle %8: f32 = acc[0] xor 16       add c[%9] += %4, %5 if %7
//!   last %6: bool = arrive arrivals[%2] of 4 by barrier 1 of 128 if %7
//!   matrices %4, %5: bf16 = shared a[%2]  store_matrices shared c[%2] transposed = %4, %5
//!   exchange %6, .., %13: bf16 = %14, .., %21   transpose %4, %5: bf16 = %6, %7
//!   one thread 0 { }                      roles { threads 0 to 128 registers 232 { } }
//!   barrier 1 of 128   warp barrier       mbarriers full x 4 of 1
//!   cluster_barrier                       arrive shared empty[%2] of %3
//!   cluster arrive                        cluster wait
//!   peer shared a[%2] of %3 = %4, %5
//!   arrive shared full[%2] expect 8192    await shared full[%2] parity %3
//!   tensor shared a[%2] <- a.map[%4, %5] completes shared full[%2]
//!   send c.map[%4, %5] <- shared c[%2]     stores commit   stores wait 0   acquire c.map   prefetch a.map
//!   problem %3: i32 = cta
//!   products fence acc[0, 1]              products commit   products wait 0 acc[0, 1]   proxy_fence
//!   wgmma64x8 acc[0, 1, 2, 3] += shared a[%2] major k swizzle 128 leading 16 stride 1024 x shared b[%3] ..
//! }
//! ```
//! A place in shared memory is written `shared name[offset]`, in global memory `name[offset]`.
//! `i64` literals end in `l`; float literals carry their type: `f32(1.5)`.

use super::{Async, Expr, Group, Kernel, Mem, Param, Stmt, Tile, Ty};
use crate::op::BinOp;
use std::fmt::{self, Display, Formatter, Write};

impl Display for Ty {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Ty::Elem(dtype) => dtype.fmt(f),
            Ty::I64 => f.write_str("i64"),
        }
    }
}

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
        }
        if !self.grid.is_empty() {
            f.write_str("\n")?;
        }
        let mut text = String::new();
        Printer { kernel: self, out: &mut text }.block(&self.body, 1)?;
        f.write_str(&text)?;
        f.write_str("}\n")
    }
}

/// One expression, as in the text form of `kernel`.
pub fn expr(kernel: &Kernel, e: &Expr) -> String {
    let mut out = String::new();
    Printer { kernel, out: &mut out }.expr(e).expect("writing to a string");
    out
}

/// One statement, as in the text form of `kernel`.
pub fn stmt(kernel: &Kernel, s: &Stmt) -> String {
    let mut out = String::new();
    Printer { kernel, out: &mut out }.stmt(s, 0).expect("writing to a string");
    out
}

struct Printer<'a> {
    kernel: &'a Kernel,
    out: &'a mut String,
}

impl Printer<'_> {
    fn block(&mut self, stmts: &[Stmt], depth: usize) -> fmt::Result {
        for stmt in stmts {
            for _ in 0..depth {
                self.out.push_str("  ");
            }
            self.stmt(stmt, depth)?;
            self.out.push('\n');
        }
        Ok(())
    }

    fn braces(&mut self, stmts: &[Stmt], depth: usize) -> fmt::Result {
        self.out.push_str("{\n");
        self.block(stmts, depth + 1)?;
        for _ in 0..depth {
            self.out.push_str("  ");
        }
        self.out.push('}');
        Ok(())
    }

    fn ty(&self, var: super::Var) -> Ty {
        self.kernel.vars.get(var.0 as usize).copied().unwrap_or(Ty::I64)
    }

    fn stmt(&mut self, stmt: &Stmt, depth: usize) -> fmt::Result {
        match stmt {
            Stmt::Let(var, value) => {
                write!(self.out, "let %{}: {} = ", var.0, self.ty(*var))?;
                self.expr(value)
            }
            Stmt::Load { dst, mem, offset, guard } => {
                self.out.push_str("load ");
                self.vars(dst)?;
                write!(self.out, ": {} = ", dst.first().map_or(Ty::I64, |v| self.ty(*v)))?;
                self.place(*mem, offset)?;
                self.guard(guard)
            }
            Stmt::Store { mem, offset, values, guard } => {
                self.out.push_str("store ");
                self.place(*mem, offset)?;
                self.out.push_str(" = ");
                self.list(values)?;
                self.guard(guard)
            }
            Stmt::Set { frag, slot, value } => {
                write!(self.out, "set {}[{slot}] = ", frag_name(self.kernel, *frag))?;
                self.expr(value)
            }
            Stmt::For { var, start, end, step, body } => {
                write!(self.out, "for %{}: {} in ", var.0, self.ty(*var))?;
                self.expr(start)?;
                self.out.push_str(" to ");
                self.expr(end)?;
                self.out.push_str(" step ");
                self.expr(step)?;
                self.out.push(' ');
                self.braces(body, depth)
            }
            Stmt::If { cond, then, otherwise } => {
                self.out.push_str("if ");
                self.expr(cond)?;
                self.out.push(' ');
                self.braces(then, depth)?;
                if otherwise.is_empty() {
                    return Ok(());
                }
                self.out.push_str(" else ");
                self.braces(otherwise, depth)
            }
            Stmt::CopyAsync { shared, shared_offset, global, global_offset, elems, guard } => {
                self.out.push_str("copy ");
                self.place(Mem::Shared(*shared), shared_offset)?;
                self.out.push_str(" <- ");
                self.place(Mem::Global(*global), global_offset)?;
                write!(self.out, " x {elems}")?;
                self.guard(guard)
            }
            Stmt::CommitGroup => self.out.write_str("commit"),
            Stmt::WaitGroup(n) => write!(self.out, "wait {n}"),
            Stmt::Barrier => self.out.write_str("barrier"),
            Stmt::WarpBarrier => self.out.write_str("warp barrier"),
            Stmt::GridDependency => self.out.write_str("dependency"),
            Stmt::Problem { dst, tile } => {
                write!(self.out, "problem %{}: {} = ", dst.0, self.ty(*dst))?;
                self.expr(tile)
            }
            Stmt::ClusterBarrier => self.out.write_str("cluster_barrier"),
            Stmt::ClusterArrive => self.out.write_str("cluster arrive"),
            Stmt::ClusterWait => self.out.write_str("cluster wait"),
            Stmt::StorePeer { shared, offset, cta, values } => {
                self.out.push_str("peer ");
                self.place(Mem::Shared(*shared), offset)?;
                self.out.push_str(" of ");
                self.expr(cta)?;
                self.out.push_str(" = ");
                self.list(values)
            }
            Stmt::GroupBarrier(group) => self.barrier(group),
            Stmt::One { thread, body } => {
                write!(self.out, "one thread {thread} ")?;
                self.braces(body, depth)
            }
            Stmt::Roles(roles) => {
                self.out.push_str("roles {");
                for role in roles {
                    write!(
                        self.out,
                        "\n{}threads {} to {}",
                        "  ".repeat(depth + 1),
                        role.first,
                        role.first + role.threads
                    )?;
                    if let Some(registers) = role.registers {
                        write!(self.out, " registers {registers}")?;
                    }
                    self.out.push(' ');
                    self.braces(&role.body, depth + 1)?;
                }
                write!(self.out, "\n{}}}", "  ".repeat(depth))
            }
            Stmt::Async(operation) => self.asynchronous(operation),
            Stmt::Live(buffers) => {
                self.out.push_str("live ");
                let name = |b: &u32| self.kernel.shared.get(*b as usize).map_or("?", |s| &s.name);
                self.out.write_str(&buffers.iter().map(name).collect::<Vec<_>>().join(", "))
            }
            Stmt::Shuffle { dst, value, mask } => {
                write!(self.out, "shuffle %{}: {} = ", dst.0, self.ty(*dst))?;
                self.expr(value)?;
                write!(self.out, " xor {mask}")
            }
            Stmt::LoadMatrices { dst, shared, offset, transposed } => {
                self.out.push_str("matrices ");
                self.vars(dst)?;
                write!(self.out, ": {} = ", dst.first().map_or(Ty::I64, |v| self.ty(*v)))?;
                self.place(Mem::Shared(*shared), offset)?;
                self.out.push_str(if *transposed { " transposed" } else { "" });
                Ok(())
            }
            Stmt::StoreMatrices { shared, offset, values, transposed } => {
                self.out.push_str("store_matrices ");
                self.place(Mem::Shared(*shared), offset)?;
                self.out.push_str(if *transposed { " transposed = " } else { " = " });
                self.list(values)
            }
            Stmt::ExchangeMatrices { dst, values } | Stmt::TransposeMatrix { dst, values } => {
                let whole = matches!(stmt, Stmt::ExchangeMatrices { .. });
                self.out.push_str(if whole { "exchange " } else { "transpose " });
                self.vars(dst)?;
                write!(self.out, ": {} = ", dst.first().map_or(Ty::I64, |v| self.ty(*v)))?;
                self.list(values)
            }
            Stmt::Mma { atom, frag, slots, a, b } => {
                write!(self.out, "{} ", atom.label())?;
                self.slots(*frag, slots)?;
                self.out.push_str(" += ");
                self.list(a)?;
                self.out.push_str(" x ");
                self.list(b)
            }
            Stmt::Add { global, offset, values, guard } => {
                self.out.push_str("add ");
                self.place(Mem::Global(*global), offset)?;
                self.out.push_str(" += ");
                self.list(values)?;
                self.guard(guard)
            }
            Stmt::Arrive { dst, counters, offset, parts, guard, group } => {
                write!(self.out, "last %{}: {} = arrive ", dst.0, self.ty(*dst))?;
                self.place(Mem::Global(*counters), offset)?;
                write!(self.out, " of {parts}")?;
                if let Some(group) = group {
                    self.out.push_str(" by ");
                    self.barrier(group)?;
                }
                self.guard(guard)
            }
        }
    }

    fn asynchronous(&mut self, operation: &Async) -> fmt::Result {
        match operation {
            Async::Init { barrier, slots, arrivals } => {
                let name = self.shared_name(*barrier).to_string();
                write!(self.out, "mbarriers {name} x {slots} of {arrivals}")
            }
            Async::Arrive { barrier, slot, bytes, cta } => {
                self.out.push_str("arrive ");
                self.place(Mem::Shared(*barrier), slot)?;
                if let Some(cta) = cta {
                    self.out.push_str(" of ");
                    self.expr(cta)?;
                }
                bytes.map_or(Ok(()), |bytes| write!(self.out, " expect {bytes}"))
            }
            Async::Wait { barrier, slot, parity } => {
                self.out.push_str("await ");
                self.place(Mem::Shared(*barrier), slot)?;
                self.out.push_str(" parity ");
                self.expr(parity)
            }
            Async::Copy { map, shared, offset, coordinates, barrier, slot, everywhere } => {
                self.out.push_str("tensor ");
                self.place(Mem::Shared(*shared), offset)?;
                write!(self.out, " <- {}[", param_name(self.kernel, *map))?;
                self.list(coordinates)?;
                self.out.push_str("] completes ");
                self.place(Mem::Shared(*barrier), slot)?;
                self.out.push_str(if *everywhere { " everywhere" } else { "" });
                Ok(())
            }
            Async::Store { map, shared, offset, coordinates } => {
                write!(self.out, "send {}[", param_name(self.kernel, *map))?;
                self.list(coordinates)?;
                self.out.push_str("] <- ");
                self.place(Mem::Shared(*shared), offset)
            }
            Async::AcquireMap { map } => write!(self.out, "acquire {}", param_name(self.kernel, *map)),
            Async::PrefetchMap { map } => write!(self.out, "prefetch {}", param_name(self.kernel, *map)),
            Async::CommitStores => self.out.write_str("stores commit"),
            Async::WaitStores { pending } => write!(self.out, "stores wait {pending}"),
            Async::ProxyFence => self.out.write_str("proxy_fence"),
            Async::Multiply { atom, frag, slots, a, b, overwrites } => {
                write!(self.out, "{} ", atom.label())?;
                self.slots(*frag, slots)?;
                self.out.push_str(" += ");
                self.tile(a)?;
                self.out.push_str(" x ");
                self.tile(b)?;
                match overwrites {
                    None => Ok(()),
                    Some(first) => {
                        self.out.push_str(" overwrites ");
                        self.expr(first)
                    }
                }
            }
            Async::Fence { results } => {
                self.out.push_str("products fence");
                self.results(results)
            }
            Async::Commit => self.out.write_str("products commit"),
            Async::WaitProducts { pending, results } => {
                write!(self.out, "products wait {pending}")?;
                self.results(results)
            }
        }
    }

    fn results(&mut self, results: &[(u32, Vec<u32>)]) -> fmt::Result {
        results.iter().try_for_each(|(frag, slots)| {
            self.out.push(' ');
            self.slots(*frag, slots)
        })
    }

    fn tile(&mut self, tile: &Tile) -> fmt::Result {
        let Tile { shared, offset, k_major, swizzle, leading, stride } = tile;
        self.place(Mem::Shared(*shared), offset)?;
        let major = if *k_major { "k" } else { "mn" };
        write!(self.out, " major {major} swizzle {swizzle} leading {leading} stride {stride}")
    }

    fn slots(&mut self, frag: u32, slots: &[u32]) -> fmt::Result {
        self.out.push_str(frag_name(self.kernel, frag));
        for (n, slot) in slots.iter().enumerate() {
            write!(self.out, "{}{slot}", if n == 0 { "[" } else { ", " })?;
        }
        self.out.write_char(']')
    }

    fn shared_name(&self, buffer: u32) -> &str {
        self.kernel.shared.get(buffer as usize).map_or("?", |s| &s.name)
    }

    fn vars(&mut self, vars: &[super::Var]) -> fmt::Result {
        for (i, var) in vars.iter().enumerate() {
            write!(self.out, "{}%{}", if i == 0 { "" } else { ", " }, var.0)?;
        }
        Ok(())
    }

    fn place(&mut self, mem: Mem, offset: &Expr) -> fmt::Result {
        match mem {
            Mem::Global(i) => self.out.push_str(param_name(self.kernel, i)),
            Mem::Shared(i) => {
                let name = self.kernel.shared.get(i as usize).map_or("?", |s| &s.name);
                write!(self.out, "shared {name}")?;
            }
        }
        self.out.push('[');
        self.expr(offset)?;
        self.out.push(']');
        Ok(())
    }

    fn barrier(&mut self, Group { id, threads }: &Group) -> fmt::Result {
        write!(self.out, "barrier {id} of {threads}")
    }

    fn guard(&mut self, guard: &Option<Expr>) -> fmt::Result {
        let Some(guard) = guard else { return Ok(()) };
        self.out.push_str(" if ");
        self.expr(guard)
    }

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
            Expr::Int(n, Ty::I64) => write!(self.out, "{n}l"),
            Expr::Int(n, _) => write!(self.out, "{n}"),
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
            Expr::Bin(op @ (BinOp::Max | BinOp::Min), a, b) => self.call(op.name(), &[a, b]),
            Expr::Bin(op, a, b) => self.infix(a, op.name(), b),
            Expr::Fma(a, b, c) => self.call("fma", &[a, b, c]),
            Expr::Wrapping(op, a, b) => {
                self.out.push_str("wrapping");
                self.infix(a, op.name(), b)
            }
            Expr::Xor(a, b) => self.infix(a, "xor", b),
            Expr::Cmp(op, a, b) => self.infix(a, op.name(), b),
            Expr::Select(c, a, b) => self.call("select", &[c, a, b]),
            Expr::Cast(ty, a) => self.call(format_args!("cast {ty} "), &[a]),
        }
    }
}

fn param_name(kernel: &Kernel, i: u32) -> &str {
    kernel.params.get(i as usize).map_or("?", Param::name)
}

fn frag_name(kernel: &Kernel, i: u32) -> &str {
    kernel.frags.get(i as usize).map_or("?", |f| &f.name)
}

//! Checks a kernel between passes: what code generation takes for granted.
//!
//! Types agree; each variable is defined once, before its uses and in their scope; guards and conditions
//! are `bool`; every barrier, arrival and shuffle is reached by all threads; vectors are 1, 2, 4 or 8 elements of at
//! most 16 bytes; slots, buffers and parameters exist; shared memory and threads fit the target; buffers that lie in the
//! same bytes follow one another, with a barrier between, and no copy to one on its way; what a CTA stores into another's
//! shared memory finds it there and free, and is read behind it (`peers`); the parameters of a grouped kernel are those of a problem.

mod asynchronous;
mod statement;

use super::{Expr, Kernel, Param, Stmt, Var};
use crate::{dtype::DType, machine::Target};
use std::collections::BTreeSet;

/// What is wrong with a kernel.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("invalid kernel `{kernel}`: {what}")]
pub struct VerifyError {
    /// Name of the kernel.
    pub kernel: String,
    /// The rule broken, with the offending statement.
    pub what: String,
}

/// Bytes of shared memory one CTA may use: compute capability table of the CUDA C++ Programming Guide.
pub const fn shared_limit(target: Target) -> u64 {
    match target.sm {
        80 | 87 => 163 * 1024,
        90.. => 227 * 1024,
        _ => 99 * 1024,
    }
}

/// Checks a kernel.
///
/// # Errors
/// The first rule broken, in program order.
pub fn verify(kernel: &Kernel) -> Result<(), VerifyError> {
    let frags = (0..).zip(&kernel.frags);
    // Registers with integers are alike in all threads until one is found to be set otherwise.
    let mut apart: BTreeSet<u32> = frags.filter(|(_, f)| f.dtype != DType::I32).map(|(n, _)| n).collect();
    loop {
        let known = apart.len();
        let mut v = Verifier {
            kernel,
            scope: Vec::new(),
            visible: vec![false; kernel.vars.len()],
            defined: vec![false; kernel.vars.len()],
            divergent: BTreeSet::new(),
            apart,
            chosen: !kernel.grouped,
            role: None,
            product: 0,
        };
        v.kernel().map_err(|what| VerifyError { kernel: kernel.name.clone(), what })?;
        apart = v.apart;
        if apart.len() == known {
            return Ok(());
        }
    }
}

struct Verifier<'a> {
    kernel: &'a Kernel,
    /// Variables in scope, innermost last.
    scope: Vec<Var>,
    /// Whether each variable is in scope.
    visible: Vec<bool>,
    /// Whether each variable was defined so far, in scope or not.
    defined: Vec<bool>,
    /// Variables whose value may differ between threads of a CTA.
    divergent: BTreeSet<Var>,
    /// Fragments whose registers may differ between them.
    apart: BTreeSet<u32>,
    /// Whether it is known which problem's parameters are meant.
    chosen: bool,
    /// First thread of the role at hand, and how many it has.
    role: Option<[u32; 2]>,
    /// Registers that a product of a warpgroup takes, the most so far.
    product: u32,
}

type Check<T = ()> = Result<T, String>;

fn ensure(ok: bool, what: impl FnOnce() -> String) -> Check {
    if ok { Ok(()) } else { Err(what()) }
}

impl Verifier<'_> {
    fn kernel(&mut self) -> Check {
        let k = self.kernel;
        ensure((1..=1024).contains(&k.threads), || {
            format!("{} threads a CTA, expected 1..=1024", k.threads)
        })?;
        ensure(k.grid.iter().all(|g| g.tile > 0), || "a grid axis has tile 0".into())?;
        ensure(k.grid.iter().all(|g| g.period >= g.tile), || "tiles start over within a tile".into())?;
        let limit = shared_limit(k.target);
        ensure(k.shared_bytes() <= limit, || {
            format!("{} bytes of shared memory, the target has {limit}", k.shared_bytes())
        })?;
        for s in &k.shared {
            let aligned = s.align.is_power_of_two() && s.start.is_multiple_of(s.align.into());
            ensure(aligned, || format!("shared buffer `{}`", s.name))?;
        }
        let mut names = BTreeSet::new();
        let all = k.params.iter().map(|p| ("parameter", p.name()));
        let all = all.chain(k.shared.iter().map(|s| ("shared", s.name.as_str())));
        for name in all.chain(k.frags.iter().map(|f| ("fragment", f.name.as_str()))) {
            ensure(names.insert(name), || format!("two {}s named `{}`", name.0, name.1))?;
        }
        for i in &k.cleared {
            let mutable = matches!(k.params.get(*i as usize), Some(Param::Tensor { mutable: true, .. }));
            ensure(mutable, || format!("parameter {i} is cleared and no tensor that is stored to"))?;
        }
        for param in &k.params {
            let Param::TensorMap { name, tensor, stored, .. } = param else { continue };
            let of = k.params.get(*tensor as usize);
            let right = matches!(of, Some(Param::Tensor { mutable, .. }) if mutable == stored);
            ensure(right, || {
                format!(
                    "`{name}` is no map of a tensor that is {}",
                    if *stored { "stored to" } else { "read" }
                )
            })?;
        }
        if k.dependent {
            ensure(k.target.sm >= 90, || format!("a dependent launch for sm_{}", k.target.sm))?;
            let before = k.body.iter().take_while(|s| **s != Stmt::GridDependency).collect::<Vec<_>>();
            ensure(before.len() < k.body.len(), || "a dependent launch that does not wait".into())?;
            let early = before.into_iter().find(|s| s.touches_global());
            ensure(early.is_none(), || "global memory is accessed before earlier grids have ended".into())?;
        }
        self.block(&k.body, false)?;
        super::lives::check(k)?;
        super::peers::check(k)
    }

    /// `diverged`: some threads of the CTA may be elsewhere.
    fn block(&mut self, stmts: &[Stmt], diverged: bool) -> Check {
        let (height, chosen) = (self.scope.len(), self.chosen);
        for stmt in stmts {
            self.stmt(stmt, diverged)?;
        }
        self.chosen = chosen;
        self.leave(height);
        Ok(())
    }

    fn leave(&mut self, height: usize) {
        for var in self.scope.drain(height..) {
            self.visible[var.0 as usize] = false;
        }
    }

    fn define(&mut self, var: Var, ty: DType, divergent: bool) -> Check {
        let declared = self.kernel.vars.get(var.0 as usize);
        ensure(declared == Some(&ty), || {
            let declared = declared.map_or("nothing", |ty| ty.name());
            format!("%{} is declared {declared} and defined as {ty}", var.0)
        })?;
        ensure(!self.defined[var.0 as usize], || format!("%{} is defined twice", var.0))?;
        self.defined[var.0 as usize] = true;
        self.visible[var.0 as usize] = true;
        if divergent {
            self.divergent.insert(var);
        }
        self.scope.push(var);
        Ok(())
    }

    /// Parameters have values: it is known which problem's they are.
    fn of_problem(&self) -> Check {
        ensure(self.chosen, || "parameters of no problem".into())
    }

    fn slot(&self, frag: u32, slot: u32) -> Check<DType> {
        let f = self.kernel.frags.get(frag as usize).ok_or_else(|| format!("no fragment {frag}"))?;
        ensure(slot < f.slots, || format!("slot {slot} of fragment `{}` with {} slots", f.name, f.slots))?;
        Ok(f.dtype)
    }

    fn expect(&self, e: &Expr, ty: DType, what: &str) -> Check {
        let found = self.expr(e)?;
        ensure(found == ty, || {
            format!("{what} is {found}, expected {ty}: {}", super::print::expr(self.kernel, e))
        })
    }

    /// Whether the value may differ between threads.
    fn differs(&self, e: &Expr) -> bool {
        match e {
            Expr::Float(..)
            | Expr::Int(..)
            | Expr::Bool(_)
            | Expr::Cta
            | Expr::Ctas
            | Expr::Tiles
            | Expr::Dim(_)
            | Expr::Scalar(_) => false,
            Expr::Tid => true,
            Expr::Slot { frag, .. } => self.apart.contains(frag),
            Expr::Var(v) => self.divergent.contains(v),
            Expr::Un(_, a) | Expr::Cast(_, a) => self.differs(a),
            Expr::Bin(_, a, b) | Expr::Wrapping(_, a, b) | Expr::Cmp(_, a, b) => {
                self.differs(a) || self.differs(b)
            }
            Expr::Fma(a, b, c) | Expr::Select(a, b, c) => {
                self.differs(a) || self.differs(b) || self.differs(c)
            }
        }
    }

    fn expr(&self, e: &Expr) -> Check<DType> {
        let float = |ty: DType| matches!(ty, d if d.is_float());
        let same = |a: &Expr, b: &Expr| -> Check<DType> {
            let (x, y) = (self.expr(a)?, self.expr(b)?);
            ensure(x == y, || format!("operands of {x} and {y}: {}", super::print::expr(self.kernel, e)))?;
            Ok(x)
        };
        let ok = |ok: bool, ty: DType| {
            ensure(ok, || format!("{ty} operand of {}", super::print::expr(self.kernel, e)))?;
            Ok(ty)
        };
        match e {
            Expr::Float(_, dtype) => ok(dtype.is_float(), *dtype),
            Expr::Int(n, ty) => ok(ty.is_integer() && ty.wrap(*n) == *n, *ty),
            Expr::Bool(_) => Ok(DType::Bool),
            Expr::Var(v) => {
                ensure(self.visible.get(v.0 as usize) == Some(&true), || {
                    format!("%{} is used outside its scope", v.0)
                })?;
                Ok(self.kernel.vars[v.0 as usize])
            }
            Expr::Slot { frag, slot } => Ok(self.slot(*frag, *slot)?),
            Expr::Tid | Expr::Cta | Expr::Ctas => Ok(DType::I32),
            Expr::Tiles => {
                ensure(self.kernel.grouped, || "tiles of several problems, of which there is one".into())?;
                Ok(DType::I32)
            }
            Expr::Dim(extent) => {
                self.of_problem()?;
                for name in extent.dims.keys() {
                    let known = self.kernel.params.iter().any(|p| matches!(p, Param::Dim(n) if n == name));
                    ensure(known, || format!("no dim `{name}` among the parameters"))?;
                }
                Ok(DType::I32)
            }
            Expr::Scalar(_) if !self.chosen => Err("a scalar of no problem".into()),
            Expr::Scalar(i) => match self.kernel.params.get(*i as usize) {
                Some(Param::Scalar { dtype, .. }) => Ok(*dtype),
                _ => Err(format!("parameter {i} is no scalar")),
            },
            Expr::Un(op, a) => self.expr(a).and_then(|t| {
                ok(op.takes(t), t)?;
                Ok(op.result(t))
            }),
            Expr::Bin(op, a, b) => same(a, b).and_then(|t| {
                let row = op.row();
                ok(takes(t, row.float.is_some(), row.int.is_some(), row.truth.is_some()), op.result(t))
            }),
            Expr::Wrapping(op, a, b) => same(a, b).and_then(|t| ok(op.wraps(t), t)),
            Expr::Fma(a, b, c) => {
                same(a, b)?;
                same(b, c).and_then(|t| ok(float(t), t))
            }
            Expr::Cmp(_, a, b) => same(a, b).map(|_| DType::Bool),
            Expr::Select(c, a, b) => {
                self.expect(c, DType::Bool, "condition")?;
                same(a, b)
            }
            Expr::Cast(ty, a) => self.expr(a).and_then(|from| ok(!ty.is_truth() || from.is_truth(), *ty)),
        }
    }
}

/// Whether an operator takes a type, from what kinds of elements it takes.
fn takes(ty: DType, float: bool, int: bool, truth: bool) -> bool {
    match ty {
        DType::Bool => truth,
        ty if ty.is_integer() => int,
        _ => float,
    }
}

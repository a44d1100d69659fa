//! Kernels built by hand: short constructors, and the kernels that several tests use.
#![allow(dead_code)]

use tile_dsl::{
    dtype::DType,
    index::Extent,
    kernel::{Expr, Frag, GridAxis, Kernel, Mem, Param, Shared, Stmt, Var},
    op::{BinOp, CmpOp, UnOp},
    schedule::Target,
};

pub const F32: DType = DType::F32;
pub const I32: DType = DType::I32;
pub const SM80: Target = Target { sm: 80, specific: false };
pub const SM90: Target = Target { sm: 90, specific: false };

pub fn int(x: i64) -> Expr {
    Expr::Int(x, I32)
}
pub fn var(v: Var) -> Expr {
    Expr::Var(v)
}
pub fn dim(name: &str) -> Expr {
    Expr::Dim(Extent::dim(name))
}
pub fn bin(op: BinOp, a: Expr, b: Expr) -> Expr {
    Expr::Bin(op, Box::new(a), Box::new(b))
}
pub fn add(a: Expr, b: Expr) -> Expr {
    bin(BinOp::Add, a, b)
}
pub fn mul(a: Expr, b: Expr) -> Expr {
    bin(BinOp::Mul, a, b)
}
pub fn cmp(op: CmpOp, a: Expr, b: Expr) -> Expr {
    Expr::Cmp(op, Box::new(a), Box::new(b))
}
pub fn lt(a: Expr, b: Expr) -> Expr {
    cmp(CmpOp::Lt, a, b)
}
pub fn and(a: Expr, b: Expr) -> Expr {
    bin(BinOp::And, a, b)
}
pub fn un(op: UnOp, x: Expr) -> Expr {
    Expr::Un(op, Box::new(x))
}
pub fn cast(ty: DType, x: Expr) -> Expr {
    Expr::Cast(ty, Box::new(x))
}
pub fn fma(a: Expr, b: Expr, c: Expr) -> Expr {
    Expr::Fma(Box::new(a), Box::new(b), Box::new(c))
}
pub fn float(x: f64) -> Expr {
    Expr::Float(x, F32)
}
pub fn slot(frag: u32, slot: u32) -> Expr {
    Expr::Slot { frag, slot }
}

/// A kernel under construction.
pub struct Builder(pub Kernel);

impl Builder {
    pub fn new(name: &str, threads: u32) -> Self {
        Builder(Kernel {
            name: name.into(),
            target: SM80,
            params: Vec::new(),
            shared: Vec::new(),
            frags: Vec::new(),
            vars: Vec::new(),
            threads,
            grid: vec![GridAxis::of(Extent::constant(1), 1)],
            cleared: Vec::new(),
            min_ctas: None,
            assemble: None,
            dependent: false,
            grouped: false,
            persistent: None,
            cluster: None,
            body: Vec::new(),
        })
    }
    pub fn tensor(&mut self, name: &str, dtype: DType, mutable: bool, align: u32) -> Mem {
        self.0.params.push(Param::Tensor { name: name.into(), dtype, mutable, align, cache: None });
        Mem::Global(self.0.params.len() as u32 - 1)
    }
    pub fn dim(&mut self, name: &str) -> Expr {
        self.0.params.push(Param::Dim(name.into()));
        dim(name)
    }
    pub fn scalar(&mut self, name: &str, dtype: DType) -> Expr {
        self.0.params.push(Param::Scalar { name: name.into(), dtype });
        Expr::Scalar(self.0.params.len() as u32 - 1)
    }
    pub fn shared(&mut self, name: &str, dtype: DType, elems: u32) -> Mem {
        self.0.shared.push(Shared { name: name.into(), dtype, elems, align: 16, start: 0 });
        self.0.place_apart();
        Mem::Shared(self.0.shared.len() as u32 - 1)
    }
    pub fn frag(&mut self, name: &str, dtype: DType, slots: u32) -> u32 {
        self.0.frags.push(Frag { name: name.into(), dtype, slots });
        self.0.frags.len() as u32 - 1
    }
    pub fn var(&mut self, ty: DType) -> Var {
        self.0.vars.push(ty);
        Var(self.0.vars.len() as u32 - 1)
    }
    /// `let v = value` with a fresh variable.
    pub fn bind(&mut self, body: &mut Vec<Stmt>, ty: DType, value: Expr) -> Expr {
        let v = self.var(ty);
        body.push(Stmt::Let(v, value));
        var(v)
    }
    /// Loads `n` elements into fresh variables.
    pub fn load(
        &mut self,
        body: &mut Vec<Stmt>,
        dtype: DType,
        n: usize,
        mem: Mem,
        offset: Expr,
        guard: Option<Expr>,
    ) -> Vec<Expr> {
        let dst: Vec<Var> = (0..n).map(|_| self.var(dtype)).collect();
        let values = dst.iter().map(|v| var(*v)).collect();
        body.push(Stmt::Load { dst, mem, offset, guard });
        values
    }
    pub fn finish(mut self, body: Vec<Stmt>) -> Kernel {
        self.0.body = body;
        self.0
    }
}

/// `y[i] = alpha · x[i] + y[i]` for `i < N`, one element a thread.
pub fn saxpy() -> Kernel {
    let mut b = Builder::new("saxpy", 128);
    let x = b.tensor("x", F32, false, 4);
    let y = b.tensor("y", F32, true, 4);
    let n = b.dim("N");
    let alpha = b.scalar("alpha", F32);
    let mut body = Vec::new();
    let i = b.bind(&mut body, I32, add(mul(Expr::Cta, int(128)), Expr::Tid));
    let inside = Some(lt(i.clone(), n));
    let xs = b.load(&mut body, F32, 1, x, i.clone(), inside.clone());
    let ys = b.load(&mut body, F32, 1, y, i.clone(), inside.clone());
    let value = fma(alpha, xs[0].clone(), ys[0].clone());
    body.push(Stmt::Store { mem: y, offset: i, values: vec![value], guard: inside });
    b.0.grid = vec![GridAxis::of(Extent::dim("N"), 128)];
    b.finish(body)
}

/// How [`matmul`] fills shared memory.
#[derive(Clone, Copy, PartialEq)]
pub enum Fill {
    Plain,
    Async,
}

/// `C = A·B`, 64×64×16 tiles, 256 threads with 4×4 outputs each, A transposed in shared memory when `Plain`.
/// Guards everywhere unless `exact`; `ring` stages of shared memory.
pub fn matmul(fill: Fill, exact: bool, ring: u32) -> Kernel {
    let (tm, tn, tk) = (64i64, 64i64, 16i64);
    let mut b = Builder::new("matmul", 256);
    let a = b.tensor("a", F32, false, 16);
    let bm = b.tensor("b", F32, false, 16);
    let c = b.tensor("c", F32, true, 16);
    let (m, n, k) = (b.dim("M"), b.dim("N"), b.dim("K"));
    let pitch = if fill == Fill::Plain { tm + 4 } else { tm };
    let stage_a = if fill == Fill::Plain { tk * pitch } else { tm * tk };
    let sa = b.shared("a", F32, (stage_a * i64::from(ring)) as u32);
    let sb = b.shared("b", F32, (tk * tn * i64::from(ring)) as u32);
    let acc = b.frag("acc", F32, 16);
    let guard = |g: Expr| if exact { None } else { Some(g) };

    let mut body = Vec::new();
    let tiles = bin(BinOp::Div, add(n.clone(), int(tn - 1)), int(tn));
    let tiles = b.bind(&mut body, I32, tiles);
    let i0 = b.bind(&mut body, I32, mul(bin(BinOp::Div, Expr::Cta, tiles.clone()), int(tm)));
    let j0 = b.bind(&mut body, I32, mul(bin(BinOp::Rem, Expr::Cta, tiles), int(tn)));
    let ty = b.bind(&mut body, I32, mul(bin(BinOp::Div, Expr::Tid, int(16)), int(4)));
    let tx = b.bind(&mut body, I32, mul(bin(BinOp::Rem, Expr::Tid, int(16)), int(4)));
    // The four elements of each tile that this thread copies.
    let ar = b.bind(&mut body, I32, bin(BinOp::Div, Expr::Tid, int(4)));
    let ac = b.bind(&mut body, I32, mul(bin(BinOp::Rem, Expr::Tid, int(4)), int(4)));
    let br = b.bind(&mut body, I32, bin(BinOp::Div, Expr::Tid, int(16)));
    for s in 0..16 {
        body.push(Stmt::Set { frag: acc, slot: s, value: float(0.0) });
    }

    let ko = b.var(I32);
    let copy = |b: &mut Builder, at: Expr, stage_index: Expr| {
        let mut out = Vec::new();
        let a_offset = add(mul(add(i0.clone(), ar.clone()), k.clone()), add(at.clone(), ac.clone()));
        let b_offset = add(mul(add(at.clone(), br.clone()), n.clone()), add(j0.clone(), tx.clone()));
        let a_guard = guard(and(
            lt(add(i0.clone(), ar.clone()), m.clone()),
            lt(add(at.clone(), ac.clone()), k.clone()),
        ));
        let b_guard = guard(and(
            lt(add(at.clone(), br.clone()), k.clone()),
            lt(add(j0.clone(), tx.clone()), n.clone()),
        ));
        let stage_b = mul(stage_index.clone(), int(tk * tn));
        let stage_a = mul(stage_index, int(stage_a));
        let to_b = add(stage_b, add(mul(br.clone(), int(tn)), tx.clone()));
        match fill {
            Fill::Plain => {
                let va = b.load(&mut out, F32, 4, a, a_offset, a_guard);
                let vb = b.load(&mut out, F32, 4, bm, b_offset, b_guard);
                for (e, v) in va.into_iter().enumerate() {
                    let to = add(
                        stage_a.clone(),
                        add(mul(add(ac.clone(), int(e as i64)), int(pitch)), ar.clone()),
                    );
                    out.push(Stmt::Store { mem: sa, offset: to, values: vec![v], guard: None });
                }
                out.push(Stmt::Store { mem: sb, offset: to_b, values: vb, guard: None });
            }
            Fill::Async => {
                let to_a = add(stage_a, add(mul(ar.clone(), int(tk)), ac.clone()));
                for (shared, to, global, from, g) in
                    [(0, to_a, 0, a_offset, a_guard), (1, to_b, 1, b_offset, b_guard)]
                {
                    out.push(Stmt::CopyAsync {
                        shared,
                        shared_offset: to,
                        global,
                        global_offset: from,
                        elems: 4,
                        guard: g,
                    });
                }
                out.push(Stmt::CommitGroup);
            }
        }
        out
    };
    let mut step = Vec::new();
    let stage_index = bin(BinOp::Rem, bin(BinOp::Div, var(ko), int(tk)), int(ring.into()));
    if fill == Fill::Async && ring > 1 {
        // Prologue: the first stage; each step starts the copy of the next.
        body.extend(copy(&mut b, int(0), int(0)));
        let next = add(var(ko), int(tk));
        let next_stage = bin(BinOp::Rem, bin(BinOp::Div, next.clone(), int(tk)), int(ring.into()));
        step.push(Stmt::WaitGroup(0));
        step.push(Stmt::Barrier);
        let more = copy(&mut b, next.clone(), next_stage);
        step.push(Stmt::If { cond: lt(next, k.clone()), then: more, otherwise: Vec::new() });
    } else {
        step.extend(copy(&mut b, var(ko), stage_index.clone()));
        if fill == Fill::Async {
            step.push(Stmt::WaitGroup(0));
        }
        step.push(Stmt::Barrier);
    }
    let base_a = b.bind(&mut step, I32, mul(stage_index.clone(), int(stage_a)));
    let base_b = b.bind(&mut step, I32, mul(stage_index, int(tk * tn)));
    for kk in 0..tk {
        let va = if fill == Fill::Plain {
            b.load(&mut step, F32, 4, sa, add(base_a.clone(), add(int(kk * pitch), ty.clone())), None)
        } else {
            (0..4)
                .flat_map(|r| {
                    let at = add(base_a.clone(), add(mul(add(ty.clone(), int(r)), int(tk)), int(kk)));
                    b.load(&mut step, F32, 1, sa, at, None)
                })
                .collect()
        };
        let vb = b.load(&mut step, F32, 4, sb, add(base_b.clone(), add(int(kk * tn), tx.clone())), None);
        for (r, a) in (0u32..).zip(&va) {
            for (s, b) in (0u32..).zip(&vb) {
                let value = fma(a.clone(), b.clone(), slot(acc, 4 * r + s));
                step.push(Stmt::Set { frag: acc, slot: 4 * r + s, value });
            }
        }
    }
    if !(fill == Fill::Async && ring > 1) {
        step.push(Stmt::Barrier);
    }
    body.push(Stmt::For { var: ko, start: int(0), end: k.clone(), step: int(tk), body: step });
    for r in 0..4 {
        let row = add(add(i0.clone(), ty.clone()), int(r));
        let col = add(j0.clone(), tx.clone());
        body.push(Stmt::Store {
            mem: c,
            offset: add(mul(row.clone(), n.clone()), col.clone()),
            values: (0..4).map(|s| slot(acc, (4 * r) as u32 + s)).collect(),
            guard: guard(and(lt(row, m.clone()), lt(col, n.clone()))),
        });
    }
    b.0.grid = vec![GridAxis::of(Extent::dim("M"), tm as u32), GridAxis::of(Extent::dim("N"), tn as u32)];
    b.finish(body)
}

/// Element `i` of a tensor of `dtype` through an expression of it, in `f32`: `y[i] = f(x[i])`, 32 threads.
pub fn map(name: &str, from: DType, to: DType, f: impl FnOnce(Expr) -> Expr) -> Kernel {
    let mut b = Builder::new(name, 32);
    let x = b.tensor("x", from, false, from.bytes());
    let y = b.tensor("y", to, true, to.bytes());
    let n = b.dim("N");
    let mut body = Vec::new();
    let i = b.bind(&mut body, I32, add(mul(Expr::Cta, int(32)), Expr::Tid));
    let inside = Some(lt(i.clone(), n));
    let v = b.load(&mut body, from, 1, x, i.clone(), inside.clone());
    let value = f(v[0].clone());
    body.push(Stmt::Store { mem: y, offset: i, values: vec![value], guard: inside });
    b.0.grid = vec![GridAxis::of(Extent::dim("N"), 32)];
    b.finish(body)
}

/// Sum of each 32 elements by shuffles, stored by lane 0.
pub fn warp_sum(dtype: DType) -> Kernel {
    let mut b = Builder::new("warp_sum", 32);
    let x = b.tensor("x", dtype, false, dtype.bytes());
    let y = b.tensor("y", dtype, true, dtype.bytes());
    let mut body = Vec::new();
    let i = add(mul(Expr::Cta, int(32)), Expr::Tid);
    let mut sum = b.load(&mut body, dtype, 1, x, i, None)[0].clone();
    for mask in [16, 8, 4, 2, 1] {
        let other = b.var(dtype);
        body.push(Stmt::Shuffle { dst: other, value: sum.clone(), mask });
        sum = b.bind(&mut body, dtype, add(sum, var(other)));
    }
    let first = cmp(CmpOp::Eq, Expr::Tid, int(0));
    body.push(Stmt::Store { mem: y, offset: Expr::Cta, values: vec![sum], guard: Some(first) });
    b.0.params.push(Param::Dim("G".into()));
    b.0.grid = vec![GridAxis::of(Extent::dim("G"), 1)];
    b.finish(body)
}

//! Nests written by hand, and launches of what they lower to.

use std::collections::BTreeMap;
use tile_dsl::{
    dtype::DType,
    index::{Affine, AxisId},
    kernel::{
        Kernel,
        interpret::{Counts, Launch, interpret},
    },
    lower::{assumptions, lower},
    nest::*,
    op::{BinOp, RedOp},
    program::{Program, Variant},
    schedule::{Schedule, Space, Target, Unit, UnitDim, Via},
    span::SpanId,
    tile::{self, TensorId},
};

pub const VARIANTS: [Variant; 3] = [Variant::Exact, Variant::Aligned, Variant::General];

pub const SEQ: LoopKind = LoopKind::Seq;
pub const UNROLL: LoopKind = LoopKind::Unroll;
pub const VEC: LoopKind = LoopKind::Vec;
pub const BLOCK: LoopKind = LoopKind::Unit(Unit::Block, UnitDim::X);
pub const TX: LoopKind = LoopKind::Unit(Unit::Thread, UnitDim::X);
pub const TY: LoopKind = LoopKind::Unit(Unit::Thread, UnitDim::Y);
pub const WARP: LoopKind = LoopKind::Unit(Unit::Warp, UnitDim::X);
pub const WARP_Y: LoopKind = LoopKind::Unit(Unit::Warp, UnitDim::Y);
pub const LANE: LoopKind = LoopKind::Unit(Unit::Lane, UnitDim::X);
pub const LANE_Y: LoopKind = LoopKind::Unit(Unit::Lane, UnitDim::Y);

/// A kernel and the side tables of a nest over it.
pub struct Table {
    pub nest: Nest,
}

impl Table {
    /// `text` in the form of `tile::parse`; `dtype` instantiates its generic parameter.
    pub fn new(text: &str, dtype: DType) -> Self {
        let kernel = tile::parse(text).unwrap();
        let generic = kernel.generic.is_some().then_some(dtype);
        let nest = Nest::bare(kernel.instantiate(generic), seq(vec![]));
        Table { nest }
    }

    pub fn axis(&self, name: &str) -> AxisId {
        AxisId(self.nest.kernel.axes.iter().position(|a| a.name == name).unwrap() as u16)
    }

    /// `"i.8.4"`: axis, stride, steps; `"i.8"`: the rest of the axis.
    pub fn digit(&self, text: &str) -> Digit {
        let mut parts = text.split('.');
        let axis = self.axis(parts.next().unwrap());
        let stride = parts.next().unwrap().parse().unwrap();
        let steps = parts.next().map_or(Steps::Rest, |n| Steps::Fixed(n.parse().unwrap()));
        Digit { axis, stride, steps }
    }

    /// Loops around a body, outermost first.
    pub fn loops(&self, loops: &[(&str, LoopKind)], body: Stmt) -> Stmt {
        loops.iter().rev().fold(body, |body, (digit, at)| Stmt::For {
            digit: self.digit(digit),
            at: *at,
            body: Box::new(body),
        })
    }

    pub fn value(&mut self, name: &str, axes: &[&str], dtype: DType, reduction: Option<RedOp>) -> ValueId {
        self.nest.values.push(Value {
            name: name.into(),
            axes: axes.iter().map(|a| self.axis(a)).collect(),
            dtype,
            reduction,
            init: None,
            scan: None,
            carried: false,
            placement: Placement::Register,
            span: SpanId::NONE,
        });
        ValueId(self.nest.values.len() as u16 - 1)
    }

    /// Access of a tensor; each index is a sum of axes and a constant: `["i", "k"]`, `["i+r-1"]`.
    pub fn access(&mut self, tensor: &str, index: &[&str]) -> AccessId {
        let tensor = self.tensor(tensor);
        let affine = |text: &&str| {
            let mut a = Affine::default();
            for term in text.replace('-', "+-").split('+').filter(|t| !t.is_empty()) {
                match term.parse::<i64>() {
                    Ok(n) => a.constant += n,
                    Err(_) => *a.terms.entry(self.axis(term)).or_insert(0) += 1,
                }
            }
            a
        };
        let index = index.iter().map(affine).collect();
        self.nest.accesses.push(Access {
            tensor,
            index,
            by: Default::default(),
            guarded: None,
            gathered: BTreeMap::new(),
            combines: None,
            span: SpanId::NONE,
        });
        AccessId(self.nest.accesses.len() as u16 - 1)
    }

    pub fn tensor(&self, name: &str) -> TensorId {
        TensorId(self.nest.kernel.tensors.iter().position(|t| t.name == name).unwrap() as u16)
    }

    /// Stages, outermost first, around a body.
    pub fn stages(&mut self, copies: &[CopyOf], body: Stmt) -> Stmt {
        copies.iter().rev().fold(body, |body, c| {
            let tensor = self.tensor(c.tensor);
            self.nest.copies.push(Copy {
                tensor,
                follows: None,
                space: Space::Shared,
                transposed: c.transposed,
                via: c.via,
                vector: c.vector,
                pad: c.pad,
                swizzle: c.swizzle,
                span: SpanId::NONE,
            });
            Stmt::Stage { copy: CopyId(self.nest.copies.len() as u16 - 1), body: Box::new(body) }
        })
    }

    pub fn program(&self, body: Stmt, dtype: Option<DType>, name: &str) -> Program {
        let mut nest = self.nest.clone();
        nest.body = body;
        Program {
            schedule: Schedule {
                name: name.into(),
                kernel: nest.kernel.name.clone(),
                dtypes: vec![],
                target: Target { sm: 80, specific: false },
                directives: vec![],
            },
            dtype,
            nest,
        }
    }
}

/// A stage directive.
#[derive(Clone, Copy)]
pub struct CopyOf {
    pub tensor: &'static str,
    pub transposed: bool,
    pub via: Via,
    pub vector: Option<u32>,
    pub pad: u32,
    pub swizzle: u32,
}

pub fn copy(tensor: &'static str) -> CopyOf {
    CopyOf { tensor, transposed: false, via: Via::Plain, vector: None, pad: 0, swizzle: 0 }
}

pub fn seq(mut stmts: Vec<Stmt>) -> Stmt {
    let last = stmts.pop().unwrap_or(Stmt::Skip);
    stmts.into_iter().rev().fold(last, |rest, first| Stmt::Let {
        values: vec![],
        first: Box::new(first),
        rest: Box::new(rest),
    })
}

pub fn let_(value: ValueId, first: Stmt, rest: Stmt) -> Stmt {
    Stmt::Let { values: vec![value], first: Box::new(first), rest: Box::new(rest) }
}

pub fn bin(op: BinOp, a: Expr, b: Expr) -> Expr {
    Expr::Bin(op, Box::new(a), Box::new(b))
}

pub fn cast(dtype: DType, e: Expr) -> Expr {
    Expr::Cast(dtype, Box::new(e))
}

/// The parts of a matmul: `red` and `put`, to be put in loops.
pub struct Matmul {
    pub table: Table,
    pub acc: ValueId,
    pub red: Stmt,
    pub put: Stmt,
    pub dtype: DType,
}

pub fn matmul(dtype: DType) -> Matmul {
    let text = "kernel matmul<T>(a: &[T; M, K], b: &[T; K, N], c: &mut [T; M, N]) {
        axis i in program_tile(M);
        axis j in program_tile(N);
        axis k in tiles(K);
        let mut acc = full::<f32>(0.0, [i, j]);
        for k { acc = dot(load(a, [i, k]), load(b, [k, j]), acc); }
        store(c, [i, j], acc.cast::<T>());
    }";
    let mut table = Table::new(text, dtype);
    let acc = table.value("acc", &["i", "j"], DType::F32, Some(RedOp::Add));
    let a = Expr::Load(table.access("a", &["i", "k"]));
    let b = Expr::Load(table.access("b", &["k", "j"]));
    let product = bin(BinOp::Mul, cast(DType::F32, a), cast(DType::F32, b));
    let red = Stmt::Red { value: acc, op: RedOp::Add, expr: product };
    let c = table.access("c", &["i", "j"]);
    let put = Stmt::Put { access: c, expr: cast(dtype, Expr::Get(acc)) };
    Matmul { table, acc, red, put, dtype }
}

/// Small whole numbers: every sum of products is exact in f32.
pub fn data(seed: u64, n: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as i64 % 4
    };
    (0..n).map(|_| next() as f32 - 1.0).collect()
}

pub fn dims(of: &[(&str, i64)]) -> BTreeMap<String, i64> {
    of.iter().map(|(n, v)| (n.to_string(), *v)).collect()
}

/// Whether a launch may take a variant.
pub fn admits(program: &Program, variant: Variant, dims: &BTreeMap<String, i64>) -> bool {
    let bases = vec![256; program.nest.kernel.tensors.len()];
    assumptions(program, variant).iter().all(|a| a.holds(dims, &bases))
}

/// The variants of a program, lowered.
pub struct Kernels(Vec<(Variant, Kernel)>);

impl Kernels {
    pub fn of(program: &Program) -> Kernels {
        let lower = |v| lower(program, v).unwrap_or_else(|e| panic!("{} {v}: {e}", program.schedule.name));
        Kernels(VARIANTS.map(|v| (v, lower(v))).into())
    }

    /// Runs every variant that the dims admit.
    pub fn run(&self, program: &Program, launch: &Launch) -> Vec<(Variant, Launch, Counts)> {
        let admitted = self.0.iter().filter(|(v, _)| admits(program, *v, &launch.dims));
        let run = |(variant, kernel): &(Variant, Kernel)| {
            let mut launch = launch.clone();
            let counts =
                interpret(kernel, &mut launch).unwrap_or_else(|e| panic!("{variant}: {e}\n{kernel}"));
            (*variant, launch, counts)
        };
        admitted.map(run).collect()
    }

    /// Runs a matmul in every variant its sizes admit, and compares each with the definition.
    pub fn check_matmul(&self, program: &Program, m: usize, n: usize, k: usize) -> Vec<(Variant, Counts)> {
        let dims = dims(&[("M", m as i64), ("N", n as i64), ("K", k as i64)]);
        let (a, b) = (data(1, m * k), data(2, k * n));
        let dtype = program.dtype.unwrap();
        let mut expected = vec![0.0f32; m * n];
        for i in 0..m {
            for j in 0..n {
                let sum: f32 = (0..k).map(|p| a[i * k + p] * b[p * n + j]).sum();
                expected[i * n + j] = dtype.round(sum);
            }
        }
        let tensors = [("a", a), ("b", b), ("c", vec![f32::NAN; m * n])];
        let tensors = tensors.into_iter().map(|(n, d)| (n.to_string(), d)).collect();
        let launch = Launch { dims, tensors, ..Launch::default() };
        let done = self.run(program, &launch).into_iter().map(|(variant, launch, counts)| {
            assert_eq!(launch.tensors["c"], expected, "{} {variant} {m}x{n}x{k}", program.schedule.name);
            (variant, counts)
        });
        done.collect()
    }
}

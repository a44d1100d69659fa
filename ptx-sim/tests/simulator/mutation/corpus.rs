//! The correct kernels: how each is launched, and what it must leave in memory.

use ptx_sim::{
    AsyncMode, FindingKind, Launch, Memory, Module, Report, Swizzle, TensorElement, TensorMap, launch,
};

/// What a parameter is, apart from addresses.
pub enum Arg {
    /// The start of the buffer of that name.
    Pointer(&'static str),
    /// A tensor map over the buffer of that name.
    Map(&'static str, TensorMap),
}

/// One kernel of the corpus.
pub struct Case {
    pub name: &'static str,
    pub ptx: &'static str,
    pub grid: u32,
    pub block: u32,
    pub setup: fn(&mut Setup),
}

/// Memory and parameters of a launch, and the words expected afterwards.
#[derive(Default)]
pub struct Setup {
    memory: Memory,
    params: Vec<Vec<u8>>,
    expected: Vec<(u64, Vec<u32>)>,
    buffers: Vec<(&'static str, u64, Vec<u32>)>,
    pub args: Vec<Arg>,
}

/// What a run of a possibly mutated kernel did.
pub enum Verdict {
    /// Right results and no finding.
    Right,
    /// A finding (a diagnosed deadlock among them), in words.
    Finding(String),
    WrongResult,
    /// Stopped by the instruction limit with nothing diagnosed: does not count as found.
    TimedOut,
}

impl Setup {
    fn alloc(&mut self, name: &'static str, words: &[u32]) -> u64 {
        let at = self.memory.alloc(name, 4 * words.len() as u64).unwrap();
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.memory.write(at, &bytes).unwrap();
        self.buffers.push((name, at, words.to_vec()));
        at
    }

    fn name(&self, at: u64) -> &'static str {
        self.buffers.iter().find(|b| b.1 == at).expect("a buffer").0
    }

    /// Name, words before and words expected afterwards (`None`: unchanged) of each buffer.
    pub fn buffers(&self) -> impl Iterator<Item = (&'static str, &[u32], Option<&[u32]>)> {
        self.buffers.iter().map(|(name, at, words)| {
            let want = self.expected.iter().find(|e| e.0 == *at).map(|e| &e.1[..]);
            (*name, &words[..], want)
        })
    }

    fn pointer(&mut self, at: u64) {
        self.args.push(Arg::Pointer(self.name(at)));
        self.params.push(at.to_le_bytes().to_vec());
    }

    fn input(&mut self, name: &'static str, words: &[u32]) -> u64 {
        let at = self.alloc(name, words);
        self.pointer(at);
        at
    }

    fn output(&mut self, name: &'static str, want: Vec<u32>) -> u64 {
        let at = self.input(name, &vec![0; want.len()]);
        self.expected.push((at, want));
        at
    }

    fn map(&mut self, map: TensorMap) {
        self.params.push(map.encode().unwrap().to_vec());
        self.args.push(Arg::Map(self.name(map.address), map));
    }
}

/// A fixed sequence without structure.
fn noise(n: usize) -> Vec<u32> {
    let mut x = 0x2545_f491_4f6c_dd1du64;
    (0..n)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            (x >> 40) as u32
        })
        .collect()
}

/// Small integers, and the bits of their f16 values.
fn halves(n: usize) -> (Vec<f32>, Vec<u16>) {
    let v: Vec<i32> = noise(n).into_iter().map(|x| (x % 9) as i32 - 4).collect();
    let bits = |x: i32| match x.unsigned_abs() {
        0 => 0,
        a => {
            let e = a.ilog2();
            ((x < 0) as u16) << 15 | (15 + e as u16) << 10 | ((a << (10 - e)) & 0x3ff) as u16
        }
    };
    (v.iter().map(|x| *x as f32).collect(), v.iter().map(|x| bits(*x)).collect())
}

fn words(h: &[u16]) -> Vec<u32> {
    h.chunks_exact(2).map(|c| c[0] as u32 | (c[1] as u32) << 16).collect()
}

/// What the threads of a warpgroup have of columns `from` to `from + 16` of 64 rows of `k`: the first operand of a `wgmma`.
fn fragments(a: &[u16], k: usize, from: usize) -> Vec<u16> {
    let one = |i: usize| {
        let (t, n) = (i / 4, i % 4);
        let row = 16 * (t / 32) + t % 32 / 4 + 8 * (n & 1);
        &a[row * k + from + 2 * (t % 4) + 8 * (n >> 1)..][..2]
    };
    (0..4 * 128).flat_map(one).copied().collect()
}

/// The second operand of a `wgmma` in shared memory: `rows` by 16 elements, as core matrices of eight rows of 16 bytes.
fn core_matrices(rows: usize, at: impl Fn(usize, usize) -> u16) -> Vec<u16> {
    (0..rows * 16).map(|i| at(i / 128 * 8 + i / 8 % 8, i / 64 % 2 * 8 + i % 8)).collect()
}

/// A·Bᵀ of `m`×`k` and 8×`k`, as f32 bits.
fn product(a: &[f32], b: &[f32], m: usize, k: usize) -> Vec<u32> {
    let at = |i: usize, j: usize| (0..k).map(|x| a[i * k + x] * b[j * k + x]).sum::<f32>();
    (0..m * 8).map(|i| at(i / 8, i % 8).to_bits()).collect()
}

fn add(list: impl Iterator<Item = u32>) -> u32 {
    list.fold(0, u32::wrapping_add)
}

fn mad(a: u32, b: u32, c: u32) -> u32 {
    a.wrapping_mul(b).wrapping_add(c)
}

/// Six tiles of two rows of 64 words: each row's sum, the second three times.
fn ring(s: &mut Setup) {
    let x = noise(64 * 12);
    let at = s.alloc("in", &x);
    s.map(TensorMap::new(at, TensorElement::U32, &[64, 12], &[256], &[64, 2]));
    let row = |t: usize, r: usize| x[64 * r + t];
    let one = |t| add((0..6).map(|i| mad(row(t, 2 * i + 1), 3, row(t, 2 * i))));
    s.output("out", (0..64).map(one).collect());
}

macro_rules! case {
    ($name:literal, $grid:literal, $block:literal, $setup:expr) => {
        Case {
            name: $name,
            ptx: include_str!(concat!("../../data/mutation/", $name, ".ptx")),
            grid: $grid,
            block: $block,
            setup: $setup,
        }
    };
}

pub const CASES: &[Case] = &[
    case!("reduce", 2, 256, |s| {
        let x = noise(512);
        s.input("in", &x);
        s.output("out", x.chunks(256).map(|c| add(c.iter().copied())).collect());
    }),
    case!("transpose", 1, 128, |s| {
        let x = noise(32 * 64);
        s.input("in", &x);
        s.output("out", (0..64 * 32).map(|i| x[i % 32 * 64 + i / 32]).collect());
    }),
    case!("cp_async", 1, 64, |s| {
        let x = noise(6 * 256);
        s.input("in", &x);
        s.output("out", (0..256).map(|i| add((0..6).map(|k| x[256 * k + (i ^ 128)]))).collect());
    }),
    case!("cp_async_mbarrier", 1, 64, |s| {
        let x = noise(6 * 128);
        s.input("in", &x);
        let of = |l: usize, j: usize| add((0..6).map(|k| x[128 * k + 4 * (l ^ 1) + j]));
        let pair = |l| [of(l, 0).wrapping_add(of(l, 1)), mad(of(l, 3), 3, of(l, 2))];
        s.output("out", (0..32).flat_map(pair).collect());
    }),
    case!("tma_ring", 1, 96, ring),
    case!("tma_elected", 1, 96, ring),
    case!("tma_store", 1, 64, |s| {
        let x = noise(256);
        s.input("in", &x);
        let y: Vec<u32> = x.iter().map(|v| mad(*v, 3, 1)).collect();
        let at = s.alloc("y", &[0; 256]);
        s.map(TensorMap::new(at, TensorElement::U32, &[256], &[], &[64]));
        s.pointer(at);
        s.expected.push((at, y.clone()));
        s.output("out", (0..256).map(|i| y[i].wrapping_add(if i % 4 == 0 { 7 } else { 0 })).collect());
    }),
    case!("wgmma_ring", 1, 160, |s| {
        let ((a, ha), (b, hb)) = (halves(64 * 240), halves(64 * 240 + 8 * 240));
        let (b, hb) = (&b[64 * 240..], &hb[64 * 240..]);
        for (name, h, rows) in [("a", &ha[..], 64), ("b", hb, 8)] {
            let at = s.alloc(name, &words(h));
            let mut map = TensorMap::new(at, TensorElement::F16, &[240, rows], &[480], &[16, rows as u32]);
            map.swizzle = Swizzle::B32;
            s.map(map);
        }
        s.output("out", product(&a, b, 64, 240));
    }),
    case!("wgmma_registers", 1, 128, |s| {
        let ((a, ha), (b, hb)) = (halves(64 * 32), halves(64 * 32 + 8 * 32));
        let (b, hb) = (&b[64 * 32..], &hb[64 * 32..]);
        let (mut fa, mut fb) = (vec![], vec![]);
        for step in 0..2 {
            fa.extend(fragments(&ha, 32, 16 * step));
            fb.extend(core_matrices(8, |row, i| hb[32 * row + 16 * step + i]));
        }
        s.input("a", &words(&fa));
        s.input("b", &words(&fb));
        s.output("out", product(&a, b, 64, 32));
    }),
    case!("wgmma_skewed", 1, 160, |s| {
        let (all, bits) = halves(64 * 16 + 12 * (16 * 16 + 16 * 8));
        let at = |from: usize, n: usize| (&all[from..from + n], &bits[from..from + n]);
        let (q, hq) = at(0, 64 * 16);
        let (k, hk) = at(64 * 16, 12 * 16 * 16);
        let (v, hv) = at(64 * 16 + 12 * 16 * 16, 12 * 16 * 8);
        s.input("q", &words(&fragments(hq, 16, 0)));
        // K of a step is 16 keys of 16 halves, V is 16 keys of 8: rows of the operands are keys, then columns.
        let steps = |f: &dyn Fn(usize) -> Vec<u16>| words(&(0..12).flat_map(f).collect::<Vec<_>>());
        s.input("k", &steps(&|j| core_matrices(16, |row, i| hk[256 * j + 16 * row + i])));
        s.input("v", &steps(&|j| core_matrices(8, |row, i| hv[128 * j + 8 * i + row])));
        let score = |i: usize, j: usize, key: usize| {
            (0..16).map(|x| q[16 * i + x] * k[256 * j + 16 * key + x]).sum::<f32>()
        };
        let step = |i: usize, c: usize, j: usize| {
            (0..16).map(|key| score(i, j, key) * v[128 * j + 8 * key + c]).sum::<f32>()
        };
        let one = |i: usize| (0..12).fold(0.0, |o, j| step(i / 8, i % 8, j) - o);
        s.output("out", (0..64 * 8).map(|i| one(i).to_bits()).collect());
    }),
    case!("cluster_barrier", 4, 64, |s| {
        let mut v: Vec<u32> = (0..256).map(|i| 1000 * (i / 64) + i % 64).collect();
        let mut acc = vec![0; 256];
        for _ in 0..3 {
            let got: Vec<u32> = (0..256).map(|i| v[i ^ 64]).collect();
            for i in 0..256 {
                acc[i] = mad(acc[i], 3, got[i]);
                v[i] = v[i].wrapping_add(got[i]);
            }
        }
        s.output("out", acc);
    }),
    case!("cluster_mbarrier", 4, 32, |s| {
        let mut v: Vec<u32> = (0..128).map(|i| 100 * (i / 32) + i % 32).collect();
        let mut acc = vec![0; 128];
        for _ in 0..4 {
            let got: Vec<u32> = (0..128).map(|i| v[i ^ 32]).collect();
            for i in 0..128 {
                acc[i] = mad(acc[i], 5, got[i]);
                v[i] = v[i].wrapping_add(got[i]);
            }
        }
        s.output("out", acc);
    }),
    case!("multicast", 2, 64, |s| {
        let x = noise(640);
        let at = s.alloc("in", &x);
        s.map(TensorMap::new(at, TensorElement::U32, &[640], &[], &[64]));
        let one = |l: usize| {
            (0..5).fold(0, |acc, k| {
                let v = &x[128 * k + 4 * l..][..4];
                add([mad(acc, 7, v[0]), v[1], v[2].wrapping_mul(3), v[3]].into_iter())
            })
        };
        s.output("out", (0..64).map(|i| one(i % 32)).collect());
    }),
    case!("named_barriers", 1, 128, |s| {
        let x = noise(384);
        s.input("in", &x);
        let one = |t: usize| (0..6).fold(0, |acc, k| mad(acc, 3, x[64 * k + (t ^ 32)]));
        s.output("out", (0..64).map(one).collect());
    }),
    case!("scan", 1, 128, |s| {
        let x = noise(128);
        s.input("in", &x);
        let sum = |t: usize| add(x[..=t].iter().copied());
        s.output("out", (0..128).flat_map(|t| [sum(t), sum(t).wrapping_sub(sum(t / 32 * 32))]).collect());
    }),
    case!("split_k", 4, 64, |s| {
        let x = noise(256);
        s.input("in", &x);
        s.output("part", x.iter().map(|v| v.wrapping_mul(3)).collect());
        s.output("count", vec![4]);
        s.output("out", (0..64).map(|t| add((0..4).map(|c| x[64 * c + t].wrapping_mul(3)))).collect());
    }),
    case!("tile_counter", 3, 96, |s| {
        let x = noise(640);
        s.input("in", &x);
        s.output("counter", vec![0]);
        s.output("out", (0..640).map(|i| mad(x[i ^ 32], 3, i as u32 / 64)).collect());
    }),
    case!("marked_again", 2, 96, |s| {
        let mut x: Vec<u32> = noise(512).into_iter().map(|v| v & 0xffff).collect();
        // Words that mark their tiles: 2 and 6 of the first CTA, 5 of the second.
        for large in [64 * 2 + 40, 64 * 6 + 3, 64 * 6 + 50, 64 * 5 + 10] {
            x[large] |= 0x10000;
        }
        s.input("in", &x);
        let again = |tile: usize| u32::from([2, 5, 6].contains(&tile));
        s.output("out", (0..512).map(|i| mad(x[i], 3, again(i / 64))).collect());
    }),
    case!("skewed_rings", 1, 96, |s| {
        let x = noise(2 * 6 * 64);
        let (k, v) = x.split_at(6 * 64);
        s.input("k", k);
        s.input("v", v);
        let step = |acc: u32, t: usize, j: usize| {
            mad(mad(k[64 * j + t], 5, j as u32), v[64 * j + (t ^ 32)], acc.wrapping_mul(3))
        };
        s.output("out", (0..64).map(|t| (0..6).fold(0, |acc, j| step(acc, t, j))).collect());
    }),
    case!("flag_chain", 4, 64, |s| {
        let x = noise(256);
        s.input("in", &x);
        s.output("sums", (0..256).map(|i| add((0..=i / 64).map(|c| x[64 * c + i % 64]))).collect());
        s.output("flags", vec![1; 4]);
    }),
    case!("mma_ldmatrix", 1, 64, |s| {
        let ((a, ha), (b, hb)) = (halves(32 * 64), halves(32 * 64 + 8 * 64));
        s.input("a", &words(&ha));
        s.input("b", &words(&hb[32 * 64..]));
        s.output("out", product(&a, &b[32 * 64..], 32, 64));
    }),
    case!("bulk_exchange", 2, 64, |s| {
        let sent = |c: u32, t: u32, round: u32| 1000 * c + t + 17 * round;
        let got = |c: u32, t: u32| mad(sent(c ^ 1, t, 0), 3, sent(c ^ 1, t, 1));
        s.output("out", (0..64).map(|t| got(0, t).wrapping_add(got(1, t))).collect());
    }),
    case!("lock", 1, 128, |s| {
        s.output("out", vec![5 + 6 + 7 + 8]);
    }),
];

impl Case {
    /// Runs `text` in place of the kernel.
    pub fn run(&self, text: &str, seed: u64, async_mode: AsyncMode) -> Verdict {
        self.run_limited(text, seed, async_mode, 2_000_000)
    }

    /// The same with another limit of warp instructions a CTA.
    pub fn run_limited(
        &self,
        text: &str,
        seed: u64,
        async_mode: AsyncMode,
        max_instructions: u64,
    ) -> Verdict {
        let module = match Module::parse(text) {
            Ok(m) => m,
            Err(e) => panic!("{}: a mutant does not parse: {e}\n{text}", self.name),
        };
        let mut s = Setup::default();
        (self.setup)(&mut s);
        let l = Launch {
            kernel: "k".into(),
            grid: [self.grid, 1, 1],
            block: [self.block, 1, 1],
            params: s.params,
            seed,
            async_mode,
            max_instructions,
            ..Launch::default()
        };
        let r: Report = launch(&module, &mut s.memory, &l).expect("a launch");
        if let Some(f) = r.findings.iter().find(|f| f.kind != FindingKind::InstructionLimit) {
            return Verdict::Finding(f.to_string());
        }
        if !r.is_clean() {
            return Verdict::TimedOut;
        }
        let right = s.expected.iter().all(|(at, want)| {
            let mut got = vec![0; 4 * want.len()];
            s.memory.read(*at, &mut got).unwrap();
            got.chunks_exact(4).zip(want).all(|(g, w)| g == w.to_le_bytes())
        });
        if right { Verdict::Right } else { Verdict::WrongResult }
    }
}

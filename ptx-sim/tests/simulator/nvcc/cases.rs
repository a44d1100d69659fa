//! The kernels: how each is launched, and what the host computes.

use super::text::one_kernel;
use ptx_sim::{AsyncMode, FindingKind, Launch, Memory, Module, launch};
use std::path::PathBuf;

/// An argument of a launch.
#[derive(Clone)]
enum Arg {
    Int(i32),
    Float(f32),
    /// A buffer: what is in it, and what must be in it afterwards.
    Buffer(&'static str, Vec<u32>, Vec<u32>),
}

pub struct Case {
    pub name: String,
    pub ptx: String,
    kernel: String,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    args: Vec<Arg>,
}

#[derive(Debug)]
pub enum Verdict {
    Right,
    #[allow(dead_code, reason = "shown")]
    Finding(String),
    WrongResult,
    TimedOut,
}

fn folder() -> PathBuf {
    std::env::var_os("PTX_SIM_CORPORA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.cache/corpora/ptx")),
        PathBuf::from,
    )
}

fn case(file: &str, kernel: &str, grid: [u32; 2], block: [u32; 2], shared: u32, args: Vec<Arg>) -> Case {
    let path = folder().join(file).with_extension("ptx");
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|e| panic!("{}: {e}: run scripts/nvcc-corpora.sh", path.display()));
    let (ptx, kernel) = one_kernel(&text, kernel);
    let short = kernel.trim_start_matches("_Z").trim_start_matches(|c: char| c.is_ascii_digit());
    let short = short.split("EvP").next().unwrap_or(short).split("Evii").next().unwrap_or(short);
    let name = format!("{}/{short}", file.split('/').next().unwrap_or(""));
    let [gx, gy] = grid;
    let [bx, by] = block;
    Case { name, ptx, kernel, grid: [gx, gy, 1], block: [bx, by, 1], shared, args }
}

/// A fixed sequence of small integers without structure.
fn small(n: usize, seed: u32) -> Vec<i32> {
    let mut x = 0x9e37_79b9u32 ^ seed.wrapping_mul(0x85eb_ca6b);
    (0..n)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 17;
            x ^= x << 5;
            (x >> 20) as i32 % 17 - 8
        })
        .collect()
}

fn floats(v: &[i32]) -> Vec<u32> {
    v.iter().map(|x| (*x as f32).to_bits()).collect()
}

fn words(v: &[i32]) -> Vec<u32> {
    v.iter().map(|x| *x as u32).collect()
}

fn input(name: &'static str, v: Vec<u32>) -> Arg {
    Arg::Buffer(name, v.clone(), v)
}

fn output(name: &'static str, want: Vec<u32>) -> Arg {
    Arg::Buffer(name, vec![0xffff_ffff; want.len()], want)
}

/// C = 2·A·B + 3·C, by tiles of `tile`.
fn sgemm(kernel: &str, [m, n, k]: [usize; 3], tile: u32, block: u32) -> Case {
    let (a, b, c) = (small(m * k, 1), small(k * n, 2), small(m * n, 3));
    let dot = |i: usize, j: usize| (0..k).map(|l| a[i * k + l] * b[l * n + j]).sum::<i32>();
    let want: Vec<i32> = (0..m * n).map(|at| 2 * dot(at / n, at % n) + 3 * c[at]).collect();
    let args = vec![
        Arg::Int(m as i32),
        Arg::Int(n as i32),
        Arg::Int(k as i32),
        Arg::Float(2.0),
        input("a", floats(&a)),
        input("b", floats(&b)),
        Arg::Float(3.0),
        Arg::Buffer("c", floats(&c), floats(&want)),
    ];
    case("SGEMM_CUDA/src/runner", kernel, [n as u32 / tile, m as u32 / tile], [block, 1], 0, args)
}

fn transpose(kernel: &str) -> Case {
    let (w, h) = (64, 96);
    let x = small(w * h, 4);
    let want: Vec<i32> = (0..w * h).map(|i| x[i % h * w + i / h]).collect();
    let args =
        vec![output("out", floats(&want)), input("in", floats(&x)), Arg::Int(w as i32), Arg::Int(h as i32)];
    case("cuda-samples/Samples/6_Performance/transpose/transpose", kernel, [2, 3], [32, 16], 0, args)
}

/// Sums of `x` over `grid` blocks, each taking `per` elements.
fn reduce(kernel: &str, block: u32, shared: u32) -> Case {
    let x = small(3 * 2 * block as usize, 5);
    let want: Vec<i32> = x.chunks(2 * block as usize).map(|c| c.iter().sum()).collect();
    let args = vec![input("in", words(&x)), output("out", words(&want)), Arg::Int(x.len() as i32)];
    let file = "cuda-samples/Samples/2_Concepts_and_Techniques/reduction/reduction_kernel";
    case(file, kernel, [3, 1], [block, 1], shared, args)
}

pub fn cases() -> Vec<Case> {
    let concepts = "cuda-samples/Samples/2_Concepts_and_Techniques";
    // The 64×64 variants of SGEMM_CUDA's vectorised kernels are left out: they fill half of their tiles, which is found.
    let mut list = vec![
        sgemm("sgemm_shared_mem_blockILi32E", [64, 64, 96], 32, 1024),
        sgemm("sgemm1DBlocktilingILi64ELi64ELi8ELi8E", [64, 128, 24], 64, 512),
        sgemm("sgemm2DBlocktilingILi64ELi64E", [64, 128, 24], 64, 64),
        sgemm("sgemmVectorizeILi128ELi128E", [128, 128, 24], 128, 256),
        sgemm("sgemmResolveBankConflictsILi128ELi128E", [128, 128, 24], 128, 256),
        sgemm("sgemmResolveBankExtraColILi128ELi128E", [128, 128, 24], 128, 256),
        sgemm("sgemmWarptilingILi128ELi128E", [128, 128, 48], 128, 128),
        transpose("transposeCoalesced"),
        transpose("transposeNoBankConflicts"),
        transpose("transposeDiagonal"),
        reduce("7reduce1Ii", 256, 1024),
        reduce("7reduce3Ii", 256, 1024),
        reduce("7reduce4IiLj256", 256, 1024),
    ];
    // `reduce1` takes one element a thread.
    let one = list.iter_mut().find(|c| c.name.contains("reduce1")).expect("reduce1");
    let x = small(768, 5);
    let want: Vec<i32> = x.chunks(256).map(|c| c.iter().sum()).collect();
    one.args = vec![input("in", words(&x)), output("out", words(&want)), Arg::Int(768)];

    let (m, n) = (48, 64);
    let (a, b) = (small(m * m, 6), small(m * n, 7));
    let want: Vec<i32> =
        (0..m * n).map(|at| (0..m).map(|l| a[at / n * m + l] * b[l * n + at % n]).sum()).collect();
    let args = vec![
        output("c", floats(&want)),
        input("a", floats(&a)),
        input("b", floats(&b)),
        Arg::Int(m as i32),
        Arg::Int(n as i32),
    ];
    let file = "cuda-samples/Samples/0_Introduction/matrixMul/matrixMul";
    list.push(case(file, "MatrixMulCUDAILi16E", [4, 3], [16, 16], 0, args));

    let x = small(2048, 8);
    let sums = |c: &[i32]| -> Vec<i32> {
        c.iter()
            .scan(0, |s, v| {
                *s += v;
                Some(*s - v)
            })
            .collect()
    };
    let want: Vec<i32> = x.chunks(1024).flat_map(sums).collect();
    let args = vec![output("out", words(&want)), input("in", words(&x)), Arg::Int(1024)];
    list.push(case(&format!("{concepts}/scan/scan"), "scanExclusiveSharedP", [2, 1], [256, 1], 0, args));

    let x = small(512, 9);
    let want: Vec<i32> =
        x.chunks(256).flat_map(|c| c.iter().zip(sums(c)).map(|(v, s)| v + s).collect::<Vec<_>>()).collect();
    let args = vec![
        Arg::Buffer("data", words(&x), words(&want)),
        Arg::Int(32),
        output("sums", vec![want[255] as u32, want[511] as u32]),
    ];
    list.push(case(&format!("{concepts}/shfl_scan/shfl_scan"), "shfl_scan_test", [2, 1], [256, 1], 32, args));

    // Keys without duplicates, so that the order of values is known.
    let keys: Vec<u32> = (0..2048u32).map(|i| i.wrapping_mul(0x9e37_79b1) >> 4).collect();
    let mut sorted: Vec<(u32, u32)> = keys.iter().copied().zip(0..2048).collect();
    sorted.chunks_mut(1024).for_each(<[_]>::sort_unstable);
    for (file, kernel) in
        [("bitonicSort", "bitonicSortSharedP"), ("oddEvenMergeSort", "oddEvenMergeSortShared")]
    {
        let args = vec![
            output("keys out", sorted.iter().map(|p| p.0).collect()),
            output("values out", sorted.iter().map(|p| p.1).collect()),
            input("keys", keys.clone()),
            input("values", (0..2048).collect()),
            Arg::Int(1024),
            Arg::Int(1),
        ];
        list.push(case(&format!("{concepts}/sortingNetworks/{file}"), kernel, [2, 1], [512, 1], 0, args));
    }

    // A Walsh transform of 512 elements.
    let x = small(1024, 10);
    let walsh = |c: &[i32]| -> Vec<i32> {
        (0..c.len())
            .map(|k| {
                c.iter().enumerate().map(|(i, v)| if (i & k).count_ones() % 2 == 0 { *v } else { -v }).sum()
            })
            .collect()
    };
    let want: Vec<i32> = x.chunks(512).flat_map(walsh).collect();
    let args = vec![output("out", floats(&want)), input("in", floats(&x)), Arg::Int(9)];
    let file = "cuda-samples/Samples/5_Domain_Specific/fastWalshTransform/fastWalshTransform";
    list.push(case(file, "fwtBatch1Kernel", [2, 1], [128, 1], 2048, args));

    // Long enough for the unrolled loop and the rest behind it.
    let n = 6656;
    let (a, b) = (small(3 * n, 11), small(3 * n, 12));
    let want: Vec<i32> = (0..3).map(|v| (n * v..n * (v + 1)).map(|i| a[i] * b[i]).sum()).collect();
    let args = vec![
        output("c", floats(&want)),
        input("a", floats(&a)),
        input("b", floats(&b)),
        Arg::Int(3),
        Arg::Int(n as i32),
    ];
    list.push(case(&format!("{concepts}/scalarProd/scalarProd"), "scalarProdGPU", [2, 1], [96, 1], 0, args));

    let x = small(3 * 640, 13);
    // Whole numbers, so that the mean is exact.
    let x: Vec<i32> = x.iter().map(|v| v * 640).collect();
    let want: Vec<i32> = x.chunks(640).map(|c| c.iter().sum::<i32>() / 640).collect();
    let args = vec![
        output("mean", floats(&want)),
        input("in", floats(&x)),
        Arg::Int(3),
        Arg::Int(640),
        Arg::Int(128),
    ];
    list.push(case("llm.c/dev/cuda/layernorm_forward", "mean_kernel", [3, 1], [128, 1], 512, args));

    // `reduceSinglePass` of the same file is left out: nothing orders its last block's reads behind its atomic, which is
    // found.
    let x = small(4 * 256, 14);
    let want: Vec<i32> = x.chunks(256).map(|c| c.iter().sum()).collect();
    let args = vec![input("in", floats(&x)), output("out", floats(&want)), Arg::Int(1024)];
    let file = format!("{concepts}/threadFenceReduction/threadFenceReduction");
    list.push(case(&file, "reduceMultiPassILj128ELb1E", [4, 1], [128, 1], 512, args));
    list
}

impl Case {
    /// Runs `text` in place of the kernel.
    pub fn run(&self, text: &str, seed: u64, async_mode: AsyncMode) -> Verdict {
        let module = Module::parse(text).unwrap_or_else(|e| panic!("{}: {e}", self.name));
        let (mut memory, mut params, mut expected) = (Memory::new(), vec![], vec![]);
        for a in &self.args {
            params.push(match a {
                Arg::Int(v) => v.to_le_bytes().to_vec(),
                Arg::Float(v) => v.to_le_bytes().to_vec(),
                Arg::Buffer(name, before, after) => {
                    let at = memory.alloc(name, 4 * before.len() as u64).unwrap();
                    let bytes: Vec<u8> = before.iter().flat_map(|w| w.to_le_bytes()).collect();
                    memory.write(at, &bytes).unwrap();
                    expected.push((at, after));
                    at.to_le_bytes().to_vec()
                }
            });
        }
        let l = Launch {
            kernel: self.kernel.clone(),
            grid: self.grid,
            block: self.block,
            dynamic_shared: self.shared,
            params,
            seed,
            async_mode,
            max_instructions: 4_000_000,
            ..Launch::default()
        };
        let r = launch(&module, &mut memory, &l).unwrap_or_else(|e| panic!("{}: {e}", self.name));
        if let Some(f) = r.findings.iter().find(|f| f.kind != FindingKind::InstructionLimit) {
            return Verdict::Finding(f.to_string());
        }
        if !r.is_clean() {
            return Verdict::TimedOut;
        }
        let right = expected.iter().all(|(at, want)| {
            let mut got = vec![0; 4 * want.len()];
            memory.read(*at, &mut got).unwrap();
            got.chunks_exact(4).zip(want.iter()).all(|(g, w)| g == w.to_le_bytes())
        });
        if right { Verdict::Right } else { Verdict::WrongResult }
    }
}

//! Runs a recorded Triton kernel in every mode and hands its buffers to a check.

use half::{bf16, f16};
use ptx_sim::{AsyncMode, Finding, Launch, Memory, Module, Swizzle, TensorElement, TensorMap, launch};
use serde_json::Value;
use std::path::PathBuf;

pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/triton")
}

/// What Triton said of one compiled kernel.
pub struct Case {
    pub name: String,
    pub sm: u64,
    meta: Value,
}

pub fn cases() -> Vec<Case> {
    let text = std::fs::read_to_string(folder().join("cases.json")).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    all["cases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| Case {
            name: c["name"].as_str().unwrap().into(),
            sm: c["sm"].as_u64().unwrap(),
            meta: c.clone(),
        })
        .collect()
}

/// An argument of a kernel.
pub enum Arg {
    /// Address of a buffer with these bytes.
    Buffer(Vec<u8>),
    I32(i32),
    F32(f32),
    /// Tensor descriptor of a row-major f16 matrix of rows × columns with these bytes.
    Matrix(Vec<u8>, u64, u64),
}

pub fn f32s(v: &[f64]) -> Arg {
    Arg::Buffer(v.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect())
}

pub fn i32s(v: &[i32]) -> Arg {
    Arg::Buffer(v.iter().flat_map(|x| x.to_le_bytes()).collect())
}

/// The types in memory that references read as f64.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Element {
    F16,
    BF16,
    F32,
    I8,
    I32,
}

impl Element {
    pub fn bytes(self, v: &[f64]) -> Vec<u8> {
        v.iter()
            .flat_map(|x| match self {
                Element::F16 => f16::from_f64(*x).to_le_bytes().to_vec(),
                Element::BF16 => bf16::from_f64(*x).to_le_bytes().to_vec(),
                Element::F32 => (*x as f32).to_le_bytes().to_vec(),
                Element::I8 => vec![*x as i8 as u8],
                Element::I32 => (*x as i32).to_le_bytes().to_vec(),
            })
            .collect()
    }

    pub fn values(self, bytes: &[u8]) -> Vec<f64> {
        let two = |c: &[u8]| [c[0], c[1]];
        let four = |c: &[u8]| [c[0], c[1], c[2], c[3]];
        match self {
            Element::F16 => bytes.chunks_exact(2).map(|c| f16::from_le_bytes(two(c)).to_f64()).collect(),
            Element::BF16 => bytes.chunks_exact(2).map(|c| bf16::from_le_bytes(two(c)).to_f64()).collect(),
            Element::F32 => bytes.chunks_exact(4).map(|c| f32::from_le_bytes(four(c)) as f64).collect(),
            Element::I8 => bytes.iter().map(|c| *c as i8 as f64).collect(),
            Element::I32 => bytes.chunks_exact(4).map(|c| i32::from_le_bytes(four(c)) as f64).collect(),
        }
    }

    /// What is left of the numbers after they went through memory.
    pub fn rounded(self, v: &[f64]) -> Vec<f64> {
        self.values(&self.bytes(v))
    }
}

/// Seeded numbers in [-1, 1).
pub fn random(seed: u64, n: usize) -> Vec<f64> {
    let mut s = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..n)
        .map(|_| {
            s ^= s << 13;
            s ^= s >> 7;
            s ^= s << 17;
            (s >> 40) as f64 / (1u64 << 23) as f64 - 1.0
        })
        .collect()
}

/// Panics where the numbers are further apart than `rel · |want| + abs`.
pub fn assert_close(what: &str, got: &[f64], want: &[f64], rel: f64, abs: f64) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let far = (g - w).abs();
        assert!(far <= rel * w.abs() + abs, "{what}: element {i} is {g}, not {w}");
    }
}

/// The f32 numbers of a buffer after the run.
pub fn out_f32(b: &[u8]) -> Vec<f64> {
    Element::F32.values(b)
}

/// Runs all recordings of `name` with both asynchronous modes and two seeds. `check` gets a label and the bytes of each
/// buffer and matrix, in the order of the arguments.
pub fn run(name: &str, grid: [u32; 3], args: &[Arg], check: impl Fn(&str, &[Vec<u8>])) {
    run_allowing(name, grid, args, |_| false, check);
}

/// The same for a kernel with findings that are right.
pub fn run_allowing(
    name: &str,
    grid: [u32; 3],
    args: &[Arg],
    allowed: fn(&[Finding]) -> bool,
    check: impl Fn(&str, &[Vec<u8>]),
) {
    let mut ran = 0;
    for case in cases().iter().filter(|c| c.name == name) {
        let file = folder().join(format!("{name}.sm{}.ptx", case.sm));
        let text = std::fs::read_to_string(&file).unwrap();
        let module = Module::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        for (async_mode, seed) in [(AsyncMode::Early, 0), (AsyncMode::Late, 1), (AsyncMode::Late, 0)] {
            let label = format!("{name} sm_{} {async_mode:?} seed {seed}", case.sm);
            check(&label, &once(&label, case, &module, grid, args, (async_mode, seed), allowed));
            ran += 1;
        }
    }
    assert!(ran > 0, "no recording of {name}");
}

fn once(
    label: &str,
    case: &Case,
    module: &Module,
    grid: [u32; 3],
    args: &[Arg],
    (async_mode, seed): (AsyncMode, u64),
    allowed: fn(&[Finding]) -> bool,
) -> Vec<Vec<u8>> {
    let word = |field: &str| case.meta[field].as_u64().unwrap();
    let mut memory = Memory::new();
    let (mut params, mut buffers) = (vec![], vec![]);
    let mut descriptors = case.meta["tensor_descriptors"].as_array().unwrap().iter();
    for (i, a) in args.iter().enumerate() {
        match a {
            Arg::Buffer(bytes) => {
                let at = memory.alloc(&format!("arg{i}"), bytes.len() as u64).unwrap();
                memory.write(at, bytes).unwrap();
                buffers.push((at, bytes.len()));
                params.push(at.to_le_bytes().to_vec());
            }
            Arg::I32(x) => params.push(x.to_le_bytes().to_vec()),
            Arg::F32(x) => params.push(x.to_le_bytes().to_vec()),
            Arg::Matrix(bytes, rows, columns) => {
                let at = memory.alloc(&format!("arg{i}"), bytes.len() as u64).unwrap();
                memory.write(at, bytes).unwrap();
                buffers.push((at, bytes.len()));
                let d = descriptors.next().unwrap();
                let size = |j: usize| d["box"][j].as_u64().unwrap() as u32;
                let mut map = TensorMap::new(
                    at,
                    TensorElement::F16,
                    &[*columns, *rows],
                    &[2 * columns],
                    &[size(1), size(0)],
                );
                map.swizzle = [Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128]
                    [d["swizzle"].as_u64().unwrap() as usize];
                // The kernel gets the descriptor, then the shape, then the strides.
                params.push(map.encode().unwrap().to_vec());
                params.extend([rows, columns].map(|x| (*x as u32).to_le_bytes().to_vec()));
                params.extend([*columns, 1].map(|x| x.to_le_bytes().to_vec()));
            }
        }
    }
    assert_eq!(word("global_scratch_size") + word("profile_scratch_size"), 0, "{label}");
    params.extend([vec![0; 8], vec![0; 8]]);
    let l = Launch {
        kernel: case.meta["entry"].as_str().unwrap().into(),
        grid,
        block: [word("threads") as u32, 1, 1],
        dynamic_shared: word("shared") as u32,
        params,
        async_mode,
        seed,
        // Triton puts no fence after mbarrier.init, only a CTA barrier.
        barrier_init_fence: false,
        max_instructions: 50_000_000,
        ..Launch::default()
    };
    let report = launch(module, &mut memory, &l).unwrap_or_else(|e| panic!("{label}: {e}"));
    let findings: Vec<String> = report.findings.iter().map(|f| f.to_string()).collect();
    assert!(report.is_clean() || allowed(&report.findings), "{label}:\n{}", findings.join("\n"));
    buffers
        .iter()
        .map(|(at, n)| {
            let mut b = vec![0; *n];
            memory.read(*at, &mut b).unwrap();
            b
        })
        .collect()
}

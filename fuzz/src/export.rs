//! Cases with their PTX and the simulator's results in one file, to be run again where there is no LLVM but a GPU.
//!
//! The file is a deflated [`Batch`]. Contents of tensors are made again from their seeds, so it holds programs, PTX and
//! results only.

use crate::{
    case::Launch,
    check::{Class, Expected, check, program, statements},
    data::mix,
    launch,
    run::{Id, MOST_STATEMENTS, make},
    sizes,
};
use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    io::{Read, Write},
    path::Path,
};
use tile_dsl::{
    dtype::DType,
    lower,
    nest::Across,
    op::UnOp,
    program::{Program, Variant},
    schedule::DirectiveKind,
    tile::{Expr, ExprKind, Kernel, Stmt, evaluate::Elements},
};
use tile_runtime::{AnySchedule, Device, PtxCache, aot};

/// Statements of the longest variant that is exported: the driver's assembler takes its time, too.
const MOST_EXPORTED: usize = 1_000;

/// The contents of a file.
#[derive(Serialize, Deserialize, Default)]
pub struct Batch {
    /// Cases.
    pub entries: Vec<Entry>,
}

/// One program with its PTX and its launches.
#[derive(Serialize, Deserialize)]
pub struct Entry {
    /// Seed of the kernel and number of the schedule.
    pub id: (u64, u64),
    /// The encoded program.
    pub program: Vec<u8>,
    /// PTX of its variants, for [`aot::provide`].
    pub ptx: Vec<u8>,
    /// Launches.
    pub launches: Vec<Expectation>,
}

/// One launch and what the simulator computed.
#[derive(Serialize, Deserialize)]
pub struct Expectation {
    /// Extents of the named dims.
    pub dims: BTreeMap<String, i64>,
    /// Seed of the contents.
    pub data: u64,
    /// NaN and infinities are among them.
    pub special: bool,
    /// The variant.
    pub variant: Variant,
    /// Elements of each stored tensor as the bits of an f32, row-major.
    pub stored: BTreeMap<String, Vec<u32>>,
}

/// What [`export`] wrote.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exported {
    /// Programs.
    pub programs: usize,
    /// Variants of them that are launched: modules of PTX.
    pub kernels: usize,
    /// Launches.
    pub launches: usize,
    /// Bytes of the file.
    pub bytes: u64,
}

/// A failure to write or read a batch.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file.
    #[error("{path}: {source}")]
    File {
        /// Its path.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// Its contents.
    #[error("{path} is no batch of this version of tile-fuzz: {reason}")]
    Damaged {
        /// Its path.
        path: String,
        /// Why.
        reason: String,
    },
    /// Compiling or running.
    #[error(transparent)]
    Runtime(#[from] tile_runtime::Error),
}

/// A program behind the interface by which the runtime compiles ahead of time.
struct Made(&'static [u8], Option<DType>);

impl AnySchedule for Made {
    fn kernel(&self) -> &'static str {
        "k"
    }
    fn name(&self) -> &'static str {
        "random"
    }
    fn doc(&self) -> &'static str {
        ""
    }
    fn dtypes(&self) -> &'static [DType] {
        match self.1 {
            None => &[],
            Some(DType::F16) => &[DType::F16],
            Some(DType::BF16) => &[DType::BF16],
            Some(DType::F8) => &[DType::F8],
            Some(_) => &[DType::F32],
        }
    }
    fn program(&self, dtype: Option<DType>) -> Option<&'static [u8]> {
        (dtype == self.1).then_some(self.0)
    }
}

/// Bits of elements; every NaN is one.
fn bits(elements: &Elements) -> Vec<u32> {
    let canonical = |x: f64| if x.is_nan() { f32::NAN.to_bits() } else { (x as f32).to_bits() };
    elements.to_f64().into_iter().map(canonical).collect()
}

/// Writes cases that pass every check, until `count` kernels are together; says so after each.
///
/// # Errors
/// [`Error`]; the runtime's where a build has no compiler.
pub fn export(seed: u64, count: usize, path: &Path, progress: &dyn Fn(&Exported)) -> Result<Exported, Error> {
    let mut batch = Batch::default();
    let mut exported = Exported::default();
    let device = Device::sim().with_cache(PtxCache::disabled());
    for p in 0.. {
        if exported.kernels >= count {
            break;
        }
        let id = Id { program: mix(seed, p), schedule: 0 };
        let Ok(made) = crate::check::caught(|| make(id, 4)) else { continue };
        let Some(case) = made.case else { continue };
        if check(&case, MOST_STATEMENTS).1.is_some() {
            continue;
        }
        let Ok(program) = program(&case) else { continue };
        let short = |variant| {
            lower::lower(&program, variant).is_ok_and(|kernel| statements(&kernel.body) <= MOST_EXPORTED)
        };
        if ![Variant::Exact, Variant::Aligned, Variant::General].into_iter().all(short) {
            continue;
        }
        let mut launches = Vec::new();
        for launch in &case.launches {
            let Ok(Some(expected)) = Expected::of(&program, launch) else { continue };
            for variant in sizes::variants(&program, &launch.dims) {
                let run = launch::run(&program, &expected.inputs, &device, variant)?;
                if run.report.ctas > 0 {
                    launches.push(Expectation {
                        dims: expected.launch.dims.clone(),
                        data: expected.launch.data,
                        special: expected.launch.special,
                        variant,
                        stored: run.stored.iter().map(|(name, e)| (name.clone(), bits(e))).collect(),
                    });
                }
            }
        }
        let mut variants: Vec<Variant> = launches.iter().map(|l| l.variant).collect();
        variants.sort_unstable();
        variants.dedup();
        if variants.is_empty() {
            continue;
        }
        let encoded = program.to_bytes();
        let made = Made(encoded.clone().leak(), program.dtype);
        let ptx = aot::compile(&[&made])?;
        exported.programs += 1;
        exported.kernels += variants.len();
        exported.launches += launches.len();
        batch.entries.push(Entry { id: (id.program, id.schedule), program: encoded, ptx, launches });
        progress(&exported);
    }
    let plain = postcard::to_stdvec(&batch).expect("plain data");
    let file = |source| Error::File { path: path.display().to_string(), source };
    let mut encoder = DeflateEncoder::new(std::fs::File::create(path).map_err(file)?, Compression::best());
    encoder.write_all(&plain).map_err(file)?;
    encoder.finish().map_err(file)?;
    exported.bytes = std::fs::metadata(path).map_err(file)?.len();
    Ok(exported)
}

/// Reads a batch.
///
/// # Errors
/// [`Error::File`], [`Error::Damaged`].
pub fn read(path: &Path) -> Result<Batch, Error> {
    let file = |source| Error::File { path: path.display().to_string(), source };
    let mut plain = Vec::new();
    DeflateDecoder::new(std::fs::File::open(path).map_err(file)?).read_to_end(&mut plain).map_err(file)?;
    postcard::from_bytes(&plain)
        .map_err(|e| Error::Damaged { path: path.display().to_string(), reason: e.to_string() })
}

/// What [`replay`] saw.
#[derive(Clone, Debug, Default)]
pub struct Replayed {
    /// Launches whose bits are those of the simulator.
    pub equal: usize,
    /// Launches of kernels with functions that the hardware approximates, or with atomic additions, within the
    /// evaluator's bound.
    pub within: usize,
    /// The others: the case and what differs.
    pub wrong: Vec<(Id, String)>,
}

/// Runs a batch on a device and compares bit for bit with what the simulator computed when it was exported.
///
/// # Errors
/// PTX that cannot be read. What goes wrong in a launch is in [`Replayed::wrong`].
pub fn replay(batch: &Batch, device: &Device, progress: &dyn Fn(usize)) -> Result<Replayed, Error> {
    let device = device.clone().with_cache(PtxCache::disabled());
    let mut replayed = Replayed::default();
    for (n, entry) in batch.entries.iter().enumerate() {
        let id = Id { program: entry.id.0, schedule: entry.id.1 };
        aot::provide(&entry.ptx)?;
        let program = match Program::from_bytes(&entry.program) {
            Ok(program) => program,
            Err(e) => {
                replayed.wrong.push((id, e.to_string()));
                continue;
            }
        };
        for expectation in &entry.launches {
            match one(&program, expectation, &device) {
                Ok(true) => replayed.equal += 1,
                Ok(false) => replayed.within += 1,
                Err(message) => {
                    let at = format!("{:?} {:?}: {message}", expectation.variant, expectation.dims);
                    replayed.wrong.push((id, at));
                }
            }
        }
        progress(n + 1);
    }
    Ok(replayed)
}

/// Whether the bits are equal; false for what may differ and lies within the bound.
fn one(program: &Program, wanted: &Expectation, device: &Device) -> Result<bool, String> {
    let launch = Launch { dims: wanted.dims.clone(), data: wanted.data, special: wanted.special };
    let expected = Expected::of(program, &launch)
        .map_err(|e| format!("{}: {}", Class::Nest, e.message))?
        .ok_or("the results cannot be compared")?;
    let run = launch::run(program, &expected.inputs, device, wanted.variant).map_err(|e| e.to_string())?;
    let differs = run.stored.iter().find_map(|(name, elements)| {
        let (found, wanted) = (bits(elements), &wanted.stored[name]);
        let at = found.iter().zip(wanted).position(|(a, b)| a != b)?;
        let (a, b) = (f32::from_bits(found[at]), f32::from_bits(wanted[at]));
        Some(format!("`{name}` is {a:e} at {at}, and {b:e} on the simulator"))
    });
    match differs {
        None => Ok(true),
        Some(message) if !approximate(program) => Err(message),
        Some(_) => expected.compare(&run.stored).map(|()| false),
    }
}

/// Whether hardware and simulator may differ in the last bits.
fn approximate(program: &Program) -> bool {
    fn function(expr: &Expr) -> bool {
        matches!(expr.kind, ExprKind::Un(UnOp::Exp | UnOp::Exp2 | UnOp::Log | UnOp::Tanh | UnOp::Rsqrt, _))
            || expr.children().into_iter().any(function)
    }
    fn any(body: &[Stmt]) -> bool {
        body.iter().any(|stmt| match stmt {
            Stmt::Let { value, .. } | Stmt::Assign { value, .. } | Stmt::Store { value, .. } => {
                function(value)
            }
            Stmt::For { body, .. } => any(body),
        })
    }
    let kernel: &Kernel = &program.nest.kernel;
    let atomic = |d: &DirectiveKind| matches!(d, DirectiveKind::SplitK { across: Across::Atomic, .. });
    any(&kernel.body) || program.schedule.directives.iter().any(|d| atomic(&d.kind))
}

//! Cases with their PTX and the simulator's results in one file, to be run again where there is no LLVM but a GPU.
//!
//! The file is a deflated [`Batch`]. Contents of tensors are made again from their seeds, and of results a hash is enough: what does
//! not agree is computed again by the simulator ([`crate::replay`]). So it holds programs and PTX only.

use crate::{
    check::{Expected, caught, program, statements},
    data::mix,
    launch,
    make::{Id, make},
    sizes,
};
use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    io::{Read, Write},
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};
use tile_dsl::{dtype::DType, lower, program::Variant, tile::evaluate::Elements};
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
    /// The id of the case.
    pub id: String,
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
    /// Of each stored tensor, a hash of its [`bits`].
    pub stored: BTreeMap<String, u64>,
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
        static ALL: [DType; DType::ALL.len()] = DType::ALL;
        let at = self.1.and_then(|dtype| ALL.iter().position(|d| *d == dtype));
        at.map_or(&[], |at| &ALL[at..=at])
    }
    fn program(&self, dtype: Option<DType>) -> Option<&'static [u8]> {
        (dtype == self.1).then_some(self.0)
    }
}

/// Bits of elements as those of an f32, row-major; every NaN is one.
pub fn bits(elements: &Elements) -> Vec<u32> {
    let canonical = |x: f64| if x.is_nan() { f32::NAN.to_bits() } else { (x as f32).to_bits() };
    elements.to_f64().into_iter().map(canonical).collect()
}

/// A hash of bits.
pub fn hash(bits: &[u32]) -> u64 {
    bits.iter().fold(bits.len() as u64, |hash, bits| mix(hash, u64::from(*bits)))
}

/// Programs that are made at a time, on all threads.
const AT_A_TIME: usize = 64;
/// Writes cases whose results are right, until `count` kernels are together, made on so many threads; says so after each. Equal seeds
/// give equal batches.
///
/// # Errors
/// [`Error`]; the runtime's where a build has no compiler.
pub fn export(
    seed: u64,
    count: usize,
    jobs: usize,
    path: &Path,
    progress: &dyn Fn(&Exported),
) -> Result<Exported, Error> {
    let mut batch = Batch::default();
    let mut exported = Exported::default();
    let mut first = 0;
    while exported.kernels < count {
        let next = AtomicUsize::new(0);
        let made: Mutex<Vec<Option<Result<Entry, Error>>>> =
            Mutex::new((0..AT_A_TIME).map(|_| None).collect());
        let work = || loop {
            let n = next.fetch_add(1, Relaxed);
            if n >= AT_A_TIME {
                return;
            }
            let entry = entry(Id::numbered(seed, first + n as u64)).transpose();
            made.lock().unwrap_or_else(PoisonError::into_inner)[n] = entry;
        };
        std::thread::scope(|scope| {
            for _ in 0..jobs.max(1) {
                // Kernels nest deeply where everything is unrolled.
                let thread = std::thread::Builder::new().stack_size(256 << 20);
                thread.spawn_scoped(scope, work).expect("a thread");
            }
        });
        for entry in made.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().flatten() {
            if exported.kernels >= count {
                break;
            }
            let entry = entry?;
            exported.programs += 1;
            exported.kernels += entry.variants().len();
            exported.launches += entry.launches.len();
            batch.entries.push(entry);
            progress(&exported);
        }
        first += AT_A_TIME as u64;
    }
    exported.bytes = write(&batch, path)?;
    Ok(exported)
}

impl Entry {
    /// The variants that are launched.
    fn variants(&self) -> Vec<Variant> {
        let mut variants: Vec<Variant> = self.launches.iter().map(|l| l.variant).collect();
        variants.sort_unstable();
        variants.dedup();
        variants
    }
}

/// The entry of a case; nothing for one that is too long, or whose results are not right here.
fn entry(id: Id) -> Result<Option<Entry>, Error> {
    let Ok(made) = caught(|| make(id, 4)) else { return Ok(None) };
    let Some(case) = made.case else { return Ok(None) };
    let Ok(program) = program(&case) else { return Ok(None) };
    let short = |variant| lower::lower(&program, variant).is_ok_and(|k| statements(&k.body) <= MOST_EXPORTED);
    if ![Variant::Exact, Variant::Aligned, Variant::General].into_iter().all(short) {
        return Ok(None);
    }
    let device = Device::sim().with_cache(PtxCache::disabled());
    let mut launches = Vec::new();
    for launch in &case.launches {
        if !sizes::admitted(&program, &launch.dims) {
            continue;
        }
        let Ok(Some(expected)) = Expected::of(&program, launch) else { continue };
        for variant in sizes::variants(&program, &launch.dims) {
            let run = caught(|| launch::run(&program, &expected.inputs, &device, variant));
            // What fails here is for the fuzzer to find.
            let Ok(Ok(run)) = run else { return Ok(None) };
            if !run.findings.is_empty() || expected.compare(&run.stored).is_err() {
                return Ok(None);
            }
            if run.report.ctas > 0 {
                launches.push(Expectation {
                    dims: expected.launch.dims.clone(),
                    data: expected.launch.data,
                    special: expected.launch.special,
                    variant,
                    stored: run.stored.iter().map(|(name, e)| (name.clone(), hash(&bits(e)))).collect(),
                });
            }
        }
    }
    if launches.is_empty() {
        return Ok(None);
    }
    let encoded = program.to_bytes();
    // The interface is for what lives as long as the process.
    let made = Made(encoded.clone().leak(), program.dtype);
    let ptx = aot::compile(&[&made])?;
    Ok(Some(Entry { id: id.to_string(), program: encoded, ptx, launches }))
}

/// Writes a batch; its bytes.
///
/// # Errors
/// [`Error::File`].
pub fn write(batch: &Batch, path: &Path) -> Result<u64, Error> {
    let plain = postcard::to_stdvec(batch).expect("plain data");
    let file = |source| Error::File { path: path.display().to_string(), source };
    let mut encoder = DeflateEncoder::new(std::fs::File::create(path).map_err(file)?, Compression::best());
    encoder.write_all(&plain).map_err(file)?;
    encoder.finish().map_err(file)?;
    Ok(std::fs::metadata(path).map_err(file)?.len())
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

//! From a scheduled program to PTX: lower, look in the caches, compile.

use crate::{
    aot,
    cache::{Key, Lookup, PtxCache},
    device::Wanted,
    error::Error,
    memory::lock,
    plan::{self, Gaps, Plan, Word},
    precompiled::{MachineCode, Precompiled},
    report::PtxSource,
    tensor_map::MapShape,
};
use backend_ptx::{CompileError, Ptx};
use ptx_sim::Module;
use std::{
    collections::HashMap,
    sync::{
        Arc, LazyLock, Mutex, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};
use tile_dsl::{
    kernel::{GridAxis, Interface, Kernel, Param, Table},
    lower::{self, Form, Given},
    program::{Program, Variant},
};

/// A kernel as PTX, with what a launch of it needs.
#[derive(Debug)]
pub(crate) struct Compiled {
    /// Different for any two.
    pub(crate) id: u64,
    pub(crate) ptx: Ptx,
    /// The text again, shared with reports.
    pub(crate) text: Arc<str>,
    /// What NVIDIA's assembler made of it ahead of time, for some architectures.
    pub(crate) machine: Vec<MachineCode>,
    /// Where each parameter comes from, in order.
    pub(crate) words: Vec<Word>,
    /// Bytes of each scalar parameter and dim, for devices that want them exactly.
    pub(crate) widths: Vec<u8>,
    /// Tensor parameters that are zero before the launch.
    pub(crate) cleared: Vec<u32>,
    /// Each factor of the grid, and its extent by position.
    grid: Vec<(Form, GridAxis)>,
    /// CTAs for each multiprocessor that take the tiles in turn.
    persistent: Option<u32>,
    /// CTAs in a row that run side by side.
    cluster: Option<u32>,
    /// It may begin before earlier work of its stream has ended, and waits for that itself.
    pub(crate) dependent: bool,
    /// Where the parameters lie, if it is for several problems at once.
    pub(crate) grouped: Option<Table>,
    /// Scratch buffers, in the order of their parameters, with their bytes for one CTA.
    scratch: Vec<Wanted>,
    /// Tensor maps, in the order of their parameters.
    pub(crate) maps: Vec<MapShape>,
    /// The text as the simulator reads it, once it was needed.
    pub(crate) parsed: OnceLock<Result<Module, ptx_sim::ParseError>>,
}

/// Compiled kernels of this process, by program, variant, tensors with strides of their own, and whether for several problems.
static COMPILED: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);
type Known = HashMap<(Key, Variant, Gaps, bool), Arc<Compiled>>;

impl Compiled {
    fn new(plan: &Plan, Precompiled { interface, ptx, machine }: Precompiled) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let Interface { params, cleared, grid, persistent, cluster, dependent, grouped } = interface;
        let grid = grid.into_iter().map(|g| (Form::new(&g.extent, |name| plan.position(name)), g));
        let scratch = params.iter().filter_map(|param| match param {
            Param::Scratch { dtype, elems, zeroed, .. } => {
                let bytes = u64::from(*elems) * u64::from(dtype.bytes());
                Some(Wanted { bytes, zeroed: *zeroed })
            }
            Param::Tensor { .. } | Param::Dim(_) | Param::Scalar { .. } | Param::TensorMap { .. } => None,
        });
        let widths = params.iter().map(|param| param.bytes() as u8);
        let maps = params.iter().filter_map(|param| match param {
            Param::TensorMap { tensor, dims, tile, swizzle, stored, .. } => Some(MapShape {
                tensor: *tensor as usize,
                dims: dims.iter().map(|d| *d as usize).collect(),
                tile: tile.iter().copied().collect(),
                swizzle: *swizzle,
                stored: *stored,
            }),
            _ => None,
        });
        Compiled {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            text: ptx.text.as_str().into(),
            ptx,
            machine,
            words: plan::words(plan, &params),
            widths: widths.collect(),
            cleared,
            grid: grid.collect(),
            persistent,
            cluster,
            dependent,
            grouped: grouped.then(|| Table::of(&params)),
            scratch: scratch.collect(),
            maps: maps.collect(),
            parsed: OnceLock::new(),
        }
    }

    /// Tiles of a launch: the product of ⌈extent / tile⌉, 0 when an extent is 0.
    ///
    /// # Errors
    /// [`Error::TooLarge`] above 2³¹ − 1, the limit of a grid's first dimension.
    pub(crate) fn tiles(&self, values: &[i64]) -> Result<u32, Error> {
        let mut count = 1i128;
        for (extent, axis) in &self.grid {
            let extent = u64::try_from(extent.eval(values).unwrap_or(0)).unwrap_or(0);
            count *= i128::from(axis.tiles(extent));
        }
        self.counted(count)
    }

    /// A number of tiles, of all problems together, too.
    ///
    /// # Errors
    /// [`Error::TooLarge`] above 2³¹ − 1.
    pub(crate) fn counted(&self, count: i128) -> Result<u32, Error> {
        u32::try_from(count).ok().filter(|&n| n <= i32::MAX as u32).ok_or_else(|| Error::TooLarge {
            what: "the number of CTAs".into(),
            value: count,
            max: i32::MAX.into(),
        })
    }

    /// CTAs of a cluster that takes tile after tile.
    pub(crate) fn persistent_cluster(&self) -> Option<u32> {
        self.persistent.and(self.cluster)
    }

    /// CTAs for so many tiles: as many; where they are persistent, no more than the multiprocessors hold, nor, in clusters,
    /// than so many of these, if that is known: a cluster more would begin when the others have ended.
    pub(crate) fn ctas(&self, tiles: u32, multiprocessors: u32, clusters: Option<u32>) -> u32 {
        let resident = self.persistent.map_or(u32::MAX, |n| n.saturating_mul(multiprocessors.max(1)));
        in_even_rounds(tiles, self.cluster.unwrap_or(1).max(1), resident, clusters)
    }

    /// How many scratch buffers a launch has, or a problem of a group.
    pub(crate) fn scratch_buffers(&self) -> usize {
        self.scratch.len()
    }

    /// The scratch buffers of a launch.
    pub(crate) fn wanted(&self, ctas: u32) -> impl Iterator<Item = Wanted> {
        self.scratch.iter().map(move |w| Wanted { bytes: w.bytes * u64::from(ctas), ..*w })
    }
}

/// The fewest CTAs, in clusters of so many, that take the tiles in no more rounds than `resident` CTAs and `clusters` at once
/// would: the last round is then no shorter than the others, and what it leaves idle draws no power.
fn in_even_rounds(tiles: u32, cluster: u32, resident: u32, clusters: Option<u32>) -> u32 {
    let held = (resident / cluster).min(clusters.unwrap_or(u32::MAX)).max(1);
    let wanted = tiles / cluster;
    wanted.div_ceil(wanted.div_ceil(held).max(1)) * cluster
}

/// Compiles a kernel that does nothing; returns LLVM's version.
///
/// # Errors
/// What the compiler says.
pub(crate) fn trial() -> Result<&'static str, Error> {
    let kernel = Kernel {
        name: "nothing".into(),
        target: tile_dsl::schedule::Target::DEFAULT,
        params: vec![],
        cleared: vec![],
        shared: vec![],
        frags: vec![],
        vars: vec![],
        threads: 32,
        grid: vec![],
        min_ctas: None,
        persistent: None,
        cluster: None,
        assemble: None,
        dependent: false,
        grouped: false,
        body: vec![],
    };
    backend_ptx::compile(&kernel)?;
    Ok("22.1")
}

/// Lowers one variant of a program.
pub(crate) fn lower_program(program: &Program, variant: Variant) -> Result<Kernel, Error> {
    lower_given(program, variant, &Given::default())
}

/// Lowers one variant of a program for launches of some kind.
pub(crate) fn lower_given(program: &Program, variant: Variant, given: &Given) -> Result<Kernel, Error> {
    lower::lower_given(program, variant, given)
        .map_err(|e| Error::Lower { schedule: program.schedule.name.clone(), reason: e.to_string() })
}

/// The PTX of one variant of a program, from wherever it is nearest.
pub(crate) fn compile(
    cache: &PtxCache,
    plan: &Plan,
    variant: Variant,
    (gaps, grouped): (&Gaps, bool),
    warnings: &mut Vec<String>,
) -> Result<(Arc<Compiled>, PtxSource), Error> {
    let known = (plan.key, variant, gaps.clone(), grouped);
    if let Some(compiled) = lock(&COMPILED).get(&known) {
        return Ok((compiled.clone(), PtxSource::Memory));
    }
    // Another thread may compile the same meanwhile; both get the same text, and the first is kept.
    let key = Key::of_kernel(&plan.key, variant, grouped, gaps.iter().copied());
    let given = Given { strided: plan::strided(gaps), grouped };
    let lower = || lower_given(&plan.program, variant, &given);
    let (code, source) = code_of(cache, &key, lower, warnings).map_err(|e| match e {
        Error::Compile(CompileError::NoCodegen) => plan.not_compiled(variant, (gaps, grouped), aot::count()),
        other => other,
    })?;
    let compiled = Arc::new(Compiled::new(plan, code));
    Ok((lock(&COMPILED).entry(known).or_insert(compiled).clone(), source))
}

/// A kernel that was compiled ahead of time, or is on disk, or is lowered and compiled now and put on disk.
fn code_of(
    cache: &PtxCache,
    key: &Key,
    lower: impl FnOnce() -> Result<Kernel, Error>,
    warnings: &mut Vec<String>,
) -> Result<(Precompiled, PtxSource), Error> {
    if let Some(precompiled) = aot::find(key) {
        return Ok(((*precompiled).clone(), PtxSource::AheadOfTime));
    }
    match cache.get(key) {
        Lookup::Found(precompiled) => return Ok((precompiled, PtxSource::Disk)),
        Lookup::Absent => {}
        Lookup::Unusable(why) => warnings.push(why),
    }
    // Known while this is compiled: an application without a compiler does not carry the lowering either.
    if !backend_ptx::can_compile() {
        // What stood in the way of the cache is why there is no PTX.
        return Err(match warnings.is_empty() {
            true => CompileError::NoCodegen.into(),
            false => Error::Cache { trouble: warnings.join("; ") },
        });
    }
    let kernel = lower()?;
    let ptx = backend_ptx::compile(&kernel)?;
    let precompiled = Precompiled { interface: kernel.interface(), ptx, machine: Vec::new() };
    if let Err(e) = cache.put(key, &precompiled)
        && let Some(folder) = cache.folder()
    {
        warnings.push(format!("the compiled kernel cannot be kept in {}: {e}", folder.display()));
    }
    Ok((precompiled, PtxSource::Compiled))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tile_dsl::{index::Extent, kernel::GridAxis, schedule::Target};

    fn kernel(name: &str) -> Kernel {
        Kernel {
            name: name.into(),
            target: Target { sm: 80, specific: false },
            params: vec![],
            cleared: vec![],
            shared: vec![],
            frags: vec![],
            vars: vec![],
            threads: 32,
            grid: vec![GridAxis::of(Extent::constant(1), 1)],
            min_ctas: None,
            persistent: None,
            cluster: None,
            assemble: None,
            dependent: false,
            grouped: false,
            body: vec![],
        }
    }

    fn key(kernel: &Kernel) -> Key {
        Key::of_program(kernel.name.as_bytes())
    }

    #[test]
    fn no_more_clusters_than_the_gpu_holds_in_even_rounds() {
        // 132 multiprocessors, of which a GPU with GPCs of 16 to 18 holds 30 clusters of four: 160 of these take six rounds.
        assert_eq!(in_even_rounds(640, 4, 132, None), 128);
        assert_eq!(in_even_rounds(640, 4, 132, Some(30)), 108);
        assert_eq!(in_even_rounds(640, 2, 132, Some(66)), 128);
        assert_eq!(in_even_rounds(112, 4, 132, Some(30)), 112);
        // Not persistent: all of them. Nothing to do, and nothing that fits.
        assert_eq!(in_even_rounds(640, 1, u32::MAX, None), 640);
        assert_eq!(in_even_rounds(0, 4, 132, Some(30)), 0);
        assert_eq!(in_even_rounds(8, 4, 2, Some(0)), 4);
    }

    fn source(cache: &PtxCache, kernel: &Kernel) -> (PtxSource, Vec<String>) {
        let (mut warnings, mut lowered) = (Vec::new(), false);
        let lower = || {
            lowered = true;
            Ok(kernel.clone())
        };
        let (code, source) = code_of(cache, &key(kernel), lower, &mut warnings).unwrap();
        assert!(code.ptx.text.contains(&format!(".entry {}", kernel.name)));
        assert_eq!(code.interface, kernel.interface());
        assert_eq!(lowered, source == PtxSource::Compiled, "what is on disk needs no kernel IR");
        (source, warnings)
    }

    #[test]
    #[cfg(any(feature = "jit", feature = "static-llvm"))]
    fn compiles_once_and_again_when_the_entry_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let cache = PtxCache::at(folder.path());
        let kernel = kernel("cached");
        assert_eq!(source(&cache, &kernel), (PtxSource::Compiled, vec![]));
        assert_eq!(source(&cache, &kernel), (PtxSource::Disk, vec![]));
        let path = folder.path().join(key(&kernel).to_string());
        std::fs::write(&path, "no entry").unwrap();
        let (from, warnings) = source(&cache, &kernel);
        assert_eq!(from, PtxSource::Compiled);
        assert!(warnings[0].contains("is damaged"), "{warnings:?}");
        assert_eq!(source(&cache, &kernel), (PtxSource::Disk, vec![]), "replaced");
    }

    #[test]
    #[cfg(any(feature = "jit", feature = "static-llvm"))]
    fn an_unwritable_cache_is_a_warning() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (from, warnings) = source(&PtxCache::at(file.path()), &kernel("unwritable"));
        assert_eq!(from, PtxSource::Compiled);
        assert!(warnings.iter().any(|w| w.contains("cannot be kept")), "{warnings:?}");
    }

    #[test]
    #[cfg(not(any(feature = "jit", feature = "static-llvm")))]
    fn without_llvm_only_finished_ptx_runs() {
        let missing = kernel("missing");
        let find = |cache: &PtxCache, kernel: &Kernel| {
            code_of(cache, &key(kernel), || Ok(kernel.clone()), &mut Vec::new()).unwrap_err()
        };
        let error = find(&PtxCache::disabled(), &missing);
        assert!(error.to_string().contains("enable the feature `jit`"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        let cache = PtxCache::at(folder.path());
        let kernel = kernel("cached");
        let text = ".visible .entry cached() { ret; }".into();
        let ptx = Ptx {
            text,
            entry: "cached".into(),
            assemble: None,
            threads: 32,
            static_shared: 0,
            dynamic_shared: 0,
        };
        let precompiled = Precompiled { interface: kernel.interface(), ptx, machine: vec![] };
        cache.put(&key(&kernel), &precompiled).unwrap();
        assert_eq!(source(&cache, &kernel), (PtxSource::Disk, vec![]));
        std::fs::write(folder.path().join(key(&kernel).to_string()), "no entry").unwrap();
        let error = find(&cache, &kernel);
        assert!(matches!(error, Error::Cache { .. }), "{error}");
    }
}

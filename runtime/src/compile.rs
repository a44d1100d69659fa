//! From a scheduled program to PTX: lower, look in the caches, compile.

use crate::{
    aot,
    cache::{Key, Lookup, PtxCache},
    error::Error,
    report::PtxSource,
};
use backend_ptx::{CompileError, Ptx};
use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};
use tile_dsl::{
    kernel::{GridAxis, Kernel, Param},
    lower,
    program::{Program, Variant},
};

/// A kernel, ready to run.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) ptx: Ptx,
    /// The text again, shared with reports.
    pub(crate) text: Arc<str>,
    pub(crate) params: Vec<Param>,
    /// Tensor parameters that are zero before the launch.
    pub(crate) cleared: Vec<u32>,
    pub(crate) grid: Vec<GridAxis>,
}

/// Compiled kernels of this process, by program and variant.
static COMPILED: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);
type Known = HashMap<(Key, Variant), Arc<Compiled>>;

/// Lowers one variant of a program.
pub(crate) fn lower_program(program: &Program, variant: Variant) -> Result<Kernel, Error> {
    lower::lower(program, variant)
        .map_err(|e| Error::Lower { schedule: program.schedule.name.clone(), reason: e.to_string() })
}

/// The PTX of one variant of a program, from wherever it is nearest. `bytes` is the encoded program.
pub(crate) fn compile(
    cache: &PtxCache,
    program: &Program,
    bytes: &[u8],
    variant: Variant,
    warnings: &mut Vec<String>,
) -> Result<(Arc<Compiled>, PtxSource), Error> {
    let known = (Key(Sha256::digest(bytes).into()), variant);
    let found = COMPILED.lock().unwrap_or_else(PoisonError::into_inner).get(&known).cloned();
    if let Some(compiled) = found {
        return Ok((compiled, PtxSource::Memory));
    }
    // Another thread may compile the same meanwhile; both get the same text.
    let kernel = lower_program(program, variant)?;
    let (ptx, source) = ptx_of(cache, &kernel, warnings)?;
    let text = ptx.text.as_str().into();
    let compiled =
        Arc::new(Compiled { ptx, text, params: kernel.params, cleared: kernel.cleared, grid: kernel.grid });
    COMPILED.lock().unwrap_or_else(PoisonError::into_inner).insert(known, compiled.clone());
    Ok((compiled, source))
}

/// PTX of a kernel: compiled ahead of time, or on disk, or compiled now and put on disk.
fn ptx_of(cache: &PtxCache, kernel: &Kernel, warnings: &mut Vec<String>) -> Result<(Ptx, PtxSource), Error> {
    let key = Key::of(kernel);
    if let Some(ptx) = aot::find(&key) {
        return Ok((ptx, PtxSource::AheadOfTime));
    }
    match cache.get(&key) {
        Lookup::Found(ptx) => return Ok((ptx, PtxSource::Disk)),
        Lookup::Absent => {}
        Lookup::Unusable(why) => warnings.push(why),
    }
    let ptx = match backend_ptx::compile(kernel) {
        // What stood in the way of the cache is why there is no PTX.
        Err(CompileError::NoCodegen) if !warnings.is_empty() => {
            return Err(Error::Cache { trouble: warnings.join("; ") });
        }
        other => other?,
    };
    if let Err(e) = cache.put(&key, &ptx)
        && let Some(folder) = cache.folder()
    {
        warnings.push(format!("the compiled kernel cannot be kept in {}: {e}", folder.display()));
    }
    Ok((ptx, PtxSource::Compiled))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tile_dsl::{index::Extent, schedule::Target};

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
            grid: vec![GridAxis { extent: Extent::constant(1), tile: 1 }],
            min_ctas: None,
            assemble: None,
            body: vec![],
        }
    }

    fn source(cache: &PtxCache, kernel: &Kernel) -> (PtxSource, Vec<String>) {
        let mut warnings = Vec::new();
        let (ptx, source) = ptx_of(cache, kernel, &mut warnings).unwrap();
        assert!(ptx.text.contains(&format!(".entry {}", kernel.name)));
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
        let path = folder.path().join(Key::of(&kernel).to_string());
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
        let error = ptx_of(&PtxCache::disabled(), &kernel("missing"), &mut Vec::new()).unwrap_err();
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
        cache.put(&Key::of(&kernel), &ptx).unwrap();
        assert_eq!(source(&cache, &kernel), (PtxSource::Disk, vec![]));
        std::fs::write(folder.path().join(Key::of(&kernel).to_string()), "no entry").unwrap();
        let error = ptx_of(&cache, &kernel, &mut Vec::new()).unwrap_err();
        assert!(matches!(error, Error::Cache { .. }), "{error}");
    }
}

//! Launches: validation, distribution of CTAs over cores, merging of results.

use crate::Module;
use crate::counters;
use crate::engine::{Device, Engine, Env, Outcome};
use crate::findings::Log;
use crate::kernel::Kernel;
use crate::memory::{Memory, MemoryError};
use crate::race::{Budget, Crossings};
use crate::report::{self, Report};
use crate::resident;
use crate::simd::Simd;
use crate::turns;
use rayon::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// When asynchronous operations take effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AsyncMode {
    /// When the instruction issues.
    Early,
    /// At the last legal moment: when a wait for them returns. Until then the destination holds NaN bytes, so a
    /// missing wait gives visibly wrong data.
    #[default]
    Late,
}

/// What to launch and how. Build one with `Launch { kernel: "k".into(), ..Launch::default() }`.
#[derive(Clone)]
pub struct Launch<'a> {
    /// Name of the entry.
    pub kernel: String,
    /// CTAs in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a CTA in x, y, z.
    pub block: [u32; 3],
    /// CTAs of a cluster; `None`: what `.reqnctapercluster` says, or none.
    pub cluster: Option<[u32; 3]>,
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: u32,
    /// Raw little-endian bytes of each parameter, in order.
    pub params: Vec<Vec<u8>>,
    /// Number of SMs: decides `%smid`, `%nsmid` and how many CTAs may be resident at once.
    pub sm_count: u32,
    /// Seed of the schedule of warps, and of CTAs that may wait for one another; 0 is plain round robin.
    pub seed: u64,
    /// Run the kernel again on a copy of the memory, under the schedule of this seed, and add what only that run finds.
    ///
    /// Races are found whatever the schedule where barriers alone order threads; where flags, locks or mbarriers do,
    /// who comes first decides what is ordered. `None` by default, since it takes the time twice; the command line
    /// does it unless a seed is given.
    pub second_seed: Option<u64>,
    /// When asynchronous operations take effect.
    pub async_mode: AsyncMode,
    /// Look for races in shared and global memory.
    pub race_check: bool,
    /// Look for reads of shared memory that nothing wrote.
    pub uninit_check: bool,
    /// Demand `fence.mbarrier_init` or `fence.proxy.async` between the initialisation of an mbarrier and the bulk copies
    /// that signal it. Without, a CTA barrier in between is enough.
    ///
    /// On by default: `mbarrier.init` writes through the generic proxy and the copy signals from the asynchronous one,
    /// between which PTX ISA (memory consistency model, proxies) promises nothing without a fence; the CUDA programming
    /// guide fences "to make the initialized barrier visible in async proxy", and CUTLASS always does. Triton leaves the
    /// fence out within a CTA. An H200 does not decide it: six kernels of the mutation corpus without the fence, three
    /// of them in clusters, gave right results in each of 3000 runs (`scripts/record-h200.py check`).
    pub barrier_init_fence: bool,
    /// The launch is a programmatic dependent one: it may begin before earlier grids have ended. A thread that accesses global
    /// memory before it has executed `griddepcontrol.wait` is a finding, though nothing runs beside it here.
    ///
    /// Off by default: what an earlier grid does not write may be read at once, which the PTX does not tell.
    pub dependent: bool,
    /// Bytes of host memory that the race checks may take; `None`: three quarters of what the system says is free.
    ///
    /// They take 8 bytes for every element of global memory that a CTA touches, and 32 while that CTA runs or, where CTAs
    /// may wait for one another, until the end.
    pub check_memory: Option<u64>,
    /// Warp instructions after which a CTA is stopped with a finding.
    pub max_instructions: u64,
    /// Record what the first CTA does: [`Report::trace`](crate::Report::trace). Off by default.
    pub trace: bool,
    /// Called after each CTA with (done, total), from any thread.
    pub progress: Option<&'a (dyn Fn(u64, u64) + Sync)>,
}

impl Default for Launch<'_> {
    fn default() -> Self {
        Launch {
            kernel: String::new(),
            grid: [1; 3],
            block: [32, 1, 1],
            cluster: None,
            dynamic_shared: 0,
            params: vec![],
            sm_count: 132,
            seed: 0,
            second_seed: None,
            async_mode: AsyncMode::Late,
            race_check: true,
            uninit_check: true,
            barrier_init_fence: true,
            dependent: false,
            check_memory: None,
            max_instructions: 4_000_000_000,
            trace: false,
            progress: None,
        }
    }
}

/// Why a launch was refused. Nothing ran and nothing was written, but for [`LaunchError::CheckMemory`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// No entry of that name.
    ///
    /// What to do: launch one of the entries that the message lists.
    #[error("the module has no kernel `{name}`: it has {available}")]
    UnknownKernel {
        /// The name asked for.
        name: String,
        /// The names there are.
        available: String,
    },
    /// The kernel, or a function that it calls, contains what the simulator does not support.
    ///
    /// What to do: remove what the message names from the PTX. `docs/ptx-coverage.md` has what the simulator supports.
    #[error("kernel `{kernel}` cannot be run: {error}")]
    Refused {
        /// Kernel name.
        kernel: String,
        /// Where and why.
        error: crate::ParseError,
    },
    /// Wrong number of parameters.
    ///
    /// What to do: pass a value for each parameter of the entry.
    #[error("kernel `{kernel}` takes {expected} parameters, {given} were given")]
    ParamCount {
        /// Kernel name.
        kernel: String,
        /// Parameters of the kernel.
        expected: usize,
        /// Parameters given.
        given: usize,
    },
    /// A parameter of the wrong size.
    ///
    /// What to do: pass as many bytes as the parameter's type has.
    #[error("parameter {index} (`{name}`) has {expected} bytes, {given} were given")]
    ParamSize {
        /// Position from 0.
        index: usize,
        /// Name in the PTX text.
        name: String,
        /// Its size.
        expected: u32,
        /// Size given.
        given: usize,
    },
    /// An impossible grid or block.
    ///
    /// What to do: choose a grid and a block within the limits that the message names.
    #[error("{0}")]
    Shape(String),
    /// Too much shared memory.
    ///
    /// What to do: ask for less dynamic shared memory, or launch for a target that has more.
    #[error(
        "{bytes} bytes of shared memory ({fixed} static + {dynamic} dynamic) are above the {limit} that sm_{sm} has per CTA"
    )]
    SharedTooLarge {
        /// Sum.
        bytes: u64,
        /// Static part, padding included.
        fixed: u32,
        /// Dynamic part.
        dynamic: u32,
        /// Limit of the target.
        limit: u32,
        /// Target.
        sm: u32,
    },
    /// The race checks need more host memory than they may take, or than there is. The kernel was stopped; what it had
    /// written stays.
    ///
    /// What to do: launch fewer CTAs or smaller buffers, raise `check_memory`, or set `race_check: false`.
    #[error(
        "the race checks need more than {limit} bytes of host memory: launch fewer CTAs or smaller buffers, raise \
         `check_memory`, or leave the checks out (`race_check: false`)"
    )]
    CheckMemory {
        /// What they could take.
        limit: u64,
    },
    /// Module variables do not fit into memory.
    ///
    /// What to do: the message is that of a `MemoryError`, which has a card of its own.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// Bytes of shared memory that one CTA may use.
pub fn shared_limit(sm: u32) -> u32 {
    match sm {
        90.. if sm < 120 => 227 * 1024,
        80 | 87 => 163 * 1024,
        86 | 89 | 120.. => 99 * 1024,
        75 => 64 * 1024,
        70..80 => 96 * 1024,
        _ => 48 * 1024,
    }
}

fn validate<'m>(m: &'m Module, l: &Launch<'_>) -> Result<&'m Kernel, LaunchError> {
    let Some(at) = m.kernels().position(|k| k.name == l.kernel) else {
        let names: Vec<_> = m.kernels().map(|k| format!("`{}`", k.name)).collect();
        return Err(LaunchError::UnknownKernel {
            name: l.kernel.clone(),
            available: if names.is_empty() { "none".into() } else { names.join(", ") },
        });
    };
    let k = m.kernels[at]
        .as_ref()
        .map_err(|refused| LaunchError::Refused { kernel: l.kernel.clone(), error: refused.1.clone() })?;
    if l.params.len() != k.info.params.len() {
        return Err(LaunchError::ParamCount {
            kernel: l.kernel.clone(),
            expected: k.info.params.len(),
            given: l.params.len(),
        });
    }
    for (index, (p, v)) in k.info.params.iter().zip(&l.params).enumerate() {
        if v.len() != p.size as usize {
            return Err(LaunchError::ParamSize {
                index,
                name: p.name.clone(),
                expected: p.size,
                given: v.len(),
            });
        }
    }
    let shape = |s: String| Err(LaunchError::Shape(s));
    let [bx, by, bz] = l.block;
    let threads = l.block.iter().map(|x| *x as u64).product::<u64>();
    if threads == 0 || l.grid.contains(&0) {
        return shape(format!(
            "grid {:?} and block {:?} must be at least 1 in every dimension",
            l.grid, l.block
        ));
    }
    if threads > 1024 || bx > 1024 || by > 1024 || bz > 64 {
        return shape(format!(
            "a block of {:?} has {threads} threads: at most 1024 (64 in z) are possible",
            l.block
        ));
    }
    if l.grid[0] > i32::MAX as u32 || l.grid[1] > 65535 || l.grid[2] > 65535 {
        return shape(format!("grid {:?} is above the limit of 2147483647, 65535, 65535", l.grid));
    }
    if let Some(r) = k.info.required_threads
        && r != l.block
    {
        return shape(format!(
            "kernel `{}` requires a block of {r:?} (.reqntid), not {:?}",
            l.kernel, l.block
        ));
    }
    if let Some(max) = k.info.max_threads
        && threads > max.iter().map(|x| *x as u64).product()
    {
        return shape(format!(
            "kernel `{}` allows at most {max:?} threads (.maxntid), not {:?}",
            l.kernel, l.block
        ));
    }
    if let Some(c) = l.cluster.or(k.info.cluster) {
        let n = c.iter().map(|x| *x as u64).product::<u64>();
        if n == 0 || n > 16 || (0..3).any(|d| !l.grid[d].is_multiple_of(c[d])) {
            return shape(format!(
                "a cluster of {c:?} must have 1 to 16 CTAs and divide the grid {:?}",
                l.grid
            ));
        }
        if n > 1 && m.sm < 90 {
            return shape(format!("clusters need sm_90, the module is for sm_{}", m.sm));
        }
        if l.cluster.is_some() && k.info.cluster.is_some_and(|r| r != c) {
            return shape(format!(
                "kernel `{}` requires another cluster than {c:?} (.reqnctapercluster)",
                l.kernel
            ));
        }
    }
    if l.sm_count == 0 {
        return shape("sm_count must be at least 1".into());
    }
    let cluster = l.cluster.or(k.info.cluster).unwrap_or([1; 3]);
    let per_cluster = cluster.iter().map(|x| *x as u64).product::<u64>();
    let units = l.grid.iter().map(|x| *x as u64).product::<u64>() / per_cluster;
    let resident = resident::clusters(k, m.sm, l, per_cluster);
    if k.cooperative() && units > resident {
        let limit = resident::limit(resident, units, per_cluster, l.sm_count);
        return shape(format!("kernel `{}` synchronises its grid, but {limit}", l.kernel));
    }
    let (fixed, limit) = (k.dynamic.0.max(k.info.static_shared), shared_limit(m.sm));
    let bytes = fixed as u64 + l.dynamic_shared as u64;
    if bytes > limit as u64 {
        return Err(LaunchError::SharedTooLarge { bytes, fixed, dynamic: l.dynamic_shared, limit, sm: m.sm });
    }
    Ok(k)
}

/// Runs a kernel on the memory.
///
/// CTAs run in parallel over cores; results, counters and findings do not depend on the number of cores. Kernels
/// with global atomics whose order could show run their CTAs on one core: one after the other, with others started
/// when one spins, under seed 0; by turns that the seed picks, under any other.
///
/// # Errors
/// [`LaunchError`]; nothing ran then, with the exception named there. What goes wrong while running is in
/// [`Report::findings`].
pub fn launch(module: &Module, memory: &mut Memory, l: &Launch<'_>) -> Result<Report, LaunchError> {
    let Some(seed) = l.second_seed.filter(|s| *s != l.seed) else { return run(module, memory, l) };
    validate(module, l)?;
    let mut copy = memory.snapshot()?;
    let mut report = run(module, memory, l)?;
    let again = run(module, &mut copy, &Launch { seed, progress: None, ..l.clone() })?;
    report.add_found(again, seed);
    Ok(report)
}

fn run(module: &Module, memory: &mut Memory, l: &Launch<'_>) -> Result<Report, LaunchError> {
    let k = validate(module, l)?;
    let cluster = l.cluster.or(k.info.cluster).unwrap_or([1; 3]);
    let globals = module.place(memory)?;
    let workspace = if k.cooperative() { memory.alloc("workspace of the grid", 64)? } else { 0 };
    let mut params = vec![];
    for (p, v) in k.info.params.iter().zip(&l.params) {
        params.resize(p.offset as usize, 0);
        params.extend_from_slice(v);
    }
    let total = l.grid.iter().map(|x| *x as u64).product::<u64>();
    let per_cluster = cluster.iter().map(|x| *x as u64).product::<u64>();
    let units = total / per_cluster;
    let budget = Arc::new(Budget::new(l.check_memory.unwrap_or_else(free_memory)));
    let shared_granule = k.insts.iter().map(|i| i.op.shared_granule()).min().unwrap_or(4);
    let env = Env {
        k,
        mem: memory,
        simd: Simd::detect(),
        grid: l.grid,
        block: l.block,
        cluster,
        explicit_cluster: l.cluster.is_some() || k.info.cluster.is_some(),
        dynamic_shared: l.dynamic_shared,
        params,
        globals,
        workspace,
        sm_count: l.sm_count,
        seed: l.seed,
        async_mode: l.async_mode,
        race_check: l.race_check,
        uninit_check: l.uninit_check,
        barrier_init_fence: l.barrier_init_fence,
        dependent: l.dependent,
        max_instructions: l.max_instructions,
        trace: l.trace,
        crossings: (l.race_check && units > 1 && !k.sequential).then(|| {
            Crossings::new(memory.allocs.iter().map(|a| a.size).collect(), k.granule, budget.clone())
        }),
        shared_shift: shared_granule.trailing_zeros(),
        budget,
    };
    let done = AtomicU64::new(0);
    let tick = || {
        let n = done.fetch_add(per_cluster, Relaxed) + per_cluster;
        if let Some(p) = l.progress {
            p(n, total);
        }
    };
    let (counts, mut log) = if k.sequential {
        let resident = resident::clusters(k, module.sm, l, per_cluster);
        let limit = || resident::limit(resident, units, per_cluster, l.sm_count);
        merge(&env, turns::by_turns(&env, (units, resident), &tick, &limit))
    } else {
        parallel(&env, units, &tick)
    };
    if env.budget.exceeded() {
        return Err(LaunchError::CheckMemory { limit: env.budget.limit() });
    }
    report::crossings(k, &env, &counts, &mut log);
    let report = report::build(module, k, &env, total, counts, log);
    if workspace != 0 {
        memory.free(workspace)?;
    }
    Ok(report)
}

/// Three quarters of the host memory that the system says is free, where it says so: what the race checks of a launch may
/// take, if [`Launch::check_memory`] does not say.
pub fn free_memory() -> u64 {
    let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let free = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find(|l| l.starts_with("MemAvailable:"))?;
        Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
    });
    // A container may have less.
    let group = "/sys/fs/cgroup/memory.";
    let limit = number(&format!("{group}max")).zip(number(&format!("{group}current")));
    let inside = limit.map(|(max, now)| max.saturating_sub(now));
    free.into_iter().chain(inside).min().map_or(u64::MAX, |n| n / 4 * 3)
}

type Results = (counters::Raw, Log);

fn parallel(env: &Env<'_>, total: u64, tick: &(dyn Fn() + Sync)) -> Results {
    // The cut does not depend on the number of cores, so neither does what is merged.
    let chunk = total.div_ceil(256);
    let parts: Vec<Results> = (0..total.div_ceil(chunk))
        .into_par_iter()
        .map_init(
            || Engine::new(env, Device::new(env)),
            |e, c| {
                for cta in c * chunk..((c + 1) * chunk).min(total) {
                    e.start(cta);
                    while e.advance(u64::MAX) == Outcome::Pending {}
                    tick();
                }
                e.retire();
                let counts = counters::Raw::new(env.k.insts.len());
                (std::mem::replace(&mut e.counts, counts), std::mem::take(&mut e.log))
            },
        )
        .collect();
    merge(env, parts)
}

fn merge(env: &Env<'_>, parts: Vec<Results>) -> Results {
    let mut counts = counters::Raw::new(env.k.insts.len());
    let mut log = Log::default();
    for (c, l) in parts {
        counts.merge(c);
        log.merge(l);
    }
    (counts, log)
}

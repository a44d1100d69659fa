//! Before tensor maps are used: fences where they are in global memory, elsewhere a prefetch.
//!
//! The maps of a grouped kernel are in the table of its problems, which the host writes before the launch. A copy by such a map
//! goes another way to memory than ordinary loads, so each thread that names it acquires it first, once a problem.
//! Source: PTX ISA 9.7.13.4 (`fence.proxy.tensormap`); CUDA C++ Programming Guide, asynchronous data copies, on maps in global
//! memory.

use super::{error::LowerError, lowering::Lowering};
use crate::kernel::{Async, Stmt};
use std::collections::{BTreeMap, BTreeSet};

/// Puts an [`Async::PrefetchMap`] for each map that one thread uses before everything else, in that thread: it reads the map
/// while the others initialise what they share. Of a grouped kernel, puts an [`Async::AcquireMap`] behind each [`Stmt::Problem`], for the threads that use a map before the next.
pub(super) fn announce(lowering: &mut Lowering<'_>) -> Result<(), LowerError> {
    if lowering.kernel.grouped {
        block(&mut lowering.kernel.body);
        return Ok(());
    }
    let mut used = BTreeSet::new();
    uses(&lowering.kernel.body, None, &mut used);
    let mut threads: BTreeMap<u32, Vec<Stmt>> = BTreeMap::new();
    for (thread, map) in used {
        if let Some(thread) = thread {
            threads.entry(thread).or_default().push(Stmt::Async(Async::PrefetchMap { map }));
        }
    }
    let first = threads.into_iter().map(|(thread, body)| Stmt::One { thread, body });
    lowering.kernel.body.splice(0..0, first);
    Ok(())
}

fn block(stmts: &mut Vec<Stmt>) {
    let problem = stmts.iter().position(|s| matches!(s, Stmt::Problem { .. }));
    if let Some(at) = problem {
        let mut used = BTreeSet::new();
        uses(&stmts[at..], None, &mut used);
        let acquires = used.into_iter().map(|(thread, map)| {
            let acquire = Stmt::Async(Async::AcquireMap { map });
            match thread {
                Some(thread) => Stmt::One { thread, body: vec![acquire] },
                None => acquire,
            }
        });
        let acquires: Vec<Stmt> = acquires.collect();
        stmts.splice(at + 1..at + 1, acquires);
    }
    stmts.iter_mut().flat_map(Stmt::blocks_mut).for_each(block);
}

/// The maps that statements use, each with the warp whose thread does; `None` where the threads are those of the block.
fn uses(stmts: &[Stmt], thread: Option<u32>, used: &mut BTreeSet<(Option<u32>, u32)>) {
    for stmt in stmts {
        if let Stmt::Async(Async::Copy { map, .. } | Async::Store { map, .. }) = stmt {
            used.insert((thread, *map));
        }
        let inner = if let Stmt::One { thread, .. } = stmt { Some(*thread) } else { thread };
        stmt.blocks().into_iter().for_each(|b| uses(b, inner, used));
    }
}

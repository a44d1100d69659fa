//! Which buffer an access of shared memory means, given its address and its line of the PTX.
//!
//! Buffers may lie in the same bytes, one after the other. What kinds of access the kernel IR has of each buffer leaves some out. The others are told
//! apart by barriers, which no access of shared memory crosses: if the PTX has as many as the kernel IR, an access between two of them
//! in the one stands between the same two in the other. That is taken for granted only where it is true of every access whose buffer is
//! known by its address alone. What is still open has the names of all buffers that it may be: `a or acc`.

use ptx_sim::{Access, Trace};
use std::collections::BTreeSet;
use tile_dsl::kernel::{Async, Kernel, Mem, Stmt};

/// Kinds of accesses of shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Loads by lanes.
    Load,
    /// Stores by lanes.
    Store,
    /// The written side of `cp.async`.
    Copy,
    /// Boxes that tensor maps fill or store.
    Box,
    /// mbarriers.
    Barrier,
}

/// The buffers of a kernel, and where its PTX accesses them.
pub(crate) struct Places<'k> {
    kernel: &'k Kernel,
    /// What the kernel IR accesses between one barrier and the next: buffers, and how.
    between: Vec<BTreeSet<(u32, Kind)>>,
    /// Lines of barriers in the PTX, in order, where they are those of the kernel IR.
    barriers: Option<Vec<u32>>,
}

impl<'k> Places<'k> {
    /// Those of a kernel, its PTX and a run of it.
    pub(crate) fn of(kernel: &'k Kernel, ptx: &str, trace: &Trace) -> Self {
        let mut between = vec![BTreeSet::new()];
        kernel.body.iter().for_each(|stmt| walk(stmt, &mut between));
        let lines = (1..).zip(ptx.lines()).filter(|(_, line)| is_barrier(line)).map(|(n, _)| n);
        let lines: Vec<u32> = lines.collect();
        let mut places = Places { kernel, between, barriers: None };
        if lines.len() + 1 == places.between.len() {
            places.barriers = Some(lines);
            if !places.agree(trace) {
                places.barriers = None;
            }
        }
        places
    }

    /// Whether barriers tell the truth of each access whose buffer is known by its address and kind alone.
    fn agree(&self, trace: &Trace) -> bool {
        trace.requests.iter().filter(|r| r.buffer.is_none()).all(|request| {
            let kind = kind_of(request.access);
            let Some(at) = request.lanes.iter().flatten().min() else { return true };
            match self.candidates(*at, kind)[..] {
                [one] => self.segment(request.line).is_some_and(|s| {
                    // A store of the trace may be that of a `cp.async`.
                    s.contains(&(one, kind)) || (kind == Kind::Store && s.contains(&(one, Kind::Copy)))
                }),
                _ => true,
            }
        })
    }

    fn segment(&self, line: u32) -> Option<&BTreeSet<(u32, Kind)>> {
        let barriers = self.barriers.as_ref()?;
        self.between.get(barriers.partition_point(|at| *at < line))
    }

    /// Buffers that have a byte and are accessed in a way.
    fn candidates(&self, at: u64, kind: Kind) -> Vec<u32> {
        let has = |(_, b): &(u32, &tile_dsl::kernel::Shared)| (b.start..b.start + b.bytes()).contains(&at);
        let all: Vec<u32> = (0..).zip(&self.kernel.shared).filter(has).map(|(n, _)| n).collect();
        let used = |n: &u32| {
            let any = |kind| self.between.iter().any(|segment| segment.contains(&(*n, kind)));
            any(kind) || (kind == Kind::Store && any(Kind::Copy))
        };
        let used: Vec<u32> = all.iter().copied().filter(used).collect();
        if used.is_empty() { all } else { used }
    }

    /// The names of the buffers that an access of a byte at a line of the PTX may mean; none where no buffer has it.
    pub(crate) fn names(&self, at: u64, kind: Kind, line: u32) -> Vec<&'k str> {
        let mut found = self.candidates(at, kind);
        if found.len() > 1
            && let Some(segment) = self.segment(line)
        {
            let here: Vec<u32> = found.iter().copied().filter(|n| segment.contains(&(*n, kind))).collect();
            if !here.is_empty() {
                found = here;
            }
        }
        found.into_iter().map(|n| self.kernel.shared[n as usize].name.as_str()).collect()
    }

    /// The same as one name.
    pub(crate) fn name(&self, at: u64, kind: Kind, line: u32) -> String {
        match self.names(at, kind, line) {
            names if names.is_empty() => "shared memory".into(),
            names => names.join(" or "),
        }
    }

    /// The name of an mbarrier: its buffer, and which of them it is.
    pub(crate) fn mbarrier(&self, at: u32, line: u32) -> (String, String) {
        /// Bytes of an mbarrier.
        const BYTES: u64 = 8;
        let names = self.names(at.into(), Kind::Barrier, line);
        let buffer = self.kernel.shared.iter().find(|b| names.first() == Some(&b.name.as_str()));
        match buffer {
            Some(b) => (b.name.clone(), format!("{}[{}]", b.name, (u64::from(at) - b.start) / BYTES)),
            None => ("mbarrier".into(), format!("mbarrier at byte {at}")),
        }
    }
}

/// How an access in a direction is called here.
pub(crate) fn kind_of(access: Access) -> Kind {
    if access == Access::Load { Kind::Load } else { Kind::Store }
}

fn is_barrier(line: &str) -> bool {
    let code = line.trim_start();
    // A predicate may stand before.
    let code = if code.starts_with('@') {
        code.split_once(char::is_whitespace).map_or("", |(_, rest)| rest)
    } else {
        code
    };
    let code = code.trim_start();
    ["bar.sync", "barrier.sync", "bar.red", "barrier.cta"].iter().any(|op| code.starts_with(op))
}

fn walk(stmt: &Stmt, between: &mut Vec<BTreeSet<(u32, Kind)>>) {
    let mut add = |buffer: u32, kind: Kind| {
        if let Some(last) = between.last_mut() {
            last.insert((buffer, kind));
        }
    };
    match stmt {
        Stmt::Barrier | Stmt::GroupBarrier(_) => between.push(BTreeSet::new()),
        // A barrier before the counter and one behind it.
        Stmt::Arrive { .. } => between.extend([BTreeSet::new(), BTreeSet::new()]),
        Stmt::Load { mem: Mem::Shared(n), .. } | Stmt::LoadMatrices { shared: n, .. } => add(*n, Kind::Load),
        Stmt::Store { mem: Mem::Shared(n), .. } | Stmt::StoreMatrices { shared: n, .. } => {
            add(*n, Kind::Store)
        }
        Stmt::StorePeer { shared: n, .. } => add(*n, Kind::Store),
        Stmt::CopyAsync { shared: n, .. } => add(*n, Kind::Copy),
        Stmt::Async(Async::Copy { shared: n, barrier, .. }) => {
            add(*n, Kind::Box);
            add(*barrier, Kind::Barrier);
        }
        Stmt::Async(Async::Store { shared: n, .. }) => add(*n, Kind::Box),
        Stmt::Async(
            Async::Init { barrier, .. }
            | Async::Arrive { barrier, .. }
            | Async::Wait { barrier, .. }
            | Async::Look { barrier, .. },
        ) => {
            add(*barrier, Kind::Barrier);
        }
        _ => {}
    }
    for block in stmt.blocks() {
        block.iter().for_each(|inner| walk(inner, between));
    }
}

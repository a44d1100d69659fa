//! Accesses of memory: the simulator's counts by instruction, with the addresses of the first requests.

use crate::{
    model::{AccessView, Counted, Memory, Totals, WarpLanes},
    places::{Kind, Places, kind_of},
};
use ptx_sim::{Access, Counters, Request, SiteCount, Trace};
use std::collections::BTreeMap;

/// Bytes of a sector of global memory.
pub(crate) const SECTOR: u64 = 32;

/// What instructions have in common that are shown as one access. Addresses count from the lowest of a warp.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Pattern {
    shared: bool,
    buffer: String,
    access: Access,
    instruction: String,
    bytes: u32,
    warps: Vec<(u32, u32, Vec<Option<u64>>)>,
}

/// The accesses of a run.
pub(crate) fn collect(places: &Places<'_>, counters: &Counters, trace: &Trace, ptx: &str) -> Memory {
    let text: Vec<&str> = ptx.lines().collect();
    let mut found: BTreeMap<Pattern, AccessView> = BTreeMap::new();
    for site in &counters.sites {
        let global = site.global.iter().map(|b| (Some(b.buffer.as_str()), global(&b.count)));
        let shared = site.shared.iter().map(|s| (None, shared(s)));
        for (buffer, counted) in global.chain(shared) {
            let own = trace.requests.iter().filter(|r| r.line == site.line && r.buffer.as_deref() == buffer);
            let mut requests: Vec<&Request> = own.collect();
            // Which warp came first is of no consequence.
            requests.sort_by_key(|r| r.warp);
            let pattern = pattern(places, site, buffer, &requests);
            let view =
                found.entry(pattern).or_insert_with_key(|pattern| view(pattern, site, &requests, &text));
            view.lines.push(site.line);
            let sum = &mut view.counted;
            sum.requests += counted.requests;
            sum.units += counted.units;
            sum.least += counted.least;
            sum.bytes += counted.bytes;
        }
    }
    let mut accesses: Vec<AccessView> = found.into_values().collect();
    for access in &mut accesses {
        let drawn: Vec<u32> = access.warps.iter().map(|w| w.cost).collect();
        let even = drawn.windows(2).all(|pair| pair[0] == pair[1]);
        let each = drawn.first().map(|cost| u64::from(*cost) * access.counted.requests);
        access.uneven = !even || each.is_some_and(|all| all != access.counted.units);
    }
    accesses.sort_by_key(|a| (a.shared, std::cmp::Reverse(a.counted.units), a.lines.first().copied()));
    let (load, store, atomic) = (counters.global_load, counters.global_store, counters.global_atomic);
    let inside = [counters.shared_load, counters.shared_store, counters.shared_atomic];
    Memory {
        accesses,
        totals: Totals {
            global_requests: load.requests + store.requests + atomic.requests,
            sectors: load.sectors + store.sectors + atomic.sectors,
            shared_requests: inside.iter().map(|c| c.requests).sum(),
            wavefronts: inside.iter().map(|c| c.wavefronts).sum(),
            conflicts: inside.iter().map(|c| c.bank_conflicts).sum(),
        },
    }
}

fn global(count: &ptx_sim::GlobalCount) -> Counted {
    // Sectors that would hold the bytes, at least one a request. Lanes that read the same bytes ask for them more than once.
    let least = count.bytes.div_ceil(SECTOR).max(count.requests).min(count.sectors);
    Counted { requests: count.requests, units: count.sectors, least, bytes: count.bytes }
}

fn shared(count: &ptx_sim::SharedCount) -> Counted {
    Counted {
        requests: count.requests,
        units: count.wavefronts,
        least: count.wavefronts - count.bank_conflicts,
        bytes: count.bytes,
    }
}

fn pattern(places: &Places<'_>, site: &SiteCount, buffer: Option<&str>, requests: &[&Request]) -> Pattern {
    let lowest = |r: &Request| r.lanes.iter().flatten().min().copied().unwrap_or(0);
    // The class of a copy says where it reads; its other half is a store.
    let copies = site.instruction.starts_with("cp.");
    let stores = copies && (buffer.is_none() || site.instruction.contains("global.shared"));
    let access = match requests.first() {
        Some(request) => request.access,
        None if stores => Access::Store,
        None => site.access,
    };
    let kind = if copies { Kind::Copy } else { kind_of(access) };
    let name = match (buffer, requests.first()) {
        (Some(name), _) => name.to_string(),
        (None, Some(first)) => places.name(lowest(first), kind, site.line),
        (None, None) => "shared memory".into(),
    };
    let warps = requests.iter().map(|r| {
        let lowest = lowest(r);
        (r.warp, r.cost, r.lanes.iter().map(|lane| lane.map(|at| at - lowest)).collect())
    });
    Pattern {
        shared: buffer.is_none(),
        buffer: name,
        access,
        instruction: site.instruction.clone(),
        bytes: requests.first().map_or(0, |r| r.bytes),
        warps: warps.collect(),
    }
}

fn view(pattern: &Pattern, site: &SiteCount, requests: &[&Request], text: &[&str]) -> AccessView {
    let line = text.get((site.line as usize).saturating_sub(1)).map_or("", |line| line.trim());
    let warps = requests.iter().map(|r| WarpLanes {
        warp: r.warp,
        lanes: r.lanes.to_vec(),
        cost: r.cost,
        least: r.least,
    });
    AccessView {
        access: pattern.access,
        shared: pattern.shared,
        buffer: pattern.buffer.clone(),
        instruction: pattern.instruction.clone(),
        text: line.to_string(),
        lines: Vec::new(),
        bytes: pattern.bytes,
        matrices: requests.first().is_some_and(|r| r.matrices),
        counted: Counted::default(),
        warps: warps.collect(),
        uneven: false,
    }
}

//! From raw counts to the report.

use crate::Module;
use crate::counters::*;
use crate::engine::Env;
use crate::findings::{Finding, FindingGroup, FindingKind, Log, RaceKind};
use crate::kernel::Kernel;
use crate::op::{BulkDir, InstClass, Op};
use serde::Serialize;
use std::collections::BTreeMap;

/// What a launch counted and found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Exact counts of the PTX that ran.
    pub counters: Counters,
    /// What is wrong with the program, in the order of CTAs; empty for a clean run.
    pub findings: Vec<Finding>,
    /// What `printf` wrote, in the order of CTAs: at most 1 MiB, the rest is lost, as on a GPU.
    pub printed: String,
    /// What the first CTA did, where [`Launch::trace`](crate::Launch::trace) asks for it.
    #[serde(skip)]
    pub trace: Option<crate::trace::Trace>,
}

impl Report {
    /// Adds what another run of the same launch found and this one did not.
    pub(crate) fn add_found(&mut self, other: Report, seed: u64) {
        for mut f in other.findings {
            let same = |o: &Finding| (o.kind, o.line, o.column) == (f.kind, f.line, f.column);
            if !self.findings.iter().any(same) {
                f.message += &format!("; found with the schedule of seed {seed}");
                self.findings.push(f);
            }
        }
    }

    /// The findings by kind and line of the source, each group with how often it happened: one mistake in an unrolled or
    /// inlined loop is many findings and one group.
    pub fn groups(&self) -> Vec<FindingGroup> {
        crate::findings::groups(&self.findings)
    }

    /// No findings.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }
}

fn direction(class: InstClass) -> Access {
    match class {
        InstClass::GlobalStore | InstClass::SharedStore => Access::Store,
        InstClass::Atomic => Access::Atomic,
        _ => Access::Load,
    }
}

fn add(to: &mut GlobalCount, c: &GlobalCount) {
    to.requests += c.requests;
    to.sectors += c.sectors;
    to.bytes += c.bytes;
}

/// Adds the races between clusters that cannot synchronise.
pub(crate) fn crossings(k: &Kernel, env: &Env<'_>, raw: &Raw, log: &mut Log) {
    let Some(c) = &env.crossings else { return };
    for (alloc, race) in c.races() {
        let touching = |stores: bool| {
            (0..k.sites.len()).filter(move |pc| {
                let class = k.sites[*pc].class;
                let store = matches!(class, InstClass::GlobalStore | InstClass::Atomic)
                    || matches!(&k.insts[*pc].op, Op::Bulk(b) if b.dir == BulkDir::SharedToGlobal);
                store == stores && raw.mem[*pc].buffers.iter().any(|b| b.0 as usize == alloc)
            })
        };
        let lines = |stores: bool| {
            let list: Vec<_> = touching(stores).map(|pc| k.sites[pc].line.to_string()).collect();
            list.join(", ")
        };
        let kind = FindingKind::GlobalRace(race.kind);
        let Some(pc) = touching(true).next() else { continue };
        let what = match race.kind {
            RaceKind::WriteWrite => format!("write (line {})", lines(true)),
            _ => format!("write (line {}) and read (line {})", lines(true), lines(false)),
        };
        log.add(kind, pc as u32, u64::MAX, || crate::findings::Raw {
            kind,
            message: kind.cite(format!(
                "different CTAs {what} the same bytes of `{}`, first byte {}, {} places in all; nothing in this kernel orders CTAs",
                env.mem.allocs[alloc].name, race.at, race.places
            )),
            pc: pc as u32,
            cta: [0; 3],
            warp: 0,
            lane: 0,
            count: 1,
        });
    }
}

pub(crate) fn build(m: &Module, k: &Kernel, env: &Env<'_>, ctas: u64, raw: Raw, log: Log) -> Report {
    let mut c = Counters { ctas, warps: raw.warps, barriers: raw.barriers, ..Counters::default() };
    c.barriers_per_cta = raw.barriers as f64 / ctas as f64;
    let mut buffers: BTreeMap<(u32, Access), GlobalCount> = BTreeMap::new();
    for (pc, site) in k.sites.iter().enumerate() {
        let n = raw.pc[pc];
        if n.warps == 0 {
            continue;
        }
        let executed = InstCount { warp: n.warps, thread: n.threads };
        c.instructions.warp += n.warps;
        c.instructions.thread += n.threads;
        let mix = c.mix.entry(site.class).or_default();
        mix.warp += n.warps;
        mix.thread += n.threads;
        c.flops += n.threads * site.flops as u64;
        let mem = &raw.mem[pc];
        if mem.shared_requests == 0 && mem.buffers.is_empty() {
            continue;
        }
        let access = direction(site.class);
        let mut global = vec![];
        for &(alloc, requests, sectors, bytes) in &mem.buffers {
            let count = GlobalCount { requests, sectors, bytes };
            add(buffers.entry((alloc, access)).or_default(), &count);
            let total = match access {
                Access::Load => &mut c.global_load,
                Access::Store => &mut c.global_store,
                Access::Atomic => &mut c.global_atomic,
            };
            add(total, &count);
            global.push(BufferCount {
                buffer: env.mem.allocs[alloc as usize].name.to_string(),
                access,
                count,
            });
        }
        global.sort_by(|a, b| a.buffer.cmp(&b.buffer));
        let shared = (mem.shared_requests > 0).then(|| {
            let s = SharedCount {
                requests: mem.shared_requests,
                wavefronts: mem.wavefronts,
                bank_conflicts: mem.wavefronts - mem.ideal_wavefronts,
                bytes: mem.shared_bytes,
            };
            // A copy into shared memory loads from global memory and stores here.
            let total = match site.class {
                InstClass::Atomic => &mut c.shared_atomic,
                InstClass::SharedStore | InstClass::AsyncCopy => &mut c.shared_store,
                _ => &mut c.shared_load,
            };
            total.requests += s.requests;
            total.wavefronts += s.wavefronts;
            total.bank_conflicts += s.bank_conflicts;
            total.bytes += s.bytes;
            s
        });
        c.sites.push(SiteCount {
            line: site.line,
            instruction: site.text.clone(),
            access,
            executed,
            global,
            shared,
        });
    }
    for ((alloc, access), count) in buffers {
        c.buffers.push(BufferCount {
            buffer: env.mem.allocs[alloc as usize].name.to_string(),
            access,
            count,
        });
    }
    let bytes = c.global_load.bytes + c.global_store.bytes + c.global_atomic.bytes;
    c.arithmetic_intensity = (bytes > 0).then(|| c.flops as f64 / bytes as f64);
    let printed = log.printed;
    let findings = log
        .list
        .into_iter()
        .map(|r| {
            let site = &k.sites[r.pc as usize];
            let (source, inlined) = crate::findings::origin(m, site.loc);
            Finding {
                kind: r.kind,
                message: r.message,
                line: site.line,
                column: site.col,
                source,
                inlined,
                instruction: site.text.clone(),
                cta: r.cta,
                warp: r.warp,
                lane: r.lane,
                count: r.count,
            }
        })
        .collect();
    Report { counters: c, findings, printed, trace: env.trace.then_some(raw.trace) }
}

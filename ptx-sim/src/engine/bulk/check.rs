//! What a bulk copy reads and writes, counted and checked for races when it is issued.

use super::{Chunk, Transfer};
use crate::engine::{Engine, Warp};
use crate::findings::FindingKind;
use crate::kernel::SHARED_BASE;
use crate::op::*;
use crate::race::{ANY_LANE, Access, FOREIGN, Proxied, Run, Seen, Side, Strength, Who};

impl Engine<'_> {
    /// Global traffic of one transfer; pieces outside every allocation are filled and become a finding.
    pub(super) fn count_bulk(
        &mut self,
        w: &Warp,
        pc: u32,
        lane: u32,
        chunks: &[Chunk],
        store: bool,
        dir: BulkDir,
    ) {
        if dir == BulkDir::SharedToShared {
            return;
        }
        let mut by: Vec<(usize, u64, u64)> = vec![];
        let mut last = u64::MAX;
        for c in chunks.iter().filter(|c| c.fill.is_none()) {
            let Some(a) = self.env.mem.find(c.global) else {
                let near = self.env.mem.nearest(c.global).unwrap_or_else(|| "nothing is allocated".into());
                let what = if store { "store" } else { "load" };
                self.find(FindingKind::OutOfBounds, w, pc, lane, 6, || {
                    format!("bulk {what} at {:#x}: {near}", c.global)
                });
                continue;
            };
            let first = c.global / 32;
            let end = (c.global + c.n as u64 - 1) / 32;
            let sectors = (end - first + 1) - (first == last) as u64;
            last = end;
            match by.iter_mut().find(|b| b.0 == a) {
                Some(b) => {
                    b.1 += sectors;
                    b.2 += c.n as u64;
                }
                None => by.push((a, sectors, c.n as u64)),
            }
        }
        for (a, sectors, bytes) in by {
            self.counts.mem[pc as usize].global(a as u32, sectors, bytes);
        }
    }

    /// What an asynchronous access comes after that the lanes `m` of a warp start.
    pub(in crate::engine) fn proxied(&self, issuer: usize, m: u32) -> Proxied {
        self.clocks.proxied(issuer, m, 2 * self.warps.len())
    }

    /// Race checks of both sides at issue; the accesses belong to the copy's own agent.
    pub(super) fn check_transfer(&mut self, w: &Warp, pc: u32, lane: u32, t: &Transfer) {
        if !self.checks() {
            return;
        }
        let issuer = w.agent(self.wpc);
        let proxied = self.proxied(issuer, 1 << lane);
        let seen = proxied.seen();
        let who = Who {
            agent: t.agent as u32,
            lane: ANY_LANE,
            clock: t.clock | FOREIGN,
            floor: 0,
            settled: 0,
            bit: 0,
            pc,
            strength: Strength::WEAK,
            partial: false,
        };
        let mut sides: Vec<(usize, bool)> = t.to.iter().map(|d| (d.0, true)).collect();
        if t.dir != BulkDir::GlobalToShared {
            sides.push((t.from, false));
        }
        let mut first = None;
        for (rank, write) in sides {
            let remote = t.dir == BulkDir::SharedToShared && write;
            let mut run = Run::default();
            let mut span: Option<(u32, u32)> = None;
            let shadow = &mut self.ctas[rank].shadow;
            let mut check = |span: Option<(u32, u32)>| {
                if let Some(s) = span {
                    first = first.or(shadow.bulk(s, write, &who, seen, &mut run));
                }
            };
            // What a tensor store leaves out of global memory it does not read either (§5.5.3).
            for c in t.chunks.iter().filter(|c| write || c.fill.is_none()) {
                let at = if remote { (c.global as u32 & 0xff_ffff) - SHARED_BASE } else { c.shared };
                match &mut span {
                    Some((from, n)) if *from + *n == at => *n += c.n as u32,
                    _ => check(span.replace((at, c.n as u32))),
                }
            }
            check(span);
        }
        if let Some((issue, at)) = first {
            self.report_async(w, pc, lane, at, issue);
        }
        if t.dir != BulkDir::SharedToShared && self.env.race_check {
            self.check_transfer_global(w, pc, lane, t, seen);
        }
    }

    /// The global side: read by the copy's agent, or written by the one that stands for its writes.
    fn check_transfer_global(&mut self, w: &Warp, pc: u32, lane: u32, t: &Transfer, seen: Seen<'_>) {
        let write = t.dir == BulkDir::SharedToGlobal;
        let issuer = w.agent(self.wpc);
        let agent = if write { self.writer(t.agent) } else { t.agent } as u16;
        let cta = self.ctas[w.cta as usize].linear as u32 + 1;
        let strength = if t.reduce.is_some() { Strength::STRONG } else { Strength::WEAK };
        let access = Access { cta, clock: t.clock, pc, agent, lane: ANY_LANE as u8, strength };
        let me = self.accessor(access, None);
        let device = self.device.clone();
        let device = &mut *device.borrow_mut();
        let (whole, per_unit, unit) = (device.whole, me.per_unit, (cta - 1) / me.per_unit);
        let clocks = &self.clocks;
        let of = |a: &Access, o: &Access, read: bool| {
            let u = o.cta.wrapping_sub(1) / per_unit;
            let (who, other) = (a.who(), o.who());
            match u == unit {
                true if read => seen.after_read(who, other),
                true => seen.after_write(who, other),
                false if whole => {
                    let side = if read { Side::Reads } else { Side::Proxied };
                    clocks.seen_of(issuer, u + 1, (o.agent as usize, o.lane as u32), o.clock, side)
                }
                false => true,
            }
        };
        let (reads, writes) =
            (|a: &Access, o: &Access| of(a, o, true), |a: &Access, o: &Access| of(a, o, false));
        let mut first = None;
        let step = 1u64 << device.shadow.shift();
        for c in t.chunks.iter().filter(|c| c.fill.is_none()) {
            let Some(ai) = self.env.mem.find(c.global) else { continue };
            let a = &self.env.mem.allocs[ai];
            // Granules that the piece covers in full.
            let begin = (c.global - a.base).next_multiple_of(step);
            let end = (c.global - a.base + c.n as u64) & !(step - 1);
            if begin < end {
                let span = (begin, (end - begin) as u32);
                let hit = device.shadow.access((ai as u32, a.size), span, &me, write, &reads, &writes);
                first = first.or(hit.map(|c| (ai, c)));
            }
        }
        if let Some((ai, c)) = first {
            let (kind, text) = self.describe_global(issuer, lane, ai, &c, true);
            self.find(kind, w, pc, lane, c.with.pc as u64, || text);
        }
    }
}

//! mbarrier objects (PTX ISA §9.7.13.15).
//!
//! A phase completes when no arrivals are pending and the tx-count is zero; the pending count is reloaded at once.
//! The tx-count may be negative for a while. The object's bits are opaque, so they are kept beside the memory.

use super::mem::classify;
use super::{Engine, Flow, Warp};
use crate::findings::FindingKind;
use crate::kernel::SHARED_BASE;
use crate::op::*;
use crate::race::{Scope, Strength, SyncWord, Token, Who};
use std::collections::BTreeMap;

const SPLIT_ARRIVAL: &str =
    "the lanes of one arrive fall into two phases: fewer arrivals are expected than are made";
const MAX_COUNT: u32 = (1 << 20) - 1;

#[derive(Debug, Default)]
pub(super) struct MBarrier {
    /// Arrivals that a phase expects, and those still missing in the current one.
    expected: u32,
    pending: u32,
    /// Bytes announced and not yet copied.
    tx: i64,
    /// Completed phases.
    phase: u64,
    /// What this phase's arrivals released, and what those of all completed phases did.
    released: SyncWord,
    done: SyncWord,
    /// The same of the copies that signal it: `complete_tx` releases to every waiter (§9.7.13.15.14).
    copied: Token,
    arrived: Token,
    /// Who initialised it, warp and lane, and at which clock.
    init: ((usize, u32), u32),
    /// Warps of other CTAs that arrived, when and in which lane.
    pub(super) remote: BTreeMap<u32, (u32, u32)>,
    /// The initialiser's clock at the fence that made it visible to the asynchronous proxy and the cluster.
    fenced: Option<u32>,
}

impl MBarrier {
    fn describe(&self) -> String {
        let bytes = match self.tx {
            0 => String::new(),
            t if t > 0 => format!(", {t} bytes announced by expect_tx have not arrived"),
            t => format!(", {} bytes arrived that no expect_tx announced", -t),
        };
        format!("phase {}, {} of {} arrivals pending{bytes}", self.phase, self.pending, self.expected)
    }

    fn settle(&mut self) {
        if self.pending == 0 && self.tx == 0 {
            self.phase += 1;
            self.pending = self.expected;
            let released = std::mem::take(&mut self.released);
            self.done.join(&released);
            let copied = std::mem::take(&mut self.copied);
            self.arrived.join(&copied);
        }
    }
}

impl Engine<'_> {
    /// CTA and offset of the mbarrier that lane `lane` names; `None` after a finding.
    pub(super) fn mbar_place(
        &mut self,
        w: &Warp,
        pc: u32,
        space: MSpace,
        addr: u64,
        lane: u32,
    ) -> Option<(usize, u32)> {
        let (s, a) = if space == MSpace::Generic { classify(addr) } else { (space, addr) };
        let (rank, off) = ((a >> 24 & 0xff) as usize, (a as u32 & 0xff_ffff).wrapping_sub(SHARED_BASE));
        let alive = |c: &super::Cta| c.live_threads != 0 && off < c.size.saturating_sub(7);
        let ok = s == MSpace::Shared && self.ctas.get(rank).is_some_and(alive);
        if !ok || !off.is_multiple_of(8) {
            self.find(FindingKind::Mbarrier, w, pc, lane, 0, || {
                format!(
                    "address {addr:#x} is no place for an mbarrier: it needs 8 aligned bytes of shared memory of a CTA that has not exited"
                )
            });
            return None;
        }
        Some((rank, off))
    }

    fn misuse(&mut self, w: &Warp, pc: u32, lane: u32, at: (usize, u32), key: u64, what: String) {
        let place = self.shared_name(at.1);
        self.find(FindingKind::Mbarrier, w, pc, lane, key, || format!("mbarrier at {place}: {what}"));
    }

    /// Checks that the mbarrier exists and that this warp is ordered after its initialisation.
    fn mbar_known(&mut self, w: &Warp, pc: u32, lane: u32, at: (usize, u32)) -> bool {
        let Some(b) = self.ctas[at.0].mbars.get(&at.1) else {
            self.misuse(w, pc, lane, at, 1, "it is not initialised (mbarrier.init)".into());
            return false;
        };
        // Threads use it through the generic proxy, whichever CTA they are in: happens-before decides (§8.9.5).
        if self.env.race_check && !self.clocks.seen_init(w.agent(self.wpc), b.init.0, b.init.1) {
            let what = "this use is not ordered after its initialisation: a barrier is missing";
            self.misuse(w, pc, lane, at, 2, what.into());
        }
        true
    }

    pub(super) fn mbarrier(&mut self, w: &mut Warp, pc: u32, x: &MBar, m: u32) -> Flow {
        let agent = w.agent(self.wpc);
        if x.kind == MBarKind::PendingCount {
            let v = w.regs.get64(x.b);
            w.regs.put(x.d, &v.map(|s| (s >> 40) as u32 & MAX_COUNT), m);
            return Flow::Next;
        }
        let addr = self.lane_addresses(w, &x.addr, x.space);
        let (mut state, mut pred, mut failed) = ([0u64; 32], 0u32, false);
        let mut copies = vec![];
        let now = self.clocks.now(agent);
        // What waits without acquire have observed, for a fence to acquire.
        let mut relaxed: Vec<((usize, u32), SyncWord)> = vec![];
        // Mbarriers whose phase an arrival of this instruction completed.
        let mut completed: Vec<(usize, u32)> = vec![];
        // One release stands for the arrivals of all lanes.
        let here = self.place(w);
        let arrives = matches!(x.kind, MBarKind::Arrive { .. });
        let sem = if x.ordered { Sem::Release } else { Sem::Relaxed };
        let published = if arrives { self.published(w, m, sem, x.scope) } else { vec![] };
        for lane in (0..32u32).filter(|i| m >> i & 1 != 0) {
            let i = lane as usize;
            let Some(at) = self.mbar_place(w, pc, x.space, addr[i], lane) else { continue };
            let value = |s: Slot, default: u32| if s == SINK { default } else { w.regs.r[s as usize].0[i] };
            if x.kind == MBarKind::Init {
                self.mbar_init(w, pc, lane, at, value(x.b, 1));
                continue;
            }
            if !self.mbar_known(w, pc, lane, at) {
                // Waiting for nothing would never end.
                pred |= 1 << lane;
                continue;
            }
            let remote = at.0 != w.cta as usize;
            let Some(b) = self.ctas[at.0].mbars.get_mut(&at.1) else { continue };
            let mut error = None;
            match x.kind {
                MBarKind::Inval => {
                    self.ctas[at.0].mbars.remove(&at.1);
                    self.events += 1;
                    if self.checks() {
                        self.target = at.0;
                        let who = Who { lane, ..self.who(w, pc, Strength::WEAK) };
                        self.ctas[at.0].shadow.stamp(at.1, 8, &who);
                    }
                    continue;
                }
                MBarKind::ExpectTx => b.tx += value(x.b, 0) as i64,
                MBarKind::CompleteTx => {
                    b.tx -= value(x.b, 0) as i64;
                    b.settle();
                }
                MBarKind::Arrive { drop, expect, no_complete } => {
                    state[i] = b.phase | (b.pending as u64) << 40;
                    let n = if expect { 1 } else { value(x.b, 1) };
                    if expect {
                        b.tx += value(x.b, 0) as i64;
                    }
                    for (scope, token) in &published {
                        b.released.publish(&self.clocks, here, *scope, token);
                    }
                    if remote {
                        b.remote.insert(agent as u32, (now, lane));
                    }
                    if completed.contains(&at) {
                        error = Some(SPLIT_ARRIVAL.into());
                    }
                    if n > b.pending {
                        error =
                            Some(format!("{n} arrivals, but only {} are pending in this phase", b.pending));
                    }
                    b.pending = b.pending.saturating_sub(n);
                    if drop {
                        b.expected = b.expected.saturating_sub(n);
                    }
                    if no_complete && b.pending == 0 {
                        error = Some("arrive.noComplete completes the phase".into());
                    }
                    let phase = b.phase;
                    b.settle();
                    if b.phase != phase {
                        completed.push(at);
                    }
                }
                MBarKind::CopyArrive { noinc } => {
                    // Without `.noinc` the phase also waits for an arrival that is made here.
                    if !noinc {
                        b.pending += 1;
                    } else if b.pending == 0 {
                        error = Some("an arrival, but none is pending in this phase".into());
                    }
                    copies.push((1 << lane, at));
                }
                MBarKind::TestWait { parity } => {
                    let ok = if parity {
                        let p = value(x.b, 0);
                        b.phase & 1 != p as u64 & 1
                    } else {
                        let s = w.regs.r[x.b as usize].0[i] as u64
                            | (w.regs.r[x.b as usize + 1].0[i] as u64) << 32;
                        b.phase != s & ((1 << 40) - 1)
                    };
                    if remote {
                        error = Some("only its own CTA may wait for it".into());
                    }
                    if ok {
                        pred |= 1 << lane;
                        if x.ordered {
                            self.clocks.acquire(agent, &b.arrived);
                            b.done.observe(&mut self.clocks, agent, here, x.scope);
                        } else {
                            let mut word = b.done.clone();
                            word.publish(&self.clocks, here, Scope::Cta, &b.arrived);
                            relaxed.push((at, word));
                        }
                    } else {
                        failed = true;
                        w.poll = None;
                        w.waits = Some((at.0 as u32, at.1, value(x.b, 0) & 1));
                    }
                }
                MBarKind::Init | MBarKind::PendingCount => {}
            }
            if let Some(b) = self.ctas[at.0].mbars.get(&at.1)
                && b.tx.unsigned_abs() > MAX_COUNT as u64
            {
                error = Some(format!("the tx-count {} is outside ±(2^20−1)", b.tx));
            }
            if let Some(e) = error {
                self.misuse(w, pc, lane, at, 10, e);
            }
        }
        for ((rank, off), word) in relaxed {
            // Keys of global words have the number of an allocation here.
            let key = (!(rank as u32), off as u64 / 4);
            self.strong_read(w, key, &word, Sem::Relaxed, x.scope);
        }
        if matches!(x.kind, MBarKind::CopyArrive { .. }) {
            self.copy_arrive(w, pc, m, copies);
        }
        match x.kind {
            MBarKind::TestWait { .. } => {
                crate::alu::exec::put_pred(&mut w.regs, x.d, pred, m);
                if failed {
                    w.failed = true;
                    w.flag_reads = 2 * super::MAX_SPINS / super::FLAG_SPINS;
                    return Flow::Yield;
                }
                w.waits = None;
            }
            _ => {
                self.events += 1;
                if x.d != SINK {
                    w.regs.put64(x.d, &state, m);
                }
            }
        }
        Flow::Next
    }

    fn mbar_init(&mut self, w: &Warp, pc: u32, lane: u32, at: (usize, u32), count: u32) {
        let agent = w.agent(self.wpc);
        if count == 0 || count > MAX_COUNT {
            self.misuse(w, pc, lane, at, 4, format!("a count of {count} is outside 1 to 2^20−1"));
        }
        if at.0 != w.cta as usize {
            self.misuse(w, pc, lane, at, 5, "only its own CTA may initialise it".into());
        }
        if self.ctas[at.0].mbars.contains_key(&at.1) {
            self.misuse(
                w,
                pc,
                lane,
                at,
                6,
                "it is initialised again while it lives: mbarrier.inval it first".into(),
            );
        }
        let init = ((agent, lane), self.clocks.now(agent));
        // Later releases of this warp must carry the initialisation, as any write.
        let b = MBarrier { expected: count, pending: count, init, ..MBarrier::default() };
        self.ctas[at.0].mbars.insert(at.1, b);
        self.events += 1;
        if self.checks() {
            // An agent that nobody is ever ordered with: touching the bytes is a finding.
            let (agent, clock) = (self.clocks.agents as u32, u32::MAX - 1);
            let who = Who { agent, clock, lane, ..self.who(w, pc, Strength::WEAK) };
            self.ctas[at.0].shadow.stamp(at.1, 8, &who);
        }
    }

    /// `fence.mbarrier_init` or `fence.proxy.async` after an initialisation by this warp.
    pub(super) fn fence_mbarriers(&mut self, w: &Warp) {
        let agent = w.agent(self.wpc);
        let now = self.clocks.now(agent);
        for b in self.ctas[w.cta as usize].mbars.values_mut() {
            if b.init.0.0 == agent && b.fenced.is_none() {
                b.fenced = Some(now);
            }
        }
    }

    /// Whether `agent` is ordered after the fence that followed the initialisation.
    fn fenced_for(&self, b: &MBarrier, agent: usize) -> bool {
        b.fenced.is_some_and(|c| self.clocks.seen_init(agent, b.init.0, c))
    }

    /// Bytes of a bulk copy have arrived.
    pub(super) fn mbar_complete(&mut self, at: (usize, u32), bytes: u32, agent: usize, clock: u32) {
        let n = self.clocks.agents;
        if let Some(b) = self.ctas[at.0].mbars.get_mut(&at.1) {
            b.tx -= bytes as i64;
            b.copied.see(n, agent, clock);
            b.settle();
        }
        self.events += 1;
    }

    /// The copies that a thread asked to arrive for are done; gives the phase in which it arrived.
    pub(super) fn mbar_copies_done(&mut self, at: (usize, u32), agent: usize, clock: u32) -> u64 {
        let n = self.clocks.agents;
        self.events += 1;
        let phase = self.ctas[at.0].mbars.get(&at.1).map_or(0, |b| b.phase);
        if let Some(b) = self.ctas[at.0].mbars.get_mut(&at.1) {
            b.pending = b.pending.saturating_sub(1);
            b.copied.see(n, agent, clock);
            b.settle();
        }
        phase
    }

    /// Arrivals of one instruction that fell into two phases.
    #[cold]
    pub(super) fn report_split_arrival(&mut self, warp: usize, pc: u32, lane: u32, at: (usize, u32)) {
        let w = Warp { cta: (warp / self.wpc) as u32, index: (warp % self.wpc) as u32, ..Warp::default() };
        self.misuse(&w, pc, lane, at, 10, SPLIT_ARRIVAL.into());
    }

    /// Checks the mbarrier that a bulk copy will signal.
    pub(super) fn mbar_for_copy(&mut self, w: &Warp, pc: u32, lane: u32, at: (usize, u32)) -> bool {
        if !self.mbar_known(w, pc, lane, at) {
            return false;
        }
        let b = &self.ctas[at.0].mbars[&at.1];
        let demanded = self.env.race_check && self.env.barrier_init_fence;
        if demanded && !self.fenced_for(b, w.agent(self.wpc)) {
            let what = "a bulk copy signals it, but neither fence.mbarrier_init nor fence.proxy.async followed its initialisation";
            self.misuse(w, pc, lane, at, 7, what.into());
        }
        true
    }

    pub(super) fn describe_wait(&self, w: &Warp, pc: u32) -> String {
        let Some((rank, off, parity)) = w.waits else {
            let text = &self.k.sites[pc as usize].text;
            return match w.poll {
                Some((at, _)) => format!(
                    "`{text}`; polls memory at line {}, which nobody changes",
                    self.k.sites[at as usize].line
                ),
                None => format!("`{text}`"),
            };
        };
        let state = self.ctas[rank as usize].mbars.get(&off).map_or("gone".into(), MBarrier::describe);
        format!("polls the mbarrier at {} for parity {parity}: {state}", self.shared_name(off))
    }

    /// At the end of a cluster: barriers whose bytes never came out even.
    pub(super) fn finish(&mut self) {
        while self.complete_one_bulk() {}
        for i in 0..self.warps.len() {
            let mut w = std::mem::take(&mut self.warps[i]);
            self.flush_bulk(&mut w);
            self.warps[i] = w;
        }
        let mut bad = vec![];
        for (rank, cta) in self.ctas.iter().enumerate() {
            for (off, b) in &cta.mbars {
                if b.tx != 0 {
                    bad.push((rank, *off, b.describe()));
                }
            }
        }
        for (rank, off, text) in bad {
            let place = self.shared_name(off);
            let (cta, pc) = (self.ctas[rank].id, self.k.insts.len() as u32 - 1);
            self.log.add(FindingKind::Mbarrier, pc, off as u64, || crate::findings::Raw {
                kind: FindingKind::Mbarrier,
                message: FindingKind::Mbarrier
                    .cite(format!("mbarrier at {place} at the end of the kernel: {text}")),
                pc,
                cta,
                warp: 0,
                lane: 0,
                count: 1,
            });
        }
    }
}

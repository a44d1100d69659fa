//! CTA barriers: `bar`, `barrier.cta` (PTX ISA §9.7.13.1).

use super::{Engine, Flow, Wait, Warp};
use crate::alu::exec::put_pred;
use crate::findings::FindingKind;
use crate::op::*;
use crate::race::Token;

/// One of the sixteen named barriers of a CTA.
#[derive(Debug, Default)]
pub(super) struct Barrier {
    /// Completed phases.
    pub phase: u64,
    /// Threads that arrived in this phase; a partial last warp counts as whole if the barrier has a count.
    pub arrived: u32,
    /// The thread count given by the first arrival; `None`: all threads.
    pub expected: Option<u32>,
    /// Warps that wait, with the lanes that do and whether those are all; and whether anybody only arrived.
    waiting: Vec<(usize, u32, bool)>,
    arrive_only: bool,
    released: Token,
    votes: (u32, bool, bool),
    /// Results of the two latest phases.
    result: [(u32, bool, bool); 2],
}

impl Engine<'_> {
    pub(super) fn barrier(&mut self, w: &mut Warp, pc: u32, b: &Bar, m: u32) -> Flow {
        // Lanes may come at different times, but all must come here.
        if b.aligned && m != w.live && !std::mem::take(&mut w.forced) {
            return Flow::Retry;
        }
        // Lanes may name different barriers, or counts: each group is at its own.
        let same = |s: Slot, lane: usize| {
            if s == SINK {
                return !0;
            }
            let v = &w.regs.r[s as usize].0;
            (0..32).fold(0, |g, i| g | ((v[i] == v[lane]) as u32) << i)
        };
        let first = m.trailing_zeros() as usize;
        let group = same(b.id, first) & same(b.count, first) & m;
        if group == m {
            return self.barrier_group(w, pc, b, m, m == w.live);
        }
        if b.aligned {
            self.find(FindingKind::BarrierCount, w, pc, first as u32, 4, || {
                "the lanes of a warp name different barriers, or thread counts, in an aligned instruction"
                    .into()
            });
        }
        // One group after the other: the rest executes the instruction again.
        match self.barrier_group(w, pc, b, group, false) {
            Flow::Block(_, wait) => Flow::Leave(group, Some(wait)),
            _ => Flow::Leave(group, None),
        }
    }

    /// The lanes `m` arrive at one barrier; `whole`: they are all of the warp.
    fn barrier_group(&mut self, w: &mut Warp, pc: u32, b: &Bar, m: u32, whole: bool) -> Flow {
        let lane = m.trailing_zeros();
        let value = |s: Slot| w.regs.r[s as usize].0[lane as usize];
        let id = value(b.id);
        if id > 15 {
            self.find(FindingKind::BarrierCount, w, pc, lane, 1, || {
                format!("barrier {id} does not exist: 0 to 15 do")
            });
            return Flow::Next;
        }
        let count = (b.count != SINK).then(|| value(b.count));
        if let Some(c) = count
            && (c == 0 || c % 32 != 0)
        {
            self.find(FindingKind::BarrierCount, w, pc, lane, 2, || {
                format!("a barrier's thread count must be a positive multiple of 32, not {c}")
            });
        }
        self.events += 1;
        let agent = w.agent(self.wpc);
        let votes = b.p.lanes(&w.regs.p) & m;
        let cta = w.cta as usize;
        let bar = &mut self.ctas[cta].bars[id as usize];
        let first = bar.arrived == 0;
        if first {
            (bar.expected, bar.votes) = (count, (0, true, false));
        }
        let mismatch = !first && bar.expected != count;
        let phase = bar.phase;
        bar.arrived += if count.is_some() && whole { 32 } else { m.count_ones() };
        bar.votes.0 += votes.count_ones();
        bar.votes.1 &= votes == m;
        bar.votes.2 |= votes != 0;
        if b.kind == BarKind::Arrive {
            bar.arrive_only = true;
            let mut released = std::mem::take(&mut bar.released);
            self.clocks.release(agent, m, &mut released);
            self.ctas[cta].bars[id as usize].released = released;
        } else if let Some(o) = bar.waiting.iter_mut().find(|o| o.0 == agent) {
            o.1 |= m;
            o.2 |= o.1 == w.live;
        } else {
            bar.waiting.push((agent, m, whole));
        }
        if mismatch {
            self.find(FindingKind::BarrierCount, w, pc, lane, 3, || {
                format!("barrier {id} is used with different thread counts in one phase")
            });
        }
        let complete = self.try_complete(cta, id as usize);
        if b.kind == BarKind::Arrive {
            return Flow::Next;
        }
        if complete {
            self.deliver(w, pc, m, id as u8, phase);
            return Flow::Next;
        }
        Flow::Block(m, Wait::Bar { id: id as u8, phase })
    }

    fn try_complete(&mut self, cta: usize, id: usize) -> bool {
        let live = self.ctas[cta].live_threads;
        let bar = &mut self.ctas[cta].bars[id];
        if bar.arrived == 0 || bar.arrived < bar.expected.unwrap_or(live) {
            return false;
        }
        bar.result[(bar.phase & 1) as usize] = bar.votes;
        bar.phase += 1;
        bar.arrived = 0;
        let waiting = std::mem::take(&mut bar.waiting);
        let mut released = std::mem::take(&mut bar.released);
        let arrive_only = std::mem::take(&mut bar.arrive_only);
        let first = cta * self.wpc;
        if !arrive_only && waiting.len() == self.wpc && waiting.iter().all(|a| a.2) {
            self.clocks.full(first..first + self.wpc);
        } else {
            for (a, lanes, whole) in &waiting {
                self.clocks.release(*a, if *whole { !0 } else { *lanes }, &mut released);
            }
            for (a, ..) in &waiting {
                self.clocks.acquire(*a, &released);
            }
        }
        self.counts.barriers += 1;
        true
    }

    /// Results of a reduction barrier for the lanes that waited.
    pub(super) fn deliver(&mut self, w: &mut Warp, pc: u32, m: u32, id: u8, phase: u64) {
        let Op::Bar(b) = &self.k.insts[pc as usize].op else { return };
        let (popc, all, any) = self.ctas[w.cta as usize].bars[id as usize].result[(phase & 1) as usize];
        match b.kind {
            BarKind::RedPopc => w.regs.put(b.d, &[popc; 32], m),
            BarKind::RedAnd => put_pred(&mut w.regs, b.d, if all { !0 } else { 0 }, m),
            BarKind::RedOr => put_pred(&mut w.regs, b.d, if any { !0 } else { 0 }, m),
            _ => {}
        }
    }

    /// Barriers of all threads stop waiting for threads that have exited.
    pub(super) fn threads_exited(&mut self, cta: usize) {
        for id in 0..16 {
            let bar = &self.ctas[cta].bars[id];
            if bar.arrived != 0 && bar.expected.is_none() {
                self.try_complete(cta, id);
            }
        }
    }
}

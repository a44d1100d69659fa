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
    /// Agents that wait, and whether anybody only arrived.
    waiting: Vec<usize>,
    arrive_only: bool,
    released: Token,
    votes: (u32, bool, bool),
    /// Results of the two latest phases.
    result: [(u32, bool, bool); 2],
}

impl Engine<'_> {
    pub(super) fn barrier(&mut self, w: &mut Warp, pc: u32, b: &Bar, m: u32) -> Flow {
        let lane = m.trailing_zeros();
        // Lanes may come at different times, but all must come here.
        if b.aligned && m != w.live && !std::mem::take(&mut w.forced) {
            return Flow::Retry;
        }
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
        bar.arrived += if count.is_some() && m == w.live { 32 } else { m.count_ones() };
        bar.votes.0 += votes.count_ones();
        bar.votes.1 &= votes == m;
        bar.votes.2 |= votes != 0;
        if b.kind == BarKind::Arrive {
            bar.arrive_only = true;
            let mut released = std::mem::take(&mut bar.released);
            self.clocks.release(agent, &mut released);
            self.ctas[cta].bars[id as usize].released = released;
        } else if !bar.waiting.contains(&agent) {
            bar.waiting.push(agent);
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
        if !arrive_only && waiting.len() == self.wpc {
            self.clocks.full(first..first + self.wpc);
        } else {
            for a in &waiting {
                self.clocks.release(*a, &mut released);
            }
            for a in &waiting {
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

//! Clusters: `barrier.cluster`, `mapa`, `getctarank` (PTX ISA §9.7.13.3, §9.7.9.23).

use super::{Engine, Flow, Wait, Warp};
use crate::alu::exec::Regs;
use crate::findings::{FindingKind, RaceKind};
use crate::op::{Sem, Slot};
use crate::race::{Conflict, Scope, Side, SyncWord};

/// The one barrier of a cluster.
#[derive(Debug, Default)]
pub(super) struct ClusterBarrier {
    /// Completed phases.
    pub phase: u64,
    arrived: u32,
    expected: u32,
    /// What this phase's arrivals released, and what all completed phases did.
    released: SyncWord,
    done: SyncWord,
}

impl ClusterBarrier {
    pub fn describe(&self) -> String {
        format!("cluster barrier phase {}: {} of {} threads arrived", self.phase, self.arrived, self.expected)
    }
}

fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    (0..32).filter(move |lane| mask >> lane & 1 != 0)
}

impl Engine<'_> {
    pub(super) fn cluster_arrive(&mut self, w: &mut Warp, pc: u32, m: u32, release: bool) {
        self.events += 1;
        if w.cluster_arrived & m != 0 {
            let lane = (w.cluster_arrived & m).trailing_zeros();
            self.find(FindingKind::ClusterBarrier, w, pc, lane, 0, || {
                "arrives at the cluster barrier again: barrier.cluster.wait comes first".into()
            });
        }
        w.cluster_arrived |= m;
        self.cluster_bar.arrived += m.count_ones();
        for lane in lanes(m) {
            w.cluster_phase[lane] = self.cluster_bar.phase + 1;
        }
        // A relaxed arrival publishes what a fence before it released (§8.8; the second example of barrier.cluster).
        let sem = if release { Sem::Release } else { Sem::Relaxed };
        let at = self.place(w);
        for (scope, token) in self.published(w, m, sem, Scope::Cluster) {
            self.cluster_bar.released.publish(&self.clocks, at, scope, &token);
        }
        self.cluster_threads_exited();
    }

    /// Completes the phase if every live thread of the cluster has arrived.
    pub(super) fn cluster_threads_exited(&mut self) {
        let live: u32 = self.ctas.iter().map(|c| c.live_threads).sum();
        let b = &mut self.cluster_bar;
        b.expected = live;
        if b.arrived != 0 && b.arrived >= live {
            b.phase += 1;
            b.arrived = 0;
            let released = std::mem::take(&mut b.released);
            b.done.join(&released);
        }
    }

    pub(super) fn cluster_wait(&mut self, w: &mut Warp, pc: u32, m: u32) -> Flow {
        if m & !w.cluster_arrived != 0 {
            let lane = (m & !w.cluster_arrived).trailing_zeros();
            self.find(FindingKind::ClusterBarrier, w, pc, lane, 1, || {
                "waits for the cluster barrier without having arrived in this phase".into()
            });
        }
        w.cluster_arrived &= !m;
        // Lanes that went ahead may have arrived in the next phase already: each waits for its own.
        let phase = match lanes(m).map(|lane| w.cluster_phase[lane]).max() {
            None | Some(0) => self.cluster_bar.phase + 1,
            Some(phase) => phase,
        };
        if self.cluster_bar.phase < phase {
            return Flow::Block(m, Wait::Cluster { phase });
        }
        self.cluster_acquire(w);
        Flow::Next
    }

    pub(super) fn cluster_acquire(&mut self, w: &Warp) {
        let (agent, at) = (w.agent(self.wpc), self.place(w));
        self.cluster_bar.done.observe(&mut self.clocks, agent, at, Scope::Cluster);
    }
}

impl Engine<'_> {
    /// The last thread of a CTA exits: what others do with its shared memory must be over.
    pub(super) fn cta_exited(&mut self, w: &Warp, pc: u32) {
        if self.ctas.len() == 1 || !self.env.race_check {
            return;
        }
        let first = w.cta as usize * self.wpc;
        // What came before by an order of any scope cannot come after the exit.
        let (clocks, warps) = (&self.clocks, first..first + self.wpc);
        let seen = |agent: usize, clock: u32, lane: u32| {
            warps.clone().any(|a| clocks.covers(a, (agent, lane), clock, Side::Reads))
        };
        let cta = &self.ctas[w.cta as usize];
        let copies = self.warps.len() + first..self.warps.len() + first + self.wpc;
        let own = |agent: usize| warps.contains(&agent) || copies.contains(&agent) || agent >= clocks.agents;
        let known = |agent: u32, clock, lane| own(agent as usize) || seen(agent as usize, clock, lane);
        let mut late = cta.shadow.unordered(known);
        if late.is_none() {
            let mut remote = cta.mbars.iter().flat_map(|(at, b)| b.remote.iter().map(move |r| (*at, r)));
            let arrival = remote.find(|(_, (a, (c, lane)))| !seen(**a as usize, *c, *lane));
            late = arrival.map(|(at, (agent, (clock, lane)))| {
                let kind = RaceKind::WriteWrite;
                (Conflict { kind, agent: *agent, lane: *lane, clock: *clock, pc: u32::MAX, strong: true }, at)
            });
        }
        let Some((c, at)) = late else { return };
        let place = self.shared_name(at);
        let other = self.agent_name(c.agent);
        let line = match self.k.sites.get(c.pc as usize) {
            Some(s) => format!("the access by {other} at line {}", s.line),
            None => format!("an arrival by {other}"),
        };
        self.find(FindingKind::AsyncRace, w, pc, 0, 0, || {
            format!("the CTA exits, unordered with {line} to {place} of its shared memory: a cluster barrier must come last")
        });
    }
}

/// The same place in the CTA of rank `rank`.
pub(super) fn mapa(r: &mut Regs, d: Slot, a: Slot, rank: Slot, wide: bool, m: u32) {
    let k = r.r[rank as usize].0;
    if wide {
        let x = r.get64(a);
        r.put64(d, &std::array::from_fn(|i| x[i] & !0xff00_0000 | (k[i] as u64 & 0xff) << 24), m);
    } else {
        let x = r.r[a as usize].0;
        r.put(d, &std::array::from_fn(|i| x[i] & 0xff_ffff | (k[i] & 0xff) << 24), m);
    }
}

pub(super) fn cta_rank(r: &mut Regs, d: Slot, a: Slot, m: u32) {
    // The low word holds the rank in both address widths.
    let x = r.r[a as usize].0;
    r.put(d, &x.map(|v| v >> 24), m);
}

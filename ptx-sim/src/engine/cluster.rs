//! Clusters: `barrier.cluster`, `mapa`, `getctarank` (PTX ISA §9.7.13.4, §9.7.9.23).

use super::{Engine, Flow, Wait, Warp};
use crate::alu::exec::Regs;
use crate::op::Slot;
use crate::race::join;

/// The one barrier of a cluster.
#[derive(Debug, Default)]
pub(super) struct ClusterBarrier {
    /// Completed phases.
    pub phase: u64,
    arrived: u32,
    expected: u32,
    released: Vec<u32>,
    done: Vec<u32>,
}

impl ClusterBarrier {
    pub fn describe(&self) -> String {
        format!("cluster barrier phase {}: {} of {} threads arrived", self.phase, self.arrived, self.expected)
    }
}

impl Engine<'_> {
    pub(super) fn cluster_arrive(&mut self, w: &mut Warp, m: u32, release: bool) {
        self.events += 1;
        self.cluster_bar.arrived += m.count_ones();
        w.cluster_phase = self.cluster_bar.phase + 1;
        if release {
            let mut token = std::mem::take(&mut self.cluster_bar.released);
            self.clocks.release(w.agent(self.wpc), &mut token);
            self.cluster_bar.released = token;
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
            b.done.resize(released.len().max(b.done.len()), 0);
            join(&mut b.done, &released);
        }
    }

    pub(super) fn cluster_wait(&mut self, w: &mut Warp, m: u32) -> Flow {
        if self.cluster_bar.phase < w.cluster_phase || w.cluster_phase == 0 {
            return Flow::Block(m, Wait::Cluster { phase: self.cluster_bar.phase });
        }
        self.cluster_acquire(w);
        Flow::Next
    }

    pub(super) fn cluster_acquire(&mut self, w: &Warp) {
        let done = std::mem::take(&mut self.cluster_bar.done);
        self.clocks.acquire(w.agent(self.wpc), &done);
        self.cluster_bar.done = done;
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

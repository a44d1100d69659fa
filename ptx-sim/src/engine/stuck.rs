//! What is said when nothing can run any more.

use super::*;

impl Engine<'_> {
    /// In an idle round: whether the warps hold what they held in an earlier one. Nothing happened in between, so nothing
    /// will until memory changes.
    pub(super) fn repeats(&mut self) -> bool {
        // Some rounds for loops that count to begin with; then at distances that grow, whatever the length of the loop.
        const FIRST: u32 = 16;
        if self.idle < FIRST
            || self.idle > IDLE_POLLS
            || (self.idle > 4 * FIRST && !self.idle.is_multiple_of(16))
        {
            return false;
        }
        let now = self.hash();
        let (held, at) = self.held;
        if self.idle > at && at >= FIRST && held == now {
            return true;
        }
        if self.idle.is_power_of_two() {
            self.held = (now, self.idle);
        }
        false
    }

    /// Of all that decides what the warps do next.
    fn hash(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut h = DefaultHasher::new();
        for w in &self.warps {
            // A split that is alone needs no turns.
            let turns = w.splits.len() > 1;
            let split = |s: &Split| (s.pc, s.mask, turns.then_some((s.spins, s.resting)));
            let mut splits: Vec<_> = w.splits.iter().map(split).collect();
            splits.sort_unstable();
            splits.hash(&mut h);
            if splits.is_empty() {
                continue;
            }
            for r in &w.regs.r {
                r.0.hash(&mut h);
            }
            (&w.regs.p, &w.local).hash(&mut h);
        }
        h.finish()
    }

    pub(super) fn report_limit(&mut self) {
        let Some(wi) = self.warps.iter().position(|w| !w.splits.is_empty()) else { return };
        let w = std::mem::take(&mut self.warps[wi]);
        let limit = self.env.max_instructions;
        self.find(FindingKind::InstructionLimit, &w, w.splits[0].pc, 0, 0, || {
            format!(
                "a CTA ran more than {limit} warp instructions: an endless loop, or raise `max_instructions`"
            )
        });
        self.warps[wi] = w;
    }

    /// When nothing can run: lanes that wait for the rest of their warp at an aligned instruction go on without
    /// it, which is a finding.
    pub(super) fn force_aligned(&mut self) -> bool {
        for wi in 0..self.warps.len() {
            let w = &self.warps[wi];
            let stuck = w
                .splits
                .iter()
                .position(|s| s.wait == Wait::Lanes && self.k.insts[s.pc as usize].op.is_aligned());
            let Some(si) = stuck else { continue };
            let mut w = std::mem::take(&mut self.warps[wi]);
            let Split { pc, mask, .. } = w.splits[si];
            let live = w.live;
            self.find(FindingKind::DivergentAligned, &w, pc, mask.trailing_zeros(), 0, || {
                format!(
                    "only lanes {mask:#010x} of {live:#010x} ever reach this aligned instruction together: the warp has diverged"
                )
            });
            w.splits[si].wait = Wait::Ready;
            w.forced = true;
            self.warps[wi] = w;
            return true;
        }
        false
    }

    /// `why`: what is known of others that they may wait for.
    pub fn report_deadlock(&mut self, why: &str) {
        let mut text = format!("deadlock: no warp of the CTA can ever go on{why}");
        for w in &self.warps {
            for s in &w.splits {
                let site = &self.k.sites[s.pc as usize];
                let what = match s.wait {
                    Wait::Bar { id, .. } => {
                        let b = &self.ctas[w.cta as usize].bars[id as usize];
                        format!(
                            "barrier {id}: {} of {} threads arrived",
                            b.arrived,
                            b.expected.unwrap_or(self.ctas[w.cta as usize].live_threads)
                        )
                    }
                    Wait::Cluster { .. } => self.cluster_bar.describe(),
                    Wait::Ready => match self.k.insts[s.pc as usize].op {
                        Op::SetMaxNReg { count, .. } => self.describe_registers(w, count),
                        Op::WgWait(_) => {
                            "`wgmma.wait_group`: not all warps of the warpgroup have committed as many groups"
                                .into()
                        }
                        _ => self.describe_wait(w, s.pc),
                    },
                    Wait::Lanes => format!("`{}`: other lanes of its member mask never arrive", site.text),
                };
                text.push_str(&format!(
                    "\n  warp {} lanes {:#010x} at line {}: {what}",
                    w.index, s.mask, site.line
                ));
            }
        }
        let Some(wi) = self.warps.iter().position(|w| !w.splits.is_empty()) else { return };
        let w = std::mem::take(&mut self.warps[wi]);
        let lane = w.splits[0].mask.trailing_zeros();
        self.find(FindingKind::Deadlock, &w, w.splits[0].pc, lane, 0, || text);
        self.warps[wi] = w;
    }
}

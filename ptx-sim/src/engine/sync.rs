//! Release and acquire through strong accesses and fences (PTX ISA §8.9).
//!
//! A release, or a fence followed by a strong write, publishes what the warp has seen at the word it writes. An acquire,
//! or a strong read followed by a fence, learns it, if each side's scope contains the other.

use super::{Engine, Warp};
use crate::op::Sem;
use crate::race::{Place, Scope, SyncWord, Token};

/// Words remembered between a strong read and the fence after it.
const PENDING: usize = 16;

/// State of one warp.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// What the last fence released, and at which scope.
    fence: Option<(Scope, Token)>,
    /// What relaxed reads found, for the next fence: key, word, scope.
    pending: Vec<((u32, u64), SyncWord, Scope)>,
}

impl Order {
    pub fn clear(&mut self) {
        self.fence = None;
        self.pending.clear();
    }
}

impl Engine<'_> {
    pub(super) fn place(&self, w: &Warp) -> Place {
        let cta = &self.ctas[w.cta as usize];
        Place { cta: cta.linear, unit: (cta.linear / self.ctas.len() as u64) as u32 + 1 }
    }

    /// A strong read of a word that somebody released something at.
    pub(super) fn strong_read(
        &mut self,
        w: &mut Warp,
        key: (u32, u64),
        word: &SyncWord,
        sem: Sem,
        scope: Scope,
    ) {
        if matches!(sem, Sem::Acquire | Sem::AcqRel) {
            let at = self.place(w);
            return word.observe(&mut self.clocks, w.agent(self.wpc), at, scope);
        }
        let list = &mut w.order.pending;
        list.retain(|p| p.0 != key);
        if list.len() == PENDING {
            list.remove(0);
        }
        list.push((key, word.clone(), scope));
    }

    pub(super) fn fence(&mut self, w: &mut Warp, scope: Scope) {
        let (agent, at) = (w.agent(self.wpc), self.place(w));
        for (_, word, s) in w.order.pending.drain(..) {
            word.observe(&mut self.clocks, agent, at, s.min(scope));
        }
        let mut token = Token::default();
        self.clocks.release(agent, &mut token);
        w.order.fence = Some((scope, token));
    }

    /// What a strong write publishes; nothing if it neither releases nor follows a fence.
    pub(super) fn published(&mut self, w: &Warp, sem: Sem, scope: Scope) -> Option<(Scope, Token)> {
        if matches!(sem, Sem::Release | Sem::AcqRel) {
            let mut token = Token::default();
            self.clocks.release(w.agent(self.wpc), &mut token);
            return Some((scope, token));
        }
        w.order.fence.as_ref().map(|(s, t)| ((*s).min(scope), t.clone()))
    }

    /// A strong load at `pc` read `value`: whether it is the same as the last time, so that the warp just polls.
    pub(super) fn polled(&mut self, w: &mut Warp, pc: u32, value: u64, global: bool) {
        let same = w.poll == Some((pc, value));
        w.poll = Some((pc, value));
        w.failed = same;
        w.polls_global = same && global;
        if same {
            w.flag_reads = 2 * super::MAX_SPINS / super::FLAG_SPINS;
        } else {
            self.events += 1;
        }
    }
}

/// Mixes a lane's value into what a polling load read.
pub(super) fn mix(h: u64, v: u32) -> u64 {
    (h ^ v as u64).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23)
}

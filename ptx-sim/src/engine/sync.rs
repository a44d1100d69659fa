//! Release and acquire through strong accesses and fences (PTX ISA §8.8).
//!
//! A release, or a fence followed by a strong write, publishes what the warp has seen at the word it writes. An acquire,
//! or a strong read followed by a fence, learns it, if each side's scope contains the other.

use super::{Engine, Warp};
use crate::op::Sem;
use crate::race::{Place, Scope, Strength, SyncWord, Token};

/// Words remembered between a strong read and the fence after it.
const PENDING: usize = 16;

/// State of one warp.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// What the last fence of each scope released, widest scopes first.
    fences: Vec<(Scope, Token)>,
    /// What the last `fence.mbarrier_init` released.
    inits: Option<Token>,
    /// What relaxed reads found, for the next fence: key, word, scope.
    pending: Vec<((u32, u64), SyncWord, Scope)>,
}

impl Order {
    pub fn clear(&mut self) {
        self.fences.clear();
        self.inits = None;
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
        self.clocks.release(agent, !0, &mut token);
        // It does all that earlier ones of its scope or a narrower one did.
        w.order.fences.retain(|f| f.0 > scope);
        w.order.fences.push((scope, token));
    }

    /// `fence.mbarrier_init`: orders the thread's initialisations, and nothing else, before its later strong operations.
    pub(super) fn fence_inits(&mut self, w: &mut Warp) {
        let agent = w.agent(self.wpc);
        w.order.inits = Some(Token::of_inits(agent, self.clocks.now(agent)));
    }

    /// What a strong write or an arrival of the lanes `m` publishes, by scope; nothing if it neither releases nor follows a
    /// fence. What other lanes did counts up to the last synchronisation of the warp.
    pub(super) fn published(&mut self, w: &Warp, m: u32, sem: Sem, scope: Scope) -> Vec<(Scope, Token)> {
        let agent = w.agent(self.wpc);
        if matches!(sem, Sem::Release | Sem::AcqRel) {
            let mut token = Token::default();
            self.clocks.release(agent, m, &mut token);
            return vec![(scope, token)];
        }
        let fence = |(s, t): &(Scope, Token)| {
            let mut token = t.clone();
            self.clocks.restrict(agent, m, &mut token);
            ((*s).min(scope), token)
        };
        let inits = w.order.inits.iter().map(|t| (Scope::Cluster.min(scope), t.clone()));
        w.order.fences.iter().map(fence).chain(inits).collect()
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

impl Warp {
    /// How an access of this warp takes part in the memory model.
    pub(super) fn strength(&self, sem: Sem) -> Strength {
        let kind = match sem {
            Sem::Weak => Strength::WEAK,
            Sem::Volatile => Strength::VOLATILE,
            _ => Strength::STRONG,
        };
        kind.fenced(sem != Sem::Weak && !self.order.fences.is_empty())
    }
}

/// Mixes a lane's value into what a polling load read.
pub(super) fn mix(h: u64, v: u32) -> u64 {
    (h ^ v as u64).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23)
}

//! Words that synchronise: what strong writes released, by scope (PTX ISA §8).

use super::clocks::{Clocks, Foreign, Token};

/// Threads that a strong access may synchronise with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    Cta,
    Cluster,
    /// `.gpu` and `.sys`.
    Gpu,
}

/// Where an access comes from: linear index of the CTA and of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub cta: u64,
    pub unit: u32,
}

/// What the writes to one word released.
#[derive(Debug, Default, Clone)]
pub(crate) struct SyncWord {
    cta: Vec<(u64, Token)>,
    cluster: Vec<(u32, Token)>,
    gpu: Foreign,
}

fn entry<K: PartialEq + Copy>(list: &mut Vec<(K, Token)>, key: K) -> &mut Token {
    let at = list.iter().position(|e| e.0 == key).unwrap_or_else(|| {
        list.push((key, Token::default()));
        list.len() - 1
    });
    &mut list[at].1
}

impl SyncWord {
    /// A write that begins a new release sequence: what earlier ones released is no longer to be had here.
    pub fn overwrite(&mut self) {
        *self = SyncWord::default();
    }

    pub fn publish(&mut self, clocks: &Clocks, from: Place, scope: Scope, token: &Token) {
        match scope {
            Scope::Cta => entry(&mut self.cta, from.cta).join(token),
            Scope::Cluster => entry(&mut self.cluster, from.unit).join(token),
            Scope::Gpu => clocks.export(token, &mut self.gpu),
        }
    }

    /// `agent` acquires what was released at a scope that contains it, by threads that `scope` contains.
    pub fn observe(&self, clocks: &mut Clocks, agent: usize, at: Place, scope: Scope) {
        for t in self.cta.iter().filter(|t| t.0 == at.cta) {
            clocks.acquire(agent, &t.1);
        }
        for t in self.cluster.iter().filter(|t| t.0 == at.unit) {
            clocks.acquire(agent, &t.1);
        }
        clocks.import(agent, &self.gpu, scope != Scope::Gpu);
    }
}

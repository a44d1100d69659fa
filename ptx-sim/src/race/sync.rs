//! Words that synchronise: what strong writes released, by scope (PTX ISA §8.5, §8.8).

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

/// What the writes to one word, or the arrivals at one mbarrier, released.
#[derive(Debug, Default, Clone)]
pub(crate) struct SyncWord {
    near: Vec<Released>,
    /// What was released at gpu scope, for other clusters too.
    gpu: Foreign,
}

/// What one CTA released at one scope.
#[derive(Debug, Clone)]
struct Released {
    from: Place,
    scope: Scope,
    token: Token,
}

impl SyncWord {
    /// A write that begins a new release sequence: what earlier ones released is no longer to be had here.
    pub fn overwrite(&mut self) {
        *self = SyncWord::default();
    }

    pub fn publish(&mut self, clocks: &Clocks, from: Place, scope: Scope, token: &Token) {
        if scope == Scope::Gpu {
            clocks.export(token, &mut self.gpu);
            // Of a CTA that is a cluster of its own, that says all.
            if !clocks.clustered() {
                return;
            }
        }
        self.add(from, scope, token);
    }

    fn add(&mut self, from: Place, scope: Scope, token: &Token) {
        match self.near.iter_mut().find(|r| r.from == from && r.scope == scope) {
            Some(r) => r.token.join(token),
            None => self.near.push(Released { from, scope, token: token.clone() }),
        }
    }

    /// Adds what another one released within the cluster.
    pub fn join(&mut self, o: &SyncWord) {
        for r in &o.near {
            self.add(r.from, r.scope, &r.token);
        }
    }

    /// `agent` acquires what was released at a scope that contains it, by threads that `scope` contains (§8.7). Of
    /// others of its cluster it comes after the reads only.
    pub fn observe(&self, clocks: &mut Clocks, agent: usize, at: Place, scope: Scope) {
        for r in self.near.iter().filter(|r| r.from.unit == at.unit) {
            if r.from.cta == at.cta || (r.scope >= Scope::Cluster && scope >= Scope::Cluster) {
                clocks.acquire(agent, &r.token);
            } else {
                clocks.acquire_reads(agent, &r.token);
            }
        }
        if scope == Scope::Gpu || !clocks.clustered() {
            clocks.import(agent, &self.gpu, scope != Scope::Gpu);
        }
    }
}

//! Vector clocks: who has seen what of whom.

use super::Seen;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Vector clocks of the agents of a CTA or cluster.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    /// One row a warp; the asynchronous units never learn anything.
    pub vc: Vec<Vec<u32>>,
    /// What the asynchronous proxy sees of what each warp has seen: advances at `fence.proxy.async`.
    pub pv: Vec<Vec<u32>>,
    /// What each warp is ordered after the reads of; empty: the same as in `vc`. A release whose scope leaves the
    /// acquirer out still comes after the releaser's reads: it makes no write visible, but no read can come later.
    reads: Vec<Vec<u32>>,
    /// Initialisations of mbarriers that each warp has seen through `fence.mbarrier_init` alone; may be shorter.
    inits: Vec<Vec<u32>>,
    pub floor: Vec<u32>,
    /// What each warp knows of other clusters.
    foreign: Vec<Foreign>,
    /// Linear index of this cluster, from 1.
    unit: u32,
    /// Warps and asynchronous units.
    pub agents: usize,
    /// Warps of one CTA: `floor` speaks of them only.
    per_cta: usize,
}

/// What is known of the agents of other clusters: cluster → both clock vectors, one after the other.
pub(crate) type Foreign = Option<Arc<BTreeMap<u32, Arc<Vec<u32>>>>>;

/// What a release passes on, within a cluster.
#[derive(Debug, Default, Clone)]
pub(crate) struct Token {
    /// Both clock vectors of the releasing agents, one after the other; empty before the first release.
    clocks: Vec<u32>,
    /// Of reads and of initialisations of mbarriers, where more is known of them.
    reads: Vec<u32>,
    inits: Vec<u32>,
    foreign: Foreign,
}

impl Token {
    pub fn join(&mut self, o: &Token) {
        join_growing(&mut self.clocks, &o.clocks);
        join_growing(&mut self.reads, &o.reads);
        join_growing(&mut self.inits, &o.inits);
        join_foreign(&mut self.foreign, &o.foreign);
    }

    /// Adds that the asynchronous unit `agent` of `agents` was seen up to `clock`.
    pub fn see(&mut self, agents: usize, agent: usize, clock: u32) {
        self.clocks.resize(2 * agents, 0);
        self.clocks[agent] = self.clocks[agent].max(clock);
    }

    /// A release of nothing but the mbarriers that `agent` initialised up to `clock`.
    pub fn of_inits(agent: usize, clock: u32) -> Token {
        let mut t = Token::default();
        t.inits.resize(agent + 1, 0);
        t.inits[agent] = clock;
        t
    }
}

impl Clocks {
    pub fn reset(&mut self, warps: usize, per_cta: usize, agents: usize, unit: u32) {
        (self.per_cta, self.agents, self.unit) = (per_cta, agents, unit);
        self.vc.resize(warps, vec![]);
        self.pv.resize(warps, vec![]);
        for (a, v) in self.vc.iter_mut().enumerate() {
            v.clear();
            v.resize(agents, 0);
            v[a] = 1;
        }
        for v in &mut self.pv {
            v.clear();
            v.resize(agents, 0);
        }
        for list in [&mut self.reads, &mut self.inits] {
            list.clear();
            list.resize(warps, vec![]);
        }
        self.floor.clear();
        self.floor.resize(warps, 0);
        self.foreign.clear();
        self.foreign.resize(warps, None);
    }

    #[inline(always)]
    pub fn now(&self, a: usize) -> u32 {
        self.vc[a][a]
    }

    fn refloor(&mut self, a: usize) {
        let own = self.now(a) - 1;
        let first = a / self.per_cta * self.per_cta;
        let cta = self.vc[a].iter().enumerate().skip(first).take(self.per_cta);
        self.floor[a] = cta.map(|(b, c)| if b == a { own } else { *c }).min().unwrap_or(0);
        if !self.reads[a].is_empty() {
            join(&mut self.reads[a], &self.vc[a]);
        }
    }

    /// The cluster has more than one CTA.
    pub fn clustered(&self) -> bool {
        self.vc.len() > self.per_cta
    }

    /// What `a` has seen of whom.
    #[inline(always)]
    pub fn seen(&self, a: usize) -> Seen<'_> {
        let (vc, reads) = (&self.vc[a], &self.reads[a]);
        Seen { writes: vc, reads: if reads.is_empty() { vc } else { reads } }
    }

    /// `a` has seen the unit `b` up to `clock`.
    pub fn see(&mut self, a: usize, b: usize, clock: u32) {
        let reads = (!self.reads[a].is_empty()).then_some(&mut self.reads[a]);
        for v in std::iter::once(&mut self.vc[a]).chain(reads) {
            v[b] = v[b].max(clock);
        }
    }

    /// Whether `a` is ordered after the initialisation of an mbarrier by `b` at `clock`.
    pub fn seen_init(&self, a: usize, b: usize, clock: u32) -> bool {
        a == b || self.vc[a][b] >= clock || self.inits[a].get(b).is_some_and(|c| *c >= clock)
    }

    /// Clock up to which all of `agents`, the warps of a CTA, have seen each other.
    pub fn settled(&self, agents: std::ops::Range<usize>) -> u32 {
        self.floor[agents].iter().copied().min().unwrap_or(0)
    }

    /// What `a` passes on: both its clock vectors; `a` moves on to the next epoch.
    pub fn release(&mut self, a: usize, into: &mut Token) {
        let n = self.agents;
        into.clocks.resize(2 * n, 0);
        join(&mut into.clocks[..n], &self.vc[a]);
        join(&mut into.clocks[n..], &self.pv[a]);
        join_growing(&mut into.reads, &self.reads[a]);
        join_growing(&mut into.inits, &self.inits[a]);
        join_foreign(&mut into.foreign, &self.foreign[a]);
        self.vc[a][a] += 1;
        self.refloor(a);
    }

    pub fn acquire(&mut self, a: usize, from: &Token) {
        if !from.reads.is_empty() {
            self.acquire_reads(a, from);
        }
        self.join_own(a, &from.clocks);
        join_growing(&mut self.inits[a], &from.inits);
        join_foreign(&mut self.foreign[a], &from.foreign);
    }

    /// `a` comes after what `from` released, but not by an acquire that shows it the writes.
    pub fn acquire_reads(&mut self, a: usize, from: &Token) {
        let n = self.agents;
        if self.reads[a].is_empty() {
            self.reads[a].clone_from(&self.vc[a]);
        }
        join(&mut self.reads[a], from.clocks.get(..n).unwrap_or(&[]));
        join(&mut self.reads[a], &from.reads);
    }

    fn join_own(&mut self, a: usize, clocks: &[u32]) {
        let n = self.agents;
        if clocks.len() == 2 * n {
            join(&mut self.vc[a], &clocks[..n]);
            join(&mut self.pv[a], &clocks[n..]);
            self.refloor(a);
        }
    }

    /// Adds `t` to what other clusters may learn.
    pub fn export(&self, t: &Token, into: &mut Foreign) {
        let own = BTreeMap::from([(self.unit, Arc::new(t.clocks.clone()))]);
        join_foreign(into, &Some(Arc::new(own)));
        join_foreign(into, &t.foreign);
    }

    /// `a` learns what clusters exported; with `own`, only what they said of this one.
    pub fn import(&mut self, a: usize, from: &Foreign, own: bool) {
        let Some(map) = from else { return };
        if let Some(v) = map.get(&self.unit) {
            let v = v.clone();
            self.join_own(a, &v);
        }
        if !own && (map.len() > 1 || !map.contains_key(&self.unit)) {
            join_foreign(&mut self.foreign[a], from);
        }
    }

    /// How far `a` has seen agent `b` of another cluster; `proxy`: through the asynchronous proxy.
    pub fn seen_of(&self, a: usize, unit: u32, b: usize, proxy: bool) -> u32 {
        let Some(v) = self.foreign[a].as_ref().and_then(|m| m.get(&unit)) else { return 0 };
        let n = v.len() / 2;
        v.get(if proxy { n + b } else { b }).copied().unwrap_or(0)
    }

    /// `fence.proxy.async`: what `a` has seen, itself included, is visible to the asynchronous proxy.
    pub fn proxy_fence(&mut self, a: usize) {
        let (vc, pv) = (&self.vc[a], &mut self.pv[a]);
        join(pv, vc);
        if let Some(map) = &mut self.foreign[a] {
            for v in Arc::make_mut(map).values_mut() {
                let v = Arc::make_mut(v);
                let half = v.len() / 2;
                let (vc, pv) = v.split_at_mut(half);
                join(pv, vc);
            }
        }
        self.vc[a][a] += 1;
        self.refloor(a);
    }

    /// The warp synchronised with itself: accesses before are ordered with those after.
    pub fn warp_sync(&mut self, a: usize) {
        self.vc[a][a] += 1;
        self.refloor(a);
    }

    /// A barrier of all of `agents`.
    pub fn full(&mut self, agents: std::ops::Range<usize>) {
        let n = self.agents;
        let (mut all, mut proxy, mut foreign) = (vec![0; n], vec![0; n], None);
        let (mut reads, mut inits) = (vec![], vec![]);
        for a in agents.clone() {
            join(&mut all, &self.vc[a]);
            join(&mut proxy, &self.pv[a]);
            join_growing(&mut reads, &self.reads[a]);
            join_growing(&mut inits, &self.inits[a]);
            join_foreign(&mut foreign, &self.foreign[a]);
        }
        let next = agents.clone().map(|a| self.now(a)).max().unwrap_or(0) + 1;
        for a in agents.clone() {
            self.vc[a].copy_from_slice(&all);
            self.pv[a].copy_from_slice(&proxy);
            self.reads[a].clone_from(&reads);
            self.inits[a].clone_from(&inits);
            self.foreign[a].clone_from(&foreign);
            for b in agents.clone() {
                self.vc[a][b] = next - 1;
            }
            self.vc[a][a] = next;
            self.refloor(a);
        }
    }
}

pub(crate) fn join(into: &mut [u32], from: &[u32]) {
    for (i, f) in into.iter_mut().zip(from) {
        *i = (*i).max(*f);
    }
}

fn join_growing(into: &mut Vec<u32>, from: &[u32]) {
    if from.is_empty() {
        return;
    }
    into.resize(into.len().max(from.len()), 0);
    join(into, from);
}

fn join_foreign(into: &mut Foreign, from: &Foreign) {
    let Some(f) = from else { return };
    match into {
        None => *into = from.clone(),
        Some(i) if Arc::ptr_eq(i, f) => {}
        Some(i) => {
            let i = Arc::make_mut(i);
            for (unit, v) in f.iter() {
                match i.get_mut(unit) {
                    Some(o) if Arc::ptr_eq(o, v) => {}
                    Some(o) => join_growing(Arc::make_mut(o), v),
                    None => {
                        i.insert(*unit, v.clone());
                    }
                }
            }
        }
    }
}

//! Vector clocks: who has seen what of whom.

use super::Seen;
use super::lanes::{Ahead, Entry, Own, Side};
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
    /// The lanes of each warp among themselves, and what each warp knows of lanes, of its own and of others.
    own: Vec<Own>,
    ahead: Vec<Ahead>,
    /// What each warp knows of other clusters.
    foreign: Vec<Foreign>,
    /// Linear index of this cluster, from 1.
    unit: u32,
    /// Warps and asynchronous units.
    pub agents: usize,
    /// Warps of one CTA: `floor` speaks of them only.
    per_cta: usize,
}

/// What is known of the agents of other clusters, by cluster.
pub(crate) type Foreign = Option<Arc<BTreeMap<u32, Arc<Known>>>>;

/// What is known of the agents of one cluster.
#[derive(Debug, Default, Clone)]
pub(crate) struct Known {
    /// Both clock vectors, one after the other.
    clocks: Vec<u32>,
    ahead: Ahead,
}

/// What a release passes on, within a cluster.
#[derive(Debug, Default, Clone)]
pub(crate) struct Token {
    /// Both clock vectors of the releasing agents, one after the other; empty before the first release.
    clocks: Vec<u32>,
    /// Of reads and of initialisations of mbarriers, where more is known of them.
    reads: Vec<u32>,
    inits: Vec<u32>,
    ahead: Ahead,
    foreign: Foreign,
}

impl Token {
    pub fn join(&mut self, o: &Token) {
        join_growing(&mut self.clocks, &o.clocks);
        join_growing(&mut self.reads, &o.reads);
        join_growing(&mut self.inits, &o.inits);
        self.ahead.join(&o.ahead);
        join_foreign(&mut self.foreign, &o.foreign);
    }

    /// Adds that the asynchronous unit `agent` of `agents` was seen up to `clock`.
    pub fn see(&mut self, agents: usize, agent: usize, clock: u32) {
        self.clocks.resize(2 * agents, 0);
        self.clocks[agent] = self.clocks[agent].max(clock);
    }

    /// What is known of all lanes of `a`, of `n` agents.
    fn of_all_lanes(&self, a: usize, n: usize) -> [u32; 3] {
        let at = |v: &[u32], i: usize| v.get(i).copied().unwrap_or(0);
        [at(&self.clocks, a), at(&self.clocks, n + a), at(&self.reads, a)]
    }

    /// Of all lanes of `a`, no more is known than `before` and `clock`.
    fn limit(&mut self, a: usize, n: usize, before: [u32; 3], clock: u32) {
        let set = |v: &mut Vec<u32>, i: usize, before: u32| {
            if let Some(c) = v.get_mut(i) {
                *c = (*c).min(clock).max(before);
            }
        };
        set(&mut self.clocks, a, before[0]);
        set(&mut self.clocks, n + a, before[1]);
        set(&mut self.reads, a, before[2]);
    }

    /// A release of nothing but the mbarriers that `agent` initialised up to `clock`.
    pub fn of_inits(agent: usize, clock: u32) -> Token {
        let mut t = Token::default();
        t.inits.resize(agent + 1, 0);
        t.inits[agent] = clock;
        t
    }
}

/// What an asynchronous access on behalf of some lanes comes after.
#[derive(Debug)]
pub(crate) struct Proxied {
    writes: Vec<u32>,
    reads: Vec<u32>,
    ahead: Ahead,
}

impl Proxied {
    pub fn seen(&self) -> Seen<'_> {
        let Proxied { writes, reads, ahead } = self;
        Seen { writes, reads, side: Side::Proxied, ahead, own: None }
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
        self.own.resize_with(warps, Own::default);
        self.own.iter_mut().for_each(|o| o.whole(1));
        self.ahead.resize_with(warps, Ahead::default);
        self.ahead.iter_mut().for_each(Ahead::clear);
        self.foreign.clear();
        self.foreign.resize(warps, None);
    }

    #[inline(always)]
    pub fn now(&self, a: usize) -> u32 {
        self.vc[a][a]
    }

    /// The lanes `m` of `a` access memory.
    #[inline(always)]
    pub fn touch(&mut self, a: usize, m: u32) {
        self.own[a].touch(m);
    }

    /// The clock of `a` advances.
    fn tick(&mut self, a: usize) {
        self.vc[a][a] += 1;
        self.own[a].tick();
        self.refloor(a);
    }

    fn refloor(&mut self, a: usize) {
        let own = self.own[a].base() - 1;
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
        let reads = if reads.is_empty() { vc } else { reads };
        Seen { writes: vc, reads, side: Side::Writes, ahead: &self.ahead[a], own: Some(&self.own[a]) }
    }

    /// Whether `a` comes after what a lane of `b` did at `clock`.
    pub fn covers(&self, a: usize, (b, lane): (usize, u32), clock: u32, side: Side) -> bool {
        let row = match side {
            Side::Writes => &self.vc[a],
            Side::Proxied => &self.pv[a],
            Side::Reads => self.seen(a).reads,
        };
        row[b] >= clock || self.ahead[a].covers(b as u32, lane, clock, side)
    }

    /// What the asynchronous proxy sees of writes on behalf of the lanes `m` of `a`, and what they have seen of lanes:
    /// generic writes once a proxy fence has covered them, those of agents from `threads` on once waited for (PTX ISA
    /// §8.6). Then the reads they come after.
    pub fn proxied(&self, a: usize, m: u32, threads: usize) -> Proxied {
        let (mut writes, mut reads) = (self.pv[a].clone(), self.seen(a).reads.to_vec());
        writes[threads..].copy_from_slice(&self.vc[a][threads..]);
        let mut ahead = self.ahead[a].clone();
        if let Some(e) = self.entry(a, m) {
            let base = self.own[a].base() - 1;
            writes[a] = writes[a].min(base);
            reads[a] = reads[a].min(base);
            ahead.add(&e);
        }
        Proxied { writes, reads, ahead }
    }

    /// What the lanes `m` of `a` know of the warp's lanes, where that is not everything.
    fn entry(&self, a: usize, m: u32) -> Option<Entry> {
        let known = self.own[a].known(m, self.now(a))?;
        let fenced = self.pv[a][a];
        let proxied = known.map(|c| c.min(fenced));
        Some(Entry { agent: a as u32, writes: known, proxied, reads: known })
    }

    /// `a` has seen the unit `b` up to `clock`.
    pub fn see(&mut self, a: usize, b: usize, clock: u32) {
        let reads = (!self.reads[a].is_empty()).then_some(&mut self.reads[a]);
        for v in std::iter::once(&mut self.vc[a]).chain(reads) {
            v[b] = v[b].max(clock);
        }
    }

    /// Whether `a` is ordered after the initialisation of an mbarrier by `b` at `clock`.
    pub fn seen_init(&self, a: usize, (b, lane): (usize, u32), clock: u32) -> bool {
        a == b
            || self.covers(a, (b, lane), clock, Side::Writes)
            || self.inits[a].get(b).is_some_and(|c| *c >= clock)
    }

    /// Clock up to which all of `agents`, the warps of a CTA, have seen each other.
    pub fn settled(&self, agents: std::ops::Range<usize>) -> u32 {
        self.floor[agents].iter().copied().min().unwrap_or(0)
    }

    /// What the lanes `m` of `a` pass on: both clock vectors; `a` moves on to the next epoch.
    pub fn release(&mut self, a: usize, m: u32, into: &mut Token) {
        let n = self.agents;
        let before = into.of_all_lanes(a, n);
        into.clocks.resize(2 * n, 0);
        join(&mut into.clocks[..n], &self.vc[a]);
        join(&mut into.clocks[n..], &self.pv[a]);
        join_growing(&mut into.reads, &self.reads[a]);
        join_growing(&mut into.inits, &self.inits[a]);
        into.ahead.join(&self.ahead[a]);
        join_foreign(&mut into.foreign, &self.foreign[a]);
        if let Some(e) = self.entry(a, m) {
            into.limit(a, n, before, self.own[a].base() - 1);
            into.ahead.add(&e);
        }
        self.tick(a);
    }

    /// What is left of `token`, which all lanes of `a` released, if the lanes `m` publish it.
    pub fn restrict(&self, a: usize, m: u32, token: &mut Token) {
        let Some(mut e) = self.entry(a, m) else { return };
        let now = token.clocks.get(a).copied().unwrap_or(0);
        let fenced = token.clocks.get(self.agents + a).copied().unwrap_or(0);
        e.writes = e.writes.map(|c| c.min(now));
        e.reads = e.writes;
        e.proxied = e.proxied.map(|c| c.min(fenced));
        token.limit(a, self.agents, [0; 3], self.own[a].base() - 1);
        token.ahead.add(&e);
    }

    pub fn acquire(&mut self, a: usize, from: &Token) {
        if !from.reads.is_empty() {
            self.acquire_reads(a, from);
        }
        self.join_own(a, &from.clocks, &from.ahead);
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
        self.ahead[a].join_reads(&from.ahead);
    }

    fn join_own(&mut self, a: usize, clocks: &[u32], ahead: &Ahead) {
        let n = self.agents;
        if clocks.len() == 2 * n {
            let now = self.now(a);
            join(&mut self.vc[a], &clocks[..n]);
            join(&mut self.pv[a], &clocks[n..]);
            self.own[a].raise_base(clocks[a], now);
            self.refloor(a);
        }
        if !ahead.is_empty() {
            self.ahead[a].join(ahead);
        }
        self.prune(a);
    }

    /// Forgets what is known of single lanes and, by now, of their warps.
    fn prune(&mut self, a: usize) {
        if self.ahead[a].is_empty() {
            return;
        }
        let (vc, pv) = (&self.vc[a], &self.pv[a]);
        let reads = if self.reads[a].is_empty() { vc } else { &self.reads[a] };
        let base = self.own[a].base() - 1;
        self.ahead[a].prune(|b| match b as usize {
            b if b == a => [base; 3],
            b => [vc[b], pv[b], reads[b]],
        });
    }

    /// Adds `t` to what other clusters may learn.
    pub fn export(&self, t: &Token, into: &mut Foreign) {
        let known = Known { clocks: t.clocks.clone(), ahead: t.ahead.clone() };
        let own = BTreeMap::from([(self.unit, Arc::new(known))]);
        join_foreign(into, &Some(Arc::new(own)));
        join_foreign(into, &t.foreign);
    }

    /// `a` learns what clusters exported; with `own`, only what they said of this one.
    pub fn import(&mut self, a: usize, from: &Foreign, own: bool) {
        let Some(map) = from else { return };
        if let Some(v) = map.get(&self.unit) {
            let v = v.clone();
            self.join_own(a, &v.clocks, &v.ahead);
        }
        if !own && (map.len() > 1 || !map.contains_key(&self.unit)) {
            join_foreign(&mut self.foreign[a], from);
        }
    }

    /// Whether `a` comes after what a lane of the agent `b` of another cluster did at `clock`.
    pub fn seen_of(&self, a: usize, unit: u32, (b, lane): (usize, u32), clock: u32, side: Side) -> bool {
        let Some(v) = self.foreign[a].as_ref().and_then(|m| m.get(&unit)) else { return false };
        let n = v.clocks.len() / 2;
        let at = if side == Side::Proxied { n + b } else { b };
        v.clocks.get(at).is_some_and(|c| *c >= clock) || v.ahead.covers(b as u32, lane, clock, side)
    }

    /// `fence.proxy.async`: what `a` has seen, itself included, is visible to the asynchronous proxy.
    pub fn proxy_fence(&mut self, a: usize) {
        let (vc, pv) = (&self.vc[a], &mut self.pv[a]);
        join(pv, vc);
        self.ahead[a].fence_proxy();
        if let Some(map) = &mut self.foreign[a] {
            for v in Arc::make_mut(map).values_mut() {
                let v = Arc::make_mut(v);
                let half = v.clocks.len() / 2;
                let (vc, pv) = v.clocks.split_at_mut(half);
                join(pv, vc);
                v.ahead.fence_proxy();
            }
        }
        self.tick(a);
    }

    /// The lanes `group` of the lanes `live` of a warp synchronised: their accesses before are ordered with those after.
    pub fn warp_sync(&mut self, a: usize, group: u32, live: u32) {
        self.vc[a][a] += 1;
        let clock = self.now(a);
        self.own[a].synchronise(group, live, clock);
        if self.own[a].base() == clock {
            self.prune(a);
        } else {
            self.own[a].tick();
        }
        self.refloor(a);
    }

    /// A barrier of all of `agents`.
    pub fn full(&mut self, agents: std::ops::Range<usize>) {
        let n = self.agents;
        let (mut all, mut proxy, mut foreign) = (vec![0; n], vec![0; n], None);
        let (mut reads, mut inits, mut ahead) = (vec![], vec![], Ahead::default());
        for a in agents.clone() {
            join(&mut all, &self.vc[a]);
            join(&mut proxy, &self.pv[a]);
            join_growing(&mut reads, &self.reads[a]);
            join_growing(&mut inits, &self.inits[a]);
            ahead.join(&self.ahead[a]);
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
            self.own[a].whole(next);
            self.ahead[a].clone_from(&ahead);
            self.refloor(a);
            self.prune(a);
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
                    Some(o) => {
                        let o = Arc::make_mut(o);
                        join_growing(&mut o.clocks, &v.clocks);
                        o.ahead.join(&v.ahead);
                    }
                    None => {
                        i.insert(*unit, v.clone());
                    }
                }
            }
        }
    }
}

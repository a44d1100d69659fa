//! Vector clocks: who has seen what of whom.

/// Vector clocks of the agents of a CTA or cluster.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    pub vc: Vec<Vec<u32>>,
    /// What the asynchronous proxy sees of what each agent has seen: advances at `fence.proxy.async`.
    pub pv: Vec<Vec<u32>>,
    pub floor: Vec<u32>,
    /// Agents that are warps; the rest are asynchronous units.
    pub warps: usize,
    /// Warps of one CTA: `floor` speaks of them only.
    per_cta: usize,
}

impl Clocks {
    pub fn reset(&mut self, warps: usize, per_cta: usize, agents: usize) {
        (self.warps, self.per_cta) = (warps, per_cta);
        self.vc.resize(agents, vec![]);
        self.pv.clear();
        self.pv.resize(agents, vec![0; agents]);
        for (a, v) in self.vc.iter_mut().enumerate() {
            v.clear();
            v.resize(agents, 0);
            v[a] = 1;
        }
        self.floor.clear();
        self.floor.resize(agents, 0);
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
    }

    /// What `a` passes on: both its clock vectors; `a` moves on to the next epoch.
    pub fn release(&mut self, a: usize, into: &mut Vec<u32>) {
        let n = self.vc.len();
        into.resize(2 * n, 0);
        join(&mut into[..n], &self.vc[a]);
        join(&mut into[n..], &self.pv[a]);
        self.vc[a][a] += 1;
        self.refloor(a);
    }

    pub fn acquire(&mut self, a: usize, from: &[u32]) {
        let n = self.vc.len();
        if from.len() != 2 * n {
            return;
        }
        join(&mut self.vc[a], &from[..n]);
        join(&mut self.pv[a], &from[n..]);
        self.refloor(a);
    }

    /// `fence.proxy.async`: what `a` has seen, itself included, is visible to the asynchronous proxy.
    pub fn proxy_fence(&mut self, a: usize) {
        let (vc, pv) = (&self.vc[a], &mut self.pv[a]);
        join(pv, vc);
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
        let n = self.vc.len();
        let (mut all, mut proxy) = (vec![0; n], vec![0; n]);
        for a in agents.clone() {
            join(&mut all, &self.vc[a]);
            join(&mut proxy, &self.pv[a]);
        }
        let next = agents.clone().map(|a| self.now(a)).max().unwrap_or(0) + 1;
        for a in agents.clone() {
            self.vc[a].copy_from_slice(&all);
            self.pv[a].copy_from_slice(&proxy);
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

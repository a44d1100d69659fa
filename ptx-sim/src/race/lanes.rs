//! What is known of single lanes.
//!
//! A clock of a warp says what is known of all its lanes. Between two synchronisations of a warp its lanes are unordered
//! (PTX ISA §8), so a release by some of them covers the accesses of those alone, and those of the others up to the last
//! synchronisation. What is known of some lanes beyond the clock of their warp is an entry of [`Ahead`]; nearly always
//! there is none.

use super::{ANY_LANE, MIXED};

/// A clock for each lane.
pub(super) type PerLane = [u32; 32];

/// Which accesses of a lane are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Writes,
    /// Writes that the asynchronous proxy sees.
    Proxied,
    Reads,
}

/// Clocks of the lanes of the warp `agent`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub agent: u32,
    pub writes: PerLane,
    pub proxied: PerLane,
    pub reads: PerLane,
}

/// What is known of lanes of warps, an entry a warp.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ahead(Vec<Entry>);

fn raise(into: &mut PerLane, from: &PerLane) {
    for (i, f) in into.iter_mut().zip(from) {
        *i = (*i).max(*f);
    }
}

/// Whether `clocks` reach `clock` in the lane; in all lanes, or in any of them where nobody knows in which.
fn reach(clocks: &PerLane, lane: u32, clock: u32) -> bool {
    match lane {
        0..32 => clocks[lane as usize] >= clock,
        MIXED => clocks.iter().any(|c| *c >= clock),
        _ => clocks.iter().all(|c| *c >= clock),
    }
}

impl Ahead {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn add(&mut self, e: &Entry) {
        match self.0.iter_mut().find(|o| o.agent == e.agent) {
            Some(o) => {
                raise(&mut o.writes, &e.writes);
                raise(&mut o.proxied, &e.proxied);
                raise(&mut o.reads, &e.reads);
            }
            None => self.0.push(e.clone()),
        }
    }

    pub fn join(&mut self, o: &Ahead) {
        for e in &o.0 {
            self.add(e);
        }
    }

    /// Comes after the reads alone that `o` knows of.
    pub(super) fn join_reads(&mut self, o: &Ahead) {
        for e in &o.0 {
            self.add(&Entry { agent: e.agent, writes: [0; 32], proxied: [0; 32], reads: e.reads });
        }
    }

    /// All that is known is visible to the asynchronous proxy.
    pub(super) fn fence_proxy(&mut self) {
        for e in &mut self.0 {
            let writes = e.writes;
            raise(&mut e.proxied, &writes);
        }
    }

    /// Drops entries that the clocks of whole warps cover: of writes, of what the proxy sees, of reads.
    pub(super) fn prune(&mut self, known: impl Fn(u32) -> [u32; 3]) {
        self.0.retain(|e| {
            let k = known(e.agent);
            let over = |v: &PerLane, c: u32| v.iter().any(|x| *x > c);
            over(&e.writes, k[0]) || over(&e.proxied, k[1]) || over(&e.reads, k[2])
        });
    }

    /// Whether an access of a lane of `agent` at `clock` is known.
    pub fn covers(&self, agent: u32, lane: u32, clock: u32, side: Side) -> bool {
        self.0.iter().find(|e| e.agent == agent).is_some_and(|e| {
            let clocks = match side {
                Side::Writes => &e.writes,
                Side::Proxied => &e.proxied,
                Side::Reads => &e.reads,
            };
            reach(clocks, lane, clock)
        })
    }
}

/// The lanes of one warp among themselves.
#[derive(Debug, Default)]
pub(crate) struct Own {
    /// What any lane did at an earlier clock comes before what any lane does from here on.
    base: u32,
    /// Lanes that accessed memory since: at the warp's clock, and before.
    touched: [u32; 2],
    /// Where groups of lanes synchronised since: what lane `j` did at a clock below `[i][j]` comes before lane `i`.
    groups: Option<Box<[PerLane; 32]>>,
}

impl Own {
    /// At the start of a warp, or after a synchronisation of all its lanes; `clock` is its clock from here on.
    pub(super) fn whole(&mut self, clock: u32) {
        *self = Own { base: clock, ..Own::default() };
    }

    pub(super) fn base(&self) -> u32 {
        self.base
    }

    #[inline(always)]
    pub(super) fn touch(&mut self, lanes: u32) {
        self.touched[0] |= lanes;
    }

    /// The clock of the warp advances.
    #[inline(always)]
    pub(super) fn tick(&mut self) {
        self.touched[1] |= self.touched[0];
        self.touched[0] = 0;
    }

    /// All lanes come after what all lanes did up to `clock`, which the warp's clock `now` has passed.
    pub(super) fn raise_base(&mut self, clock: u32, now: u32) {
        if clock < self.base {
            return;
        }
        self.base = clock.saturating_add(1).min(now);
        if self.base == now {
            self.touched[1] = 0;
            self.groups = None;
        }
    }

    /// The lanes `group` of the lanes `live` synchronised; `clock` is the warp's clock from here on.
    pub(super) fn synchronise(&mut self, group: u32, live: u32, clock: u32) {
        let touched = self.touched[0] | self.touched[1];
        if (live | touched) & !group == 0 {
            return self.whole(clock);
        }
        let base = self.base;
        let rows = self.groups.get_or_insert_with(|| Box::new([[base; 32]; 32]));
        let mut all = [base; 32];
        for i in (0..32).filter(|i| group >> i & 1 != 0) {
            raise(&mut all, &rows[i]);
            all[i] = clock;
        }
        for i in (0..32).filter(|i| group >> i & 1 != 0) {
            rows[i] = all;
        }
    }

    /// Up to which clock the lanes `m` have seen each lane at the warp's clock `now`; nothing, if that is all there is.
    pub(super) fn known(&self, m: u32, now: u32) -> Option<PerLane> {
        if (self.touched[0] | self.touched[1]) & !m == 0 {
            return None;
        }
        let mut known = [self.base - 1; 32];
        if let Some(rows) = &self.groups {
            for i in (0..32).filter(|i| m >> i & 1 != 0) {
                for (k, c) in known.iter_mut().zip(&rows[i]) {
                    *k = (*k).max(c - 1);
                }
            }
        }
        for (i, k) in known.iter_mut().enumerate() {
            if m >> i & 1 != 0 {
                *k = now;
            }
        }
        Some(known)
    }

    /// Whether what lane `other` did at `clock` comes before what `lane` does now.
    #[inline(always)]
    pub(super) fn before(&self, other: u32, clock: u32, lane: u32) -> bool {
        clock < self.base || (lane == other && lane != ANY_LANE) || self.grouped(other, clock, lane)
    }

    fn grouped(&self, other: u32, clock: u32, lane: u32) -> bool {
        let Some(rows) = &self.groups else { return false };
        let each = |lane: u32| if lane < 32 { lane as usize..lane as usize + 1 } else { 0..32 };
        each(lane).all(|i| each(other).all(|j| i == j || clock < rows[i][j]))
    }
}

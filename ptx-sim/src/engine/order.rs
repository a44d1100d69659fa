//! What would have ordered two accesses, in words; and accesses whose order is left open on purpose.

use super::{Engine, Warp};
use crate::findings::{FindingKind, RaceKind};
use crate::op::*;
use crate::race::{ANY_LANE, Conflict, GlobalConflict};

impl Engine<'_> {
    /// A warp other than `agent` that has seen the unit `unit` up to `clock`: it waited, or was told by one that did.
    fn waiter(&self, agent: usize, unit: usize, clock: u32) -> Option<usize> {
        let seen = |w: &usize| {
            *w != agent && *w != unit && self.clocks.vc[*w].get(unit).is_some_and(|c| *c >= clock)
        };
        (0..self.clocks.vc.len()).find(seen)
    }

    /// What would order an access of the warp `agent` after one of `unit` at `clock`. `read`: that one was a read.
    pub(super) fn what_orders(&self, agent: usize, unit: usize, clock: u32, read: bool) -> String {
        let warps = self.warps.len();
        let cta = |a: usize| a / self.wpc;
        if unit == agent {
            return "`bar.warp.sync` orders lanes".into();
        }
        let waiter = self.waiter(agent, unit, clock).map(|w| self.agent_name(w as u32));
        if unit >= warps {
            let wait = match unit {
                u if u < 2 * warps => "`cp.async.wait_group` or `cp.async.wait_all`",
                u if self.is_wgmma(u) => "`wgmma.wait_group`",
                _ if read => "`cp.async.bulk.wait_group.read`, or the mbarrier of the copy,",
                _ => "the copy's mbarrier or bulk group",
            };
            return match waiter {
                Some(w) => {
                    format!("{w} waited for it: a barrier after that wait must follow before this access")
                }
                None => format!("{wait} must be waited for first, and then a barrier for other threads"),
            };
        }
        let barrier = match cta(unit) == cta(agent) {
            true => "a barrier orders warps",
            false => {
                "`barrier.cluster`, or an mbarrier with .release and .acquire at .cluster scope, orders CTAs of a cluster"
            }
        };
        match waiter {
            Some(w) => format!("{w} is ordered after it, this thread is not: {barrier}"),
            None => barrier.into(),
        }
    }

    fn is_wgmma(&self, unit: usize) -> bool {
        let first = 2 * self.warps.len() + super::bulk::POOL;
        (first..first + self.warps.len()).contains(&unit)
    }

    /// Whether the load at `pc` is in a loop that does nothing but poll: the shortest loop around it touches memory by
    /// strong loads alone.
    fn polls(&self, pc: u32) -> bool {
        let insts = &self.k.insts;
        let loops = insts.iter().enumerate().filter_map(|(at, i)| match &i.op {
            Op::Bra { target } if *target <= pc && pc <= at as u32 => Some((*target as usize, at)),
            _ => None,
        });
        let Some((from, to)) = loops.min_by_key(|(from, to)| to - from) else { return false };
        insts[from..=to].iter().all(|i| match &i.op {
            Op::Ld(m) => m.sem != Sem::Weak || m.space == MSpace::Param,
            Op::St(_) | Op::Atom(_) | Op::Bar(_) | Op::WarpSync { .. } => false,
            _ => true,
        })
    }

    /// Two unordered `volatile` accesses to `place`. A load that only polls waits for the other side, whenever it comes.
    #[cold]
    pub(super) fn report_volatile(&mut self, w: &Warp, pc: u32, lane: u32, c: &Conflict, place: &str) {
        if c.kind == RaceKind::ReadAfterWrite && self.polls(pc) {
            return;
        }
        let other = match c.agent as usize == w.agent(self.wpc) {
            true if c.lane == ANY_LANE => "another lane of the same warp".into(),
            true => format!("lane {} of the same warp", c.lane),
            false => self.agent_name(c.agent),
        };
        let orders = self.what_orders(w.agent(self.wpc), c.agent as usize, c.clock, false);
        self.loose(w, pc, lane, c.kind, c.pc, &other, place, &orders);
    }

    /// The same in global memory.
    #[cold]
    pub(super) fn report_loose(&mut self, w: &Warp, pc: u32, lane: u32, alloc: usize, c: &GlobalConflict) {
        if c.kind == RaceKind::ReadAfterWrite && self.polls(pc) {
            return;
        }
        let place = format!("byte {} of `{}`", c.at, self.env.mem.allocs[alloc].name);
        let (other, orders) = self.other_access(w.agent(self.wpc), c);
        self.loose(w, pc, lane, c.kind, c.with.pc, &other, &place, &orders);
    }

    fn loose(
        &mut self,
        w: &Warp,
        pc: u32,
        lane: u32,
        kind: RaceKind,
        with: u32,
        other: &str,
        place: &str,
        orders: &str,
    ) {
        let line = self.k.sites.get(with as usize).map_or(0, |s| s.line);
        let access = if kind == RaceKind::ReadAfterWrite { "reads" } else { "writes" };
        self.find(FindingKind::UnorderedVolatile(kind), w, pc, lane, with as u64, || {
            format!(
                "lane {lane} {access} {place}, unordered with the write by {other} at line {line}; both are volatile, which forbids neither order; {orders}"
            )
        });
    }

    /// Who made the earlier access of a conflict in global memory, and what would order the warp `agent` after it.
    pub(super) fn other_access(&self, agent: usize, c: &GlobalConflict) -> (String, String) {
        let o = c.with;
        let linear = o.cta.wrapping_sub(1) as u64;
        let per_unit = self.ctas.len() as u64;
        if linear / per_unit != self.ctas[0].linear / per_unit {
            let [x, y, _] = self.env.grid.map(u64::from);
            let at = format!("({},{},{})", linear % x, linear / x % y, linear / (x * y));
            let warp = o.agent as usize % self.wpc;
            return (
                format!("warp {warp} of CTA {at}"),
                "release and acquire at gpu scope order CTAs".into(),
            );
        }
        let unit = o.agent as usize;
        let name = if unit == agent {
            if o.lane as u32 == ANY_LANE {
                "another lane of the same warp".into()
            } else {
                format!("lane {} of the same warp", o.lane)
            }
        } else {
            self.agent_name(o.agent as u32)
        };
        (name, self.what_orders(agent, unit, o.clock, c.kind == RaceKind::WriteAfterRead))
    }
}

//! Happens-before race detection over global memory.
//!
//! The same relation as in shared memory, tracked in granules as wide as the kernel's narrowest access. Kernels in
//! which no CTA can wait for another keep one shadow a worker, forgotten after each cluster, and [`Crossings`]: which
//! granules were touched by more than one cluster, a set that does not depend on the order of CTAs. Kernels whose CTAs
//! may synchronise run on one core with one shadow for the whole launch, in which accesses of other clusters are
//! ordered by what a warp has acquired.

use super::{ANY_LANE, Budget, Crossings, MIXED, Strength};
use crate::findings::RaceKind;
use std::collections::HashMap;
use std::sync::Arc;

/// Unordered readers of one granule that are remembered.
const READERS: usize = 64;
/// Granules a page, and of each bit that tells what of it is in use.
const PAGE: usize = 2048;
const ROW: usize = PAGE / 64;
const NONE: u32 = u32::MAX;

/// Who accesses, and when.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Access {
    /// Linear index of the CTA, from 1; 0: nobody.
    pub cta: u32,
    pub clock: u32,
    pub pc: u32,
    pub agent: u16,
    pub lane: u8,
    pub strength: Strength,
}

impl Access {
    /// Morally strong (PTX ISA §8.7): both are strong, at scopes that contain the other's thread.
    fn strong_with(&self, o: &Access, per_unit: u32) -> bool {
        let unit = |a: &Access| a.cta.wrapping_sub(1) / per_unit;
        let reach = |cluster| self.strength.reaches(cluster) && o.strength.reaches(cluster);
        let both = self.strength.is_strong() && o.strength.is_strong();
        both && (self.cta == o.cta || reach(unit(self) == unit(o)))
    }

    /// Weak for threads of another cluster.
    pub(super) fn is_weak(&self) -> bool {
        !self.strength.is_strong() || self.strength.is_narrow()
    }

    /// Agent, clock and lane.
    pub fn who(&self) -> (u32, u32, u32) {
        (self.agent as u32, self.clock, self.lane as u32)
    }
}

/// Readers: the warps of `cta` in `mask` at `clock`, all of one lane, or all of [`ANY_LANE`], or [`MIXED`]; or, with the lane
/// [`UNIT`], the one unit of that number.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Readers {
    cta: u32,
    clock: u32,
    /// Bit 31: more readers in the table, bit 30: covered writes in theirs; then the lane, then the pc.
    place: u32,
    mask: u32,
}

const MORE: u32 = 1 << 31;
const COVERED: u32 = 1 << 30;
const MARKS: u32 = MORE | COVERED;
const PC: u32 = (1 << 24) - 1;
const UNIT: u32 = 62;

impl Readers {
    fn lane(self) -> u32 {
        self.place >> 24 & 63
    }

    /// The lane of these readers and of one more, of the warp `bit`.
    fn lane_with(self, lane: u32, bit: u32) -> u32 {
        match self.lane() {
            same if same == lane => lane,
            _ if self.mask == bit => ANY_LANE,
            _ => MIXED,
        }
    }
}

impl Readers {
    pub fn any(self) -> bool {
        self.cta != 0
    }

    /// One after the other.
    fn each(self, me: &Me) -> impl Iterator<Item = Access> {
        // The first agent of the readers' CTA.
        let first = (self.cta.wrapping_sub(1) % me.per_unit) as u16 * me.per_cta;
        let unit = self.lane() == UNIT;
        let lane = match self.lane() {
            UNIT => ANY_LANE,
            lane => lane,
        } as u8;
        let (mut left, cta, clock) = (if unit { 1 } else { self.mask }, self.cta, self.clock);
        std::iter::from_fn(move || {
            let bit = (left != 0).then(|| left.trailing_zeros())?;
            left &= left - 1;
            let agent = if unit { self.mask as u16 } else { first + bit as u16 };
            Some(Access { cta, clock, pc: self.place & PC, agent, lane, strength: Strength::WEAK })
        })
    }
}

/// Shadow of all of global memory, paged.
#[derive(Debug, Default)]
pub(crate) struct GlobalShadow {
    /// By allocation: page of each `PAGE` granules.
    tables: Vec<Vec<u32>>,
    pages: Vec<Page>,
    free: Vec<u32>,
    /// Pages in use: allocation and number.
    touched: Vec<(u32, u32)>,
    /// Readers that the cell cannot express, by page and cell.
    more: HashMap<(u32, u32), Vec<Access>>,
    /// Writes that the last one covers but that later accesses must be ordered with, by page and cell.
    covered: HashMap<(u32, u32), Vec<Access>>,
    /// The page used last: allocation, number, page.
    last: Option<(u32, u32, u32)>,
    /// Log2 of the bytes of a granule.
    shift: u32,
    budget: Arc<Budget>,
}

/// The last write and the readers of `PAGE` granules. Both are empty if there was no memory for them, the writes also
/// until there is one.
#[derive(Debug, Default)]
struct Page {
    w: Box<[Access]>,
    r: Box<[Readers]>,
    /// Rows of granules that are in use.
    rows: u64,
}

/// What an access conflicts with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GlobalConflict {
    pub kind: RaceKind,
    pub with: Access,
    /// Both accesses are `volatile`: no race, but their order is left open.
    pub loose: bool,
    /// Offset of the granule in the allocation.
    pub at: u64,
}

/// An accessor: a warp, with its number in its CTA, or an asynchronous unit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Me {
    pub access: Access,
    pub warp: Option<u32>,
    /// Warps of a CTA.
    pub per_cta: u16,
    /// CTAs of a cluster.
    pub per_unit: u32,
}

impl GlobalShadow {
    pub fn new(shift: u32, budget: Arc<Budget>) -> Self {
        GlobalShadow { shift, budget, ..GlobalShadow::default() }
    }

    /// Log2 of the bytes of a granule.
    pub fn shift(&self) -> u32 {
        self.shift
    }

    /// Forgets everything, after adding it to `crossings`.
    pub fn retire(&mut self, crossings: Option<(&Crossings, u32)>) {
        for (alloc, number) in std::mem::take(&mut self.touched) {
            let page = std::mem::replace(&mut self.tables[alloc as usize][number as usize], NONE);
            let Page { w, r, rows } = &mut self.pages[page as usize];
            let mut left = std::mem::take(rows);
            while left != 0 {
                let row = left.trailing_zeros() as usize * ROW;
                left &= left - 1;
                let (w, r) = (w.get_mut(row..row + ROW).unwrap_or_default(), &mut r[row..row + ROW]);
                if let Some((c, unit)) = crossings {
                    let first = number as usize * PAGE + row;
                    let both = |k: usize| {
                        let list = self.covered.get(&(page, (row + k) as u32));
                        list.is_some_and(|l| l.iter().any(Access::is_weak))
                    };
                    c.add_row(alloc as usize, first, unit, (w, r), both);
                }
                w.fill(Access::default());
                r.fill(Readers::default());
            }
            self.free.push(page);
        }
        self.last = None;
        self.more.clear();
        self.covered.clear();
    }

    #[inline(always)]
    fn page(&mut self, alloc: u32, size: u64, number: usize) -> u32 {
        match self.last {
            Some((a, n, p)) if a == alloc && n == number as u32 => p,
            _ => {
                let known = self.tables.get(alloc as usize).and_then(|t| t.get(number)).copied();
                let p = match known {
                    Some(p) if p != NONE => p,
                    _ => self.find_page(alloc, size, number),
                };
                self.last = Some((alloc, number as u32, p));
                p
            }
        }
    }

    #[inline(never)]
    fn find_page(&mut self, alloc: u32, size: u64, number: usize) -> u32 {
        let a = alloc as usize;
        if self.tables.len() <= a {
            self.tables.resize(a + 1, vec![]);
        }
        if self.tables[a].is_empty() {
            let granules = (size >> self.shift) as usize + 1;
            self.tables[a].resize(granules / PAGE + 1, NONE);
        }
        let p = self.free.pop().unwrap_or_else(|| {
            let r = self.budget.cells(PAGE, Readers::default());
            self.pages.push(Page { w: Box::default(), r, rows: 0 });
            self.pages.len() as u32 - 1
        });
        self.tables[a][number] = p;
        self.touched.push((alloc, number as u32));
        p
    }

    /// Records weak reads by the lanes `left`, or (lane [`ANY_LANE`]) by the warp as a whole; gives the lanes that take the
    /// full check, because somebody wrote there or other readers came before.
    pub fn read_each(
        &mut self,
        (alloc, size): (u32, u64),
        (base, addr, bytes): (u64, &[u64; 32], u32),
        mut left: u32,
        a: &Access,
        bit: u32,
    ) -> u32 {
        let (shift, n) = (self.shift, (bytes >> self.shift).max(1) as usize);
        // The granules of one lane are on one page, as those of an aligned access are.
        let granule = |i: u32| ((addr[i as usize & 31] - base) >> shift) as usize;
        let together = a.lane == ANY_LANE as u8;
        let mut careful = 0;
        while left != 0 {
            let number = granule(left.trailing_zeros()) / PAGE;
            let p = self.page(alloc, size, number);
            let page = &mut self.pages[p as usize];
            let Ok(readers) = <&mut [Readers; PAGE]>::try_from(&mut page.r[..]) else {
                return careful | left;
            };
            let unwritten = page.w.is_empty();
            // The next lanes on this page.
            while left != 0 {
                let i = left.trailing_zeros();
                let first = granule(i);
                if first / PAGE != number {
                    break;
                }
                left &= left - 1;
                let k = first % PAGE;
                let lane = if together { ANY_LANE } else { i };
                page.rows |= 1 << (k / ROW);
                let mut bad = !unwritten && page.w[k..k + n].iter().any(|w| w.cta != 0);
                for r in &mut readers[k..(k + n).min(PAGE)] {
                    if (r.cta, r.clock) == (a.cta, a.clock) && r.lane() != UNIT && !bad {
                        let lane = r.lane_with(lane, bit);
                        r.mask |= bit;
                        r.place = r.place & MARKS | lane << 24 | a.pc & PC;
                    } else if r.cta == 0 && !bad {
                        let place = lane << 24 | a.pc & PC;
                        *r = Readers { cta: a.cta, clock: a.clock, place, mask: bit };
                    } else {
                        bad = true;
                    }
                }
                careful |= (bad as u32) << i;
            }
        }
        careful
    }

    /// Records a weak write of a warp to granules that nobody wrote and nobody else read; `false` if it takes the full
    /// check.
    #[inline(always)]
    pub fn first_write(
        &mut self,
        (alloc, size): (u32, u64),
        (off, bytes): (u64, u32),
        a: &Access,
        bit: u32,
    ) -> bool {
        let first = (off >> self.shift) as usize;
        let p = self.page(alloc, size, first / PAGE);
        let (k, n) = (first % PAGE, (bytes >> self.shift).max(1) as usize);
        let page = &mut self.pages[p as usize];
        let (Some(w), Some(r)) = (page.w.get_mut(k..k + n), page.r.get(k..k + n)) else { return false };
        let own = |r: &Readers| {
            r.cta == a.cta && r.mask == bit && r.place & MARKS == 0 && r.lane() == a.lane as u32
        };
        let free = w.iter().all(|w| w.cta == 0) && r.iter().all(|r| r.cta == 0 || own(r));
        if free {
            page.rows |= 1 << (k / ROW);
            w.fill(*a);
        }
        free
    }

    /// Checks and records an access to whole granules. `seen(a, o)` tells whether the accessor's `a` comes after the read
    /// `o`, `writes` the same of a write.
    pub fn access(
        &mut self,
        (alloc, size): (u32, u64),
        (off, bytes): (u64, u32),
        me: &Me,
        write: bool,
        seen: &impl Fn(&Access, &Access) -> bool,
        writes: &impl Fn(&Access, &Access) -> bool,
    ) -> Option<GlobalConflict> {
        let mut found = None;
        let first = off >> self.shift;
        for g in first..first + (bytes as u64 >> self.shift).max(1) {
            let (number, k) = (g as usize / PAGE, g as usize % PAGE);
            let p = self.page(alloc, size, number);
            let page = &mut self.pages[p as usize];
            if write && page.w.is_empty() {
                page.w = self.budget.cells(PAGE, Access::default());
            }
            if page.r.is_empty() || write && page.w.is_empty() {
                continue;
            }
            page.rows |= 1 << (k / ROW);
            if let Some((kind, with, loose)) = self.cell(p, k, me, write, seen, writes) {
                found = found.or(Some(GlobalConflict { kind, with, loose, at: g << self.shift }));
            }
        }
        found
    }

    #[inline(never)]
    fn cell(
        &mut self,
        p: u32,
        k: usize,
        me: &Me,
        write: bool,
        seen: &impl Fn(&Access, &Access) -> bool,
        writes: &impl Fn(&Access, &Access) -> bool,
    ) -> Option<(RaceKind, Access, bool)> {
        let a = me.access;
        let strong = a.strength.is_strong();
        let key = (p, k as u32);
        let Page { w, r: readers, .. } = &mut self.pages[p as usize];
        let (w, c) = (w.get_mut(k), &mut readers[k]);
        let old = w.as_deref().copied().unwrap_or_default();
        let ordered = |o: &Access, seen: &dyn Fn(&Access, &Access) -> bool| seen(&a, o);
        let mut conflict = None;
        let kind = if write { RaceKind::WriteWrite } else { RaceKind::ReadAfterWrite };
        let covered = (c.place & COVERED != 0).then(|| self.covered.get(&key)).flatten();
        for o in std::iter::once(&old).chain(covered.into_iter().flatten()) {
            if o.cta == 0 || conflict.is_some_and(|c: (_, _, bool)| !c.2) || ordered(o, writes) {
                continue;
            }
            // Fenced writes may be flags, which others poll without being ordered.
            let same = (o.agent, o.cta) == (a.agent, a.cta);
            let exchange = if write { same } else { !o.strength.is_fenced() };
            if !a.strong_with(o, me.per_unit) {
                conflict = Some((kind, *o, false));
            } else if o.strength.is_volatile() && a.strength.is_volatile() && exchange {
                conflict = Some((kind, *o, true));
            }
        }
        let r = *c;
        if write {
            let raced = conflict.is_some_and(|c| !c.2);
            let mut late = None;
            if r.cta != 0 {
                let alone = r.lane() == UNIT || r.mask.count_ones() == 1;
                let excused = |o: &Access| !alone && (o.agent, o.cta) == (a.agent, a.cta);
                late = r.each(me).find(|o| !excused(o) && !ordered(o, seen));
            }
            if r.place & MORE != 0
                && let Some(list) = self.more.get(&key)
                && late.is_none()
            {
                late = list.iter().find(|o| !(ordered(o, seen) || a.strong_with(o, me.per_unit))).copied();
            }
            if let Some(o) = late.filter(|_| !raced) {
                conflict = Some((RaceKind::WriteAfterRead, o, false));
            }
            // Unordered writes, and weak ones under a strong one, which other strong accesses need not be ordered with.
            let outlives = |o: &Access| if strong { o.is_weak() } else { !ordered(o, writes) };
            if r.place & COVERED != 0
                && let Some(list) = self.covered.get_mut(&key)
            {
                list.retain(outlives);
                if list.is_empty() {
                    self.covered.remove(&key);
                    c.place &= !COVERED;
                }
            }
            if old.cta != 0 && outlives(&old) {
                let list = self.covered.entry(key).or_default();
                // Of the weak writes of one agent the last stands for all.
                list.retain(|o| (o.cta, o.agent) != (old.cta, old.agent));
                if list.len() >= READERS {
                    list.remove(0);
                }
                list.push(old);
                c.place |= COVERED;
            }
            if let Some(w) = w {
                *w = a;
            }
            return conflict;
        }
        if strong {
            // Only a weak write could race with it, and sees it here.
            list_reader(&mut self.more, key, a, &|o| ordered(o, seen));
            c.place |= MORE;
            return conflict;
        }
        let place = |old: u32, lane: u32| old & MARKS | lane << 24 | a.pc & PC;
        if let Some(bit) = me.warp
            && (r.cta, r.clock) == (a.cta, a.clock)
            && r.lane() != UNIT
        {
            let lane = r.lane_with(a.lane.into(), 1 << bit);
            (c.mask, c.place) = (r.mask | 1 << bit, place(r.place, lane));
            return conflict;
        }
        // Readers that this one is not ordered after move to the table.
        for o in r.each(me).filter(|o| r.cta != 0 && !ordered(o, seen)) {
            if (o.cta, o.agent) != (a.cta, a.agent) || me.warp.is_some() {
                list_reader(&mut self.more, key, o, &|o| ordered(o, seen));
                c.place |= MORE;
            }
        }
        let (lane, mask) = match me.warp {
            Some(bit) => (a.lane as u32, 1 << bit),
            None => (UNIT, a.agent as u32),
        };
        *c = Readers { cta: a.cta, clock: a.clock, place: place(c.place, lane), mask };
        conflict
    }
}

/// Adds a reader to the table, dropping what it is ordered after.
#[cold]
fn list_reader(
    more: &mut HashMap<(u32, u32), Vec<Access>>,
    key: (u32, u32),
    a: Access,
    ordered: &dyn Fn(&Access) -> bool,
) {
    let list = more.entry(key).or_default();
    // One lane's later read stands for its earlier ones; beyond the limit the oldest go.
    let covered =
        |o: &Access| (o.cta, o.agent) == (a.cta, a.agent) && (o.lane == a.lane || a.lane as u32 == ANY_LANE);
    list.retain(|o| o.strength != a.strength || !(ordered(o) || covered(o)));
    if list.len() >= READERS {
        list.remove(0);
    }
    list.push(a);
}

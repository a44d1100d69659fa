//! Happens-before race detection over global memory.
//!
//! The same relation as in shared memory, tracked in granules as wide as the kernel's narrowest access. Kernels in
//! which no CTA can wait for another keep one shadow a worker, forgotten after each cluster, and [`Crossings`]: which
//! granules were touched by more than one cluster, a set that does not depend on the order of CTAs. Kernels whose CTAs
//! may synchronise run on one core with one shadow for the whole launch, in which accesses of other clusters are
//! ordered by what a warp has acquired.

use super::ANY_LANE;
use crate::findings::RaceKind;
use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Unordered readers of one granule that are remembered.
const READERS: usize = 64;
/// Granules a page.
const PAGE: usize = 512;
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
    pub strong: bool,
}

impl Access {
    const NOBODY: Access = Access { cta: 0, clock: 0, pc: 0, agent: 0, lane: 0, strong: false };
}

/// Readers: the warps of `cta` in `mask` at `clock`.
#[derive(Debug, Clone, Copy, Default)]
struct Readers {
    cta: u32,
    clock: u32,
    /// Bit 31: more readers in the table; then the lane, then the pc.
    place: u32,
    mask: u32,
}

const MORE: u32 = 1 << 31;
const PC: u32 = (1 << 24) - 1;

impl Readers {
    const NOBODY: Readers = Readers { cta: 0, clock: 0, place: 0, mask: 0 };

    fn lane(self) -> u32 {
        self.place >> 24 & 63
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    w: Access,
    r: Readers,
}

/// Shadow of all of global memory, paged.
#[derive(Debug, Default)]
pub(crate) struct GlobalShadow {
    /// By allocation: page of each `PAGE` granules.
    tables: Vec<Vec<u32>>,
    pages: Vec<Box<Page>>,
    free: Vec<u32>,
    /// Pages in use: allocation and number.
    touched: Vec<(u32, u32)>,
    /// Readers that the cell cannot express, by page and cell.
    more: HashMap<(u32, u32), Vec<Access>>,
    /// Granules both weakly and strongly written in one CTA, by page and cell.
    both: HashMap<(u32, u32), ()>,
    /// The page used last: allocation, number, page.
    last: Option<(u32, u32, u32)>,
    /// Log2 of the bytes of a granule.
    pub shift: u32,
}

#[derive(Debug)]
struct Page {
    cells: [Cell; PAGE],
    /// Rows of 32 cells that are in use.
    rows: u32,
}

impl Page {
    const EMPTY: Page = Page { cells: [Cell { w: Access::NOBODY, r: Readers::NOBODY }; PAGE], rows: 0 };
}

/// What an access conflicts with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GlobalConflict {
    pub kind: RaceKind,
    pub with: Access,
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
    /// Forgets everything, after adding it to `crossings`.
    pub fn retire(&mut self, crossings: Option<(&Crossings, u32)>) {
        for (alloc, number) in std::mem::take(&mut self.touched) {
            let page = std::mem::replace(&mut self.tables[alloc as usize][number as usize], NONE);
            let Page { cells, rows } = &mut *self.pages[page as usize];
            let mut left = std::mem::take(rows);
            while left != 0 {
                let row = left.trailing_zeros() as usize * 32;
                left &= left - 1;
                let cells = &mut cells[row..row + 32];
                if let Some((c, unit)) = crossings {
                    let first = number as usize * PAGE + row;
                    let both =
                        |k: usize| !self.both.is_empty() && self.both.contains_key(&(page, (row + k) as u32));
                    c.add_row(alloc as usize, first, unit, cells, both);
                }
                cells.fill(Cell::default());
            }
            self.free.push(page);
        }
        self.last = None;
        self.more.clear();
        self.both.clear();
    }

    #[inline(always)]
    fn page(&mut self, alloc: u32, size: u64, number: usize) -> u32 {
        match self.last {
            Some((a, n, p)) if a == alloc && n == number as u32 => p,
            _ => {
                let p = self.find_page(alloc, size, number);
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
        let p = self.tables[a][number];
        if p != NONE {
            return p;
        }
        let p = self.free.pop().unwrap_or_else(|| {
            self.pages.push(Box::new(Page::EMPTY));
            self.pages.len() as u32 - 1
        });
        self.tables[a][number] = p;
        self.touched.push((alloc, number as u32));
        p
    }

    /// Checks and records an access to whole granules. `seen(cta, agent)` tells how far the accessor has seen that
    /// agent; `writes` the same, of writes (the asynchronous proxy sees fewer of them).
    pub fn access(
        &mut self,
        (alloc, size): (u32, u64),
        (off, bytes): (u64, u32),
        me: &Me,
        write: bool,
        seen: &impl Fn(u32, u16) -> u32,
        writes: &impl Fn(u32, u16) -> u32,
    ) -> Option<GlobalConflict> {
        let mut found = None;
        let first = off >> self.shift;
        for g in first..first + (bytes as u64 >> self.shift).max(1) {
            let (number, k) = (g as usize / PAGE, g as usize % PAGE);
            let p = self.page(alloc, size, number);
            if let Some((kind, with)) = self.cell(p, k, me, write, seen, writes) {
                found = found.or(Some(GlobalConflict { kind, with, at: g << self.shift }));
            }
        }
        found
    }

    #[inline(always)]
    fn cell(
        &mut self,
        p: u32,
        k: usize,
        me: &Me,
        write: bool,
        seen: &impl Fn(u32, u16) -> u32,
        writes: &impl Fn(u32, u16) -> u32,
    ) -> Option<(RaceKind, Access)> {
        let a = me.access;
        let page = &mut *self.pages[p as usize];
        page.rows |= 1 << (k / 32);
        let c = &mut page.cells[k];
        // The common cases: nobody wrote, or nobody touched it.
        if !write
            && !a.strong
            && c.w.cta == 0
            && let Some(bit) = me.warp
        {
            if c.r.cta == 0 {
                let place = (a.lane as u32) << 24 | a.pc & PC;
                c.r = Readers { cta: a.cta, clock: a.clock, place, mask: 1 << bit };
                return None;
            }
            if c.r.cta == a.cta && c.r.clock == a.clock {
                let lane = if c.r.lane() == a.lane as u32 { c.r.lane() } else { ANY_LANE };
                c.r.mask |= 1 << bit;
                c.r.place = c.r.place & MORE | lane << 24 | a.pc & PC;
                return None;
            }
        }
        let own_read = |r: Readers| {
            let bit = me.warp.map_or(0, |b| 1 << b);
            r.cta == a.cta && r.mask == bit && r.lane() == a.lane as u32 && r.place & MORE == 0
        };
        if write && c.w.cta == 0 && (c.r.cta == 0 || own_read(c.r)) {
            c.w = a;
            return None;
        }
        self.careful(p, k, me, write, seen, writes)
    }

    #[inline(never)]
    fn careful(
        &mut self,
        p: u32,
        k: usize,
        me: &Me,
        write: bool,
        seen: &impl Fn(u32, u16) -> u32,
        writes: &impl Fn(u32, u16) -> u32,
    ) -> Option<(RaceKind, Access)> {
        let a = me.access;
        let c = &mut self.pages[p as usize].cells[k];
        let ordered = |o: &Access, seen: &dyn Fn(u32, u16) -> u32| {
            if o.agent == a.agent && o.cta == a.cta {
                o.clock < a.clock || (o.lane == a.lane && a.lane as u32 != ANY_LANE)
            } else {
                o.clock <= seen(o.cta, o.agent)
            }
        };
        let mut conflict = None;
        if c.w.cta != 0 && !(c.w.strong && a.strong) && !ordered(&c.w, writes) {
            let kind = if write { RaceKind::WriteWrite } else { RaceKind::ReadAfterWrite };
            conflict = Some((kind, c.w));
        }
        let r = c.r;
        // The first agent of the readers' CTA.
        let first = (r.cta.wrapping_sub(1) % me.per_unit) as u16 * me.per_cta;
        let reader = |bit: u32| Access {
            cta: r.cta,
            clock: r.clock,
            pc: r.place & PC,
            agent: first + bit as u16,
            lane: if r.mask.count_ones() == 1 { r.lane() as u8 } else { ANY_LANE as u8 },
            strong: false,
        };
        if write {
            if conflict.is_none() && r.cta != 0 {
                for bit in (0..32).filter(|b| r.mask >> b & 1 != 0) {
                    let o = reader(bit);
                    let excused = o.agent == a.agent && o.cta == a.cta && r.mask.count_ones() > 1;
                    if !excused && !ordered(&o, seen) {
                        conflict = Some((RaceKind::WriteAfterRead, o));
                        break;
                    }
                }
            }
            if r.place & MORE != 0
                && let Some(list) = self.more.get(&(p, k as u32))
                && conflict.is_none()
            {
                let o = list.iter().find(|o| !(ordered(o, seen) || o.strong && a.strong));
                conflict = o.map(|o| (RaceKind::WriteAfterRead, *o));
            }
            if c.w.cta != 0 && c.w.strong != a.strong {
                self.both.insert((p, k as u32), ());
            }
            c.w = a;
            return conflict;
        }
        if a.strong {
            // Only a weak write could race with it, and sees it here.
            list_reader(&mut self.more, (p, k as u32), a, &|o| ordered(o, seen));
            c.r.place |= MORE;
            return conflict;
        }
        let Some(bit) = me.warp else {
            list_reader(&mut self.more, (p, k as u32), a, &|o| ordered(o, seen));
            c.r.place |= MORE;
            if c.r.cta == 0 {
                (c.r.cta, c.r.clock, c.r.mask) = (a.cta, 0, 0);
            }
            return conflict;
        };
        let place = |old: u32, lane: u32| old & MORE | lane << 24 | a.pc & PC;
        if r.cta == a.cta && r.clock == a.clock {
            let lane = if r.lane() == a.lane as u32 { r.lane() } else { ANY_LANE };
            (c.r.mask, c.r.place) = (r.mask | 1 << bit, place(r.place, lane));
            return conflict;
        }
        if r.cta != 0 && r.mask != 0 {
            for b in (0..32).filter(|b| r.mask >> b & 1 != 0) {
                let o = reader(b);
                if !ordered(&o, seen) {
                    list_reader(&mut self.more, (p, k as u32), o, &|o| ordered(o, seen));
                    c.r.place |= MORE;
                }
            }
        }
        let p = place(c.r.place, a.lane as u32);
        c.r = Readers { cta: a.cta, clock: a.clock, place: p, mask: 1 << bit };
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
    // One agent's later read stands for its earlier ones; beyond the limit the oldest go.
    list.retain(|o| o.strong != a.strong || !(ordered(o) || (o.cta, o.agent) == (a.cta, a.agent)));
    if list.len() >= READERS {
        list.remove(0);
    }
    list.push(a);
}

/// Which clusters touched each granule, when no order between clusters is possible.
#[derive(Debug, Default)]
pub(crate) struct Crossings {
    /// By allocation: per granule three sets of clusters of 21 bits each: weak writers, strong writers, readers.
    allocs: Vec<OnceLock<Box<[AtomicU64]>>>,
    sizes: Vec<u64>,
    shift: u32,
}

/// More than one cluster.
const MANY: u64 = (1 << 21) - 1;

/// A set of clusters: 0, one, or [`MANY`].
fn with(set: u64, unit: u64) -> u64 {
    if set == 0 || set == unit { unit } else { MANY }
}

/// Clusters whose accesses to one place are unordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Crossing {
    pub kind: RaceKind,
    /// Offset in the allocation, and how many granules race.
    pub at: u64,
    pub places: u64,
}

impl Crossings {
    pub fn new(sizes: Vec<u64>, shift: u32) -> Self {
        let allocs = sizes.iter().map(|_| OnceLock::new()).collect();
        Crossings { allocs, sizes, shift }
    }

    /// Adds what one cluster did to the granules from `first` on; `both(k)`: it wrote them weakly and strongly.
    fn add_row(&self, alloc: usize, first: usize, unit: u32, cells: &[Cell], both: impl Fn(usize) -> bool) {
        let table = self.allocs[alloc].get_or_init(|| {
            let n = (self.sizes[alloc] >> self.shift) as usize + 1;
            (0..n).map(|_| AtomicU64::new(0)).collect()
        });
        let unit = unit as u64 % (MANY - 1) + 1;
        for (k, c) in cells.iter().enumerate() {
            if c.w.cta | c.r.cta == 0 {
                continue;
            }
            let written = c.w.cta != 0;
            let (weak, strong) = (written && (!c.w.strong || both(k)), written && (c.w.strong || both(k)));
            let join = |old: u64| {
                let (w, s, r) = (old & MANY, old >> 21 & MANY, old >> 42 & MANY);
                let w = if weak { with(w, unit) } else { w };
                let s = if strong { with(s, unit) } else { s };
                let r = if c.r.cta != 0 { with(r, unit) } else { r };
                w | s << 21 | r << 42
            };
            let slot = &table[first + k];
            let old = slot.load(Relaxed);
            if join(old) != old {
                let _ = slot.fetch_update(Relaxed, Relaxed, |o| Some(join(o)));
            }
        }
    }

    /// By allocation, the first place where clusters race.
    pub fn races(&self) -> Vec<(usize, Crossing)> {
        let mut out = vec![];
        for (alloc, table) in self.allocs.iter().enumerate() {
            let Some(table) = table.get() else { continue };
            let mut first: Option<Crossing> = None;
            for (g, v) in table.iter().enumerate() {
                let v = v.load(Relaxed);
                let (w, s, r) = (v & MANY, v >> 21 & MANY, v >> 42 & MANY);
                let apart = |a: u64, b: u64| a != 0 && b != 0 && !(a == b && a != MANY);
                let kind = if apart(w, w) || apart(w, s) {
                    RaceKind::WriteWrite
                } else if apart(w, r) || apart(s, r) {
                    RaceKind::ReadAfterWrite
                } else {
                    continue;
                };
                match &mut first {
                    Some(f) => f.places += 1,
                    None => first = Some(Crossing { kind, at: (g as u64) << self.shift, places: 1 }),
                }
            }
            out.extend(first.map(|f| (alloc, f)));
        }
        out
    }
}

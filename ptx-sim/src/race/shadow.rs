//! Shadow of one CTA's shared memory.
//!
//! Cells are as wide as the kernel's narrowest access to shared memory, so that no cell is ever written in part. Each
//! holds the last write and the readers of one clock since then; what does not fit is in a record of [`Past`].

use super::groups::Groups;
use super::past::{LANE, MORE, Order, Past, Reader, VALID, Write};
use super::{ANY_LANE, Conflict, FOREIGN, Issue, MIXED, Seen, Who};
use crate::findings::RaceKind;

/// What an access does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Read,
    Write,
    /// Read, modify and write at once.
    Update,
}

/// The cell that an access over many cells found in order last, and the record it left: equal cells need no new look.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Run {
    key: Option<(u64, u64, u32)>,
    next: u32,
}

/// Shadow of one CTA's shared memory.
#[derive(Debug, Default)]
pub(crate) struct Shadow {
    /// Log2 of the bytes of a cell.
    shift: u32,
    w: Vec<Write>,
    /// Clock of the readers in the high half, mask of warps in the low half.
    r: Vec<u64>,
    /// Lane of the readers: one, [`ANY_LANE`], a group of them; of several warps, if it is not the same of all, [`MIXED`].
    r_lane: Vec<u8>,
    groups: Groups,
    w_pc: Vec<u32>,
    r_pc: Vec<u32>,
    /// Numbers of records, of cells marked [`MORE`].
    more: Vec<u32>,
    past: Past,
    /// First agent number of this CTA's warps.
    pub first: u32,
    /// Also report races (otherwise only uninitialised reads).
    races: bool,
    uninit: bool,
}

/// What stands for different lanes that read a cell: those of `readers`, and one of `who`.
#[inline(always)]
fn several(readers: u64, who: &Who) -> u8 {
    (if readers as u32 == who.bit { ANY_LANE } else { MIXED }) as u8
}

fn refill<T: Clone>(v: &mut Vec<T>, n: usize, x: T) {
    v.clear();
    v.resize(n, x);
}

impl Shadow {
    pub fn reset(&mut self, bytes: usize, shift: u32, first: u32, races: bool, uninit: bool) {
        let n = bytes.div_ceil(1 << shift);
        refill(&mut self.w, n, Write(0));
        refill(&mut self.r, n, 0);
        refill(&mut self.r_lane, n, 0);
        refill(&mut self.w_pc, n, 0);
        refill(&mut self.r_pc, n, 0);
        refill(&mut self.more, n, 0);
        self.past.clear();
        self.groups.clear();
        (self.shift, self.first, self.races, self.uninit) = (shift, first, races, uninit);
    }

    /// The cells that some bytes touch.
    #[inline(always)]
    fn cells(&self, off: u32, bytes: u32) -> std::ops::Range<usize> {
        (off >> self.shift) as usize..((off + bytes - 1) >> self.shift) as usize + 1
    }

    /// Reads of whole cells by a warp: the lanes' bytes follow one another, `bytes` of each; `false` if some cell needs
    /// the careful path, and then nothing is recorded.
    #[inline(always)]
    pub fn read_row(&mut self, off: u32, bytes: u32, lanes: u32, who: &Who) -> bool {
        if who.bit == 0 {
            return false;
        }
        let cells = self.cells(off, bytes * lanes);
        let per_lane = (bytes >> self.shift).max(1) as usize;
        let (Some(w), Some(r)) = (self.w.get(cells.clone()), self.r.get_mut(cells.clone())) else {
            return false;
        };
        let limit = ((who.floor as u64) << 32 | 0xffff_ffff) as i64;
        let clock = ((who.clock as u64) << 32) as i64;
        let end = clock + (1 << 32);
        // Clocks of asynchronous and remote accesses have their sign bit set.
        let (mut bad, mut again) = (false, false);
        for w in w {
            bad |= (w.0 as i64 > limit) | ((w.0 as i64) < 0) | (w.0 & (VALID | MORE) != VALID);
        }
        for v in r.iter() {
            let v = *v as i64;
            bad |= ((v > limit) & (v < clock)) | (v >= end) | (v < 0);
            again |= v >= clock;
        }
        if bad || again && who.partial {
            return false;
        }
        let mine = clock as u64 | who.bit as u64;
        let lanes = &mut self.r_lane[cells.clone()];
        let lane_of = |k: usize| if who.lane == ANY_LANE { ANY_LANE as u8 } else { (k / per_lane) as u8 };
        if again {
            for (k, (r, l)) in r.iter_mut().zip(lanes).enumerate() {
                let again = *r as i64 >= clock;
                let lane = lane_of(k);
                *l = if !again | (*l == lane) { lane } else { several(*r, who) };
                *r = if again { *r | who.bit as u64 } else { mine };
            }
        } else {
            r.fill(mine);
            if who.lane == ANY_LANE {
                lanes.fill(ANY_LANE as u8);
            } else {
                for (k, l) in lanes.iter_mut().enumerate() {
                    *l = (k / per_lane) as u8;
                }
            }
        }
        self.r_pc[cells].fill(who.pc);
        true
    }

    /// Weak reads of some bytes by each of the lanes `ok`, or (`who.lane` = [`ANY_LANE`]) by the warp as a whole; the lanes
    /// of which some cell needs the careful path, and nothing is recorded.
    #[inline(always)]
    pub fn read_each(&mut self, off: &[u32; 32], bytes: u32, ok: u32, who: &Who) -> u32 {
        match bytes >> self.shift {
            0 | 1 => self.read_cells::<1>(off, ok, who),
            2 => self.read_cells::<2>(off, ok, who),
            4 => self.read_cells::<4>(off, ok, who),
            8 => self.read_cells::<8>(off, ok, who),
            16 => self.read_cells::<16>(off, ok, who),
            _ => ok,
        }
    }

    #[inline(always)]
    fn read_cells<const N: usize>(&mut self, off: &[u32; 32], ok: u32, who: &Who) -> u32 {
        fn at<T, const N: usize>(v: &mut [T], c: usize) -> Option<&mut [T; N]> {
            v.get_mut(c..c + N)?.try_into().ok()
        }
        let limit = (who.floor as u64) << 32 | 0xffff_ffff;
        let mine = (who.clock as u64) << 32 | who.bit as u64;
        let (mut left, mut careful) = (if who.bit == 0 { 0 } else { ok }, if who.bit == 0 { ok } else { 0 });
        while left != 0 {
            let i = left.trailing_zeros();
            left &= left - 1;
            let c = (off[i as usize] >> self.shift) as usize;
            let lane = if who.lane == ANY_LANE { ANY_LANE } else { i } as u8;
            let (Some(w), Some(r), Some(lanes), Some(pcs)) = (
                at::<_, N>(&mut self.w, c),
                at::<_, N>(&mut self.r, c),
                at::<_, N>(&mut self.r_lane, c),
                at::<_, N>(&mut self.r_pc, c),
            ) else {
                careful |= 1 << i;
                continue;
            };
            let (mut bad, mut again) = (false, false);
            for k in 0..N {
                bad |= w[k].0 > limit || w[k].0 & (VALID | MORE) != VALID;
                let same = r[k] >> 32 == who.clock as u64;
                bad |= r[k] > limit && !same || same && who.partial;
                again |= same;
            }
            if bad {
                careful |= 1 << i;
                continue;
            }
            for k in 0..N {
                let same = again && r[k] >> 32 == who.clock as u64;
                lanes[k] = if same && lanes[k] != lane { several(r[k], who) } else { lane };
                r[k] = if same { r[k] | mine } else { mine };
            }
            *pcs = [who.pc; N];
        }
        careful
    }

    /// As [`Shadow::read_row`], of weak writes.
    #[inline(always)]
    pub fn write_row(&mut self, off: u32, bytes: u32, lanes: u32, who: &Who) -> bool {
        if who.bit == 0 {
            return false;
        }
        let cells = self.cells(off, bytes * lanes);
        let per_lane = (bytes >> self.shift).max(1) as usize;
        let (Some(w), Some(r)) = (self.w.get_mut(cells.clone()), self.r.get_mut(cells.clone())) else {
            return false;
        };
        let limit = ((who.floor as u64) << 32 | 0xffff_ffff) as i64;
        let mut bad = false;
        for w in w.iter() {
            bad |= (w.0 as i64 > limit) | ((w.0 as i64) < 0) | (w.0 & MORE != 0);
        }
        for r in r.iter() {
            bad |= (*r as i64 > limit) | ((*r as i64) < 0);
        }
        if bad {
            return false;
        }
        let first = Write::new(&Who { lane: 0, ..*who });
        for (k, w) in w.iter_mut().enumerate() {
            *w = Write(first.0 | ((k / per_lane) as u64) << 8);
        }
        self.w_pc[cells].fill(who.pc);
        true
    }

    /// One lane, or a whole warp (`lane` = [`ANY_LANE`]), accesses some bytes; `found` learns of every cell that is not
    /// in order, by its offset.
    #[inline(always)]
    pub fn access(
        &mut self,
        (off, bytes): (u32, u32),
        act: Act,
        who: &Who,
        seen: Seen<'_>,
        mut found: impl FnMut(Issue, u32),
    ) {
        self.collect();
        for c in self.cells(off, bytes) {
            let issue = match act {
                Act::Read => self.read(c, who, seen),
                Act::Write => self.write(c, who, seen),
                Act::Update => self.careful(c, act, who, seen),
            };
            if let Some(issue) = issue {
                found(issue, (c as u32) << self.shift);
            }
        }
    }

    #[inline(always)]
    fn read(&mut self, c: usize, who: &Who, seen: Seen<'_>) -> Option<Issue> {
        let (w, r) = (self.w[c], self.r[c]);
        let limit = (who.floor as u64) << 32 | 0xffff_ffff;
        if w.0 <= limit && w.0 & (VALID | MORE) == VALID && who.bit != 0 && !who.strength.is_strong() {
            if r <= limit {
                self.r[c] = (who.clock as u64) << 32 | who.bit as u64;
                self.r_lane[c] = who.lane as u8;
                self.r_pc[c] = who.pc;
                return None;
            }
            if r >> 32 == who.clock as u64 {
                self.read_again(c, who);
                return None;
            }
        }
        self.careful(c, Act::Read, who, seen)
    }

    #[inline(always)]
    fn write(&mut self, c: usize, who: &Who, seen: Seen<'_>) -> Option<Issue> {
        let w = self.w[c];
        let limit = (who.floor as u64) << 32 | 0xffff_ffff;
        if w.0 <= limit && w.0 & MORE == 0 && self.r[c] <= limit && !who.strength.is_strong() {
            self.w[c] = Write::new(who);
            self.w_pc[c] = who.pc;
            return None;
        }
        self.careful(c, Act::Write, who, seen)
    }

    /// An asynchronous unit accesses some bytes; the first cell that is not in order, with its offset. `run` goes from
    /// one piece of the operation to the next.
    pub fn bulk(
        &mut self,
        (off, bytes): (u32, u32),
        write: bool,
        who: &Who,
        seen: Seen<'_>,
        run: &mut Run,
    ) -> Option<(Issue, u32)> {
        if run.key.is_none() {
            self.collect();
        }
        let cells = self.cells(off, bytes);
        if !seen.ahead.is_empty() {
            // Cells of other lanes are no equal cells.
            *run = Run::default();
        }
        if let Some((old, readers, id)) = run.key {
            let (w, more) = (&mut self.w[cells.clone()], &mut self.more[cells.clone()]);
            let (mut same, marked) = (true, old & MORE != 0);
            for (w, m) in w.iter().zip(more.iter()) {
                same &= (w.0 & !LANE == old) & (!marked | (*m == id));
            }
            if same && write {
                same = self.r[cells.clone()].iter().all(|r| *r == readers);
            }
            if same {
                let new = if write { Write::new(who).0 } else { old & !MORE };
                if write || marked != (run.next != 0) {
                    let mark = if run.next != 0 { MORE } else { 0 };
                    let lane = if write { 0 } else { LANE };
                    w.iter_mut().for_each(|w| w.0 = new | w.0 & lane | mark);
                }
                more.fill(run.next);
                if write {
                    self.r[cells.clone()].fill(0);
                    self.w_pc[cells].fill(who.pc);
                }
                return None;
            }
        }
        let mut first = None;
        for c in cells {
            let (w, r, id) = (self.w[c], self.r[c], self.record(c));
            // What readers there are matters to a write only; which lanes wrote, to no asynchronous unit.
            let key = Some((w.0 & !LANE, if write { r } else { 0 }, id));
            if key == run.key {
                if write {
                    (self.w[c], self.w_pc[c], self.r[c]) = (Write::new(who), who.pc, 0);
                }
                self.set_record(c, run.next);
                continue;
            }
            let act = if write { Act::Write } else { Act::Read };
            let issue = self.careful(c, act, who, seen);
            *run = match issue {
                None if seen.ahead.is_empty() => Run { key, next: self.record(c) },
                _ => Run::default(),
            };
            first = first.or(issue.map(|i| (i, (c as u32) << self.shift)));
        }
        first
    }

    /// Number of a cell's record; 0: none.
    #[inline(always)]
    fn record(&self, c: usize) -> u32 {
        if self.w[c].0 & MORE != 0 { self.more[c] } else { 0 }
    }

    fn set_record(&mut self, c: usize, id: u32) {
        if id == 0 {
            self.w[c].0 &= !MORE;
        } else {
            self.w[c].0 |= MORE;
            self.more[c] = id;
        }
    }

    /// Between operations: forgets records that no cell names.
    #[inline(always)]
    fn collect(&mut self) {
        if self.past.full() {
            let marked = self.w.iter().zip(&mut self.more).filter(|(w, _)| w.0 & MORE != 0);
            self.past.collect(marked.map(|(_, id)| id));
        }
    }

    /// Records a write without checking it, in place of everything before.
    pub fn stamp(&mut self, off: u32, bytes: u32, who: &Who) {
        for c in self.cells(off, bytes) {
            (self.w[c], self.w_pc[c], self.r[c]) = (Write::new(who), who.pc, 0);
        }
    }

    /// What a thread has just written is written by `who`, an asynchronous unit.
    pub fn hand_over(&mut self, off: u32, bytes: u32, who: &Who) {
        for c in self.cells(off, bytes) {
            self.w[c] = Write(Write::new(who).0 | self.w[c].0 & MORE);
            (self.w_pc[c], self.r[c]) = (who.pc, 0);
        }
    }

    /// The asynchronous write of `agent` at `clock` is complete: from here on it counts as `who`'s, unless another
    /// write has come since, which then stays what readers must be ordered with.
    pub fn settle(&mut self, off: u32, bytes: u32, (agent, clock): (u32, u32), who: &Who) {
        for c in self.cells(off, bytes) {
            let w = self.w[c];
            if (w.agent(), w.clock()) == (agent, clock) {
                self.w[c] = Write(Write::new(who).0 | w.0 & MORE);
                self.w_pc[c] = who.pc;
            } else if w.0 & MORE != 0 {
                let id = self.past.forget(self.more[c], agent, clock);
                self.set_record(c, id);
            }
        }
    }

    /// A recorded access by an agent, at a clock, in a lane that `seen` does not know of; with its offset.
    pub fn unordered(&self, seen: impl Fn(u32, u32, u32) -> bool) -> Option<(Conflict, u32)> {
        let late = |agent: u32, clock: u32, lane: u32| clock != 0 && !seen(agent, clock & !FOREIGN, lane);
        for c in 0..self.w.len() {
            let at = (c as u32) << self.shift;
            let past = self.past.get(self.record(c));
            let last = std::iter::once((self.w[c], self.w_pc[c]));
            if let Some((w, pc)) =
                last.chain(past.writes.iter().copied()).find(|(w, _)| late(w.agent(), w.clock(), w.lane()))
            {
                return Some((conflict(RaceKind::WriteWrite, w, pc), at));
            }
            if let Some(r) = past.readers.iter().find(|r| late(r.agent, r.clock, r.lane)) {
                return Some((reading(r), at));
            }
        }
        None
    }

    /// The full check of one cell.
    #[inline(never)]
    fn careful(&mut self, c: usize, act: Act, who: &Who, seen: Seen<'_>) -> Option<Issue> {
        let (w, order) = (self.w[c], Order { who, seen });
        let id = self.record(c);
        let lost = act != Act::Write && self.uninit && w.0 & VALID == 0;
        let uninitialized = lost.then_some(Issue::Uninitialized);
        if !self.races {
            if act != Act::Read {
                self.w[c] = Write::new(who);
            }
            return uninitialized;
        }
        let issue = self.conflict(c, act, &order);
        if act == Act::Read {
            self.record_read(c, id, &order);
        } else {
            let next = self.past.write(id, (w, self.w_pc[c]), &order);
            (self.w[c], self.w_pc[c], self.r[c]) = (Write::new(who), who.pc, 0);
            self.set_record(c, next);
        }
        issue.or(uninitialized)
    }

    /// The first recorded access that this one conflicts with and is not ordered after (PTX ISA §8.7.1).
    fn conflict(&self, c: usize, act: Act, order: &Order<'_>) -> Option<Issue> {
        let who = order.who;
        let past = self.past.get(self.record(c));
        let kind = if act == Act::Read { RaceKind::ReadAfterWrite } else { RaceKind::WriteWrite };
        let mut loose = None;
        for (w, pc) in std::iter::once((self.w[c], self.w_pc[c])).chain(past.writes.iter().copied()) {
            if order.after_write(w) {
                continue;
            }
            if !(w.strong() && who.strength.is_strong()) {
                return Some(Issue::Race(conflict(kind, w, pc)));
            }
            // Fenced writes may be flags, which others poll without being ordered.
            let exchange = if act == Act::Read { !w.fenced() } else { w.agent() == who.agent };
            if w.volatile() && who.strength.is_volatile() && exchange {
                loose = Some(Issue::Volatile(conflict(kind, w, pc)));
            }
        }
        if act == Act::Read {
            return loose;
        }
        let (clock, mask) = ((self.r[c] >> 32) as u32, self.r[c] as u32);
        for k in (0..32).filter(|k| clock != 0 && mask >> k & 1 != 0) {
            let agent = self.first + k;
            // Of several warps, the reader's own is excused.
            let alone = mask.count_ones() == 1;
            let lane = self.r_lane[c] as u32;
            let unordered = self.groups.lanes(lane).find(|lane| !order.after_read(agent, clock, *lane));
            if let Some(lane) = unordered
                && (agent != who.agent || alone)
            {
                let pc = self.r_pc[c];
                return Some(Issue::Race(reading(&Reader { agent, clock, lane, pc, strong: false })));
            }
        }
        let unordered = |r: &&Reader| {
            !(order.after_read(r.agent, r.clock, r.lane) || r.strong && who.strength.is_strong())
        };
        past.readers.iter().find(unordered).map(|r| Issue::Race(reading(r))).or(loose)
    }

    /// One more read of a cell at the clock of those before.
    fn read_again(&mut self, c: usize, who: &Who) {
        self.r_lane[c] = match (self.r_lane[c], several(self.r[c], who)) {
            (lane, _) if lane as u32 == who.lane => lane,
            (lane, any) if who.partial && any == ANY_LANE as u8 => self.groups.with(lane, who.lane),
            (_, any) => any,
        };
        self.r[c] |= who.bit as u64;
        self.r_pc[c] = who.pc;
    }

    fn record_read(&mut self, c: usize, id: u32, order: &Order<'_>) {
        let who = order.who;
        if who.strength.is_strong() || who.bit == 0 {
            let (agent, clock, lane, pc) = (who.agent, who.clock & !FOREIGN, who.lane, who.pc);
            let new = Reader { agent, clock, lane, pc, strong: who.strength.is_strong() };
            let id = self.past.read(id, &[new], order);
            return self.set_record(c, id);
        }
        let (clock, mask) = ((self.r[c] >> 32) as u32, self.r[c] as u32);
        if clock == who.clock {
            return self.read_again(c, who);
        }
        // Readers of other clocks that this read is not ordered after move to the record.
        let mut moved = Vec::new();
        for k in (0..32).filter(|k| clock != 0 && mask >> k & 1 != 0) {
            let (agent, lane, pc) = (self.first + k, self.r_lane[c] as u32, self.r_pc[c]);
            let lanes = self.groups.lanes(lane).filter(|lane| !order.after_read(agent, clock, *lane));
            moved.extend(lanes.map(|lane| Reader { agent, clock, lane, pc, strong: false }));
        }
        if !moved.is_empty() || id != 0 {
            let id = self.past.read(id, &moved, order);
            self.set_record(c, id);
        }
        self.r[c] = (who.clock as u64) << 32 | who.bit as u64;
        self.r_lane[c] = who.lane as u8;
        self.r_pc[c] = who.pc;
    }
}

fn conflict(kind: RaceKind, w: Write, pc: u32) -> Conflict {
    let clock = w.clock() & !FOREIGN;
    Conflict { kind, agent: w.agent(), lane: w.lane(), clock, pc, strong: w.strong() }
}

fn reading(r: &Reader) -> Conflict {
    let kind = RaceKind::WriteAfterRead;
    Conflict { kind, agent: r.agent, lane: r.lane, clock: r.clock, pc: r.pc, strong: r.strong }
}

#[cfg(test)]
mod tests;

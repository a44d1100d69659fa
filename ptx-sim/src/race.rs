//! Happens-before race detection over shared and global memory, after FastTrack (Flanagan & Freund, PLDI 2009).
//!
//! Agents are warps (and asynchronous units); lanes of one warp are told apart by the lane that is stored with an
//! access, because between two warp-wide synchronisations they are unordered too (PTX ISA §8). Each agent has a
//! clock that advances when it releases; `vc[a][b]` is how far `a` has seen `b`. A full CTA barrier sets all
//! clocks equal, so that one comparison with `floor[a]` (what `a` has seen of everybody) clears most accesses.

mod clocks;
mod global;
mod sync;

use crate::findings::RaceKind;
pub(crate) use clocks::{Clocks, Token};
pub(crate) use global::{Access, Crossings, GlobalConflict, GlobalShadow, Me};
use std::collections::HashMap;
pub(crate) use sync::{Place, Scope, SyncWord};

/// What an accessor has seen of other agents' writes and reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub writes: &'a [u32],
    pub reads: &'a [u32],
}

impl<'a> Seen<'a> {
    pub fn all(vc: &'a [u32]) -> Self {
        Seen { writes: vc, reads: vc }
    }
}

/// Marks the clock of an access that `floor` says nothing about: from another CTA, or asynchronous.
pub(crate) const FOREIGN: u32 = 1 << 31;

/// The last write of some bytes: clock, agent, lane; and which of the four bytes hold a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Write(u64);

const VALID: u64 = 0xf;
/// More readers than the mask holds are in [`Shadow::readers`].
const MORE_READERS: u64 = 0x10;
/// The word's bytes are tracked one by one in [`Shadow::split`].
const SPLIT: u64 = 0x20;
/// The write was atomic (or otherwise strong): no race with another strong access.
const STRONG: u64 = 0x40;
/// Lane number of an access by the warp as a whole.
pub(crate) const ANY_LANE: u32 = 63;

impl Write {
    #[inline(always)]
    fn new(clock: u32, agent: u32, lane: u32, valid: u64) -> Self {
        Write((clock as u64) << 32 | (agent as u64) << 16 | (lane as u64) << 8 | valid)
    }
    #[inline(always)]
    fn clock(self) -> u32 {
        (self.0 >> 32) as u32
    }
    fn agent(self) -> usize {
        (self.0 >> 16) as u16 as usize
    }
    fn lane(self) -> u32 {
        (self.0 >> 8) as u32 & 0xff
    }
}

/// What a conflict was with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub kind: RaceKind,
    pub agent: u32,
    pub lane: u32,
    pub clock: u32,
    pub pc: u32,
}

/// Result of checking one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Issue {
    Race(Conflict),
    Uninitialized,
}

/// Who accesses, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Who {
    pub agent: u32,
    pub lane: u32,
    pub clock: u32,
    pub floor: u32,
    /// Bit of the agent in reader masks; 0 for agents outside the CTA's warps.
    pub bit: u32,
    pub pc: u32,
    /// An atomic, volatile, relaxed, acquire or release access.
    pub strong: bool,
}

impl Who {
    #[inline(always)]
    fn strong_bit(self) -> u64 {
        if self.strong { STRONG } else { 0 }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Byte {
    w: Write,
    r: u64,
    r_lane: u8,
    w_pc: u32,
    r_pc: u32,
}

/// Shadow of one CTA's shared memory, one entry a 4-byte word.
#[derive(Debug, Default)]
pub(crate) struct Shadow {
    w: Vec<Write>,
    /// Clock of the readers in the high half, mask of warps in the low half.
    r: Vec<u64>,
    r_lane: Vec<u8>,
    w_pc: Vec<u32>,
    r_pc: Vec<u32>,
    split: HashMap<u32, [Byte; 4]>,
    /// Readers that the mask cannot express: word → (agent, clock, lane, pc).
    readers: HashMap<u32, Vec<(u32, u32, u32, u32)>>,
    /// First agent number of this CTA's warps.
    pub first: u32,
    /// Also report races (otherwise only uninitialised reads).
    pub races: bool,
    pub uninit: bool,
}

impl Shadow {
    pub fn reset(&mut self, words: usize, first: u32, races: bool, uninit: bool) {
        self.w.clear();
        self.w.resize(words, Write(0));
        self.r.clear();
        self.r.resize(words, 0);
        self.r_lane.clear();
        self.r_lane.resize(words, 0);
        self.w_pc.clear();
        self.w_pc.resize(words, 0);
        self.r_pc.clear();
        self.r_pc.resize(words, 0);
        self.split.clear();
        self.readers.clear();
        (self.first, self.races, self.uninit) = (first, races, uninit);
    }

    /// Reads 32 consecutive whole words, one a lane, in one go; `false` if a word needs the careful path.
    #[inline(always)]
    pub fn read_row(&mut self, word: usize, who: Who) -> bool {
        fn row<T>(v: &mut [T], at: usize) -> Option<&mut [T; 32]> {
            v.get_mut(at..at + 32)?.try_into().ok()
        }
        let (Some(w), Some(r)) = (row(&mut self.w, word), row(&mut self.r, word)) else { return false };
        let limit = ((who.floor as u64) << 32 | 0xffff_ffff) as i64;
        let clock = ((who.clock as u64) << 32) as i64;
        let end = clock + (1 << 32);
        let mut bad = false;
        for k in 0..32 {
            bad |= (w[k].0 as i64 > limit) | (w[k].0 & (VALID | MORE_READERS) != VALID);
        }
        let mut again = false;
        for v in r.iter() {
            let v = *v as i64;
            bad |= ((v > limit) & (v < clock)) | (v >= end);
            again |= v >= clock;
        }
        // Clocks of split words and pending copies have their sign bit set.
        for k in 0..32 {
            bad |= ((w[k].0 | r[k]) as i64) < 0;
        }
        if bad {
            return false;
        }
        let mine = clock as u64 | who.bit as u64;
        if again {
            let Some(lanes) = row(&mut self.r_lane, word) else { return false };
            for k in 0..32 {
                let again = r[k] as i64 >= clock;
                // Another warp's read in this epoch keeps its lane only if it is the same.
                let keep = !again | (lanes[k] == k as u8);
                lanes[k] = if keep { k as u8 } else { ANY_LANE as u8 };
                r[k] = if again { r[k] | who.bit as u64 } else { mine };
            }
        } else {
            *r = [mine; 32];
            let Some(lanes) = row(&mut self.r_lane, word) else { return false };
            for (k, l) in lanes.iter_mut().enumerate() {
                *l = k as u8;
            }
        }
        self.r_pc[word..word + 32].fill(who.pc);
        true
    }

    /// One lane, or a whole warp (`lane` = [`ANY_LANE`]), reads the bytes `bytes` (a 4-bit mask) of a word.
    #[inline(always)]
    pub fn read(&mut self, word: usize, bytes: u32, who: Who, seen: Seen<'_>) -> Option<Issue> {
        let w = self.w[word];
        let r = self.r[word];
        let limit = (who.floor as u64) << 32 | 0xffff_ffff;
        let clock = (who.clock as u64) << 32;
        if w.0 <= limit
            && w.0 & (VALID | MORE_READERS) == VALID
            && bytes == 0xf
            && who.bit != 0
            && !who.strong
        {
            if r <= limit {
                self.r[word] = clock | who.bit as u64;
                self.r_lane[word] = who.lane as u8;
                self.r_pc[word] = who.pc;
                return None;
            }
            if r >> 32 == who.clock as u64 {
                self.r[word] = r | who.bit as u64;
                if self.r_lane[word] != who.lane as u8 {
                    self.r_lane[word] = ANY_LANE as u8;
                }
                self.r_pc[word] = who.pc;
                return None;
            }
        }
        self.careful(word, bytes, who, seen, false)
    }

    /// One lane writes the bytes `bytes` of a word.
    #[inline(always)]
    pub fn write(&mut self, word: usize, bytes: u32, who: Who, seen: Seen<'_>) -> Option<Issue> {
        let w = self.w[word];
        let limit = (who.floor as u64) << 32 | 0xffff_ffff;
        if w.0 <= limit && w.0 & MORE_READERS == 0 && self.r[word] <= limit && bytes == 0xf {
            self.w[word] = Write::new(who.clock, who.agent, who.lane, VALID | who.strong_bit());
            self.w_pc[word] = who.pc;
            return None;
        }
        self.careful(word, bytes, who, seen, true)
    }

    /// Records a write without checking it: an asynchronous copy that starts or takes effect.
    pub fn stamp(&mut self, word: usize, clock: u32, agent: u32, lane: u32, pc: u32) {
        self.split.remove(&(word as u32));
        self.w[word] = Write::new(clock, agent, lane, VALID);
        self.r[word] = 0;
        self.w_pc[word] = pc;
    }

    /// A recorded access by an agent that `mine` does not name, later than what `seen` says; with its offset.
    pub fn unordered(&self, seen: &[u32], mine: impl Fn(u32) -> bool) -> Option<(Conflict, u32)> {
        let late = |agent: u32, clock: u32| {
            !mine(agent) && seen.get(agent as usize).is_some_and(|s| *s < clock & !FOREIGN)
        };
        let conflict = |kind, agent, clock, pc| Conflict { kind, agent, lane: 0, clock, pc };
        for (k, w) in self.w.iter().enumerate() {
            let at = 4 * k as u32;
            let cells: &[Byte] = match self.split.get(&(k as u32)) {
                Some(four) => four,
                None => &[],
            };
            let whole = (w.0 & SPLIT == 0).then_some((*w, self.w_pc[k]));
            for (w, pc) in whole.into_iter().chain(cells.iter().map(|b| (b.w, b.w_pc))) {
                if w.clock() != 0 && late(w.agent() as u32, w.clock()) {
                    return Some((conflict(RaceKind::WriteWrite, w.agent() as u32, w.clock(), pc), at));
                }
            }
        }
        let mut readers: Vec<_> = self.readers.iter().collect();
        readers.sort_unstable_by_key(|r| r.0);
        for (unit, list) in readers {
            if let Some(r) = list.iter().find(|r| late(r.0, r.1)) {
                return Some((conflict(RaceKind::WriteAfterRead, r.0, r.1, r.3), *unit));
            }
        }
        None
    }

    #[inline(never)]
    fn careful(&mut self, word: usize, bytes: u32, who: Who, seen: Seen<'_>, write: bool) -> Option<Issue> {
        let key = word as u32;
        let is_split = self.w[word].0 & SPLIT != 0;
        if bytes == 0xf && !is_split {
            let mut b = Byte {
                w: self.w[word],
                r: self.r[word],
                r_lane: self.r_lane[word],
                w_pc: self.w_pc[word],
                r_pc: self.r_pc[word],
            };
            let valid = b.w.0 & VALID;
            let issue = self.cell(&mut b, key * 4, who, seen, write);
            if write {
                b.w = Write(b.w.0 | VALID);
            } else {
                b.w = Write(b.w.0 & !VALID | valid);
            }
            self.w[word] = b.w;
            self.r[word] = b.r;
            self.r_lane[word] = b.r_lane;
            self.w_pc[word] = b.w_pc;
            self.r_pc[word] = b.r_pc;
            if issue.is_none() && !write && valid != VALID && self.uninit {
                return Some(Issue::Uninitialized);
            }
            return issue;
        }
        if !is_split {
            let w = self.w[word];
            let one = Byte {
                r: self.r[word],
                r_lane: self.r_lane[word],
                w_pc: self.w_pc[word],
                r_pc: self.r_pc[word],
                w,
            };
            let mut four = [one; 4];
            for (k, b) in four.iter_mut().enumerate() {
                let valid = w.0 >> k & 1;
                b.w = Write(w.0 & !(VALID | MORE_READERS) | valid * VALID | w.0 & MORE_READERS);
                if w.0 & MORE_READERS != 0
                    && k > 0
                    && let Some(l) = self.readers.get(&(key * 4)).cloned()
                {
                    self.readers.insert(key * 4 + k as u32, l);
                }
            }
            self.split.insert(key, four);
            self.w[word] = Write((u32::MAX as u64) << 32 | SPLIT);
            self.r[word] = (u32::MAX as u64) << 32;
        }
        let mut four = self.split.get(&key).copied().unwrap_or_default();
        let mut first = None;
        for (k, b) in four.iter_mut().enumerate() {
            if bytes >> k & 1 == 0 {
                continue;
            }
            let valid = b.w.0 & VALID;
            let mut issue = self.cell(b, key * 4 + k as u32, who, seen, write);
            b.w = if write { Write(b.w.0 | VALID) } else { Write(b.w.0 & !VALID | valid) };
            if issue.is_none() && !write && valid == 0 && self.uninit {
                issue = Some(Issue::Uninitialized);
            }
            first = first.or(issue);
        }
        // Ordered before everything the accessor sees, and whole: track as one word again.
        let same = four.iter().all(|b| {
            b.w.0 & VALID == VALID
                && b.w.0 & MORE_READERS == 0
                && b.w.clock() <= who.floor
                && (b.r >> 32) as u32 <= who.floor
        });
        if same || (write && bytes == 0xf && four.iter().all(|b| b.w.0 & MORE_READERS == 0)) {
            let last = if write && bytes == 0xf {
                four[0]
            } else {
                four.iter().copied().max_by_key(|b| b.w.0).unwrap_or(four[0])
            };
            self.w[word] = Write(last.w.0 | VALID);
            self.r[word] = four.iter().map(|b| b.r).max().unwrap_or(0);
            self.r_lane[word] = last.r_lane;
            self.w_pc[word] = last.w_pc;
            self.r_pc[word] = last.r_pc;
            self.split.remove(&key);
        } else {
            self.split.insert(key, four);
        }
        first
    }

    /// The full check of one tracked unit; `unit` is its key in the reader table.
    fn cell(&mut self, b: &mut Byte, unit: u32, who: Who, seen: Seen<'_>, write: bool) -> Option<Issue> {
        let mut conflict = None;
        let ordered_in = |vc: &[u32], agent: u32, clock: u32, lane: u32| {
            let clock = clock & !FOREIGN;
            if agent == who.agent {
                clock < who.clock & !FOREIGN || (lane == who.lane && lane != ANY_LANE) || clock == 0
            } else {
                clock <= vc.get(agent as usize).copied().unwrap_or(0)
            }
        };
        let ordered = |agent: u32, clock: u32, lane: u32| ordered_in(seen.reads, agent, clock, lane);
        let w = b.w;
        let both_strong = who.strong && w.0 & STRONG != 0;
        if self.races
            && !both_strong
            && w.clock() != 0
            && !ordered_in(seen.writes, w.agent() as u32, w.clock(), w.lane())
        {
            let kind = if write { RaceKind::WriteWrite } else { RaceKind::ReadAfterWrite };
            conflict = Some(Conflict {
                kind,
                agent: w.agent() as u32,
                lane: w.lane(),
                clock: w.clock() & !FOREIGN,
                pc: b.w_pc,
            });
        }
        let (rc, rm) = ((b.r >> 32) as u32, b.r as u32);
        if write {
            if self.races && conflict.is_none() && rc != 0 {
                for k in 0..32 {
                    if rm >> k & 1 != 0 {
                        let agent = self.first + k;
                        // Of several readers only one lane is known; it stands for its own warp only if alone.
                        let lane = if rm.count_ones() == 1 { b.r_lane as u32 } else { ANY_LANE };
                        if !(ordered(agent, rc, lane) || agent == who.agent && rm.count_ones() > 1) {
                            conflict = Some(Conflict {
                                kind: RaceKind::WriteAfterRead,
                                agent,
                                lane,
                                clock: rc,
                                pc: b.r_pc,
                            });
                            break;
                        }
                    }
                }
            }
            if w.0 & MORE_READERS != 0
                && let Some(list) = self.readers.remove(&unit)
                && self.races
                && conflict.is_none()
                && let Some(r) = list.iter().find(|r| !ordered(r.0, r.1, r.2))
            {
                conflict = Some(Conflict {
                    kind: RaceKind::WriteAfterRead,
                    agent: r.0,
                    lane: r.2,
                    clock: r.1,
                    pc: r.3,
                });
            }
            b.w = Write::new(who.clock, who.agent, who.lane, w.0 & VALID | who.strong_bit());
            b.w_pc = who.pc;
            b.r = 0;
        } else if who.strong {
            // Strong reads are not remembered: what may race with them is only a weak write.
        } else if who.bit != 0 && (rc == who.clock || rc <= who.floor) {
            if rc == who.clock {
                b.r |= who.bit as u64;
                if b.r_lane as u32 != who.lane {
                    b.r_lane = ANY_LANE as u8;
                }
            } else {
                b.r = (who.clock as u64) << 32 | who.bit as u64;
                b.r_lane = who.lane as u8;
            }
            b.r_pc = who.pc;
        } else {
            let list = self.readers.entry(unit).or_default();
            let mut add =
                |agent: u32, clock: u32, lane: u32, pc: u32| match list.iter_mut().find(|r| r.0 == agent) {
                    Some(r) => {
                        if r.1 != clock || r.2 != lane {
                            *r = (agent, clock.max(r.1), if r.1 == clock { ANY_LANE } else { lane }, pc);
                        }
                    }
                    None => list.push((agent, clock, lane, pc)),
                };
            if who.bit != 0 {
                for k in 0..32 {
                    if rm >> k & 1 != 0 {
                        add(
                            self.first + k,
                            rc,
                            if rm.count_ones() == 1 { b.r_lane as u32 } else { ANY_LANE },
                            b.r_pc,
                        );
                    }
                }
                b.r = (who.clock as u64) << 32 | who.bit as u64;
                b.r_lane = who.lane as u8;
                b.r_pc = who.pc;
            } else {
                add(who.agent, who.clock, who.lane, who.pc);
            }
            b.w = Write(b.w.0 | MORE_READERS);
        }
        conflict.map(Issue::Race)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct T {
        s: Shadow,
        c: Clocks,
    }

    impl T {
        fn new() -> T {
            let mut t = T { s: Shadow::default(), c: Clocks::default() };
            t.s.reset(8, 0, true, true);
            t.c.reset(3, 3, 3, 1);
            t
        }
        fn who(&self, a: usize, lane: u32) -> Who {
            Who {
                agent: a as u32,
                lane,
                clock: self.c.now(a),
                floor: self.c.floor[a],
                bit: 1 << a,
                pc: 0,
                strong: false,
            }
        }
        fn read(&mut self, a: usize, lane: u32, word: usize, bytes: u32) -> Option<Issue> {
            let w = self.who(a, lane);
            self.s.read(word, bytes, w, Seen::all(&self.c.vc[a]))
        }
        fn write(&mut self, a: usize, lane: u32, word: usize, bytes: u32) -> Option<Issue> {
            let w = self.who(a, lane);
            self.s.write(word, bytes, w, Seen::all(&self.c.vc[a]))
        }
    }

    fn race(i: Option<Issue>) -> Option<RaceKind> {
        match i {
            Some(Issue::Race(c)) => Some(c.kind),
            _ => None,
        }
    }

    #[test]
    fn barriers_order_and_their_absence_does_not() {
        let mut t = T::new();
        assert_eq!(t.write(0, 0, 0, 0xf), None);
        assert_eq!(race(t.read(1, 0, 0, 0xf)), Some(RaceKind::ReadAfterWrite));
        t.c.full(0..3);
        assert_eq!(t.read(1, 0, 0, 0xf), None);
        assert_eq!(t.read(2, 5, 0, 0xf), None);
        assert_eq!(race(t.write(0, 0, 0, 0xf)), Some(RaceKind::WriteAfterRead));
        t.c.full(0..3);
        assert_eq!(t.write(0, 0, 0, 0xf), None);
        assert_eq!(race(t.write(1, 0, 0, 0xf)), Some(RaceKind::WriteWrite));
    }

    #[test]
    fn lanes_of_a_warp_need_a_warp_sync() {
        let mut t = T::new();
        assert_eq!(t.write(0, 3, 1, 0xf), None);
        assert_eq!(t.read(0, 3, 1, 0xf), None);
        assert_eq!(race(t.read(0, 4, 1, 0xf)), Some(RaceKind::ReadAfterWrite));
        t.c.warp_sync(0);
        assert_eq!(t.read(0, 4, 1, 0xf), None);
        assert_eq!(race(t.write(0, 5, 1, 0xf)), Some(RaceKind::WriteAfterRead));
        t.c.warp_sync(0);
        assert_eq!(t.write(0, 5, 1, 0xf), None);
    }

    #[test]
    fn halves_of_a_word_are_independent() {
        let mut t = T::new();
        assert_eq!(t.write(0, 0, 2, 0x3), None);
        assert_eq!(t.read(0, 0, 2, 0xf), Some(Issue::Uninitialized));
        t.c.full(0..3);
        assert_eq!(t.write(0, 0, 3, 0x3), None);
        assert_eq!(t.write(1, 1, 3, 0xc), None);
        t.c.full(0..3);
        assert_eq!(t.read(2, 0, 3, 0xf), None);
        assert_eq!(t.write(2, 0, 3, 0xf), None);
        assert_eq!(race(t.write(1, 0, 3, 0x1)), Some(RaceKind::WriteWrite));
    }

    #[test]
    fn release_and_acquire_order_two_agents_only() {
        let mut t = T::new();
        assert_eq!(t.write(0, 0, 4, 0xf), None);
        let mut token = Token::default();
        t.c.release(0, &mut token);
        t.c.acquire(1, &token);
        assert_eq!(t.read(1, 0, 4, 0xf), None);
        assert_eq!(race(t.read(2, 0, 4, 0xf)), Some(RaceKind::ReadAfterWrite));
        // Agent 0 does not know of agent 1's read.
        assert_eq!(race(t.write(0, 0, 4, 0xf)), Some(RaceKind::WriteAfterRead));
    }

    #[test]
    fn readers_with_different_clocks_are_all_remembered() {
        let mut t = T::new();
        t.write(0, 0, 5, 0xf);
        t.c.full(0..3);
        let mut token = Token::default();
        assert_eq!(t.read(1, 0, 5, 0xf), None);
        t.c.release(2, &mut token);
        assert_eq!(t.read(2, 0, 5, 0xf), None);
        t.c.release(2, &mut token);
        t.c.acquire(0, &token);
        assert_eq!(race(t.write(0, 0, 5, 0xf)), Some(RaceKind::WriteAfterRead));
    }
}

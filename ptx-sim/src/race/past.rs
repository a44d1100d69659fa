//! What a cell of the shadow cannot express itself: readers of several clocks, asynchronous readers, and earlier writes
//! that a later access must still be ordered with.
//!
//! Records are shared: an operation turns equal records into equal ones, so that a tile read by four `wgmma`s has
//! a handful of them, however many cells it has.

use super::{FOREIGN, Seen, Who};

/// Readers, and writes, that one record remembers; beyond that the oldest go.
const MOST: usize = 64;
/// Records before those in use are looked for.
const COLLECT: usize = 4096;

/// The last write of a cell: clock, agent, marks, lane; and whether the cell holds a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Write(pub u64);

/// The cell holds a value.
pub(super) const VALID: u64 = 0x1;
/// There is a record in [`Past`].
pub(super) const MORE: u64 = 0x10;
/// The write was atomic (or otherwise strong).
pub(super) const STRONG: u64 = 0x40;
const FENCED: u64 = 1 << 14;
const VOLATILE: u64 = 1 << 15;
/// What two writes of one instruction may differ in.
pub(super) const LANE: u64 = 0x3f00;

impl Write {
    #[inline(always)]
    pub fn new(who: &Who) -> Self {
        let s = who.strength;
        let mark = |set: bool, bit: u64| if set { bit } else { 0 };
        let marks =
            mark(s.is_strong(), STRONG) | mark(s.is_volatile(), VOLATILE) | mark(s.is_fenced(), FENCED);
        Write((who.clock as u64) << 32 | (who.agent as u64) << 16 | (who.lane as u64) << 8 | marks | VALID)
    }
    #[inline(always)]
    pub fn clock(self) -> u32 {
        (self.0 >> 32) as u32
    }
    pub fn agent(self) -> u32 {
        (self.0 >> 16) as u32 & 0xffff
    }
    pub fn lane(self) -> u32 {
        (self.0 >> 8) as u32 & 0x3f
    }
    pub fn strong(self) -> bool {
        self.0 & STRONG != 0
    }
    pub fn volatile(self) -> bool {
        self.0 & VOLATILE != 0
    }
    pub fn fenced(self) -> bool {
        self.0 & FENCED != 0
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reader {
    pub agent: u32,
    pub clock: u32,
    pub lane: u32,
    pub pc: u32,
    pub strong: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Record {
    pub readers: Vec<Reader>,
    /// Writes before the last one, with their pc.
    pub writes: Vec<(Write, u32)>,
}

/// An accessor and what it has seen.
#[derive(Clone, Copy)]
pub(super) struct Order<'a> {
    pub who: &'a Who,
    pub seen: Seen<'a>,
}

impl Order<'_> {
    fn me(&self) -> (u32, u32, u32) {
        (self.who.agent, self.who.clock & !FOREIGN, self.who.lane)
    }

    pub fn after_read(&self, agent: u32, clock: u32, lane: u32) -> bool {
        self.seen.after_read(self.me(), (agent, clock & !FOREIGN, lane))
    }

    pub fn after_write(&self, w: Write) -> bool {
        w.clock() == 0 || self.seen.after_write(self.me(), (w.agent(), w.clock() & !FOREIGN, w.lane()))
    }

    /// Whether a later access must be compared with `w` although this write covers it: `w` is unordered with it, or
    /// weak under a strong write, which other strong accesses need not be ordered with (PTX ISA §8.7.1).
    fn outlives(&self, w: Write) -> bool {
        if self.who.strength.is_strong() {
            !w.strong() && w.clock() > self.who.settled
        } else {
            !self.after_write(w)
        }
    }
}

/// The records of one shadow. Number 0 is the empty one.
#[derive(Debug, Default)]
pub(super) struct Past {
    list: Vec<Record>,
    /// The records made last.
    memo: Vec<(Record, u32)>,
    next: usize,
    /// Records at which those in use are looked for.
    limit: usize,
}

impl Past {
    pub fn clear(&mut self) {
        self.list.clear();
        self.list.push(Record::default());
        self.memo.clear();
        self.limit = COLLECT;
    }

    pub fn get(&self, id: u32) -> &Record {
        &self.list[id as usize]
    }

    /// The record after a write over `old`, of what must not be forgotten.
    pub fn write(&mut self, id: u32, old: (Write, u32), order: &Order<'_>) -> u32 {
        let keeps = old.0.clock() != 0 && order.outlives(old.0);
        if id == 0 && !keeps {
            return 0;
        }
        let mut writes = self.get(id).writes.clone();
        writes.retain(|w| order.outlives(w.0));
        if keeps {
            let w = Write(old.0.0 & !(MORE | VALID));
            // Of the weak writes of one agent the last stands for all.
            writes.retain(|o| o.0.agent() != w.agent() || o.0.strong() != w.strong());
            writes.push((w, old.1));
        }
        if writes.len() > MOST {
            writes.remove(0);
        }
        self.intern(id, Record { readers: vec![], writes })
    }

    /// The record with readers added at a read of the accessor; earlier ones that this read is ordered after go.
    pub fn read(&mut self, id: u32, new: &[Reader], order: &Order<'_>) -> u32 {
        let mut record = self.get(id).clone();
        let strong = order.who.strength.is_strong();
        record.readers.retain(|o| o.strong != strong || !order.after_read(o.agent, o.clock, o.lane));
        for r in new {
            // The later read of a lane stands for its earlier ones; lanes do not for one another.
            record.readers.retain(|o| {
                let covered = o.lane == r.lane || r.lane == super::ANY_LANE;
                !(o.strong == r.strong && o.agent == r.agent && covered)
            });
            record.readers.push(*r);
        }
        let over = record.readers.len().saturating_sub(MOST);
        record.readers.drain(..over);
        self.intern(id, record)
    }

    /// The record without the write of `agent` at `clock`.
    pub fn forget(&mut self, id: u32, agent: u32, clock: u32) -> u32 {
        let mut record = self.get(id).clone();
        record.writes.retain(|w| (w.0.agent(), w.0.clock()) != (agent, clock));
        self.intern(id, record)
    }

    fn intern(&mut self, from: u32, r: Record) -> u32 {
        if r.readers.is_empty() && r.writes.is_empty() {
            return 0;
        }
        if *self.get(from) == r {
            return from;
        }
        if let Some(m) = self.memo.iter().find(|m| m.0 == r) {
            return m.1;
        }
        let id = self.list.len() as u32;
        self.list.push(r.clone());
        if self.memo.len() < 8 {
            self.memo.push((r, id));
        } else {
            self.memo[self.next % 8] = (r, id);
        }
        self.next += 1;
        id
    }

    pub fn full(&self) -> bool {
        self.list.len() >= self.limit
    }

    /// Keeps the records that `used` names and numbers them anew.
    pub fn collect<'a>(&mut self, used: impl Iterator<Item = &'a mut u32>) {
        let mut to = vec![u32::MAX; self.list.len()];
        let mut kept = vec![Record::default()];
        to[0] = 0;
        for id in used {
            let t = &mut to[*id as usize];
            if *t == u32::MAX {
                *t = kept.len() as u32;
                kept.push(std::mem::take(&mut self.list[*id as usize]));
            }
            *id = *t;
        }
        self.limit = COLLECT.max(2 * kept.len());
        self.list = kept;
        self.memo.clear();
    }
}

//! The parts of tensors' memory that a launch works on copies of.
//!
//! A launch may touch what its views name. Those parts are copied, in pages and with a page on either side; what is zero in
//! them takes no memory. The rest of the allocation is there, with zeros, so that addresses and alignment are those of a
//! GPU, and what a kernel writes to it is seen.

use crate::geometry::Geometry;
use ptx_sim::{Memory, MemoryError};
use std::ops::Range;

/// Bytes of a page.
const PAGE: usize = 4096;
/// Bytes of which one look tells whether anything was written.
const CHUNK: usize = 1 << 20;

/// Host memory of one launch: so much and no more.
pub(super) struct Room {
    limit: u64,
    taken: u64,
}

/// The launch needs more host memory than that.
#[derive(Debug)]
pub(super) struct NoRoom {
    pub(super) limit: u64,
}

impl Room {
    pub(super) fn new(limit: u64) -> Self {
        Room { limit, taken: 0 }
    }

    pub(super) fn take(&mut self, bytes: usize) -> Result<(), NoRoom> {
        self.taken = self.taken.saturating_add(bytes as u64);
        if self.taken > self.limit { Err(NoRoom { limit: self.limit }) } else { Ok(()) }
    }

    pub(super) fn left(&self) -> u64 {
        self.limit.saturating_sub(self.taken)
    }
}

/// Pages of some memory, by their bytes, in ascending order and apart from one another.
#[derive(Debug, Default)]
pub(super) struct Pages(Vec<Range<usize>>);

impl Pages {
    /// What elements of `size` bytes touch, of memory of `bytes` bytes.
    pub(super) fn add(&mut self, geometry: &Geometry, size: usize, bytes: usize) {
        geometry.runs(|at, count| {
            let begin = (at * size / PAGE).saturating_sub(1) * PAGE;
            let end = (((at + count) * size).div_ceil(PAGE) + 1).saturating_mul(PAGE).min(bytes);
            match self.0.last_mut() {
                Some(last) if last.start <= begin && begin <= last.end => last.end = last.end.max(end),
                _ => self.0.push(begin..end),
            }
        });
    }

    /// In order, and those that touch as one.
    pub(super) fn sorted(mut self) -> Self {
        self.0.sort_by_key(|r| r.start);
        let mut list: Vec<Range<usize>> = Vec::with_capacity(self.0.len());
        for r in self.0 {
            match list.last_mut() {
                Some(last) if r.start <= last.end => last.end = last.end.max(r.end),
                _ => list.push(r),
            }
        }
        Pages(list)
    }

    /// Calls `f` with the ranges, and what lies between them and up to `bytes`: the range, and whether it is of the pages.
    fn each<E>(&self, bytes: usize, mut f: impl FnMut(Range<usize>, bool) -> Result<(), E>) -> Result<(), E> {
        let mut at = 0;
        for r in &self.0 {
            if at < r.start {
                f(at..r.start, false)?;
            }
            f(r.clone(), true)?;
            at = r.end;
        }
        if at < bytes { f(at..bytes, false) } else { Ok(()) }
    }
}

/// What pages of a tensor's memory held before the launch: where, and the bytes. Pages that are not listed held zeros, or
/// were not copied.
#[derive(Debug, Default)]
pub(super) struct Before {
    pages: Pages,
    held: Vec<(usize, Box<[u8]>)>,
}

/// Why pages were not copied.
pub(super) enum Refused {
    Memory(MemoryError),
    NoRoom(NoRoom),
}

impl From<MemoryError> for Refused {
    fn from(e: MemoryError) -> Self {
        Refused::Memory(e)
    }
}

impl From<NoRoom> for Refused {
    fn from(e: NoRoom) -> Self {
        Refused::NoRoom(e)
    }
}

/// Copies pages of `from` to device memory at `to`, which is zero. What they held is kept if they may be written.
pub(super) fn copy_in(
    memory: &mut Memory,
    to: u64,
    from: &[u8],
    pages: Pages,
    written: bool,
    room: &mut Room,
) -> Result<Before, Refused> {
    let mut held = Vec::new();
    for range in &pages.0 {
        for (n, page) in from[range.clone()].chunks(PAGE).enumerate() {
            if page.iter().all(|b| *b == 0) {
                continue;
            }
            let at = range.start + n * PAGE;
            room.take(if written { 2 * page.len() } else { page.len() })?;
            memory.write(to + at as u64, page)?;
            if written {
                held.push((at, page.into()));
            }
        }
    }
    Ok(Before { pages, held })
}

/// Copies back what changed, and nothing else: another launch may be at work on another part of the memory.
pub(super) fn copy_out(
    memory: &Memory,
    from: u64,
    to: &mut [u8],
    before: &Before,
) -> Result<(), MemoryError> {
    let zeros = [0; PAGE];
    let mut held = before.held.iter().peekable();
    let mut after = [0; PAGE];
    let bytes = to.len();
    before.pages.each(bytes, |range, copied| {
        let mut at = range.start;
        while at < range.end {
            // Where nothing was copied there are zeros, unless the kernel wrote there.
            let chunk = (range.end - at).min(CHUNK);
            if !copied && memory.is_zero(from + at as u64, chunk as u64)? {
                at += chunk;
                continue;
            }
            for page in (at..at + chunk).step_by(PAGE) {
                let n = (at + chunk - page).min(PAGE);
                memory.read(from + page as u64, &mut after[..n])?;
                let old: &[u8] = match held.next_if(|(place, _)| *place == page) {
                    Some((_, held)) => held,
                    None => &zeros[..n],
                };
                for (k, (old, new)) in old.iter().zip(&after[..n]).enumerate() {
                    if old != new {
                        to[page + k] = *new;
                    }
                }
            }
            at += chunk;
        }
        Ok(())
    })
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "lists of ranges, some of one")]
mod tests {
    use super::*;
    use crate::geometry::Layout;

    fn pages(rows: &[Range<usize>]) -> Vec<Range<usize>> {
        let whole = Geometry::dense(&[64, PAGE], Layout::RowMajor);
        let mut pages = Pages::default();
        for r in rows {
            pages.add(&whole.slice(&[r.clone(), 0..PAGE]).unwrap(), 1, 64 * PAGE);
        }
        pages.sorted().0
    }

    #[test]
    fn pages_have_a_neighbour_on_either_side_and_are_joined() {
        assert_eq!(pages(&[4..6]), [3 * PAGE..7 * PAGE]);
        assert_eq!(pages(&[0..1, 63..64]), [0..2 * PAGE, 62 * PAGE..64 * PAGE]);
        assert_eq!(pages(&[20..21, 4..6, 7..8]), [3 * PAGE..9 * PAGE, 19 * PAGE..22 * PAGE]);
        assert_eq!(pages(&[5..5]), []);
        // A column: a run a row, whose pages are one range.
        let column = Geometry::dense(&[64, PAGE], Layout::RowMajor).slice(&[0..64, 7..8]).unwrap();
        let mut all = Pages::default();
        all.add(&column, 1, 64 * PAGE);
        assert_eq!(all.sorted().0, [0..64 * PAGE]);
    }

    #[test]
    fn what_changes_comes_back_wherever_it_is() {
        let mut host = vec![0u8; 64 * PAGE];
        (host[5 * PAGE], host[40 * PAGE + 9]) = (7, 9);
        let mut memory = Memory::new();
        let at = memory.alloc("x", host.len() as u64).unwrap();
        let part = Geometry::dense(&[64, PAGE], Layout::RowMajor).slice(&[4..6, 0..PAGE]).unwrap();
        let mut pages = Pages::default();
        pages.add(&part, 1, host.len());
        let mut room = Room::new(2 * PAGE as u64);
        let before = copy_in(&mut memory, at, &host, pages.sorted(), true, &mut room).ok().unwrap();
        assert_eq!((room.left(), before.held.len()), (0, 1), "one page is not zero, and kept twice");
        // A changed byte, a cleared one and one far beside the view; what is not copied stays as it is.
        memory.write(at + 4 * PAGE as u64 + 1, &[3]).unwrap();
        memory.write(at + 5 * PAGE as u64, &[0]).unwrap();
        memory.write(at + 60 * PAGE as u64 + 3, &[4]).unwrap();
        copy_out(&memory, at, &mut host, &before).unwrap();
        let changed: Vec<(usize, u8)> = host.iter().copied().enumerate().filter(|(_, b)| *b != 0).collect();
        assert_eq!(changed, [(4 * PAGE + 1, 3), (40 * PAGE + 9, 9), (60 * PAGE + 3, 4)]);
        // One page more than there is room for.
        let mut pages = Pages::default();
        pages.add(&part, 1, host.len());
        let at = memory.alloc("y", host.len() as u64).unwrap();
        let e = copy_in(&mut memory, at, &host, pages, false, &mut Room::new(PAGE as u64 - 1));
        assert!(matches!(e, Err(Refused::NoRoom(NoRoom { limit: 4095 }))));
    }
}

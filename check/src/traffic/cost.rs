//! What a request of a warp costs: sectors of global memory, wavefronts of shared memory.
//!
//! Wavefronts, as recorded on an H200 (`ptx-sim/tests/memory_access.rs`): lanes come in phases, 32 of them where each asks for 4 bytes or
//! less, 16 for 8 bytes, 8 for 16 bytes. A phase takes as many wavefronts as the bank with most words has distinct words. Phases of wide
//! loads are twice as long where lanes at distance 1, or those at distance 2, pairwise read the same bytes.

use super::value::Lanes;

/// Lanes of a warp.
pub(super) const WARP: usize = 32;
/// Bytes of a sector.
pub(super) const SECTOR: u64 = 32;
/// Banks of shared memory, of 4 bytes each.
const BANKS: u64 = 32;
/// Rows of a matrix, and bytes of a row.
pub(super) const MATRIX: (u32, u32) = (8, 16);

/// The request of a warp: the byte that each lane begins at, which lanes ask, and for how many bytes.
pub(super) struct Request<'a> {
    pub at: &'a Lanes,
    pub lanes: u32,
    pub bytes: u32,
}

impl Request<'_> {
    fn asking(&self, lanes: u32) -> impl Iterator<Item = u64> + '_ {
        (0..WARP).filter(move |i| lanes >> i & 1 != 0).map(|i| self.at.get(i) as u64)
    }

    /// Bytes of all lanes.
    pub fn asked(&self) -> u64 {
        u64::from(self.bytes) * u64::from(self.lanes.count_ones())
    }

    /// Distinct sectors, and those that the distinct bytes would fill.
    pub fn sectors(&self) -> (u64, u64) {
        if self.at.same().is_some() {
            return (1, 1);
        }
        let mut at: Vec<u64> = self.asking(self.lanes).collect();
        at.sort_unstable();
        at.dedup();
        let least = (at.len() as u64 * u64::from(self.bytes)).div_ceil(SECTOR);
        at.iter_mut().for_each(|at| *at /= SECTOR);
        at.dedup();
        // An access is aligned to its size, so each lies within one sector.
        (at.len() as u64, least)
    }

    /// Wavefronts, and how many phases there are: one each without a conflict.
    pub fn wavefronts(&self, load: bool) -> (u64, u64) {
        let words = u64::from(self.bytes.div_ceil(4).max(1));
        if self.at.same().is_some() && words == 1 {
            return (1, 1);
        }
        let mut long = WARP / words as usize;
        if load && words > 1 && (self.paired(1) || self.paired(2)) {
            long *= 2;
        }
        self.phases(long.min(WARP), words)
    }

    /// Wavefronts of `ldmatrix` and `stmatrix`, a phase for each matrix.
    pub fn matrices(&self) -> (u64, u64) {
        self.phases(MATRIX.0 as usize, u64::from(MATRIX.1 / 4))
    }

    /// Whether lanes at a distance that both ask read the same.
    fn paired(&self, distance: usize) -> bool {
        let asks = |i: usize| self.lanes >> i & 1 != 0;
        (0..WARP).all(|i| !asks(i) || !asks(i ^ distance) || self.at.get(i) == self.at.get(i ^ distance))
    }

    fn phases(&self, long: usize, words: u64) -> (u64, u64) {
        let group = if long >= WARP { u32::MAX } else { (1 << long) - 1 };
        let (mut total, mut phases) = (0, 0);
        for first in (0..WARP).step_by(long) {
            let lanes = self.lanes & group << first;
            if lanes != 0 {
                total += self.phase(lanes, words);
                phases += 1;
            }
        }
        (total, phases)
    }

    /// The most distinct words in one bank. Words of a lane lie side by side and are aligned, so they count as one wide word.
    fn phase(&self, lanes: u32, words: u64) -> u64 {
        let mut at: Vec<u64> = self.asking(lanes).map(|at| at / (4 * words)).collect();
        at.sort_unstable();
        at.dedup();
        let mut banks = [0u64; BANKS as usize];
        at.iter().for_each(|at| banks[(at % (BANKS / words)) as usize] += 1);
        banks.into_iter().max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wavefronts(bytes: u32, lanes: u32, load: bool, at: impl Fn(i64) -> i64) -> (u64, u64) {
        let at = Lanes::each(|i| at(i as i64));
        Request { at: &at, lanes, bytes }.wavefronts(load)
    }

    #[test]
    fn banks_conflict_by_distinct_words() {
        assert_eq!(wavefronts(4, !0, true, |i| 4 * i), (1, 1), "a row");
        assert_eq!(wavefronts(4, !0, true, |i| 8 * i), (2, 1), "every second word");
        assert_eq!(wavefronts(4, !0, true, |i| 128 * i), (32, 1), "one bank");
        assert_eq!(wavefronts(4, !0, true, |i| 132 * i), (1, 1), "padded rows");
        assert_eq!(wavefronts(4, !0, true, |i| i / 8 * 128), (4, 1), "four words of a bank");
        assert_eq!(wavefronts(4, 1, true, |i| 128 * i), (1, 1), "one lane");
        assert_eq!(wavefronts(2, !0, true, |i| 2 * i), (1, 1), "two lanes a word");
        assert_eq!(wavefronts(8, !0, true, |i| 8 * i), (2, 2));
        assert_eq!(wavefronts(16, !0, true, |i| 16 * i), (4, 4));
        assert_eq!(wavefronts(16, !0, true, |i| i / 2 * 16), (2, 2), "pairs read the same");
        assert_eq!(wavefronts(16, !0, false, |i| i / 2 * 16), (4, 4), "and stores are not joined");
        assert_eq!(wavefronts(16, !0, true, |i| 128 * i), (32, 4));
    }

    #[test]
    fn sectors_are_counted_once() {
        let sectors = |bytes, lanes, at: fn(i64) -> i64| {
            let at = Lanes::each(|i| at(i as i64));
            Request { at: &at, lanes, bytes }.sectors()
        };
        assert_eq!(sectors(4, !0, |i| 4 * i), (4, 4));
        assert_eq!(sectors(4, !0, |i| 512 * i), (32, 4));
        assert_eq!(sectors(4, !0, |i| 4 * (31 - i)), (4, 4));
        assert_eq!(sectors(4, !0, |_| 4), (1, 1));
        assert_eq!(sectors(4, !0, |i| i / 16 * 4096), (2, 1), "two elements");
        assert_eq!(sectors(16, 0xff, |i| 16 * i), (4, 4));
    }

    #[test]
    fn a_matrix_is_a_phase() {
        let rows = |stride: i64| {
            let at = Lanes::each(|i| i as i64 * stride);
            Request { at: &at, lanes: !0, bytes: 16 }.matrices()
        };
        assert_eq!([rows(128), rows(144), rows(16)], [(32, 4), (4, 4), (4, 4)]);
    }
}

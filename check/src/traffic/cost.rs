//! What a request of a warp costs: sectors of global memory, wavefronts of shared memory, by the simulator's rules ([`ptx_sim::banks`]).

use super::value::Lanes;
use ptx_sim::banks;

/// Lanes of a warp.
pub(super) const WARP: usize = 32;
/// Bytes of a sector.
const SECTOR: u64 = 32;
/// Rows of a matrix, and bytes of a row.
pub(super) const MATRIX: (u32, u32) = (8, 16);

/// The request of a warp: the byte that each lane begins at, which lanes ask, and for how many bytes.
pub(super) struct Request<'a> {
    pub at: &'a Lanes,
    pub lanes: u32,
    pub bytes: u32,
}

impl Request<'_> {
    /// Bytes of all lanes.
    pub fn asked(&self) -> u64 {
        u64::from(self.bytes) * u64::from(self.lanes.count_ones())
    }

    /// Distinct sectors, and those that the distinct bytes would fill.
    pub fn sectors(&self) -> (u64, u64) {
        if self.at.same().is_some() {
            return (1, 1);
        }
        let all = std::array::from_fn(|i| self.at.get(i) as u64);
        let mut asked: Vec<u64> = (0..WARP).filter(|i| self.lanes >> i & 1 != 0).map(|i| all[i]).collect();
        asked.sort_unstable();
        asked.dedup();
        let least = (asked.len() as u64 * u64::from(self.bytes)).div_ceil(SECTOR);
        (banks::sectors(&all, self.lanes, self.bytes).into(), least)
    }

    /// Wavefronts, and how many phases there are: one each without a conflict.
    pub fn wavefronts(&self, load: bool) -> (u64, u64) {
        let (cost, least) = banks::wavefronts(&self.shared(), self.lanes, self.bytes, load);
        (cost.into(), least.into())
    }

    /// Wavefronts of `ldmatrix` and `stmatrix`, a phase for each matrix.
    pub fn matrices(&self) -> (u64, u64) {
        let (cost, least) = banks::matrices(&self.shared(), self.lanes);
        (cost.into(), least.into())
    }

    fn shared(&self) -> [u32; WARP] {
        std::array::from_fn(|i| self.at.get(i) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_what_distinct_bytes_fill() {
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
    fn conflicts_are_those_of_the_simulator() {
        let shared = |bytes, at: fn(i64) -> i64| {
            let at = Lanes::each(|i| at(i as i64));
            let request = Request { at: &at, lanes: !0, bytes };
            (request.wavefronts(true), request.wavefronts(false))
        };
        assert_eq!(shared(4, |i| 128 * i), ((32, 1), (32, 1)), "one bank");
        assert_eq!(shared(16, |i| i / 2 * 16), ((2, 2), (4, 4)), "pairs read the same");
        let rows = |stride: i64| {
            let at = Lanes::each(|i| i as i64 * stride);
            Request { at: &at, lanes: !0, bytes: 16 }.matrices()
        };
        assert_eq!([rows(128), rows(144), rows(16)], [(32, 4), (4, 4), (4, 4)]);
    }
}

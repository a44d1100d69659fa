//! The table that a grouped kernel finds its problems in: [`tile_dsl::kernel::Table`] has its form.

use crate::tensor_map::BYTES;
use tile_dsl::kernel::Table;

/// Bytes of the parameters of a grouped kernel's entry: address of the rows, address of the first tiles, problems, tiles.
pub(crate) const WIDTHS: [u8; 4] = [8, 8, 4, 4];

/// Bytes of the table of so many problems: the rows, then the numbers of the first tiles.
pub(crate) fn bytes(table: &Table, problems: usize) -> u64 {
    problems as u64 * u64::from(table.row) + (problems as u64 + 1) * 4
}

/// The table, row by row.
pub(crate) struct Rows<'t> {
    table: &'t Table,
    widths: &'t [u8],
    rows: Vec<u8>,
    starts: Vec<i32>,
    tiles: i32,
}

impl<'t> Rows<'t> {
    /// No problems yet; `widths` are the bytes of each parameter.
    pub(crate) fn new(table: &'t Table, widths: &'t [u8]) -> Self {
        Rows { table, widths, rows: Vec::new(), starts: Vec::new(), tiles: 0 }
    }

    /// Adds a problem with the words of its parameters, of which some are tensor maps. Its tiles and those before it are
    /// fewer than 2³¹ together.
    pub(crate) fn push(&mut self, words: &[u64], map: impl Fn(usize) -> Option<[u8; BYTES]>, tiles: u32) {
        let first = self.rows.len();
        self.rows.resize(first + self.table.row as usize, 0);
        for (n, (word, width)) in words.iter().zip(self.widths).enumerate() {
            let word = word.to_le_bytes();
            let map = map(n);
            let value = match &map {
                Some(map) => &map[..],
                None => &word[..usize::from(*width)],
            };
            let at = first + self.table.offsets[n] as usize;
            self.rows[at..at + value.len()].copy_from_slice(value);
        }
        self.starts.push(self.tiles);
        self.tiles += tiles as i32;
    }

    /// The bytes of the table, and the words of the entry's parameters where it lies at an address.
    pub(crate) fn finish(mut self) -> (Vec<u8>, impl Fn(u64) -> [u64; 4]) {
        let (rows, problems, tiles) = (self.rows.len() as u64, self.starts.len() as u64, self.tiles as u64);
        self.starts.push(self.tiles);
        self.rows.extend(self.starts.iter().flat_map(|start| start.to_le_bytes()));
        (self.rows, move |address| [address, address + rows, problems, tiles])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_lie_where_the_kernel_looks() {
        let table = Table { offsets: vec![0, 8, 128], row: 256 };
        let map = [7u8; BYTES];
        let mut rows = Rows::new(&table, &[8, 4, 128]);
        for (n, tiles) in [3u32, 0, 5].into_iter().enumerate() {
            rows.push(&[0x0102 + n as u64, 9, 0], |p| (p == 2).then_some(map), tiles);
        }
        let (bytes, words) = rows.finish();
        assert_eq!(words(1 << 20), [1 << 20, (1 << 20) + 3 * 256, 3, 8]);
        assert_eq!(bytes.len() as u64, super::bytes(&table, 3));
        assert_eq!(&bytes[256..266], [3, 1, 0, 0, 0, 0, 0, 0, 9, 0]);
        assert_eq!((bytes[256 + 127], bytes[256 + 128], bytes[511]), (0, 7, 7));
        let starts: Vec<i32> =
            bytes[768..].chunks(4).map(|c| i32::from_le_bytes(c.try_into().unwrap())).collect();
        assert_eq!(starts, [0, 3, 3, 8]);
    }
}

//! NumPy's `.npy` files (version 1.0 of the format), one-dimensional when written.

use super::element::Element;

const MAGIC: &[u8] = b"\x93NUMPY";

/// A file of these elements.
pub fn write(data: &[u8], e: Element) -> Vec<u8> {
    let (descr, widen) = e.numpy();
    let count = data.len() / e.bytes();
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({count},), }}");
    // With the ten bytes before it, a multiple of 64.
    let padded = (header.len() + 11).next_multiple_of(64) - 11;
    header.push_str(&" ".repeat(padded - header.len()));
    header.push('\n');
    let mut out = [MAGIC, &[1, 0], &(header.len() as u16).to_le_bytes(), header.as_bytes()].concat();
    if widen {
        data.chunks_exact(e.bytes()).for_each(|b| out.extend((e.value(b) as f32).to_le_bytes()));
    } else {
        out.extend_from_slice(&data[..count * e.bytes()]);
    }
    out
}

/// The data of a file, in the order of memory; `None` if it is not one.
pub fn read(file: &[u8]) -> Option<&[u8]> {
    let rest = file.strip_prefix(MAGIC)?;
    let (length, at) = match rest.first()? {
        1 => (u16::from_le_bytes([*rest.get(2)?, *rest.get(3)?]) as usize, 4),
        _ => (u32::from_le_bytes([*rest.get(2)?, *rest.get(3)?, *rest.get(4)?, *rest.get(5)?]) as usize, 6),
    };
    rest.get(at + length..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_round_trip() {
        let file = write(&[1, 0, 2, 0, 3, 0], Element::U16);
        assert!(file.len() % 64 == 6 && read(&file) == Some(&[1, 0, 2, 0, 3, 0][..]));
        assert!(
            String::from_utf8_lossy(&file).contains("'descr': '<u2', 'fortran_order': False, 'shape': (3,)")
        );
        assert_eq!(read(&write(&[0x80, 0x3f], Element::BF16)), Some(&1f32.to_le_bytes()[..]));
        assert_eq!(read(b"other"), None);
    }
}

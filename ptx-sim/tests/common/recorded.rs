//! Recorded arrays (`tests/data/h200`).

use std::io::Read;

/// The 32-bit words of `set.name`.
pub fn words(name: &str) -> Vec<u32> {
    bytes(name).chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect()
}

/// The bytes of `set.name`.
pub fn bytes(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/data/h200/{name}.bin.gz", env!("CARGO_MANIFEST_DIR"));
    let mut out = vec![];
    flate2::read::GzDecoder::new(std::fs::File::open(&path).expect(&path)).read_to_end(&mut out).unwrap();
    out
}

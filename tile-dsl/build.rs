//! Fingerprints the source of a crate, this one or the code generator, so that a cache filled by one build never serves another.

use std::{fs, path::Path};

fn main() {
    println!("cargo::rerun-if-changed=src");
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    add(Path::new("src"), &mut hash);
    println!("cargo::rustc-env=SOURCE_FINGERPRINT={hash:016x}");
}

/// FNV-1a over the files below `path`, in the order of their names.
fn add(path: &Path, hash: &mut u64) {
    if path.is_dir() {
        let entries = fs::read_dir(path).expect("the source folder can be read");
        let mut paths: Vec<_> = entries.map(|e| e.expect("the source folder can be read").path()).collect();
        paths.sort();
        paths.iter().for_each(|path| add(path, hash));
        return;
    }
    for byte in fs::read(path).expect("the source can be read") {
        *hash = (*hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
}

//! "Reading a refusal".

use crate::matmul::shared;
use tilewright::prelude::*;

// ANCHOR: solution
schedule! {
    /// The longest step of k that the shared memory of `sm_80` holds.
    pub longest = shared { tile(k = 512); }
}
// ANCHOR_END: solution

#[test]
fn it_fits() {
    let report = super::multiply(&longest, [32, 32, 512]);
    assert_eq!(report.shared_bytes, 131_072);
}

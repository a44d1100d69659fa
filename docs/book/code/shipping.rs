//! "Shipping without LLVM".

use super::first_kernel::{four_each, one_each};

// ANCHOR: solution
#[test]
fn a_bundle_of_two_schedules() {
    use tilewright::{Variant, bundle};
    let folder = tempfile::tempdir().unwrap();
    let bundle = bundle![one_each, four_each].variants(&[Variant::Exact, Variant::General]);
    let compiled = bundle.write(folder.path()).unwrap();
    assert_eq!(compiled.kernels, 4);
    let file = std::fs::read_to_string(folder.path().join("bundle.rs")).unwrap();
    assert!(file.contains("pub fn provide()") && file.contains("four_each"));
}
// ANCHOR_END: solution

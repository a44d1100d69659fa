//! Every diagnostic in full: one mistake a file, `tests/ui/<directive>/<mistake>.rs`. `TRYBUILD=overwrite` re-blesses.

#[test]
fn diagnostics() {
    trybuild::TestCases::new().compile_fail("tests/ui/*/*.rs");
}

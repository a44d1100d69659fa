//! Every diagnostic in full: one mistake a file, `tests/ui/<directive>/<mistake>.rs`. `TRYBUILD=overwrite` re-blesses.

#[test]
fn diagnostics() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/[!p]*/*.rs");
    cases.compile_fail("tests/ui/pipeline/*.rs");
}

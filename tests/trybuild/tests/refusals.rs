//! An illegal schedule is an error of `rustc` on the directive: the cases that `tests/diagnostics` has `rustc` compile, by trybuild.
//!
//! What they print is recorded beside them; `TILEWRIGHT_BLESS=1 cargo test --test diagnostics` writes it anew.

#[path = "../../diagnostics/cases.rs"]
#[allow(dead_code)] // Their sources are for the other test.
mod cases;

use std::path::Path;

/// What they print names files of other crates, whose paths differ from here.
const ELSEWHERE: &[&str] = &["list/run", "schedule/of_another_kernel", "schedule/parent_in_another_crate"];

#[test]
fn rustc_prints_what_is_recorded() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let compiled = cases::cases(&root).into_iter().filter(|c| c.compiled && !ELSEWHERE.contains(&&*c.name));
    let compiled: Vec<_> = compiled.collect();
    assert!(compiled.len() > 80, "{} cases", compiled.len());
    let compiler = trybuild::TestCases::new();
    compiled.iter().for_each(|case| compiler.compile_fail(&case.path));
}

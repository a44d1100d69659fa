//! The command-line program (feature `cli`): output and exit status.
#![cfg(feature = "cli")]

use std::process::{Command, Output};

fn cli(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ptx-sim"))
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/llvm"))
        .args(args)
        .output()
        .unwrap()
}

#[test]
fn run_reports_and_exits_by_findings() {
    let base =
        ["run", "saxpy.ptx", "--block", "128", "--arg", "x:512:iota", "--arg", "y:512", "--arg", "f32:2"];
    let clean = cli(&[&base[..], &["--arg", "u32:128", "--dump", "y:3"]].concat());
    let text = String::from_utf8(clean.stdout).unwrap();
    assert!(
        clean.status.success() && text.contains("global Load `x`: 4 requests, 4.00 sectors each"),
        "{text}"
    );
    assert!(text.contains("0 findings"), "{text}");
    let bad = cli(&[&base[..], &["--arg", "u32:1000", "--grid", "2", "--json"]].concat());
    assert_eq!(bad.status.code(), Some(1));
    let report: serde_json::Value = serde_json::from_slice(&bad.stdout).unwrap();
    assert_eq!(report["findings"][0]["kind"], "out_of_bounds");
    let wrong = cli(&base);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8(wrong.stderr).unwrap().contains("takes 4 parameters, 3 were given"));
}

#[test]
fn check_names_the_place() {
    assert!(cli(&["check", "saxpy.ptx", "matmul.ptx"]).status.success());
    let bad = cli(&["check", "saxpy.ll"]);
    assert_eq!(bad.status.code(), Some(2));
    assert!(String::from_utf8(bad.stdout).unwrap().contains("saxpy.ll: line 1, column 1"));
}

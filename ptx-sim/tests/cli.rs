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
fn tensor_maps_are_arguments() {
    let run = |map: &str| {
        cli(&[
            &["run", "../mutation/tma_store.ptx", "--block", "64", "--arg", "in:1024:iota", "--arg", map][..],
            &["--arg", "y:1024", "--arg", "out:1024", "--json", "--dump", "y:3", "--dump", "out:1"],
        ]
        .concat())
    };
    let clean = run("map:y:u32:256:64");
    let report: serde_json::Value = serde_json::from_slice(&clean.stdout).unwrap();
    assert!(clean.status.success(), "{report}");
    assert_eq!(report["dump"], serde_json::json!({ "y": [1, 4, 7], "out": [8] }));
    // Beyond the buffer, which the tensor must not be.
    assert_eq!(run("map:y:u32:512:128").status.code(), Some(1));
    for (map, expected) in [
        ("map:z:u32:256:64", "no such buffer"),
        ("map:y:u32:256:300", "tile extent 300 is outside 1 to 256"),
        ("map:y:u7:256:64", "expected an element"),
        ("map:y:u32:256:64:128b", "expected a swizzle"),
    ] {
        let refused = run(map);
        assert_eq!(refused.status.code(), Some(2), "{map}");
        assert!(String::from_utf8(refused.stderr).unwrap().contains(expected), "{map}");
    }
}

#[test]
fn check_names_the_place() {
    assert!(cli(&["check", "saxpy.ptx", "matmul.ptx"]).status.success());
    let bad = cli(&["check", "saxpy.ll"]);
    assert_eq!(bad.status.code(), Some(2));
    assert!(String::from_utf8(bad.stdout).unwrap().contains("saxpy.ll: line 1, column 1"));
    let bad = cli(&["check", "--json", "saxpy.ll"]);
    let object: serde_json::Value = serde_json::from_slice(&bad.stdout).unwrap();
    assert_eq!((&object["error"]["line"], &object["error"]["column"]), (&1.into(), &1.into()));
}

//! The command-line program (feature `cli`): output and exit status.

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
        assert!(String::from_utf8(refused.stdout).unwrap().contains(expected), "{map}");
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

/// A file of the test's own, which is removed with the value.
struct Temporary(std::path::PathBuf);

impl Temporary {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ptx-sim-cli-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Temporary(path)
    }

    fn name(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

const COPY: &str = ".version 8.0\n.target sm_90\n.address_size 64
.const .b32 _ZN5space4scaleE[2] = {1, 0};
.entry _Z4copyILi2EEvPjS0_(.param .u64 a, .param .u64 b) {
 .reg .b64 %d<4>; .reg .b32 %r<4>; ld.param.u64 %d0, [a]; ld.param.u64 %d1, [b]; mov.u32 %r0, %tid.x;
 mul.wide.u32 %d2, %r0, 4; add.s64 %d0, %d0, %d2; add.s64 %d1, %d1, %d2;
 ld.global.u32 %r1, [%d0]; ld.const.u32 %r2, [_ZN5space4scaleE]; mul.lo.u32 %r1, %r1, %r2; st.global.u32 [%d1], %r1; ret; }
.entry other() { ret; }
";

#[test]
fn buffers_are_typed_seeded_named_twice_and_written_to_files() {
    let (ptx, npy) = (Temporary::new("copy.ptx", COPY), Temporary::new("out.npy", ""));
    let run = |args: &[&str]| {
        let out = cli(&[&["run", ptx.name(), "--kernel", "copy<2>", "--json"], args].concat());
        let value: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        (out.status.code(), value)
    };
    let random = ["--arg", "a:32xu32:random", "--arg", "b:32xu32:random", "--no-race"];
    let first = |seed: &str| {
        let dumps = ["--set", "scale:1xu32:=0", "--data-seed", seed, "--dump", "a:2", "--dump", "scale:1"];
        let (code, v) = run(&[&random[..], &dumps].concat());
        assert_eq!((code, &v["dump"]["scale"][0]), (Some(0), &0.into()), "{v}");
        v["dump"]["a"].clone()
    };
    assert_eq!(first("1"), first("1"));
    assert_ne!(first("1"), first("2"));
    let (_, both) = run(&[
        "--arg",
        "a:32xf32:random",
        "--arg",
        "b:32xf32:random",
        "--buffer",
        "c:8xbf16:random=2..3",
        "--dump",
        "a:4",
        "--dump",
        "c",
    ]);
    let (a, c) = (both["dump"]["a"].as_array().unwrap(), both["dump"]["c"].as_array().unwrap());
    assert!(c.len() == 8 && c.iter().all(|v| (2.0..=3.0).contains(&v.as_f64().unwrap())), "{both}");
    assert!(a.iter().all(|v| v.as_f64().unwrap().abs() <= 1.0) && a[0] != a[1], "{both}");
    // The upper half of one buffer under another name, to a file and back.
    let save = format!("b:u16:{}", npy.name());
    let (code, v) =
        run(&["--arg", "a:64xu32:iota", "--arg", "b:=a+128", "--dump", "a+124:3", "--save", &save]);
    assert_eq!((code, &v["dump"]["a+124"]), (Some(0), &serde_json::json!([31, 0, 1])), "{v}");
    let file = std::fs::read(npy.name()).unwrap();
    assert!(file.starts_with(b"\x93NUMPY") && file.len() == 128 + 128);
    let back = format!("a::@{}", npy.name());
    let (_, v) = run(&["--arg", &back, "--arg", "b:128", "--dump", "b:3"]);
    assert_eq!(v["dump"]["b"], serde_json::json!([0, 1, 2]));
    for (args, text) in [
        (["--arg", "a:5xu9"], "`u9` is no type: expected one of u8, s8"),
        (["--arg", "u8:300"], "`300` is not a u8"),
        (["--arg", "b:=z"], "there is no such buffer: `z`"),
        (["--arg", "a:4:random=3"], "expected random=LOW..HIGH"),
        (["--set", "nothing:4:=1"], "there is no buffer or variable `nothing`"),
        (["--set", "scale:99:=1"], "99 bytes do not fit the variable's 8"),
        (["--kernel", "o"], "cannot be used multiple times"),
    ] {
        let out = cli(&[&["run", ptx.name(), "--kernel", "copy"][..], &args].concat());
        assert_eq!(out.status.code(), Some(2));
        let error = String::from_utf8(out.stderr).unwrap();
        assert!(error.contains(text), "{args:?}: {error}");
    }
    let several = cli(&["run", ptx.name(), "--kernel", "o"]);
    assert!(
        String::from_utf8(several.stderr)
            .unwrap()
            .contains("choose one of 2 with --kernel:\n  _Z4copyILi2EEvPjS0_  void copy<2>")
    );
    let stopped = cli(&["run", ptx.name(), "--kernel", "other", "--max-instructions", "0"]);
    assert!(String::from_utf8(stopped.stdout).unwrap().contains("0 warp instructions"));
    let empty = Temporary::new("empty.ptx", ".version 8.0\n.target sm_90\n.address_size 64\n");
    let out = cli(&["check", empty.name()]);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8(out.stdout).unwrap().contains("the file has no kernel"));
}

#[test]
fn tensor_maps_have_strides_and_lie_in_memory() {
    let args = ["run", "../mutation/tma_store.ptx", "--block", "64", "--arg", "in:1024:iota", "--json"];
    let run = |map: &str| {
        let out =
            cli(&[&args[..], &["--arg", map, "--arg", "y:4096", "--arg", "out:1024", "--dump", "y:3"]]
                .concat());
        (out.status.code(), serde_json::from_slice::<serde_json::Value>(&out.stdout).unwrap())
    };
    // 16 bytes further, the first four elements stay as they were.
    assert_eq!(run("map:y+16:u32:256:64").1["dump"]["y"], serde_json::json!([0, 0, 0]));
    let (code, v) = run("map:y:u32:256:64:steps=1");
    assert_eq!((code, &v["dump"]["y"]), (Some(0), &serde_json::json!([1, 4, 7])), "{v}");
    let (code, v) = run("map:y:u32:64x4:64x1:strides=1024");
    assert!(code != Some(2), "{v}");
    for (map, text) in [
        ("map:y:u32:64x4:64x1:strides=1000", "stride 1000 is not a multiple of 16"),
        ("map:y:u32:64x4:64x1:stride=1024", "expected a swizzle 32B"),
        ("mapptr:y:u32:256:64", "128 bytes, 8 were given"),
    ] {
        let (code, v) = run(map);
        assert_eq!(code, Some(2));
        assert!(v["error"]["message"].as_str().unwrap().contains(text), "{v}");
    }
}

//! Many source files checked by one run of `rustc`.

use serde_json::Value;
use std::{collections::BTreeMap, path::Path, process::Command};

/// The messages of the errors in each of some sources, by name, as modules of one crate. Those without errors are left out.
pub fn check(sources: &BTreeMap<&str, &str>) -> BTreeMap<String, Vec<String>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let libraries = libraries();
    for (name, source) in sources {
        std::fs::write(folder.path().join(name).with_extension("rs"), source).expect("a file is written");
    }
    let modules = |names: &mut dyn Iterator<Item = &&str>| -> String {
        names.map(|name| format!("#[path = \"{name}.rs\"] mod {name};\n")).collect()
    };
    let mut found = run(folder.path(), &modules(&mut sources.keys()), &libraries);
    // Types are checked only where macros expand without errors.
    if !found.is_empty() {
        let mut sound = sources.keys().filter(|name| !found.contains_key(**name));
        found.extend(run(folder.path(), &modules(&mut sound), &libraries));
    }
    found
}

/// `rustc`'s errors by the file they stand in, without its extension.
fn run(folder: &Path, modules: &str, libraries: &[String]) -> BTreeMap<String, Vec<String>> {
    let main = folder.join("main.rs");
    std::fs::write(&main, format!("#![allow(warnings)]\n{modules}\nfn main() {{}}\n"))
        .expect("a file is written");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .args(["--edition=2024", "--error-format=json", "--emit=metadata", "-o"])
        .arg(folder.join("main.rmeta"))
        .args(libraries)
        .arg(&main)
        .output()
        .expect("rustc runs");
    let text = String::from_utf8(output.stderr).expect("rustc writes UTF-8");
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in text.lines() {
        let error: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{text}"));
        let message = error["message"].as_str().unwrap_or_default();
        if error["level"] != "error" || message.starts_with("aborting due to") {
            continue;
        }
        let spans = error["spans"].as_array().cloned().unwrap_or_default();
        let file =
            spans.iter().find(|span| span["is_primary"] == true).and_then(|span| span["file_name"].as_str());
        let name = file.and_then(|file| Path::new(file).file_stem()).and_then(|stem| stem.to_str());
        let first = message.lines().next().unwrap_or_default();
        found.entry(name.unwrap_or("?").to_string()).or_default().push(first.to_string());
    }
    assert!(output.status.success() || !found.is_empty(), "{text}");
    found
}

/// Where `rustc` finds the facade and the fixture: cargo says which of the files it built are theirs. It is asked for this test
/// as part of the workspace, so that nothing is built beside what `cargo test --workspace` built.
fn libraries() -> Vec<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["test", "--offline", "--message-format=json", "--no-run"])
        .args(["--workspace", "--test", "diagnostics"])
        .output()
        .expect("cargo runs");
    let text = String::from_utf8(output.stdout).expect("cargo writes UTF-8");
    let artifacts = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut args = Vec::new();
    for artifact in artifacts.filter(|a| a["reason"] == "compiler-artifact") {
        let name = artifact["target"]["name"].as_str().unwrap_or_default().replace('-', "_");
        let files = artifact["filenames"].as_array().cloned().unwrap_or_default();
        let is_library =
            artifact["target"]["kind"] == serde_json::json!(["lib"]) && artifact["profile"]["test"] == false;
        let file = files.iter().filter_map(Value::as_str).find(|f| f.ends_with(".rmeta"));
        if let (true, Some(file), "tilewright" | "fixture_kernels") = (is_library, file, name.as_str()) {
            let folder = Path::new(file).parent().expect("a file has a folder").display();
            args.extend([format!("--extern={name}={file}"), format!("-Ldependency={folder}")]);
        }
    }
    assert_eq!(args.len(), 4, "{}", String::from_utf8_lossy(&output.stderr));
    args
}

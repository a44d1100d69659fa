//! `rustc` on sources, against the facade and the fixture that cargo built.

use serde_json::Value;
use std::{path::Path, process::Command};

/// A diagnostic.
pub struct Message {
    /// Its first line.
    pub first: String,
    /// Whether it is an error.
    pub is_error: bool,
    /// The file that it underlines, if it says.
    pub file: Option<String>,
    /// The text as `rustc` draws it.
    pub drawn: String,
}

/// What `rustc` says of a crate.
pub fn check(main: &Path, libraries: &[String], options: &[&str]) -> Vec<Message> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .args(["--edition=2024", "--error-format=json", "--emit=metadata", "-o"])
        .arg(folder.path().join("main.rmeta"))
        .args(libraries)
        .args(options)
        .arg(main)
        .output()
        .expect("rustc runs");
    let text = String::from_utf8(output.stderr).expect("rustc writes UTF-8");
    let read = |line: &str| -> Value { serde_json::from_str(line).unwrap_or_else(|_| panic!("{text}")) };
    let word = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let said = text.lines().map(read).filter_map(|said| {
        let message = word(&said["message"]);
        // What counts the others, or says where to read more of them.
        if said["level"] == "failure-note" || message.starts_with("aborting due to") {
            return None;
        }
        let spans = said["spans"].as_array().cloned().unwrap_or_default();
        let file = spans.iter().find(|span| span["is_primary"] == true).map(|span| word(&span["file_name"]));
        let first = message.lines().next().unwrap_or_default().to_string();
        Some(Message { first, is_error: said["level"] == "error", file, drawn: word(&said["rendered"]) })
    });
    let said: Vec<Message> = said.collect();
    assert!(output.status.success() || said.iter().any(|message| message.is_error), "{text}");
    said
}

/// Where `rustc` finds the facade and the fixture: cargo says which of the files it built are theirs. It is asked for a test as
/// part of the workspace, so that nothing is built beside what `cargo test --workspace` built.
pub fn libraries() -> Vec<String> {
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

/// What `rustc` draws of a source file, as it is recorded: paths from the root of the repository, or `$DIR` for the root inside
/// of a message; no line numbers of files in other folders, whose lines may move.
pub fn drawn(file: &Path, libraries: &[String]) -> String {
    let said = check(file, libraries, &["--diagnostic-width=140", "-Adead_code"]);
    let drawn: Vec<String> = said.iter().map(|message| recorded(&message.drawn, file)).collect();
    drawn.join("\n")
}

/// A diagnostic as [`drawn`] records it.
fn recorded(drawn: &str, of: &Path) -> String {
    let root = env!("CARGO_MANIFEST_DIR");
    let is_number = |c: char| c.is_ascii_digit();
    let (mut lines, mut elsewhere) = (Vec::new(), false);
    for line in drawn.trim_end().lines() {
        let start = line.trim_start();
        if let Some(place) = start.strip_prefix("--> ").or_else(|| start.strip_prefix("::: ")) {
            let file = place.trim_end_matches(is_number).trim_end_matches(':').trim_end_matches(is_number);
            let file = file.trim_end_matches(':');
            elsewhere = Path::new(root).join(file).parent() != of.parent();
            let shown = if elsewhere { line.replace(place, file) } else { line.to_string() };
            lines.push(shown.replace(&format!("{root}/"), ""));
        } else if elsewhere && start.starts_with(|c: char| is_number(c) || c == '|') {
            let (number, rest) = line.split_at(line.len() - line.trim_start_matches(is_number).len());
            lines.push(" ".repeat(number.len()) + rest);
        } else {
            elsewhere = false;
            lines.push(line.replace(root, "$DIR"));
        }
    }
    // The margin is as wide as the longest number that is left.
    let number = |line: &str| line.len() - line.trim_start_matches(is_number).len();
    let margin =
        lines.iter().find_map(|line| line.trim_start().starts_with("--> ").then(|| line.find("--> ")));
    let widest = lines.iter().map(|line| number(line)).max().unwrap_or_default();
    let spare = margin.flatten().unwrap_or_default().saturating_sub(widest);
    let narrow = |line: &String| match number(line) {
        0 if line.starts_with(' ') => line[spare..].to_string(),
        0 => line.clone(),
        digits => format!("{}{}", &line[..digits], &line[digits + spare..]),
    };
    lines.iter().map(|line| narrow(line).trim_end().to_string() + "\n").collect()
}

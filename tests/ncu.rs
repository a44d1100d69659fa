//! `scripts/ncu-compare.py` on what was recorded on an H200 of schedule `best` at 512×512×512.

use std::{fs, path::Path, process::Command};

fn compare(csv: &Path, json: &Path) -> (bool, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/ncu-compare.py");
    let output = Command::new("python3")
        .arg(script)
        .arg("--recorded")
        .args([csv, json])
        .output()
        .expect("python3 is there: scripts/ptxas.sh needs it too");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a_recording_agrees_with_the_simulator_and_a_changed_one_does_not() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/ncu");
    let (csv, json) = (data.join("best.csv"), data.join("best.json"));
    let (agree, table) = compare(&csv, &json);
    assert!(agree, "{table}");
    // Copies count as loads of global memory and stores to shared memory.
    assert!(table.contains("| global load | 13056 / 13056 | 208896 / 208896 | equal |"), "{table}");
    assert!(table.contains("| shared store | 34112 / 34112 | 101632 / 101632 | equal |"), "{table}");

    let text = fs::read_to_string(&json).unwrap();
    let changed = text.replace("\"wavefronts\":101632", "\"wavefronts\":101633");
    assert_ne!(text, changed);
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), changed).unwrap();
    let (agree, table) = compare(&csv, file.path());
    assert!(!agree && table.contains("101632 / 101633 | differs |"), "{table}");
}

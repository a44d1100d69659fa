//! The corpus in the format of `scripts/h200_recording/recording.py`.

use super::corpus::{Arg, CASES, Setup};
use super::mutants::mutants;
use ptx_sim::{TensorElement, TensorMap};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

fn hex(words: &[u32]) -> String {
    words.iter().flat_map(|w| w.to_le_bytes()).map(|b| format!("{b:02x}")).collect()
}

fn map(of: &str, m: &TensorMap) -> Value {
    // The driver's numbers of the types that the corpus uses.
    let element = match m.element {
        TensorElement::U32 => 2,
        TensorElement::F16 => 6,
        other => panic!("{other:?} has no number here"),
    };
    json!({ "of": of, "element": element, "dims": m.dims, "strides": m.strides, "tile": m.tile, "steps": m.steps,
        "swizzle": m.swizzle as u32, "nan_fill": m.nan_fill })
}

/// Writes every kernel, and every mutant that `wanted` names, with what it must leave in memory.
pub fn write(wanted: impl Fn(&str) -> bool) -> PathBuf {
    let (mut kernels, mut buffers, mut rows) = (Map::new(), Map::new(), vec![]);
    for c in CASES {
        let mut s = Setup::default();
        (c.setup)(&mut s);
        let place = |name: &str| format!("{}/{name}", c.name);
        let (mut outs, mut result) = (Map::new(), Map::new());
        for (name, words, want) in s.buffers() {
            match want {
                Some(want) => {
                    assert!(words.iter().all(|w| *w == 0), "outputs start as zeros");
                    outs.insert(place(name), json!(4 * want.len()));
                    result.insert(place(name), json!(hex(want)));
                }
                None => drop(buffers.insert(place(name), json!(hex(words)))),
            }
        }
        let args: Vec<Value> = s
            .args
            .iter()
            .map(|a| match a {
                Arg::Pointer(name) => json!({ "pointer": place(name) }),
                Arg::Map(name, m) => json!({ "map": map(&place(name), m) }),
            })
            .collect();
        let mut add = |kernel: &str, text: &str, mutant: Option<&str>| {
            kernels.insert(kernel.into(), json!(text));
            let mut row = json!({ "kernel": kernel, "grid": c.grid, "block": c.block, "args": args, "outs": outs, "result": result });
            if let Some(m) = mutant {
                row["mutant"] = json!(m);
            }
            rows.push(row);
        };
        add(c.name, c.ptx, None);
        for m in mutants(c.ptx) {
            let name = format!("{} line {} {}", c.name, m.line, m.what);
            if wanted(&name) {
                add(&name, &m.text, Some(&name));
            }
        }
    }
    let whole = json!({ "kernels": kernels, "buffers": buffers, "rows": rows });
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mutants.json.gz");
    let file = std::fs::File::create(&path).unwrap();
    let out = flate2::write::GzEncoder::new(file, flate2::Compression::default());
    serde_json::to_writer(out, &whole).unwrap();
    path
}

/// The rows of a file.
pub fn read(path: &Path) -> Vec<Value> {
    let file = std::fs::File::open(path).unwrap();
    let whole: Value = serde_json::from_reader(flate2::read::GzDecoder::new(file)).unwrap();
    whole["rows"].as_array().unwrap().clone()
}

//! The JSON of the program is that of `docs/ptx-sim-json.md`, path by path and type by type.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

fn json(args: &[&str]) -> Value {
    let out = Command::new(env!("CARGO_BIN_EXE_ptx-sim"))
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data"))
        .args(args)
        .output()
        .unwrap();
    serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|e| panic!("{args:?}: {e}\n{}", String::from_utf8_lossy(&out.stderr)))
}

/// Path → types that occur at it. Leaves, lists of the maps' keys, and objects that may be null.
fn paths(v: &Value, at: &str, out: &mut BTreeMap<String, BTreeSet<&'static str>>) {
    let mut note = |t| {
        out.entry(at.to_string()).or_default().insert(t);
    };
    match v {
        Value::Null => note("null"),
        Value::Bool(_) => note("bool"),
        Value::Number(_) => note("number"),
        Value::String(_) => note("string"),
        Value::Array(list) => {
            note("list");
            list.iter().for_each(|v| paths(v, &format!("{at}[]"), out));
        }
        Value::Object(map) => {
            note("object");
            let any = at == "dump" || at == "counters.mix";
            for (k, v) in map {
                let key = if any { "*" } else { k };
                let path = if at.is_empty() { key.to_string() } else { format!("{at}.{key}") };
                paths(v, &path, out);
            }
        }
    }
}

/// The table under the header `| path… |` that starts so: path → type as written.
fn table(header: &str) -> BTreeMap<String, String> {
    let doc = include_str!("../../../docs/ptx-sim-json.md");
    let rows = doc.lines().skip_while(|l| !l.starts_with(&format!("| {header} |"))).skip(2);
    rows.take_while(|l| l.starts_with("| `"))
        .map(|l| {
            let cells: Vec<&str> = l.split('|').map(str::trim).collect();
            (cells[1].trim_matches('`').to_string(), cells[2].to_string())
        })
        .collect()
}

fn compare(header: &str, objects: &[Value]) {
    let want = table(header);
    assert!(want.len() > 3, "no table `{header}`");
    let mut have = BTreeMap::new();
    objects.iter().for_each(|o| paths(o, "", &mut have));
    for (path, types) in &have {
        let Some(want) = want.get(path) else {
            // Lists and objects around what is listed.
            let around = types.iter().all(|t| matches!(*t, "list" | "object"));
            let inside =
                want.keys().any(|w| w.starts_with(&format!("{path}[")) || w.starts_with(&format!("{path}.")));
            assert!(
                around && (inside || path.is_empty()),
                "{header}: `{path}` ({types:?}) is not documented"
            );
            continue;
        };
        let base = want.trim_end_matches(" (opt)");
        let ok = |t: &&&str| base.trim_end_matches('?') == **t || (base.ends_with('?') && **t == "null");
        assert!(types.iter().all(|t| ok(&t)), "{header}: `{path}` is {types:?}, documented as {want}");
        if base.ends_with('?') && base != "number?" {
            assert!(types.len() == 2, "{header}: `{path}` is never null, or always");
        }
    }
    for path in want.keys() {
        assert!(have.contains_key(path), "{header}: `{path}` is documented and does not occur");
    }
}

#[test]
fn the_documentation_lists_every_path() {
    let folder = std::env::temp_dir().join(format!("ptx-sim-json-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, format!(".version 8.0\n.target sm_90\n.address_size 64\n{text}")).unwrap();
        path.to_str().unwrap().to_string()
    };
    let racy = file(
        "racy.ptx",
        ".file 1 \"k.cu\"\n.entry k() { .reg .b32 %t; .shared .b32 x; mov.u32 %t, %tid.x;
.loc 1 7 1
.loc 1 3 1, function_name f, inlined_at 1 7 1
st.shared.b32 [x], %t; ret; }\n.section .debug_str { f: .b8 102,0 }",
    );
    let several = file(
        "several.ptx",
        ".entry a(.param .u32 x) .maxntid 32, 1, 1 .maxnreg 32 { ret; }
.entry b() .reqntid 32, 1, 1 .reqnctapercluster 2, 1, 1 { frobnicate; }",
    );
    let args =
        ["--grid", "2", "--block", "128", "--arg", "x:512:iota", "--arg", "y:512", "--arg", "f32:2", "--arg"];
    let saxpy = |n: &str| {
        let dump = ["--dump", "y:3:f32", "--json"];
        json(&[&["run", "llvm/saxpy.ptx"][..], &args, &[n], &dump].concat())
    };
    let transpose = json(&[
        "run",
        "mutation/transpose.ptx",
        "--block",
        "128",
        "--arg",
        "in:8192",
        "--arg",
        "out:8192",
        "--json",
    ]);
    let race = json(&["run", &racy, "--json"]);
    assert_eq!(race["schema"], 1);
    compare("path", &[saxpy("u32:128"), saxpy("u32:9999"), transpose, race]);
    let errors = [
        json(&["run", "nothing.ptx", "--json"]),
        json(&["run", "llvm/saxpy.ll", "--json"]),
        json(&["run", &several, "--kernel", "b", "--json"]),
        json(&["run", "llvm/saxpy.ptx", "--arg", "u8:300", "--json"]),
    ];
    let kinds: Vec<&Value> = errors.iter().map(|e| &e["error"]["kind"]).collect();
    assert_eq!(kinds, ["file", "ptx", "ptx", "arguments"]);
    assert_eq!(errors[2]["error"]["line"], 5);
    compare("path of errors", &errors);
    let check = [json(&["check", &several, "--json"]), json(&["check", "llvm/saxpy.ll", "--json"])];
    compare("path of `check`", &check);
    std::fs::remove_dir_all(&folder).unwrap();
}

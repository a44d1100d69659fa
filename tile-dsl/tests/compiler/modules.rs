//! The stations of a program know those before them, never those behind.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Stations, and what each must not know.
const NOT_KNOWN: [(&str, &[&str]); 10] = [
    (
        "machine",
        &["tile", "nest", "plan", "shared", "assume", "schedule", "engine", "kernel", "lower", "program"],
    ),
    ("diagnostic", &["tile", "nest", "plan", "shared", "assume", "schedule", "engine", "kernel", "lower"]),
    ("tile", &["nest", "plan", "shared", "assume", "schedule", "engine", "kernel", "lower"]),
    ("nest", &["plan", "schedule", "engine", "assume", "lower"]),
    ("plan", &["shared", "schedule", "engine", "assume", "kernel", "lower"]),
    ("shared", &["schedule", "engine", "assume", "lower"]),
    ("assume", &["schedule", "engine", "kernel", "lower"]),
    ("kernel", &["schedule", "engine", "assume", "lower"]),
    ("engine", &["kernel", "lower"]),
    ("lower", &["engine"]),
];

/// What a file's imports and paths name behind a prefix, such as `crate::`: the modules of this crate.
fn known(text: &str, prefix: &str) -> Vec<String> {
    let code: String =
        text.lines().filter(|l| !l.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    // A file's own tests may use what they like.
    let code = code.split("#[cfg(test)]").next().unwrap_or_default();
    let word = |s: &str| s.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut out = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let rest = &code[at + prefix.len()..];
        let Some(list) = rest.strip_prefix('{') else {
            out.push(word(rest));
            continue;
        };
        let mut depth = 0;
        let mut begins = true;
        for (n, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => begins = true,
                c if begins && depth == 0 && c.is_alphabetic() => {
                    out.push(word(&list[n..]));
                    begins = false;
                }
                _ => {}
            }
        }
    }
    out
}

fn files(path: &Path, visit: &mut dyn FnMut(&Path)) {
    match path.is_dir() {
        true => fs::read_dir(path).unwrap().for_each(|entry| files(&entry.unwrap().path(), visit)),
        false => visit(path),
    }
}

#[test]
fn dependencies_point_one_way() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut seen = 0;
    for (module, forbidden) in NOT_KNOWN {
        for of in [source.join(format!("{module}.rs")), source.join(module)] {
            if !of.exists() {
                continue;
            }
            files(&of, &mut |file| {
                seen += 1;
                // Files of tests stand beside what they test.
                if file.file_stem().is_some_and(|name| name == "tests") {
                    return;
                }
                for name in known(&fs::read_to_string(file).unwrap(), "crate::") {
                    assert!(!forbidden.contains(&name.as_str()), "{} knows `{name}`", file.display());
                }
            });
        }
    }
    assert!(seen > 100, "{seen} files: the sources lie elsewhere");
}

#[test]
fn imports_are_read() {
    let text = "use crate::{a::b, c::{d, e}, f};\n// crate::g\nlet x = crate::h::i();";
    assert_eq!(known(text, "crate::"), ["a", "c", "f", "h"]);
}

/// Whether modules that know each other form a circle: the first that leads into one.
fn circle<'a>(knows: &'a BTreeMap<String, Vec<String>>) -> Option<&'a str> {
    let mut left: BTreeSet<&'a str> = knows.keys().map(String::as_str).collect();
    // Again and again without those that know none of the others.
    loop {
        let knows_others = |name: &&&str| knows[**name].iter().any(|other| left.contains(other.as_str()));
        let held: BTreeSet<&str> = left.iter().filter(knows_others).copied().collect();
        if held == left {
            return left.first().copied();
        }
        left = held;
    }
}

/// The files of a folder, and which of the others each imports.
fn siblings(folder: &str) -> BTreeMap<String, Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(folder);
    let mut knows = BTreeMap::new();
    files(&path, &mut |file| {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(file).unwrap();
        let all = known(&text, "super::").into_iter().chain(known(&text, &format!("crate::{folder}::")));
        let siblings: Vec<String> = all.filter(|n| n != "tests").collect();
        // What the parent exports again would hide where it comes from.
        assert!(siblings.iter().all(|n| n.starts_with(char::is_lowercase)), "{name} imports {siblings:?}");
        knows.insert(name, siblings);
    });
    knows
}

#[test]
fn files_of_the_plan_form_no_circle() {
    let knows = siblings("plan");
    assert!(knows.len() >= 9, "{knows:?}");
    assert_eq!(circle(&knows), None);
}

#[test]
fn files_of_emission_form_no_circle() {
    let knows = siblings("lower");
    assert!(knows.len() >= 40, "{knows:?}");
    // What stands around statements is handed the walk over them: not even a ring's step closes a circle.
    assert_eq!(circle(&knows), None);
    assert!(knows["walk"].contains(&"pipeline".to_string()), "{:?}", knows["walk"]);
}

#[test]
fn circles_are_seen() {
    let knows = |pairs: &[(&str, &[&str])]| {
        let all = pairs.iter().map(|(a, of)| (a.to_string(), of.iter().map(|b| b.to_string()).collect()));
        all.collect::<BTreeMap<String, Vec<String>>>()
    };
    assert_eq!(circle(&knows(&[("a", &["b"]), ("b", &["c"]), ("c", &[])])), None);
    assert_eq!(circle(&knows(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])])), Some("a"));
    assert_eq!(circle(&knows(&[("a", &[]), ("b", &["c"]), ("c", &["b"])])), Some("b"));
}

//! The stations of a program know those before them, never those behind.

use std::{fs, path::Path};

/// Stations, and what each must not know.
const NOT_KNOWN: [(&str, &[&str]); 7] = [
    ("tile", &["nest", "plan", "shared", "assume", "engine", "kernel", "lower"]),
    ("nest", &["plan", "engine", "assume", "lower"]),
    ("plan", &["engine", "assume", "kernel", "lower"]),
    ("shared", &["engine", "assume", "lower"]),
    ("assume", &["engine", "kernel", "lower"]),
    ("engine", &["kernel", "lower"]),
    ("lower", &["engine"]),
];

/// The modules of this crate that a file's imports and paths name.
fn known(text: &str) -> Vec<String> {
    let code: String =
        text.lines().filter(|l| !l.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    // A file's own tests may use what they like.
    let code = code.split("#[cfg(test)]").next().unwrap_or_default();
    let word = |s: &str| s.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut out = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
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
                for name in known(&fs::read_to_string(file).unwrap()) {
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
    assert_eq!(known(text), ["a", "c", "f", "h"]);
}

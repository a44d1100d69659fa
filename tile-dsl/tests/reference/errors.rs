//! `docs/errors.md` is what the enums of errors say: the message of each variant, and the comment above it.

use super::{compare, read, unlinked};
use std::fmt::Write;

const HEAD: &str = "\
# Errors

A card for each error that a call of this repository's crates returns: the message, when it occurs, what to do.
`{name}` in a message stands for what differs from case to case, so search this page for the words around it.
Errors of `rustc` about a kernel or a schedule are in [Refusals](refusals.md).
`cargo test -p tile-dsl --test reference` compares this page with the comments in the files that are named, and with `TILEWRIGHT_BLESS=1`
writes it.

";

/// The enums: a heading, what returns them, the file, how the variants are written in headings.
const ENUMS: [(&str, &str, &str, &str); 10] = [
    (
        "The runtime",
        "Buffers, launches, streams, graphs, tuning and what is compiled ahead of time return `tilewright::Error`.",
        "runtime/src/error.rs",
        "Error",
    ),
    (
        "The code generator",
        "Compilation returns them inside of `Error::Compile`.",
        "backend-ptx/src/error.rs",
        "CompileError",
    ),
    (
        "Embedded programs",
        "A launch returns them inside of `Error::Program`.",
        "tile-dsl/src/program.rs",
        "DecodeError",
    ),
    (
        "Choices",
        "A launch without a schedule returns them inside of `Error::NoSchedule`.",
        "auto/src/choose.rs",
        "tile_auto::Error",
    ),
    (
        "A launch on the simulator alone",
        "`ptx_sim` returns them for PTX of any compiler. A launch of tilewright has their text in `Error::Simulator`.",
        "ptx-sim/src/launch.rs",
        "LaunchError",
    ),
    ("Memory of the simulator", "`ptx_sim` returns them.", "ptx-sim/src/memory.rs", "MemoryError"),
    ("NVIDIA's assembler", "`tile_sass` returns them.", "sass/src/tools.rs", "tile_sass::Error"),
    ("Pages", "`tilewright::page` and `tilewright::pages` return them.", "page/src/lib.rs", "PageError"),
    ("Lints", "`tilewright::check` returns them.", "check/src/lib.rs", "CheckError"),
    (
        "Requests of memory",
        "Lints return them inside of `CheckError::Traffic`.",
        "check/src/traffic.rs",
        "TrafficError",
    ),
];

/// A variant of an enum of errors.
struct Variant {
    name: String,
    message: String,
    comment: String,
}

/// The text of `#[error(..)]` as a reader sees it: what differs in braces.
fn message(attribute: &str) -> String {
    if attribute.contains("transparent") {
        return "{the message of the error inside}".into();
    }
    let from = attribute.find('"').expect("a message") + 1;
    let mut text = String::new();
    let mut letters = attribute[from..].chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => break,
            '\\' => match letters.next() {
                Some('n') => text.push('\n'),
                // The next line goes on where its text begins.
                Some('\n') => while letters.next_if(|c| c.is_whitespace()).is_some() {},
                Some(other) => text.push(other),
                None => break,
            },
            '{' => {
                let inside: String = letters.by_ref().take_while(|c| *c != '}').collect();
                let name = inside.split(':').next().unwrap_or_default();
                let known = !name.is_empty() && name.chars().any(|c| c.is_alphabetic());
                let _ = write!(text, "{{{}}}", if known { name } else { ".." });
            }
            other => text.push(other),
        }
    }
    text
}

/// The variants of an enum in a source file that derives `thiserror::Error`.
fn variants(source: &str, name: &str) -> Vec<Variant> {
    let from = source.find(&format!("pub enum {name} {{\n")).unwrap_or_else(|| panic!("no enum {name}"));
    let body = source[from..].split("\n}\n").next().expect("an enum ends");
    let (mut comment, mut attribute, mut open) = (String::new(), String::new(), false);
    let mut found = Vec::new();
    for line in body.lines().skip(1) {
        let Some(text) = line.strip_prefix("    ").filter(|text| open || !text.starts_with(' ')) else {
            continue;
        };
        if open || text.starts_with("#[error(") {
            let _ = writeln!(attribute, "{text}");
            open = !text.ends_with(")]");
        } else if let Some(text) = text.strip_prefix("///") {
            let _ = writeln!(comment, "{}", text.strip_prefix(' ').unwrap_or(text));
        } else if text.starts_with(|c: char| c.is_uppercase()) {
            let end = text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len());
            assert!(!attribute.is_empty(), "{name}::{}: no message", &text[..end]);
            found.push(Variant {
                name: text[..end].to_string(),
                message: message(&std::mem::take(&mut attribute)),
                comment: std::mem::take(&mut comment),
            });
        }
    }
    found
}

#[test]
fn the_page_is_what_the_enums_say() {
    let mut page = HEAD.to_string();
    for (title, what, file, path) in ENUMS {
        let name = path.rsplit("::").next().expect("a path has a name");
        let _ = write!(page, "## {title}\n\n{what}\nThe file is [{file}](../{file}).\n\n");
        for Variant { name, message, comment } in variants(&read(file), name) {
            let (when, advice) = comment
                .split_once("\n\nWhat to do: ")
                .unwrap_or_else(|| panic!("{path}::{name}: the comment has a paragraph `What to do: ..`"));
            let (when, advice) = (unlinked(when.to_string()), unlinked(advice.replace('\n', " ")));
            let _ = write!(
                page,
                "### `{path}::{name}`\n\n```text\n{message}\n```\n\n{}\n\nWhat to do: {}\n\n",
                when.trim(),
                advice.trim()
            );
        }
    }
    compare("docs/errors.md", &page);
}

/// Every variant is found: the enum has no more messages than cards.
#[test]
fn no_variant_is_missing() {
    for (_, _, file, path) in ENUMS {
        let (source, name) = (read(file), path.rsplit("::").next().expect("a path has a name"));
        let from = source.find(&format!("pub enum {name} {{\n")).expect("the enum");
        let body = source[from..].split("\n}\n").next().expect("an enum ends");
        assert_eq!(variants(&source, name).len(), body.matches("    #[error(").count(), "{path}");
    }
    assert!(variants(&read("runtime/src/error.rs"), "Error").len() > 40);
}

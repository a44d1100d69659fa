//! The pages of the reference are what the places say where directives, operations and errors are defined:
//! `docs/directives.md`, `docs/operations.md`, `docs/errors.md` and `docs/refusals.md`. `TILEWRIGHT_BLESS=1` writes them.

mod directives;
mod errors;
mod machine;
mod operations;
mod refusals;

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A path from the root of the repository.
fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn read(path: &str) -> String {
    fs::read_to_string(root(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Compares a page of the repository with what it should be, or writes it.
fn compare(path: &str, page: &str) {
    let page = format!("{}\n", page.trim_end());
    if std::env::var_os("TILEWRIGHT_BLESS").is_some() {
        fs::write(root(path), &page).expect("the checkout is writable");
    }
    let recorded = fs::read_to_string(root(path)).unwrap_or_default();
    let differs = recorded.lines().zip(page.lines()).position(|(a, b)| a != b);
    assert!(recorded == page, "{path} differs from line {differs:?} on: TILEWRIGHT_BLESS=1 writes it");
}

/// A text without its links to code: ``[`x`]`` becomes `` `x` ``.
fn unlinked(mut text: String) -> String {
    while let Some(open) = text.find("[`") {
        let close = open + text[open..].find("`]").expect("a link that is closed") + 1;
        let rest = match text[close + 1..].strip_prefix('(') {
            Some(target) => close + 2 + target.find(')').expect("a target that is closed") + 1,
            None => close + 1,
        };
        text = format!("{}{}{}", &text[..open], &text[open + 1..close], &text[rest..]);
    }
    text
}

/// The anchor of a heading, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ' '));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The names in backticks of a text.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Each card that a message names is a heading of its page.
#[test]
fn cards_that_messages_name_exist() {
    use tile_dsl::{schedule::rows, tile::Operation};
    let places = rows().iter().map(|row| row.place());
    let places: Vec<String> = places.chain(Operation::all().into_iter().map(Operation::place)).collect();
    assert!(places.len() > 80, "{} cards", places.len());
    for place in places {
        let (page, name) = place.split_once('#').expect("a card is a heading of a page");
        let text = read(page);
        let headings = text.lines().filter_map(|line| line.strip_prefix("## "));
        assert_eq!(headings.filter(|heading| anchor(heading) == name).count(), 1, "{place}");
    }
}

/// Links to headings of the reference, in all pages and recorded messages.
#[test]
fn links_to_cards_lead_to_one() {
    let mut files = Vec::new();
    for folder in ["docs", "tests/ui", "tile-dsl/tests/goldens"] {
        gather(&root(folder), &mut files);
    }
    files.push(root("README.md"));
    let mut found = 0;
    for file in files {
        let text = fs::read_to_string(&file).unwrap_or_default();
        for page in ["directives", "operations", "errors", "refusals"] {
            let anchors: Vec<String> = read(&format!("docs/{page}.md"))
                .lines()
                .filter(|line| line.starts_with('#'))
                .map(|line| anchor(line.trim_start_matches('#')))
                .collect();
            for rest in text.split(&format!("{page}.md#")).skip(1) {
                let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '-' || c == '_'));
                let name = &rest[..end.unwrap_or(rest.len())];
                found += 1;
                assert!(anchors.iter().any(|a| a == name), "{}: {page}.md#{name}", file.display());
            }
        }
    }
    assert!(found > 100, "only {found} links");
}

fn gather(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        match entry.is_dir() {
            true => gather(&entry, files),
            false if entry.extension().is_some_and(|e| e == "md" || e == "stderr" || e == "txt") => {
                files.push(entry);
            }
            false => {}
        }
    }
}

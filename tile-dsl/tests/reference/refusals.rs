//! `docs/refusals.md` lists what `rustc` says about kernels and schedules: of each message the smallest case in `tests/ui`, and of those
//! that only the engine's own test has, the case in `goldens/errors.txt`.

use super::{compare, read, root};
use std::{collections::BTreeMap, fmt::Write, fs, path::Path};
use tile_dsl::schedule::rows;

const HEAD: &str = "\
# Refusals

What `rustc` says about a kernel or a schedule that is refused: each message with what it advises and the smallest case that shows it.
Numbers and names are those of the case, so search for the words between them.
A `help` is an edit that was tried; [Reading a refusal](book/src/refusals.md) explains the parts of a message.
`cargo test -p tile-dsl --test reference` makes this page of the messages that are recorded in `tests/ui`, and with `TILEWRIGHT_BLESS=1`
writes it.

";

/// Folders of `tests/ui` that are not those of a directive.
const OTHERS: [(&str, &str); 9] = [
    ("kernel", "The text of a kernel"),
    ("values", "Indices that are values, and conditions"),
    ("scan", "Scans"),
    ("atomics", "Stores that combine"),
    ("limits", "Limits of axes"),
    ("types", "Types and shapes of a kernel"),
    ("schedule", "Headers of schedules, and schedules as a whole"),
    ("list", "Lists of numbers"),
    ("drop", "drop"),
];

/// A message with its case.
struct Case {
    message: String,
    /// Help, or else the last note that is no place.
    advice: String,
    /// What is underlined, or the schedule.
    at: String,
    /// Path from the root, if it is a file of its own.
    file: Option<String>,
    /// Length of its source.
    size: usize,
}

/// What two messages have in common that differ in names and numbers alone.
fn words(message: &str) -> String {
    let outside = message.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let mut letters: Vec<char> = outside.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    letters.dedup_by(|a, b| (*a, *b) == ('0', '0'));
    letters.into_iter().collect()
}

/// Whether a note says no more than where something is.
fn is_place(note: &str) -> bool {
    note.contains(" ($DIR") || note.ends_with(" here")
}

/// The help, or what else a reader can go by.
fn advice<'t>(lines: impl Iterator<Item = &'t str> + Clone) -> String {
    let body = |label: &str| {
        let prefix = format!("{label}: ");
        lines
            .clone()
            .filter_map(move |line| {
                let line = line.trim_start();
                line.strip_prefix("= ").unwrap_or(line).strip_prefix(&*prefix)
            })
            .collect::<Vec<_>>()
    };
    if let Some(help) = body("help").first() {
        return format!("help: {help}");
    }
    let notes = body("note");
    let others =
        |note: &&&str| !note.starts_with("see docs/") && !note.starts_with("for T = ") && !is_place(note);
    notes.iter().rfind(others).map_or(String::new(), |note| format!("note: {note}"))
}

/// The cases of a folder of `tests/ui`.
fn cases(folder: &Path) -> Vec<Case> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of cases") {
        let path = entry.expect("a case").path();
        if path.extension().is_none_or(|e| e != "stderr") {
            continue;
        }
        let pinned = fs::read_to_string(&path).expect("a recorded message");
        let source = fs::read_to_string(path.with_extension("rs")).expect("a case has a source");
        let name = path.file_stem().and_then(|stem| stem.to_str()).expect("a name");
        let directive = folder.file_name().and_then(|name| name.to_str()).expect("a name");
        for block in pinned.split("\n\n").filter(|block| block.starts_with("error")) {
            let mut lines = block.lines();
            let (_, message) = lines.next().and_then(|line| line.split_once(": ")).expect("a message");
            // The first excerpt is that of the mistake.
            let mut drawn = block.lines().skip_while(|line| !line.trim_start().starts_with("--> "));
            let code = drawn.find(|line| line.starts_with(|c: char| c.is_ascii_digit()));
            let marks = drawn.next().filter(|line| line.contains('^'));
            let underlined = code.zip(marks).map(|(code, marks)| {
                let from = marks.find('^').expect("marks");
                let length = marks.matches('^').count();
                code.chars().skip(marks[..from].chars().count()).take(length).collect::<String>()
            });
            found.push(Case {
                message: message.to_string(),
                advice: advice(lines),
                at: underlined.unwrap_or_default(),
                file: Some(format!("tests/ui/{directive}/{name}.rs")),
                size: source.len(),
            });
        }
    }
    found
}

/// The cases of the engine's own test, by the directive that is at fault.
fn engine() -> BTreeMap<String, Vec<Case>> {
    let mut found: BTreeMap<String, Vec<Case>> = BTreeMap::new();
    for block in read("tile-dsl/tests/goldens/errors.txt").split("\n== ") {
        let lines: Vec<&str> = block.lines().collect();
        let schedule =
            lines.iter().find_map(|line| line.strip_prefix("  { ")?.strip_suffix(" }")).expect("a schedule");
        for (n, line) in lines.iter().enumerate() {
            let Some(at) = line.strip_prefix("  error at ") else { continue };
            let name = at.split('(').next().unwrap_or_default();
            let rest = || lines[n + 1..].iter().copied().take_while(|line| line.starts_with("    "));
            found.entry(name.to_string()).or_default().push(Case {
                message: rest().next().expect("a message").trim().to_string(),
                advice: advice(rest()),
                at: schedule.to_string(),
                file: None,
                size: usize::MAX,
            });
        }
    }
    found
}

/// A cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// A section: of messages that differ in names and numbers alone, the smallest case.
fn section(page: &mut String, title: &str, cases: Vec<Case>) {
    let mut distinct: BTreeMap<String, Case> = BTreeMap::new();
    for case in cases {
        let key = words(&case.message);
        if distinct.get(&key).is_none_or(|best| (case.size, &case.file) < (best.size, &best.file)) {
            distinct.insert(key, case);
        }
    }
    let mut all: Vec<Case> = distinct.into_values().collect();
    all.sort_by(|a, b| a.message.cmp(&b.message));
    let _ = write!(page, "## {title}\n\n| message | advice | case |\n|---|---|---|\n");
    for Case { message, advice, at, file, .. } in all {
        let at = if at.is_empty() || at.contains('`') { String::new() } else { format!("`{}`", cell(&at)) };
        let case = match file {
            Some(file) => {
                let name =
                    file.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs").replace('_', " ");
                format!("{at} [{name}](../{file})")
            }
            None => at,
        };
        let _ = writeln!(page, "| {} | {} | {} |", cell(&message), cell(&advice), case.trim());
    }
    page.push('\n');
}

#[test]
fn the_page_is_what_is_recorded() {
    let mut page = HEAD.to_string();
    let mut engine = engine();
    let names: Vec<&str> = rows().iter().map(|row| row.name()).collect();
    let folders =
        fs::read_dir(root("tests/ui")).expect("a folder").map(|entry| entry.expect("a folder").file_name());
    for folder in folders {
        let folder = folder.to_str().expect("a name").to_string();
        let known = names.contains(&&*folder) || OTHERS.iter().any(|(name, _)| *name == folder);
        assert!(known, "tests/ui/{folder} has no section");
    }
    let mut sections = String::new();
    for name in &names {
        let mut cases = cases(&root(&format!("tests/ui/{name}")));
        assert!(!cases.is_empty(), "`{name}` has no case");
        cases.extend(engine.remove(*name).unwrap_or_default());
        section(&mut sections, &format!("`{name}`"), cases);
    }
    for (folder, title) in OTHERS {
        let mut cases = cases(&root(&format!("tests/ui/{folder}")));
        if folder == "schedule" {
            cases.extend(std::mem::take(&mut engine).into_values().flatten());
        }
        section(&mut sections, title, cases);
    }
    let links = names.iter().map(|name| format!("[`{name}`](#{name})"));
    let others = OTHERS.iter().map(|(_, title)| format!("[{title}](#{})", super::anchor(title)));
    let _ = write!(page, "{}\n\n{sections}", links.chain(others).collect::<Vec<_>>().join(" · "));
    compare("docs/refusals.md", &page);
}

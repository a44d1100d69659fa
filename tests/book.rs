//! The book: its code compiles and computes what a plain loop computes, its outputs and refusals are what the programs and
//! the macros say, and its pages keep to the style of the documentation.
//!
//! `TILEWRIGHT_BLESS=1 cargo test --test book` records outputs and refusals anew (`scripts/book.sh`).

#[path = "../docs/book/code/mod.rs"]
mod code;
#[path = "../examples/conv2d/kernel.rs"]
#[allow(dead_code)] // some schedules
mod conv2d;
#[path = "../examples/embedding/kernel.rs"]
#[allow(dead_code)] // some schedules
mod embedding;
#[path = "diagnostics/expand.rs"]
#[allow(dead_code)] // errors alone
mod expand;
#[path = "../examples/matmul/kernel.rs"]
#[allow(dead_code)] // some schedules
mod matmul;
#[path = "diagnostics/render.rs"]
mod render;
#[path = "../examples/softmax/kernel.rs"]
#[allow(dead_code)] // the schedules that a chapter extends
mod softmax;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const BOOK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/book");

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The files of a folder of the book with an ending, in order.
fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(Path::new(BOOK).join(folder)).expect("a folder of the book");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|file| file.extension().is_some_and(|e| e == ending));
    files.sort();
    files
}

/// A page by its name, without its folder.
struct Page {
    name: String,
    text: String,
}

/// All pages but the table of contents.
fn pages() -> Vec<Page> {
    let page = |path: PathBuf| Page {
        name: path.file_name().expect("a file has a name").to_string_lossy().into_owned(),
        text: read(path),
    };
    files("src", "md").into_iter().map(page).filter(|page| page.name != "SUMMARY.md").collect()
}

fn blessing() -> bool {
    std::env::var_os("TILEWRIGHT_BLESS").is_some()
}

/// Compares a text with a recorded one, or records it. The difference, if there is one.
fn compare(recorded: &Path, text: &str) -> Option<String> {
    if blessing() {
        fs::write(recorded, text).expect("the checkout is writable");
        return None;
    }
    let before = fs::read_to_string(recorded).unwrap_or_default();
    (before != text).then(|| format!("{}: recorded\n{before}\nfound\n{text}", recorded.display()))
}

// What is included.

/// The path and the anchor of each `{{#include path:anchor}}`.
fn includes(text: &str) -> Vec<(&str, &str)> {
    let inside = text.split("{{#include ").skip(1).filter_map(|rest| rest.split_once("}}"));
    inside.map(|(what, _)| what.split_once(':').unwrap_or((what, ""))).collect()
}

/// The pictures of a page.
fn pictures(text: &str) -> Vec<&str> {
    text.split("![")
        .skip(1)
        .filter_map(|rest| rest.split_once("](")?.1.split_once(')').map(|(p, _)| p))
        .collect()
}

/// What a page includes and is not there.
fn missing(page: &Page) -> Vec<String> {
    let from = Path::new(BOOK).join("src");
    let mut missing = Vec::new();
    for (path, anchor) in includes(&page.text) {
        match fs::read_to_string(from.join(path)) {
            Err(_) => missing.push(format!("{}: no file {path}", page.name)),
            Ok(text) => {
                let has = |word: &str| text.lines().any(|l| l.trim() == format!("// {word}: {anchor}"));
                let between = has("ANCHOR") && has("ANCHOR_END");
                if !between && !anchor.is_empty() {
                    missing.push(format!("{}: no anchor {anchor} in {path}", page.name));
                }
            }
        }
    }
    let pictures = pictures(&page.text).into_iter().filter(|picture| !from.join(picture).exists());
    missing.extend(pictures.map(|picture| format!("{}: no picture {picture}", page.name)));
    missing
}

#[test]
fn whatever_is_included_is_there() {
    let pages = pages();
    let wrong: Vec<String> = pages.iter().flat_map(missing).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    // Nothing lies about that no page shows.
    let used: BTreeSet<PathBuf> = pages
        .iter()
        .flat_map(|page| includes(&page.text).into_iter().map(|i| i.0).chain(pictures(&page.text)))
        .map(|path| fs::canonicalize(Path::new(BOOK).join("src").join(path)).expect("it is there"))
        .collect();
    let lying = [
        files("out", "txt"),
        files("refused", "rs"),
        files("src/pictures", "svg"),
        files("src/pictures", "png"),
    ]
    .concat();
    let unused: Vec<_> = lying.into_iter().filter(|file| !used.contains(file)).collect();
    assert!(unused.is_empty(), "no page shows {unused:?}");
    // It can fail.
    let text = "{{#include ../code/none.rs:a}} {{#include ../code/mod.rs:none}} ![p](pictures/none.svg)";
    assert_eq!(missing(&Page { name: "page".into(), text: text.into() }).len(), 3);
}

#[test]
fn the_contents_list_every_page_once() {
    let summary = read(Path::new(BOOK).join("src/SUMMARY.md"));
    let links = summary.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(path, _)| path));
    let mut listed: Vec<&str> = links.collect();
    let pages = pages();
    let mut there: Vec<&str> = pages.iter().map(|page| &*page.name).collect();
    listed.sort_unstable();
    there.sort_unstable();
    assert_eq!(listed, there);
}

// Code.

/// A text of Rust without comments and white space.
fn bare(text: &str) -> String {
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.flat_map(|line| line.chars().filter(|c| !c.is_whitespace())).collect()
}

/// The blocks of a language in a page.
fn blocks<'t>(text: &'t str, language: &str) -> Vec<&'t str> {
    let start = format!("```{language}\n");
    text.split(&*start).skip(1).filter_map(|rest| rest.split_once("```").map(|(block, _)| block)).collect()
}

/// Code that is compiled: the examples, the kernels of the library, and what a page may include.
fn compiled() -> Vec<String> {
    let folders = [
        "matmul",
        "softmax",
        "conv2d",
        "embedding",
        "embedding_gradient",
        "experts",
        "generate",
        "histogram",
        "kv_append",
        "packed_attention",
        "triangular",
        "deployed",
        "deployed/src",
        "deployed/kernels/src",
        "sharded_linear",
        "tune",
    ];
    let of = |folder: &str| -> Vec<String> {
        let entries = fs::read_dir(root().join(folder)).expect("a folder of sources");
        let files = entries.map(|entry| entry.expect("an entry").path());
        files
            .filter(|file| file.extension().is_some_and(|e| e == "rs"))
            .map(|file| bare(&read(file)))
            .collect()
    };
    let examples = folders.map(|folder| format!("examples/{folder}"));
    examples.iter().map(String::as_str).chain(["kernels/src/kernels"]).flat_map(of).collect()
}

#[test]
fn code_is_compiled_code() {
    let compiled = compiled();
    let stands = |block: &str| compiled.iter().any(|file| file.contains(&bare(block)));
    let mut found = 0;
    for page in pages() {
        for block in blocks(&page.text, "rust") {
            // Either included from a file that is a module here, or a part of an example.
            let included = includes(block);
            let is_module =
                |(path, _): &(&str, &str)| path.starts_with("../code/") || path.starts_with("../refused/");
            found += 1;
            match included.is_empty() {
                true => assert!(stands(block), "{}: no example has\n{block}", page.name),
                false => assert!(included.iter().all(is_module), "{}: {included:?}", page.name),
            }
        }
    }
    assert!(found > 40, "{found} blocks of code");
    assert!(!stands("tile(i = 31, j = 32);"), "it can fail");
    // Each file of code is a module, so that its tests run.
    let modules = read(Path::new(BOOK).join("code/mod.rs"));
    for file in files("code", "rs") {
        let name = file.file_stem().expect("a file has a name").to_string_lossy();
        assert!(name == "mod" || modules.contains(&format!("mod {name};")), "{name} is no module");
    }
}

/// Each chapter ends with an exercise, and its solution is code whose test runs.
#[test]
fn each_chapter_has_an_exercise_with_a_solution() {
    for page in pages().iter().filter(|page| page.name != "introduction.md") {
        let exercise = page.text.split("\n## Exercise\n").nth(1);
        let exercise = exercise.unwrap_or_else(|| panic!("{} has no exercise", page.name));
        let solution = includes(exercise).into_iter().find(|(_, anchor)| anchor.starts_with("solution"));
        let (path, _) = solution.unwrap_or_else(|| panic!("{} has no solution", page.name));
        assert!(path.starts_with("../code/"), "{}: {path}", page.name);
        let code = read(Path::new(BOOK).join("src").join(path));
        assert!(code.contains("#[test]"), "{path} has no test");
    }
}

// What programs print.

/// Where the examples lie that `cargo test` builds.
fn built() -> PathBuf {
    let deps = std::env::current_exe().expect("a test knows its path");
    let built = deps.ancestors().nth(2).expect("target/<profile>/deps").to_owned();
    assert!(built.join("examples/matmul").exists(), "this test alone needs `cargo build --examples` first");
    built
}

/// A command as the shell runs it here: programs are built already.
fn here(command: &str) -> String {
    let Some((before, rest)) = command.split_once("cargo run --example ") else { return command.to_string() };
    let (example, arguments) = rest.split_once(" -- ").unwrap_or((rest, ""));
    format!("{before}{}/examples/{example} {arguments}", built().display())
}

#[test]
fn outputs_are_what_the_commands_print() {
    let mut wrong = Vec::new();
    for file in files("out", "txt") {
        let recorded = read(&file);
        let commands: Vec<&str> = recorded.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
        assert!(!commands.is_empty(), "{}: no command", file.display());
        let mut text = String::new();
        for command in commands {
            let mut shell = Command::new("bash");
            shell.args(["-o", "pipefail", "-c", &here(command)]).env("LC_ALL", "C").current_dir(root());
            let output = shell.output();
            let output = output.expect("bash runs");
            let problem = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{command}: {problem}");
            text +=
                &format!("$ {command}\n{}", String::from_utf8(output.stdout).expect("programs print text"));
        }
        wrong.extend(compare(&file, &text));
    }
    assert!(wrong.is_empty(), "TILEWRIGHT_BLESS=1 records them:\n{}", wrong.join("\n"));
}

#[test]
fn pictures_are_what_the_program_draws() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for picture in files("src/pictures", "svg") {
        let plot = picture.file_stem().expect("a file has a name");
        // Drawn by another example, which needs NVIDIA's assembler: this one is a copy.
        if plot == "ladder" {
            let copied = read(root().join("docs/ladder.svg"));
            assert!(copied == read(&picture), "copy docs/ladder.svg to {}", picture.display());
            continue;
        }
        let drawn = match blessing() {
            true => picture.clone(),
            false => folder.path().join(plot),
        };
        let status = Command::new(built().join("examples/plots")).arg(plot).arg(&drawn).status();
        assert!(status.expect("cargo test builds the examples").success(), "{plot:?}");
        assert!(read(&drawn) == read(&picture), "{}: TILEWRIGHT_BLESS=1 draws it anew", picture.display());
    }
}

#[test]
fn refusals_are_what_the_macros_say() {
    let mut wrong = Vec::new();
    for file in files("refused", "rs") {
        let source = read(&file);
        let path = file.strip_prefix(root()).expect("below the root").display().to_string();
        let errors = expand::errors(&source).unwrap_or_else(|why| panic!("{path}: {why}"));
        let text = render::render(&errors, &path, &source).unwrap_or_else(|why| panic!("{path}: {why}"));
        assert!(!text.is_empty(), "{path} is legal");
        wrong.extend(compare(&file.with_extension("stderr"), &text.replace("$DIR/", "")));
    }
    assert!(wrong.is_empty(), "TILEWRIGHT_BLESS=1 records them:\n{}", wrong.join("\n"));
}

// What was measured.

/// The cells of a row of a table in Markdown.
fn cells(row: &str) -> Vec<&str> {
    row.trim().trim_start_matches('|').trim_end_matches('|').split('|').map(str::trim).collect()
}

/// The number of a cell, as it is written, and with as many digits as it has.
fn is_written(cell: &str, value: f64) -> bool {
    let number = cell.trim_end_matches('×');
    let digits = number.split('.').nth(1).map_or(0, str::len);
    format!("{value:.digits$}") == number
}

/// A table below a line that names a file of measurements.
struct Measured<'p> {
    /// The page's name.
    page: &'p str,
    /// The file, from the root.
    path: &'p str,
    header: Vec<&'p str>,
    rows: Vec<Vec<&'p str>>,
}

fn measured_tables(pages: &[Page]) -> Vec<Measured<'_>> {
    let mut tables = Vec::new();
    for page in pages {
        let lines: Vec<&str> = page.text.lines().collect();
        for (n, line) in lines.iter().enumerate().filter(|(_, line)| line.starts_with("Measured: ")) {
            let path = line.split('`').find(|span| span.starts_with("docs/measurements/"));
            let table: Vec<&str> =
                lines[n + 2..].iter().take_while(|l| l.starts_with('|')).copied().collect();
            if let (Some(path), [header, _, rows @ ..]) = (path, &*table) {
                let rows = rows.iter().map(|row| cells(row)).collect();
                tables.push(Measured { page: &page.name, path, header: cells(header), rows });
            }
        }
    }
    tables
}

/// Every cell of such a table is that of the file: a product of 4096×4096×4096, or what `docs/performance.md` predicts of it.
#[test]
fn what_was_measured_is_in_the_files() {
    let performance = read(root().join("docs/performance.md"));
    let predicted = |schedule: &str, column: usize| -> String {
        let ladder = performance.split("<!-- ladder -->").nth(1).expect("the page has the ladder");
        let rows = ladder.lines().filter(|l| l.starts_with('|')).map(cells);
        let row = rows.into_iter().find(|row| row[0] == schedule).expect("a rung of the ladder");
        row[column].to_string()
    };
    let (pages, mut checked) = (pages(), 0);
    for Measured { page, path, header, rows } in measured_tables(&pages) {
        let Some(file) = path.strip_suffix(".jsonl") else { continue };
        let dtype = if file.ends_with("hopper") { "bf16" } else { "f32" };
        let text = read(root().join(path));
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
        for row in rows {
            let schedule = row[0].trim_matches('`');
            let of = |line: &&serde_json::Value| {
                line["schedule"] == schedule
                    && line["dtype"] == dtype
                    && ["m", "n", "k"].iter().all(|axis| line[axis] == 4096)
            };
            let line = lines.iter().find(of).unwrap_or_else(|| panic!("{page}: {schedule} is not in {path}"));
            for (column, cell) in header.iter().zip(&row).skip(1).filter(|(_, cell)| !cell.is_empty()) {
                let number = |key: &str| line[key].as_f64().expect("a number");
                let same = match *column {
                    "Measured" | "TFLOP/s" | "TFLOP/s at 4096×4096×4096" => {
                        is_written(cell, number("tflops"))
                    }
                    "Of cuBLAS" => is_written(cell, number("ratio")),
                    "Step" => is_written(cell, number("ratio_to_previous")),
                    "Registers a thread" => is_written(cell, number("registers")),
                    "Predicted TFLOP/s" => predicted(schedule, 3) == *cell,
                    "Bound by" => predicted(schedule, 4) == *cell,
                    "Measured / predicted" => predicted(schedule, 5) == *cell,
                    other => panic!("{page}: no file has a column `{other}`"),
                };
                assert!(same, "{page}: {schedule}: {column} {cell}");
                checked += 1;
            }
        }
    }
    assert!(checked > 80, "{checked} cells");
    assert!(is_written("1.50×", 1.4999) && !is_written("1.5", 1.56));
}

// Prose.

/// The paragraphs of a page: no code, no tables, no headings; each item of a list is one.
fn paragraphs(text: &str) -> Vec<String> {
    let (mut code, mut found, mut paragraph) = (false, Vec::new(), String::new());
    for line in text.lines().chain([""]) {
        let line = line.trim();
        let fence = line.starts_with("```");
        code ^= fence;
        let prose = !code && !fence && !line.is_empty() && !line.starts_with(['|', '#', '<']);
        let number = line.split_once(". ").is_some_and(|(n, _)| n.parse::<u8>().is_ok());
        let item = number || ["- ", "* "].iter().any(|mark| line.starts_with(mark));
        if (!prose || item) && !paragraph.is_empty() {
            found.push(std::mem::take(&mut paragraph));
        }
        if prose {
            paragraph += line.split_once(". ").filter(|_| number).map_or(line, |(_, rest)| rest);
            paragraph.push(' ');
        }
    }
    found
}

/// A paragraph without what is quoted as code, other than mere numbers, and without the targets of links.
fn words(paragraph: &str) -> String {
    let number = |span: &str| span.starts_with(|c: char| c.is_ascii_digit()) && !span.contains(' ');
    let spans = paragraph.split('`').enumerate();
    let outside: Vec<&str> =
        spans.filter(|(n, span)| n % 2 == 0 || number(span)).map(|(_, span)| span).collect();
    let outside = outside.join(" ");
    outside
        .split("](")
        .enumerate()
        .map(|(n, part)| match n {
            0 => part.to_string(),
            _ => part.split_once(')').map_or(part, |(_, rest)| rest).to_string(),
        })
        .collect::<Vec<_>>()
        .join("]")
}

/// The figures of a paragraph: words that begin with a digit.
fn figures(paragraph: &str) -> Vec<String> {
    let words = words(paragraph);
    let stripped = words.split_whitespace().map(|w| w.trim_start_matches(['(', '[', '−', '-', '*', '≈']));
    stripped.filter(|w| w.starts_with(|c: char| c.is_ascii_digit())).map(str::to_string).collect()
}

#[test]
fn paragraphs_have_two_figures_at_most() {
    let readme = Page { name: "README.md".into(), text: read(root().join("README.md")) };
    let mut wrong = Vec::new();
    for page in pages().iter().chain([&readme]) {
        for paragraph in paragraphs(&page.text) {
            let figures = figures(&paragraph);
            if figures.len() > 2 {
                wrong.push(format!("{}: {figures:?}: {paragraph}", page.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let text = "At (4096³) `x = 3` it has 54.7 of f32 and `16` bytes, [a](b/9 c).";
    assert_eq!(figures(text), ["4096³)", "54.7", "16"]);
}

/// The words of the glossary that no page uses: the second column of its last table.
fn retired() -> Vec<String> {
    let glossary = read(root().join("docs/glossary.md"));
    let table = glossary.split("| We write | Not |").nth(1).expect("the glossary has a table of words");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cell = |row: &str| row.trim_matches('|').split('|').nth(1).map(|cell| cell.trim().to_string());
    rows.filter_map(cell).flat_map(|cell| cell.split(", ").map(str::to_string).collect::<Vec<_>>()).collect()
}

/// Whether a text has a phrase, as whole words.
fn has_phrase(text: &str, phrase: &str) -> bool {
    let letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let ends = |(at, _): (usize, &str)| {
        !letter(text[..at].chars().next_back()) && !letter(text[at + phrase.len()..].chars().next())
    };
    text.match_indices(phrase).any(ends)
}

#[test]
fn no_page_has_a_retired_word() {
    let retired = retired();
    assert!(retired.len() > 5, "{retired:?}");
    let readme = Page { name: "README.md".into(), text: read(root().join("README.md")) };
    let mut wrong = Vec::new();
    for page in pages().iter().chain([&readme]) {
        for paragraph in paragraphs(&page.text) {
            let text = words(&paragraph).to_lowercase();
            let found = retired.iter().filter(|word| has_phrase(&text, word));
            wrong.extend(found.map(|word| format!("{}: `{word}`: {paragraph}", page.name)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(has_phrase("two slots are", "slots") && !has_phrase("a slotted", "slot"));
}

#[test]
fn chapters_are_short() {
    for page in pages() {
        let words = page.text.split_whitespace().count();
        assert!(words <= 1500, "{} has {words} words", page.name);
    }
}

//! The documentation against the repository: links and anchors, files, commands with their options and schedules, the
//! directives of the grammar, and what README prints and measures.

#[path = "../examples/matmul/kernel.rs"]
#[allow(dead_code)] // only the lists
mod kernel;

use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use tile_dsl::schedule::rows;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All files below a folder with one of these endings, built ones left out; paths from the root.
fn files(folder: &str, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()) {
            let name = entry.file_name().unwrap().to_str().unwrap().to_owned();
            if entry.is_dir() {
                if name != "target" && !name.starts_with('.') {
                    folders.push(entry);
                }
            } else if endings.iter().any(|e| name.ends_with(e)) {
                found.push(entry.strip_prefix(root()).unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// README and all pages.
fn pages() -> Vec<PathBuf> {
    let mut pages = files("docs", &[".md"]);
    pages.push("README.md".into());
    pages
}

/// The lines of a page that are in no block of code.
fn prose(text: &str) -> Vec<&str> {
    let mut code = false;
    let outside = |line: &&str| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    };
    text.lines().filter(outside).collect()
}

/// The blocks of code of a language, without their fences.
fn blocks<'t>(text: &'t str, language: &str) -> Vec<&'t str> {
    let start = format!("```{language}\n");
    text.split(&start).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// What stands between `from` and `to`, each time.
fn between<'t>(text: &'t str, from: &str, to: &str) -> Vec<&'t str> {
    text.split(from).skip(1).filter_map(|rest| rest.split_once(to).map(|(inside, _)| inside)).collect()
}

/// The anchor of a heading, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || *c == '-' || *c == '_' || *c == ' ');
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn anchors(path: &Path) -> BTreeSet<String> {
    let text = read(path);
    let headings = prose(&text).into_iter().filter(|l| l.starts_with('#'));
    headings.map(|l| anchor(l.trim_start_matches('#'))).collect()
}

/// Links of a page that lead nowhere.
fn broken(page: &Path, text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for link in prose(text).iter().flat_map(|line| between(line, "](", ")")) {
        let (path, name) = link.split_once('#').unwrap_or((link, ""));
        if link.contains("://") {
            continue;
        }
        let target = match path {
            "" => page.to_owned(),
            path => page.parent().unwrap().join(path),
        };
        if !root().join(&target).exists() {
            wrong.push(format!("{}: no file {path}", page.display()));
        } else if !name.is_empty() && !anchors(&target).contains(name) {
            wrong.push(format!("{}: no heading #{name} in {}", page.display(), target.display()));
        }
    }
    wrong
}

#[test]
fn links_and_anchors_resolve() {
    let wrong: Vec<_> = pages().iter().flat_map(|page| broken(page, &read(page))).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    // It can fail.
    let page = Path::new("README.md");
    let text = "[a](docs/none.md), [b](docs/schedule.md#none), [c](#results), [d](docs/schedule.md#help)";
    assert_eq!(broken(page, text).len(), 2);
}

#[test]
fn files_that_are_named_exist() {
    const ENDINGS: [&str; 8] = [".rs", ".md", ".sh", ".py", ".txt", ".stderr", ".toml", ".jsonl"];
    let all: Vec<String> =
        files(".", &ENDINGS).iter().map(|p| format!("/{}", p.display()).replace("/./", "/")).collect();
    let mut wrong = Vec::new();
    for page in pages() {
        let text = read(&page);
        for span in prose(&text).iter().flat_map(|l| l.split('`').skip(1).step_by(2)) {
            let path = span.split_whitespace().next().unwrap_or("");
            let named = path.contains('/')
                && ENDINGS.iter().any(|e| path.ends_with(e))
                && !path.contains(['<', '*', '$', '{'])
                // Folders and files of other projects, and what a run writes.
                && !path.starts_with("FOLDER/");
            if named && !all.iter().any(|file| file.ends_with(&format!("/{}", path.trim_start_matches("./"))))
            {
                wrong.push(format!("{}: {path}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "no such file: {wrong:#?}");
}

/// What a program prints for `--help`; examples are built beside the tests, one folder up.
fn help(example: &str) -> String {
    let deps = std::env::current_exe().expect("a test knows its path");
    let folder = deps.ancestors().nth(2).expect("target/<profile>/deps").join("examples");
    let output = Command::new(folder.join(example)).arg("--help").output();
    String::from_utf8(output.unwrap_or_else(|e| panic!("{example}: {e}")).stdout).unwrap()
}

/// Examples with options of their own. `latency` takes none, `dlpack` is a library.
fn helps() -> BTreeMap<String, String> {
    let folders = fs::read_dir(root().join("examples")).unwrap().map(|e| e.unwrap().path());
    let programs = folders.filter(|f| f.join("main.rs").exists());
    let names = programs.map(|f| f.file_name().unwrap().to_str().unwrap().to_owned());
    names.filter(|n| n != "latency" && n != "deployed").map(|n| (n.clone(), help(&n))).collect()
}

/// Whether a text has a word, with no letter, digit, `-` or `_` on either side.
fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !(c.is_alphanumeric() || c == '-' || c == '_')).any(|w| w == word)
}

/// Options whose values are a list of names.
const NAMED: [&str; 5] = ["--schedule", "--dtype", "--device", "--emit", "--variant"];

/// What is wrong with the options of a program, given its help.
fn unknown(arguments: &[&str], help: &str) -> Option<String> {
    for (n, argument) in arguments.iter().enumerate().filter(|(_, a)| a.starts_with("--")) {
        if !has_word(help, argument) {
            return Some(format!("no option {argument}"));
        }
        let values = arguments.get(n + 1).filter(|_| NAMED.contains(argument));
        if let Some(value) = values.into_iter().flat_map(|v| v.split(',')).find(|v| !has_word(help, v)) {
            return Some(format!("{argument} has no {value}"));
        }
    }
    None
}

/// The commands of cargo in a text, as words: up to the end of the line, of the code, or what a shell or a reader stops at.
fn commands(text: &str) -> Vec<Vec<&str>> {
    let starts = text.match_indices("cargo ").map(|(at, _)| &text[at..]);
    let ends = |c: char| matches!(c, '`' | '\n' | '#' | '>' | '&' | '|' | ';' | '\\' | ')' | '"');
    starts.map(|rest| rest.split(ends).next().unwrap().split_whitespace().collect()).collect()
}

/// What is wrong with a command of cargo: programs, tests, packages that are not there, unknown options.
fn wrong(command: &[&str], helps: &BTreeMap<String, String>) -> Option<String> {
    let end = command.iter().position(|w| *w == "--").unwrap_or(command.len());
    let (cargo, program) = (&command[..end], command.get(end + 1..).unwrap_or_default());
    let value = |name: &str| cargo.iter().position(|w| *w == name).and_then(|n| cargo.get(n + 1));
    let package = match value("-p") {
        None => "",
        Some(&"tile-runtime") => "runtime",
        Some(&"tile-auto") => "auto",
        Some(&"tile-fuzz") => "fuzz",
        Some(&"tile-bench") => "bench",
        Some(&"tile-page") => "page",
        Some(&"tile-sass") => "sass",
        Some(&"tilewright-kernels") => "kernels",
        Some(other) => other,
    };
    if !root().join(package).join("Cargo.toml").exists() {
        return Some(format!("no package {package}"));
    }
    for (option, folder) in [("--test", "tests"), ("--bench", "benches"), ("--bin", "src/bin")] {
        if let Some(name) = value(option)
            && !root().join(package).join(folder).join(format!("{name}.rs")).exists()
            && !root().join(package).join(folder).join(name).is_dir()
        {
            return Some(format!("{option} {name}: no such file"));
        }
    }
    let of_package = |name: &&str| root().join(package).join(format!("examples/{name}.rs")).exists();
    match value("--example") {
        // Examples of packages take no options, but names of what to run, which stand in them in quotes.
        Some(name) if !package.is_empty() && of_package(name) => {
            let source = read(root().join(package).join(format!("examples/{name}.rs")));
            let unknown = program.iter().find(|word| !source.contains(&format!("(\"{word}\",")));
            unknown.map(|word| format!("it takes no {word}"))
        }
        Some(&("latency" | "dlpack")) => (!program.is_empty()).then(|| "it takes no options".into()),
        Some(name) => match helps.get(*name) {
            Some(help) => unknown(program, help),
            None => Some(format!("no example {name}")),
        },
        None => None,
    }
}

#[test]
fn commands_name_programs_options_and_schedules_that_exist() {
    let helps = helps();
    let mut texts: Vec<PathBuf> = pages();
    for folder in ["examples", "scripts", "src", "bench"] {
        texts.extend(files(folder, &[".rs", ".sh", ".py"]));
    }
    let (mut found, mut mistakes) = (0, Vec::new());
    for path in texts {
        let text = read(&path);
        for command in commands(&text).iter().filter(|c| c.len() > 2) {
            found += 1;
            if let Some(why) = wrong(command, &helps) {
                mistakes.push(format!("{}: {}: {why}", path.display(), command.join(" ")));
            }
        }
    }
    assert!(mistakes.is_empty(), "{mistakes:#?}");
    assert!(found > 40, "only {found} commands found");
    // It can fail.
    for command in [
        "cargo run --example matmull -- --schedule all",
        "cargo run --example matmul -- --schedule warptiel",
        "cargo run --example matmul -- --shedule all",
        "cargo test --test golden",
        "cargo test -p tile-dls --lib",
        "cargo run -p tilewright-kernels --example bench -- narow",
    ] {
        let words: Vec<_> = command.split_whitespace().collect();
        assert!(wrong(&words, &helps).is_some(), "{command}");
    }
}

#[test]
fn options_in_prose_exist() {
    let helps = helps();
    // Programs without `--help` here: their sources name an option as a field or in quotes.
    let sources: String = ["ptx-sim/src", "fuzz/src", "scripts"]
        .iter()
        .flat_map(|folder| files(folder, &[".rs", ".sh", ".py"]))
        .map(read)
        .chain([read("setup.sh")])
        .collect();
    let mut mistakes = Vec::new();
    for page in pages() {
        let text = read(&page);
        for span in prose(&text).iter().flat_map(|l| l.split('`').skip(1).step_by(2)) {
            let words: Vec<_> = span.split_whitespace().collect();
            if !words.first().is_some_and(|w| w.starts_with("--")) {
                continue;
            }
            if words[0] == "--quick" {
                continue; // criterion's
            }
            let field = words[0].trim_start_matches('-').replace('-', "_");
            let elsewhere = || sources.contains(words[0]) || sources.contains(&format!("    {field}: "));
            if helps.values().all(|help| unknown(&words, help).is_some()) && !elsewhere() {
                mistakes.push(format!("{}: {span}", page.display()));
            }
        }
    }
    assert!(mistakes.is_empty(), "no program takes: {mistakes:#?}");
}

#[test]
fn the_grammar_has_every_directive_and_no_other() {
    let productions = blocks(&read("docs/directives.md"), "ebnf").concat();
    let first = |line: &str| line.strip_prefix('"')?.split_once('"').map(|(name, _)| name.to_owned());
    let found: BTreeSet<String> = productions.lines().filter_map(first).collect();
    let known: BTreeSet<String> = rows().iter().map(|row| row.name().to_owned()).collect();
    assert_eq!(found, known);
    let text = read("docs/schedule.md");
    let phases = text.split("They apply by phase").nth(1).and_then(|r| r.split("\n\n").next()).unwrap();
    for name in known {
        assert!(has_word(phases, &name), "`{name}` has no phase in docs/schedule.md");
    }
}

/// A text of Rust without comments and white space.
fn bare(text: &str) -> String {
    let lines = text.lines().map(|l| l.split("//").next().unwrap());
    lines.flat_map(|l| l.chars().filter(|c| !c.is_whitespace())).collect()
}

#[test]
fn the_readme_shows_the_example_as_it_is() {
    let (readme, example) = (read("README.md"), bare(&read("examples/matmul/kernel.rs")));
    let code = blocks(&readme, "rust");
    let [kernel, schedules] = code[..] else { panic!("a kernel and a schedule, not {} blocks", code.len()) };
    assert!(example.contains(&bare(kernel)), "{kernel}");
    let inside = schedules.trim().strip_prefix("schedule! {").and_then(|s| s.strip_suffix('}')).unwrap();
    assert!(example.contains(&bare(inside)), "{inside}");
    let short = |text: &str| text.lines().filter(|l| !l.trim().is_empty()).count();
    assert!(short(kernel) <= 12 && short(schedules) <= 14, "ten lines each, not more");
}

#[test]
fn the_readme_shows_what_the_command_prints() {
    let readme = read("README.md");
    let console = blocks(&readme, "console")[0];
    let (command, expected) = console.split_once('\n').unwrap();
    let arguments: Vec<_> = command.split(" -- ").nth(1).unwrap().split_whitespace().collect();
    let deps = std::env::current_exe().expect("a test knows its path");
    let program = deps.ancestors().nth(2).expect("target/<profile>/deps").join("examples/matmul");
    let output = Command::new(program).args(&arguments).output().expect("cargo test builds the examples");
    let printed = String::from_utf8(output.stdout).unwrap();
    // The last line, a formula, is left out.
    let shown = expected.strip_suffix("..\n").expect("it ends with two points");
    let left_out = printed.strip_prefix(shown).unwrap_or_else(|| panic!("{shown}{printed}"));
    assert!(left_out.starts_with("verified: ") && left_out.lines().count() == 1, "{left_out}");
}

#[test]
fn the_readme_shows_what_was_measured() {
    let readme = read("README.md");
    let lines = |name: &str| -> Vec<Value> {
        read(format!("docs/measurements/{name}.jsonl"))
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect()
    };
    let measured = [lines("h200-ladder"), lines("h200-hopper")].concat();
    let table = readme.split("## Results").nth(1).and_then(|r| r.split("\n## ").next()).unwrap();
    let mut rows = 0;
    for line in table.lines().filter(|l| l.starts_with('|') && l.contains('`')) {
        let cells: Vec<_> = line.trim_matches('|').split('|').collect();
        let [name, _, rate, share] = cells[..] else { panic!("{line}") };
        if name.contains("attention") {
            continue; // from a table of its own, below
        }
        let schedule = name.split('`').nth(1).unwrap();
        let same = |text: &str, value: &Value| {
            let digits = text.split('.').nth(1).map_or(0, str::len);
            format!("{:.digits$}", value.as_f64().unwrap()) == text
        };
        let row = measured.iter().find(|row| {
            row["schedule"] == schedule && row["m"] == 4096 && row["n"] == 4096 && row["k"] == 4096
        });
        let row = row.unwrap_or_else(|| panic!("{schedule} was not measured"));
        assert!(
            same(rate, &row["tflops"]) && same(share.trim_end_matches(" (cuBLASLt)"), &row["ratio"]),
            "{line}: {row}"
        );
        assert_eq!(row["verified"], true);
        rows += 1;
    }
    assert!(rows >= 10, "{rows} rows");

    let attention = read("docs/measurements/h200-attention.csv");
    let rate = |what: &str, date: &str| -> f64 {
        let row = attention.lines().find(|l| l.starts_with(what) && l.contains(date)).unwrap();
        row.rsplit(',').next().unwrap().parse().unwrap()
    };
    for (schedule, date) in [("mma", "2026-11-29"), ("wgmma_frozen", "2026-11-29")] {
        let ours = rate(&format!("tilewright,{schedule},"), date);
        let cudnn = rate("PyTorch cuDNN", date);
        let row = table.lines().find(|l| l.contains(&format!("attention `{schedule}`"))).unwrap();
        assert!(row.contains(&format!("|{ours}|{:.3}", ours / cudnn)), "{row}: {ours} of {cudnn}");
    }

    // The rule by size was recorded between the ladder in f16 and the products of f8; the ragged size is left out.
    let hopper = lines("h200-hopper");
    let after = hopper.iter().skip_while(|r| r["dtype"] == "bf16").skip_while(|r| r["dtype"] == "f16");
    let by_size =
        after.take_while(|r| !r["schedule"].as_str().unwrap().starts_with("f8")).filter(|r| r["m"] != 4095);
    let ratios: Vec<f64> = by_size.map(|r| r["ratio"].as_f64().unwrap()).collect();
    let of = |ratios: &[f64]| {
        (ratios.iter().sum::<f64>() / ratios.len() as f64, ratios.iter().copied().fold(f64::MAX, f64::min))
    };
    let (mean, least) = of(&ratios);
    let expected = format!("|sixteen that it was fitted to|H200|{mean:.3}|{least:.3}|");
    assert!(ratios.len() == 16 && table.contains(&expected), "{expected}");

    let sizes = read("docs/measurements/h100-sizes.csv");
    let held_out = sizes.lines().filter_map(|l| l.strip_prefix("held out,"));
    let ratio = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        cells[5].parse::<f64>().unwrap() / cells[2].parse::<f64>().unwrap()
    };
    let ratios: Vec<f64> = held_out.map(ratio).collect();
    let (mean, least) = of(&ratios);
    let expected = format!("|twelve random ones|H100|{mean:.2}|{least:.2}|");
    assert!(ratios.len() == 12 && table.contains(&expected), "{expected}");

    let timed = read("docs/measurements/h100-timed.csv");
    let ratios: Vec<f64> = timed.lines().filter_map(|l| l.strip_prefix("random,")).map(ratio).collect();
    let (mean, least) = of(&ratios);
    let expected = format!("|ninety random ones, timed|H100|{mean:.2}|{least:.2}|");
    assert!(ratios.len() == 90 && table.contains(&expected), "{expected}");
}

#[test]
fn the_readme_is_short() {
    let readme = read("README.md");
    let words = readme.split_whitespace().count();
    assert!(words <= 900, "README.md has {words} words");
}

//! `docs/directives.md` is what the files of the directives say: the card at the head of each, under how it is written.

use std::{fmt::Write, fs, path::Path};
use tile_dsl::schedule::rows;

const HEAD: &str = "\
# Directives

A card for each directive, in the order in which they apply. `cargo test -p tile-dsl --test reference` compares this page with the files in
`tile-dsl/src/directive`, and with `TILEWRIGHT_BLESS=1` writes it. [The language of `schedule!`](schedule.md) has what the productions are
made of, and how directives work together.

";

/// The text at the head of a file, without links to code.
fn card(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    let mut out =
        lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).fold(String::new(), |mut out, line| {
            let paragraph = ["Condition", "Cost:", "Source:"].iter().any(|word| line.starts_with(word));
            let _ = writeln!(out, "{}{line}", if paragraph { "\n" } else { "" });
            out
        });
    while let Some(open) = out.find("[`") {
        let close = open + out[open..].find("`]").expect("a link that is closed") + 1;
        let rest = match out[close + 1..].strip_prefix('(') {
            Some(target) => close + 2 + target.find(')').expect("a target that is closed") + 1,
            None => close + 1,
        };
        out = format!("{}{}{}", &out[..open], &out[open + 1..close], &out[rest..]);
    }
    out
}

#[test]
fn the_reference_is_what_the_files_say() {
    let crate_ = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut page = HEAD.to_string();
    for row in rows() {
        let name = row.name();
        let card = card(&crate_.join(format!("src/directive/{name}.rs")));
        assert!(card.starts_with(&format!("`{name}`")), "the card of `{name}` begins with its name");
        assert!(
            card.contains("Condition") || card.contains("It rewrites no statement"),
            "{name}: when is it refused?"
        );
        let _ = write!(
            page,
            "## `{name}`\n\nPhase `{}`. Example: `{};`\n\n```ebnf\n{}\n```\n\n{card}\n",
            row.phase,
            row.form,
            row.ebnf()
        );
    }
    let page = format!("{}\n", page.trim_end());
    let path = crate_.join("../docs/directives.md");
    if std::env::var_os("TILEWRIGHT_BLESS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let recorded = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(recorded, page, "the page differs: TILEWRIGHT_BLESS=1 writes it");
}

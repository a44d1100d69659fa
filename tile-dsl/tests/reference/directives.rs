//! `docs/directives.md` is what the files of the directives say: the card at the head of each, under how it is written.

use super::{anchor, compare, quoted, root, unlinked};
use std::{fmt::Write, fs};
use tile_dsl::schedule::rows;

const HEAD: &str = "\
# Directives

A card for each directive, in the order in which they apply. `cargo test -p tile-dsl --test reference` compares this page with the files in
`tile-dsl/src/directive`, and with `TILEWRIGHT_BLESS=1` writes it. [The language of `schedule!`](schedule.md) has what the productions are
made of, and how directives work together. [Refusals](refusals.md) has the messages.

";

/// The text at the head of a file, without links to code.
fn card(name: &str) -> String {
    let file = root(&format!("tile-dsl/src/directive/{name}.rs"));
    let text = fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    let out =
        lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).fold(String::new(), |mut out, line| {
            let paragraph = ["Condition", "Cost:", "Source:"].iter().any(|word| line.starts_with(word));
            let _ = writeln!(out, "{}{line}", if paragraph { "\n" } else { "" });
            out
        });
    unlinked(out)
}

/// The messages of a directive, and other directives that its card mentions.
fn see_also(name: &str, card: &str) -> String {
    let mut links = vec![format!("[its refusals](refusals.md#{})", anchor(name))];
    let prose: String = card.split("```").step_by(2).collect();
    for other in rows().iter().map(|row| row.name()) {
        let mentioned = |word: &str| word == other || word.starts_with(&format!("{other}("));
        if other != name && quoted(&prose).any(mentioned) {
            links.push(format!("[`{other}`](#{})", anchor(other)));
        }
    }
    format!("See also: {}.", links.join(", "))
}

#[test]
fn the_page_is_what_the_files_say() {
    let mut page = HEAD.to_string();
    for row in rows() {
        let name = row.name();
        let card = card(name);
        assert!(card.starts_with(&format!("`{name}`")), "the card of `{name}` begins with its name");
        assert!(
            card.contains("Condition") || card.contains("It rewrites no statement"),
            "{name}: when is it refused?"
        );
        assert!(card.contains("Cost:"), "{name}: what does it cost?");
        let _ = write!(
            page,
            "## `{name}`\n\nPhase `{}`. Example: `{};`\n\n```ebnf\n{}\n```\n\n{card}\n{}\n\n",
            row.phase,
            row.form,
            row.ebnf(),
            see_also(name, &card)
        );
    }
    compare("docs/directives.md", &page);
}

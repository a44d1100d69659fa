//! Every help of every pinned diagnostic is an edit, and the edit mends the mistake.
//!
//! Each error of `tests/ui/**/*.stderr` that has a help gives one variant of its source file, with the help applied as it
//! says: ``replace `a` by `b` ``, ``add `d` and `e` `` (to the schedule), ``add `;` before `bind` ``, ``remove `d` ``, several joined by `; `. All
//! variants are modules of one crate, which one run of `rustc` checks: the error is gone, and what is left was there
//! before. Whatever is no such edit is a note.

#[path = "help/apply.rs"]
mod apply;
#[path = "help/check.rs"]
mod check;

use apply::Pinned;
use std::{collections::BTreeMap, fmt::Write, path::Path};

#[test]
fn every_help_mends_its_mistake() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut variants, mut wrong) = (BTreeMap::new(), String::new());
    for case in apply::cases(&root.join("tests/ui")) {
        let source = std::fs::read_to_string(&case.source).expect("a pinned case has a source");
        for (n, error) in case.errors.iter().enumerate() {
            let Some(help) = &error.help else { continue };
            let name = format!("{}_{n}", case.name.replace(['/', '-'], "_"));
            match apply::apply(&source, error, help) {
                Ok(text) => {
                    std::fs::write(folder.path().join(format!("{name}.rs")), text)
                        .expect("a file is written");
                    variants.insert(name, (case.errors.clone(), n));
                }
                Err(why) => writeln!(wrong, "{}: {why}: {help}", case.name).expect("a string takes text"),
            }
        }
    }
    assert!(wrong.is_empty(), "help that cannot be applied:\n{wrong}");
    // As many as there are; fewer would mean that the pinned text is no longer read.
    assert!(variants.len() > 60, "{} variants", variants.len());

    let found = check::check(folder.path(), variants.keys());
    for (name, (errors, n)) in &variants {
        let before: Vec<&str> = errors.iter().map(Pinned::message).collect();
        for message in found.get(name).into_iter().flatten() {
            if message == errors[*n].message() || !before.contains(&message.as_str()) {
                let help = errors[*n].help.as_deref().unwrap_or_default();
                writeln!(wrong, "{name}: after `{help}`: {message}").expect("a string takes text");
            }
        }
    }
    assert!(wrong.is_empty(), "help that does not mend:\n{wrong}");
    assert!(found.keys().all(|name| variants.contains_key(name)), "errors elsewhere: {found:?}");
}

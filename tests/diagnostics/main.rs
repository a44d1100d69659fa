//! Every diagnostic in full, and every help applied: one mistake a file, `tests/ui/<directive>/<mistake>.rs`.
//!
//! The macros run in this process, as `rustc` would run them, and what they say is compared with the text beside the source.
//! `TILEWRIGHT_BLESS=1 cargo test --test diagnostics` writes it anew. Some of the files `rustc` compiles, too, so that these
//! errors are drawn as it draws them: see [`cases::is_compiled`]; `tests/trybuild` draws them by trybuild, too. What is `rustc`'s alone is written anew with them.

mod bundled;
mod cases;
mod check;
mod expand;
mod help;
mod render;
mod rustc;

use cases::{BY_RUSTC, Case};
use help::Pinned;
use rayon::prelude::*;
use std::{collections::BTreeMap, fmt::Write, fs, path::Path};

/// All cases, by name.
fn cases() -> Vec<Case> {
    cases::cases(Path::new(env!("CARGO_MANIFEST_DIR")))
}

impl Case {
    fn pinned(&self) -> String {
        fs::read_to_string(&self.pinned).unwrap_or_default()
    }

    fn is_by_rustc(&self) -> bool {
        BY_RUSTC.contains(&&*self.name)
    }

    /// What `rustc` prints of it.
    fn drawn(&self, libraries: &[String]) -> String {
        rustc::drawn(&Path::new(env!("CARGO_MANIFEST_DIR")).join(&self.path), libraries)
    }

    /// The text of its errors.
    fn text(&self) -> Result<String, String> {
        render::render(&expand::errors(&self.source)?, &self.path, &self.source)
    }
}

/// Whether what is recorded is written anew.
fn bless() -> bool {
    std::env::var_os("TILEWRIGHT_BLESS").is_some()
}

#[test]
fn texts_are_as_recorded() {
    let check = |case: &Case| -> Option<String> {
        let pinned = case.pinned();
        match (case.text(), case.is_by_rustc()) {
            (Ok(text), true) => {
                (text == pinned).then(|| format!("{}: needs no rustc: take it off the list", case.name))
            }
            (Err(_), true) => None,
            (Ok(text), false) if text == pinned && !text.is_empty() => None,
            (Ok(text), false) if bless() && !text.is_empty() => {
                fs::write(&case.pinned, text).expect("the checkout is writable");
                None
            }
            (Ok(text), false) => Some(format!("{}: recorded\n{pinned}found\n{text}", case.name)),
            (Err(why), false) => Some(format!("{}: {why}", case.name)),
        }
    };
    let wrong: Vec<String> = cases().par_iter().filter_map(check).collect();
    assert!(
        wrong.is_empty(),
        "{} differ; TILEWRIGHT_BLESS=1 records them:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn rustc_prints_the_same() {
    let (cases, libraries) = (cases(), rustc::libraries());
    let compiled: Vec<&Case> = cases.iter().filter(|case| case.compiled).collect();
    let check = |case: &&Case| -> Option<String> {
        let (pinned, drawn) = (case.pinned(), case.drawn(&libraries));
        if bless() && case.is_by_rustc() && !drawn.is_empty() {
            fs::write(&case.pinned, drawn).expect("the checkout is writable");
            return None;
        }
        (drawn != pinned || drawn.is_empty())
            .then(|| format!("{}: recorded\n{pinned}rustc prints\n{drawn}", case.name))
    };
    let wrong: Vec<String> = compiled.par_iter().filter_map(check).collect();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Each error that has a help gives a variant of its source, with the help applied as it says: ``replace `a` by `b` ``, ``add `d` and
/// `e` `` (to the schedule), ``add `;` before `bind` ``, ``remove `d` ``, several joined by `; `. In the variant that error is
/// gone, and what is left was there before. Whatever is no such edit is a note.
#[test]
fn every_help_mends_its_mistake() {
    let (mut variants, mut wrong) = (Vec::new(), String::new());
    for case in cases() {
        let errors = help::errors(&case.pinned());
        for (n, error) in errors.iter().enumerate() {
            let Some(help) = &error.help else { continue };
            let name = format!("{}_{n}", case.name.replace(['/', '-'], "_"));
            match help::apply(&case.source, error, help) {
                Ok(source) => variants.push(Variant { name, source, errors: errors.clone(), mended: n }),
                Err(why) => writeln!(wrong, "{}: {why}: {help}", case.name).expect("a string takes text"),
            }
        }
    }
    assert!(wrong.is_empty(), "help that cannot be applied:\n{wrong}");
    // As many as there are; fewer would mean that the recorded text is no longer read.
    assert!(variants.len() > 200, "{} variants", variants.len());

    let left: Vec<Result<Vec<String>, String>> = variants.par_iter().map(Variant::left).collect();
    // `rustc` has the last word on those in which the macros find no mistake, and on those that it alone understands.
    let sound = variants.iter().zip(&left).filter(|(_, left)| left.as_ref().map_or(true, Vec::is_empty));
    let sound: BTreeMap<&str, &str> = sound.map(|(v, _)| (&*v.name, &*v.source)).collect();
    let found = check::check(&sound);
    assert!(found.keys().all(|name| sound.contains_key(&**name)), "errors elsewhere: {found:?}");
    for (variant, left) in variants.iter().zip(left) {
        let left = left.unwrap_or_default();
        for message in left.iter().chain(found.get(&variant.name).into_iter().flatten()) {
            let known = variant.errors.iter().any(|error| error.message == *message);
            if *message == variant.errors[variant.mended].message || !known {
                let help = variant.errors[variant.mended].help.as_deref().unwrap_or_default();
                writeln!(wrong, "{}: after `{help}`: {message}", variant.name).expect("a string takes text");
            }
        }
    }
    assert!(wrong.is_empty(), "help that does not mend:\n{wrong}");
}

/// A source after a help.
struct Variant {
    name: String,
    source: String,
    /// The errors before.
    errors: Vec<Pinned>,
    /// Which of them had the help.
    mended: usize,
}

impl Variant {
    /// The first lines of the macros' errors.
    fn left(&self) -> Result<Vec<String>, String> {
        let first = |error: expand::Error| error.message.lines().next().unwrap_or_default().to_string();
        Ok(expand::errors(&self.source)?.into_iter().map(first).collect())
    }
}

//! Many source files checked by one run of `rustc`.

use super::rustc;
use std::{collections::BTreeMap, path::Path};

/// The messages of the errors in each of some sources, by name, as modules of one crate. Those without errors are left out.
pub fn check(sources: &BTreeMap<&str, &str>) -> BTreeMap<String, Vec<String>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let libraries = rustc::libraries();
    for (name, source) in sources {
        std::fs::write(folder.path().join(name).with_extension("rs"), source).expect("a file is written");
    }
    let modules = |names: &mut dyn Iterator<Item = &&str>| -> String {
        names.map(|name| format!("#[path = \"{name}.rs\"] mod {name};\n")).collect()
    };
    let mut found = run(folder.path(), &modules(&mut sources.keys()), &libraries);
    // Types are checked only where macros expand without errors.
    if !found.is_empty() {
        let mut sound = sources.keys().filter(|name| !found.contains_key(**name));
        found.extend(run(folder.path(), &modules(&mut sound), &libraries));
    }
    found
}

/// `rustc`'s errors by the file they stand in, without its extension.
fn run(folder: &Path, modules: &str, libraries: &[String]) -> BTreeMap<String, Vec<String>> {
    let main = folder.join("main.rs");
    std::fs::write(&main, format!("#![allow(warnings)]\n{modules}\nfn main() {{}}\n"))
        .expect("a file is written");
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for error in rustc::check(&main, libraries, &[]).into_iter().filter(|message| message.is_error) {
        let file = error.file.as_deref();
        let name = file.and_then(|file| Path::new(file).file_stem()).and_then(|stem| stem.to_str());
        found.entry(name.unwrap_or("?").to_string()).or_default().push(error.first);
    }
    found
}

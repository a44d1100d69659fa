//! The cases: `tests/ui/<directive>/<mistake>.rs`.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Whether `rustc` compiles a case: the first two of each folder, all of `schedule`, whose mistakes stand in every part of a
/// schedule's header and body, parts of a kernel that are underlined in other ways, and what the macros alone do not show.
pub fn is_compiled(name: &str, place: usize) -> bool {
    place < 2
        || name.starts_with("schedule/")
        || PARTS_OF_A_KERNEL.contains(&name)
        || BY_RUSTC.contains(&name)
}

/// A bound, a macro, types of parameters, a keyword, a call: in `is_compiled`.
const PARTS_OF_A_KERNEL: &[&str] = &[
    "kernel/generic_bound",
    "kernel/macro_call",
    "kernel/parameter_types",
    "kernel/while_loop",
    "kernel/wrong_arguments",
];

/// What `rustc` says itself, or draws in a way that `render` does not know.
pub const BY_RUSTC: &[&str] = &[
    "list/run",
    "schedule/in_a_macro",
    "schedule/named_twice_in_two_blocks",
    "schedule/of_another_kernel",
    "schedule/parent_in_another_crate",
    "schedule/private_kernel",
    "schedule/unknown_parent",
];

/// A source file with one mistake.
pub struct Case {
    /// `directive/mistake`.
    pub name: String,
    /// `tests/ui/directive/mistake.rs`.
    pub path: String,
    pub source: String,
    /// What is recorded of it.
    pub pinned: PathBuf,
    /// Whether `rustc` compiles it.
    pub compiled: bool,
}

/// All cases below the root of the repository, by name.
pub fn cases(root: &Path) -> Vec<Case> {
    let list = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).expect("a folder of cases");
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a case").path()).collect();
        paths.sort();
        paths
    };
    let sources = |folder: PathBuf| {
        let sources = list(&folder).into_iter().filter(|file| file.extension().is_some_and(|e| e == "rs"));
        sources.enumerate().collect::<Vec<_>>()
    };
    let case = |(place, file): (usize, PathBuf)| {
        let path = file.strip_prefix(root).expect("below the root").display().to_string();
        let name = path["tests/ui/".len()..path.len() - ".rs".len()].to_string();
        let source = fs::read_to_string(&file).expect("a case has a source");
        let compiled = is_compiled(&name, place);
        Case { name, path, source, pinned: file.with_extension("stderr"), compiled }
    };
    list(&root.join("tests/ui")).into_iter().flat_map(sources).map(case).collect()
}

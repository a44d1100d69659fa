//! Every case of the corpus, each of which failed once, passes.

use std::{fs, path::Path};
use tile_fuzz::{case::Case, check::check};

#[test]
fn every_case_passes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "txt"));
    paths.sort();
    assert!(!paths.is_empty());
    let mut wrong = Vec::new();
    for path in &paths {
        let name = path.file_name().unwrap().to_string_lossy();
        let case = match Case::parse(&fs::read_to_string(path).unwrap()) {
            Ok(case) => case,
            Err(e) => {
                wrong.push(format!("{name}: {e}"));
                continue;
            }
        };
        let (done, failure) = check(&case, usize::MAX);
        match failure {
            Some(failure) => wrong.push(format!("{name}: {failure}")),
            // A case that runs nothing checks nothing.
            None if done.launches == 0 => wrong.push(format!("{name}: nothing was launched")),
            None => {}
        }
    }
    // What was caught on the way has silenced panics.
    wrong.iter().for_each(|wrong| eprintln!("{wrong}"));
    assert!(wrong.is_empty());
}

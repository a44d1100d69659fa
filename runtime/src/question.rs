//! What was chosen, by a model or by tuners, on disk: a file for each question, which names the device, the shapes and all that was to
//! choose from.
//!
//! The files lie beside the compiled kernels, are written whole and under a checksum, as those are, and may be deleted. As
//! each question has a file of its own, tuners at work at once, of one process or of several, do not lose each other's
//! answers; of two that ask the same, the later answer stays.

use crate::cache::{self, Key, Kind, PtxCache};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};
use std::io;

/// What decides a choice, as text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Question(pub(crate) String);

/// One file.
#[derive(Serialize, Deserialize)]
struct Entry<T> {
    question: String,
    answer: T,
}

impl Question {
    /// Name of its file.
    fn file(&self) -> String {
        Kind::Tuned.file(&Key(Sha256::digest(&self.0).into()))
    }

    /// What was found before; `None` where nothing is, or nothing that can be used.
    pub(crate) fn recall<T: DeserializeOwned>(&self, cache: &PtxCache) -> Option<T> {
        let bytes = std::fs::read(cache.folder()?.join(self.file())).ok()?;
        let entry: Entry<T> = cache::decode(&bytes)?;
        (entry.question == self.0).then_some(entry.answer)
    }

    /// Keeps what was found.
    ///
    /// # Errors
    /// The file system's.
    pub(crate) fn keep(&self, cache: &PtxCache, answer: &impl Serialize) -> io::Result<()> {
        let entry = Entry { question: self.0.clone(), answer };
        cache.write(&self.file(), &cache::encode(&entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    type Answer = (String, f64);

    fn answers(us: f64) -> Vec<Answer> {
        (0..20).map(|n| (format!("tile(i = {n})"), us + f64::from(n))).collect()
    }

    #[test]
    fn answers_are_kept_by_question() {
        let folder = tempfile::tempdir().unwrap();
        let cache = PtxCache::at(folder.path().join("made/when/needed"));
        let (one, other) = (Question("one".into()), Question("other".into()));
        assert_eq!(one.recall::<Vec<Answer>>(&cache), None);
        one.keep(&cache, &answers(1.0)).unwrap();
        assert_eq!(one.recall(&cache), Some(answers(1.0)));
        assert_eq!(other.recall::<Vec<Answer>>(&cache), None);
        one.keep(&cache, &answers(2.0)).unwrap();
        assert_eq!(one.recall(&cache), Some(answers(2.0)));
        let path = cache.folder().unwrap().join(one.file());
        std::fs::copy(&path, cache.folder().unwrap().join(other.file())).unwrap();
        assert_eq!(other.recall::<Vec<Answer>>(&cache), None, "an answer to another question");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.truncate(bytes.len() - 1);
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(one.recall::<Vec<Answer>>(&cache), None, "damaged");
        let disabled = PtxCache::disabled();
        one.keep(&disabled, &answers(1.0)).unwrap();
        assert_eq!(one.recall::<Vec<Answer>>(&disabled), None);
    }

    /// Asks questions of its own and one that all ask, for ever or as often as it is told.
    fn work(cache: &PtxCache, who: usize, rounds: usize) {
        for round in 0..rounds {
            Question(format!("{who} {}", round % 40)).keep(cache, &answers(who as f64)).unwrap();
            Question("all".into()).keep(cache, &answers(who as f64)).unwrap();
            assert!(Question("all".into()).recall::<Vec<Answer>>(cache).is_some(), "an answer was lost");
        }
    }

    fn check(cache: &PtxCache, workers: usize) {
        for who in 0..workers {
            for n in 0..40 {
                assert_eq!(
                    Question(format!("{who} {n}")).recall(cache),
                    Some(answers(who as f64)),
                    "{who} {n}"
                );
            }
        }
    }

    /// Body of the processes that tests start; does nothing otherwise.
    #[test]
    fn child() {
        let Some(folder) = std::env::var_os("TUNED_TEST_FOLDER") else { return };
        let number = |name| std::env::var(name).unwrap().parse::<usize>().unwrap();
        work(&PtxCache::at(folder), number("TUNED_TEST_WHO"), number("TUNED_TEST_ROUNDS"));
    }

    fn spawn(folder: &std::path::Path, who: usize, rounds: usize) -> std::process::Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "question::tests::child"])
            .env("TUNED_TEST_FOLDER", folder)
            .env("TUNED_TEST_WHO", who.to_string())
            .env("TUNED_TEST_ROUNDS", rounds.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    #[test]
    fn threads_and_processes_do_not_lose_each_others_answers() {
        let folder = tempfile::tempdir().unwrap();
        let cache = PtxCache::at(folder.path());
        let mut children: Vec<_> = (0..4).map(|who| spawn(folder.path(), who, 120)).collect();
        std::thread::scope(|scope| {
            (4..8).for_each(|who| {
                drop(scope.spawn({
                    let cache = &cache;
                    move || work(cache, who, 120)
                }))
            })
        });
        assert!(children.iter_mut().all(|child| child.wait().unwrap().success()));
        check(&cache, 8);
    }

    /// Killed at any time, a writer leaves whole answers, old or new, and nothing that is taken for one.
    #[test]
    fn a_killed_writer_leaves_whole_answers() {
        let folder = tempfile::tempdir().unwrap();
        let cache = PtxCache::at(folder.path());
        work(&cache, 0, 40);
        let mut killed = 0;
        for round in 0..50 {
            let everyones = folder.path().join(Question("all".into()).file());
            std::fs::remove_file(&everyones).unwrap();
            let mut child = spawn(folder.path(), 0, usize::MAX);
            // It is at work when it has answered.
            while !everyones.exists() {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            std::thread::sleep(std::time::Duration::from_micros(150 * round));
            child.kill().unwrap();
            killed += usize::from(!child.wait().unwrap().success());
            check(&cache, 1);
            assert_eq!(Question("all".into()).recall(&cache), Some(answers(0.0)));
        }
        assert_eq!(killed, 50, "each was at work when it was killed");
    }
}

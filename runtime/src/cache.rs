//! PTX and machine code on disk, by content.
//!
//! An entry's name is the SHA-256 of everything that decides what is in it, which is known before the kernel is lowered
//! ([`Key::of_kernel`]), and an entry has all that a launch needs. It carries a checksum of its own; one
//! that does not match is compiled again and replaced. Entries appear by renaming a complete file, so concurrent
//! processes see an entry whole or not at all. Trouble with the disk never stops a launch that can do without: it
//! becomes a warning in the launch's report. The folder may be deleted at any time.

use crate::precompiled::Precompiled;
use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};
use std::{
    fmt,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

/// First bytes of each entry; another format has others.
const MAGIC: &[u8; 8] = b"tilewptx";

/// Where compiled kernels are kept.
#[derive(Clone, Debug)]
pub struct PtxCache {
    folder: Option<Arc<Path>>,
}

impl PtxCache {
    /// The user's cache: the folder in `TILEWRIGHT_CACHE_DIR` if that variable is set (empty: no cache), else
    /// `tilewright` in the user's cache folder (`$XDG_CACHE_HOME` or `~/.cache` on Linux).
    pub fn from_env() -> Self {
        let folder = match std::env::var_os("TILEWRIGHT_CACHE_DIR") {
            Some(dir) if dir.is_empty() => None,
            Some(dir) => Some(PathBuf::from(dir).into()),
            None => directories::BaseDirs::new().map(|dirs| dirs.cache_dir().join("tilewright").into()),
        };
        PtxCache { folder }
    }

    /// A cache in a folder, which is created when first written to.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        PtxCache { folder: Some(folder.into().into()) }
    }

    /// No cache.
    pub fn disabled() -> Self {
        PtxCache { folder: None }
    }

    /// The folder, if there is one.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    pub(crate) fn get(&self, key: &Key) -> Lookup<Precompiled> {
        self.find(&Kind::Kernel.file(key), decode)
    }

    /// Machine code, which has keys of its own.
    pub(crate) fn machine_code(&self, key: &Key) -> Lookup<Vec<u8>> {
        self.find(&Kind::MachineCode.file(key), |bytes| open(bytes).map(<[u8]>::to_vec))
    }

    fn find<T>(&self, name: &str, read: impl Fn(&[u8]) -> Option<T>) -> Lookup<T> {
        let Some(folder) = &self.folder else { return Lookup::Absent };
        let path = folder.join(name);
        match std::fs::read(&path) {
            Ok(bytes) => match read(&bytes) {
                Some(found) => Lookup::Found(found),
                None => Lookup::Unusable(format!("the cache entry {} is damaged", path.display())),
            },
            Err(e) if e.kind() == io::ErrorKind::NotFound => Lookup::Absent,
            Err(e) => Lookup::Unusable(format!("the cache entry {} cannot be read: {e}", path.display())),
        }
    }

    pub(crate) fn put(&self, key: &Key, kernel: &Precompiled) -> io::Result<()> {
        self.write(&Kind::Kernel.file(key), &encode(kernel))
    }

    pub(crate) fn put_machine_code(&self, key: &Key, code: &[u8]) -> io::Result<()> {
        self.write(&Kind::MachineCode.file(key), &seal(code))
    }

    /// Puts a whole file there; a process that is killed meanwhile leaves none, or the one that was there.
    pub(crate) fn write(&self, name: &str, contents: &[u8]) -> io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        std::fs::create_dir_all(folder)?;
        sweep(folder);
        let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(folder)?;
        file.write_all(contents)?;
        file.persist(folder.join(name))?;
        Ok(())
    }
}

/// How the names of files begin that are being written.
const UNFINISHED: &str = ".unfinished-";

/// Removes what killed processes left: files that no one has written to for an hour. Whatever goes wrong can wait.
fn sweep(folder: &Path) {
    for file in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let old = || file.metadata().ok()?.modified().ok()?.elapsed().ok().filter(|age| age.as_secs() > 3600);
        if file.file_name().to_string_lossy().starts_with(UNFINISHED) && old().is_some() {
            let _ = std::fs::remove_file(file.path());
        }
    }
}

/// What the cache has under a key.
#[derive(Debug, PartialEq)]
pub(crate) enum Lookup<T> {
    Found(T),
    Absent,
    /// Something that is no entry, or cannot be read: what, in words.
    Unusable(String),
}

/// What an entry is, which the end of its file's name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Kernel,
    MachineCode,
    Tuned,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Kernel, Kind::MachineCode, Kind::Tuned];

    fn end(self) -> &'static str {
        match self {
            Kind::Kernel => "",
            Kind::MachineCode => ".cubin",
            Kind::Tuned => ".tuned",
        }
    }

    /// Name of the file of an entry.
    pub(crate) fn file(self, key: &Key) -> String {
        format!("{key}{}", self.end())
    }

    /// Of the entry in a file of this name, if it is one's.
    pub(crate) fn of(name: &str) -> Option<Self> {
        let (key, end) = name.split_at_checked(2 * size_of::<Key>())?;
        let is_key = key.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
        Self::ALL.into_iter().find(|kind| is_key && end == kind.end())
    }
}

/// Key of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key(pub(crate) [u8; 32]);

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A value with a checksum.
pub(crate) fn encode(value: &impl Serialize) -> Vec<u8> {
    seal(&postcard::to_stdvec(value).expect("strings and numbers serialise"))
}

/// The inverse of [`encode`]; `None` for bytes that are not what it made.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    postcard::from_bytes(open(bytes)?).ok()
}

/// Bytes with a checksum.
fn seal(payload: &[u8]) -> Vec<u8> {
    let checksum: [u8; 32] = Sha256::digest(payload).into();
    [MAGIC.as_slice(), &checksum, payload].concat()
}

/// The inverse of [`seal`]; `None` for bytes that are not what it made.
fn open(bytes: &[u8]) -> Option<&[u8]> {
    let (checksum, payload) = bytes.strip_prefix(MAGIC)?.split_first_chunk::<32>()?;
    (<[u8; 32]>::from(Sha256::digest(payload)) == *checksum).then_some(payload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use backend_ptx::Ptx;
    use std::process::Command;
    use tile_dsl::{
        index::Extent,
        kernel::{GridAxis, Interface, Param},
    };

    fn kernel(text: &str) -> Precompiled {
        let ptx = Ptx {
            text: text.into(),
            entry: "e".into(),
            assemble: None,
            threads: 32,
            static_shared: 1,
            dynamic_shared: 0,
        };
        let interface = Interface {
            params: vec![Param::Dim("N".into())],
            cleared: vec![0],
            grid: vec![GridAxis::of(Extent::constant(3), 2)],
            persistent: Some(1),
            cluster: None,
            dependent: false,
            grouped: false,
        };
        Precompiled { interface, ptx, machine: vec![] }
    }

    const KEY: Key = Key([7; 32]);

    #[test]
    fn keeps_entries() {
        let folder = tempfile::tempdir().unwrap();
        let cache = PtxCache::at(folder.path().join("made/when/needed"));
        assert_eq!(cache.get(&KEY), Lookup::Absent);
        cache.put(&KEY, &kernel("text")).unwrap();
        assert_eq!(cache.get(&KEY), Lookup::Found(kernel("text")));
        assert_eq!(cache.get(&Key([8; 32])), Lookup::Absent);
        let left: Vec<_> = std::fs::read_dir(cache.folder().unwrap()).unwrap().collect();
        assert_eq!(left.len(), 1, "no temporary file stays behind");
    }

    #[test]
    fn any_change_of_an_entry_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let cache = PtxCache::at(folder.path());
        cache.put(&KEY, &kernel("text")).unwrap();
        let path = folder.path().join(KEY.to_string());
        let good = std::fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            std::fs::write(&path, bad).unwrap();
            assert!(matches!(cache.get(&KEY), Lookup::Unusable(_)), "byte {at}");
        }
        for length in 0..good.len() {
            std::fs::write(&path, &good[..length]).unwrap();
            assert!(matches!(cache.get(&KEY), Lookup::Unusable(_)), "cut to {length}");
        }
        cache.put(&KEY, &kernel("new")).unwrap();
        assert_eq!(cache.get(&KEY), Lookup::Found(kernel("new")), "replaced");
    }

    #[test]
    fn a_folder_that_cannot_be_one_is_an_error_of_put_alone() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let cache = PtxCache::at(file.path().join("below-a-file"));
        assert!(cache.put(&KEY, &kernel("text")).is_err());
        assert!(matches!(cache.get(&KEY), Lookup::Unusable(m) if m.contains("cannot be read")));
    }

    #[test]
    fn what_killed_writers_left_goes_after_an_hour() {
        let folder = tempfile::tempdir().unwrap();
        let cache = PtxCache::at(folder.path());
        let leave = |name: &str, hours: u64| {
            let file = std::fs::File::create(folder.path().join(name)).unwrap();
            let then = std::time::SystemTime::now() - std::time::Duration::from_secs(3600 * hours + 60);
            file.set_modified(then).unwrap();
        };
        leave(".unfinished-a", 1);
        leave(".unfinished-b", 0);
        leave("someone-elses", 1);
        cache.put(&KEY, &kernel("text")).unwrap();
        let exists = |name: &str| folder.path().join(name).exists();
        assert!(!exists(".unfinished-a") && exists(".unfinished-b") && exists("someone-elses"));
    }

    /// Body of the process that the next test starts; does nothing otherwise.
    #[test]
    fn killed_child() {
        let Some(folder) = std::env::var_os("CACHE_TEST_KILLED") else { return };
        let cache = PtxCache::at(folder);
        for round in 0.. {
            cache.put(&Key([round as u8 % 8; 32]), &kernel(&"x".repeat(1 << 18))).unwrap();
        }
    }

    /// Killed at any time, a writer leaves whole entries and nothing that is taken for one.
    #[test]
    fn a_killed_writer_leaves_whole_entries() {
        let folder = tempfile::tempdir().unwrap();
        let cache = PtxCache::at(folder.path());
        let entries = || (0..8).map(|n| folder.path().join(Key([n; 32]).to_string()));
        let mut killed = 0;
        for round in 0..50 {
            entries().for_each(|path| drop(std::fs::remove_file(path)));
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "cache::tests::killed_child"])
                .env("CACHE_TEST_KILLED", folder.path())
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap();
            // It is at work when it has written something.
            while !entries().any(|path| path.exists()) {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            std::thread::sleep(std::time::Duration::from_micros(150 * round));
            child.kill().unwrap();
            killed += usize::from(!child.wait().unwrap().success());
            for n in 0..8 {
                match cache.get(&Key([n; 32])) {
                    Lookup::Found(entry) => assert_eq!(entry, kernel(&"x".repeat(1 << 18))),
                    Lookup::Absent => {}
                    Lookup::Unusable(why) => panic!("{why}"),
                }
            }
        }
        assert_eq!(killed, 50, "each was at work when it was killed");
    }

    /// Body of the process that the next test starts; does nothing otherwise.
    #[test]
    fn full_disk_child() {
        let Some(folder) = std::env::var_os("CACHE_TEST_FULL") else { return };
        let error = PtxCache::at(folder).put(&KEY, &kernel(&"x".repeat(1 << 16))).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }

    /// A limit on the size of files makes the write fail half way, as a full disk does.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let output = Command::new("bash")
            .args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$0\" --exact cache::tests::full_disk_child"])
            .arg(std::env::current_exe().unwrap())
            .env("CACHE_TEST_FULL", folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_disabled_cache_keeps_nothing() {
        let cache = PtxCache::disabled();
        cache.put(&KEY, &kernel("text")).unwrap();
        assert_eq!(cache.get(&KEY), Lookup::Absent);
    }

    /// Body of the processes that the next test starts; does nothing otherwise.
    #[test]
    fn concurrent_child() {
        let Some(folder) = std::env::var_os("CACHE_TEST_FOLDER") else { return };
        let cache = PtxCache::at(folder);
        let text = "x".repeat(1 << 16);
        for _ in 0..50 {
            cache.put(&KEY, &kernel(&text)).unwrap();
            assert_eq!(cache.get(&KEY), Lookup::Found(kernel(&text)));
        }
    }

    #[test]
    fn concurrent_processes_see_whole_entries() {
        let folder = tempfile::tempdir().unwrap();
        let children: Vec<_> = (0..4)
            .map(|_| {
                Command::new(std::env::current_exe().unwrap())
                    .args(["--exact", "cache::tests::concurrent_child"])
                    .env("CACHE_TEST_FOLDER", folder.path())
                    .stdout(std::process::Stdio::piped())
                    .spawn()
                    .unwrap()
            })
            .collect();
        for child in children {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

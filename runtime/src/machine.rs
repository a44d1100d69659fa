//! Machine code on disk: what NVIDIA's assembler made of a kernel when it was first launched, so that the driver compiles
//! nothing in the next process.

use crate::{
    cache::{Key, Lookup, PtxCache},
    toolkit,
};
use backend_ptx::Ptx;
use sha2::{Digest, Sha256};
use std::{path::Path, time::UNIX_EPOCH};

/// Machine code of a kernel for an architecture, from the cache, or assembled and put there; `None` without a cache or an
/// assembler, and where that fails, of which a warning tells: the driver compiles the PTX then.
pub(crate) fn kept(
    cache: &PtxCache,
    ptx: &Ptx,
    architecture: &str,
    warnings: &mut Vec<String>,
) -> Option<Vec<u8>> {
    let folder = cache.folder()?;
    let ptxas = toolkit::find("ptxas")?;
    let (code, trouble) = kept_by(cache, &ptxas, ptx, architecture);
    warnings.extend(trouble.map(|why| format!("{why} (machine code in {})", folder.display())));
    code
}

/// [`kept`] with this assembler, and what went wrong.
fn kept_by(
    cache: &PtxCache,
    ptxas: &Path,
    ptx: &Ptx,
    architecture: &str,
) -> (Option<Vec<u8>>, Option<String>) {
    let key = key(ptxas, ptx, architecture);
    let damaged = match cache.machine_code(&key) {
        Lookup::Found(code) => return (Some(code), None),
        Lookup::Absent => None,
        Lookup::Unusable(why) => Some(why),
    };
    match toolkit::assemble(ptxas, ptx, architecture) {
        Ok(code) => {
            let kept = cache.put_machine_code(&key, &code);
            (Some(code), kept.err().map(|e| format!("it cannot be kept: {e}")).or(damaged))
        }
        Err(e) => (None, Some(e.to_string())),
    }
}

/// Everything that decides machine code: another assembler has another file.
fn key(ptxas: &Path, ptx: &Ptx, architecture: &str) -> Key {
    let file = std::fs::metadata(ptxas).ok();
    let changed = file.as_ref().and_then(|file| file.modified().ok());
    let changed = changed.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    let made_by = (ptxas, file.map_or(0, |file| file.len()), changed);
    let mut hash = Sha256::new();
    hash.update(format!("machine code {architecture} {:?} {made_by:?}\0", ptx.assemble));
    hash.update(&ptx.text);
    Key(hash.finalize().into())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::cache::Kind;
    use std::{fs, os::unix::fs::PermissionsExt};

    /// An assembler whose machine code is the number of its run, and that fails for `sm_1`.
    fn assembler(folder: &Path) -> std::path::PathBuf {
        let program = folder.join("ptxas");
        let runs = folder.join("runs");
        let text = format!(
            "#!/bin/sh\n[ $1 != -arch=sm_1 ] || {{ echo too old >&2; exit 1; }}\necho run >> {0}\nwc -l < {0} > $3\n",
            runs.display()
        );
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        program
    }

    #[test]
    fn a_kernel_is_assembled_once() {
        let folder = tempfile::tempdir().unwrap();
        let (ptxas, cache) = (assembler(folder.path()), PtxCache::at(folder.path().join("cache")));
        let ptx = |text: &str, assemble| Ptx {
            text: text.into(),
            entry: "e".into(),
            assemble,
            threads: 1,
            static_shared: 0,
            dynamic_shared: 0,
        };
        let run = |ptx: &Ptx, architecture: &str| kept_by(&cache, &ptxas, ptx, architecture);
        let made = |number: &str| (Some(format!("{number}\n").into_bytes()), None);
        let plain = ptx("text", None);
        assert_eq!(run(&plain, "sm_90"), made("1"));
        assert_eq!(run(&plain, "sm_90"), made("1"), "from the cache");
        assert_eq!(run(&plain, "sm_80"), made("2"));
        assert_eq!(run(&ptx("other", None), "sm_90"), made("3"));
        assert_eq!(run(&ptx("text", Some(1)), "sm_90"), made("4"));
        // Damaged: made again, and said so.
        let path = cache.folder().unwrap().join(Kind::MachineCode.file(&key(&ptxas, &plain, "sm_90")));
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&path, bytes).unwrap();
        let (code, trouble) = run(&plain, "sm_90");
        assert_eq!(code.unwrap(), b"5\n");
        assert!(trouble.unwrap().contains("is damaged"));
        assert_eq!(run(&plain, "sm_90"), made("5"));
        assert_eq!(run(&plain, "sm_1"), (None, Some("ptxas does not assemble `e` for sm_1: too old".into())));
        // Another assembler in its place.
        fs::write(&ptxas, fs::read_to_string(&ptxas).unwrap() + "\n").unwrap();
        assert_eq!(run(&plain, "sm_90"), made("6"));
    }
}

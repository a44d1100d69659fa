//! Programs of the CUDA toolkit, where there are any.

use crate::error::Error;
use backend_ptx::Ptx;
use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// A program of the toolkit: the file that `TILEWRIGHT_` and its name say, else in the folders of `CUDA_HOME` and
/// `CUDA_PATH`, in the search path, in `/usr/local/cuda`.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    find_by(name, |variable| env::var_os(variable).map(PathBuf::from))
}

fn find_by(name: &str, variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let named =
        variable(&format!("TILEWRIGHT_{}", name.to_uppercase())).filter(|p| !p.as_os_str().is_empty());
    if let Some(path) = named {
        return path.is_file().then_some(path);
    }
    let toolkits = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(&variable).map(|d| d.join("bin"));
    let path = variable("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = toolkits.chain(env::split_paths(&path)).collect();
    folders.push("/usr/local/cuda/bin".into());
    let file = format!("{name}{}", env::consts::EXE_SUFFIX);
    folders.into_iter().map(|d| d.join(&file)).find(|p| p.is_file())
}

/// Machine code of a kernel for an architecture.
///
/// # Errors
/// [`Error::Assembler`] with what it said.
pub(crate) fn assemble(ptxas: &Path, ptx: &Ptx, architecture: &str) -> Result<Vec<u8>, Error> {
    let failed =
        |what: String| Error::Assembler { entry: ptx.entry.clone(), architecture: architecture.into(), what };
    let folder = tempfile::tempdir().map_err(|e| failed(e.to_string()))?;
    let (text, code) = (folder.path().join("kernel.ptx"), folder.path().join("kernel.cubin"));
    std::fs::write(&text, &ptx.text).map_err(|e| failed(e.to_string()))?;
    let mut command = Command::new(ptxas);
    command.arg(format!("-arch={architecture}")).arg("-o").arg(&code).arg(&text);
    if let Some(level) = ptx.assemble {
        command.arg(format!("-O{level}"));
    }
    let output = command.output().map_err(|e| failed(e.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().into()));
    }
    std::fs::read(&code).map_err(|e| failed(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_looked_for() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("ptxas");
        std::fs::write(&program, "").unwrap();
        let path = |name: &str| (name == "PATH").then(|| folder.path().to_path_buf());
        assert_eq!(find_by("ptxas", path), Some(program.clone()));
        assert_eq!(find_by("no-such-program", path), None);
        let named = |name: &str| (name == "TILEWRIGHT_PTXAS").then(|| program.clone());
        assert_eq!(find_by("ptxas", named), Some(program.clone()));
        let wrong = |name: &str| if name == "TILEWRIGHT_PTXAS" { Some("/none".into()) } else { path(name) };
        assert_eq!(find_by("ptxas", wrong), None, "what was named is not replaced by another");
    }

    /// Stands in for the assembler: writes its arguments, or refuses.
    #[test]
    #[cfg(unix)]
    fn the_assembler_is_run_and_heard() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (text, program) = (folder.path().join("text"), folder.path().join("ptxas"));
        std::fs::write(
            &text,
            "#!/bin/sh\n[ $1 = -arch=sm_90 ] || { echo no such arch >&2; exit 1; }\necho $1 $5 > $3\n",
        )
        .unwrap();
        std::fs::set_permissions(&text, std::fs::Permissions::from_mode(0o755)).unwrap();
        // Another process writes what is run: a file open for writing here would be inherited by what the tests beside
        // this one start, and the system runs no file that is open for writing.
        assert!(Command::new("cp").args([&text, &program]).status().unwrap().success());
        let ptx = Ptx {
            text: "t".into(),
            entry: "e".into(),
            assemble: Some(1),
            threads: 1,
            static_shared: 0,
            dynamic_shared: 0,
        };
        assert_eq!(assemble(&program, &ptx, "sm_90").unwrap(), b"-arch=sm_90 -O1\n");
        assert_eq!(
            assemble(&program, &ptx, "sm_80").unwrap_err().to_string(),
            "ptxas does not assemble `e` for sm_80: no such arch"
        );
    }
}

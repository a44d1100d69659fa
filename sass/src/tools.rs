//! NVIDIA's assembler and disassembler, where they are found.

use crate::{
    listing::Listing,
    resources::{PtxasLog, Resources},
};
use std::{
    env,
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
    process::Command,
};

/// Why there is no machine code.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tool is not installed, or not where it is looked for.
    ///
    /// What to do: install the CUDA toolkit or the wheel, and name the tool in the variable.
    #[error(
        "`{tool}` was not found in {variable}, CUDA_HOME, CUDA_PATH, PATH or /usr/local/cuda: install the CUDA toolkit, or NVIDIA's wheel (`pip install {wheel}`) and name its {tool} in {variable}"
    )]
    NotFound {
        /// The tool.
        tool: &'static str,
        /// The environment variable that names it.
        variable: &'static str,
        /// A package that has it.
        wheel: &'static str,
    },
    /// A tool did not start, or a file between them could not be written.
    ///
    /// What to do: read what was attempted, and whether the folder for temporary files can be written.
    #[error("{what}: {source}")]
    Io {
        /// What was attempted.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// A tool refused its input.
    ///
    /// What to do: read the log. A tool that is too old for the PTX or the architecture says so there.
    #[error("`{tool}` failed:\n{log}")]
    Failed {
        /// The tool.
        tool: &'static str,
        /// What it said.
        log: String,
    },
    /// PTX without a `.target` line, and no architecture given.
    ///
    /// What to do: give `Options::arch`, or PTX with a `.target` line.
    #[error("the PTX names no .target, and no architecture was given")]
    NoTarget,
}

struct Tool {
    name: &'static str,
    variable: &'static str,
    wheel: &'static str,
}

const PTXAS: Tool = Tool { name: "ptxas", variable: "TILEWRIGHT_PTXAS", wheel: "nvidia-cuda-nvcc" };
const NVDISASM: Tool =
    Tool { name: "nvdisasm", variable: "TILEWRIGHT_NVDISASM", wheel: "nvidia-cuda-nvdisasm" };

impl Tool {
    /// The tool's own variable, then the toolkit's folders, then the search path.
    fn find(&self, variable: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf, Error> {
        let missing = || Error::NotFound { tool: self.name, variable: self.variable, wheel: self.wheel };
        if let Some(path) = variable(self.variable) {
            return if path.is_file() { Ok(path) } else { Err(missing()) };
        }
        let toolkits = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(&variable).map(|d| d.join("bin"));
        let path = variable("PATH").unwrap_or_default();
        let mut folders: Vec<PathBuf> = toolkits.chain(env::split_paths(&path)).collect();
        folders.push("/usr/local/cuda/bin".into());
        let name = format!("{}{}", self.name, env::consts::EXE_SUFFIX);
        folders.into_iter().map(|d| d.join(&name)).find(|p| p.is_file()).ok_or_else(missing)
    }
}

/// `ptxas` and `nvdisasm`.
#[derive(Clone, Debug)]
pub struct Tools {
    ptxas: PathBuf,
    nvdisasm: PathBuf,
}

/// How to assemble.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Architecture, such as `sm_90`; by default, the PTX's own target.
    pub arch: Option<String>,
    /// Optimisation level of `ptxas`, 0 to 3; by default, what the first line of the PTX asks for (`// ptxas -O1`), else
    /// `ptxas`' own.
    pub level: Option<u8>,
}

/// Machine code.
#[derive(Clone, Debug)]
pub struct Assembly {
    /// Architecture it is for.
    pub arch: String,
    /// What `ptxas -v` said.
    pub log: PtxasLog,
    /// What `nvdisasm` printed.
    pub sass: String,
}

impl Tools {
    /// Looks for both: each in the file that its variable names (`TILEWRIGHT_PTXAS`, `TILEWRIGHT_NVDISASM`), then in the
    /// toolkit of `CUDA_HOME` or `CUDA_PATH`, in `PATH`, and in `/usr/local/cuda`.
    ///
    /// # Errors
    /// [`Error::NotFound`] says what to install.
    pub fn find() -> Result<Self, Error> {
        let variable = |name: &str| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        Ok(Tools { ptxas: PTXAS.find(variable)?, nvdisasm: NVDISASM.find(variable)? })
    }

    /// Assembles and disassembles one module.
    ///
    /// # Errors
    /// [`Error::Failed`] with what the tool said.
    pub fn assemble(&self, ptx: &str, options: &Options) -> Result<Assembly, Error> {
        let arch = options.arch.as_deref().or_else(|| target(ptx)).ok_or(Error::NoTarget)?;
        let folder = tempfile::tempdir().map_err(|e| io_error("creating a temporary folder", e))?;
        let (text, cubin) = (folder.path().join("kernel.ptx"), folder.path().join("kernel.cubin"));
        std::fs::write(&text, ptx).map_err(|e| io_error("writing the PTX", e))?;
        let level = options.level.or_else(|| level(ptx)).map(|level| format!("-O{level}"));
        let arch_option = format!("-arch={arch}");
        let mut arguments: Vec<&OsStr> =
            vec![arch_option.as_ref(), "-v".as_ref(), "-o".as_ref(), cubin.as_ref()];
        arguments.extend(level.as_deref().map(OsStr::new));
        arguments.push(text.as_ref());
        let (_, log) = run("ptxas", &self.ptxas, &arguments)?;
        let (sass, _) = run("nvdisasm", &self.nvdisasm, &["-c".as_ref(), cubin.as_ref()])?;
        Ok(Assembly { arch: arch.into(), log: PtxasLog::parse(&log), sass })
    }
}

impl Assembly {
    /// The resource report, for CTAs of so many threads that get `dynamic_shared` bytes at launch.
    pub fn resources(&self, threads: u32, dynamic_shared: u32) -> Resources {
        let hot = Listing::parse(&self.sass).hot_loop();
        Resources::new(&self.arch, &self.log, hot, threads, dynamic_shared)
    }
}

/// The architecture that PTX was made for.
fn target(ptx: &str) -> Option<&str> {
    let names = ptx.lines().find_map(|line| line.trim().strip_prefix(".target"))?;
    names.split(',').map(str::trim).find(|name| name.starts_with("sm_"))
}

/// The level that PTX asks for in a comment on its first line; `ptxas` has none above 3.
fn level(ptx: &str) -> Option<u8> {
    let level: u8 = ptx.lines().next()?.trim().strip_prefix("// ptxas -O")?.parse().ok()?;
    Some(level.min(3))
}

/// Standard output and standard error of a tool that succeeds.
fn run(name: &'static str, path: &Path, arguments: &[&OsStr]) -> Result<(String, String), Error> {
    let output = Command::new(path)
        .args(arguments)
        .output()
        .map_err(|e| io_error(&format!("starting {}", path.display()), e))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok((text(&output.stdout), text(&output.stderr)))
    } else {
        Err(Error::Failed { tool: name, log: text(&output.stderr) })
    }
}

fn io_error(what: &str, source: io::Error) -> Error {
    Error::Io { what: what.into(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn find(variables: &[(&str, &Path)]) -> Result<PathBuf, Error> {
        let known: HashMap<_, _> = variables.iter().map(|(n, p)| (n.to_string(), p.to_path_buf())).collect();
        PTXAS.find(|name| known.get(name).cloned())
    }

    #[test]
    fn the_tools_own_variable_comes_first_then_the_toolkit_then_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let place = |sub: &str| {
            let folder = folder.path().join(sub);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("ptxas"), "").unwrap();
            folder.join("ptxas")
        };
        let (own, toolkit, path) = (place("own"), place("cuda/bin"), place("path"));
        let (cuda, search) = (folder.path().join("cuda"), path.parent().unwrap());
        let all = [("TILEWRIGHT_PTXAS", own.as_path()), ("CUDA_HOME", &cuda), ("PATH", search)];
        assert_eq!(find(&all).unwrap(), own);
        assert_eq!(find(&all[1..]).unwrap(), toolkit);
        assert_eq!(find(&all[2..]).unwrap(), path);
    }

    #[test]
    fn a_missing_tool_says_what_to_install() {
        let error = find(&[("TILEWRIGHT_PTXAS", Path::new("/nowhere/ptxas"))]).unwrap_err().to_string();
        for part in
            ["`ptxas` was not found", "TILEWRIGHT_PTXAS", "pip install nvidia-cuda-nvcc", "CUDA toolkit"]
        {
            assert!(error.contains(part), "{part}: {error}");
        }
    }

    #[test]
    fn the_target_is_read_from_the_ptx() {
        assert_eq!(target(".version 8.0\n.target sm_90a, debug\n"), Some("sm_90a"));
        assert_eq!(target("// nothing"), None);
    }

    #[test]
    fn the_level_is_read_from_the_first_line() {
        assert_eq!(level("// ptxas -O1\n.version 8.0\n"), Some(1));
        assert_eq!(level("// ptxas -O4\n"), Some(3), "the driver has one level more");
        assert_eq!(level("//\n// ptxas -O1\n"), None);
        assert_eq!(level("// ptxas -Ofast"), None);
    }
}

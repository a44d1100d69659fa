//! What this machine has of what tilewright can use, which features work with it, and what is missing for the rest.

use crate::{
    cache::{self, PtxCache},
    collective, compile,
    device::Device,
    error::Error,
    gpu::GpuInfo,
    toolkit,
};
use libloading::Library;
use std::{
    fmt,
    path::{Path, PathBuf},
};

/// What was found.
#[derive(Clone, Debug)]
pub struct Findings {
    /// LLVM 22: whether a kernel was compiled, or why not.
    pub llvm: Result<&'static str, String>,
    /// Newest CUDA version that the driver speaks, or why there is no driver.
    pub driver: Result<(u32, u32), String>,
    /// GPUs by ordinal: what each is, or why it cannot be opened.
    pub gpus: Vec<Result<GpuInfo, String>>,
    /// NVIDIA's assembler, which makes machine code ahead of time.
    pub ptxas: Option<PathBuf>,
    /// The file name under which cuBLAS was loaded.
    pub cublas: Option<String>,
    /// The file name under which NCCL was loaded.
    pub nccl: Option<String>,
    /// Whether this build has the feature `nccl`.
    pub nccl_feature: bool,
    /// The folder of compiled kernels with what is in it, or what is wrong with it; `None` when it is off.
    pub cache: Option<(PathBuf, Result<Cached, String>)>,
}

/// Files in the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cached {
    /// Compiled kernels, as PTX.
    pub kernels: usize,
    /// Machine code of kernels.
    pub machine_code: usize,
    /// What tuners found.
    pub tuned: usize,
    /// Bytes of all files.
    pub bytes: u64,
}

/// A feature, and whether it works here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// What one can do.
    pub name: &'static str,
    /// What is missing and how to get it; empty when the feature works.
    pub missing: Vec<String>,
}

const DRIVER: &str = "NVIDIA's driver (libcuda.so.1), with a GPU";

impl Findings {
    /// Looks at this machine: loads libraries, opens GPUs, compiles an empty kernel. Writes nothing.
    pub fn examine() -> Self {
        let mut driver = Err("libcuda.so.1 was not found".to_string());
        let mut gpus = Vec::new();
        match Device::all() {
            Ok(devices) => {
                gpus = devices.iter().filter_map(|d| d.gpu().transpose()).map(text).collect();
                if let Some(Ok(gpu)) = gpus.first() {
                    driver = Ok(gpu.cuda_version);
                } else if crate::device::driver_present() {
                    driver = Err("libcuda.so.1 is there, and it finds no GPU".into());
                }
            }
            Err(e) => driver = Err(e.to_string()),
        }
        let cache = PtxCache::from_env();
        Findings {
            llvm: compile::trial().map_err(|e| e.to_string()),
            driver,
            gpus,
            ptxas: toolkit::find("ptxas"),
            cublas: load(&["libcublas.so", "libcublas.so.12", "libcublas.so.13"]),
            nccl: load(collective::NCCL),
            nccl_feature: cfg!(feature = "nccl"),
            cache: cache.folder().map(|folder| (folder.to_path_buf(), contents(folder))),
        }
    }

    /// The features, with what each still needs.
    pub fn features(&self) -> Vec<Feature> {
        let llvm = self.llvm.is_err().then(|| {
            "LLVM 22 and the feature `jit` (`./setup.sh`), or linked in: `static-llvm` (`./setup.sh --static`)".into()
        });
        let working = self.gpus.iter().filter(|g| g.is_ok()).count();
        let gpu = (working == 0).then(|| DRIVER.to_string());
        let second = (working < 2).then(|| "a second GPU".to_string());
        let ptxas = self.ptxas.is_none().then(|| {
            "ptxas, of the CUDA toolkit or the wheel nvidia-cuda-nvcc; name it in TILEWRIGHT_PTXAS"
                .to_string()
        });
        let library = |found: &Option<String>, what: &str| {
            found.is_none().then(|| format!("{what}; name its folder in LD_LIBRARY_PATH"))
        };
        let cublas =
            library(&self.cublas, "libcublas.so.12, of the CUDA toolkit or the wheel nvidia-cublas-cu12");
        let nccl = library(&self.nccl, "libnccl.so.2, of NVIDIA's packages or the wheel nvidia-nccl-cu12");
        let nccl_feature = (!self.nccl_feature).then(|| "the feature `nccl` of tilewright".to_string());
        let cache = match &self.cache {
            None => Some("TILEWRIGHT_CACHE_DIR is empty: unset it, or name a folder".into()),
            Some((folder, Err(why))) => {
                Some(format!("a folder that can be written: {}: {why}", folder.display()))
            }
            Some((_, Ok(_))) => None,
        };
        let feature = |name, missing: &[&Option<String>]| Feature {
            name,
            missing: missing.iter().filter_map(|m| (*m).clone()).collect(),
        };
        vec![
            feature("kernels on the simulator", &[]),
            feature("compiling kernels when they are launched", &[&llvm]),
            feature("compiled kernels kept on disk", &[&cache]),
            feature("kernels on a GPU", &[&gpu]),
            feature("machine code ahead of time", &[&llvm, &ptxas]),
            feature("comparisons with cuBLAS", &[&gpu, &cublas]),
            feature("collectives between GPUs", &[&gpu, &second, &nccl_feature, &nccl]),
        ]
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |f: &mut fmt::Formatter<'_>, name: &str, what: &str| writeln!(f, "  {name:<8} {what}");
        writeln!(f, "tilewright {}", env!("CARGO_PKG_VERSION"))?;
        row(f, "LLVM", self.llvm.as_deref().unwrap_or_else(|missing| missing))?;
        match &self.driver {
            Ok((major, minor)) => row(f, "driver", &format!("CUDA {major}.{minor}"))?,
            Err(why) => row(f, "driver", why)?,
        }
        for (n, gpu) in self.gpus.iter().enumerate() {
            let text = match gpu {
                Ok(gpu) => format!(
                    "{}, sm_{}, {} multiprocessors, {}",
                    gpu.name, gpu.sm, gpu.multiprocessors, gpu.pci_bus_id
                ),
                Err(why) => why.clone(),
            };
            row(f, &format!("GPU {n}"), &text)?;
        }
        let found = |what: &Option<String>| what.clone().unwrap_or_else(|| "not found".into());
        row(f, "ptxas", &found(&self.ptxas.as_ref().map(|p| p.display().to_string())))?;
        row(f, "cuBLAS", &found(&self.cublas))?;
        row(f, "NCCL", &found(&self.nccl))?;
        let cache = match &self.cache {
            None => "off".into(),
            Some((folder, Ok(Cached { kernels, machine_code, tuned, bytes }))) => format!(
                "{}: {kernels} kernels, machine code of {machine_code}, {tuned} tuned, {} KiB",
                folder.display(),
                bytes.div_ceil(1024)
            ),
            Some((folder, Err(why))) => format!("{}: {why}", folder.display()),
        };
        row(f, "cache", &cache)?;
        writeln!(f, "\nWhat works:")?;
        for feature in self.features() {
            match &feature.missing[..] {
                [] => writeln!(f, "  yes  {}", feature.name)?,
                missing => {
                    writeln!(f, "  no   {}; it needs", feature.name)?;
                    missing.iter().try_for_each(|what| writeln!(f, "         {what}"))?;
                }
            }
        }
        Ok(())
    }
}

fn text<T>(result: Result<T, Error>) -> Result<T, String> {
    result.map_err(|e| e.to_string())
}

/// The first of these libraries that can be loaded.
fn load(names: &[&str]) -> Option<String> {
    // SAFETY: NVIDIA's libraries have no initialisers that rely on anything here.
    names.iter().find(|name| unsafe { Library::new(**name) }.is_ok()).map(|name| name.to_string())
}

/// What is in a folder, which need not be there yet.
fn contents(folder: &Path) -> Result<Cached, String> {
    let entries = match std::fs::read_dir(folder) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Cached::default()),
        entries => entries.map_err(|e| e.to_string())?,
    };
    let mut total = Cached::default();
    for entry in entries {
        let entry = entry.map_err(|e| e.to_string())?;
        total.bytes += entry.metadata().map_err(|e| e.to_string())?.len();
        match cache::Kind::of(&entry.file_name().to_string_lossy()) {
            Some(cache::Kind::Kernel) => total.kernels += 1,
            Some(cache::Kind::MachineCode) => total.machine_code += 1,
            Some(cache::Kind::Tuned) => total.tuned += 1,
            None => {}
        }
    }
    match std::fs::metadata(folder).map(|m| m.permissions().readonly()) {
        Ok(true) => Err("it cannot be written".into()),
        Ok(false) => Ok(total),
        Err(e) => Err(e.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Key;

    fn nothing() -> Findings {
        Findings {
            llvm: Err("no LLVM".into()),
            driver: Err("libcuda.so.1 was not found".into()),
            gpus: vec![],
            ptxas: None,
            cublas: None,
            nccl: None,
            nccl_feature: false,
            cache: None,
        }
    }

    fn everything() -> Findings {
        let gpu = GpuInfo {
            name: "NVIDIA H200".into(),
            sm: 90,
            multiprocessors: 132,
            l2_bytes: 50 << 20,
            max_clock_mhz: 1980.0,
            memory_gbps: 4917.0,
            cuda_version: (12, 8),
            pci_bus_id: "0000:3B:00.0".into(),
        };
        Findings {
            llvm: Ok("22.1"),
            driver: Ok((12, 8)),
            gpus: vec![Ok(gpu.clone()), Ok(gpu)],
            ptxas: Some("/cuda/bin/ptxas".into()),
            cublas: Some("libcublas.so.12".into()),
            nccl: Some("libnccl.so.2".into()),
            nccl_feature: true,
            cache: Some(("/cache".into(), Ok(Cached { kernels: 3, machine_code: 2, tuned: 1, bytes: 5000 }))),
        }
    }

    #[test]
    fn a_machine_with_everything() {
        assert_eq!(
            everything().to_string(),
            format!(
                "tilewright {}
  LLVM     22.1
  driver   CUDA 12.8
  GPU 0    NVIDIA H200, sm_90, 132 multiprocessors, 0000:3B:00.0
  GPU 1    NVIDIA H200, sm_90, 132 multiprocessors, 0000:3B:00.0
  ptxas    /cuda/bin/ptxas
  cuBLAS   libcublas.so.12
  NCCL     libnccl.so.2
  cache    /cache: 3 kernels, machine code of 2, 1 tuned, 5 KiB

What works:
  yes  kernels on the simulator
  yes  compiling kernels when they are launched
  yes  compiled kernels kept on disk
  yes  kernels on a GPU
  yes  machine code ahead of time
  yes  comparisons with cuBLAS
  yes  collectives between GPUs
",
                env!("CARGO_PKG_VERSION")
            )
        );
    }

    #[test]
    fn a_machine_with_nothing_is_told_what_to_install() {
        let features = nothing().features();
        assert_eq!(
            features.iter().filter(|f| f.missing.is_empty()).count(),
            1,
            "the simulator needs nothing"
        );
        let text = nothing().to_string();
        for part in [
            "  LLVM     no LLVM\n",
            "  driver   libcuda.so.1 was not found\n",
            "  cache    off\n",
            "  no   kernels on a GPU; it needs\n         NVIDIA's driver (libcuda.so.1), with a GPU\n",
            "`static-llvm` (`./setup.sh --static`)",
            "name it in TILEWRIGHT_PTXAS",
            "a second GPU\n",
            "the feature `nccl` of tilewright\n",
            "libnccl.so.2, of NVIDIA's packages",
            "libcublas.so.12, of the CUDA toolkit",
            "TILEWRIGHT_CACHE_DIR is empty",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn each_feature_needs_what_it_says() {
        let missing = |change: fn(&mut Findings)| {
            let mut findings = everything();
            change(&mut findings);
            findings
                .features()
                .into_iter()
                .filter(|f| !f.missing.is_empty())
                .map(|f| f.name)
                .collect::<Vec<_>>()
        };
        assert_eq!(missing(|f| f.ptxas = None), ["machine code ahead of time"]);
        assert_eq!(
            missing(|f| f.llvm = Err("no".into())),
            ["compiling kernels when they are launched", "machine code ahead of time"]
        );
        assert_eq!(missing(|f| f.gpus.truncate(1)), ["collectives between GPUs"]);
        assert_eq!(
            missing(|f| f.gpus = vec![Err("broken".into())]),
            ["kernels on a GPU", "comparisons with cuBLAS", "collectives between GPUs"]
        );
        assert_eq!(missing(|f| f.nccl = None), ["collectives between GPUs"]);
        assert_eq!(missing(|f| f.nccl_feature = false), ["collectives between GPUs"]);
        assert_eq!(missing(|f| f.cublas = None), ["comparisons with cuBLAS"]);
    }

    #[test]
    fn folders_are_looked_into() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(contents(&folder.path().join("none")), Ok(Cached::default()));
        std::fs::write(folder.path().join("a"), [0; 70]).unwrap();
        assert_eq!(
            contents(folder.path()),
            Ok(Cached { bytes: 70, ..Cached::default() }),
            "not of the cache"
        );
        let names = ["", ".cubin", ".tuned", ".other"].map(|kind| format!("{}{kind}", Key([0xa7; 32])));
        names.iter().for_each(|name| std::fs::write(folder.path().join(name), [0; 100]).unwrap());
        let found = Cached { kernels: 1, machine_code: 1, tuned: 1, bytes: 470 };
        assert_eq!(contents(folder.path()), Ok(found));
        assert!(contents(&folder.path().join("a")).is_err());
    }

    #[test]
    fn this_machine_is_examined() {
        let findings = Findings::examine();
        assert_eq!(findings.llvm.is_ok(), backend_ptx::can_compile(), "{:?}", findings.llvm);
        assert_eq!(findings.nccl_feature, cfg!(feature = "nccl"));
        assert_eq!(findings.driver.is_ok(), Device::cuda(0).is_ok());
        assert!(findings.to_string().contains("\n  yes  kernels on the simulator\n"));
    }
}

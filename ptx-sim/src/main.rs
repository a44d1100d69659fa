//! `ptx-sim`: runs and checks PTX files without a GPU.
//!
//! Exit status: 0 clean, 1 with findings (or, of `compare`, a difference), 2 if the file, the arguments or the launch are
//! refused.

// `cli::gpu`, which calls the CUDA driver, alone lifts this.
#![deny(unsafe_code)]

mod cli;

use clap::{Parser, Subcommand};
use cli::output::{self, SCHEMA};
use cli::plan::{ARGUMENTS, Plan};
use ptx_sim::{AsyncMode, Launch, LaunchError, Memory, Module, ParseError, launch};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "ptx-sim", about = "Runs PTX on the CPU and reports counters and findings", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Launch one kernel.
    #[command(after_help = ARGUMENTS)]
    Run(Box<Run>),
    /// Parse and decode only: is every instruction of every kernel known?
    Check {
        /// PTX files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// One JSON object a file; an error has its line and column.
        #[arg(long)]
        json: bool,
    },
    /// Launch one kernel on a GPU and here, and report the first element of a buffer in which they differ.
    #[cfg(feature = "cuda")]
    #[command(after_help = ARGUMENTS)]
    Compare(Box<cli::compare::Compare>),
}

/// What is launched, and on what.
#[derive(clap::Args)]
pub(crate) struct Shape {
    /// PTX file.
    pub(crate) file: PathBuf,
    /// Kernel, by its name or a part of it (mangled or not); may be left out if the file has one.
    #[arg(long)]
    pub(crate) kernel: Option<String>,
    /// CTAs: X, X,Y or X,Y,Z.
    #[arg(long, default_value = "1", value_parser = dims)]
    pub(crate) grid: [u32; 3],
    /// Threads of a CTA.
    #[arg(long, default_value = "32", value_parser = dims)]
    pub(crate) block: [u32; 3],
    /// CTAs of a cluster.
    #[arg(long, value_parser = dims)]
    pub(crate) cluster: Option<[u32; 3]>,
    /// Bytes of dynamic shared memory.
    #[arg(long, default_value_t = 0)]
    pub(crate) shared: u32,
    /// A parameter, in order (see below).
    #[arg(long = "arg", value_name = "ARGUMENT", allow_hyphen_values = true)]
    pub(crate) args: Vec<String>,
    /// A buffer that is no parameter itself: NAME:SIZE[:FILL].
    #[arg(long)]
    pub(crate) buffer: Vec<String>,
    /// Contents of a `.const` or `.global` variable of the module: VARIABLE:SIZE:FILL, as c_taps:17xf32:random.
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) set: Vec<String>,
    /// Seed of random contents.
    #[arg(long, default_value_t = 0)]
    pub(crate) data_seed: u64,
    /// Seed of the warp schedule; 0 is round robin, and then a shuffled one is tried on a copy of the memory too.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Let asynchronous copies take effect at issue instead of at the last legal moment.
    #[arg(long)]
    pub(crate) early: bool,
    /// Accept that bulk copies signal an mbarrier with only a CTA barrier, and no fence, after its initialisation.
    #[arg(long)]
    pub(crate) no_barrier_init_fence: bool,
    /// The launch may begin before earlier grids have ended: global memory waits for `griddepcontrol.wait`.
    #[arg(long)]
    pub(crate) dependent: bool,
    /// Look for no races.
    #[arg(long)]
    pub(crate) no_race: bool,
    /// Look for no reads of uninitialised shared memory.
    #[arg(long)]
    pub(crate) no_uninit: bool,
    /// Warp instructions after which a CTA is stopped, with a finding.
    #[arg(long, value_name = "COUNT", default_value_t = Launch::default().max_instructions)]
    pub(crate) max_instructions: u64,
    /// Number of SMs.
    #[arg(long, default_value_t = 132)]
    pub(crate) sms: u32,
    /// Print the report, or why there is none, as one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(clap::Args)]
struct Run {
    #[command(flatten)]
    shape: Shape,
    /// Print elements of a buffer or variable after the run: NAME[+BYTES][:COUNT][:TYPE].
    #[arg(long)]
    dump: Vec<String>,
    /// Write a buffer or variable to a file after the run, .npy or raw: NAME[:TYPE]:FILE.
    #[arg(long)]
    save: Vec<String>,
    /// Print every finding, not one of each kind and line of the source.
    #[arg(long)]
    all_findings: bool,
}

fn dims(s: &str) -> Result<[u32; 3], String> {
    let mut d = [1; 3];
    let parts: Vec<&str> = s.split(',').collect();
    if parts.len() > 3 {
        return Err("expected X, X,Y or X,Y,Z".into());
    }
    for (d, p) in d.iter_mut().zip(parts) {
        *d = p.trim().parse().map_err(|_| format!("`{p}` is not a number: expected X, X,Y or X,Y,Z"))?;
    }
    Ok(d)
}

/// Why nothing was run.
#[derive(thiserror::Error, Debug)]
pub(crate) enum Refusal {
    /// The file cannot be read.
    #[error("{0}: {1}")]
    Unreadable(String, std::io::Error),
    /// The file is not PTX.
    #[error("{0}: {1}")]
    Malformed(String, ParseError),
    #[error("{0}")]
    Arguments(String),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "only a GPU makes it"))]
    #[error("{0}")]
    Gpu(String),
}

impl From<String> for Refusal {
    fn from(text: String) -> Self {
        Refusal::Arguments(text)
    }
}

impl Refusal {
    fn json(&self) -> Value {
        let (kind, place) = match self {
            Refusal::Unreadable(..) => ("file", None),
            Refusal::Malformed(_, e) => ("ptx", Some(e)),
            Refusal::Launch(LaunchError::Refused { error, .. }) => ("ptx", Some(error)),
            Refusal::Arguments(_) => ("arguments", None),
            Refusal::Launch(_) => ("launch", None),
            Refusal::Gpu(_) => ("gpu", None),
        };
        let mut error = json!({ "kind": kind, "message": self.to_string() });
        if let Some(e) = place {
            error["line"] = json!(e.line);
            error["column"] = json!(e.column);
        }
        json!({ "schema": SCHEMA, "error": error })
    }
}

fn load(path: &Path) -> Result<(String, Module), Refusal> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|e| Refusal::Unreadable(name.clone(), e))?;
    let module = Module::parse(&text).map_err(|e| Refusal::Malformed(name, e))?;
    Ok((text, module))
}

impl Shape {
    /// The text, the module, and the kernel's full name.
    pub(crate) fn load(&self) -> Result<(String, Module, String), Refusal> {
        let (text, module) = load(&self.file)?;
        let part = self.kernel.as_deref().unwrap_or("");
        let found = module.find_kernels(part);
        let shown = |list: &mut dyn Iterator<Item = &ptx_sim::KernelInfo>| {
            let names: Vec<String> = list
                .take(20)
                .map(|k| match k.name == k.demangled {
                    true => format!("\n  {}", k.name),
                    false => format!("\n  {}  {}", k.name, k.demangled),
                })
                .collect();
            names.concat()
        };
        let name = match found[..] {
            [one] => one.name.clone(),
            [] if module.kernels().next().is_none() => {
                return Err(format!("{} has no kernel", self.file.display()).into());
            }
            [] => {
                return Err(
                    format!("no kernel's name contains `{part}`:{}", shown(&mut module.kernels())).into()
                );
            }
            _ => {
                let list = shown(&mut found.iter().copied());
                return Err(format!("choose one of {} with --kernel:{list}", found.len()).into());
            }
        };
        Ok((text, module, name))
    }

    pub(crate) fn plan(&self) -> Result<Plan, Refusal> {
        Ok(Plan::new(&self.buffer, &self.args, &self.set, self.data_seed)?)
    }

    pub(crate) fn launch(&self, kernel: &str, params: Vec<Vec<u8>>) -> Launch<'static> {
        Launch {
            kernel: kernel.to_string(),
            grid: self.grid,
            block: self.block,
            cluster: self.cluster,
            dynamic_shared: self.shared,
            params,
            sm_count: self.sms,
            seed: self.seed,
            second_seed: (self.seed == 0).then_some(1),
            barrier_init_fence: !self.no_barrier_init_fence,
            dependent: self.dependent,
            race_check: !self.no_race,
            uninit_check: !self.no_uninit,
            max_instructions: self.max_instructions,
            async_mode: if self.early { AsyncMode::Early } else { AsyncMode::Late },
            ..Launch::default()
        }
    }
}

fn run(r: &Run) -> Result<bool, Refusal> {
    let (_, module, kernel) = r.shape.load()?;
    let plan = r.shape.plan()?;
    let mut memory = Memory::new();
    let (addresses, params) = plan.place_all(&module, &mut memory)?;
    let report = launch(&module, &mut memory, &r.shape.launch(&kernel, params))?;
    let mut dumps = vec![];
    for d in &r.dump {
        dumps.push(output::dump(&module, &mut memory, &plan, &addresses, d, false)?);
    }
    for s in &r.save {
        output::save(&module, &mut memory, &plan, &addresses, s)?;
    }
    if r.shape.json {
        println!("{}", output::report_json(&kernel, &report, &dumps));
    } else {
        output::print(&report, r.all_findings);
        dumps.iter().for_each(|d| println!("{}", d.text()));
    }
    Ok(report.is_clean())
}

fn check(files: &[PathBuf], json: bool) -> bool {
    let mut ok = true;
    for f in files {
        let result = load(f).and_then(|(_, m)| match m.kernels().count() {
            0 => Err(format!("{}: the file has no kernel", f.display()).into()),
            _ => Ok(m),
        });
        ok &= result.as_ref().is_ok_and(|m| m.check().is_ok());
        if json {
            let mut object = result.as_ref().err().map_or_else(|| json!({ "schema": SCHEMA }), Refusal::json);
            object["file"] = json!(f.display().to_string());
            object["kernels"] = result.as_ref().map_or(json!([]), |m| {
                m.kernels()
                    .map(|k| {
                        let mut v = json!(k);
                        v["error"] = json!(m.refusal(&k.name));
                        v
                    })
                    .collect()
            });
            println!("{object}");
            continue;
        }
        match &result {
            Ok(m) => {
                let refused = m.kernels().filter(|k| m.refusal(&k.name).is_some()).count();
                let note = if refused > 0 { format!(", {refused} of them refused") } else { String::new() };
                println!("{}: {} kernels{note}", f.display(), m.kernels().count());
                for k in m.kernels() {
                    if let Some(e) = m.refusal(&k.name) {
                        println!("  {}: {e}", k.demangled);
                    }
                }
            }
            Err(e) => println!("{e}"),
        }
    }
    ok
}

/// Ends with what was found, or says why nothing was run.
fn finish(result: Result<bool, Refusal>, json: bool) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(e) => {
            if json {
                println!("{}", e.json());
            } else {
                eprintln!("error: {e}");
            }
            ExitCode::from(2)
        }
    }
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Check { files, json } => ExitCode::from(if check(&files, json) { 0 } else { 2 }),
        Command::Run(r) => finish(run(&r), r.shape.json),
        #[cfg(feature = "cuda")]
        Command::Compare(c) => finish(cli::compare::compare(&c), c.shape.json),
    }
}

//! `tile-fuzz`: random programs under random schedules on every executor.

use clap::{Parser, Subcommand, ValueEnum};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};
use tile_dsl::{lower::Given, program::Variant};
use tile_fuzz::{
    case::Case,
    check::{self, check},
    digest, export, impossible,
    make::{Id, make},
    outcome::Outcome,
    replay::{
        self,
        worker::{Planted, Share, worker},
    },
    run::{MOST_STATEMENTS, Options, cover, run},
    survey::survey,
    wish::Wish,
};
use tile_runtime::{Device, Stage, emit_given};

/// Random tile programs under random legal schedules: evaluator, nest interpreter and simulator must agree.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    fuzz: Fuzz,
}

#[derive(clap::Args)]
struct Fuzz {
    /// Equal seeds give equal programs, schedules, sizes and contents
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Kernels that multiply matrices alone: tensor cores, tensor maps, roles
    #[arg(long)]
    products: bool,
    /// Kernels; as many as fit into --seconds when left out
    #[arg(long)]
    programs: Option<u64>,
    /// Stop after so many seconds [default: 60 without --programs]
    #[arg(long)]
    seconds: Option<u64>,
    /// Threads [default: one a core]
    #[arg(long)]
    jobs: Option<usize>,
    /// Schedules for each kernel
    #[arg(long, default_value_t = 4)]
    schedules: u64,
    /// Sizes for each schedule
    #[arg(long, default_value_t = 3)]
    sizes: usize,
    /// Failures of each class that are made small
    #[arg(long, default_value_t = 4)]
    shrink: usize,
    /// Seconds spent on making one failure small
    #[arg(long, default_value_t = 20)]
    shrink_seconds: u64,
    /// Write each kind of failure to a file of this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Wish for this pair of directives, or this directive and type, alone: serpentine+produce-warp, stage-tma+bf16; may be repeated
    #[arg(long, value_name = "PAIR")]
    wish: Vec<Wish>,
    /// Say which case runs before it runs
    #[arg(long)]
    trace: bool,
    /// Write how often pairs of directives were launched, and directives by variant and element type, to this file
    #[arg(long, value_name = "FILE")]
    pairs: Option<PathBuf>,
    /// Go on with the pairs of directives, and the directives by element type, that can be legal and were launched in fewer
    /// schedules than that, and fail if some still were
    #[arg(long, value_name = "TIMES", num_args = 0..=1, default_missing_value = "1")]
    cover_pairs: Option<u64>,
    /// Cases that are known to launch what is rare, a line each: they run before others are looked for
    #[arg(long, value_name = "FILE", requires = "cover_pairs")]
    known: Option<PathBuf>,
    /// Write the cases that launched what was rare to this file
    #[arg(long, value_name = "FILE", requires = "cover_pairs", conflicts_with = "known")]
    record: Option<PathBuf>,
    /// Run this case alone and print it: the seed of a kernel, the number of a schedule and what it was to have, as in 123.0 or
    /// 123.0:serpentine+produce-warp
    #[arg(long, value_name = "SEED.N")]
    case: Option<Id>,
}

#[derive(Subcommand)]
enum Command {
    /// Run cases from files, such as those of the corpus
    Check {
        /// Files
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Print what cases become: nest, plan and kernel
    Show {
        /// Files
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Try to schedule each pair of directives, without a launch, and say what the engine has against it
    Survey {
        /// Equal seeds give equal attempts
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Attempts at each, of several kernels
        #[arg(long, default_value_t = 4)]
        tries: usize,
        /// Such as serpentine+produce-warp or stage-tma+bf16; all that is not known to be impossible when left out
        wishes: Vec<Wish>,
    },
    /// Write cases with their PTX and hashes of the simulator's results to a file; a third of them by pairs of directives
    Export {
        /// As for a run
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Kernels, that is, modules of PTX
        #[arg(long, default_value_t = 1000)]
        count: usize,
        /// Threads [default: one a core]
        #[arg(long)]
        jobs: Option<usize>,
        /// The file
        #[arg(long)]
        out: PathBuf,
    },
    /// Print a line for each kernel that cases lower to, with a hash of its text: equal lines of two builds are equal kernels
    Digest {
        /// Equal seeds give equal programs
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Random programs beside those of the files
        #[arg(long, default_value_t = 2000)]
        count: u64,
        /// Hash PTX, not the kernel IR
        #[arg(long)]
        ptx: bool,
        /// Threads [default: one a core]
        #[arg(long)]
        jobs: Option<usize>,
        /// Files of cases
        files: Vec<PathBuf>,
    },
    /// Run exported files on a device and compare bit for bit with the simulator's results, in processes that a launch may break
    Replay(Replay),
}

#[derive(clap::Args)]
struct Replay {
    /// The files
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The device
    #[arg(long, value_enum, default_value_t = Where::Sim)]
    device: Where,
    /// Processes at a time
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Seconds that a launch may take, with its compilation by the driver
    #[arg(long, default_value_t = 60.0)]
    limit: f64,
    /// As a process of its own: the first program, and every how many
    #[arg(long, hide = true, value_name = "FIRST:EVERY", value_parser = numbers)]
    worker: Option<(usize, usize)>,
    /// For tests: what happens at the first launch of a program, as in 3:abort
    #[arg(long, hide = true, value_name = "PROGRAM:WHAT", value_parser = planted)]
    plant: Vec<(usize, Planted)>,
}

fn numbers(text: &str) -> Result<(usize, usize), String> {
    let wrong = || format!("`{text}` is not like 0:1");
    let (first, every) = text.split_once(':').ok_or_else(wrong)?;
    Ok((first.parse().map_err(|_| wrong())?, every.parse().map_err(|_| wrong())?))
}

fn planted(text: &str) -> Result<(usize, Planted), String> {
    let wrong = || format!("`{text}` is not like 3:abort, 3:hang or 3:error");
    let (program, what) = text.split_once(':').ok_or_else(wrong)?;
    let what = match what {
        "abort" => Planted::Abort,
        "hang" => Planted::Hang,
        "error" => Planted::Error,
        _ => return Err(wrong()),
    };
    Ok((program.parse().map_err(|_| wrong())?, what))
}

#[derive(Clone, Copy, ValueEnum)]
enum Where {
    /// The simulator
    Sim,
    /// The first GPU
    Cuda,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let passed = match cli.command {
        None => fuzz(&cli.fuzz),
        Some(Command::Check { files }) => files.iter().try_fold(true, |all, file| Ok(all & recheck(file)?)),
        Some(Command::Show { files }) => files.iter().try_for_each(|file| show(file)).map(|()| true),
        Some(Command::Survey { seed, tries, wishes }) => Ok(surveyed(seed, tries, &wishes)),
        Some(Command::Export { seed, count, jobs, out }) => write(seed, count, jobs, &out),
        Some(Command::Digest { seed, count, ptx, jobs, files }) => {
            let stage = if ptx { Stage::Ptx } else { Stage::Kernel };
            digested(&files, (seed, count), cores(jobs), stage)
        }
        Some(Command::Replay(args)) => match args.worker {
            Some(share) => work(&args, share),
            None => replayed(&args),
        },
    };
    match passed {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

type Passed = Result<bool, String>;

fn fuzz(args: &Fuzz) -> Passed {
    if !backend_ptx_is_there() {
        return Err("this build has no compiler: build with the feature `jit`, or use `replay`".into());
    }
    if let Some(id) = args.case {
        return Ok(one(id, args));
    }
    let known = match &args.known {
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
            let case = |(n, line): (usize, &str)| {
                line.parse().map_err(|e: String| format!("{}, line {}: {e}", path.display(), n + 1))
            };
            text.lines().enumerate().map(case).collect::<Result<Vec<Id>, _>>()?
        }
        None => vec![],
    };
    let seconds = args.seconds.or(if args.programs.is_none() { Some(60) } else { None });
    let options = Options {
        seed: args.seed,
        products: args.products,
        programs: args.programs.unwrap_or(u64::MAX),
        seconds,
        jobs: cores(args.jobs),
        schedules: args.schedules,
        sizes: args.sizes,
        shrunk: args.shrink,
        shrink_seconds: args.shrink_seconds,
        wishes: args.wish.clone(),
        trace: args.trace,
        known,
    };
    let start = Instant::now();
    let said = AtomicU64::new(0);
    let progress = |outcome: &Outcome| {
        let now = start.elapsed().as_secs();
        if now >= said.load(Relaxed) + 10 {
            said.store(now, Relaxed);
            let failures: u64 = outcome.failures.values().sum();
            eprintln!(
                "{now} s: {} programs, {} schedules, {} launches, {failures} failures",
                outcome.programs, outcome.schedules, outcome.done.launches
            );
        }
    };
    let outcome = match args.cover_pairs {
        Some(times) => cover(&options, times, &progress),
        None => run(&options, &progress),
    };
    for (n, found) in outcome.found.values().enumerate() {
        println!("{found}");
        if let Some(folder) = &args.out {
            let name = format!("{}-{n}.txt", found.failure.class.to_string().replace(' ', "-"));
            let path = folder.join(name);
            std::fs::create_dir_all(folder)
                .and_then(|()| std::fs::write(&path, found.to_string()))
                .map_err(|e| format!("{}: {e}", path.display()))?;
        }
    }
    println!("seed {}", args.seed);
    print!("{outcome}");
    if let Some(path) = &args.pairs {
        std::fs::write(path, outcome.pairs.to_string()).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    if let Some(path) = &args.record {
        let lines: Vec<String> = outcome.granted.iter().map(|id| format!("{id}\n")).collect();
        std::fs::write(path, lines.concat()).map_err(|e| format!("{}: {e}", path.display()))?;
    } else if let (Some(path), false) = (&args.known, outcome.granted.is_empty()) {
        let new = outcome.granted.len();
        println!(
            "{new} cases more than those of {} launch what is rare: --record writes them down",
            path.display()
        );
    }
    let rare = args.cover_pairs.map(|times| outcome.rare(times)).unwrap_or_default();
    if let (Some(times), false) = (args.cover_pairs, rare.is_empty()) {
        println!("launched in fewer than {times} schedules:");
        rare.iter().for_each(|line| println!("  {line}"));
    }
    Ok(outcome.passed() && rare.is_empty())
}

fn cores(jobs: Option<usize>) -> usize {
    jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()))
}

fn backend_ptx_is_there() -> bool {
    cfg!(any(feature = "jit", feature = "static-llvm"))
}

/// Says of each wish how often it was granted; whether all were.
fn surveyed(seed: u64, tries: usize, wishes: &[Wish]) -> bool {
    let wishes = if wishes.is_empty() { impossible::possible() } else { wishes };
    let mut all = true;
    for wish in wishes {
        let found = survey(*wish, tries, seed);
        println!("{:>4} of {tries}  {wish}", found.granted);
        if found.granted == 0 {
            found.reasons.iter().take(4).for_each(|(n, kind, why)| println!("{n:>16}  {kind}: {why}"));
            all = false;
        }
    }
    all
}

/// Prints the lines of cases and of random programs.
fn digested(files: &[PathBuf], (seed, count): (u64, u64), jobs: usize, stage: Stage) -> Passed {
    for file in files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        digest::of_case(&name, &read(file)?, stage).iter().for_each(|line| println!("{line}"));
    }
    digest::of_random(seed, count, jobs, stage).iter().for_each(|line| println!("{line}"));
    Ok(true)
}

fn one(id: Id, args: &Fuzz) -> bool {
    let made = make(id, args.sizes);
    let mut passed = true;
    if let Some((case, why)) = &made.unchosen {
        println!("{case}// {why}");
        passed = false;
    }
    for case in made.internal.iter().chain(&made.case) {
        print!("{case}");
        let (done, failure) = check(case, MOST_STATEMENTS);
        match failure {
            None => println!("// {} launches, all as they should be", done.launches),
            Some(failure) => {
                println!("// {failure}");
                passed = false;
            }
        }
    }
    passed
}

fn read(file: &Path) -> Result<Case, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    Case::parse(&text).map_err(|e| format!("{}: {e}", file.display()))
}

fn show(file: &Path) -> Result<(), String> {
    let program = check::program(&read(file)?).map_err(|failure| failure.message)?;
    for stage in [Stage::Nest, Stage::Plan, Stage::Kernel] {
        let text = emit_given(&program, Variant::General, &Given::default(), stage);
        println!("{}", text.map_err(|error| error.to_string())?);
    }
    Ok(())
}

fn recheck(file: &Path) -> Passed {
    let case = read(file)?;
    let (done, failure) = check(&case, usize::MAX);
    match &failure {
        None => println!("{}: {} launches", file.display(), done.launches),
        Some(failure) => println!("{}: {failure}", file.display()),
    }
    Ok(failure.is_none())
}

fn write(seed: u64, count: usize, jobs: Option<usize>, out: &Path) -> Passed {
    let progress = |e: &export::Exported| {
        if e.programs.is_multiple_of(100) {
            eprintln!("{} programs, {} kernels", e.programs, e.kernels);
        }
    };
    let exported = export::export(seed, count, cores(jobs), out, &progress).map_err(|e| e.to_string())?;
    println!(
        "{}: {} programs, {} kernels, {} launches, {} bytes",
        out.display(),
        exported.programs,
        exported.kernels,
        exported.launches,
        exported.bytes
    );
    Ok(true)
}

/// The process that launches.
fn work(args: &Replay, (first, every): (usize, usize)) -> Passed {
    let device = match args.device {
        Where::Sim => Device::sim(),
        Where::Cuda => Device::cuda(0).map_err(|e| e.to_string())?,
    };
    let batch = export::read(&args.files[0]).map_err(|e| e.to_string())?;
    let share = Share { first, every, planted: args.plant.clone() };
    worker(&batch, &share, &device, &mut std::io::stdout().lock()).map_err(|e| e.to_string())
}

fn replayed(args: &Replay) -> Passed {
    let device = match args.device {
        Where::Sim => "sim",
        Where::Cuda => "cuda",
    };
    let mut arguments = vec!["--device".to_string(), device.to_string()];
    for (program, what) in &args.plant {
        arguments.push(format!("--plant={program}:{}", format!("{what:?}").to_lowercase()));
    }
    let options = replay::Options {
        program: std::env::current_exe().map_err(|e| e.to_string())?,
        arguments,
        jobs: args.jobs,
        limit: Duration::from_secs_f64(args.limit.clamp(0.1, 1e6)),
    };
    let mut passed = true;
    for file in &args.files {
        let start = Instant::now();
        let progress = |n: usize| {
            if n.is_multiple_of(500) && n > 0 {
                eprintln!("{}: program {n}, {:.0} s", file.display(), start.elapsed().as_secs_f64());
            }
        };
        let replayed = replay::replay(file, &options, &progress).map_err(|e| e.to_string())?;
        println!("{}, on {device}, {:.1} s", file.display(), start.elapsed().as_secs_f64());
        print!("{replayed}");
        passed &= replayed.passed();
    }
    Ok(passed)
}

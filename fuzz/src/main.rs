//! `tile-fuzz`: random programs under random schedules on every executor.

use clap::{Parser, Subcommand, ValueEnum};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Instant,
};
use tile_fuzz::{
    case::Case,
    check::check,
    export,
    run::{Id, MOST_STATEMENTS, Options, Outcome, make, run},
};
use tile_runtime::Device;

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
    /// Say which case runs before it runs
    #[arg(long)]
    trace: bool,
    /// Run this case alone and print it: the seed of a kernel and the number of a schedule, as in 123.0
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
    /// Write cases with their PTX and the simulator's results to a file
    Export {
        /// As for a run
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Kernels, that is, modules of PTX
        #[arg(long, default_value_t = 2000)]
        count: usize,
        /// The file
        #[arg(long)]
        out: PathBuf,
    },
    /// Run an exported file on a device and compare bit for bit with the simulator's results
    Replay {
        /// The file
        file: PathBuf,
        /// The device
        #[arg(long, value_enum, default_value_t = Where::Sim)]
        device: Where,
    },
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
        Some(Command::Export { seed, count, out }) => write(seed, count, &out),
        Some(Command::Replay { file, device }) => replay(&file, device),
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
    let seconds = args.seconds.or(if args.programs.is_none() { Some(60) } else { None });
    let options = Options {
        seed: args.seed,
        products: args.products,
        programs: args.programs.unwrap_or(u64::MAX),
        seconds,
        jobs: args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get())),
        schedules: args.schedules,
        sizes: args.sizes,
        shrunk: args.shrink,
        shrink_seconds: args.shrink_seconds,
        trace: args.trace,
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
    let outcome = run(&options, &progress);
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
    Ok(outcome.passed())
}

fn backend_ptx_is_there() -> bool {
    cfg!(any(feature = "jit", feature = "static-llvm"))
}

fn one(id: Id, args: &Fuzz) -> bool {
    let made = make(id, args.sizes);
    let mut passed = true;
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

fn recheck(file: &Path) -> Passed {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let case = Case::parse(&text).map_err(|e| format!("{}: {e}", file.display()))?;
    let (done, failure) = check(&case, usize::MAX);
    match &failure {
        None => println!("{}: {} launches", file.display(), done.launches),
        Some(failure) => println!("{}: {failure}", file.display()),
    }
    Ok(failure.is_none())
}

fn write(seed: u64, count: usize, out: &Path) -> Passed {
    let progress = |e: &export::Exported| {
        if e.programs.is_multiple_of(100) {
            eprintln!("{} programs, {} kernels", e.programs, e.kernels);
        }
    };
    let exported = export::export(seed, count, out, &progress).map_err(|e| e.to_string())?;
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

fn replay(file: &Path, device: Where) -> Passed {
    let device = match device {
        Where::Sim => Device::sim(),
        Where::Cuda => Device::cuda(0).map_err(|e| e.to_string())?,
    };
    let batch = export::read(file).map_err(|e| e.to_string())?;
    let total = batch.entries.len();
    let progress = |n: usize| {
        if n.is_multiple_of(100) {
            eprintln!("{n} of {total} programs");
        }
    };
    let start = Instant::now();
    let replayed = export::replay(&batch, &device, &progress).map_err(|e| e.to_string())?;
    for (id, message) in &replayed.wrong {
        println!("{id}: {message}");
    }
    println!(
        "{}: {total} programs; {} launches with the simulator's bits, {} within the bound, {} wrong; {:.1} s",
        device.name(),
        replayed.equal,
        replayed.within,
        replayed.wrong.len(),
        start.elapsed().as_secs_f64()
    );
    Ok(replayed.wrong.is_empty())
}

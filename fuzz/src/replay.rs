//! Replays a batch in processes of their own: what a launch breaks is the process, and the next one goes on behind it.
//!
//! An illegal instruction or address leaves a CUDA context in which nothing runs any more, and a kernel that never ends leaves none. So
//! a worker ([`worker`]) says what it begins and what came of it, a line each; who started it waits so long for each line, ends
//! it where none comes, notes the launch, and starts another one behind that launch's program.

pub mod worker;

use crate::export::{Error, read};
use std::{
    collections::BTreeMap,
    fmt,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    time::Duration,
};

/// What came of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The bits are the simulator's.
    Equal,
    /// A kernel with functions that the hardware approximates, or with atomic additions: within the evaluator's bound.
    Within,
    /// Other results.
    Wrong,
    /// The device refused, or the kernel did what is illegal.
    Error,
    /// The process ended.
    Died,
    /// Nothing came in time.
    Hung,
    /// Behind a launch of the same program that was one of the three above.
    LeftOut,
}

impl Class {
    /// All of them, in the order of the table.
    pub const ALL: [Class; 7] =
        [Class::Equal, Class::Within, Class::Wrong, Class::Error, Class::Died, Class::Hung, Class::LeftOut];
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Equal => "launches with the simulator's bits",
            Class::Within => "within the bound",
            Class::Wrong => "wrong value",
            Class::Error => "launch error",
            Class::Died => "process died",
            Class::Hung => "hung",
            Class::LeftOut => "left out behind those three",
        })
    }
}

/// How a batch is replayed.
#[derive(Clone, Debug)]
pub struct Options {
    /// This program.
    pub program: PathBuf,
    /// Arguments that every worker gets: the device, mostly.
    pub arguments: Vec<String>,
    /// Processes at a time.
    pub jobs: usize,
    /// How long a launch may take, compilation by the driver included.
    pub limit: Duration,
}

/// A launch that did not do what it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bad {
    /// What it was.
    pub class: Class,
    /// The case.
    pub id: String,
    /// Which launch of it, and what happened.
    pub message: String,
}

/// What a replay came to.
#[derive(Clone, Debug, Default)]
pub struct Replayed {
    /// Programs.
    pub programs: usize,
    /// Launches by class.
    pub launches: BTreeMap<Class, usize>,
    /// Those that were not as they should be.
    pub bad: Vec<Bad>,
    /// Processes that were started.
    pub processes: usize,
}

impl Replayed {
    /// Launches of a class.
    pub fn of(&self, class: Class) -> usize {
        self.launches.get(&class).copied().unwrap_or(0)
    }

    /// Whether all were as they should be.
    pub fn passed(&self) -> bool {
        self.bad.is_empty()
    }
}

impl fmt::Display for Replayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Failures of a class that are printed.
        const PRINTED: usize = 8;
        for class in Class::ALL {
            for bad in self.bad.iter().filter(|bad| bad.class == class).take(PRINTED) {
                writeln!(f, "{class}: case {}, {}", bad.id, bad.message)?;
            }
        }
        writeln!(f, "{:>10}  programs, {} processes", self.programs, self.processes)?;
        for class in Class::ALL {
            writeln!(f, "{:>10}  {class}", self.of(class))?;
        }
        Ok(())
    }
}

/// Replays a file.
///
/// # Errors
/// A file that is no batch, a worker that cannot be started.
pub fn replay(file: &Path, options: &Options, progress: &(dyn Fn(usize) + Sync)) -> Result<Replayed, Error> {
    // Read here as well, to say at once that it is no batch.
    let counts: Vec<(String, usize)> =
        read(file)?.entries.into_iter().map(|entry| (entry.id, entry.launches.len())).collect();
    let replayed = Mutex::new(Replayed { programs: counts.len(), ..Replayed::default() });
    let jobs = options.jobs.clamp(1, counts.len().max(1));
    let result = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs)
            .map(|job| {
                let (counts, replayed) = (&counts, &replayed);
                scope.spawn(move || share(file, options, (job, jobs), counts, replayed, progress))
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
    });
    result.map_err(|source| Error::File { path: options.program.display().to_string(), source })?;
    let mut replayed = replayed.into_inner().unwrap_or_else(PoisonError::into_inner);
    replayed.bad.sort_by(|a, b| (a.class, &a.id).cmp(&(b.class, &b.id)));
    Ok(replayed)
}

/// Every `jobs`-th program from the `job`-th on, in as many processes as it takes.
fn share(
    file: &Path,
    options: &Options,
    (job, jobs): (usize, usize),
    counts: &[(String, usize)],
    replayed: &Mutex<Replayed>,
    progress: &(dyn Fn(usize) + Sync),
) -> std::io::Result<()> {
    let lock = || replayed.lock().unwrap_or_else(PoisonError::into_inner);
    let note = |class: Class, entry: usize, message: Option<String>| {
        let mut replayed = lock();
        *replayed.launches.entry(class).or_default() += 1;
        let id = counts[entry].0.clone();
        replayed.bad.extend(message.map(|message| Bad { class, id, message }));
    };
    let mut next = job;
    while next < counts.len() {
        lock().processes += 1;
        let (mut child, lines) = start(file, options, next, jobs)?;
        // What was begun: a program, the number of a launch, and its text.
        let mut running: Option<(usize, usize, String)> = None;
        let broken: Option<(Class, String)> = loop {
            match lines.recv_timeout(options.limit) {
                Ok(line) => {
                    let mut words = line.splitn(4, ' ');
                    let mut word = || words.next().unwrap_or_default();
                    let (what, entry, launch, rest) = (word(), word().parse(), word().parse(), word());
                    let (Ok(entry), Ok(launch)) = (entry, launch) else { continue };
                    let whole = |at: &Option<(usize, usize, String)>| {
                        let at = at.as_ref().map(|(.., text)| text.as_str()).unwrap_or_default();
                        format!("{at}: {}", rest.replace("\\n", "\n"))
                    };
                    match what {
                        "begin" => {
                            running = Some((entry, launch, rest.to_string()));
                            continue;
                        }
                        "equal" => note(Class::Equal, entry, None),
                        "within" => note(Class::Within, entry, None),
                        "wrong" => note(Class::Wrong, entry, Some(whole(&running))),
                        "error" => break Some((Class::Error, rest.replace("\\n", "\n"))),
                        "end" => {
                            next = entry + jobs;
                            progress(entry);
                        }
                        _ => {}
                    }
                    running = None;
                }
                Err(RecvTimeoutError::Timeout) => {
                    break Some((Class::Hung, format!("nothing in {} s", options.limit.as_secs_f64())));
                }
                Err(RecvTimeoutError::Disconnected) if next >= counts.len() => break None,
                Err(RecvTimeoutError::Disconnected) => {
                    let status = child.wait()?;
                    break Some((Class::Died, format!("the process ended: {status}")));
                }
            }
        };
        let _ = child.kill();
        child.wait()?;
        if let Some((class, why)) = broken {
            // Before the first launch: the program itself.
            let (entry, launch, text) = running.unwrap_or((next, 0, "before its first launch".into()));
            note(class, entry, Some(format!("{text}: {why}")));
            (launch + 1..counts[entry].1).for_each(|_| note(Class::LeftOut, entry, None));
            next = entry + jobs;
        }
    }
    Ok(())
}

/// A worker from a program on, and its lines.
fn start(
    file: &Path,
    options: &Options,
    next: usize,
    jobs: usize,
) -> std::io::Result<(Child, Receiver<String>)> {
    let mut child = Command::new(&options.program)
        .arg("replay")
        .arg(file)
        .args(["--worker", &format!("{next}:{jobs}")])
        .args(&options.arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let (send, lines) = mpsc::channel();
    let out = BufReader::new(child.stdout.take().expect("it is piped"));
    std::thread::spawn(move || {
        for line in out.lines() {
            let Ok(line) = line else { return };
            if send.send(line).is_err() {
                return;
            }
        }
    });
    Ok((child, lines))
}

//! Ranks in processes of their own: `cargo run --example ranks -- --spawn 3`.
//!
//! torchrun, MPI or Slurm start a process a GPU; this example is one such process, or starts as many of itself as torchrun would. It
//! verifies every collective, then a loop of launches and all-reduces in a graph, and says what happens when a rank is killed.

mod checks;
mod spawn;

use clap::Parser;
use std::{process::ExitCode, slice::from_mut, slice::from_ref, time::Instant};
use tilewright::{Communicator, Device, Error, Graph, Stream, World, prelude::*};

/// The mean of ranks: each scales, and all add.
#[tile_kernel]
fn scale(x: &mut Tensor<f32, N>, by: f32) {
    let i = program_tile(N);
    store(x, [i], load(x, [i]) * by);
}

schedule! {
    simple for scale { tile(i = 256); bind(i -> thread.x); }
}

/// Verifies the collectives of ranks, on GPUs or on simulators.
#[derive(Parser)]
#[command(name = "ranks", version)]
struct Options {
    /// Start so many processes of this program, with the variables that torchrun sets
    #[arg(long)]
    spawn: Option<usize>,
    /// So many devices of one process instead, without a rendezvous
    #[arg(long, conflicts_with = "spawn")]
    devices: Option<usize>,
    /// Simulators, where there are GPUs too
    #[arg(long)]
    sim: bool,
    /// All-reduces in a graph, ten a replay
    #[arg(long, default_value_t = 100)]
    graph: usize,
    /// Sums until a rank is gone: then this process ends well, and says after how long
    #[arg(long)]
    until_lost: bool,
    /// With `--spawn`: start the processes so many times, and kill one of them each time
    #[arg(long, requires = "spawn")]
    kill: Option<usize>,
}

impl Options {
    fn communicator(&self) -> Result<Communicator, Error> {
        let open = |n| if self.sim { Ok(Device::sim()) } else { Device::cuda(n) };
        if let Some(count) = self.devices {
            let devices = (0..count).map(open).collect::<Result<Vec<_>, _>>()?;
            return Communicator::new(&devices);
        }
        let world = World::from_env()?;
        let device = if self.sim { Device::sim() } else { world.device()? };
        Communicator::join(&world, &device)
    }
}

/// Launches and sums in turn, in a graph: the mean of all ranks, which stays.
fn graph(all: &Communicator, sums: usize) -> Result<(), Error> {
    const EACH: usize = 10;
    let (ranks, count) = (all.ranks(), 4097);
    let streams: Vec<Stream> = all.devices().iter().map(Stream::new).collect::<Result<_, _>>()?;
    let mut graphs: Vec<Graph> = all.devices().iter().map(Graph::new).collect();
    let start = |place: usize| vec![(all.rank() + place) as f32; count];
    let mut x: Vec<Buffer<f32>> = all
        .devices()
        .iter()
        .enumerate()
        .map(|(place, device)| Buffer::from_slice(device, &start(place), &[count]))
        .collect::<Result<_, _>>()?;
    let mut before = None;
    for replay in 0..sums.div_ceil(EACH) {
        Graph::replay_together(&mut graphs, &streams, |on| {
            for _ in 0..EACH {
                for (x, on) in x.iter_mut().zip(on) {
                    on.add(scale(x, 1.0 / ranks as f32).schedule(simple))?;
                }
                all.all_reduce(&mut x.iter_mut().collect::<Vec<_>>(), on)?;
            }
            Ok(())
        })?;
        if replay == 0 {
            streams.iter().try_for_each(Stream::sync)?;
            before = Some(used(all)?);
        }
    }
    streams.iter().try_for_each(Stream::sync)?;
    let after = used(all)?;
    let mean = (ranks - 1) as f32 / 2.0;
    for x in &x {
        if let Some(off) = x.to_vec()?.iter().find(|x| (**x - mean).abs() > 1e-2 * mean.max(1.0)) {
            return Err(Error::Shape(format!("the mean of ranks is {mean}, and not {off}")));
        }
    }
    if before.is_some_and(|before| before != after) {
        return Err(Error::Shape(format!("a leak: {before:?} bytes in use before, {after} after")));
    }
    Ok(())
}

/// Bytes in use on the devices of this process.
fn used(all: &Communicator) -> Result<u64, Error> {
    all.devices().iter().map(|device| device.memory().map(|memory| memory.in_use)).sum()
}

/// Sums until a rank is gone.
fn until_lost(all: &Communicator) -> Result<(), Error> {
    let device = &all.devices()[0];
    let stream = Stream::new(device)?;
    let mut x = Buffer::<f32>::zeros(device, &[1 << 16])?;
    let mut last = Instant::now();
    let mut rounds = 0;
    let error = loop {
        let round = all.all_reduce(from_mut(&mut &mut x), from_ref(&stream)).and_then(|()| stream.sync());
        match round {
            Ok(()) => last = Instant::now(),
            Err(error) => break error,
        }
        rounds += 1;
        if rounds == 10 {
            println!("rank {} has begun", all.rank());
        }
    };
    let waited = last.elapsed().as_secs_f64();
    match error {
        Error::RankLost { .. } => {
            println!("rank {}, {waited:.3} s after its last sum: {error}", all.rank());
            // What waits for the sum says so, too.
            match x.to_vec() {
                Err(Error::RankLost { .. }) => Ok(()),
                Ok(_) if !device.is_gpu() => Ok(()),
                Ok(_) => Err(Error::Shape("the sum that was interrupted can be read".into())),
                Err(other) => Err(other),
            }
        }
        other => Err(other),
    }
}

fn run(options: &Options) -> Result<(), Error> {
    let all = options.communicator()?;
    if options.until_lost {
        return until_lost(&all);
    }
    let checks = checks::everything(&all)?;
    graph(&all, options.graph)?;
    let (rank, ranks, device) = (all.rank(), all.ranks(), all.devices()[0].name());
    println!(
        "rank {rank} of {ranks} on {device}: {checks} results and {} sums in a graph verified",
        options.graph
    );
    Ok(())
}

fn main() -> ExitCode {
    let options = Options::parse();
    let ended = match (options.spawn, options.kill) {
        (Some(ranks), None) => spawn::all(ranks),
        (Some(ranks), Some(rounds)) => (0..rounds).try_for_each(|round| spawn::kill(ranks, round)),
        (None, _) => run(&options).map_err(|error| error.to_string()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

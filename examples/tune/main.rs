//! The best tile sizes for a product: `cargo run --release --example tune`.

#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code)] // one of its schedules is extended
#[path = "../matmul/kernel.rs"]
mod kernel;
#[path = "../matmul/verify.rs"]
mod verify;

use clap::Parser;
use common::{
    data::normal,
    options::{DeviceChoice, elements, sizes},
};
use kernel::{best, matmul};
use std::{process::ExitCode, time::Duration};
use tile_bench::{Rounds, stats::median};
use tilewright::{Choice, L2, Tuner, prelude::*};
use verify::Product;

schedule! {
    /// Tiles of other sizes than the ladder's last, copied ahead by one step to three.
    pub tuned = best {
        tile(i = [64, 128, 256], j = [128, 256], k = [8, 16, 32]);
        pipeline(k, [2, 3, 4]);
    }
}

/// Finds the fastest of the configurations of a matrix product for a size, in f32, and verifies what it computes.
///
/// The result is kept in the cache: a second run for such a size measures nothing. Without a GPU the ranking is a
/// prediction from the simulator's counts.
#[derive(Parser)]
#[command(name = "tune", version)]
struct Options {
    /// Size M×N×K [default: 1024x1024x1024 on a GPU, 256x256x64 on the simulator]
    #[arg(long, value_name = "MxNxK", value_parser = size)]
    size: Option<[usize; 3]>,
    /// Device to run on
    #[arg(long, value_enum, default_value = "auto")]
    device: DeviceChoice,
    /// Seconds of launches
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    budget: f64,
    /// Let each launch find in the L2 cache what the one before left there
    #[arg(long)]
    warm: bool,
    /// Measure, whatever was found before
    #[arg(long)]
    fresh: bool,
    /// Then time all configurations in turn, this many rounds, and say how far the choice is from the best of them
    #[arg(long, value_name = "ROUNDS")]
    exhaustive: Option<usize>,
}

fn size(text: &str) -> Result<[usize; 3], String> {
    sizes(text, "M×N×K", "1024x1024x1024")
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the result was right.
fn run(options: &Options) -> Result<bool, Box<dyn std::error::Error>> {
    let device = options.device.open()?;
    let [m, n, k] = options.size.unwrap_or(match device.is_gpu() {
        true => [1024, 1024, 1024],
        false => [256, 256, 64],
    });
    let (a_host, b_host) = (normal::<f32>(1, 0, elements(&[m, k])?), normal::<f32>(1, 1, elements(&[k, n])?));
    let a = Buffer::from_slice(&device, &a_host, &[m, k])?;
    let b = Buffer::from_slice(&device, &b_host, &[k, n])?;
    let mut c = Buffer::<f32>::poisoned(&device, &[m, n])?;

    let mut tuner = Tuner::new().budget(Duration::try_from_secs_f64(options.budget)?).bar();
    if options.warm {
        tuner = tuner.l2(L2::Warm);
    }
    if options.fresh {
        tuner = tuner.fresh();
    }
    let choice = tuner.tune(matmul(&a, &b, &mut c), tuned)?;
    print!("{choice}");

    matmul(&a, &b, &mut c).schedule_dyn(choice.best()).run()?;
    let c_host = c.to_vec()?;
    let product = Product::new([m, n, k], &a_host, &b_host, &c_host);
    let verdict = product.verify();
    let word = if verdict.verified() { "verified" } else { "WRONG" };
    println!("{}: {word}: {}", choice.best().name(), product.criterion());
    if let (Some(rounds), true) = (options.exhaustive, device.is_gpu()) {
        exhaustive(options, rounds, &choice, [&a, &b], &mut c)?;
    }
    Ok(verdict.verified())
}

/// Times all configurations in turn, and prints how far the choice is from the best.
fn exhaustive(
    options: &Options,
    rounds: usize,
    choice: &Choice,
    [a, b]: [&Buffer<f32>; 2],
    c: &mut Buffer<f32>,
) -> Result<(), tilewright::Error> {
    let all: Vec<_> = choice.ranked.iter().map(|r| r.configuration).collect();
    let played = Rounds::new(rounds).play(all.len(), |n| {
        let launch = matmul(a, b, c).schedule_dyn(all[n]);
        let launch = if options.warm { launch.warm() } else { launch.cold() };
        Ok::<_, tilewright::Error>(launch.run()?.time_ms)
    })?;
    let medians: Vec<f64> = played.times.iter().filter_map(|times| median(times)).collect();
    let fastest = (0..medians.len()).min_by(|x, y| medians[*x].total_cmp(&medians[*y]));
    if let Some(fastest) = fastest {
        println!(
            "exhaustive, {} rounds of {} configurations: the best is {} with {:.2} µs; the choice takes {:.2} µs, {:.2} % more",
            played.times[0].len(),
            all.len(),
            all[fastest].text(),
            medians[fastest] * 1e3,
            medians[0] * 1e3,
            100.0 * (medians[0] / medians[fastest] - 1.0)
        );
    }
    Ok(())
}

//! A mixture of experts: `cargo run --example experts -- --schedule all`.

#[path = "../common/mod.rs"]
mod common;
mod kernel;

use clap::Parser;
use common::{
    data::{normal, uniform},
    example::{Dims, Generic, Typed, run_generic},
    run::run_all,
};
use kernel::{SCHEDULES, experts};
use rayon::prelude::*;
use std::process::ExitCode;
use tile_bench::record::{Record, judge, measure};
use tilewright::{AnySchedule, Buffer, Device, Error, Float};

/// Sends random tokens to random experts under one schedule or all, and verifies the result.
#[derive(Parser, Clone)]
#[command(name = "experts", version)]
struct Options {
    /// Number of tokens [default: 4096 on a GPU, 50 on the simulator]
    #[arg(long)]
    tokens: Option<usize>,
    /// Number of experts [default: 64 on a GPU, 3 on the simulator]
    #[arg(long)]
    experts: Option<usize>,
    /// Experts that a token is sent to
    #[arg(long, default_value_t = 2)]
    top: usize,
    /// Length of a token's row [default: 4096 on a GPU, 72 on the simulator]
    #[arg(long)]
    length: Option<usize>,
    /// Columns of an expert's matrix [default: 2048 on a GPU, 136 on the simulator]
    #[arg(long)]
    columns: Option<usize>,
    /// Slots of a block
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..))]
    block: u16,
    #[command(flatten)]
    typed: Typed,
}

/// Slots in blocks of one expert each.
struct Blocks {
    tokens: Vec<i32>,
    experts: Vec<i32>,
    gates: Vec<f32>,
}

/// Rows of the result that are verified, at most.
const VERIFIED: usize = 192;

impl Options {
    /// Tokens, experts, and the sides of a matrix.
    fn sizes(&self, gpu: bool) -> [usize; 4] {
        let [s, e, k, n] = if gpu { [4096, 64, 4096, 2048] } else { [50, 3, 72, 136] };
        [
            self.tokens.unwrap_or(s),
            self.experts.unwrap_or(e),
            self.length.unwrap_or(k),
            self.columns.unwrap_or(n),
        ]
    }

    /// Each token goes to `top` experts that follow one another from a random one, by a random weight.
    fn blocks(&self, s: usize, e: usize) -> Blocks {
        let seed = self.typed.setup.seed;
        let first = uniform(seed, 2, s, 0..=i32::try_from(e).unwrap_or(i32::MAX) - 1);
        let gate = normal::<f32>(seed, 3, s * self.top);
        let rows = usize::from(self.block);
        let mut blocks = Blocks { tokens: vec![], experts: vec![], gates: vec![] };
        for expert in 0..e {
            let chosen = |(t, rank): (usize, usize)| {
                ((first[t] as usize + rank) % e == expert).then(|| (t as i32, gate[t * self.top + rank]))
            };
            let slots = (0..s).flat_map(|t| (0..self.top.min(e)).map(move |rank| (t, rank)));
            let own: Vec<(i32, f32)> = slots.filter_map(chosen).collect();
            for block in own.chunks(rows) {
                blocks.experts.push(expert as i32);
                let empty = std::iter::repeat_n((-1, 1.0), rows - block.len());
                let (tokens, gates): (Vec<i32>, Vec<f32>) = block.iter().copied().chain(empty).unzip();
                blocks.tokens.extend(tokens);
                blocks.gates.extend(gates);
            }
        }
        blocks
    }
}

impl Generic for Options {
    fn typed(&self) -> &Typed {
        &self.typed
    }

    fn dims(&self, gpu: bool) -> Dims {
        let [s, e, k, n] = self.sizes(gpu);
        let blocks = self.blocks(s, e).experts.len();
        vec![("S", s), ("E", e), ("K", k), ("N", n), ("Z", blocks), ("R", self.block.into())]
    }

    fn run<T: Float>(&self, device: &Device, schedules: &[&'static dyn AnySchedule]) -> Result<bool, Error> {
        let [s, e, k, n] = self.sizes(device.is_gpu());
        let setup = &self.typed.setup;
        let (x, w) = (normal::<T>(setup.seed, 0, s * k), normal::<T>(setup.seed, 1, e * k * n));
        let Blocks { tokens, experts: of, gates } = self.blocks(s, e);
        let (z, r) = (of.len(), usize::from(self.block));
        let x_in = Buffer::from_slice(device, &x, &[s, k])?;
        let w_in = Buffer::from_slice(device, &w, &[e, k, n])?;
        let token = Buffer::from_slice(device, &tokens, &[z, r])?;
        let expert = Buffer::from_slice(device, &of, &[z])?;
        let gate = Buffer::from_slice(device, &gates, &[z, r])?;
        // Rows all over the result, the first and the last among them: sums, and those of magnitudes.
        let step = s.div_ceil(VERIFIED).max(1);
        let rows: Vec<usize> = (0..s).step_by(step).chain(s.checked_sub(1)).collect();
        let reference: Vec<Vec<[f64; 2]>> = rows
            .par_iter()
            .map(|row| {
                let mut sums = vec![[0.0; 2]; n];
                let slots = tokens.iter().enumerate().filter(|(_, t)| usize::try_from(**t) == Ok(*row));
                for (slot, _) in slots {
                    let own = &w[of[slot / r] as usize * k * n..][..k * n];
                    for (x, w) in x[row * k..][..k].iter().zip(own.chunks(n.max(1))) {
                        let x = x.to_f64() * f64::from(gates[slot]);
                        for (sum, w) in sums.iter_mut().zip(w) {
                            let product = x * w.to_f64();
                            *sum = [sum[0] + product, sum[1] + product.abs()];
                        }
                    }
                }
                sums
            })
            .collect();
        let slots = tokens.iter().filter(|t| **t >= 0).count();
        let one = |schedule: &'static dyn AnySchedule| -> Result<Record, Error> {
            let mut y = Buffer::from_slice(device, &vec![0.0f32; s * n], &[s, n])?;
            experts(&x_in, &w_in, &token, &expert, &gate, &mut y).schedule_dyn(schedule).run()?;
            let found = y.to_vec()?;
            let launch = measure(device, || {
                experts(&x_in, &w_in, &token, &expert, &gate, &mut y).schedule_dyn(schedule).timed().run()
            })?;
            // Rounding errors of random data grow with the square root of their number.
            let rounding = 4.0 * ((k + self.top + 1) as f64).sqrt() * tilewright::verify::U;
            let checks = rows.iter().zip(&reference).flat_map(|(row, sums)| {
                let found = &found[row * n..][..n];
                found.iter().zip(sums).map(|(y, [sum, size])| (f64::from(*y), *sum, rounding * size))
            });
            Ok(Record {
                schedule: schedule.name(),
                dtype: T::DTYPE.name(),
                sizes: vec![
                    ("tokens", s),
                    ("experts", e),
                    ("top", self.top),
                    ("length", k),
                    ("columns", n),
                    ("blocks", z),
                ],
                flops: 2.0 * (slots * k * n) as f64,
                verdict: judge(checks),
                launch,
                criterion: "|y − ref| ≤ 4·√(K+top+1)·u·(|x|·|w|·|gate|), u = 2⁻²⁴, in rows all over".into(),
            })
        };
        Ok(run_all(setup, schedules, one))
    }
}

fn main() -> ExitCode {
    run_generic::<Options>(SCHEDULES, "mma")
}

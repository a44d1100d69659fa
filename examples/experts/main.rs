//! A mixture of experts: `cargo run --example experts -- --schedule all`.
//!
//! Router logits become gates, slots in blocks, and rows of a result, all on the device; the host computes the same in f64.

#[path = "../common/mod.rs"]
mod common;
mod kernel;
mod reference;

use clap::{Parser, ValueEnum};
use common::{
    data::normal,
    example::{Dims, Generic, Typed, run_generic},
    run::run_all,
};
use kernel::{SCHEDULES, expert_rows, expert_sums, sums};
use reference::{Mixture, Sizes};
use std::process::ExitCode;
use tile_bench::record::{Record, judge, measure};
use tilewright::{AnySchedule, Buffer, Device, Error, Float, Stream};
use tilewright_kernels::{Blocks, choose, expert_blocks, route};

/// Sends tokens to the experts that random logits say, under one schedule or all, and verifies the result.
#[derive(Parser, Clone)]
#[command(name = "experts", version)]
struct Options {
    /// Number of tokens [default: 4096 on a GPU, 50 on the simulator]
    #[arg(long)]
    tokens: Option<usize>,
    /// Number of experts, up to 256 [default: 64 on a GPU, 3 on the simulator]
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
    /// Rows of a block [default: 16, 64 or 128, by the slots of an expert]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    block: Option<u16>,
    /// Where logits send the tokens
    #[arg(long, value_enum, default_value = "all")]
    to: To,
    #[command(flatten)]
    typed: Typed,
}

/// Experts that have tokens.
#[derive(Clone, Copy, ValueEnum)]
enum To {
    /// All of them, by chance
    All,
    /// Every second one
    Half,
    /// The same for each token
    One,
}

impl To {
    /// What is added to the logit of an expert.
    fn bias(self, expert: usize) -> f64 {
        match self {
            To::All => 0.0,
            To::Half => -32.0 * (expert % 2) as f64,
            To::One => -32.0 * expert.min(64) as f64,
        }
    }
}

impl Options {
    fn sizes(&self, gpu: bool) -> Sizes {
        let [s, e, k, n] = if gpu { [4096, 64, 4096, 2048] } else { [50, 3, 72, 136] };
        Sizes {
            tokens: self.tokens.unwrap_or(s),
            experts: self.experts.unwrap_or(e),
            top: self.top,
            length: self.length.unwrap_or(k),
            columns: self.columns.unwrap_or(n),
        }
    }

    /// Rows of a block.
    fn block(&self, sizes: Sizes) -> usize {
        self.block.map_or_else(|| choose::block_rows(sizes.slots(), sizes.experts), usize::from)
    }
}

impl Generic for Options {
    fn typed(&self) -> &Typed {
        &self.typed
    }

    fn dims(&self, gpu: bool) -> Dims {
        let sizes = self.sizes(gpu);
        let rows = self.block(sizes);
        let blocks = Blocks::most(sizes.slots(), sizes.experts, rows);
        let Sizes { tokens, experts, length, columns, .. } = sizes;
        vec![
            ("S", tokens),
            ("E", experts),
            ("K", length),
            ("N", columns),
            ("Z", blocks),
            ("R", rows),
            ("P", 1),
        ]
    }

    fn run<T: Float>(&self, device: &Device, schedules: &[&'static dyn AnySchedule]) -> Result<bool, Error> {
        let sizes @ Sizes { tokens: s, experts: e, top: c, length: k, columns: n } =
            self.sizes(device.is_gpu());
        let (setup, rows) = (&self.typed.setup, self.block(sizes));
        let random = normal::<T>(setup.seed, 2, s * e).into_iter().enumerate();
        let logits: Vec<T> = random.map(|(at, x)| T::from_f64(x.to_f64() + self.to.bias(at % e))).collect();
        let (x, w) = (normal::<T>(setup.seed, 0, s * k), normal::<T>(setup.seed, 1, e * k * n));
        let stream = Stream::default_of(device);
        let logits_in = Buffer::from_slice(device, &logits, &[s, e])?;
        let x_in = Buffer::from_slice(device, &x, &[s, k])?;
        let w_in = Buffer::from_slice(device, &w, &[e, k, n])?;

        let mut expert = Buffer::<i32>::poisoned(device, &[s, c])?;
        let mut gate = Buffer::<f32>::poisoned(device, &[s, c])?;
        let mut blocks = Blocks::uninit(device, [s, c], e, rows)?;
        route(&stream, &logits_in, true, &mut expert, &mut gate)?;
        expert_blocks(&stream, &expert, e, &mut blocks)?;

        let mixture = Mixture::of(sizes, &logits, &x, &w);
        let routed = mixture.is_routed(&expert.to_vec()?, &gate.to_vec()?)
            && mixture.is_sorted(rows, [&blocks.token, &blocks.expert, &blocks.place].map(Buffer::to_vec))?;
        let verified = mixture.rows();
        let z = blocks.token.shape()[0];
        let one = |schedule: &'static dyn AnySchedule| -> Result<Record, Error> {
            let mut row = Buffer::<f32>::poisoned(device, &[z, rows, 1, n])?;
            let mut y = Buffer::<T>::poisoned(device, &[s, n])?;
            let launch = measure(device, || {
                let mut first = expert_rows(&x_in, &w_in, &blocks.token, &blocks.expert, &mut row)
                    .schedule_dyn(schedule)
                    .timed()
                    .run()?;
                let row = row.reshaped(&[z * rows, n])?;
                let last = expert_sums(&row, &blocks.place, &gate, &mut y).schedule(sums).timed().run()?;
                first.time_ms = first.time_ms.zip(last.time_ms).map(|(products, rest)| products + rest);
                Ok(first)
            })?;
            let found = y.to_vec()?;
            let checks = verified.iter().flat_map(|(token, exact)| mixture.checks(&found, *token, exact));
            // Where the host routes otherwise, nothing is verified.
            let unrouted = (!routed).then_some((f64::NAN, 0.0, 0.0));
            Ok(Record {
                schedule: schedule.name(),
                dtype: T::DTYPE.name(),
                sizes: vec![
                    ("tokens", s),
                    ("experts", e),
                    ("top", c),
                    ("length", k),
                    ("columns", n),
                    ("blocks", z),
                    ("rows", rows),
                ],
                flops: 2.0 * (sizes.slots() * k * n) as f64,
                verdict: judge(checks.chain(unrouted)),
                launch,
                criterion: "experts and blocks exactly; |y − ref| ≤ (4·√(K+top+1) + 64)·u·(|x|·|w|·gate) + ulp/2, u = 2⁻²⁴, in rows all over".into(),
            })
        };
        Ok(run_all(setup, schedules, one))
    }
}

fn main() -> ExitCode {
    run_generic::<Options>(SCHEDULES, "mma")
}

//! Text from a model of Llama's family, token by token: `cargo run --example generate -- --tokens 6 --verify`.
//!
//! The prompt goes through the model in one pass, then each token in one graph a device; all launches are functions of
//! `tilewright-kernels`. `--devices 2` shares heads and columns out between devices.

#![allow(clippy::single_range_in_vec_init, reason = "parts of one dimension")]

#[path = "../common/mod.rs"]
mod common;
mod config;
mod model;
mod reference;
mod sample;
mod session;
mod spread;
mod verify;
mod weights;

use clap::{Parser, ValueEnum};
use common::{
    options::{DeviceChoice, TypeChoice},
    output::line,
};
use config::Config;
use half::{bf16, f16};
use model::Model;
use sample::Sampler;
use session::Session;
use std::{path::PathBuf, process::ExitCode};
use tilewright::{Device, Error, Float, Stream};
use weights::{Failure, Weights};

/// Tokens of the prompt of `--bench`.
const PROMPT: usize = 2048;
/// Tokens of its least decoding: one of the prompt, one that makes the graph, and one whose time counts.
const LEAST: usize = 3;

/// Sizes of a model.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Sizes {
    /// Two small layers.
    Toy,
    /// Llama 3.2 with 1.2 billion parameters.
    #[value(name = "1b")]
    OneBillion,
}

/// Generates tokens by a model, whose weights are random or from a file.
#[derive(Parser)]
#[command(name = "generate", version)]
struct Options {
    /// Where to run
    #[arg(long, value_enum, default_value = "auto")]
    device: DeviceChoice,
    /// Devices that share the model: GPUs from ordinal 0 on, or simulators
    #[arg(long, default_value_t = 1, value_parser = at_least_one)]
    devices: usize,
    /// Sizes of the model
    #[arg(long, value_enum, default_value = "toy")]
    config: Sizes,
    /// Weights in the format safetensors, by their names in Hugging Face's Llama [default: random ones]
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// Write the weights to a file
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Element type of weights and of what lies between the launches
    #[arg(long, value_enum, default_value = "bf16")]
    dtype: TypeChoice,
    /// Tokens to begin with, as numbers [default: nine tokens]
    #[arg(long, value_name = "IDS")]
    prompt: Option<String>,
    /// Tokens to generate
    #[arg(long, default_value_t = 6, value_parser = at_least_one)]
    tokens: usize,
    /// Sample among so many tokens [default: take the likeliest]
    #[arg(long, value_parser = at_least_one)]
    top_k: Option<usize>,
    /// Seed of random weights, and of sampling
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Queue each launch of a token alone, not all of a device as a graph
    #[arg(long)]
    no_graph: bool,
    /// Compare all logits with a model in float64
    #[arg(long)]
    verify: bool,
    /// Print the times of a prompt of 2048 tokens and of those behind it; needs a GPU
    #[arg(long, conflicts_with_all = ["prompt", "verify"])]
    bench: bool,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| "it takes a number from 1 on".into())
}

impl Options {
    fn config(&self) -> Config {
        match self.config {
            Sizes::Toy => Config::toy(),
            Sizes::OneBillion => Config::llama_1b(),
        }
    }

    fn prompt(&self, vocab: usize) -> Result<Vec<i32>, Failure> {
        let Some(text) = &self.prompt else {
            return Ok((0..9).map(|n| ((n * 37 + 5) % vocab) as i32).collect());
        };
        let ids =
            text.split_whitespace().map(|id| id.parse().ok().filter(|id| (0..vocab as i32).contains(id)));
        let ids: Option<Vec<i32>> = ids.collect();
        ids.filter(|ids| !ids.is_empty())
            .ok_or_else(|| format!("--prompt takes numbers below {vocab}, such as '1 2 3'").into())
    }

    /// The devices.
    fn open(&self) -> Result<Vec<Device>, Error> {
        let first = self.device.open()?;
        let gpus = first.is_gpu();
        let more = (1..self.devices).map(|n| if gpus { Device::cuda(n) } else { Ok(Device::sim()) });
        std::iter::once(Ok(first)).chain(more).collect()
    }

    fn run<T: Float>(&self) -> Result<bool, Failure> {
        let config = self.config();
        config.part(self.devices).map_err(|why| format!("--devices {}: {why}", self.devices))?;
        let devices = self.open()?;
        let weights = match &self.weights {
            Some(path) => Weights::open(path, &config)?,
            None => Weights::Random { seed: self.seed },
        };
        if let Some(path) = &self.save {
            weights.save::<T>(&config, path)?;
        }
        let prompt = match self.bench {
            true => (0..PROMPT).map(|n| (n * 37 % config.vocab) as i32).collect(),
            false => self.prompt(config.vocab)?,
        };
        let positions = prompt.len() + self.tokens.max(LEAST);
        let million = config.tensors().iter().map(|(_, shape)| shape.iter().product::<usize>()).sum::<usize>()
            as f64
            / 1e6;
        let several = if devices.len() > 1 { format!("{} × ", devices.len()) } else { String::new() };
        let name = devices[0].name();
        line(format_args!("{several}{name} · {} · {million:.1} million parameters", T::DTYPE));
        let model = Model::<T>::new(&devices, config, &weights, positions)?;
        let streams: Vec<Stream> = devices.iter().map(Stream::default_of).collect();
        match self.bench {
            true => self.bench(&streams, &model, &prompt).map(|()| true),
            false => self.generate(&streams, &model, &weights, &prompt),
        }
    }

    fn generate<T: Float>(
        &self,
        streams: &[Stream],
        model: &Model<T>,
        weights: &Weights,
        prompt: &[i32],
    ) -> Result<bool, Failure> {
        let sampler = Sampler::new(self.top_k, self.seed);
        let mut session = Session::new(model, streams, sampler, !self.no_graph)?;
        let rows = if self.verify { prompt.len() } else { 1 };
        let logits = session.prefill(prompt, rows)?;
        let mut found = Vec::new();
        if self.verify {
            found.extend(logits.to_vec()?.chunks(model.config.vocab).map(<[T]>::to_vec));
        }
        for _ in 1..self.tokens {
            let logits = session.step()?;
            if self.verify {
                found.push(logits.to_vec()?);
            }
        }
        let tokens = session.tokens()?;
        let text = |ids: &[i32]| ids.iter().map(|id| id.to_string()).collect::<Vec<_>>().join(" ");
        line(format_args!("prompt: {}", text(prompt)));
        line(format_args!("tokens: {}", text(&tokens[prompt.len()..])));
        if !self.verify {
            return Ok(true);
        }
        let exact = reference::logits::<T>(&model.config, weights, &tokens[..tokens.len() - 1])?;
        let verdict = verify::judge(model.config.layers, streams.len(), &found, &exact);
        let word = if verdict.verified { "yes" } else { "no" };
        line(format_args!(
            "verified: {word}, {} rows of logits, error/bound {:.3}",
            exact.len(),
            verdict.worst
        ));
        Ok(verdict.verified)
    }

    fn bench<T: Float>(&self, streams: &[Stream], model: &Model<T>, prompt: &[i32]) -> Result<(), Failure> {
        // All devices end with the sums of the last layer: the time of one is that of all.
        let stream = &streams[0];
        if !stream.device().is_gpu() {
            return Err("--bench needs a GPU".into());
        }
        let session = || Session::new(model, streams, Sampler::new(self.top_k, self.seed), !self.no_graph);
        // All kernels are compiled, and memory is the pool's.
        let mut warm = session()?;
        warm.prefill(prompt, 1)?;
        (1..self.tokens.max(LEAST)).try_for_each(|_| warm.step().map(drop))?;
        streams.iter().try_for_each(Stream::sync)?;

        let mut session = session()?;
        let start = stream.timestamp()?;
        session.prefill(prompt, 1)?;
        let first = stream.timestamp()?;
        // The first step makes the graph.
        session.step()?;
        let behind = stream.timestamp()?;
        let steps = self.tokens.max(LEAST) - 2;
        (0..steps).try_for_each(|_| session.step().map(drop))?;
        let end = stream.timestamp()?;
        let prefill = first.ms_since(&start)?.unwrap_or(f64::NAN);
        let token = end.ms_since(&behind)?.unwrap_or(f64::NAN) / steps as f64;
        line(format_args!(
            "prefill of {} tokens: {prefill:.2} ms, {:.0} tokens/s",
            prompt.len(),
            prompt.len() as f64 / prefill * 1e3
        ));
        let bytes = (model.config.read() * size_of::<T>()) as f64;
        line(format_args!(
            "decode: {token:.3} ms/token, {:.1} tokens/s, {:.0} GB/s of weights",
            1e3 / token,
            bytes / token / 1e6
        ));
        Ok(())
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    let verified = match options.dtype {
        TypeChoice::F32 => options.run::<f32>(),
        TypeChoice::F16 => options.run::<f16>(),
        TypeChoice::Bf16 => options.run::<bf16>(),
    };
    match verified {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

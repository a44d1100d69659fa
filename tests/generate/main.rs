//! A model of Llama's family on the simulator, or with `TILEWRIGHT_DEVICE=cuda` on the first GPU: prompt and steps against float64.

#![allow(missing_docs, reason = "tests")]
#![allow(clippy::single_range_in_vec_init, reason = "parts of one dimension")]

#[path = "../../examples/generate/config.rs"]
#[allow(dead_code, reason = "an example's")]
mod config;
#[path = "../../examples/generate/model.rs"]
mod model;
#[path = "../../examples/generate/reference.rs"]
mod reference;
#[path = "../../examples/generate/sample.rs"]
mod sample;
#[path = "../../examples/generate/session.rs"]
mod session;
#[path = "../../examples/generate/verify.rs"]
mod verify;
#[path = "../../examples/generate/weights.rs"]
mod weights;

use config::Config;
use half::{bf16, f16};
use model::Model;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use sample::{Sampler, top_k};
use session::Session;
use std::sync::LazyLock;
use tilewright::{Device, Error, Float, Stream};
use weights::Weights;

/// One device for all tests, so that each kernel is compiled once.
static DEVICE: LazyLock<Device> = LazyLock::new(|| match std::env::var("TILEWRIGHT_DEVICE").as_deref() {
    Ok("cuda") => Device::cuda(0).unwrap(),
    _ => Device::sim(),
});

/// Nine tokens and five steps.
const PROMPT: [i32; 9] = [5, 42, 79, 15, 52, 89, 25, 62, 99];
const STEPS: usize = 5;
const SEED: Weights = Weights::Random { seed: 1 };

/// Logits of the whole prompt and of each step, and all tokens.
fn run<T: Float>(config: &Config, weights: &Weights, sampler: Sampler) -> (Vec<Vec<T>>, Vec<i32>) {
    let stream = Stream::default_of(&DEVICE);
    let model = Model::<T>::new(&DEVICE, config.clone(), weights, PROMPT.len() + STEPS).unwrap();
    let mut session = Session::new(&model, &stream, sampler, true).unwrap();
    let logits = session.prefill(&PROMPT, PROMPT.len()).unwrap().to_vec().unwrap();
    let mut rows: Vec<Vec<T>> = logits.chunks(config.vocab).map(<[T]>::to_vec).collect();
    rows.extend((0..STEPS).map(|_| session.step().unwrap().to_vec().unwrap()));
    (rows, session.tokens().unwrap())
}

fn greatest<T: Float>(row: &[T]) -> (i32, f64) {
    let of = |(best, at): (f64, i32), (n, x): (usize, &T)| {
        if x.to_f64() > best { (x.to_f64(), n as i32) } else { (best, at) }
    };
    let (x, at) = row.iter().enumerate().fold((f64::NEG_INFINITY, 0), of);
    (at, x)
}

fn greedy<T: Float>(config: &Config) {
    let (rows, tokens) = run::<T>(config, &SEED, Sampler::Greedy);
    let sequence = &tokens[..tokens.len() - 1];
    let exact = reference::logits::<T>(config, &SEED, sequence).unwrap();
    let verdict = verify::judge(config.layers, &rows, &exact);
    assert!(verdict.verified, "{}: {verdict:?}", T::DTYPE);
    // Each token is the one of its own logits, and the reference's where none other comes near.
    let mut same = 0;
    for (n, token) in tokens.iter().enumerate().skip(PROMPT.len()) {
        let (row, exact) = (&rows[n - 1], &exact[n - 1]);
        assert_eq!(*token, greatest(row).0, "token {n} in {}", T::DTYPE);
        let top = exact.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let size = (exact.iter().map(|x| x * x).sum::<f64>() / exact.len() as f64).sqrt();
        let margin = top - exact[*token as usize];
        assert!(margin <= 2.0 * verify::limit::<T>(config.layers) * size, "token {n} in {}", T::DTYPE);
        same += usize::from(margin == 0.0);
    }
    assert!(same > 0, "in {}", T::DTYPE);
}

#[test]
fn prompt_and_steps_are_those_of_float64() {
    for config in [Config::toy(), tied()] {
        greedy::<f32>(&config);
        greedy::<f16>(&config);
        greedy::<bf16>(&config);
    }
}

/// One layer whose heads have whole vectors, with angles that are stretched, and with the table as the last weight.
fn tied() -> Config {
    let stretch = config::Stretch { factor: 4.0, low: 1.0, high: 2.0, context: 12.0 };
    Config { layers: 1, hidden: 64, ffn: 96, head: 16, stretch: Some(stretch), tied: true, ..Config::toy() }
}

#[test]
fn angles_of_long_texts() {
    let config = Config::llama_1b();
    // By the rule of the published model: fast ones stay, the slowest is divided by 32, and one between is neither.
    assert_eq!(config.angle(0), 1.0);
    let plain = |d: usize| config.theta.powf(-(d as f64) / 32.0);
    assert_eq!(config.angle(31), plain(31) / 32.0);
    let between = config.angle(16) / plain(16);
    assert!(between > 1.0 / 32.0 && between < 1.0, "{between}");
    assert_eq!(config.read(), 1_235_814_400);
}

fn longer<T: Float>() {
    // Steps come by other schedules than the tokens of a prompt: equal up to rounding.
    let config = Config::toy();
    let (rows, tokens) = run::<T>(&config, &SEED, Sampler::Greedy);
    let stream = Stream::default_of(&DEVICE);
    let model = Model::<T>::new(&DEVICE, config.clone(), &SEED, tokens.len()).unwrap();
    let mut session = Session::new(&model, &stream, Sampler::Greedy, false).unwrap();
    let sequence = &tokens[..tokens.len() - 1];
    // In two parts: the second sees the keys of the first.
    let mut together = session.prefill(&sequence[..4], 4).unwrap().to_vec().unwrap();
    together.extend(session.prefill(&sequence[4..], sequence.len() - 4).unwrap().to_vec().unwrap());
    let rows: Vec<Vec<f64>> = rows.iter().map(|row| row.iter().map(|x| x.to_f64()).collect()).collect();
    let together: Vec<Vec<T>> = together.chunks(config.vocab).map(<[T]>::to_vec).collect();
    // Both may be off.
    let verdict = verify::judge(config.layers, &together, &rows);
    assert!(verdict.worst <= 2.0, "{}: {verdict:?}", T::DTYPE);
}

#[test]
fn steps_are_a_longer_prompt() {
    longer::<f32>();
    longer::<f16>();
    longer::<bf16>();
}

fn stored<T: Float>() {
    let config = Config::toy();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    SEED.save::<T>(&config, &path).unwrap();
    let file = Weights::open(&path, &config).unwrap();
    let bits = |weights| {
        let (rows, tokens) = run::<T>(&config, weights, Sampler::Greedy);
        (rows.into_iter().flatten().map(|x| x.to_f64().to_bits()).collect::<Vec<_>>(), tokens)
    };
    assert!(bits(&SEED) == bits(&file), "in {}", T::DTYPE);
}

#[test]
fn weights_come_back_from_a_file() {
    stored::<f32>();
    stored::<f16>();
    stored::<bf16>();
}

#[test]
fn files_that_are_no_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let message = |config: &Config| Weights::open(&path, config).err().unwrap().to_string();
    assert!(message(&Config::toy()).contains("model.safetensors"));
    std::fs::write(&path, "no model").unwrap();
    assert!(message(&Config::toy()).contains("model.safetensors"));
    SEED.save::<f32>(&tied(), &path).unwrap();
    assert!(message(&Config { tied: false, ..tied() }).contains("lm_head.weight"));
    let shape = message(&Config { ffn: 8, ..tied() });
    assert_eq!(shape, "`model.layers.0.mlp.gate_proj.weight` has shape [96, 64], and the model has [8, 64]");
}

#[test]
fn tokens_by_their_probability() {
    let logits = [0.0f32, 2.0, 1.0, 2.0, -1.0];
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut counts = [0; 5];
    (0..1000).for_each(|_| counts[top_k(&logits, 3, &mut rng) as usize] += 1);
    // e² : e : e² of their sum.
    assert_eq!((counts[0], counts[4]), (0, 0));
    let share = 2f64.exp() / (2.0 * 2f64.exp() + 1f64.exp());
    assert!((f64::from(counts[1]) / 1000.0 - share).abs() < 0.05 && counts[2] > 0, "{counts:?}");
    assert_eq!(top_k(&logits, 1, &mut rng), 1);
    assert!((0..5).contains(&top_k(&logits, 99, &mut rng)));

    let config = Config::toy();
    let one = run::<f32>(&config, &SEED, Sampler::new(Some(1), 0)).1;
    assert_eq!(one, run::<f32>(&config, &SEED, Sampler::Greedy).1);
    let few = |seed| run::<f32>(&config, &SEED, Sampler::new(Some(20), seed)).1;
    assert_eq!(few(7), few(7));
    assert_ne!(few(7), few(8));
}

#[test]
fn a_graph_a_token_has_the_bits_of_launches() {
    let (rows, tokens) = run::<bf16>(&Config::toy(), &SEED, Sampler::Greedy);
    let stream = Stream::default_of(&DEVICE);
    let model = Model::<bf16>::new(&DEVICE, Config::toy(), &SEED, PROMPT.len() + STEPS).unwrap();
    let mut session = Session::new(&model, &stream, Sampler::Greedy, false).unwrap();
    session.prefill(&PROMPT, 1).unwrap();
    for row in &rows[PROMPT.len()..] {
        assert_eq!(session.step().unwrap().to_vec().unwrap(), *row);
    }
    assert_eq!(session.tokens().unwrap(), tokens);
}

#[test]
fn a_text_ends_with_the_positions() {
    let model = Model::<f32>::new(&DEVICE, Config::toy(), &SEED, 3).unwrap();
    let stream = Stream::default_of(&DEVICE);
    let mut session = Session::new(&model, &stream, Sampler::Greedy, false).unwrap();
    session.prefill(&[1, 2], 1).unwrap();
    session.step().unwrap();
    assert!(matches!(session.step(), Err(Error::Slice { .. })));
    assert_eq!(session.tokens().unwrap().len(), 4);
}

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
#[path = "../../examples/generate/spread.rs"]
mod spread;
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

/// The same devices for all tests, so that each kernel is compiled once a device: GPUs as far as there are some.
static DEVICES: LazyLock<Vec<Device>> =
    LazyLock::new(|| match std::env::var("TILEWRIGHT_DEVICE").as_deref() {
        Ok("cuda") => Device::all().unwrap(),
        _ => (0..4).map(|_| Device::sim()).collect(),
    });

/// So many of them, or none where there are too few.
fn devices(count: usize) -> Option<&'static [Device]> {
    let devices = DEVICES.get(..count);
    devices.is_none().then(|| eprintln!("skipped: there are no {count} devices"));
    devices
}

fn streams(devices: &[Device]) -> Vec<Stream> {
    devices.iter().map(Stream::default_of).collect()
}

/// Nine tokens and five steps.
const PROMPT: [i32; 9] = [5, 42, 79, 15, 52, 89, 25, 62, 99];
const STEPS: usize = 5;
const SEED: Weights = Weights::Random { seed: 1 };

/// Logits of the whole prompt and of each step, and all tokens.
fn run<T: Float>(config: &Config, weights: &Weights, sampler: Sampler) -> (Vec<Vec<T>>, Vec<i32>) {
    run_on(&DEVICES[..1], config, weights, sampler, true)
}

fn run_on<T: Float>(
    devices: &[Device],
    config: &Config,
    weights: &Weights,
    sampler: Sampler,
    graph: bool,
) -> (Vec<Vec<T>>, Vec<i32>) {
    let streams = streams(devices);
    let model = Model::<T>::new(devices, config.clone(), weights, PROMPT.len() + STEPS).unwrap();
    let mut session = Session::new(&model, &streams, sampler, graph).unwrap();
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

fn greedy<T: Float>(config: &Config, devices: &[Device]) {
    let (rows, tokens) = run_on::<T>(devices, config, &SEED, Sampler::Greedy, true);
    let sequence = &tokens[..tokens.len() - 1];
    let exact = reference::logits::<T>(config, &SEED, sequence).unwrap();
    let verdict = verify::judge(config.layers, devices.len(), &rows, &exact);
    assert!(verdict.verified, "{}: {verdict:?}", T::DTYPE);
    // Each token is the one of its own logits, and the reference's where none other comes near.
    let mut same = 0;
    for (n, token) in tokens.iter().enumerate().skip(PROMPT.len()) {
        let (row, exact) = (&rows[n - 1], &exact[n - 1]);
        assert_eq!(*token, greatest(row).0, "token {n} in {}", T::DTYPE);
        let top = exact.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let size = (exact.iter().map(|x| x * x).sum::<f64>() / exact.len() as f64).sqrt();
        let margin = top - exact[*token as usize];
        assert!(
            margin <= 2.0 * verify::limit::<T>(config.layers, devices.len()) * size,
            "token {n} in {}",
            T::DTYPE
        );
        same += usize::from(margin == 0.0);
    }
    assert!(same > 0, "in {}", T::DTYPE);
}

#[test]
fn prompt_and_steps_are_those_of_float64() {
    for config in [Config::toy(), tied()] {
        greedy::<f32>(&config, &DEVICES[..1]);
        greedy::<f16>(&config, &DEVICES[..1]);
        greedy::<bf16>(&config, &DEVICES[..1]);
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
    let streams = streams(&DEVICES[..1]);
    let model = Model::<T>::new(&DEVICES[..1], config.clone(), &SEED, tokens.len()).unwrap();
    let mut session = Session::new(&model, &streams, Sampler::Greedy, false).unwrap();
    let sequence = &tokens[..tokens.len() - 1];
    // In two parts: the second sees the keys of the first.
    let mut together = session.prefill(&sequence[..4], 4).unwrap().to_vec().unwrap();
    together.extend(session.prefill(&sequence[4..], sequence.len() - 4).unwrap().to_vec().unwrap());
    let rows: Vec<Vec<f64>> = rows.iter().map(|row| row.iter().map(|x| x.to_f64()).collect()).collect();
    let together: Vec<Vec<T>> = together.chunks(config.vocab).map(<[T]>::to_vec).collect();
    // Both may be off.
    let verdict = verify::judge(config.layers, 1, &together, &rows);
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
    for devices in [1, 2].into_iter().filter_map(devices) {
        let of = |graph| run_on::<bf16>(devices, &Config::toy(), &SEED, Sampler::Greedy, graph);
        assert!(of(true) == of(false), "{} devices", devices.len());
    }
}

#[test]
fn a_text_ends_with_the_positions() {
    let model = Model::<f32>::new(&DEVICES[..1], Config::toy(), &SEED, 3).unwrap();
    let streams = streams(&DEVICES[..1]);
    let mut session = Session::new(&model, &streams, Sampler::Greedy, false).unwrap();
    session.prefill(&[1, 2], 1).unwrap();
    session.step().unwrap();
    assert!(matches!(session.step(), Err(Error::Slice { .. })));
    assert_eq!(session.tokens().unwrap().len(), 4);
}

/// Sizes that 1, 2 and 4 devices share out, odd ones where they may be: also the vocabulary, whose last part is shorter.
fn shared() -> Config {
    Config { heads: 8, kv_heads: 4, ..Config::toy() }
}

#[test]
fn devices_share_a_model() {
    for (config, count) in [(Config::toy(), 2), (shared(), 2), (shared(), 4), (shared_tied(), 4)] {
        let Some(devices) = devices(count) else { continue };
        greedy::<f32>(&config, devices);
        greedy::<f16>(&config, devices);
        greedy::<bf16>(&config, devices);
        // In f32 no rounding of the parts is near enough to a choice to change it.
        let tokens = |devices| run_on::<f32>(devices, &config, &SEED, Sampler::Greedy, true).1;
        assert_eq!(tokens(devices), tokens(&DEVICES[..1]), "{config:?} on {count}");
    }
}

/// The same with whole vectors, and a view of the table of embeddings as the last weight.
fn shared_tied() -> Config {
    Config { heads: 8, kv_heads: 4, ..tied() }
}

#[test]
fn devices_share_a_file_and_choose_alike() {
    let Some(devices) = devices(2) else { return };
    let (config, folder) = (Config::toy(), tempfile::tempdir().unwrap());
    let path = folder.path().join("model.safetensors");
    SEED.save::<f32>(&config, &path).unwrap();
    let file = Weights::open(&path, &config).unwrap();
    // Sampled: the host's choice goes to all devices.
    let of = |devices, weights| run_on::<f32>(devices, &config, weights, Sampler::new(Some(20), 7), true);
    let ((rows, tokens), (same, again)) = (of(devices, &SEED), of(devices, &file));
    assert!(rows == same && tokens == again);
    assert_eq!(tokens, of(&DEVICES[..1], &file).1);
}

#[test]
fn models_that_devices_cannot_share() {
    let message = |config: &Config, devices| config.part(devices).unwrap_err();
    assert_eq!(
        message(&Config::toy(), 4),
        "6 heads are not shared out evenly by 4 devices: take one of 1, 2"
    );
    assert_eq!(
        message(&Config { heads: 6, kv_heads: 2, ..Config::toy() }, 3),
        "2 heads of keys and values are not shared out evenly by 3 devices: take one of 1, 2"
    );
    assert_eq!(
        message(&Config { ffn: 78, ..shared() }, 4),
        "78 columns of a feed-forward layer are not shared out evenly by 4 devices: take one of 1, 2"
    );
    let Some(devices) = devices(4) else { return };
    let error = Model::<f32>::new(devices, Config::toy(), &SEED, 9).err().unwrap();
    assert_eq!(error.to_string(), message(&Config::toy(), 4));
    // What the error names works.
    assert!((1..=8).filter(|n| Config::llama_1b().part(*n).is_ok()).eq([1, 2, 4, 8]));
    assert_eq!(Config::llama_1b().part(8).unwrap().kv_heads, 1);
}

#[test]
fn parts_are_whole_without_gaps() {
    for (length, devices) in [(101, 2), (101, 4), (5, 4), (3, 4), (0, 2), (12, 4)] {
        let parts: Vec<_> = (0..devices).map(|at| spread::part(length, at, devices)).collect();
        assert!(parts.iter().flat_map(Clone::clone).eq(0..length), "{parts:?}");
        assert!(parts.iter().all(|part| part.len() <= parts[0].len()), "{parts:?}");
    }
}

//! Which token comes next.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tilewright::Float;

/// How a token is chosen by its logits.
pub enum Sampler {
    /// The one with the greatest logit, found on the device.
    Greedy,
    /// One of the k greatest, by its probability among them. The host reads the logits.
    TopK { k: usize, rng: Box<ChaCha8Rng> },
}

impl Sampler {
    /// Of the `k` greatest, or greedy for `None` and 1.
    pub fn new(k: Option<usize>, seed: u64) -> Self {
        match k {
            None | Some(1) => Sampler::Greedy,
            Some(k) => Sampler::TopK { k, rng: Box::new(ChaCha8Rng::seed_from_u64(seed)) },
        }
    }
}

/// One of the `k` greatest logits, by its probability among them. Of equal ones the first are taken.
pub fn top_k<T: Float>(logits: &[T], k: usize, rng: &mut ChaCha8Rng) -> i32 {
    let mut order: Vec<(f64, usize)> = logits.iter().map(|x| x.to_f64()).zip(0..).collect();
    let greater = |a: &(f64, usize), b: &(f64, usize)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
    let k = k.clamp(1, order.len());
    order.select_nth_unstable_by(k - 1, greater);
    order.truncate(k);
    order.sort_by(greater);
    let top = order[0].0;
    let weight = |(x, _): &(f64, usize)| (x - top).exp();
    let mut rest = rng.random::<f64>() * order.iter().map(weight).sum::<f64>();
    let chosen = order.iter().find(|of| {
        rest -= weight(of);
        rest < 0.0
    });
    // Rounding may leave a little of the rest.
    chosen.unwrap_or(&order[k - 1]).1 as i32
}

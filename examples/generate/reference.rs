//! The same model in `f64`, for checking: plain loops over all tokens, layer by layer, without a cache.

use super::{
    config::{Config, Named},
    weights::{Failure, Weights},
};
use rayon::prelude::*;
use tilewright::Float;

/// Logits of each token, with weights as `T` has them.
///
/// # Errors
/// Those of the weights.
pub fn logits<T: Float>(config: &Config, weights: &Weights, ids: &[i32]) -> Result<Vec<Vec<f64>>, Failure> {
    let read = |named: &Named| -> Result<Vec<f64>, Failure> {
        Ok(weights.read::<T>(named)?.iter().map(|x| x.to_f64()).collect())
    };
    let table = read(&config.embedding())?;
    let mut x: Vec<Vec<f64>> =
        ids.iter().map(|id| table[*id as usize * config.hidden..][..config.hidden].to_vec()).collect();
    for n in 0..config.layers {
        let names = config.layer(n);
        let z = normed(&x, &read(&names.attention_norm)?, config.eps);
        let mut q = product(&z, &read(&names.q)?);
        let mut k = product(&z, &read(&names.k)?);
        let v = product(&z, &read(&names.v)?);
        for rows in [&mut q, &mut k] {
            rows.iter_mut().enumerate().for_each(|(at, row)| turn(config, at, row));
        }
        let o: Vec<Vec<f64>> =
            (0..ids.len()).map(|at| attend(config, &q[at], &k[..=at], &v[..=at])).collect();
        add(&mut x, &product(&o, &read(&names.o)?));
        let z = normed(&x, &read(&names.ffn_norm)?, config.eps);
        let (mut gate, up) = (product(&z, &read(&names.gate)?), product(&z, &read(&names.up)?));
        for (gate, up) in gate.iter_mut().flatten().zip(up.iter().flatten()) {
            *gate = *gate / (1.0 + (-*gate).exp()) * up;
        }
        add(&mut x, &product(&gate, &read(&names.down)?));
    }
    let z = normed(&x, &read(&config.last_norm())?, config.eps);
    Ok(product(&z, &read(&config.output())?))
}

fn normed(x: &[Vec<f64>], gain: &[f64], eps: f32) -> Vec<Vec<f64>> {
    let of = |row: &Vec<f64>| {
        let square = row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64;
        let scale = 1.0 / (square + f64::from(eps)).sqrt();
        row.iter().zip(gain).map(|(x, g)| x * scale * g).collect()
    };
    x.iter().map(of).collect()
}

/// Each row times each row of the weight.
fn product(x: &[Vec<f64>], weight: &[f64]) -> Vec<Vec<f64>> {
    let dot = |row: &[f64], w: &[f64]| row.iter().zip(w).map(|(x, w)| x * w).sum::<f64>();
    x.iter().map(|row| weight.par_chunks(row.len()).map(|w| dot(row, w)).collect()).collect()
}

fn add(x: &mut [Vec<f64>], y: &[Vec<f64>]) {
    x.iter_mut().flatten().zip(y.iter().flatten()).for_each(|(x, y)| *x += y);
}

/// The heads of a row, turned by the angles of a position.
fn turn(config: &Config, at: usize, row: &mut [f64]) {
    let half = config.head / 2;
    for head in row.chunks_mut(config.head) {
        for d in 0..half {
            let (sin, cos) = (at as f64 * config.angle(d)).sin_cos();
            let (u, v) = (head[d], head[d + half]);
            (head[d], head[d + half]) = (u * cos - v * sin, v * cos + u * sin);
        }
    }
}

/// What each head of a row of queries has of the values.
fn attend(config: &Config, q: &[f64], keys: &[Vec<f64>], values: &[Vec<f64>]) -> Vec<f64> {
    let one = |(n, q): (usize, &[f64])| {
        let of = n / (config.heads / config.kv_heads) * config.head..;
        let part = |row: &Vec<f64>| row[of.clone()][..config.head].to_vec();
        let scale = 1.0 / (config.head as f64).sqrt();
        let score = |k: &Vec<f64>| part(k).iter().zip(q).map(|(k, q)| k * q).sum::<f64>() * scale;
        let scores: Vec<f64> = keys.iter().map(score).collect();
        let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = scores.iter().map(|s| (s - top).exp()).sum();
        let mut o = vec![0.0; config.head];
        for (score, row) in scores.iter().zip(values) {
            let weight = (score - top).exp() / total;
            o.iter_mut().zip(part(row)).for_each(|(o, v)| *o += weight * v);
        }
        o
    };
    q.chunks(config.head).enumerate().flat_map(one).collect()
}

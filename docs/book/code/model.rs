//! "A model".

use super::{assert_close, value};

// ANCHOR: solution
use tilewright::{Buffer, Device, Error, Graph, Stream};
use tilewright_kernels::{Queue, add, gelu_tanh, layer_norm, linear};

/// The tensors of GPT-2's feed-forward layer: gain and bias of the norm, then weight and bias of each linear layer.
pub struct FeedForward {
    pub norm: [Buffer<f32>; 2],
    pub first: [Buffer<f32>; 2],
    pub second: [Buffer<f32>; 2],
}

/// y = x + w₂·gelu(w₁·norm(x) + b₁) + b₂, for each row of x.
pub fn feed_forward(
    on: &impl Queue,
    layer: &FeedForward,
    x: &Buffer<f32>,
    y: &mut Buffer<f32>,
) -> Result<(), Error> {
    let FeedForward { norm: [gain, shift], first: [w1, b1], second: [w2, b2] } = layer;
    let wide = [x.shape()[0], b1.shape()[0]];
    let [mut z, mut back] =
        [Buffer::uninit(on.device(), x.shape())?, Buffer::uninit(on.device(), x.shape())?];
    let [mut h, mut a] = [Buffer::uninit(on.device(), &wide)?, Buffer::uninit(on.device(), &wide)?];
    layer_norm(on, x, gain, shift, 1e-5, &mut z)?;
    linear(on, &z, w1, Some(b1), &mut h)?;
    gelu_tanh(on, &h, &mut a)?;
    linear(on, &a, w2, Some(b2), &mut back)?;
    add(on, x, &back, y)
}
// ANCHOR_END: solution

#[test]
fn a_layer_on_a_stream_and_in_a_graph() {
    let (rows, n, wide) = (2, 5, 7);
    let device = Device::sim();
    let data = |from: usize, len: usize| (from..from + len).map(|n| value(n) / 8.0).collect::<Vec<f32>>();
    let buffer = |data: &[f32], shape: &[usize]| Buffer::from_slice(&device, data, shape).expect("it fits");
    let (x, gain, shift) = (data(0, rows * n), data(1, n), data(2, n));
    let (w1, b1, w2, b2) = (data(3, wide * n), data(4, wide), data(5, n * wide), data(6, n));
    let layer = FeedForward {
        norm: [buffer(&gain, &[n]), buffer(&shift, &[n])],
        first: [buffer(&w1, &[wide, n]), buffer(&b1, &[wide])],
        second: [buffer(&w2, &[n, wide]), buffer(&b2, &[n])],
    };
    let expected: Vec<f32> = x
        .chunks(n)
        .flat_map(|row| {
            let mean = row.iter().sum::<f32>() / n as f32;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / n as f32;
            let z: Vec<f32> =
                (0..n).map(|j| (row[j] - mean) / (variance + 1e-5).sqrt() * gain[j] + shift[j]).collect();
            let dot = |w: &[f32], x: &[f32]| w.iter().zip(x).map(|(w, x)| w * x).sum::<f32>();
            let gelu = |x: f32| 0.5 * x * (1.0 + (0.797_884_6 * (x + 0.044715 * x.powi(3))).tanh());
            let a: Vec<f32> = w1.chunks(n).zip(&b1).map(|(w, b)| gelu(dot(w, &z) + b)).collect();
            w2.chunks(wide).zip(&b2).zip(row).map(|((w, b), x)| x + dot(w, &a) + b).collect::<Vec<_>>()
        })
        .collect();

    let (x, stream) = (buffer(&x, &[rows, n]), Stream::default_of(&device));
    let [mut alone, mut recorded] = [buffer(&[0.0; 10], &[rows, n]), buffer(&[0.0; 10], &[rows, n])];
    feed_forward(&stream, &layer, &x, &mut alone).expect("it fits");
    let mut graph = Graph::new(&device);
    let replayed = graph.replay(&stream, |launches| feed_forward(launches, &layer, &x, &mut recorded));
    assert_eq!(replayed.expect("it fits").launches, 5);
    let alone = alone.to_vec().expect("it has run");
    assert_close(&alone, &expected, 1e-5);
    assert_eq!(alone, recorded.to_vec().expect("it has run"));
}

//! Functions in graphs.

use crate::{each_type, support::*};
use tilewright::{Error, Float, Graph};
use tilewright_kernels::{Queue, attention, linear, norm_linear, rms_norm, silu};

/// A few functions one behind the other, with scratch buffers among them: the result of m rows, and of one query to n keys.
fn several<T: Float>(on: &impl Queue, [m, n]: [usize; 2]) -> Result<[tilewright::Buffer<T>; 2], Error> {
    let [x, gain, w] = [
        buffer(&normal(1, m * 24), &[m, 24]),
        buffer(&normal(2, 24), &[24]),
        buffer(&normal(3, 480), &[20, 24]),
    ];
    let [mut z, mut a, mut b, mut y] =
        [poisoned(&[m, 24]), poisoned(&[m, 20]), poisoned(&[m, 20]), poisoned::<T>(&[m, 24])];
    rms_norm(on, &x, &gain, 1e-3, &mut z)?;
    linear(on, &z, &w, None, &mut a)?;
    norm_linear(on, &x, &gain, 1e-3, &w, &mut b)?;
    silu(on, &z, &mut y)?;
    let [q, k, v] = [
        buffer(&normal(4, 16), &[1, 2, 1, 8]),
        buffer(&normal(5, n * 8), &[1, 1, n, 8]),
        buffer(&normal(6, n * 8), &[1, 1, n, 8]),
    ];
    let mut o = poisoned(&[1, 2, 1, 8]);
    attention(on, &q, &k, &v, 0.3, true, &mut o)?;
    // What is dropped here is kept until the launches have ended.
    Ok([b, o])
}

fn graphs<T: Float>() {
    let mut graph = Graph::new(&DEVICE);
    for (round, size) in [[3, 40], [3, 40], [20, 700], [1, 600]].into_iter().enumerate() {
        let alone = several::<T>(&stream(), size).unwrap();
        let mut recorded = None;
        let replayed = graph.replay(&stream(), |launches| {
            recorded = Some(several::<T>(launches, size)?);
            Ok(())
        });
        // Of many rows the norm is a launch of its own, and of many keys there are parts.
        let launches = 5 + usize::from(size[0] > 16) + usize::from(size[1] >= 256);
        assert_eq!(replayed.unwrap().launches, launches, "round {round}");
        for (alone, recorded) in alone.iter().zip(&recorded.unwrap()) {
            let bits = |x: &tilewright::Buffer<T>| {
                x.to_vec().unwrap().iter().map(|x| x.to_f64().to_bits()).collect::<Vec<_>>()
            };
            assert_eq!(bits(alone), bits(recorded), "round {round} in {}", T::DTYPE);
        }
    }
}

#[test]
fn a_graph_has_the_bits_of_a_stream() {
    each_type!(graphs);
}

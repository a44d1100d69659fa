//! Tables, caches, positions.

use crate::{each_type, support::*};
use tilewright::{Buffer, Float, Stream};
use tilewright_kernels::{embedding, kv_append, rope, rope_interleaved, scatter_rows};

fn tables<T: Float>() {
    for [s, v, d] in [[0, 3, 4], [1, 1, 1], [5, 4, 0], [7, 11, 33], [9, 20, 1032], [1025, 3, 8]] {
        let table = normal::<T>(1, v * d);
        // Some lead nowhere, before the table and behind it.
        let ids: Vec<i32> = (0..s as i32).map(|n| n * 7 % (v as i32 + 2) - 1).collect();
        let mut y = poisoned(&[s, d]);
        embedding(&stream(), &buffer(&ids, &[s]), &buffer(&table, &[v, d]), &mut y).unwrap();
        let row = |id: i32| usize::try_from(id).ok().filter(|id| *id < v);
        let exact = ids.iter().flat_map(|id| match row(*id) {
            Some(row) => table[row * d..][..d].to_vec(),
            None => vec![T::default(); d],
        });
        assert_eq!(y.to_vec().unwrap(), exact.collect::<Vec<_>>(), "{s} of {v} rows of {d}");
    }
}

#[test]
fn rows_of_a_table() {
    each_type!(tables);
}

fn caches<T: Float>() {
    for [s, l, h, d] in [[0, 2, 1, 4], [1, 1, 1, 1], [3, 7, 2, 5], [6, 9, 9, 64], [2, 5, 1, 136]] {
        let (k, v) = (normal::<T>(1, s * h * d), normal::<T>(2, s * h * d));
        let before = [normal::<T>(3, l * h * d), normal::<T>(4, l * h * d)];
        let slots: Vec<i32> = (0..s).map(|n| if n == 1 { -1 } else { ((n * 2 + 1) % l) as i32 }).collect();
        let [mut kc, mut vc] = before.each_ref().map(|before| buffer(before, &[l, h, d]));
        let (keys, values) = (buffer(&k, &[s, h, d]), buffer(&v, &[s, h, d]));
        kv_append(&stream(), &keys, &values, &buffer(&slots, &[s]), &mut kc, &mut vc).unwrap();
        for (rows, mut exact, found) in [(k, before[0].clone(), kc), (v, before[1].clone(), vc)] {
            for (n, slot) in slots.iter().enumerate().filter(|(_, slot)| **slot >= 0) {
                exact[*slot as usize * h * d..][..h * d].copy_from_slice(&rows[n * h * d..][..h * d]);
            }
            assert_eq!(found.to_vec().unwrap(), exact, "{s} tokens of {h} heads of {d}");
        }
    }
}

#[test]
fn slots_of_a_cache() {
    each_type!(caches);
}

fn scattered<T: Float>() {
    for [s, l, d] in [[0, 3, 4], [1, 1, 1], [4, 5, 0], [7, 20, 33], [5, 11, 1032], [1030, 1031, 9]] {
        let (x, mut exact) = (normal::<T>(1, s * d), normal::<T>(2, l * d));
        // Two lead nowhere, before the first row and behind the last.
        let to = |n: usize| match n {
            1 => -1,
            2 => l as i32,
            _ => ((n * 3 + 1) % l) as i32,
        };
        let at: Vec<i32> = (0..s).map(to).collect();
        let mut y = buffer(&exact, &[l, d]);
        scatter_rows(&stream(), &buffer(&at, &[s]), &buffer(&x, &[s, d]), &mut y).unwrap();
        for (n, at) in at.iter().enumerate().filter(|(_, at)| (0..l as i32).contains(at)) {
            exact[*at as usize * d..][..d].copy_from_slice(&x[n * d..][..d]);
        }
        assert_eq!(y.to_vec().unwrap(), exact, "{s} rows of {d} to {l}");
    }
}

#[test]
fn rows_to_their_places() {
    each_type!(scattered);
}

/// Angles of a table of positions, d of them each.
fn angles(positions: usize, d: usize) -> [Vec<f32>; 2] {
    let angle = |n: usize| (n / d.max(1)) as f64 / 100f64.powf((n % d.max(1)) as f64 / d as f64);
    let table = |f: fn(f64) -> f64| (0..positions * d).map(|n| f(angle(n)) as f32).collect();
    [table(f64::cos), table(f64::sin)]
}

type Turn<T> =
    fn(&Stream, &Buffer<i32>, &Buffer<f32>, &Buffer<f32>, &mut Buffer<T>) -> Result<(), tilewright::Error>;

fn turned<T: Float>(name: &str, function: Turn<T>, pair: fn(usize, usize) -> [usize; 2]) {
    for [s, h, d] in [[0, 1, 4], [1, 1, 1], [2, 3, 0], [3, 9, 5], [4, 2, 64], [2, 1, 68]] {
        let positions = 10;
        let [cos, sin] = angles(positions, d);
        let at: Vec<i32> = (0..s as i32).map(|n| n * 3 % positions as i32).collect();
        let before = normal::<T>(1, s * h * 2 * d);
        let mut x = buffer(&before, &[s, h, 2 * d]);
        let [c, t] = [&cos, &sin].map(|table| buffer(table, &[positions, d]));
        function(&stream(), &buffer(&at, &[s]), &c, &t, &mut x).unwrap();
        let mut exact = vec![(0.0, 0.0); before.len()];
        for (n, head) in wide(&before).chunks(2 * d.max(1)).enumerate() {
            for e in 0..d {
                let row = at[n / h] as usize * d + e;
                let (c, t) = (f64::from(cos[row]), f64::from(sin[row]));
                let [first, second] = pair(e, d);
                let (u, v) = (head[first], head[second]);
                let bound = |a: f64, b: f64| 2.0 * U * (a.abs() + b.abs());
                exact[n * 2 * d + first] = (u * c - v * t, bound(u * c, v * t));
                exact[n * 2 * d + second] = (v * c + u * t, bound(v * c, u * t));
            }
        }
        check(name, &x, exact);
    }
}

fn turns<T: Float>() {
    turned::<T>("rope", rope, |e, d| [e, e + d]);
    turned::<T>("rope_interleaved", rope_interleaved, |e, _| [2 * e, 2 * e + 1]);
}

#[test]
fn angles_of_positions() {
    each_type!(turns);
}

#[test]
fn queries_of_a_projection() {
    // Of three heads the first two are turned where they lie.
    let (s, d) = (3, 8);
    let [cos, sin] = angles(4, d);
    let before = normal::<f32>(1, s * 3 * 2 * d);
    let mut all = buffer(&before, &[s, 3, 2 * d]);
    let at = buffer(&[1, 2, 3], &[s]);
    let tables = [&cos, &sin].map(|table| buffer(table, &[4, d]));
    let mut alone = buffer(&before, &[s, 3, 2 * d]);
    rope(&stream(), &at, &tables[0], &tables[1], &mut alone).unwrap();
    let mut queries = all.slice_mut(&[0..s, 0..2, 0..2 * d]).unwrap();
    rope(&stream(), &at, &tables[0], &tables[1], &mut queries).unwrap();
    drop(queries);
    let (found, turned) = (all.to_vec().unwrap(), alone.to_vec().unwrap());
    for (n, x) in found.iter().enumerate() {
        let expected = if n / (2 * d) % 3 < 2 { turned[n] } else { before[n] };
        assert_eq!(*x, expected, "element {n}");
    }
}

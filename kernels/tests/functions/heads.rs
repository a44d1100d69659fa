//! Heads between a projection and attention.

use crate::{each_type, support::*};
use tilewright::{Buffer, Error, Float};
use tilewright_kernels::{merge_heads, rope_append};

/// Sequences, tokens, heads of queries, of keys, places, half of a head.
const SIZES: [[usize; 6]; 8] = [
    [0, 1, 2, 1, 4, 2],
    [1, 0, 2, 1, 4, 2],
    [1, 1, 1, 1, 1, 1],
    [1, 1, 8, 2, 5, 32],
    [2, 3, 6, 3, 7, 5],
    [2, 2, 9, 1, 4, 20],
    [1, 5, 4, 4, 9, 64],
    [1, 2, 2, 2, 3, 68],
];

fn turned<T: Float>() {
    for size @ [b, m, h, g, l, d] in SIZES {
        let (all, positions) = (h + 2 * g, 11);
        let qkv = normal::<T>(1, b * m * all * 2 * d);
        let angles: Vec<f64> = wide(&normal::<f32>(2, positions * d));
        let [cos, sin] =
            [f64::cos, f64::sin].map(|f| angles.iter().map(|a| f(*a) as f32).collect::<Vec<_>>());
        let position: Vec<i32> = (0..b * m).map(|n| (n * 3 % positions) as i32).collect();
        // The second token of a sequence has no place.
        let slot: Vec<i32> =
            (0..b * m).map(|n| if n % m == 1 { -1 } else { ((n % m * 2 + 1) % l) as i32 }).collect();
        let caches: [Vec<T>; 2] = [normal(3, b * g * l * 2 * d), normal(4, b * g * l * 2 * d)];
        let [mut kc, mut vc] = caches.each_ref().map(|cache| buffer(cache, &[b, g, l, 2 * d]));
        let mut q = poisoned::<T>(&[b, h, m, 2 * d]);
        let [c, s] = [&cos, &sin].map(|table| buffer(table, &[positions, d]));
        let [at, to] = [&position, &slot].map(|of| buffer(of, &[b, m]));
        let x = buffer(&qkv, &[b, m, all, 2 * d]);
        rope_append(&stream(), &x, &at, &to, [&c, &s], &mut q, [&mut kc, &mut vc]).unwrap();

        let x = wide(&qkv);
        let head = |n: usize, head: usize| &x[(n * all + head) * 2 * d..][..2 * d];
        let turn = |n: usize, of: usize| {
            let row = position[n] as usize * d;
            let (head, table) = (head(n, of), |table: &[f32], e: usize| f64::from(table[row + e % d]));
            let one = |e: usize| {
                let other = if e < d { -head[e + d] } else { head[e - d] };
                let (u, v) = (head[e] * table(&cos, e), other * table(&sin, e));
                (u + v, 2.0 * U * (u.abs() + v.abs()))
            };
            (0..2 * d).map(one).collect::<Vec<_>>()
        };
        let each = |of: usize| (0..b).flat_map(move |b| (0..of).map(move |n| (b, n)));
        let queries = each(h).flat_map(|(b, of)| (0..m).flat_map(move |i| turn(b * m + i, of)));
        check(&format!("queries of {size:?}"), &q, queries.collect::<Vec<_>>());
        let same = |cache: &[T]| wide(cache).into_iter().map(|x| (x, 0.0)).collect::<Vec<_>>();
        let [mut keys, mut values] = caches.each_ref().map(|cache| same(cache));
        for n in (0..b * m).filter(|n| slot[*n] >= 0) {
            for of in 0..g {
                let at = ((n / m * g + of) * l + slot[n] as usize) * 2 * d;
                keys[at..][..2 * d].copy_from_slice(&turn(n, h + of));
                let value: Vec<_> = head(n, h + g + of).iter().map(|x| (*x, 0.0)).collect();
                values[at..][..2 * d].copy_from_slice(&value);
            }
        }
        check(&format!("keys of {size:?}"), &kc, keys);
        check(&format!("values of {size:?}"), &vc, values);
    }
}

#[test]
fn queries_turned_and_keys_in_their_places() {
    each_type!(turned);
}

fn merged<T: Float>() {
    for [b, m, h, _, _, d] in SIZES {
        let x = normal::<T>(1, b * h * m * d);
        let mut y = poisoned(&[b, m, h, d]);
        merge_heads(&stream(), &buffer(&x, &[b, h, m, d]), &mut y).unwrap();
        let rows = |b: usize, i: usize| {
            (0..h).flat_map(move |of| (0..d).map(move |e| ((b * h + of) * m + i) * d + e))
        };
        let exact: Vec<T> =
            (0..b).flat_map(|b| (0..m).flat_map(move |i| rows(b, i))).map(|at| x[at]).collect();
        assert_eq!(y.to_vec().unwrap(), exact, "{b} sequences of {m} tokens of {h} heads of {d}");
    }
}

#[test]
fn heads_side_by_side() {
    each_type!(merged);
}

#[test]
fn heads_that_do_not_fit() {
    let zeros = |shape: &[usize]| Buffer::<f32>::zeros(&DEVICE, shape).unwrap();
    let at = Buffer::<i32>::zeros(&DEVICE, &[1, 1]).unwrap();
    let message = |qkv: &[usize], q: &[usize], k: &[usize], v: &[usize]| {
        let table = zeros(&[1, 2]);
        let result: Result<(), Error> = rope_append(
            &stream(),
            &zeros(qkv),
            &at,
            &at,
            [&table, &table],
            &mut zeros(q),
            [&mut zeros(k), &mut zeros(v)],
        );
        result.unwrap_err().to_string()
    };
    let cache = [1, 2, 3, 4];
    assert!(message(&[1, 1, 8, 4], &[1, 4, 4], &cache, &cache).contains("four dimensions"));
    assert!(message(&[1, 1, 7, 4], &[1, 3, 1, 4], &cache, &cache).contains("[1, 3, 1, 4]"));
    assert!(message(&[1, 1, 7, 4], &[1, 4, 1, 4], &cache, &cache).contains("`qkv` of rope_append"));
    assert!(message(&[1, 1, 8, 4], &[1, 4, 1, 4], &cache, &[1, 2, 2, 4]).contains("`v_cache`"));
    assert!(message(&[1, 1, 8, 3], &[1, 4, 1, 3], &cache, &cache).contains("pairs"));
}

//! A mixture of experts: where tokens go, their blocks, and the product.

use crate::{each_type, support::*};
use tilewright::{AnySchedule, Buffer, Error, Float, Graph};
use tilewright_kernels::{Blocks, Queue, choose, expert_blocks, experts, kernels, route};

/// Places of the greatest elements of a row, the first first.
fn greatest(row: &[f64], count: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..row.len()).collect();
    places.sort_by(|a, b| row[*b].total_cmp(&row[*a]));
    places.truncate(count);
    places
}

fn routes<T: Float>() {
    for [s, e, c] in [[0, 3, 2], [1, 1, 1], [3, 4, 0], [5, 8, 8], [9, 33, 2], [2, 256, 7], [3, 70, 70]] {
        let mut logits = normal::<T>(1, s * e);
        // Two equal ones: the first counts.
        for row in logits.chunks_mut(e).filter(|_| e > 4) {
            (row[1], row[e - 1]) = (T::from_f64(3.0), T::from_f64(3.0));
        }
        for renormalize in [false, true] {
            let (mut expert, mut gate) = (poisoned::<i32>(&[s, c]), poisoned::<f32>(&[s, c]));
            route(&stream(), &buffer(&logits, &[s, e]), renormalize, &mut expert, &mut gate).unwrap();
            let (mut places, mut gates) = (Vec::new(), Vec::new());
            for row in wide(&logits).chunks(e) {
                let top = greatest(row, c);
                let weight = |x: f64| (x - row[greatest(row, 1)[0]]).exp();
                let among = if renormalize { c } else { e };
                let total: f64 = greatest(row, among).iter().map(|n| weight(row[*n])).sum();
                places.extend(top.iter().map(|n| *n as i32));
                gates.extend(top.iter().map(|n| {
                    let exact = weight(row[*n]) / total;
                    (exact, exact * (16.0 + e as f64 + 4.0 * row[*n].abs()) * U)
                }));
            }
            assert_eq!(expert.to_vec().unwrap(), places, "{s} tokens to {c} of {e}");
            check("route", &gate, gates);
        }
    }
}

#[test]
fn gates_of_tokens() {
    each_type!(routes);
    // Infinities, zeros of both signs, and NaN before all.
    let row = [0.0, -0.0, f32::NEG_INFINITY, f32::INFINITY, f32::NAN, 0.0];
    let (mut expert, mut gate) = (poisoned::<i32>(&[1, 6]), poisoned::<f32>(&[1, 6]));
    route(&stream(), &buffer(&row, &[1, 6]), false, &mut expert, &mut gate).unwrap();
    assert_eq!(expert.to_vec().unwrap(), [4, 3, 0, 5, 1, 2]);
    assert!(gate.to_vec().unwrap().iter().all(|gate| gate.is_nan()));
}

/// Slots of S tokens with C each among E experts, in blocks of R.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    s: usize,
    c: usize,
    e: usize,
    r: usize,
}

/// What the blocks of slots have: tokens, experts, places.
fn sorted(at: &[i32], Sizes { s, c, e, r }: Sizes) -> [Vec<i32>; 3] {
    let most = Blocks::most(s * c, e, r);
    let (mut token, mut expert, mut place) = (vec![-1; most * r], vec![-1; most], vec![-1; s * c]);
    let mut next = 0;
    for own in 0..e as i32 {
        let slots: Vec<usize> = (0..s * c).filter(|slot| at[*slot] == own).collect();
        for (n, slot) in slots.iter().enumerate() {
            expert[next + n / r] = own;
            token[next * r + n] = (slot / c) as i32;
            place[*slot] = (next * r + n) as i32;
        }
        next += slots.len().div_ceil(r);
    }
    [token, expert, place]
}

fn made(at: &[i32], Sizes { s, c, e, r }: Sizes) -> Blocks {
    let mut blocks = Blocks::uninit(&DEVICE, [s, c], e, r).unwrap();
    expert_blocks(&stream(), &buffer(at, &[s, c]), e, &mut blocks).unwrap();
    blocks
}

#[test]
fn slots_in_blocks() {
    let sizes = |s, c, e, r| Sizes { s, c, e, r };
    for sizes in [
        sizes(0, 2, 3, 16),
        sizes(3, 0, 3, 16),
        sizes(1, 1, 1, 1),
        sizes(5, 3, 3, 2),
        sizes(50, 2, 7, 16),
        sizes(333, 4, 33, 64),
        sizes(700, 2, 65, 128),
        // Several parts, the last of them whole.
        sizes(1024, 2, 5, 50),
    ] {
        let Sizes { s, c, e, .. } = sizes;
        let spread = |slot: usize| (slot * 7919 + slot / 5) % e;
        let ways: [&dyn Fn(usize) -> i32; 4] = [
            &|slot| spread(slot) as i32,
            // All to the last expert.
            &|_| e as i32 - 1,
            // Some experts without tokens.
            &|slot| (spread(slot) / 3 * 3 % e) as i32,
            // Some slots without an expert, on either side.
            &|slot| (slot * 31 % (e + 2)) as i32 - 1,
        ];
        for (n, way) in ways.iter().enumerate() {
            let at: Vec<i32> = (0..s * c).map(way).collect();
            let blocks = made(&at, sizes);
            let found = [&blocks.token, &blocks.expert, &blocks.place].map(|x| x.to_vec().unwrap());
            assert!(found == sorted(&at, sizes), "{sizes:?}, way {n}: {found:?}");
        }
    }
}

#[test]
fn as_many_blocks_as_there_can_be() {
    // Every way to share out the slots: the most is reached, and never passed.
    fn ways(slots: usize, experts: usize, rows: usize) -> usize {
        match experts {
            0 => 0,
            1 => slots.div_ceil(rows),
            _ => (0..=slots)
                .map(|own| own.div_ceil(rows) + ways(slots - own, experts - 1, rows))
                .max()
                .unwrap(),
        }
    }
    for slots in 0..9 {
        for experts in 1..5 {
            for rows in 1..6 {
                let most = Blocks::most(slots, experts, rows);
                assert_eq!(most, ways(slots, experts, rows), "{slots} slots, {experts} experts, {rows} rows");
            }
        }
    }
}

/// Tokens, their experts, and what a mixture makes of them.
struct Mixture<T> {
    sizes: Sizes,
    k: usize,
    n: usize,
    x: Vec<T>,
    w: Vec<T>,
    at: Vec<i32>,
    gate: Vec<f32>,
}

impl<T: Float> Mixture<T> {
    fn new(sizes: Sizes, [k, n]: [usize; 2], at: impl Fn(usize) -> i32) -> Self {
        let Sizes { s, c, e, .. } = sizes;
        let (x, w, gate) = (normal(1, s * k), normal(2, e * k * n), normal(3, s * c));
        Mixture { sizes, k, n, x, w, at: (0..s * c).map(at).collect(), gate }
    }

    fn inputs(&self) -> [Buffer<T>; 2] {
        let Sizes { s, e, .. } = self.sizes;
        [buffer(&self.x, &[s, self.k]), buffer(&self.w, &[e, self.k, self.n])]
    }

    /// One row of a product: sums, and those of magnitudes.
    fn row(&self, token: usize, expert: usize) -> Vec<(f64, f64)> {
        let (k, n) = (self.k, self.n);
        let mut row = vec![(0.0, 0.0); n];
        for l in 0..k {
            let x = self.x[token * k + l].to_f64();
            for (j, (sum, size)) in row.iter_mut().enumerate() {
                let product = x * self.w[(expert * k + l) * n + j].to_f64();
                (*sum, *size) = (*sum + product, *size + product.abs());
            }
        }
        row
    }

    fn check(&self) {
        let Sizes { s, c, e, .. } = self.sizes;
        let blocks = made(&self.at, self.sizes);
        let [x, w] = self.inputs();
        let mut y = poisoned::<T>(&[s, self.n]);
        experts(&stream(), &x, &w, &buffer(&self.gate, &[s, c]), &blocks, &mut y).unwrap();
        let mut exact = Vec::new();
        for token in 0..s {
            let mut sums = vec![(0.0, 0.0); self.n];
            for slot in token * c..token * c + c {
                let Some(own) = usize::try_from(self.at[slot]).ok().filter(|own| *own < e) else { continue };
                let gate = f64::from(self.gate[slot]);
                for (all, (sum, size)) in sums.iter_mut().zip(self.row(token, own)) {
                    *all = (all.0 + gate * sum, all.1 + (self.k + c + 1) as f64 * U * (gate * size).abs());
                }
            }
            exact.extend(sums);
        }
        check("experts", &y, exact);
    }

    /// The rows of all blocks, under a schedule, each twice: what a step of the outer loop sums up starts anew in the next one.
    fn under(&self, schedule: &dyn AnySchedule) {
        let (blocks, [x, w]) = (made(&self.at, self.sizes), self.inputs());
        let [z, r] = [blocks.token.shape()[0], self.sizes.r];
        let mut row = poisoned::<f32>(&[z, r, 2, self.n]);
        let launch = kernels::experts::expert_rows(&x, &w, &blocks.token, &blocks.expert, &mut row);
        let report = launch.schedule_dyn(schedule).run().unwrap();
        assert!(report.findings.is_empty(), "{}: {:?}", schedule.name(), report.findings);
        let (found, token, expert) =
            (row.to_vec().unwrap(), blocks.token.to_vec().unwrap(), blocks.expert.to_vec().unwrap());
        for (at, found) in found.chunks(self.n).enumerate() {
            let (token, own) = (token[at / 2], expert[at / 2 / r]);
            let exact = match usize::try_from(token) {
                _ if own < 0 => {
                    assert!(found.iter().all(|x| x.is_nan()), "{}: row {at}", schedule.name());
                    continue;
                }
                Ok(token) => self.row(token, own as usize),
                Err(_) => vec![(0.0, 0.0); self.n],
            };
            for (x, (sum, size)) in found.iter().zip(exact) {
                let off = (f64::from(*x) - sum).abs();
                let bound = (self.k + 2) as f64 * U * size;
                assert!(off <= bound, "{} of {}: row {at}", schedule.name(), T::DTYPE);
            }
        }
    }
}

fn mixtures<T: Float>() {
    let sizes = |s, c, e, r| Sizes { s, c, e, r };
    // One token, all to one expert, as many experts as slots of a token, and those that have none.
    Mixture::<T>::new(sizes(1, 2, 5, 16), [33, 20], |slot| 3 - slot as i32).check();
    Mixture::<T>::new(sizes(37, 1, 4, 16), [40, 136], |_| 2).check();
    Mixture::<T>::new(sizes(9, 3, 3, 64), [24, 17], |slot| (slot % 3) as i32).check();
    Mixture::<T>::new(sizes(70, 2, 6, 128), [72, 130], |slot| (slot % 2 * 3 + slot / 2 % 2) as i32).check();
    Mixture::<T>::new(sizes(6, 3, 4, 50), [13, 11], |slot| slot as i32 % 6 - 1).check();
    // So many slots an expert that rows are copied into their blocks first.
    Mixture::<T>::new(sizes(260, 2, 2, 128), [72, 136], |slot| [0, 1, 0, 7][slot * 5 % 7 % 4]).check();
    for [s, c, k, n] in [[0, 2, 8, 8], [3, 0, 8, 8], [3, 2, 0, 8], [3, 2, 8, 0]] {
        Mixture::<T>::new(sizes(s, c, 2, 16), [k, n], |slot| slot as i32 % 2).check();
    }
}

#[test]
fn mixtures_of_experts() {
    each_type!(mixtures);
}

fn schedules<T: Float>() {
    for schedule in kernels::experts::SCHEDULES.iter().filter(|s| s.kernel() == "expert_rows") {
        if schedule.admits(Some(T::DTYPE)) {
            let at = |slot: usize| (slot * 5 % 7 / 2) as i32;
            Mixture::<T>::new(Sizes { s: 60, c: 3, e: 6, r: 128 }, [200, 136], at).under(*schedule);
            Mixture::<T>::new(Sizes { s: 11, c: 2, e: 6, r: 16 }, [13, 11], at).under(*schedule);
        }
    }
}

#[test]
fn rows_of_experts_under_each_schedule() {
    each_type!(schedules);
}

#[test]
fn blocks_without_an_expert_compute_nothing() {
    let sizes = Sizes { s: 40, c: 2, e: 3, r: 16 };
    let run = |at: i32, k: usize| {
        let (blocks, n) = (made(&[at; 80], sizes), 128);
        let (x, w) = (normal::<half::bf16>(1, 40 * k), normal::<half::bf16>(2, 3 * k * n));
        let (x, w) = (buffer(&x, &[40, k]), buffer(&w, &[3, k, n]));
        let mut row = poisoned::<f32>(&[blocks.token.shape()[0], 16, 1, n]);
        let launch = kernels::experts::expert_rows(&x, &w, &blocks.token, &blocks.expert, &mut row);
        launch.schedule(kernels::experts::mma).run().unwrap().counters.map(|c| c.instructions.warp)
    };
    // However long the rows are. A GPU counts nothing.
    assert_eq!(run(-1, 512), run(-1, 2048));
    assert!(run(1, 512).is_none_or(|short| run(1, 2048) > Some(2 * short) && run(-1, 512) < Some(short / 4)));
}

#[test]
fn what_is_routed_is_what_is_multiplied() {
    // The whole path on a stream, and twice in a graph: the same bits.
    let (s, e, c, k, n) = (29, 11, 3, 40, 24);
    let (logits, x, w) = (normal::<f32>(1, s * e), normal::<f32>(2, s * k), normal::<f32>(3, e * k * n));
    fn run(
        on: &impl Queue,
        [logits, x, w]: [&Buffer<f32>; 3],
        c: usize,
    ) -> Result<(Buffer<i32>, Buffer<f32>), Error> {
        let (&[s, e], n) = (logits.shape(), w.shape()[2]) else { panic!("rows of logits") };
        let (mut expert, mut gate) = (poisoned::<i32>(&[s, c]), poisoned::<f32>(&[s, c]));
        route(on, logits, true, &mut expert, &mut gate)?;
        let mut blocks = Blocks::uninit(&DEVICE, [s, c], e, choose::block_rows(s * c, e))?;
        expert_blocks(on, &expert, e, &mut blocks)?;
        let mut y = poisoned::<f32>(&[s, n]);
        experts(on, x, w, &gate, &blocks, &mut y)?;
        Ok((expert, y))
    }
    let inputs = [buffer(&logits, &[s, e]), buffer(&x, &[s, k]), buffer(&w, &[e, k, n])];
    let inputs = inputs.each_ref();
    let bits = |y: &Buffer<f32>| -> Vec<u32> { y.to_vec().unwrap().iter().map(|y| y.to_bits()).collect() };
    let (expert, y) = run(&stream(), inputs, c).unwrap();
    let exact: Vec<i32> =
        wide(&logits).chunks(e).flat_map(|row| greatest(row, c)).map(|n| n as i32).collect();
    assert_eq!(expert.to_vec().unwrap(), exact);
    let mut graph = Graph::new(&DEVICE);
    for _ in 0..2 {
        let mut recorded = None;
        let replayed = graph.replay(&stream(), |launches| {
            recorded = Some(run(launches, inputs, c)?);
            Ok(())
        });
        assert_eq!(replayed.unwrap().launches, 7);
        assert_eq!(bits(&recorded.unwrap().1), bits(&y));
    }
}

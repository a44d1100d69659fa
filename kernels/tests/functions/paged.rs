//! Attention to pages, against attention to the same keys side by side.

use crate::{attention::Heads, each_type, support::*};
use tilewright::{Buffer, Float};
use tilewright_kernels::{kernels::paged, paged_attention};

/// Sequences, heads of queries, heads of keys, pages of a sequence, elements of a head.
type Shape = [usize; 5];

/// Queries, and a cache of which sequences have so many tokens. What does not count is NaN, and pages behind the end are nowhere.
struct Cache<T> {
    shape: Shape,
    len: Vec<i32>,
    q: Vec<T>,
    k: Vec<T>,
    v: Vec<T>,
    /// Pages of each sequence, also those that are not named.
    page: Vec<i32>,
    scale: f32,
}

impl<T: Float> Cache<T> {
    fn new(shape: Shape, len: &[i32]) -> Self {
        let [b, h, g, l, d] = shape;
        let pages = b * l + 1;
        // From the last page to the second: the first is nobody's.
        let page: Vec<i32> = (0..b * l).map(|n| (pages - 1 - n) as i32).collect();
        let [q, k, v] = [b * h * d, pages * 16 * g * d, pages * 16 * g * d];
        let scale = 1.0 / (d.max(1) as f32).sqrt();
        let (q, mut k, mut v) = (normal::<T>(1, q), normal::<T>(2, k), normal::<T>(3, v));
        let counts = |at: usize| {
            let nth = page.iter().position(|page| *page as usize == at / 16);
            nth.is_some_and(|nth| (nth % l * 16 + at % 16) < len[nth / l] as usize)
        };
        for at in (0..pages * 16).filter(|at| !counts(*at)) {
            for data in [&mut k, &mut v] {
                data[at * g * d..][..g * d].fill(T::from_f64(f64::NAN));
            }
        }
        Cache { shape, len: len.to_vec(), q, k, v, page, scale }
    }

    /// Keys and values.
    fn buffers(&self) -> [Buffer<T>; 2] {
        let [b, _, g, l, d] = self.shape;
        [&self.k, &self.v].map(|data| buffer(data, &[b * l + 1, 16, g, d]))
    }

    /// The pages that are named.
    fn named(&self) -> Buffer<i32> {
        let [b, _, _, l, _] = self.shape;
        let tokens = |n: usize| self.len[n / l.max(1)] as usize;
        let pages = self.page.iter().enumerate();
        let named: Vec<i32> =
            pages.map(|(n, page)| if n % l.max(1) * 16 < tokens(n) { *page } else { -1 }).collect();
        buffer(&named, &[b, l])
    }

    /// Results are those of attention to the same keys side by side.
    fn check(&self, what: &str, o: &Buffer<T>) {
        let [b, h, g, l, d] = self.shape;
        let exact = (0..b).flat_map(|n| {
            let tokens = self.len[n] as usize;
            let dense = |of: &[T]| -> Vec<T> {
                let row = |head: usize, at: usize| {
                    &of[((self.page[n * l + at / 16] as usize * 16 + at % 16) * g + head) * d..][..d]
                };
                (0..g).flat_map(|head| (0..tokens).flat_map(move |at| row(head, at))).copied().collect()
            };
            let own = self.q[n * h * d..][..h * d].to_vec();
            Heads::of([1, h, g, 1, tokens, d], self.scale, [own, dense(&self.k), dense(&self.v)]).exact(false)
        });
        check(&format!("{what}: attention to {:?} tokens in pages", self.len), o, exact);
    }
}

fn sequences<T: Float>(shape: Shape, len: &[i32]) {
    let [b, h, _, _, d] = shape;
    let cache = Cache::<T>::new(shape, len);
    let mut o = poisoned::<T>(&[b, h, d]);
    let [k, v] = cache.buffers();
    let (q, pages, len) = (buffer(&cache.q, &[b, h, d]), cache.named(), buffer(len, &[b]));
    paged_attention(&stream(), &q, [&k, &v], &pages, &len, cache.scale, &mut o).unwrap();
    cache.check("paged_attention", &o);
}

/// Each schedule, with parts of two pages, and with some schedule that joins them.
fn parts_of_two<T: Float>(shape: Shape, len: &[i32]) {
    let [b, h, g, l, d] = shape;
    let (c, r) = (l.div_ceil(2), h / g);
    let cache = Cache::<T>::new(shape, len);
    let [k, v] = cache.buffers();
    let (q, pages, len) = (buffer(&cache.q, &[b, g, r, d]), cache.named(), buffer(len, &[b]));
    let joins = paged::JOINS.iter().cycle();
    for (schedule, join) in paged::PARTS.iter().filter(|s| s.admits(Some(T::DTYPE))).zip(joins) {
        let [mut most, mut weight] = [(); 2].map(|()| poisoned::<f32>(&[b, c, g, r]));
        let (mut sums, mut o) = (poisoned::<f32>(&[b, c, g, r, d]), poisoned::<T>(&[b, g, r, d]));
        paged::parts(&q, &k, &v, &pages, &len, &mut most, &mut weight, &mut sums, cache.scale, 32)
            .schedule_dyn(*schedule)
            .run()
            .unwrap();
        paged::combine(&most, &weight, &sums, &mut o).schedule_dyn(*join).run().unwrap();
        cache.check(&format!("{}, {}", schedule.name(), join.name()), &o);
    }
}

fn pages<T: Float>() {
    sequences::<T>([0, 2, 1, 2, 8], &[]);
    sequences::<T>([1, 1, 1, 1, 1], &[1]);
    sequences::<T>([2, 6, 3, 3, 40], &[37, 0]);
    sequences::<T>([3, 5, 5, 2, 64], &[16, 17, 32]);
    sequences::<T>([1, 8, 1, 4, 128], &[50]);
    sequences::<T>([1, 40, 2, 1, 16], &[9]);
    // Several parts, some of them without a token.
    sequences::<T>([2, 4, 2, 40, 24], &[629, 140]);
    sequences::<T>([2, 3, 1, 0, 8], &[0, 0]);
    // More than a warp joins.
    sequences::<T>([1, 2, 1, 150, 12], &[2390]);
}

#[test]
fn sequences_in_pages() {
    each_type!(pages);
}

fn schedules<T: Float>() {
    parts_of_two::<T>([6, 4, 1, 5, 40], &[0, 1, 15, 16, 17, 70]);
    parts_of_two::<T>([2, 9, 3, 3, 65], &[33, 48]);
    parts_of_two::<T>([2, 8, 8, 3, 64], &[31, 32]);
    // As many queries as a tile of tensor cores has.
    parts_of_two::<T>([1, 64, 4, 4, 128], &[55]);
    parts_of_two::<T>([1, 40, 5, 2, 128], &[18]);
}

#[test]
fn schedules_of_parts() {
    each_type!(schedules);
}

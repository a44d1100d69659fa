//! What wrong arguments are told.

use crate::support::*;
use tilewright::{Buffer, Error, Layout, prelude::f8};
use tilewright_kernels::*;

fn zeros(shape: &[usize]) -> Buffer<f32> {
    Buffer::zeros(&DEVICE, shape).unwrap()
}

/// The message of a failed call has all of these.
fn says(result: Result<(), Error>, parts: &[&str]) {
    let message = result.unwrap_err().to_string();
    for part in parts {
        assert!(message.contains(part), "no `{part}` in `{message}`");
    }
}

#[test]
fn shapes_that_disagree() {
    let s = &stream();
    let (x, w) = (zeros(&[2, 3]), zeros(&[4]));
    says(rms_norm(s, &x, &w, 0.0, &mut zeros(&[2, 3])), &["`weight", "[4]", "N = 4"]);
    says(rms_norm(s, &x, &w, 0.0, &mut zeros(&[3, 2])), &["`y` has shape [3, 2]", "`x` has shape [2, 3]"]);
    says(softmax(s, &x, &mut zeros(&[6])), &["`y` has shape [6]"]);
    says(silu(s, &x, &mut zeros(&[6])), &["`y` has shape [6]"]);
    says(add(s, &x, &zeros(&[3, 2]), &mut zeros(&[2, 3])), &["`y` has shape [3, 2]"]);
    says(linear(s, &x, &zeros(&[5, 4]), None, &mut zeros(&[2, 5])), &["`weight", "[5, 4]"]);
    says(linear(s, &x, &zeros(&[5, 3]), None, &mut zeros(&[3, 5])), &["all but the last dimension"]);
    says(linear(s, &x, &zeros(&[5, 3]), Some(&w), &mut zeros(&[2, 5])), &["`bias", "[4]"]);
    let ids = Buffer::<i32>::zeros(&DEVICE, &[2]).unwrap();
    says(embedding(s, &ids, &x, &mut zeros(&[2, 4])), &["`y", "[2, 4]"]);
    says(embedding(s, &ids, &w, &mut zeros(&[2, 4])), &["`table", "rank 2"]);
    says(rope(s, &ids, &x, &x, &mut zeros(&[2, 1, 5])), &["pairs of elements", "[2, 1, 5]"]);
    says(rope(s, &ids, &x, &x, &mut zeros(&[2, 6])), &["[2, 6]"]);
}

#[test]
fn heads_that_do_not_fit() {
    let s = &stream();
    let head = |h, d| zeros(&[1, h, 2, d]);
    let of = |q: &Buffer<f32>, k: &Buffer<f32>| attention(s, q, k, k, 1.0, false, &mut zeros(q.shape()));
    says(of(&head(3, 4), &head(2, 4)), &["3 heads of `q`", "2 heads of `k`"]);
    says(of(&head(2, 4), &head(0, 4)), &["0 heads of `k`"]);
    says(of(&head(1, 129), &head(1, 129)), &["up to 128", "129"]);
    says(of(&head(2, 4), &head(2, 5)), &["`k", "[1, 2, 2, 5]"]);
    says(of(&zeros(&[2, 4]), &head(2, 4)), &["[2, 4]"]);
}

#[test]
fn experts_that_do_not_fit() {
    let s = &stream();
    let numbers = |shape: &[usize]| Buffer::<i32>::zeros(&DEVICE, shape).unwrap();
    let to =
        |logits: &[usize], out: &[usize]| route(s, &zeros(logits), true, &mut numbers(out), &mut zeros(out));
    says(to(&[2, 257], &[2, 2]), &["route", "up to 256", "[2, 257]"]);
    says(to(&[2, 3], &[2, 4]), &["`expert`", "[2, 4]"]);
    says(to(&[2, 3], &[3, 2]), &["[2, 3]", "[3, 2]"]);
    says(route(s, &zeros(&[2, 3]), true, &mut numbers(&[2, 2]), &mut zeros(&[2, 1])), &["`gate", "[2, 1]"]);
    says(top_k(s, &zeros(&[1, 300]), &mut zeros(&[1, 1]), &mut numbers(&[1, 1])), &["top_k", "[1, 300]"]);
    let batched = top_k(s, &zeros(&[1, 2, 8]), &mut zeros(&[1, 2, 3]), &mut numbers(&[1, 2, 3]));
    says(batched, &["`x` of rank 2", "[1, 2, 8]"]);
    let blocks = |tokens, slots, experts, rows| Blocks::uninit(&DEVICE, [tokens, slots], experts, rows);
    says(blocks(4, 2, 3, 0).map(|_| ()), &["at least one row"]);
    let of = |experts, mut blocks: Blocks| expert_blocks(s, &numbers(&[4, 2]), experts, &mut blocks);
    says(of(5, blocks(4, 2, 1, 4).unwrap()), &["5 experts", "needs 5 blocks of 4 rows", "[2, 4]"]);
    says(of(3, blocks(5, 2, 3, 4).unwrap()), &["`place` [5, 2]"]);
    says(expert_blocks(s, &numbers(&[4]), 1, &mut blocks(4, 1, 1, 4).unwrap()), &["two dimensions", "[4]"]);
    let product = |x: &[usize], w: &[usize], gate: &[usize], y: &[usize]| {
        let blocks = blocks(4, 2, 3, 16).unwrap();
        experts(s, &zeros(x), &zeros(w), &zeros(gate), &blocks, &mut zeros(y))
    };
    says(product(&[4, 8], &[8, 5], &[4, 2], &[4, 5]), &["`w` of experts", "[8, 5]"]);
    says(product(&[4, 8], &[3, 7, 5], &[4, 2], &[4, 5]), &["`w", "[3, 7, 5]"]);
    says(product(&[4, 8], &[3, 8, 5], &[4, 1], &[4, 5]), &["`gate", "[4, 1]"]);
    says(product(&[4, 8], &[3, 8, 5], &[4, 2], &[4, 6]), &["`y", "[4, 6]"]);
}

#[test]
fn pages_that_do_not_fit() {
    let s = &stream();
    let numbers = |shape: &[usize]| Buffer::<i32>::zeros(&DEVICE, shape).unwrap();
    let of = |q: &[usize], k: &[usize], pages: &[usize], len: &[usize], o: &[usize]| {
        let k = zeros(k);
        paged_attention(s, &zeros(q), [&k, &k], &numbers(pages), &numbers(len), 1.0, &mut zeros(o))
    };
    let q = [2, 4, 8];
    says(of(&q, &[3, 32, 2, 8], &[2, 1], &[2], &q), &["16 tokens", "[3, 32, 2, 8]"]);
    says(of(&q, &[3, 16, 3, 8], &[2, 1], &[2], &q), &["4 heads of `q`", "3 heads of `k_pages`"]);
    says(of(&q, &[3, 16, 2, 8], &[2, 1], &[2], &[2, 4, 9]), &["`o` of shape [2, 4, 9]"]);
    says(of(&[2, 4, 129], &[3, 16, 2, 129], &[2, 1], &[2], &[2, 4, 129]), &["up to 128", "129"]);
    says(of(&q, &[3, 16, 2, 8], &[2, 1], &[3], &q), &["`len", "[3]"]);
    says(of(&q, &[3, 16, 2, 9], &[2, 1], &[2], &q), &["[3, 16, 2, 9]"]);
}

#[test]
fn layouts_and_gaps() {
    let s = &stream();
    let x = Buffer::from_slice_in(&DEVICE, &[0.0f32; 6], &[2, 3], Layout::ColumnMajor).unwrap();
    says(silu(s, &x, &mut zeros(&[2, 3])), &["`x`", "column-major"]);
    let wide = zeros(&[2, 3, 6]);
    let part = wide.slice(&[0..2, 0..2, 0..3]).unwrap();
    says(silu(s, &part, &mut zeros(&[2, 2, 3])), &["has gaps"]);
    // Gaps of the same length between all rows.
    let part = wide.slice(&[0..2, 0..3, 0..3]).unwrap();
    silu(s, &part, &mut zeros(&[2, 3, 3])).unwrap();
}

#[test]
fn types_steps_and_promises() {
    let s = &stream();
    let x = Buffer::<f8>::zeros(&DEVICE, &[4]).unwrap();
    says(silu(s, &x, &mut Buffer::zeros(&DEVICE, &[4]).unwrap()), &["does not admit f8"]);
    let [mut p, mut m, mut v] = [[4]; 3].map(|shape| zeros(&shape));
    let g = zeros(&[4]);
    says(adamw(s, AdamW::default(), 0, &g, &mut p, &mut m, &mut v), &["count from 1"]);
    if DEVICE.is_gpu() {
        return; // a GPU does not report what follows
    }
    let slots = buffer(&[1, 1], &[2]);
    let (k, v) = (zeros(&[2, 1, 4]), zeros(&[2, 1, 4]));
    let [mut kc, mut vc] = [[3, 1, 4]; 2].map(|shape| zeros(&shape));
    says(kv_append(s, &k, &v, &slots, &mut kc, &mut vc), &["kv_append"]);
    says(scatter_rows(s, &slots, &zeros(&[2, 4]), &mut zeros(&[3, 4])), &["scatter_rows"]);
}

#[test]
fn lengths_that_are_no_whole_groups() {
    let s = &stream();
    let words = Buffer::<u32>::zeros(&DEVICE, &[4, 25]).unwrap();
    let (scale, zero) = (zeros(&[4, 1]), Buffer::<u8>::zeros(&DEVICE, &[4, 1]).unwrap());
    let four = linear_i4(s, &zeros(&[2, 200]), &words, &scale, &zero, &mut zeros(&[2, 4]));
    says(four, &["`x` has shape [2, 200]", "200 is no multiple of 128"]);
    let eight = |shape: &[usize]| Buffer::<f8>::zeros(&DEVICE, shape).unwrap();
    let blocks = |k, n| {
        let (xs, ws) = (zeros(&[1, 2]), zeros(&[1, 1]));
        linear_f8(s, &eight(&[2, k]), &xs, &eight(&[n, k]), &ws, &mut zeros(&[2, n]))
    };
    says(blocks(100, 128), &["`x` has shape [2, 100]", "100 is no multiple of 128"]);
    says(blocks(128, 100), &["`y` has shape [2, 100]", "100 is no multiple of 128"]);
}

#[test]
#[should_panic(expected = "weight 3 is 16, and four bits hold 0 to 15")]
fn weights_of_five_bits() {
    let mut q = [0; GROUP];
    q[3] = 16;
    pack_i4(&q);
}

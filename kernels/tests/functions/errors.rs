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
    says(embedding(s, &ids, &w, &mut zeros(&[2, 4])), &["`table", "2 dimensions"]);
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
}

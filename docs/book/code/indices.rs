//! "Gathers and scatters".

use crate::embedding::embed;
use tilewright::prelude::*;

// ANCHOR: above
/// y = x where it is above a limit; other elements of y stay as they are.
#[tile_kernel]
pub fn above(x: &Tensor<f32, N>, limit: f32, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    let v = load(x, [i]);
    if v > limit {
        store(y, [i], v);
    }
}
// ANCHOR_END: above

// ANCHOR: mask
/// y = max(x, 0), and where x passed.
#[tile_kernel]
pub fn relu(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>, open: &mut Tensor<bool, N>) {
    let i = program_tile(N);
    let v = load(x, [i]);
    store(y, [i], max(v, 0.0));
    store(open, [i], v > 0.0);
}

/// The gradient passes where x did.
#[tile_kernel]
pub fn relu_gradient(open: &Tensor<bool, N>, dy: &Tensor<f32, N>, dx: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(dx, [i], select(load(open, [i]), load(dy, [i]), 0.0));
}
// ANCHOR_END: mask

schedule! {
    /// Four elements a thread.
    pub fours_forth for relu { tile(i = 512); split(i -> it, iv: 4); bind(it -> thread.x); vectorize(iv); }
    /// The same.
    pub fours_back for relu_gradient {
        tile(i = 512);
        split(i -> it, iv: 4);
        bind(it -> thread.x);
        vectorize(iv);
    }
}

// ANCHOR: solution
/// Row `to[s]` of y is row s of x.
#[tile_kernel]
pub fn moved(x: &Tensor<f32, S, D>, to: &Tensor<i32, S>, y: &mut Tensor<f32, S, D>) {
    let (s, d) = program_tile(S, D);
    store(y, [unique(load(to, [s])), d], load(x, [s, d]));
}

schedule! {
    pub fours for moved {
        tile(s = 4, d = 128);
        split(d -> dl, dv: 4);
        bind(s -> warp.x, dl -> lane.x);
        vectorize(dv);
    }
}
// ANCHOR_END: solution

schedule! {
    /// An element a thread.
    pub threads for above { tile(i = 64); bind(i -> thread.x); }
}

#[test]
fn some_points_are_stored() {
    let device = Device::sim();
    let host: Vec<f32> = (0..200).map(super::value).collect();
    let x = Buffer::from_slice(&device, &host, &[200]).expect("x");
    let mut y = Buffer::from_slice(&device, &[-9.0; 200], &[200]).expect("y");
    let report = above(&x, 1.5, &mut y).schedule(threads).run().expect("a launch");
    let expected: Vec<f32> = host.iter().map(|x| if *x > 1.5 { *x } else { -9.0 }).collect();
    assert_eq!(y.to_vec().expect("y"), expected);
    assert!(report.findings.is_empty());
}

#[test]
fn a_gradient_passes_where_its_input_did() {
    let device = Device::sim();
    for n in [200, 1024] {
        let host: Vec<f32> = (0..n).map(super::value).collect();
        let x = Buffer::from_slice(&device, &host, &[n]).expect("x");
        let mut y = Buffer::<f32>::poisoned(&device, &[n]).expect("y");
        let mut open = Buffer::<bool>::poisoned(&device, &[n]).expect("a mask");
        relu(&x, &mut y, &mut open).schedule(fours_forth).run().expect("a launch");
        assert_eq!(y.to_vec().expect("y"), host.iter().map(|x| x.max(0.0)).collect::<Vec<_>>());
        assert_eq!(open.to_vec().expect("a mask"), host.iter().map(|x| *x > 0.0).collect::<Vec<_>>());
        let mut dx = Buffer::<f32>::poisoned(&device, &[n]).expect("dx");
        relu_gradient(&open, &x, &mut dx).schedule(fours_back).run().expect("a launch");
        assert_eq!(dx.to_vec().expect("dx"), y.to_vec().expect("y"));
    }
}

#[test]
fn rows_are_moved() {
    let (rows, length) = (7, 130);
    let device = Device::sim();
    let host: Vec<f32> = (0..rows * length).map(super::value).collect();
    let to = [3, -1, 0, 6, 1, -1, 2];
    let x = Buffer::from_slice(&device, &host, &[rows, length]).expect("x");
    let places = Buffer::from_slice(&device, &to, &[rows]).expect("to");
    let mut y = Buffer::from_slice(&device, &vec![-9.0; rows * length], &[rows, length]).expect("y");
    let report = moved(&x, &places, &mut y).schedule(fours).run().expect("a launch");
    let mut expected = vec![-9.0; rows * length];
    for (s, to) in to.iter().enumerate().filter(|(_, to)| **to >= 0) {
        let to = *to as usize;
        expected[to * length..][..length].copy_from_slice(&host[s * length..][..length]);
    }
    assert_eq!(y.to_vec().expect("y"), expected);
    assert!(report.findings.is_empty());
}

#[test]
fn indices_beyond_the_end_are_told() {
    let device = Device::sim();
    let table = Buffer::from_slice(&device, &[1.0f32; 10 * 8], &[10, 8]).expect("a table");
    let mut y = Buffer::<f32>::poisoned(&device, &[4, 8]).expect("y");
    // ANCHOR: outside
    let ids = Buffer::from_slice(&device, &[3, 0, 10, -1], &[4]).expect("ids");
    let report = embed(&ids, &table, &mut y).schedule(crate::embedding::scalar).run().expect("a launch");
    assert_eq!(
        report.outside[0].to_string(),
        "dimension 0 of `table` has 10 points, and `load(ids, [s])` is 10 at s = 2"
    );
    // ANCHOR_END: outside
    assert_eq!(report.outside.len(), 1);
    assert_eq!(y.to_vec().expect("y")[16..], [0.0; 16]);
}

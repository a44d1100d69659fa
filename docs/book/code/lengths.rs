//! "Axes that end early".

use tilewright::prelude::*;

// ANCHOR: solution
/// The mean of the window of each element.
#[tile_kernel]
pub fn means(x: &Tensor<f32, N>, before: i32, after: i32, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    let j = whole(N).between(i - before, i + after + 1);
    let count = sum(full::<f32>(1.0, [j]), j);
    store(y, [i], sum(load(x, [j]), j) / count);
}

schedule! {
    pub threads for means {
        tile(i = 64, j = 16);
        bind(i -> thread.x);
        unroll(j.t);
    }
}
// ANCHOR_END: solution

#[test]
fn windows_have_means() {
    let device = Device::sim();
    let n = 150;
    let host: Vec<f32> = (0..n).map(super::value).collect();
    let x = Buffer::from_slice(&device, &host, &[n]).expect("x");
    for (before, after) in [(0, 0), (3, 5), (1000, 1000), (10, -4)] {
        let mut y = Buffer::<f32>::poisoned(&device, &[n]).expect("y");
        let report = means(&x, before, after, &mut y).schedule(threads).run().expect("a launch");
        assert!(report.findings.is_empty());
        for (i, found) in (0..n as i32).zip(y.to_vec().expect("y")) {
            let window = (i - before).clamp(0, n as i32)..(i + after + 1).clamp(0, n as i32);
            let seen = &host[window.start as usize..window.end.max(window.start) as usize];
            let mean = seen.iter().sum::<f32>() / seen.len() as f32;
            let close = (found - mean).abs() <= 1e-4 || found.is_nan() && mean.is_nan();
            assert!(close, "{found} instead of {mean} at {i}");
        }
    }
}

//! "Convolution".

use crate::conv2d::{conv2d, mma, naive, tiled};
use tilewright::prelude::*;

// ANCHOR: solution
schedule! {
    /// Eight pixels by four filters a thread.
    pub wider = tiled { split(q -> qt, qr: 8); }
}
// ANCHOR_END: solution

// ANCHOR: bordered
schedule! {
    /// A box with its border serves all steps of the window.
    pub bordered = tiled {
        fits(R <= 3, S <= 3);
        reorder(c.o, r, s, c.t, p.t, qt, ft, qr, fr);
    }
}
// ANCHOR_END: bordered

#[test]
fn windows() {
    let [b, p, q, c, f, r, s] = [1, 8, 16, 16, 64, 3, 3];
    let device = Device::sim();
    let (height, width) = (p + r - 1, q + s - 1);
    let image = |n: usize| super::value(n);
    let weight = |n: usize| super::value(n * 3 + 1);
    let of = |len: usize, at: &dyn Fn(usize) -> f32| (0..len).map(at).collect::<Vec<f32>>();
    let x =
        Buffer::from_slice(&device, &of(b * height * width * c, &image), &[b, height, width, c]).expect("x");
    let w = Buffer::from_slice(&device, &of(r * s * c * f, &weight), &[r, s, c, f]).expect("w");
    let mut y = Buffer::<f32>::poisoned(&device, &[b, p, q, f]).expect("y");
    let mut expected = Vec::new();
    for (p, q, f_) in (0..p * q * f).map(|n| (n / f / q, n / f % q, n % f)) {
        let window = (0..r * s * c).map(|n| {
            let (r, s, c_) = (n / c / s, n / c % s, n % c);
            image(((p + r) * width + q + s) * c + c_) * weight(n * f + f_)
        });
        expected.push(window.sum::<f32>());
    }
    let (mut loads, mut sectors) = (Vec::new(), Vec::new());
    for schedule in schedules![naive, tiled, wider, bordered] {
        let report = conv2d(&x, &w, &mut y).schedule_dyn(*schedule).run().expect("a launch");
        assert_eq!(y.to_vec().expect("y"), expected, "{}", schedule.name());
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        let counters = report.counters.expect("counts");
        sectors.push(counters.buffer("x", tilewright::sim::Access::Load).sectors);
        loads.push(
            counters.shared_load.requests as f64
                / counters.class(tilewright::sim::InstClass::Fma).warp as f64,
        );
    }
    assert!(loads[2] < loads[1], "{loads:?}");
    assert!(3 * sectors[3] < sectors[1], "{sectors:?}");
    assert!(mma.program(Some(tilewright::DType::F32)).is_none(), "tensor cores take 16-bit elements here");
}

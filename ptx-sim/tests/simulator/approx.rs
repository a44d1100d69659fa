//! `.approx` functions stay within the errors recorded on an H200 (they are the correctly rounded results).

use crate::common::*;

#[test]
fn approximations_are_within_the_recorded_bounds() {
    let bounds: serde_json::Value = serde_json::from_str(include_str!("../data/h200/approx.json")).unwrap();
    type F = fn(f64) -> f64;
    let cases: [(&str, &str, F, f32, f32); 8] = [
        ("ex2", "ex2.approx.ftz.f32", f64::exp2, -120.0, 120.0),
        ("lg2", "lg2.approx.ftz.f32", f64::log2, 1e-30, 1e30),
        ("rcp", "rcp.approx.ftz.f32", |x| 1.0 / x, 1e-30, 1e30),
        ("rsq", "rsqrt.approx.ftz.f32", |x| 1.0 / x.sqrt(), 1e-30, 1e30),
        ("sqr", "sqrt.approx.ftz.f32", f64::sqrt, 1e-30, 1e30),
        ("tnh", "tanh.approx.f32", f64::tanh, -8.0, 8.0),
        ("sin", "sin.approx.f32", f64::sin, -3.1, 3.1),
        ("cos", "cos.approx.f32", f64::cos, -3.1, 3.1),
    ];
    for (name, inst, f, lo, hi) in cases {
        // Thread t takes the t-th of 1024 points, spread geometrically where the range is positive.
        let at = |t: u32| {
            let u = t as f32 / 1024.0;
            if lo > 0.0 { lo * (hi / lo).powf(u) } else { lo + (hi - lo) * u }
        };
        let m = module(&format!("ld.global.f32 %f1, [%o]; {inst} %f2, %f1; st.global.f32 [%o], %f2;"));
        let mut mem = ptx_sim::Memory::new();
        let out = mem.alloc("out", 4096).unwrap();
        let x: Vec<f32> = (0..1024).map(at).collect();
        mem.write(out, &bytes_f32(&x)).unwrap();
        let l = ptx_sim::Launch {
            kernel: "k".into(),
            block: [1024, 1, 1],
            params: vec![param(out)],
            ..Default::default()
        };
        assert!(ptx_sim::launch(&m, &mut mem, &l).unwrap().is_clean());
        let max_ulp = bounds[name]["max_ulp"].as_i64().unwrap();
        for (x, y) in x.iter().zip(read_f32(&mem, out, 1024)) {
            let want = f(*x as f64) as f32;
            let ulp = (y.to_bits() as i64 - want.to_bits() as i64).abs();
            assert!(ulp <= max_ulp, "{name}({x}) = {y}, {ulp} ulp from {want}");
        }
    }
}

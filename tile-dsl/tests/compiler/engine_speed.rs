//! Time to prove one kernel under one schedule for one element type. Procedural macros run unoptimised.

use crate::support::*;
use std::time::Instant;
use tile_dsl::engine;

#[test]
fn a_schedule_is_proved_quickly() {
    let mut worst = (0.0f64, String::new());
    let kernel = kernel(MATMUL);
    let dtype = Some(tile_dsl::dtype::DType::F32);
    for (name, _, _) in LADDER {
        let schedule = rung(&LADDER, name);
        engine::schedule(&kernel, &schedule, dtype).unwrap();
        let start = Instant::now();
        engine::schedule(&kernel, &schedule, dtype).unwrap();
        let ms = start.elapsed().as_secs_f64() * 1e3;
        println!("{name}: {ms:.1} ms");
        if ms > worst.0 {
            worst = (ms, name.to_string());
        }
    }
    for (text, name, schedule) in [(SOFTMAX, "short", SOFTMAX_SHORT), (SOFTMAX, "long", SOFTMAX_LONG)] {
        let kernel = crate::support::kernel(text);
        let schedule = crate::support::schedule(schedule);
        let start = Instant::now();
        engine::schedule(&kernel, &schedule, None).unwrap();
        println!("{name}: {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    }
    // Generous: continuous integration is slow and shares its cores.
    assert!(worst.0 < 1000.0, "{} took {:.0} ms", worst.1, worst.0);
}

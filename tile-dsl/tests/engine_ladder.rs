//! The named schedules of the examples go through the engine.

mod support;
use support::*;
use tile_dsl::{engine, nest::Nest};

fn prove(kernel_text: &str, schedule: &tile_dsl::schedule::Schedule) -> Vec<Nest> {
    let kernel = kernel(kernel_text);
    dtypes(&kernel)
        .into_iter()
        .map(|dtype| match engine::schedule(&kernel, schedule, dtype) {
            Ok(program) => program.nest,
            Err(errors) => panic!("{} {dtype:?}: {errors:#?}", schedule.name),
        })
        .collect()
}

#[test]
fn the_simple_rungs() {
    for name in ["naive", "coalesced", "shared"] {
        let nests = prove(MATMUL, &rung(&LADDER, name));
        println!("{name}\n{}", nests[0]);
    }
}

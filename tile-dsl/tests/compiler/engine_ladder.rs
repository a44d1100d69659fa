//! The named schedules of the examples go through the engine.

use crate::support::*;
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

/// Kernel, schedule name, schedule.
fn named() -> Vec<(&'static str, String, tile_dsl::schedule::Schedule)> {
    let mut all = Vec::new();
    for (name, _, _) in LADDER {
        all.push((MATMUL, format!("matmul_{name}"), rung(&LADDER, name)));
        all.push((LINEAR, format!("linear_{name}"), rung(&LADDER, name)));
    }
    for (kernel, name, text) in [
        (VECTOR_ADD, "vector_add", VECTOR_ADD_SCHEDULE),
        (SOFTMAX, "softmax_short", SOFTMAX_SHORT),
        (SOFTMAX, "softmax_long", SOFTMAX_LONG),
        (CONV1D, "conv1d_direct", CONV_DIRECT),
        (CONV1D, "conv1d_staged", CONV_STAGED),
        (CONV3, "conv3_direct", CONV_DIRECT),
        (CONV3, "conv3_staged", CONV3_STAGED),
    ] {
        all.push((kernel, name.to_string(), schedule(text)));
    }
    all
}

#[test]
fn every_named_schedule_is_proved_for_every_element_type() {
    for (kernel, name, schedule) in named() {
        let mut text = String::new();
        for d in schedule.in_order() {
            text += &format!("{d};\n");
        }
        for nest in prove(kernel, &schedule) {
            text += &format!("\n{nest}");
        }
        golden(&format!("nest/{name}.txt"), &text);
    }
}

#[test]
fn a_kernel_without_a_schedule_is_one_point_a_cta() {
    let nests = prove(VECTOR_ADD, &schedule(""));
    assert_eq!(
        nests[0].to_string(),
        "(for i #block (put c[i] (+ (ld a[i]) (ld b[i]))))\n; names(i: i.1.rest)\n"
    );
}

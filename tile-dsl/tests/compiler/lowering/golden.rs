//! Kernels as text: one of each mechanism, small enough to read.

use super::{
    agree::{SMALL, programs},
    support,
};
use tile_dsl::{
    kernel::{Kernel, parse::parse},
    lower::{assumptions, lower},
    program::Variant,
    schedule::Schedule,
};

fn print(kernel: &str, schedule: &Schedule, variant: Variant) -> Kernel {
    let program = &programs(kernel, schedule)[0];
    let lowered = lower(program, variant).unwrap();
    let assumed: Vec<String> = assumptions(program, variant).iter().map(|a| format!("// {a}\n")).collect();
    let name = lowered.name.replace("_test_", "_");
    support::golden(&format!("kernel/{name}.txt"), &format!("{}{lowered}", assumed.concat()));
    lowered
}

#[test]
fn kernels_read_as_programs() {
    let pipelined = "tile(i = 8, j = 8, k = 16); bind(j -> thread.x, i -> thread.y); \
        stage(a at k: shared); swizzle(a: 32); stage(b at k: shared, cp_async, vector(8)); pipeline(k, 3); order(grouped(4))";
    let named = |name: &str, text: &str| Schedule { name: name.into(), ..support::schedule(text) };
    let rung = |name: &str| support::rung(&SMALL, name);
    let kernels = [
        print(support::MATMUL, &rung("naive"), Variant::Aligned),
        print(support::MATMUL, &rung("shared"), Variant::Exact),
        print(support::MATMUL, &rung("shared"), Variant::General),
        print(support::MATMUL, &rung("blocktile_1d"), Variant::Exact),
        print(support::MATMUL, &named("pipelined", pipelined), Variant::Exact),
        print(support::VECTOR_ADD, &named("vectors", support::VECTOR_ADD_SCHEDULE), Variant::Aligned),
        print(support::SOFTMAX, &named("long", support::SOFTMAX_LONG), Variant::Exact),
        print(support::CONV3, &named("staged", support::CONV3_STAGED), Variant::General),
    ];
    for kernel in &kernels {
        assert_eq!(&parse(&kernel.to_string()).unwrap(), kernel);
    }
}

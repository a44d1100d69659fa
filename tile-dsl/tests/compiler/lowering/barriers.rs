//! Every barrier and every wait is needed: without any one of them the interpreter finds a race.

use super::{
    agree::{SMALL, programs},
    build, ladder, support,
};
use tile_dsl::{
    dtype::DType,
    kernel::{
        Kernel, Stmt,
        interpret::{Launch, interpret},
    },
    lower::lower,
    program::{Program, Variant},
    schedule::Via,
};

/// Removes the `n`-th barrier (or wait for copies) in program order; false if there are fewer.
fn remove(stmts: &mut Vec<Stmt>, n: &mut usize) -> bool {
    for at in 0..stmts.len() {
        let inner = match &mut stmts[at] {
            Stmt::Barrier | Stmt::WaitGroup(_) if *n == 0 => {
                stmts.remove(at);
                return true;
            }
            Stmt::Barrier | Stmt::WaitGroup(_) => {
                *n -= 1;
                false
            }
            Stmt::For { body, .. } => remove(body, n),
            Stmt::If { then, otherwise, .. } => remove(then, n) || remove(otherwise, n),
            _ => false,
        };
        if inner {
            return true;
        }
    }
    false
}

fn without(kernel: &Kernel, mut n: usize) -> Option<Kernel> {
    let mut kernel = kernel.clone();
    remove(&mut kernel.body, &mut n).then_some(kernel)
}

fn every_barrier_counts(program: &Program, dims: &[(&str, i64)]) -> usize {
    let kernel = lower(program, Variant::General).unwrap();
    let dims = build::dims(dims);
    let tensors = program.nest.kernel.tensors.iter().map(|t| {
        let len: i64 = t.dims.iter().map(|d| d.eval(&dims).unwrap()).product();
        (t.name.clone(), build::data(3, len as usize))
    });
    let launch = Launch { dims: dims.clone(), tensors: tensors.collect(), ..Launch::default() };
    interpret(&kernel, &mut launch.clone()).unwrap();
    let mut found = 0;
    while let Some(broken) = without(&kernel, found) {
        let fault = interpret(&broken, &mut launch.clone());
        let fault = fault.expect_err(&format!("{} runs without barrier {found}\n{broken}", kernel.name));
        assert!(
            fault.what.contains("since the last barrier") || fault.what.contains("on its way"),
            "{fault}"
        );
        found += 1;
    }
    found
}

#[test]
fn without_any_one_barrier_there_is_a_race() {
    let matmul = [("M", 33), ("N", 40), ("K", 24)];
    for (name, barriers) in [("shared", 2), ("blocktile_2d", 2), ("double_buffered", 2)] {
        let program = &programs(support::MATMUL, &support::rung(&SMALL, name))[0];
        assert_eq!(every_barrier_counts(program, &matmul), barriers, "{name}");
    }
    // In a pipeline: one barrier, and one wait for the copies.
    assert_eq!(every_barrier_counts(&ladder::warptile(DType::F32, 3, Via::CpAsync), &matmul), 2);
    let softmax = &programs(support::SOFTMAX, &support::schedule(support::SOFTMAX_LONG))[0];
    assert_eq!(every_barrier_counts(softmax, &[("R", 2), ("N", 1100)]), 2);
    let conv = &programs(support::CONV3, &support::schedule(support::CONV3_STAGED))[0];
    assert_eq!(every_barrier_counts(conv, &[("N", 300)]), 1);
}

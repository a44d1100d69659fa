//! The text that kernels become, and what ptxas says of it.
#![cfg(feature = "codegen")]

mod common;
use backend_ptx::{CompileError, Ptx, compile};
use common::*;
use std::{path::Path, process::Command, time::Instant};
use tile_dsl::{
    dtype::DType,
    kernel::{Expr, Frag, Kernel, Stmt, Var},
    op::{BinOp, UnOp},
    schedule::Target,
};

fn ptx(kernel: &Kernel) -> Ptx {
    compile(kernel).unwrap_or_else(|e| panic!("{}: {e}", kernel.name))
}

fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in\n{text}");
    }
}

#[test]
fn entry_parameters_and_bounds() {
    let mut kernel = saxpy();
    kernel.min_ctas = Some(4);
    let compiled = ptx(&kernel);
    assert_has(
        &compiled.text,
        &[
            ".version 8.3",
            ".target sm_80",
            ".visible .entry saxpy(",
            ".param .u64 .ptr .global .align 4 saxpy_param_0",
            ".param .u32 saxpy_param_2",
            ".param .f32 saxpy_param_3",
            ".reqntid 128, 1, 1",
            ".minnctapersm 4",
        ],
    );
    assert_eq!((compiled.entry.as_str(), compiled.threads), ("saxpy", 128));
    assert_eq!((compiled.static_shared, compiled.dynamic_shared), (0, 0));
}

#[test]
fn read_only_tensors_use_the_read_only_path() {
    let text = ptx(&saxpy()).text;
    assert_has(&text, &["ld.global.nc.b32", "ld.global.b32", "st.global.b32", "fma.rn.f32"]);
    assert_eq!(text.matches("ld.global.nc").count(), 1, "only x is read-only\n{text}");
}

#[test]
fn vectors_stay_vectors() {
    let text = ptx(&matmul(Fill::Plain, true, 1)).text;
    assert_eq!(text.matches("ld.global.nc.v4.b32").count(), 2, "{text}");
    assert_eq!(text.matches("ld.shared.v4.b32").count(), 32, "{text}");
    assert_eq!(text.matches("fma.rn.f32").count(), 256, "{text}");
    assert_eq!(text.matches("bar.sync").count(), 2, "{text}");
    assert!(!text.contains(".local"), "{text}");
}

#[test]
fn rows_of_wide_offsets_are_one_addition_apart() {
    const ROWS: usize = 8;
    let wide = |x: i64| Expr::Int(x, DType::I64);
    let mut b = Builder::new("column_sums", 128);
    let x = b.tensor("x", F32, false, 4);
    let y = b.tensor("y", F32, true, 4);
    let n = b.dim("N");
    let mut body = Vec::new();
    let pitch = b.bind(&mut body, DType::I64, mul(cast(DType::I64, n), wide(16)));
    let mut offset = b.bind(&mut body, DType::I64, cast(DType::I64, Expr::Tid));
    let mut sum = float(0.0);
    for _ in 0..ROWS {
        let row = b.load(&mut body, F32, 1, x, offset.clone(), None);
        sum = add(sum, row[0].clone());
        offset = b.bind(&mut body, DType::I64, add(offset, pitch.clone()));
    }
    body.push(Stmt::Store { mem: y, offset: Expr::Tid, values: vec![sum], guard: None });
    let text = ptx(&b.finish(body)).text;
    // The first element of x and of y, and the rows after the first; no offset beside the address.
    assert_eq!(text.matches("add.s64").count(), 2 + ROWS - 1, "{text}");
}

#[test]
fn asynchronous_copies_fill_with_zeros_behind_a_guard() {
    let guarded = ptx(&matmul(Fill::Async, false, 2)).text;
    assert_has(&guarded, &["cp.async.cg.shared.global", "cp.async.commit_group", "cp.async.wait_group"]);
    let with_size = |text: &str| {
        text.lines().filter(|l| l.contains("cp.async.cg") && l.matches("%r").count() > 2).count()
    };
    assert_eq!(with_size(&guarded), 4, "{guarded}");
    let exact = ptx(&matmul(Fill::Async, true, 2)).text;
    assert_eq!(with_size(&exact), 0, "{exact}");
}

#[test]
fn more_than_48_kilobytes_are_dynamic() {
    let below = ptx(&matmul(Fill::Async, true, 6));
    assert_eq!((below.static_shared, below.dynamic_shared), (6 * 8192, 0));
    let above = ptx(&matmul(Fill::Async, true, 7));
    assert_eq!((above.static_shared, above.dynamic_shared), (0, 7 * 8192));
    assert_has(&above.text, &[".extern .shared .align 16 .b8 dynamic_shared[]"]);
}

#[test]
fn division_and_square_root_round_correctly_and_nothing_fuses() {
    let kernel = map("ieee", F32, F32, |x| {
        let quotient = bin(BinOp::Div, float(3.0), x.clone());
        add(mul(quotient, x.clone()), un(UnOp::Sqrt, x))
    });
    assert_has(&ptx(&kernel).text, &["div.rn.f32", "sqrt.rn.f32", "mul.rn.f32", "add.rn.f32"]);
}

#[test]
fn text_is_deterministic() {
    for kernel in [saxpy(), matmul(Fill::Plain, false, 1)] {
        assert_eq!(ptx(&kernel), ptx(&kernel));
    }
}

#[test]
fn targets() {
    let at = |sm, specific| Kernel { target: Target { sm, specific }, ..saxpy() };
    assert_has(&ptx(&at(90, false)).text, &[".version 8.3", ".target sm_90\n"]);
    assert_has(&ptx(&at(90, true)).text, &[".version 8.6", ".target sm_90a"]);
    assert_eq!(compile(&at(75, false)), Err(CompileError::Target(75)));
}

#[test]
fn malformed_kernels_are_errors() {
    let mut b = Builder::new("bad", 32);
    let x = b.tensor("x", F32, false, 4);
    b.0.frags.push(Frag { name: "f".into(), dtype: F32, slots: 1 });
    let v = b.var(F32);
    let kernel = b.0;
    let store = |values: Vec<Expr>| Stmt::Store { mem: x, offset: int(0), values, guard: None };
    let cases = [
        (store(vec![float(0.0)]), "a store to `x`, which is read-only"),
        (Stmt::Let(v, var(v)), "v0 is read before it is assigned"),
        (Stmt::Let(Var(7), int(0)), "v7 is not in the table of variables"),
        (Stmt::Let(v, int(0)), "v0: f32 is assigned a i32"),
        (Stmt::Let(v, add(float(0.0), int(0))), "operands of types f32 and i32"),
        (Stmt::Set { frag: 0, slot: 1, value: float(0.0) }, "no slot 1 in fragment 0"),
        (
            Stmt::Load { dst: vec![v; 3], mem: x, offset: int(0), guard: None },
            "an access of 3 elements of f32",
        ),
        (Stmt::Let(v, Expr::Scalar(0)), "parameter 0 is no scalar"),
        (Stmt::Let(v, dim("N")), "no parameter for the dim `N`"),
    ];
    for (stmt, message) in cases {
        let kernel = Kernel { body: vec![stmt.clone()], ..kernel.clone() };
        assert_eq!(compile(&kernel), Err(CompileError::Malformed(message.into())), "{stmt:?}");
    }
}

#[test]
fn compiles_within_150_milliseconds() {
    ptx(&saxpy()); // LLVM starts up
    let kernel = matmul(Fill::Plain, false, 1);
    let best = (0..3).map(|_| {
        let start = Instant::now();
        ptx(&kernel);
        start.elapsed()
    });
    let best = best.min().unwrap();
    assert!(best.as_millis() < 150, "{best:?}");
}

/// Every kernel of these tests through ptxas. Skipped, aloud, where ptxas cannot be fetched.
#[test]
fn ptxas_assembles_everything() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/ptxas.sh");
    if !Command::new(&script).arg("--path").output().is_ok_and(|o| o.status.success()) {
        eprintln!("skipped: ptxas could not be fetched");
        return;
    }
    let mut kernels = vec![saxpy()];
    for (fill, exact, ring) in
        [(Fill::Plain, false, 1), (Fill::Plain, true, 1), (Fill::Async, false, 2), (Fill::Async, true, 8)]
    {
        kernels.push(matmul(fill, exact, ring));
    }
    kernels.extend([F32, DType::F16, DType::BF16].map(warp_sum));
    for &op in UnOp::ALL {
        let name = op.name();
        if op.row().float.is_some() {
            kernels.push(map(name, F32, F32, |x| un(op, x)));
            kernels
                .push(map(&format!("{name}_bf16"), DType::BF16, DType::F16, |x| cast(DType::F16, un(op, x))));
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<_> = kernels
        .iter()
        .flat_map(|kernel| [SM80, SM90, Target { sm: 90, specific: true }].map(|target| (kernel, target)))
        .enumerate()
        .map(|(i, (kernel, target))| {
            let file = folder.path().join(format!("{i}-{}.ptx", kernel.name));
            std::fs::write(&file, ptx(&Kernel { target, ..kernel.clone() }).text).unwrap();
            file
        })
        .collect();
    let at_once = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for files in files.chunks(files.len().div_ceil(at_once)) {
            let mut command = Command::new(&script);
            command.args(files);
            scope.spawn(move || {
                let output = command.output().unwrap();
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
            });
        }
    });
}

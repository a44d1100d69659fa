//! The PTX of every example, printed in full: a change of the compiler shows as a difference.
//!
//! `TILEWRIGHT_BLESS=1 cargo test --test goldens` writes the files anew; `scripts/check-ptx.sh` assembles them.

#[path = "../examples/attention/kernel.rs"]
mod attention;
#[path = "../examples/batched/kernel.rs"]
mod batched;
#[path = "../examples/conv1d/kernel.rs"]
mod conv1d;
#[path = "../examples/conv2d/kernel.rs"]
mod conv2d;
#[path = "../examples/matmul/f8.rs"]
mod eight;
#[path = "../examples/linear/kernel.rs"]
mod linear;
#[path = "../examples/matmul/kernel.rs"]
mod product;
#[path = "support/random.rs"]
mod random;
#[path = "../examples/softmax/kernel.rs"]
mod softmax;
#[path = "../examples/vector_add/kernel.rs"]
mod vector_add;

use random::random_schedules;
use std::{fs, path::Path};
use tile_dsl::program::Program;
use tilewright::{DType, Stage, Variant, emit, emit_program};

fn folder(name: &str) -> std::path::PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::create_dir_all(&path).expect("the checkout is writable");
    path
}

#[test]
fn ptx_is_as_recorded() {
    let bless = std::env::var_os("TILEWRIGHT_BLESS").is_some();
    let ptx = folder("tests/goldens/ptx");
    let mut different = Vec::new();
    for schedules in [
        product::SCHEDULES,
        product::BY_SIZE,
        product::TF32,
        eight::F8,
        linear::SCHEDULES,
        vector_add::SCHEDULES,
        softmax::SCHEDULES,
        conv1d::SCHEDULES,
        attention::SCHEDULES,
        batched::SCHEDULES,
        conv2d::SCHEDULES,
    ] {
        for schedule in schedules {
            let dtype = schedule.dtypes().first().copied();
            let text = emit(*schedule, dtype, Variant::Exact, Stage::Ptx).expect("an example compiles");
            let file = ptx.join(format!("{}_{}.ptx", schedule.kernel(), schedule.name()));
            if bless {
                fs::write(&file, &text).expect("the checkout is writable");
            } else if fs::read_to_string(&file).ok().as_deref() != Some(&*text) {
                different.push(file.file_name().expect("a file").to_string_lossy().into_owned());
            }
        }
    }
    assert!(
        different.is_empty(),
        "PTX differs from tests/goldens/ptx: {different:?}; TILEWRIGHT_BLESS=1 records it"
    );
}

/// A sample of random schedules, written where `scripts/check-ptx.sh` assembles it.
#[test]
fn a_sample_of_random_schedules_compiles() {
    let sample = folder("target/ptx-sample");
    let floats = &[DType::F32, DType::F16, DType::BF16];
    for (name, encoded, types) in [
        ("matmul", product::matmul::KERNEL, &floats[..]),
        ("softmax", softmax::softmax::KERNEL, &[]),
        ("conv1d", conv1d::conv1d::KERNEL, &[]),
    ] {
        for (i, made) in random_schedules(name, encoded, types, 12, 4_000).into_iter().enumerate() {
            let program = Program::from_bytes(made.programs[0].1).expect("encoded above");
            for variant in [Variant::Exact, Variant::General] {
                let text = emit_program(&program, variant, Stage::Ptx).expect("a legal schedule compiles");
                assert!(text.contains(".visible .entry"), "{name} {i}");
                fs::write(sample.join(format!("{name}_{i}_{variant}.ptx")), text)
                    .expect("target is writable");
            }
        }
    }
}

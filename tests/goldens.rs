//! The PTX of every example, printed in full: a change of the compiler shows as a difference.
//!
//! `TILEWRIGHT_BLESS=1 cargo test --test goldens` writes the files anew; `scripts/check-ptx.sh` assembles them.

#[path = "support/examples.rs"]
mod examples;
#[path = "support/random.rs"]
mod random;

use examples::{EVERY, conv1d, product, softmax};
use random::random_schedules;
use std::{fs, path::Path};
use tile_dsl::{
    engine::{self, testing::Random},
    program::Program,
    schedule::{Schedule, Target, extend, parse},
    tile::Kernel,
};
use tilewright::{AnySchedule, DType, Stage, Variant, emit, emit_program};

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
    for schedules in EVERY {
        for schedule in *schedules {
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

/// Tiles and roles of every example.
#[test]
fn plans_are_as_recorded() {
    let file = folder("tests/goldens").join("plans.txt");
    let of = |schedule: &&dyn AnySchedule| {
        let dtype = schedule.dtypes().first().copied();
        let plan = emit(*schedule, dtype, Variant::Exact, Stage::Plan).expect("an example is planned");
        format!("== {}.{}\n{plan}", schedule.kernel(), schedule.name())
    };
    let plans: String = EVERY.iter().copied().flatten().map(of).collect();
    if std::env::var_os("TILEWRIGHT_BLESS").is_some() {
        fs::write(&file, &plans).expect("the checkout is writable");
    }
    let recorded = fs::read_to_string(&file).expect("TILEWRIGHT_BLESS=1 records it");
    let differs = plans.lines().zip(recorded.lines()).find(|(a, b)| a != b);
    assert!(plans == recorded, "plans differ from {}, first {differs:?}", file.display());
}

/// A line for each kernel of every example, in every form: what `scripts/digest.sh` compares two builds by. `TILEWRIGHT_DIGEST` is the
/// file.
#[test]
#[ignore = "writes a file for scripts/digest.sh"]
fn digest() {
    let path = std::env::var_os("TILEWRIGHT_DIGEST").expect("TILEWRIGHT_DIGEST is the file to write");
    let mut found = Vec::new();
    for schedule in EVERY.iter().copied().flatten() {
        let types = schedule.dtypes().iter().copied().map(Some);
        let types: Vec<Option<DType>> =
            if schedule.dtypes().is_empty() { vec![None] } else { types.collect() };
        for dtype in types {
            let bytes = schedule.program(dtype).expect("it admits the type");
            let program = Program::from_bytes(bytes).expect("of this build");
            let of = dtype.map_or(String::new(), |dtype| format!("<{dtype}>"));
            let name = format!("{}.{}{of}", schedule.kernel(), schedule.name());
            found.extend(tile_fuzz::digest::lines(&name, &program, Stage::Ptx));
        }
    }
    fs::write(path, found.join("\n") + "\n").expect("it can be written");
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

/// Schedules that share registers out between roles, in many shapes, written where `scripts/check-ptx.sh` sees that the
/// assembler heeds them. They are drawn from a seed.
#[test]
fn registers_are_shared_out_in_many_shapes() {
    let sample = folder("target/ptx-sample");
    let kernel = Kernel::from_bytes(product::matmul::KERNEL).expect("an embedded kernel");
    let mut random = Random::new(9);
    let mut made = 0;
    for columns in [8, 16, 24, 32, 40, 48, 64, 72, 80, 96, 104, 112, 128, 160, 192, 256] {
        for warpgroups in [2, 2, 3] {
            let text = sharing(&mut random, warpgroups, columns);
            let schedule = Schedule {
                name: format!("registers{made}"),
                kernel: "matmul".into(),
                dtypes: vec![],
                target: Target { sm: 90, specific: true },
                directives: extend(&[], &parse(&text).unwrap_or_else(|e| panic!("{e} of {text}")))
                    .expect("no parent"),
            };
            let dtype = *random.pick(&[DType::F16, DType::BF16]);
            let Ok(program) = engine::schedule(&kernel, &schedule, Some(dtype)) else {
                continue;
            };
            println!("{columns} columns: {text}");
            let variant = *random.pick(&[Variant::Exact, Variant::Aligned, Variant::General]);
            let ptx = emit_program(&program, variant, Stage::Ptx).expect("a legal schedule compiles");
            assert_eq!(ptx.matches("setmaxnreg").count() >= 2, text.contains("registers"), "{text}");
            fs::write(sample.join(format!("registers_{made}.ptx")), ptx).expect("target is writable");
            made += 1;
        }
    }
    assert!(made >= 30, "{made} of them are legal");
}

/// A product whose copies a warpgroup makes, with so many others that compute.
fn sharing(random: &mut Random, warpgroups: usize, columns: u32) -> String {
    let some =
        |random: &mut Random, text: &str| if random.below(3) == 0 { text.to_string() } else { String::new() };
    let rows = 64 * warpgroups;
    let swizzle = [128, 64, 32].into_iter().find(|s| (2 * columns).is_multiple_of(*s));
    let mut text = format!("tile(i = {rows}, j = {columns}, k = 64); ");
    let by_warps = columns <= 64 && columns.is_multiple_of(8) && random.below(4) == 0;
    let swizzled = swizzle.filter(|_| !by_warps || columns.is_multiple_of(16));
    text += &match by_warps {
        true => format!(
            "split(i -> iw, im: 16); tensor_core(acc: mma); reorder(iw, k.atom); bind(iw -> warp.x); {}",
            if warpgroups == 3 { "unroll(k.atom); " } else { "" }
        ),
        false => format!(
            "split(i -> iw, im: 64); tensor_core(acc: wgmma(64, {columns})); bind(iw -> warpgroup.x); unroll(k.atom); "
        ),
    };
    text += "stage(a, b at k: shared, tma); swizzle(a: 128); ";
    text += &swizzled.map(|span| format!("swizzle(b: {span}); ")).unwrap_or_default();
    text += &format!("pipeline(k, {}); produce(k: warpgroup); ", 2 + random.below(2));
    // What the roles have at launch, in eights.
    let each: u32 = if warpgroups == 2 { 168 } else { 128 };
    let producer = *random.pick(&[24, 32, 40]);
    let most = (each * (128 * warpgroups as u32 + 128) - 128 * producer) / (128 * warpgroups as u32) / 8 * 8;
    let consumer = [most.min(240), most.min(240), each][random.below(3)];
    text += &format!("registers({producer}, {consumer}); ");
    text += &some(random, "persistent(1); ");
    text += &some(random, "order(grouped(8)); ");
    text += &some(random, "arrive(k: thread); ");
    text += &some(random, "occupancy(1); ");
    if !by_warps {
        text += &some(random, "issue(acc: overwrite); ");
    }
    text
}

//! The code of every example: a change of the compiler shows as a difference.
//!
//! | file of `tests/goldens` | has |
//! |---|---|
//! | `ptx/*.ptx` | the PTX of [`SHOWN`], in full, to be read |
//! | `code.txt` | of every schedule a hash of its PTX and how many instructions of each kind that has, and hashes of its kernel IR for each type, variant and form |
//! | `plans.txt` | the plan of every schedule |
//! | `resources.txt` | registers, spills, shared memory, the hot loop: `tests/every/resources.rs` |
//!
//! `TILEWRIGHT_BLESS=1 cargo test --test every goldens` writes the first three anew; `--emit ptx` of an example prints what a hash
//! stands for. `scripts/check-ptx.sh` assembles the PTX of every example, which this test leaves in `target/ptx-examples`.

use crate::{
    examples::{EVERY, conv1d, product, softmax},
    random::random_schedules,
};
use rayon::prelude::*;
use std::{fmt::Write, fs, path::Path};
use tile_dsl::{
    engine::{self, testing::Random},
    program::Program,
    schedule::{Schedule, Target, extend, parse},
    tile::Kernel,
};
use tile_fuzz::digest;
use tilewright::{AnySchedule, DType, Stage, Variant, emit, emit_program};

/// Kernels whose PTX is recorded in full, and what each shows.
const SHOWN: &[(&str, &str)] = &[
    ("vector_add_vectorized", "accesses of 16 bytes"),
    ("vector_add_dependent", "a launch that begins while the one before it ends"),
    ("matmul_naive", "a loop over the reduction, and its addresses"),
    ("matmul_shared", "copies in shared memory between barriers"),
    ("matmul_warptile", "a tile of sums in the registers of each thread"),
    ("matmul_mma_pipelined", "`cp.async`, `ldmatrix` and `mma`"),
    ("matmul_tma_wgmma", "tensor maps, mbarriers and `wgmma`"),
    ("matmul_cluster", "copies that CTAs of a cluster receive together"),
    ("matmul_pingpong128", "a producer, and two warpgroups in turn"),
    ("matmul_wgmma_best", "tiles of two sizes, persistent CTAs, a collected store"),
    ("matmul_tile64x128_split4", "a reduction shared out among CTAs, through scratch memory"),
    ("matmul_tile64_clustered2", "the same through the shared memory of a cluster"),
    ("matmul_tf32_tf32_wgmma", "single precision rounded for tensor cores"),
    ("matmul_f8_f8_wgmma", "elements of 8 bits"),
    ("softmax_long", "reductions across lanes and warps"),
    ("attention_mma", "two products, and a reduction that is carried"),
    ("conv1d_staged", "a copy with a halo"),
];

fn folder(name: &str) -> std::path::PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::create_dir_all(&path).expect("the checkout is writable");
    path
}

/// Compares a text with a file of `tests/goldens`, or writes it there.
fn check(text: &str, file: &str) -> Result<(), String> {
    let path = folder("tests/goldens").join(file);
    if std::env::var_os("TILEWRIGHT_BLESS").is_some() {
        fs::write(&path, text).expect("the checkout is writable");
    }
    let recorded = fs::read_to_string(&path).unwrap_or_default();
    if text == recorded {
        return Ok(());
    }
    let known: Vec<&str> = recorded.lines().collect();
    let differ: Vec<&str> = text.lines().filter(|line| !known.contains(line)).take(8).collect();
    Err(format!(
        "{file} differs; TILEWRIGHT_BLESS=1 records it. New lines, the first of them:\n{}",
        differ.join("\n")
    ))
}

#[test]
fn code_is_as_recorded() {
    let every: Vec<&dyn AnySchedule> = EVERY.concat();
    let ptx: Vec<(String, String)> = every.par_iter().map(|schedule| exact_ptx(*schedule)).collect();
    let mut wrong = Vec::new();
    for (name, shows) in SHOWN {
        match ptx.iter().find(|(known, _)| known == name) {
            Some((_, text)) => wrong.extend(check(text, &format!("ptx/{name}.ptx")).err()),
            None => wrong.push(format!("{name}, which shows {shows}: no schedule")),
        }
    }
    let mut code = String::from(
        "# PTX of the exact variant with the first element type: a hash, and how many instructions\n",
    );
    for (name, text) in &ptx {
        writeln!(code, "{name} {:016x} {}", digest::hash(text), instructions(text))
            .expect("a string takes text");
    }
    code += "# Kernel IR, with and without gaps between rows, for one problem and for several: a hash for each variant\n";
    code += &every.par_iter().map(|schedule| kernel_ir(*schedule)).collect::<String>();
    wrong.extend(check(&code, "code.txt").err());
    let recorded = fs::read_dir(folder("tests/goldens/ptx")).expect("a folder").count();
    assert_eq!(recorded, SHOWN.len(), "files of tests/goldens/ptx that show nothing");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The PTX of a schedule with its first element type, by its name; left for the assembler, too.
fn exact_ptx(schedule: &dyn AnySchedule) -> (String, String) {
    let name = format!("{}_{}", schedule.kernel(), schedule.name());
    let dtype = schedule.dtypes().first().copied();
    let text = emit(schedule, dtype, Variant::Exact, Stage::Ptx).expect("an example compiles");
    fs::write(folder("target/ptx-examples").join(format!("{name}.ptx")), &text).expect("target is writable");
    (name, text)
}

/// How many instructions a text has, and how many of the kinds that cost: `215 instructions: 32 fma, 4 ld.shared`.
fn instructions(ptx: &str) -> String {
    const KINDS: [&str; 15] = [
        "fma",
        "mma",
        "wgmma.mma_async",
        "ldmatrix",
        "stmatrix",
        "ld.global",
        "st.global",
        "ld.shared",
        "st.shared",
        "cp.async",
        "mbarrier",
        "bar",
        "barrier",
        "shfl",
        "bra",
    ];
    let opcodes = ptx.lines().filter_map(|line| {
        let mut words = line.strip_prefix('\t')?.split_whitespace();
        let first = words.next().filter(|word| !word.starts_with(['.', '/', '{', '}', '$']))?;
        if first.starts_with('@') { words.next() } else { Some(first) }
    });
    let opcodes: Vec<&str> = opcodes.collect();
    let is = |opcode: &str, kind: &str| {
        opcode.strip_prefix(kind).is_some_and(|end| end.is_empty() || end.starts_with([';', '.']))
    };
    let kinds = KINDS.iter().filter_map(|kind| {
        let count = opcodes.iter().filter(|opcode| is(opcode, kind)).count();
        (count > 0).then(|| format!("{count} {kind}"))
    });
    format!("{} instructions: {}", opcodes.len(), kinds.collect::<Vec<_>>().join(", "))
}

/// A line for each element type of a schedule.
fn kernel_ir(schedule: &dyn AnySchedule) -> String {
    let mut found = String::new();
    for (name, program) in programs(schedule) {
        write!(found, "{name}").expect("a string takes text");
        for variant in [Variant::Exact, Variant::Aligned, Variant::General] {
            let forms = digest::forms(&program).into_iter().filter(|(_, of, _)| *of == variant);
            let text = |(form, variant, given)| {
                let text = tile_runtime::emit_given(&program, variant, &given, Stage::Kernel);
                format!("{form}\n{}", text.expect("an example lowers"))
            };
            let texts: String = forms.map(text).collect();
            write!(found, " {variant} {:016x}", digest::hash(&texts)).expect("a string takes text");
        }
        found.push('\n');
    }
    found
}

/// The programs of a schedule, by element type.
fn programs(schedule: &dyn AnySchedule) -> Vec<(String, Program)> {
    let types = schedule.dtypes().iter().copied().map(Some);
    let types: Vec<Option<DType>> = if schedule.dtypes().is_empty() { vec![None] } else { types.collect() };
    let program = |dtype: Option<DType>| {
        let bytes = schedule.program(dtype).expect("it admits the type");
        let of = dtype.map_or(String::new(), |dtype| format!("<{dtype}>"));
        let name = format!("{}.{}{of}", schedule.kernel(), schedule.name());
        (name, Program::from_bytes(bytes).expect("of this build"))
    };
    types.into_iter().map(program).collect()
}

/// Tiles and roles of every example.
#[test]
fn plans_are_as_recorded() {
    let of = |schedule: &&dyn AnySchedule| {
        let dtype = schedule.dtypes().first().copied();
        let plan = emit(*schedule, dtype, Variant::Exact, Stage::Plan).expect("an example is planned");
        format!("== {}.{}\n{plan}", schedule.kernel(), schedule.name())
    };
    let plans: String = EVERY.iter().copied().flatten().map(of).collect();
    check(&plans, "plans.txt").unwrap_or_else(|why| panic!("{why}"));
}

/// A line for each kernel of every example, in every form: what `scripts/digest.sh` compares two builds by. `TILEWRIGHT_DIGEST` is the
/// file.
#[test]
#[ignore = "writes a file for scripts/digest.sh"]
fn digest_of_all() {
    let path = std::env::var_os("TILEWRIGHT_DIGEST").expect("TILEWRIGHT_DIGEST is the file to write");
    let programs = EVERY.iter().copied().flatten().flat_map(|schedule| programs(*schedule));
    let found: Vec<String> =
        programs.flat_map(|(name, program)| digest::lines(&name, &program, Stage::Ptx)).collect();
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

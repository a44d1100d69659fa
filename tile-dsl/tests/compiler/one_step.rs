//! What `tensor_core` leaves of a loop has a name, also where one instruction takes all of it: a schedule that is legal for
//! tiles of two instructions is legal for tiles of one.

use crate::support::{MATMUL, kernel, schedule};
use tile_dsl::{dtype::DType, engine, schedule::Target};

/// Products of f32 that the kernel rounds.
const ROUNDED: &str = "\
kernel rounded(a: &[f32; M, K], b: &[f32; K, N], c: &mut [f32; M, N]) {
    axis i in program_tile(M);
    axis j in program_tile(N);
    axis k in tiles(K);
    let mut acc = full::<f32>(0.0, [i, j]);
    for k {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc, tf32);
    }
    store(c, [i, j], acc);
}";

/// Products of bytes, whose rows run along k.
const BYTES: &str = "\
kernel bytes(a: &[f8; M, K], b: &[f8; N, K], c: &mut [f32; M, N]) {
    axis i in program_tile(M);
    axis j in program_tile(N);
    axis k in tiles(K);
    let mut acc = full::<f32>(0.0, [i, j]);
    for k {
        acc = dot(load(a, [i, k]), load(b, [j, k]), acc);
    }
    store(c, [i, j], acc);
}";

/// A factor that each lane computes.
const COMPUTED: &str = "\
kernel computed(a: &[f32; M, K], g: &[f32; K], b: &[f32; K, N], c: &mut [f32; M, N]) {
    axis i in program_tile(M);
    axis j in program_tile(N);
    axis k in tiles(K);
    let mut acc = full::<f32>(0.0, [i, j]);
    for k {
        let v = load(a, [i, k]) * load(g, [k]);
        acc = dot(v, load(b, [k, j]), acc, tf32);
    }
    store(c, [i, j], acc);
}";

/// Rows of both copies run along k.
const TURNED: &str = "stage(a at k: shared); stage(b at k: shared, transposed); swizzle(a: 32, b: 32)";

/// An instruction with the kernel that it multiplies for: points along i, j and k, and how operands come to it.
const INSTRUCTIONS: [(&str, &str, [u32; 3], &str); 5] = [
    (MATMUL, "mma", [16, 8, 16], "stage(a, b at k: shared)"),
    (ROUNDED, "mma", [16, 8, 8], "stage(a, b at k: shared)"),
    (MATMUL, "wgmma(64, 8)", [64, 8, 16], TURNED),
    (ROUNDED, "wgmma(64, 8)", [64, 8, 8], TURNED),
    (BYTES, "wgmma(64, 8)", [64, 8, 32], "stage(a, b at k: shared); swizzle(a: 32, b: 32)"),
];

/// The nest under a schedule of so many instructions along each axis, or what is wrong.
fn nest(of: &(&str, &str, [u32; 3], &str), count: [u32; 3], more: &str) -> Result<String, String> {
    let (text, atom, [m, n, k], staged) = of;
    let [i, j, k] = [m * count[0], n * count[1], k * count[2]];
    let text_of = format!("tile(i = {i}, j = {j}, k = {k}); tensor_core(acc: {atom}); {staged}; {more}");
    let mut schedule = schedule(&text_of);
    schedule.target = Target { sm: 90, specific: true };
    let kernel = kernel(text);
    let dtype = kernel.generic.as_ref().map(|_| DType::F16);
    let program =
        engine::schedule(&kernel, &schedule, dtype).map_err(|e| format!("{text_of}: {}", e[0].message))?;
    Ok(program.nest.to_string())
}

#[test]
fn atoms_of_one_step_can_be_named() {
    let directives = [
        "unroll(k.atom, i.atom, j.atom)",
        "unroll(k.atom in acc); unroll(i.atom in c)",
        "serpentine(i.atom, j.atom in acc)",
        "reorder(k.atom, i.atom, j.atom)",
        "reorder(j.atom, k.atom, i.atom in acc); reorder(j.atom, i.atom in c)",
        "vectorize(j.pair)",
    ];
    for of in &INSTRUCTIONS {
        let one = nest(of, [1, 1, 1], "").unwrap();
        for more in directives {
            nest(of, [2, 2, 2], more).unwrap();
            let named = nest(of, [1, 1, 1], more).unwrap();
            // No loop is left that would say anything.
            assert!(more.contains("vectorize") || named == one, "{more}:\n{named}\n{one}");
            for count in [[1, 2, 1], [2, 1, 1], [1, 1, 2], [2, 2, 1]] {
                nest(of, count, more).unwrap();
            }
        }
    }
}

/// Where operands are held in registers, an instruction at a time; units of one step; the one group of eight columns.
#[test]
fn every_directive_takes_them() {
    for (at, more) in [
        (0, "fragment(a, b at k.atom)"),
        (0, "fragment(a, b at k.atom); pipeline(k.atom, 2)"),
        (1, "fragment(a, b at k.atom); pipeline(k.atom, 2); interleave(k.atom: loads(1/2))"),
        (0, "bind(i.atom -> warp.x)"),
        (2, "bind(i.atom -> warpgroup.x)"),
        (2, "unroll(j.group); vectorize(j.pair)"),
        (3, "reorder(j.group, i.half, j.quad)"),
        (4, "bind(i.atom -> warpgroup.x); unroll(k.atom)"),
    ] {
        for count in [[1, 1, 1], [2, 2, 2]] {
            nest(&INSTRUCTIONS[at], count, more).unwrap();
        }
    }
    let computed = (COMPUTED, "mma", [16, 8, 8], "stage(b at k: shared)");
    for count in [[1, 1, 1], [2, 2, 2]] {
        nest(&computed, count, "unroll(k.pair, k.matrix in v)").unwrap();
    }
}

/// Names that `split` gave count instructions from then on, and two of them may be one loop.
#[test]
fn names_of_splits_go_on() {
    let of = (MATMUL, "mma", [16u32, 8, 16], "stage(a, b at k: shared)");
    for (i, split) in [(32, 16), (64, 32), (16, 16)] {
        let count = [i / 16, 2, 1];
        let more = format!("split(i -> iw, im: {split}); bind(iw -> warp.x); reorder(k.atom, im, j.atom)");
        nest(&of, count, &more).unwrap();
        let more =
            format!("split(i -> iw, im: {split}); reorder(iw, k.atom, im, j.atom); bind(iw -> warp.x)");
        nest(&of, count, &more).unwrap();
    }
    let twice = nest(&of, [2, 2, 1], "reorder(k.atom, i.atom, k.atom)");
    assert!(twice.unwrap_err().contains("listed twice"));
}

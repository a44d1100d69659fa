//! One directive, whatever the product is spelled like: order of loops and of factors, majors, conversions.

use tile_fuzz::{case::Case, check::check};

/// A kernel of a product, and a schedule of it.
fn text(
    elem: &str,
    axes: [&str; 2],
    a: (&str, &str),
    b: (&str, &str),
    update: &str,
    stored: (&str, &str),
    split: &str,
) -> String {
    let dim = |axis: &str| if axis == "i" { "M" } else { "N" };
    let [first, second] = axes;
    format!(
        "kernel k(a: &[{elem}; {}], b: &[{elem}; {}], c: &mut [f32; {}]) {{
    axis {first} in program_tile({});
    axis {second} in program_tile({});
    axis k in tiles(K);
    let mut acc = full::<f32>(0.0, [i, j]);
    for k {{
        acc = {update};
    }}
    store(c, [{}], acc);
}}
schedule sm_80 {{
    tile(i = 32); tile(j = 16); tile(k = 32);
    {split}
    tensor_core(acc: mma);
    stage(a at k: shared); stage(b at k: shared);
    pad(a: 16); pad(b: 16);
}}
launch M = 33, N = 17, K = 40; data 1
launch M = 32, N = 32, K = 32; data 2
launch M = 1, N = 1, K = 1; data 3
launch M = 5, N = 7, K = 0; data 4
",
        a.0,
        b.0,
        stored.0,
        dim(first),
        dim(second),
        stored.1,
    )
}

#[test]
fn every_spelling_is_multiplied_by_tensor_cores() {
    spellings("f16", |x, y| {
        [
            format!("dot({x}, {y}, acc)"),
            format!("dot({y}, {x}, acc)"),
            format!("acc + sum({x}.cast::<f32>() * {y}.cast::<f32>(), k)"),
            format!("sum({y}.cast::<f32>() * {x}.cast::<f32>(), k) + acc"),
        ]
    });
}

#[test]
fn every_spelling_of_tf32_is_multiplied_by_tensor_cores() {
    spellings("f32", |x, y| {
        [
            format!("dot({x}, {y}, acc, tf32)"),
            format!("dot({y}, {x}, acc, tf32)"),
            format!("acc + sum(tf32({x}) * tf32({y}), k)"),
            format!("sum(tf32({y}) * tf32({x}), k) + acc"),
        ]
    });
}

fn spellings(elem: &str, updates: impl Fn(&str, &str) -> [String; 4]) {
    let mut spellings = 0;
    for axes in [["i", "j"], ["j", "i"]] {
        for a in [("M, K", "i, k"), ("K, M", "k, i")] {
            for b in [("K, N", "k, j"), ("N, K", "j, k")] {
                let (x, y) = (format!("load(a, [{}])", a.1), format!("load(b, [{}])", b.1));
                let updates = updates(&x, &y);
                for (n, update) in updates.iter().enumerate() {
                    let stored = if n % 2 == 0 { ("M, N", "i, j") } else { ("N, M", "j, i") };
                    let split = ["", "split(k.t -> ko, ki: 16);", "split(i.t -> io, ii: 16);"][spellings % 3];
                    let text = text(elem, axes, a, b, update, stored, split);
                    let case = Case::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
                    let (done, failure) = check(&case, usize::MAX);
                    assert!(failure.is_none(), "{}\n{text}", failure.unwrap());
                    assert!(done.launches >= 8, "{} launches\n{text}", done.launches);
                    spellings += 1;
                }
            }
        }
    }
    assert_eq!(spellings, 32);
}

/// A batch, and a window that moves along one factor: axes beside those of the instruction, and two that are summed over.
const WINDOW: &str = "\
kernel k(x: &[f16; B, M + R - 1, K], w: &[f16; R, K, N], y: &mut [f32; B, M, N]) {
    axis b in program_tile(B);
    axis i in program_tile(M);
    axis j in program_tile(N);
    axis r in whole(R);
    axis k in tiles(K);
    let mut acc = full::<f32>(0.0, [b, i, j]);
    for k {
        acc = dot(load(x, [b, i + r, k]), load(w, [r, k, j]), acc);
    }
    store(y, [b, i, j], acc);
}
schedule sm_80 {
    tile(b = 2); tile(i = 32); tile(j = 16); tile(k = 32);
    tensor_core(acc: mma);
    ORDER
    stage(x at k: shared); stage(w at k: shared);
    pad(x: 16); pad(w: 16);
    MORE
}
launch B = 2, M = 33, N = 17, K = 40, R = 3; data 1
launch B = 4, M = 32, N = 32, K = 32, R = 1; data 2
launch B = 1, M = 1, N = 1, K = 1, R = 2; data 3
launch B = 3, M = 5, N = 7, K = 0, R = 3; data 4
launch B = 1, M = 5, N = 7, K = 9, R = 0; data 5
";

#[test]
fn windows_and_batches_are_multiplied_by_tensor_cores() {
    for (order, more) in [
        ("reorder(r, k.o);", ""),
        (
            "reorder(r, k.o);",
            "pipeline(k.o, 3); fragment(x at k.atom); fragment(w at k.atom); pipeline(k.atom, 2);",
        ),
        ("reorder(r, k.o, b.t);", "bind(b.t -> warp.x);"),
        // The window is copied once, and the loop over it runs inside of the copy.
        ("fits(R <= 3); reorder(k.o, r);", ""),
        ("fits(R <= 3); reorder(k.o, k.atom, r);", "unroll(r);"),
    ] {
        let text = WINDOW.replace("ORDER", order).replace("MORE", more);
        let case = Case::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let (done, failure) = check(&case, usize::MAX);
        assert!(failure.is_none(), "{}\n{text}", failure.unwrap());
        assert!(done.launches >= 8, "{} launches\n{text}", done.launches);
    }
}

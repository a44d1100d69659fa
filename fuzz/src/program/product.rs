//! Products of 16-bit tensors, which tensor cores multiply: majors, spellings, batches, what becomes of the sums.

use tile_dsl::{engine::testing::Random, tile::Kernel};

/// A random kernel around one product.
///
/// # Panics
/// If the text is no kernel.
pub(super) fn product_kernel(random: &mut Random) -> Kernel {
    let mut pick = |words: &[&'static str]| *random.pick(words);
    let dtype = pick(&["f16", "bf16"]);
    let (a, x) =
        *[("M, K", "i, k"), ("K, M", "k, i")].get(usize::from(pick(&["", "t"]) == "t")).expect("two");
    let (b, y) =
        *[("K, N", "k, j"), ("N, K", "j, k")].get(usize::from(pick(&["", "t"]) == "t")).expect("two");
    let batch = pick(&["", "", "", "b, "]);
    let dims = if batch.is_empty() { "" } else { "B, " };
    let columns = pick(&["program_tile", "program_tile", "whole"]);
    let axes = match pick(&["i", "j"]) {
        "i" => format!("axis i in program_tile(M);\n    axis j in {columns}(N);"),
        _ => format!("axis j in {columns}(N);\n    axis i in program_tile(M);"),
    };
    let axes = if batch.is_empty() { axes } else { format!("axis b in program_tile(B);\n    {axes}") };
    let (x, y) = (format!("load(x0, [{batch}{x}])"), format!("load(x1, [{batch}{y}])"));
    let update = match pick(&["dot", "swapped", "sum", "behind"]) {
        "dot" => format!("dot({x}, {y}, v0)"),
        "swapped" => format!("dot({y}, {x}, v0)"),
        "sum" => format!("v0 + sum({x}.cast::<f32>() * {y}.cast::<f32>(), k)"),
        _ => format!("sum({y}.cast::<f32>() * {x}.cast::<f32>(), k) + v0"),
    };
    let sums = format!("[{batch}i, j]");
    let result = match pick(&["v0", "relu", "bias", "index"]) {
        "relu" => "max(v0, 0.0_f32)".to_string(),
        "bias" => "v0 + load(x2, [j]).cast::<f32>()".to_string(),
        "index" => "select(iota(i) < iota(j), v0, -v0)".to_string(),
        _ => "v0".to_string(),
    };
    let (stored, at) = match pick(&["", "t"]) {
        "t" => (format!("{dims}N, M"), format!("{batch}j, i")),
        _ => (format!("{dims}M, N"), format!("{batch}i, j")),
    };
    let (elem, cast) = match pick(&["f32", "16"]) {
        "f32" => ("f32", String::new()),
        _ => (dtype, format!(".cast::<{dtype}>()")),
    };
    let rows = columns == "whole" && pick(&["", "rows"]) == "rows";
    let rows = match (rows, pick(&["sum", "max"])) {
        (false, _) => (String::new(), String::new()),
        (true, of) => {
            (format!(", y4: &mut [f32; {dims}M]"), format!("    store(y4, [{batch}i], {of}(v0, j));\n"))
        }
    };
    let text = format!(
        "kernel k(x0: &[{dtype}; {dims}{a}], x1: &[{dtype}; {dims}{b}], x2: &[{dtype}; N], y3: &mut [{elem}; {stored}]{}) {{
    {axes}
    axis k in tiles(K);
    let mut v0 = full::<f32>(0.0, {sums});
    for k {{
        v0 = {update};
    }}
    store(y3, [{at}], ({result}){cast});
{}}}
",
        rows.0, rows.1
    );
    tile_dsl::tile::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

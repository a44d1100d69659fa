//! Products that tensor cores multiply, of 16-bit tensors and of f32 rounded to tf32: majors, spellings, batches, what becomes of the sums.

use tile_dsl::{engine::testing::Random, tile::Kernel};

/// A random kernel around one product.
///
/// # Panics
/// If the text is no kernel.
pub(super) fn product_kernel(random: &mut Random) -> Kernel {
    let mut pick = |words: &[&'static str]| *random.pick(words);
    let dtype = pick(&["f16", "f16", "bf16", "bf16", "f32"]);
    let (a, x) =
        *[("M, K", "i, k"), ("K, M", "k, i")].get(usize::from(pick(&["", "t"]) == "t")).expect("two");
    let (b, y) =
        *[("K, N", "k, j"), ("N, K", "j, k")].get(usize::from(pick(&["", "t"]) == "t")).expect("two");
    let batch = pick(&["", "", "", "b, "]);
    // What else the first tensor is: the second factor, what is added to the result, or of what squares are added up beside.
    let again = pick(&["", "", "", "", "", "", "gram", "residual", "norm"]);
    let n = match again {
        "gram" => "M",
        "residual" => "K",
        _ => "N",
    };
    let dims = if batch.is_empty() { "" } else { "B, " };
    let columns = pick(&["program_tile", "program_tile", "whole"]);
    let axes = match pick(&["i", "j"]) {
        "i" => format!("axis i in program_tile(M);\n    axis j in {columns}({n});"),
        _ => format!("axis j in {columns}({n});\n    axis i in program_tile(M);"),
    };
    let axes = if batch.is_empty() { axes } else { format!("axis b in program_tile(B);\n    {axes}") };
    let second = match again {
        "gram" => format!("load(x0, [{batch}{}])", x.replace('i', "j")),
        _ => format!("load(x1, [{batch}{y}])"),
    };
    let (b, beside) = (b.replace('N', n), x.replace('k', "j"));
    let (x, y) = (format!("load(x0, [{batch}{x}])"), second);
    let squares = format!("{x}.cast::<f32>() * {x}.cast::<f32>()");
    let (first, x) = factor(x, "v1", dtype, &mut pick);
    let (second, y) = factor(y, "v2", dtype, &mut pick);
    let update = match pick(&["dot", "swapped", "sum", "behind"]) {
        "dot" if dtype == "f32" => format!("dot({x}, {y}, v0, tf32)"),
        "swapped" if dtype == "f32" => format!("dot({y}, {x}, v0, tf32)"),
        "sum" if dtype == "f32" => format!("v0 + sum(tf32({x}) * tf32({y}), k)"),
        _ if dtype == "f32" => format!("sum(tf32({y}) * tf32({x}), k) + v0"),
        "dot" => format!("dot({x}, {y}, v0)"),
        "swapped" => format!("dot({y}, {x}, v0)"),
        "sum" => format!("v0 + sum({x}.cast::<f32>() * {y}.cast::<f32>(), k)"),
        _ => format!("sum({y}.cast::<f32>() * {x}.cast::<f32>(), k) + v0"),
    };
    let sums = format!("[{batch}i, j]");
    let (mut shared, mut output) = (String::new(), String::new());
    let result = match pick(&["v0", "relu", "bias", "index", "shared", "named"]) {
        "named" => {
            shared = "    let v3 = v0 * 0.5;\n".to_string();
            "v3 + 1.0_f32".to_string()
        }
        // A value that two statements read.
        "shared" => {
            let value = pick(&["load(x2, [j]).cast::<f32>() * 2.0", "max(v0, 0.0_f32)"]);
            shared = format!("    let v3 = {value};\n");
            output = format!("    store(y6, [{batch}i, j], v0 * v3);\n");
            "v0 + v3".to_string()
        }
        "relu" => "max(v0, 0.0_f32)".to_string(),
        "bias" => "v0 + load(x2, [j]).cast::<f32>()".to_string(),
        "index" => "select(iota(i) < iota(j), v0, -v0)".to_string(),
        _ => "v0".to_string(),
    };
    let result = match again {
        "residual" => format!("({result}) + load(x0, [{batch}{beside}]).cast::<f32>()"),
        "norm" => format!("({result}) - v5"),
        _ => result,
    };
    let [start, adds] = match again {
        "norm" => [
            format!("    let mut v5 = full::<f32>(0.0, [{batch}i]);\n"),
            format!("        v5 = v5 + sum({squares}, k);\n"),
        ],
        _ => Default::default(),
    };
    let (stored, at) = match pick(&["", "t"]) {
        "t" => (format!("{dims}{n}, M"), format!("{batch}j, i")),
        _ => (format!("{dims}M, {n}"), format!("{batch}i, j")),
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
    let parameter = if output.is_empty() { String::new() } else { format!(", y6: &mut [f32; {dims}M, {n}]") };
    // The result and another one are planes of one tensor.
    let (stored, at) = match pick(&["", "", "", "planes"]) {
        "planes" => {
            output += &format!("    store(y3, [1, {at}], (-v0){cast});\n");
            (format!("2, {stored}"), format!("0, {at}"))
        }
        _ => (stored, at),
    };
    let packed = if [&x, &y, &first, &second].iter().any(|part| part.contains("x6")) {
        ", x6: &[u32; K], x7: &[u8; K]"
    } else {
        ""
    };
    let text = format!(
        "kernel k(x0: &[{dtype}; {dims}{a}], x1: &[{dtype}; {dims}{b}], x2: &[{dtype}; {n}], x5: &[{dtype}; K]{packed}, y3: &mut [{elem}; {stored}]{}{parameter}) {{
    {axes}
    axis k in tiles(K);
    let mut v0 = full::<f32>(0.0, {sums});
{start}    for k {{
{first}{second}        v0 = {update};
{adds}    }}
{shared}    store(y3, [{at}], ({result}){cast});
{output}{}}}
",
        rows.0, rows.1
    );
    tile_dsl::tile::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// A factor as it is, or computed from: the statement that names it, and what is multiplied.
fn factor(
    load: String,
    name: &str,
    dtype: &str,
    pick: &mut impl FnMut(&[&'static str]) -> &'static str,
) -> (String, String) {
    let computed = match pick(&["", "", "", "", "scaled", "wide", "cut", "packed"]) {
        // Small integers in parts of words.
        "packed" => {
            let shift = pick(&[
                "0_i32",
                "4_i32",
                "30_i32",
                "12_i32",
                "16_i32",
                "28_i32",
                "4_i32 * (iota(k) % 8_i32)",
            ]);
            // Neighbours differ in all of their bits.
            let word = "(load(x6, [k]) * 2654435761_u32)";
            let part = format!("and(shr({word}, {shift}), 15_u32).cast::<{dtype}>()");
            let from = pick(&["and(load(x6, [k]), 7_u32)", "and(load(x7, [k]).cast::<u32>(), 15_u32)"]);
            let numbers = format!("({part} - {from}.cast::<{dtype}>())");
            match pick(&["", "alone"]) {
                "alone" => format!("{load} + {numbers}"),
                _ => format!("{load} * {numbers}"),
            }
        }
        "scaled" => format!("{load} * load(x5, [k])"),
        "wide" => format!("({load}.cast::<f32>() * load(x5, [k]).cast::<f32>()).cast::<{dtype}>()"),
        "cut" => format!("max({load}, 0.0)"),
        _ => return (String::new(), load),
    };
    match pick(&["named", ""]) {
        "named" => (format!("        let {name} = {computed};\n"), name.to_string()),
        _ => (String::new(), format!("({computed})")),
    }
}

/// A random kernel of a product of a product, carried from tile to tile or not.
///
/// # Panics
/// If the text is no kernel.
pub(super) fn chain_kernel(random: &mut Random) -> Kernel {
    let mut pick = |words: &[&'static str]| *random.pick(words);
    let dtype = pick(&["f16", "bf16"]);
    if pick(&["chain", "chain", "state"]) == "state" {
        return state_kernel(dtype, &mut pick);
    }
    let [batch, dims, at] = match pick(&["", "", "heads"]) {
        "heads" => ["    axis b in program_tile(B);\n", "B, ", "b, "],
        _ => Default::default(),
    };
    let (b, y) =
        *[("N, D", "j, d"), ("D, N", "d, j")].get(usize::from(pick(&["", "t"]) == "t")).expect("two");
    let (v, z) =
        *[("N, E", "j, e"), ("E, N", "e, j")].get(usize::from(pick(&["", "t"]) == "t")).expect("two");
    let first = match pick(&["", "swapped"]) {
        "swapped" => format!("dot(load(x1, [{at}{y}]), load(x0, [{at}i, d]), full::<f32>(0.0, [{at}i, j]))"),
        _ => format!("dot(load(x0, [{at}i, d]), load(x1, [{at}{y}]), full::<f32>(0.0, [{at}i, j]))"),
    };
    let weight =
        pick(&["v1", "v1 * 0.25_f32", "max(v1, 0.0_f32)", "select(iota(j) <= iota(i), v1, 0.0_f32)"]);
    let start = pick(&["v0", "v0", "v0 * 0.5_f32"]);
    let second = match pick(&["", "swapped"]) {
        "swapped" => format!("dot(load(x2, [{at}{z}]), v2.cast::<{dtype}>(), {start})"),
        _ => format!("dot(v2.cast::<{dtype}>(), load(x2, [{at}{z}]), {start})"),
    };
    let [parameter, rows] = match pick(&["", "", "rows"]) {
        "rows" => [format!(", y4: &mut [f32; {dims}M]"), format!("store(y4, [{at}i], sum(v0, e));")],
        _ => Default::default(),
    };
    // The factor of a second sum, too.
    let again = pick(&["", "", "", "again"]) == "again";
    let [other, sum, adds, stores] = match again {
        true => [
            format!(", x5: &[{dtype}; {dims}N, E], y6: &mut [f32; {dims}M, E]"),
            format!("    let mut v3 = full::<f32>(0.0, [{at}i, e]);\n"),
            format!("        v3 = dot(v2.cast::<{dtype}>(), load(x5, [{at}j, e]), v3);\n"),
            format!("    store(y6, [{at}i, e], v3);\n"),
        ],
        false => Default::default(),
    };
    let text = format!(
        "kernel k(x0: &[{dtype}; {dims}M, D], x1: &[{dtype}; {dims}{b}], x2: &[{dtype}; {dims}{v}], y3: &mut [f32; {dims}M, E]{parameter}{other}) {{
{batch}    axis i in program_tile(M);
    axis d in whole(D);
    axis e in whole(E);
    axis j in tiles(N);
    let mut v0 = full::<f32>(0.0, [{at}i, e]);
{sum}    for j {{
        let v1 = {first};
        let v2 = {weight};
        v0 = {second};
{adds}    }}
    store(y3, [{at}i, e], v0);
{stores}    {rows}
}}
"
    );
    tile_dsl::tile::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Sums of products that each step reads before it adds to them, as linear attention does.
fn state_kernel(dtype: &str, pick: &mut impl FnMut(&[&'static str]) -> &'static str) -> Kernel {
    let (k, at) =
        *[("N, D", "j, d"), ("D, N", "d, j")].get(usize::from(pick(&["", "t"]) == "t")).expect("two");
    let update = match pick(&["", "swapped"]) {
        "swapped" => format!("dot(load(x2, [j, e]), load(x1, [{at}]), v0)"),
        _ => format!("dot(load(x1, [{at}]), load(x2, [j, e]), v0)"),
    };
    let read =
        format!("store(y3, [j, e], dot(load(x0, [j, d]), v0.cast::<{dtype}>(), full::<f32>(0.0, [j, e])));");
    let body = match pick(&["before", "before", "after"]) {
        "after" => format!("v0 = {update};\n        {read}"),
        _ => format!("{read}\n        v0 = {update};"),
    };
    let (parameter, last) = match pick(&["", "last"]) {
        "last" => (", y4: &mut [f32; D, E]", "    store(y4, [d, e], v0);\n"),
        _ => ("", ""),
    };
    let columns = pick(&["program_tile", "whole"]);
    let text = format!(
        "kernel k(x0: &[{dtype}; N, D], x1: &[{dtype}; {k}], x2: &[{dtype}; N, E], y3: &mut [f32; N, E]{parameter}) {{
    axis e in {columns}(E);
    axis d in whole(D);
    axis j in tiles(N);
    let mut v0 = full::<f32>(0.0, [d, e]);
    for j {{
        {body}
    }}
{last}}}
"
    );
    tile_dsl::tile::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

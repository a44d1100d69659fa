//! Loops that carry a maximum and sums of powers of what lies below it: softmax over tiles, as attention has it.

use tile_dsl::{engine::testing::Random, tile::Kernel};

/// A random kernel around one, of products where it is to multiply matrices.
///
/// # Panics
/// If the text is no kernel.
pub(super) fn running_kernel(random: &mut Random, multiplies: bool) -> Kernel {
    let mut pick = |words: &[&'static str]| *random.pick(words);
    let dtype = pick(&["f16", "bf16"]);
    let power = pick(&["exp", "exp2"]);
    // With the last one, later tiles may be far above the first.
    let factor = pick(&["", " * 0.25_f32", " * 0.5_f32", " * 40.0_f32"]);
    let (mut parameters, mut axes) = (Vec::new(), String::new());
    let numbers = if multiplies {
        axes.push_str("    axis d in whole(D);\n");
        let (b, y) =
            *[("N, D", "j, d"), ("D, N", "d, j")].get(usize::from(pick(&["", "t"]) == "t")).expect("two");
        parameters.push(format!("x0: &[{dtype}; M, D]"));
        parameters.push(format!("x1: &[{dtype}; {b}]"));
        format!("dot(load(x0, [i, d]), load(x1, [{y}]), full::<f32>(0.0, [i, j]))")
    } else {
        parameters.push("x0: &[f32; M, N]".into());
        pick(&["load(x0, [i, j])", "load(x0, [i, j]) * 0.5_f32"]).into()
    };
    let most = match pick(&["after", "after", "before", "behind"]) {
        "before" => format!("max(v0, max(v3{factor}, j))"),
        "behind" => format!("max(max(v3, j){factor}, v0)"),
        _ => format!("max(v0, max(v3, j){factor})"),
    };
    // Sums beside that of the weights: of products, of weighted rows, or none.
    let beside =
        pick(if multiplies { &["dot", "dot", "dot", "none"] } else { &["rows", "rows", "none", "quotient"] });
    let (mut sums, mut adds, mut stores) = (String::new(), String::new(), String::new());
    match beside {
        "dot" => {
            parameters.push(format!("x2: &[{dtype}; N, E]"));
            let stored = pick(&["f32", dtype]);
            parameters.push(format!("y3: &mut [{stored}; M, E]"));
            axes.push_str("    axis e in whole(E);\n");
            sums.push_str("    let mut v2 = full::<f32>(0.0, [i, e]);\n");
            adds = format!("        v2 = dot(v5.cast::<{dtype}>(), load(x2, [j, e]), v2 * v6);\n");
            stores.push_str(&format!("    store(y3, [i, e], (v2 / v1).cast::<{stored}>());\n"));
        }
        "rows" => {
            parameters.push("x2: &[f32; N]".into());
            parameters.push("y3: &mut [f32; M]".into());
            sums.push_str("    let mut v2 = full::<f32>(0.0, [i]);\n");
            let term = pick(&["v5 * load(x2, [j])", "v5 * v3", "v5 * v5"]);
            let again = if term == "v5 * v5" { "v6 * v6" } else { "v6" };
            let over = if term == "v5 * v5" { "v1 / v1" } else { "v1" };
            adds = format!("        v2 = v2 * {again} + sum({term}, j);\n");
            stores = format!("    store(y3, [i], v2 / {over});\n");
        }
        // Where the maximum stays and is too low, this hides an infinity.
        "quotient" => {
            parameters.push("y3: &mut [f32; M]".into());
            sums.push_str("    let mut v2 = full::<f32>(0.0, [i]);\n");
            adds = "        v2 = v2 + sum(v5, j) / max(v5, j);\n".into();
            stores = "    store(y3, [i], v2);\n".into();
        }
        _ => {}
    }
    // What depends on the maximum itself is another number where it stays: then it is refused.
    let total = match pick(&["log", "log", "most", "sign", "none"]) {
        "log" if power == "exp" => "v0 + log(v1)",
        "most" => "v0",
        "sign" => "select(v0 > 0.0_f32, v1 / v1, 0.5_f32)",
        _ if beside == "none" => "v1 / (v1 + v1)",
        _ => "",
    };
    if !total.is_empty() {
        parameters.push("y4: &mut [f32; M]".into());
        stores.push_str(&format!("    store(y4, [i], {total});\n"));
    }
    let parameters = parameters.join(", ");
    let text = format!(
        "kernel k({parameters}) {{
    axis i in program_tile(M);
{axes}    axis j in tiles(N);
    let mut v0 = full::<f32>(-1000.0, [i]);
    let mut v1 = full::<f32>(0.0, [i]);
{sums}    for j {{
        let v3 = {numbers};
        let v4 = {most};
        let v5 = {power}(v3{factor} - v4);
        let v6 = {power}(v0 - v4);
        v1 = v1 * v6 + sum(v5, j);
{adds}        v0 = v4;
    }}
{stores}}}
"
    );
    tile_dsl::tile::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

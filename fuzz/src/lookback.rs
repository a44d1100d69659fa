//! Random kernels whose loops carry a state that steps can publish, under random schedules by which they do (`lookback`).

use crate::{case::Case, check::program};
use tile_dsl::{
    engine::testing::Random,
    schedule::{Item, Schedule, Target, parse},
    tile::{self, Kernel},
};

const LOOKBACK: u64 = 0x1b6e_90d4_7ac3_25f1;
/// Kernels that are one, in percent.
const SHARE: usize = 4;

/// Whether the kernel of a seed is one of these, where nothing is wished for.
pub fn carries(seed: u64) -> bool {
    Random::new(seed ^ LOOKBACK).below(100) < SHARE
}

/// The kernel of a seed.
///
/// # Panics
/// If a text is no kernel.
pub fn carrying_kernel(seed: u64) -> Kernel {
    kernel(&mut random(seed)).0
}

/// The kernel of a seed, and a schedule of it; nothing where that is refused.
///
/// # Panics
/// If a text is no kernel or no schedule.
pub fn carrying(seed: u64) -> Option<Case> {
    let mut random = random(seed);
    let (kernel, over_tiles) = kernel(&mut random);
    let schedule = schedule(&mut random, &kernel, &over_tiles);
    let case = Case { kernel, dtype: None, schedule, launches: vec![] };
    program(&case).is_ok().then_some(case)
}

fn random(seed: u64) -> Random {
    Random::new(seed ^ LOOKBACK.rotate_left(9))
}

/// A loop over tiles that carries one or two sums, maxima or minima, and the values that are over a tile.
fn kernel(random: &mut Random) -> (Kernel, Vec<String>) {
    let states = 1 + random.below(2);
    let mut pick = |words: &[&'static str]| *random.pick(words);
    let dtype = pick(&["i32", "i32", "u32", "f32"]);
    let own = "load(x0, [i, j])";
    let element = pick(&[own, "load(x0, [i, j]) * load(x0, [i, j])", "max(load(x0, [i, j]), load(x1, [i]))"]);
    let (mut starts, mut parts, mut reads, mut sets) =
        (String::new(), String::new(), String::new(), String::new());
    let (mut tensors, mut ends, mut over_tiles) = (String::new(), String::new(), Vec::new());
    // What stands behind the loop, and whether anything needs the part beside the state.
    let (ending, mut needed) = (pick(&["none", "ends"]) == "ends", false);
    for state in 0..states {
        let (part, scan, stored, end) = (4 + state, 6 + state, 2 + state, 4 + state);
        let of = pick(&["sum", "sum", "max", "min"]);
        let combined = |a: String, b: String| match of {
            "sum" => format!("{a} + {b}"),
            of => format!("{of}({a}, {b})"),
        };
        starts.push_str(&format!(
            "    let mut v{state} = full::<{dtype}>({}, [i]);\n",
            pick(&["0.0", "3.0", "100.0"])
        ));
        parts.push_str(&format!("        let v{part} = {of}(v3, j);\n"));
        over_tiles.push(format!("v{part}"));
        let read = match pick(&["scan", "scan", "element", "part"]) {
            "scan" => {
                reads.push_str(&format!("        let v{scan} = cum{of}(v3, j);\n"));
                over_tiles.push(format!("v{scan}"));
                combined(format!("v{scan}"), format!("v{state}"))
            }
            "element" => format!("select(v3 > v{state}, v3, v{state})"),
            _ => {
                needed = true;
                format!("v3 - v{state} * v{part}")
            }
        };
        reads.push_str(&format!("        store(y{stored}, [i, j], {read});\n"));
        sets.push_str(&format!(
            "        v{state} = {};\n",
            combined(format!("v{state}"), format!("v{part}"))
        ));
        tensors.push_str(&format!(", y{stored}: &mut [{dtype}; M, N]"));
        if ending {
            tensors.push_str(&format!(", y{end}: &mut [{dtype}; M]"));
            ends.push_str(&format!("    store(y{end}, [i], v{state});\n"));
        }
    }
    // The state as it is before the step, whose part is known before or after that, or as it is behind it.
    let step = match pick(&["part", "read", "end"]) {
        "read" if !needed => format!("{reads}{parts}{sets}"),
        "end" => format!("{parts}{sets}{reads}"),
        _ => format!("{parts}{reads}{sets}"),
    };
    let text = format!(
        "kernel k(x0: &[{dtype}; M, N], x1: &[{dtype}; M]{tensors}) {{
    axis i in program_tile(M);
    axis j in tiles(N);
{starts}    for j {{
        let v3 = {element};
{step}    }}
{ends}}}
"
    );
    (tile::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}")), over_tiles)
}

/// A row of threads a tile, of one to four elements each, which lie together or apart.
fn schedule(random: &mut Random, kernel: &Kernel, over_tiles: &[String]) -> Schedule {
    let threads = *random.pick(&[32, 32, 33, 64, 96, 128]);
    let (each, apart) = (*random.pick(&[1, 1, 2, 3, 4]), *random.pick(&[1, 1, 2]));
    let unit = if threads == 32 && random.below(2) == 0 { "lane" } else { "thread" };
    let text = format!(
        "tile(i = 1); tile(j = {}); split(j -> jq, jr: {row}); split(jr -> jt, jv: {each});
        reduce({}: cta); bind(jt -> {unit}.x); unroll(jq, jv); lookback(j, any_order);",
        threads * each * apart,
        over_tiles.join(", "),
        row = threads * each,
    );
    let items = parse(&text).unwrap_or_else(|e| panic!("{e} of `{text}`"));
    let directives = items.into_iter().filter_map(|item| match item {
        Item::Directive(directive) => Some(directive),
        Item::Drop { .. } => None,
    });
    Schedule {
        name: "case".into(),
        kernel: kernel.name.clone(),
        dtypes: vec![],
        target: Target { sm: *random.pick(&[80, 86, 90]), specific: false },
        directives: directives.collect(),
    }
}

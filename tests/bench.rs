//! Benchmarks of the matmul example as far as they need no GPU: the size rule and the command line.

#[path = "../examples/matmul/choose.rs"]
mod choose;
#[path = "../bench/tests/support/h200.rs"]
mod h200;
#[path = "../examples/matmul/kernel.rs"]
mod kernel;

use choose::{CANDIDATES, by_size};
use h200::h200;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    process::{Command, Output},
};
use tile_bench::choose::{Candidate, Shape};
use tile_dsl::program::Program;
use tilewright::{AnySchedule, DType, GpuInfo};

/// What the program of a candidate fixes.
fn shape(c: &Candidate) -> Shape {
    let program = Program::from_bytes(c.schedule.program(Some(DType::F32)).unwrap()).unwrap();
    Shape::of(&program).unwrap()
}

/// The candidate of a schedule.
fn candidate(name: &str) -> &'static Candidate {
    CANDIDATES.iter().find(|c| c.schedule.name() == name).unwrap()
}

#[test]
fn the_rule_reads_from_the_programs_what_their_schedules_say() {
    for c in CANDIDATES {
        let name = c.schedule.name();
        let (tile, sums, resident) = match name {
            "best" => ([128, 256, 16], 128, 1),
            _ if name.starts_with("narrow") => ([64, 256, 16], 128, 2),
            "prefetched" | "ragged" | "double_buffered" => ([128, 128, 16], 64, 2),
            "small" | "small_split4" | "small_split16" | "small_split64" | "ragged_split4" => {
                ([64, 128, 16], 64, 4)
            }
            "small_clustered4" => ([64, 128, 16], 64, 3),
            "flat_split16" => ([32, 256, 16], 64, 4),
            "tiny" => ([32, 64, 64], 16, 4),
            "warptile" => ([128, 128, 32], 64, 2),
            "vectorized" => ([128, 128, 8], 64, 2),
            "blocktile_1d" => ([64, 64, 16], 8, 3),
            "shared" => ([32, 32, 64], 1, 2),
            other => panic!("{other} is not listed here"),
        };
        let shape = shape(c);
        let read: Vec<u32> = shape.owned.iter().chain(&shape.summed).map(|t| t.tile).collect();
        assert_eq!(read, tile, "{name}");
        assert_eq!(shape.area() as u32 / shape.threads, sums, "{name}");
        assert_eq!(shape.resident(c.registers), resident, "{name}");
        let digits = name.rsplit_once(|c: char| !c.is_ascii_digit()).map(|(_, digits)| digits.parse());
        let shared = ["_split", "_added", "_clustered"].iter().any(|how| name.contains(how));
        let parts = if shared { digits } else { None };
        assert_eq!(Ok(shape.parts), parts.unwrap_or(Ok(1)), "{name}");
        assert_eq!(shape.atomic, name.contains("_added"), "{name}");
        // As the launch has it: program axes first, then what `split_k` shares out.
        let program = Program::from_bytes(c.schedule.program(Some(DType::F32)).unwrap()).unwrap();
        let kernel = tile_dsl::lower::lower(&program, tilewright::Variant::Exact).unwrap();
        let tiles: Vec<u32> = kernel.grid[..2].iter().map(|axis| axis.tile).collect();
        assert_eq!(tiles, tile[..2], "{name}");
        let parts = kernel.grid.get(2).map_or(Some(1), |axis| axis.extent.as_constant());
        assert_eq!(parts, Some(i64::from(shape.parts)), "{name}");
        assert_eq!(shape.atomic, !kernel.cleared.is_empty(), "{name}");
        assert!(c.share > 0.0 && c.share < 1.0);
        let all = || kernel::SCHEDULES.iter().chain(kernel::BY_SIZE);
        assert!(all().any(|s| s.name() == name), "{name}");
    }
}

/// The rule's choice on an H200 in f32.
fn pick(size: [usize; 3]) -> &'static str {
    by_size(size, DType::F32, Some(&h200()), false).name()
}

/// Area of the tile of a candidate.
fn area(name: &str) -> usize {
    shape(candidate(name)).area() as usize
}

#[test]
fn the_rule_takes_the_highest_share_for_large_sizes_and_smaller_tiles_when_multiprocessors_would_idle() {
    let best = CANDIDATES.iter().max_by(|a, b| a.share.total_cmp(&b.share)).unwrap().schedule.name();
    assert_eq!(pick([8192, 8192, 8192]), best);
    assert!(area(pick([512, 512, 512])) < area(best), "small");
    assert!(area(pick([64, 4096, 4096])) < area(best), "skinny");
    let most = CANDIDATES.iter().map(|c| c.ragged).fold(0.0, f64::max);
    let ragged = |name| CANDIDATES.iter().any(|c| c.schedule.name() == name && c.ragged == most);
    assert!(ragged(pick([8191, 8191, 8191])));
    // A GPU with few multiprocessors fills up sooner.
    let small = GpuInfo { multiprocessors: 2, ..h200() };
    assert_eq!(by_size([1024, 1024, 64], DType::F32, Some(&small), false).name(), best);
}

/// As measured on an H200 (docs/performance.md).
#[test]
fn few_tiles_are_small_or_flat_or_meet_in_clusters() {
    let picked = [
        ([512, 512, 512], "tiny"),
        ([768, 768, 768], "small_clustered4"),
        ([1024, 512, 512], "small_clustered4"),
        ([32, 8192, 8192], "flat_split16"),
        ([16, 4096, 16384], "flat_split16"),
    ];
    for (size, name) in picked {
        assert_eq!(pick(size), name, "{size:?}");
    }
}

#[test]
fn a_size_off_the_tile_costs_the_edge_alone() {
    // As many rounds of tiles as 4096³ has; guards cost no schedule its place.
    for size in [[4096, 4096, 4096], [4100, 4096, 4096], [4096, 4096, 4100]] {
        assert_eq!(pick(size), "best", "{size:?}");
    }
    // One round more of large tiles than of small ones.
    assert_ne!(pick([4096, 4100, 4096]), "best");
}

#[test]
fn the_rule_shares_k_out_where_tiles_are_few() {
    let parts = |size, atomic| {
        let name = by_size(size, DType::F32, Some(&h200()), atomic).name();
        let shape = shape(candidate(name));
        (shape.parts, shape.atomic)
    };
    for size in [[1024; 3], [64, 4096, 4096], [128, 8192, 8192], [256, 256, 4096]] {
        let (ordered, atomic) = (parts(size, false), parts(size, true));
        assert!(ordered.0 > 1 && !ordered.1, "{size:?}: {ordered:?}");
        assert!(atomic.0 > 1, "{size:?}: {atomic:?}");
    }
    assert_eq!(parts([64, 4096, 4096], true), (16, true));
    assert_eq!(parts([64, 64, 1 << 20], false), (64, false));
    assert_eq!(parts([4096; 3], true), (1, false));
}

#[test]
fn the_rule_has_an_answer_for_every_size_type_and_gpu() {
    for size in [[0, 0, 0], [1, 1, 1], [usize::MAX; 3]] {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            for sm in [75, 80, 90, 120] {
                let gpu = GpuInfo { sm, ..h200() };
                let schedule = by_size(size, dtype, Some(&gpu), true);
                assert!(schedule.admits(Some(dtype)), "{size:?} {dtype} sm_{sm}: {}", schedule.name());
            }
        }
    }
}

/// Examples are built beside the tests, one folder up.
fn matmul(args: &[&str]) -> Output {
    let deps = std::env::current_exe().expect("a test knows its path");
    let folder = deps.ancestors().nth(2).expect("target/<profile>/deps").join("examples");
    let mut command = Command::new(folder.join("matmul"));
    // No tool is found, whatever this machine has.
    command
        .args(args)
        .env("TILEWRIGHT_PTXAS", "/nowhere/ptxas")
        .output()
        .expect("cargo test builds the examples")
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_benchmark_on_the_simulator_is_an_error_that_says_why() {
    let output = matmul(&["--bench", "--device", "sim"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(error(&output).contains("the simulator claims none: it needs a GPU"), "{}", error(&output));
}

#[test]
fn options_that_do_not_go_together_exit_with_2() {
    for (args, expected) in [
        (&["--bench", "--emit", "ptx"][..], "cannot be used with"),
        (&["--bench", "--launches", "5"], "20"),
        (&["--rest", "8"], "--bench"),
        (&["--arch", "sm_90"], "--emit"),
        (&["--schedule", "warptile,fast"], "auto-size"),
        (&["--size", "64x64x64,12"], "M×N×K"),
    ] {
        let output = matmul(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(error(&output).contains(expected), "{args:?}: {}", error(&output));
    }
}

#[test]
fn several_sizes_and_schedules_run_in_the_ladders_order() {
    let args = ["--schedule", "shared,naive", "--size", "8x8x8,16x8x8", "--size", "8x16x8"];
    let output = matmul(&[&args[..], &["--device", "sim", "--json"]].concat());
    assert!(output.status.success(), "{}", error(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let runs: Vec<_> =
        lines.iter().map(|l| (l["schedule"].as_str().unwrap(), l["m"].as_u64().unwrap())).collect();
    assert_eq!(
        runs,
        [("naive", 8), ("shared", 8), ("naive", 16), ("shared", 16), ("naive", 8), ("shared", 8)]
    );
}

#[test]
fn the_size_rules_run_one_schedule_a_size() {
    // Without a GPU there is nothing to time.
    for (rule, atomic) in [(choose::NAME, false), (choose::ATOMIC, true), (choose::TIMED, false)] {
        let output = matmul(&["--schedule", rule, "--size", "64x256x256", "--device", "sim", "--json"]);
        assert!(output.status.success(), "{}", error(&output));
        let line: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(line["schedule"], by_size([64, 256, 256], DType::F32, None, atomic).name());
    }
}

#[test]
fn machine_code_without_an_assembler_says_what_to_install() {
    for stage in ["sass", "resources"] {
        let output = matmul(&["--emit", stage, "--schedule", "naive"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(error(&output).contains("pip install nvidia-cuda-nvcc"), "{}", error(&output));
    }
}

/// The rule's choice on an H200 in bf16.
fn pick_products(size: [usize; 3]) -> &'static str {
    by_size(size, DType::BF16, Some(&h200()), false).name()
}

#[test]
fn warpgroups_get_tiles_that_leave_few_multiprocessors_without_work() {
    let picked = [
        ([512, 512, 512], "tile64"),
        ([768, 768, 768], "tile64x128"),
        ([1024, 1024, 1024], "tile64x128"),
        // 128 tiles of 192×96 for 132 multiprocessors.
        ([1536, 1536, 1536], "tile192x96"),
        ([2048, 2048, 2048], "pingpong128"),
        ([3072, 3072, 3072], "pingpong192"),
        // Six tiles of two sizes for each of 128 multiprocessors.
        ([4096, 4096, 4096], "wgmma_best"),
        ([8192, 8192, 8192], "pingpong192"),
        ([16384, 16384, 16384], "light_barriers"),
        // Few steps of K: stores are hidden behind the other group's products.
        ([4096, 4096, 512], "wgmma_best"),
        ([8192, 1024, 8192], "light_barriers"),
        // Rows of 10,000 bytes begin within sectors.
        ([5000, 5000, 5000], "swapped160"),
        // 640 tiles of 160×256 in five rounds of 132; 800 of 128×256 would begin a seventh.
        ([5120, 5120, 5120], "swapped160"),
        // One row of tiles, and a tile's K shared out.
        ([64, 4096, 4096], "tile64_clustered2"),
        ([128, 8192, 8192], "tile64x128"),
        ([512, 512, 8192], "tile64_clustered2"),
        ([512, 512, 16384], "tile64x128_split4"),
        ([512, 512, 32768], "tile64x128_split4"),
        ([16, 8192, 8192], "tile64x128_clustered2"),
        // 1,056 tiles of 128×128 are eight rounds of 132.
        ([4095, 4097, 4093], "pingpong128"),
    ];
    for (size, name) in picked {
        assert_eq!(pick_products(size), name, "{size:?}");
    }
    // What has no wgmma takes CUDA cores.
    let older = GpuInfo { sm: 80, ..h200() };
    let name = by_size([4096, 4096, 4096], DType::BF16, Some(&older), false).name();
    assert!(choose::PRODUCTS.iter().all(|s| s.name() != name), "{name}");
}

#[test]
fn what_is_timed_is_near_the_least_estimate_and_begins_with_the_rules_pick() {
    let gpu = h200();
    for size in [[4096, 4096, 4096], [294, 1568, 1464], [1, 4096, 14336], [12544, 256, 64], [0, 8, 8]] {
        let near = choose::near(size, DType::BF16, Some(&gpu));
        assert_eq!(near[0].name(), pick_products(size), "{size:?}");
        assert!(near.len() <= 8, "{size:?}");
    }
    // Six 64×64 tiles: those of 128×256 take more than 1.4 times as long.
    let near = choose::near([64, 384, 8192], DType::BF16, Some(&gpu));
    assert!(near.iter().all(|s| s.name() != "light_barriers"), "{:?}", near.len());
    // Of equal estimates the first comes first, and what is beyond the factor or the number is left out.
    let ranked = [("a", 2.0), ("b", 2.0), ("c", 2.7), ("d", 2.9)];
    let list = |factor, most| tile_bench::choose::shortlist(&ranked, factor, most);
    assert_eq!(
        (list(1.4, 8), list(1.4, 2), list(1.0, 8)),
        (vec!["a", "b", "c"], vec!["a", "b"], vec!["a", "b"])
    );
    assert!(tile_bench::choose::shortlist::<&str>(&[], 1.4, 8).is_empty());
}

#[test]
fn the_recorded_picks_are_those_of_the_rule() {
    let h100 = GpuInfo { name: "NVIDIA H100 80GB HBM3".into(), memory_gbps: 3352.0, ..h200() };
    let recorded = include_str!("../docs/measurements/h100-sizes.csv");
    let mut regrets: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for [set, size, picked, _, _, _, _, regret] in rows(recorded) {
        let dims: Vec<usize> = size.split('x').map(|n| n.parse().unwrap()).collect();
        let name = by_size([dims[0], dims[1], dims[2]], DType::BF16, Some(&h100), false).name();
        if name != picked {
            wrong.push(format!("{size}: {name}, recorded {picked}"));
        }
        regrets.entry(set).or_default().push(regret.parse().unwrap());
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let all = |sets: &[&str]| sets.iter().flat_map(|set| &regrets[set]).copied().collect::<Vec<f64>>();
    let mut timed: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for [set, .., regret] in rows(include_str!("../docs/measurements/h100-timed.csv")) {
        timed.entry(set).or_default().push(regret.parse().unwrap());
    }

    // What docs/performance.md says of these.
    let page = include_str!("../docs/performance.md");
    let of = |regrets: &[f64]| {
        let mean = regrets.iter().sum::<f64>() / regrets.len() as f64;
        (100.0 * mean, 100.0 * regrets.iter().fold(0.0f64, |a, b| a.max(*b)))
    };
    let row = |rule: &str, sizes: &str, regrets: &[f64]| {
        let ((mean, worst), above) = (of(regrets), regrets.iter().filter(|r| **r > 0.06).count());
        let row = format!("| `{rule}` | {sizes} | {mean:.1} % | {worst:.1} % | {above} |");
        assert!(page.contains(&row), "{row}");
    };
    let (fitted, random) = (all(&["own", "off", "fitted", "candidates"]), all(&["held out", "random"]));
    row("auto-size", &format!("{} that it was fitted to", fitted.len()), &fitted);
    row("auto-size", &format!("{} random ones", random.len()), &random);
    row("auto-timed", &format!("{} random ones", timed["random"].len()), &timed["random"]);
    row("auto-timed", &format!("{} of the {}", timed["known"].len(), fitted.len()), &timed["known"]);
    let again = [&timed["random again"], &timed["known again"]];
    row("auto-timed", &format!("{} more random ones", again[0].len()), again[0]);
    row("auto-timed", &format!("{} of the {}, a day later", again[1].len(), timed["known"].len()), again[1]);
    let (mean, worst) = of(&regrets["held out"]);
    let said = format!("The mean regret is {mean:.1} %, at worst {worst:.1} %;");
    assert!(page.contains(&said), "{said}");
    let fastest = regrets["random"].iter().filter(|r| **r == 0.0).count();
    let said =
        format!("At {fastest} of {} random sizes `auto-size` picks the fastest;", regrets["random"].len());
    assert!(page.contains(&said), "{said}");
}

/// Rows of a table, without its head.
fn rows(csv: &str) -> impl Iterator<Item = [&str; 8]> {
    csv.lines().skip(1).map(|row| {
        let cells: Vec<&str> = row.split(',').collect();
        cells.try_into().unwrap_or_else(|_| panic!("`{row}` has not eight columns"))
    })
}

#[test]
fn the_estimate_of_products_grows_with_the_work() {
    let shape = |schedule: &dyn AnySchedule| {
        let program = Program::from_bytes(schedule.program(Some(DType::BF16)).unwrap()).unwrap();
        Shape::of(&program).unwrap()
    };
    let narrow = shape(&kernel::pingpong128);
    assert!(narrow.products && narrow.turns == 2);
    let tensor = tile_bench::products::Tensor::of(Some(&h200()), DType::BF16);
    let estimate = |shape: &Shape, m, n, k| {
        let dims = tile_bench::choose::dims(&[("M", m), ("N", n), ("K", k)]);
        tile_bench::products::microseconds(shape, &dims, DType::BF16, tensor)
    };
    let of = |m, n, k| estimate(&narrow, m, n, k);
    // 132 tiles, one for each multiprocessor, and twelve more: another round.
    let (one, full) = (of(128, 128, 4096), of(128 * 12, 128 * 11, 4096));
    assert!(one < full && full < 1.25 * one, "{one} {full}");
    assert!(of(128 * 12, 128 * 12, 4096) > 1.6 * full);
    // One round again, and more bytes of device memory.
    assert!(of(128, 128 * 132, 64) > of(128, 128, 64));
    assert!(of(128, 128, 4096) > of(128, 128, 2048));
    // Two tiles of 192 and one of 128 take the products of four of 128, and fewer bytes; two rounds of 192 for want of a third
    // tile take those of three.
    let two_sizes = shape(&kernel::wgmma_best);
    let dims = tile_bench::choose::dims(&[("M", 128), ("N", 1100), ("K", 64)]);
    assert_eq!((two_sizes.sizes(&dims), narrow.sizes(&dims)), (Some([5, 2]), Some([9, 0])));
    assert_eq!(two_sizes.last().owned.iter().map(|axis| axis.tile).collect::<Vec<_>>(), [128, 128]);
    assert_eq!(narrow.last(), narrow);
    // Rows of A along M are as long as K, those of B along N as N.
    let rows = narrow.reads().map(|read| read.rows.iter().map(|row| row.eval(&dims).unwrap()).collect());
    assert_eq!(rows.collect::<Vec<Vec<i64>>>(), [vec![64], vec![1100]]);
    // 13 rows of tiles are seven clusters of two.
    let clusters = tile_bench::choose::dims(&[("M", 2048), ("N", 5120), ("K", 5120)]);
    assert_eq!(shape(&kernel::swapped160).tiles(&clusters), Some(14 * 20));
    let of_two_sizes = |m, n, k| estimate(&two_sizes, m, n, k);
    assert!(of_two_sizes(4096, 4096, 4096) < of(4096, 4096, 4096));
    // 180.7 beside 185.2 µs on an H100, 2026-11-26.
    assert!(of_two_sizes(4096, 4096, 4096) > 0.92 * of(4096, 4096, 4096));
    // 35.7 beside 27.3 µs at 2048³ on an H100, 2026-11-26.
    assert!(of_two_sizes(2048, 2048, 4096) > 1.3 * of(2048, 2048, 4096));
    assert!(two_sizes.divides(&tile_bench::choose::dims(&[("M", 128), ("N", 1024), ("K", 64)])));
    assert!(!two_sizes.divides(&tile_bench::choose::dims(&[("M", 128), ("N", 192), ("K", 64)])));
}

//! Benchmarks as far as they need no GPU: statistics, figures, clocks, peaks, the size rule, and the command line.

#[path = "../examples/matmul/choose.rs"]
mod choose;
#[path = "../examples/common/mod.rs"]
mod common;
#[path = "../examples/matmul/kernel.rs"]
mod kernel;
#[path = "../examples/ladder/predict.rs"]
mod predict;

use choose::{CANDIDATES, by_size};
use common::{
    figures::{Figures, HEADER, row},
    monitor::{Sample, Summary},
    peak::{fma_per_cycle, peak_flops},
    stats::{median, paired_ratio, quantile},
    table::aligned,
};
use predict::{Gpu, Work, lines, predict};
use serde_json::{Map, Value};
use std::process::{Command, Output};
use tile_dsl::program::Program;
use tilewright::{DType, GpuInfo};

fn h200() -> GpuInfo {
    GpuInfo {
        name: "NVIDIA H200".into(),
        sm: 90,
        multiprocessors: 132,
        l2_bytes: 60 << 20,
        max_clock_mhz: 1980.0,
        cuda_version: (13, 0),
        pci_bus_id: "0000:01:00.0".into(),
    }
}

#[test]
fn medians_and_quartiles_are_those_of_the_sorted_values() {
    assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    assert_eq!(quantile(&[5.0, 1.0, 2.0, 3.0, 4.0], 0.25), Some(2.0));
    assert_eq!((median(&[]), quantile(&[7.0], 0.9)), (None, Some(7.0)));
    // One slow round slows both, and the median of the ratios does not see it.
    assert_eq!(paired_ratio(&[2.0, 20.0, 2.0], &[1.0, 10.0, 1.0]), Some(2.0));
    assert_eq!(paired_ratio(&[], &[]), None);
}

#[test]
fn figures_follow_from_the_times() {
    let figures = Figures {
        times: &[2.0, 2.0, 4.0],
        cublas: &[1.0, 1.0, 1.0],
        previous: Some(&[4.0, 3.0, 8.0]),
        flops: 4e12,
        peak: Some(4e15),
    };
    let o: Map<String, Value> = figures.json().into_iter().map(|(k, v)| (k.to_string(), v)).collect();
    let number = |key: &str| o[key].as_f64().unwrap();
    assert_eq!((number("time_ms"), number("tflops"), number("cublas_tflops")), (2.0, 2000.0, 4000.0));
    assert_eq!((number("ratio"), number("ratio_to_previous"), number("percent_of_peak")), (0.5, 2.0, 50.0));
    assert_eq!((number("launches"), o["time_ms_quartiles"][1].as_f64()), (3.0, Some(3.0)));
}

#[test]
fn what_is_not_known_is_null_and_a_dash() {
    let figures = Figures { times: &[1.0], cublas: &[], previous: None, flops: 1e9, peak: None };
    let o: Map<String, Value> = figures.json().into_iter().map(|(k, v)| (k.to_string(), v)).collect();
    for key in ["cublas_tflops", "ratio", "ratio_to_previous", "percent_of_peak"] {
        assert_eq!(o[key], Value::Null, "{key}");
    }
    let cells = row(&Value::Object(o));
    assert_eq!(cells.len(), HEADER.len());
    assert_eq!(
        (cells[3].as_str(), cells[5].as_str(), cells[12].as_str()),
        ("1.0000", "-", "1.0000 to 1.0000")
    );
}

#[test]
fn columns_are_aligned() {
    let rows = [vec!["a".into(), "1.25".into()], vec!["naïve".into(), "30".into()]];
    assert_eq!(aligned(&rows, 1), "a      1.25\nnaïve    30\n");
}

#[test]
fn clocks_are_read_from_nvidia_smi() {
    let lines = ["1980, 412.53, 580.159.04", "1965, [N/A], 580.159.04", "clocks", "a, b, c"];
    let samples: Vec<Sample> = lines.iter().filter_map(|l| Sample::parse(l)).collect();
    assert_eq!(samples.len(), 2);
    let summary = Summary::of(&samples);
    assert_eq!(summary.sm_clock_mhz, Some(1972.5));
    assert_eq!((summary.range_mhz, summary.power_w), (Some((1965.0, 1980.0)), Some(412.53)));
    assert_eq!(summary.driver.as_deref(), Some("580.159.04"));
    assert_eq!(Summary::of(&[]), Summary::default());
}

#[test]
fn the_peak_is_the_data_sheets() {
    let f32 = peak_flops(&h200(), fma_per_cycle(90, DType::F32)).unwrap() / 1e12;
    assert!((66.8..67.0).contains(&f32), "{f32}");
    // The data sheet's 989 is at 1830 MHz.
    let bf16 = peak_flops(&GpuInfo { max_clock_mhz: 1830.0, ..h200() }, fma_per_cycle(90, DType::BF16))
        .unwrap()
        / 1e12;
    assert!((988.0..990.0).contains(&bf16), "{bf16}");
    assert_eq!(fma_per_cycle(75, DType::F32), None);
}

#[test]
fn candidates_have_the_tiles_that_the_rule_says() {
    for c in CANDIDATES {
        let program = Program::from_bytes(c.schedule.program(Some(DType::F32)).unwrap()).unwrap();
        let kernel = tile_dsl::lower::lower(&program, tilewright::Variant::Exact).unwrap();
        let tiles: Vec<_> = kernel.grid[..2].iter().map(|axis| axis.tile as usize).collect();
        assert_eq!(tiles, c.tile[..2], "{}", c.schedule.name());
        assert!(
            kernel::SCHEDULES.iter().chain(kernel::BY_SIZE).any(|s| s.name() == c.schedule.name()),
            "{}",
            c.schedule.name()
        );
        // What `split_k` shares out is the grid's last axis.
        let parts = kernel.grid.get(2).map_or(Some(1), |axis| axis.extent.as_constant());
        assert_eq!(parts, Some(c.parts as i64), "{}", c.schedule.name());
        assert_eq!(c.atomic, !kernel.cleared.is_empty(), "{}", c.schedule.name());
        assert!(c.share > 0.0 && c.share < 1.0);
    }
}

/// The rule's choice on an H200 in f32.
fn pick(size: [usize; 3]) -> &'static str {
    by_size(size, DType::F32, Some(&h200()), false).name()
}

/// Area of the tile of a candidate.
fn area(name: &str) -> usize {
    let c = CANDIDATES.iter().find(|c| c.schedule.name() == name).unwrap();
    c.tile[0] * c.tile[1]
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
        CANDIDATES.iter().find(|c| c.schedule.name() == name).map(|c| (c.parts, c.atomic)).unwrap()
    };
    for size in [[1024; 3], [512; 3], [64, 4096, 4096], [128, 8192, 8192], [256, 256, 4096]] {
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

#[test]
fn a_prediction_names_the_busiest_resource() {
    let gpu = Gpu { multiprocessors: 100.0, clock_hz: 1e9, fma_lanes: 128.0, dram: 1e12 };
    let work = Work { ctas: 100.0, fma: 4e11, shared_wavefronts: 2e11, lines: 1e9, bytes: 1e10 };
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
    let p = predict(&gpu, &work, 0.9, 1e9);
    // 2·10¹¹ wavefronts on 100 multiprocessors at 1 GHz: two seconds.
    assert!(p.bound == "shared memory" && near(p.seconds, 2.0), "{p:?}");
    let p = predict(&gpu, &Work { shared_wavefronts: 0.0, ..work }, 0.8, 1e9);
    assert!(p.bound == "issue" && near(p.seconds, 1.25), "{p:?}");
    // One CTA more than multiprocessors: a second round with one CTA in it.
    let p = predict(&gpu, &Work { ctas: 101.0, ..work }, 0.9, 1e9);
    assert!(near(p.seconds, 2.0 * 200.0 / 101.0), "{p:?}");
    assert_eq!(predict(&gpu, &work, 0.9, 1e13).bound, "DRAM");
}

#[test]
fn work_grows_linearly_with_depth_and_ctas() {
    let at = |k: f64| Work {
        ctas: 4.0,
        fma: 10.0 * k,
        shared_wavefronts: 7.0 + k,
        lines: 3.0,
        bytes: 2.0 * k + 1.0,
    };
    assert_eq!(Work::at_depth((256, at(256.0)), (512, at(512.0)), 4096), at(4096.0));
    assert_eq!(
        at(1.0).times(2.0),
        Work { ctas: 8.0, fma: 20.0, shared_wavefronts: 16.0, lines: 6.0, bytes: 6.0 }
    );
}

#[test]
fn scattered_sectors_lie_in_lines_of_their_own() {
    assert_eq!(lines(1, 32, 128), 32.0, "each lane a row");
    assert_eq!(lines(1, 4, 128), 1.0, "a row of lanes");
    assert_eq!(lines(1, 1, 128), 1.0, "all lanes one element");
    assert_eq!(lines(1, 16, 512), 4.0, "16 bytes a lane");
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
    for (rule, atomic) in [(choose::NAME, false), (choose::ATOMIC, true)] {
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

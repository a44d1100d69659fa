//! What measurements are turned into: statistics, rates, clocks, peaks, predictions.

#[path = "support/h200.rs"]
mod h200;

use h200::h200;
use serde_json::{Map, Value};
use tile_bench::{
    Figures,
    figures::{HEADER, row},
    monitor::{Sample, Summary},
    peak::{fma_per_cycle, peak_flops},
    roofline::{Gpu, Work, lines, predict},
    stats::{median, paired_ratio, quantile},
    table::aligned,
};
use tile_dsl::dtype::DType;
use tile_runtime::GpuInfo;

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
fn a_prediction_names_the_busiest_resource() {
    let gpu = Gpu { multiprocessors: 100.0, clock_hz: 1e9, fma_lanes: 128.0, dram: 1e12 };
    let work = Work { ctas: 100.0, fma: 4e11, shared_wavefronts: 2e11, lines: 1e9, bytes: 1e10 };
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
    let p = predict(&gpu, &work, 4e11 / 0.9, 1e9);
    // 2·10¹¹ wavefronts on 100 multiprocessors at 1 GHz: two seconds.
    assert!(p.bound == "shared memory" && near(p.seconds, 2.0), "{p:?}");
    let p = predict(&gpu, &Work { shared_wavefronts: 0.0, ..work }, 4e11 / 0.8, 1e9);
    assert!(p.bound == "issue" && near(p.seconds, 1.25), "{p:?}");
    // One CTA more than multiprocessors: a second round with one CTA in it.
    let p = predict(&gpu, &Work { ctas: 101.0, ..work }, 4e11 / 0.9, 1e9);
    assert!(near(p.seconds, 2.0 * 200.0 / 101.0), "{p:?}");
    assert_eq!(predict(&gpu, &work, 4e11 / 0.9, 1e13).bound, "DRAM");
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

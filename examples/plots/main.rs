//! The plots of the book, from facts of this repository: a GPU's published rates, tiles, and recorded measurements.
//!
//! ```sh
//! cargo run --example plots -- waves docs/book/src/pictures/waves.svg
//! cargo run --example plots -- roofline docs/book/src/pictures/roofline.svg
//! cargo run --example plots -- sizes docs/book/src/pictures/sizes.svg
//! cargo run --example plots -- sweep docs/book/src/pictures/sweep.svg
//! ```

#[path = "../matmul/kernel.rs"]
#[allow(dead_code)] // the ladders alone
mod kernel;
mod sweep;

use clap::{Parser, Subcommand};
use kernel::SCHEDULES;
use plotters::{coord::CoordTranslate, prelude::*};
use serde_json::Value;
use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};
use tile_bench::{peak::fma_per_cycle, roofline::Gpu};
use tile_dsl::program::Program;
use tilewright::{AnySchedule, DType, Variant};

/// Draws a plot of the book.
#[derive(Parser)]
#[command(name = "plots", version)]
struct Options {
    #[command(subcommand)]
    plot: Plot,
}

#[derive(Subcommand)]
enum Plot {
    /// The useful share of a GPU's work by the size of a square product: tiles and waves are whole
    Waves {
        /// Where to write the plot
        svg: PathBuf,
    },
    /// Measured rates at 4096×4096×4096 by FLOP for each byte from L2, below the roofs of the GPU
    Roofline {
        /// Where to write the plot
        svg: PathBuf,
    },
    /// Measured rates of square products in f32 by their size: two schedules and cuBLAS
    Sizes {
        /// Where to write the plot
        svg: PathBuf,
    },
    /// Measured rates of square products in f32 by their size: a CPU, schedules of a GPU and cuBLAS
    Sweep {
        /// Where to write the plot
        svg: PathBuf,
        /// What `matmul --sweep` printed [default: h100-sweep.csv in docs/measurements]
        #[arg(long, value_name = "FILE.csv")]
        measurements: Option<PathBuf>,
    },
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Two lines that differ in hue and in brightness, for readers who see colours differently, and for print.
const DARK: RGBColor = RGBColor(0, 68, 136);
const LIGHT: RGBColor = RGBColor(221, 120, 0);
const GREY: RGBColor = RGBColor(110, 110, 110);
const MESH: RGBColor = RGBColor(225, 225, 225);

/// Multiprocessor architecture of the GPU that [`Gpu::H200`] describes.
const SM: u32 = 90;
/// Side of the product whose measurements are drawn.
const SIDE: usize = 4096;

fn main() -> ExitCode {
    let drawn = match Options::parse().plot {
        Plot::Waves { svg } => waves(&svg),
        Plot::Roofline { svg } => roofline(&svg),
        Plot::Sizes { svg } => sizes(&svg),
        Plot::Sweep { svg, measurements } => {
            sweep::draw(&measurements.unwrap_or_else(|| measured("h100-sweep.csv")), &svg)
        }
    };
    match drawn {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The useful share: elements of C over those of all tiles of all waves.
fn share(side: usize, tile: [usize; 2], multiprocessors: usize) -> f64 {
    let tiles = side.div_ceil(tile[0]) * side.div_ceil(tile[1]);
    let computed = tiles.next_multiple_of(multiprocessors) * tile[0] * tile[1];
    (side * side) as f64 / computed as f64
}

fn waves(svg: &Path) -> Result<()> {
    let multiprocessors = Gpu::H200.multiprocessors as usize;
    let root = SVGBackend::new(svg, (860, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let caption = format!("Useful share of {multiprocessors} multiprocessors, one tile each at a time");
    let mut chart = ChartBuilder::on(&root)
        .caption(caption, ("sans-serif", 18))
        .margin(12)
        .margin_right(28)
        .x_label_area_size(42)
        .y_label_area_size(60)
        .build_cartesian_2d(4000usize..4400, 0.7..1.0)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(MESH)
        .label_style(("sans-serif", 14))
        .x_desc("rows and columns of C")
        .y_desc("useful share")
        .draw()?;
    for (tile, colour, width) in [([128, 256], DARK, 3), ([192, 192], LIGHT, 2)] {
        let points = (4000..=4400).map(|side| (side, share(side, tile, multiprocessors)));
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(width)))?
            .label(format!("tiles of {}×{}", tile[0], tile[1]))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(width)));
    }
    key(&mut chart, SeriesLabelPosition::LowerLeft)?;
    root.present()?;
    Ok(())
}

/// The names of the lines of a chart, in a corner of it.
fn key<'a, C: CoordTranslate>(
    chart: &mut ChartContext<'a, SVGBackend<'a>, C>,
    position: SeriesLabelPosition,
) -> Result<()> {
    chart
        .configure_series_labels()
        .position(position)
        .background_style(WHITE)
        .border_style(GREY)
        .label_font(("sans-serif", 14))
        .draw()?;
    Ok(())
}

/// A schedule's point.
struct Point {
    schedule: &'static str,
    /// FLOP for each byte that CTAs load and store, each tile once.
    intensity: f64,
    /// FLOP a second.
    rate: f64,
}

/// The path of a file of measurements.
fn measured(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/measurements").join(file)
}

/// The lines of a file of measurements.
fn read(file: &str) -> Result<Vec<Value>> {
    let path = measured(file);
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(text.lines().map(serde_json::from_str).collect::<std::result::Result<_, _>>()?)
}

/// Whether a line is of a square product of a type, and how long its side is.
fn side(line: &Value, dtype: DType) -> Option<u64> {
    let [m, n, k] = ["m", "n", "k"].map(|axis| line[axis].as_u64());
    m.filter(|_| m == n && n == k && line["dtype"] == dtype.name())
}

/// The measured rungs of an element type, in the order of the ladder.
fn points(file: &str, dtype: DType) -> Result<Vec<Point>> {
    let lines = read(file)?;
    let of = |schedule: &&'static dyn AnySchedule| -> Option<Result<Point>> {
        let line = lines
            .iter()
            .find(|line| side(line, dtype) == Some(SIDE as u64) && line["schedule"] == schedule.name())?;
        let rate = 1e12 * line["tflops"].as_f64()?;
        let point = |intensity| Point { schedule: schedule.name(), intensity, rate };
        Some(intensity(*schedule, dtype).transpose()?.map(point))
    };
    SCHEDULES.iter().filter_map(of).collect()
}

/// FLOP for each byte between L2 and the multiprocessors: a CTA loads its tiles of A and B once, and stores one of C.
/// `None` for clusters, whose CTAs share what they load.
fn intensity(schedule: &dyn AnySchedule, dtype: DType) -> Result<Option<f64>> {
    let program = Program::from_bytes(schedule.program(Some(dtype)).ok_or("the type is not admitted")?)?;
    let kernel = tile_dsl::lower::lower(&program, Variant::Exact).map_err(|e| e.to_string())?;
    let tiles: Vec<f64> = kernel.grid.iter().map(|axis| f64::from(axis.tile)).collect();
    let [rows, columns] = tiles[..] else { return Ok(None) };
    let elements = (rows + columns) * SIDE as f64 + rows * columns;
    Ok(Some(2.0 * rows * columns * SIDE as f64 / (elements * f64::from(dtype.bytes()))))
}

fn roofline(svg: &Path) -> Result<()> {
    let gpu = Gpu::H200;
    let cycles = gpu.multiprocessors * gpu.clock_hz;
    let peak = |dtype| fma_per_cycle(SM, dtype).map(|fma| 2.0 * cycles * f64::from(fma));
    let (f32_peak, bf16_peak) = (peak(DType::F32).ok_or("no rate")?, peak(DType::BF16).ok_or("no rate")?);
    // 64 bytes a cycle and multiprocessor: `tile_bench::roofline`.
    let l2 = 64.0 * cycles;
    let root = SVGBackend::new(svg, (860, 520)).into_drawing_area();
    root.fill(&WHITE)?;
    let (least, most) = (4.0, 400.0);
    let mut chart = ChartBuilder::on(&root)
        .caption("Rates on an H200 at 4096×4096×4096, below its roofs", ("sans-serif", 18))
        .margin(12)
        .margin_right(28)
        .x_label_area_size(42)
        .y_label_area_size(60)
        .build_cartesian_2d((least..most).log_scale(), (0.3..1500.0).log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(MESH)
        .label_style(("sans-serif", 14))
        .x_desc("FLOP for each byte from L2, each tile once a CTA")
        .y_desc("TFLOP/s")
        .draw()?;
    for (slope, name) in [(l2, "L2"), (gpu.dram, "DRAM, if L2 kept nothing")] {
        let end = (bf16_peak / slope).min(most);
        let line = [least, end].map(|x| (x, slope * x / 1e12));
        chart.draw_series(LineSeries::new(line, GREY.stroke_width(2)))?;
        let at = (least * 1.1, slope * least * 1.1 / 1e12);
        chart.draw_series([EmptyElement::at(at) + Text::new(name, (4, 8), ("sans-serif", 13))])?;
    }
    for (rate, colour, name) in [
        (f32_peak, DARK, "f32: roof of the CUDA cores, measured rates (dots)"),
        (bf16_peak, LIGHT, "bf16: roof of the tensor cores, measured rates (triangles)"),
    ] {
        let line = [rate / l2, most].map(|x| (x, rate / 1e12));
        chart
            .draw_series(LineSeries::new(line, colour.stroke_width(3)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(3)));
    }
    let f32_points = points("h200-ladder.jsonl", DType::F32)?;
    let bf16_points = points("h200-hopper.jsonl", DType::BF16)?;
    let named = [
        "naive",
        "coalesced",
        "shared",
        "blocktile_1d",
        "blocktile_2d",
        "best",
        "tma_wgmma",
        "mma",
        "wgmma_best",
    ];
    chart.draw_series(
        f32_points.iter().map(|p| Circle::new((p.intensity, p.rate / 1e12), 5, DARK.filled())),
    )?;
    chart.draw_series(
        bf16_points.iter().map(|p| TriangleMarker::new((p.intensity, p.rate / 1e12), 7, LIGHT.filled())),
    )?;
    let labelled = f32_points.iter().chain(&bf16_points).filter(|p| named.contains(&p.schedule));
    chart.draw_series(labelled.map(|p| {
        EmptyElement::at((p.intensity, p.rate / 1e12)) + Text::new(p.schedule, (9, -6), ("sans-serif", 13))
    }))?;
    key(&mut chart, SeriesLabelPosition::LowerRight)?;
    root.present()?;
    Ok(())
}

/// Rates by the side of a square product, as (side, TFLOP/s).
type Rates = Vec<(f64, f64)>;

fn sizes(svg: &Path) -> Result<()> {
    let lines = read("h200-ladder.jsonl")?;
    let of = |schedule: &str, rate: &str| -> Rates {
        let lines = lines.iter().filter(|line| line["schedule"] == schedule);
        let rates = lines.filter_map(|line| Some((side(line, DType::F32)? as f64, line[rate].as_f64()?)));
        let mut rates: Rates = rates.collect();
        rates.sort_by(|a, b| a.0.total_cmp(&b.0));
        rates
    };
    let root = SVGBackend::new(svg, (860, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption("Square products in f32 on an H200", ("sans-serif", 18))
        .margin(12)
        .margin_right(28)
        .x_label_area_size(42)
        .y_label_area_size(60)
        .build_cartesian_2d((400.0..10_000.0).log_scale().base(2.0), 0.0..60.0)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(MESH)
        .label_style(("sans-serif", 14))
        .x_label_formatter(&|side| format!("{side:.0}"))
        .x_desc("rows, columns and depth")
        .y_desc("TFLOP/s")
        .draw()?;
    let series = [
        ("best", "tflops", DARK, "best"),
        ("small_split4", "tflops", LIGHT, "small_split4"),
        ("best", "cublas_tflops", GREY, "cuBLAS"),
    ];
    for (schedule, rate, colour, name) in series {
        let rates = of(schedule, rate);
        chart.draw_series(rates.iter().map(|rate| Circle::new(*rate, 4, colour.filled())))?;
        chart
            .draw_series(LineSeries::new(rates, colour.stroke_width(2)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    key(&mut chart, SeriesLabelPosition::LowerRight)?;
    root.present()?;
    Ok(())
}

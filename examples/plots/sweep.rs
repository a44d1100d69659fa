//! A product at growing sizes, on the CPU and under schedules of a GPU: what `matmul --sweep` printed.

use crate::{MESH, Result, key};
use plotters::prelude::*;
use std::{collections::BTreeMap, fs, path::Path};

/// Colours that readers who see colours differently can tell apart (M. Okabe and K. Ito, "Color universal design", 2008).
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 0, 0),
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
];

/// The corners of marks, around their point: neighbours differ in print without colours, too.
const MARKS: [&[(i32, i32)]; 4] = [
    &[(-4, -4), (4, -4), (4, 4), (-4, 4)],
    &[(0, -6), (6, 4), (-6, 4)],
    &[(0, -6), (6, 0), (0, 6), (-6, 0)],
    &[(0, 6), (6, -4), (-6, -4)],
];

/// The line of a contender.
struct Contender {
    name: String,
    /// Side of the product and GFLOP/s, by the side.
    rates: Vec<(f64, f64)>,
}

/// What was swept.
struct Sweep {
    /// The GPU and the CPU.
    machine: Vec<String>,
    /// The fastest at the largest size first.
    contenders: Vec<Contender>,
}

/// The side of a square product, such as `256x256x256`.
fn side(size: &str) -> Option<f64> {
    let extents: Vec<f64> = size.split('x').map(|n| n.parse().ok()).collect::<Option<_>>()?;
    extents.first().copied().filter(|side| extents.len() == 3 && extents.iter().all(|n| n == side))
}

/// Reads the CSV; products that are not square are left out.
fn read(text: &str) -> Result<Sweep> {
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let column = |name: &str| {
        header.iter().position(|column| *column == name).ok_or_else(|| format!("there is no column `{name}`"))
    };
    let names = ["size", "contender", "gflops", "device", "cpu"];
    let columns = names.into_iter().map(column).collect::<std::result::Result<Vec<_>, _>>()?;
    let (mut machine, mut rates) = (Vec::new(), BTreeMap::<&str, Vec<(f64, f64)>>::new());
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let cells = columns.iter().map(|n| cells.get(*n).copied());
        let cells: Option<Vec<&str>> = cells.collect();
        let Some([size, contender, rate, hardware @ ..]) = cells.as_deref() else {
            return Err(format!("a line lacks cells: {line}").into());
        };
        let Some(side) = side(size) else { continue };
        rates.entry(contender).or_default().push((side, rate.parse()?));
        for name in hardware.iter().filter(|name| !name.is_empty()) {
            if !machine.iter().any(|known| known == name) {
                machine.push((*name).to_string());
            }
        }
    }
    let mut contenders: Vec<Contender> = rates
        .into_iter()
        .map(|(name, mut rates)| {
            rates.sort_by(|a, b| a.0.total_cmp(&b.0));
            Contender { name: name.into(), rates }
        })
        .collect();
    let last = |contender: &Contender| contender.rates.last().map_or(0.0, |rate| rate.1);
    contenders.sort_by(|a, b| last(b).total_cmp(&last(a)));
    Ok(Sweep { machine, contenders })
}

/// Draws it: both axes are logarithmic.
///
/// # Errors
/// When there is no such file, or it has other columns or no square product.
pub fn draw(measurements: &Path, svg: &Path) -> Result<()> {
    let text = fs::read_to_string(measurements).map_err(|e| format!("{}: {e}", measurements.display()))?;
    let Sweep { machine, contenders } = read(&text)?;
    let of = |pick: fn(&(f64, f64)) -> f64| contenders.iter().flat_map(|c| &c.rates).map(pick);
    let (least, most) = (of(|r| r.1).fold(f64::INFINITY, f64::min), of(|r| r.1).fold(0.0, f64::max));
    if most <= 0.0 {
        return Err(format!("{} has no square product", measurements.display()).into());
    }
    let sides = of(|r| r.0).fold(f64::INFINITY, f64::min) / 1.2..of(|r| r.0).fold(0.0, f64::max) * 1.2;
    // Whole decades, and one more for the names below the lines.
    let rates = 10f64.powf((least / 10.0).log10().floor())..10f64.powf(most.log10().ceil());
    let root = SVGBackend::new(svg, (860, 520)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(format!("Square products in f32: {}", machine.join(", ")), ("sans-serif", 18))
        .margin(12)
        .margin_right(28)
        .x_label_area_size(42)
        .y_label_area_size(76)
        .build_cartesian_2d(sides.log_scale().base(2.0), rates.log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(MESH)
        .label_style(("sans-serif", 14))
        .x_label_formatter(&|side| format!("{side:.0}"))
        .y_label_formatter(&|rate| format!("{rate:.0}"))
        .x_desc("rows, columns and depth")
        .y_desc("GFLOP/s")
        .draw()?;
    for (n, Contender { name, rates }) in contenders.into_iter().enumerate() {
        let colour = COLOURS[n % COLOURS.len()];
        chart.draw_series(LineSeries::new(rates.iter().copied(), colour.stroke_width(2)))?;
        let mark = move |right: i32| {
            let corners: Vec<_> = MARKS[n % MARKS.len()].iter().map(|(x, y)| (x + right, *y)).collect();
            Polygon::new(corners, colour.filled())
        };
        let sample = move |at| {
            let line = PathElement::new([(0, 0), (22, 0)], colour.stroke_width(2));
            EmptyElement::at(at) + line + mark(11)
        };
        let points = rates.into_iter().map(|at| EmptyElement::at(at) + mark(0));
        chart.draw_series(points)?.label(name).legend(sample);
    }
    key(&mut chart, SeriesLabelPosition::LowerRight)?;
    root.present()?;
    Ok(())
}

//! Ladders as an SVG, one below the other: a bar a schedule, a mark for its prediction, a line for cuBLAS.

use plotters::{coord::Shift, prelude::*};
use std::{error::Error, path::Path};

const WIDTH: u32 = 960;
const ROW: u32 = 46;
const MEASURED: RGBColor = RGBColor(52, 110, 180);
const PREDICTED: RGBColor = RGBColor(214, 120, 30);
const REFERENCE: RGBColor = RGBColor(110, 110, 110);

/// A schedule's bar; rates in TFLOP/s.
pub struct Bar {
    pub schedule: String,
    pub measured: f64,
    pub predicted: Option<f64>,
}

/// A ladder, first rung on top.
pub struct Panel {
    pub title: String,
    /// Element type.
    pub dtype: String,
    pub bars: Vec<Bar>,
    pub cublas: Option<f64>,
}

impl Panel {
    fn height(&self) -> u32 {
        110 + ROW * self.bars.len() as u32
    }
}

/// Draws ladders.
pub fn draw(path: &Path, panels: &[Panel]) -> Result<(), Box<dyn Error>> {
    let height = panels.iter().map(Panel::height).sum();
    let root = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut rest = root.clone();
    for panel in panels {
        let (area, below) = rest.split_vertically(panel.height());
        draw_panel(&area, panel)?;
        rest = below;
    }
    root.present()?;
    Ok(())
}

fn draw_panel(root: &DrawingArea<SVGBackend<'_>, Shift>, panel: &Panel) -> Result<(), Box<dyn Error>> {
    let Panel { title, bars, cublas, .. } = panel;
    let rates = bars.iter().flat_map(|r| [Some(r.measured), r.predicted]).chain([*cublas]);
    let most = rates.flatten().fold(0.0, f64::max) * 1.12;
    let mut chart = ChartBuilder::on(root)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .margin_right(24)
        .x_label_area_size(42)
        .y_label_area_size(130)
        .build_cartesian_2d(0.0..most, (0..bars.len() - 1).into_segmented())?;
    let name = |segment: &SegmentValue<usize>| match segment {
        SegmentValue::CenterOf(i) => {
            bars.len().checked_sub(i + 1).map_or(String::new(), |i| bars[i].schedule.clone())
        }
        _ => String::new(),
    };
    chart
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(WHITE)
        .bold_line_style(RGBColor(225, 225, 225))
        .y_labels(bars.len() + 1)
        .y_label_formatter(&name)
        .label_style(("sans-serif", 14))
        .x_desc(format!("TFLOP/s, {}", panel.dtype))
        .draw()?;

    // The first rung on top: rows count upwards.
    let row = |i: usize| bars.len() - 1 - i;
    let above = |row| if row + 1 < bars.len() { SegmentValue::Exact(row + 1) } else { SegmentValue::Last };
    chart
        .draw_series(bars.iter().enumerate().map(|(i, r)| {
            let (low, high) = (SegmentValue::Exact(row(i)), above(row(i)));
            let mut bar = Rectangle::new([(0.0, low), (r.measured, high)], MEASURED.filled());
            bar.set_margin(9, 9, 0, 0);
            bar
        }))?
        .label("measured")
        .legend(|(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], MEASURED.filled()));
    let predicted = bars.iter().enumerate().filter_map(|(i, r)| Some((i, r.predicted?)));
    let marks: Vec<_> = predicted
        .map(|(i, rate)| {
            let at = (rate, SegmentValue::CenterOf(row(i)));
            EmptyElement::at(at) + Rectangle::new([(-2, -16), (2, 16)], PREDICTED.filled())
        })
        .collect();
    if !marks.is_empty() {
        chart
            .draw_series(marks)?
            .label("predicted from the simulator's counts")
            .legend(|(x, y)| Rectangle::new([(x + 5, y - 7), (x + 9, y + 7)], PREDICTED.filled()));
    }
    chart.draw_series(bars.iter().enumerate().map(|(i, r)| {
        let at = (r.measured, SegmentValue::CenterOf(row(i)));
        EmptyElement::at(at) + Text::new(format!("{:.1}", r.measured), (8, -7), ("sans-serif", 14))
    }))?;
    if let Some(cublas) = *cublas {
        let ends = [SegmentValue::Exact(0), SegmentValue::Last];
        chart
            .draw_series(DashedLineSeries::new(ends.map(|y| (cublas, y)), 6, 4, REFERENCE.stroke_width(2)))?
            .label(format!("cuBLAS {cublas:.1}"))
            .legend(|(x, y)| PathElement::new([(x, y), (x + 14, y)], REFERENCE.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE)
        .border_style(REFERENCE)
        .label_font(("sans-serif", 13))
        .draw()?;
    Ok(())
}

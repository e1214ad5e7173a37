//! Plots as SVG.

use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde_json::{Value, json};

const SIZE: (u32, u32) = (980, 440);
/// The width of the names beside the lines.
const LEGEND: u32 = 240;
/// The backend writes letters a fifth smaller than it is told.
const CAPTION: (&str, u32) = ("sans-serif", 21);
const SMALL: (&str, u32) = ("sans-serif", 16);
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 90, 181),
    RGBColor(220, 50, 32),
    RGBColor(0, 128, 96),
    RGBColor(230, 150, 0),
    RGBColor(130, 60, 160),
    RGBColor(90, 90, 90),
    RGBColor(0, 160, 200),
    RGBColor(150, 100, 40),
];

/// One picture.
#[derive(Clone, Debug)]
pub struct Plot {
    /// The end of its file's stem.
    pub name: &'static str,
    /// What it shows, with units.
    pub title: String,
    pub x: Axis,
    pub kind: Kind,
}

/// What is drawn.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A line for each name.
    Lines { y: Axis, lines: Vec<(String, Vec<(f64, f64)>)> },
    /// A bar to the right for each name.
    Bars(Vec<(String, f64)>),
}

/// How an axis is named and divided.
#[derive(Clone, Debug)]
pub struct Axis {
    pub label: String,
    /// In powers of ten; what is not positive is left out.
    pub log: bool,
}

impl Axis {
    pub fn linear(label: &str) -> Self {
        Self { label: label.to_owned(), log: false }
    }

    pub fn log(label: &str) -> Self {
        Self { label: label.to_owned(), log: true }
    }

    /// A value's place on it.
    fn place(&self, value: f64) -> Option<f64> {
        if self.log { (value > 0.0).then(|| value.log10()) } else { Some(value) }
    }

    fn shown(&self, place: f64) -> String {
        let value = if self.log { 10_f64.powf(place) } else { place };
        match value.abs() {
            v if v >= 1_000_000.0 => format!("{}M", round(value / 1_000_000.0)),
            v if v >= 1_000.0 => format!("{}k", round(value / 1_000.0)),
            _ => round(value),
        }
    }

    /// From where to where; whole powers of ten, or from zero.
    fn range(&self, places: impl Iterator<Item = f64>) -> (f64, f64) {
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for place in places {
            (least, most) = (least.min(place), most.max(place));
        }
        if !least.is_finite() {
            return (0.0, 1.0);
        }
        if self.log {
            (least.floor(), most.ceil().max(least.floor() + 1.0))
        } else {
            (least.min(0.0), most.max(1e-9) * 1.05)
        }
    }

    /// How many marks: one for each power of ten.
    fn marks(&self, (from, to): (f64, f64)) -> usize {
        if self.log { (to - from) as usize + 1 } else { 8 }
    }
}

fn round(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Plot {
    /// The figures behind it, as a line.
    pub fn line(&self, part: &str) -> Value {
        let figures = match &self.kind {
            Kind::Lines { y, lines } => json!({"y": y.label, "lines": lines}),
            Kind::Bars(bars) => json!({ "bars": bars }),
        };
        json!({"kind": "plot", "part": part, "name": self.name, "title": self.title, "x": self.x.label, "of": figures})
    }
}

/// Draws it into a file.
///
/// # Panics
/// When the file cannot be written.
pub fn draw(plot: &Plot, path: &Path) {
    let folder = path.parent().expect("a file in a folder");
    std::fs::create_dir_all(folder).expect("the folder of the plots can be made");
    let mut text = String::new();
    let drawn = match &plot.kind {
        Kind::Lines { y, lines } => draw_lines(plot, y, lines, &mut text),
        Kind::Bars(bars) => draw_bars(plot, bars, &mut text),
    };
    drawn.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    // No white space at the ends of its lines, and a break at the end of the last.
    let tidy: String = text.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    std::fs::write(path, tidy).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

fn draw_lines(plot: &Plot, y: &Axis, lines: &[(String, Vec<(f64, f64)>)], text: &mut String) -> Drawn {
    let place = |(at, value): &(f64, f64)| Some((plot.x.place(*at)?, y.place(*value)?));
    let placed: Vec<Vec<(f64, f64)>> =
        lines.iter().map(|(_, points)| points.iter().filter_map(place).collect()).collect();
    let (xs, ys) = (plot.x.range(placed.iter().flatten().map(|p| p.0)), y.range(placed.iter().flatten().map(|p| p.1)));
    let whole = SVGBackend::with_string(text, SIZE).into_drawing_area();
    whole.fill(&WHITE)?;
    let (area, legend) = whole.split_horizontally(SIZE.0 - LEGEND);
    let mut chart = ChartBuilder::on(&area)
        .caption(&plot.title, CAPTION)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(xs.0..xs.1, ys.0..ys.1)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .label_style(SMALL)
        .x_labels(plot.x.marks(xs))
        .y_labels(y.marks(ys))
        .x_label_formatter(&|place| plot.x.shown(*place))
        .y_label_formatter(&|place| y.shown(*place))
        .x_desc(&plot.x.label)
        .y_desc(&y.label)
        .draw()?;
    for (at, ((name, _), points)) in lines.iter().zip(&placed).enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        chart.draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?;
        if points.len() <= 12 {
            chart.draw_series(points.iter().map(|point| Circle::new(*point, 3, colour.filled())))?;
        }
        let y = 52 + 24 * i32::try_from(at)?;
        legend.draw(&PathElement::new([(0, y), (22, y)], colour.stroke_width(3)))?;
        legend.draw_text(name, &beside(HPos::Left), (30, y))?;
    }
    whole.present()?;
    Ok(())
}

/// Small letters that begin or end there, at half their height.
fn beside(side: HPos) -> TextStyle<'static> {
    TextStyle::from(SMALL).pos(Pos::new(side, VPos::Center))
}

fn draw_bars(plot: &Plot, bars: &[(String, f64)], text: &mut String) -> Drawn {
    let height = 90 + 30 * u32::try_from(bars.len())?;
    let placed: Vec<f64> = bars.iter().filter_map(|(_, value)| plot.x.place(*value)).collect();
    let (from, to) = plot.x.range(placed.iter().copied());
    // Room for the value behind the longest bar.
    let to = to + (to - from) * 0.08;
    let area = SVGBackend::with_string(text, (SIZE.0, height)).into_drawing_area();
    area.fill(&WHITE)?;
    let rows = bars.len() as f64;
    let mut chart = ChartBuilder::on(&area)
        .caption(&plot.title, CAPTION)
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(190)
        .build_cartesian_2d(from..to, 0.0..rows)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .label_style(SMALL)
        .disable_y_mesh()
        .disable_y_axis()
        .x_labels(plot.x.marks((from, to)))
        .x_label_formatter(&|place| plot.x.shown(*place))
        .x_desc(&plot.x.label)
        .draw()?;
    for (at, (name, value)) in bars.iter().enumerate() {
        // The first one is on top.
        let middle = rows - at as f64 - 0.5;
        let end = plot.x.place(*value).unwrap_or(from);
        let colour = COLOURS[usize::from(!name.starts_with("Baton")) * 5];
        chart.draw_series([Rectangle::new([(from, middle - 0.33), (end, middle + 0.33)], colour.filled())])?;
        let (x, y) = chart.backend_coord(&(end, middle));
        area.draw_text(&round_short(*value), &beside(HPos::Left), (x + 6, y))?;
        let (x, _) = chart.backend_coord(&(from, middle));
        area.draw_text(name, &beside(HPos::Right), (x - 8, y))?;
    }
    area.present()?;
    Ok(())
}

fn round_short(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { round((value * 100.0).round() / 100.0) }
}

//! The pictures: loss and accuracy by step, and the experts' load before and after.

use std::error::Error;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use plotters::chart::{ChartContext, SeriesLabelPosition};
use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::coord::{CoordTranslate, Shift};
use plotters::prelude::*;

use crate::report::percent;
use crate::{EXPERTS, LEAST_ACCURACY, Run};

type Drawn<T = ()> = Result<T, Box<dyn Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b, C> = ChartContext<'a, SVGBackend<'b>, C>;

const FONT: &str = "sans-serif";
const DARK: RGBColor = RGBColor(31, 78, 121);
const LIGHT: RGBColor = RGBColor(160, 196, 226);
const ACCENT: RGBColor = RGBColor(214, 104, 27);

/// Loss above, held-out accuracy below.
pub(crate) fn curves(folder: &Path, sharded: &Run, single: &Run) -> Drawn<PathBuf> {
    picture(folder.join("moe_train_loss.svg"), (860, 760), |area| {
        let (above, below) = area.split_vertically(430);
        losses(&above, sharded, single)?;
        accuracy(&below, sharded)
    })
}

/// Tokens of each expert in the first and in the last step.
pub(crate) fn load(folder: &Path, run: &Run) -> Drawn<PathBuf> {
    picture(folder.join("moe_train_load.svg"), (860, 480), |area| loads(area, run))
}

fn picture(path: PathBuf, size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> Drawn) -> Drawn<PathBuf> {
    let area = SVGBackend::new(&path, size).into_drawing_area();
    area.fill(&WHITE)?;
    draw(&area)?;
    area.present()?;
    drop(area);
    Ok(path)
}

/// The thin line of one rank runs inside the broad one of all ranks where their losses are the same.
fn losses(area: &Area<'_>, sharded: &Run, single: &Run) -> Drawn {
    let losses = &sharded.history.loss;
    let lowest = losses.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = losses.iter().copied().fold(lowest, f64::max);
    let (bottom, top) = (lowest / 1.3, highest * 1.3);
    let scale = (bottom..top).log_scale().with_key_points(ticks(bottom, top));
    let mut chart =
        framed(area, "Training loss of the mixture of experts").build_cartesian_2d(0..losses.len(), scale)?;
    axes(&mut chart, "training step", "loss (nats, log scale)", 2)?;
    for (run, style) in [(sharded, LIGHT.stroke_width(9)), (single, DARK.stroke_width(2))] {
        let points = run.history.loss.iter().copied().enumerate();
        let series = chart.draw_series(LineSeries::new(points, style))?;
        series.label(format!("mesh {}", run.shape)).legend(stroke(style));
    }
    legend(&mut chart, SeriesLabelPosition::UpperRight)
}

/// 1, 2 and 5 times the powers of ten, as far as they lie in a range.
fn ticks(lowest: f64, highest: f64) -> Vec<f64> {
    let powers = lowest.log10().floor() as i32..=highest.log10().floor() as i32;
    let ticks = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|times| times * 10f64.powi(power)));
    ticks.filter(|tick| (lowest..=highest).contains(tick)).collect()
}

fn accuracy(area: &Area<'_>, run: &Run) -> Drawn {
    let steps = run.history.loss.len();
    let mut chart = framed(area, "Accuracy on the held-out fifth").build_cartesian_2d(0..steps, 0.0..104.0)?;
    axes(&mut chart, "training step", "digits recognised (%)", 0)?;
    let least = percent(LEAST_ACCURACY);
    let required = ACCENT.stroke_width(2);
    let line = DashedLineSeries::new([(0, least), (steps, least)], 6, 4, required);
    chart.draw_series(line)?.label(format!("required: {least:.0} %")).legend(stroke(required));
    let reached = DARK.stroke_width(2);
    let points = run.history.accuracy.iter().map(|&(step, share)| (step, percent(share)));
    let line = LineSeries::new(points, reached).point_size(3);
    chart.draw_series(line)?.label(format!("mesh {}", run.shape)).legend(stroke(reached));
    legend(&mut chart, SeriesLabelPosition::LowerRight)
}

fn loads(area: &Area<'_>, run: &Run) -> Drawn {
    let loads = &run.history.load;
    let most = f64::from(loads.iter().flatten().copied().max().unwrap_or(1));
    let all: u32 = loads.first().map_or(0, |load| load.iter().sum());
    let even = f64::from(all) / EXPERTS as f64;
    let right = EXPERTS as f64 - 0.5;
    let mut chart = framed(area, &format!("Tokens sent to each expert, mesh {}", run.shape))
        .build_cartesian_2d(-0.5..right, 0.0..most * 1.08)?;
    axes(&mut chart, "expert", "tokens per step", 0)?;
    bars(&mut chart, loads.first(), -0.36, LIGHT, "first step")?;
    bars(&mut chart, loads.last(), 0.0, DARK, &format!("step {}", loads.len()))?;
    let style = ACCENT.stroke_width(2);
    let line = DashedLineSeries::new([(-0.5, even), (right, even)], 6, 4, style);
    chart.draw_series(line)?.label(format!("even load: {even:.0}")).legend(stroke(style));
    legend(&mut chart, SeriesLabelPosition::UpperRight)
}

/// One bar for each expert, to the right of its position plus `offset`.
fn bars(
    chart: &mut Chart<'_, '_, Cartesian2d<RangedCoordf64, RangedCoordf64>>,
    load: Option<&Vec<u32>>,
    offset: f64,
    colour: RGBColor,
    name: &str,
) -> Drawn {
    const WIDTH: f64 = 0.36;
    let bar = |(expert, &tokens): (usize, &u32)| {
        let left = expert as f64 + offset;
        Rectangle::new([(left, 0.0), (left + WIDTH, f64::from(tokens))], colour.filled())
    };
    let bars = load.into_iter().flatten().enumerate().map(bar);
    let swatch = move |(x, y)| Rectangle::new([(x, y - 6), (x + 24, y + 6)], colour.filled());
    chart.draw_series(bars)?.label(name).legend(swatch);
    Ok(())
}

/// A chart with a title and room for the axes.
fn framed<'a, 'b>(area: &'a Area<'b>, title: &str) -> ChartBuilder<'a, 'b, SVGBackend<'b>> {
    let mut chart = ChartBuilder::on(area);
    chart.caption(title, (FONT, 22)).margin(14).margin_right(28).x_label_area_size(46).y_label_area_size(68);
    chart
}

/// Axes with descriptions, and horizontal lines at the labels of the second.
fn axes<X, Y>(chart: &mut Chart<'_, '_, Cartesian2d<X, Y>>, x: &str, y: &str, decimals: usize) -> Drawn
where
    X: Ranged<ValueType: Display> + ValueFormatter<X::ValueType>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .x_desc(x)
        .y_desc(y)
        .axis_desc_style((FONT, 16))
        .label_style((FONT, 14))
        .x_label_formatter(&|value| format!("{value:.0}"))
        .y_label_formatter(&|value| format!("{value:.decimals$}"))
        .draw()?;
    Ok(())
}

fn legend<'a, 'b: 'a, C: CoordTranslate>(chart: &mut Chart<'a, 'b, C>, position: SeriesLabelPosition) -> Drawn {
    chart
        .configure_series_labels()
        .position(position)
        .legend_area_size(34)
        .margin(12)
        .label_font((FONT, 15))
        .background_style(WHITE)
        .border_style(BLACK.mix(0.25))
        .draw()?;
    Ok(())
}

/// A line in a legend.
fn stroke(style: ShapeStyle) -> impl Fn((i32, i32)) -> PathElement<(i32, i32)> {
    move |(x, y)| PathElement::new([(x, y), (x + 24, y)], style)
}

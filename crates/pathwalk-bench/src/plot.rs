//! The figures of a benchmark as a drawing: for each case and number of threads a group of bars.
//!
//! The scale is logarithmic, so that equal ratios are equally far apart.

use std::fs;
use std::path::Path;

use plotters::prelude::*;

use crate::Error;
use crate::run::Outcome;

/// The height of the drawing, and the width of a bar.
const HEIGHT: u32 = 480;
const BAR: u32 = 14;

/// Draws a benchmark into `DIR/NAME.svg`; nothing where nothing was timed.
pub(crate) fn draw(outcome: &Outcome, dir: &Path) -> Result<(), Error> {
    let path = dir.join(format!("{}.svg", outcome.name));
    let failed = |cause: String| Error::doing(format_args!("drawing {}", path.display()), cause);
    if outcome.cells.is_empty() {
        return Ok(());
    }
    fs::create_dir_all(dir).map_err(|cause| failed(cause.to_string()))?;
    bars(outcome, &path).map_err(|cause| failed(cause.to_string()))
}

fn bars(outcome: &Outcome, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let subjects = outcome.names.len();
    let groups: Vec<_> = outcome.rows.chunks(subjects).collect();
    let times = outcome.rows.iter().filter_map(|row| row.ns_per_op);
    let (low, high) =
        times.fold((f64::MAX, f64::MIN), |(low, high), ns| (low.min(ns), high.max(ns)));
    // A group of bars is one wide, with a gap of one bar.
    let bar = 1.0 / (subjects + 1) as f64;
    let width = 120 + BAR * (subjects as u32 + 1) * groups.len() as u32;
    let root = SVGBackend::new(path, (width.max(640), HEIGHT)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(format!("{}: ns per {}", outcome.name, outcome.op), ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(110)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..groups.len() as f64, (low / 1.5..high * 2.0).log_scale())?;
    let label = |at: &f64| {
        let Some(row) = groups.get(*at as usize).and_then(|group| group.first()) else {
            return String::new();
        };
        format!("{} ×{}", row.case, row.threads)
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(groups.len() + 1)
        .x_label_formatter(&label)
        .x_label_style(("sans-serif", 11).into_font().transform(FontTransform::Rotate90))
        .draw()?;
    for (subject, name) in outcome.names.iter().enumerate() {
        let colour = Palette99::pick(subject).to_rgba();
        let rectangles = groups.iter().enumerate().filter_map(|(at, group)| {
            let left = at as f64 + bar * (subject as f64 + 0.5);
            let corners = [(left, low / 1.5), (left + bar, group[subject].ns_per_op?)];
            Some(Rectangle::new(corners, colour.filled()))
        });
        chart
            .draw_series(rectangles)?
            .label(name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 10, y + 5)], colour.filled()));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .label_font(("sans-serif", 11))
        .draw()?;
    root.present()?;
    Ok(())
}

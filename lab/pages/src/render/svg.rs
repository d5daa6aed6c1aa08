//! Figures as SVG, in files or in the page. `docs/decisions/0012` says why we use no library.
//! `assets/figure.css` defines the CSS classes.

use std::fmt;

use super::{
    style::{SeriesStyle, SeriesStyles},
    text::{escaped, fitted},
};
use crate::model::{Chart, Figure};

mod bars;
mod curves;
mod forest;
mod frame;
mod matrix;
mod timeline;

/// Style of SVG files; `report.css` has the same rules for the page.
const STYLE: &str = include_str!("../../assets/figure.css");

const TEXT_SIZE: f64 = 12.0;
const TITLE_SIZE: f64 = 15.0;
const BOLD_WIDTH_FACTOR: f64 = 1.08;

/// A file, or the page in a wide or narrow window. A timeline has no narrow drawing.
#[derive(PartialEq)]
pub enum Surface {
    File,
    Wide,
    Narrow,
}

/// Valid XML for any text.
pub fn draw(figure: &Figure, styles: &SeriesStyles, surface: Surface) -> String {
    let width = match surface {
        Surface::File | Surface::Wide => 800.0,
        Surface::Narrow => 400.0,
    };
    let mut sheet = Sheet {
        body: String::new(),
        width,
        next_y: 0.0,
    };
    if surface == Surface::File {
        sheet.add(format_args!(
            r#"<text class="h" x="8" y="24">{}</text>"#,
            escaped(&fitted(
                &figure.title,
                (width - 16.0) / TITLE_SIZE / BOLD_WIDTH_FACTOR
            ))
        ));
        sheet.next_y = 34.0;
    }
    match &figure.chart {
        Chart::Timeline(chart) => timeline::draw(&mut sheet, chart, styles),
        Chart::Histogram(chart) => bars::draw_histogram(&mut sheet, chart, styles),
        Chart::Bars(chart) => bars::draw(&mut sheet, chart, styles),
        Chart::Curves(chart) => curves::draw(&mut sheet, chart, styles),
        Chart::Forest(chart) => forest::draw(&mut sheet, chart),
        Chart::Matrix(chart) => matrix::draw(&mut sheet, chart),
    }
    sheet.finish(&figure.title, surface)
}

/// A drawing in progress.
pub(super) struct Sheet {
    body: String,
    pub width: f64,
    /// Below all elements so far.
    pub next_y: f64,
}

impl Sheet {
    pub fn add(&mut self, element: fmt::Arguments<'_>) {
        self.body += &format!("{element}\n");
    }

    /// `anchor` is `start`, `middle` or `end`. The font size is 12 px.
    pub fn text(&mut self, class: &str, anchor: &str, (x, y): (f64, f64), text: &str) {
        let ([x, y], text) = ([x, y].map(Coordinate), escaped(text));
        self.add(format_args!(
            r#"<text class="{class}" x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>"#
        ));
    }

    pub fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(Coordinate);
        self.add(format_args!(
            r#"<line class="{class}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>"#
        ));
    }

    pub fn rect(
        &mut self,
        class: &str,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        title: &str,
    ) {
        let [x, y, width, height] = [x, y, width, height].map(Coordinate);
        let title = escaped(title);
        self.add(format_args!(
            r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}"><title>{title}</title></rect>"#
        ));
    }

    pub fn circle(&mut self, class: &str, (x, y): (f64, f64), radius: f64, title: &str) {
        let ([x, y], title) = ([x, y].map(Coordinate), escaped(title));
        self.add(format_args!(
            r#"<circle class="{class}" cx="{x}" cy="{y}" r="{radius}"><title>{title}</title></circle>"#
        ));
    }

    /// `title` is the tooltip.
    pub fn diamond(&mut self, style: SeriesStyle, (x, y): (f64, f64), title: &str) {
        let (class, title) = (style.filled_class(), escaped(title));
        let [x, top] = [x, y - 6.0].map(Coordinate);
        self.add(format_args!(
            r#"<path class="{class} halo" d="M{x} {top}l6 6l-6 6l-6-6z"><title>{title}</title></path>"#
        ));
    }

    /// A line along a path. `data_attribute` is that of a styled series.
    pub fn stroke(&mut self, style: SeriesStyle, data_attribute: &str, path: &str, title: &str) {
        let (class, dashes, title) = (style.class(), style.dashes(), escaped(title));
        let thick = Coordinate(style.thickness());
        self.add(format_args!(
            r#"<path class="{class} l"{data_attribute} stroke-width="{thick}" stroke-dasharray="{dashes}" d="{path}"><title>{title}</title></path>"#
        ));
    }

    /// The area within a path, paler than its line.
    pub fn area(&mut self, style: SeriesStyle, path: &str) {
        let class = style.class();
        self.add(format_args!(r#"<path class="{class} area" d="{path}z"/>"#));
    }

    pub fn begin(&mut self, data_attribute: &str) {
        self.add(format_args!("<g{data_attribute}>"));
    }

    pub fn end(&mut self) {
        self.add(format_args!("</g>"));
    }

    fn finish(self, title: &str, surface: Surface) -> String {
        let [width, height] = [self.width, self.next_y.ceil()].map(Coordinate);
        let title = escaped(title);
        let body = self.body;
        let open = format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}""#
        );
        let class = match surface {
            Surface::File => {
                return format!(
                    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{open} role=\"img\"><title>{title}</title>\n<style>\n{STYLE}</style>\n\
                     <rect class=\"bg\" width=\"{width}\" height=\"{height}\"/>\n{body}</svg>\n"
                );
            }
            Surface::Wide => "wide",
            Surface::Narrow => "narrow",
        };
        format!("{open} class=\"{class}\" role=\"img\" aria-label=\"{title}\">\n{body}</svg>\n")
    }
}

/// Formats a number with at most two decimals, without trailing zeros.
pub struct Coordinate(pub f64);

impl fmt::Display for Coordinate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounded = format!("{:.2}", self.0);
        let short = rounded.trim_end_matches('0').trim_end_matches('.');
        f.write_str(if short == "-0" { "0" } else { short })
    }
}

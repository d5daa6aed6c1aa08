//! The exposition: the newest tick as text, in the dialect the scraper asks for.

mod negotiate;
mod text;

pub use negotiate::{Dialect, accepts_gzip, dialect};

use faultline_catalog::{Text, Tick};

/// Labels from the configuration that go on every `agave_` series if `constant_labels_everywhere` is set.
pub type ConstantLabels = Vec<(&'static str, Text)>;

/// The whole page.
pub fn page(tick: &Tick, dialect: Dialect, constant: &ConstantLabels) -> String {
    text::encode(tick, dialect, constant)
}

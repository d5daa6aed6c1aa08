//! Tables and figures of the lab: as data, and as HTML, Markdown, SVG, CSV and Parquet.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

pub mod cells;
pub mod effects;
pub mod export;
pub mod groups;
pub mod model;
pub mod render;

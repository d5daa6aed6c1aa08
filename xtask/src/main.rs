//! Checks and generators of the project. `cargo run -p xtask` lists them.

mod book;
mod dashboards;
mod generated;
mod members;
mod modules;
mod pages;
mod rules;
mod run;
mod sbom;
mod tidy;
mod words;

use itertools::Itertools;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

const USAGE: &str = "\
cargo run -p xtask -- COMMAND

  metrics-doc           write docs/METRICS.md from the catalog
  metrics-doc --check   fail if docs/METRICS.md differs from the catalog
  dashboards            normalize the files of grafana/dashboards, and list the errors in them
  dashboards --check    fail if a dashboard is not normalized, or has an error
  metricsql             write the rules for VictoriaMetrics from those for Prometheus
  tidy                  fail if the source tree breaks a rule, or a document does not match the source
  book MDBOOK           make a site of the documents in target/book with this mdBook, and check its links
  sbom PROGRAM TARGET   print what is linked into the program for this target (CycloneDX)
";

fn main() -> ExitCode {
    let arguments = std::env::args().skip(1).collect_vec();
    let arguments = arguments.iter().map(String::as_str).collect_vec();
    let root = root();
    let result = match arguments.as_slice() {
        ["metrics-doc"] => generated::write(&root, generated::metrics_page()),
        ["metrics-doc", "--check"] => {
            generated::check(&root, generated::metrics_page(), "metrics-doc")
        }
        ["dashboards"] => dashboards::write(&root),
        ["dashboards", "--check"] => dashboards::check(&root),
        ["metricsql"] => {
            generated::metricsql_rules(&root).and_then(|files| generated::write(&root, files))
        }
        ["tidy"] => tidy::check(&root),
        ["book", mdbook] => book::make(&root, mdbook, env!("CARGO_PKG_VERSION")),
        ["sbom", program, target] => sbom::print(&root, program, target),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(64);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map_or_else(PathBuf::new, Path::to_path_buf)
}

//! Writes what a node of Agave 4.5.0-alpha.4 answers, pushes and logs before, during and after the migration to
//! Alpenglow, with the release's own code.

// `lazy!` of `solana-ledger` and its `eager!` recurse.
#![recursion_limit = "2048"]

#[macro_use]
extern crate eager;
#[macro_use]
extern crate log;

mod answers;
mod banks;
mod clock;
mod cluster;
mod journal;
mod points;
mod release;
mod tree;

/// Instead of `solana-metrics`' macro, which pushes to a server.
macro_rules! datapoint_info {
    ($name:expr, $($fields:tt)+) => {
        $crate::points::submit(solana_metrics::create_datapoint!(@point $name, $($fields)+))
    };
}
use datapoint_info;
pub(crate) use release::{event, voting_service};

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let (Some(folder), None) = (args.next(), args.next()) else {
        eprintln!("usage: alpenglow-witness FOLDER");
        return ExitCode::from(64);
    };
    log::set_logger(&journal::Journal).expect("the first logger");
    log::set_max_level(log::LevelFilter::Info);
    match tree::write(Path::new(&folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", Path::new(&folder).display());
            ExitCode::FAILURE
        }
    }
}

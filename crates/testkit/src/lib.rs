//! What tests measure the product against, written without a line of the product but for what its stand-in answers.
//!
//! | to have | use |
//! | --- | --- |
//! | a real leader and a real follower on loopback | [`cluster::Cluster`] |
//! | the daemon under test, as its users run it | [`daemon::Daemon`] |
//! | a stand-in for a validator of which all is known beforehand | [`simulated::Truth`] |
//! | transactions that thrash the follower's program cache | [`load::Load`] |
//! | programs that are deployed and upgraded meanwhile | [`loader`] |
//! | somebody to push metrics to who remembers every byte | [`sink::Sink`] |
//! | a scrape parsed by other eyes | [`expose::parse_text`], [`expose::parse_openmetrics`] |
//! | a JSON-RPC node that answers as a test says, good or not | [`mock_node::MockNode`] |
//! | a node around a migration to Alpenglow, as a release writes it | [`alpenglow::Node`] |
//! | a real Prometheus that scrapes and answers queries | [`prometheus::Prometheus`] |
//! | a real browser that shows a page | [`browser::Browser`] |
//! | a host that is only a folder | [`host::FakeHost`] |
//! | the command lines that the documents show | [`documents::command_lines`] |
//! | a second opinion about a live process | [`proc`] |
//! | to wait for something without sleeping blindly | [`eventually::eventually`] |
//!
//! Everything blocks, and everything that is started ends when its handle is dropped, also when a test panics.
#![expect(
    clippy::disallowed_methods,
    reason = "the witness starts programs and reads clocks itself, so that it shares neither with what it checks"
)]

pub mod alertmanager;
pub mod alpenglow;
pub mod binaries;
pub mod browser;
pub mod cluster;
pub mod daemon;
pub mod documents;
mod error;
pub mod eventually;
pub mod expose;
pub mod host;
pub mod http;
pub mod load;
pub mod loader;
pub mod mock_node;
pub mod ports;
pub mod proc;
pub mod process;
pub mod program;
pub mod prometheus;
pub mod rpc;
mod server;
pub mod simulated;
pub mod sink;
pub mod transaction;
pub mod voter;

pub use error::Error;

/// What every fallible function of this crate returns.
pub type Result<T> = std::result::Result<T, Error>;

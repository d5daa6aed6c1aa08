//! Tools for tests: real and simulated validators, servers and parsers. They share no code with the product, except the
//! answers of its mock validator.
//!
//! | for | use |
//! | --- | --- |
//! | a real leader and a real follower on loopback | [`cluster::Cluster`] |
//! | the daemon under test, as its users run it | [`daemon::Daemon`] |
//! | a simulated validator whose behaviour is set beforehand | [`simulated::Truth`] |
//! | transactions that thrash the follower's program cache | [`load::Load`] |
//! | programs that are deployed and upgraded meanwhile | [`loader`] |
//! | a metrics server that stores every push | [`sink::Sink`] |
//! | a strict parser of scrapes | [`expose::parse_text`], [`expose::parse_openmetrics`] |
//! | a JSON-RPC node whose answers a test sets, valid or not | [`mock_node::MockNode`] |
//! | a node around a migration to Alpenglow, with a release's own answers | [`alpenglow::Node`] |
//! | a real Prometheus that scrapes and answers queries | [`prometheus::Prometheus`] |
//! | a real browser that shows a page | [`browser::Browser`] |
//! | a folder that looks like a host | [`host::FakeHost`] |
//! | the command lines in the documents | [`documents::command_lines`] |
//! | facts about a live process, read independently | [`proc`] |
//! | to wait until a condition holds | [`eventually::eventually`] |
//!
//! All calls block. Everything that is started ends when its handle is dropped, also when a test panics. Only the threads
//! of open connections and of [`alpenglow::Node::answer_at_ledger`] run on.
#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and read clocks themselves, so that they share neither with what they check"
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

/// Result of the fallible functions of this crate.
pub type Result<T> = std::result::Result<T, Error>;

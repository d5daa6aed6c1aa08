//! What an Agave validator says about itself, as types.
//!
//! Modules that parse what Agave writes or answers:
//!
//! | module | input |
//! | --- | --- |
//! | [`line`](mod@line) | the Influx line protocol that it pushes to `SOLANA_METRICS_CONFIG` |
//! | [`log`] | its log: the same datapoints, and progress messages |
//! | [`points`] | typed datapoints from pushes and from the log |
//! | [`rpc`] | JSON-RPC over HTTP: request bodies and answers |
//! | [`admin`] | JSON-RPC over the ledger's `admin.rpc` socket, read-only methods |
//!
//! Other modules:
//!
//! | module | content |
//! | --- | --- |
//! | [`identify`] | whether a process is a validator, from its name and arguments |
//! | [`arguments`] | folders and ports in its arguments |
//! | [`threads`] | the pool of a thread, from its name |
//! | [`version`] | releases, clients, and properties of a release |
//! | [`consensus`] | the consensus protocol, from results of the other modules |
//! | [`admission`] | the price of Alpenglow's admission ticket for an epoch |
//! | [`config`] | the variable `SOLANA_METRICS_CONFIG` |
//!
//! The crate turns text and bytes into types. It uses no file, socket or clock, and it does not
//! panic on any input.
//!
//! ```
//! use faultline_agave::line::{LineSplitter, Point};
//! use faultline_agave::points::KnownPoint;
//!
//! let mut splitter = LineSplitter::new();
//! let mut slots = Vec::new();
//! for chunk in ["bank_frozen,host_id=A slot=7i,ha", "sh=\"x\" 1700000000000000000\n"] {
//!     splitter.feed(chunk.as_bytes(), |line| {
//!         let point = Point::parse(line?)?;
//!         if let Some(Ok(KnownPoint::BankFrozen(bank))) = KnownPoint::parse(&point) {
//!             slots.extend(bank.slot);
//!         }
//!         Ok::<(), faultline_agave::BadLine>(())
//!     });
//! }
//! assert_eq!(slots, [7]);
//! ```

pub mod admin;
pub mod admission;
pub mod arguments;
pub mod config;
pub mod consensus;
mod error;
pub mod identify;
mod json;
pub mod line;
pub mod log;
pub mod points;
mod public_key;
pub mod rpc;
pub mod threads;
pub mod version;

pub use error::{BadLine, Error, Excerpt, Reason};
pub use public_key::{InvalidPublicKey, PublicKey};

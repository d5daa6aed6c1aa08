//! What an Agave validator says about itself, as types.
//!
//! Agave speaks through five mouths, and each has a module here:
//!
//! | module | what it reads |
//! | --- | --- |
//! | [`line`](mod@line) | the Influx line protocol it pushes to `SOLANA_METRICS_CONFIG` |
//! | [`log`] | the same datapoints, and progress messages, as its log prints them |
//! | [`points`] | the datapoints worth a type, from either of the two above |
//! | [`rpc`] | JSON-RPC over HTTP: request bodies and answers |
//! | [`admin`] | JSON-RPC over the ledger's `admin.rpc` socket, read-only methods |
//!
//! and four that know the validator from outside: [`identify`] (is this process one?), [`arguments`] (where are its
//! folders and ports?), [`threads`] (which pool does this thread belong to?) and [`version`] (what is true of this release?). [`consensus`] tells which protocol it runs, from all of these; [`admission`] what an epoch of Alpenglow costs. [`config`] reads the metrics variable.
//!
//! Everything here is text and bytes in, types out: no file, no socket, no clock. Everything read is input: nothing in
//! this crate panics on it.
//!
//! ```
//! use faultline_agave::line::{LineSplitter, Point};
//! use faultline_agave::points::Known;
//!
//! let mut splitter = LineSplitter::new();
//! let mut slots = Vec::new();
//! for chunk in ["bank_frozen,host_id=A slot=7i,ha", "sh=\"x\" 1700000000000000000\n"] {
//!     splitter.feed(chunk.as_bytes(), |line| {
//!         let point = Point::parse(line?)?;
//!         if let Some(Ok(decoded)) = Known::parse(&point) {
//!             if let Known::BankFrozen(bank) = decoded.known {
//!                 slots.extend(bank.slot);
//!             }
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

//! A stand-in for a validator of which everything is known beforehand: how much memory it needs, what its program cache
//! costs, whether it keeps up. What an experiment concludes of it is compared with its [`Truth`].
//!
//! It takes a validator's arguments, holds the ledger's lock, answers on the admin socket and over JSON-RPC, pushes what a
//! 2.1.14 pushes (with `alpenglow`: a 4.4.0), really allocates memory and really reads a file. Slots come from a clock that all instances share, and
//! what is in a slot and what it costs is a function of its number: two instances at the same time see the same. Nothing is
//! validated.

mod cgroup;
pub mod chain;
mod life;
mod memory;
mod points;
mod push;
mod replay;
mod rpc;
mod state;
mod truth;
mod working_set;

pub use faultline_mock_validator::PROGRAM_NAME;
pub use life::{Arguments, run};
pub use truth::Truth;

/// The variable that sets the capacity of the program cache, as `scripts/install-agave` builds validators.
pub const CACHE_VARIABLE: &str = "AGAVE_PROGRAM_CACHE_ENTRIES";
/// The variable with [`Truth`] in one line, `key=value` separated by commas: over that of a file.
pub const TRUTH_VARIABLE: &str = "FAULTLINE_TRUTH";
/// The program cache's capacity of 2.1.14.
pub const STOCK_CAPACITY: u64 = 512;
/// The program cache's capacity of 4.4.0.
const ALPENGLOW_CAPACITY: u64 = 1024;

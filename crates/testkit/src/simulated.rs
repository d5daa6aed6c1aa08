//! A simulated validator whose behaviour is set beforehand: how much memory it needs, what its program cache costs,
//! whether it keeps up. Tests compare the conclusions of an experiment with its [`Truth`].
//!
//! It takes a validator's arguments, locks the ledger, answers on the admin socket and over JSON-RPC, and pushes the
//! datapoints of release 2.1.14 (with `alpenglow`: 4.4.0). It allocates real memory and reads a real file, but validates
//! nothing. The clock gives the slot, and the slot's number its contents and cost: all instances see the same slots.

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

/// The variable that sets the capacity of the program cache, as in the builds of `scripts/install-agave`.
pub const CACHE_VARIABLE: &str = "AGAVE_PROGRAM_CACHE_ENTRIES";
/// The variable with a [`Truth`] in one line, `key=value` separated by commas. It overrides the file's values.
pub const TRUTH_VARIABLE: &str = "FAULTLINE_TRUTH";
/// The program cache's capacity of 2.1.14.
pub const STOCK_CAPACITY: u64 = 512;
/// The program cache's capacity of 4.4.0.
const ALPENGLOW_CAPACITY: u64 = 1024;

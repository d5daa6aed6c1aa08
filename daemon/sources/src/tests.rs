//! Helpers of the tests of several sources.

use crate::discovery::Target;
use faultline_agave::{
    PublicKey,
    identify::{DEFAULT_HEALTH_DISTANCE, Program, Validator},
};
use faultline_kernel::{HostConstants, ProcessId};

/// A valid address. The name has no letter that base58 lacks.
pub fn key(name: &str) -> PublicKey {
    format!("Demo{name:1>40}").parse().unwrap()
}

/// Those of an x86-64 machine.
pub fn host_constants() -> HostConstants {
    HostConstants {
        page_size: 4096,
        clock_ticks_per_second: 100,
        kernel_release: String::new(),
    }
}

/// A validator without a ledger.
pub fn target(process: ProcessId, rpc_port: Option<u16>) -> Target {
    Target {
        process,
        comm: "agave-validator".to_owned(),
        exe: None,
        validator: Some(Validator {
            program: Program::AgaveValidator,
            ledger: None,
            identity: None,
            rpc_port,
            rpc_host: None,
            vote_account: None,
            log: None,
            poh_cpu: None,
            health_distance: DEFAULT_HEALTH_DISTANCE,
        }),
        ledger: None,
        found_by: "scan",
    }
}

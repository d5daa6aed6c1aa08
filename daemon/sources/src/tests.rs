//! What the tests of several sources share.

use faultline_agave::PublicKey;

/// A valid address. The name has no letter that base58 lacks.
pub fn key(name: &str) -> PublicKey {
    format!("Demo{name:1>40}").parse().unwrap()
}

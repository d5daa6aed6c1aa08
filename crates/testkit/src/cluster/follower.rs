//! Command lines, ports and identities of followers that other programs start.

use std::path::{Path, PathBuf};

/// Maximum followers of one cluster at the same time.
pub const MAX_FOLLOWERS: usize = 2;

/// The command of a follower, without its [`FollowerAddress`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Follower {
    /// `agave-validator`.
    pub program: PathBuf,
    /// Its arguments without those of the [`FollowerAddress`].
    pub arguments: Vec<String>,
    /// Its environment, without metrics and without a size of the program cache.
    pub environment: Vec<(String, String)>,
    /// The leader's gossip address, `host:port`: for `--entrypoint`.
    pub entrypoint: String,
}

/// Ports and an identity for one follower.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowerAddress {
    /// A keypair file.
    pub identity: PathBuf,
    /// `--rpc-port`; the one above is taken too.
    pub rpc_port: u16,
    /// `--gossip-port`.
    pub gossip_port: u16,
    /// `--dynamic-port-range`, first and last.
    pub port_range: (u16, u16),
}

impl Follower {
    /// The whole command line of a follower at this address.
    #[must_use]
    pub fn command(&self, address: &FollowerAddress, ledger: &Path) -> Vec<String> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let (first, last) = address.port_range;
        let mut command = vec![text(&self.program)];
        command.extend(self.arguments.iter().cloned());
        let mut set = |name: &str, value: String| command.extend([format!("--{name}"), value]);
        set("entrypoint", self.entrypoint.clone());
        set("ledger", text(ledger));
        set("identity", text(&address.identity));
        set("rpc-port", address.rpc_port.to_string());
        set("gossip-port", address.gossip_port.to_string());
        set("dynamic-port-range", format!("{first}-{last}"));
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_followers_command_combines_shared_and_own_arguments() {
        let follower = Follower {
            program: "/opt/agave-validator".into(),
            arguments: vec!["--no-voting".to_owned()],
            environment: Vec::new(),
            entrypoint: "127.0.0.1:7001".to_owned(),
        };
        let address = FollowerAddress {
            identity: "/n/id.json".into(),
            rpc_port: 8899,
            gossip_port: 8001,
            port_range: (8002, 8040),
        };
        assert_eq!(
            follower.command(&address, Path::new("/n/ledger")).join(" "),
            "/opt/agave-validator --no-voting --entrypoint 127.0.0.1:7001 --ledger /n/ledger --identity /n/id.json \
             --rpc-port 8899 --gossip-port 8001 --dynamic-port-range 8002-8040"
        );
    }
}

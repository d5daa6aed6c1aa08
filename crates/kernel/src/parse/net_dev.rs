//! `/proc/PID/net/dev`: the interfaces of a network namespace.

use procfs::FromRead;
use procfs::net::InterfaceDeviceStatus;

use crate::ParseError;

/// What one interface has carried since it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceTraffic {
    /// Such as `eth0`.
    pub name: String,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Received packets that were dropped.
    pub received_drops: u64,
    /// Packets to be sent that were dropped.
    pub sent_drops: u64,
}

/// By name.
///
/// # Errors
/// A line after the two of the heading that is no interface.
pub fn parse(text: &[u8]) -> Result<Vec<InterfaceTraffic>, ParseError> {
    let InterfaceDeviceStatus(found) = InterfaceDeviceStatus::from_read(text)
        .map_err(|_| ParseError::new(3, text, "expected network interfaces"))?;
    let mut list: Vec<InterfaceTraffic> = found
        .into_values()
        .map(|one| InterfaceTraffic {
            name: one.name,
            received_bytes: one.recv_bytes,
            sent_bytes: one.sent_bytes,
            received_drops: one.recv_drop,
            sent_drops: one.sent_drop,
        })
        .collect();
    list.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_interfaces_are_read() {
        let list = parse(include_bytes!("../../tests/text/linux-6.18/net_dev")).unwrap();
        let names: Vec<&str> = list.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["eth0", "ifb0", "ifb1", "lo"]);
        assert_eq!(
            (list[0].received_bytes, list[0].sent_bytes),
            (10_847_279_109, 24_978_252)
        );
    }

    #[test]
    fn a_line_that_is_cut_is_an_error() {
        assert!(parse(b"a\nb\n  eth0: 1 2 3\n").is_err());
    }
}
